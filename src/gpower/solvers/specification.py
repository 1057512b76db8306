"""What is wished for and how it is looked for, words already turned into objects.

A wish is one of five final classes; each knows its γ, its problem on a matrix, how many starts it is worth, and how a
solution is finished.

============  ==========================================  ============================================
wish          its levels                                  the words of the estimator
============  ==========================================  ============================================
`Penalized`   fractions of the largest useful γ           ``gamma``
`Exact`       numbers of variables                        ``cardinality``
`Calibrated`  numbers of variables for which γ is sought  ``cardinality`` with ``penalty="l1"``
`Bounded`     s of ‖z‖₁ ≤ √s                              ``l1_bound``
`AsGiven`     none                                        ``penalty`` an object, nothing else
============  ==========================================  ============================================

A sixth, `shares.Share`, asks for the fewest variables of another wish.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from gpower._utils.arrays import Array, first_largest, largest, to_host
from gpower.feasible_sets import Point, SampleSet, Stiefel
from gpower.operators.base import Operator
from gpower.penalties.elementary import Cardinality, L1Ball, NonNegative, Penalty
from gpower.problem.deflation import Rule, Schur, without_units
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.calibration import calibrate, cut_or_filled
from gpower.solvers.initialization import Ground, Near, Promising, Start, auto_starts
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.local_search import improve_penalized, polished
from gpower.solvers.refit import AUTOMATIC, Refit, refit
from gpower.solvers.working_set import GROWTH, SMALL, Settings, ascend, is_large

#: Above this cardinality only the best finalist of a race is polished.
POLISH_ALL = 64
#: Starts of a block of exact cardinality where their number is not given.
BLOCK_STARTS = 4
#: Starts of a block by γ on a small matrix.
SMALL_BLOCK_STARTS = 16
#: Ends of different values that a local search begins at.
SEARCHED = 3
#: Turns in which the units of a block are found again, each beside the others, and the relative rise that is none.
BLOCK_TURNS, BLOCK_GAIN = 10, 1e-6
#: Variables of a block that are moved on trial, those of the smallest correlations.
MOST_MOVED = 12
#: Starts of a unit by γ on a small matrix: from the longest column alone 34 of 300 tables with two equal columns,
#: 30 × 8, ended more than 5 % below what 20 starts find.
FEW_STARTS = 64
#: Reads of the matrix that a unit takes, roughly: an ascent from one start; many starts, or many γ.
READS, MANY_READS = 10, 100
#: Forming the covariance of n variables takes the time of about n/GRAM_READS reads of the data with one column.
GRAM_READS = 8
#: Shared rounds read the matrix with all units and some more columns at once; one column of such a block costs this
#: many reads in all, half of the fourteen that are made.
SHARED_READS, SHARED_COLUMNS = 7, 10
#: Columns that units may share, as a share of all, before they are no longer sparse enough for it.
WIDEST = 0.5

CUT_NOTE = (
    "No gamma was found with exactly the wanted number of active variables; the nearest active set was cut to its "
    "largest loadings, or filled with the most correlated variables, and refitted."
)


@dataclass(frozen=True, eq=False)
class Solution:
    """Loadings, (n, m), their objective, the ascent that found them, and the absolute γ, (m,)."""

    Z: Array
    gamma: Array
    value: float
    result: AscentResult
    notes: tuple[str, ...] = ()
    end: Array | None = None


def _best(results: Sequence[AscentResult]) -> AscentResult:
    """The end of the largest value; among equal ones the first."""
    return results[first_largest(np.array([result.value for result in results]))]


def _leading(results: Sequence[AscentResult]) -> list[AscentResult]:
    """Return a few ends of the largest and different values."""
    by_value = {round(result.value / max(results[0].value, 1e-300), 9): result for result in reversed(results)}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:SEARCHED]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Wish(ABC):
    """Which sparsity at which level, for every unit; free of the data.

    Attributes
    ----------
    family : Penalty
        At any level.
    levels : tuple
        One number per unit.
    positive : bool
        Non-negative loadings.
    samples : SampleSet
        Which variance: ‖A z‖₂ on the Stiefel manifold, ‖A z‖₁ in the cube.
    """

    family: Penalty
    levels: tuple[float, ...] = ()
    positive: bool = False
    samples: SampleSet = field(default_factory=Stiefel)

    #: Whether the levels are numbers of variables, so that solutions of one level compare by the variance they explain.
    counts = False
    #: Whether γ is found on the way.
    seeks_gamma = False
    #: Whether a unit must see all columns at once, so that units do not share rounds on some of them.
    sees_all = False

    @property
    def exchangeable(self) -> bool:
        """Whether any variable of a component may be exchanged for any other."""
        return False

    def unit(self, j: int) -> Self:
        """The wish of unit j alone."""
        return replace(self, levels=self.levels[j : j + 1], family=self.family.unit(j))

    def gamma(self, norms: Array, mu: Array) -> Array:
        """Absolute γ per unit, (m,); NaN where there is none."""
        return np.full(len(mu), np.nan)

    @abstractmethod
    def penalty(self, gamma: Array) -> Penalty:
        """The penalty at its level, signs free; γ is absolute and of the type of the data."""

    def penalty_of(self, gamma: Array) -> Penalty:
        """The penalty at its level, signs as wished for."""
        return NonNegative(self.penalty(gamma)) if self.positive else self.penalty(gamma)

    def problem(self, operator: Operator, norms: Array, mu: Array, regularization: float = 0.0) -> Problem:
        """The problem on a matrix whose columns reach these `norms`."""
        penalty = self.penalty_of(self.gamma(norms, mu).astype(operator.dtype))
        return Problem(operator, penalty, mu.astype(operator.dtype), self.samples.on(operator), regularization)

    def is_ordinary(self, n: int) -> bool:
        """Whether nothing is wished for among n variables, so that the problem is ordinary PCA."""
        return self.samples.by_gram and not self.positive and self._lets_all(n)

    def _lets_all(self, n: int) -> bool:
        """Whether every loading of n is free."""
        return False

    def n_starts(self, operator: Operator, block: bool) -> int:
        """How many starts are worth their time where nothing is said."""
        return 1

    def is_costly(self, block: bool) -> bool:
        """Whether a solution from nowhere takes many ascents."""
        return False

    def reads(self) -> int:
        """How often one unit is expected to read the matrix, roughly."""
        return MANY_READS if self.counts else READS

    def solve(self, ground: Ground, gamma: Array, recipe: Recipe) -> Solution:
        """The end of the best ascent, refitted."""
        problem = ground.problem
        starts = [*recipe.starts(ground), *self.further_starts(ground, gamma, recipe)]
        results = [ascend(problem, start, recipe.settings) for start in starts]
        best = _best([self.improve(ground, result, gamma, recipe) for result in _leading(results)])
        Z = refit(problem, best.point, recipe.refit, tol=recipe.settings.tol, max_iter=recipe.settings.max_iter)
        return Solution(Z, gamma, best.value, best, end=problem.loadings(best.point))

    def further_starts(self, ground: Ground, gamma: Array, recipe: Recipe) -> list[Point]:
        """Return starts that only this wish knows."""
        return []

    def improve(self, ground: Ground, result: AscentResult, gamma: Array, recipe: Recipe) -> AscentResult:
        """Search near the end of the best ascent."""
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Penalized(Wish):
    """Sparsity weighed against variance: γ as a fraction of the largest that is useful, free of the data's scale."""

    def gamma(self, norms: Array, mu: Array) -> Array:
        """The fraction of the largest useful γ."""
        return np.asarray(self.levels) * self.family.gamma_max(norms, mu)

    def penalty(self, gamma: Array) -> Penalty:
        """The penalty at γ."""
        return self.family.at_gamma(gamma)

    def n_starts(self, operator: Operator, block: bool) -> int:
        """A few for a block, for one unit as many as fit the work."""
        p, n = operator.shape
        if block:
            return SMALL_BLOCK_STARTS if p * n <= SMALL else BLOCK_STARTS
        return max(FEW_STARTS, auto_starts(operator))

    def improve(self, ground: Ground, result: AscentResult, gamma: Array, recipe: Recipe) -> AscentResult:
        """Add, drop and swap variables; of a block on a small matrix, find each unit again beside the others."""
        if self._searches_units(ground, recipe):
            return self._improve_units(ground, result, gamma, recipe)
        searches = recipe.searches and ground.problem.is_single
        return improve_penalized(ground.problem, result, recipe.settings) if searches else result

    def _searches_units(self, ground: Ground, recipe: Recipe) -> bool:
        """Whether the units of a block are looked for one by one: on a small matrix, unless the start was given."""
        small = not is_large(ground.problem.operator, recipe.settings)
        return recipe.searches and ground.problem.mu.size > 1 and small

    def further_starts(self, ground: Ground, gamma: Array, recipe: Recipe) -> list[Point]:
        """Return the units of a block found one after the other, each in what those before it leave."""
        if not self._searches_units(ground, recipe):
            return []
        problem = ground.problem
        (p, n), m, like = problem.operator.shape, problem.mu.size, problem.operator.column_norms
        point = Point(np.zeros_like(like, shape=(p, m)), np.zeros_like(like, shape=(n, m)))
        for j in range(m):
            found = self._unit_beside(ground, point, j, gamma, recipe)
            point = point if found is None else point.replaced(j, found.point)
        return [problem.feasible_set.point(point.X)]

    def _improve_units(self, ground: Ground, result: AscentResult, gamma: Array, recipe: Recipe) -> AscentResult:
        """Find each unit of a block again, orthogonal to the others as they are, while that raises the objective."""
        problem = ground.problem
        for _ in range(BLOCK_TURNS):
            point = result.point
            for j in range(problem.mu.size):
                found = self._unit_beside(ground, point, j, gamma, recipe)
                value = float(self._unit_penalty(problem, gamma, j).evaluate(point.C[:, [j]])[0][0])
                point = point if found is None or found.value <= value else point.replaced(j, found.point)
            better = ascend(problem, problem.feasible_set.point(point.X), recipe.settings)
            if better.value <= result.value * (1 + BLOCK_GAIN):
                better = self._move_variables(problem, result, recipe.settings)
            if better.value <= result.value * (1 + BLOCK_GAIN):
                break
            result = better
        return result

    def _move_variables(self, problem: Problem, result: AscentResult, settings: Settings) -> AscentResult:
        """Move a variable from a unit of a block to another, or out of it, and ascend; return the first better end."""
        Z, C = to_host(problem.loadings(result.point)), to_host(result.point.C)
        rows, units = np.nonzero(Z)
        order = np.argsort(np.abs(C[rows, units]), kind="stable")[:MOST_MOVED]
        for i, a in zip(rows[order], units[order], strict=True):
            for b in range(Z.shape[1]):
                moved = Z.copy()
                moved[i, a] = 0
                if a != b:
                    moved[i, b] = Z[i, a]
                Y = problem.operator.combine(problem.operator.own(moved))
                better = ascend(problem, problem.feasible_set.point(Y), settings)
                if better.value > result.value * (1 + BLOCK_GAIN):
                    return better
        return result

    def _unit_beside(self, ground: Ground, others: Point, j: int, gamma: Array, recipe: Recipe) -> AscentResult | None:
        """Find unit j of a block in what all but the j-th of some units leave of the matrix; None where it is empty."""
        problem = ground.problem
        left = without_units(problem.operator, others.X, problem.feasible_set.unweighted(others.C), j)
        unit = replace(problem, operator=left, penalty=self._unit_penalty(problem, gamma, j), mu=problem.mu[j : j + 1])
        if largest(left.column_norms) <= left.noise:
            return None
        starts = Promising(FEW_STARTS).points(replace(ground, problem=unit, norms=left.column_norms))
        found = _best([ascend(unit, start, recipe.settings) for start in starts])
        return improve_penalized(unit, found, recipe.settings)

    def _unit_penalty(self, problem: Problem, gamma: Array, j: int) -> Penalty:
        """Return the penalty of unit j alone."""
        return self.unit(j).penalty_of(gamma[j : j + 1].astype(problem.operator.dtype))

    def _lets_all(self, n: int) -> bool:
        return self.family.admissible is None and all(level == 0 for level in self.levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exact(Wish):
    """Exactly so many variables: the constrained problem, many starts, exchanges at the end."""

    family: Penalty = field(default_factory=lambda: Cardinality(np.ones(1, np.intp)))
    counts = True

    @property
    def exchangeable(self) -> bool:
        """As the penalty says."""
        return self.family.exchangeable and self.samples.by_gram

    def penalty(self, gamma: Array) -> Penalty:
        """The penalty of so many variables."""
        return self.family.at_cardinality(np.asarray(self.levels))

    def _lets_all(self, n: int) -> bool:
        return self.family.exchangeable and all(level >= n for level in self.levels)

    def n_starts(self, operator: Operator, block: bool) -> int:
        """A few for a block, for one unit as many as fit the work."""
        return BLOCK_STARTS if block else auto_starts(operator)

    def is_costly(self, block: bool) -> bool:
        """One unit races many starts."""
        return not block

    def solve(self, ground: Ground, gamma: Array, recipe: Recipe) -> Solution:
        """Of one unit the best of all ends, each polished; large supports, where that is dear, the best only."""
        problem = ground.problem
        if not (problem.is_single and problem.penalty.polishable and recipe.refit.powers):
            return super().solve(ground, gamma, recipe)
        results = [ascend(problem, start, recipe.settings) for start in recipe.starts(ground)]
        if problem.penalty.most > POLISH_ALL:
            results = [_best(results)]
        ends = [polished(problem, result, recipe.settings, recipe.polish) for result in results]
        Z, value, result = ends[first_largest(np.array([end[1] for end in ends]))]
        return Solution(Z, gamma, value, result)


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated(Wish):
    """So many variables by way of a penalty, whose γ is sought."""

    counts = seeks_gamma = True

    def gamma(self, norms: Array, mu: Array) -> Array:
        """None yet: zero."""
        return np.zeros(len(mu))

    def penalty(self, gamma: Array) -> Penalty:
        """The penalty at γ."""
        return self.family.at_gamma(gamma)

    def _lets_all(self, n: int) -> bool:
        return self.family.admissible is None and all(level >= n for level in self.levels)

    def is_costly(self, block: bool) -> bool:
        """Every γ that is tried is an ascent."""
        return True

    def solve(self, ground: Ground, gamma: Array, recipe: Recipe) -> Solution:
        """γ by bisection, the rest as for a given γ."""
        problem, wanted = ground.problem, np.asarray(self.levels, int)
        most = problem.penalty.gamma_max(ground.norms, problem.mu)
        found = calibrate(problem, most, wanted, recipe.starts(ground)[0], recipe.settings)
        result, point = found.result, found.result.point
        Z, end = refit(found.problem, point, recipe.refit), found.problem.loadings(point)
        if np.all(found.active == wanted):
            return Solution(Z, found.gamma, result.value, result, end=end)
        how = recipe.refit if recipe.refit.powers else AUTOMATIC
        Z = refit(found.problem, point, how, cut_or_filled(problem.penalty, Z, point.C, wanted))
        return Solution(Z, found.gamma, result.value, result, (CUT_NOTE,), end)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bounded(Wish):
    """Loadings with ‖z‖₁ ≤ √s."""

    family: Penalty = field(default_factory=lambda: L1Ball(1.0))

    def penalty(self, gamma: Array) -> Penalty:
        """The ball of the one unit."""
        return L1Ball(float(self.levels[0]))


@dataclass(frozen=True, kw_only=True, eq=False)
class AsGiven(Wish):
    """A penalty of the user's own, at the level it has; nothing is known of it, so that many starts are made."""

    def n_starts(self, operator: Operator, block: bool) -> int:
        """As many as for an exact cardinality."""
        return BLOCK_STARTS if block else auto_starts(operator)

    def penalty(self, gamma: Array) -> Penalty:
        """As it is."""
        return self.family


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything `GPower` was asked for.

    Attributes
    ----------
    wish : Wish
        What is sparse, and how much.
    mu : tuple of float
        Weights of the units of a block; ones for units found one at a time.
    block : bool
        All units at once.
    n_init : int or None
        Least number of starts; None for as many as the wish is worth.
    start : Start or None
        Where to begin instead of at the most promising columns.
    refit, polish, deflation, regularization
        As in the estimator.
    constraint : Constraint or None
        What components of exact cardinality owe each other.
    settings : Settings
        How to ascend.
    """

    wish: Wish
    mu: tuple[float, ...] = (1.0,)
    block: bool = False
    n_init: int | None = None
    start: Start | None = None
    refit: Refit = AUTOMATIC
    polish: bool = True
    deflation: Rule = field(default_factory=Schur)
    regularization: float = 0.0
    constraint: Constraint | None = None
    settings: Settings = field(default_factory=Settings)

    @property
    def needs_samples(self) -> bool:
        """Whether the covariance of the data does not do."""
        return not self.wish.samples.by_gram or (self.start is not None and self.start.in_samples)

    @property
    def searches(self) -> bool:
        """Whether a local search follows the ascents by gamma: unless it is switched off, or the start was chosen."""
        chosen = self.start is not None and self.start.is_chosen
        return self.polish and not chosen and not self.regularization and self.wish.samples.by_gram

    @property
    def near(self) -> Array | None:
        """Loadings to begin at, (n_features, m), where there are any."""
        return None if self.start is None else self.start.loadings

    def shares(self, operator: Operator) -> bool:
        """Whether all units are looked for in shared rounds: on a matrix that is large, or costly to read."""
        near = self.near is not None and bool(self.near.any(axis=0).all())
        free = self.start is None or (near and not self.wish.seeks_gamma)
        sampled = operator.has_samples or len(self.mu) > 1  # one unit of a covariance is worth all of it
        many = self._is_many or self.wish.n_starts(operator, self.block) > 1
        return free and sampled and many and self._can_share(operator.shape[1]) and is_large(operator, self.settings)

    @property
    def _is_many(self) -> bool:
        """Whether there are many units, or one that takes many ascents."""
        return len(self.mu) > 1 or self.wish.is_costly(self.block)

    def _can_share(self, n: int) -> bool:
        """Whether the units, of n variables, are sparse, found one after the other, and need not see all columns."""
        apart = not self.block and not self.wish.sees_all
        return apart and self.wish.samples.by_gram and not self.wish.is_ordinary(n)

    def reads(self, n: int) -> int:
        """How often this recipe is expected to read a matrix of n variables with one column, roughly."""
        if self._is_many and self._can_share(n) and GROWTH * sum(self.levels) <= WIDEST * n:
            return SHARED_READS * (SHARED_COLUMNS + len(self.mu))
        return self.reads_in_turn()

    def reads_in_turn(self) -> int:
        """The same where the units are found one after the other."""
        return len(self.mu) * self.wish.reads()

    def is_worth_gram(self, n: int, reads: int) -> bool:
        """Whether the covariance of n variables serves as well as the samples, and costs less than so many reads."""
        return n <= GRAM_READS * reads and not self.needs_samples

    @property
    def levels(self) -> list[int]:
        """Numbers of variables, where those are wished for."""
        return [int(level) for level in self.wish.levels] if self.wish.counts else []

    @property
    def is_total(self) -> bool:
        """Whether all components of a block have one objective, the variance that they explain together."""
        return self.block and self.wish.exchangeable and self.polish and len(set(self.mu)) == 1 < len(self.mu)

    @property
    def orders(self) -> bool:
        """Whether no component has a place of its own, by its level, its weight or its start."""
        known = self.wish.family.admissible
        alike = len(set(self.wish.levels)) <= 1 and len(set(self.mu)) == 1 and (known is None or known.alike)
        return alike and (self.start is None or not self.start.in_samples)

    def unit(self, j: int) -> Recipe:
        """The recipe of component j on its own."""
        start = None if self.start is None else self.start.unit(j)
        return replace(self, wish=self.wish.unit(j), mu=(1.0,), start=start)

    def begun_at(self, Z: Array) -> Recipe:
        """The same recipe begun at given loadings, (n_features, m), where they serve."""
        return replace(self, start=Near(Z, self.start))

    def among(self, idx: Array) -> Recipe:
        """The recipe on the columns `idx` alone."""
        wish = replace(self.wish, family=self.wish.family.restrict(idx))
        return replace(self, wish=wish, start=self.start and self.start.among(idx))

    def starts(self, ground: Ground) -> list[Point]:
        """Where to begin: as was said, else at the most promising columns."""
        found = [] if self.start is None else self.start.points(ground)
        block = self.block and len(self.mu) > 1
        count = max(self.n_init or 0, self.wish.n_starts(ground.problem.operator, block))
        return found or Promising(count).points(ground)
