"""Ordinary principal components of some columns of a matrix, for PCA and for the loadings of a fixed support.

They solve an eigenproblem of the smaller Gram matrix, that of the columns or that of the samples. If both are large, or
a good start is given, Lanczos iterations solve it.

A is the matrix of an operator, (p, n), known through products: `operator.combine(T)` is A T and `operator.correlate(X)`
is AᵀX, both where the matrix is (host or device). Eigenpairs, loadings and starts are on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as spla

from gpower._utils.arrays import Array, embed_rows, normalize_columns, take_rows, to_host
from gpower.operators.base import Operator

#: Largest order of an eigenproblem that a dense solver solves without a start; above it Lanczos iterations do,
#: which need a few products for each eigenpair.
MAX_DENSE_EIGEN_ORDER = 1200
#: Order above which Lanczos iterations solve an eigenproblem for which a good start is given; below it their fixed cost
#: exceeds that of a dense solver.
MIN_LANCZOS_ORDER = 96


class LeadingComponents(NamedTuple):
    """Ordinary principal components of m columns or more, largest variance first, on the host."""

    loadings: Array  # (|idx|, n_components), zero beyond the rank
    variances: Array  # ‖A z‖² of each, (n_components,)


class Eigenpairs(NamedTuple):
    """Largest eigenvalues, (m,), the largest first, and their eigenvectors, (n, m), on the host."""

    values: Array
    vectors: Array


def compute_leading_components(
    operator: Operator,
    n_components: int,
    idx: Array | None = None,
    start: Array | None = None,
) -> LeadingComponents:
    """Return the PCA loadings of some columns, (|idx|, n_components), and the variances ‖A z‖², largest first.

    Both are on the host, and zero beyond the rank: if there are fewer components than requested, columns of zeros are
    added. The signs of the loadings are arbitrary.

    Parameters
    ----------
    operator : Operator
        The matrix A, with samples or without, on the host or a device.
    n_components : int
    idx : ndarray of int, optional
        Increasing indices of the columns, on the host; all columns by default.
    start : ndarray of shape (|idx|,), optional
        Loadings on the host near the first component, which save iterations.
    """
    p, n = operator.shape
    idx = np.arange(n) if idx is None else idx
    eigenpairs = None
    is_start_useful = start is not None and n_components == 1 and idx.size > p > MIN_LANCZOS_ORDER
    if is_start_useful and not (operator.is_remote or operator.is_sparse) and operator.is_cached(idx):
        restricted = operator.restrict(idx).operator  # the cached columns as a matrix of their own; no read
        eigenpairs = _solve_eigenpairs_by_products(restricted, n_components, np.arange(idx.size), start)
    elif min(p, idx.size) > MAX_DENSE_EIGEN_ORDER and 4 * n_components < min(p, idx.size):
        eigenpairs = _solve_eigenpairs_by_products(operator, n_components, idx, start)
    if eigenpairs is not None:
        values, Z = eigenpairs
    elif idx.size <= p or not operator.has_samples:
        values, Z = _compute_leading_eigenpairs(operator.gram(idx), n_components, start)
    else:
        like = operator.column_norms  # `combine` needs the start where the matrix is, host or device
        x = None if start is None else to_host(operator.combine(embed_rows(start[:, None], idx, n, like))[:, 0])
        values, U = _compute_leading_eigenpairs(operator.sample_gram(idx), n_components, x)
        Z = to_host(take_rows(operator.correlate(operator.to_backend(U.astype(operator.dtype))), idx))
    noise = 8 * np.sqrt(min(p, idx.size)) * np.finfo(operator.dtype).eps
    values = np.where(values > noise * values[:1], values, 0.0)
    norms = to_host(take_rows(operator.column_norms, idx))
    Z = normalize_columns(np.where(norms[:, None] > 0, Z, 0)) * (values > 0)
    missing = n_components - values.size
    if missing > 0:
        return LeadingComponents(np.pad(Z, ((0, 0), (0, missing))), np.pad(values, (0, missing)))
    return LeadingComponents(Z, values)


def _compute_leading_eigenpairs(G: Array, m: int, start: Array | None = None) -> Eigenpairs:
    """Return the m largest eigenvalues of G, (m,), largest first, and the eigenvectors, (n, m); only n if n < m.

    G, (n, n), is on the host. Lanczos iterations compute them if G is large or a good start, (n,), is given, otherwise
    a dense solver does.
    """
    n = G.shape[0]
    if (start is not None and n > MIN_LANCZOS_ORDER and m == 1) or n > MAX_DENSE_EIGEN_ORDER > 4 * m:
        eigenpairs = _run_lanczos(G, m, np.ones(n, G.dtype) if start is None else start)
        if eigenpairs is not None:
            return eigenpairs
    w, V = sla.eigh(G, subset_by_index=[max(n - m, 0), n - 1], driver="evr")
    return Eigenpairs(w[::-1], V[:, ::-1])


def _run_lanczos(G: Array | spla.LinearOperator, m: int, start: Array) -> Eigenpairs | None:
    """Return the m < n leading eigenpairs, or None if the iterations do not converge because eigenvalues cluster.

    `start`, (n,), on the host, is not zero. Values, (m,), are largest first; vectors are the columns of (n, m).
    """
    n = G.shape[0]
    try:
        w, V = spla.eigsh(G, k=m, which="LA", v0=start, ncv=min(n, max(2 * m + 1, 12)), maxiter=100 * m)
    except spla.ArpackError:
        return None
    return Eigenpairs(w[::-1], V[:, ::-1])


def _solve_eigenpairs_by_products(operator: Operator, m: int, idx: Array, start: Array | None) -> Eigenpairs | None:
    """Return the leading eigenpairs of A[:, idx]ᵀA[:, idx], on the host, by products with A; None without convergence.

    `idx` and `start`, (|idx|,), are on the host; each product transfers its vector to the matrix and back.
    """
    n = operator.shape[1]

    def product(v: Array) -> Array:
        T = embed_rows(v.reshape(idx.size, -1).astype(operator.dtype), idx, n, operator.column_norms)
        return to_host(take_rows(operator.correlate(operator.combine(T)), idx))

    AtA = spla.LinearOperator((idx.size, idx.size), matvec=product, matmat=product, dtype=operator.dtype)
    return _run_lanczos(AtA, m, to_host(take_rows(operator.column_norms, idx)) if start is None else start)
