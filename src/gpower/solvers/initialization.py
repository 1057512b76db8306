"""Where to begin: points at which every unit has an active variable, best guesses first.

One unit: a column of the matrix, the largest first [JNRS10, eq. (32)]; where norms tie, as on standardised
data, the one most correlated with the others; of many the best few are found by a race. A block: columns chosen by
pivoted QR, so that every unit starts active; the paper's completion by an arbitrary orthonormal complement is `Paper`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from gpower._utils.arrays import Array, beside, first_largest, largest, rows_of, to_host
from gpower.feasible_sets import Point, fresh_directions, own_correlations
from gpower.operators.base import Operator
from gpower.operators.leading_pca import leading_components
from gpower.penalties.elementary import Cardinality, Penalty, top
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback, maximize
from gpower.solvers.column_screening import entries_at_once, sample_operator, screen_columns

#: Probes of the sketch that estimates the row norms of AᵀA; where reads are dear and it decides more, many.
PROBES, REMOTE_PROBES = 16, 64
#: Columns up to which these norms are no estimate: a matrix of 2 MB.
EXACTLY = 512
#: Number of starts of an exact cardinality: starts · n · p stays under WORK, but there are at least FEWEST.
WORK, FEWEST = 1e8, 32
#: Supports that a race hands on to be refined and polished.
FINALISTS = 5
#: Variables of which pairs are worth a start.
MOST_PAIRED = 64
#: Precision of a race, and the steps of a heat.
RACE_TOL, HEAT = 1e-4, 4
#: Columns whose correlations with all others are computed, and how many per start.
SHORTLIST, SHORTLIST_PER_START = 128, 2
#: Entries of these correlations at most: 256 MB in double precision.
SHORTLIST_ENTRIES = 1 << 25
#: Columns that tell which correlations count, the best of them that decide, and how many correlations of one column
#: count at most: a sketch shows components of more variables.
PROBED, PROBED_BEST, MOST_COUNTED = 64, 8, 200
#: Variables of a small module.
MODULE = 12
#: Candidates that race for every finalist.
FIELD_PER_FINALIST = 4
#: Columns that the race on a remote matrix is run on: so many, or so many times the cardinality.
RACE_COLUMNS, RACE_TIMES = 1000, 10
#: Norms that differ by less, relatively, do not tell which column to begin at: of standardised data less a component
#: those of most columns differ by a thousandth.
TIED = 0.01
#: Decimals of a share of the largest value beyond which values differ by rounding.
TIES = 6


@dataclass(frozen=True, eq=False)
class Ground:
    """What a start is chosen by: the problem, the largest |aᵢᵀx| of its columns, and the source of chance."""

    problem: Problem
    norms: Array
    rng: np.random.RandomState
    callback: Callback | None = None


class Start(ABC):
    """A way to begin; unit j of it begins component j."""

    #: Whether it is a point of the sample space, which a covariance does not have.
    in_samples = False
    #: Whether the user chose where the ascent begins, and wants what it leads to.
    is_chosen = False

    @property
    def loadings(self) -> Array | None:
        """Loadings to begin at, (n_features, m), where it knows any."""
        return None

    @abstractmethod
    def points(self, ground: Ground) -> list[Point]:
        """The starts that are worth an ascent of their own; none where this way leads nowhere."""

    def unit(self, j: int) -> Start:
        """The start of component j on its own."""
        return self

    def among(self, idx: Array) -> Start:
        """The same on the columns `idx` alone."""
        return self


@dataclass(frozen=True, eq=False)
class Given(Start):
    """Points of the sample space, (n_samples, m)."""

    X: Array
    in_samples = is_chosen = True

    def unit(self, j: int) -> Given:
        """Column j."""
        return Given(self.X[:, j : j + 1])

    def points(self, ground: Ground) -> list[Point]:
        """The one that was given."""
        problem = ground.problem
        return [problem.feasible_set.point(problem.operator.own(self.X.astype(problem.operator.dtype)))]


@dataclass(frozen=True, eq=False)
class Near(Start):
    """Loadings, (n_features, m), and what to do instead where they leave a unit nothing active."""

    Z: Array
    otherwise: Start | None = None

    @property
    def loadings(self) -> Array:
        """Z."""
        return self.Z

    def unit(self, j: int) -> Near:
        """Column j."""
        return Near(self.Z[:, j : j + 1], self.otherwise and self.otherwise.unit(j))

    def among(self, idx: Array) -> Near:
        """Rows `idx`."""
        return Near(rows_of(self.Z, idx), self.otherwise and self.otherwise.among(idx))

    def points(self, ground: Ground) -> list[Point]:
        """The point of these loadings."""
        problem, operator = ground.problem, ground.problem.operator
        Y = operator.combine(operator.own(self.Z.astype(operator.dtype)))
        lengths = np.sqrt(np.maximum(operator.squared_norms(Y, own_correlations(operator, Y)), 0))
        if np.all(lengths > operator.noise):  # else the rest of a component that was removed points anywhere
            point = problem.feasible_set.point(Y)
            if np.all(problem.penalty.evaluate(point.C)[0] > 0):
                return [point]
        return self.otherwise.points(ground) if self.otherwise else []


@dataclass(frozen=True, eq=False)
class Paper(Start):
    """The largest-norm column, completed by any orthonormal complement [JNRS10, section 5]."""

    is_chosen = True

    def points(self, ground: Ground) -> list[Point]:
        """That one."""
        return [paper_start(ground.problem, ground.norms, ground.rng)]


@dataclass(frozen=True, eq=False)
class Promising(Start):
    """The most promising columns: of `count` starts those that win a race; of a block the pivots, then random ones."""

    count: int

    def points(self, ground: Ground) -> list[Point]:
        """The finalists."""
        problem, rng = ground.problem, ground.rng
        if problem.mu.size > 1:
            return [block_start(problem), *(random_block_start(problem, rng) for _ in range(self.count - 1))]
        n_columns = int(np.count_nonzero(problem.penalty.promise(ground.norms) > 0))
        if self.count >= n_columns or self.count == 1 or not problem.samples.by_gram:
            return race(problem, unit_starts(problem, ground.norms, self.count, rng), ground.callback)
        return race(problem, module_starts(problem, ground.norms, self.count), ground.callback)


@dataclass(frozen=True, eq=False)
class Candidates(Start):
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
    finalists: int = FINALISTS
    variances: Array = field(init=False)

    def __post_init__(self) -> None:
        """Begin with variances that are not known."""
        object.__setattr__(self, "variances", np.full(self.Z.shape[1], np.inf))

    def among(self, idx: Array) -> Candidates:
        """Restrict the loadings to the columns `idx`."""
        return Candidates(rows_of(self.Z, idx), self.finalists)

    def points(self, ground: Ground) -> list[Point]:
        """Return the finalists of the race."""
        problem, operator = ground.problem, ground.problem.operator
        n_racing = FIELD_PER_FINALIST * self.finalists
        best, Y = self._largest_variances(operator, FIELD_PER_FINALIST * n_racing)
        alive = self.variances[best] > operator.noise**2  # what deflation left of the others is rounding
        if not alive.any():
            return []
        points = problem.as_batch(int(alive.sum())).feasible_set.point(Y[:, beside(Y, np.flatnonzero(alive))])
        points = _better_sign(problem.penalty, points)
        return race(problem, _best_distinct(problem.penalty, points, n_racing), ground.callback, self.finalists)

    def _largest_variances(self, operator: Operator, count: int) -> tuple[Array, Array]:
        """Return the candidates of largest variance, best first, and A Z of them, (n_samples, count)."""
        computed: dict[int, Array] = {}
        stale = np.flatnonzero(np.isinf(self.variances))
        while True:
            best = _by_value(self.variances)[:count] if not stale.size else stale
            stale = np.array([j for j in best.tolist() if j not in computed], np.intp)
            if not stale.size:
                return best, np.hstack([computed[j] for j in best.tolist()])
            Y = operator.combine(operator.own(self.Z[:, stale].astype(operator.dtype)))
            self.variances[stale] = to_host(operator.squared_norms(Y, own_correlations(operator, Y)))
            computed |= {j: Y[:, [i]] for i, j in enumerate(stale.tolist())}
            stale = np.zeros(0, np.intp)


@dataclass(frozen=True, eq=False)
class Largest(Start):
    """The best of `count` starts of one unit, raced on the columns of largest norm alone.

    What of the squared norms is `noise`, (n,), where that is known, does not count: no other column shares it.
    """

    count: int
    noise: Array | None = None

    def among(self, idx: Array) -> Largest:
        """Entries `idx`."""
        return self if self.noise is None else Largest(self.count, self.noise[idx])

    def points(self, ground: Ground) -> list[Point]:
        """That one."""
        norms = ground.norms
        if self.noise is not None:
            norms = np.sqrt(np.maximum(norms**2 - self.noise, 0)).astype(norms.dtype)
        return [_best_of_largest(replace(ground, norms=norms), self.count)]


def race(problem: Problem, starts: Point, callback: Callback | None = None, finalists: int = FINALISTS) -> list[Point]:
    """The best starts of one unit, of distinct supports: all ascend as one batch, the best third goes on to another."""
    count, problem = starts.C.shape[1], replace(problem, penalty=problem.penalty.relaxed)
    while count > finalists:
        batch = problem.as_batch(count)
        starts = maximize(
            batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT, callback=callback
        ).point
        starts = _best_distinct(batch.penalty, starts, max(finalists, count // 3))
        count = starts.C.shape[1]
    return [starts.column(j) for j in range(count)]


def _best_distinct(penalty: Penalty, points: Point, count: int) -> Point:
    """Return up to `count` points of the largest values, one for each support."""
    values, gradient = penalty.evaluate(points.C)
    kept = _distinct_best(points.C, values, gradient, count)
    return Point(points.X[:, kept], points.C[:, kept])


def _distinct_best(C: Array, values: Array, gradient: Array, most: int) -> list[int]:
    """Columns of C with the largest values, one for each support."""
    # A support is told by the sum of a random number for each of its variables.
    keys: Array = np.random.RandomState(0).standard_normal(C.shape[:1])
    supports = to_host(beside(C, keys) @ (gradient != 0)).round(9)
    first: dict[float, int] = {}
    for j in _by_value(to_host(values)):
        first.setdefault(float(supports[j]), int(j))
        if len(first) == most:
            break
    return list(first.values())


def _by_value(values: Array) -> Array:
    """Return the order of decreasing values; values that differ by rounding keep their order."""
    values = values.astype(np.float64)
    return np.argsort(-np.round(values / max(largest(values), float(np.finfo(np.float32).tiny)), TIES), kind="stable")


def _best_of_largest(ground: Ground, count: int) -> Point:
    """The best of many starts where reads are dear: they race on the columns of largest norm, gathered once.

    Where those norms tie with the ones left out, as on standardised data and what deflation leaves of them, a sketch
    says which columns to take.
    """
    problem, norms, rng = ground.problem, ground.norms, ground.rng
    if count <= FINALISTS:  # too few for a race
        return _best(problem, unit_starts(problem, norms, count, rng).X)
    wanted = max(RACE_COLUMNS, RACE_TIMES * problem.penalty.most)
    wanted = max(1, min(wanted, problem.operator.widest_take, norms.size))
    promise = problem.penalty.promise(norms)
    kept = top(promise[:, None], wanted)[:, 0]
    left_out = promise.copy()
    left_out[kept] = 0
    if largest(left_out) >= (1 - TIED) * largest(promise):
        shared = shared_variance(problem.operator, norms, rng, _most_probes(problem.operator))
        kept = top(np.where(promise > 0, shared, 0)[:, None], wanted)[:, 0]
    kept = np.sort(to_host(kept))
    part = problem.among(kept)
    starts = unit_starts(part, rows_of(norms, kept), min(count, kept.size), rng)
    return _best(problem, np.hstack([point.X for point in race(part, starts, ground.callback, 2 * FINALISTS)]))


def _most_probes(operator: Operator) -> int:
    """As many as may be at work beside blocks that are read: two vectors of samples each, and five of variables."""
    p, n = operator.shape
    return min(REMOTE_PROBES, max(PROBES, operator.widest_take * p // (2 * p + 5 * n)))


def _best(problem: Problem, X: Array) -> Point:
    """The best of some points of one unit, side by side."""
    whole = problem.as_batch(X.shape[1])
    points = whole.feasible_set.point(X)
    return points.column(first_largest(whole.penalty.evaluate(points.C)[0]))


def auto_starts(operator: Operator) -> int:
    """Number of starts of a unit with exact cardinality: as many as fit the work, at least 32, at most n.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> auto_starts(as_operator(np.eye(13), covariance=True)[0])
    13
    """
    p, n = operator.shape
    return int(min(n, max(FEWEST, WORK / (p * n))))


def column_order(operator: Operator, norms: Array, count: int, rng: np.random.RandomState) -> Array:
    """Indices of the `count` most promising columns: by norm, ties by an estimate of ‖Aᵀaᵢ‖.

    `norms` are those of the variance in use.
    """
    if count == 1 and int(np.count_nonzero(norms >= norms.max() * (1 - 1e-6))) == 1:
        return np.array([first_largest(norms)])
    tiny = float(np.finfo(norms.dtype).tiny)
    score = np.round(norms.astype(np.float64) / max(largest(norms), tiny), 6)
    if not np.all(np.diff(np.sort(to_host(score))[-count - 1 :])):
        shared = shared_variance(operator, norms, rng, PROBES)
        score += np.round(4e-7 * shared / max(largest(shared), tiny), 13)  # decides ties alone
    order = to_host(np.argsort(-score, kind="stable")[:count])
    return order[to_host(rows_of(norms, order)) > 0]


def shared_variance(operator: Operator, norms: Array, rng: np.random.RandomState, n_probes: int) -> Array:
    """‖Aᵀaᵢ‖² of every column, (n,): of a small matrix as they are, else by AᵀA times a few random signs."""
    p, n = operator.shape
    signs = np.eye(n) if n <= EXACTLY and p * n**2 <= WORK else rng.choice([-1.0, 1.0], size=(n, n_probes))
    probes = beside(norms, signs.astype(operator.dtype))
    return np.sum(operator.correlate(operator.combine(probes)) ** 2, axis=1)


def unit_starts(problem: Problem, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """`count` starts of one unit, side by side, with the correlations of all in one product.

    The most promising columns; once they are used up, the first principal component and random combinations.
    """
    idx = column_order(problem.operator, problem.penalty.promise(norms), count, rng)
    directions = _directions(problem, idx)
    if count > idx.size:
        further = _beyond_columns(problem.operator, count - idx.size, rng)
        directions = np.hstack([directions, further[:, _longer_than_rounding(problem.operator, further)]])
    return _better_sign(problem.penalty, problem.as_batch(directions.shape[1]).feasible_set.point(directions))


def module_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return `count` starts of one unit, each the module that a column belongs to.

    A penalty that does not know how many variables it lets in may let in none beside the column itself. Then a step
    with a few variables, as many as a small module has, comes first.
    """
    penalty = problem.penalty
    if penalty.most > 0 or penalty.admissible is not None:
        return promising_starts(problem, norms, count)
    few = replace(problem, penalty=penalty.sided(Cardinality(np.array([min(MODULE, norms.size)]))))
    T = few.penalty.evaluate(promising_starts(few, norms, count).C)[1]
    return problem.as_batch(T.shape[1]).feasible_set.point(problem.operator.combine(T))


