"""Rules for removing a component from a matrix before the next one is sought.

Each rule is a low-rank change A − Y Zᵀ, represented by `gpower.operators.deflated.DeflatedOperator` for data and for
covariances alike.

=================== ============================================== ==============================
rule                change                                          what is left
=================== ============================================== ==============================
``projection``      A − (A z)zᵀ [JNRS10, section 4.4]               nothing along z
``orthogonalized``  A − (A q)qᵀ, q is z orthogonalised against      nothing in the span of all z
                    the earlier loadings
``schur``           A − x(Aᵀx)ᵀ, x = A z/‖A z‖                      nothing correlated with A z
=================== ============================================== ==============================

The projection leaves variance along earlier loadings once loadings overlap; the orthogonalised projection does not.
Schur deflation works on the samples: what is left is uncorrelated with the earlier scores. All three keep AᵀA positive
semidefinite.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`: ``combine(Z)`` is A Z for Z of shape
(n, m), ``correlate(Y)`` is AᵀY, ``inner(X, Y, C)`` is XᵀY and ``squared_norms(Y, C)`` its diagonal for X = Y, both on
the host, with C = AᵀY. Y and X, (p, m), are sample-space vectors; of a covariance AᵀA, which has p = n and no samples,
they are coefficients u of vectors A u. Z, (n, m), are loadings. Y, Z and C are where the matrix is, on the host or a
device, in its dtype.

``asarray_like(x, values)`` is a host array `values` where x is, in its own dtype; ``to_host(x)`` is x as a NumPy array;
``is_device_array`` tells where an array is; ``safe_reciprocal`` is 1/x, and 0 for x = 0. ``operator.column_norms``,
(n,), are the ‖aᵢ‖ where the matrix is, in its dtype. ``norm_tolerance`` is the norm up to which a vector is rounding
error, and ``precision`` the relative rounding error of a product. ``columns(idx)`` are columns of A as sample-space
vectors, (p, |idx|), a new array. ``dual(Y)`` is the D with YᵀX = DᵀX for every X. ``has_samples`` is false for a
covariance. ``is_remote`` tells that a read of the whole matrix is slow (disk, cluster). ``counter`` counts the reads.
``split_deflation()`` gives ``base``, the operator before any deflation, and what was subtracted from it, Y Zᵀ: ``Y``
and ``Y_dual``, (p, j), ``Z``, (n, j), with j = 0 before the first deflation. `DeflatedOperator` is A − Y Zᵀ with given
norms; columns of norm zero are zero in all of its products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, asarray_like, is_device_array, safe_reciprocal, to_host
from gpower.operators.base import Operator
from gpower.operators.deflated import MAX_BLOCK_COLUMNS, DeflatedOperator

#: Multiple of the precision: share of a squared norm up to which a difference of squares is rounding error.
SQUARE_ROUNDING_FACTOR = 32
#: Multiple of the precision: share of a norm up to which the norm of a difference of columns is rounding error.
COLUMN_ROUNDING_FACTOR = 128
#: Multiple of the machine precision: length up to which a unit vector, orthogonalised, is rounding error.
ORTHOGONAL_ROUNDING_FACTOR = 1e3


class DeflationUpdate(NamedTuple):
    """The rank-one change y zᵀ of a deflation.

    y is one sample-space vector in the representation of the operator: (n_samples, 1), or coefficients (n, 1) of a
    covariance. z, (n, 1), is the removed direction: loadings, or for `SchurDeflation` the correlations Aᵀx. `c`, (n,
    1), are the correlations Aᵀy. All are where the matrix is, in its dtype.
    """

    y: Array
    z: Array
    c: Array


class DeflationRule(ABC):
    """Rule for removing a component from a matrix."""

    def remove(self, operator: Operator, z: Array) -> Operator:
        """Return the operator without the component of unit loadings z, (n_features,); a zero z changes nothing.

        z is in the memory of the matrix, of any floating dtype, and of unit length: a projection with a longer z would
        remove too much. `operator` may be deflated already, by this rule. If only rounding error would be removed,
        `operator` itself is returned. Columns of which only rounding error is left get the norm zero, and then
        correlate with nothing. The result shares the pass counter of `operator` but not its column cache.
        """
        update = self._compute_update(operator, z.astype(operator.dtype)[:, None]) if np.any(z) else None
        if update is None:
            return operator
        base, Y, Y_dual, Z = operator.split_deflation()
        norms = _compute_remaining_norms(operator, update)
        return DeflatedOperator(
            base,
            np.hstack([Y, update.y]),
            np.hstack([Y_dual, base.dual(update.y)]),
            np.hstack([Z, update.z]),
            norms,
            counter=operator.counter,
        )

    @abstractmethod
    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        """Compute the change that removes z, (n_features, 1); None where only rounding error would be removed.

        z has unit length and the dtype of the operator, which may be deflated already.
        """

    @abstractmethod
    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """Compute the correlations of m components with all columns, each on its deflated matrix, in one product.

        Parameters
        ----------
        operator : Operator
            The matrix before any deflation.
        Z : ndarray of shape (n_features, m)
            Loadings that are removed, in this order: unit or zero columns of the dtype of the operator, in the memory
            of the matrix, as is `view_loadings`.
        view_loadings : ndarray of shape (n_features, m)
            Loadings whose scores are the directions that are correlated with the columns. Pass the object Z itself if
            they are the same: Schur deflation then multiplies half as many columns.

        Returns
        -------
        correlations : ndarray of shape (n_features, m)
            A_jᵀx_j, where A_j is the matrix without the components before j and x_j the unit vector along A_j v_j,
            v_j being column j of `view_loadings`; zero if A_j v_j is zero. Where the matrix is, in its dtype, a new
            array.
        norms : ndarray of shape (n_features, m)
            Norms of the columns of A_j, exact at least outside the supports of Z; where the matrix is.
        """


class ProjectionDeflation(DeflationRule):
    """Deflation that leaves nothing along z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        """Compute the change −(A z)zᵀ for z of shape (n_features, 1) and unit length; never None."""
        y = operator.combine(z)
        return DeflationUpdate(y, z, operator.correlate(y))

    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """Compute the correlations with A_j = A P₁…P_{j−1}, where Pᵢ = I − zᵢzᵢᵀ for column i of Z.

        Column j of `view_loadings` defines the direction on A_j. The norms are those of A itself: the projections do
        not change columns outside the supports of Z.
        """
        U, V = self._compute_removed_directions(Z), view_loadings.copy()
        m = U.shape[1]
        # A_j v_j = A (P₁…P_{j−1} v_j): apply the projections to v_j, the last one first, then multiply by A once.
        for i in range(m - 2, -1, -1):
            V[:, i + 1 :] -= U[:, [i]] @ (U[:, [i]].T @ V[:, i + 1 :])
        Y = operator.combine(V)
        C = operator.correlate(Y)
        # `squared_norms` returns (m,) on the host.
        C = C * asarray_like(C, safe_reciprocal(np.sqrt(np.maximum(operator.squared_norms(Y, C), 0))))
        for i in range(m - 1):
            C[:, i + 1 :] -= U[:, [i]] @ (U[:, [i]].T @ C[:, i + 1 :])
        return C, np.repeat(operator.column_norms[:, None], m, axis=1)

    def _compute_removed_directions(self, Z: Array) -> Array:
        """Return the directions, (n_features, m), unit or zero, that are projected out in turn: here Z itself."""
        return Z


