"""Removing a component from the matrix without rewriting it: A − Y Zᵀ as an operator.

Every rule below is such a low-rank change, so one wrapper serves them all, over data and over covariances.

=================== ============================================== ==============================
rule                change                                          what is left
=================== ============================================== ==============================
``projection``      A − (A z)zᵀ [JNRS10, section 4.4]               nothing along z
``orthogonalized``  the same with z orthogonalised against the      nothing in the span of all z
                    earlier ones
``schur``           A − x(Aᵀx)ᵀ, x = A z/‖A z‖                      nothing correlated with A z
=================== ============================================== ==============================

The first leaves variance along earlier loadings once they overlap; the second does not; the third works on
the samples: what is left is uncorrelated with the earlier scores. All keep AᵀA positive semidefinite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, asarray_like, is_device_array, safe_reciprocal, take_rows, to_host
from gpower.operators.base import ColumnRestriction, Operator, OperatorWrapper, PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import ColumnCache, DataMatrix

#: Columns deflated at once, and entries of columns whose norms are taken at once.
MAX_BLOCK_COLUMNS, MAX_BLOCK_ENTRIES = 256, 1 << 20


@dataclass(frozen=True, eq=False)
class DeflatedOperator(OperatorWrapper):
    """A − Y Zᵀ.

    Attributes
    ----------
    base : Operator
        The matrix A.
    Y : ndarray
        Representation in sample space, one column per removed component.
    D : ndarray
        ``base.dual(Y)``.
    Z : ndarray of shape (n_features, j)
    norms : ndarray of shape (n_features,)
        Column norms of the difference.
    """

    base: Operator
    Y: Array
    Y_dual: Array
    Z: Array
    norms: Array
    counter: PassCounter = field(default_factory=PassCounter)

    @property
    def column_norms(self) -> Array:
        """Norms of the deflated columns."""
        return self.norms

    @cached_property
    def _vanished_columns(self) -> Array | None:
        """Mask of the columns of which only rounding is left, which must not pass for data; None if there are none."""
        gone = self.norms == 0
        return gone if gone.any() else None

    def correlate(self, X: Array) -> Array:
        """AᵀX − Z(YᵀX)."""
        C = self.base.correlate(X) - self.Z @ (self.Y_dual.T @ X)
        return C if self._vanished_columns is None else np.where(self._vanished_columns[:, None], 0, C)

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T − Y(ZᵀT)."""
        return self.base.combine_rows(T, rows) - self.Y @ (self.Z.T @ T)

    def columns(self, idx: Array) -> Array:
        """A[:, idx] − Y Z[idx]ᵀ."""
        A = self.base.columns(idx)
        for j in range(
            0, len(idx), MAX_BLOCK_COLUMNS
        ):  # in place, a few columns at a time: A may be much of the matrix
            A[:, j : j + MAX_BLOCK_COLUMNS] -= self.Y @ take_rows(self.Z, idx[j : j + MAX_BLOCK_COLUMNS]).T
        if self._vanished_columns is not None:
            A *= ~take_rows(self._vanished_columns, idx)
        return A

    def get_rows(self, idx: Array) -> Array:
        """Return A[idx] − Y[idx] Zᵀ."""
        A = self.base.get_rows(idx) - take_rows(self.Y, idx) @ self.Z.T
        return A if self._vanished_columns is None else A * ~self._vanished_columns

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """XᵀY; the base's own correlations are recovered from the deflated ones where it needs them."""
        return self.base.inner(X, Y, self._restore_base_correlations(Y, C))

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Diagonal of XᵀX."""
        return self.base.squared_norms(X, self._restore_base_correlations(X, C))

    def _restore_base_correlations(self, X: Array, C: Array) -> Array:
        return C if self.has_samples else C + self.Z @ (self.Y_dual.T @ X)

    def split_deflation(self) -> tuple[Operator, Array, Array, Array]:
        """Base, Y, D and Z."""
        return self.base, self.Y, self.Y_dual, self.Z

    def gram(self, idx: Array) -> Array:
        """Gram matrix of some deflated columns."""
        if self.has_samples and self.container.should_copy(len(idx)):
            A = self.columns(idx)
            return to_host(self.container.wrap_array(A).cross_gram(A))
        Z = self.Z[idx]
        cross = self._base_correlations[idx] @ Z.T
        G = self.base.gram(idx) - cross - cross.T + Z @ (self.Y.T @ self.Y_dual) @ Z.T
        return (
            G
            if self._vanished_columns is None
            else G * ~self._vanished_columns[idx] * ~self._vanished_columns[idx][:, None]
        )

    @cached_property
    def _base_correlations(self) -> Array:
        """AᵀY, (n_features, j)."""
        return self.base.correlate(self.Y) if self.has_samples else self.Y_dual

    def take(self, idx: Array) -> Operator:
        """Some columns, the deflation carried out where they are dense."""
        if self.is_sparse:
            base = self.base.take(idx)
            return replace(self, base=base, Z=self.Z[idx], norms=self.norms[idx], counter=base.counter)
        if self.has_samples:
            held = self.container.wrap_array(self.columns(idx))
            return DataMatrix(held, take_rows(self.norms, idx), counter=self.counter_for_taken)
        return Covariance(self.gram(idx), self.counter)

    def with_column_cache(self) -> Operator:
        """With a memory of gathered columns, where there are samples."""
        return ColumnCache(self) if self.has_samples else self

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Some columns, the deflation carried out, and the way back."""
        if self.has_samples:
            return ColumnCache(self).restrict(idx)
        selector = self.columns(idx)  # coefficients of the deflated columns over all variables
        return ColumnRestriction(Covariance(self.gram(idx)), lambda U: selector @ U)


