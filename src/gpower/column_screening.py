"""Find the columns whose correlations stand out: what a sketch by principal components cannot show.

A module is a few correlated columns among many noisy ones. Its eigenvalue may lie below the noise edge (√p + √n)² of
the singular values, and then no principal component shows it [Baik, Ben Arous and Péché 2005]. The columns themselves
do: among the correlations of one column of the module with all others, those with the rest of the module stand out. The
sum of their fourth powers says so, at the price of one product. With many columns it is computed on a part of the
samples, which is enough to choose the columns that are worth a product with all samples.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, beside, largest, reciprocal, to_host
from gpower.operators.base import Operator
from gpower.operators.data_matrix import DataMatrix

#: The product of all columns with all others costs at most as much as one of so many columns with the whole matrix.
COLUMNS_WORTH = 5000
#: Samples that suffice, whatever their number: noise of a correlation is then 0.03.
MOST_SAMPLES = 1000
#: Fewest samples that tell a module from noise; with more columns than that allows only the longest are scored.
FEWEST_SAMPLES = 64
#: Rows and columns of a tile of the matrix of correlations.
TILE = (512, 2048)
#: Digits of a score that rounding does not reach; columns of equal score keep their order.
TIES = 5


def sample_operator(operator: Operator) -> Operator:
    """Return the matrix on a part of its samples, evenly spaced, its columns as long as before; itself if it has none.

    Small enough that the product of all columns with all others is cheap. In single precision, in units of the longest
    column where that is far from one.
    """
    if not operator.has_samples:
        return operator
    p, n = operator.shape
    n_samples = int(np.clip(COLUMNS_WORTH * p / n, FEWEST_SAMPLES, MOST_SAMPLES))
    rows = np.unique(np.linspace(0, p - 1, min(n_samples, p)).astype(np.intp))
    B = operator.sample_rows(rows)  # (r, n)
    # As long as the whole column: a length that varies by chance would hide correlations that do not.
    B = B * (operator.column_norms * reciprocal(np.sqrt(np.sum(B * B, axis=0))))
    B = np.ascontiguousarray(B.astype(operator.dtype))
    return DataMatrix(operator.container.held(B), operator.column_norms)


def screen_columns(operator: Operator, threshold: float, usable: Array, count: int) -> Array:
    """Return the columns j with the largest Σᵢ (cᵢⱼ² − t)₊, where cᵢⱼ = aᵢᵀaⱼ/‖aⱼ‖.

    Parameters
    ----------
    operator : Operator
        The matrix A, (p, n), or a part of its samples.
    threshold : float
        t, the least squared correlation that counts.
    usable : ndarray of bool of shape (n,)
        The columns to choose from.
    count : int
        Number of columns to return at most.

    Returns
    -------
    ndarray of int
        Indices on the host, the most promising column first.
    """
    norms = to_host(operator.column_norms).astype(np.float64)
    usable = to_host(usable) & (norms > 0)
    if int(np.count_nonzero(usable)) <= count:
        order = _descending(norms)
    else:
        order = _descending(_score_columns(operator, threshold, norms))
    return order[usable[order]][:count]


def _descending(values: Array) -> Array:
    """Return the order of decreasing values; values that differ by rounding keep their places."""
    top = float(np.max(values, initial=0.0)) or 1.0
    return np.argsort(-np.round(values / top, TIES), kind="stable")


def _score_columns(operator: Operator, threshold: float, norms: Array) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ of every column j, (n,); zero where a column is not scored."""
    n, longest = norms.size, largest(norms)
    squares = (norms / longest) ** 2
    threshold /= longest**2
    if not operator.has_samples:
        return np.concatenate([_score_covariance(operator, idx, threshold, norms) for idx in _blocks(n)])
    B = operator.columns(np.arange(n)) / longest
    B = np.ascontiguousarray(B.astype(np.float32))
    n_scored = int(min(n, COLUMNS_WORTH * MOST_SAMPLES / B.shape[0]))
    scored = None if n_scored == n else np.sort(_descending(norms)[:n_scored])
    return _sum_excess(B, threshold, squares, scored)


def _blocks(n: int) -> list[Array]:
    """Return the indices of n columns in blocks."""
    return np.array_split(np.arange(n), -(-n // TILE[0]))


def _score_covariance(operator: Operator, idx: Array, threshold: float, norms: Array) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ of some columns of a matrix that is known by its covariance."""
    C = to_host(operator.correlate(operator.columns(idx))) / largest(norms)
    C = C.astype(np.float64) * reciprocal(norms[idx])
    return np.sum(np.maximum(C * C - threshold, 0), axis=0)


def _sum_excess(B: Array, threshold: float, squares: Array, scored: Array | None = None) -> Array:
    """Return Σᵢ (cᵢⱼ² − t)₊ for every column j of B, (r, n), or of those `scored`; all take half the products.

    `squares`, (n,), are the squared norms of the columns.
    """
    n, alike = B.shape[1], bool(np.ptp(squares) <= 1e-3)
    level = beside(B, (threshold * squares).astype(np.float32))  # of (aᵢᵀaⱼ)²
    S, own = (B, level) if scored is None else (B[:, beside(B, scored)], level[beside(B, scored)])
    total = np.zeros_like(B, shape=S.shape[1])
    ones = beside(B, np.ones(max(TILE), np.float32))
    for i in range(0, S.shape[1], TILE[0]):
        left, rows = S[:, i : i + TILE[0]].T, slice(i, i + TILE[0])
        for j in range(i if scored is None else 0, n, TILE[1]):
            columns = slice(j, j + TILE[1])
            G = left @ B[:, columns]
            np.square(G, out=G)
            excess = np.subtract(G, own[rows, None])
            np.maximum(excess, 0, out=excess)
            total[rows] += excess @ ones[: G.shape[1]]
            if scored is None:  # a tile above the diagonal stands for the one below it
                if not alike:
                    np.subtract(G, level[columns], out=excess)
                    np.maximum(excess, 0, out=excess)
                beyond = max(i + TILE[0] - j, 0)
                total[j + beyond : j + TILE[1]] += ones[: G.shape[0]] @ excess[:, beyond:]
    sums = np.zeros(n)
    sums[slice(None) if scored is None else scored] = to_host(total)
    return sums * reciprocal(squares)
