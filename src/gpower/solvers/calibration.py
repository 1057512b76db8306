"""γ for a wanted number of active variables: warm-started bisection, every unit with a bracket of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array
from gpower.feasible_sets import Point
from gpower.penalties.elementary import Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.working_set import AscentSettings, ascend

#: Bisections before giving up on an active set that jumps over the wanted number, and the relative width of a bracket
#: within which γ no longer tells values from rounding.
MAX_BISECTIONS, MIN_RELATIVE_BRACKET = 48, 1e-9


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """The problem at some γ, its solution, and how many variables of each unit are active there."""

    problem: Problem
    gamma: Array
    result: AscentResult

    @property
    def active_counts(self) -> Array:
        """Number of active variables per unit, (m,), or of their groups."""
        return self.problem.penalty.count_selected(self.problem.compute_loadings(self.result.point) != 0)


def calibrate_gamma(
    problem: Problem, gamma_max: Array, cardinalities: Array, start: Point, settings: AscentSettings
) -> CalibrationResult:
    """Find γ in [0, largest) with exactly `wanted` active variables per unit.

    Where the active set jumps over the wanted number, the smallest set above it is returned, or where the units of a
    block hold each other back the set that is least short; the caller cuts or fills it.

    Parameters
    ----------
    problem : Problem
        At any γ.
    largest, wanted : ndarray of shape (m,)
        Largest useful γ, and the number of active variables asked for.
    start : Point
        First start; later ones are the previous solutions.
    settings : Settings
    """
    low, high = np.zeros_like(gamma_max), gamma_max.copy()
    gamma, here = 0.5 * gamma_max, start
    best: CalibrationResult | None = None
    for _ in range(MAX_BISECTIONS):
        tried = _solve_at_gamma(set_problem_gamma(problem, gamma), gamma, here, start, settings)
        here, active = tried.result.point, tried.active_counts
        if best is None or _count_missing_and_excess(active, cardinalities) < _count_missing_and_excess(
            best.active_counts, cardinalities
        ):
            best = tried
        if np.all(active == cardinalities):
            break
        low, high = np.where(active > cardinalities, gamma, low), np.where(active < cardinalities, gamma, high)
        if np.all((active == cardinalities) | (high - low <= MIN_RELATIVE_BRACKET * gamma_max)):
            break
        gamma = np.where(active == cardinalities, gamma, 0.5 * (low + high))
    assert best is not None
    return best


def set_problem_gamma(problem: Problem, gamma: Array) -> Problem:
    """The problem at absolute γ, (m,)."""
    return replace(problem, penalty=problem.penalty.at_gamma(gamma.astype(problem.operator.dtype)))


def resize_support(penalty: Penalty, Z: Array, C: Array, cardinalities: Array) -> Array:
    """Pattern of the wanted number of variables per unit: the largest loadings first, then the largest correlations."""
    correlations = np.abs(C)
    scores = np.where(Z != 0, np.max(correlations, axis=0) * (1 + np.abs(Z)), correlations)
    return penalty.select_pattern(scores, cardinalities)


def _count_missing_and_excess(active_counts: Array, cardinalities: Array) -> tuple[int, int]:
    """Variables short of the wanted number, which weigh more, and variables above it."""
    return int(np.maximum(cardinalities - active_counts, 0).sum()), int(
        np.maximum(active_counts - cardinalities, 0).sum()
    )


def _solve_at_gamma(
    problem: Problem, gamma: Array, previous: Point, start: Point, settings: AscentSettings
) -> CalibrationResult:
    """Ascend from the last solution, or from the first start where that has nothing active any more."""
    values, _ = problem.penalty.evaluate(previous.C)
    return CalibrationResult(problem, gamma, ascend(problem, previous if np.all(values > 0) else start, settings))
