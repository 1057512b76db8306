"""Container of CSR matrices on a device (CuPy): products by cuSPARSE, the rest by functions of arrays.

CuPy and cuSPARSE count stored entries in 32 bits, so that a larger matrix is multiplied in parts, as views. Products
with the transpose use a second copy of the matrix by columns if the memory of the device allows it, which takes half
the time (measured on an H200 with CuPy 14).

X, the matrix, has shape (n_samples, n_features) and dtype float32 or float64; no method changes it or its arguments.
T has shape (n_features, m) and Y (n_samples, m), in the dtype of X; `idx` are indices of columns on the host; `mean`
and `shift` have shape (n_features,); `weight` contains non-negative sample weights, (n_samples,), and is None for ones.
Arrays are on the device, except indices, and sample weights of sums. A line is a row of a CSR matrix or a column of a
CSC matrix; a part is a CSR or CSC matrix of consecutive lines.

Terms: the attribute `A` is the matrix, and `has_double_sums` says that products with float32 data are summed in
float64. ``split_lines(A, n)`` returns slices of consecutive lines, all together, with about n stored entries each;
``view_lines(A, lines, transpose=False)`` is a part in the memory of A, transposed if asked; ``find_lines(indptr)`` is
the line of each stored entry. ``set_arrays(empty, data, indices, indptr)`` puts arrays into an empty matrix and returns
it. ``add_in_float64(terms)`` adds arrays in their order, in float64, and returns a single one itself; ``to_backend(v)``
moves a small array to the device, ``to_host(v)`` to the host. ``get_working_dtype(dtype)`` is float32 for float32, else
float64; ``get_free_device_memory()`` is in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from gpower._utils.arrays import Array, CompressedMatrix, is_device_array, set_arrays, to_host
from gpower._utils.memory import get_free_device_memory
from gpower._utils.sparse_parts import find_lines, split_lines, view_lines
from gpower.io.stores.matrix_source import get_working_dtype
from gpower.operators.storage.base import InMemoryMatrix, add_in_float64
from gpower.operators.storage.device import DEVICE_BLOCK_ENTRIES, DeviceMatrix
from gpower.operators.storage.sparse import SparseMatrix

#: Number of stored entries of the parts of a product; a part has fewer than twice as many, which 32 bits can count.
MAX_PART_ENTRIES = 1 << 30
#: Number of stored entries that are converted to float64, searched or gathered at once.
MAX_CONVERTED_ENTRIES = 1 << 27
#: Free memory that a copy by columns needs, as a multiple of its size: the copy, work space, and room for the fit.
COPY_MEMORY_FACTOR = 3


def is_device_sparse(X: object) -> bool:
    """Return whether X is a sparse matrix whose arrays are on a device."""
    return hasattr(X, "tocsr") and is_device_array(getattr(X, "data", None))


def wrap_device_sparse(X: Any, memory_limit: float | None = None) -> DeviceSparseMatrix | None:
    """Return the container of a sparse matrix on a device, or None for other objects.

    A CSR matrix in float32 or float64 without duplicate entries is not copied; integers and bool become float64.
    `memory_limit` concerns other kinds of data. Raise ValueError for values that are not real numbers.
    """
    if not is_device_sparse(X):
        return None
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X contains values of type {X.dtype}, not real numbers.")
    A = X.tocsr()
    A = A if A.dtype == get_working_dtype(A.dtype) else A.astype(get_working_dtype(A.dtype))
    parts = [_view_part(A, lines) for lines in split_lines(A, MAX_PART_ENTRIES)]
    if all(part.has_canonical_format for part in parts):
        return DeviceSparseMatrix(_join_rows(A, [(A.data, A.indices, A.indptr[1:])]))
    parts = [part.copy() for part in parts]
    for part in parts:
        part.sum_duplicates()
    return DeviceSparseMatrix(_join_rows(A, [(part.data, part.indices, part.indptr[1:]) for part in parts]))


def _view_part(A: CompressedMatrix, lines: slice, *, transpose: bool = False) -> CompressedMatrix:
    """Return the lines of A in a slice as a matrix in its memory, with 32-bit indices; transposed if asked.

    There are fewer than 2³¹ stored entries in them.
    """
    part = view_lines(A, lines, transpose=transpose)
    part.indices, part.indptr = (each.astype(np.int32, copy=False) for each in (part.indices, part.indptr))
    return part


def _join_rows(A: CompressedMatrix, parts: list[tuple[Array, Array, Array]], n_columns: int | None = None) -> Any:
    """Return the CSR matrix of consecutive rows, given values, columns and ends of the rows of each part.

    It is of the class of A, with as many columns unless `n_columns` is given. Pointers have 64 bits only if they need
    them. A single part is not copied.
    """
    values, columns, stops = zip(*parts, strict=True)
    offsets = np.cumsum([0, *(each.size for each in values)]).tolist()
    dtype = np.int32 if offsets[-1] < 1 << 31 else np.int64
    ends = [each.astype(np.int64) + offset for each, offset in zip(stops, offsets, strict=False)]
    indptr = np.concatenate([np.zeros_like(ends[0], shape=(1,)), *ends]).astype(dtype)
    data, indices = (each[0] if len(each) == 1 else np.concatenate(each) for each in (values, columns))
    shape = (indptr.size - 1, A.shape[1] if n_columns is None else n_columns)
    return set_arrays(type(A)(shape, dtype=data.dtype), data, indices.astype(np.int32, copy=False), indptr)


class DeviceSparseMatrix(SparseMatrix):
    """Container of a CSR matrix A on a device, every entry stored once; entries that are not stored are zero."""

    is_remote = True
    is_on_device = True
    storage_description = "on a device"

    prepare = InMemoryMatrix.prepare  # every entry is stored once

    def wrap_array(self, A: Array) -> DeviceMatrix:
        """Return the container of gathered columns, an array (n_samples, m) on the device."""
        return DeviceMatrix(A, self.has_double_sums)

    @cached_property
    def _by_column(self) -> CompressedMatrix | None:
        """Return a copy of the matrix in CSC on the device, or None if there is too little memory for it.

        It is also None for 2·MAX_PART_ENTRIES stored entries or more, which CuPy cannot convert.
        """
        A = self.A
        size = A.data.nbytes + A.indices.nbytes
        if A.nnz >= 2 * MAX_PART_ENTRIES or COPY_MEMORY_FACTOR * size > get_free_device_memory():
            return None
        return A.tocsc()

    def _multiply_parts(
        self, Y: Array, *, transpose: bool, transform: Callable[[Array, Array], Array] | None = None
    ) -> Array:
        """Compute X Y or, with `transpose`, XᵀY for Y with m columns, in parts that are as large as cuSPARSE allows.

        `transform`, if given, is called with the values and the columns of the stored entries of each part and returns
        the values to use instead. If entries must be converted first, parts are smaller, to limit the memory of the
        converted ones.
        """
        A = self.A if not transpose or self._by_column is None else self._by_column
        are_lines_separate = (A.format == "csr") != transpose
        is_converted = transform is not None or Y.dtype != self.dtype
        products = []
        for lines in split_lines(A, MAX_CONVERTED_ENTRIES if is_converted else MAX_PART_ENTRIES):
            part = _view_part(A, lines, transpose=transpose)
            if transform is not None:
                columns = part.indices if A.format == "csr" else find_lines(part.indptr) + lines.start
                part.data = transform(part.data, columns)
            part.data = part.data.astype(Y.dtype, copy=False)
            part.has_canonical_format = True  # so that CuPy does not search for duplicates
            products.append(part @ (Y if are_lines_separate else Y[lines]))
        return np.concatenate(products) if are_lines_separate else add_in_float64(products)

    def take(self, idx: Array) -> Self:
        """Return a copy of the columns `idx`, distinct indices on the host, in that order, as CSR on the device."""
        positions = np.full_like(self.A.indices, -1, shape=(self.shape[1],))
        positions[self.to_backend(idx)] = self.to_backend(np.arange(len(idx), dtype=np.int32))
        parts = []
        for lines in split_lines(self.A, MAX_CONVERTED_ENTRIES):
            part = view_lines(self.A, lines)
            columns = positions[part.indices]
            kept = np.flatnonzero(columns >= 0)
            parts.append((part.data[kept], columns[kept], np.searchsorted(kept, part.indptr[1:])))
        return type(self)(_join_rows(self.A, parts, len(idx)), self.has_double_sums)

    def select_rows(self, idx: Array) -> Self:
        """Return a copy of the rows `idx`, indices on the host, in that order, as CSR on the device."""
        A, rows = self.A, self.to_backend(idx)
        starts = A.indptr[rows].astype(np.int64)
        ends = np.cumsum(A.indptr[rows + 1] - starts)
        indptr = np.concatenate([np.zeros_like(ends, shape=(1,)), ends])
        lines = find_lines(indptr)
        entries = np.arange(lines.size, like=lines) + (starts - indptr[:-1])[lines]
        taken = _join_rows(A, [(A.data[entries], A.indices[entries], ends)])
        return type(self)(taken, self.has_double_sums)

    def to_dense(self) -> Array:
        """Return the matrix as an array on the device, each column contiguous."""
        return self._scatter_rows(slice(0, self.shape[0]), "F")

    def _scatter_rows(self, rows: slice, order: Any = "C") -> Array:
        """Return a slice of the rows as a new dense array on the device, in `order` "C" or "F" and the dtype of X."""
        part = view_lines(self.A, rows)
        dense = np.zeros_like(part.data, shape=part.shape, order=order)
        dense[find_lines(part.indptr), part.indices] = part.data
        return dense

    def subtract_offsets(self, shift: Array) -> Self:
        """Return the matrix with a constant subtracted from the stored entries of each column; indices are shared."""
        A = self.A
        values = A.data - shift.astype(self.dtype)[A.indices]
        return type(self)(
            set_arrays(type(A)(A.shape, dtype=A.dtype), values, A.indices, A.indptr), self.has_double_sums
        )

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute the Gram matrix by dense blocks of rows of the gathered columns, summed in float64.

        It is (X − mean)ᵀ diag(w) (X − mean), (n, n), in float64; with `idx` that of these n columns, and `mean` is
        (n,), of them alone, or None for zero. `mean` and `weight` are on the device.
        """
        columns = self if idx is None else self.take(idx)
        p, n = columns.shape
        step = max(1, DEVICE_BLOCK_ENTRIES // max(n, 1))
        blocks = [slice(start, min(start + step, p)) for start in range(0, p, step)]
        return add_in_float64(
            self.wrap_array(columns._scatter_rows(rows)).gram(mean, None if weight is None else weight[rows])
            for rows in blocks
        ).astype(np.float64, copy=False)

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the stored entries that `entry_mask`, (nnz,), marks, on the host."""
        entries = np.flatnonzero(entry_mask)
        rows = np.searchsorted(self.A.indptr, entries, side="right") - 1
        return to_host(rows), to_host(self.A.indices[entries])
