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
from gpower.io.stores.source import Block
from gpower.operators.storage.base import BadEntry, InMemory, SummedOnce
from gpower.operators.storage.dense import Dense
from gpower.operators.storage.sparse import in_memory

#: Of the memory granted, columns gathered may take one part in so many, a Gram matrix one part in so many.
GATHERED_AT_ONCE, GRAMS_AT_ONCE = 4, 8
#: Rows whose medians shift the matrix before its moments are summed.
FIRST_ROWS = 32

R = TypeVar("R")
#: A function of a block and of what is its share of the arguments.
Work = Callable[..., R]
#: What is a block's share of the arguments of a function; None leaves the block alone.
Share = tuple[object, ...] | None


class BlockMatrix(SummedOnce):
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
    edges: Array
    memory_limit: float
    is_remote = True
    whereabouts = "in blocks, on disk or on a cluster"

    @abstractmethod
    def pieces(self, work: Work[R], shares: Sequence[Share]) -> list[R]:
        """``work(block, *share)`` for every block, in their order; a block without a share is left alone."""

    @abstractmethod
    def total(self, work: Work[Array], shares: Sequence[Share]) -> Array:
        """The sum of ``work(block, *share)`` over the blocks in float64, always in the same order."""

    @property
    def checked_later(self) -> bool:
        """Blocks of rows are."""
        return self.axis == 0

    @property
    def nbytes(self) -> int:
        """Room that all entries would take."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.edges) - 1

    @property
    def widest_take(self) -> int:
        """As many as fit into the memory granted to them."""
        return int(self.memory_limit / (GATHERED_AT_ONCE * self.dtype.itemsize * self.shape[0]))

    @property
    def fits(self) -> bool:
        """Whether all of it may be gathered."""
        return self.shape[1] <= self.widest_take

    @property
    def excess(self) -> str:
        """How much too large it is to be gathered, and what to do about it."""
        return (
            f"and takes {self.nbytes / 1e9:.2g} GB, more than a quarter of the {self.memory_limit / 1e9:.2g} GB that "
            "memory_limit grants: raise that, or give a random part of the samples or the variables of largest variance"
        )

    @property
    def covariances(self) -> int:
        """How many covariances of all columns, added up over blocks of rows, fit into the memory granted."""
        return int(self.memory_limit / (8 * self.shape[1] ** 2)) if self.axis == 0 else 0

    @property
    def widest_gram(self) -> int:
        """As many as fit into the memory granted to their Gram matrix."""
        return int(np.sqrt(self.memory_limit / (GRAMS_AT_ONCE * self.dtype.itemsize)))

    @property
    def is_tall(self) -> bool:
        """Twice as many samples as variables, and a covariance that takes little of the memory granted."""
        p, n = self.shape
        return self.axis == 0 and 2 * n <= p and 8 * n * n <= self.memory_limit / GRAMS_AT_ONCE

    def share(self, idx: Array) -> float:
        """Share of the matrix that is read for some columns: blocks of rows are read whole."""
        return float(len(idx) > 0) if self.axis == 0 else super().share(idx)

    def picks(self, count: int) -> bool:
        """Whether so many columns are worth being picked: not from blocks of rows."""
        return self.axis == 1 and super().picks(count)

    def slices(self) -> list[slice]:
        """The rows or columns of every block."""
        return [slice(int(lo), int(hi)) for lo, hi in zip(self.edges[:-1], self.edges[1:], strict=True)]

    def shares(self, *arguments: object) -> list[Share]:
        """The same arguments for every block."""
        return [arguments] * self.n_blocks

    def times(self, T: Array) -> Array:
        """X T."""
        return self._product(lambda block, T: block.times(T), T, 1)

    def transposed_times(self, Y: Array) -> Array:
        """XᵀY."""
        return self._product(lambda block, Y: block.transposed_times(Y), Y, 0)

    def _product(self, work: Work[Array], Y: Array, summed: int) -> Array:
        """A product that sums over rows (0) or columns (1): each block's share of the sum, or of the answer."""
        if self.axis == summed:
            return self.total(work, [(Y[part],) for part in self.slices()]).astype(self.dtype)
        return np.concatenate(self.pieces(work, self.shares(Y)))

    def part(self, idx: Array) -> InMemory:
        """Some columns in memory, dense or CSC."""
        idx = np.asarray(idx)
        if idx.size == 0:
            none = np.zeros((self.shape[0], 0), self.dtype)
            return in_memory(sp.csc_array(none) if self.is_sparse else none)
        if self.axis == 0:
            return self._joined(self.shares(idx))
        owner = np.searchsorted(self.edges, idx, side="right") - 1
        order = np.argsort(owner, kind="stable")
        held = np.split(idx[order], np.searchsorted(owner[order], np.arange(1, self.n_blocks)))
        shares = [(own - lo,) if own.size else None for own, lo in zip(held, self.edges[:-1], strict=True)]
        return self._joined(shares).part(np.argsort(order))

    def samples(self, idx: Array) -> Array:
        """Return some rows as an array; `idx` grows."""
        return in_memory(self.stored_rows(idx)).dense()

    def row_share(self, idx: Array) -> float:
        """Blocks are read whole."""
        if self.axis == 1:
            return 1.0
        touched = np.unique(np.searchsorted(self.edges, idx, side="right") - 1)
        return float(np.sum(np.diff(self.edges)[touched]) / self.shape[0])

    def stored_rows(self, rows: Array) -> Block:
        """Some rows in memory, whose numbers grow."""
        shares: list[Share] = self.shares(rows)
        if self.axis == 0:
            held = np.split(rows, np.searchsorted(rows, self.edges[1:-1]))
            shares = [(own - lo,) if own.size else None for own, lo in zip(held, self.edges[:-1], strict=True)]
        parts = self.pieces(lambda block, rows: block.A[rows], shares)
        if self.is_sparse:
            return (sp.hstack if self.axis else sp.vstack)(parts, format="csr")
        return np.concatenate(parts, axis=self.axis)

    def _joined(self, shares: Sequence[Share]) -> InMemory:
        """Some columns of every block, one beside or below the other."""
        parts = self.pieces(lambda block, idx: block.part(idx).A, shares)
        if self.is_sparse:
            return in_memory((sp.hstack if self.axis else sp.vstack)(parts, format="csc"))
        return Dense(np.concatenate(parts, axis=self.axis))

    def dense(self) -> Array:
        """All of it in memory."""
        return self.part(np.arange(self.shape[1])).dense()

    def held(self, A: Array) -> Dense:
        """An array in memory."""
        return Dense(A)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """A sum over blocks of rows: as few numbers travel as the answer has."""
        if self.axis == 1:
            return self.part(np.arange(self.shape[1]) if idx is None else idx).gram(mean, weight)
        shares = [(mean, w, idx) for w in self._weights(weight)]
        return self.total(lambda block, mean, w, idx: block.gram(mean, w, idx), shares)

    def sums_by_part(self, mean: Array | None, part: Array, count: int) -> Array:
        """Covariances of parts of the samples, about a mean; of blocks of rows in one read."""
        if self.axis == 1:
            return super().sums_by_part(mean, part, count)
        return self.total(InMemory.sums_by_part, [(mean, part[rows], count) for rows in self.slices()])

    def _weights(self, weight: Array | None) -> list[Array | None]:
        """The weights of the samples of every block of rows."""
        return [None if weight is None else weight[part] for part in self.slices()]

    def moments(self, weight: Array | None, total: float) -> tuple[Array, Array, float]:
        """Means, norms about them and the unit of both; of whole columns each block by itself."""
        if self.axis == 0:
            return super().moments(weight, total)
        parts = self.pieces(lambda block, weight, total: block.moments(weight, total)[:2], self.shares(weight, total))
        mean, deviation = np.concatenate(parts, axis=1)
        return mean, deviation, 1.0

    def sums_about(self, shift: Array, weight: Array | None) -> tuple[Array, Array]:
        """Sums and sums of squares about a shift, block by block."""
        if self.axis == 0:
            sums, squares = self.total(_sums_about, [(shift, w) for w in self._weights(weight)])
        else:
            parts = self.pieces(_sums_about, [(shift[part], weight) for part in self.slices()])
            sums, squares = np.concatenate(parts, axis=1)
        return sums, squares

    def typical(self, weight: Array | None) -> Array:
        """The median of the first samples of some weight."""
        first = self.head(FIRST_ROWS)
        if weight is not None:
            first = first[weight[: len(first)] > 0]
        return np.asarray(np.median(first, axis=0) if len(first) else np.zeros(self.shape[1])).astype(self.dtype)

    def again(self, lost: Array) -> tuple[Array | slice, SummedOnce, float]:
        """Where sums lost digits: all columns are read again, here and there."""
        return slice(None), self, 1.0

    def head(self, count: int) -> Array:
        """The first rows, dense."""
        shares = self.shares(count)
        if self.axis == 0:
            shares = [(count - part.start,) if part.start < count else None for part in self.slices()]
        return np.concatenate(self.pieces(lambda block, count: block.head(count), shares), axis=self.axis)

    def bad_entry(self, suspected: bool, allow_nan: bool) -> BadEntry | None:
        """The first by row within the first block that has one."""
        if self.checked_later and not suspected:
            return None
        return self._first_bad(self.pieces(InMemory.first_bad, self.shares()))

    def _first_bad(self, places: Sequence[tuple[int, int] | None]) -> BadEntry | None:
        """The first entry that is not finite, from where each block has its first one."""
        for part, place in zip(self.slices(), places, strict=True):
            if place is not None:
                down, right = (part.start, 0) if self.axis == 0 else (0, part.start)
                return BadEntry(place[0] + down, place[1] + right)
        return None

    def project(self, loadings: Array, mean: Array) -> Array:
        """Blocks of rows are looked through for holes in the same read."""
        if self.axis == 1:
            return super().project(loadings, mean)
        found = self.pieces(_projected_and_checked, self.shares(loadings, mean))
        bad = self._first_bad([place for _, place in found])
        if bad is not None:
            raise bad.error(bad.column)
        return np.concatenate([scores for scores, _ in found])


def _sums_about(block: InMemory, shift: Array, weight: Array | None) -> Array:
    """Sums of x − shift and of its squares over the rows of one block, (2, n)."""
    return np.stack(block.sums_about(shift, weight))


def _projected_and_checked(block: InMemory, loadings: Array, mean: Array) -> tuple[Array, tuple[int, int] | None]:
    """Scores of a block, and where it holds the first value that is not finite."""
    with np.errstate(all="ignore"):
        return block.project(loadings, mean), block.first_bad()
