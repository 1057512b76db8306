"""Matrices on disk, read a block at a time: the next block is read while this one is multiplied."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from gpower._arrays import Array
from gpower.files import FileError, reading
from gpower.operators.blocks import BlockMatrix, R, Share, Work, as_block
from gpower.operators.containers import InMemory
from gpower.operators.sparse import Block, in_memory

#: Share of the free memory that a fit may take when nothing is said.
MEMORY_SHARE = 0.25
#: Blocks in memory at once: the one in use, the next one, and room for a product of either.
BLOCKS_AT_ONCE = 4
#: Columns are picked from a store kept by column while no more than this share of it holds them.
MOST_SHARE = 0.5
#: Largest block. The allocator keeps pieces of up to 32 MB at hand, and asks the system anew for larger ones, page by
#: page: blocks of 128 MB were read at a fifth of the speed. The same blocks everywhere also give the same digits.
MOST_BYTES = 24 << 20
_NUMBERS = "fiub"  # kinds of dtype that a float can hold


class StoreError(FileError):
    """A store that cannot be read, or not there; the sentence names the place."""


@dataclass(frozen=True, eq=False)
class Source:
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
    read: Callable[[int, int], Block]
    axis: int = 0
    grain: int = 1
    sparse: bool = False
    nnz: int = 0
    names: tuple[str, ...] | None = None
    sample_names: tuple[str, ...] | None = None
    read_bytes: float = 0.0
    origin: str = ""
    decoded: bool = False
    notes: tuple[str, ...] = ()

    @property
    def works_in(self) -> np.dtype:
        """The type that its values are worked with."""
        return working_type(self.dtype)

    @property
    def bytes_per_line(self) -> float:
        """Size of one row or column in memory."""
        lines, length = self.shape[self.axis], self.shape[1 - self.axis]
        size = self.works_in.itemsize
        kept = self.nnz * (size + 4) / max(lines, 1) if self.sparse else length * size
        return max(1.0, kept, self.read_bytes)

    def edges(self, block_bytes: float) -> list[int]:
        """Where blocks of so many bytes, roughly, begin, and the end of the last one."""
        lines = self.shape[self.axis]
        per_block = min(int(max(block_bytes / self.bytes_per_line, 1)), lines)
        return [*range(0, lines, max(1, per_block // self.grain) * self.grain), lines]

    def block_shape(self, lo: int, hi: int) -> tuple[int, int]:
        """The shape of what `read` gives."""
        return (hi - lo, self.shape[1]) if self.axis == 0 else (self.shape[0], hi - lo)


class StreamedMatrix(BlockMatrix):
    """A source read block by block, no more of it in memory than `memory_limit` allows.

    Parameters
    ----------
    source : Source
    memory_limit : float, optional
        Bytes that blocks may take in all; by default a quarter of the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(12.0).reshape(4, 3)
    >>> X = StreamedMatrix(Source("rows", rows.shape, rows.dtype, lambda lo, hi: rows[lo:hi]))
    >>> X.times(np.ones((3, 1)))
    array([[ 3.],
           [12.],
           [21.],
           [30.]])
    """

    def __init__(self, source: Source, memory_limit: float | None = None) -> None:
        self.source = source
        self.shape, self.axis, self.is_sparse = source.shape, source.axis, source.sparse
        self.dtype = source.works_in
        self.memory_limit = granted_memory() if memory_limit is None else memory_limit
        self.names = source.names
        self.shift: Array | None = None
        self.edges = np.array(source.edges(min(self.memory_limit / BLOCKS_AT_ONCE, MOST_BYTES)))
        self.state = state_of(source.origin)

    def pieces(self, work: Work[R], shares: Sequence[Share]) -> list[R]:
        """What `work` makes of every block with a share."""
        return list(self._worked(work, shares))

    def total(self, work: Work[Array], shares: Sequence[Share]) -> Array:
        """The sum of it in float64, added up as the blocks come."""
        results = self._worked(work, shares)
        total = np.array(next(results), np.float64)
        for result in results:
            total += result
        return total

    def _worked(self, work: Work[R], shares: Sequence[Share]) -> Iterator[R]:
        """Results in the order of the blocks; one block is read ahead."""
        wanted = [(part, share) for part, share in zip(self.slices(), shares, strict=True) if share is not None]
        if not wanted:
            return
        reader = ThreadPoolExecutor(1)
        try:
            ahead = reader.submit(self.block, wanted[0][0])
            for i, (_, share) in enumerate(wanted):
                block = ahead.result()
                if i + 1 < len(wanted):
                    ahead = reader.submit(self.block, wanted[i + 1][0])
                yield work(block, *share)
        finally:
            reader.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for a slow disk
        if state_of(self.source.origin) != self.state:
            raise StoreError(
                f"{self.source.name}: the store was changed while it was read, so that the answer would be of neither "
                "state; fit it again once nothing writes to it."
            )

    def block(self, part: slice) -> InMemory:
        """Rows or columns of the source, less the shift."""
        block = in_memory(read_block(self.source, part.start, part.stop))
        if self.shift is None:
            return block
        return block.shifted(self.shift if self.axis == 0 else self.shift[part])

    def part(self, idx: Array) -> InMemory:
        """Some columns; of a store that is kept by column only what holds them is read."""
        idx = np.asarray(idx)
        if self.share(idx) in (0, 1):
            return super().part(idx)
        first = np.unique(idx // self.source.grain) * self.source.grain
        ends = np.minimum(first + self.source.grain, self.shape[1])
        few = copy(self)
        few.edges = np.unique(np.concatenate([[0], first, ends, [self.shape[1]]]))
        return BlockMatrix.part(few, idx)

    def share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some columns; all of it where that is most of it."""
        if self.axis == 0:
            return super().share(idx)
        read = np.unique(idx // self.source.grain).size * self.source.grain / self.shape[1]
        return float(read) if read <= MOST_SHARE else 1.0

    def head(self, count: int) -> Array:
        """The first rows, dense; of blocks of rows no more is read."""
        if self.axis == 1:
            return super().head(count)
        return self.block(slice(0, min(count, self.shape[0]))).head(count)

    def shifted(self, shift: Array) -> Self:
        """The same matrix less a constant per column."""
        other = copy(self)
        other.shift = shift if self.shift is None else self.shift + shift
        return other


def state_of(origin: str) -> tuple[str, int, int, int]:
    """Path, number of files, their bytes, and the last change of a file or of all files of a folder."""
    path = Path(origin)
    files = [path, *path.rglob("*")] if origin and path.is_dir() else [path] if origin else []
    found = [file.stat() for file in files if file.is_file()]
    changed = max((stat.st_mtime_ns for stat in found), default=0)
    return str(path.resolve()), len(found), sum(stat.st_size for stat in found), changed


def read_block(source: Source, lo: int, hi: int) -> Block:
    """Rows or columns of a source as numbers, or a sentence that names them."""
    what = f"{source.name}, {'rows' if source.axis == 0 else 'columns'} {lo} to {hi - 1}"
    with reading(lambda why: StoreError(f"{what}: they could not be read ({why})."), MemoryError):
        block = source.read(lo, hi)
    wanted = source.block_shape(lo, hi)
    if block.shape != wanted:
        raise StoreError(f"{what}: the store gave an array of shape {block.shape} instead of {wanted}.")
    try:
        return as_block(block, source.works_in)
    except (TypeError, ValueError):
        raise StoreError(f"{what}: values of type {block.dtype} are not numbers.") from None


def matrix_form(name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[tuple[int, int], np.dtype]:
    """Shape and type, if they are those of a matrix of numbers."""
    if len(shape) != 2:
        raise StoreError(f"{name}: a matrix has two dimensions, this array has the shape {tuple(shape)}.")
    if np.dtype(dtype).kind not in _NUMBERS:
        raise StoreError(f"{name}: its values are of type {np.dtype(dtype)}, not numbers.")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def working_type(dtype: np.dtype) -> np.dtype:
    """The type that values are worked with: float32 as it is, everything else as float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def granted_memory() -> float:
    """Bytes that a fit may take when nothing is said."""
    return MEMORY_SHARE * free_memory()


def free_memory() -> int:
    """Bytes of memory that are free and granted to the process, as the system says; a gigabyte where it does not."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return min(int(fields["MemAvailable"].split()[0]) * 1024, _addresses_left())
    except (OSError, KeyError, ValueError, ImportError):
        return 1 << 30


def _addresses_left() -> int:
    """Bytes of address space that the process may still take (ulimit -v)."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    with open("/proc/self/statm") as sizes:
        return max(limit - int(sizes.read().split()[0]) * resource.getpagesize(), 0)
