"""Samples weighted, centred and scaled over a container, and the columns that are gathered from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, embed_rows, max_or_zero, take_rows, to_host
from gpower.operators.base import ColumnRestriction, Operator, OperatorWrapper, PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.moments import Moments, compute_centered_gram
from gpower.operators.storage.base import Container


@dataclass(frozen=True, eq=False)
class DataMatrix(Operator):
    """A = (I − qqᵀ) diag(r) X diag(s): samples X weighted, centred and scaled without touching X.

    Attributes
    ----------
    X : Container of shape (n_samples, n_features)
    precomputed_norms : ndarray of shape (n_features,) or None
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
    >>> from gpower.operators import DataMatrix, as_container
    >>> A = DataMatrix(as_container(np.array([[1.0, 2.0], [3.0, 4.0]])), column_scale=np.array([1.0, 0.5]))
    >>> A.correlate(np.ones((2, 1))).ravel()
    array([4., 3.])
    """

    X: Container
    precomputed_norms: Array | None = None
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
    def sqrt_sample_weight(self) -> Array | None:
        """The square roots r of the weights of the rows."""
        return self.row_scale

    @cached_property
    def precision(self) -> float:
        """That of the number type, or of centring where that loses more."""
        loss = 0.0 if self.moments is None else max_or_zero(self.moments.compute_centering_errors(self.dtype))
        return max(float(np.finfo(self.dtype).eps), loss)

    @cached_property
    def column_norms(self) -> Array:
        """Norms of the columns of A."""
        if self.precomputed_norms is not None:
            return self.precomputed_norms
        A = self.columns(np.arange(self.shape[1]))
        return np.sqrt(np.sum(A * A, axis=0))

    def correlate(self, X: Array) -> Array:
        """AᵀX in one pass: X is centred instead of the matrix."""
        self.counter.add(1)
        Y = X if self.q is None else self._center_columns(X.copy())
        if self.row_scale is not None:
            Y = self.row_scale[:, None] * Y
        C = self.X.transposed_times(Y)
        return C if self.column_scale is None else self.column_scale[:, None] * C

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T, reading only the columns that T uses when they are few; those of a sparse matrix stay sparse."""
        X = self.X
        if not X.supports_take(rows.size):
            self.counter.add(1)
            return self._weight_and_center(X.times(T if self.column_scale is None else self.column_scale[:, None] * T))
        if not X.is_sparse:
            return X.wrap_array(self.columns(rows)).times(take_rows(T, rows))
        self.counter.add(X.column_read_share(rows))
        used = T[rows] if self.column_scale is None else self.column_scale[rows, None] * T[rows]
        return self._weight_and_center(X.take(rows).times(used))

    def columns(self, idx: Array) -> Array:
        """A[:, idx], dense, each column contiguous."""
        self.counter.add(self.X.column_read_share(idx))
        A = self.X.columns(idx)
        if self.column_scale is not None:
            A *= take_rows(self.column_scale, idx)
        return self._weight_and_center(A)

    def _weight_and_center(self, Y: Array) -> Array:
        """Weight and centre a product in place; Y is ours."""
        if self.row_scale is not None:
            Y *= self.row_scale[:, None]
        return self._center_columns(Y)

    def _center_columns(self, Y: Array) -> Array:
        """(I − qqᵀ)Y in place; without weights q is constant, and no outer product of the size of Y is formed."""
        if self.q is not None:
            along = self.X.project_onto(Y, self.q)
            Y -= self.q[0] * along if self.row_scale is None else np.outer(self.q, along)
        return Y

    def take(self, idx: Array) -> DataMatrix:
        """The operator of A[:, idx]: dense columns centred and scaled explicitly, sparse ones as they are."""
        norms, counter = take_rows(self.column_norms, idx), self.counter_for_taken
        if not self.X.is_sparse:
            return DataMatrix(self.X.wrap_array(self.columns(idx)), norms, counter=counter)
        self.counter.add(self.X.column_read_share(idx))
        scale = None if self.column_scale is None else self.column_scale[idx]
        moments = None if self.moments is None else self.moments.take(idx)
        return replace(
            self, X=self.X.take(idx), precomputed_norms=norms, column_scale=scale, moments=moments, counter=counter
        )

    def get_rows(self, idx: Array) -> Array:
        """Return some samples, weighted, centred and scaled."""
        self.counter.add(self.X.row_read_share(idx))
        A = self.X.get_rows(idx)
        if self.moments is not None:
            A = A - self.moments.mean.astype(self.dtype)
        if self.column_scale is not None:
            A = A * self.column_scale
        return A if self.row_scale is None else A * take_rows(self.row_scale, idx)[:, None]

    def gram(self, idx: Array) -> Array:
        """A[:, idx]ᵀA[:, idx]."""
        self.counter.add(self.X.column_read_share(idx))
        weight = None if self.row_scale is None else self.row_scale**2
        G = to_host(compute_centered_gram(self.X, self.moments, weight, idx)).astype(self.dtype, copy=False)
        return G if self.column_scale is None else scale_rows_and_columns(G, to_host(take_rows(self.column_scale, idx)))

    def with_column_cache(self) -> Operator:
        """With a memory of gathered columns."""
        return ColumnCache(self)

    def restrict(self, idx: Array) -> ColumnRestriction:
        """A[:, idx] gathered once, or its Gram matrix."""
        return ColumnCache(self).restrict(idx)


