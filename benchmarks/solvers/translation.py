"""The reference: a line-by-line NumPy translation of the paper's Algorithms 2 to 6.

Data are centred. The start is the column of largest norm, completed by a random orthonormal complement in a block. An
iteration takes two products with the whole matrix, and the tolerance is 1e-4. Loadings on the pattern come from the
rank-one SVD (one unit, ℓ1), the explicit solution (ℓ0) or Algorithm 6 (block, ℓ1). The deflation A − (Az)zᵀ is
explicit. The code uses BLAS products without needless copies, as a careful translation from MATLAB would. Errors of the
paper are corrected: Algorithm 6 sets entries to zero first and normalises then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, svds

from benchmarks.problems import Answer, Problem

LABEL = "translation"
TOL, MAX_ITER = 1e-4, 1000


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return the call of the translation: centring, ascent and refit."""
    if sp.issparse(X):
        return lambda: sparse_single_unit(X, problem)
    return lambda: (block if problem.method == "block" else deflation)(X, problem)


def deflation(X: np.ndarray, problem: Problem) -> Answer:
    """Run Algorithms 2 and 3 in the deflation scheme of section 4.4."""
    A = X - X.mean(axis=0)
    Z = np.zeros((A.shape[1], problem.n_components))
    f, iterations = 0.0, 0
    for j in range(problem.n_components):
        if j > 0:
            z = Z[:, j - 1]
            A -= np.outer(A @ z, z)
        norms = column_norms(A)
        i = np.argmax(norms)
        gamma = threshold(problem, norms[i])
        t, f_j, steps = ascend_single(A, A[:, i] / norms[i], gamma, problem.penalty)
        if problem.penalty == "l1":
            active = t != 0
            Z[active, j] = rank_one(A[:, active])
        else:
            Z[:, j] = t / np.linalg.norm(t)
        f, iterations = f + f_j, iterations + steps
    return Answer(Z, f, 2.0 * iterations)


def column_norms(A: np.ndarray) -> np.ndarray:
    """Return ‖aᵢ‖ of every column, computed in the fastest way for rows in memory."""
    return np.sqrt(np.einsum("ij,ij->j", A, A))  # noqa: TID251


def threshold(problem: Problem, largest: float) -> float:
    """Return γ, the given fraction of its upper bound."""
    return problem.gamma * (largest if problem.penalty == "l1" else largest**2)


def ascend_single(A: Any, x: np.ndarray, gamma: float, penalty: str) -> tuple[np.ndarray, float, int]:
    """Run Algorithm 2 (ℓ1) or 3 (ℓ0); return the last thresholded correlations, f there, and the iterations."""
    f = 0.0
    for iteration in range(1, MAX_ITER + 1):
        c = A.T @ x
        t, f_new = thresholded(c, gamma, penalty)
        if iteration > 1 and f_new - f <= TOL * f:
            break
        f = f_new
        x = A @ t
        x /= np.linalg.norm(x)
    return t, f_new, iteration


def thresholded(C: np.ndarray, gamma: float, penalty: str) -> tuple[np.ndarray, float]:
    """Return the coefficients of the step, and f."""
    if penalty == "l1":
        T = np.maximum(np.abs(C) - gamma, 0)
        return np.sign(C) * T, float(np.sum(T**2))
    squares = C**2
    active = squares > gamma
    return np.where(active, C, 0), float(np.sum(squares[active] - gamma))


def rank_one(A_active: Any) -> np.ndarray:
    """Return v of the leading singular triple σuvᵀ of the active columns, equation (28)."""
    if min(A_active.shape) < 10:
        return np.linalg.svd(A_active @ np.eye(A_active.shape[1]), full_matrices=False)[2][0]
    v0 = np.random.default_rng(0).standard_normal(min(A_active.shape))
    return svds(A_active, k=1, v0=v0)[2][0]


def block(X: np.ndarray, problem: Problem) -> Answer:
    """Run Algorithms 4 and 5 with all μ equal to one."""
    A = X - X.mean(axis=0)
    norms = column_norms(A)
    i = np.argmax(norms)
    gamma = threshold(problem, norms[i])
    Y, f, iterations = with_complement(A[:, i] / norms[i], problem.n_components), 0.0, 0
    for iterations in range(1, MAX_ITER + 1):
        C = A.T @ Y
        T, f_new = thresholded(C, gamma, problem.penalty)
        if iterations > 1 and f_new - f <= TOL * f:
            break
        f = f_new
        Y = polar(A @ T)
    if problem.penalty == "l0":
        return Answer(unit_columns(T), f_new, 2.0 * iterations)
    Z, fill = fill_block(A, T != 0, Y)
    return Answer(Z, f_new, 2.0 * (iterations + fill))


def with_complement(x: np.ndarray, m: int) -> np.ndarray:
    """Return [x | X⊥] with a random X⊥."""
    rest = np.random.RandomState(0).standard_normal((x.size, m - 1))
    return np.column_stack([x, np.linalg.qr(rest - np.outer(x, x @ rest))[0]])


def fill_block(A: np.ndarray, active: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, int]:
    """Run Algorithm 6; return the loadings on the pattern, and the iterations."""
    f = 0.0
    for iteration in range(1, MAX_ITER + 1):
        C = np.where(active, A.T @ Y, 0)
        f_new = float(np.sum(np.linalg.norm(C, axis=0)))
        Z = unit_columns(C)
        if iteration > 1 and f_new - f <= TOL * f:
            break
        f = f_new
        Y = polar(A @ Z)
    return Z, iteration


def polar(G: np.ndarray) -> np.ndarray:
    """Return the factor U of the polar decomposition."""
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return U @ Vt


def unit_columns(Z: np.ndarray) -> np.ndarray:
    """Return the columns scaled to norm one; zero columns do not change."""
    norms = np.linalg.norm(Z, axis=0)
    return Z / np.where(norms > 0, norms, 1)


def sparse_single_unit(X: Any, problem: Problem) -> Answer:
    """Run Algorithms 2 and 3 on a sparse matrix that is centred implicitly, because centring would fill it."""
    p = X.shape[0]
    mean = np.asarray(X.mean(axis=0)).ravel()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=0)).ravel() - p * mean**2)
    i = int(np.argmax(norms))
    x = (X[:, [i]].toarray().ravel() - mean[i]) / norms[i]
    gamma = threshold(problem, norms[i])
    t, f, iterations = ascend_single(centred(X, mean), x, gamma, problem.penalty)
    z = np.zeros((X.shape[1], 1))
    active = np.flatnonzero(t)
    z[active, 0] = rank_one(centred(X[:, active], mean[active])) if problem.penalty == "l1" else t[active]
    return Answer(unit_columns(z), f, 2.0 * iterations)


def centred(X: Any, mean: np.ndarray) -> LinearOperator:
    """Return X − 1·meanᵀ as an operator, which is never formed."""
    return aslinearoperator(X) - aslinearoperator(np.ones((X.shape[0], 1))) @ aslinearoperator(mean[None])
