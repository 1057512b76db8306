"""All methods on one table at the same number of variables, measured by one ruler."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpower.baselines import (
    DSPCA,
    SPCA,
    Greedy,
    RankOneSVD,
    RotatedPCA,
    ScikitLearnSparsePCA,
    SCoTLASS,
    Thresholding,
)
from gpower.estimators import GPower
from gpower.fitted import SparsePCAEstimator
from gpower.frames import frame
from gpower.metrics import adjusted_variances, score_gram
from gpower.operators import Operator
from gpower.parameters import one_of
from gpower.preparation import read

__all__ = ["METHODS", "Comparison", "Entry", "compare"]

#: What each name of `compare` fits; all take `n_components` and `cardinality`.
METHODS: dict[str, tuple[type[SparsePCAEstimator], dict[str, Any]]] = {
    "gpower-l0": (GPower, {}),
    "gpower-l1": (GPower, {"penalty": "l1"}),
    "gpower-block-l0": (GPower, {"method": "block"}),
    "gpower-block-l1": (GPower, {"method": "block", "penalty": "l1"}),
    "greedy": (Greedy, {}),
    "greedy-approximate": (Greedy, {"search": "approximate"}),
    "rsvd-l0": (RankOneSVD, {"penalty": "l0"}),
    "rsvd-l1": (RankOneSVD, {"penalty": "l1"}),
    "spca": (SPCA, {}),
    "spca-thresholding": (SPCA, {"ridge": np.inf}),
    "scotlass": (SCoTLASS, {}),
    "dspca": (DSPCA, {"tol": 1e-3}),
    "varimax": (RotatedPCA, {}),
    "thresholding": (Thresholding, {}),
    "scikit-learn": (ScikitLearnSparsePCA, {}),
}
REFERENCE = "pca"


@dataclass(frozen=True, eq=False)
class Entry:
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
    """

    method: str
    variance: float = np.nan
    adjusted_variance: float = np.nan
    share_of_pca: float = np.nan
    cardinality: tuple[int, ...] = ()
    seconds: float = np.nan
    passes: float = np.nan
    note: str = ""
    model: Any = None

    def record(self) -> dict[str, Any]:
        """The figures by name, as a row of a table."""
        return {
            "method": self.method,
            "variance": self.variance,
            "adjusted_variance": self.adjusted_variance,
            "share_of_pca": self.share_of_pca,
            "cardinality": "-".join(map(str, self.cardinality)),
            "seconds": self.seconds,
            "passes": self.passes,
            "note": self.note,
        }


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

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, method: str) -> Entry:
        for entry in self.entries:
            if entry.method == method:
                return entry
        known = ", ".join(entry.method for entry in self.entries)
        raise KeyError(f"{method!r} was not compared; there are {known}.")

    def to_frame(self) -> Any:
        """The figures as a pandas frame, one row per method."""
        return frame(self.columns()).set_index("method")

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `to_frame`, without pandas."""
        records = [entry.record() for entry in self.entries]
        return {name: [record[name] for record in records] for name in records[0]}

    def plot(self, axes: Any = None) -> Any:
        """Draw the comparison; see `gpower.plotting.plot_comparison`."""
        from importlib import import_module  # a door above this floor: it opens when it is used

        return import_module("gpower.plotting").plot_comparison(self, axes)


def compare(
    X: Any,
    *,
    n_components: int = 2,
    cardinality: Any,
    methods: Sequence[str] | None = None,
    refit: bool = False,
    covariance: str | None = None,
    center: bool = True,
    scale: bool = False,
    random_state: Any = None,
    callback: Callable[[str], Any] | None = None,
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
        Some of the names in `gpower.comparison.METHODS`; by default all of them.
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
    names = _names(methods)
    shared: dict[str, Any] = {"covariance": covariance, "center": center, "scale": scale}
    asked = Thresholding(n_components, cardinality=cardinality, **shared)
    table = read(asked, X)
    asked.recipe(table.shape)  # refuse once, not in every row
    pca = Thresholding(n_components, cardinality=table.shape[1], **shared)
    reference = _timed(REFERENCE, pca, X, None)
    if reference.model is None:
        raise ValueError(reference.note)
    operator = table.prepared(reduce=False).operator
    entries = [_measured(reference, operator, np.nan)]
    best = entries[0].adjusted_variance
    for name in names:
        kind, own = METHODS[name]
        options = own | shared | {"n_components": n_components, "cardinality": cardinality}
        if kind is not GPower:
            options["refit"] = refit
        if "random_state" in kind().get_params():
            options["random_state"] = random_state
        entries.append(_measured(_timed(name, kind(**options), X, callback), operator, best))
    return Comparison(tuple(entries))


def _names(methods: Sequence[str] | None) -> list[str]:
    """The methods asked for, all of them by default."""
    if isinstance(methods, str):
        raise ValueError(f"methods={methods!r} is one string; give a list of names, such as [{methods!r}].")
    return list(METHODS) if methods is None else [one_of(name, "methods", tuple(METHODS)) for name in methods]


def _timed(name: str, model: Any, X: Any, callback: Callable[[str], Any] | None) -> Entry:
    """Fit a method; what it warns of, or why it refuses, becomes a note."""
    if callback is not None:
        callback(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(X)
        except ValueError as error:
            return Entry(name, note=" ".join(str(error).split()))
        seconds = time.perf_counter() - start
    note = " ".join(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    return Entry(name, seconds=seconds, note=note, model=model)


def _measured(entry: Entry, operator: Operator, pca: float) -> Entry:
    """The entry with its variances, all by the same definition; `pca` NaN for PCA itself."""
    if entry.model is None:
        return entry
    gram, total = score_gram(operator, entry.model.components_.T), operator.total_variance
    adjusted = float(adjusted_variances(gram).sum() / total) if total > 0 else 0.0
    reference = adjusted if np.isnan(pca) else pca
    return Entry(
        entry.method,
        variance=float(np.trace(gram) / total) if total > 0 else 0.0,
        adjusted_variance=adjusted,
        share_of_pca=adjusted / reference if reference > 0 else 0.0,
        cardinality=tuple(int(k) for k in entry.model.cardinality_),
        seconds=entry.seconds,
        passes=np.nan if isinstance(entry.model, ScikitLearnSparsePCA) else float(entry.model.n_passes_),
        note=entry.note,
        model=entry.model,
    )
