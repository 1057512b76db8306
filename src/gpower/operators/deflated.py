"""Operator of a matrix from which components have been removed, A − Y Zᵀ, which is never formed.

A is the matrix of another operator, `base`, of shape (p, n); p is n_samples or, if only AᵀA is known ("no samples"),
n_features. Then a vector x of the sample space is represented by coefficients u with x = A u, otherwise by itself; m
vectors are an array X of shape (p, m). T has shape (n, m). Arrays and products are where the matrix is, host or device,
in its dtype; indices `idx` and `rows`, Gram matrices and inner products are on the host.

Terms: the `Operator` of A has ``correlate(X)``, AᵀX, (n, m); ``combine_rows(T, rows)``, A T, (p, m), for T that is zero
outside `rows`; ``columns(idx)``, A[:, idx], (p, |idx|), a new array; ``get_rows(idx)``, (|idx|, n), only with samples;
``inner(X, Y, C)``, XᵀY on the host, with C = AᵀY, which is read only without samples; ``squared_norms(X, C)``, its
diagonal for X = Y; ``gram(idx)``, not to be written to; ``dual(X)``, D with XᵀY = DᵀY for all represented Y, which is X
itself with samples; ``take(idx)``, the operator of some columns; `column_norms`, (n,), and `precision`, the relative
rounding error of a product; `has_samples`; `is_sparse`, whether columns take more memory when gathered; and
`counter_for_taken`, the pass counter for an operator of some columns. A `Container` of entries has ``should_copy(q)``,
whether q columns may be gathered, and ``wrap_array(B)``, the container of an array, with ``cross_gram(R)``, BᵀR. A
`ColumnCache` is the same operator with a cache of columns; a `Covariance` that of a Gram matrix;
``DataMatrix(container, norms)`` that of its matrix as it is. A `ColumnRestriction` has the operator of some columns and
the function `lift` that turns its vectors into those of this operator. ``take_rows(v, idx)`` is v[idx], where v is;
``to_host(v)`` is v as a NumPy array, and ``asarray_like(x, v)`` is v where x is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, asarray_like, take_rows, to_host
from gpower._utils.forwarding import forward
from gpower.operators.base import ColumnRestriction, Operator, OperatorWrapper, PassCounter, SplitDeflation
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import ColumnCache, DataMatrix

#: Share of a squared norm, in units of the relative rounding error, up to which the rest after other units is rounding.
UNIT_ROUNDING_FACTOR = 32
#: Columns that are deflated at once, which limits the memory of Y Zᵀ.
MAX_BLOCK_COLUMNS = 256


@dataclass(frozen=True, eq=False)
class DeflatedOperator(OperatorWrapper):
    """The matrix A − Y Zᵀ.

    Vectors of its sample space are represented as in `base`. All arrays are where the matrix is, host or device.

    Attributes
    ----------
    base : Operator
        The matrix A.
    Y : ndarray of shape (base.shape[0], j)
        One column per removed component, in the sample-space representation of `base`.
    Y_dual : ndarray of shape (base.shape[0], j)
        ``base.dual(Y)``: ``Y_dual.T @ X`` is YᵀX for represented vectors X.
    Z : ndarray of shape (n_features, j)
        The removed directions, one column per removed component.
    norms : ndarray of shape (n_features,)
        Column norms of the difference; zero where only rounding error is left. Such columns are zero in all products.
    counter : PassCounter, optional
        Counts the reads; normally that of `base`.
    """

    base: Operator
    Y: Array
    Y_dual: Array
    Z: Array
    norms: Array
    counter: PassCounter = field(default_factory=PassCounter)

    column_norms = forward("norms", "Return the norms of the columns of A − Y Zᵀ; zero where only rounding is left.")

    @cached_property
    def _vanished_columns(self) -> Array | None:
        """Return the mask, (n_features,), of columns of which only rounding error is left; None if there are none."""
        gone = self.norms == 0
        return gone if gone.any() else None

    def correlate(self, X: Array) -> Array:
        """Return AᵀX − Z(YᵀX), (n_features, m), exactly zero for vanished columns."""
        C = self.base.correlate(X) - self.Z @ (self.Y_dual.T @ X)
        return C if self._vanished_columns is None else np.where(self._vanished_columns[:, None], 0, C)

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """Return A T − Y(ZᵀT), given that all rows of T, (n_features, m), except `rows` are zero."""
        return self.base.combine_rows(T, rows) - self.Y @ (self.Z.T @ T)

    def columns(self, idx: Array) -> Array:
        """Return A[:, idx] − Y Z[idx]ᵀ, (shape[0], |idx|), in the new array that `base.columns` returns.

        Vanished columns are exactly zero if their entries in A are finite. With few columns at a time,
        MAX_BLOCK_COLUMNS of them, Y Zᵀ takes little memory.
        """
        A = self.base.columns(idx)
        for j in range(0, len(idx), MAX_BLOCK_COLUMNS):  # a few at a time, in place: A may be most of the matrix
            A[:, j : j + MAX_BLOCK_COLUMNS] -= self.Y @ take_rows(self.Z, idx[j : j + MAX_BLOCK_COLUMNS]).T
        if self._vanished_columns is not None:
            A *= ~take_rows(self._vanished_columns, idx)
        return A

    def get_rows(self, idx: Array) -> Array:
        """Return the rows A[idx] − Y[idx] Zᵀ, (|idx|, n_features); only with samples. `idx` is increasing."""
        A = self.base.get_rows(idx) - take_rows(self.Y, idx) @ self.Z.T
        return A if self._vanished_columns is None else A * ~self._vanished_columns

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """Return XᵀY, (k, m), on the host; C = (A − Y Zᵀ)ᵀY, (n_features, m), is used only without samples.

        Here X, (p, k), and Y, (p, m), are represented vectors. Without samples the base needs its own correlations AᵀY,
        which are restored from C.
        """
        return self.base.inner(X, Y, self._restore_base_correlations(Y, C))

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Return the diagonal of XᵀX, (m,), on the host; C = (A − Y Zᵀ)ᵀX is used only without samples."""
        return self.base.squared_norms(X, self._restore_base_correlations(X, C))

    def _restore_base_correlations(self, X: Array, C: Array) -> Array:
        """Return AᵀX, (n_features, m), given C = (A − Y Zᵀ)ᵀX; C itself with samples, where it is not needed."""
        return C if self.has_samples else C + self.Z @ (self.Y_dual.T @ X)

    def split_deflation(self) -> SplitDeflation:
        """Return the operator `base` before this deflation, and the arrays `Y`, `Y_dual` and `Z` that describe it."""
        return SplitDeflation(self.base, self.Y, self.Y_dual, self.Z)

    def gram(self, idx: Array) -> Array:
        """Return the Gram matrix of some deflated columns, (|idx|, |idx|), on the host.

        It is computed from gathered columns if there are samples and room. Otherwise it is expanded:
        AᵀA − AᵀY Zᵀ − Z YᵀA + Z YᵀY Zᵀ for the chosen columns, with zeros for vanished ones. It is a new array.
        """
        if self.has_samples and self.container.should_copy(len(idx)):
            A = self.columns(idx)
            return to_host(self.container.wrap_array(A).cross_gram(A))
        Z = take_rows(self.Z, idx)
        cross = to_host(take_rows(self._base_correlations, idx) @ Z.T)
        G = self.base.gram(idx) - cross - cross.T + to_host(Z @ (self.Y.T @ self.Y_dual) @ Z.T)
        if self._vanished_columns is None:
            return G
        remains = ~to_host(take_rows(self._vanished_columns, idx))
        return G * remains * remains[:, None]

    @cached_property
    def _base_correlations(self) -> Array:
        """Return AᵀY, (n_features, j), which without samples is the dual of Y, ΣY."""
        return self.base.correlate(self.Y) if self.has_samples else self.Y_dual

    def take(self, idx: Array) -> Operator:
        """Return the operator of the columns `idx`: dense ones, or their Gram matrix, are deflated explicitly.

        Those of a sparse matrix are deflated implicitly. Without samples, vectors of the result are coefficients of
        these columns alone.
        """
        if self.is_sparse:
            base = self.base.take(idx)
            Z, norms = take_rows(self.Z, idx), take_rows(self.norms, idx)
            return replace(self, base=base, Z=Z, norms=norms, counter=base.counter)
        if self.has_samples:
            container = self.container.wrap_array(self.columns(idx))
            return DataMatrix(container, take_rows(self.norms, idx), counter=self.counter_for_taken)
        return Covariance(self.gram(idx), self.counter)

    def with_column_cache(self) -> Operator:
        """Return the operator with a cache of gathered columns if it has samples, else itself."""
        return ColumnCache(self) if self.has_samples else self

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Return the explicitly deflated columns `idx` (increasing) and the map back to sample space.

        Without samples, coefficients u of the deflated columns stand for (A − Y Zᵀ)[:, idx] u, so that `lift` needs Y.
        """
        if self.has_samples:
            return ColumnCache(self).restrict(idx)
        selector = self.columns(idx)  # coefficients of the deflated columns over all variables
        return ColumnRestriction(Covariance(self.gram(idx)), lambda U: selector @ U)


def deflate_other_units(operator: Operator, X: Array, C: Array, j: int) -> Operator:
    """Return the matrix A − Y Yᵀ A, without its part along the units Y, all of X except the j-th.

    Columns of which only rounding error is left have norm zero. The pass counter is shared; nothing is read.

    Parameters
    ----------
    operator : Operator
        The matrix A.
    X : ndarray of shape (operator.shape[0], m)
        Represented units, orthonormal in sample space, where the matrix is, in its dtype.
    C : ndarray of shape (n_features, m)
        Their correlations AᵀX without the weights μ, also there.
    j : int
        The unit whose part stays in the matrix, from 0 to m − 1.
    """
    others = np.arange(X.shape[1]) != j
    Y, Z = X[:, asarray_like(X, others)], C[:, asarray_like(C, others)]
    whole = operator.column_norms.astype(np.float64) ** 2
    squares = whole - np.sum(Z.astype(np.float64) ** 2, axis=1)
    rounding = UNIT_ROUNDING_FACTOR * operator.precision * whole
    norms = np.sqrt(np.where(squares > rounding, squares, 0.0)).astype(operator.dtype)
    return DeflatedOperator(operator, Y, operator.dual(Y), Z, norms, counter=operator.counter)
