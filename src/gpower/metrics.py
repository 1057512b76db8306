"""How much variance loadings explain, and how sparse they are.

Components of sparse loadings are correlated, so their variances do not add up. The adjusted variance
[Zou, Hastie and Tibshirani 2006] counts of each component only the part that the earlier ones leave: the
squared diagonal of R in the QR factorisation of the scores A Z. It depends on the order; here components
are taken by decreasing variance of their scores.
"""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, to_host
from gpower.operators.base import Operator


def score_gram(operator: Operator, Z: Array) -> Array:
    """(A Z)ᵀ(A Z), (m, m) in float64."""
    Y = operator.combine(Z.astype(operator.dtype))
    C = np.zeros((0, Z.shape[1])) if operator.has_samples else operator.correlate(Y)
    if not operator.has_samples:
        return np.asarray(operator.inner(Y, Y, C), np.float64)
    Y = Y.astype(np.float64)
    return to_host(Y.T @ Y)


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
    Y = np.asarray(X @ Z, np.float64)
    return adjusted_variances(Y.T @ Y)


def cumulative_variance(X: Array, Z: Array) -> Array:
    """Running total of the adjusted variance over the columns of Z.

    Examples
    --------
    >>> import numpy as np
    >>> cumulative_variance(np.diag([2.0, 1.0]), np.eye(2))
    array([4., 5.])
    """
    return np.cumsum(adjusted_variance(X, Z))


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


def support_recovery(Z: Array, truth: Array) -> float:
    """Share of the true support of each unit that Z finds, averaged over units.

    Examples
    --------
    >>> import numpy as np
    >>> support_recovery(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))
    0.5
    """
    found, true = np.asarray(Z) != 0, np.asarray(truth) != 0
    return float(np.mean(np.sum(found & true, axis=0) / np.maximum(np.sum(true, axis=0), 1)))


def subspace_angle(Z: Array, W: Array) -> float:
    """Largest principal angle between the spans of Z and W, in radians.

    Examples
    --------
    >>> import numpy as np
    >>> round(subspace_angle(np.eye(3)[:, :1], np.eye(3)[:, 1:2]), 4)
    1.5708
    """
    from scipy.linalg import subspace_angles

    return float(subspace_angles(np.asarray(Z), np.asarray(W))[0])
