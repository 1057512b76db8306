"""Strategies to choose the starts of an ascent: the user's points, earlier loadings, columns, or candidates that race.

At a start every unit should have an active variable, because the gradient of an inactive unit is zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from gpower._utils.arrays import Array, asarray_like, take_rows, to_host
from gpower.feasible_sets import Point, correlate_if_needed
from gpower.operators.base import Operator
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback
from gpower.solvers.initialization.start_points import (
    N_FINALISTS,
    argsort_by_value,
    choose_better_sign,
    make_block_start,
    make_largest_norm_start,
    make_module_starts,
    make_random_block_start,
    make_unit_starts,
    race_on_column_subset,
    race_starts,
    select_distinct_points,
)

#: Number of candidates in a race for every finalist.
CANDIDATES_PER_FINALIST = 4


@dataclass(frozen=True, eq=False)
class StartContext:
    """What a strategy needs to choose starts.

    Attributes
    ----------
    problem : Problem
        The problem of one unit, or of a block.
    norms : ndarray of shape (n_features,)
        The largest |aᵢᵀx| of a unit x in the set of samples: ‖aᵢ‖₂, or ‖aᵢ‖₁ for the cube (weighted by its radius). In
        the memory of the matrix, one for each column of the problem.
    rng : RandomState
        Source of random starts and probes.
    callback : callable or None
        Callback of the ascents of a race.
    """

    problem: Problem
    norms: Array
    rng: np.random.RandomState
    callback: Callback | None = None


class Start(ABC):
    """A strategy to choose the starts of an ascent; its unit j is for component j."""

    #: Whether the start is a point of the sample space, which a covariance does not have.
    is_in_sample_space = False
    #: Whether the user chose the start, so that the result must be the end of the ascent from there.
    is_user_chosen = False

    @property
    def loadings(self) -> Array | None:
        """Return the start loadings, (n_features, m); None if the start is not given by loadings."""
        return None

    @abstractmethod
    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the points from which an ascent is run; an empty list if the strategy finds none.

        Each is a point of the feasible set of the problem, with all of its m units.
        """

    def select_unit(self, j: int) -> Start:
        """Return the strategy for component j alone."""
        return self

    def restrict(self, idx: Array) -> Start:
        """Return the strategy for the problem on the columns `idx`, sorted indices on the host."""
        return self


@dataclass(frozen=True, eq=False)
class UserStart(Start):
    """The points X of the sample space, (n_samples, m), that the user gives; the matrix must have samples."""

    X: Array
    is_in_sample_space = is_user_chosen = True

    def select_unit(self, j: int) -> UserStart:
        """Return the start at column j of X."""
        return UserStart(self.X[:, j : j + 1])

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the point at X, placed in the set: with orthonormal or unit columns, or with the signs of X."""
        problem = context.problem
        return [problem.feasible_set.make_point(problem.operator.to_backend(self.X.astype(problem.operator.dtype)))]


@dataclass(frozen=True, eq=False)
class WarmStart(Start):
    """The point at the loadings Z, (n_features, m), or the fallback if a unit has no active variable there.

    Z may be on the host or on the device, and need not be of unit length.
    """

    Z: Array
    fallback: Start | None = None

    @property
    def loadings(self) -> Array:
        """Return Z."""
        return self.Z

    def select_unit(self, j: int) -> WarmStart:
        """Return the start at column j of Z."""
        return WarmStart(self.Z[:, j : j + 1], self.fallback and self.fallback.select_unit(j))

    def restrict(self, idx: Array) -> WarmStart:
        """Return the start at the rows `idx` of Z."""
        return WarmStart(take_rows(self.Z, idx), self.fallback and self.fallback.restrict(idx))

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the point at Z, or the points of the fallback.

        Zero loadings lead to the fallback: `make_point` would replace their scores by those of a column.
        """
        problem, operator = context.problem, context.problem.operator
        Y = operator.combine(operator.to_backend(self.Z.astype(operator.dtype)))
        lengths = np.sqrt(np.maximum(operator.squared_norms(Y, correlate_if_needed(operator, Y)), 0))
        if np.all(lengths > operator.norm_tolerance):  # a shorter Y is what deflation left: rounding, in any direction
            point = problem.feasible_set.make_point(Y)
            values, _ = problem.penalty.evaluate(point.C)
            if np.all(values > 0):
                return [point]
        return self.fallback.choose_points(context) if self.fallback else []


