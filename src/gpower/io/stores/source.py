"""TODO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.files import FileError, convert_read_errors

#: Largest block. The allocator keeps pieces of up to 32 MB at hand, and asks the system anew for larger ones, page by
#: page: blocks of 128 MB were read at a fifth of the speed. The same blocks everywhere also give the same digits.
MAX_BLOCK_BYTES = 24 << 20


_NUMERIC_DTYPE_KINDS = "fiub"  # kinds of dtype that a float can hold


class StoreError(FileError):
    """A store that cannot be read, or not there; the sentence names the place."""


@dataclass(frozen=True, eq=False)
class MatrixSource:
    """A matrix that gives blocks of rows (axis 0) or columns (axis 1).

    Attributes
    ----------
    name : str
        How to call it in a message.
    shape : tuple of int
    dtype : dtype
        Of what `read` gives; anything that is not float32 is worked on as float64.
    read : callable
        ``read(lo, hi)``: rows or columns from lo to before hi, an ndarray or a CSR matrix.
    axis : {0, 1}
    grain : int
        Rows or columns that the store keeps together; blocks are multiples of it.
    sparse : bool
    nnz : int
        Stored entries, if sparse.
    sample_names : tuple of str or None
        Names of the rows, where the store has them.
    names : tuple of str or None
        Names of the columns, where the store has them.
    read_bytes : float
        Bytes that one row or column takes while it is read, where that is more than what is kept of it.
    origin : str
        File or folder that it is in, where that is known.
    decoded : bool
        Whether it is kept as plain numbers, so that reading it takes no more than copying them.
    notes : tuple of str
        What was done to its names, a sentence each without its full stop.
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
    is_decoded: bool = False
    notes: tuple[str, ...] = ()

    @property
    def working_dtype(self) -> np.dtype:
        """The type that its values are worked with."""
        return get_working_dtype(self.dtype)

    @property
    def bytes_per_line(self) -> float:
        """Size of one row or column in memory."""
        lines, length = self.shape[self.axis], self.shape[1 - self.axis]
        size = self.working_dtype.itemsize
        kept = self.nnz * (size + 4) / max(lines, 1) if self.is_sparse else length * size
        return max(1.0, kept, self.read_bytes_per_line)

    def compute_block_edges(self, block_bytes: float) -> list[int]:
        """Where blocks of so many bytes, roughly, begin, and the end of the last one."""
        lines = self.shape[self.axis]
        per_block = min(int(max(block_bytes / self.bytes_per_line, 1)), lines)
        return [*range(0, lines, max(1, per_block // self.chunk_length) * self.chunk_length), lines]

    def get_block_shape(self, lo: int, hi: int) -> tuple[int, int]:
        """The shape of what `read` gives."""
        return (hi - lo, self.shape[1]) if self.axis == 0 else (self.shape[0], hi - lo)


def get_storage_state(storage_path: str) -> tuple[str, int, int, int]:
    """Path, number of files, their bytes, and the last change of a file or of all files of a folder."""
    path = Path(storage_path)
    files = [path, *path.rglob("*")] if storage_path and path.is_dir() else [path] if storage_path else []
    found = [file.stat() for file in files if file.is_file()]
    changed = max((stat.st_mtime_ns for stat in found), default=0)
    return str(path.resolve()), len(found), sum(stat.st_size for stat in found), changed


def read_source_block(source: MatrixSource, lo: int, hi: int) -> DataBlock:
    """Rows or columns of a source as numbers, or a sentence that names them."""
    what = f"{source.name}, {'rows' if source.axis == 0 else 'columns'} {lo} to {hi - 1}"
    with convert_read_errors(lambda why: StoreError(f"{what}: they could not be read ({why})."), MemoryError):
        block = source.read_slice(lo, hi)
    wanted = source.get_block_shape(lo, hi)
    if block.shape != wanted:
        raise StoreError(f"{what}: the store gave an array of shape {block.shape} instead of {wanted}.")
    try:
        return to_working_block(block, source.working_dtype)
    except (TypeError, ValueError):
        raise StoreError(f"{what}: values of type {block.dtype} are not numbers.") from None


def check_matrix_form(name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[tuple[int, int], np.dtype]:
    """Shape and type, if they are those of a matrix of numbers."""
    if len(shape) != 2:
        raise StoreError(f"{name}: a matrix has two dimensions, this array has the shape {tuple(shape)}.")
    if np.dtype(dtype).kind not in _NUMERIC_DTYPE_KINDS:
        raise StoreError(f"{name}: its values are of type {np.dtype(dtype)}, not numbers.")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def get_working_dtype(dtype: np.dtype) -> np.dtype:
    """The type that values are worked with: float32 as it is, everything else as float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def to_working_block(block: DataBlock, dtype: np.dtype) -> DataBlock:
    """A block of numbers of the type that is worked with; an entry stored in parts counts as their sum."""
    if not sp.issparse(block):
        return np.asarray(block).astype(dtype, copy=False)
    stored = block if block.format in ("csr", "csc") else block.tocsr()
    return sum_duplicate_entries(stored.astype(dtype, copy=False))


#: A CSR or CSC matrix or array of SciPy, which has no types; and such a one or an ndarray.
ScipySparse: TypeAlias = Any


DataBlock: TypeAlias = Any


def sum_duplicate_entries(A: ScipySparse) -> ScipySparse:
    """A without entries stored in parts, which count as their sum; a copy only where there are any."""
    if A.has_canonical_format:
        return A
    A = A.copy()
    A.sum_duplicates()
    return A
