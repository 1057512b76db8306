"""Container of a matrix in blocks of rows or of columns, on disk or on the workers of a cluster.

Every product applies one small function to each block and sums or concatenates the results. Subclasses only decide
where the functions run: `StreamedMatrix` reads one block after the other, `DaskMatrix` sends the function to the worker
that holds the block, so that the function must not depend on this process. A block is itself a container
(`InMemoryMatrix`), in the memory of the process that works on it, on the host or a device.

X, the matrix, has shape (n_samples, n_features). All arrays that methods take and return are NumPy arrays on the host:
T has shape (n_features, m) and Y (n_samples, m), in the dtype of X; `idx` are indices of columns; `mean` and `shift`
have shape (n_features,); `weight` contains non-negative sample weights, (n_samples,), and is None for ones.

Terms: a block, an `InMemoryMatrix`, has the methods of a container for its rows or columns; besides,
``select_rows(idx)`` and ``take(idx)`` are containers of some rows or columns; ``copy_to_host()`` is its matrix as an
array or a SciPy matrix on the host; ``head(q)`` are its first rows, dense; ``locate_non_finite()`` is row and column of
its first entry, row by row, that is not finite, or None; ``to_backend(v)`` moves an array to where it is. `ShiftedSums`
are Σw(x − shift) and Σw(x − shift)², `ColumnMoments` means, norms of the deviations from them, and passes.
``wrap_in_memory(matrix)`` is the container of an array or a SciPy matrix. A `NonFiniteEntry` has `row`, `column` and
``make_error(name, storage_name)``, a ValueError.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, to_host
from gpower._utils.messages import format_param
from gpower.io.stores.matrix_source import DataBlock
from gpower.operators.storage.base import (
    ColumnMoments,
    InMemoryMatrix,
    NonFiniteEntry,
    OnePassMoments,
    ShiftedSums,
)
from gpower.operators.storage.dense import DenseMatrix
from gpower.operators.storage.sparse import wrap_in_memory

#: Gathered columns may take the memory limit divided by this number: they are copied, and blocks need memory too.
GATHER_MEMORY_DIVISOR = 4
#: A Gram matrix may take the memory limit divided by this number, because an eigendecomposition copies it.
GRAM_MEMORY_DIVISOR = 8
#: Number of rows whose column medians are the shift about which moments are summed: it need only be near the mean.
MEDIAN_SAMPLE_ROWS = 32

R = TypeVar("R")
A = TypeVar("A", Array, Array | None)
#: A function of a block and of further arguments.
BlockFunction = Callable[..., R]
#: The further arguments for one block; None skips the block.
BlockArguments = tuple[object, ...] | None


class BlockMatrix(OnePassMoments):
    """Container of a matrix in dense or CSR blocks of rows or of columns.

    Attributes
    ----------
    axis : {0, 1}
        0 for blocks of rows, 1 for blocks of columns.
    block_edges : ndarray of int
        First row or column of each block, and the end of the last one.
    memory_limit : float
        Bytes that gathered columns, Gram matrices and blocks in use may take.
    is_checked_on_read : bool
        Whether entries are checked for being finite when they are read for another purpose, not in a separate pass.
    """

    axis: int
    block_edges: Array
    memory_limit: float
    is_checked_on_read: bool
    is_remote = True
    storage_description = "in blocks, on disk or on a cluster"

    @abstractmethod
    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """Return ``function(block, *arguments[i])`` for every block i in order, skipping those with None as arguments.

        There is one entry of `arguments` for each block, and one result for each block that is not skipped.
        """

    @abstractmethod
    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """Add ``function(block, *arguments[i])`` over the blocks in float64, skipping those with None as arguments.

        All results have the same shape, and at least one block is not skipped.
        """

    @property
    def nbytes(self) -> int:
        """Return the number of bytes that all entries would take as a dense array."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def n_blocks(self) -> int:
        """Return the number of blocks."""
        return len(self.block_edges) - 1

    @property
    def max_cached_columns(self) -> int:
        """Return the number of columns that fit in their share of the memory limit."""
        return int(self.memory_limit / (GATHER_MEMORY_DIVISOR * self.dtype.itemsize * self.shape[0]))

    @property
    def fits_in_memory(self) -> bool:
        """Return whether all columns together fit in the share of the memory limit for gathered columns."""
        return self.shape[1] <= self.max_cached_columns

    @property
    def memory_excess_message(self) -> str:
        """Return the end of an error message that the matrix is too large to be gathered, with the remedy."""
        return (
            f"and takes {self.nbytes / 1e9:.2g} GB, more than a quarter of the {self.memory_limit / 1e9:.2g} GB of "
            f"{format_param('memory_limit')}: raise that limit, or pass a random subset of the samples or the "
            "variables of largest variance"
        )

    @property
    def max_covariances(self) -> int:
        """Return the number of covariances of all columns, summed over blocks of rows, that fit in the memory limit."""
        return int(self.memory_limit / (8 * self.shape[1] ** 2)) if self.axis == 0 else 0

    @property
    def max_gram_columns(self) -> int:
        """Return the number of columns whose Gram matrix fits in its share of the memory limit."""
        return int(np.sqrt(self.memory_limit / (GRAM_MEMORY_DIVISOR * self.dtype.itemsize)))

    @property
    def should_use_covariance(self) -> bool:
        """Return whether samples are twice as many as variables and the covariance takes little of the memory limit."""
        p, n = self.shape
        return self.axis == 0 and 2 * n <= p and 8 * n * n <= self.memory_limit / GRAM_MEMORY_DIVISOR

    def column_read_share(self, idx: Array) -> float:
        """Return the share of the matrix that is read for some columns; blocks of rows are read completely."""
        return float(len(idx) > 0) if self.axis == 0 else super().column_read_share(idx)

    def get_block_slices(self) -> list[slice]:
        """Return the slice of rows or columns of every block."""
        return [slice(int(lo), int(hi)) for lo, hi in zip(self.block_edges[:-1], self.block_edges[1:], strict=True)]

    def split(self, values: A, axis: int) -> list[A]:
        """Return the part of an array that belongs to each block; the array itself if blocks are along the other axis.

        The first axis of `values`, on the host, corresponds to the rows (`axis` 0) or columns (1) of the matrix. None
        stays None.
        """
        if values is None or axis != self.axis:
            return [values] * self.n_blocks
        return [values[part] for part in self.get_block_slices()]

    def repeat_arguments(self, *arguments: object) -> list[BlockArguments]:
        """Return a list that passes the arguments to every block."""
        return [arguments] * self.n_blocks

    def times(self, T: Array) -> Array:
        """Compute X T, (n_samples, m)."""
        return self._multiply_blocks("times", T, 1)

    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY, (n_features, m)."""
        return self._multiply_blocks("transposed_times", Y, 0)

    def _multiply_blocks(self, method: str, Y: Array, summed_axis: int) -> Array:
        """Compute a product that sums over rows (axis 0) or columns (axis 1), as a sum or concatenation over blocks.

        `method` names the method of a block that multiplies it by Y or by its part of Y. Y, on the host in the dtype of
        X, has as many rows as X has rows or columns along the summed axis; so is the product.
        """
        arguments = [(method, part) for part in self.split(Y, summed_axis)]
        if self.axis == summed_axis:
            return self.sum_blocks(compute_on_block, arguments).astype(self.dtype)
        return np.concatenate(self.map_blocks(compute_on_block, arguments))

    def take(self, idx: Array) -> InMemoryMatrix:
        """Return the columns `idx`, in that order and possibly none, as a container in host memory, dense or CSC."""
        idx = np.asarray(idx)
        if idx.size == 0:
            empty = np.zeros((self.shape[0], 0), self.dtype)
            return wrap_in_memory(sp.csc_array(empty) if self.is_sparse else empty)
        if self.axis == 0:
            return self._concatenate_columns(self.repeat_arguments(idx))
        owner = np.searchsorted(self.block_edges, idx, side="right") - 1
        order = np.argsort(owner, kind="stable")
        idx_by_block = np.split(idx[order], np.searchsorted(owner[order], np.arange(1, self.n_blocks)))
        return self._concatenate_columns(self._make_local_indices(idx_by_block)).take(np.argsort(order))

    def _make_local_indices(self, idx_by_block: list[Array]) -> list[BlockArguments]:
        """Return the indices of each block counted from its beginning, as arguments; None for a block without any.

        `idx_by_block` has one array of row or column numbers of the whole matrix for each block.
        """
        return [(idx - lo,) if idx.size else None for idx, lo in zip(idx_by_block, self.block_edges[:-1], strict=True)]

    def get_rows(self, idx: Array) -> Array:
        """Return the rows `idx`, increasing indices, as a dense array of shape (|idx|, n_features)."""
        return wrap_in_memory(self.take_rows(idx)).to_dense()

    def row_read_share(self, idx: Array) -> float:
        """Return the share of the matrix that is read for some rows; blocks are read completely."""
        if self.axis == 1:
            return 1.0
        blocks_read = np.unique(np.searchsorted(self.block_edges, idx, side="right") - 1)
        return float(np.sum(np.diff(self.block_edges)[blocks_read]) / self.shape[0])

    def take_rows(self, rows: Array) -> DataBlock:
        """Return some rows in memory, an array or a CSR matrix, not a container; `rows` is increasing and not empty."""
        arguments = self.repeat_arguments(rows)
        if self.axis == 0:
            arguments = self._make_local_indices(np.split(rows, np.searchsorted(rows, self.block_edges[1:-1])))
        return self._join(self.map_blocks(lambda block, rows: block.select_rows(rows).copy_to_host(), arguments), "csr")

    def _concatenate_columns(self, arguments: Sequence[BlockArguments]) -> InMemoryMatrix:
        """Return the concatenation of some columns of every block, given their indices within each block.

        `arguments` has a tuple with one array of int for each block, or None; one block is not skipped. Blocks of rows
        are put one below the other, blocks of columns side by side. Sparse columns are CSC.
        """
        parts = self.map_blocks(lambda block, idx: block.take(idx).copy_to_host(), arguments)
        return wrap_in_memory(self._join(parts, "csc"))

    def _join(self, parts: list[DataBlock], sparse_format: str) -> DataBlock:
        """Concatenate parts of blocks in host memory, at least one, along `axis`, to an array or a sparse matrix.

        The parts are arrays, or SciPy matrices if the matrix is sparse; `sparse_format` is "csr" or "csc".
        """
        if self.is_sparse:
            return (sp.hstack if self.axis else sp.vstack)(parts, format=sparse_format)
        return np.concatenate(parts, axis=self.axis)

    def to_dense(self) -> Array:
        """Return the whole matrix, (n_samples, n_features), as a dense array in memory, each column contiguous."""
        return self.take(np.arange(self.shape[1])).to_dense()

    def wrap_array(self, A: Array) -> DenseMatrix:
        """Return the container of gathered columns, a NumPy array of shape (n_samples, m)."""
        return DenseMatrix(A)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute the Gram matrix as a sum over blocks of rows, or from gathered columns, which must fit in memory.

        It is (X − mean)ᵀ diag(w) (X − mean), (n, n), in float64 for blocks of rows; with `idx` that of these n columns,
        and `mean` is (n,), of them alone, or None for zero.
        """
        if self.axis == 1:
            return self.take(np.arange(self.shape[1]) if idx is None else idx).gram(mean, weight)
        return self.sum_blocks(compute_on_block, [("gram", mean, w, idx) for w in self.split(weight, 0)])

    def shifted_sums_by_part(self, mean: Array | None, part: Array, n_parts: int) -> Array:
        """Compute the sum and the Gram matrix of x − mean over each part of the samples, (n_parts, 1 + n, n).

        Sample i belongs to part `part[i]`, (n_samples,) of int; `mean`, (n,), is None for zero. The sum is the first
        row of the matrix of a part. Blocks of rows are read in one pass.
        """
        if self.axis == 1:
            return super().shifted_sums_by_part(mean, part, n_parts)
        return self.sum_blocks(
            InMemoryMatrix.shifted_sums_by_part, [(mean, block_part, n_parts) for block_part in self.split(part, 0)]
        )

    def compute_moments(self, weight: Array | None, total_weight: float) -> ColumnMoments:
        """Compute column means, norms of the deviations from them, and passes; of columns in blocks, block by block.

        `total_weight` is the sum of the weights, or the number of samples; means and norms have shape (n_features,).
        """
        if self.axis == 0:
            return super().compute_moments(weight, total_weight)
        parts = self.map_blocks(
            lambda block, weight, total: [to_host(each) for each in block.compute_moments(weight, total)[:2]],
            self.repeat_arguments(weight, total_weight),
        )
        mean, deviation_norms = np.concatenate(parts, axis=1)
        return ColumnMoments(mean, deviation_norms, 1.0)

    def shifted_sums(self, shift: Array, weight: Array | None) -> ShiftedSums:
        """Compute the weighted sums of x − shift and of its squares, each (n_features,) in float64, block by block."""
        shifts, weights = self.split(shift, 1), self.split(weight, 0)
        arguments = [("shifted_sums", each, w) for each, w in zip(shifts, weights, strict=True)]
        if self.axis == 0:
            return ShiftedSums(*self.sum_blocks(compute_on_block, arguments))
        return ShiftedSums(*np.concatenate(self.map_blocks(compute_on_block, arguments), axis=1))

    def estimate_column_centers(self, weight: Array | None) -> Array:
        """Return the column medians of the first samples without those of zero weight; zeros if none is left."""
        first = self.head(MEDIAN_SAMPLE_ROWS)
        if weight is not None:
            first = first[weight[: len(first)] > 0]
        return np.asarray(np.median(first, axis=0) if len(first) else np.zeros(self.shape[1])).astype(self.dtype)

    def head(self, n_rows: int) -> Array:
        """Return the first rows, (min(n_rows, n_samples), n_features), dense."""
        counts = [n_rows - (part.start if self.axis == 0 else 0) for part in self.get_block_slices()]
        arguments = [("head", count) if count > 0 else None for count in counts]
        return np.concatenate(self.map_blocks(compute_on_block, arguments), axis=self.axis)

    def find_non_finite(self, is_suspected: bool, allow_nan: bool) -> NonFiniteEntry | None:
        """Return the first entry, row by row in the first block with one, that is not finite, or None.

        `allow_nan` is ignored: missing entries of a matrix in blocks are never imputed, so that NaN is always an error.
        """
        if self.is_checked_on_read and not is_suspected:
            return None
        return self._find_first_non_finite(self.map_blocks(InMemoryMatrix.locate_non_finite, self.repeat_arguments()))

    def _find_first_non_finite(self, positions: Sequence[tuple[int, int] | None]) -> NonFiniteEntry | None:
        """Return the first entry that is not finite, in the order of the blocks, or None.

        `positions` has one entry for each block: row and column within the block of its first such entry, or None. The
        value of the entry is not looked up.
        """
        for part, position in zip(self.get_block_slices(), positions, strict=True):
            if position is not None:
                row, column = position
                first_row, first_column = (part.start, 0) if self.axis == 0 else (0, part.start)
                return NonFiniteEntry(first_row + row, first_column + column)
        return None

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Compute the scores (X − mean) @ loadings, (n_samples, m), for loadings of shape (n_features, m).

        Blocks of rows are checked in the same pass: raise ValueError at the first entry that is not finite.
        """
        if self.axis == 1:
            return super().project_samples(loadings, mean)
        results = self.map_blocks(_project_and_check, self.repeat_arguments(loadings, mean))
        entry = self._find_first_non_finite([position for _, position in results])
        if entry is not None:
            name = entry.column if self.feature_names is None else repr(self.feature_names[entry.column])
            raise entry.make_error(name, self.storage_name)
        return np.concatenate([scores for scores, _ in results])


def compute_on_block(block: InMemoryMatrix, method: str, *arguments: object) -> Array:
    """Return ``block.method(*arguments)`` on the host, wherever the block is; several arrays of a result are stacked.

    `method` is the name of a method. Arrays among the arguments are on the host, and are moved to where the block is. A
    tuple of q arrays of one shape becomes an array with a first axis of length q.
    """
    moved = [block.to_backend(each) if isinstance(each, np.ndarray) else each for each in arguments]
    result = getattr(block, method)(*moved)
    return np.stack([to_host(each) for each in result]) if isinstance(result, tuple) else to_host(result)


def _project_and_check(block: InMemoryMatrix, loadings: Array, mean: Array) -> tuple[Array, tuple[int, int] | None]:
    """Return the scores of a block, and row and column of its first entry that is not finite, or None.

    `loadings`, (n_features, m), and `mean`, (n_features,), are on the host in the dtype of the block, which has rows
    with all columns. The scores, (n_rows, m), are on the host too.
    """
    with np.errstate(all="ignore"):
        return compute_on_block(block, "project_samples", loadings, mean), block.locate_non_finite()
