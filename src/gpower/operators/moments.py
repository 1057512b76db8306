"""Means, column norms and covariances of a matrix in memory, accurate and in bounded extra memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, beside, is_device, reciprocal
from gpower.operators.base import PassCounter
from gpower.operators.blocks import BlockMatrix

#: Elements of the blocks in which a dense matrix is centred: a buffer that stays in the cache.
BLOCK = 1 << 18
#: Entries from which moments are summed by several threads, and how many at most.
THREADED, MOST_THREADS = 16_000_000, 8
#: Stored entries of a sparse matrix treated at once.
SPARSE_BLOCK = 1 << 16
#: Rows of a sparse matrix whose products are summed at once.
SPARSE_ROWS = 1 << 12
#: Rows that are summed at once in single precision.
ROWS_IN_SINGLE = 1 << 10
#: Entries of an array on a device that are centred at once.
DEVICE_BLOCK = 1 << 28
#: Rows whose medians shift a matrix in blocks before its moments are summed.
FIRST_ROWS = 32
#: How often columns are looked at again at most: each time about a better mean.
LOOKS = 3
#: Share of the squares below which their differences have lost too many digits.
CANCELLED = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 1e-2}
#: Share of the columns up to which they are gathered to be looked at again.
FEW_COLUMNS = 1 / 8


@dataclass(frozen=True, eq=False)
class Moments:
    """What standardisation subtracts and divides by.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,)
        (x − mean)/scale; zeros and ones where switched off. A constant column has scale one.
    norms : ndarray of shape (n_features,)
        Norms of the standardised, weighted columns; exactly zero for a constant column.
    weight : float
        Number of samples, or the sum of their weights.
    """

    mean: Array
    scale: Array
    norms: Array
    weight: float

    @property
    def degrees(self) -> float:
        """Weight − 1, the divisor of variances; one where that would not be positive."""
        return self.weight - 1 if self.weight > 1 else 1.0

    def column_scale(self, dtype: np.dtype) -> Array | None:
        """1/scale, zero for constant columns whose rounding noise must not pass for data; None for all ones."""
        factor = np.where(self.norms > 0, 1 / self.scale, 0.0)
        return None if np.all(factor == 1) else factor.astype(dtype)

    def centring_loss(self, dtype: np.dtype) -> Array:
        """Relative rounding error of each column, (n_features,), in a product that is centred afterwards."""
        offset = np.abs(self.mean) * np.sqrt(self.weight) * reciprocal(self.norms * self.scale)
        return float(np.finfo(dtype).eps) * offset


def column_moments(X: Any, center: bool, scale: bool, weight: Array | None, counter: PassCounter) -> Moments:
    """Means and norms of the columns in one pass, and some columns again where that lost digits."""
    n = X.shape[1]
    total = float(X.shape[0] if weight is None else np.sum(weight, dtype=np.float64))
    if center or scale:
        mean, deviation = _mean_and_deviation(X, weight, total, counter)
        noise = 16 * np.finfo(np.float64).eps * np.abs(mean) * np.sqrt(total)  # of sums, which are in float64
        deviation = np.where(deviation <= noise, 0.0, deviation)
    else:
        counter.add(1)
        zero = np.zeros_like(X, dtype=np.float64, shape=(n,)) if is_device(X) else np.zeros(n)
        mean, deviation = zero, deviation_norms(X, zero, weight)
    spread = np.ones_like(deviation)
    if scale:
        spread = np.where(deviation > 0, deviation / np.sqrt(max(total - 1, 1.0)), 1.0)
    if scale and not center:
        deviation, mean = np.sqrt(deviation**2 + total * mean**2), np.zeros_like(mean)
    return Moments(mean, spread, deviation / spread, total)


def _mean_and_deviation(X: Any, weight: Array | None, total: float, counter: PassCounter) -> tuple[Array, Array]:
    """Means, and norms of the deviations from them.

    One pass, Σd² − (Σd)²/W for the differences d from a shift. Columns where that cancels are looked at again, about a
    typical value if zero was the shift, then about their mean.
    """
    counter.add(1)
    if isinstance(X, BlockMatrix) and X.axis == 1:  # whole columns: each block by itself
        found = np.concatenate(X.pieces(block_moments, X.shares(weight, total)), axis=1)
        return found[0], found[1]
    if is_device(X):
        mean = _device_sums(X, weight) / total
        return mean, deviation_norms(X, mean, weight)
    if sp.issparse(X):
        mean = _sparse_sums(X, weight) / total
        return mean, _sparse_deviation_norms(X, mean, weight)
    blocks = isinstance(X, BlockMatrix)
    about_zero = X.dtype == np.float64 and not blocks  # double precision bears it mostly
    shift = np.zeros(X.shape[1]) if about_zero else _typical(X, weight)
    mean, squares, lost = _about(X, shift, weight, total)
    for look in range(LOOKS):
        if not lost.any():
            break
        idx, part = _columns_again(X, lost, counter)
        shift = _typical(part, weight) if about_zero and look == 0 else mean[idx].astype(X.dtype)
        mean[idx], squares[idx], lost[idx] = _about(part, np.where(lost[idx], shift, 0), weight, total)
    return mean, np.sqrt(np.maximum(squares, 0))


def _about(X: Any, shift: Array, weight: Array | None, total: float) -> tuple[Array, Array, Array]:
    """Means, squared norms of the deviations from them, and where these have cancelled, by sums about a shift."""
    sums, squares = _shifted_sums(X, shift, weight)
    kept = squares - sums**2 / total
    return shift + sums / total, kept, ~(kept >= CANCELLED[X.dtype] * squares)


def _columns_again(X: Any, lost: Array, counter: PassCounter) -> tuple[Any, Any]:
    """Some columns of a matrix and which they are; all of it where they are many."""
    if isinstance(X, BlockMatrix) or np.count_nonzero(lost) > FEW_COLUMNS * lost.size:
        counter.add(1)
        return slice(None), X
    idx = np.flatnonzero(lost)
    counter.add(idx.size / lost.size)
    return idx, X[:, idx]


def _typical(X: Any, weight: Array | None) -> Array:
    """The median of a few samples, those of the largest weights; of a constant column its very value."""
    if isinstance(X, BlockMatrix):
        first = X.head(FIRST_ROWS)
        if weight is not None:
            first = first[weight[: len(first)] > 0]
        return np.asarray(np.median(first, axis=0) if len(first) else np.zeros(X.shape[1])).astype(X.dtype)
    p = X.shape[0]
    heaviest = np.arange(p) if weight is None else np.argsort(-weight, kind="stable")
    a, b, c = (X[heaviest[i % p]] for i in range(3))
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def block_moments(block: Any, weight: Array | None, total: float) -> Array:
    """Means and norms of the deviations from them of a block of whole columns, (2, n)."""
    return np.stack(_mean_and_deviation(block, weight, total, PassCounter()))


def deviation_norms(X: Any, mean: Array, weight: Array | None = None) -> Array:
    """‖√w∘(x − mean)‖ of every column, without cancellation."""
    if is_device(X):
        return np.sqrt(_device_squares(X, mean, weight))
    if sp.issparse(X):
        return _sparse_deviation_norms(X, mean, weight)
    return np.sqrt(_shifted_sums(X, mean.astype(X.dtype), weight)[1])


def _shifted_sums(X: Any, shift: Array, weight: Array | None) -> tuple[Array, Array]:
    """Weighted sums of x − shift and of its squares over the rows, in float64; large matrices by several threads."""
    if isinstance(X, BlockMatrix):
        return _blocked_sums(X, shift, weight)
    by_columns = bool(X.flags.f_contiguous and not X.flags.c_contiguous)
    w = np.ones(X.shape[0], X.dtype) if weight is None else weight.astype(X.dtype)
    threads = min(os.cpu_count() or 1, MOST_THREADS) if X.size >= THREADED else 1
    parts = np.array_split(np.arange(X.shape[1] if by_columns else X.shape[0]), threads)
    cuts = [slice(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]

    def work(cut: slice) -> tuple[Array, Array]:
        if by_columns:
            return _tiled_sums(X[:, cut], shift[cut], w, by_columns)
        return _tiled_sums(X[cut], shift, w[cut], by_columns)

    if len(cuts) == 1:
        return work(cuts[0])
    with ThreadPoolExecutor(len(cuts)) as pool:  # NumPy lets go of the interpreter while it works
        results = list(pool.map(work, cuts))
    gather = np.concatenate if by_columns else (lambda blocks: np.sum(blocks, axis=0))
    return np.asarray(gather([r[0] for r in results])), np.asarray(gather([r[1] for r in results]))


def _device_sums(X: Array, weight: Array | None) -> Array:
    """Weighted sums of the columns of an array on a device, in float64."""
    sums = np.zeros_like(X, dtype=np.float64, shape=(X.shape[1],))
    w = np.ones_like(X, shape=(X.shape[0],)) if weight is None else beside(X, weight.astype(X.dtype))
    for rows in _device_rows(X):  # products with a vector read at full speed; few rows at a time keep their digits
        sums += w[rows] @ X[rows]
    return sums


def _device_squares(X: Array, mean: Array, weight: Array | None) -> Array:
    """Weighted sums of (x − mean)² of its columns, a few rows at a time."""
    squares = np.zeros_like(X, dtype=np.float64, shape=(X.shape[1],))
    shift = mean.astype(X.dtype)
    w = np.ones_like(X, shape=(X.shape[0],)) if weight is None else beside(X, weight.astype(X.dtype))
    for rows in _device_rows(X):
        D = X[rows] - shift
        D *= D
        squares += w[rows] @ D
    return squares


def _device_rows(X: Array) -> list[slice]:
    """Blocks of rows that take little of a device's memory."""
    step = max(1, min(DEVICE_BLOCK // X.shape[1], ROWS_IN_SINGLE))
    return [slice(start, start + step) for start in range(0, X.shape[0], step)]


def _blocked_sums(X: BlockMatrix, shift: Array, weight: Array | None) -> tuple[Array, Array]:
    """The same, block by block."""
    w = np.ones(X.shape[0], X.dtype) if weight is None else weight
    if X.axis == 0:
        sums = X.total(block_sums, [(shift, w[part]) for part in X.slices()])
    else:
        sums = np.concatenate(X.pieces(block_sums, [(shift[part], w) for part in X.slices()]), axis=1)
    return np.asarray(sums[0]), np.asarray(sums[1])


def block_sums(block: Any, shift: Array, weight: Array) -> Array:
    """Sums of x − shift and of its squares over the rows of one block, (2, n), in float64."""
    if not sp.issparse(block):
        return np.stack(_shifted_sums(block, shift, weight))
    sums = _sparse_sums(block, weight) - float(np.sum(weight, dtype=np.float64)) * shift
    return np.stack([sums, _sparse_deviation_norms(block, shift.astype(np.float64), weight) ** 2])


def _tiled_sums(X: Array, shift: Array, w: Array, by_columns: bool) -> tuple[Array, Array]:
    """The same for one thread, by tiles that stay in the cache."""
    p, n = X.shape
    rows, cols = (p, max(1, BLOCK // p)) if by_columns else (max(1, BLOCK // n), n)
    if X.dtype != np.float64:  # few rows at a time keep their digits
        rows = min(rows, ROWS_IN_SINGLE)
    sums, squares, moved = np.zeros(n), np.zeros(n), bool(np.any(shift))
    buffer = np.empty(min(rows, p) * min(cols, n), X.dtype)
    for i in range(0, p, rows):
        for j in range(0, n, cols):
            tile = X[i : i + rows, j : j + cols]
            B = buffer[: tile.size].reshape(tile.shape, order="F" if by_columns else "C")
            shifted = np.subtract(tile, shift[j : j + cols], out=B) if moved else tile
            sums[j : j + cols] += w[i : i + rows] @ shifted
            np.multiply(shifted, shifted, out=B)
            B[w[i : i + rows] == 0] = 0  # what does not count may be too large to be squared
            squares[j : j + cols] += w[i : i + rows] @ B
    return sums, squares


def _sparse_sums(X: Any, weight: Array | None) -> Array:
    """Weighted sums of the columns in float64: repeated values make sums in float32 drift."""
    sums = np.zeros(X.shape[1])
    for cols, values, w in _stored_entries(X, weight):
        sums += np.bincount(cols, weights=values if w is None else values * w, minlength=X.shape[1])
    return sums


def _sparse_deviation_norms(X: Any, mean: Array, weight: Array | None) -> Array:
    """Stored entries deviate by x − m, all others by m."""
    p, n = X.shape
    squares, stored_weight, stored = np.zeros(n), np.zeros(n), np.zeros(n, np.intp)
    for cols, values, w in _stored_entries(X, weight):
        deviation = (values - mean[cols]) ** 2
        squares += np.bincount(cols, weights=deviation if w is None else deviation * w, minlength=n)
        stored += np.bincount(cols, minlength=n)
        if w is not None:
            stored_weight += np.bincount(cols, weights=w, minlength=n)
    if weight is None:
        return np.sqrt(squares + (p - stored) * mean**2)
    unstored = np.maximum(float(np.sum(weight, dtype=np.float64)) - stored_weight, 0)
    return np.sqrt(squares + np.where(stored < p, unstored, 0) * mean**2)


def _stored_entries(X: Any, weight: Array | None) -> Iterator[tuple[Array, Array, Array | None]]:
    """Columns, values in float64 and weights of the stored entries of a CSR or CSC matrix, a block at a time."""
    for start in range(0, X.nnz, SPARSE_BLOCK):
        block = slice(start, min(start + SPARSE_BLOCK, X.nnz))
        minor, is_csc = X.indices[block], X.format == "csc"
        major = _major(X.indptr, block) if is_csc or weight is not None else minor
        rows, cols = (minor, major) if is_csc else (major, minor)
        yield cols, X.data[block].astype(np.float64), None if weight is None else weight[rows].astype(np.float64)


def _major(indptr: Array, block: slice) -> Array:
    """Row (CSR) or column (CSC) of each stored entry of a block."""
    first, last = np.searchsorted(indptr, [block.start, block.stop - 1], side="right") - 1
    bounds = np.clip(indptr[first : last + 2], block.start, block.stop)
    return np.repeat(np.arange(first, last + 1), np.diff(bounds))


def centred_gram(
    X: Any, mean: Array | None, weight: Array | None, counter: PassCounter, double_sums: bool = False
) -> Array:
    """(X − mean)ᵀ diag(w) (X − mean), (n_features, n_features), in one pass."""
    counter.add(1)
    if isinstance(X, BlockMatrix):
        return _blocked_gram(X, mean, weight)
    if sp.issparse(X):
        return _sparse_gram(X, mean, weight)
    S = np.zeros((X.shape[1], X.shape[1]), np.float64)
    step = max(X.shape[1], 256)
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        B = X[rows].astype(np.float64) if double_sums else X[rows]
        B = B if mean is None else B - mean.astype(B.dtype)
        if weight is not None:
            B = np.sqrt(weight[rows]).astype(B.dtype)[:, None] * B
        S += B.T @ B
    return S.astype(X.dtype)


def _sparse_gram(X: Any, mean: Array | None, weight: Array | None) -> Array:
    """XᵀWX − Σw·mmᵀ, summed over blocks of rows in float64."""
    w = np.ones(X.shape[0]) if weight is None else weight.astype(np.float64)
    S = np.zeros((X.shape[1], X.shape[1]))
    rows = X.tocsr()
    for start in range(0, X.shape[0], SPARSE_ROWS):
        B = rows[start : start + SPARSE_ROWS].astype(np.float64)
        S += (B.T @ (sp.diags_array(w[start : start + SPARSE_ROWS]) @ B)).toarray()
    if mean is not None:
        S -= w.sum() * np.outer(mean, mean)
    return S.astype(X.dtype)


def _blocked_gram(X: BlockMatrix, mean: Array | None, weight: Array | None) -> Array:
    """The same for blocks of rows."""
    shares = [(mean, None if weight is None else weight[part]) for part in X.slices()]
    return np.asarray(X.total(block_gram, shares), X.dtype)


def block_gram(block: Any, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
    """(B − mean)ᵀ diag(w) (B − mean) of one block of rows, or of some of its columns, in float64."""
    B = block if idx is None else block[:, idx]
    if sp.issparse(B) and mean is None:
        return _sparse_gram(B, None, weight).astype(np.float64)
    S = np.zeros((B.shape[1], B.shape[1]))
    for start in range(0, B.shape[0], SPARSE_ROWS):  # dense and centred, a few rows at a time
        D = B[start : start + SPARSE_ROWS]
        D = D.toarray() if sp.issparse(D) else D
        S += centred_gram(D, mean, None if weight is None else weight[start : start + SPARSE_ROWS], PassCounter())
    return S
