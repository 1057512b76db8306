"""Container of SciPy's CSR and CSC matrices, which are never converted to dense as a whole."""

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

#: Number of stored entries that are summed at once.
SPARSE_SUM_BLOCK_ENTRIES = 1 << 16
#: Number of rows in a block of a Gram matrix.
SPARSE_GRAM_BLOCK_ROWS = 1 << 12
#: Number of parts whose Gram matrices are summed in parallel; fixed, so that sums do not depend on the processor.
SPARSE_GRAM_PARTS = 4
#: Share of stored entries above which the Gram matrix of dense rows is cheaper.
MIN_DENSE_GRAM_DENSITY = 0.1
#: Number of column groups in a sparse Gram product with many columns (measured on CSR 50000 × 2000: 6.5 s as one group,
#: 4.8 s in 8 groups; at a density of 8 % as slow as dense).
GRAM_COLUMN_GROUPS = 8
#: Smallest number of columns that are split into groups.
MIN_GROUPED_GRAM_COLUMNS = 1000


def wrap_in_memory(matrix: DataBlock) -> InMemoryMatrix:
    """Return the container of a NumPy array or SciPy sparse matrix."""
    return SparseMatrix(matrix) if sp.issparse(matrix) else DenseMatrix(matrix)


class SparseMatrix(InMemoryMatrix):
    """Container of a CSR or CSC matrix A on the host; entries that are not stored are zero."""

    A: ScipySparse
    is_sparse = True

    @property
    def should_use_covariance(self) -> bool:
        """Return whether the matrix has more stored entries than its covariance."""
        return bool(self.shape[1] ** 2 < self.A.nnz)

    @property
    def max_gram_columns(self) -> int:
        """Return the number of columns whose Gram matrix has a quarter as many entries as the matrix stores."""
        return int(np.sqrt(self.A.nnz) / 2)

    def prepare(self, double_sums: bool) -> Self:
        """Return the matrix with every entry stored once, and float64 sums on request if the data are float32."""
        return type(self)(sum_duplicate_entries(self.A), double_sums and self.dtype == np.float32)

    def times(self, T: Array) -> Array:
        """Compute X T."""
        return self._multiply_sparse(self.A, T)

    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY."""
        return self._multiply_sparse(self.A.T, Y)

    def _multiply_sparse(self, A: ScipySparse, Y: Array) -> Array:
        return np.asarray(A @ Y.astype(np.float64)).astype(self.dtype) if self.has_double_sums else np.asarray(A @ Y)

    def to_dense(self) -> Array:
        """Return the matrix as a dense array in Fortran order."""
        return np.asarray(self.A.toarray(order="F"))

    def wrap_array(self, A: Array) -> DenseMatrix:
        """Return the container of dense gathered columns."""
        return DenseMatrix(A, self.has_double_sums)

    def subtract_offsets(self, shift: Array) -> Self:
        """Return a copy with a constant subtracted from the stored entries of each column.

        `shift`, (n_features,), must be zero for columns with entries that are not stored. A column with an offset large
        enough to be subtracted has every entry stored; otherwise it would vary by as much as its mean.
        """
        A = self.A.copy()
        cols = A.indices if A.format == "csr" else np.repeat(np.arange(self.shape[1]), np.diff(A.indptr))
        A.data -= shift.astype(self.dtype)[cols]
        return type(self)(A, self.has_double_sums)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute the Gram matrix by blocks of rows, summed in float64.

        Arguments are as in `Container.gram`; the result is a dense array in float64. A block is converted to dense if
        the matrix has many entries or must be centred.
        """
        A = (self.A if idx is None else self.A[:, idx]).tocsr()
        p, n = A.shape
        use_dense = mean is not None or A.nnz > MIN_DENSE_GRAM_DENSITY * p * n

        def compute_block(rows: slice) -> Array:
            B = A[rows].astype(np.float64)
            w = None if weight is None else weight[rows].astype(np.float64)
            if use_dense:
                with np.errstate(invalid="ignore", over="ignore"):  # infinite entries are reported elsewhere
                    return DenseMatrix(B.toarray()).gram(mean, w)
            return _compute_sparse_gram(B if w is None else sp.diags_array(np.sqrt(w)).tocsr() @ B)

        def sum_part(rows: Array) -> Array:
            S = np.zeros((n, n))
            for start in range(rows[0], rows[-1] + 1, SPARSE_GRAM_BLOCK_ROWS):
                S += compute_block(slice(start, min(start + SPARSE_GRAM_BLOCK_ROWS, rows[-1] + 1)))
            return S

        n_parts = 1 if use_dense or p <= SPARSE_GRAM_BLOCK_ROWS else SPARSE_GRAM_PARTS
        parts = [rows for rows in np.array_split(np.arange(p), n_parts) if rows.size]
        with ThreadPoolExecutor(min(os.cpu_count() or 1, SPARSE_GRAM_PARTS)) as pool:  # SciPy releases the lock
            return np.sum(list(pool.map(sum_part, parts)), axis=0) if parts else np.zeros((n, n))

    @property
    def stored_values(self) -> Array:
        """Return the stored entries."""
        return np.asarray(self.A.data)

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the stored entries that `entry_mask`, (nnz,), marks."""
        stored = self.A.tocoo(copy=False)
        return stored.row[entry_mask], stored.col[entry_mask]

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns in float64, because float32 sums of repeated values drift."""
        sums = np.zeros(self.shape[1])
        for cols, values, w in self._iterate_entries(weight):
            sums += np.bincount(cols, weights=values if w is None else values * w, minlength=self.shape[1])
        return sums

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − shift)², where entries that are not stored deviate by shift.

        The result has shape (n_features,), in float64. Every entry must be stored once (see `prepare`), because stored
        entries are counted.
        """
        p, n = self.shape
        shift = shift.astype(np.float64)
        squares, stored_weight = np.zeros(n), np.zeros(n)
        stored_count = np.zeros(n, np.intp)
        for cols, values, w in self._iterate_entries(weight):
            squared = (values - shift[cols]) ** 2
            squares += np.bincount(cols, weights=squared if w is None else squared * w, minlength=n)
            stored_count += np.bincount(cols, minlength=n)
            if w is not None:
                stored_weight += np.bincount(cols, weights=w, minlength=n)
        if weight is None:
            return squares + (p - stored_count) * shift**2
        unstored_weight = np.maximum(float(np.sum(weight, dtype=np.float64)) - stored_weight, 0)
        return squares + np.where(stored_count < p, unstored_weight, 0) * shift**2

    def _iterate_entries(self, weight: Array | None) -> Iterator[tuple[Array, Array, Array | None]]:
        """Yield columns, values in float64 and weights of the stored entries, a block at a time.

        The three arrays have one number for each stored entry of the block. `weight` has shape (n_samples,); the
        weights yielded are those of the rows of the entries, or None.
        """
        A, is_csc = self.A, self.A.format == "csc"
        for start in range(0, A.nnz, SPARSE_SUM_BLOCK_ENTRIES):
            block = slice(start, min(start + SPARSE_SUM_BLOCK_ENTRIES, A.nnz))
            minor = A.indices[block]
            major = _expand_major_indices(A.indptr, block) if is_csc or weight is not None else minor
            rows, cols = (minor, major) if is_csc else (major, minor)
            yield cols, A.data[block].astype(np.float64), None if weight is None else weight[rows].astype(np.float64)


def _expand_major_indices(indptr: Array, block: slice) -> Array:
    """Return the row (CSR) or column (CSC) of each stored entry of a block, a slice of entries that is not empty."""
    first, last = np.searchsorted(indptr, [block.start, block.stop - 1], side="right") - 1
    bounds = np.clip(indptr[first : last + 2], block.start, block.stop)
    return np.repeat(np.arange(first, last + 1), np.diff(bounds))


def _compute_sparse_gram(B: ScipySparse) -> Array:
    """Compute BᵀB, (n, n), of a float64 CSR matrix as a dense array.

    Each group of columns is multiplied with itself and later ones; symmetry gives the rest.
    """
    n = B.shape[1]
    n_groups = GRAM_COLUMN_GROUPS if n >= MIN_GROUPED_GRAM_COLUMNS else 1
    csc = B.tocsc()
    S = np.zeros((n, n))
    for i, j in pairwise(np.linspace(0, n, n_groups + 1).astype(int).tolist()):
        S[i:j, i:] = (csc[:, i:j].T @ (B[:, i:] if i else B)).toarray()
        S[j:, i:j] = S[i:j, j:].T
    return S
