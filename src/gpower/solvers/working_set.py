"""Rounds: one product with the whole matrix, then an ascent on the few columns that matter.

A solution uses a few columns, so a round finds out which and iterates on those alone:

1. the correlations C of the whole problem give its objective and its active columns;
2. W is the columns of largest relevance, half as many again as are active, all active ones among them;
3. the ascent runs on A_W, gathered once, and ends at X; the next round begins at C = AᵀX.

Monotone: W holds every active column, so f_W = f at the start of a round; the inner ascent raises f_W;
and f ≥ f_W everywhere. The first inner step is the step of the whole problem, whose gradient lives on W, so a
round gains at least Δ(X) of the whole problem: when its objective stops growing, the point is first-order optimal.
Where an inner ascent came to rest and the next product shows nothing active outside W, that is known without another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, take_rows, to_host
from gpower.feasible_sets import CorrelationSet, CorrelationStart, FeasibleSet, Point
from gpower.operators.base import Operator
from gpower.penalties.elementary import Penalty, find_largest_rows
from gpower.problem.formulation import PenaltyObjective, Problem
from gpower.solvers.ascent import AscentResult, AscentState, Callback, maximize

#: Matrices of up to this many entries are ascended directly: there the rounds' overhead is the whole time.
MAX_DIRECT_ENTRIES = 250_000
#: Columns in W per active column, and its least size.
COLUMNS_PER_ACTIVE, MIN_WORKING_SET = 1.5, 32
#: When W would be more than this share of the matrix, the ascent runs on the whole matrix: a large matrix for the sake
#: of memory, one of up to MEDIUM entries where gathering would cost more than it saves.
MAX_WORKING_SET_SHARE, MAX_MEDIUM_WORKING_SET_SHARE, MAX_MEDIUM_ENTRIES = 0.15, 0.4, 4_000_000
#: The inner ascent is this much more precise than the rounds.
INNER_TOL_FACTOR = 0.3
#: It is cut short after so many steps if it has raised the objective by this factor: other columns matter by then.
MIN_INNER_STEPS, MAX_INNER_RISE_FACTOR = 8, 1.2


@dataclass(frozen=True)
class AscentSettings:
    """How to ascend: `tol`, `max_iter`, `acceleration`, `callback` of the estimator, and whether by rounds.

    `rounds` is None where the size of the matrix decides.
    """

    use_working_set: bool | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    acceleration: bool = True
    callback: Callback | None = None


@dataclass(frozen=True, eq=False)
class ConvergedPoint(Point):
    """The end of an ascent on the columns `settled`, for a `problem`, which stopped there by itself."""

    columns: Array
    problem: Problem

    def is_converged_for(self, problem: Problem, T: Array) -> bool:
        """Whether nothing is active outside its columns, for this very problem: another penalty has other ends."""
        return self.problem is problem and bool(np.count_nonzero(take_rows(T, self.columns)) == np.count_nonzero(T))


@dataclass(frozen=True, eq=False)
class WorkingSetSolver(FeasibleSet):
    """The data's set with a better step: instead of one linear maximisation, an ascent on a working set."""

    problem: Problem
    settings: AscentSettings

    @property
    def full_set(self) -> CorrelationSet:
        """The data's own set."""
        return self.problem.feasible_set

    @property
    def passes(self) -> float:
        """Reads of the matrix so far."""
        return self.full_set.passes

    @property
    def objective_tolerance(self) -> float:
        """As of the data's set."""
        return self.full_set.objective_tolerance

    def argmax_linear(self, g: Array) -> Point:
        """As on the data's set."""
        return self.full_set.argmax_linear(g)

    def step(self, g: Array, x: CorrelationStart | Point) -> Point:
        """The end of an ascent on the working set, as a point of the whole problem.

        Where such an ascent ended at this very point, and the whole product shows nothing active outside its columns,
        another would end here too: its last step was one of the whole problem and raised f by no more than tol.
        """
        if isinstance(x, ConvergedPoint) and x.is_converged_for(self.problem, g):
            return x
        problem, (p, n) = self.problem, self.problem.operator.shape
        W = select_working_set(problem.penalty, x.C, g)
        share = MAX_MEDIUM_WORKING_SET_SHARE if p * n <= MAX_MEDIUM_ENTRIES else MAX_WORKING_SET_SHARE
        if W.size > min(share * n, max(MIN_WORKING_SET, problem.operator.container.max_gram_columns)):
            end = self._ascend_inner(problem.penalty, self.full_set, self.full_set.argmax_linear(g))
            return self._mark_converged(end.point, end, np.arange(n))
        restriction = problem.operator.restrict(W)
        inner_set = CorrelationSet(restriction.operator, problem.mu, problem.sample_set)
        start = CorrelationStart(restriction.operator.to_backend(take_rows(x.C, W)))
        end = self._ascend_inner(problem.penalty.restrict(W), inner_set, start)
        return self._mark_converged(self.full_set.make_point(restriction.lift(end.point.X)), end, W)

    def _mark_converged(self, point: Point, result: AscentResult, columns: Array) -> Point:
        """A point where an ascent on some columns came to rest, marked as such."""
        return ConvergedPoint(point.X, point.C, columns, self.problem) if result.converged else point

    def _ascend_inner(
        self, penalty: Penalty, feasible_set: FeasibleSet, start: CorrelationStart | Point
    ) -> AscentResult:
        return maximize(
            PenaltyObjective(penalty),
            feasible_set,
            start,
            tol=self.settings.tol * INNER_TOL_FACTOR,
            max_iter=self.settings.max_iter,
            acceleration=self.settings.acceleration,
            callback=_has_moved_far,
        )

    def pairing(self, g: Array, x: Point) -> float:
        """⟨g, x⟩ in the whole problem."""
        return self.full_set.pairing(g, x)

    def support_value(self, g: Array) -> float:
        """max ⟨g, y⟩ over the data's whole set."""
        return self.full_set.support_value(g)


