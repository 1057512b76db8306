"""SPCA: sparse loadings by elastic-net regressions on the components (Zou, Hastie and Tibshirani 2006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from gpower._utils.arrays import Array, apply_soft_threshold, normalize_columns
from gpower._utils.polar_factor_and_signs import polar_factor
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, keep_largest, multiply_gram
from gpower.baselines.elastic_net import ElasticNetSolution, solve_elastic_net, solve_elastic_net_of_size
from gpower.operators.leading_pca import compute_leading_components
from gpower.validation.checks import is_number
from gpower.validation.params import FloatPerComponent, check_float, expand_per_component

#: Largest number of variables for a finite ridge, which forms the covariance of all of them.
MAX_GRAM_FEATURES = 5000
#: Default ℓ1 weight, as a share of the one at which the first regression selects no variable.
DEFAULT_L1_SHARE = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class SPCA(Baseline):
    """Sparse principal components by elastic-net regressions.

    Two updates alternate: the coefficients βⱼ minimise (αⱼ − β)ᵀΣ(αⱼ − β) + ridge‖β‖² + l1ⱼ‖β‖₁, and the orthonormal
    axes α are the polar factor of Σβ. The loadings are the normalised βⱼ. Σ is the covariance of the data.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, all found together.
    l1 : float or sequence of float, optional
        Weights l1ⱼ, in the units of Σ; by default a tenth of the weight that selects no variable in the first step.
    ridge : float, default=1e-6
        Weight of ‖β‖². ``numpy.inf`` stands for the limit in which the regressions become soft thresholding of Σα. It
        never forms Σ and is meant for many more variables than samples.
    cardinality : int or sequence of int, optional
        Number of variables of every component, or one number for each, instead of `l1`: each regression
        stops where the next variable would enter.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Recompute the loadings on their support to maximise the variance.
    tol, max_iter : float and int, default=1e-3, 1000
        Largest change of a loading at which the method stops (the authors' program uses 1e-3), and the maximum number
        of alternating steps.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_passes_, mean_, scale_
        As in `gpower.GPower`, but variances are adjusted in the order of the components, as by the authors; `n_iter_`
        and `converged_` have one entry.
    l1_ : ndarray of shape (n_components,)
        Weights of the last regressions; with a `cardinality` those at which they stopped.

    Notes
    -----
    The authors' program uses the cross-product of the data in place of Σ: divide its ℓ1 weights and ridge by
    n_samples − 1. For a covariance or correlation matrix the parameters are equal.

    References
    ----------
    Zou, Hastie, Tibshirani (2006). Sparse principal component analysis. Journal of Computational and Graphical
    Statistics 15, 265–286.

    Examples
    --------
    >>> from gpower.baselines import SPCA
    >>> from gpower.datasets import load_pitprops
    >>> model = SPCA(6, l1=(0.06, 0.16, 0.1, 0.5, 0.5, 0.5), covariance="precomputed")
    >>> model.fit(load_pitprops().correlation).cardinality_.tolist()
    [7, 4, 4, 1, 1, 1]
    >>> (100 * model.explained_variance_ratio_).round(1).tolist()
    [28.0, 14.0, 13.3, 7.4, 6.8, 6.2]
    """

    l1: FloatPerComponent = None
    ridge: float = 1e-6
    tol: float = 1e-3
    max_iter: int = 1000

    _sparsity_param = "l1"
    _keeps_component_order = True
    _explains_shortfall = True

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        for weight in [] if self.l1 is None else expand_per_component(self.l1, "l1", self.n_components):
            check_float(weight, "l1", 0.0)
        if not is_number(self.ridge, Real) or not self.ridge > 0:
            raise ValueError(f"ridge={self.ridge!r}: a positive number is needed, or numpy.inf for soft thresholding.")
        if np.isfinite(self.ridge) and shape[1] > MAX_GRAM_FEATURES:
            raise ValueError(
                f"n_features={shape[1]}: SPCA forms the covariance of all variables and takes up to "
                f"{MAX_GRAM_FEATURES}; with more use an infinite ridge, which does not form it."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        axes = compute_leading_components(task.operator, task.n_components)[0].astype(np.float64)
        operator = task.operator
        S = ridge_gram = None  # Σ and Σ + ridge·I, (n_features, n_features); not formed for an infinite ridge
        if np.isfinite(self.ridge):
            S = operator.gram(np.arange(operator.shape[1])).astype(np.float64) / task.degrees_of_freedom
            ridge_gram = S + self.ridge * np.eye(S.shape[0])

        def multiply_covariance(B: Array) -> Array:
            """Return ΣB, (n_features, m) as B, in float64."""
            if S is not None:
                return np.asarray(S @ B)
            return multiply_gram(operator, B).astype(np.float64) / task.degrees_of_freedom

        weights = self._compute_l1_weights(multiply_covariance(axes))
        cardinalities: Sequence[int | None] = task.target_cardinality or [None] * task.n_components
        Z = np.zeros_like(axes)
        converged = False
        n_iter = 0
        while not converged and n_iter < self.max_iter:
            n_iter += 1
            targets = multiply_covariance(axes).T
            problems = zip(targets, weights, cardinalities, strict=True)
            solutions = [_solve_regression(ridge_gram, c, weight, k) for c, weight, k in problems]
            coefficients = np.column_stack([solution.beta for solution in solutions])
            previous, Z = Z, normalize_columns(coefficients)
            axes = polar_factor(multiply_covariance(coefficients)) if coefficients.any() else axes
            converged = bool(np.max(np.abs(Z - previous)) <= self.tol)
        if task.target_cardinality is not None and np.any(np.count_nonzero(Z, axis=0) > task.target_cardinality):
            Z = keep_largest(Z, task.target_cardinality)  # several variables entered a regression together
        attributes = {"l1_": np.array([solution.l1 for solution in solutions])}
        notes = tuple(_explain_shortfalls(Z, cardinalities))
        return [BaselineResult(Z.astype(operator.dtype), n_iter, converged, extra_attributes=attributes, notes=notes)]

    def _compute_l1_weights(self, targets: Array) -> Array:
        """Return the ℓ1 weight of each component; `targets` are Σα, (n_features, m)."""
        if self.l1 is None:
            return DEFAULT_L1_SHARE * 2 * np.max(np.abs(targets), axis=0)
        return np.array(expand_per_component(self.l1, "l1", targets.shape[1]), float)


def _solve_regression(ridge_gram: Array | None, c: Array, l1: float, cardinality: int | None) -> ElasticNetSolution:
    """Solve the regression of one component, c = Σα of shape (n_features,); threshold c if `ridge_gram` is None.

    The ℓ1 weight is not read if a cardinality is given.
    """
    if not c.any():
        return ElasticNetSolution(np.zeros_like(c), 0.0)
    if ridge_gram is None:
        level = l1 / 2 if cardinality is None else _find_soft_threshold(np.abs(c), cardinality)
        return ElasticNetSolution(apply_soft_threshold(c, level), 2 * level)
    if cardinality is None:
        return ElasticNetSolution(solve_elastic_net(ridge_gram, c, l1), l1)
    return solve_elastic_net_of_size(ridge_gram, c, cardinality)


def _find_soft_threshold(values: Array, k: int) -> float:
    """Return the threshold that leaves k of some non-negative values, (n,): the (k + 1)-th largest, or zero if n ≤ k.

    If it equals the largest value, the next smaller number is returned, so that some values are left.
    """
    if k >= values.size:
        return 0.0
    threshold = float(np.partition(values, -k - 1)[-k - 1])
    return threshold if threshold < values.max() else float(np.nextafter(threshold, 0))


def _explain_shortfalls(Z: Array, cardinality: Sequence[int | None]) -> Iterator[str]:
    """Yield a note for every component, a column of Z, that has fewer variables than its cardinality, but not none."""
    for j, (count, k) in enumerate(zip(np.count_nonzero(Z, axis=0), cardinality, strict=True)):
        if k is not None and 0 < count < k:
            yield (
                f"Component {j + 1}: the path of its regression ended at {count} variables, not {k}; if there are "
                "no more samples than that, a larger ridge admits more variables."
            )
