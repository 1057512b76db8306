"""Parts of CSR and CSC matrices that share the memory of the whole.

A line is a row of a CSR matrix or a column of a CSC matrix: its entries are stored together. The matrices are SciPy's,
or CuPy's on a device.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gpower._utils.arrays import Array, CompressedMatrix, asarray_like, set_arrays, to_host


def split_lines(A: CompressedMatrix, entries_per_part: int) -> list[slice]:
    """Return consecutive slices of lines with about `entries_per_part` stored entries each, at least one slice.

    They depend on the matrix and on `entries_per_part` alone.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> split_lines(sp.csr_array([[1, 2], [0, 0], [3, 0], [0, 4]]), 2)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    n_lines = A.indptr.size - 1
    n_parts = A.nnz // entries_per_part
    if n_parts <= 1:
        return [slice(0, n_lines)]
    bounds = asarray_like(A.indptr, np.linspace(0, A.nnz, n_parts + 1)[1:-1])
    edges = np.unique([0, *to_host(np.searchsorted(A.indptr, bounds)), n_lines]).tolist()
    return [slice(*edge) for edge in pairwise(edges)]


def view_lines(A: CompressedMatrix, lines: slice, *, transpose: bool = False) -> CompressedMatrix:
    """Return some lines as a matrix, transposed on request, whose entries and indices are those of A in memory."""
    indptr = A.indptr[lines.start : lines.stop + 1]
    entries = slice(int(indptr[0]), int(indptr[-1]))
    n_lines = lines.stop - lines.start
    empty = type(A)((n_lines, A.shape[1]) if A.format == "csr" else (A.shape[0], n_lines), dtype=A.dtype)
    return set_arrays(empty.T if transpose else empty, A.data[entries], A.indices[entries], indptr - indptr[0])


def find_lines(indptr: Array) -> Array:
    """Return the line of every stored entry, where `indptr` is, host or device.

    Examples
    --------
    >>> import numpy as np
    >>> find_lines(np.array([0, 2, 2, 3]))
    array([0, 0, 2])
    """
    return np.searchsorted(indptr, np.arange(int(indptr[-1]), like=indptr), side="right") - 1
