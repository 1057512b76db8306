"""Arrays of NumPy."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import numpy as np

from gpower._utils.arrays import Array, to_host
from gpower.operators.storage.base import InMemoryMatrix, OnePassMoments

#: Elements of the blocks in which a matrix is summed: a buffer that stays in the cache.
SUM_TILE_ENTRIES = 1 << 18
#: Entries from which moments are summed by several threads, and how many at most.
MIN_THREADED_SUM_ENTRIES, MAX_SUM_THREADS = 16_000_000, 8
#: Rows that are summed at once in single precision.
MAX_FLOAT32_SUM_ROWS = 1 << 10
#: Least number of rows whose products are added at once.
MIN_GRAM_BLOCK_ROWS = 256
#: Share of the columns up to which they are gathered to be looked at again.
MAX_REREAD_COLUMN_SHARE = 1 / 8


def multiply_dense(A: Array, Y: Array) -> Array:
    """A @ Y in the form that reads a dense matrix fastest: (YᵀAᵀ)ᵀ, for a few columns in half the time of A Y."""
    return (Y.T @ A.T).T if Y.shape[1] > 1 else A @ Y


class DenseMatrix(InMemoryMatrix, OnePassMoments):
    """An array, in C or Fortran order."""

    #: The product in working precision, entries doubled at once for one in double, samples projected at once.
    multiply_arrays = staticmethod(multiply_dense)
    double_block_entries = 1 << 18
    projection_block_rows = 1 << 10

    @property
    def should_use_covariance(self) -> bool:
        """Twice as many samples as variables."""
        return 2 * self.shape[1] <= self.shape[0]

    def times(self, T: Array) -> Array:
        """X T."""
        return self._multiply_in_double(self.A, T) if self.has_double_sums else self.multiply_arrays(self.A, T)

    def transposed_times(self, Y: Array) -> Array:
        """XᵀY."""
        return self._multiply_in_double(self.A.T, Y) if self.has_double_sums else self.multiply_arrays(self.A.T, Y)

    def cross_gram(self, R: Array) -> Array:
        """XᵀR; of a matrix with itself by half the multiplications, which `multiply` would hide."""
        return self._multiply_in_double(self.A.T, R) if self.has_double_sums else self.A.T @ R

    def _multiply_in_double(self, A: Array, Y: Array) -> Array:
        """A @ Y with sums in double, some rows of A in double at a time."""
        wide = Y.astype(np.float64)
        total = np.zeros_like(wide, shape=(A.shape[0], Y.shape[1]))
        by_rows = A.flags.c_contiguous
        stored = A if by_rows else A.T
        step = max(1, self.double_block_entries // max(stored.shape[1], 1))
        for start in range(0, stored.shape[0], step):
            part = slice(start, start + step)
            B = stored[part].astype(np.float64)
            if by_rows:
                total[part] = self.multiply_arrays(B, wide)
            else:
                total += self.multiply_arrays(B.T, wide[part])
        return total.astype(A.dtype)

    def to_dense(self) -> Array:
        """Itself, by column."""
        return np.asfortranarray(self.A)

    def wrap_array(self, A: Array) -> Self:
        """A container of the same kind."""
        return type(self)(A, self.has_double_sums)

    def subtract_offsets(self, shift: Array) -> Self:
        """A copy."""
        return self.wrap_array(self.A - shift.astype(self.dtype))

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Some rows at a time, centred and weighted; their products are added in float64."""
        A = self.A if idx is None else self.take(idx).A
        step = max(A.shape[1], MIN_GRAM_BLOCK_ROWS)

        def squared(rows: slice) -> Array:
            B = A[rows].astype(np.float64) if self.has_double_sums else A[rows]
            B = B if mean is None else B - mean.astype(B.dtype)
            B = B if weight is None else np.sqrt(weight[rows]).astype(B.dtype)[:, None] * B
            return B.T @ B

        if A.shape[0] <= step:
            return squared(slice(None))
        S = np.zeros_like(A, dtype=np.float64, shape=(A.shape[1], A.shape[1]))
        for start in range(0, A.shape[0], step):
            S += squared(slice(start, start + step))
        return S

    @property
    def stored_values(self) -> Array:
        """All entries."""
        return self.A

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Rows and columns of marked entries."""
        rows, columns = np.nonzero(entry_mask)
        return to_host(rows), to_host(columns)

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """The variables in use, centred a block of samples at a time."""
        used = np.flatnonzero(np.any(loadings, axis=1))
        scores = np.zeros_like(self.A, order="C", shape=(self.shape[0], loadings.shape[1]))
        for start in range(0, self.shape[0], self.projection_block_rows):
            rows = slice(start, start + self.projection_block_rows)
            scores[rows] = (self.A[rows][:, used] - mean[used]) @ loadings[used]
        return scores

    @property
    def is_first_shift_zero(self) -> bool:
        """In double precision."""
        return bool(self.dtype == np.float64)

    def estimate_column_centers(self, weight: Array | None) -> Array:
        """The median of three samples, those of the largest weights."""
        p = self.shape[0]
        heaviest = np.arange(p) if weight is None else np.argsort(-weight, kind="stable")
        a, b, c = (self.A[heaviest[i % p]] for i in range(3))
        return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))

    def select_reread(self, lost_columns: Array) -> tuple[Array | slice, OnePassMoments, float]:
        """The columns that lost digits; all of the matrix where they are many."""
        idx = np.flatnonzero(lost_columns)
        if idx.size > MAX_REREAD_COLUMN_SHARE * lost_columns.size:
            return slice(None), self, 1.0
        return idx, self.take(idx), idx.size / lost_columns.size

    def shifted_sums(self, shift: Array, weight: Array | None) -> tuple[Array, Array]:
        """By several threads if the matrix is large."""
        A = self.A
        by_columns = bool(A.flags.f_contiguous and not A.flags.c_contiguous)
        w = np.ones(A.shape[0], A.dtype) if weight is None else weight.astype(A.dtype)
        threads = min(os.cpu_count() or 1, MAX_SUM_THREADS) if A.size >= MIN_THREADED_SUM_ENTRIES else 1
        parts = np.array_split(np.arange(A.shape[1] if by_columns else A.shape[0]), threads)
        cuts = [slice(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]

        def work(cut: slice) -> tuple[Array, Array]:
            if by_columns:
                return _sum_tiles(A[:, cut], shift[cut], w, by_columns)
            return _sum_tiles(A[cut], shift, w[cut], by_columns)

        if len(cuts) == 1:
            return work(cuts[0])
        with ThreadPoolExecutor(len(cuts)) as pool:  # NumPy lets go of the interpreter while it works
            sums, squares = zip(*pool.map(work, cuts), strict=True)
        if by_columns:
            return np.concatenate(sums), np.concatenate(squares)
        return np.sum(sums, axis=0), np.sum(squares, axis=0)


def _sum_tiles(X: Array, shift: Array, sample_weight: Array, by_columns: bool) -> tuple[Array, Array]:
    """Weighted sums of x − shift and of its squares by one thread, by tiles that stay in the cache."""
    p, n = X.shape
    rows, cols = (p, max(1, SUM_TILE_ENTRIES // p)) if by_columns else (max(1, SUM_TILE_ENTRIES // n), n)
    if X.dtype != np.float64:  # few rows at a time keep their digits
        rows = min(rows, MAX_FLOAT32_SUM_ROWS)
    sums, squares, moved = np.zeros(n), np.zeros(n), bool(np.any(shift))
    buffer = np.empty(min(rows, p) * min(cols, n), X.dtype)
    for i in range(0, p, rows):
        for j in range(0, n, cols):
            tile = X[i : i + rows, j : j + cols]
            B = buffer[: tile.size].reshape(tile.shape, order="F" if by_columns else "C")
            shifted = np.subtract(tile, shift[j : j + cols], out=B) if moved else tile
            sums[j : j + cols] += sample_weight[i : i + rows] @ shifted
            np.multiply(shifted, shifted, out=B)
            B[sample_weight[i : i + rows] == 0] = 0  # what does not count may be too large to be squared
            squares[j : j + cols] += sample_weight[i : i + rows] @ B
    return sums, squares