class OrthogonalizedDeflation(ProjectionDeflation):
    """Deflation that leaves nothing in the span of all z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        """Compute the change −(A q)qᵀ, where q is z, (n_features, 1), without its part in the removed directions.

        q has unit length. The result is None if the directions that were removed span z.
        """
        # The directions removed so far are orthonormal, provided that this rule removed them all.
        z = _orthogonalize_loadings(z, operator.split_deflation()[3])
        return super()._compute_update(operator, z) if z.any() else None

    def _compute_removed_directions(self, Z: Array) -> Array:
        """Return the columns of Z, (n_features, m), each orthogonalised against those before it; unit or zero."""
        U = Z.copy()
        for j in range(1, U.shape[1]):
            U[:, j : j + 1] = _orthogonalize_loadings(U[:, j : j + 1], U[:, :j])
        return U


class SchurDeflation(DeflationRule):
    """Deflation that leaves nothing correlated with A z."""

    def _compute_update(self, operator: Operator, z: Array) -> DeflationUpdate | None:
        """Compute the change −x(Aᵀx)ᵀ, where x is A z normalised, for z of shape (n_features, 1).

        The result is None if A z is rounding error.
        """
        y = operator.combine(z)
        c = operator.correlate(y)
        norm = float(np.sqrt(max(float(operator.squared_norms(y, c)[0]), 0.0)))
        if norm <= operator.norm_tolerance:  # only rounding error is left: its direction is arbitrary
            return None
        return DeflationUpdate(y / norm, c / norm, c / norm)

    def deflated_correlations(self, operator: Operator, Z: Array, view_loadings: Array) -> tuple[Array, Array]:
        """Compute the correlations with A_j, the matrix without its part along the scores of the columns of Z before j.

        Column j of `view_loadings` defines the direction on A_j.

        The orthonormal basis of the scores is built from their inner products alone, on the host in float64. A score
        that the earlier ones explain up to rounding gets zero coefficients. Correlations, the first result, and norms,
        the second, are (n_features, m), where the matrix is.
        """
        m = Z.shape[1]
        # The last m columns of T are always the view loadings: scores of Z fill Q, scores of the view fill X.
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
        left = np.where(left > SQUARE_ROUNDING_FACTOR * operator.precision * squares, left, 0)  # as in `remove`
        return C @ asarray_like(C, X.astype(C.dtype)), np.sqrt(left)


#: Deflation rules by the value of the parameter ``deflation``.
DEFLATION_RULES: dict[str, DeflationRule] = {
    "projection": ProjectionDeflation(),
    "orthogonalized": OrthogonalizedDeflation(),
    "schur": SchurDeflation(),
}


def _orthogonalize_loadings(z: Array, Z: Array) -> Array:
    """Return z, (n, 1), orthogonalised against the columns of Z, (n, j), of unit length; zero if only rounding is left.

    The columns of Z are orthonormal or zero, and z has unit length or is zero. Both are where the matrix is; z is not
    changed.
    """
    for _ in range(2):  # once more removes what rounding left
        z = z - Z @ (Z.T @ z)
    length = float(np.sqrt(np.sum(z * z)))
    return z / length if length > ORTHOGONAL_ROUNDING_FACTOR * np.finfo(z.dtype).eps else 0 * z


def _compute_remaining_norms(operator: Operator, update: DeflationUpdate) -> Array:
    """Compute the column norms of A − y zᵀ, (n,), in the memory and dtype of the matrix; zero where rounding is left.

    Squares of differences are expanded. Where cancellation left few correct digits, the norms are computed again from
    the columns, unless the matrix has no samples, is remote or on a device, or more than MAX_BLOCK_COLUMNS columns are
    concerned: then such norms are rounding error. A share of the squared norms before any deflation tells.
    """
    original_sq = operator.split_deflation()[0].column_norms.astype(np.float64) ** 2
    y_sq = float(operator.squared_norms(update.y, update.c)[0])
    z, c = (each[:, 0].astype(np.float64) for each in (update.z, update.c))
    norms_sq = operator.column_norms.astype(np.float64) ** 2 - 2 * z * c + z**2 * y_sq
    rounding_share = SQUARE_ROUNDING_FACTOR * operator.precision
    cancelled = to_host(np.flatnonzero((norms_sq <= rounding_share * original_sq) & (original_sq > 0)))
    has_cheap_columns = operator.has_samples and not operator.is_remote and not is_device_array(update.y)
    if has_cheap_columns and 0 < cancelled.size <= MAX_BLOCK_COLUMNS:
        removed = update.y.astype(np.float64) @ update.z[cancelled].astype(np.float64).T
        norms_sq[cancelled] = np.sum((operator.columns(cancelled).astype(np.float64) - removed) ** 2, axis=0)
        rounding_share = (COLUMN_ROUNDING_FACTOR * operator.precision) ** 2
    return np.sqrt(np.where(norms_sq > rounding_share * original_sq, norms_sq, 0.0)).astype(operator.dtype)