def scale_rows_and_columns(S: Array, scale: Array) -> Array:
    """diag(s) S diag(s)."""
    return S * (scale[:, None] * scale)


class ColumnCache(OperatorWrapper):
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
        self.cached_idx: Array = np.zeros(0, np.intp)
        self.cached_columns: Array = np.zeros((0, 0))
        self.cached_gram: Array | None = None

    @property
    def column_norms(self) -> Array:
        """As the base."""
        return self.base.column_norms

    def with_column_cache(self) -> ColumnCache:
        """It has a memory already."""
        return self

    def find_positions(self, idx: Array) -> Array | None:
        """Positions of `idx` among the gathered columns, or None if one of them is missing."""
        at, held = self._locate_columns(idx)
        return at if self.cached_idx.size and held.all() else None

    def _locate_columns(self, idx: Array) -> tuple[Array, Array]:
        """Positions of `idx` among the gathered columns, and which of them are there."""
        at = np.searchsorted(self.cached_idx, idx)
        at[at == self.cached_idx.size] = 0
        return at, self.cached_idx[at] == idx if self.cached_idx.size else np.zeros(len(idx), bool)

    def is_cached(self, idx: Array) -> bool:
        """Whether all of them are gathered."""
        return self.find_positions(idx) is not None

    def cache_columns(self, idx: Array, with_gram: bool) -> None:
        """Hold the columns `idx` (sorted), fetching those not held yet, and their Gram matrix if asked for."""
        X, (at, held) = self.container, self._locate_columns(idx)
        fresh = self.base.columns(idx[~held])
        A, G = fresh, None
        if held.any():
            A = np.empty_like(fresh, shape=(fresh.shape[0], idx.size), order="F")
            A[:, X.to_backend(np.flatnonzero(~held))] = fresh
            A[:, X.to_backend(np.flatnonzero(held))] = self.cached_columns[:, X.to_backend(at[held])]
        if with_gram and self.cached_gram is not None and held.any():
            G = np.empty((idx.size, idx.size), fresh.dtype)
            cross = to_host(X.wrap_array(fresh).cross_gram(A))  # (|fresh|, |idx|)
            G[np.ix_(held, held)] = self.cached_gram[np.ix_(at[held], at[held])]
            G[~held], G[:, ~held] = cross, cross.T
        elif with_gram:
            G = to_host(X.wrap_array(A).cross_gram(A))
        self.cached_idx, self.cached_columns, self.cached_gram = idx, A, G

    def correlate(self, X: Array) -> Array:
        """As the base."""
        return self.base.correlate(X)

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T, of the gathered columns where they suffice."""
        at = self.find_positions(rows) if self.cached_idx.size else None
        if at is None:
            return self.base.combine_rows(T, rows)
        return self.container.wrap_array(self.cached_columns).times(
            embed_rows(take_rows(T, rows), at, self.cached_idx.size)
        )

    def columns(self, idx: Array) -> Array:
        """As the base."""
        return self.base.columns(idx)

    def get_rows(self, idx: Array) -> Array:
        """As the base."""
        return self.base.get_rows(idx)

    def split_deflation(self) -> tuple[Operator, Array, Array, Array]:
        """As the base."""
        return self.base.split_deflation()

    def take(self, idx: Array) -> Operator:
        """Some columns, with a memory of their own."""
        return self.base.take(idx).with_column_cache()

    def gram(self, idx: Array) -> Array:
        """Read off the gathered columns where they are among them; remote ones stay gathered."""
        at = self.find_positions(idx)
        if at is None and self.is_remote and self.container.should_copy(len(idx)):
            self.cache_columns(np.sort(idx), True)
            at = self.find_positions(idx)
        if at is None:
            return self.base.gram(idx)
        if self.cached_gram is not None:
            return self.cached_gram[np.ix_(at, at)]
        A = self.cached_columns[:, self.to_backend(at)]
        return to_host(self.container.wrap_array(A).cross_gram(A))

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Columns gathered once: their Gram matrix when that is smaller, else themselves.

        Of sparse columns, or too many, the Gram matrix alone, none of them ever in memory.
        """
        small = len(idx) < self.container.max_gram_share * self.shape[0]
        if small and not self.container.should_copy(len(idx)):
            n, like = self.shape[1], self.column_norms
            return ColumnRestriction(Covariance(self.gram(idx)), lambda U: self.combine(embed_rows(U, idx, n, like)))
        self.cache_columns(idx, small)
        held = self.container.wrap_array(self.cached_columns)
        if self.cached_gram is not None:
            return ColumnRestriction(Covariance(self.cached_gram), lambda U: held.times(self.to_backend(U)))
        return ColumnRestriction(DataMatrix(held), lambda X: X)
