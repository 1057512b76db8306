"""Find the columns with outstanding correlations, which a sketch by principal components cannot show.

A module is a group of a few correlated columns among many noisy ones. Its eigenvalue may lie below the noise edge
(√p + √n)² of the squared singular values, and then no principal component shows it [Baik, Ben Arous and Péché 2005].
The columns themselves do: the correlations of a column of the module with the rest of the module are larger than its
correlations with other columns. The sum of its squared correlations above a threshold measures this and takes one
product. With many columns the sums are computed on a subset of the samples; that suffices to choose the columns for
which a product with all samples pays.
"""

from __future__ import annotations

import math

import numpy as np

from gpower._utils.arrays import Array, asarray_like, is_device_array, max_or_zero, safe_reciprocal, to_host
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix

#: The correlations of all columns with all others may cost as much as a product of the whole matrix with this many
#: columns. Only half of them are computed, so that twice as many columns are scored at that cost. With half of this
#: limit, fits of 2 of 60 standardised 250 × 6000 tables with a planted module end 6 and 11 % below the best.
MAX_PRODUCT_COLUMNS = 4000
#: Largest number of samples in the subset; the standard error of a correlation is then 0.03.
MAX_SCREENING_SAMPLES = 1000
#: Smallest number of samples that tell a module from noise. If the columns are too many for the limit above even with
#: so few samples, only the columns of largest norm are scored.
MIN_SCREENING_SAMPLES = 64
#: Largest column norm, and the inverse of the smallest, whose fourth power single precision can represent.
MAX_FLOAT32_NORM = 1e5
#: Shape of a tile of the correlation matrix, which is computed tile by tile.
TILE_SHAPE = (256, 2048)
#: Rows and columns of a tile on a device (134 MB in single precision), where every tile costs a transfer to the host.
DEVICE_TILE_SHAPE = (2048, 16384)
#: Number of columns of a covariance that are scored at once: so few that the product reads only their own rows.
COVARIANCE_TILE_COLUMNS = 128
#: Number of best-scored columns that are checked for copies, as a multiple of the number of columns returned. A module
#: of 120 columns has 120 high scores, which would leave no place for a smaller but stronger module.
RANKED_PER_COLUMN = 8
#: Decimals, relative to the largest score, to which scores are compared; equal scores keep their order.
SCORE_DECIMALS = 5


