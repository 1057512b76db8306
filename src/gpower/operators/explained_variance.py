"""Scores of loadings, the variance that they explain, and the sparsity of the loadings.

A is the matrix of centred and scaled data, (n_samples, n_features), and Z contains the loadings of m components,
(n_features, m), one per column, also called z. The scores are A Z. Variances are sums of squares, not divided by the
degrees of freedom.

Sparse components are correlated, so their variances do not add up. The adjusted variance [Zou, Hastie and Tibshirani
2006] of a component is the part of its variance that earlier components do not explain: the squared diagonal of R in
the QR factorisation of the scores A Z. It depends on the order; here components are ordered by decreasing variance of
their scores.

Terms: ``as_container(X)`` wraps a matrix X in memory, on a device or in blocks: ``project_samples(L, mean)`` is
(X − mean) @ L, where X is, lazy for a Dask array; ``deviation_norms(mean)`` are ‖x − mean‖ of the columns,
(n_features,), float64; ``prepare(True).gram(None, None)`` is XᵀX, summed in float64. An `Operator` is A through
products: ``combine(Z)`` are the scores, where the matrix is, or coefficients that stand for them if it has no samples
(`has_samples`); ``correlate(Y)`` is AᵀY and ``inner(Y, Y, C)``, (m, m) on the host, YᵀY, given C = AᵀY; `column_norms`,
(n_features,); `relative_tolerance` is the share of a norm that is rounding. ``DataMatrix(container, norms)`` is the
operator of the matrix as it is. ``to_host(v)`` is v as a NumPy array; ``safe_reciprocal(v)`` is 1/v, and 0 where v is
not positive; ``stable_argmax(v)`` is the index of the largest value, the first of those equal to it up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, is_device_array, safe_reciprocal, stable_argmax, to_host
from gpower.operators import DataMatrix, MatrixLike, Operator, as_container

#: Smallest eigenvalue of the cosines between scores at which inner products keep ten digits of what each score adds.
MIN_COSINE_EIGENVALUE = 1e-4
#: Eigenvalue of ZᵀZ, relative to the largest, up to which loadings are dependent.
MIN_LOADING_EIGENVALUE_SHARE = 1e-12
#: Digits of the logarithms of variances up to which components have equal variance.
N_EQUAL_VARIANCE_DIGITS = 10
#: Share of the largest variance below which a variance computed from inner products may be rounding error.
MIN_GRAM_VARIANCE_SHARE = 1e-12


def project_samples(X: MatrixLike, Z: Array, mean: Array, scale: Array) -> Array:
    """Compute the scores (X − mean)/scale @ Z, (n_samples, m); a dense X is read only in the variables of Z.

    Parameters
    ----------
    X : ndarray, sparse matrix or container of shape (n_samples, n_features)
    Z : ndarray of shape (n_features, m)
        Loadings, where X is (host or device).
    mean, scale : ndarray of shape (n_features,)
        Also where X is. The product is computed in the dtype of X.

    Returns
    -------
    ndarray or dask array of shape (n_samples, m)
        Where X is; lazy if X is a Dask matrix.
    """
    return as_container(X).project_samples((Z / scale[:, None]).astype(X.dtype), mean.astype(X.dtype))


def total_variance(X: MatrixLike, mean: Array, scale: Array) -> float:
    """Compute ‖(X − mean)/scale‖² (Frobenius), without cancellation; mean and scale are (n_features,), where X is."""
    return float(np.sum((as_container(X).deviation_norms(mean) / scale) ** 2))


def compute_captured_share(X: MatrixLike, Z: Array, mean: Array, scale: Array, total: float | None = None) -> float:
    """Compute the share of the variance of X about `mean` inside the span of Z, between 0 and 1.

    Arguments are as in `project_samples`; the columns of Z need be neither orthogonal nor non-zero. Pass `total`, the
    total variance of the standardised X, if it was computed before. The share is zero if the total is.
    """
    total = total_variance(X, mean, scale) if total is None else total
    R = _compute_score_root(project_samples(X, Z, mean, scale))
    return captured_variance(R.T @ R, Z) / total if total > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores A Z of m components, up to a rotation of the samples, which changes no variance.

    Attributes
    ----------
    gram_root : ndarray of shape (r, m)
        R with RᵀR = (A Z)ᵀ(A Z), in float64, on the host. If there are samples and scores are nearly dependent, R
        comes from a QR factorisation, which keeps the digits that inner products lose.
    norm_tolerance : ndarray of shape (m,)
        Norm below which the remainder of a score is rounding error.

    Examples
    --------
    The adjusted variances of correlated components depend on their order.

    >>> import numpy as np
    >>> from gpower.operators.explained_variance import Scores
    >>> scores = Scores.from_data(np.array([[1.0, 1.0], [0.0, 2.0]]), np.eye(2))
    >>> scores.variances, scores.compute_adjusted_variances(), scores.compute_adjusted_variances(keep_order=True)
    (array([1., 5.]), array([0.8, 5. ]), array([1., 4.]))
    """

    gram_root: Array
    norm_tolerance: Array

    @classmethod
    def from_loadings(cls, operator: Operator, Z: Array) -> Scores:
        """Compute the scores of loadings Z, (n_features, m), which are where the matrix of the operator is.

        Z may have any float dtype and length of columns, zero too. Without samples only the inner products of the
        scores are known, and fewer digits of small variances.
        """
        Y = operator.combine(Z.astype(operator.dtype))
        if operator.has_samples:
            root = _compute_score_root(Y)
        else:
            root = _compute_gram_root(operator.inner(Y, Y, operator.correlate(Y)))
        return cls(root, operator.relative_tolerance * to_host(np.abs(Z).T @ operator.column_norms))

    @classmethod
    def from_data(cls, X: Array, Z: Array) -> Scores:
        """Compute the scores of loadings Z, (n_features, m), for centred data X, (n_samples, n_features), in float64.

        X is an array or a sparse matrix in host memory; it is not centred here.
        """
        table = as_container((sp.csr_array(X) if sp.issparse(X) else np.asarray(X)).astype(np.float64))
        norms = table.deviation_norms(np.zeros(table.shape[1]))
        return cls.from_loadings(DataMatrix(table, norms), np.asarray(Z, np.float64))

    @classmethod
    def from_gram(cls, gram: Array) -> Scores:
        """Create the scores from their inner products (A Z)ᵀ(A Z), (m, m), on the host.

        Remainders whose square is below MIN_GRAM_VARIANCE_SHARE of the largest variance count as rounding.
        """
        least = np.sqrt(MIN_GRAM_VARIANCE_SHARE * max(float(np.max(np.diagonal(gram), initial=0.0)), 0.0))
        return cls(_compute_gram_root(gram), np.full(gram.shape[0], least))

    def reorder(self, order: Array) -> Scores:
        """Return the scores with the components in another order: component j of the result is component order[j]."""
        return Scores(self.gram_root[:, order], self.norm_tolerance[order])

    @cached_property
    def gram(self) -> Array:
        """Return the inner products of the scores, (m, m), in float64 on the host."""
        return np.asarray(self.gram_root.T @ self.gram_root)

    @cached_property
    def variances(self) -> Array:
        """Return ‖A z‖² of each component by itself, (m,), in float64 on the host."""
        return np.asarray(np.sum(self.gram_root**2, axis=0))

    def compute_adjusted_variances(self, *, keep_order: bool = False) -> Array:
        """Compute the adjusted variance of each component, (m,), in the order of the loadings.

        Components are taken by decreasing variance or, with `keep_order`, in the order of the loadings. Among
        components of equal variance (to N_EQUAL_VARIANCE_DIGITS digits of the logarithm) the one that adds most comes
        first, and of those that add as much, up to rounding, the first; so sorting components by their adjusted
        variances does not change these. A component whose remainder has a norm of at most `norm_tolerance` has zero.
        """
        variances = self.variances
        log_variances = np.log(np.maximum(variances, np.finfo(float).tiny))
        key = np.arange(variances.size) if keep_order else -np.round(log_variances, N_EQUAL_VARIANCE_DIGITS)
        adjusted = np.zeros(variances.size)
        pending = np.argsort(key, kind="stable")
        residual = self.gram_root.copy()
        while pending.size:
            tied = pending[key[pending] == key[pending[0]]]
            j = tied[stable_argmax(np.linalg.norm(residual[:, tied], axis=0))] if tied.size > 1 else tied[0]
            pending = pending[pending != j]
            length = float(np.linalg.norm(residual[:, j]))
            if length > self.norm_tolerance[j]:  # otherwise earlier components span it, and the residual is rounding
                adjusted[j] = length**2
                q = residual[:, j] / length
                residual -= np.outer(q, q @ residual)
        return adjusted


