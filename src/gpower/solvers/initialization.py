"""Where to begin: points at which every unit has an active variable, best guesses first.

One unit: a column of the matrix, the largest first [JNRS10, eq. (32)]; where norms tie, as on standardised
data, the one most correlated with the others; of many the best few are found by a race. A block: columns chosen by
pivoted QR, so that every unit starts active; the paper's completion by an arbitrary orthonormal complement is
`LargestNormStart`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, stable_argmax, take_rows, to_host
from gpower.feasible_sets import Point, correlate_if_needed, find_residual_directions
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Cardinality, Penalty, find_largest_rows
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback, maximize
from gpower.solvers.column_screening import compute_max_extra_entries, screen_columns, subsample_operator

#: Probes of the sketch that estimates the row norms of AᵀA; where reads are dear and it decides more, many.
N_PROBES, MAX_REMOTE_PROBES = 16, 64
#: Columns up to which these norms are no estimate: a matrix of 2 MB.
MAX_EXACT_NORM_COLUMNS = 512
#: Number of starts of an exact cardinality: starts · n · p stays under WORK, but there are at least FEWEST.
MAX_START_MULTIPLICATIONS, MIN_STARTS = 1e8, 32
#: Supports that a race hands on to be refined and polished.
N_FINALISTS = 5
#: Variables of which pairs are worth a start.
MAX_PAIRED_VARIABLES = 64
#: Precision of a race, and the steps of a heat.
RACE_TOL, HEAT_STEPS = 1e-4, 4
#: Columns whose correlations with all others are computed, and how many per start.
MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START = 128, 2
#: Entries of these correlations at most: 256 MB in double precision.
MAX_SHORTLIST_ENTRIES = 1 << 25
#: Columns that tell which correlations count, the best of them that decide, and how many correlations of one column
#: count at most: a sketch shows components of more variables.
N_THRESHOLD_COLUMNS, N_BEST_THRESHOLD_COLUMNS, MAX_COUNTED_CORRELATIONS = 64, 8, 200
#: Variables of a small module.
SMALL_MODULE_VARIABLES = 12
#: Candidates that race for every finalist.
CANDIDATES_PER_FINALIST = 4
#: Columns that the race on a remote matrix is run on: so many, or so many times the cardinality.
MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE = 1000, 10
#: Norms that differ by less, relatively, do not tell which column to begin at: of standardised data less a component
#: those of most columns differ by a thousandth.
MAX_TIED_NORM_DIFFERENCE = 0.01
#: Decimals of a share of the largest value beyond which values differ by rounding.
VALUE_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class StartContext:
    """What a start is chosen by: the problem, the largest |aᵢᵀx| of its columns, and the source of chance."""

    problem: Problem
    norms: Array
    rng: np.random.RandomState
    callback: Callback | None = None


class Start(ABC):
    """A way to begin; unit j of it begins component j."""

    #: Whether it is a point of the sample space, which a covariance does not have.
    is_in_sample_space = False
    #: Whether the user chose where the ascent begins, and wants what it leads to.
    is_user_chosen = False

    @property
    def loadings(self) -> Array | None:
        """Loadings to begin at, (n_features, m), where it knows any."""
        return None

    @abstractmethod
    def choose_points(self, context: StartContext) -> list[Point]:
        """The starts that are worth an ascent of their own; none where this way leads nowhere."""

    def select_unit(self, j: int) -> Start:
        """The start of component j on its own."""
        return self

    def restrict(self, idx: Array) -> Start:
        """The same on the columns `idx` alone."""
        return self


@dataclass(frozen=True, eq=False)
class UserStart(Start):
    """Points of the sample space, (n_samples, m)."""

    X: Array
    is_in_sample_space = is_user_chosen = True

    def select_unit(self, j: int) -> UserStart:
        """Column j."""
        return UserStart(self.X[:, j : j + 1])

    def choose_points(self, context: StartContext) -> list[Point]:
        """The one that was given."""
        problem = context.problem
        return [problem.feasible_set.make_point(problem.operator.to_backend(self.X.astype(problem.operator.dtype)))]


@dataclass(frozen=True, eq=False)
class WarmStart(Start):
    """Loadings, (n_features, m), and what to do instead where they leave a unit nothing active."""

    Z: Array
    fallback: Start | None = None

    @property
    def loadings(self) -> Array:
        """Z."""
        return self.Z

    def select_unit(self, j: int) -> WarmStart:
        """Column j."""
        return WarmStart(self.Z[:, j : j + 1], self.fallback and self.fallback.select_unit(j))

    def restrict(self, idx: Array) -> WarmStart:
        """Rows `idx`."""
        return WarmStart(take_rows(self.Z, idx), self.fallback and self.fallback.restrict(idx))

    def choose_points(self, context: StartContext) -> list[Point]:
        """The point of these loadings."""
        problem, operator = context.problem, context.problem.operator
        Y = operator.combine(operator.to_backend(self.Z.astype(operator.dtype)))
        lengths = np.sqrt(np.maximum(operator.squared_norms(Y, correlate_if_needed(operator, Y)), 0))
        if np.all(lengths > operator.norm_tolerance):  # else the rest of a component that was removed points anywhere
            point = problem.feasible_set.make_point(Y)
            if np.all(problem.penalty.evaluate(point.C)[0] > 0):
                return [point]
        return self.fallback.choose_points(context) if self.fallback else []


@dataclass(frozen=True, eq=False)
class LargestNormStart(Start):
    """The largest-norm column, completed by any orthonormal complement [JNRS10, section 5]."""

    is_user_chosen = True

    def choose_points(self, context: StartContext) -> list[Point]:
        """That one."""
        return [make_largest_norm_start(context.problem, context.norms, context.rng)]


@dataclass(frozen=True, eq=False)
class ColumnStarts(Start):
    """The most promising columns: of `count` starts those that win a race; of a block the pivots, then random ones."""

    n_starts: int

    def choose_points(self, context: StartContext) -> list[Point]:
        """The finalists."""
        problem, rng = context.problem, context.rng
        if problem.mu.size > 1:
            return [
                make_block_start(problem),
                *(make_random_block_start(problem, rng) for _ in range(self.n_starts - 1)),
            ]
        n_columns = int(np.count_nonzero(problem.penalty.start_score(context.norms) > 0))
        if self.n_starts >= n_columns or self.n_starts == 1 or not problem.sample_set.needs_only_gram:
            return race_starts(problem, make_unit_starts(problem, context.norms, self.n_starts, rng), context.callback)
        return race_starts(problem, make_module_starts(problem, context.norms, self.n_starts), context.callback)


@dataclass(frozen=True, eq=False)
class CandidateStarts(Start):
    """Loadings that race against each other for every unit, each begun at by whichever unit makes most of it.

    Attributes
    ----------
    Z : ndarray of shape (n_features, n_candidates)
    finalists : int
        Candidates that are worth an ascent of their own.
    variances : ndarray of shape (n_candidates,)
        Variance of each candidate when it was last computed, infinite before. Deflation lowers it, so that only the
        candidates whose last variance is among the largest are computed again for the next unit.
    """

    Z: Array
    n_finalists: int = N_FINALISTS
    variances: Array = field(init=False)

    def __post_init__(self) -> None:
        """Begin with variances that are not known."""
        object.__setattr__(self, "variances", np.full(self.Z.shape[1], np.inf))

    def restrict(self, idx: Array) -> CandidateStarts:
        """Restrict the loadings to the columns `idx`."""
        return CandidateStarts(take_rows(self.Z, idx), self.n_finalists)

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the finalists of the race."""
        problem, operator = context.problem, context.problem.operator
        n_racing = CANDIDATES_PER_FINALIST * self.n_finalists
        best, Y = self._find_largest_variances(operator, CANDIDATES_PER_FINALIST * n_racing)
        alive = self.variances[best] > operator.norm_tolerance**2  # what deflation left of the others is rounding
        if not alive.any():
            return []
        points = problem.as_batch(int(alive.sum())).feasible_set.make_point(
            Y[:, asarray_like(Y, np.flatnonzero(alive))]
        )
        points = _choose_better_sign(problem.penalty, points)
        return race_starts(
            problem, _select_distinct_points(problem.penalty, points, n_racing), context.callback, self.n_finalists
        )

    def _find_largest_variances(self, operator: Operator, count: int) -> tuple[Array, Array]:
        """Return the candidates of largest variance, best first, and A Z of them, (n_samples, count)."""
        computed: dict[int, Array] = {}
        stale = np.flatnonzero(np.isinf(self.variances))
        while True:
            best = _argsort_by_value(self.variances)[:count] if not stale.size else stale
            stale = np.array([j for j in best.tolist() if j not in computed], np.intp)
            if not stale.size:
                return best, np.hstack([computed[j] for j in best.tolist()])
            Y = operator.combine(operator.to_backend(self.Z[:, stale].astype(operator.dtype)))
            self.variances[stale] = to_host(operator.squared_norms(Y, correlate_if_needed(operator, Y)))
            computed |= {j: Y[:, [i]] for i, j in enumerate(stale.tolist())}
            stale = np.zeros(0, np.intp)


