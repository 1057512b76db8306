"""Find the columns with the strongest correlations, and start at them: they show modules that a sketch does not show.

A module is a group of a few correlated columns among many noisy ones. Its eigenvalue may lie below the noise edge
(√p + √n)² of the squared singular values, and then no principal component shows it [Baik, Ben Arous and Péché 2005].
The columns of the module show it: they are more correlated with each other than with other columns. The score of a
column, the sum of its squared correlations above a threshold, measures this and takes one product. With many columns
the scores are computed on a subset of the samples; only the columns with the highest scores are multiplied by all
samples.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`; a covariance AᵀA is an operator too, with
p = n and without samples. Y, (p, s), are sample-space vectors, one for each of s starts, of any length; for a
covariance they are the coefficients u of vectors A u. ``operator.combine(T)`` is A T, ``operator.correlate(Y)`` is AᵀY,
``operator.columns(idx)`` are columns of A as sample-space vectors and ``operator.gram(idx)`` is the Gram matrix of
columns, on the host. A `Point` has normalised vectors X, (p, s), and their correlations C = AᵀX, (n, s).
These arrays are where the matrix is, on the host or a device, in its dtype. ``problem.as_batch(s)`` is the problem of s
independent starts of one unit, and ``feasible_set.make_point(Y)`` normalises each column of Y and computes C by one
product with the matrix. ``penalty.evaluate(C)`` gives the value of each start and the gradient, (n, s), which is zero
for inactive variables. `norms`, (n,), are the column norms of A, where the matrix is, in its dtype.

``operator.column_norms`` are the norms in the memory and dtype of the matrix; ``has_samples`` is false for a
covariance. ``operator.get_rows(rows)`` are some samples, (r, n), a new array where the matrix is;
``max_cached_columns`` is the number of columns that may be gathered; ``container.wrap_array(B)`` makes a container of
an array. ``penalty.relaxation`` is a faster upper bound on the penalty, by which starts are compared;
``max_cardinality`` is the largest number of variables (not groups), 0 if unknown; ``start_score(norms)``, (n,), is zero
for columns that may not be starts; ``is_nonnegative`` tells that loadings must not be negative; ``support_rules`` is
None without rules, and its ``group_labels``, (n,) on the host, are the group of each variable, None if each is its own
group. ``asarray_like(x, values)`` returns `values` where x is, in its own dtype; ``take_rows(x, idx)`` is a copy of
x[idx]; ``safe_reciprocal(x)`` is 1/x, and 0 for x = 0; ``to_host(x)`` is x as a NumPy array; ``max_or_zero`` is the
largest of non-negative values, 0.0 for none; ``maximize`` runs an ascent, and its ``point`` is where that ended.
`Cardinality` is the penalty of exactly k variables. Column indices `idx` are on the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, is_device_array, max_or_zero, safe_reciprocal, take_rows, to_host
from gpower.feasible_sets import Point
from gpower.operators.base import Operator
from gpower.operators.data_matrix import NORM_BLOCK_COLUMNS, DataMatrix
from gpower.penalties.elementary import Cardinality, Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import Callback, maximize

#: The correlations of all columns with all others may cost as much as a product of the whole matrix with this many
#: columns. Only half of them are computed, so that twice as many columns are scored at that cost. With half of this
#: limit, fits of 2 of 60 standardised 250 × 6000 tables with a planted module end 6 and 11 % below the best.
MAX_PRODUCT_COLUMNS = 4000
#: Largest number of correlations that are computed, some seconds of work; it limits tables with fewer than about a
#: thousandth as many samples as variables.
MAX_CORRELATIONS = 1 << 32
#: Largest number of samples in the subset; the standard error of a correlation is then 0.03.
MAX_SCREENING_SAMPLES = 1000
#: Smallest number of samples that distinguishes a module from noise. If the columns are too many for
#: MAX_PRODUCT_COLUMNS even with so few samples, only the columns of largest norm are scored.
MIN_SCREENING_SAMPLES = 64
#: Largest column norm, and the inverse of the smallest, whose fourth power single precision can represent.
MAX_FLOAT32_NORM = 1e5
#: Shape of a tile of the correlation matrix, which is computed tile by tile.
TILE_SHAPE = (256, 2048)
#: Rows and columns of a tile on a device (134 MB in single precision), where every tile costs a transfer to the host.
DEVICE_TILE_SHAPE = (2048, 16384)
#: Largest number of entries of a sorted copy of the columns, 16 MB in single precision; of more, tiles are copied.
MAX_SORTED_ENTRIES = 1 << 22
#: Number of columns of a covariance that are scored at once: so few that the product reads only their own rows.
COVARIANCE_TILE_COLUMNS = 128
#: Number of best-scored columns that are checked for copies, as a multiple of the number of columns returned. A module
#: of 120 columns has 120 high scores, which would leave no place for a smaller but stronger module.
RANKED_PER_COLUMN = 8
#: Decimals, relative to the largest value, to which norms and scores of columns, and values of starts, are compared;
#: what differs beyond them is rounding, and equal ones keep their order.
SCORE_DECIMALS, VALUE_DECIMALS = 5, 6
#: Number of columns whose correlations with all others are computed: the first number, or the second for each start.
MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START = 128, 2
#: Largest number of entries of these correlations: 256 MB in double precision.
MAX_SHORTLIST_ENTRIES = 1 << 25
#: Largest number of correlations of the starts that make their steps together: 8 MB in single precision. An ascent has
#: four arrays of that size.
MAX_BATCH_ENTRIES = 1 << 21
#: The fractional parts of its multiples are spread evenly over the unit interval.
GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
#: Number of columns at which the threshold of the screening is computed, and how many of them, the best, decide it.
N_THRESHOLD_COLUMNS, N_BEST_THRESHOLD_COLUMNS = 64, 8
#: Largest number of their correlations with all columns that are computed at once, 4 MB in single precision.
MAX_THRESHOLD_ENTRIES = 1 << 20
#: Largest number of correlations of one column above the threshold; a sketch shows components of more variables.
MAX_COUNTED_CORRELATIONS = 200
#: Number of variables of a small module, for penalties without a number of variables.
SMALL_MODULE_VARIABLES = 12
#: Tolerance of the ascents of a race, and the number of steps after which the worse starts are dropped.
RACE_TOL, HEAT_STEPS = 1e-4, 4


def subsample_operator(operator: Operator) -> Operator:
    """Return the matrix on a subset of evenly spaced samples, with its column norms; a covariance is returned as it is.

    The subset is so small that the product of all columns with all others is cheap. It is dense, where the matrix is,
    in single precision if the norms allow it, so that its dtype may differ from that of `operator`. Its samples are not
    those of `operator`: only loadings and column indices carry over. It has at least one sample; a column that is zero
    in all of them stays zero in it, although its norm is that over all samples.
    """
    if not operator.has_samples:
        return operator
    p, n = operator.shape
    n_samples = int(np.clip(2 * MAX_PRODUCT_COLUMNS * p / n, MIN_SCREENING_SAMPLES, MAX_SCREENING_SAMPLES))
    n_samples = max(1, min(n_samples, compute_max_extra_entries(operator) // n))
    rows = np.unique(np.linspace(0, p - 1, min(n_samples, p)).astype(np.intp))
    fits_float32 = 1 / MAX_FLOAT32_NORM < max_or_zero(operator.column_norms) < MAX_FLOAT32_NORM
    B = operator.get_rows(rows).astype(np.float32 if fits_float32 else operator.dtype, order="F")  # (r, n), a copy
    # Scale to the norms over all samples: norms that vary by chance would hide differences between correlations.
    norms = operator.column_norms.astype(B.dtype)
    for start in range(0, n, NORM_BLOCK_COLUMNS):  # few at a time: a norm takes a copy
        columns = slice(start, start + NORM_BLOCK_COLUMNS)
        B[:, columns] *= norms[columns] * safe_reciprocal(np.linalg.norm(B[:, columns], axis=0))
    return DataMatrix(operator.container.wrap_array(B), norms)


def compute_max_extra_entries(operator: Operator) -> int:
    """Return how many entries an extra array may have: as many as A, or as half of the columns that may be cached.

    A has the shape (p, n) of the operator; half of the columns are meant if not all n may be cached.
    """
    p, n = operator.shape
    return p * n if operator.max_cached_columns >= n else p * operator.max_cached_columns // 2


def screen_columns(operator: Operator, threshold: float, usable: Array, max_columns: int) -> Array:
    """Return the columns j with the largest scores Σᵢ (cᵢⱼ² − t)₊, where cᵢⱼ = aᵢᵀaⱼ/‖aⱼ‖, without too many copies.

    The first half of the result are the columns with the highest scores. The second half are columns that are not
    copies of a column with a higher score, so that every module is represented; only if there are too few of them,
    copies follow. A copy has a squared correlation above t with the other column, by the larger of cᵢⱼ² and cⱼᵢ². The
    first half is sorted by decreasing score.

    Parameters
    ----------
    operator : Operator
        The matrix A, (p, n), or a subset of its samples.
    threshold : float
        The smallest squared correlation that counts, t.
    usable : ndarray of bool of shape (n,)
        Mask of the columns that may be returned, on the host or a device.
    max_columns : int
        Largest number of columns to return, at least 1.

    Returns
    -------
    ndarray of int
        Column indices on the host, without columns of norm zero. If no more than `max_columns` columns are usable, all
        of them by decreasing norm.
    """
    norms = to_host(operator.column_norms).astype(np.float64)
    usable = to_host(usable) & (norms > 0)
    if int(np.count_nonzero(usable)) <= max_columns:
        order = argsort_descending(norms, SCORE_DECIMALS)
        return order[usable[order]]
    order = argsort_descending(_score_column_correlations(operator, threshold, norms), SCORE_DECIMALS)
    max_gram_order = math.isqrt(math.prod(operator.shape) // 2)  # their Gram matrix is at most half as large as A
    n_ranked = max(max_columns, min(RANKED_PER_COLUMN * max_columns, max_gram_order))
    ranked = order[usable[order]][:n_ranked]
    highest = np.arange(max_columns // 2)
    squares = to_host(operator.gram(ranked)).astype(np.float64) ** 2
    is_copy = squares > threshold * np.minimum.outer(norms[ranked], norms[ranked]) ** 2  # c² of the smaller norm
    distinct, _ = split_duplicates(np.arange(ranked.size), is_copy, max_columns)
    further = np.setdiff1d(distinct, highest)[: max_columns - highest.size]
    chosen = np.concatenate([highest, further])
    copies = np.setdiff1d(np.arange(max_columns), chosen)[: max_columns - chosen.size]
    return ranked[np.concatenate([chosen, copies])]


def split_duplicates(order: Array, covers: Array, max_distinct: int) -> tuple[list[int], list[int]]:
    """Return the first candidates that no earlier one of these covers, and the others that were passed on the way.

    Parameters
    ----------
    order : ndarray of int of shape (s,)
        The candidates 0, …, s − 1, best first, on the host.
    covers : ndarray of bool of shape (s, s), on the host
        Whether the candidate of the row makes that of the column a duplicate.
    max_distinct : int
        Number of distinct candidates after which the search ends, at least 1.

    Returns
    -------
    distinct, duplicates : list of int
        Candidates, each list best first. Those after the last distinct one are in neither list. A duplicate covers
        nothing.
    """
    distinct: list[int] = []
    duplicates: list[int] = []
    is_covered = np.zeros(order.size, bool)
    for j in order.tolist():
        if is_covered[j]:
            duplicates.append(j)
        else:
            distinct.append(j)
            is_covered |= covers[j]
        if len(distinct) == max_distinct:
            break
    return distinct, duplicates


def argsort_descending(values: Array, decimals: int) -> Array:
    """Return the indices, (…, s), that sort host values, (…, s), in decreasing order along the last axis.

    Values that agree to `decimals` digits, relative to the largest, keep their order; so the sorted values decrease
    only up to that. The values are finite floats of any precision, not negative; s may be zero.
    """
    values = values.astype(np.float64, copy=False)
    largest = np.maximum(np.max(values, axis=-1, keepdims=True, initial=0.0), float(np.finfo(np.float64).tiny))
    return np.argsort(-np.round(values / largest, decimals), axis=-1, kind="stable")


def _score_column_correlations(operator: Operator, threshold: float, norms: Array) -> Array:
    """Return the score Σᵢ (cᵢⱼ² − t)₊ of every column j, (n,), on the host; zero for columns that are not scored.

    `threshold` is t, and `norms`, (n,), are the column norms in float64 on the host, not all zero. The scores are
    float64; all columns of a covariance are scored, and else those of largest norm, as many as are cheap.
    """
    n = norms.size
    if not operator.has_samples:
        scores = np.zeros(n)
        for idx in np.array_split(np.arange(n), -(-n // COVARIANCE_TILE_COLUMNS)):
            C = to_host(operator.correlate(operator.columns(idx))).astype(np.float64) * safe_reciprocal(norms[idx])
            scores[idx] = np.sum(np.maximum(C * C - threshold, 0), axis=0)
        return scores
    order = argsort_descending(norms, SCORE_DECIMALS)
    order = order[norms[order] > 0]  # zero columns score zero
    n_affordable = min(MAX_PRODUCT_COLUMNS * MAX_SCREENING_SAMPLES // operator.shape[0], MAX_CORRELATIONS // order.size)
    if n_affordable < order.size:
        order = _spread_ties(order, norms)
    n_scored = min(order.size, n_affordable)
    excess = _sum_excess_correlations(operator, order, threshold, norms[order] ** 2, n_scored)
    scores = np.zeros(n)
    scores[order[:n_scored]] = excess
    return scores


def _spread_ties(order: Array, norms: Array) -> Array:
    """Return the columns `order`, sorted by decreasing norm, with equal norms in an order that skips through the table.

    A part of the columns of a standardised table is then spread over all of it, so that every module is likely to be
    represented. `norms`, (n,), are on the host.
    """
    levels = np.round(norms[order] / norms[order[0]], SCORE_DECIMALS)
    return order[np.lexsort((order * GOLDEN_RATIO % 1, -levels))]


def _sum_excess_correlations(
    operator: Operator, order: Array, threshold: float, norms_sq: Array, n_scored: int
) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊, i = j included, for the first `n_scored` columns j of B = A[:, order].

    Here cᵢⱼ = bᵢᵀbⱼ/‖bⱼ‖, and the term i = j is (‖bⱼ‖² − t)₊. A large B is copied tile by tile, because it may be as
    large as the matrix. Only the tiles of BᵀB that reach above the diagonal are computed. There the second column of a
    pair has the smaller norm, hence the larger c, so that an entry below the threshold for this column is below it for
    both. The caller sorts norms that are rounded to 1e-5 of the largest, so they decrease only up to that: an entry
    above the threshold for the first column by no more than this margin may be lost, and what it would add is as small.

    Parameters
    ----------
    operator : Operator
        The matrix A, or a subset of its samples, in memory, on the host or a device. Fourth powers of its entries must
        be representable.
    order : ndarray of int of shape (n,)
        Columns of A on the host, by decreasing norm; none is zero in `norms_sq`.
    threshold : float
        The smallest squared correlation that counts, t.
    norms_sq : ndarray of float64 of shape (n,)
        Squared norms ‖bⱼ‖² of the columns over all samples, positive, on the host.
    n_scored : int
        Number of columns, at most n, whose sums are complete: all pairs with one of them are visited.

    Returns
    -------
    ndarray of float64 of shape (n_scored,), on the host
    """
    n = order.size
    sums = np.zeros(n)
    # of aᵢᵀaⱼ, where c² = t for column j
    min_square = asarray_like(operator.column_norms, (threshold * norms_sq).astype(operator.dtype))
    height, width = DEVICE_TILE_SHAPE if is_device_array(operator.column_norms) else TILE_SHAPE
    B = operator.columns(order) if n * operator.shape[0] <= MAX_SORTED_ENTRIES else None
    for i in range(0, n_scored, height):
        left_part = slice(i, min(i + height, n_scored))
        left = (operator.columns(order[left_part]) if B is None else B[:, left_part]).T
        for j in range(i, n, width):
            part = slice(j, j + width)
            squares = left @ (operator.columns(order[part]) if B is None else B[:, part])
            np.square(squares, out=squares)
            flat = np.flatnonzero(np.greater(squares, min_square[j : j + width]))
            large = to_host(squares.reshape(-1)[flat]).astype(np.float64)
            rows, columns = np.divmod(to_host(flat), squares.shape[1])
            is_above = j + columns > i + rows
            large, rows, columns = large[is_above], rows[is_above], columns[is_above]
            for offset, positions, size in ((i, rows, left.shape[0]), (j, columns, squares.shape[1])):
                excess = np.maximum(large * safe_reciprocal(norms_sq[offset + positions]) - threshold, 0)
                sums[offset : offset + size] += np.bincount(positions, excess, size)
    return (sums + np.maximum(norms_sq - threshold, 0))[:n_scored]


