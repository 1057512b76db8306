"""Small dense linear algebra shared by every floor: the polar factor and the sign convention.

Shapes: an (n, m) array holds m units side by side, also when m = 1. Nothing here is larger than m × m
apart from what the caller already holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Normalizer:
    """Right multiplier M that makes Y M the maximiser of ⟨Y, X⟩, and the directions it leaves free.

    Attributes
    ----------
    multiplier : ndarray of shape (m,) or (m, m)
        One-dimensional for a diagonal M.
    free : ndarray of shape (m, d)
        Orthonormal basis of the units' directions in which Y vanishes: any X N freeᵀ with N orthonormal
        and orthogonal to Y M may be added without changing ⟨Y, X⟩.
    ill_conditioned : bool
        Y M has lost digits and wants to be normalised once more.
    """

    multiplier: Array
    free: Array
    ill_conditioned: bool = False

    def apply(self, Y: Array) -> Array:
        """Y M, for Y of shape (anything, m)."""
        return Y * self.multiplier if self.multiplier.ndim == 1 else Y @ self.multiplier


def reciprocal(values: Array) -> Array:
    """1/values where values > 0, and 0 elsewhere."""
    out = np.zeros_like(values)
    np.divide(1.0, values, out=out, where=values > 0)
    return out


def column_normalizer(squared_norms: Array) -> Normalizer:
    """The M that scales each column of Y to unit norm, from the squared norms, (m,)."""
    multiplier = reciprocal(np.sqrt(np.maximum(squared_norms, 0)))
    return Normalizer(multiplier, np.eye(multiplier.size, dtype=multiplier.dtype)[:, multiplier == 0])


def polar_normalizer(gram: Array) -> Normalizer:
    """The M for which Y M is the polar factor of Y, from the m × m Gram matrix YᵀY alone.

    Y = Ŷ D with unit columns Ŷ, whose Gram matrix V w Vᵀ is well scaled even where one unit is nearly
    dead. With Q = Ŷ V w^{-1/2} orthonormal, Y = Q B for a small B, and polar(Y) = Q polar(B)
    [JNRS10, proposition on linear maximisation over the Stiefel manifold].
    """
    if gram.size == 1:
        return _unit_normalizer(gram)
    w, V = np.linalg.eigh(gram)
    if w[0] > 1e-3 * w[-1]:  # the common case: Y (YᵀY)^{-1/2}
        return Normalizer((V / np.sqrt(w)) @ V.T, V[:, :0])
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0))  # (m,)
    inverse = reciprocal(norms)
    w, V = np.linalg.eigh(inverse[:, None] * gram * inverse)
    kept = w > 1e3 * np.finfo(w.dtype).eps * max(w[-1], 1.0)
    ill_conditioned = bool(np.any(w[kept] < 1e-4))
    w, V = np.sqrt(w[kept]), V[:, kept]  # (r,), (m, r)
    U, s, Wt = np.linalg.svd((w[:, None] * V.T) * norms)  # B = w Vᵀ D, (r, m)
    rank = s.size
    M = inverse[:, None] * (V / w) @ (U @ Wt[:rank])
    return Normalizer(M, Wt[rank:].T, ill_conditioned)


def _unit_normalizer(gram: Array) -> Normalizer:
    """One unit: division by its norm. The inner loops live here, hence no array arithmetic."""
    square = float(gram[0, 0])
    if square > 0:
        return Normalizer(np.array([square**-0.5], gram.dtype), gram[:, :0])
    return Normalizer(np.zeros(1, gram.dtype), np.ones((1, 1), gram.dtype))


def column_dots(X: Array, Y: Array) -> Array:
    """Inner products of corresponding columns, (m,)."""
    if X.shape[1] == 1:
        return np.array([X[:, 0] @ Y[:, 0]], X.dtype)
    return np.add.reduce(X * Y, axis=0)


def polar(Y: Array) -> Array:
    """Orthonormal factor U of Y = U P, the maximiser of ⟨Y, X⟩ over matrices with orthonormal columns.

    Where Y is rank deficient the missing directions are taken from the first coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> polar(np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
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
    """Z with the sign of each column chosen so that its largest absolute entry is positive.

    Examples
    --------
    >>> import numpy as np
    >>> orient(np.array([[0.6], [-0.8]])).ravel()
    array([-0.6,  0.8])
    """
    largest = np.take_along_axis(Z, np.argmax(np.abs(Z), axis=0)[None], axis=0)  # (1, m)
    return np.where(largest < 0, -Z, Z) + 0.0


def embedded(Z: Array, idx: Array, n: int) -> Array:
    """An array of n rows with Z at rows `idx` and zero elsewhere."""
    whole = np.zeros((n, Z.shape[1]), Z.dtype)
    whole[idx] = Z
    return whole


def first_largest(values: Array) -> int:
    """Index of the largest value; among values that are equal but for rounding the first one."""
    return int(np.argmax(values >= np.max(values) * (1 - 1e4 * np.finfo(values.dtype).eps)))


def unit_columns(Z: Array) -> Array:
    """Z with non-zero columns scaled to unit norm; zero columns stay zero, and no zero is negative."""
    return Z * reciprocal(np.sqrt(np.sum(Z * Z, axis=0))) + 0.0
