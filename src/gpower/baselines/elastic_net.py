"""Elastic-net regression from the Gram matrix: least-angle regression followed by feature-sign search.

scikit-learn's least-angle path adds one variable at a time and stops at absolute tolerances, so the problem is first
scaled to order one. If variables tie, the path misses the minimiser. Feature-sign search (Lee, Battle, Raina and Ng
2007) reaches it from there by solving a few linear systems.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path_gram

from gpower._utils.arrays import Array
from gpower.baselines.penalty_levels import bisect_penalty_level

#: Violation of the optimality conditions, relative to the largest |c|, that counts as rounding error.
OPTIMALITY_TOLERANCE = 1e-9
#: Coefficients below this times the largest are set to zero: they are rounding errors and would block a step.
ZERO_TOLERANCE = 1e-12


class ElasticNetSolution(NamedTuple):
    """Coefficients of a regression and the ℓ1 weight at which they are the minimiser."""

    beta: Array  # (n,), float64
    l1: float  # in the units of 2|c|


def solve_elastic_net(gram: Array, c: Array, l1: float) -> Array:
    """Return the minimiser of βᵀGβ − 2βᵀc + l1‖β‖₁, (n,).

    G, (n, n), is positive definite: the callers add a ridge. It and c, (n,), are in float64; l1 is not negative.

    Examples
    --------
    >>> import numpy as np
    >>> solve_elastic_net(np.eye(2), np.array([2.0, 0.5]), 2.0)
    array([1., 0.])

    Equal variables share their weight.

    >>> solve_elastic_net(np.ones((2, 2)) + np.eye(2), np.ones(2), 0.5).round(12)
    array([0.25, 0.25])
    """
    if l1 >= 2 * np.max(np.abs(c)):
        return np.zeros_like(c)
    scaled = _scale_regression(gram, c)
    level = l1 / 2 / scaled.c_unit
    _, path = _compute_lars_path(scaled.gram, scaled.c, alpha_min=level)
    return scaled.beta_unit * _run_feature_sign_search(scaled.gram, scaled.c, level, path[:, -1])


def solve_elastic_net_of_size(gram: Array, c: Array, k: int) -> ElasticNetSolution:
    """Return the minimiser with k nonzeros at the smallest l1 that gives them.

    G, (n, n), is positive definite, c, (n,), not zero, both float64. The minimiser has a few more nonzeros if variables
    enter the path together, and fewer if the path ends before.
    """
    scaled = _scale_regression(gram, c)
    G, d = scaled.gram, scaled.c
    for steps in (k, 2 * k + 8, 16 * k + 64):  # a variable that leaves costs a step
        levels, path = _compute_lars_path(G, d, max_iter=steps)
        large_enough = np.count_nonzero(path, axis=0) >= k
        if large_enough.any():
            break
    point = int(np.argmax(large_enough)) if large_enough.any() else -1
    beta, level = path[:, point], float(levels[point])
    if _compute_optimality_excess(d - G @ beta, level, np.sign(beta)).max() > OPTIMALITY_TOLERANCE:
        beta, level = _bisect_elastic_net(G, d, k, beta)
    return ElasticNetSolution(scaled.beta_unit * beta, 2 * scaled.c_unit * level)


class _ScaledRegression(NamedTuple):
    """The problem βᵀGβ/2 − βᵀc + level‖β‖₁ with entries of order one, and the units of the original."""

    gram: Array  # (n, n): G divided by its largest diagonal entry
    c: Array  # (n,): c divided by its largest absolute entry
    c_unit: float  # largest |c| of the original; an original l1 is 2·level times this
    beta_unit: float  # the original coefficients are those of the scaled problem times this


def _scale_regression(gram: Array, c: Array) -> _ScaledRegression:
    """Scale the problem; neither G nor c may be zero."""
    scale = float(np.max(np.diagonal(gram)))
    largest = float(np.max(np.abs(c)))
    return _ScaledRegression(gram / scale, c / largest, largest, largest / scale)


def _compute_lars_path(gram: Array, c: Array, **stop_options: Any) -> tuple[Array, Array]:
    """Compute the least-angle path of a scaled problem; `stop_options` are those of scikit-learn's `lars_path_gram`.

    Return the ℓ1 weights, (n_steps,), decreasing, and their minimisers, (n, n_steps), from the sparsest on. The
    path ends early if variables coincide; the warning about it is suppressed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        levels, _, coefficients = lars_path_gram(c, gram, n_samples=1, method="lasso", **stop_options)
    return levels, _zero_rounding_errors(coefficients)


