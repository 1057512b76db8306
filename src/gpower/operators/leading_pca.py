"""Ordinary principal components of some columns of a matrix: what a pattern is filled with, and what PCA is.

An eigenproblem of the smaller of the two Gram matrices, of the columns or of the samples; where both are large, or a
good start is at hand, Lanczos iterations.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as spla

from gpower._utils.arrays import Array, embed_rows, normalize_columns, take_rows, to_host
from gpower.operators.base import Operator

#: Above this order an eigenproblem goes to Lanczos iterations; from a good start above this one.
MAX_DENSE_EIGEN_ORDER, MIN_LANCZOS_ORDER = 1200, 96


def compute_leading_components(
    operator: Operator,
    n_components: int,
    idx: Array | None = None,
    start: Array | None = None,
    *,
    sample_gram: Array | None = None,
) -> tuple[Array, Array]:
    """Loadings of ordinary PCA of some columns, (|idx|, m), and the variances ‖A z‖², (m,), largest first.

    Zero beyond the rank. `start`, (|idx|,), near the first component spares iterations, `sample_gram`, where it is
    known, its making.
    """
    p, n = operator.shape
    idx = np.arange(n) if idx is None else idx
    found = None
    if (
        start is not None
        and n_components == 1
        and idx.size > p > MIN_LANCZOS_ORDER
        and _has_cached_columns(operator, idx)
    ):
        found = _solve_eigenpairs_by_products(operator.restrict(idx).operator, n_components, np.arange(idx.size), start)
    elif min(p, idx.size) > MAX_DENSE_EIGEN_ORDER and 4 * n_components < min(p, idx.size):
        found = _solve_eigenpairs_by_products(operator, n_components, idx, start)
    if found is not None:
        values, Z = found
    elif idx.size <= p or not operator.has_samples:
        values, Z = _compute_leading_eigenpairs(operator.gram(idx), n_components, start)
    else:
        like = operator.column_norms
        x = None if start is None else to_host(operator.combine(embed_rows(start[:, None], idx, n, like))[:, 0])
        values, U = _compute_leading_eigenpairs(
            operator.sample_gram(idx) if sample_gram is None else sample_gram, n_components, x
        )
        Z = to_host(take_rows(operator.correlate(operator.to_backend(U.astype(operator.dtype))), idx))
    noise = 8 * np.sqrt(min(p, idx.size)) * np.finfo(operator.dtype).eps
    values = np.where(values > noise * values[:1], values, 0.0)
    norms = to_host(take_rows(operator.column_norms, idx))
    Z = normalize_columns(np.where(norms[:, None] > 0, Z, 0)) * (values > 0)
    missing = n_components - values.size
    return np.pad(Z, ((0, 0), (0, missing))), np.pad(values, (0, missing))


def _has_cached_columns(operator: Operator, idx: Array) -> bool:
    """Whether some dense columns are in memory already, beside the matrix."""
    return not (operator.is_remote or operator.is_sparse) and operator.is_cached(idx)


def _compute_leading_eigenpairs(G: Array, m: int, start: Array | None = None) -> tuple[Array, Array]:
    """By Lanczos from a good start or for a large matrix, else by a dense solver."""
    n = G.shape[0]
    if (start is not None and n > MIN_LANCZOS_ORDER and m == 1) or n > MAX_DENSE_EIGEN_ORDER > 4 * m:
        found = _run_lanczos(G, m, np.ones(n, G.dtype) if start is None else start)
        if found is not None:
            return found
    w, V = sla.eigh(G, subset_by_index=[max(n - m, 0), n - 1], driver="evr")
    return w[::-1], V[:, ::-1]


def _run_lanczos(G: Array | spla.LinearOperator, m: int, start: Array) -> tuple[Array, Array] | None:
    """Leading eigenpairs from a start, or None where eigenvalues cluster so that it does not converge."""
    n = G.shape[0]
    try:
        w, V = spla.eigsh(G, k=m, which="LA", v0=start, ncv=min(n, max(2 * m + 1, 12)), maxiter=100 * m)
    except spla.ArpackError:
        return None
    return w[::-1], V[:, ::-1]


def _solve_eigenpairs_by_products(
    operator: Operator, m: int, idx: Array, start: Array | None
) -> tuple[Array, Array] | None:
    """Leading eigenpairs of A[:, idx]ᵀA[:, idx] by products with the matrix alone; None where they cluster."""
    n = operator.shape[1]

    def product(v: Array) -> Array:
        T = embed_rows(v.reshape(idx.size, -1).astype(operator.dtype), idx, n, operator.column_norms)
        return to_host(take_rows(operator.correlate(operator.combine(T)), idx))

    AtA = spla.LinearOperator((idx.size, idx.size), matvec=product, matmat=product, dtype=operator.dtype)
    return _run_lanczos(AtA, m, to_host(take_rows(operator.column_norms, idx)) if start is None else start)