def promising_starts(problem: Problem, norms: Array, count: int) -> Point:
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
    penalty, part = problem.penalty, replace(problem, operator=sample_operator(problem.operator))
    n_columns = max(SHORTLIST, SHORTLIST_PER_START * count)
    room = min(SHORTLIST_ENTRIES, entries_at_once(problem.operator))
    n_columns = max(1, min(n_columns, room // max(problem.operator.shape)))
    usable = penalty.promise(norms) > 0
    shortlist = screen_columns(part.operator, _threshold(part, norms, usable), usable, n_columns)
    points = part.as_batch(shortlist.size).feasible_set.point(_directions(part, shortlist))
    points = _better_sign(penalty, points)
    values, gradient = penalty.relaxed.evaluate(points.C)
    kept = _suppress_copies(to_host(values), to_host(rows_of(gradient, shortlist)) != 0, count)
    batch = part.as_batch(len(kept))
    starts = Point(points.X[:, kept], points.C[:, kept])
    end = maximize(batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT).point
    T = penalty.evaluate(end.C)[1].astype(problem.operator.dtype)
    return _better_sign(penalty, problem.as_batch(len(kept)).feasible_set.point(problem.operator.combine(T)))


def _threshold(problem: Problem, norms: Array, usable: Array) -> float:
    """Return the least squared correlation that is active at the best of some columns, as a median over a few.

    Where nothing is active beside the column itself, the largest squared correlation with another.
    """
    usable = to_host(np.flatnonzero(usable))
    by_norm = usable[np.argsort(-to_host(rows_of(norms, usable)), kind="stable")]
    half = PROBED // 2
    idx = np.union1d(by_norm[:half], usable[np.linspace(0, usable.size - 1, half).astype(np.intp)])
    points = problem.as_batch(idx.size).feasible_set.point(_directions(problem, idx))
    values, gradient = problem.penalty.relaxed.evaluate(points.C)
    best = _by_value(to_host(values))[:PROBED_BEST].tolist()
    C, T = to_host(points.C[:, best]) ** 2, to_host(gradient[:, best])
    least = np.min(np.where(T != 0, C, np.inf), axis=0)
    ranked = np.sort(C, axis=0)[::-1]
    second, last = ranked[min(1, len(C) - 1)], ranked[min(MOST_COUNTED, len(C)) - 1]
    return float(np.median(np.maximum(np.minimum(least, second), last)))


def _suppress_copies(values: Array, active: Array, count: int) -> list[int]:
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
    order = _by_value(values)
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


def _directions(problem: Problem, idx: Array) -> Array:
    """The columns `idx`; of one that is in or out with others, a power step on all of them from there."""
    directions, known = problem.operator.columns(idx), problem.penalty.admissible
    if known is None or known.labels is None:
        return directions
    together = known.labels[:, None] == known.labels[idx]  # (n, |idx|)
    return problem.operator.combine(np.where(together, problem.operator.correlate(directions), 0))


def _better_sign(penalty: Penalty, points: Point) -> Point:
    """Points or their opposites, whichever non-negative loadings make more of; signed ones see no difference."""
    if not penalty.one_sided:
        return points
    sign = np.where(penalty.evaluate(-points.C)[0] > penalty.evaluate(points.C)[0], -1, 1).astype(points.C.dtype)
    return Point(points.X * beside(points.X, sign), points.C * beside(points.C, sign))


def _beyond_columns(operator: Operator, count: int, rng: np.random.RandomState) -> Array:
    """Return the first principal component, then pairs of few columns, then random combinations of the columns."""
    n = operator.shape[1]
    T = rng.standard_normal((n, count)).astype(operator.dtype)
    T[:, 0] = leading_components(operator, 1)[0][:, 0]
    if n <= MOST_PAIRED:
        pairs = _best_pairs(operator.gram(np.arange(n)), count - 1)
        T[:, 1 : 1 + pairs.shape[1]] = pairs
    return operator.combine(operator.own(T))


def _longer_than_rounding(operator: Operator, Y: Array) -> list[int]:
    """Return which columns of A T are more than what a subtraction left of them."""
    squares = to_host(operator.squared_norms(Y, own_correlations(operator, Y)))
    return np.flatnonzero(squares > operator.noise**2).tolist()


def _best_pairs(S: Array, count: int) -> Array:
    """Return the loadings, (n, count), of the pairs of variables of covariance S that explain most."""
    n = len(S)
    first, second = np.triu_indices(n, 1)
    a, b, c = S[first, first], S[second, second], S[first, second]
    half = (a - b) / 2
    root = np.sqrt(half**2 + c**2)
    best = _by_value((a + b) / 2 + root)[:count]
    angle = np.arctan2(c, half)[best] / 2  # of the leading eigenvector
    T = np.zeros((n, best.size), S.dtype)
    T[first[best], np.arange(best.size)] = np.cos(angle)
    T[second[best], np.arange(best.size)] = np.sin(angle)
    return T


def block_start(problem: Problem) -> Point:
    """The first columns of a pivoted QR factorisation: orthonormal, each near a column of its own."""
    X, C = fresh_directions(problem.operator, problem.mu.size)
    return Point(X, beside(C, problem.mu) * C)


def random_block_start(problem: Problem, rng: np.random.RandomState) -> Point:
    """Orthonormalised random columns of the matrix."""
    norms = problem.operator.column_norms
    everywhere = int(np.count_nonzero(norms > 0)) == norms.size
    candidates = np.arange(norms.size) if everywhere else to_host(np.flatnonzero(norms > 0))
    idx = rng.choice(candidates, size=problem.mu.size, replace=candidates.size < problem.mu.size)
    return problem.feasible_set.point(problem.operator.columns(idx))


def paper_start(problem: Problem, norms: Array, rng: np.random.RandomState) -> Point:
    """The largest-norm column, completed by any orthonormal complement [JNRS10, section 5]."""
    operator, m = problem.operator, problem.mu.size
    first = operator.columns(np.array([first_largest(norms)]))
    if m == 1:
        return problem.feasible_set.point(first)
    rest = operator.own(rng.standard_normal((operator.shape[0], m - 1)).astype(operator.dtype))
    if operator.has_samples:  # orthogonal to the first column, which must stay as it is
        x = first / np.linalg.norm(first)
        Q, _ = np.linalg.qr(rest - x @ (x.T @ rest))
        rest = Q
        first = x
    return problem.feasible_set.point(np.hstack([first, rest]))