def deflate_other_units(operator: Operator, X: Array, C: Array, j: int) -> Operator:
    """Return the matrix less its part along all orthonormal units X but the j-th; C = AᵀX, (n_features, m)."""
    others = np.arange(X.shape[1]) != j
    Y, Z = X[:, asarray_like(X, others)], C[:, asarray_like(C, others)]
    whole = operator.column_norms.astype(np.float64) ** 2
    squares = whole - np.sum(Z.astype(np.float64) ** 2, axis=1)
    norms = np.sqrt(np.where(squares > 32 * operator.precision * whole, squares, 0.0)).astype(operator.dtype)
    return DeflatedOperator(operator, Y, operator.dual(Y), Z, norms, counter=operator.counter)


def deflate_sample_gram(deflated: Operator, base_gram: Array) -> Array:
    """The Gram matrix of samples of what is left, by that of the matrix that the components were removed from."""
    base, Y, _, Z = deflated.split_deflation()
    cross = to_host(base.combine(Z) @ Y.T)
    return base_gram - cross - cross.T + to_host(Y @ (Z.T @ Z) @ Y.T)


#: What a component takes with it: y in sample space, z, and the squared column norms that are left, with their noise.
DeflationUpdate = tuple[Array, Array, Array, float]


class DeflationRule(ABC):
    """How a component is removed before the next is looked for."""

    def remove(self, operator: Operator, z: Array) -> Operator:
        """The operator with the component of unit loadings z, (n_features,), removed; a zero z changes nothing."""
        change = self._compute_update(operator, z.astype(operator.dtype)[:, None]) if np.any(z) else None
        if change is None:
            return operator
        base, Y, D, Z = operator.split_deflation()
        y, t, squares, noise = change
        whole = base.column_norms.astype(np.float64) ** 2
        norms = np.sqrt(np.where(squares > noise * whole, squares, 0.0)).astype(operator.dtype)
        Y, D, Z = np.hstack([Y, y]), np.hstack([D, base.dual(y)]), np.hstack([Z, t])
        return DeflatedOperator(base, Y, D, Z, norms, counter=operator.counter)

    @abstractmethod
    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        """What removing z, (n_features, 1), changes; None where nothing but rounding would be removed."""

    @abstractmethod
    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """What m units see of the whole matrix, each of what the units before it leave, with one product.

        Parameters
        ----------
        operator : Operator
            Nothing removed yet.
        Z : ndarray of shape (n_features, m)
            Loadings that are removed, in this order.
        ends : ndarray of shape (n_features, m)
            Loadings whose scores are the directions at which the units look.

        Returns
        -------
        correlations : ndarray of shape (n_features, m)
            A_jᵀx_j, where A_j is what the loadings before j leave and x_j the unit vector along A_j·ends_j.
        norms : ndarray of shape (n_features, m)
            Of the columns of A_j, at least outside the loadings.
        """


class ProjectionDeflation(DeflationRule):
    """Nothing is left along z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        y = operator.combine(z)
        return y, z, *_compute_deflated_norms_sq(operator, y, z)

    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """A_j = A P₁…P_{j−1} with P = I − zzᵀ."""
        U, V = self._compute_removed_directions(Z), view_loadings.copy()
        m = U.shape[1]
        for i in range(m - 2, -1, -1):
            V[:, i + 1 :] -= U[:, [i]] @ (U[:, [i]].T @ V[:, i + 1 :])
        Y = operator.combine(V)
        C = operator.correlate(Y)
        C = C * asarray_like(C, safe_reciprocal(np.sqrt(np.maximum(operator.squared_norms(Y, C), 0))))
        for i in range(m - 1):
            C[:, i + 1 :] -= U[:, [i]] @ (U[:, [i]].T @ C[:, i + 1 :])
        return C, np.repeat(operator.column_norms[:, None], m, axis=1)

    def _compute_removed_directions(self, Z: Array) -> Array:
        """The directions that are removed."""
        return Z


class OrthogonalizedDeflation(ProjectionDeflation):
    """Nothing is left in the span of all z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        z = _orthogonalize_loadings(z, operator.split_deflation()[3])
        return super()._compute_update(operator, z) if z.any() else None

    def _compute_removed_directions(self, Z: Array) -> Array:
        U = Z.copy()
        for j in range(1, U.shape[1]):
            U[:, j : j + 1] = _orthogonalize_loadings(U[:, j : j + 1], U[:, :j])
        return U


