"""From a pattern of active variables to loadings: the rank-one SVD, and Algorithm 6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, embed_rows, normalize_columns, take_rows, to_host
from gpower.feasible_sets import CorrelationStart, Point
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import FixedSupport
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentState, maximize

#: Relative growth at which a refit turns from accelerated to plain steps.
REFIT_TOL = 1e-12


def refit_unit(operator: Operator, support: Array, start: Array | None = None) -> tuple[Array, float]:
    """Loadings of the largest variance on a support, (n,), and that variance [JNRS10, eq. (28)].

    `start`, (n,), are loadings near the answer.
    """
    if support.size == 0:
        return np.zeros_like(operator.column_norms), 0.0
    near = None if start is None else to_host(take_rows(start, support))
    loadings, variance = compute_leading_components(operator, 1, support, near)
    return embed_rows(loadings, support, operator.shape[1], operator.column_norms)[:, 0], float(variance[0])


def refit_pattern(
    problem: Problem, pattern: Array, start: Point, power: int, tol: float = 0.0, max_iter: int = 1000
) -> Array:
    """Loadings on a pattern, (n, m), by the alternating scheme [JNRS10, Algorithm 6] from a point.

    `power=1` maximises the sum of norms as the paper does, `power=2` the sum of squares: the variance. Whatever
    else the problem asks for (non-negative loadings, ℓ1 variance) holds for the filled pattern too.
    """
    n, like = pattern.shape[0], problem.operator.column_norms
    W = to_host(np.flatnonzero(pattern.any(axis=1)))
    if W.size == 0:
        return np.zeros_like(like, shape=pattern.shape)
    penalty = problem.penalty.with_sign(FixedSupport(to_host(take_rows(pattern, W)), power))
    operator = problem.operator.restrict(W).operator if problem.sample_set.needs_only_gram else problem.operator.take(W)
    inner = Problem(operator, penalty, problem.mu, problem.sample_set)
    objective, feasible_set = inner.objective, inner.feasible_set
    seen = CorrelationStart(operator.to_backend(take_rows(start.C, W)))
    result = maximize(objective, feasible_set, seen, tol=REFIT_TOL, max_iter=max_iter, acceleration=True)
    # Values settle at the square of the points' error: go on by plain steps until the loadings rest.
    at_rest = StallCallback(inner.compute_loadings, 1e-4 * tol)
    result = maximize(objective, feasible_set, result.point, tol=-1.0, max_iter=max_iter, callback=at_rest)
    return embed_rows(inner.compute_loadings(result.point), W, n, like)


class StallCallback:
    """A callback that stops an ascent once its loadings move by no more than `least`, or rounding."""

    def __init__(self, compute_loadings: Callable[[Any], Array], max_change: float) -> None:
        self.compute_loadings, self.max_change = compute_loadings, max_change
        self.last_loadings: Array | float = np.inf

    def __call__(self, state: AscentState) -> bool:
        """Whether the loadings are where they were."""
        Z = self.compute_loadings(state.point)
        moved, self.last_loadings = np.max(np.abs(Z - self.last_loadings)), Z
        return bool(moved <= max(self.max_change, 16 * float(np.finfo(Z.dtype).eps)))


@dataclass(frozen=True)
class RefitSpec:
    """How the loadings of a pattern are filled in.

    Attributes
    ----------
    powers : tuple of int
        Of the norms whose sum a block maximises: 1, the paper's [JNRS10, Algorithm 6], or 2, the variance. Of several
        the one that ends with the larger adjusted variance is kept; none reads the loadings off the point.
    automatic : bool
        Read off what a refit would spoil: loadings that are bounded by more than their norm. Take the variance for one
        unit.
    """

    powers: tuple[int, ...]
    is_automatic: bool = False

    def choose_powers(self, problem: Problem) -> tuple[int, ...]:
        """The powers to try for a problem."""
        if not self.is_automatic:
            return self.powers
        if problem.penalty.has_loading_bound:
            return ()
        return self.powers if problem.mu.size > 1 else self.powers[-1:]


AUTO_REFIT = RefitSpec((1, 2), is_automatic=True)


def refit_loadings(
    problem: Problem,
    point: Point,
    refit_spec: RefitSpec = AUTO_REFIT,
    pattern: Array | None = None,
    tol: float = 0.0,
    max_iter: int = 1000,
) -> Array:
    """Unit loadings, (n, m), on the pattern active at a point (or on a given one).

    One unit of plain variance is filled by the rank-one SVD, whatever the power.

    Parameters
    ----------
    tol : float
        Of the ascent that found the pattern: filled loadings rest to a ten-thousandth of it.
    """
    Z, powers = problem.compute_loadings(point), refit_spec.choose_powers(problem)
    pattern = Z != 0 if pattern is None else pattern
    if not powers:
        return normalize_columns(np.where(pattern, Z, 0))
    if problem.is_single_l2_unit and not problem.penalty.is_nonnegative:
        return refit_unit(problem.operator, to_host(np.flatnonzero(pattern[:, 0])), Z[:, 0])[0][:, None]
    filled = [refit_pattern(problem, pattern, point, power, tol, max_iter) for power in powers]
    if len(filled) == 1:
        return filled[0]
    return max(
        filled, key=lambda Z: float(Scores.from_loadings(problem.operator, Z).compute_adjusted_variances().sum())
    )
