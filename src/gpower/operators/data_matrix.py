"""Samples weighted, centred and scaled over a container, and the columns that are gathered from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, embedded, largest, rows_of, to_host
from gpower.operators.base import Operator, PassCounter, Restriction, Wrapper
from gpower.operators.covariance import Covariance
from gpower.operators.moments import Moments, centred_gram
from gpower.operators.storage.base import Container


@dataclass(frozen=True, eq=False)
class DataMatrix(Operator):
    """A = (I − qqᵀ) diag(r) X diag(s): samples X weighted, centred and scaled without touching X.

    Attributes
    ----------
    X : Container of shape (n_samples, n_features)
    norms : ndarray of shape (n_features,) or None
        Norms of the columns of A, where they are known already.
    q : ndarray of shape (n_samples,) or None
        Unit vector that centring removes: r/‖r‖, or None for no centring.
    row_scale, column_scale : ndarray or None
        r (square roots of the sample weights) and s; None stands for ones.
    moments : Moments or None
        Of X, where it is centred: the means that q removes.
    counter : PassCounter, optional
        Counts the reads of X; by default a new one.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import DataMatrix, container_of
    >>> A = DataMatrix(container_of(np.array([[1.0, 2.0], [3.0, 4.0]])), column_scale=np.array([1.0, 0.5]))
    >>> A.correlate(np.ones((2, 1))).ravel()
    array([4., 3.])
    """

    X: Container
    norms: Array | None = None
    q: Array | None = None
    row_scale: Array | None = None
    column_scale: Array | None = None
    moments: Moments | None = None
    counter: PassCounter = field(default_factory=PassCounter)

    @property
    def container(self) -> Container:
        """The samples X."""
        return self.X

    @property
    def sample_radius(self) -> Array | None:
        """The square roots r of the weights of the rows."""
        return self.row_scale

    @cached_property
    def precision(self) -> float:
        """That of the number type, or of centring where that loses more."""
        loss = 0.0 if self.moments is None else largest(self.moments.centring_loss(self.dtype))
        return max(float(np.finfo(self.dtype).eps), loss)

    @cached_property
    def column_norms(self) -> Array:
        """Norms of the columns of A."""
        if self.norms is not None:
            return self.norms
        A = self.columns(np.arange(self.shape[1]))
        return np.sqrt(np.sum(A * A, axis=0))

    def correlate(self, X: Array) -> Array:
        """AᵀX in one pass: X is centred instead of the matrix."""
        self.counter.add(1)
        Y = X if self.q is None else self._centre(X.copy())
        if self.row_scale is not None:
            Y = self.row_scale[:, None] * Y
        C = self.X.transposed_times(Y)
        return C if self.column_scale is None else self.column_scale[:, None] * C

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T, reading only the columns that T uses when they are few; those of a sparse matrix stay sparse."""
        X = self.X
        if not X.picks(rows.size):
            self.counter.add(1)
            return self._finish(X.times(T if self.column_scale is None else self.column_scale[:, None] * T))
        if not X.is_sparse:
            return X.held(self.columns(rows)).times(rows_of(T, rows))
        self.counter.add(X.share(rows))
        used = T[rows] if self.column_scale is None else self.column_scale[rows, None] * T[rows]
        return self._finish(X.part(rows).times(used))

    def columns(self, idx: Array) -> Array:
        """A[:, idx], dense, each column contiguous."""
        self.counter.add(self.X.share(idx))
        A = self.X.columns(idx)
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
            along = self.X.along(Y, self.q)
            Y -= self.q[0] * along if self.row_scale is None else np.outer(self.q, along)
        return Y

    def take(self, idx: Array) -> DataMatrix:
        """The operator of A[:, idx]: dense columns centred and scaled explicitly, sparse ones as they are."""
        norms, counter = rows_of(self.column_norms, idx), self.taken_counter
        if not self.X.is_sparse:
            return DataMatrix(self.X.held(self.columns(idx)), norms, counter=counter)
        self.counter.add(self.X.share(idx))
        scale = None if self.column_scale is None else self.column_scale[idx]
        moments = None if self.moments is None else self.moments.of(idx)
        return replace(self, X=self.X.part(idx), norms=norms, column_scale=scale, moments=moments, counter=counter)

    def sample_rows(self, idx: Array) -> Array:
        """Return some samples, weighted, centred and scaled."""
        self.counter.add(self.X.row_share(idx))
        A = self.X.samples(idx)
        if self.moments is not None:
            A = A - self.moments.mean.astype(self.dtype)
        if self.column_scale is not None:
            A = A * self.column_scale
        return A if self.row_scale is None else A * rows_of(self.row_scale, idx)[:, None]

    def gram(self, idx: Array) -> Array:
        """A[:, idx]ᵀA[:, idx]."""
        self.counter.add(self.X.share(idx))
        weight = None if self.row_scale is None else self.row_scale**2
        G = to_host(centred_gram(self.X, self.moments, weight, idx)).astype(self.dtype, copy=False)
        return G if self.column_scale is None else scaled(G, to_host(rows_of(self.column_scale, idx)))

    def gathering(self) -> Operator:
        """With a memory of gathered columns."""
        return Gathering(self)

    def restrict(self, idx: Array) -> Restriction:
        """A[:, idx] gathered once, or its Gram matrix."""
        return Gathering(self).restrict(idx)