def _compute_score_root(Y: Array) -> Array:
    """Compute R, (r, m), with RᵀR = YᵀY for scores Y, (n_samples, m), in float64 on the host.

    Y is on the host, on a device, or a lazy Dask array, which `to_host` computes. Inner products in float64 take a
    fraction of the time of a QR factorisation, which is needed only if scores are nearly dependent, so that squares
    would lose digits.
    """
    Y = Y if is_device_array(Y) else to_host(Y)
    gram = to_host(as_container(Y).prepare(True).gram(None, None)).astype(np.float64)
    cosines = cosine_matrix(gram)
    np.fill_diagonal(cosines, 1.0)  # also of zero scores, which depend on no other
    if np.isfinite(gram).all() and np.linalg.eigvalsh(cosines).min(initial=1.0) >= MIN_COSINE_EIGENVALUE:
        return _compute_gram_root(gram)
    return to_host(np.linalg.qr(Y.astype(np.float64), mode="r"))


def _compute_gram_root(gram: Array) -> Array:
    """Compute R, (m, m), with RᵀR = gram, each column with an error relative to its own length.

    `gram`, (m, m) on the host, symmetric and finite, may have slightly negative eigenvalues by rounding, which count as
    zero. R is in float64; a zero score has a column of zeros.
    """
    gram = np.asarray(gram, np.float64)
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0))
    unit = safe_reciprocal(lengths)
    w, V = np.linalg.eigh(unit[:, None] * gram * unit)
    return np.asarray(np.sqrt(np.maximum(w, 0))[:, None] * V.T * lengths)


