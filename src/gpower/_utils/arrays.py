"""Small dense linear algebra shared by every floor: the polar factor, the sign convention, and where arrays live.

Shapes: an (n, m) array holds m units side by side, also when m = 1. Nothing here is larger than m × m
apart from what the caller already holds.

An array on a device (CuPy) answers NumPy's own functions, so that the same code serves both. The rule of the house:
what has a length of n_samples or n_features lives where the data live; what has the length of a working set, or of
the components, lives on the host. `beside` and `to_host` are the two crossings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Where random numbers come from.
Seed = int | np.random.RandomState | None


def is_device_array(x: object) -> bool:
    """Whether x is an array on a device: one that answers NumPy's functions without being NumPy's."""
    return not isinstance(x, np.ndarray) and hasattr(x, "__array_function__") and hasattr(x, "get")


def get_package_name(x: object) -> str:
    """The package that the class of x is from, which need not be imported to know it."""
    return type(x).__module__.partition(".")[0]


def to_host(x: Any) -> Array:
    """A small array as NumPy's own."""
    return np.asarray(x.get()) if is_device_array(x) else np.asarray(x)


def asarray_like(x: Array, values: Array) -> Array:
    """A small array where x is."""
    return values if isinstance(x, np.ndarray) or not isinstance(values, np.ndarray) else np.asarray(values, like=x)


def take_rows(x: Array, idx: Array) -> Array:
    """x[idx], for indices on the host."""
    return x[asarray_like(x, idx)]


def max_or_zero(values: Array) -> float:
    """The largest of non-negative values; zero where there are none."""
    return float(values.max()) if values.size else 0.0


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
        Y M has lost digits and wants to be normalised once more; what was carried along with Y has lost them too.
    """

    multiplier: Array
    free_directions: Array
    is_ill_conditioned: bool = False

    def apply(self, Y: Array) -> Array:
        """Y M, for Y of shape (anything, m)."""
        multiplier = asarray_like(Y, self.multiplier)
        return Y * multiplier if multiplier.ndim == 1 else Y @ multiplier


def safe_reciprocal(values: Array) -> Array:
    """1/values where values > 0, and 0 elsewhere."""
    if not isinstance(values, np.ndarray):
        return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0)
    out = np.zeros_like(values)
    np.divide(1.0, values, out=out, where=values > 0)
    return out


def make_column_normalizer(squared_norms: Array) -> Normalizer:
    """The M that scales each column of Y to unit norm, from the squared norms, (m,)."""
    multiplier = safe_reciprocal(np.sqrt(np.maximum(squared_norms, 0)))
    return Normalizer(multiplier, np.eye(multiplier.size, dtype=multiplier.dtype)[:, multiplier == 0])


def make_polar_normalizer(gram: Array) -> Normalizer:
    """The M for which Y M is the polar factor of Y, from the m × m Gram matrix YᵀY alone.

    Y = Ŷ D with unit columns Ŷ, whose Gram matrix V w Vᵀ is well scaled even where one unit is nearly
    dead. With Q = Ŷ V w^{-1/2} orthonormal, Y = Q B for a small B, and polar(Y) = Q polar(B)
    [JNRS10, proposition on linear maximisation over the Stiefel manifold].
    """
    if gram.size == 1:
        return _make_unit_normalizer(gram)
    w, V = np.linalg.eigh(gram)
    if w[0] > 1e-3 * w[-1]:  # the common case: Y (YᵀY)^{-1/2}
        return Normalizer((V / np.sqrt(w)) @ V.T, V[:, :0])
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0))  # (m,)
    norms = np.where(norms > 64 * np.finfo(norms.dtype).eps * norms.max(), norms, 0)  # what is less is rounding
    inverse = safe_reciprocal(norms)
    w, V = np.linalg.eigh(inverse[:, None] * gram * inverse)
    kept = w > 1e3 * np.finfo(w.dtype).eps * max(w[-1], 1.0)
    faint = (norms > 0) & (norms < 1e-6 * norms.max())  # units that cancellation has left little of
    ill_conditioned = bool(np.any(w[kept] < 1e-4) or np.any(faint))
    w, V = np.sqrt(w[kept]), V[:, kept]  # (r,), (m, r)
    U, s, Wt = np.linalg.svd((w[:, None] * V.T) * norms)  # B = w Vᵀ D, (r, m)
    rank = s.size
    M = inverse[:, None] * (V / w) @ (U @ Wt[:rank])
    return Normalizer(M, Wt[rank:].T, ill_conditioned)


def _make_unit_normalizer(gram: Array) -> Normalizer:
    """One unit: division by its norm. The inner loops live here, hence no array arithmetic."""
    square = float(gram[0, 0])
    if square > 0:
        return Normalizer(np.array([square**-0.5], gram.dtype), gram[:, :0])
    return Normalizer(np.zeros(1, gram.dtype), np.ones((1, 1), gram.dtype))


def column_dots(X: Array, Y: Array) -> Array:
    """Inner products of corresponding columns, (m,), on the host."""
    if X.shape[1] == 1:
        return np.array([float(X[:, 0] @ Y[:, 0])], X.dtype)
    return column_sums(X * Y)


def column_sums(X: Array) -> Array:
    """Sums of the columns, (m,), on the host."""
    return np.add.reduce(X, axis=0) if isinstance(X, np.ndarray) else to_host(X.sum(axis=0))


def polar_factor(Y: Array) -> Array:
    """Orthonormal factor U of Y = U P, the maximiser of ⟨Y, X⟩ over matrices with orthonormal columns.

    Where Y is rank deficient the missing directions are taken from the first coordinates.

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
    """Z with the sign of each column chosen so that its largest absolute entry is positive; of equal ones the first.

    Examples
    --------
    >>> import numpy as np
    >>> orient(np.array([[0.6], [-0.8]])).ravel()
    array([-0.6,  0.8])
    """
    size = np.abs(Z)
    first = np.argmax(size >= np.max(size, axis=0) * (1 - 1e-6), axis=0)[None]  # rounding does not choose
    largest = np.take_along_axis(Z, first, axis=0)  # (1, m)
    return np.where(largest < 0, -Z, Z) + 0.0


def embed_rows(Z: Array, idx: Array, n_rows: int, like: Array | None = None) -> Array:
    """An array of n rows with Z at rows `idx` and zero elsewhere; where `like` is, if that is given."""
    like = Z if like is None else like
    whole = np.zeros_like(like, dtype=Z.dtype, shape=(n_rows, Z.shape[1]))
    whole[asarray_like(like, idx)] = asarray_like(like, Z)
    return whole


def pad_columns(Z: Array, n_columns: int) -> Array:
    """The first m columns of Z, zeros where it has fewer."""
    return np.pad(Z[:, :n_columns], ((0, 0), (0, max(n_columns - Z.shape[1], 0))))


def stable_argmax(values: Array) -> int:
    """Index of the largest value; among values that are equal but for rounding the first one."""
    rounding = min(1e4 * float(np.finfo(values.dtype).eps), 1e-5)
    most = np.max(values)
    return int(np.argmax(values >= most - rounding * np.abs(most)))


def normalize_columns(Z: Array) -> Array:
    """Z with non-zero columns scaled to unit norm; zero columns stay zero, and no zero is negative."""
    return Z * asarray_like(Z, safe_reciprocal(np.sqrt(column_sums(Z * Z)))) + 0.0


def apply_soft_threshold(c: Array, level: float) -> Array:
    """Soft thresholding, sign(c)(|c| − level)₊."""
    return np.sign(c) * np.maximum(np.abs(c) - level, 0)
