"""A matrix in blocks of rows or of columns, wherever they are: on disk, or on the workers of a cluster.

Every product is the same small function of each block, and a sum or a concatenation of what comes back. Where the
blocks live decides only how the functions are run: `StreamedMatrix` reads one block after the other, `DaskMatrix` sends
the function to the block. To an operator a block matrix looks like an array: ``X @ T``, ``X.T @ Y``, ``X[:, idx]``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, product

#: A function of a block and of what is its share of the arguments.
Work = Callable[..., Any]
Share = tuple[Any, ...] | None


class BlockMatrix(ABC):
    """Rows or columns in blocks; dense blocks, or CSR ones.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        float32 or float64.
    axis : {0, 1}
        Whether blocks are of rows or of columns.
    edges : ndarray of int
        Where blocks begin, and the end of the last one.
    sparse : bool
    names : tuple of str or None
        Names of the columns, where they are known.
    memory_limit : float
        Bytes that gathered columns, Gram matrices and blocks in use may take.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    axis: int
    edges: Array
    sparse: bool
    memory_limit: float
    names: tuple[str, ...] | None = None

    @abstractmethod
    def pieces(self, work: Work, shares: Sequence[Share]) -> list[Any]:
        """``work(block, *share)`` for every block, in their order; a block without a share is left alone."""

    @abstractmethod
    def total(self, work: Work, shares: Sequence[Share]) -> Any:
        """The sum of ``work(block, *share)`` over the blocks in float64, always in the same order."""

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.edges) - 1

    def slices(self) -> list[slice]:
        """The rows or columns of every block."""
        return [slice(int(lo), int(hi)) for lo, hi in zip(self.edges[:-1], self.edges[1:], strict=True)]

    def shares(self, *arguments: Any) -> list[Share]:
        """The same arguments for every block."""
        return [arguments] * self.n_blocks

    @property
    def T(self) -> Transposed:
        """For products with the transpose."""
        return Transposed(self)

    def __matmul__(self, T: Array) -> Array:
        if self.axis == 0:
            return np.concatenate(self.pieces(times, self.shares(T)))
        return np.asarray(self.total(times, [(T[part],) for part in self.slices()]), self.dtype)

    def __getitem__(self, key: tuple[slice, Array]) -> Any:
        """Columns ``X[:, idx]``, dense by column or CSC."""
        rows, idx = key
        if rows != slice(None):
            raise NotImplementedError("A block matrix gives columns, X[:, idx], and no other part.")
        idx = np.asarray(idx)
        if idx.size == 0:
            empty = np.zeros((self.shape[0], 0), self.dtype)
            return sp.csc_array(empty) if self.sparse else empty
        if self.axis == 0:
            parts = self.pieces(some_columns, self.shares(idx))
            return sp.vstack(parts, format="csc") if self.sparse else np.concatenate(parts, axis=0)
        owner = np.searchsorted(self.edges, idx, side="right") - 1
        order = np.argsort(owner, kind="stable")
        held = np.split(idx[order], np.searchsorted(owner[order], np.arange(1, self.n_blocks)))
        shares = [(own - lo,) if own.size else None for own, lo in zip(held, self.edges[:-1], strict=True)]
        parts = self.pieces(some_columns, shares)
        found = sp.hstack(parts, format="csc") if self.sparse else np.concatenate(parts, axis=1)
        return found[:, np.argsort(order)]

    def share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some columns: blocks of rows are read whole."""
        return float(len(idx) > 0) if self.axis == 0 else len(idx) / self.shape[1]

    @abstractmethod
    def shifted(self, shift: Array) -> BlockMatrix:
        """The matrix less a constant per column, subtracted from each block when it is used."""

    def first_bad(self) -> tuple[int, int] | None:
        """Row and column of the first entry that is not finite, None if there is none."""
        for part, place in zip(self.slices(), self.pieces(bad_place, self.shares()), strict=True):
            if place is not None:
                return (place[0] + part.start, place[1]) if self.axis == 0 else (place[0], place[1] + part.start)
        return None

    def head(self, count: int) -> Array:
        """The first rows, dense."""
        if self.axis == 1:
            return np.concatenate(self.pieces(first_rows, self.shares(count)), axis=1)
        shares = [(count - part.start,) if part.start < count else None for part in self.slices()]
        return np.concatenate(self.pieces(first_rows, shares))


@dataclass(frozen=True)
class Transposed:
    """Xᵀ of a block matrix X, for products."""

    matrix: BlockMatrix

    def __matmul__(self, Y: Array) -> Array:
        X = self.matrix
        if X.axis == 1:
            return np.concatenate(X.pieces(transposed_times, X.shares(Y)))
        return np.asarray(X.total(transposed_times, [(Y[part],) for part in X.slices()]), X.dtype)


def as_block(block: Any, dtype: np.dtype) -> Any:
    """A block of numbers of the type that is worked with; an entry stored in parts counts as their sum."""
    if not sp.issparse(block):
        return np.asarray(block).astype(dtype, copy=False)
    own = block.format in ("csr", "csc")
    block = (block if own else block.tocsr()).astype(dtype, copy=False)
    if not block.has_canonical_format:
        block = block.copy()
        block.sum_duplicates()
    return block


def less(X: Any, shift: Array) -> Any:
    """X less a constant per column, a copy; of a sparse matrix only where entries are stored.

    A column of a sparse matrix whose offset is worth subtracting has every entry stored, or it would vary by as much
    as its mean.
    """
    shift = shift.astype(X.dtype)
    if not sp.issparse(X):
        return X - shift
    shifted = X.copy()
    cols = X.indices if X.format == "csr" else np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
    shifted.data -= shift[cols]
    return shifted


def times(block: Any, T: Array) -> Array:
    """block @ T."""
    return product(block, T)


def transposed_times(block: Any, Y: Array) -> Array:
    """blockᵀ @ Y."""
    return product(block.T, Y)


def some_columns(block: Any, idx: Array) -> Any:
    """Some columns of a block."""
    return block[:, idx]


def first_rows(block: Any, count: int) -> Array:
    """The first rows of a block, dense."""
    rows = block[:count]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def not_finite(row: int, column: Any) -> ValueError:
    """What to say of an entry that is not finite."""
    return ValueError(
        f"Input X contains NaN or infinity (inf), first in row {row} (counted from 0), column {column}. "
        "Drop or replace those entries."
    )


def bad_place(block: Any) -> tuple[int, int] | None:
    """Row and column, within a block, of its first entry that is not finite."""
    values = block.data if sp.issparse(block) else block
    bad = ~np.isfinite(values)
    if not bad.any():
        return None
    if sp.issparse(block):
        entries = block.tocoo()
        rows, columns = entries.row[bad], entries.col[bad]
    else:
        rows, columns = np.nonzero(bad)
    first = np.lexsort((columns, rows))[0]
    return int(rows[first]), int(columns[first])
