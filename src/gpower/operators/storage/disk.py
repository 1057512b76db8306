"""Container of a matrix on disk, read block by block; the next block is read while the current one is multiplied.

A block is a range of rows (`axis` 0) or of columns (`axis` 1), as the store is arranged, in host memory. A function of
a block gets it as an `InMemoryMatrix`. Arguments for the blocks are a list with one tuple for each block, or None for a
block that is skipped. `idx` are indices of columns.

Terms: a `MatrixSource` is a store: `shape`, `axis`, `is_sparse`, `working_dtype` (float32 or float64), `feature_names`,
`name`, `chunk_length`, the number of lines (rows or columns along `axis`) that are read together, and
``compute_block_edges(bytes)``, the first line of each block of about that size, and the end.
``read_source_block(source, lo, hi)`` is an array or a CSR matrix of the lines lo to hi − 1, in the working dtype;
``get_storage_state(source)`` equals an earlier one unless the store was changed. ``wrap_in_memory(matrix)`` is the
container of a matrix in memory, whose ``subtract_offsets(shift)`` is a copy less a constant per column.
``add_in_float64(terms)`` adds arrays in their order. ``get_block_slices()`` are the slices
of lines of all blocks, and ``get_default_memory_limit()`` is a quarter of the free memory, in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Self

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import get_default_memory_limit
from gpower.io.stores.matrix_source import (
    MAX_BLOCK_BYTES,
    MatrixSource,
    StoreError,
    get_storage_state,
    read_source_block,
)
from gpower.operators.storage.base import InMemoryMatrix, add_in_float64
from gpower.operators.storage.blocks import BlockArguments, BlockFunction, BlockMatrix, R
from gpower.operators.storage.sparse import wrap_in_memory

#: Memory for blocks, in units of one block: the current one, the next one, and a temporary copy of each.
MAX_BLOCKS_IN_MEMORY = 4
#: Largest share of a store by column that is read to take some columns; above it the whole store is read.
MAX_PICKED_SHARE = 0.5


class StreamedMatrix(BlockMatrix):
    """Container of a source that is read block by block within a memory limit.

    Parameters
    ----------
    source : MatrixSource
    memory_limit : float, optional
        Bytes that all blocks in memory may take; by default a quarter of the free memory.

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
        self.shape = source.shape
        self.axis = source.axis
        self.is_checked_on_read = source.axis == 0
        self.is_sparse = source.is_sparse
        self.dtype = source.working_dtype
        self.memory_limit = get_default_memory_limit() if memory_limit is None else memory_limit
        self.feature_names, self.storage_name = source.feature_names, source.name
        self.column_shift: Array | None = None
        block_bytes = min(self.memory_limit / MAX_BLOCKS_IN_MEMORY, MAX_BLOCK_BYTES)
        self.block_edges = np.array(source.compute_block_edges(block_bytes))
        self.source_state = get_storage_state(source)

    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """Return the results of a function for all blocks with arguments, in the order of the blocks."""
        return list(self._iterate_results(function, arguments))

    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """Add the results of a function in float64, block by block as they are read; one block must have arguments."""
        return add_in_float64(self._iterate_results(function, arguments)).astype(np.float64, copy=False)

    def _iterate_results(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> Iterator[R]:
        """Yield the results in the order of the blocks; one block is read ahead, blocks without arguments are not read.

        Raise StoreError after the last block if the store was changed since this container was made; results must
        therefore not be used before the iterator ends.
        """
        all_blocks = zip(self.get_block_slices(), arguments, strict=True)
        tasks = [(part, block_arguments) for part, block_arguments in all_blocks if block_arguments is not None]
        if not tasks:
            return
        reader = ThreadPoolExecutor(1)
        try:
            next_block = reader.submit(self.load_block, tasks[0][0])
            for i, (_, block_arguments) in enumerate(tasks):
                block = next_block.result()
                if i + 1 < len(tasks):
                    next_block = reader.submit(self.load_block, tasks[i + 1][0])
                yield function(block, *block_arguments)
        finally:
            reader.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for a slow disk
        if get_storage_state(self.source) != self.source_state:
            raise StoreError(
                f"{self.source.name}: the store was changed while it was read, so that the result would mix two "
                "versions of the data. Fit again when nothing writes to the store."
            )

    def load_block(self, block_slice: slice) -> InMemoryMatrix:
        """Read a slice of rows or columns (along `axis`) of the source and subtract the column shift."""
        block = wrap_in_memory(read_source_block(self.source, block_slice.start, block_slice.stop))
        if self.column_shift is None:
            return block
        return block.subtract_offsets(self.column_shift if self.axis == 0 else self.column_shift[block_slice])

    def take(self, idx: Array) -> InMemoryMatrix:
        """Return some columns; from a store by column only the chunks that contain them are read.

        For that, a copy of this container has the chunks as its blocks; `BlockMatrix.take` skips those without `idx`.
        """
        idx = np.asarray(idx)
        if self.column_read_share(idx) in (0, 1):
            return super().take(idx)
        starts = np.unique(idx // self.source.chunk_length) * self.source.chunk_length
        ends = np.minimum(starts + self.source.chunk_length, self.shape[1])
        by_chunk = copy(self)
        by_chunk.block_edges = np.unique(np.concatenate([[0], starts, ends, [self.shape[1]]]))
        return BlockMatrix.take(by_chunk, idx)

    def column_read_share(self, idx: Array) -> float:
        """Return the share of the matrix that is read for some columns: one if their chunks are most of the matrix."""
        if self.axis == 0:
            return super().column_read_share(idx)
        share = np.unique(idx // self.source.chunk_length).size * self.source.chunk_length / self.shape[1]
        return float(share) if share <= MAX_PICKED_SHARE else 1.0

    def head(self, n_rows: int) -> Array:
        """Return the first rows, dense; from blocks of rows nothing else is read."""
        if self.axis == 1:
            return super().head(n_rows)
        return self.load_block(slice(0, min(n_rows, self.shape[0]))).head(n_rows)

    def subtract_offsets(self, shift: Array) -> Self:
        """Return the matrix with `shift`, (n_features,), subtracted from its rows whenever a block is read."""
        other = copy(self)
        other.column_shift = shift if self.column_shift is None else self.column_shift + shift
        return other
