"""Starts of an ascent: strategies that choose them, points built from columns of the matrix, and their comparison.

One unit starts at a column, by default the one of largest norm [JNRS10, equation (32)]. Columns of equal norm, as on
standardised data, are ranked by their correlations with the others. A race, which is a sequence of short ascents of
many starts, selects the best few of them. A block starts at the columns chosen by pivoted QR, so that every unit starts
active: the gradient of an inactive unit is zero.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`; a covariance AᵀA is an operator too, with
p = n. A problem has m units. X and Y, (p, m), are sample-space vectors, one column for each unit or start: Y of any
length, X of unit length; for a covariance they are the coefficients u of vectors A u. ``operator.combine(T)`` is A T
and ``operator.correlate(Y)`` is AᵀY. Z or T, (n, m), are loadings. A `Point` has X and its correlations C = μ∘AᵀX,
(n, m). These arrays are where the matrix is, on the host or a device, in its dtype. ``problem.as_batch(s)`` is the
problem of s independent starts of one unit, the columns of one point; ``feasible_set.make_point(Y)`` normalises Y and
computes C by one product with the matrix. ``penalty.evaluate(C)`` gives the value of each column and the gradient,
(n, m), which is zero for inactive variables. `norms`, (n,), are the largest |aᵢᵀx| of the columns aᵢ over unit x:
‖aᵢ‖₂, or Σ rₖ|aₖᵢ| for the cube, where the matrix is, in its dtype.

- `Operator`: ``columns(idx)`` are columns of A as sample-space vectors, (p, |idx|), a new array; ``gram(idx)`` is their
  Gram matrix, on the host; ``squared_norms(Y, C)`` are the squared norms of Y, (m,) on the host, with C = AᵀY only
  needed for a covariance; ``column_norms``, (n,), are the ‖aᵢ‖₂; ``norm_tolerance`` is the norm up to which a vector is
  what rounding left; ``to_backend(Z)`` is Z where the matrix is; ``has_samples`` is false for a covariance.
- `Penalty`: ``start_score(norms)``, (n,), is zero for variables that may not be starts; ``relaxation`` is a faster
  upper bound by which starts are compared; values of ``evaluate`` are positive where a unit has active variables.
- `Problem`: ``mu``, (m,), the weights; ``sample_set.needs_only_gram`` is false only for the cube.
- Columns as starts: ``compute_column_directions(problem, idx)`` are sample-space vectors, (p, |idx|), at columns, or at
  their groups; ``make_module_starts(problem, norms, count)`` is a `Point` of up to `count` starts at columns with
  outstanding correlations; ``choose_better_sign(penalty, points)`` turns starts round where that is better;
  ``ascend_briefly(problem, starts)`` is the point after a few steps, with the same columns.
- ``compute_leading_components(operator, 1)[0]`` are the loadings of the first principal component, (n, 1), on the host.
  ``correlate_if_needed(operator, Y)`` is AᵀY for a covariance, an empty array with samples.
- ``to_host(x)`` is x as a NumPy array; ``max_or_zero`` is the largest of non-negative values, 0.0 for none.
- ``asarray_like(x, values)`` returns `values` where x is, in its own dtype; ``take_rows(x, idx)`` is a copy of x[idx];
  ``stable_argmax`` is the index of the largest value, the first of those equal up to rounding; ``argsort_by_value``
  sorts host values in decreasing order, those equal up to rounding in the given order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, stable_argmax, take_rows, to_host
from gpower.feasible_sets import Point, correlate_if_needed, find_residual_directions
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback
from gpower.solvers.column_screening import (
    argsort_by_value,
    ascend_briefly,
    choose_better_sign,
    compute_column_directions,
    make_module_starts,
)

#: Number of random probes that estimate the row norms of AᵀA.
N_PROBES = 16
#: Number of columns up to which these norms are computed exactly; AᵀA then takes at most 2 MB.
MAX_EXACT_NORM_COLUMNS = 512
#: Number of starts of a unit of exact cardinality: n_starts · n · p is at most MAX_START_MULTIPLICATIONS, but there are
#: at least MIN_STARTS of them.
MAX_START_MULTIPLICATIONS, MIN_STARTS = 1e8, 32
#: Number of starts of distinct supports that a race returns; each gets a full ascent and a local search.
N_FINALISTS = 5
#: Number of variables up to which pairs of variables are used as starts. Without them 1 of 240 components with a
#: penalty (30 samples, 8 to 40 variables) ended 4 % lower.
MAX_PAIRED_VARIABLES = 64
#: Number of candidates in a race for every finalist.
CANDIDATES_PER_FINALIST = 4
#: Relative difference up to which norms of columns are equal, and the decimals of norms relative to the largest that
#: correspond to it.
NORM_TIE_TOLERANCE, NORM_DECIMALS = 1e-6, 6
#: Weight and decimals of the estimate that decides between equal norms: less than half a unit of the last decimal.
TIE_WEIGHT, TIE_DECIMALS = 4e-7, 13
#: Decimals to which the random keys of supports are compared: enough to tell supports apart, and coarser than rounding.
SUPPORT_KEY_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class StartContext:
    """What a strategy needs to choose starts.

    Attributes
    ----------
    problem : Problem
        The problem of one unit, or of a block.
    norms : ndarray of shape (n_features,)
        The largest |aᵢᵀx| of a unit x in the set of samples: ‖aᵢ‖₂, or Σ rₖ|aₖᵢ| for the cube of half-widths r. In
        the memory and dtype of the matrix, one for each column of the problem.
    rng : RandomState
        Source of random starts and probes; choosing starts advances it.
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
        """Return the start loadings, (n_features, m), in any memory; None if the start is not given by loadings."""
        return None

    @abstractmethod
    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the points from which an ascent is run; an empty list if the strategy finds none.

        Each is a point of the feasible set of the problem, with all of its m units and the weighted correlations with
        all of its columns. The order matters only between results of equal value: the first one is kept.
        """

    def select_unit(self, j: int) -> Start:
        """Return the strategy for component j alone; here itself, which does not depend on the component."""
        return self

    def restrict(self, idx: Array) -> Start:
        """Return the strategy for the problem on the columns `idx`, increasing indices on the host; here itself."""
        return self


@dataclass(frozen=True, eq=False)
class UserStart(Start):
    """The points X of the sample space, (n_samples, m), that the user gives; the matrix must have samples.

    X is of any length and floating dtype, on the host or a device.
    """

    X: Array
    is_in_sample_space = is_user_chosen = True

    def select_unit(self, j: int) -> UserStart:
        """Return the start at column j of X."""
        return UserStart(self.X[:, j : j + 1])

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the point at X, placed in the set: with orthonormal or unit columns, or with the signs of X.

        X has as many columns as the problem has units.
        """
        problem = context.problem
        return [problem.feasible_set.make_point(problem.operator.to_backend(self.X.astype(problem.operator.dtype)))]


