"""Samples seen through loadings, how much of their variance those explain, and how sparse they are.

Components of sparse loadings are correlated, so their variances do not add up. The adjusted variance
[Zou, Hastie and Tibshirani 2006] counts of each component only the part that the earlier ones leave: the
squared diagonal of R in the QR factorisation of the scores A Z. It depends on the order; here components
are taken by decreasing variance of their scores.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, is_device, to_host
from gpower.operators import Operator, Table, container_of


def project(X: Table, Z: Array, mean: Array, scale: Array) -> Array:
    """Scores (X − mean)/scale @ Z, dense or sparse X, reading only the variables in use.

    Parameters
    ----------
    X : ndarray, sparse matrix or container of shape (n_samples, n_features)
    Z : ndarray of shape (n_features, m)
    mean, scale : ndarray of shape (n_features,)
    """
    return container_of(X).project((Z / scale[:, None]).astype(X.dtype), mean.astype(X.dtype))


def total_variance(X: Table, mean: Array, scale: Array) -> float:
    """‖(X − mean)/scale‖², entry by entry."""
    return float(np.sum((container_of(X).deviation_norms(mean) / scale) ** 2))


def share_inside(X: Table, Z: Array, mean: Array, scale: Array, total: float | None = None) -> float:
    """Share of the variance of X about `mean` inside the span of Z, between 0 and 1."""
    total = total_variance(X, mean, scale) if total is None else total
    return captured_variance(_products(project(X, Z, mean, scale)), Z) / total if total > 0 else 0.0


def score_gram(operator: Operator, Z: Array) -> Array:
    """(A Z)ᵀ(A Z), (m, m) in float64."""
    Y = operator.combine(Z.astype(operator.dtype))
    if operator.has_samples:
        return _products(Y)
    return np.asarray(operator.inner(Y, Y, operator.correlate(Y)), np.float64)


def _products(scores: Array) -> Array:
    """Sums of squares and products of scores, in float64."""
    scores = scores.astype(np.float64) if is_device(scores) else np.asarray(scores, np.float64)
    return to_host(scores.T @ scores)


def adjusted_variances(gram: Array, dependent: float = 1e-12, *, in_order: bool = False) -> Array:
    """Adjusted variance of each component, (m,), from the Gram matrix of the scores.

    Components are taken by decreasing variance or, with `in_order`, as they stand. What is left of one below
    `dependent` times the largest variance is rounding, and counts as nothing.

    Examples
    --------
    Two identical components explain no more than one.

    >>> import numpy as np
    >>> adjusted_variances(np.array([[4.0, 4.0], [4.0, 4.0]]))
    array([4., 0.])

    The order counts where components are correlated.

    >>> gram = np.array([[1.0, 1.0], [1.0, 5.0]])
    >>> adjusted_variances(gram), adjusted_variances(gram, in_order=True)
    (array([0.8, 5. ]), array([1., 4.]))
    """
    own = np.diagonal(gram)
    largest = float(own.max(initial=0))
    key = np.zeros(own.size) if in_order or largest <= 0 else -np.round(own / largest, 10)
    order = np.argsort(key, kind="stable")
    left, adjusted = gram.astype(np.float64), np.zeros(own.size)
    for j in order:  # Cholesky elimination; a score that the earlier ones span is not eliminated with
        if left[j, j] > dependent * largest:
            adjusted[j] = left[j, j]
            left = left - np.outer(left[:, j], left[j] / left[j, j])
    return adjusted


def cosines(gram: Array) -> Array:
    """A Gram matrix, (..., m, m), over the lengths of its vectors: their cosines, or correlations of centred scores.

    Zero for a vector that is zero.

    Examples
    --------
    >>> import numpy as np
    >>> cosines(np.array([[4.0, 1.0], [1.0, 1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    lengths = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0))
    scale = lengths[..., :, None] * lengths[..., None, :]
    return np.divide(gram, scale, out=np.zeros(gram.shape), where=scale > 0)


def shared_variables(Z: Array) -> Array:
    """Number of variables in both of two components, (m, m) of int, for loadings (n_features, m).

    Examples
    --------
    >>> import numpy as np
    >>> shared_variables(np.array([[0.6, 0.0], [0.8, 1.0], [0.0, 0.0]]))
    array([[2, 1],
           [1, 1]])
    """
    used = (Z != 0).astype(np.float64)
    return to_host(used.T @ used).round().astype(int)


def captured_variance(gram: Array, Z: Array) -> float:
    """Variance of the data inside the span of the loadings: tr((ZᵀZ)⁺ ZᵀΣZ)."""
    Z = Z.astype(np.float64)
    return float(np.trace(np.linalg.pinv(to_host(Z.T @ Z), rcond=1e-12, hermitian=True) @ gram))


def explained_variance(X: Array, Z: Array) -> Array:
    """‖X z‖² of each column z of Z, for centred data X.

    Examples
    --------
    >>> import numpy as np
    >>> explained_variance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0], [0.0]]))
    array([2.])
    """
    Y = np.asarray(X @ Z)
    return np.asarray(np.sum(Y * Y, axis=0))


def adjusted_variance(X: Array, Z: Array) -> Array:
    """Adjusted variance of each column of Z, for centred data X, in the order of Z's columns.

    Examples
    --------
    >>> import numpy as np
    >>> adjusted_variance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]]))
    array([2., 0.])
    """
    return adjusted_variances(_products(X @ Z))


def cumulative_variance(X: Array, Z: Array) -> Array:
    """Variance that the first j columns of Z explain together, for every j.

    Examples
    --------
    >>> import numpy as np
    >>> cumulative_variance(np.diag([2.0, 1.0]), np.eye(2))
    array([4., 5.])
    """
    Y = np.asarray(X @ Z, np.float64)
    return np.cumsum(adjusted_variances(Y.T @ Y, in_order=True))


def share_of_pca(X: Array, Z: Array) -> float:
    """Adjusted variance of Z over the variance of as many ordinary principal components of centred X.

    Examples
    --------
    >>> import numpy as np
    >>> share_of_pca(np.diag([2.0, 1.0]), np.array([[0.0], [1.0]]))
    0.25
    """
    singular = np.linalg.svd(np.asarray(X), compute_uv=False)[: Z.shape[1]]
    return float(np.sum(adjusted_variance(X, Z)) / np.sum(singular**2))


def sparsity(Z: Array) -> float:
    """Share of the loadings that are zero.

    Examples
    --------
    >>> import numpy as np
    >>> sparsity(np.array([[1.0], [0.0], [0.0], [0.0]]))
    0.75
    """
    return float(np.mean(np.asarray(Z) == 0))
