"""Regression with an elastic net, from the Gram matrix: least-angle regression, finished to the exact minimiser.

scikit-learn's path takes one variable at a time and stops at absolute tolerances. So the problem is brought to order
one first; and where variables tie, the path misses the minimiser, which feature-sign search (Lee, Battle, Raina and
Ng 2007) then reaches from there in a few linear systems.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path_gram

from gpower._utils.arrays import Array
from gpower.baselines.levels import bisect_penalty_level

#: Excess of a slope over its level, relative to the largest of c, that counts as rounding.
OPTIMALITY_TOLERANCE = 1e-9
#: Coefficients below this times the largest are what rounding leaves of a zero, and would block a step.
ZERO_TOLERANCE = 1e-12


def solve_elastic_net(gram: Array, c: Array, l1: float) -> Array:
    """The minimiser of βᵀGβ − 2βᵀc + l1‖β‖₁.

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
    G, d, largest, unit = _scale_regression(gram, c)
    level = l1 / 2 / largest
    return unit * _run_feature_sign_search(G, d, level, _compute_lars_path(G, d, alpha_min=level)[1][:, -1])


def solve_elastic_net_of_size(gram: Array, c: Array, k: int) -> tuple[Array, float]:
    """The same at the smallest l1 with k non-zeros, or a few more where variables enter together; and that l1."""
    G, d, largest, unit = _scale_regression(gram, c)
    for steps in (k, 2 * k + 8, 16 * k + 64):  # a variable that leaves costs a step
        levels, path = _compute_lars_path(G, d, max_iter=steps)
        large_enough = np.count_nonzero(path, axis=0) >= k
        if large_enough.any():
            break
    at = int(np.argmax(large_enough)) if large_enough.any() else -1
    beta, level = path[:, at], float(levels[at])
    if _compute_optimality_excess(d - G @ beta, level, np.sign(beta)).max() > OPTIMALITY_TOLERANCE:
        beta, level = _bisect_elastic_net(G, d, k, beta)
    return unit * beta, 2 * largest * level


def _scale_regression(gram: Array, c: Array) -> tuple[Array, Array, float, float]:
    """The problem with entries of order one, the largest of c, and the unit of the coefficients."""
    size, largest = float(np.max(np.diagonal(gram))), float(np.max(np.abs(c)))
    return gram / size, c / largest, largest, largest / size


def _compute_lars_path(gram: Array, c: Array, **stop_options: Any) -> tuple[Array, Array]:
    """Weights and coefficients along the path; it ends early where variables coincide, which is told elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        alphas, _, path = lars_path_gram(c, gram, n_samples=1, method="lasso", **stop_options)
    return alphas, _zero_rounding_errors(path)


def _zero_rounding_errors(beta: Array) -> Array:
    """A copy with zeros where rounding left something, column by column."""
    return np.where(np.abs(beta) <= ZERO_TOLERANCE * np.max(np.abs(beta), axis=0), 0.0, beta)


def _bisect_elastic_net(G: Array, c: Array, k: int, start: Array) -> tuple[Array, float]:
    """Coefficients of the wanted size and their level by bisection, where variables tie."""

    def solve(level: float) -> tuple[Array, float]:
        return _run_feature_sign_search(G, c, level, start), level

    def size(found: tuple[Array, float]) -> int:
        return int(np.count_nonzero(found[0]))

    dense = float(_compute_lars_path(G, c, max_iter=16 * k + 64)[0][-1])
    found = bisect_penalty_level(solve, size, 1.0, dense, k, prefer_densest=True)
    return (
        found if size(found) <= k else bisect_penalty_level(solve, size, 1.0, dense, size(found), prefer_densest=True)
    )


def _compute_optimality_excess(slope: Array, level: float, signs: Array) -> Array:
    """How far each variable is from its optimality condition, for slopes c − Gβ."""
    return np.where(signs != 0, np.abs(slope - level * signs), np.abs(slope) - level)


def _run_feature_sign_search(G: Array, c: Array, level: float, beta: Array) -> Array:
    """The minimiser of βᵀGβ/2 − βᵀc + level‖β‖₁ by feature-sign search from `beta`; the objective only falls."""
    beta = _zero_rounding_errors(beta)
    for _ in range(4 * c.size):
        signs, slope = np.sign(beta), c - G @ beta
        excess = _compute_optimality_excess(slope, level, signs)
        if excess.max() <= OPTIMALITY_TOLERANCE:
            break
        if not np.any(excess[signs != 0] > OPTIMALITY_TOLERANCE):  # the best of its pattern: one more variable
            enters = int(np.argmax(excess))
            signs[enters] = np.sign(slope[enters])
        active = np.flatnonzero(signs)
        moved = _search_toward_sign_minimizer(G[np.ix_(active, active)], c[active], level, beta[active], signs[active])
        if moved is None:
            break
        beta[active] = _zero_rounding_errors(moved)
    return beta


def _search_toward_sign_minimizer(G: Array, c: Array, level: float, beta: Array, signs: Array) -> Array | None:
    """The best point between `beta` and the minimiser of its signs among those where a sign changes; None if none."""
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
