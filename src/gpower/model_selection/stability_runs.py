"""Which variables would be chosen again? Selection frequencies under subsampling of the samples.

Meinshausen and Bühlmann (2010), Stability selection, Journal of the Royal Statistical Society B 72, 417–473.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from gpower._utils.arrays import Array, Seed
from gpower._utils.frames import Frame, make_frame
from gpower._utils.warnings import GPowerWarning
from gpower.estimators.gpower import GPower, fit_validated
from gpower.operators import MatrixLike
from gpower.plotting import plot_stability
from gpower.plotting.style import AxesLike, Panels
from gpower.validation.params import check_float, check_int, make_random_state
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import EstimatorInput, read_estimator_input


@dataclass(frozen=True, eq=False)
class Stability:
    """How often each variable enters each component when half of the samples are drawn, as `stability` returns it.

    Attributes
    ----------
    frequency : ndarray of shape (n_components, n_features)
        Share of the subsamples in which the variable has a loading in the component.
    sign : ndarray of shape (n_components, n_features)
        Mean sign of that loading, relative to the component of all samples: near ±1 where it is always the same.
    threshold : float
        Frequency from which a variable counts as selected.
    model : GPower
        Fitted to all samples; its components are those that the subsamples' are matched with.
    n_subsamples : int
    feature_names : ndarray of str or None

    Examples
    --------
    >>> from gpower import stability_selection
    >>> from gpower.datasets import load_planted_expression
    >>> X = load_planted_expression().X
    >>> stable = stability_selection(X, cardinality=8, n_components=1, n_subsamples=20, random_state=0)
    >>> stable.frequency.shape, int(stable.selected.sum())
    ((1, 150), 8)
    """

    frequency: Array
    sign: Array
    threshold: float
    model: GPower
    n_subsamples: int
    feature_names: Array | None = None

    def __repr__(self) -> str:
        counts = ", ".join(map(str, self.selected.sum(axis=1)))
        return (
            f"<Stability: {counts} of {self.frequency.shape[1]} variables selected in {len(self.frequency)} "
            f"component(s), each in {self.threshold:.0%} of {self.n_subsamples} subsamples or more>"
        )

    @property
    def selected(self) -> Array:
        """Variables at or above the threshold, (n_components, n_features)."""
        return np.asarray(self.frequency >= self.threshold)

    @property
    def expected_false_selections(self) -> Array:
        """Bound on the expected number of variables selected by chance, (n_components,): q²/((2·threshold − 1)·n).

        q is the mean number of variables that a subsample's component uses. The bound holds where the choice is no
        worse than guessing and the variables that do not belong are exchangeable (Meinshausen and Bühlmann 2010).
        """
        used = self.frequency.sum(axis=1)
        return np.asarray(used**2 / ((2 * self.threshold - 1) * self.frequency.shape[1]))

    def to_frame(self) -> Frame:
        """One row per component and variable that was ever chosen, the most frequent first.

        Returns
        -------
        pandas.DataFrame
        """
        orders = [np.argsort(-row, kind="stable")[: np.count_nonzero(row)] for row in self.frequency]
        component = np.repeat(np.arange(len(orders)), [order.size for order in orders])
        variable = np.concatenate(orders)
        return make_frame(
            {
                "component": component,
                "variable": variable if self.feature_names is None else np.asarray(self.feature_names)[variable],
                "frequency": self.frequency[component, variable],
                "sign": self.sign[component, variable],
                "loading": self.model.components_[component, variable],
                "selected": self.selected[component, variable],
            }
        )

    def plot(self, axes: AxesLike = None) -> Panels:
        """Frequencies, the largest first, with the threshold; see `gpower.plotting.plot_stability`.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, optional

        Returns
        -------
        ndarray of matplotlib Axes
        """
        return plot_stability(self, axes=axes)


def stability_selection(
    X: Any,
    model: GPower | Pipeline | None = None,
    *,
    n_subsamples: int = 100,
    fraction: float = 0.5,
    threshold: float = 0.8,
    n_jobs: int | None = None,
    random_state: Seed = None,
    **options: Any,
) -> Stability:
    """Selection frequency of every variable when the model is fitted to random parts of the samples.

    Components of a part are matched with those of all samples by the largest total overlap of their loadings,
    whatever their order and sign.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
    model : GPower or Pipeline that ends with one, optional
        What to fit, all steps of it to every part; or give its parameters as options.
    n_subsamples : int, default=100
    fraction : float, default=0.5
        Share of the samples in each part, drawn without replacement.
    threshold : float, default=0.8
        Frequency from which a variable counts as selected; above one half.
    n_jobs : int, optional
        Parts fitted at the same time, as in scikit-learn.
    random_state : int, RandomState or None
        Of the parts. None stands for a fixed seed.
    **options
        Parameters of `GPower`.

    Returns
    -------
    Stability
        How often each variable was chosen, which are selected, and how many of those chance would explain at most.

    Examples
    --------
    >>> from gpower import stability_selection
    >>> from gpower.datasets import load_planted_expression
    >>> data = load_planted_expression()
    >>> chosen = stability_selection(data.X, n_components=1, cardinality=8, n_subsamples=20)
    >>> chosen.frequency.shape, int(chosen.selected.sum())
    ((1, 150), 8)
    """
    if model is not None and options:
        raise ValueError(f"Give a model or its parameters ({', '.join(options)}), not both.")
    if model is not None and not hasattr(model, "fit"):
        raise TypeError(f"model is of type {type(model).__name__}; the data come first: stability_selection(X, model).")
    model = GPower(**options) if model is None else clone(model)
    if UnwrappedModel.unwrap(model).model.covariance is not None:
        raise ValueError('stability draws samples; covariance="precomputed" has none. Give the data.')
    if not 0.5 < check_float(threshold, "threshold", 0.0) <= 1:
        raise ValueError(f"threshold={threshold!r}: a frequency above 0.5 and up to 1 is needed.")
    if not 0 < check_float(fraction, "fraction", 0.0) < 1:
        raise ValueError(f"fraction={fraction!r}: a share of the samples between 0 and 1 is needed.")
    check_int(n_subsamples, "n_subsamples", 1)
    held = UnwrappedModel.unwrap(clone(model).fit(X))
    reference = held.model
    table = None if held.pipeline else read_estimator_input(reference, X, reset=False)
    total = int(_num_samples(X)) if table is None else table.shape[0]
    size = int(fraction * total)
    if size < 2:
        raise ValueError(f"fraction={fraction!r} of {total} samples are {size}; a part needs at least 2: raise it.")
    rng = make_random_state(random_state)
    parts = [rng.permutation(total)[:size] for _ in range(n_subsamples)]
    signs = Parallel(n_jobs=n_jobs)(
        delayed(_compute_matched_signs)(
            model, _safe_indexing(X, part) if table is None else table.select_samples(part), reference.components_
        )
        for part in parts
    )
    chosen = np.abs(signs).sum(axis=0)  # of (n_subsamples, n_components, n_features)
    return Stability(
        frequency=chosen / n_subsamples,
        sign=np.sum(signs, axis=0) / np.maximum(chosen, 1),
        threshold=float(threshold),
        model=reference,
        n_subsamples=n_subsamples,
        feature_names=vars(reference).get("feature_names_in_"),
    )


def _compute_matched_signs(model: GPower | Pipeline, part: MatrixLike | EstimatorInput, reference: Array) -> Array:
    """Signs of the loadings of a part's components, put into the order and orientation of the reference's."""
    with warnings.catch_warnings():  # a part of the samples may well leave a column constant
        warnings.simplefilter("ignore", GPowerWarning)
        again = (
            fit_validated(clone(model), part)
            if isinstance(part, EstimatorInput)
            else UnwrappedModel.unwrap(clone(model).fit(part)).model
        )
    W = again.components_
    overlap = reference @ W.T
    rows, columns = linear_sum_assignment(-np.abs(overlap))
    matched = np.zeros(W.shape, np.int8)
    matched[rows] = np.sign(W[columns]) * np.where(overlap[rows, columns] < 0, -1, 1)[:, None]
    return matched
