"""Find γ for a given number of active variables: bisection with a separate bracket for each unit.

Terms: a problem has n variables and m units, the components of a block or a single one. γ, (m,), float64 on the host,
is the absolute level of the penalty of each unit, not a share of the largest useful one. C, (n, m), are the weighted
correlations of a point with the variables and Z, (n, m), loadings, both where the matrix is, on the host or a device,
in its dtype. A variable is active in a unit if its loading there is not zero.

``problem.compute_loadings(point)`` is Z at a point, zero in a unit without active variables. Of a `Penalty`,
``evaluate(C)`` gives the values, (m,), positive in units with active variables, and the gradient; ``at_gamma(gamma)``
is the same kind of penalty at γ; ``count_selected(pattern)``, (m,) on the host, counts variables or, with groups,
groups of a pattern, (n, m) of bool; ``select_pattern(scores, counts)`` is the pattern of the variables, or groups, of
the largest scores. ``ascend(problem, start, settings)`` returns an `AscentResult`; its ``point`` is where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array
from gpower.feasible_sets import Point
from gpower.penalties.elementary import Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.working_set import AscentSettings, ascend

#: Largest number of bisections, enough to narrow a bracket to rounding. The active set may jump over the requested
#: number of variables at every γ.
MAX_BISECTIONS = 48
#: Width of a bracket, relative to the largest useful γ, below which values of γ differ by rounding only.
MIN_RELATIVE_BRACKET = 1e-9


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """The problem at one γ, (m,) in float64, rounded to the dtype of the matrix, and the ascent that solves it."""

    problem: Problem
    gamma: Array
    result: AscentResult

    @property
    def active_counts(self) -> Array:
        """Return the number of active variables, or of active groups, of each unit, (m,) of int, on the host."""
        return self.problem.penalty.count_selected(self.problem.compute_loadings(self.result.point) != 0)


def calibrate_gamma(
    problem: Problem, gamma_max: Array, cardinalities: Array, start: Point, settings: AscentSettings
) -> CalibrationResult:
    """Find γ in [0, gamma_max) at which every unit has exactly the requested number of active variables.

    If the active set jumps over that number, return the result with the fewest missing variables (usually none) and,
    among those, the fewest excess variables, the first of equal ones. Every unit has its own bracket; more active
    variables than requested raise γ, fewer lower it. The units of a block can hinder each other, so that variables are
    missing at every γ tried. The caller resizes the support.

    Parameters
    ----------
    problem : Problem
        The problem at any γ; its penalty has `at_gamma`.
    gamma_max : ndarray of float64 of shape (m,)
        Smallest γ of each unit at which nothing is active, on the host; it is not changed.
    cardinalities : ndarray of int of shape (m,)
        Requested number of active variables, or groups, of each unit, at least 1, on the host.
    start : Point
        Start of the ascents, whose correlations do not depend on γ. Of a block it starts the first one; later ones
        start at the previous solution, or here again if some unit has no active variable there.
    settings : AscentSettings
        Settings of the ascents.

    Returns
    -------
    CalibrationResult
        The γ that comes nearest, its problem and its ascent, with `active_counts` to compare.
    """
    low, high = np.zeros_like(gamma_max), gamma_max.copy()
    gamma = 0.5 * gamma_max
    previous = start
    best: CalibrationResult | None = None
    for _ in range(MAX_BISECTIONS):
        at_gamma = set_problem_gamma(problem, gamma)
        values, _ = at_gamma.penalty.evaluate(previous.C)
        # A single unit could leave its support at a small γ and not return; one that is not active would not move.
        first = previous if gamma.size > 1 and np.all(values > 0) else start
        result = CalibrationResult(at_gamma, gamma, ascend(at_gamma, first, settings))
        previous = result.result.point
        active = result.active_counts
        if best is None or _count_misfit(active, cardinalities) < _count_misfit(best.active_counts, cardinalities):
            best = result
        if np.all(active == cardinalities):
            break
        low = np.where(active > cardinalities, gamma, low)
        high = np.where(active < cardinalities, gamma, high)
        if np.all((active == cardinalities) | (high - low <= MIN_RELATIVE_BRACKET * gamma_max)):
            break
        gamma = np.where(active == cardinalities, gamma, 0.5 * (low + high))
    assert best is not None
    return best


def set_problem_gamma(problem: Problem, gamma: Array) -> Problem:
    """Return the problem with its penalty at absolute γ, (m,), on the host; the problem itself is not changed.

    γ is in the units of `gamma_max`, not a share of it, and is rounded to the dtype of the operator.
    """
    return replace(problem, penalty=problem.penalty.at_gamma(gamma.astype(problem.operator.dtype)))


def resize_support(penalty: Penalty, Z: Array, C: Array, cardinalities: Array) -> Array:
    """Return a pattern, (n, m), with the given number of variables in each unit, of the largest loadings Z.

    If a unit has too few non-zero loadings, the variables with the largest correlations |C| fill it up. Z, of unit
    length, and C are (n, m), in the same memory as the pattern, which is bool. Under support rules `cardinalities`,
    (m,) of int on the host, count groups, required ones included. Which of equal scores are selected is not specified.
    """
    correlations = np.abs(C)
    # Every variable with a loading has a larger score than any without.
    scores = np.where(Z != 0, np.max(correlations, axis=0) * (1 + np.abs(Z)), correlations)
    return penalty.select_pattern(scores, cardinalities)


def _count_misfit(active_counts: Array, cardinalities: Array) -> tuple[int, int]:
    """Return how many variables the units lack in total, and how many they have in excess, to be compared as a pair.

    Both arguments, (m,) of int, are on the host.
    """
    excess = active_counts - cardinalities
    return int(np.maximum(-excess, 0).sum()), int(np.maximum(excess, 0).sum())
