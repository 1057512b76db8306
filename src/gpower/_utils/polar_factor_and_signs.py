"""Normal forms of the columns of an array: unit norm, the polar factor (orthonormal columns), and the sign convention.

The columns of an (n, m) array are called units, also when m = 1. The polar factor of Y is the U of Y = U P with
orthonormal columns and a positive semidefinite P; it maximises ⟨Y, X⟩ over all X with orthonormal columns. For large Y
it is found from the small Gram matrix YᵀY: a `Normalizer` contains the m × m matrix M of Y M = U. Unit norms are the
case of a diagonal M. The sign convention makes the largest entry of a column positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, asarray_like, safe_reciprocal


@dataclass(frozen=True)
class Normalizer:
    """Right multiplier M such that X = Y M maximises ⟨Y, X⟩, and the directions that it leaves free.

    All arrays are on the host; `apply` transfers M to the device of its argument.

    Attributes
    ----------
    multiplier : ndarray of shape (m,) or (m, m)
        The matrix M; one-dimensional if M is diagonal.
    free_directions : ndarray of shape (m, d)
        Orthonormal basis F of the directions of units in which Y vanishes: N Fᵀ, for N orthonormal and orthogonal to
        Y M, may be added to X without changing ⟨Y, X⟩.
    is_ill_conditioned : bool
        Whether Y M has lost digits and should be normalised once more; products normalised with Y have lost them too.
    """

    multiplier: Array
    free_directions: Array
    is_ill_conditioned: bool = False

    def apply(self, Y: Array, *, overwrite: bool = False) -> Array:
        """Compute Y M where Y is (host or device), for the normalised Y or for another array of m units, (any, m).

        With `overwrite` a diagonal M is multiplied into Y itself, which is returned.
        """
        multiplier = asarray_like(Y, self.multiplier)
        if multiplier.ndim > 1:
            return Y @ multiplier
        if overwrite:
            Y *= multiplier
            return Y
        return Y * multiplier


def make_column_normalizer(squared_norms: Array) -> Normalizer:
    """Return the diagonal M that scales each column of Y to unit norm, given the squared norms, (m,), on the host.

    A zero column stays zero; its unit is a free direction.
    """
    multiplier = safe_reciprocal(np.sqrt(np.maximum(squared_norms, 0)))
    return Normalizer(multiplier, np.eye(multiplier.size, dtype=multiplier.dtype)[:, multiplier == 0])


def make_polar_normalizer(gram: Array) -> Normalizer:
    """Return the M for which Y M is the polar factor of Y, given the m × m Gram matrix YᵀY on the host.

    If Y has rank r < m, Y M has rank r, and m − r directions are free: all of them, with M = 0, for Y = 0.

    Write Y = Ŷ D with unit columns Ŷ, whose Gram matrix V w Vᵀ is well scaled even if one unit is nearly zero. With
    Q = Ŷ V w^{-1/2} orthonormal, Y = Q B for a small B, and polar(Y) = Q polar(B) [JNRS10, proposition on linear
    maximisation over the Stiefel manifold].
    """
    if gram.size == 1:
        return _make_unit_normalizer(gram)
    w, V = np.linalg.eigh(gram)
    if w[0] > 1e-3 * w[-1]:  # the common case: Y (YᵀY)^{-1/2}
        return Normalizer((V / np.sqrt(w)) @ V.T, V[:, :0])
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0))  # (m,)
    norms = np.where(norms > 64 * np.finfo(norms.dtype).eps * norms.max(), norms, 0)  # smaller norms are rounding
    inverse = safe_reciprocal(norms)
    w, V = np.linalg.eigh(inverse[:, None] * gram * inverse)
    nonzero = w > 1e3 * np.finfo(w.dtype).eps * max(w[-1], 1.0)
    is_tiny = (norms > 0) & (norms < 1e-6 * norms.max())  # units that cancellation has almost removed
    is_ill_conditioned = bool(np.any(w[nonzero] < 1e-4) or np.any(is_tiny))
    w, V = np.sqrt(w[nonzero]), V[:, nonzero]  # (r,), (m, r)
    U, s, Wt = np.linalg.svd((w[:, None] * V.T) * norms)  # B = w Vᵀ D, (r, m)
    rank = s.size
    M = inverse[:, None] * (V / w) @ (U @ Wt[:rank])
    return Normalizer(M, Wt[rank:].T, is_ill_conditioned)


def _make_unit_normalizer(gram: Array) -> Normalizer:
    """Return the M that divides one unit by its norm, given its square, (1, 1); scalar code, for inner loops."""
    square = float(gram[0, 0])
    if square > 0:
        return Normalizer(np.array([square**-0.5], gram.dtype), gram[:, :0])
    return Normalizer(np.zeros(1, gram.dtype), np.ones((1, 1), gram.dtype))


def polar_factor(Y: Array) -> Array:
    """Compute the orthonormal factor U of Y = U P, the maximiser of ⟨Y, X⟩ over matrices with orthonormal columns.

    Y, (p, m) with p ≥ m, is on the host. If it is rank deficient, the missing directions come from the first coordinate
    vectors, so that U always has orthonormal columns.

    Examples
    --------
    >>> import numpy as np
    >>> polar_factor(np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    U, s, Wt = np.linalg.svd(Y, full_matrices=False)  # (p, m), (m,), (m, m)
    rank = int(np.sum(s > Y.shape[0] * np.finfo(Y.dtype).eps * max(s[0], np.finfo(Y.dtype).tiny)))
    if rank < Y.shape[1]:
        Q, _ = np.linalg.qr(np.hstack([U[:, :rank], np.eye(*Y.shape, dtype=Y.dtype)]))
        U = np.hstack([U[:, :rank], Q[:, rank : Y.shape[1]]])
    return np.asarray(U @ Wt)


def orient(Z: Array) -> Array:
    """Return Z with the sign of each column such that its largest absolute entry is positive; for ties, the first.

    Z, (n, m) with n > 0, is on the host or a device; it is not changed. Zero columns stay zero; no zero is negative.

    Examples
    --------
    >>> import numpy as np
    >>> orient(np.array([[0.6], [-0.8]])).ravel()
    array([-0.6,  0.8])
    """
    magnitude = np.abs(Z)
    first = np.argmax(magnitude >= np.max(magnitude, axis=0) * (1 - 1e-6), axis=0)[None]  # ties up to rounding
    largest = np.take_along_axis(Z, first, axis=0)  # (1, m)
    return np.where(largest < 0, -Z, Z) + 0.0
