"""Ordinary principal components of some columns of a matrix, for PCA and for the loadings of a fixed support.

They solve an eigenproblem of the smaller Gram matrix, that of the columns or that of the samples. If both are large,
Lanczos iterations solve it by products with A.

A is the matrix of an operator, (p, n), known through products: `operator.combine(T)` is A T and `operator.correlate(X)`
is AᵀX, both where the matrix is (host or device). Eigenpairs and loadings are on the host.

Terms: of the operator, ``shape`` is (p, n), with p = n and no samples (`has_samples`) for a covariance; `column_norms`,
(n,), are where the matrix is, exactly zero for columns of rounding errors; ``gram(idx)``, A[:, idx]ᵀA[:, idx], and
``sample_gram(idx)``, A[:, idx]A[:, idx]ᵀ, only with samples, are on the host, and are not written to;
``to_backend(v)`` moves a small array to the matrix. ``take_rows(v, idx)`` is v[idx], where v is; ``to_host(v)`` is v as
a NumPy array; ``embed_rows(Z, idx, n, like)`` has n rows, those of Z at `idx` and zeros elsewhere, where `like` is;
``normalize_columns(Z)`` has unit or zero columns; ``max_or_zero(v)`` is the largest of non-negative values, 0 for none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as spla

from gpower._utils.arrays import Array, embed_rows, max_or_zero, normalize_columns, take_rows, to_host
from gpower.operators.base import Operator

#: Largest order of an eigenproblem that a dense solver solves, for several eigenpairs and for one; above it Lanczos
#: iterations do, which need a few products for each eigenpair.
MAX_DENSE_EIGEN_ORDER, MAX_DENSE_ORDER_OF_ONE = 1200, 150
#: An eigenproblem is solved by a dense solver unless its order is more than this number of times that of the
#: eigenpairs.
MIN_ORDER_PER_EIGENPAIR = 4
#: Units of the machine epsilon times the root of the order up to which an eigenvalue, relative to the largest, is zero.
EIGENVALUE_NOISE_IN_EPS = 8
#: Smallest number of Lanczos vectors, and largest number of restarts for each eigenpair.
MIN_LANCZOS_VECTORS, MAX_RESTARTS_PER_EIGENPAIR = 12, 100


class LeadingComponents(NamedTuple):
    """Ordinary principal components of some columns, largest variance first, on the host."""

    loadings: Array  # (|idx|, n_components): unit columns of any sign, zero beyond the rank; in the order of idx
    variances: Array  # ‖A z‖² of each, (n_components,)


class Eigenpairs(NamedTuple):
    """Largest eigenvalues, (m,), the largest first, and their eigenvectors, (n, m), on the host."""

    values: Array
    vectors: Array


def compute_leading_components(operator: Operator, n_components: int, idx: Array | None = None) -> LeadingComponents:
    """Return the PCA loadings of some columns, (|idx|, n_components), and the variances ‖A z‖², largest first.

    Both are on the host, and zero beyond the rank: if there are fewer components than requested, columns of zeros are
    added. The signs of the loadings are arbitrary, and so is a basis of loadings of equal variance. Columns of norm
    zero have loadings zero. Variances up to EIGENVALUE_NOISE_IN_EPS·√order·ε of the largest count as zero.

    Parameters
    ----------
    operator : Operator
        The matrix A, with samples or without, on the host or a device.
    n_components : int
    idx : ndarray of int, optional
        Increasing indices of the columns, on the host; all columns by default.
    """
    p, n = operator.shape
    idx = np.arange(n) if idx is None else idx
    order = min(p, idx.size)
    eigenpairs = None
    if order > max(MAX_DENSE_EIGEN_ORDER, MIN_ORDER_PER_EIGENPAIR * n_components):
        eigenpairs = _solve_eigenpairs_by_products(operator, n_components, idx)
    if eigenpairs is not None:
        values, Z = eigenpairs
    elif idx.size <= p or not operator.has_samples:
        values, Z = _compute_leading_eigenpairs(operator.gram(idx), n_components)
    else:
        values, U = _compute_leading_eigenpairs(operator.sample_gram(idx), n_components)
        Z = to_host(take_rows(operator.correlate(operator.to_backend(U.astype(operator.dtype))), idx))
    noise = EIGENVALUE_NOISE_IN_EPS * np.sqrt(order) * np.finfo(operator.dtype).eps
    values = np.where(values > noise * values[:1], values, 0.0)
    norms = to_host(take_rows(operator.column_norms, idx))
    Z = normalize_columns(np.where(norms[:, None] > 0, Z, 0)) * (values > 0)
    missing = n_components - values.size
    if missing > 0:
        return LeadingComponents(np.pad(Z, ((0, 0), (0, missing))), np.pad(values, (0, missing)))
    return LeadingComponents(Z, values)


def _compute_leading_eigenpairs(G: Array, m: int) -> Eigenpairs:
    """Return the m largest eigenvalues of G, (m,), largest first, and the eigenvectors, (n, m); only n if n < m.

    G, (n, n), symmetric, is on the host and is not changed; m ≥ 1. Lanczos iterations compute a single eigenpair if G
    is large; a dense solver computes the others, or those for which the iterations do not converge.
    """
    n, scale = G.shape[0], max_or_zero(np.diagonal(G))  # the tolerance of the iterations is absolute for tiny matrices
    if m == 1 and n > MAX_DENSE_ORDER_OF_ONE and scale > 0:
        start = np.random.default_rng(0).standard_normal(n)
        eigenpair = _run_lanczos(G / scale, 1, np.asarray(start, G.dtype))
        if eigenpair is not None:
            return Eigenpairs(eigenpair.values * scale, eigenpair.vectors)
    w, V = sla.eigh(G, subset_by_index=[max(n - m, 0), n - 1], driver="evr")
    return Eigenpairs(w[::-1], V[:, ::-1])


def _run_lanczos(G: Array | spla.LinearOperator, m: int, start: Array) -> Eigenpairs | None:
    """Return the m < n leading eigenpairs, or None if the iterations do not converge because eigenvalues cluster.

    G, (n, n), is symmetric, an array on the host or products with one. `start`, (n,), on the host, is not zero. Values,
    (m,), are largest first; vectors are the columns of (n, m), orthonormal.
    """
    n = G.shape[0]
    try:
        n_vectors = min(n, max(2 * m + 1, MIN_LANCZOS_VECTORS))
        w, V = spla.eigsh(G, k=m, which="LA", v0=start, ncv=n_vectors, maxiter=MAX_RESTARTS_PER_EIGENPAIR * m)
    except spla.ArpackError:
        return None
    return Eigenpairs(w[::-1], V[:, ::-1])


def _solve_eigenpairs_by_products(operator: Operator, m: int, idx: Array) -> Eigenpairs | None:
    """Return the leading eigenpairs of A[:, idx]ᵀA[:, idx], on the host, by products with A; None without convergence.

    `idx`, increasing, is on the host; the iterations start at the norms of these columns, which must not all be zero.
    m < |idx|. Each product transfers its vector to the matrix and back. Values, (m,), are largest first, and vectors
    are (|idx|, m).
    """
    n, norms = operator.shape[1], operator.column_norms

    def product(v: Array) -> Array:
        T = embed_rows(v.reshape(idx.size, -1).astype(operator.dtype), idx, n, norms)
        return to_host(take_rows(operator.correlate(operator.combine(T)), idx))

    AtA = spla.LinearOperator((idx.size, idx.size), matvec=product, matmat=product, dtype=operator.dtype)
    return _run_lanczos(AtA, m, to_host(take_rows(norms, idx)))