@dataclass(frozen=True, eq=False)
class SketchStarts(Start):
    """The best of `count` starts of one unit, raced on the columns of largest norm alone.

    What of the squared norms is `noise`, (n,), where that is known, does not count: no other column shares it.
    """

    n_starts: int
    unshared_norms_sq: Array | None = None

    def restrict(self, idx: Array) -> SketchStarts:
        """Entries `idx`."""
        return self if self.unshared_norms_sq is None else SketchStarts(self.n_starts, self.unshared_norms_sq[idx])

    def choose_points(self, context: StartContext) -> list[Point]:
        """That one."""
        norms = context.norms
        if self.unshared_norms_sq is not None:
            norms = np.sqrt(np.maximum(norms**2 - self.unshared_norms_sq, 0)).astype(norms.dtype)
        return [_race_on_largest_columns(replace(context, norms=norms), self.n_starts)]


def race_starts(
    problem: Problem, starts: Point, callback: Callback | None = None, n_finalists: int = N_FINALISTS
) -> list[Point]:
    """The best starts of one unit, of distinct supports: all ascend as one batch, the best third goes on to another."""
    count, problem = starts.C.shape[1], replace(problem, penalty=problem.penalty.relaxation)
    while count > n_finalists:
        batch = problem.as_batch(count)
        starts = maximize(
            batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT_STEPS, callback=callback
        ).point
        starts = _select_distinct_points(batch.penalty, starts, max(n_finalists, count // 3))
        count = starts.C.shape[1]
    return [starts.select_unit(j) for j in range(count)]


def _select_distinct_points(penalty: Penalty, points: Point, count: int) -> Point:
    """Return up to `count` points of the largest values, one for each support."""
    values, gradient = penalty.evaluate(points.C)
    kept = _select_distinct_columns(points.C, values, gradient, count)
    return Point(points.X[:, kept], points.C[:, kept])


def _select_distinct_columns(C: Array, values: Array, gradient: Array, count: int) -> list[int]:
    """Columns of C with the largest values, one for each support."""
    # A support is told by the sum of a random number for each of its variables.
    keys: Array = np.random.RandomState(0).standard_normal(C.shape[:1])
    supports = to_host(asarray_like(C, keys) @ (gradient != 0)).round(9)
    first: dict[float, int] = {}
    for j in _argsort_by_value(to_host(values)):
        first.setdefault(float(supports[j]), int(j))
        if len(first) == count:
            break
    return list(first.values())


def _argsort_by_value(values: Array) -> Array:
    """Return the order of decreasing values; values that differ by rounding keep their order."""
    values = values.astype(np.float64)
    return np.argsort(
        -np.round(values / max(max_or_zero(values), float(np.finfo(np.float32).tiny)), VALUE_DECIMALS), kind="stable"
    )


def _race_on_largest_columns(context: StartContext, n_starts: int) -> Point:
    """The best of many starts where reads are dear: they race on the columns of largest norm, gathered once.

    Where those norms tie with the ones left out, as on standardised data and what deflation leaves of them, a sketch
    says which columns to take.
    """
    problem, norms, rng = context.problem, context.norms, context.rng
    if n_starts <= N_FINALISTS:  # too few for a race
        return _select_best_start(problem, make_unit_starts(problem, norms, n_starts, rng).X)
    wanted = max(MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE * problem.penalty.max_cardinality)
    wanted = max(1, min(wanted, problem.operator.max_cached_columns, norms.size))
    promise = problem.penalty.start_score(norms)
    kept = find_largest_rows(promise[:, None], wanted)[:, 0]
    left_out = promise.copy()
    left_out[kept] = 0
    if max_or_zero(left_out) >= (1 - MAX_TIED_NORM_DIFFERENCE) * max_or_zero(promise):
        shared = compute_shared_variance(problem.operator, norms, rng, _choose_n_probes(problem.operator))
        kept = find_largest_rows(np.where(promise > 0, shared, 0)[:, None], wanted)[:, 0]
    kept = np.sort(to_host(kept))
    part = problem.restrict(kept)
    starts = make_unit_starts(part, take_rows(norms, kept), min(n_starts, kept.size), rng)
    return _select_best_start(
        problem, np.hstack([point.X for point in race_starts(part, starts, context.callback, 2 * N_FINALISTS)])
    )


def _choose_n_probes(operator: Operator) -> int:
    """As many as may be at work beside blocks that are read: two vectors of samples each, and five of variables."""
    p, n = operator.shape
    return min(MAX_REMOTE_PROBES, max(N_PROBES, operator.max_cached_columns * p // (2 * p + 5 * n)))


def _select_best_start(problem: Problem, X: Array) -> Point:
    """The best of some points of one unit, side by side."""
    whole = problem.as_batch(X.shape[1])
    points = whole.feasible_set.make_point(X)
    return points.select_unit(stable_argmax(whole.penalty.evaluate(points.C)[0]))


def choose_auto_n_starts(operator: Operator) -> int:
    """Number of starts of a unit with exact cardinality: as many as fit the work, at least 32, at most n.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> choose_auto_n_starts(as_operator(np.eye(13), covariance=True)[0])
    13
    """
    p, n = operator.shape
    return int(min(n, max(MIN_STARTS, MAX_START_MULTIPLICATIONS / (p * n))))


def rank_columns(operator: Operator, norms: Array, count: int, rng: np.random.RandomState) -> Array:
    """Indices of the `count` most promising columns: by norm, ties by an estimate of ‖Aᵀaᵢ‖.

    `norms` are those of the variance in use.
    """
    if count == 1 and int(np.count_nonzero(norms >= norms.max() * (1 - 1e-6))) == 1:
        return np.array([stable_argmax(norms)])
    tiny = float(np.finfo(norms.dtype).tiny)
    score = np.round(norms.astype(np.float64) / max(max_or_zero(norms), tiny), 6)
    if not np.all(np.diff(np.sort(to_host(score))[-count - 1 :])):
        shared = compute_shared_variance(operator, norms, rng, N_PROBES)
        score += np.round(4e-7 * shared / max(max_or_zero(shared), tiny), 13)  # decides ties alone
    order = to_host(np.argsort(-score, kind="stable")[:count])
    return order[to_host(take_rows(norms, order)) > 0]


def compute_shared_variance(operator: Operator, norms: Array, rng: np.random.RandomState, n_probes: int) -> Array:
    """‖Aᵀaᵢ‖² of every column, (n,): of a small matrix as they are, else by AᵀA times a few random signs."""
    p, n = operator.shape
    signs = (
        np.eye(n)
        if n <= MAX_EXACT_NORM_COLUMNS and p * n**2 <= MAX_START_MULTIPLICATIONS
        else rng.choice([-1.0, 1.0], size=(n, n_probes))
    )
    probes = asarray_like(norms, signs.astype(operator.dtype))
    return np.sum(operator.correlate(operator.combine(probes)) ** 2, axis=1)


def make_unit_starts(problem: Problem, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """`count` starts of one unit, side by side, with the correlations of all in one product.

    The most promising columns; once they are used up, the first principal component and random combinations.
    """
    idx = rank_columns(problem.operator, problem.penalty.start_score(norms), count, rng)
    directions = _compute_column_directions(problem, idx)
    if count > idx.size:
        further = _make_extra_directions(problem.operator, count - idx.size, rng)
        directions = np.hstack([directions, further[:, _find_nonzero_columns(problem.operator, further)]])
    return _choose_better_sign(
        problem.penalty, problem.as_batch(directions.shape[1]).feasible_set.make_point(directions)
    )


def make_module_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return `count` starts of one unit, each the module that a column belongs to.

    A penalty that does not know how many variables it lets in may let in none beside the column itself. Then a step
    with a few variables, as many as a small module has, comes first.
    """
    penalty = problem.penalty
    if penalty.max_cardinality > 0 or penalty.support_rules is not None:
        return make_screened_starts(problem, norms, count)
    few = replace(problem, penalty=penalty.with_sign(Cardinality(np.array([min(SMALL_MODULE_VARIABLES, norms.size)]))))
    T = few.penalty.evaluate(make_screened_starts(few, norms, count).C)[1]
    return problem.as_batch(T.shape[1]).feasible_set.make_point(problem.operator.combine(T))


def make_screened_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return `count` starts of one unit at columns, the best of many by the objective at each of them.

    Columns whose correlations stand out are scored with the whole matrix; a column that is active at a better start
    would lead to the same end and is left out.

    Parameters
    ----------
    problem : Problem
        Of one unit.
    norms : ndarray of shape (n_features,)
        The largest |aᵢᵀx| of its columns.
    count : int

    Returns
    -------
    Point
        The starts side by side, best first, with their correlations.
    """
    penalty, part = problem.penalty, replace(problem, operator=subsample_operator(problem.operator))
    n_columns = max(MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START * count)
    room = min(MAX_SHORTLIST_ENTRIES, compute_max_extra_entries(problem.operator))
    n_columns = max(1, min(n_columns, room // max(problem.operator.shape)))
    usable = penalty.start_score(norms) > 0
    shortlist = screen_columns(part.operator, _choose_correlation_threshold(part, norms, usable), usable, n_columns)
    points = part.as_batch(shortlist.size).feasible_set.make_point(_compute_column_directions(part, shortlist))
    points = _choose_better_sign(penalty, points)
    values, gradient = penalty.relaxation.evaluate(points.C)
    kept = _drop_duplicate_starts(to_host(values), to_host(take_rows(gradient, shortlist)) != 0, count)
    batch = part.as_batch(len(kept))
    starts = Point(points.X[:, kept], points.C[:, kept])
    end = maximize(batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT_STEPS).point
    T = penalty.evaluate(end.C)[1].astype(problem.operator.dtype)
    return _choose_better_sign(
        penalty, problem.as_batch(len(kept)).feasible_set.make_point(problem.operator.combine(T))
    )


def _choose_correlation_threshold(problem: Problem, norms: Array, usable: Array) -> float:
    """Return the least squared correlation that is active at the best of some columns, as a median over a few.

    Where nothing is active beside the column itself, the largest squared correlation with another.
    """
    usable = to_host(np.flatnonzero(usable))
    by_norm = usable[np.argsort(-to_host(take_rows(norms, usable)), kind="stable")]
    half = N_THRESHOLD_COLUMNS // 2
    idx = np.union1d(by_norm[:half], usable[np.linspace(0, usable.size - 1, half).astype(np.intp)])
    points = problem.as_batch(idx.size).feasible_set.make_point(_compute_column_directions(problem, idx))
    values, gradient = problem.penalty.relaxation.evaluate(points.C)
    best = _argsort_by_value(to_host(values))[:N_BEST_THRESHOLD_COLUMNS].tolist()
    C, T = to_host(points.C[:, best]) ** 2, to_host(gradient[:, best])
    least = np.min(np.where(T != 0, C, np.inf), axis=0)
    ranked = np.sort(C, axis=0)[::-1]
    second, last = ranked[min(1, len(C) - 1)], ranked[min(MAX_COUNTED_CORRELATIONS, len(C)) - 1]
    return float(np.median(np.maximum(np.minimum(least, second), last)))


def _drop_duplicate_starts(values: Array, active: Array, count: int) -> list[int]:
    """Return the best starts, fewer copies among them.

    Parameters
    ----------
    values : ndarray of shape (s,)
        Objective at each start.
    active : ndarray of bool of shape (s, s)
        Whether the column of start i is active at start j.
    count : int
        Starts to return; copies of better ones fill up what is missing.
    """
    order = _argsort_by_value(values)
    chosen: list[int] = []
    copies: list[int] = []
    covered = np.zeros(values.size, bool)
    for j in order.tolist():
        (copies if covered[j] else chosen).append(j)
        if not covered[j]:
            covered |= active[:, j]
        if len(chosen) == count:
            break
    return chosen + copies[: count - len(chosen)]


def _compute_column_directions(problem: Problem, idx: Array) -> Array:
    """The columns `idx`; of one that is in or out with others, a power step on all of them from there."""
    directions, known = problem.operator.columns(idx), problem.penalty.support_rules
    if known is None or known.group_labels is None:
        return directions
    together = known.group_labels[:, None] == known.group_labels[idx]  # (n, |idx|)
    return problem.operator.combine(np.where(together, problem.operator.correlate(directions), 0))


def _choose_better_sign(penalty: Penalty, points: Point) -> Point:
    """Points or their opposites, whichever non-negative loadings make more of; signed ones see no difference."""
    if not penalty.is_nonnegative:
        return points
    sign = np.where(penalty.evaluate(-points.C)[0] > penalty.evaluate(points.C)[0], -1, 1).astype(points.C.dtype)
    return Point(points.X * asarray_like(points.X, sign), points.C * asarray_like(points.C, sign))


def _make_extra_directions(operator: Operator, count: int, rng: np.random.RandomState) -> Array:
    """Return the first principal component, then pairs of few columns, then random combinations of the columns."""
    n = operator.shape[1]
    T = rng.standard_normal((n, count)).astype(operator.dtype)
    T[:, 0] = compute_leading_components(operator, 1)[0][:, 0]
    if n <= MAX_PAIRED_VARIABLES:
        pairs = _find_best_pairs(operator.gram(np.arange(n)), count - 1)
        T[:, 1 : 1 + pairs.shape[1]] = pairs
    return operator.combine(operator.to_backend(T))


def _find_nonzero_columns(operator: Operator, Y: Array) -> list[int]:
    """Return which columns of A T are more than what a subtraction left of them."""
    squares = to_host(operator.squared_norms(Y, correlate_if_needed(operator, Y)))
    return np.flatnonzero(squares > operator.norm_tolerance**2).tolist()


def _find_best_pairs(S: Array, count: int) -> Array:
    """Return the loadings, (n, count), of the pairs of variables of covariance S that explain most."""
    n = len(S)
    first, second = np.triu_indices(n, 1)
    a, b, c = S[first, first], S[second, second], S[first, second]
    half = (a - b) / 2
    root = np.sqrt(half**2 + c**2)
    best = _argsort_by_value((a + b) / 2 + root)[:count]
    angle = np.arctan2(c, half)[best] / 2  # of the leading eigenvector
    T = np.zeros((n, best.size), S.dtype)
    T[first[best], np.arange(best.size)] = np.cos(angle)
    T[second[best], np.arange(best.size)] = np.sin(angle)
    return T


def make_block_start(problem: Problem) -> Point:
    """The first columns of a pivoted QR factorisation: orthonormal, each near a column of its own."""
    X, C = find_residual_directions(problem.operator, problem.mu.size)
    return Point(X, asarray_like(C, problem.mu) * C)


def make_random_block_start(problem: Problem, rng: np.random.RandomState) -> Point:
    """Orthonormalised random columns of the matrix."""
    norms = problem.operator.column_norms
    everywhere = int(np.count_nonzero(norms > 0)) == norms.size
    candidates = np.arange(norms.size) if everywhere else to_host(np.flatnonzero(norms > 0))
    idx = rng.choice(candidates, size=problem.mu.size, replace=candidates.size < problem.mu.size)
    return problem.feasible_set.make_point(problem.operator.columns(idx))


def make_largest_norm_start(problem: Problem, norms: Array, rng: np.random.RandomState) -> Point:
    """The largest-norm column, completed by any orthonormal complement [JNRS10, section 5]."""
    operator, m = problem.operator, problem.mu.size
    first = operator.columns(np.array([stable_argmax(norms)]))
    if m == 1:
        return problem.feasible_set.make_point(first)
    rest = operator.to_backend(rng.standard_normal((operator.shape[0], m - 1)).astype(operator.dtype))
    if operator.has_samples:  # orthogonal to the first column, which must stay as it is
        x = first / np.linalg.norm(first)
        Q, _ = np.linalg.qr(rest - x @ (x.T @ rest))
        rest = Q
        first = x
    return problem.feasible_set.make_point(np.hstack([first, rest]))
