"""`MatrixSource`: a matrix on disk that is read in blocks of rows or columns, and the conversion of its blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.files import FileError, convert_read_errors
from gpower._utils.memory import get_free_memory
from gpower._utils.messages import format_param
from gpower._utils.sparse_parts import split_lines, view_lines

#: Largest block, in bytes. The allocator reuses pieces of up to 32 MB, and requests larger ones from the system page by
#: page: blocks of 128 MB were read at a fifth of the speed. The same blocks everywhere also give the same digits.
MAX_BLOCK_BYTES = 24 << 20
#: Memory of a fit with one component, in bytes, for each variable (measured) and for each sample, besides the matrix.
_BYTES_PER_FEATURE, _BYTES_PER_SAMPLE = 200, 24
#: Announced sizes, in bytes, up to this one are not compared with what is stored.
MIN_CHECKED_BYTES = 1 << 29
#: Largest ratio of the memory that a shape needs to the bytes that are stored. gzip compresses constants by 1000.
_MAX_EXPANSION = 1000
#: Number of entries of a sparse matrix that are searched for duplicates at once.
MAX_CHECKED_ENTRIES = 1 << 22
_NUMERIC_DTYPE_KINDS = "fiub"  # kinds of dtype that convert to float

ScipySparse: TypeAlias = Any  # a CSR or CSC matrix or array of SciPy, whose classes have no types
DataBlock: TypeAlias = Any  # an ndarray or a ScipySparse


class StoreError(FileError):
    """A store that is missing or cannot be read; the message begins with its place."""


@dataclass(frozen=True, eq=False)
class MatrixSource:
    """A matrix on disk that is read in blocks of rows (axis 0) or columns (axis 1), called lines below.

    Attributes
    ----------
    name : str
        Name of the matrix in messages.
    shape : tuple of int
        (n_samples, n_features).
    dtype : dtype
        Type of the blocks that `read_slice` returns; any type but float32 is converted to float64.
    read_slice : callable
        ``read_slice(lo, hi)`` returns the lines lo to hi − 1, an ndarray or a CSR or CSC matrix.
    axis : {0, 1}
        0 if the lines are rows, 1 if they are columns.
    chunk_length : int
        Lines that the store keeps together; blocks are multiples of it.
    is_sparse : bool
    nnz : int
        Number of stored entries, if sparse.
    feature_names : tuple of str or None
        Names of the columns, if the store has them.
    sample_names : tuple of str or None
        Names of the rows, if the store has them.
    read_bytes_per_line : float
        Memory that one line takes while it is read, in bytes, if that is more than its size afterwards.
    storage_path : str
        File or folder of the matrix; "" if unknown.
    other_paths : tuple of str
        Other files that hold its numbers: the sources of a virtual dataset.
    is_decoded : bool
        Whether the store holds plain numbers, so that reading them is only copying.
    notes : tuple of str
        Changes that were made to the names, one sentence each without its full stop.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype
    read_slice: Callable[[int, int], DataBlock]
    axis: int = 0
    chunk_length: int = 1
    is_sparse: bool = False
    nnz: int = 0
    feature_names: tuple[str, ...] | None = None
    sample_names: tuple[str, ...] | None = None
    read_bytes_per_line: float = 0.0
    storage_path: str = ""
    other_paths: tuple[str, ...] = ()
    is_decoded: bool = False
    notes: tuple[str, ...] = ()

    @property
    def working_dtype(self) -> np.dtype:
        """Return the dtype that blocks are converted to: float32 or float64."""
        return get_working_dtype(self.dtype)

    @property
    def bytes_per_line(self) -> float:
        """Return the memory that one row or column takes, in bytes; the mean if sparse."""
        n_lines, length = self.shape[self.axis], self.shape[1 - self.axis]
        itemsize = self.working_dtype.itemsize
        size = self.nnz * (itemsize + 4) / max(n_lines, 1) if self.is_sparse else length * itemsize
        return max(1.0, size, self.read_bytes_per_line)

    def compute_block_edges(self, block_bytes: float) -> list[int]:
        """Return the first line of each block of about `block_bytes` bytes, and the end of the last block."""
        n_lines = self.shape[self.axis]
        per_block = min(int(max(block_bytes / self.bytes_per_line, 1)), n_lines)
        return [*range(0, n_lines, max(1, per_block // self.chunk_length) * self.chunk_length), n_lines]

    def get_block_shape(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the shape of the block that `read_slice(lo, hi)` returns."""
        return (hi - lo, self.shape[1]) if self.axis == 0 else (self.shape[0], hi - lo)


def get_storage_state(source: MatrixSource) -> tuple[str, int, int, int]:
    """Return the path of a source, and number, total bytes and last change (ns) of the files that hold its numbers."""
    path = Path(source.storage_path)
    files = [Path(name) for name in (source.storage_path, *source.other_paths) if name]
    if source.storage_path and path.is_dir():
        files += path.rglob("*")
    stats = [file.stat() for file in files if file.is_file()]
    last_change = max((stat.st_mtime_ns for stat in stats), default=0)
    return str(path.resolve()), len(stats), sum(stat.st_size for stat in stats), last_change


def read_source_block(source: MatrixSource, lo: int, hi: int) -> DataBlock:
    """Return lines lo to hi − 1 of a source in its working dtype; raise and name them if they cannot be read."""
    place = f"{source.name}, {'rows' if source.axis == 0 else 'columns'} {lo} to {hi - 1}"
    with convert_read_errors(lambda reason: StoreError(f"{place}: they could not be read ({reason})."), MemoryError):
        block = source.read_slice(lo, hi)
    expected_shape = source.get_block_shape(lo, hi)
    if block.shape != expected_shape:
        raise StoreError(f"{place}: the store gave an array of shape {block.shape} instead of {expected_shape}.")
    try:
        return to_working_block(block, source.working_dtype)
    except (TypeError, ValueError):
        raise StoreError(f"{place}: values of type {block.dtype} are not numbers.") from None


def check_matrix_form(name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[tuple[int, int], np.dtype]:
    """Return shape and dtype; raise if they are not those of a matrix of numbers."""
    if len(shape) != 2:
        raise StoreError(f"{name}: a matrix has two dimensions, this array has the shape {tuple(shape)}.")
    if np.dtype(dtype).kind not in _NUMERIC_DTYPE_KINDS:
        raise StoreError(f"{name}: its values are of type {np.dtype(dtype)}, not numbers.")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def describe_excessive_shape(
    shape: tuple[int, int],
    count_stored_bytes: Callable[[], float] = lambda: math.inf,
    block_bytes: float = 0,
    memory_limit: float | None = None,
) -> str | None:
    """Return why a matrix of an announced shape, samples × variables, cannot be used; None if it can.

    A few bytes can announce a sparse matrix, or an array of which no chunk is stored, of any size. `block_bytes` is the
    smallest part of the matrix that is read at once, `memory_limit` the number of bytes that a user has granted.

    Examples
    --------
    >>> from gpower.io.stores.matrix_source import describe_excessive_shape
    >>> describe_excessive_shape((2, 2_000_000_000), lambda: 16)
    'it announces 2 × 2,000,000,000 numbers, which need at least 400 GB of memory, and stores 16 bytes'
    """
    needed = max(block_bytes, _BYTES_PER_SAMPLE * shape[0] + _BYTES_PER_FEATURE * shape[1])
    if needed <= MIN_CHECKED_BYTES:
        return None
    announced = f"it announces {shape[0]:,} × {shape[1]:,} numbers, which need at least {needed / 1e9:.3g} GB of memory"
    n_stored = count_stored_bytes()
    if needed > _MAX_EXPANSION * n_stored:
        return f"{announced}, and stores {n_stored:,.0f} bytes"
    if memory_limit is not None and needed > memory_limit:
        return f"{announced}, and {format_param('memory_limit')} grants {memory_limit / 1e9:.3g} GB"
    n_free = get_free_memory()
    return f"{announced}, and {n_free / 1e9:.3g} GB are free" if needed > n_free else None


def decode_text(value: object) -> str:
    """Return a stored name, text or bytes, as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def get_working_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 for float32, and float64 for every other dtype."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def to_working_block(block: DataBlock, dtype: np.dtype) -> DataBlock:
    """Return a block in the given dtype; a sparse block as CSR or CSC, with duplicate entries summed."""
    if not sp.issparse(block):
        return np.asarray(block).astype(dtype, copy=False)
    stored = block if block.format in ("csr", "csc") else block.tocsr()
    return sum_duplicate_entries(stored.astype(dtype, copy=False))


def sum_duplicate_entries(A: ScipySparse) -> ScipySparse:
    """Return A with duplicate entries summed: a copy, or A itself if there are none, with indices in any order."""
    if A.has_canonical_format or not any(_has_duplicates(A, lines) for lines in split_lines(A, MAX_CHECKED_ENTRIES)):
        return A
    A = A.copy()
    A.sum_duplicates()
    return A


def _has_duplicates(A: ScipySparse, lines: slice) -> bool:
    """Return whether some rows of a CSR matrix, or columns of a CSC matrix, store an entry twice."""
    part = view_lines(A, lines).copy()
    n_stored = part.nnz
    part.sum_duplicates()
    return bool(part.nnz < n_stored)
