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

from gpower._utils.arrays import Array, rows_of, to_host
from gpower.feasible_sets import Correlations, CorrelationSet, FeasibleSet, Point
from gpower.operators.base import Operator
from gpower.penalties.elementary import Penalty, top
from gpower.problem.formulation import OnCorrelations, Problem
from gpower.solvers.ascent import AscentResult, AscentState, Callback, maximize

#: Matrices of up to this many entries are ascended directly: there the rounds' overhead is the whole time.
SMALL = 250_000
#: Columns in W per active column, and its least size.
GROWTH, LEAST = 1.5, 32
#: When W would be more than this share of the matrix, the ascent runs on the whole matrix: a large matrix for the sake
#: of memory, one of up to MEDIUM entries where gathering would cost more than it saves.
DENSE_SHARE, DENSE_SHARE_MEDIUM, MEDIUM = 0.15, 0.4, 4_000_000
#: The inner ascent is this much more precise than the rounds.
INNER_PRECISION = 0.3
#: It is cut short after so many steps if it has raised the objective by this factor: other columns matter by then.
CUT_STEPS, CUT_RISE = 8, 1.2


@dataclass(frozen=True)
class Settings:
    """How to ascend: `tol`, `max_iter`, `acceleration`, `callback` of the estimator, and whether by rounds.

    `rounds` is None where the size of the matrix decides.
    """

    rounds: bool | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    acceleration: bool = True
    callback: Callback | None = None


@dataclass(frozen=True, eq=False)
class EndPoint(Point):
    """The end of an ascent on the columns `settled`, for a `problem`, which stopped there by itself."""

    settled: Array
    problem: Problem

    def is_of(self, problem: Problem, T: Array) -> bool:
        """Whether nothing is active outside its columns, for this very problem: another penalty has other ends."""
        return self.problem is problem and bool(np.count_nonzero(rows_of(T, self.settled)) == np.count_nonzero(T))


@dataclass(frozen=True, eq=False)
class Rounds(FeasibleSet):
    """The data's set with a better step: instead of one linear maximisation, an ascent on a working set."""

    problem: Problem
    settings: Settings

    @property
    def whole(self) -> CorrelationSet:
        """The data's own set."""
        return self.problem.feasible_set

    @property
    def passes(self) -> float:
        """Reads of the matrix so far."""
        return self.whole.passes

    @property
    def noise(self) -> float:
        """As of the data's set."""
        return self.whole.noise

    def argmax_linear(self, g: Array) -> Point:
        """As on the data's set."""
        return self.whole.argmax_linear(g)

    def step(self, g: Array, x: Correlations | Point) -> Point:
        """The end of an ascent on the working set, as a point of the whole problem.

        Where such an ascent ended at this very point, and the whole product shows nothing active outside its columns,
        another would end here too: its last step was one of the whole problem and raised f by no more than tol.
        """
        if isinstance(x, EndPoint) and x.is_of(self.problem, g):
            return x
        problem, (p, n) = self.problem, self.problem.operator.shape
        W = working_set(problem.penalty, x.C, g)
        share = DENSE_SHARE_MEDIUM if p * n <= MEDIUM else DENSE_SHARE
        if W.size > min(share * n, max(LEAST, problem.operator.container.widest_gram)):
            end = self._ascend(problem.penalty, self.whole, self.whole.argmax_linear(g))
            return self._settled(end.point, end, np.arange(n))
        restriction = problem.operator.restrict(W)
        inner_set = CorrelationSet(restriction.inner, problem.mu, problem.samples)
        start = Correlations(restriction.inner.own(rows_of(x.C, W)))
        end = self._ascend(problem.penalty.restrict(W), inner_set, start)
        return self._settled(self.whole.point(restriction.lift(end.point.X)), end, W)

    def _settled(self, point: Point, end: AscentResult, columns: Array) -> Point:
        """A point where an ascent on some columns came to rest, marked as such."""
        return EndPoint(point.X, point.C, columns, self.problem) if end.converged else point

    def _ascend(self, penalty: Penalty, feasible_set: FeasibleSet, start: Correlations | Point) -> AscentResult:
        return maximize(
            OnCorrelations(penalty),
            feasible_set,
            start,
            tol=self.settings.tol * INNER_PRECISION,
            max_iter=self.settings.max_iter,
            acceleration=self.settings.acceleration,
            callback=_has_moved_far,
        )

    def pairing(self, g: Array, x: Point) -> float:
        """⟨g, x⟩ in the whole problem."""
        return self.whole.pairing(g, x)

    def support_value(self, g: Array) -> float:
        """max ⟨g, y⟩ over the data's whole set."""
        return self.whole.support_value(g)


def _has_moved_far(state: AscentState) -> bool:
    """Whether an inner ascent has left the region that its columns were chosen for."""
    return state.n_iter >= CUT_STEPS and state.value > CUT_RISE * state.start_value


def working_set(penalty: Penalty, C: Array, T: Array, least: int | None = None, most: int | None = None) -> Array:
    """Sorted indices of the columns to ascend on: all active ones, where T ≠ 0, and half as many again; some at least.

    One unit orders its columns by |C| alone where the threshold is the same for all; a block by relevance.
    """
    n, m = C.shape
    if m == 1 and penalty.even:
        active = T[:, 0] != 0
        score = np.where(active, np.inf, np.abs(C[:, 0]))
    else:
        score = penalty.relevance(C, T).max(axis=1)
        active = score > 1
    size = min(int(GROWTH * int(np.count_nonzero(active))), n if most is None else most)
    size = max(LEAST if least is None else least, size)
    if size >= n:
        return np.arange(n)
    return np.sort(to_host(top(score[:, None], size)[:, 0]))


def is_large(operator: Operator, settings: Settings) -> bool:
    """Whether a matrix is worth rounds, where nothing is said."""
    p, n = operator.shape
    return p * n > SMALL if settings.rounds is None else settings.rounds


def uses_rounds(problem: Problem, settings: Settings) -> bool:
    """Whether the rounds solve this problem, by default when the matrix is not small.

    A regularised objective needs the samples of every iterate, and the cube has no Gram matrix to ascend on:
    both are ascended directly.
    """
    return not problem.regularization and problem.samples.by_gram and is_large(problem.operator, settings)


def ascend(problem: Problem, start: Correlations | Point, settings: Settings) -> AscentResult:
    """Solve a problem from a start, by rounds or by the ascent on the whole matrix."""
    rounds = uses_rounds(problem, settings)
    return maximize(
        problem.objective,
        Rounds(problem, settings) if rounds else problem.feasible_set,
        start,
        tol=settings.tol,
        max_iter=settings.max_iter,
        acceleration=settings.acceleration and not rounds,
        callback=settings.callback,
    )