def subsample_operator(operator: Operator) -> Operator:
    """Return the matrix on a subset of evenly spaced samples, with its column norms; a covariance is returned as it is.

    The subset is so small that the product of all columns with all others is cheap. It is in single precision if the
    norms allow it.
    """
    if not operator.has_samples:
        return operator
    p, n = operator.shape
    n_samples = int(np.clip(2 * MAX_PRODUCT_COLUMNS * p / n, MIN_SCREENING_SAMPLES, MAX_SCREENING_SAMPLES))
    n_samples = max(1, min(n_samples, compute_max_extra_entries(operator) // n))
    rows = np.unique(np.linspace(0, p - 1, min(n_samples, p)).astype(np.intp))
    fits_float32 = 1 / MAX_FLOAT32_NORM < max_or_zero(operator.column_norms) < MAX_FLOAT32_NORM
    B = operator.get_rows(rows).astype(np.float32 if fits_float32 else operator.dtype, order="F")  # (r, n)
    # Scale to the norms over all samples: norms that vary by chance would hide differences between correlations.
    norms = operator.column_norms.astype(B.dtype)
    B *= norms * safe_reciprocal(np.linalg.norm(B, axis=0))
    return DataMatrix(operator.container.wrap_array(B), norms)


def compute_max_extra_entries(operator: Operator) -> int:
    """Return how many entries an extra array may have: as many as A, or as half of the columns that may be cached."""
    p, n = operator.shape
    return p * n if operator.max_cached_columns >= n else p * operator.max_cached_columns // 2


def screen_columns(operator: Operator, threshold: float, usable: Array, max_columns: int) -> Array:
    """Return the columns j with the largest scores Σᵢ (cᵢⱼ² − t)₊, where cᵢⱼ = aᵢᵀaⱼ/‖aⱼ‖, without too many copies.

    The first half of the result are the columns with the highest scores. The second half are columns that are not
    copies of a column with a higher score, so that every module is represented; only if there are too few of them,
    copies follow. A copy has a squared correlation above t with the other column.

    Parameters
    ----------
    operator : Operator
        The matrix A, (p, n), or a subset of its samples.
    threshold : float
        The smallest squared correlation that counts, t.
    usable : ndarray of bool of shape (n,)
        Mask of the columns that may be returned.
    max_columns : int
        Largest number of columns to return.

    Returns
    -------
    ndarray of int
        Column indices on the host. If no more than `max_columns` columns are usable, all of them by decreasing norm.
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
    distinct = _select_distinct_columns(operator, ranked, threshold, norms[ranked], max_columns)
    further = np.setdiff1d(distinct, highest)[: max_columns - highest.size]
    chosen = np.concatenate([highest, further])
    copies = np.setdiff1d(np.arange(max_columns), chosen)[: max_columns - chosen.size]
    return ranked[np.concatenate([chosen, copies])]


def _select_distinct_columns(
    operator: Operator, ranked: Array, threshold: float, norms: Array, max_columns: int
) -> Array:
    """Return positions in `ranked` of columns that are not copies of an earlier one, in increasing order."""
    squares = to_host(operator.gram(ranked)).astype(np.float64) ** 2
    is_copy = squares > threshold * np.minimum.outer(norms, norms) ** 2  # c² of the column of smaller norm
    covered = np.zeros(ranked.size, bool)
    distinct: list[int] = []
    for j in range(ranked.size):
        if not covered[j]:
            distinct.append(j)
            covered |= is_copy[j]
        if len(distinct) == max_columns:
            break
    return np.array(distinct, np.intp)


def argsort_descending(values: Array, decimals: int) -> Array:
    """Return the indices that sort host values in decreasing order.

    Values that agree to `decimals` digits, relative to the largest, keep their order.
    """
    values = values.astype(np.float64)
    largest = max(float(np.max(values, initial=0.0)), float(np.finfo(np.float32).tiny))
    return np.argsort(-np.round(values / largest, decimals), kind="stable")


def _score_column_correlations(operator: Operator, threshold: float, norms: Array) -> Array:
    """Return the score Σᵢ (cᵢⱼ² − t)₊ of every column j, (n,), on the host; zero for columns that are not scored."""
    n = norms.size
    if not operator.has_samples:
        blocks = np.array_split(np.arange(n), -(-n // COVARIANCE_TILE_COLUMNS))
        return np.concatenate([_score_covariance_columns(operator, idx, threshold, norms) for idx in blocks])
    order = argsort_descending(norms, SCORE_DECIMALS)
    order = order[norms[order] > 0]  # zero columns score zero
    B = operator.columns(order)  # (r, n_nonzero)
    n_scored = int(min(order.size, MAX_PRODUCT_COLUMNS * MAX_SCREENING_SAMPLES / B.shape[0]))
    scores = np.zeros(n)
    scores[order[:n_scored]] = _sum_excess_correlations(B, threshold, norms[order] ** 2, n_scored)
    return scores


def _score_covariance_columns(operator: Operator, idx: Array, threshold: float, norms: Array) -> Array:
    """Return the scores Σᵢ (cᵢⱼ² − t)₊ of the columns `idx`, (|idx|,), on the host, for a covariance operator."""
    C = to_host(operator.correlate(operator.columns(idx))).astype(np.float64) * safe_reciprocal(norms[idx])
    return np.sum(np.maximum(C * C - threshold, 0), axis=0)


def _sum_excess_correlations(B: Array, threshold: float, norms_sq: Array, n_scored: int) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ for the first `n_scored` columns j of B, whose columns are sorted by decreasing norm.

    Only the tiles of BᵀB that reach above the diagonal are computed. There the second column of a pair has the smaller
    norm, hence the larger c, so that an entry below the threshold for this column is below it for both.

    Parameters
    ----------
    B : ndarray of shape (r, n)
    threshold : float
        The smallest squared correlation that counts, t.
    norms_sq : ndarray of shape (n,)
        Squared norms of the columns, decreasing, on the host.
    n_scored : int

    Returns
    -------
    ndarray of float64 of shape (n_scored,), on the host
    """
    n = B.shape[1]
    sums = np.zeros(n)
    min_square = asarray_like(B, (threshold * norms_sq).astype(B.dtype))  # of aᵢᵀaⱼ, where c² = t for column j
    inverse = safe_reciprocal(norms_sq)
    height, width = DEVICE_TILE_SHAPE if is_device_array(B) else TILE_SHAPE
    for i in range(0, n_scored, height):
        left = B[:, i : min(i + height, n_scored)].T
        for j in range(i, n, width):
            squares = left @ B[:, j : j + width]
            np.square(squares, out=squares)
            flat = np.flatnonzero(np.greater(squares, min_square[j : j + width]))
            large = to_host(squares.reshape(-1)[flat]).astype(np.float64)
            rows, columns = np.divmod(to_host(flat), squares.shape[1])
            is_above = j + columns > i + rows
            large, rows, columns = large[is_above], rows[is_above], columns[is_above]
            for offset, positions, size in ((i, rows, left.shape[0]), (j, columns, squares.shape[1])):
                excess = np.maximum(large * inverse[offset + positions] - threshold, 0)
                sums[offset : offset + size] += np.bincount(positions, excess, size)
    return (sums + np.maximum(norms_sq - threshold, 0))[:n_scored]
