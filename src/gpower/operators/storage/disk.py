"""Matrices on disk, read a block at a time: the next block is read while this one is multiplied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Self

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import granted_memory
from gpower.io.stores.source import MOST_BYTES, Source, StoreError, read_block, state_of
from gpower.operators.storage.base import InMemory
from gpower.operators.storage.blocks import BlockMatrix, R, Share, Work
from gpower.operators.storage.sparse import in_memory

#: Blocks in memory at once: the one in use, the next one, and room for a product of either.
BLOCKS_AT_ONCE = 4
#: Columns are picked from a store kept by column while no more than this share of it holds them.
MOST_SHARE = 0.5


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