def cosine_matrix(gram: Array) -> Array:
    """Compute the cosines between vectors from their Gram matrix; for centred scores these are correlations.

    The cosines of a zero vector are zero.

    Parameters
    ----------
    gram : ndarray of shape (..., m, m)
        Inner products of m vectors: ZᵀZ of loadings, or ZᵀΣZ of the scores.

    Returns
    -------
    ndarray of shape (..., m, m)

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators.explained_variance import cosine_matrix
    >>> cosine_matrix(np.array([[4.0, 1.0], [1.0, 1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    lengths = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0))
    scale = lengths[..., :, None] * lengths[..., None, :]
    return np.divide(gram, scale, out=np.zeros(gram.shape), where=scale > 0)


def count_shared_variables(Z: Array) -> Array:
    """Count the variables that each pair of components shares.

    Parameters
    ----------
    Z : ndarray of shape (n_features, m)
        Loadings, a component per column: `components_.T` of a model.

    Returns
    -------
    ndarray of int of shape (m, m)
        The diagonal contains the number of variables of each component.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators.explained_variance import count_shared_variables
    >>> count_shared_variables(np.array([[0.6, 0.0], [0.8, 1.0], [0.0, 0.0]]))
    array([[2, 1],
           [1, 1]])
    """
    used = (Z != 0).astype(np.float64)
    return to_host(used.T @ used).round().astype(int)


def captured_variance(gram: Array, Z: Array) -> float:
    """Compute the variance of the data inside the span of the loadings, tr((ZᵀZ)⁺ ZᵀΣZ).

    Parameters
    ----------
    gram : ndarray of shape (m, m)
        ZᵀΣZ, the inner products of the scores.
    Z : ndarray of shape (n_features, m)
        Loadings, a component per column: `components_.T` of a model.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators.explained_variance import captured_variance
    >>> S = np.diag([3.0, 2.0, 1.0])
    >>> Z = np.array([[1.0, 0.6], [0.0, 0.8], [0.0, 0.0]])  # they span the first two variables
    >>> round(captured_variance(Z.T @ S @ Z, Z), 6)
    5.0
    """
    Z = Z.astype(np.float64)
    return float(np.trace(np.linalg.pinv(to_host(Z.T @ Z), rcond=MIN_LOADING_EIGENVALUE_SHARE, hermitian=True) @ gram))


def adjusted_variance(X: Array, Z: Array) -> Array:
    """Compute the adjusted variance of each component, the part of ‖X z‖² not shared with higher-variance components.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n_samples, n_features)
        Centred data.
    Z : ndarray of shape (n_features, m)
        Loadings, a component per column: `components_.T` of a model.

    Returns
    -------
    ndarray of shape (m,)
        In the order of the columns of Z.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators.explained_variance import adjusted_variance
    >>> adjusted_variance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]]))
    array([2., 0.])
    """
    return Scores.from_data(X, Z).compute_adjusted_variances()


def share_of_pca(X: Array, Z: Array) -> float:
    """Compute the adjusted variance of Z divided by the variance of as many ordinary principal components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred data.
    Z : ndarray of shape (n_features, m)
        Loadings, a component per column: `components_.T` of a model.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators.explained_variance import share_of_pca
    >>> share_of_pca(np.diag([2.0, 1.0]), np.array([[0.0], [1.0]]))
    0.25
    """
    singular = np.linalg.svd(np.asarray(X), compute_uv=False)[: Z.shape[1]]
    return float(np.sum(adjusted_variance(X, Z)) / np.sum(singular**2))
