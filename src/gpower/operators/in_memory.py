"""Data with implicit centring, dense, scipy.sparse or in blocks, and covariances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, beside, column_dots, embedded, is_device, largest, product, rows_of, to_host
from gpower.operators.base import Operator, Restriction
from gpower.operators.blocks import BlockMatrix
from gpower.operators.gathered import Gathered, cross_gram
from gpower.operators.moments import block_gram

#: An ascent on |W| gathered columns uses their Gram matrix when |W| is below this share of the samples.
GRAM_SHARE = 0.5
#: Rows of a sparse matrix that are dense at once.
DENSE_ROWS = 256
#: Products with few non-zero rows of T touch only those columns; above this share the whole matrix is read.
GATHER_SHARE = 0.1
#: Of the memory granted to a matrix in blocks, columns gathered from it may take one part in so many, a Gram matrix
#: one part in so many.
BLOCKS_AT_ONCE, GRAMS_AT_ONCE = 4, 8


def nonzero_rows(T: Array) -> Array:
    """Indices of the rows of T that are not all zero, on the host; all of them where those on a device are many."""
    used: Any = T[:, 0] if T.shape[1] == 1 else T.any(axis=1)
    if is_device(T) and int(np.count_nonzero(used)) > GATHER_SHARE * T.shape[0]:
        return np.arange(T.shape[0])
    return to_host(used.nonzero()[0])


def restrict_samples(operator: Operator, idx: Array) -> Restriction:
    """Columns of an operator with samples, gathered once: their Gram matrix when that is smaller, else themselves."""
    gathered, small = operator.gathered, len(idx) < GRAM_SHARE * operator.shape[0]
    double_sums = operator.double_sums
    gathered.gather(idx, operator.columns, small, double_sums)
    A, G = gathered.A, gathered.G
    if G is not None:
        return Restriction(Covariance(G), lambda U: product(A, beside(A, U), double_sums))
    return Restriction(DataMatrix(A, double_sums=double_sums), lambda X: X)


def restrict_by_gram(operator: Operator, idx: Array) -> Restriction:
    """Columns of an operator by their Gram matrix, none of them ever in memory: sparse ones, or too many."""
    n, like = operator.shape[1], operator.column_norms
    return Restriction(Covariance(operator.gram(idx)), lambda U: operator.combine(embedded(U, idx, n, like)))


def gram_samples(operator: Operator, idx: Array) -> Array:
    """A[:, idx]ᵀA[:, idx], read off the gathered columns where they are among them; remote ones stay gathered."""
    at = operator.gathered.find(idx)
    if at is None and operator.is_remote:
        operator.gathered.gather(np.sort(idx), operator.columns, True, operator.double_sums)
        at = operator.gathered.find(idx)
    if at is None:
        A = operator.columns(idx)
    elif operator.gathered.G is not None:
        return operator.gathered.G[np.ix_(at, at)]
    else:
        A = operator.gathered.A
        A = A[:, beside(A, at)]
    return to_host(cross_gram(A, A, operator.double_sums))


def combine_few(operator: Operator, T: Array, rows: Array) -> Array:
    """A T for a T whose non-zero rows are few, reading only those columns, or none that are gathered already."""
    at = operator.gathered.find(rows)
    if at is None:
        return product(operator.columns(rows), rows_of(T, rows), operator.double_sums)
    U = embedded(rows_of(T, rows), at, operator.gathered.idx.size)
    return product(operator.gathered.A, U, operator.double_sums)


@dataclass(frozen=True, eq=False)
class DataMatrix(Operator):
    """A = (I − qqᵀ) diag(r) X diag(s): samples X weighted, centred and scaled without touching X.

    Attributes
    ----------
    X : ndarray, scipy.sparse array or BlockMatrix of shape (n_samples, n_features)
        As the user gave it; never copied, never written.
    norms : ndarray of shape (n_features,) or None
        Norms of the columns of A, where they are known already.
    q : ndarray of shape (n_samples,) or None
        Unit vector that centring removes: r/‖r‖, or None for no centring.
    row_scale, column_scale : ndarray or None
        r (square roots of the sample weights) and s; None stands for ones.
    mean : ndarray of shape (n_features,) or None
        Means of the columns of X that centring removes; only blocks need them.
    centring_loss : float
        Relative rounding error of products that are centred afterwards.
    double_sums : bool
        Sum products with data in single precision in double.
    """

    X: Any
    norms: Array | None = None
    q: Array | None = None
    row_scale: Array | None = None
    column_scale: Array | None = None
    mean: Array | None = None
    centring_loss: float = 0.0
    double_sums: bool = False

    @property
    def precision(self) -> float:
        """Rounding of the number type, or of centring where that is larger."""
        return max(float(np.finfo(self.dtype).eps), self.centring_loss)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    @property
    def dtype(self) -> np.dtype:
        """Type of the data."""
        return np.dtype(self.X.dtype)

    @property
    def column_norms(self) -> Array:
        """Norms of the columns of A."""
        if self.norms is None:
            A = self.columns(np.arange(self.shape[1]))
            object.__setattr__(self, "norms", np.sqrt(np.sum(A * A, axis=0)))
        return self.norms  # type: ignore[return-value]

    @property
    def is_sparse(self) -> bool:
        """Whether X, or every block of it, is a scipy.sparse matrix."""
        return bool(self.X.sparse) if isinstance(self.X, BlockMatrix) else sp.issparse(self.X)

    @property
    def widest_gram(self) -> int:
        """All of them for a dense matrix, which is gathered by its own rule; few for a sparse one or one in blocks."""
        if isinstance(self.X, BlockMatrix):
            return int(np.sqrt(self.X.memory_limit / (GRAMS_AT_ONCE * self.dtype.itemsize)))
        return int(np.sqrt(self.X.nnz) / 2) if self.is_sparse else self.shape[1]

    @property
    def is_remote(self) -> bool:
        """Whether X is in blocks somewhere else, or on a device, where every small step costs a wait."""
        return isinstance(self.X, BlockMatrix) or is_device(self.X)

    @property
    def widest_take(self) -> int:
        """Number of columns that fit into the memory granted to a matrix in blocks; all of one in memory."""
        if isinstance(self.X, BlockMatrix):
            return int(self.X.memory_limit / (BLOCKS_AT_ONCE * self.dtype.itemsize * self.shape[0]))
        return self.shape[1]

    def _share(self, idx: Array) -> float:
        """Of a read of the matrix, what it takes to gather some columns."""
        return self.X.share(idx) if isinstance(self.X, BlockMatrix) else len(idx) / self.shape[1]

    @property
    def sample_radius(self) -> Array | None:
        """r."""
        return self.row_scale

    def correlate(self, X: Array) -> Array:
        """AᵀX in one pass: X is centred instead of the matrix."""
        self.counter.add(1)
        Y = X if self.q is None else self._centre(X.copy())
        if self.row_scale is not None:
            Y = self.row_scale[:, None] * Y
        C = product(self.X.T, Y, self.double_sums)
        return C if self.column_scale is None else self.column_scale[:, None] * C

    def combine(self, T: Array) -> Array:
        """A T, reading only the columns that T uses when they are few."""
        rows = nonzero_rows(T)
        few = rows.size <= GATHER_SHARE * T.shape[0]
        whole_blocks = isinstance(self.X, BlockMatrix) and self.X.axis == 0
        if (few and not self.is_sparse and not whole_blocks) or self.gathered.find(rows) is not None:
            return combine_few(self, T, rows)
        if few and not whole_blocks:  # some columns of a sparse matrix stay sparse
            self.counter.add(self._share(rows))
            scale = 1 if self.column_scale is None else self.column_scale[rows, None]
            return self._finish(product(self.X[:, rows], scale * T[rows], self.double_sums))
        self.counter.add(1)
        if self.column_scale is not None:
            T = self.column_scale[:, None] * T
        return self._finish(product(self.X, T, self.double_sums))

    def columns(self, idx: Array) -> Array:
        """A[:, idx], dense, each column contiguous."""
        self.counter.add(self._share(idx))
        if is_device(self.X):
            A = self.X[:, beside(self.X, idx)]
        else:
            gathered = self.X[:, idx]
            A = gathered.toarray(order="F") if sp.issparse(gathered) else np.asfortranarray(gathered)
        if self.column_scale is not None:
            A *= rows_of(self.column_scale, idx)
        return self._finish(A)

    def _finish(self, Y: Array) -> Array:
        """Weight and centre a product in place; Y is ours."""
        if self.row_scale is not None:
            Y *= self.row_scale[:, None]
        return self._centre(Y)

    def _centre(self, Y: Array) -> Array:
        """(I − qqᵀ)Y in place; without weights q is constant, and no outer product of the size of Y is formed."""
        if self.q is not None:
            along = product(Y.T, self.q[:, None], self.double_sums)[:, 0]
            Y -= self.q[0] * along if self.row_scale is None else np.outer(self.q, along)
        return Y

    def in_double(self) -> DataMatrix:
        """The same in float64, not copied if it is."""
        if self.dtype == np.float64:
            return self
        wide = {
            name: None if value is None else value.astype(np.float64)
            for name, value in vars(self).items()
            if name in ("X", "norms", "q", "row_scale", "column_scale")
        }
        return replace(self, **wide, double_sums=False)

    def own(self, values: Array) -> Array:
        """A small array where X is."""
        return beside(self.X, values) if is_device(self.X) else to_host(values)

    def take(self, idx: Array) -> DataMatrix:
        """The operator of A[:, idx]: dense columns centred and scaled explicitly, sparse ones as they are."""
        if self.is_sparse:
            self.counter.add(self._share(idx))
            scale = None if self.column_scale is None else self.column_scale[idx]
            return replace(
                self,
                X=self.X[:, idx],
                norms=self.column_norms[idx],
                column_scale=scale,
                counter=self.taken_counter,
                gathered=Gathered(),
            )
        norms, counter = rows_of(self.column_norms, idx), self.taken_counter
        return DataMatrix(self.columns(idx), norms, double_sums=self.double_sums, counter=counter)

    def restrict(self, idx: Array) -> Restriction:
        """A[:, idx] gathered once, or its Gram matrix; columns of a sparse matrix stay sparse."""
        by_gram = self.is_sparse or len(idx) > self.widest_take
        if by_gram and len(idx) < GRAM_SHARE * self.shape[0]:
            return restrict_by_gram(self, idx)
        return restrict_samples(self, idx)

    def gram(self, idx: Array) -> Array:
        """A[:, idx]ᵀA[:, idx]."""
        stays_there = self.is_sparse or len(idx) > self.widest_take
        if isinstance(self.X, BlockMatrix) and self.X.axis == 0 and stays_there:
            return self._blocked_gram(self.X, idx)
        return self._sparse_gram(idx) if self.is_sparse else gram_samples(self, idx)

    def _blocked_gram(self, X: BlockMatrix, idx: Array) -> Array:
        """The same, a sum over blocks of rows: as few numbers travel as the answer has."""
        self.counter.add(1)
        mean = None if self.q is None or self.mean is None else self.mean[idx]
        weight = np.ones(self.shape[0], self.dtype) if self.row_scale is None else self.row_scale**2
        G = X.total(block_gram, [(mean, weight[part], idx) for part in X.slices()]).astype(self.dtype)
        return G if self.column_scale is None else G * np.outer(self.column_scale[idx], self.column_scale[idx])

    def _sparse_gram(self, idx: Array) -> Array:
        """Sparse columns' products less what centring removes; by dense blocks of rows where that would cancel."""
        self.counter.add(self._share(idx))
        B = self.X[:, idx].astype(np.float64) if self.double_sums else self.X[:, idx]
        if self.row_scale is not None:
            B = sp.diags_array(self.row_scale) @ B
        G = (B.T @ B).toarray()
        if self.q is not None:
            removed = self.q @ B  # (|idx|,)
            if np.any(np.diagonal(G) - removed**2 < 1e-3 * np.diagonal(G)):
                G = self._blockwise_gram(B.tocsr(), removed)
            else:
                G -= np.outer(removed, removed)
        G = G.astype(self.dtype)
        return G if self.column_scale is None else G * np.outer(self.column_scale[idx], self.column_scale[idx])

    def _blockwise_gram(self, B: Any, removed: Array) -> Array:
        """Gram matrix of centred sparse columns, a few rows of them dense at a time."""
        G = np.zeros((B.shape[1], B.shape[1]), B.dtype)
        for start in range(0, B.shape[0], DENSE_ROWS):
            rows = slice(start, start + DENSE_ROWS)
            D = B[rows].toarray() - np.outer(np.asarray(self.q)[rows], removed)
            G += D.T @ D
        return G