def _zero_rounding_errors(beta: Array) -> Array:
    """Return a copy of coefficients, (n,) or (n, n_steps), with those negligible in their column set to zero."""
    return np.where(np.abs(beta) <= ZERO_TOLERANCE * np.max(np.abs(beta), axis=0), 0.0, beta)


def _bisect_elastic_net(G: Array, c: Array, k: int, start: Array) -> ElasticNetSolution:
    """Return coefficients with k nonzeros by bisection, for scaled problems in which variables tie.

    The weight `l1` of the result is the level of the scaled problem; every search starts from `start`, (n,).
    """

    def solve(level: float) -> ElasticNetSolution:
        return ElasticNetSolution(_run_feature_sign_search(G, c, level, start), level)

    def count_variables(solution: ElasticNetSolution) -> int:
        return int(np.count_nonzero(solution.beta))

    def bisect(target_size: int) -> ElasticNetSolution:
        return bisect_penalty_level(solve, count_variables, 1.0, dense_level, target_size, prefer_densest=True)

    dense_level = float(_compute_lars_path(G, c, max_iter=16 * k + 64)[0][-1])
    solution = bisect(k)
    size = count_variables(solution)
    return solution if size <= k else bisect(size)


def _compute_optimality_excess(slope: Array, level: float, signs: Array) -> Array:
    """Return the violation of each variable's optimality condition, (n,); not positive if it holds.

    `slope` is c − Gβ, and `signs` are those of β, zero for a variable that is not used; all are (n,).
    """
    return np.where(signs != 0, np.abs(slope - level * signs), np.abs(slope) - level)


def _run_feature_sign_search(G: Array, c: Array, level: float, beta: Array) -> Array:
    """Return the minimiser of βᵀGβ/2 − βᵀc + level‖β‖₁ by feature-sign search from `beta`, (n,), which stays as it is.

    The problem is scaled to order one, as the tolerance is absolute. Every step decreases the objective. The search
    ends after 4n steps, or if a step cannot decrease it, even if the optimality conditions do not hold.
    """
    beta = _zero_rounding_errors(beta)
    for _ in range(4 * c.size):
        signs = np.sign(beta)
        slope = c - G @ beta
        excess = _compute_optimality_excess(slope, level, signs)
        if excess.max() <= OPTIMALITY_TOLERANCE:
            break
        if not np.any(excess[signs != 0] > OPTIMALITY_TOLERANCE):  # optimal on its support: add a variable
            entering = int(np.argmax(excess))
            signs[entering] = np.sign(slope[entering])
        active = np.flatnonzero(signs)
        moved = _search_toward_sign_minimizer(G[np.ix_(active, active)], c[active], level, beta[active], signs[active])
        if moved is None:
            break
        beta[active] = _zero_rounding_errors(moved)
    return beta


def _search_toward_sign_minimizer(G: Array, c: Array, level: float, beta: Array, signs: Array) -> Array | None:
    """Return the best point on the segment from `beta` to the minimiser for fixed signs, or None if none is better.

    All arguments are restricted to the active variables, (m,) or (m, m); `signs` are −1 or 1. Candidates are the end of
    the segment and the points at which a coefficient changes its sign.
    """
    try:
        step = np.linalg.solve(G, c - level * signs) - beta
    except np.linalg.LinAlgError:
        step = np.linalg.lstsq(G, c - level * signs, rcond=None)[0] - beta
    crossing = np.divide(-beta, step, out=np.full_like(beta, np.inf), where=step != 0)
    lengths = np.append(crossing[(crossing > 0) & (crossing < 1)], 1.0)
    slope, curvature = float(step @ (G @ beta - c)), float(step @ G @ step)
    rise = level * (np.abs(beta + lengths[:, None] * step).sum(axis=1) - np.abs(beta).sum())
    gain = lengths * slope + lengths**2 * curvature / 2 + rise
    best = int(np.argmin(gain))
    return np.where(crossing == lengths[best], 0.0, beta + lengths[best] * step) if gain[best] < 0 else None