@dataclass(frozen=True, eq=False)
class WarmStart(Start):
    """The point at the loadings Z, (n_features, m), or the fallback if a unit has no active variable there.

    Z may be on the host or on the device, of any floating dtype, and need not be of unit length. The fallback is used
    for all units together.
    """

    Z: Array
    fallback: Start | None = None

    @property
    def loadings(self) -> Array:
        """Return Z, (n_features, m), where it is."""
        return self.Z

    def select_unit(self, j: int) -> WarmStart:
        """Return the start at column j of Z."""
        return WarmStart(self.Z[:, j : j + 1], self.fallback and self.fallback.select_unit(j))

    def restrict(self, idx: Array) -> WarmStart:
        """Return the start at the rows `idx` of Z."""
        return WarmStart(take_rows(self.Z, idx), self.fallback and self.fallback.restrict(idx))

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the point at Z, or the points of the fallback; an empty list without one.

        Z has a row for each column of the problem, and a column for each of its units. Zero loadings lead to the
        fallback: `make_point` would replace their scores by those of a column.
        """
        problem, operator = context.problem, context.problem.operator
        Y = operator.combine(operator.to_backend(self.Z.astype(operator.dtype)))
        squares = compute_squared_norms(operator, Y)
        # A shorter Y is what deflation left: rounding, in any direction.
        if np.all(squares > operator.norm_tolerance**2):
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
    `n_starts` − 1 sets of random columns. `n_starts` is at least 1.
    """

    n_starts: int

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the finalists of the race, or the starts of the block.

        The matrix must not be zero: at least one column norm is positive. There is at least one point.
        """
        problem, norms, rng = context.problem, context.norms, context.rng
        if problem.mu.size > 1:
            nonzero = to_host(np.flatnonzero(problem.operator.column_norms > 0))
            starts = [make_block_start(problem)]
            for _ in range(self.n_starts - 1):  # drawn twice if they are too few: `make_point` replaces duplicates
                idx = rng.choice(nonzero, size=problem.mu.size, replace=nonzero.size < problem.mu.size)
                starts.append(problem.feasible_set.make_point(problem.operator.columns(idx)))
            return starts
        n_columns = int(np.count_nonzero(problem.penalty.start_score(norms) > 0))
        if self.n_starts >= n_columns or self.n_starts == 1 or not problem.sample_set.needs_only_gram:
            candidates = make_unit_starts(problem, norms, self.n_starts, rng)
        else:
            candidates = make_module_starts(problem, norms, self.n_starts)
        return race_starts(problem, candidates, context.callback)


@dataclass(frozen=True, eq=False)
class CandidateStarts(Start):
    """Candidate loadings that race against each other; every unit may start at any of them.

    Attributes
    ----------
    Z : ndarray of shape (n_features, n_candidates)
        Candidate loadings, on the host, of any length and floating dtype.
    n_finalists : int
        Number of candidates from which an ascent is run.
    """

    Z: Array
    n_finalists: int = N_FINALISTS

    def restrict(self, idx: Array) -> CandidateStarts:
        """Return the candidates restricted to the columns `idx`."""
        return CandidateStarts(take_rows(self.Z, idx), self.n_finalists)

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the finalists of the race, for a problem of one unit; none if deflation has removed all candidates."""
        problem, operator = context.problem, context.problem.operator
        Y = operator.combine(operator.to_backend(self.Z.astype(operator.dtype)))
        variances = compute_squared_norms(operator, Y)
        n_racing = CANDIDATES_PER_FINALIST * self.n_finalists
        best = argsort_by_value(np.maximum(variances, 0))[: CANDIDATES_PER_FINALIST * n_racing]
        remaining = best[variances[best] > operator.norm_tolerance**2]  # the others are deflated
        if not remaining.size:
            return []
        batch = problem.as_batch(remaining.size)
        points = choose_better_sign(problem.penalty, batch.feasible_set.make_point(Y[:, asarray_like(Y, remaining)]))
        starts = select_distinct_points(problem.penalty, points, n_racing)
        return race_starts(problem, starts, context.callback, self.n_finalists)


