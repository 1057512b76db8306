"""Ascend on a working set: the active columns and a few others, checked by one product with the whole matrix per round.

A sparse solution uses few columns, so a round selects columns and iterates on those alone:

1. the correlations C of the whole problem give its objective and its active columns;
2. the working set W contains the active columns and half as many again, those with the largest activity ratio;
3. the ascent runs on A_W, gathered once, and ends at X; the next round starts at C = AᵀX.

The objective f of the whole problem never falls: W contains every active column, so f_W = f at the start of a round;
the inner ascent raises f_W; and f ≥ f_W everywhere. The first inner step is the step of the whole problem, whose
gradient is zero outside W, so a round gains at least the stationarity gap Δ(X): when f stops growing, the point is
first-order optimal. If the inner ascent converged and the next product shows nothing active outside W, no further
round is needed.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place, with
p = n. A problem has m units. C, (n, m), are the weighted correlations μ∘AᵀX of a `Point` of units X, (p, m); g or T,
(n, m), is the gradient φ′(C) of the penalty, zero where a variable is not active. All are where the matrix is, on the
host or a device, in its dtype. Δ is the first-order gap of the ascent. W are sorted column indices on the host.

- `Operator`: ``restrict(W)`` gathers columns; its ``operator`` is their matrix, perhaps a Gram matrix on the host, and
  ``lift(X)`` turns units of that matrix into units of the whole one, in its memory, without normalising them.
  ``to_backend`` moves an array to the memory of a matrix. ``container.max_gram_columns`` is the number of columns whose
  Gram matrix takes little memory.
- `Problem`: ``operator``, ``penalty``, ``mu`` (weights, on the host), ``sample_set``, the set of X, and
  ``regularization``, a number; ``feasible_set``, whose ``argmax_linear(g)`` is the next point of a plain step and whose
  ``make_point(Y)`` normalises vectors Y, (p, m), and takes their correlations; ``objective``.
  ``sample_set.needs_only_gram`` is false only for the cube of ℓ1 variance.
- `Penalty`: ``restrict(W)``, the penalty of some columns; ``has_uniform_threshold``, whether |c| orders the variables
  of a unit; ``activity_ratio(C, T)``, (n, m), above one where a variable is active.
- ``maximize`` runs an ascent on a `CorrelationSet`, the set of points of a matrix, or another `FeasibleSet`; of its
  start it reads C alone, so that a `CorrelationStart` is enough. ``to_host(x)`` is x as a NumPy array, ``take_rows(x,
  idx)`` a copy of x[idx].
- `AscentState`, of an ascent under way: ``n_iter`` steps so far, the ``value`` of the objective and ``start_value``.
- `AscentResult`: ``point``, where the ascent ended, and ``converged``. ``find_largest_rows(values, k)`` gives the rows
  of the k largest values of each column in any order.
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

#: Matrices of up to this many entries are ascended as a whole: there the overhead of rounds would dominate.
MAX_DIRECT_ENTRIES = 250_000
#: Columns in the working set per active column, and its smallest size.
COLUMNS_PER_ACTIVE, MIN_WORKING_SET = 1.5, 32
#: Above this share of the columns the ascent runs on the whole matrix: for a large matrix because of memory, for one of
#: up to MAX_MEDIUM_ENTRIES because gathering costs more than it saves.
MAX_WORKING_SET_SHARE, MAX_MEDIUM_WORKING_SET_SHARE, MAX_MEDIUM_ENTRIES = 0.15, 0.4, 4_000_000
#: Tolerance of the inner ascent relative to that of the rounds.
INNER_TOL_FACTOR = 0.3
#: The inner ascent stops after this many steps if the objective has risen by this factor: other columns matter then.
MIN_INNER_STEPS, MAX_INNER_RISE_FACTOR = 8, 1.2


@dataclass(frozen=True)
class AscentSettings:
    """Settings of an ascent.

    Attributes
    ----------
    use_working_set : bool or None
        Whether the ascent runs on a working set of columns; None lets the size of the matrix decide.
    tol, max_iter, acceleration, callback
        As in `gpower.solvers.ascent.maximize`.
    """

    use_working_set: bool | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    acceleration: bool = True
    callback: Callback | None = None


@dataclass(frozen=True, eq=False)
class ConvergedPoint(Point):
    """A point of the whole problem at which the ascent on some columns converged.

    `columns` are their indices, sorted, on the host; `problem` is the whole problem, compared by identity. X and C are
    those of a point of the whole problem.
    """

    columns: Array
    problem: Problem

    def is_converged_for(self, problem: Problem, T: Array) -> bool:
        """Return whether nothing is active outside the columns, for this very problem; T, (n, m), is φ′ at it."""
        return self.problem is problem and bool(np.count_nonzero(take_rows(T, self.columns)) == np.count_nonzero(T))


@dataclass(frozen=True, eq=False)
class WorkingSetStep:
    """Step rule of an ascent: instead of one linear maximisation, an ascent on a working set of columns.

    The problem must not be regularised, and the Gram matrix of some columns must determine it (no cube); see
    `should_use_working_set`.
    """

    problem: Problem
    settings: AscentSettings

    def __call__(self, g: Array, x: CorrelationStart | Point) -> Point:
        """Return the end of an ascent on the working set of x as a point of the whole problem.

        g, (n, m), is φ′(C) at x, in the memory of the matrix; of x only the correlations C are read, and neither is
        changed. The objective of the point returned is no lower than at the linear maximiser for g, but for rounding.
        If such an ascent converged at x and nothing is active outside its columns, x is returned: its last step was a
        step of the whole problem and raised f by no more than tol.
        """
        if isinstance(x, ConvergedPoint) and x.is_converged_for(self.problem, g):
            return x
        problem = self.problem
        p, n = problem.operator.shape
        full_set = problem.feasible_set
        W = select_working_set(problem.penalty, x.C, g)
        share = MAX_MEDIUM_WORKING_SET_SHARE if p * n <= MAX_MEDIUM_ENTRIES else MAX_WORKING_SET_SHARE
        if W.size > min(share * n, max(MIN_WORKING_SET, problem.operator.container.max_gram_columns)):
            result = self._ascend_inner(problem.penalty, full_set, full_set.argmax_linear(g))
            return self._mark_converged(result.point, result, np.arange(n))
        # The restricted operator may be a Gram matrix on the host: it has its own representation of sample-space units,
        # which `lift` turns into that of the whole operator, and its own memory, to which `to_backend` takes C.
        restriction = problem.operator.restrict(W)  # W must be increasing
        inner_set = CorrelationSet(restriction.operator, problem.mu, problem.sample_set)
        start = CorrelationStart(restriction.operator.to_backend(take_rows(x.C, W)))
        result = self._ascend_inner(problem.penalty.restrict(W), inner_set, start)
        # `make_point` normalises again (the Gram matrix has rounded) and takes the product with the whole matrix.
        return self._mark_converged(full_set.make_point(restriction.lift(result.point.X)), result, W)

    def _mark_converged(self, point: Point, result: AscentResult, columns: Array) -> Point:
        """Return the point, as a `ConvergedPoint` if `result`, the ascent on the columns that led to it, converged.

        `columns` are sorted, on the host; `point` is one of the whole problem.
        """
        return ConvergedPoint(point.X, point.C, columns, self.problem) if result.converged else point

    def _ascend_inner(
        self, penalty: Penalty, feasible_set: FeasibleSet, start: CorrelationStart | Point
    ) -> AscentResult:
        """Ascend on `feasible_set` from `start` with the tolerance of an inner ascent.

        `penalty` and `start` are those of the columns of `feasible_set`, in the memory of its operator. The user's
        callback is not called: it sees only whole rounds.
        """
        return maximize(
            PenaltyObjective(penalty),
            feasible_set,
            start,
            tol=self.settings.tol * INNER_TOL_FACTOR,
            max_iter=self.settings.max_iter,
            acceleration=self.settings.acceleration,
            callback=_has_moved_far,
        )


def _has_moved_far(state: AscentState) -> bool:
    """Return whether the state of an inner ascent has left the region that its columns were chosen for.

    The ascent then stops without having converged. Values are not negative.
    """
    return state.n_iter >= MIN_INNER_STEPS and state.value > MAX_INNER_RISE_FACTOR * state.start_value


def select_working_set(
    penalty: Penalty, C: Array, T: Array, min_size: int | None = None, max_size: int | None = None
) -> Array:
    """Return the sorted indices of the columns to ascend on: the active ones, where T ≠ 0, and half as many again.

    A single unit with a uniform threshold orders its columns by |C|, a block by the activity ratio of the penalty.
    Without `max_size` all active columns are returned. A `max_size` below their number cuts them too, and for one unit
    an arbitrary part of them remains, because all active columns have the same score; only the components of a sketch,
    which have too many active columns, are cut in this way (`gpower.solvers.sequential`).

    Parameters
    ----------
    penalty : Penalty
    C, T : ndarray of shape (n, m)
        Weighted correlations and the gradient φ′(C), on the host or on a device, for all n variables of `penalty`.
    min_size : int, optional
        Smallest size, `MIN_WORKING_SET` by default; it prevails over `max_size`, and n over both.
    max_size : int, optional
        Largest size, n by default.

    Returns
    -------
    ndarray of int, on the host, increasing
        Which of several columns of equal score are chosen is not specified.
    """
    n, m = C.shape
    if m == 1 and penalty.has_uniform_threshold:
        active = T[:, 0] != 0
        score = np.where(active, np.inf, np.abs(C[:, 0]))
    else:
        score = penalty.activity_ratio(C, T).max(axis=1)
        active = score > 1  # of any unit
    size = min(int(COLUMNS_PER_ACTIVE * int(np.count_nonzero(active))), n if max_size is None else max_size)
    size = max(MIN_WORKING_SET if min_size is None else min_size, size)
    if size >= n:
        return np.arange(n)
    return np.sort(to_host(find_largest_rows(score[:, None], size)[:, 0]))


def is_large_matrix(operator: Operator, settings: AscentSettings) -> bool:
    """Return whether a working set is used for a matrix of this size, unless the settings decide.

    The size is that of the operator, p·n entries, with p = n for a covariance.
    """
    p, n = operator.shape
    return p * n > MAX_DIRECT_ENTRIES if settings.use_working_set is None else settings.use_working_set


def should_use_working_set(problem: Problem, settings: AscentSettings) -> bool:
    """Return whether a working set serves this problem.

    A regularised objective needs the samples of every iterate, and the cube has no Gram matrix to ascend on: both use
    the whole matrix.
    """
    has_gram_objective = not problem.regularization and problem.sample_set.needs_only_gram
    return has_gram_objective and is_large_matrix(problem.operator, settings)


def ascend(problem: Problem, start: CorrelationStart | Point, settings: AscentSettings) -> AscentResult:
    """Ascend from a start, on working sets or on the whole matrix.

    A regularised problem needs a `Point`; for the others the correlations of the start suffice, which are those with
    all columns of the problem, in the memory of the matrix. The start is not changed. The point of the result is a
    `Point` of the whole problem, unless `max_iter` is 0. With a working set a step of the result is a round, and
    acceleration is used inside the rounds only.
    """
    use_working_set = should_use_working_set(problem, settings)
    return maximize(
        problem.objective,
        problem.feasible_set,
        start,
        tol=settings.tol,
        max_iter=settings.max_iter,
        acceleration=settings.acceleration and not use_working_set,
        callback=settings.callback,
        step=WorkingSetStep(problem, settings) if use_working_set else None,
    )