def make_module_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return up to `count` starts of one unit, each the module of a column.

    A penalty without a number of variables may make no variable active besides the column itself. For such a penalty
    the starts are constructed with as many variables as a small module has.

    `problem` has one unit of ℓ2 variance. `norms`, (n,), are its column norms, of which at least one is positive. The
    point has one start in each column, at least one, feasible for ``problem.as_batch``, with correlations over all
    samples. ``penalty.with_sign(other)`` is the penalty `other` with the sign constraint of `penalty`.
    """
    penalty = problem.penalty
    if penalty.max_cardinality > 0 or penalty.support_rules is not None:
        return make_screened_starts(problem, norms, count)
    cardinality = Cardinality(np.array([min(SMALL_MODULE_VARIABLES, norms.size)]))
    small = replace(problem, penalty=penalty.with_sign(cardinality))
    _, T = small.penalty.evaluate(make_screened_starts(small, norms, count).C)
    return problem.as_batch(T.shape[1]).feasible_set.make_point(problem.operator.combine(T))


def make_screened_starts(problem: Problem, norms: Array, count: int) -> Point:
    """Return up to `count` starts of one unit at columns, the best of many by the objective at each of them.

    The columns with outstanding correlations are scored. A column that is active at a better start would lead to the
    same result and is left out. The rest makes a few steps; this and the scores use a subset of the samples.

    Parameters
    ----------
    problem : Problem
        Problem of one unit of ℓ2 variance.
    norms : ndarray of shape (n_features,)
        The norms of the columns, at least one of them positive, where the matrix is.
    count : int
        At least 1.

    Returns
    -------
    Point
        The starts as columns, at least one, with their correlations over all samples, where the matrix is. They are in
        the order of their values before the steps on the subset, duplicates last.
    """
    penalty, operator = problem.penalty, problem.operator
    subsampled = replace(problem, operator=subsample_operator(operator))
    max_columns = min(MAX_SHORTLIST_ENTRIES, compute_max_extra_entries(operator)) // max(operator.shape)
    n_columns = max(1, min(max(MIN_SHORTLIST_COLUMNS, SHORTLIST_COLUMNS_PER_START * count), max_columns))
    usable = penalty.start_score(norms) > 0
    threshold = _choose_correlation_threshold(subsampled, norms, usable)
    shortlist = screen_columns(subsampled.operator, threshold, usable, n_columns)
    # The subset has a sample space, and perhaps a dtype, of its own: only the gradient, (n, count), carries over.
    parts = [
        operator.combine(gradients.astype(operator.dtype, copy=False))
        for gradients in _ascend_from_columns(subsampled, shortlist, count)
    ]
    del subsampled  # may be as large as the matrix
    Y = parts[0] if len(parts) == 1 else np.hstack(parts)
    return choose_better_sign(penalty, problem.as_batch(Y.shape[1]).feasible_set.make_point(Y))


def _ascend_from_columns(problem: Problem, shortlist: Array, count: int) -> Iterator[Array]:
    """Yield up to `count` gradients, (n, any), after a few steps from the best distinct columns of the shortlist.

    The starts are divided into batches of at most MAX_BATCH_ENTRIES correlations, or of one start; each batch makes its
    steps by itself, and its gradients are yielded together. `problem` is that of one unit on the subset of the samples;
    `shortlist` are at least one column index, on the host. The gradients are loadings of any length, where the matrix
    is, in the dtype of the subset, duplicates last.
    """
    rows, scores = list[Array](), list[Array]()
    for idx in _split_starts(shortlist, problem.operator.shape[1]):
        points = _make_column_points(problem, idx)
        values, gradient = problem.penalty.relaxation.evaluate(points.C)
        scores.append(to_host(values))
        rows.append(to_host(take_rows(gradient, shortlist)) != 0)
        del gradient  # as large as the correlations
    # A start whose column is active at a better start would lead to the same result.
    distinct, duplicates = split_duplicates(argsort_by_value(np.concatenate(scores)), np.hstack(rows).T, count)
    selected = distinct + duplicates[: count - len(distinct)]
    if len(scores) == 1:
        points = Point(points.X[:, selected], points.C[:, selected])
        yield problem.penalty.evaluate(ascend_briefly(problem, points).C)[1]
        return
    del points
    for idx in _split_starts(shortlist[selected], problem.operator.shape[1]):
        yield problem.penalty.evaluate(ascend_briefly(problem, _make_column_points(problem, idx)).C)[1]


def _split_starts(columns: Array, n: int) -> list[Array]:
    """Return the columns, indices of starts, in parts whose correlations with n columns are at most MAX_BATCH_ENTRIES.

    A part has at least one column.
    """
    return np.array_split(columns, min(columns.size, -(-columns.size * n // MAX_BATCH_ENTRIES)))


def _make_column_points(problem: Problem, idx: Array) -> Point:
    """Return the points at the columns `idx`, each of the better sign, as independent starts of one unit."""
    points = problem.as_batch(idx.size).feasible_set.make_point(compute_column_directions(problem, idx))
    return choose_better_sign(problem.penalty, points)


def ascend_briefly(problem: Problem, starts: Point, callback: Callback | None = None) -> Point:
    """Return the points after a few steps from independent starts of a problem of one unit, the columns of a point.

    The starts are feasible for ``problem.as_batch``; the result has one column for each, in the same order. `callback`
    is called with the state of the ascent after each step.
    """
    batch = problem.as_batch(starts.C.shape[1])
    return maximize(
        batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT_STEPS, callback=callback
    ).point


def _choose_correlation_threshold(problem: Problem, norms: Array, usable: Array) -> float:
    """Return the smallest squared correlation that is active at a good start, as a median over a few columns.

    For a column at which no other is active, it is the largest squared correlation with another column. It is at least
    the 200th largest squared correlation.

    `problem` has one unit; its matrix may be a subset of the samples, with the same columns. `norms`, (n,), and the
    mask `usable`, (n,), with at least one column, are in the memory of the matrix. "Active at a column" refers to the
    penalty at the correlations with that column, normalised; good starts are those of the largest values.
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
    """Return the values of the best starts at the columns `idx`, and the threshold of each, both on the host.

    Both are (k,), in the dtype of the matrix, for at most `N_BEST_THRESHOLD_COLUMNS` starts, best first; `idx` has at
    least one index. The threshold of a start is a squared correlation: that of its weakest active variable, but at most
    the second largest and at least the `MAX_COUNTED_CORRELATIONS`-th largest.
    """
    points = problem.as_batch(idx.size).feasible_set.make_point(compute_column_directions(problem, idx))
    values, gradient = problem.penalty.relaxation.evaluate(points.C)
    best = argsort_by_value(to_host(values))[:N_BEST_THRESHOLD_COLUMNS].tolist()
    squares, is_active = to_host(points.C[:, best]) ** 2, to_host(gradient[:, best]) != 0
    smallest_active = np.min(squares, axis=0, where=is_active, initial=np.inf)
    second, last_counted = (max(len(squares) - rank, 0) for rank in (2, MAX_COUNTED_CORRELATIONS))
    ranked = np.partition(squares, [second, last_counted], axis=0)
    return to_host(values)[best], np.maximum(np.minimum(smallest_active, ranked[second]), ranked[last_counted])


