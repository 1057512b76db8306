"""Find the columns whose correlations stand out: what a sketch by principal components cannot show.

A module is a few correlated columns among many noisy ones. Its eigenvalue may lie below the noise edge (√p + √n)² of
the singular values, and then no principal component shows it [Baik, Ben Arous and Péché 2005]. The columns themselves
do: among the correlations of one column of the module with all others, those with the rest of the module stand out. The
sum of the squares above a threshold says so, at the price of one product. With many columns it is computed on a part of
the samples, which is enough to choose the columns that are worth a product with all samples.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, safe_reciprocal, to_host
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix

#: The correlations of all columns with all others cost at most as much as the product of the whole matrix with this
#: many columns. Only half of them are computed, so twice as many columns are scored at that price. With half of this
#: number 2 of 60 standardised 250 × 6000 tables with a planted module end 6 and 11 % below the best.
MAX_PRODUCT_COLUMNS = 4000
#: Samples that suffice, whatever their number: noise of a correlation is then 0.03.
MAX_SCREENING_SAMPLES = 1000
#: Fewest samples that tell a module from noise; with more columns than that allows only the longest are scored.
MIN_SCREENING_SAMPLES = 64
#: Norms of columns, and one over them, whose fourth powers single precision holds.
MAX_FLOAT32_NORM = 1e5
#: Rows and columns of a tile of the matrix of correlations.
TILE_SHAPE = (256, 2048)
#: Columns of a covariance that are scored at once.
COVARIANCE_TILE_COLUMNS = 2048
#: Columns of the highest scores among which copies are looked for, as a multiple of the columns that are returned.
#: A module of 120 columns has 120 high scores, which would leave no place for a smaller but stronger module.
RANKED_PER_COLUMN = 8
#: Digits of a score that rounding does not reach; columns of equal score keep their order.
SCORE_DECIMALS = 5


def subsample_operator(operator: Operator) -> Operator:
    """Return the matrix on a part of its samples, evenly spaced, its columns as long as before; itself if it has none.

    Small enough that the product of all columns with all others is cheap; in single precision where that suffices.
    """
    if not operator.has_samples:
        return operator
    p, n = operator.shape
    n_samples = int(np.clip(2 * MAX_PRODUCT_COLUMNS * p / n, MIN_SCREENING_SAMPLES, MAX_SCREENING_SAMPLES))
    n_samples = max(1, min(n_samples, compute_max_extra_entries(operator) // n))
    rows = np.unique(np.linspace(0, p - 1, min(n_samples, p)).astype(np.intp))
    single = 1 / MAX_FLOAT32_NORM < max_or_zero(operator.column_norms) < MAX_FLOAT32_NORM
    B = operator.get_rows(rows).astype(np.float32 if single else operator.dtype, order="F")  # (r, n)
    # As long as the whole column: a length that varies by chance would hide correlations that do not.
    norms = operator.column_norms.astype(B.dtype)
    B *= norms * safe_reciprocal(np.linalg.norm(B, axis=0))
    return DataMatrix(operator.container.wrap_array(B), norms)


def compute_max_extra_entries(operator: Operator) -> int:
    """Return how many entries an array beside the matrix may have: half as many as the columns that may be gathered."""
    p, n = operator.shape
    return p * n if operator.max_cached_columns >= n else p * operator.max_cached_columns // 2


def screen_columns(operator: Operator, threshold: float, usable: Array, max_columns: int) -> Array:
    """Return the columns j with the largest Σᵢ (cᵢⱼ² − t)₊, where cᵢⱼ = aᵢᵀaⱼ/‖aⱼ‖, and columns unlike them.

    Half of the places go to the highest scores. The other half goes to columns that are not copies of one with a
    higher score, so that every module is represented; a copy has a squared correlation above t with it.

    Parameters
    ----------
    operator : Operator
        The matrix A, (p, n), or a part of its samples.
    threshold : float
        t, the least squared correlation that counts.
    usable : ndarray of bool of shape (n,)
        The columns to choose from.
    max_columns : int
        Number of columns to return at most.

    Returns
    -------
    ndarray of int
        Indices on the host, the highest scores first.
    """
    norms = to_host(operator.column_norms).astype(np.float64)
    usable = to_host(usable) & (norms > 0)
    if int(np.count_nonzero(usable)) <= max_columns:
        order = _argsort_descending(norms)
        return order[usable[order]]
    order = _argsort_descending(_score_column_correlations(operator, threshold, norms))
    ranked = order[usable[order]][: RANKED_PER_COLUMN * max_columns]
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
    G = to_host(operator.gram(ranked)).astype(np.float64) ** 2
    is_copy = G > threshold * np.minimum.outer(norms, norms) ** 2  # at the shorter of two columns
    covered = np.zeros(ranked.size, bool)
    distinct: list[int] = []
    for j in range(ranked.size):
        if not covered[j]:
            distinct.append(j)
            covered |= is_copy[j]
        if len(distinct) == max_columns:
            break
    return np.array(distinct, np.intp)


def _argsort_descending(values: Array) -> Array:
    """Return the order of decreasing values; values that differ by rounding keep their places."""
    top = float(np.max(values, initial=0.0)) or 1.0
    return np.argsort(-np.round(values / top, SCORE_DECIMALS), kind="stable")


def _score_column_correlations(operator: Operator, threshold: float, norms: Array) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ of every column j, (n,); zero where a column is not scored."""
    n = norms.size
    if not operator.has_samples:
        blocks = np.array_split(np.arange(n), -(-n // COVARIANCE_TILE_COLUMNS))
        return np.concatenate([_score_covariance_columns(operator, idx, threshold, norms) for idx in blocks])
    order = _argsort_descending(norms)
    B = operator.columns(order)  # (r, n)
    n_scored = int(min(n, MAX_PRODUCT_COLUMNS * MAX_SCREENING_SAMPLES / B.shape[0]))
    scores = np.zeros(n)
    scores[order[:n_scored]] = _sum_excess_correlations(B, threshold, norms[order] ** 2, n_scored)
    return scores


def _score_covariance_columns(operator: Operator, idx: Array, threshold: float, norms: Array) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ of some columns of a matrix that is known by its covariance."""
    C = to_host(operator.correlate(operator.columns(idx))).astype(np.float64) * safe_reciprocal(norms[idx])
    return np.sum(np.maximum(C * C - threshold, 0), axis=0)


def _sum_excess_correlations(B: Array, threshold: float, norms_sq: Array, n_scored: int) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ for the first columns j of B, (r, n), whose columns come by decreasing length.

    Only the half above the diagonal of BᵀB is computed. There the second column of a pair is the shorter one, to which
    the correlation matters more: an entry is looked at where it matters to that one.

    Parameters
    ----------
    B : ndarray of shape (r, n)
    threshold : float
    squares : ndarray of shape (n,)
        Squared norms of the columns, decreasing.
    n_scored : int

    Returns
    -------
    ndarray of float64 of shape (n_scored,), on the host
    """
    n, sums = B.shape[1], np.zeros(B.shape[1])
    level = asarray_like(B, (threshold * norms_sq).astype(B.dtype))
    inverse = safe_reciprocal(norms_sq)
    for i in range(0, n_scored, TILE_SHAPE[0]):
        left = B[:, i : min(i + TILE_SHAPE[0], n_scored)].T
        for j in range(i, n, TILE_SHAPE[1]):
            G = left @ B[:, j : j + TILE_SHAPE[1]]
            np.square(G, out=G)
            flat = np.flatnonzero(np.greater(G, level[j : j + TILE_SHAPE[1]]))
            excess, at = to_host(G.reshape(-1)[flat]).astype(np.float64), to_host(flat)
            first, second = i + at // G.shape[1], j + at % G.shape[1]
            above = second > first
            excess, first, second = excess[above], first[above], second[above]
            sums += np.bincount(second, np.maximum(excess * inverse[second] - threshold, 0), n)
            sums += np.bincount(first, np.maximum(excess * inverse[first] - threshold, 0), n)
    return (sums + np.maximum(norms_sq - threshold, 0))[:n_scored]
