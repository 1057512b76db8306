"""Compare all methods on one table at the same cardinality and by the same measures."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from gpower import baselines
from gpower._utils.arrays import Array, Seed
from gpower._utils.frames import Frame, make_frame
from gpower._utils.messages import format_param
from gpower._utils.warnings import InputFormatWarning, ScaleWarning
from gpower.baselines.base import Baseline
from gpower.estimators.fit_summary import NamedValues
from gpower.estimators.gpower import GPower
from gpower.operators import Operator
from gpower.operators.explained_variance import Scores
from gpower.plotting import plot_comparison
from gpower.plotting.style import AxesLike, Panel
from gpower.solvers.joint.constraints import CONSTRAINTS
from gpower.validation.params import IntPerComponent, check_option
from gpower.validation.prepare import read_estimator_input

__all__ = ["METHODS", "Comparison", "ComparisonEntry", "compare"]

ComparedModel = GPower | Baseline
#: Class and parameters of each method name of `compare`; all classes take `n_components` and `cardinality`.
METHODS: dict[str, tuple[type[ComparedModel], NamedValues]] = {
    "gpower-l0": (GPower, {}),
    "gpower-l1": (GPower, {"penalty": "l1"}),
    "gpower-block-l0": (GPower, {"method": "block"}),
    "gpower-block-l1": (GPower, {"method": "block", "penalty": "l1"}),
    "greedy": (baselines.Greedy, {}),
    "greedy-approximate": (baselines.Greedy, {"search": "approximate"}),
    "rsvd-l0": (baselines.RankOneSVD, {"penalty": "l0"}),
    "rsvd-l1": (baselines.RankOneSVD, {"penalty": "l1"}),
    "spca": (baselines.SPCA, {}),
    "spca-thresholding": (baselines.SPCA, {"ridge": np.inf}),
    "scotlass": (baselines.SCoTLASS, {}),
    "dspca": (baselines.DSPCA, {"tol": 1e-3}),
    "mspca": (baselines.MSPCA, {}),
    "varimax": (baselines.RotatedPCA, {}),
    "thresholding": (baselines.Thresholding, {}),
    "scikit-learn": (baselines.ScikitLearnSparsePCA, {}),
}
#: Methods that a comparison of all methods skips if the table has more entries than this: with 115 × 12,793 entries and
#: three components of 20 variables they take 17 and over 100 seconds of processor time, all others together 6.
SLOW_METHODS, MAX_ENTRIES_OF_SLOW_METHODS = ("mspca", "scikit-learn"), 500_000
#: Methods with a parameter `constraint`.
CONSTRAINT_KEEPING_METHODS = ("gpower-l0", "gpower-block-l0", "mspca")
#: Function that returns the violation of each constraint by each pair of components of a model, (m, m).
CONSTRAINT_VIOLATIONS: dict[str, Callable[[ComparedModel], Array]] = {
    "orthogonal": lambda model: np.abs(model.loading_correlation_),
    "uncorrelated": lambda model: np.abs(model.score_correlation_),
    "disjoint": lambda model: model.overlap_,
}


@dataclass(frozen=True, eq=False)
class ComparisonEntry:
    """Result of one method in a comparison.

    Attributes
    ----------
    method : str
    variance : float
        Sum of the unadjusted variances of the components, as a share of the variance of the data.
    adjusted_variance : float
        Sum of the variances not shared with higher-variance components, as a share of the variance of the data.
    share_of_pca : float
        Adjusted variance divided by that of as many PCA components.
    violation : float
        Violation of the constraint of the comparison, summed over pairs of components: |cosines| of loadings,
        |correlations| of scores, or the number of common variables. NaN without a constraint.
    cardinality : tuple of int
        Number of variables of each component.
    seconds : float
        Time of the fit, including the calibration of a penalty.
    passes : float
        Number of passes over the matrix; NaN if they are not counted.
    note : str
        Warnings of the method, or the reason why it did not run; then `model` is None and all numbers are NaN.
    model : estimator or None
        Fitted model.

    Examples
    --------
    >>> from gpower import compare
    >>> from gpower.datasets import load_pitprops
    >>> S = load_pitprops().correlation
    >>> found = compare(S, n_components=1, cardinality=5, methods=["gpower-l0", "greedy"], covariance="precomputed")
    >>> [(entry.method, round(entry.variance, 3), entry.cardinality) for entry in found]
    [('pca', 0.325, (13,)), ('gpower-l0', 0.262, (5,)), ('greedy', 0.262, (5,))]
    """

    method: str
    variance: float = np.nan
    adjusted_variance: float = np.nan
    share_of_pca: float = np.nan
    violation: float = np.nan
    cardinality: tuple[int, ...] = ()
    seconds: float = np.nan
    passes: float = np.nan
    note: str = ""
    model: ComparedModel | None = None

    def to_record(self) -> NamedValues:
        """Return the fields except `model` by name, as a row of a table."""
        record = {field.name: vars(self)[field.name] for field in fields(self) if field.name != "model"}
        return record | {"cardinality": "-".join(map(str, self.cardinality))}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of a comparison, PCA first; iterate over it, or index it by the name of a method.

    Attributes
    ----------
    entries : tuple of ComparisonEntry

    Examples
    --------
    >>> from gpower import compare
    >>> from gpower.datasets import load_pitprops
    >>> table = compare(load_pitprops().correlation, n_components=1, cardinality=4, covariance="precomputed",
    ...                 methods=["gpower-l0", "thresholding", "scikit-learn"])
    >>> [entry.method for entry in table]
    ['pca', 'gpower-l0', 'thresholding', 'scikit-learn']
    >>> table["gpower-l0"].adjusted_variance > table["thresholding"].adjusted_variance
    True
    >>> table["scikit-learn"].note
    "scikit-learn's SparsePCA needs the samples; it takes no precomputed covariance."
    """

    entries: tuple[ComparisonEntry, ...]

    def __repr__(self) -> str:
        shares = (f"{entry.method} {100 * entry.adjusted_variance:.1f} %" for entry in self.entries if entry.model)
        return f"<Comparison: {', '.join(shares)} of the variance>"

    def __iter__(self) -> Iterator[ComparisonEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, method: str) -> ComparisonEntry:
        for entry in self.entries:
            if entry.method == method:
                return entry
        methods = ", ".join(entry.method for entry in self.entries)
        raise KeyError(f"{method!r} was not compared; the methods are {methods}.")

    def to_frame(self) -> Frame:
        """Return a pandas frame with one row per method."""
        return make_frame(self.columns()).set_index("method")

    def columns(self) -> dict[str, list[object]]:
        """Return the columns of `to_frame` without pandas."""
        records = [entry.to_record() for entry in self.entries]
        return {name: [record[name] for record in records] for name in records[0]}

    def plot(self, axes: AxesLike = None) -> Panel:
        """Plot the comparison; see `gpower.plotting.plot_comparison`."""
        return plot_comparison(self, axes)