def compute_column_directions(problem: Problem, idx: Array) -> Array:
    """Return the columns `idx` as sample-space vectors; for a column in a group, a power step on its group instead.

    There is one vector for each of the indices `idx`, on the host; the vectors, (p, |idx|), are in the memory and dtype
    of the matrix, and not normalised. A power step on a group is A times the correlations aᵢᵀa of its variables i with
    the column a. Groups are variables that the support rules select together; they do not work on a device.
    """
    directions, rules = problem.operator.columns(idx), problem.penalty.support_rules
    if rules is None or rules.group_labels is None:
        return directions
    same_group = rules.group_labels[:, None] == rules.group_labels[idx]  # (n, |idx|)
    return problem.operator.combine(np.where(same_group, problem.operator.correlate(directions), 0))


def choose_better_sign(penalty: Penalty, points: Point) -> Point:
    """Return each point or its opposite, whichever has the larger value; they differ only for non-negative loadings.

    The columns of `points`, X of shape (p, s) and C of shape (n, s), are independent starts of one unit. They are not
    changed; of equal values the given sign is kept. `penalty` gives one value for each column.
    """
    if not penalty.is_nonnegative:
        return points
    values, _ = penalty.evaluate(points.C)
    opposite_values, _ = penalty.evaluate(-points.C)
    sign = np.where(opposite_values > values, -1, 1).astype(points.C.dtype)
    return Point(points.X * asarray_like(points.X, sign), points.C * asarray_like(points.C, sign))


def argsort_by_value(values: Array) -> Array:
    """Return the indices that sort host values, (s,), in decreasing order; those equal up to rounding keep theirs."""
    return argsort_descending(values, VALUE_DECIMALS)
