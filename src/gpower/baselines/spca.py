"""SPCA: sparse loadings by elastic-net regressions on the components (Zou, Hastie and Tibshirani 2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from gpower._utils.arrays import Array, apply_soft_threshold, normalize_columns, polar_factor
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, keep_largest
from gpower.baselines.elastic_net import solve_elastic_net, solve_elastic_net_of_size
from gpower.operators import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.validation.checks import is_number
from gpower.validation.params import FloatPerComponent, check_float, expand_per_component

#: Most variables of a finite ridge, which forms the covariance of all of them.
MAX_GRAM_FEATURES = 5000
#: Default weight, as a share of the one at which the first regression selects nothing.
DEFAULT_L1_SHARE = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class SPCA(Baseline):
    """Principal components as regressions with an elastic net.

    Coefficients βⱼ minimise (αⱼ − β)ᵀΣ(αⱼ − β) + ridge‖β‖² + l1ⱼ‖β‖₁, the orthonormal axes α are the polar
    factor of Σβ, in turns; the loadings are the βⱼ, normalised. Σ is the covariance of the data.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, all found together.
    l1 : float or sequence of float, optional
        Weights l1ⱼ, in the units of Σ; by default a tenth of what would select nothing in the first step.
    ridge : float, default=1e-6
        Weight of ‖β‖². ``numpy.inf`` stands for the limit in which the regressions become soft thresholding of Σα: made
        for many more variables than samples, it never forms Σ.
    cardinality : int or sequence of int, optional
        Number of variables, of all components or one number each, instead of `l1`: each regression stops
        where one more would enter.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Choose the loadings of the pattern anew, for the most variance.
    tol, max_iter : float and int, default=1e-3, 1000
        Stop when no loading changes by more than this; most turns. The authors' program stops at 1e-3.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_, n_passes_, mean_, scale_
        As in `gpower.GPower`, but the adjusted variances take the components in their own order, as the authors do;
        `n_iter_` and `converged_` have one entry.
    l1_ : ndarray of shape (n_components,)
        The weights in use; for a cardinality those at which the last regressions stopped.

    Notes
    -----
    The authors' program takes the cross-product of the data where Σ stands here: divide its ℓ1 weights and ridge
    by n_samples − 1. On a covariance or correlation matrix both mean the same.

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
                f"ridge={self.ridge:g} forms the covariance of all n_features={shape[1]} variables, too many; "
                f"with more than {MAX_GRAM_FEATURES} use ridge=numpy.inf, which is made for that."
            )

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        axes = compute_leading_components(task.operator, task.n_components)[0].astype(np.float64)
        times_covariance, gram = self._build_covariance_product(task)
        weights = self._compute_l1_weights(times_covariance(axes))
        wanted: Sequence[int | None] = task.target_cardinality or [None] * task.n_components
        Z, converged, n_iter = np.zeros_like(axes), False, 0
        while not converged and n_iter < self.max_iter:
            n_iter += 1
            targets = times_covariance(axes).T
            solved = [_solve_regression(gram, *one) for one in zip(targets, weights, wanted, strict=True)]
            coefficients = np.column_stack([beta for beta, _ in solved])
            before, Z = Z, normalize_columns(coefficients)
            axes = polar_factor(times_covariance(coefficients)) if coefficients.any() else axes
            converged = bool(np.max(np.abs(Z - before)) <= self.tol)
        if task.target_cardinality is not None and np.any(np.count_nonzero(Z, axis=0) > task.target_cardinality):
            Z = keep_largest(Z, task.target_cardinality)  # variables that enter a regression together
        kept = {"l1_": np.array([weight for _, weight in solved])}
        return [
            BaselineResult(
                Z.astype(task.operator.dtype),
                n_iter,
                converged,
                extra_attributes=kept,
                notes=tuple(_explain_shortfalls(Z, wanted)),
            )
        ]

    def _build_covariance_product(self, task: ComponentTask) -> tuple[Callable[[Array], Array], Array | None]:
        """The product with Σ, and Σ + ridge·I, which are formed for a finite ridge only."""
        operator = task.operator
        if not np.isfinite(self.ridge):
            return lambda B: _multiply_gram(operator, B) / task.degrees_of_freedom, None
        S = operator.gram(np.arange(operator.shape[1])).astype(np.float64) / task.degrees_of_freedom
        return lambda B: np.asarray(S @ B), S + self.ridge * np.eye(S.shape[0])

    def _compute_l1_weights(self, targets: Array) -> Array:
        """ℓ1 weights, one per component; the default is a share of the one that selects nothing of Σα."""
        if self.l1 is None:
            return DEFAULT_L1_SHARE * 2 * np.max(np.abs(targets), axis=0)
        return np.array(expand_per_component(self.l1, "l1", targets.shape[1]), float)


def _solve_regression(gram: Array | None, c: Array, weight: float, cardinality: int | None) -> tuple[Array, float]:
    """The coefficients of a component and their ℓ1 weight, from c = Σα; without a Gram matrix by thresholding."""
    if not c.any():
        return np.zeros_like(c), 0.0
    if gram is None:
        level = weight / 2 if cardinality is None else _find_soft_threshold(np.abs(c), cardinality)
        return apply_soft_threshold(c, level), 2 * level
    return (
        (solve_elastic_net(gram, c, weight), weight)
        if cardinality is None
        else solve_elastic_net_of_size(gram, c, cardinality)
    )


def _multiply_gram(operator: Operator, B: Array) -> Array:
    """AᵀA B, never forming AᵀA."""
    return operator.correlate(operator.combine(B.astype(operator.dtype))).astype(np.float64)


def _find_soft_threshold(values: Array, k: int) -> float:
    """The (k + 1)-th largest value, which soft thresholding must reach to leave k; zero if there is none."""
    if k >= values.size:
        return 0.0
    largest = float(np.partition(values, -k - 1)[-k - 1])
    return largest if largest < values.max() else float(np.nextafter(largest, 0))


def _explain_shortfalls(Z: Array, cardinality: Sequence[int | None]) -> Iterator[str]:
    """Why a component has fewer variables than asked for, where one has."""
    for j, (count, k) in enumerate(zip(np.count_nonzero(Z, axis=0), cardinality, strict=True)):
        if k is not None and 0 < count < k:
            yield (
                f"components_[{j}]: the path of its regression ended at {count} variables, not {k}; with "
                "no more samples than that, a larger ridge lets more of them in."
            )
