"""A matrix in blocks of rows or of columns, wherever they are: on disk, or on the workers of a cluster.

Every product is the same small function of each block, and a sum or a concatenation of what comes back. Where the
blocks live decides only how the functions are run: `StreamedMatrix` reads one block after the other, `DaskMatrix` sends
the function to the block. A block is a container itself, in the memory of whoever works on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array
from gpower.io.stores.source import DataBlock
from gpower.operators.storage.base import InMemoryMatrix, NonFiniteEntry, OnePassMoments
from gpower.operators.storage.dense import DenseMatrix
from gpower.operators.storage.sparse import wrap_in_memory

#: Of the memory granted, columns gathered may take one part in so many, a Gram matrix one part in so many.
GATHER_MEMORY_DIVISOR, GRAM_MEMORY_DIVISOR = 4, 8
#: Rows whose medians shift the matrix before its moments are summed.
MEDIAN_SAMPLE_ROWS = 32

R = TypeVar("R")
#: A function of a block and of what is its share of the arguments.
BlockFunction = Callable[..., R]
#: What is a block's share of the arguments of a function; None leaves the block alone.
BlockArguments = tuple[object, ...] | None


class BlockMatrix(OnePassMoments):
    """Rows or columns in blocks; dense blocks, or CSR ones.

    Attributes
    ----------
    axis : {0, 1}
        Whether blocks are of rows or of columns.
    edges : ndarray of int
        Where blocks begin, and the end of the last one.
    memory_limit : float
        Bytes that gathered columns, Gram matrices and blocks in use may take.
    checked_later : bool
        Whether entries are looked at when they are projected, in the same read.
    """

    axis: int
    block_edges: Array
    memory_limit: float
    is_remote = True
    storage_description = "in blocks, on disk or on a cluster"

    @abstractmethod
    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """``work(block, *share)`` for every block, in their order; a block without a share is left alone."""

    @abstractmethod
    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """The sum of ``work(block, *share)`` over the blocks in float64, always in the same order."""

    @property
    def is_checked_on_read(self) -> bool:
        """Blocks of rows are."""
        return self.axis == 0

    @property
    def nbytes(self) -> int:
        """Room that all entries would take."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_edges) - 1

    @property
    def max_cached_columns(self) -> int:
        """As many as fit into the memory granted to them."""
        return int(self.memory_limit / (GATHER_MEMORY_DIVISOR * self.dtype.itemsize * self.shape[0]))

    @property
    def fits_in_memory(self) -> bool:
        """Whether all of it may be gathered."""
        return self.shape[1] <= self.max_cached_columns

    @property
    def memory_excess_message(self) -> str:
        """How much too large it is to be gathered, and what to do about it."""
        return (
            f"and takes {self.nbytes / 1e9:.2g} GB, more than a quarter of the {self.memory_limit / 1e9:.2g} GB that "
            "memory_limit grants: raise that, or give a random part of the samples or the variables of largest variance"
        )

    @property
    def max_covariances(self) -> int:
        """How many covariances of all columns, added up over blocks of rows, fit into the memory granted."""
        return int(self.memory_limit / (8 * self.shape[1] ** 2)) if self.axis == 0 else 0

    @property
    def max_gram_columns(self) -> int:
        """As many as fit into the memory granted to their Gram matrix."""
        return int(np.sqrt(self.memory_limit / (GRAM_MEMORY_DIVISOR * self.dtype.itemsize)))

    @property
    def should_use_covariance(self) -> bool:
        """Twice as many samples as variables, and a covariance that takes little of the memory granted."""
        p, n = self.shape
        return self.axis == 0 and 2 * n <= p and 8 * n * n <= self.memory_limit / GRAM_MEMORY_DIVISOR

    def column_read_share(self, idx: Array) -> float:
        """Share of the matrix that is read for some columns: blocks of rows are read whole."""
        return float(len(idx) > 0) if self.axis == 0 else super().column_read_share(idx)

    def supports_take(self, n_columns: int) -> bool:
        """Whether so many columns are worth being picked: not from blocks of rows."""
        return self.axis == 1 and super().supports_take(n_columns)

    def get_block_slices(self) -> list[slice]:
        """The rows or columns of every block."""
        return [slice(int(lo), int(hi)) for lo, hi in zip(self.block_edges[:-1], self.block_edges[1:], strict=True)]

    def repeat_arguments(self, *arguments: object) -> list[BlockArguments]:
        """The same arguments for every block."""
        return [arguments] * self.n_blocks

    def times(self, T: Array) -> Array:
        """X T."""
        return self._multiply_blocks(lambda block, T: block.times(T), T, 1)

    def transposed_times(self, Y: Array) -> Array:
        """XᵀY."""
        return self._multiply_blocks(lambda block, Y: block.transposed_times(Y), Y, 0)

    def _multiply_blocks(self, function: BlockFunction[Array], Y: Array, summed_axis: int) -> Array:
        """A product that sums over rows (0) or columns (1): each block's share of the sum, or of the answer."""
        if self.axis == summed_axis:
            return self.sum_blocks(function, [(Y[part],) for part in self.get_block_slices()]).astype(self.dtype)
        return np.concatenate(self.map_blocks(function, self.repeat_arguments(Y)))

    def take(self, idx: Array) -> InMemoryMatrix:
        """Some columns in memory, dense or CSC."""
        idx = np.asarray(idx)
        if idx.size == 0:
            none = np.zeros((self.shape[0], 0), self.dtype)
            return wrap_in_memory(sp.csc_array(none) if self.is_sparse else none)
        if self.axis == 0:
            return self._concatenate_columns(self.repeat_arguments(idx))
        owner = np.searchsorted(self.block_edges, idx, side="right") - 1
        order = np.argsort(owner, kind="stable")
        held = np.split(idx[order], np.searchsorted(owner[order], np.arange(1, self.n_blocks)))
        shares = [(own - lo,) if own.size else None for own, lo in zip(held, self.block_edges[:-1], strict=True)]
        return self._concatenate_columns(shares).take(np.argsort(order))

    def get_rows(self, idx: Array) -> Array:
        """Return some rows as an array; `idx` grows."""
        return wrap_in_memory(self.take_rows(idx)).to_dense()

    def row_read_share(self, idx: Array) -> float:
        """Blocks are read whole."""
        if self.axis == 1:
            return 1.0
        touched = np.unique(np.searchsorted(self.block_edges, idx, side="right") - 1)
        return float(np.sum(np.diff(self.block_edges)[touched]) / self.shape[0])

    def take_rows(self, rows: Array) -> DataBlock:
        """Some rows in memory, whose numbers grow."""
        shares: list[BlockArguments] = self.repeat_arguments(rows)
        if self.axis == 0:
            held = np.split(rows, np.searchsorted(rows, self.block_edges[1:-1]))
            shares = [(own - lo,) if own.size else None for own, lo in zip(held, self.block_edges[:-1], strict=True)]
        parts = self.map_blocks(lambda block, rows: block.A[rows], shares)
        if self.is_sparse:
            return (sp.hstack if self.axis else sp.vstack)(parts, format="csr")
        return np.concatenate(parts, axis=self.axis)

    def _concatenate_columns(self, arguments: Sequence[BlockArguments]) -> InMemoryMatrix:
        """Some columns of every block, one beside or below the other."""
        parts = self.map_blocks(lambda block, idx: block.take(idx).A, arguments)
        if self.is_sparse:
            return wrap_in_memory((sp.hstack if self.axis else sp.vstack)(parts, format="csc"))
        return DenseMatrix(np.concatenate(parts, axis=self.axis))

    def to_dense(self) -> Array:
        """All of it in memory."""
        return self.take(np.arange(self.shape[1])).to_dense()

    def wrap_array(self, A: Array) -> DenseMatrix:
        """An array in memory."""
        return DenseMatrix(A)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """A sum over blocks of rows: as few numbers travel as the answer has."""
        if self.axis == 1:
            return self.take(np.arange(self.shape[1]) if idx is None else idx).gram(mean, weight)
        shares = [(mean, w, idx) for w in self._split_weights(weight)]
        return self.sum_blocks(lambda block, mean, w, idx: block.gram(mean, w, idx), shares)

    def shifted_sums_by_part(self, mean: Array | None, part: Array, n_parts: int) -> Array:
        """Covariances of parts of the samples, about a mean; of blocks of rows in one read."""
        if self.axis == 1:
            return super().shifted_sums_by_part(mean, part, n_parts)
        return self.sum_blocks(
            InMemoryMatrix.shifted_sums_by_part, [(mean, part[rows], n_parts) for rows in self.get_block_slices()]
        )

    def _split_weights(self, weight: Array | None) -> list[Array | None]:
        """The weights of the samples of every block of rows."""
        return [None if weight is None else weight[part] for part in self.get_block_slices()]

    def compute_moments(self, weight: Array | None, total_weight: float) -> tuple[Array, Array, float]:
        """Means, norms about them and the unit of both; of whole columns each block by itself."""
        if self.axis == 0:
            return super().compute_moments(weight, total_weight)
        parts = self.map_blocks(
            lambda block, weight, total: block.compute_moments(weight, total)[:2],
            self.repeat_arguments(weight, total_weight),
        )
        mean, deviation = np.concatenate(parts, axis=1)
        return mean, deviation, 1.0

    def shifted_sums(self, shift: Array, weight: Array | None) -> tuple[Array, Array]:
        """Sums and sums of squares about a shift, block by block."""
        if self.axis == 0:
            sums, squares = self.sum_blocks(_stack_shifted_sums, [(shift, w) for w in self._split_weights(weight)])
        else:
            parts = self.map_blocks(_stack_shifted_sums, [(shift[part], weight) for part in self.get_block_slices()])
            sums, squares = np.concatenate(parts, axis=1)
        return sums, squares

    def estimate_column_centers(self, weight: Array | None) -> Array:
        """The median of the first samples of some weight."""
        first = self.head(MEDIAN_SAMPLE_ROWS)
        if weight is not None:
            first = first[weight[: len(first)] > 0]
        return np.asarray(np.median(first, axis=0) if len(first) else np.zeros(self.shape[1])).astype(self.dtype)

    def select_reread(self, lost_columns: Array) -> tuple[Array | slice, OnePassMoments, float]:
        """Where sums lost digits: all columns are read again, here and there."""
        return slice(None), self, 1.0

    def head(self, n_rows: int) -> Array:
        """The first rows, dense."""
        shares = self.repeat_arguments(n_rows)
        if self.axis == 0:
            shares = [(n_rows - part.start,) if part.start < n_rows else None for part in self.get_block_slices()]
        return np.concatenate(self.map_blocks(lambda block, count: block.head(count), shares), axis=self.axis)

    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """The first by row within the first block that has one."""
        if self.is_checked_on_read and not is_suspected:
            return None
        return self._find_first_non_finite(self.map_blocks(InMemoryMatrix.locate_non_finite, self.repeat_arguments()))

    def _find_first_non_finite(self, places: Sequence[tuple[int, int] | None]) -> NonFiniteEntry | None:
        """The first entry that is not finite, from where each block has its first one."""
        for part, place in zip(self.get_block_slices(), places, strict=True):
            if place is not None:
                down, right = (part.start, 0) if self.axis == 0 else (0, part.start)
                return NonFiniteEntry(place[0] + down, place[1] + right)
        return None

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Blocks of rows are looked through for holes in the same read."""
        if self.axis == 1:
            return super().project_samples(loadings, mean)
        found = self.map_blocks(_project_and_check, self.repeat_arguments(loadings, mean))
        bad = self._find_first_non_finite([place for _, place in found])
        if bad is not None:
            raise bad.make_error(bad.column)
        return np.concatenate([scores for scores, _ in found])


def _stack_shifted_sums(block: InMemoryMatrix, shift: Array, weight: Array | None) -> Array:
    """Sums of x − shift and of its squares over the rows of one block, (2, n)."""
    return np.stack(block.shifted_sums(shift, weight))


def _project_and_check(block: InMemoryMatrix, loadings: Array, mean: Array) -> tuple[Array, tuple[int, int] | None]:
    """Scores of a block, and where it holds the first value that is not finite."""
    with np.errstate(all="ignore"):
        return block.project_samples(loadings, mean), block.locate_non_finite()