@dataclass(frozen=True, eq=False)
class Covariance(Operator):
    """A known through Σ = AᵀA alone; a sample-space vector x = A u is represented by u.

    Then A T is represented by T, AᵀX by ΣU, and XᵀX is UᵀΣU: no factorisation of Σ.
    """

    S: Array
    has_samples = False

    @property
    def noise(self) -> float:
        """Norms are roots of differences of squares, which are what is rounded."""
        return 8 * float(np.sqrt(np.finfo(self.dtype).eps)) * largest(self.column_norms)

    def in_double(self) -> Covariance:
        """The same in float64."""
        return Covariance(self.S.astype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_features, n_features): the sample space is spanned by the columns."""
        return (self.S.shape[0], self.S.shape[0])

    @property
    def dtype(self) -> np.dtype:
        """Type of Σ."""
        return self.S.dtype

    @property
    def column_norms(self) -> Array:
        """Square roots of the diagonal of Σ."""
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.S), 0)))

    def correlate(self, X: Array) -> Array:
        """ΣU, over the non-zero rows of U when they are few."""
        rows = nonzero_rows(X)
        if rows.size <= GATHER_SHARE * X.shape[0]:
            self.counter.add(rows.size / X.shape[0])
            return product(self.S[rows].T, X[rows])
        self.counter.add(1)
        return product(self.S, X)

    def combine(self, T: Array) -> Array:
        """T itself represents A T."""
        return T

    def columns(self, idx: Array) -> Array:
        """Unit vectors represent columns."""
        E = np.zeros((self.shape[1], len(idx)), self.dtype)
        E[idx, np.arange(len(idx))] = 1
        return E

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """UᵀΣV, where C = ΣV."""
        return np.asarray(X.T @ C)

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Diagonal of UᵀΣU."""
        return column_dots(X, C)

    def dual(self, X: Array) -> Array:
        """ΣU."""
        return self.correlate(X)

    def gram(self, idx: Array) -> Array:
        """Σ[idx, idx]; Σ itself, not a copy, when that is all of it."""
        if len(idx) == self.shape[1] and np.array_equal(idx, np.arange(len(idx))):
            return self.S
        self.counter.add((len(idx) / self.shape[1]) ** 2)
        return np.asarray(self.S[np.ix_(idx, idx)])

    def take(self, idx: Array) -> Covariance:
        """The covariance of some variables."""
        return Covariance(self.gram(idx), counter=self.counter)

    def restrict(self, idx: Array) -> Restriction:
        """Σ[idx, idx]; its representation is scattered back over all variables."""
        return Restriction(Covariance(self.gram(idx)), lambda U: embedded(U, idx, self.shape[1]))
