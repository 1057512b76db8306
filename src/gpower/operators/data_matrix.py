"""Operator of weighted, centred and scaled samples in a container, and a cache of its columns.

A, (n_samples, n_features), is the weighted, centred and scaled matrix and X the container of the samples themselves.
Arrays of m vectors have shape (n_samples, m), here X or Y, or (n_features, m), here T. They and the results of products
are where the matrix is, host or device, in its dtype. Indices `idx` and `rows` are on the host, as are Gram matrices.
"Gathering" columns means copying them into a dense array.

Terms: a `Container` stores the samples, neither centred nor scaled. ``times(T)`` is X T and ``transposed_times(Y)`` is
XᵀY, for T and Y in its dtype and memory; ``columns(idx)`` and ``get_rows(idx)`` are columns and rows as dense arrays,
the former a new one; ``take(idx)`` is the container of some columns, ``wrap_array(B)`` that of an array of columns,
whose ``cross_gram(R)`` is BᵀR; ``project_onto(Y, q)`` is Yᵀq. `is_sparse` says that columns take more memory when
gathered, `is_remote` that reading all takes long; ``should_copy(q)`` says that q columns may be gathered.
``column_read_share(idx)`` and ``row_read_share(idx)`` are the shares of the matrix that are read for some columns or
rows; from MAX_GATHERED_SHARE on all of it is read instead. An ascent works on a Gram matrix of fewer columns than
`max_gram_share` times n_samples. ``to_backend(v)`` moves an array to the memory of the matrix. ``take_rows(v, idx)`` is
v[idx], where v is; ``to_host(v)`` is v as a NumPy array; ``embed_rows(Z, idx, n, like)`` has n rows, those of Z at
`idx` and zeros elsewhere, where `like` is; ``max_or_zero(v)`` is the largest of non-negative values, 0 for none. A
`PassCounter` counts by ``add(share)``; `counter_for_taken` is that of an operator of some columns.

`Moments` of X have `mean` and `scale`, (n_features,), float64, where X is; ``compute_centering_errors(dtype)``, the
relative errors of columns that are centred after a product; and ``take(idx)``. ``compute_centered_gram(X, moments, w,
idx)`` is (X − mean)ᵀ diag(w) (X − mean) of the columns `idx`, where X is. A `Covariance` is the operator of a Gram
matrix, on the host: its vectors are coefficients of the columns, (n, m). A `ColumnRestriction` is the operator of some
columns and the function `lift` that turns its vectors into those of this operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, embed_rows, max_or_zero, take_rows, to_host
from gpower._utils.forwarding import forward
from gpower.operators.base import ColumnRestriction, Operator, OperatorWrapper, PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.moments import Moments, compute_centered_gram
from gpower.operators.storage.base import MAX_GATHERED_SHARE, Container

#: Smallest number of columns for each new one for which a Gram matrix is updated: a product of a sparse matrix (3.6 %
#: stored) with the new columns costs as much as the Gram matrix of twelve times as many columns.
MIN_COLUMNS_PER_NEW = 16
#: Number of columns whose norms are computed at once, from a copy of them.
NORM_BLOCK_COLUMNS = 1 << 16


@dataclass(frozen=True, eq=False)
class DataMatrix(Operator):
    """Operator of A = (I − qqᵀ) diag(r) X diag(s): samples X weighted, centred and scaled without changing X.

    All arrays are where the matrix is, on the host or a device, in its dtype.

    Attributes
    ----------
    X : Container of shape (n_samples, n_features)
    precomputed_norms : ndarray of shape (n_features,) or None
        Norms of the columns of A, if they were computed before.
    q : ndarray of shape (n_samples,) or None
        Unit vector r/‖r‖ along which centring projects, or None for no centring.
    row_scale, column_scale : ndarray or None
        r, (n_samples,), the square roots of the sample weights, and s, (n_features,), zero for constant columns. None
        stands for ones.
    moments : Moments or None
        Moments of X if A is centred: the means that the projection removes. They must be given together with `q`,
        because `get_rows` and `gram` subtract these means and do not use `q`.
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

    container = forward("X", "Return the container of the samples X.")
    sqrt_sample_weight = forward("row_scale", "Return the square roots r of the sample weights, or None for ones.")

    @cached_property
    def precision(self) -> float:
        """Return the precision of the dtype, or the rounding error of centring if that is larger."""
        loss = 0.0 if self.moments is None else max_or_zero(self.moments.compute_centering_errors(self.dtype))
        return max(float(np.finfo(self.dtype).eps), loss)

    @cached_property
    def column_norms(self) -> Array:
        """Return the norms of the columns of A, (n_features,), where the matrix is; gather all columns if not known."""
        if self.precomputed_norms is not None:
            return self.precomputed_norms
        n = self.shape[1]
        step = n if self.is_remote else NORM_BLOCK_COLUMNS
        blocks = (self.columns(np.arange(i, min(i + step, n))) for i in range(0, n, step))
        return np.sqrt(np.concatenate([np.sum(A * A, axis=0) for A in blocks]))

    def correlate(self, X: Array) -> Array:
        """Compute AᵀX, (n_features, m), in one pass, by centring a copy of X, (n_samples, m), instead of the matrix.

        X is where the matrix is, in its dtype, as the result is; the argument is not the container of the same name.
        """
        self.counter.add(1)
        Y = X if self.q is None else self._center_columns(X.copy())
        if self.row_scale is not None:
            Y = self.row_scale[:, None] * Y
        C = self.X.transposed_times(Y)
        return C if self.column_scale is None else self.column_scale[:, None] * C

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """Compute A T, (n_samples, m), reading only the columns that T uses if they are few; sparse ones stay sparse.

        `rows`, increasing and on the host, contains all non-zero rows of T, (n_features, m). The result is a new array.
        """
        X = self.X
        if X.column_read_share(rows) > MAX_GATHERED_SHARE:
            self.counter.add(1)
            return self._weight_and_center(X.times(T if self.column_scale is None else self.column_scale[:, None] * T))
        if not X.is_sparse:
            return X.wrap_array(self.columns(rows)).times(take_rows(T, rows))
        self.counter.add(X.column_read_share(rows))
        used = take_rows(T, rows)
        if self.column_scale is not None:
            used = take_rows(self.column_scale, rows)[:, None] * used
        return self._weight_and_center(X.take(rows).times(used))

    def columns(self, idx: Array) -> Array:
        """Return A[:, idx], (n_samples, |idx|), as a new dense array, each column contiguous.

        The new array of the container is scaled and centred in place. Scaling comes before weighting and centring.
        """
        self.counter.add(self.X.column_read_share(idx))
        A = self.X.columns(idx)
        if self.column_scale is not None:
            A *= take_rows(self.column_scale, idx)
        return self._weight_and_center(A)

    def _weight_and_center(self, Y: Array) -> Array:
        """Compute (I − qqᵀ) diag(r) Y in place and return Y, (n_samples, m), which belongs to the caller."""
        if self.row_scale is not None:
            Y *= self.row_scale[:, None]
        return self._center_columns(Y)

    def _center_columns(self, Y: Array) -> Array:
        """Compute (I − qqᵀ)Y in place and return Y, (n_samples, m); without `q` nothing changes.

        Without weights q is constant, which saves an array of the size of Y.
        """
        if self.q is not None:
            projection = self.X.project_onto(Y, self.q)  # Yᵀq, (m,)
            Y -= self.q[0] * projection if self.row_scale is None else np.outer(self.q, projection)
        return Y

    def take(self, idx: Array) -> DataMatrix:
        """Return the operator of A[:, idx]: dense columns are centred and scaled explicitly, sparse ones implicitly.

        Dense columns become a new array with weights applied too, so that the new operator has no `q`, `row_scale`,
        `column_scale` and `moments`; its `sqrt_sample_weight` is then None.
        """
        norms = take_rows(self.column_norms, idx)
        counter = self.counter_for_taken
        if not self.X.is_sparse:
            return DataMatrix(self.X.wrap_array(self.columns(idx)), norms, counter=counter)
        self.counter.add(self.X.column_read_share(idx))
        scale = None if self.column_scale is None else take_rows(self.column_scale, idx)
        moments = None if self.moments is None else self.moments.take(idx)
        return replace(
            self, X=self.X.take(idx), precomputed_norms=norms, column_scale=scale, moments=moments, counter=counter
        )

    def get_rows(self, idx: Array) -> Array:
        """Return the rows A[idx], (|idx|, n_features), weighted, centred by the means, and scaled; `idx` increases.

        They are where the matrix is, in its dtype, and not to be written to. With `q` there must be `moments`.
        """
        self.counter.add(self.X.row_read_share(idx))
        A = self.X.get_rows(idx)
        if self.moments is not None:
            A = A - self.moments.mean.astype(self.dtype)
        if self.column_scale is not None:
            A = A * self.column_scale
        return A if self.row_scale is None else A * take_rows(self.row_scale, idx)[:, None]

    def gram(self, idx: Array) -> Array:
        """Compute A[:, idx]ᵀA[:, idx], (|idx|, |idx|), a new array on the host, in the dtype of the matrix."""
        self.counter.add(self.X.column_read_share(idx))
        weight = None if self.row_scale is None else self.row_scale**2
        G = to_host(compute_centered_gram(self.X, self.moments, weight, idx)).astype(self.dtype, copy=False)
        return G if self.column_scale is None else scale_rows_and_columns(G, to_host(take_rows(self.column_scale, idx)))

    def with_column_cache(self) -> Operator:
        """Return this operator with an empty cache of gathered columns, for one fit."""
        return ColumnCache(self)

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Return the operator of A[:, idx], gathered once, or of its Gram matrix; `idx` is increasing, on the host."""
        return ColumnCache(self).restrict(idx)


def scale_rows_and_columns(S: Array, scale: Array) -> Array:
    """Compute diag(s) S diag(s), a new array, for S of shape (n, n) and s, the argument `scale`, of shape (n,)."""
    return S * (scale[:, None] * scale)


def _contains(known: Array, idx: Array) -> bool:
    """Return whether all of `idx` are in `known`, increasing indices; False if that is empty. Faster than `isin`."""
    if not known.size:
        return False
    return bool(np.all(known[np.minimum(np.searchsorted(known, idx), known.size - 1)] == idx))


class ColumnCache(OperatorWrapper):
    """An operator with samples that caches the columns last gathered, because the next working set shares most of them.

    The cache belongs to one fit, or to one component of it. Products and Gram matrices that need only cached columns
    are computed from them. Index arguments are on the host.

    Attributes
    ----------
    base : Operator
        An operator with samples, on the host or a device.
    cached_idx : ndarray of int
        Indices of the cached columns, increasing.
    cached_columns : ndarray of shape (n_samples, |cached_idx|)
        Cached columns, each contiguous, on the host or the device of the matrix.
    gram_idx : ndarray of int
        Increasing indices of the columns of the Gram matrix last computed for a restriction.
    cached_gram : ndarray of shape (|gram_idx|, |gram_idx|)
        That Gram matrix, on the host.
    """

    # These members are those of the base: they need all columns or few of them.
    column_norms = forward("base.column_norms")
    correlate = forward("base.correlate")
    columns = forward("base.columns")
    get_rows = forward("base.get_rows")
    split_deflation = forward("base.split_deflation")

    def __init__(self, base: Operator) -> None:
        self.base = base
        self.counter = base.counter
        self.cached_idx: Array = np.zeros(0, np.intp)
        self.cached_columns: Array = np.zeros((0, 0))
        self.gram_idx: Array = np.zeros(0, np.intp)
        self.cached_gram: Array = np.zeros((0, 0))

    def with_column_cache(self) -> ColumnCache:
        """Return this operator, which has a cache already."""
        return self

    def is_cached(self, idx: Array) -> bool:
        """Return whether all columns `idx`, in any order, are cached; False for an empty cache."""
        return _contains(self.cached_idx, idx)

    def cache_columns(self, idx: Array) -> None:
        """Cache the columns `idx` (increasing), reading only the missing ones.

        They replace all columns cached before, whose arrays are not changed: results that refer to them stay valid.
        """
        is_old = np.isin(idx, self.cached_idx)
        A = added = self.base.columns(idx[~is_old])
        if is_old.any():
            to_backend = self.to_backend
            A = np.empty_like(added, shape=(added.shape[0], idx.size), order="F")
            A[:, to_backend(np.flatnonzero(~is_old))] = added
            from_cache = np.searchsorted(self.cached_idx, idx[is_old])
            A[:, to_backend(np.flatnonzero(is_old))] = self.cached_columns[:, to_backend(from_cache)]
        self.cached_idx, self.cached_columns = idx, A

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """Compute A T, (n_samples, m), from the cached columns if they include all `rows`, otherwise in the base.

        `rows`, on the host, contains all non-zero rows of T, (n_features, m). Cached columns count as no read. The
        result is a new array where the matrix is.
        """
        if not self.is_cached(rows):
            return self.base.combine_rows(T, rows)
        positions = np.searchsorted(self.cached_idx, rows)
        embedded = embed_rows(take_rows(T, rows), positions, self.cached_idx.size)
        return self.container.wrap_array(self.cached_columns).times(embedded)

    def take(self, idx: Array) -> Operator:
        """Return the operator of A[:, idx], with a cache of its own."""
        return self.base.take(idx).with_column_cache()

    def gram(self, idx: Array) -> Array:
        """Compute the Gram matrix, (|idx|, |idx|) on the host, from a cached one or the cached columns if they suffice.

        Columns of a remote matrix are cached first if they may be gathered. The indices, different, need not be sorted;
        the result is in their order, and not to be written to.
        """
        if self.is_remote and not self.is_cached(idx) and self.container.should_copy(len(idx)):
            self.cache_columns(np.sort(idx))
            self._update_gram(self.cached_idx)
        if _contains(self.gram_idx, idx):
            positions = np.searchsorted(self.gram_idx, idx)
            return self.cached_gram[np.ix_(positions, positions)]
        if not self.is_cached(idx):
            return self.base.gram(idx)
        A = self.cached_columns[:, self.to_backend(np.searchsorted(self.cached_idx, idx))]
        return to_host(self.container.wrap_array(A).cross_gram(A))

    def _update_gram(self, idx: Array) -> Array:
        """Return the Gram matrix of the columns `idx` (increasing), on the host, and keep it for the next call.

        If they are not cached and few of them were not in the previous call (one in MIN_COLUMNS_PER_NEW), their part
        alone is computed, from one product of the whole matrix with them. The result, (|idx|, |idx|), is kept itself:
        not to be written to.
        """
        is_old = np.isin(idx, self.gram_idx)
        old, new = np.flatnonzero(is_old), np.flatnonzero(~is_old)
        if self.is_remote or self.is_cached(idx) or new.size * MIN_COLUMNS_PER_NEW > idx.size:
            G = self.gram(idx)
        else:
            G = np.empty((idx.size, idx.size), self.cached_gram.dtype)
            positions = np.searchsorted(self.gram_idx, idx[old])
            G[np.ix_(old, old)] = self.cached_gram[np.ix_(positions, positions)]
            if new.size:
                cross = take_rows(self.correlate(self.columns(idx[new])), idx)
                G[:, new] = to_host(cross)
                G[new] = G[:, new].T
        self.gram_idx, self.cached_gram = idx, G
        return G

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Return the operator of A[:, idx]: of its Gram matrix if that is small, otherwise of the cached columns.

        Columns that are sparse or too many to be gathered are not cached if the Gram matrix is small. `idx` is
        increasing. For a Gram matrix the restricted operator is a `Covariance` on the host, and `lift` turns
        coefficients U, (|idx|, m), into A[:, idx] U, (n_samples, m), where the matrix is. For columns, `lift` returns
        its argument.
        """
        is_gram_small = len(idx) < self.container.max_gram_share * self.shape[0]
        if is_gram_small and not self.container.should_copy(len(idx)):
            n, like = self.shape[1], self.column_norms  # U is on the host; `combine` works where the matrix is
            G = self._update_gram(idx)
            return ColumnRestriction(Covariance(G), lambda U: self.combine(embed_rows(U, idx, n, like)))
        self.cache_columns(idx)
        columns = self.container.wrap_array(self.cached_columns)
        if is_gram_small:
            G = self._update_gram(idx)
            return ColumnRestriction(Covariance(G), lambda U: columns.times(self.to_backend(U)))
        return ColumnRestriction(DataMatrix(columns), lambda X: X)
