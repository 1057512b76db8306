"""γ for a wanted number of active variables: warm-started bisection, every unit with a bracket of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array
from gpower.feasible_sets import Point
from gpower.penalties.elementary import Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.working_set import Settings, ascend

#: Bisections before giving up on an active set that jumps over the wanted number, and the relative width of a bracket
#: within which γ no longer tells values from rounding.
MAX_BISECTIONS, NARROW = 48, 1e-9


@dataclass(frozen=True, eq=False)
class Level:
    """The problem at some γ, its solution, and how many variables of each unit are active there."""

    problem: Problem
    gamma: Array
    result: AscentResult

    @property
    def active(self) -> Array:
        """Number of active variables per unit, (m,), or of their groups."""
        return self.problem.penalty.count(self.problem.loadings(self.result.point) != 0)


def calibrate(problem: Problem, largest: Array, wanted: Array, start: Point, settings: Settings) -> Level:
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
    low, high = np.zeros_like(largest), largest.copy()
    gamma, here = 0.5 * largest, start
    best: Level | None = None
    for _ in range(MAX_BISECTIONS):
        tried = _solve(at_gamma(problem, gamma), gamma, here, start, settings)
        here, active = tried.result.point, tried.active
        if best is None or _miss(active, wanted) < _miss(best.active, wanted):
            best = tried
        if np.all(active == wanted):
            break
        low, high = np.where(active > wanted, gamma, low), np.where(active < wanted, gamma, high)
        if np.all((active == wanted) | (high - low <= NARROW * largest)):
            break
        gamma = np.where(active == wanted, gamma, 0.5 * (low + high))
    assert best is not None
    return best


def at_gamma(problem: Problem, gamma: Array) -> Problem:
    """The problem at absolute γ, (m,)."""
    return replace(problem, penalty=problem.penalty.at_gamma(gamma.astype(problem.operator.dtype)))


def cut_or_filled(penalty: Penalty, Z: Array, C: Array, wanted: Array) -> Array:
    """Pattern of the wanted number of variables per unit: the largest loadings first, then the largest correlations."""
    correlations = np.abs(C)
    scores = np.where(Z != 0, np.max(correlations, axis=0) * (1 + np.abs(Z)), correlations)
    return penalty.pattern_of(scores, wanted)


def _miss(active: Array, wanted: Array) -> tuple[int, int]:
    """Variables short of the wanted number, which weigh more, and variables above it."""
    return int(np.maximum(wanted - active, 0).sum()), int(np.maximum(active - wanted, 0).sum())


def _solve(problem: Problem, gamma: Array, here: Point, start: Point, settings: Settings) -> Level:
    """Ascend from the last solution, or from the first start where that has nothing active any more."""
    values, _ = problem.penalty.evaluate(here.C)
    return Level(problem, gamma, ascend(problem, here if np.all(values > 0) else start, settings))