@dataclass(frozen=True, eq=False)
class LargestNormStart(Start):
    """The column of largest norm, completed by a random orthonormal complement [JNRS10, section 5].

    Among columns whose norms differ by rounding only, the first is taken.
    """

    is_user_chosen = True

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the point at the column and its complement; for a block of a covariance, only near the column."""
        return [make_largest_norm_start(context.problem, context.norms, context.rng)]


@dataclass(frozen=True, eq=False)
class ColumnStarts(Start):
    """Starts at columns of the matrix.

    One unit: the finalists of a race of `n_starts` starts. A block: the columns chosen by pivoted QR, then
    `n_starts` − 1 sets of random columns.
    """

    n_starts: int

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the finalists of the race, or the starts of the block.

        The matrix must not be zero: at least one column norm is positive.
        """
        problem, norms, rng = context.problem, context.norms, context.rng
        if problem.mu.size > 1:
            random_starts = [make_random_block_start(problem, rng) for _ in range(self.n_starts - 1)]
            return [make_block_start(problem), *random_starts]
        n_columns = int(np.count_nonzero(problem.penalty.start_score(norms) > 0))
        if self.n_starts >= n_columns or self.n_starts == 1 or not problem.sample_set.needs_only_gram:
            starts = make_unit_starts(problem, norms, self.n_starts, rng)
        else:
            starts = make_module_starts(problem, norms, self.n_starts)
        return race_starts(problem, starts, context.callback)


@dataclass(frozen=True, eq=False)
class CandidateStarts(Start):
    """Candidate loadings that race against each other; every unit may start at any of them.

    Attributes
    ----------
    Z : ndarray of shape (n_features, n_candidates)
        Candidate loadings, on the host.
    n_finalists : int
        Number of candidates from which an ascent is run.
    variances : ndarray of shape (n_candidates,)
        Variance of each candidate when it was last computed; infinite before. `choose_points` changes it in place: one
        object serves the units of one fit in sequence. Deflation lowers the variances, so that for the next unit only
        the candidates whose last variance is among the largest are computed again.
    """

    Z: Array
    n_finalists: int = N_FINALISTS
    variances: Array = field(init=False)

    def __post_init__(self) -> None:
        """Set all variances to infinity: not computed yet."""
        object.__setattr__(self, "variances", np.full(self.Z.shape[1], np.inf))

    def restrict(self, idx: Array) -> CandidateStarts:
        """Return the candidates restricted to the columns `idx`."""
        return CandidateStarts(take_rows(self.Z, idx), self.n_finalists)

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the finalists of the race; none if deflation has removed all candidates. For a single unit."""
        problem, operator = context.problem, context.problem.operator
        n_racing = CANDIDATES_PER_FINALIST * self.n_finalists
        best, Y = self._find_largest_variances(operator, CANDIDATES_PER_FINALIST * n_racing)
        remaining = np.flatnonzero(
            self.variances[best] > operator.norm_tolerance**2
        )  # deflation has removed the others
        if not remaining.size:
            return []
        batch = problem.as_batch(remaining.size)
        points = choose_better_sign(problem.penalty, batch.feasible_set.make_point(Y[:, asarray_like(Y, remaining)]))
        starts = select_distinct_points(problem.penalty, points, n_racing)
        return race_starts(problem, starts, context.callback, self.n_finalists)

    def _find_largest_variances(self, operator: Operator, count: int) -> tuple[Array, Array]:
        """Return the indices of the candidates of largest variance, best first, and A Z of them.

        There are `count` of them, or all if there are fewer. A Z has one sample-space vector for each, in the memory of
        the matrix. The variances of the candidates returned are those on `operator`.
        """
        computed: dict[int, Array] = {}
        stale: list[int] = np.flatnonzero(np.isinf(self.variances)).tolist()
        while True:
            if stale:
                Y = operator.combine(operator.to_backend(self.Z[:, stale].astype(operator.dtype)))
                self.variances[stale] = to_host(operator.squared_norms(Y, correlate_if_needed(operator, Y)))
                computed |= {j: Y[:, [i]] for i, j in enumerate(stale)}
            best = argsort_by_value(self.variances)[:count]
            stale = [j for j in best.tolist() if j not in computed]
            if not stale:
                return best, np.hstack([computed[j] for j in best.tolist()])


@dataclass(frozen=True, eq=False)
class SketchStarts(Start):
    """The best of `n_starts` starts of one unit, after a race on a subset of the columns of a matrix.

    The subset are the columns of largest norm. If the norms do not distinguish the columns, because one outside of the
    subset is within 1 % of the largest, the columns with the largest estimates of ‖Aᵀaᵢ‖² are taken instead.

    Attributes
    ----------
    n_starts : int
    unshared_norms_sq : ndarray of shape (n_features,) or None
        Part of each squared column norm that no other column shares, on the host, as a sketch is. It is subtracted
        before columns are compared.
    """

    n_starts: int
    unshared_norms_sq: Array | None = None

    def restrict(self, idx: Array) -> SketchStarts:
        """Return the strategy for the columns `idx`."""
        return self if self.unshared_norms_sq is None else SketchStarts(self.n_starts, self.unshared_norms_sq[idx])

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the winner of the race."""
        norms = context.norms
        if self.unshared_norms_sq is not None:
            norms = np.sqrt(np.maximum(norms**2 - self.unshared_norms_sq, 0)).astype(norms.dtype)
        return [race_on_column_subset(context.problem, norms, self.n_starts, context.rng, context.callback)]