def _has_moved_far(state: AscentState) -> bool:
    """Whether an inner ascent has left the region that its columns were chosen for."""
    return state.n_iter >= MIN_INNER_STEPS and state.value > MAX_INNER_RISE_FACTOR * state.start_value


def select_working_set(
    penalty: Penalty, C: Array, T: Array, min_size: int | None = None, max_size: int | None = None
) -> Array:
    """Sorted indices of the columns to ascend on: all active ones, where T ≠ 0, and half as many again; some at least.

    One unit orders its columns by |C| alone where the threshold is the same for all; a block by relevance.
    """
    n, m = C.shape
    if m == 1 and penalty.has_uniform_threshold:
        active = T[:, 0] != 0
        score = np.where(active, np.inf, np.abs(C[:, 0]))
    else:
        score = penalty.activity_ratio(C, T).max(axis=1)
        active = score > 1
    size = min(int(COLUMNS_PER_ACTIVE * int(np.count_nonzero(active))), n if max_size is None else max_size)
    size = max(MIN_WORKING_SET if min_size is None else min_size, size)
    if size >= n:
        return np.arange(n)
    return np.sort(to_host(find_largest_rows(score[:, None], size)[:, 0]))


def is_large_matrix(operator: Operator, settings: AscentSettings) -> bool:
    """Whether a matrix is worth rounds, where nothing is said."""
    p, n = operator.shape
    return p * n > MAX_DIRECT_ENTRIES if settings.use_working_set is None else settings.use_working_set


def should_use_working_set(problem: Problem, settings: AscentSettings) -> bool:
    """Whether the rounds solve this problem, by default when the matrix is not small.

    A regularised objective needs the samples of every iterate, and the cube has no Gram matrix to ascend on:
    both are ascended directly.
    """
    return (
        not problem.regularization
        and problem.sample_set.needs_only_gram
        and is_large_matrix(problem.operator, settings)
    )


def ascend(problem: Problem, start: CorrelationStart | Point, settings: AscentSettings) -> AscentResult:
    """Solve a problem from a start, by rounds or by the ascent on the whole matrix."""
    rounds = should_use_working_set(problem, settings)
    return maximize(
        problem.objective,
        WorkingSetSolver(problem, settings) if rounds else problem.feasible_set,
        start,
        tol=settings.tol,
        max_iter=settings.max_iter,
        acceleration=settings.acceleration and not rounds,
        callback=settings.callback,
    )
