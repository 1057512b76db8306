"""Construct starting points from columns of the matrix, and select the best of many by a race.

One unit starts at a column, by default the one of largest norm [JNRS10, equation (32)]. Columns whose norms tie, as on
standardised data, are ranked by their correlations with the others. A race of short ascents selects the best few of
many starts. A block starts at the columns chosen by pivoted QR, so that every unit starts active;
`make_largest_norm_start` completes one column by an arbitrary orthonormal complement, as the paper does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, stable_argmax, take_rows, to_host
from gpower.feasible_sets import Point, correlate_if_needed, find_residual_directions
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Cardinality, Penalty, find_largest_rows
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback, maximize
from gpower.solvers.initialization.column_screening import (
    argsort_descending,
    compute_max_extra_entries,
    screen_columns,
    subsample_operator,
)

#: Number of random probes that estimate the row norms of AᵀA, and the largest number when they choose the columns of a
#: race rather than decide ties alone.
N_PROBES, MAX_RACE_PROBES = 16, 64
#: Number of columns up to which these norms are computed exactly; AᵀA then takes at most 2 MB.
MAX_EXACT_NORM_COLUMNS = 512
#: Number of starts of a unit of exact cardinality: n_starts · n · p is at most MAX_START_MULTIPLICATIONS, but there are
#: at least MIN_STARTS of them.
MAX_START_MULTIPLICATIONS, MIN_STARTS = 1e8, 32
#: Number of starts of distinct supports that a race returns; each gets a full ascent and a local search.
N_FINALISTS = 5
#: Number of variables up to which pairs of variables are used as starts.
MAX_PAIRED_VARIABLES = 64
#: Tolerance of the ascents of a race, and the number of steps after which the worse starts are dropped.
RACE_TOL, HEAT_STEPS = 1e-4, 4
#: Number of columns whose correlations with all others are computed: the first number, or the second for each start.
MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START = 128, 2
#: Largest number of entries of these correlations: 256 MB in double precision.
MAX_SHORTLIST_ENTRIES = 1 << 25
#: Number of columns at which the threshold of the screening is computed, and how many of them, the best, decide it.
N_THRESHOLD_COLUMNS, N_BEST_THRESHOLD_COLUMNS = 64, 8
#: Largest number of their correlations with all columns that are computed at once, 4 MB in single precision.
MAX_THRESHOLD_ENTRIES = 1 << 20
#: Largest number of correlations of one column above the threshold; a sketch shows components of more variables.
MAX_COUNTED_CORRELATIONS = 200
#: Number of variables of a small module, for penalties without a number of variables.
SMALL_MODULE_VARIABLES = 12
#: Number of columns of a race on a subset: the first number, or the second times the cardinality.
MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE = 1000, 10
#: Relative difference below which column norms do not say where to start. On standardised data, after one component
#: was removed, the norms of most columns differ by a thousandth.
MAX_TIED_NORM_DIFFERENCE = 0.01
#: Decimals, relative to the largest value, to which values are compared; what differs beyond them is rounding.
VALUE_DECIMALS = 6


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

    Parameters
    ----------
    problem : Problem
        Problem of one unit.
    starts : Point
        All starts, one in each column, feasible for ``problem.as_batch``.
    callback : callable, optional
        Callback of the ascents of the race.
    n_finalists : int

    Returns
    -------
    list of Point
        Points of one unit each, moved by the race, at least one. If there are no more than `n_finalists` starts, they
        are returned as they are, without a race.
    """
    problem = replace(problem, penalty=problem.penalty.relaxation)
    n_starts = starts.C.shape[1]
    while n_starts > n_finalists:
        batch = problem.as_batch(n_starts)
        heat = maximize(
            batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT_STEPS, callback=callback
        )
        starts = select_distinct_points(batch.penalty, heat.point, max(n_finalists, n_starts // 3))
        n_starts = starts.C.shape[1]
    return [starts.select_unit(j) for j in range(n_starts)]


def select_distinct_points(penalty: Penalty, points: Point, count: int) -> Point:
    """Return up to `count` of the points, those of the largest values, one for each support.

    The columns of `points` are independent starts of one unit, in the memory of the matrix; the best comes first.
    """
    values, gradient = penalty.evaluate(points.C)
    # A support is identified by the sum of one random number for each of its variables.
    keys: Array = np.random.RandomState(0).standard_normal(points.C.shape[:1])
    support_keys = to_host(asarray_like(points.C, keys) @ (gradient != 0)).round(9)
    first_of_support: dict[float, int] = {}
    for j in argsort_by_value(to_host(values)):
        first_of_support.setdefault(float(support_keys[j]), int(j))
        if len(first_of_support) == count:
            break
    selected = list(first_of_support.values())
    return Point(points.X[:, selected], points.C[:, selected])


def argsort_by_value(values: Array) -> Array:
    """Return the indices that sort host values in decreasing order; values that differ by rounding keep their order."""
    return argsort_descending(values, VALUE_DECIMALS)


def race_on_column_subset(
    problem: Problem, norms: Array, n_starts: int, rng: np.random.RandomState, callback: Callback | None = None
) -> Point:
    """Return the best of `n_starts` starts of one unit, after a race on some columns, which are gathered once.

    These are the columns of largest norm. If the largest norm outside of them is within 1 % of the largest of all, as
    on standardised data with and without deflation, they are those with the largest estimates of ‖Aᵀaᵢ‖² instead.

    The matrix must have samples: the winners of the race are sample-space vectors, which mean the same on all columns.
    `norms`, (n,), are column norms, here without the part that no other column shares.
    """
    if n_starts <= N_FINALISTS:  # too few for a race
        return _select_best_start(problem, make_unit_starts(problem, norms, n_starts, rng).X)
    n_columns = max(MIN_RACE_COLUMNS, RACE_COLUMNS_PER_VARIABLE * problem.penalty.max_cardinality)
    n_columns = max(1, min(n_columns, problem.operator.max_cached_columns, norms.size))
    scores = problem.penalty.start_score(norms)
    columns = find_largest_rows(scores[:, None], n_columns)[:, 0]
    scores_outside = scores.copy()
    scores_outside[columns] = 0
    if max_or_zero(scores_outside) >= (1 - MAX_TIED_NORM_DIFFERENCE) * max_or_zero(scores):
        shared = compute_shared_variance(problem.operator, norms, rng, _choose_n_probes(problem.operator))
        columns = find_largest_rows(np.where(scores > 0, shared, 0)[:, None], n_columns)[:, 0]
    columns = np.sort(to_host(columns))
    restricted = problem.restrict(columns)
    starts = make_unit_starts(restricted, take_rows(norms, columns), min(n_starts, columns.size), rng)
    finalists = race_starts(restricted, starts, callback, 2 * N_FINALISTS)
    return _select_best_start(problem, np.hstack([point.X for point in finalists]))


def _choose_n_probes(operator: Operator) -> int:
    """Return how many probes fit the memory for cached columns; each takes two sample and five variable vectors."""
    p, n = operator.shape
    return min(MAX_RACE_PROBES, max(N_PROBES, operator.max_cached_columns * p // (2 * p + 5 * n)))


def _select_best_start(problem: Problem, X: Array) -> Point:
    """Return the best of the starts X of one unit, (n_samples, n_starts), normalised, by the value of the penalty."""
    batch = problem.as_batch(X.shape[1])
    points = batch.feasible_set.make_point(X)
    values, _ = batch.penalty.evaluate(points.C)
    return points.select_unit(stable_argmax(values))


def rank_columns(operator: Operator, norms: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the indices of the `count` most promising columns, on the host: by norm, ties by an estimate of ‖Aᵀaᵢ‖².

    `norms`, (n,), are the scores to rank by: the norms, or zero for columns that may not be used. They are in the
    memory of the matrix. Columns with score zero are never returned: there may be fewer than `count`, even none.
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
    """Return ‖Aᵀaᵢ‖² of every column, (n,): exact for a small matrix, else estimated by AᵀA times random signs.

    The estimate is `n_probes` times as large. Of `norms` only the memory matters, host or device: the result is there.
    """
    p, n = operator.shape
    if n <= MAX_EXACT_NORM_COLUMNS and p * n**2 <= MAX_START_MULTIPLICATIONS:
        T = np.eye(n)
    else:
        T = rng.choice([-1.0, 1.0], size=(n, n_probes))
    probes = asarray_like(norms, T.astype(operator.dtype))
    return np.sum(operator.correlate(operator.combine(probes)) ** 2, axis=1)


def make_unit_starts(problem: Problem, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """Return `count` starts of one unit as the columns of a point, with the correlations of all from one product.

    The most promising columns come first. If there are too few, the first principal component, pairs of variables and
    random combinations follow, without those that vanish.

    `norms`, (n,), are the largest |aᵢᵀx| of the columns. The point is that of ``problem.as_batch``: every column is
    normalised by itself, and has the better sign for non-negative loadings.
    """
    idx = rank_columns(problem.operator, problem.penalty.start_score(norms), count, rng)
    directions = _compute_column_directions(problem, idx)
    if count > idx.size:
        extra = _make_extra_directions(problem.operator, count - idx.size, rng)
        directions = np.hstack([directions, extra[:, _find_nonzero_columns(problem.operator, extra)]])
    points = problem.as_batch(directions.shape[1]).feasible_set.make_point(directions)
    return choose_better_sign(problem.penalty, points)


def make_module_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return `count` starts of one unit, each the module of a column.

    A penalty without a number of variables may make no variable active besides the column itself. For such a penalty
    the starts are constructed with as many variables as a small module has.

    `problem` has one unit of ℓ2 variance. `norms`, (n,), are its column norms, of which at least one is positive. The
    point has one start in each column, up to `count` of them.
    """
    penalty = problem.penalty
    if penalty.max_cardinality > 0 or penalty.support_rules is not None:
        return make_screened_starts(problem, norms, count)
    cardinality = Cardinality(np.array([min(SMALL_MODULE_VARIABLES, norms.size)]))
    small = replace(problem, penalty=penalty.with_sign(cardinality))
    _, T = small.penalty.evaluate(make_screened_starts(small, norms, count).C)
    return problem.as_batch(T.shape[1]).feasible_set.make_point(problem.operator.combine(T))


def make_screened_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return `count` starts of one unit at columns, the best of many by the objective at each of them.

    The columns with outstanding correlations are scored. A column that is active at a better start would lead to the
    same result and is left out. The rest makes a few steps; this and the scores use a subset of the samples.

    Parameters
    ----------
    problem : Problem
        Problem of one unit of ℓ2 variance.
    norms : ndarray of shape (n_features,)
        The norms of the columns, at least one of them positive.
    count : int

    Returns
    -------
    Point
        The starts as columns, up to `count` of them, with their correlations over all samples. They are in the order
        of their values before the steps on the subset.
    """
    penalty, operator = problem.penalty, problem.operator
    subsampled = replace(problem, operator=subsample_operator(operator))
    max_columns = min(MAX_SHORTLIST_ENTRIES, compute_max_extra_entries(operator)) // max(operator.shape)
    n_columns = max(1, min(max(MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START * count), max_columns))
    usable = penalty.start_score(norms) > 0
    threshold = _choose_correlation_threshold(subsampled, norms, usable)
    shortlist = screen_columns(subsampled.operator, threshold, usable, n_columns)
    # The subset has a sample space, and perhaps a dtype, of its own: only the gradient, (n, count), carries over.
    Y = operator.combine(_ascend_from_columns(subsampled, shortlist, count).astype(operator.dtype))
    return choose_better_sign(penalty, problem.as_batch(Y.shape[1]).feasible_set.make_point(Y))


def _ascend_from_columns(problem: Problem, shortlist: Array, count: int) -> Array:
    """Return up to `count` gradients, (n, count), after a few steps from the best distinct columns of the shortlist."""
    points = problem.as_batch(shortlist.size).feasible_set.make_point(_compute_column_directions(problem, shortlist))
    points = choose_better_sign(problem.penalty, points)
    values, gradient = problem.penalty.relaxation.evaluate(points.C)
    selected = _drop_duplicate_starts(to_host(values), to_host(take_rows(gradient, shortlist)) != 0, count)
    starts, batch = Point(points.X[:, selected], points.C[:, selected]), problem.as_batch(len(selected))
    del points, gradient  # as large as the matrix if it has few samples
    end = maximize(batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT_STEPS).point
    return problem.penalty.evaluate(end.C)[1]


def _choose_correlation_threshold(problem: Problem, norms: Array, usable: Array) -> float:
    """Return the smallest squared correlation that is active at a good start, as a median over a few columns.

    For a column at which no other is active, it is the largest squared correlation with another column. It is at least
    the 200th largest squared correlation.

    `problem` has one unit; its matrix may be a subset of the samples, with the same columns. `norms`, (n,), and the
    mask `usable`, (n,), with at least one column, are in the memory of the matrix.
    """
    usable = to_host(np.flatnonzero(usable))
    by_norm = usable[np.argsort(-to_host(take_rows(norms, usable)), kind="stable")]
    half = N_THRESHOLD_COLUMNS // 2
    idx = np.union1d(by_norm[:half], usable[np.linspace(0, usable.size - 1, half).astype(np.intp)])
    n_batches = min(idx.size, -(-idx.size * norms.size // MAX_THRESHOLD_ENTRIES))
    batches = [_compute_smallest_active_squares(problem, batch) for batch in np.array_split(idx, n_batches)]
    values, squares = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return float(np.median(squares[argsort_by_value(values)[:N_BEST_THRESHOLD_COLUMNS]]))


def _compute_smallest_active_squares(problem: Problem, idx: Array) -> tuple[Array, Array]:
    """Return the values of the best starts at the columns `idx`, and the threshold of each, both on the host."""
    points = problem.as_batch(idx.size).feasible_set.make_point(_compute_column_directions(problem, idx))
    values, gradient = problem.penalty.relaxation.evaluate(points.C)
    best = argsort_by_value(to_host(values))[:N_BEST_THRESHOLD_COLUMNS].tolist()
    squares, is_active = to_host(points.C[:, best]) ** 2, to_host(gradient[:, best]) != 0
    smallest_active = np.min(squares, axis=0, where=is_active, initial=np.inf)
    second, last_counted = (max(len(squares) - rank, 0) for rank in (2, MAX_COUNTED_CORRELATIONS))
    ranked = np.partition(squares, [second, last_counted], axis=0)
    return to_host(values)[best], np.maximum(np.minimum(smallest_active, ranked[second]), ranked[last_counted])


def _drop_duplicate_starts(values: Array, active: Array, count: int) -> list[int]:
    """Return the indices of the best starts, with as few duplicates as possible.

    Parameters
    ----------
    values : ndarray of shape (s,)
        Objective at each start.
    active : ndarray of bool of shape (s, s)
        Whether the column of start i is active at start j, which makes i a duplicate of j if j is better.
    count : int
        Number of starts to return; duplicates fill up the rest.
    """
    distinct: list[int] = []
    duplicates: list[int] = []
    covered = np.zeros(values.size, bool)
    for j in argsort_by_value(values).tolist():
        if covered[j]:
            duplicates.append(j)
        else:
            distinct.append(j)
            covered |= active[:, j]
        if len(distinct) == count:
            break
    return distinct + duplicates[: count - len(distinct)]


def _compute_column_directions(problem: Problem, idx: Array) -> Array:
    """Return the columns `idx` as sample-space vectors; for a column in a group, a power step on its group instead.

    There is one vector for each of the indices `idx`, on the host; the vectors are in the memory of the matrix, and not
    normalised. Groups are variables that the support rules select together; they do not work on a device.
    """
    directions, rules = problem.operator.columns(idx), problem.penalty.support_rules
    if rules is None or rules.group_labels is None:
        return directions
    same_group = rules.group_labels[:, None] == rules.group_labels[idx]  # (n, |idx|)
    return problem.operator.combine(np.where(same_group, problem.operator.correlate(directions), 0))


def choose_better_sign(penalty: Penalty, points: Point) -> Point:
    """Return each point or its opposite, whichever has the larger value; they differ only for non-negative loadings.

    The columns of `points` are independent starts of one unit.
    """
    if not penalty.is_nonnegative:
        return points
    values, _ = penalty.evaluate(points.C)
    opposite_values, _ = penalty.evaluate(-points.C)
    sign = np.where(opposite_values > values, -1, 1).astype(points.C.dtype)
    return Point(points.X * asarray_like(points.X, sign), points.C * asarray_like(points.C, sign))


def _make_extra_directions(operator: Operator, count: int, rng: np.random.RandomState) -> Array:
    """Return the first principal component, then pairs of variables if these are few, then random combinations.

    These are `count` ≥ 1 sample-space vectors A T, in the memory of the matrix, not normalised; some may be zero.
    """
    n = operator.shape[1]
    T = rng.standard_normal((n, count)).astype(operator.dtype)
    T[:, 0] = compute_leading_components(operator, 1)[0][:, 0]
    if n <= MAX_PAIRED_VARIABLES:
        pairs = _find_best_pairs(operator.gram(np.arange(n)), count - 1)
        T[:, 1 : 1 + pairs.shape[1]] = pairs
    return operator.combine(operator.to_backend(T))


def _find_nonzero_columns(operator: Operator, Y: Array) -> list[int]:
    """Return the indices of the columns of Y = A T whose norm is more than rounding.

    For a covariance Y is represented by T, and the norm takes a product: `correlate_if_needed`.
    """
    squares = to_host(operator.squared_norms(Y, correlate_if_needed(operator, Y)))
    return np.flatnonzero(squares > operator.norm_tolerance**2).tolist()


def _find_best_pairs(S: Array, count: int) -> Array:
    """Return the loadings of the pairs of variables of covariance S, (n, n), with the largest variance.

    They are (n, count), or have as many columns as there are pairs if these are fewer.
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

    Directions beyond the rank of the matrix are zero. The correlations of the point contain the weights μ.
    """
    X, C = find_residual_directions(problem.operator, problem.mu.size)
    return Point(X, asarray_like(C, problem.mu) * C)


def make_random_block_start(problem: Problem, rng: np.random.RandomState) -> Point:
    """Return the point at random non-zero columns of the matrix, orthonormalised; there must be at least one.

    If there are fewer non-zero columns than units, some are drawn twice, and `make_point` replaces the duplicates.
    """
    norms = problem.operator.column_norms
    all_nonzero = int(np.count_nonzero(norms > 0)) == norms.size
    candidates = np.arange(norms.size) if all_nonzero else to_host(np.flatnonzero(norms > 0))
    idx = rng.choice(candidates, size=problem.mu.size, replace=candidates.size < problem.mu.size)
    return problem.feasible_set.make_point(problem.operator.columns(idx))


def make_largest_norm_start(problem: Problem, norms: Array, rng: np.random.RandomState) -> Point:
    """Return the point at the column of largest norm and a random orthonormal complement [JNRS10, section 5].

    Among columns whose norms differ by rounding only, the first is taken. `norms`, (n,), are the largest |aᵢᵀx|. Of a
    covariance, the complement of a block is not made orthogonal first, so that `make_point` moves the first unit too.
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
