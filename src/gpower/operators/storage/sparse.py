"""CSR and CSC matrices of SciPy, never made dense as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Self

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower.io.stores.source import DataBlock, ScipySparse, sum_duplicate_entries
from gpower.operators.storage.base import InMemoryMatrix
from gpower.operators.storage.dense import DenseMatrix

#: Stored entries treated at once.
SPARSE_SUM_BLOCK_ENTRIES = 1 << 16
#: Rows whose products are summed at once, and parts of a matrix that are summed side by side, however many threads.
SPARSE_GRAM_BLOCK_ROWS, SPARSE_GRAM_PARTS = 1 << 12, 4
#: Share of stored entries from which dense products of rows are cheaper, and the groups of columns of sparse ones
#: where there are many (measured on CSR 50000 × 2000: 6.5 s as a whole, 4.8 s in 8 groups, as long as dense at 8 %).
MIN_DENSE_GRAM_DENSITY, GRAM_COLUMN_GROUPS, MIN_GROUPED_GRAM_COLUMNS = 0.1, 8, 1000


def wrap_in_memory(matrix: DataBlock) -> InMemoryMatrix:
    """A matrix of NumPy or SciPy as a container."""
    return SparseMatrix(matrix) if sp.issparse(matrix) else DenseMatrix(matrix)


class SparseMatrix(InMemoryMatrix):
    """A CSR or CSC matrix."""

    A: ScipySparse
    is_sparse = True

    @property
    def should_use_covariance(self) -> bool:
        """More stored entries than the covariance has."""
        return bool(self.shape[1] ** 2 < self.A.nnz)

    @property
    def max_gram_columns(self) -> int:
        """A quarter of the entries of the matrix."""
        return int(np.sqrt(self.A.nnz) / 2)

    def prepare(self, double_sums: bool) -> Self:
        """With every entry stored once."""
        return type(self)(sum_duplicate_entries(self.A), double_sums and self.dtype == np.float32)

    def times(self, T: Array) -> Array:
        """X T."""
        return self._multiply_sparse(self.A, T)

    def transposed_times(self, Y: Array) -> Array:
        """XᵀY."""
        return self._multiply_sparse(self.A.T, Y)

    def _multiply_sparse(self, A: ScipySparse, Y: Array) -> Array:
        return np.asarray(A @ Y.astype(np.float64)).astype(self.dtype) if self.has_double_sums else np.asarray(A @ Y)

    def to_dense(self) -> Array:
        """By column."""
        return np.asarray(self.A.toarray(order="F"))

    def wrap_array(self, A: Array) -> DenseMatrix:
        """Gathered columns are dense."""
        return DenseMatrix(A, self.has_double_sums)

    def subtract_offsets(self, shift: Array) -> Self:
        """A copy, changed only where entries are stored.

        A column whose offset is worth subtracting has every entry stored, or it would vary by as much as its mean.
        """
        A = self.A.copy()
        cols = A.indices if A.format == "csr" else np.repeat(np.arange(self.shape[1]), np.diff(A.indptr))
        A.data -= shift.astype(self.dtype)[cols]
        return type(self)(A, self.has_double_sums)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Sums over blocks of rows in float64; crowded ones, or to be centred, are dense, a few rows at a time."""
        A = (self.A if idx is None else self.A[:, idx]).tocsr()
        p, n = A.shape
        crowded = mean is not None or A.nnz > MIN_DENSE_GRAM_DENSITY * p * n

        def squared(rows: slice) -> Array:
            B, w = A[rows].astype(np.float64), None if weight is None else weight[rows].astype(np.float64)
            if crowded:
                with np.errstate(invalid="ignore", over="ignore"):  # of infinite entries, which are told of elsewhere
                    return DenseMatrix(B.toarray()).gram(mean, w)
            return _compute_sparse_gram(B if w is None else sp.diags_array(np.sqrt(w)).tocsr() @ B)

        def summed(part: Array) -> Array:
            S = np.zeros((n, n))
            for start in range(part[0], part[-1] + 1, SPARSE_GRAM_BLOCK_ROWS):
                S += squared(slice(start, min(start + SPARSE_GRAM_BLOCK_ROWS, part[-1] + 1)))
            return S

        parts = [
            part
            for part in np.array_split(np.arange(p), 1 if crowded or p <= SPARSE_GRAM_BLOCK_ROWS else SPARSE_GRAM_PARTS)
            if part.size
        ]
        with ThreadPoolExecutor(
            min(os.cpu_count() or 1, SPARSE_GRAM_PARTS)
        ) as pool:  # SciPy lets go of the interpreter
            return np.sum(list(pool.map(summed, parts)), axis=0) if parts else np.zeros((n, n))

    @property
    def stored_values(self) -> Array:
        """Stored entries."""
        return np.asarray(self.A.data)

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Rows and columns of marked entries."""
        stored = self.A.tocoo(copy=False)
        return stored.row[entry_mask], stored.col[entry_mask]

    def weighted_sums(self, weight: Array | None) -> Array:
        """In float64: repeated values make sums in float32 drift."""
        sums = np.zeros(self.shape[1])
        for cols, values, w in self._iterate_entries(weight):
            sums += np.bincount(cols, weights=values if w is None else values * w, minlength=self.shape[1])
        return sums

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Stored entries deviate by x − m, all others by m."""
        p, n = self.shape
        shift = shift.astype(np.float64)
        squares, stored_weight, stored = np.zeros(n), np.zeros(n), np.zeros(n, np.intp)
        for cols, values, w in self._iterate_entries(weight):
            deviation = (values - shift[cols]) ** 2
            squares += np.bincount(cols, weights=deviation if w is None else deviation * w, minlength=n)
            stored += np.bincount(cols, minlength=n)
            if w is not None:
                stored_weight += np.bincount(cols, weights=w, minlength=n)
        if weight is None:
            return squares + (p - stored) * shift**2
        unstored = np.maximum(float(np.sum(weight, dtype=np.float64)) - stored_weight, 0)
        return squares + np.where(stored < p, unstored, 0) * shift**2

    def _iterate_entries(self, weight: Array | None) -> Iterator[tuple[Array, Array, Array | None]]:
        """Columns, values in float64 and weights of the stored entries, a block at a time."""
        A, is_csc = self.A, self.A.format == "csc"
        for start in range(0, A.nnz, SPARSE_SUM_BLOCK_ENTRIES):
            block = slice(start, min(start + SPARSE_SUM_BLOCK_ENTRIES, A.nnz))
            minor = A.indices[block]
            major = _expand_major_indices(A.indptr, block) if is_csc or weight is not None else minor
            rows, cols = (minor, major) if is_csc else (major, minor)
            yield cols, A.data[block].astype(np.float64), None if weight is None else weight[rows].astype(np.float64)


def _expand_major_indices(indptr: Array, block: slice) -> Array:
    """Row (CSR) or column (CSC) of each stored entry of a block."""
    first, last = np.searchsorted(indptr, [block.start, block.stop - 1], side="right") - 1
    bounds = np.clip(indptr[first : last + 2], block.start, block.stop)
    return np.repeat(np.arange(first, last + 1), np.diff(bounds))


def _compute_sparse_gram(B: ScipySparse) -> Array:
    """BᵀB of a CSR matrix, dense: some groups of columns, each multiplied with itself and those after it."""
    n, by_column = B.shape[1], B.tocsc()
    S, cuts = (
        np.zeros((n, n)),
        np.linspace(0, n, (GRAM_COLUMN_GROUPS if n >= MIN_GROUPED_GRAM_COLUMNS else 1) + 1).astype(int).tolist(),
    )
    for i, j in pairwise(cuts):
        S[i:j, i:] = (by_column[:, i:j].T @ (B[:, i:] if i else B)).toarray()
        S[j:, i:j] = S[i:j, j:].T
    return S