def compare(
    X: object,
    *,
    n_components: int = 2,
    cardinality: IntPerComponent,
    methods: Sequence[str] | None = None,
    constraint: str | None = None,
    refit: bool = False,
    covariance: str | None = None,
    center: bool = True,
    scale: bool = False,
    random_state: Seed = None,
    callback: Callable[[str], object] | None = None,
) -> Comparison:
    """Fit all methods to X with the same cardinality, and evaluate them by the same measures.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data, or a covariance with ``covariance="precomputed"``.
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int
        Number of variables of every component, or one number for each; penalties are calibrated to it.
    methods : sequence of str, optional
        Some of "gpower-l0", "gpower-l1", "gpower-block-l0", "gpower-block-l1", "greedy", "greedy-approximate",
        "rsvd-l0", "rsvd-l1", "spca", "spca-thresholding", "scotlass", "dspca", "mspca", "varimax", "thresholding" and
        "scikit-learn"; by default all of them or, if X has more than 500,000 entries, all but the two slowest, MSPCA
        and scikit-learn's SparsePCA.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        Constraint between components. `GPower` with ``penalty="l0"`` and `MSPCA` satisfy it; its violation is reported
        for all methods.
    refit : bool, default=False
        Recompute the loadings of every other method on their support to maximise variance, as GPower does by default.
    covariance, center, scale, random_state
        As in `GPower`.
    callback : callable, optional
        Called with the name of each method before it runs.

    Returns
    -------
    Comparison
        PCA, the reference, and the methods in the given order. If a method cannot run on X, its `note` says why.

    Examples
    --------
    >>> from gpower import compare
    >>> from gpower.datasets import load_planted_expression
    >>> X = load_planted_expression().X
    >>> table = compare(X, n_components=3, cardinality=(8, 6, 5), methods=["gpower-l0", "spca", "greedy"])
    >>> table["gpower-l0"].cardinality
    (8, 6, 5)
    """
    names = _resolve_method_names(methods)
    data_params: NamedValues = {"covariance": covariance, "center": center, "scale": scale}
    template = baselines.Thresholding(n_components, cardinality=cardinality, **data_params)
    check_option(constraint, "constraint", (None, *CONSTRAINTS))
    table = read_estimator_input(template, X)
    template.build_fit_spec(table.shape)  # raise invalid parameters once, not in every entry
    pca = _fit_method("pca", baselines.Thresholding(n_components, cardinality=table.shape[1], **data_params), X)
    if pca.model is None:
        raise ValueError(pca.note)
    operator = table.prepare(reduce=False).operator
    entries = [_measure_entry(pca, operator, None, constraint)]
    for name in names:
        if methods is None and name in SLOW_METHODS and math.prod(table.shape) > MAX_ENTRIES_OF_SLOW_METHODS:
            note = f"it is slow on a large table; name it in {format_param('methods')} to run it."
            entries.append(ComparisonEntry(name, note=note))
            continue
        if callback is not None:
            callback(name)
        model_class, method_params = METHODS[name]
        options: NamedValues = {} if model_class is GPower else {"refit": refit}  # GPower has its own refit
        if "random_state" in model_class().get_params():
            options["random_state"] = random_state
        if constraint is not None and name in CONSTRAINT_KEEPING_METHODS:
            options["constraint"] = constraint
        model = model_class(n_components, cardinality=cardinality, **method_params, **data_params, **options)
        entry = _fit_method(name, model, X, ignored=(ScaleWarning,) if len(entries) > 1 else ())
        entries.append(_measure_entry(entry, operator, entries[0].adjusted_variance, constraint))
    return Comparison(tuple(entries))