class SchurDeflation(DeflationRule):
    """Nothing is left that is correlated with A z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        y = operator.combine(z)
        c = operator.correlate(y)
        norm = float(np.sqrt(max(float(operator.squared_norms(y, c)[0]), 0.0)))
        if norm <= operator.norm_tolerance:  # the earlier components explain it: what is left points anywhere
            return None
        t, y = c / norm, y / norm  # the removed part of column i is tᵢ long and orthogonal to the rest
        before = operator.column_norms.astype(np.float64) ** 2
        return y, t, *_recompute_cancelled_norms_sq(operator, y, t, before - t[:, 0].astype(np.float64) ** 2)

    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """A_j is A less its part along the scores before j, whose orthonormal basis is made of inner products alone."""
        m = Z.shape[1]
        T = Z if view_loadings is Z else np.hstack([Z, view_loadings])
        Y = operator.combine(T)
        C = operator.correlate(Y)
        G, least = np.asarray(operator.inner(Y, Y, C), np.float64), operator.norm_tolerance**2
        Q, X = np.zeros((T.shape[1], m)), np.zeros((T.shape[1], m))  # coefficients over Y
        for j in range(m):
            for basis, of in ((X, T.shape[1] - m + j), (Q, j)):
                basis[of, j] = 1.0
                for _ in range(2):
                    basis[:, j] -= Q[:, :j] @ (Q[:, :j].T @ (G @ basis[:, j]))
                square = float(basis[:, j] @ G @ basis[:, j])
                basis[:, j] *= square**-0.5 if square > least else 0.0
        removed = np.cumsum((C @ asarray_like(C, Q.astype(C.dtype))) ** 2, axis=1)
        squares = operator.column_norms[:, None] ** 2
        left = squares - np.hstack([0 * removed[:, :1], removed[:, :-1]])
        left = np.where(left > 32 * operator.precision * squares, left, 0)  # as in `remove`
        return C @ asarray_like(C, X.astype(C.dtype)), np.sqrt(left)


#: The rules by the words of the estimator.
DEFLATION_RULES: dict[str, DeflationRule] = {
    "projection": ProjectionDeflation(),
    "orthogonalized": OrthogonalizedDeflation(),
    "schur": SchurDeflation(),
}


def _orthogonalize_loadings(z: Array, Z: Array) -> Array:
    """z, (n, 1), less its part in the span of the orthonormal columns of Z, of unit length; zero if nothing is left."""
    for _ in range(2):  # twice is enough
        z = z - Z @ (Z.T @ z)
    length = float(np.sqrt(np.sum(z * z)))
    return z / length if length > 1e3 * np.finfo(z.dtype).eps else 0 * z


def _compute_deflated_norms_sq(operator: Operator, y: Array, z: Array) -> tuple[Array, float]:
    """Squared norms of A − y zᵀ, of which only columns with z ≠ 0 change, and the share of them that is rounding."""
    before = operator.column_norms.astype(np.float64) ** 2
    eps, t = operator.precision, z[:, 0].astype(np.float64)
    idx = np.flatnonzero(t) if isinstance(t, np.ndarray) else np.zeros(0, int)
    if operator.has_samples and 0 < idx.size <= t.size // 4 and not operator.is_remote:
        few = max(8, min(MAX_BLOCK_COLUMNS, MAX_BLOCK_ENTRIES // operator.shape[0]))
        for part in np.array_split(idx, idx.size // few + 1):
            before[part] = np.sum((operator.columns(part) - y @ z[part].T).astype(np.float64) ** 2, axis=0)
        return before, (128 * eps) ** 2
    c = operator.correlate(y)
    return _recompute_cancelled_norms_sq(
        operator, y, z, before - 2 * t * c[:, 0] + t**2 * float(operator.squared_norms(y, c)[0])
    )


def _recompute_cancelled_norms_sq(operator: Operator, y: Array, t: Array, norms_sq: Array) -> tuple[Array, float]:
    """Squared norms of A − y tᵀ, of those that cancellation leaves in doubt by the columns, and what is rounding."""
    whole, eps = operator.split_deflation()[0].column_norms.astype(np.float64) ** 2, operator.precision
    doubtful = to_host(np.flatnonzero((norms_sq <= 32 * eps * whole) & (whole > 0)))
    if (
        not operator.has_samples
        or operator.is_remote
        or is_device_array(y)
        or not 0 < doubtful.size <= MAX_BLOCK_COLUMNS
    ):
        return norms_sq, 32 * eps
    A = operator.columns(doubtful).astype(np.float64)
    norms_sq[doubtful] = np.sum((A - y.astype(np.float64) @ t[doubtful].astype(np.float64).T) ** 2, axis=0)
    return norms_sq, (128 * eps) ** 2
