"""What is wished for and how it is looked for, words already turned into objects.

A wish is one of five final classes; each knows its γ, its problem on a matrix, how many starts it is worth, and how a
solution is finished.

============  ==========================================  ============================================
wish          its levels                                  the words of the estimator
============  ==========================================  ============================================
`PenaltyLevel`   fractions of the largest useful γ           ``gamma``
`ExactCardinality`       numbers of variables                        ``cardinality``
`CalibratedPenalty`  numbers of variables for which γ is sought  ``cardinality`` with ``penalty="l1"``
`L1BoundSpec`     s of ‖z‖₁ ≤ √s                              ``l1_bound``
`CustomPenalty`     none                                        ``penalty`` an object, nothing else
============  ==========================================  ============================================

A sixth, `shares.Share`, asks for the fewest variables of another wish.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from gpower._utils.arrays import Array, max_or_zero, stable_argmax, to_host
from gpower.feasible_sets import Point, SampleSet, Stiefel
from gpower.operators.base import Operator
from gpower.penalties.elementary import Cardinality, L1Ball, NonNegative, Penalty
from gpower.problem.deflation import DeflationRule, SchurDeflation, deflate_other_units
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.calibration import calibrate_gamma, resize_support
from gpower.solvers.initialization import ColumnStarts, Start, StartContext, WarmStart, choose_auto_n_starts
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.local_search import improve_penalized, refit_and_swap
from gpower.solvers.refit import AUTO_REFIT, RefitSpec, refit_loadings
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MAX_DIRECT_ENTRIES, AscentSettings, ascend, is_large_matrix

#: Above this cardinality only the best finalist of a race is polished.
MAX_SUPPORT_TO_POLISH_ALL = 64
#: Starts of a block of exact cardinality where their number is not given.
N_BLOCK_STARTS = 4
#: Starts of a block by γ on a small matrix.
N_SMALL_BLOCK_STARTS = 16
#: Ends of different values that a local search begins at.
MAX_SEARCHED_RESULTS = 3
#: Turns in which the units of a block are found again, each beside the others, and the relative rise that is none.
MAX_BLOCK_ROUNDS, MIN_BLOCK_GAIN = 10, 1e-6
#: Variables of a block that are moved on trial, those of the smallest correlations.
MAX_MOVED_VARIABLES = 12
#: Starts of a unit by γ on a small matrix: from the longest column alone 34 of 300 tables with two equal columns,
#: 30 × 8, ended more than 5 % below what 20 starts find.
MIN_UNIT_STARTS = 64
#: Reads of the matrix that a unit takes, roughly: an ascent from one start; many starts, or many γ.
PASSES_PER_UNIT, PASSES_PER_COSTLY_UNIT = 10, 100
#: Forming the covariance of n variables takes the time of about n/GRAM_READS reads of the data with one column.
GRAM_COLUMNS_PER_PASS = 8
#: Shared rounds read the matrix with all units and some more columns at once; one column of such a block costs this
#: many reads in all, half of the fourteen that are made.
PASSES_PER_SHARED_COLUMN, N_EXTRA_SHARED_COLUMNS = 7, 10
#: Columns that units may share, as a share of all, before they are no longer sparse enough for it.
MAX_SHARED_COLUMN_SHARE = 0.5

RESIZED_SUPPORT_NOTE = (
    "No gamma was found with exactly the wanted number of active variables; the nearest active set was cut to its "
    "largest loadings, or filled with the most correlated variables, and refitted."
)


@dataclass(frozen=True, eq=False)
class AscentSolution:
    """Loadings, (n, m), their objective, the ascent that found them, and the absolute γ, (m,)."""

    Z: Array
    gamma: Array
    value: float
    ascent: AscentResult
    notes: tuple[str, ...] = ()
    ascent_loadings: Array | None = None


def _select_best_result(results: Sequence[AscentResult]) -> AscentResult:
    """The end of the largest value; among equal ones the first."""
    return results[stable_argmax(np.array([result.value for result in results]))]


def _select_distinct_results(results: Sequence[AscentResult]) -> list[AscentResult]:
    """Return a few ends of the largest and different values."""
    by_value = {round(result.value / max(results[0].value, 1e-300), 9): result for result in reversed(results)}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:MAX_SEARCHED_RESULTS]]


@dataclass(frozen=True, kw_only=True, eq=False)
class SparsitySpec(ABC):
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

    penalty_family: Penalty
    levels: tuple[float, ...] = ()
    positive: bool = False
    sample_set: SampleSet = field(default_factory=Stiefel)

    #: Whether the levels are numbers of variables, so that solutions of one level compare by the variance they explain.
    has_cardinality_levels = False
    #: Whether γ is found on the way.
    should_calibrate_gamma = False
    #: Whether a unit must see all columns at once, so that units do not share rounds on some of them.
    needs_all_columns = False

    @property
    def has_exchangeable_variables(self) -> bool:
        """Whether any variable of a component may be exchanged for any other."""
        return False

    def select_unit(self, j: int) -> Self:
        """The wish of unit j alone."""
        return replace(self, levels=self.levels[j : j + 1], penalty_family=self.penalty_family.select_unit(j))

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """Absolute γ per unit, (m,); NaN where there is none."""
        return np.full(len(mu), np.nan)

    @abstractmethod
    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """The penalty at its level, signs free; γ is absolute and of the type of the data."""

    def make_penalty(self, gamma: Array) -> Penalty:
        """The penalty at its level, signs as wished for."""
        return NonNegative(self.make_free_sign_penalty(gamma)) if self.positive else self.make_free_sign_penalty(gamma)

    def make_problem(self, operator: Operator, norms: Array, mu: Array, regularization: float = 0.0) -> Problem:
        """The problem on a matrix whose columns reach these `norms`."""
        penalty = self.make_penalty(self.compute_gamma(norms, mu).astype(operator.dtype))
        return Problem(operator, penalty, mu.astype(operator.dtype), self.sample_set.adapt_to(operator), regularization)

    def is_ordinary_pca(self, n_features: int) -> bool:
        """Whether nothing is wished for among n variables, so that the problem is ordinary PCA."""
        return self.sample_set.needs_only_gram and not self.positive and self._allows_all_variables(n_features)

    def _allows_all_variables(self, n_features: int) -> bool:
        """Whether every loading of n is free."""
        return False

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """How many starts are worth their time where nothing is said."""
        return 1

    def is_costly(self, is_block: bool) -> bool:
        """Whether a solution from nowhere takes many ascents."""
        return False

    def estimate_unit_passes(self) -> int:
        """How often one unit is expected to read the matrix, roughly."""
        return PASSES_PER_COSTLY_UNIT if self.has_cardinality_levels else PASSES_PER_UNIT

    def solve(self, context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
        """The end of the best ascent, refitted."""
        problem = context.problem
        starts = [*spec.choose_starts(context), *self.find_extra_starts(context, gamma, spec)]
        results = [ascend(problem, start, spec.settings) for start in starts]
        best = _select_best_result(
            [self.improve_result(context, result, gamma, spec) for result in _select_distinct_results(results)]
        )
        Z = refit_loadings(problem, best.point, spec.refit, tol=spec.settings.tol, max_iter=spec.settings.max_iter)
        return AscentSolution(Z, gamma, best.value, best, ascent_loadings=problem.compute_loadings(best.point))

    def find_extra_starts(self, context: StartContext, gamma: Array, spec: FitSpec) -> list[Point]:
        """Return starts that only this wish knows."""
        return []

    def improve_result(self, context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
        """Search near the end of the best ascent."""
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class PenaltyLevel(SparsitySpec):
    """Sparsity weighed against variance: γ as a fraction of the largest that is useful, free of the data's scale."""

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """The fraction of the largest useful γ."""
        return np.asarray(self.levels) * self.penalty_family.gamma_max(norms, mu)

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """The penalty at γ."""
        return self.penalty_family.at_gamma(gamma)

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """A few for a block, for one unit as many as fit the work."""
        p, n = operator.shape
        if is_block:
            return N_SMALL_BLOCK_STARTS if p * n <= MAX_DIRECT_ENTRIES else N_BLOCK_STARTS
        return max(MIN_UNIT_STARTS, choose_auto_n_starts(operator))

    def improve_result(self, context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
        """Add, drop and swap variables; of a block on a small matrix, find each unit again beside the others."""
        if self._should_search_units(context, spec):
            return self._improve_units(context, result, gamma, spec)
        searches = spec.should_search_locally and context.problem.is_single_l2_unit
        return improve_penalized(context.problem, result, spec.settings) if searches else result

    def _should_search_units(self, context: StartContext, spec: FitSpec) -> bool:
        """Whether the units of a block are looked for one by one: on a small matrix, unless the start was given."""
        small = not is_large_matrix(context.problem.operator, spec.settings)
        return spec.should_search_locally and context.problem.mu.size > 1 and small

    def find_extra_starts(self, context: StartContext, gamma: Array, spec: FitSpec) -> list[Point]:
        """Return the units of a block found one after the other, each in what those before it leave."""
        if not self._should_search_units(context, spec):
            return []
        problem = context.problem
        (p, n), m, like = problem.operator.shape, problem.mu.size, problem.operator.column_norms
        point = Point(np.zeros_like(like, shape=(p, m)), np.zeros_like(like, shape=(n, m)))
        for j in range(m):
            found = self._solve_unit_given_others(context, point, j, gamma, spec)
            point = point if found is None else point.replace_unit(j, found.point)
        return [problem.feasible_set.make_point(point.X)]

    def _improve_units(self, context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
        """Find each unit of a block again, orthogonal to the others as they are, while that raises the objective."""
        problem = context.problem
        for _ in range(MAX_BLOCK_ROUNDS):
            point = result.point
            for j in range(problem.mu.size):
                found = self._solve_unit_given_others(context, point, j, gamma, spec)
                value = float(self._make_unit_penalty(problem, gamma, j).evaluate(point.C[:, [j]])[0][0])
                point = point if found is None or found.value <= value else point.replace_unit(j, found.point)
            better = ascend(problem, problem.feasible_set.make_point(point.X), spec.settings)
            if better.value <= result.value * (1 + MIN_BLOCK_GAIN):
                better = self._move_variables(problem, result, spec.settings)
            if better.value <= result.value * (1 + MIN_BLOCK_GAIN):
                break
            result = better
        return result

    def _move_variables(self, problem: Problem, result: AscentResult, settings: AscentSettings) -> AscentResult:
        """Move a variable from a unit of a block to another, or out of it, and ascend; return the first better end."""
        Z, C = to_host(problem.compute_loadings(result.point)), to_host(result.point.C)
        rows, units = np.nonzero(Z)
        order = np.argsort(np.abs(C[rows, units]), kind="stable")[:MAX_MOVED_VARIABLES]
        for i, a in zip(rows[order], units[order], strict=True):
            for b in range(Z.shape[1]):
                moved = Z.copy()
                moved[i, a] = 0
                if a != b:
                    moved[i, b] = Z[i, a]
                Y = problem.operator.combine(problem.operator.to_backend(moved))
                better = ascend(problem, problem.feasible_set.make_point(Y), settings)
                if better.value > result.value * (1 + MIN_BLOCK_GAIN):
                    return better
        return result

    def _solve_unit_given_others(
        self, context: StartContext, others: Point, j: int, gamma: Array, spec: FitSpec
    ) -> AscentResult | None:
        """Find unit j of a block in what all but the j-th of some units leave of the matrix; None where it is empty."""
        problem = context.problem
        left = deflate_other_units(problem.operator, others.X, problem.feasible_set.remove_weights(others.C), j)
        unit = replace(
            problem, operator=left, penalty=self._make_unit_penalty(problem, gamma, j), mu=problem.mu[j : j + 1]
        )
        if max_or_zero(left.column_norms) <= left.norm_tolerance:
            return None
        starts = ColumnStarts(MIN_UNIT_STARTS).choose_points(replace(context, problem=unit, norms=left.column_norms))
        found = _select_best_result([ascend(unit, start, spec.settings) for start in starts])
        return improve_penalized(unit, found, spec.settings)

    def _make_unit_penalty(self, problem: Problem, gamma: Array, j: int) -> Penalty:
        """Return the penalty of unit j alone."""
        return self.select_unit(j).make_penalty(gamma[j : j + 1].astype(problem.operator.dtype))

    def _allows_all_variables(self, n_features: int) -> bool:
        return self.penalty_family.support_rules is None and all(level == 0 for level in self.levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactCardinality(SparsitySpec):
    """Exactly so many variables: the constrained problem, many starts, exchanges at the end."""

    penalty_family: Penalty = field(default_factory=lambda: Cardinality(np.ones(1, np.intp)))
    has_cardinality_levels = True

    @property
    def has_exchangeable_variables(self) -> bool:
        """As the penalty says."""
        return self.penalty_family.has_exchangeable_variables and self.sample_set.needs_only_gram

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """The penalty of so many variables."""
        return self.penalty_family.at_cardinality(np.asarray(self.levels))

    def _allows_all_variables(self, n_features: int) -> bool:
        return self.penalty_family.has_exchangeable_variables and all(level >= n_features for level in self.levels)

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """A few for a block, for one unit as many as fit the work."""
        return N_BLOCK_STARTS if is_block else choose_auto_n_starts(operator)

    def is_costly(self, is_block: bool) -> bool:
        """One unit races many starts."""
        return not is_block

    def solve(self, context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
        """Of one unit the best of all ends, each polished; large supports, where that is dear, the best only."""
        problem = context.problem
        if not (problem.is_single_l2_unit and problem.penalty.supports_local_search and spec.refit.powers):
            return super().solve(context, gamma, spec)
        results = [ascend(problem, start, spec.settings) for start in spec.choose_starts(context)]
        if problem.penalty.max_cardinality > MAX_SUPPORT_TO_POLISH_ALL:
            results = [_select_best_result(results)]
        ends = [refit_and_swap(problem, result, spec.settings, spec.local_search) for result in results]
        Z, value, result = ends[stable_argmax(np.array([end[1] for end in ends]))]
        return AscentSolution(Z, gamma, value, result)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedPenalty(SparsitySpec):
    """So many variables by way of a penalty, whose γ is sought."""

    has_cardinality_levels = should_calibrate_gamma = True

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """None yet: zero."""
        return np.zeros(len(mu))

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """The penalty at γ."""
        return self.penalty_family.at_gamma(gamma)

    def _allows_all_variables(self, n_features: int) -> bool:
        return self.penalty_family.support_rules is None and all(level >= n_features for level in self.levels)

    def is_costly(self, is_block: bool) -> bool:
        """Every γ that is tried is an ascent."""
        return True

    def solve(self, context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
        """γ by bisection, the rest as for a given γ."""
        problem, wanted = context.problem, np.asarray(self.levels, int)
        most = problem.penalty.gamma_max(context.norms, problem.mu)
        found = calibrate_gamma(problem, most, wanted, spec.choose_starts(context)[0], spec.settings)
        result, point = found.result, found.result.point
        Z, end = refit_loadings(found.problem, point, spec.refit), found.problem.compute_loadings(point)
        if np.all(found.active_counts == wanted):
            return AscentSolution(Z, found.gamma, result.value, result, ascent_loadings=end)
        how = spec.refit if spec.refit.powers else AUTO_REFIT
        Z = refit_loadings(found.problem, point, how, resize_support(problem.penalty, Z, point.C, wanted))
        return AscentSolution(Z, found.gamma, result.value, result, (RESIZED_SUPPORT_NOTE,), end)


@dataclass(frozen=True, kw_only=True, eq=False)
class L1BoundSpec(SparsitySpec):
    """Loadings with ‖z‖₁ ≤ √s."""

    penalty_family: Penalty = field(default_factory=lambda: L1Ball(1.0))

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """The ball of the one unit."""
        return L1Ball(float(self.levels[0]))


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomPenalty(SparsitySpec):
    """A penalty of the user's own, at the level it has; nothing is known of it, so that many starts are made."""

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """As many as for an exact cardinality."""
        return N_BLOCK_STARTS if is_block else choose_auto_n_starts(operator)

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """As it is."""
        return self.penalty_family


@dataclass(frozen=True, eq=False)
class FitSpec:
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

    sparsity: SparsitySpec
    mu: tuple[float, ...] = (1.0,)
    is_block: bool = False
    n_init: int | None = None
    start: Start | None = None
    refit: RefitSpec = AUTO_REFIT
    local_search: bool = True
    deflation: DeflationRule = field(default_factory=SchurDeflation)
    regularization: float = 0.0
    constraint: Constraint | None = None
    settings: AscentSettings = field(default_factory=AscentSettings)

    @property
    def needs_samples(self) -> bool:
        """Whether the covariance of the data does not do."""
        return not self.sparsity.sample_set.needs_only_gram or (
            self.start is not None and self.start.is_in_sample_space
        )

    @property
    def should_search_locally(self) -> bool:
        """Whether a local search follows the ascents by gamma: unless it is switched off, or the start was chosen."""
        chosen = self.start is not None and self.start.is_user_chosen
        return self.local_search and not chosen and not self.regularization and self.sparsity.sample_set.needs_only_gram

    @property
    def start_loadings(self) -> Array | None:
        """Loadings to begin at, (n_features, m), where there are any."""
        return None if self.start is None else self.start.loadings

    def should_share_rounds(self, operator: Operator) -> bool:
        """Whether all units are looked for in shared rounds: on a matrix that is large, or costly to read."""
        near = self.start_loadings is not None and bool(self.start_loadings.any(axis=0).all())
        free = self.start is None or (near and not self.sparsity.should_calibrate_gamma)
        sampled = operator.has_samples or len(self.mu) > 1  # one unit of a covariance is worth all of it
        many = self._needs_many_ascents or self.sparsity.choose_n_starts(operator, self.is_block) > 1
        return (
            free
            and sampled
            and many
            and self._can_share_rounds(operator.shape[1])
            and is_large_matrix(operator, self.settings)
        )

    @property
    def _needs_many_ascents(self) -> bool:
        """Whether there are many units, or one that takes many ascents."""
        return len(self.mu) > 1 or self.sparsity.is_costly(self.is_block)

    def _can_share_rounds(self, n_features: int) -> bool:
        """Whether the units, of n variables, are sparse, found one after the other, and need not see all columns."""
        apart = not self.is_block and not self.sparsity.needs_all_columns
        return apart and self.sparsity.sample_set.needs_only_gram and not self.sparsity.is_ordinary_pca(n_features)

    def estimate_passes(self, n_features: int) -> int:
        """How often this recipe is expected to read a matrix of n variables with one column, roughly."""
        if (
            self._needs_many_ascents
            and self._can_share_rounds(n_features)
            and COLUMNS_PER_ACTIVE * sum(self.cardinalities) <= MAX_SHARED_COLUMN_SHARE * n_features
        ):
            return PASSES_PER_SHARED_COLUMN * (N_EXTRA_SHARED_COLUMNS + len(self.mu))
        return self.estimate_sequential_passes()

    def estimate_sequential_passes(self) -> int:
        """The same where the units are found one after the other."""
        return len(self.mu) * self.sparsity.estimate_unit_passes()

    def should_form_gram(self, n_features: int, n_passes: int) -> bool:
        """Whether the covariance of n variables serves as well as the samples, and costs less than so many reads."""
        return n_features <= GRAM_COLUMNS_PER_PASS * n_passes and not self.needs_samples

    @property
    def cardinalities(self) -> list[int]:
        """Numbers of variables, where those are wished for."""
        return [int(level) for level in self.sparsity.levels] if self.sparsity.has_cardinality_levels else []

    @property
    def should_maximize_total_variance(self) -> bool:
        """Whether all components of a block have one objective, the variance that they explain together."""
        return (
            self.is_block
            and self.sparsity.has_exchangeable_variables
            and self.local_search
            and len(set(self.mu)) == 1 < len(self.mu)
        )

    @property
    def should_sort_components(self) -> bool:
        """Whether no component has a place of its own, by its level, its weight or its start."""
        known = self.sparsity.penalty_family.support_rules
        alike = (
            len(set(self.sparsity.levels)) <= 1
            and len(set(self.mu)) == 1
            and (known is None or known.is_shared_by_units)
        )
        return alike and (self.start is None or not self.start.is_in_sample_space)

    def select_unit(self, j: int) -> FitSpec:
        """The recipe of component j on its own."""
        start = None if self.start is None else self.start.select_unit(j)
        return replace(self, sparsity=self.sparsity.select_unit(j), mu=(1.0,), start=start)

    def with_start_loadings(self, Z: Array) -> FitSpec:
        """The same recipe begun at given loadings, (n_features, m), where they serve."""
        return replace(self, start=WarmStart(Z, self.start))

    def restrict(self, idx: Array) -> FitSpec:
        """The recipe on the columns `idx` alone."""
        wish = replace(self.sparsity, penalty_family=self.sparsity.penalty_family.restrict(idx))
        return replace(self, sparsity=wish, start=self.start and self.start.restrict(idx))

    def choose_starts(self, context: StartContext) -> list[Point]:
        """Where to begin: as was said, else at the most promising columns."""
        found = [] if self.start is None else self.start.choose_points(context)
        block = self.is_block and len(self.mu) > 1
        count = max(self.n_init or 0, self.sparsity.choose_n_starts(context.problem.operator, block))
        return found or ColumnStarts(count).choose_points(context)
