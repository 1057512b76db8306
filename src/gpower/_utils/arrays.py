"""Small dense linear algebra for all layers: polar factor, sign convention, and transfer between host and device.

The columns of an (n, m) array are m units, also when m = 1. Apart from arrays of the size of the arguments, no array
here is larger than m × m.

NumPy's own functions dispatch to arrays on a device (CuPy), so the same code works on both. Arrays of length n_samples
or n_features stay where the data are; arrays of the length of a working set, or of the components, are on the host.
Only `asarray_like` and `to_host` transfer arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Seed or generator of random numbers.
Seed = int | np.random.RandomState | None


def is_device_array(x: object) -> bool:
    """Return whether x is an array on a device: not a NumPy array, but one to which NumPy's functions dispatch."""
    return not isinstance(x, np.ndarray) and hasattr(x, "__array_function__") and hasattr(x, "get")


def get_package_name(x: object) -> str:
    """Return the name of the package that defines the class of x, without importing it."""
    return type(x).__module__.partition(".")[0]


def to_host(x: Any) -> Array:
    """Return a small array, on the host or a device, as a NumPy array of the same dtype."""
    return np.asarray(x.get()) if is_device_array(x) else np.asarray(x)


def asarray_like(x: Array, values: Array) -> Array:
    """Return a small array where x is, in its own dtype; shape and dtype of x do not matter.

    Only a transfer from the host to a device happens: a device array stays on its device even if x is on the host.
    """
    return values if isinstance(x, np.ndarray) or not isinstance(values, np.ndarray) else np.asarray(values, like=x)


def take_rows(x: Array, idx: Array) -> Array:
    """Return a copy of the rows x[idx], where x is (host or device); `idx` are indices, or a mask, on the host."""
    return x[asarray_like(x, idx)]


def max_or_zero(values: Array) -> float:
    """Return the largest of non-negative values, or zero for an empty array."""
    return float(values.max()) if values.size else 0.0


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

    def apply(self, Y: Array) -> Array:
        """Compute Y M where Y is (host or device), for the normalised Y or for another array of m units, (any, m)."""
        multiplier = asarray_like(Y, self.multiplier)
        return Y * multiplier if multiplier.ndim == 1 else Y @ multiplier


def safe_reciprocal(values: Array) -> Array:
    """Compute 1/values where values > 0, and 0 elsewhere, without warnings; for floats on the host or a device."""
    if not isinstance(values, np.ndarray):
        return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0)
    out = np.zeros_like(values)
    np.divide(1.0, values, out=out, where=values > 0)
    return out


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


def column_dots(X: Array, Y: Array) -> Array:
    """Compute the inner products of corresponding columns of two (n, m) arrays, (m,), on the host."""
    if X.shape[1] == 1:
        return np.array([float(X[:, 0] @ Y[:, 0])], X.dtype)
    return column_sums(X * Y)


def column_sums(X: Array) -> Array:
    """Compute the sums of the columns of X, (n, m), on the host or a device; the result, (m,), is on the host."""
    return np.add.reduce(X, axis=0) if isinstance(X, np.ndarray) else to_host(X.sum(axis=0))


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


def embed_rows(Z: Array, idx: Array, n_rows: int, like: Array | None = None) -> Array:
    """Return an array of `n_rows` rows with Z at rows `idx` and zero elsewhere, on the device of `like` if given.

    Parameters
    ----------
    Z : ndarray of shape (|idx|, m)
        On the host or where `like` is; the result has its dtype.
    idx : ndarray of int
        Row indices, on the host.
    n_rows : int
    like : ndarray, optional
        Array whose place, host or device, the result has; its shape and dtype do not matter. By default Z.
    """
    like = Z if like is None else like
    embedded = np.zeros_like(like, dtype=Z.dtype, shape=(n_rows, Z.shape[1]))
    embedded[asarray_like(like, idx)] = asarray_like(like, Z)
    return embedded


def pad_columns(Z: Array, n_columns: int) -> Array:
    """Return the first `n_columns` columns of Z, (n, m), padded with zero columns if it has fewer."""
    return np.pad(Z[:, :n_columns], ((0, 0), (0, max(n_columns - Z.shape[1], 0))))


def stable_argmax(values: Array) -> int:
    """Return the index of the largest value, or of the first among values that are equal up to rounding.

    The values, floats of shape (n,) with n > 0, are on the host or a device.
    """
    tolerance = min(1e4 * float(np.finfo(values.dtype).eps), 1e-5)
    largest = np.max(values)
    return int(np.argmax(values >= largest - tolerance * np.abs(largest)))


def normalize_columns(Z: Array) -> Array:
    """Return Z, (n, m), with non-zero columns of unit norm; zero columns stay zero, and no zero is negative."""
    return Z * asarray_like(Z, safe_reciprocal(np.sqrt(column_sums(Z * Z)))) + 0.0


def apply_soft_threshold(c: Array, level: float) -> Array:
    """Compute sign(c)(|c| − level)₊ entry by entry, for c of any shape."""
    return np.sign(c) * np.maximum(np.abs(c) - level, 0)