def _resolve_method_names(methods: Sequence[str] | None) -> list[str]:
    """Return the names of the methods to compare, all of them for None; raise ValueError for one not in `METHODS`."""
    if isinstance(methods, str):
        raise ValueError(f"methods={methods!r} is one string; give a list of names, such as [{methods!r}].")
    return list(METHODS) if methods is None else [check_option(name, "methods", tuple(METHODS)) for name in methods]


def _fit_method(name: str, model: ComparedModel, X: object, ignored: tuple[type[Warning], ...] = ()) -> ComparisonEntry:
    """Fit a method to the user's X; its warnings, or the ValueError that it raises, become the note of the entry.

    Warnings of the `ignored` categories are left out, as an earlier entry has them.
    The entry has the fitted model, or None after an error, the seconds and the note; `_measure_entry` adds the rest.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(X)
        except ValueError as error:
            return ComparisonEntry(name, note=" ".join(str(error).split()))
        seconds = time.perf_counter() - start
    # Warnings about the data were issued once, before the fits.
    own = (each.message for each in caught if not issubclass(each.category, (InputFormatWarning, *ignored)))
    note = " ".join(dict.fromkeys(" ".join(str(message).split()) for message in own))
    return ComparisonEntry(name, seconds=seconds, note=note, model=model)


def _measure_entry(
    entry: ComparisonEntry, operator: Operator, pca_variance: float | None, constraint: str | None
) -> ComparisonEntry:
    """Return the entry with its variances, violation, cardinalities and passes; unchanged if it has no model.

    The operator is the prepared X, not deflated, in host memory. `pca_variance` is the adjusted variance of PCA as a
    share of the variance of the data, None for PCA itself.
    """
    model = entry.model
    if model is None:
        return entry
    total = operator.total_variance
    scores = Scores.from_loadings(operator, model.components_.T)
    adjusted = _divide_or_zero(float(scores.compute_adjusted_variances().sum()), total)
    return replace(
        entry,
        variance=_divide_or_zero(float(scores.variances.sum()), total),
        adjusted_variance=adjusted,
        share_of_pca=_divide_or_zero(adjusted, adjusted if pca_variance is None else pca_variance),
        violation=np.nan if constraint is None else float(np.triu(CONSTRAINT_VIOLATIONS[constraint](model), 1).sum()),
        cardinality=tuple(int(k) for k in model.cardinality_),
        passes=np.nan if isinstance(model, baselines.ScikitLearnSparsePCA) else float(model.n_passes_),
    )


def _divide_or_zero(numerator: float, denominator: float) -> float:
    """Return the quotient of two variances; zero if the data have no variance."""
    return numerator / denominator if denominator > 0 else 0.0
