"""All methods on one table at the same number of variables, measured by one ruler."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from gpower import baselines
from gpower._utils.arrays import Array, Seed
from gpower._utils.frames import Frame, make_frame
from gpower._utils.warnings import InputFormatWarning
from gpower.baselines.base import Baseline
from gpower.estimators.base import NamedValues
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
#: What each name of `compare` fits; all take `n_components` and `cardinality`.
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
#: Those that keep a constraint.
CONSTRAINT_KEEPING_METHODS = ("gpower-l0", "gpower-block-l0", "mspca")
#: How far two components of a model are from each constraint, (m, m).
CONSTRAINT_VIOLATIONS: dict[str, Callable[[ComparedModel], Array]] = {
    "orthogonal": lambda model: np.abs(model.loading_correlation_),
    "uncorrelated": lambda model: np.abs(model.score_correlation_),
    "disjoint": lambda model: model.overlap_,
}


@dataclass(frozen=True, eq=False)
class ComparisonEntry:
    """One method of a comparison.

    Attributes
    ----------
    method : str
    variance : float
        Sum of the variances of the components, each on its own, as a share of the variance of the data.
    adjusted_variance : float
        The same with each component counted only as far as it is uncorrelated with those of larger variance.
    share_of_pca : float
        Adjusted variance over that of as many ordinary principal components.
    violation : float
        How far the components are from the constraint of the comparison, summed over pairs: |cosines| of loadings,
        |correlations| of scores, or common variables. NaN without a constraint.
    cardinality : tuple of int
        Number of variables of each component.
    seconds : float
        Time of the fit, the search for a penalty included.
    passes : float
        Reads of the matrix; NaN where they are not counted.
    note : str
        What the method warned of; or why it did not run, and then there is no `model` and all figures are NaN.
    model : estimator or None
        Fitted.

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
        """The figures by name, as a row of a table."""
        figures = {field.name: vars(self)[field.name] for field in fields(self) if field.name != "model"}
        return figures | {"cardinality": "-".join(map(str, self.cardinality))}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The methods of a comparison, PCA first; iterate over it, or ask for one by name.

    Attributes
    ----------
    entries : tuple of Entry

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
        known = ", ".join(entry.method for entry in self.entries)
        raise KeyError(f"{method!r} was not compared; there are {known}.")

    def to_frame(self) -> Frame:
        """The figures as a pandas frame, one row per method."""
        return make_frame(self.columns()).set_index("method")

    def columns(self) -> dict[str, list[object]]:
        """The columns of `to_frame`, without pandas."""
        records = [entry.to_record() for entry in self.entries]
        return {name: [record[name] for record in records] for name in records[0]}

    def plot(self, axes: AxesLike = None) -> Panel:
        """Draw the comparison; see `gpower.plotting.plot_comparison`."""
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
    """Fit all methods to X with the same number of variables, and measure them alike.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data, or a covariance with ``covariance="precomputed"``.
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int
        Number of variables, of all components or one number each; penalties are calibrated to it.
    methods : sequence of str, optional
        Some of "gpower-l0", "gpower-l1", "gpower-block-l0", "gpower-block-l1", "greedy", "greedy-approximate",
        "rsvd-l0", "rsvd-l1", "spca", "spca-thresholding", "scotlass", "dspca", "mspca", "varimax", "thresholding" and
        "scikit-learn"; by default all of them.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        What components owe each other. `GPower` with ``penalty="l0"`` and `MSPCA` keep it; of all methods it is told
        how far they violate it.
    refit : bool, default=False
        Also choose the loadings of each competitor's pattern anew, for the most variance; GPower does so anyway.
    covariance, center, scale, random_state
        As in `GPower`.
    callback : callable, optional
        Called with the name of each method before it runs.

    Returns
    -------
    Comparison
        PCA, the reference, and the methods in the order asked for. One that cannot run on X says why in its `note`.

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
    reading: NamedValues = {"covariance": covariance, "center": center, "scale": scale}
    asked = baselines.Thresholding(n_components, cardinality=cardinality, **reading)
    check_option(constraint, "constraint", (None, *CONSTRAINTS))
    table = read_estimator_input(asked, X)
    asked.build_fit_spec(table.shape)  # refuse once, not in every row
    pca = _fit_method("pca", baselines.Thresholding(n_components, cardinality=table.shape[1], **reading), X)
    if pca.model is None:
        raise ValueError(pca.note)
    operator = table.prepare(reduce=False).operator
    entries = [_measure_entry(pca, operator, None, constraint)]
    for name in names:
        if callback is not None:
            callback(name)
        kind, own = METHODS[name]
        further: NamedValues = {} if kind is GPower else {"refit": refit}  # which means something else there
        if "random_state" in kind().get_params():
            further["random_state"] = random_state
        if constraint is not None and name in CONSTRAINT_KEEPING_METHODS:
            further["constraint"] = constraint
        model = kind(n_components, cardinality=cardinality, **own, **reading, **further)
        entries.append(_measure_entry(_fit_method(name, model, X), operator, entries[0].adjusted_variance, constraint))
    return Comparison(tuple(entries))


def _resolve_method_names(methods: Sequence[str] | None) -> list[str]:
    """The methods asked for, all of them by default."""
    if isinstance(methods, str):
        raise ValueError(f"methods={methods!r} is one string; give a list of names, such as [{methods!r}].")
    return list(METHODS) if methods is None else [check_option(name, "methods", tuple(METHODS)) for name in methods]


def _fit_method(name: str, model: ComparedModel, X: object) -> ComparisonEntry:
    """A method fitted; what it warns of, or why it refuses, becomes a note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(X)
        except ValueError as error:
            return ComparisonEntry(name, note=" ".join(str(error).split()))
        seconds = time.perf_counter() - start
    told = (" ".join(str(each.message).split()) for each in caught if not issubclass(each.category, InputFormatWarning))
    note = " ".join(dict.fromkeys(told))  # doubts about the data were told once, before
    return ComparisonEntry(name, seconds=seconds, note=note, model=model)


def _measure_entry(
    entry: ComparisonEntry, operator: Operator, pca_variance: float | None, constraint: str | None
) -> ComparisonEntry:
    """The entry with its variances and violation, all by the same definition; `pca` None for PCA itself."""
    model, total = entry.model, operator.total_variance
    if model is None:
        return entry
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
    return numerator / denominator if denominator > 0 else 0.0