def choose_auto_n_starts(operator: Operator) -> int:
    """Return the number of starts of a unit of exact cardinality: what the work allows, at least 32, at most n.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> choose_auto_n_starts(as_operator(np.eye(13), covariance=True)[0])
    13
    """
    p, n = operator.shape
    return int(min(n, max(MIN_STARTS, MAX_START_MULTIPLICATIONS / (p * n))))


def race_starts(
    problem: Problem, starts: Point, callback: Callback | None = None, n_finalists: int = N_FINALISTS
) -> list[Point]:
    """Return the best starts of one unit, with distinct supports.

    All starts make a few steps as one batch, then the best third goes on, until no more than `n_finalists` are left.
    Starts are compared by the relaxation of the penalty; those of equal value keep their order.

    Parameters
    ----------
    problem : Problem
        Problem of one unit.
    starts : Point
        All starts, one in each column, feasible for ``problem.as_batch``.
    callback : callable, optional
        Callback of the ascents of the race.
    n_finalists : int
        Largest number of points to return, at least 1.

    Returns
    -------
    list of Point
        Points of one unit each, moved by the race, at least one, the best first. If there are no more than
        `n_finalists` starts, they are returned as they are, without a race.
    """
    problem = replace(problem, penalty=problem.penalty.relaxation)
    while (n_starts := starts.C.shape[1]) > n_finalists:
        ends = ascend_briefly(problem, starts, callback)
        starts = select_distinct_points(problem.penalty, ends, max(n_finalists, n_starts // 3))
    return [starts.select_unit(j) for j in range(n_starts)]


def select_distinct_points(penalty: Penalty, points: Point, count: int) -> Point:
    """Return up to `count` of the points, those of the largest values, one for each support.

    The columns of `points` are independent starts of one unit, in the memory of the matrix; the best comes first, of
    equal ones the one with the smaller column. `count` is at least 1. A support are the variables with a non-zero
    gradient.
    """
    values, gradient = penalty.evaluate(points.C)
    # A support is identified by the sum of one random number for each of its variables.
    keys: Array = np.random.RandomState(0).standard_normal(points.C.shape[:1])
    support_keys = to_host(asarray_like(points.C, keys) @ (gradient != 0)).round(SUPPORT_KEY_DECIMALS)
    first_of_support: dict[float, int] = {}
    for j in argsort_by_value(to_host(values)):
        first_of_support.setdefault(float(support_keys[j]), int(j))
        if len(first_of_support) == count:
            break
    selected = list(first_of_support.values())
    return Point(points.X[:, selected], points.C[:, selected])


def rank_columns(operator: Operator, norms: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the indices of the `count` most promising columns, on the host: by norm, ties by an estimate of ‖Aᵀaᵢ‖².

    `norms`, (n,), are the scores to rank by: the norms, or zero for columns that may not be used. They are in the
    memory of the matrix. Columns with score zero are never returned: there may be fewer than `count`, even none. The
    most promising column comes first. The estimate takes random numbers from `rng`, but only if norms tie among the
    first `count` + 1; `norms` is not changed, n > 0 and `count` ≥ 1.
    """
    if count == 1 and int(np.count_nonzero(norms >= norms.max() * (1 - NORM_TIE_TOLERANCE))) == 1:
        return np.array([stable_argmax(norms)])
    tiny = float(np.finfo(norms.dtype).tiny)
    score = np.round(norms.astype(np.float64) / max(max_or_zero(norms), tiny), NORM_DECIMALS)
    if not np.all(np.diff(np.sort(to_host(score))[-count - 1 :])):
        shared = compute_shared_variance(operator, norms, rng, N_PROBES)
        score += np.round(TIE_WEIGHT * shared / max(max_or_zero(shared), tiny), TIE_DECIMALS)  # decides ties alone
    order = to_host(np.argsort(-score, kind="stable")[:count])
    return order[to_host(take_rows(norms, order)) > 0]


def compute_shared_variance(operator: Operator, norms: Array, rng: np.random.RandomState, n_probes: int) -> Array:
    """Return ‖Aᵀaᵢ‖² of every column, (n,): exact for a small matrix, else estimated by AᵀA times random signs.

    The estimate is `n_probes` times as large, so that only ratios mean something. Of `norms` only the memory matters,
    host or device: the result is there, in the dtype of the matrix. An estimate takes n·`n_probes` numbers from `rng`.
    """
    p, n = operator.shape
    if n <= MAX_EXACT_NORM_COLUMNS and p * n**2 <= MAX_START_MULTIPLICATIONS:
        T = np.eye(n)
    else:
        T = rng.choice([-1.0, 1.0], size=(n, n_probes))
    probes = asarray_like(norms, T.astype(operator.dtype))
    return np.sum(operator.correlate(operator.combine(probes)) ** 2, axis=1)


def make_unit_starts(problem: Problem, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """Return up to `count` starts of one unit as the columns of a point, with the correlations of all from one product.

    The most promising columns come first. If there are too few, the first principal component, pairs of variables and
    random combinations follow, without those that vanish.

    `norms`, (n,), are the largest |aᵢᵀx| of the columns. The point is that of ``problem.as_batch``: every column is
    normalised by itself, and has the better sign for non-negative loadings. `problem` has one unit, and `count` ≥ 1.
    """
    idx = rank_columns(problem.operator, problem.penalty.start_score(norms), count, rng)
    directions = compute_column_directions(problem, idx)
    if count > idx.size:
        extra = _make_extra_directions(problem.operator, count - idx.size, rng)
        squares = compute_squared_norms(problem.operator, extra)
        is_nonzero = squares > problem.operator.norm_tolerance**2
        directions = np.hstack([directions, extra[:, np.flatnonzero(is_nonzero).tolist()]])
    points = problem.as_batch(directions.shape[1]).feasible_set.make_point(directions)
    return choose_better_sign(problem.penalty, points)


def compute_squared_norms(operator: Operator, Y: Array) -> Array:
    """Compute the squared norms of sample-space vectors Y, (p, s), as (s,) on the host, in the dtype of the matrix.

    For a covariance this takes one product with it. Rounding may make them slightly negative then.
    """
    return to_host(operator.squared_norms(Y, correlate_if_needed(operator, Y)))


def _make_extra_directions(operator: Operator, count: int, rng: np.random.RandomState) -> Array:
    """Return the first principal component, then pairs of variables if these are few, then random combinations.

    These are `count` ≥ 1 sample-space vectors A T, (p, count), in the memory and dtype of the matrix, not normalised;
    some may be zero. n·`count` numbers are drawn from `rng` in any case.
    """
    n = operator.shape[1]
    T = rng.standard_normal((n, count)).astype(operator.dtype)
    T[:, 0] = compute_leading_components(operator, 1)[0][:, 0]
    if n <= MAX_PAIRED_VARIABLES:
        pairs = _find_best_pairs(operator.gram(np.arange(n)), count - 1)
        T[:, 1 : 1 + pairs.shape[1]] = pairs
    return operator.combine(operator.to_backend(T))


def _find_best_pairs(S: Array, count: int) -> Array:
    """Return the loadings of the pairs of variables of covariance S, (n, n), with the largest variance.

    They are (n, count), or have as many columns as there are pairs if these are fewer: unit columns in the dtype of S,
    on the host, the largest variance first. S is not changed, and `count` may be zero.
    """
    n = len(S)
    first, second = np.triu_indices(n, 1)
    a, b, c = S[first, first], S[second, second], S[first, second]
    half = (a - b) / 2
    root = np.sqrt(half**2 + c**2)
    best = argsort_by_value((a + b) / 2 + root)[:count]
    angle = np.arctan2(c, half)[best] / 2  # of the leading eigenvector
    T = np.zeros((n, best.size), S.dtype)
    T[first[best], np.arange(best.size)] = np.cos(angle)
    T[second[best], np.arange(best.size)] = np.sin(angle)
    return T


def make_block_start(problem: Problem) -> Point:
    """Return the first directions of a pivoted QR factorisation: orthonormal, each near a different column.

    There is one for each of the m units of the problem, in its order. Directions beyond the rank of the matrix are
    zero. The correlations of the point contain the weights μ. ``find_residual_directions`` returns the directions, (p,
    m), and their correlations without weights, (n, m), where the matrix is.
    """
    X, C = find_residual_directions(problem.operator, problem.mu.size)
    return Point(X, asarray_like(C, problem.mu) * C)


def make_largest_norm_start(problem: Problem, norms: Array, rng: np.random.RandomState) -> Point:
    """Return the point at the column of largest norm and a random orthonormal complement [JNRS10, section 5].

    Among columns whose norms differ by rounding only, the first is taken. `norms`, (n,), are the largest |aᵢᵀx|, in the
    memory of the matrix. Of a covariance, the complement of a block is not made orthogonal first, so that `make_point`
    moves the first unit too. For m = 1 no random number is drawn from `rng`.
    """
    operator, m = problem.operator, problem.mu.size
    first = operator.columns(np.array([stable_argmax(norms)]))
    if m == 1:
        return problem.feasible_set.make_point(first)
    rest = operator.to_backend(rng.standard_normal((operator.shape[0], m - 1)).astype(operator.dtype))
    if operator.has_samples:  # orthogonal to the first column, which must not change
        first = first / np.linalg.norm(first)
        rest, _ = np.linalg.qr(rest - first @ (first.T @ rest))
    return problem.feasible_set.make_point(np.hstack([first, rest]))
