"""Matrices on disk, read a block at a time: the next block is read while this one is multiplied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Self

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import get_default_memory_limit
from gpower.io.stores.source import MAX_BLOCK_BYTES, MatrixSource, StoreError, get_storage_state, read_source_block
from gpower.operators.storage.base import InMemoryMatrix
from gpower.operators.storage.blocks import BlockArguments, BlockFunction, BlockMatrix, R
from gpower.operators.storage.sparse import wrap_in_memory

#: Blocks in memory at once: the one in use, the next one, and room for a product of either.
MAX_BLOCKS_IN_MEMORY = 4
#: Columns are picked from a store kept by column while no more than this share of it holds them.
MAX_PICKED_SHARE = 0.5


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
    >>> X = StreamedMatrix(MatrixSource("rows", rows.shape, rows.dtype, lambda lo, hi: rows[lo:hi]))
    >>> X.times(np.ones((3, 1)))
    array([[ 3.],
           [12.],
           [21.],
           [30.]])
    """

    def __init__(self, source: MatrixSource, memory_limit: float | None = None) -> None:
        self.source = source
        self.shape, self.axis, self.is_sparse = source.shape, source.axis, source.is_sparse
        self.dtype = source.working_dtype
        self.memory_limit = get_default_memory_limit() if memory_limit is None else memory_limit
        self.feature_names = source.feature_names
        self.column_shift: Array | None = None
        self.block_edges = np.array(
            source.compute_block_edges(min(self.memory_limit / MAX_BLOCKS_IN_MEMORY, MAX_BLOCK_BYTES))
        )
        self.source_state = get_storage_state(source.storage_path)

    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """What `work` makes of every block with a share."""
        return list(self._iterate_results(function, arguments))

    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """The sum of it in float64, added up as the blocks come."""
        results = self._iterate_results(function, arguments)
        total = np.array(next(results), np.float64)
        for result in results:
            total += result
        return total

    def _iterate_results(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> Iterator[R]:
        """Results in the order of the blocks; one block is read ahead."""
        wanted = [
            (part, share) for part, share in zip(self.get_block_slices(), arguments, strict=True) if share is not None
        ]
        if not wanted:
            return
        reader = ThreadPoolExecutor(1)
        try:
            ahead = reader.submit(self.load_block, wanted[0][0])
            for i, (_, share) in enumerate(wanted):
                block = ahead.result()
                if i + 1 < len(wanted):
                    ahead = reader.submit(self.load_block, wanted[i + 1][0])
                yield function(block, *share)
        finally:
            reader.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for a slow disk
        if get_storage_state(self.source.storage_path) != self.source_state:
            raise StoreError(
                f"{self.source.name}: the store was changed while it was read, so that the answer would be of neither "
                "state; fit it again once nothing writes to it."
            )

    def load_block(self, block_slice: slice) -> InMemoryMatrix:
        """Rows or columns of the source, less the shift."""
        block = wrap_in_memory(read_source_block(self.source, block_slice.start, block_slice.stop))
        if self.column_shift is None:
            return block
        return block.subtract_offsets(self.column_shift if self.axis == 0 else self.column_shift[block_slice])

    def take(self, idx: Array) -> InMemoryMatrix:
        """Some columns; of a store that is kept by column only what holds them is read."""
        idx = np.asarray(idx)
        if self.column_read_share(idx) in (0, 1):
            return super().take(idx)
        first = np.unique(idx // self.source.chunk_length) * self.source.chunk_length
        ends = np.minimum(first + self.source.chunk_length, self.shape[1])
        few = copy(self)
        few.block_edges = np.unique(np.concatenate([[0], first, ends, [self.shape[1]]]))
        return BlockMatrix.take(few, idx)

    def column_read_share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some columns; all of it where that is most of it."""
        if self.axis == 0:
            return super().column_read_share(idx)
        read = np.unique(idx // self.source.chunk_length).size * self.source.chunk_length / self.shape[1]
        return float(read) if read <= MAX_PICKED_SHARE else 1.0

    def head(self, n_rows: int) -> Array:
        """The first rows, dense; of blocks of rows no more is read."""
        if self.axis == 1:
            return super().head(n_rows)
        return self.load_block(slice(0, min(n_rows, self.shape[0]))).head(n_rows)

    def subtract_offsets(self, shift: Array) -> Self:
        """The same matrix less a constant per column."""
        other = copy(self)
        other.column_shift = shift if self.column_shift is None else self.column_shift + shift
        return other
