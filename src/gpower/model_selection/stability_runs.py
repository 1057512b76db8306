"""Stability selection: how often each variable is selected in random subsamples.

Meinshausen and Bühlmann (2010), Stability selection, Journal of the Royal Statistical Society B 72, 417–473.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from gpower._utils.messages import format_param
from gpower._utils.threads import limit_small_products
from gpower._utils.warnings import GPowerWarning
from gpower.estimators.gpower import GPower, fit_validated
from gpower.operators import MatrixLike
from gpower.plotting import plot_stability
from gpower.plotting.style import AxesLike, Panels
from gpower.solvers.covariance_stack import can_solve_in_stack, find_components_in_stack
from gpower.validation.params import (
    check_float,
    check_int,
    fix_n_components,
    get_constructor_params,
    make_random_state,
)
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import EstimatorInput, read_estimator_input


@dataclass(frozen=True, eq=False)
class Stability:
    """Result of `stability_selection`: how often each variable enters each component in random subsamples.

    Attributes
    ----------
    frequency : ndarray of shape (n_components, n_features)
        Share of the subsamples in which the variable has a nonzero loading in the component.
    sign : ndarray of shape (n_components, n_features)
        Mean sign of that loading, relative to the component of all samples; ±1 if it is always the same.
    threshold : float
        Frequency from which a variable counts as selected.
    model : GPower
        Model fitted to all samples, whose components the components of the subsamples are matched with.
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
        """Return the mask of variables at or above the threshold, (n_components, n_features)."""
        return np.asarray(self.frequency >= self.threshold)

    @property
    def expected_false_selections(self) -> Array:
        """Return a bound on the expected number of variables selected by chance, (n_components,).

        The bound is q²/((2·threshold − 1)·n), where q is the mean number of variables that a component has in a
        subsample. It holds if the selection is no worse than guessing and the irrelevant variables are exchangeable
        (Meinshausen and Bühlmann 2010).
        """
        mean_cardinality = self.frequency.sum(axis=1)
        return np.asarray(mean_cardinality**2 / ((2 * self.threshold - 1) * self.frequency.shape[1]))

    def to_frame(self) -> Frame:
        """Return a frame with one row per component and variable selected at least once, the most frequent first.

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
        """Plot the frequencies, the largest first, with the threshold; see `gpower.plotting.plot_stability`.

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
    covariates: Any = None,
    batch: Any = None,
    **options: Any,
) -> Stability:
    """Fit the model to random subsamples and count how often each variable is selected.

    Components of a subsample are matched with those of all samples by the largest total overlap of their loadings,
    regardless of order and sign. With ``n_components="auto"`` the number of components is found on all samples, and
    every subsample has as many.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
    model : GPower or Pipeline that ends with one, optional
        Model to fit; all steps of a pipeline are fitted to every subsample. Its parameters can be given as options
        instead.
    n_subsamples : int, default=100
    fraction : float, default=0.5
        Share of the samples in each subsample, drawn without replacement.
    threshold : float, default=0.8
        Frequency from which a variable counts as selected; above one half.
    n_jobs : int, optional
        Number of subsamples fitted in parallel, as in scikit-learn.
    random_state : int, RandomState or None
        Seed of the subsamples. None stands for a fixed seed.
    covariates, batch : optional
        Covariates and batch labels of the samples, as for `GPower.fit`; every subsample has a regression of its own.
    **options
        Parameters of `GPower`.

    Returns
    -------
    Stability
        Selection frequencies, selected variables, and a bound on the number of variables selected by chance.

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
    template = UnwrappedModel.unwrap(model)
    if template.model.covariance is not None:
        raise ValueError(
            f"stability_selection draws samples; {format_param('covariance', 'precomputed')} has none. Give the data."
        )
    if isinstance(model, Pipeline) and (covariates is not None or batch is not None):
        raise ValueError(
            "covariates and batch go to a GPower, not to a pipeline; transform X by the earlier steps, and pass the "
            "last step as the model."
        )
    if not 0.5 < check_float(threshold, "threshold", 0.0) <= 1:
        raise ValueError(f"threshold={threshold!r}: a frequency above 0.5 and up to 1 is needed.")
    if not 0 < check_float(fraction, "fraction", 0.0) < 1:
        raise ValueError(f"fraction={fraction!r}: a share of the samples between 0 and 1 is needed.")
    check_int(n_subsamples, "n_subsamples", 1)
    known = {} if covariates is None and batch is None else {"covariates": covariates, "batch": batch}
    unwrapped = UnwrappedModel.unwrap(clone(model).fit(X, **known))
    reference = unwrapped.model
    fixed = fix_n_components(get_constructor_params(reference), len(reference.components_))
    (model if template.pipeline is None else template.pipeline[-1]).set_params(**fixed)
    table = None
    if not unwrapped.pipeline:
        table = read_estimator_input(reference, X, reset=False).with_covariates(**known)
        table = replace(table, params={**table.params, **fixed})
    total = int(_num_samples(X)) if table is None else table.shape[0]
    size = int(fraction * total)
    if size < 2:
        raise ValueError(f"fraction={fraction!r} of {total} samples is {size}; a subsample needs at least 2: raise it.")
    rng = make_random_state(random_state)
    subsamples = [rng.permutation(total)[:size] for _ in range(n_subsamples)]
    with limit_small_products(size * unwrapped.model.n_features_in_):
        loadings = None if table is None else _fit_in_stack(table, subsamples, np.asarray(reference.components_))
        if loadings is None:
            loadings = Parallel(n_jobs=n_jobs)(  # (n_subsamples, n_components, n_features)
                delayed(_fit_subsample)(model, _safe_indexing(X, rows) if table is None else table.select_samples(rows))
                for rows in subsamples
            )
    signs = [_compute_matched_signs(W, reference.components_) for W in loadings]
    counts = np.abs(signs).sum(axis=0)
    return Stability(
        frequency=counts / n_subsamples,
        sign=np.sum(signs, axis=0) / np.maximum(counts, 1),
        threshold=float(threshold),
        model=reference,
        n_subsamples=n_subsamples,
        feature_names=vars(reference).get("feature_names_in_"),
    )


def _fit_in_stack(table: EstimatorInput, subsamples: Sequence[Array], reference: Array) -> Array | None:
    """Return the loadings of all subsamples, (n_subsamples, n_components, n_features); None if the table is not small.

    The covariances of a small table are solved as one stack. Of tied variables, such as duplicates, those of the
    `reference` components, (n_components, n_features), are preferred.
    """
    fit_spec = table.build_fit_specs()[0]
    if not can_solve_in_stack(fit_spec, table.shape[1]) or table.block_matrix is not None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GPowerWarning)
        prepared = (table.select_samples(rows).fill_missing().prepare(None, [fit_spec]) for rows in subsamples)
        order = np.argsort(~reference.any(axis=0), kind="stable")  # a stack prefers the first of tied variables
        S = np.array([each.operator.gram(order) for each in prepared])
    cardinalities = np.tile(fit_spec.cardinalities, (len(S), 1))
    loadings = find_components_in_stack(S, cardinalities, local_search=fit_spec.local_search)
    return np.swapaxes(loadings, 1, 2)[:, :, np.argsort(order)]


def _fit_subsample(model: GPower | Pipeline, subsample: MatrixLike | EstimatorInput) -> Array:
    """Return the loadings of a subsample, (n_components, n_features)."""
    with warnings.catch_warnings():  # a column may be constant in a subsample
        warnings.simplefilter("ignore", GPowerWarning)
        fitted = (
            fit_validated(clone(model), subsample)
            if isinstance(subsample, EstimatorInput)
            else UnwrappedModel.unwrap(clone(model).fit(subsample)).model
        )
    return np.asarray(fitted.components_)


def _compute_matched_signs(W: Array, reference: Array) -> Array:
    """Return the signs of loadings, (n_components, n_features), in the order and orientation of the reference."""
    overlap = reference @ W.T
    rows, columns = linear_sum_assignment(-np.abs(overlap))
    matched = np.zeros(reference.shape, np.int8)
    matched[rows] = np.sign(W[columns]) * np.where(overlap[rows, columns] < 0, -1, 1)[:, None]
    return matched
