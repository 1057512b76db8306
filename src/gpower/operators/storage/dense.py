"""Container of dense arrays.

X, the matrix, has shape (n_samples, n_features) and dtype float32 or float64; no method changes it or its arguments.
T has shape (n_features, m) and Y (n_samples, m), in the dtype of X; `idx` are indices of columns on the host; `mean`
and `shift` have shape (n_features,); `weight` contains non-negative sample weights, (n_samples,), and is None for ones.
Arrays are NumPy arrays; the subclass `DeviceMatrix` has them on a device, all but indices and the weights of sums.

Terms: the attribute `A` is the array X, and `has_double_sums` says that products with float32 data are summed in
float64. ``add_in_float64(terms)`` adds arrays in their order, in float64, and returns a single one itself;
``map_in_threads(function, items)`` yields the results in the order of the items. `ShiftedSums` are Σw(x − shift) and
Σw(x − shift)², each (n_features,).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from gpower._utils.arrays import Array, to_host
from gpower._utils.forwarding import forward
from gpower._utils.threads import map_in_threads
from gpower.operators.storage.base import InMemoryMatrix, OnePassMoments, ShiftedSums, add_in_float64

#: Number of entries of the tiles in which a matrix is summed: 2 MB of float64 stay in the processor's cache.
SUM_TILE_ENTRIES = 1 << 18
#: Smallest number of entries whose moments are summed by several threads (smaller ones gain little), and
#: number of parts that these sum, which is fixed so that the result does not depend on the number of threads.
MIN_THREADED_SUM_ENTRIES, N_SUM_PARTS = 16_000_000, 16
#: Largest number of rows that are summed at once in float32: the rounding error grows with the number of terms.
MAX_FLOAT32_SUM_ROWS = 1 << 10
#: Smallest number of rows whose products in float32 are added in a Gram matrix, for few columns.
MIN_GRAM_BLOCK_ROWS = 256
#: Largest share of the columns that are gathered to be read again; above it the whole matrix is read.
MAX_REREAD_COLUMN_SHARE = 1 / 8


def multiply_dense(A: Array, Y: Array) -> Array:
    """Compute A @ Y, (p, m), for A of shape (p, n) and Y of shape (n, m), both NumPy arrays of one dtype.

    As (YᵀAᵀ)ᵀ it takes half the time if Y has a few columns.
    """
    return (Y.T @ A.T).T if Y.shape[1] > 1 else A @ Y


class DenseMatrix(InMemoryMatrix, OnePassMoments):
    """Container of an array in C or Fortran order."""

    #: Product of two arrays in working precision.
    multiply_arrays = staticmethod(multiply_dense)
    #: Number of entries that are converted to float64 at once for a product in float64, to stay in the cache.
    double_block_entries = 1 << 18
    #: Number of samples that are projected at once, which limits the memory of the copy of their used variables.
    projection_block_rows = 1 << 10

    @property
    def should_use_covariance(self) -> bool:
        """Return whether there are at least twice as many samples as variables; a matrix on a device stays there."""
        return 2 * self.shape[1] <= self.shape[0] and not self.is_on_device

    def times(self, T: Array) -> Array:
        """Compute X T, (n_samples, m), in the dtype of X, with float64 sums if `has_double_sums`."""
        return self._multiply_in_double(self.A, T) if self.has_double_sums else self.multiply_arrays(self.A, T)

    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY, (n_features, m), in the dtype of X, with float64 sums if `has_double_sums`."""
        return self._multiply_in_double(self.A.T, Y) if self.has_double_sums else self.multiply_arrays(self.A.T, Y)

    def cross_gram(self, R: Array) -> Array:
        """Compute XᵀR, (n_features, m), for R of shape (n_samples, m), where the matrix is.

        If R is X itself, `@` needs half the multiplications, which `multiply_arrays` would prevent.
        """
        return self._multiply_in_double(self.A.T, R) if self.has_double_sums else self.A.T @ R

    def _multiply_in_double(self, A: Array, Y: Array) -> Array:
        """Compute A @ Y with float64 sums, converting a block of A at a time; the result has the dtype of A.

        A is the matrix or its transpose, and Y has shape (A.shape[1], m). `zeros_like` keeps the product on the device
        of Y.
        """
        Y_double = Y.astype(np.float64)
        product = np.zeros_like(Y_double, shape=(A.shape[0], Y.shape[1]))
        by_rows = A.flags.c_contiguous
        stored = A if by_rows else A.T
        step = max(1, self.double_block_entries // max(stored.shape[1], 1))
        for start in range(0, stored.shape[0], step):
            part = slice(start, start + step)
            B = stored[part].astype(np.float64)
            if by_rows:
                product[part] = self.multiply_arrays(B, Y_double)
            else:
                product += self.multiply_arrays(B.T, Y_double[part])
        return product.astype(A.dtype)

    def to_dense(self) -> Array:
        """Return the array in Fortran order, itself if it is in that order or on a device."""
        return self.A if self.is_on_device else np.asfortranarray(self.A)

    def wrap_array(self, A: Array) -> Self:
        """Return a container of the array A, (n_samples, m), of the same class and the same precision of sums."""
        return type(self)(A, self.has_double_sums)

    def subtract_offsets(self, shift: Array) -> Self:
        """Return a copy with a constant subtracted from each column."""
        return self.wrap_array(self.A - shift.astype(self.dtype))

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute (X − mean)ᵀ diag(w) (X − mean), (n, n), by blocks of rows, whose products are added in float64.

        With `idx` it is that of these n columns, and `mean` is (n,), of them alone. `mean`, None for zero, and `weight`
        are where the matrix is. Each product is computed in the dtype of X, or in float64 with `has_double_sums`; a
        single block is returned in that type.
        """
        A = self.A if idx is None else self.take(idx).A
        is_double = self.has_double_sums or self.dtype == np.float64  # long sums lose no digits
        step = max(A.shape[1], self.double_block_entries // max(A.shape[1], 1) if is_double else MIN_GRAM_BLOCK_ROWS)

        def compute_block(rows: slice) -> Array:
            B = A[rows].astype(np.float64) if self.has_double_sums else A[rows]
            B = B if mean is None else B - mean.astype(B.dtype)
            B = B if weight is None else np.sqrt(weight[rows]).astype(B.dtype)[:, None] * B
            return B.T @ B

        return add_in_float64(compute_block(slice(start, start + step)) for start in range(0, max(A.shape[0], 1), step))

    stored_values = forward("A", "Return the array itself.")

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the entries that `entry_mask` marks, on the host."""
        rows, columns = np.nonzero(entry_mask)
        return to_host(rows), to_host(columns)

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Compute the scores (X − mean) @ loadings, (n_samples, m), by blocks of samples.

        Only the variables with loadings, (n_features, m), are read and centred. All arrays are where the matrix is.
        """
        used = np.flatnonzero(np.any(loadings, axis=1))
        scores = np.zeros_like(self.A, order="C", shape=(self.shape[0], loadings.shape[1]))
        for start in range(0, self.shape[0], self.projection_block_rows):
            rows = slice(start, start + self.projection_block_rows)
            scores[rows] = (self.A[rows][:, used] - mean[used]) @ loadings[used]
        return scores

    @property
    def is_first_shift_zero(self) -> bool:
        """Return whether the data are float64."""
        return bool(self.dtype == np.float64)

    def estimate_column_centers(self, weight: Array | None) -> Array:
        """Return the column medians of three samples, (n_features,), those of the largest weights, in the dtype of X.

        Of equal weights, and without weights, the first samples are taken; one or two samples are repeated.
        """
        p = self.shape[0]
        heaviest = np.arange(p) if weight is None else np.argsort(-weight, kind="stable")
        a, b, c = (self.A[heaviest[i % p]] for i in range(3))
        return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))

    def select_reread(self, lost_columns: Array) -> tuple[Array | slice, OnePassMoments, float]:
        """Return indices, container and share of the columns that lost digits, marked in a mask, (n_features,).

        If they are more than the share MAX_REREAD_COLUMN_SHARE, it is the whole matrix.
        """
        idx = np.flatnonzero(lost_columns)
        if idx.size > MAX_REREAD_COLUMN_SHARE * lost_columns.size:
            return super().select_reread(lost_columns)
        return idx, self.take(idx), idx.size / lost_columns.size

    def shifted_sums(self, shift: Array, weight: Array | None) -> ShiftedSums:
        """Compute the weighted sums of x − shift and of its squares, with several threads if the matrix is large.

        Both have shape (n_features,), in float64. `shift` is in the dtype of X. The matrix is on the host and not
        empty. The result does not depend on the number of threads.
        """
        A = self.A
        by_columns = bool(A.flags.f_contiguous and not A.flags.c_contiguous)
        w = np.ones(A.shape[0], A.dtype) if weight is None else weight.astype(A.dtype)
        n_parts = N_SUM_PARTS if A.size >= MIN_THREADED_SUM_ENTRIES else 1  # whatever the number of threads
        parts = np.array_split(np.arange(A.shape[1] if by_columns else A.shape[0]), n_parts)
        slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]

        def sum_part(part: slice) -> Array:
            if by_columns:
                return _sum_tiles(A[:, part], shift[part], w, by_columns)
            return _sum_tiles(A[part], shift, w[part], by_columns)

        partial_sums = map_in_threads(sum_part, slices) if n_parts > 1 else map(sum_part, slices)
        return ShiftedSums(*(np.concatenate([*partial_sums], axis=1) if by_columns else add_in_float64(partial_sums)))


def _sum_tiles(X: Array, shift: Array, sample_weight: Array, by_columns: bool) -> Array:
    """Compute the weighted sums of x − shift and of its squares in one thread, by tiles that stay in the cache.

    X, (p, n), is a part of the matrix on the host, with `shift`, (n,), and `sample_weight`, (p,) in the dtype of X.
    `by_columns` says that X is in Fortran order. Tiles are summed in the dtype of X and added in float64, (2, n).
    """
    p, n = X.shape
    rows, cols = (p, max(1, SUM_TILE_ENTRIES // p)) if by_columns else (max(1, SUM_TILE_ENTRIES // n), n)
    if X.dtype != np.float64:
        rows = min(rows, MAX_FLOAT32_SUM_ROWS)
    sums, squares = totals = np.zeros((2, n))
    is_shifted = bool(np.any(shift))
    buffer = np.empty(min(rows, p) * min(cols, n), X.dtype)
    for i in range(0, p, rows):
        for j in range(0, n, cols):
            tile = X[i : i + rows, j : j + cols]
            B = buffer[: tile.size].reshape(tile.shape, order="F" if by_columns else "C")
            shifted = np.subtract(tile, shift[j : j + cols], out=B) if is_shifted else tile
            sums[j : j + cols] += sample_weight[i : i + rows] @ shifted
            np.multiply(shifted, shifted, out=B)
            B[sample_weight[i : i + rows] == 0] = 0  # the square of a value without weight may be infinite
            squares[j : j + cols] += sample_weight[i : i + rows] @ B
    return totals