def scaled(S: Array, scale: Array) -> Array:
    """diag(s) S diag(s)."""
    return S * (scale[:, None] * scale)


class Gathering(Wrapper):
    """An operator with samples that remembers the columns last gathered: a new working set shares most of them.

    The memory of one fit, or of one of its components: made for it, handed on, and dropped with it. Products that need
    no other columns are made of these, and so are their Gram matrices.

    Attributes
    ----------
    base : Operator
    idx : ndarray of int
        Which columns are held, sorted.
    A : ndarray of shape (n_samples, |idx|)
        Those columns, each contiguous.
    G : ndarray of shape (|idx|, |idx|) or None
        Their Gram matrix once that was asked for, on the host.
    """

    def __init__(self, base: Operator) -> None:
        self.base, self.counter = base, base.counter
        self.idx: Array = np.zeros(0, np.intp)
        self.A: Array = np.zeros((0, 0))
        self.G: Array | None = None

    @property
    def column_norms(self) -> Array:
        """As the base."""
        return self.base.column_norms

    def gathering(self) -> Gathering:
        """It has a memory already."""
        return self

    def find(self, idx: Array) -> Array | None:
        """Positions of `idx` among the gathered columns, or None if one of them is missing."""
        at, held = self._found(idx)
        return at if self.idx.size and held.all() else None

    def _found(self, idx: Array) -> tuple[Array, Array]:
        """Positions of `idx` among the gathered columns, and which of them are there."""
        at = np.searchsorted(self.idx, idx)
        at[at == self.idx.size] = 0
        return at, self.idx[at] == idx if self.idx.size else np.zeros(len(idx), bool)

    def holds(self, idx: Array) -> bool:
        """Whether all of them are gathered."""
        return self.find(idx) is not None

    def gather(self, idx: Array, gram: bool) -> None:
        """Hold the columns `idx` (sorted), fetching those not held yet, and their Gram matrix if asked for."""
        X, (at, held) = self.container, self._found(idx)
        fresh = self.base.columns(idx[~held])
        A, G = fresh, None
        if held.any():
            A = np.empty_like(fresh, shape=(fresh.shape[0], idx.size), order="F")
            A[:, X.own(np.flatnonzero(~held))] = fresh
            A[:, X.own(np.flatnonzero(held))] = self.A[:, X.own(at[held])]
        if gram and self.G is not None and held.any():
            G = np.empty((idx.size, idx.size), fresh.dtype)
            cross = to_host(X.held(fresh).cross(A))  # (|fresh|, |idx|)
            G[np.ix_(held, held)] = self.G[np.ix_(at[held], at[held])]
            G[~held], G[:, ~held] = cross, cross.T
        elif gram:
            G = to_host(X.held(A).cross(A))
        self.idx, self.A, self.G = idx, A, G

    def correlate(self, X: Array) -> Array:
        """As the base."""
        return self.base.correlate(X)

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T, of the gathered columns where they suffice."""
        at = self.find(rows) if self.idx.size else None
        if at is None:
            return self.base.combine_rows(T, rows)
        return self.container.held(self.A).times(embedded(rows_of(T, rows), at, self.idx.size))

    def columns(self, idx: Array) -> Array:
        """As the base."""
        return self.base.columns(idx)

    def sample_rows(self, idx: Array) -> Array:
        """As the base."""
        return self.base.sample_rows(idx)

    def parts(self) -> tuple[Operator, Array, Array, Array]:
        """As the base."""
        return self.base.parts()

    def take(self, idx: Array) -> Operator:
        """Some columns, with a memory of their own."""
        return self.base.take(idx).gathering()

    def gram(self, idx: Array) -> Array:
        """Read off the gathered columns where they are among them; remote ones stay gathered."""
        at = self.find(idx)
        if at is None and self.is_remote and self.container.gathers(len(idx)):
            self.gather(np.sort(idx), True)
            at = self.find(idx)
        if at is None:
            return self.base.gram(idx)
        if self.G is not None:
            return self.G[np.ix_(at, at)]
        A = self.A[:, self.own(at)]
        return to_host(self.container.held(A).cross(A))

    def restrict(self, idx: Array) -> Restriction:
        """Columns gathered once: their Gram matrix when that is smaller, else themselves.

        Of sparse columns, or too many, the Gram matrix alone, none of them ever in memory.
        """
        small = len(idx) < self.container.gram_share * self.shape[0]
        if small and not self.container.gathers(len(idx)):
            n, like = self.shape[1], self.column_norms
            return Restriction(Covariance(self.gram(idx)), lambda U: self.combine(embedded(U, idx, n, like)))
        self.gather(idx, small)
        held = self.container.held(self.A)
        if self.G is not None:
            return Restriction(Covariance(self.G), lambda U: held.times(self.own(U)))
        return Restriction(DataMatrix(held), lambda X: X)
