"""The semidefinite relaxation of sparse PCA, by the alternating direction method of multipliers, with a proven bound.

A unit vector x of at most k non-zeros has ‖x‖₁² ≤ k, so X = xxᵀ is feasible for

    maximise ⟨S, X⟩ over X ⪰ 0, tr X = 1, Σ|Xᵢⱼ| ≤ k.

For every symmetric W and every feasible X, ⟨S, X⟩ = ⟨S − W, X⟩ + ⟨W, X⟩ ≤ λmax(S − W) + k max|Wᵢⱼ|: an upper bound on
the variance of any component of k variables, whatever W; the multipliers of the method supply good ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from gpower._utils.arrays import Array

#: Steps between two evaluations of the bound, and between two looks at the step size.
BOUND_CHECK_INTERVAL, STEP_SIZE_CHECK_INTERVAL = 10, 20
#: Ratio of the residuals at which the step size is changed, and by how much.
MAX_RESIDUAL_RATIO, STEP_SIZE_FACTOR = 5.0, 2.0
#: Distance from the ℓ1 ball, in units of the tolerance, at which X counts as feasible.
FEASIBILITY_FACTOR = 10.0
#: Over-relaxation: how far beyond X a round goes on from Y.
OVER_RELAXATION = 1.6
#: Eigenpairs of a projection computed at first; more where these do not suffice.
MIN_EIGENPAIRS = 8


@dataclass(frozen=True, eq=False)
class RelaxationResult:
    """Where the method stopped, and whether value and bound met within the tolerance."""

    X: Array  # (n, n), positive semidefinite of trace one; near a matrix with Σ|Xᵢⱼ| ≤ k
    value: float  # ⟨S, X⟩
    upper_bound: float  # no component of k variables has a larger variance
    n_iter: int
    converged: bool


def solve_relaxation(S: Array, k: int, *, tol: float = 1e-4, max_iter: int = 2000) -> RelaxationResult:
    """The relaxation for a symmetric S (n, n) and k variables, by at most `max_iter` eigendecompositions.

    It stops once bound and value differ by no more than `tol`, relatively, and X is within ten times as much of the
    ℓ1 ball.

    Examples
    --------
    >>> import numpy as np
    >>> found = solve_relaxation(np.diag([3.0, 1.0]) + 1.0, 1)
    >>> 4.0 <= found.upper_bound < 4.01
    True
    """
    scale = float(np.max(np.abs(S)))
    if scale == 0:
        return RelaxationResult(np.eye(S.shape[0]) / S.shape[0], 0.0, 0.0, 0, True)
    S, zero = S / scale, np.zeros_like(S)
    state = _ADMMState(zero, zero, zero, step_size=float(k))  # entries of X are of the order of 1/k
    upper = compute_dual_bound(S, zero, k)
    converged = False
    for n_iter in range(1, max_iter + 1):
        state = _run_admm_step(S, k, state)
        if n_iter % STEP_SIZE_CHECK_INTERVAL == 0:
            state = _balance_step_size(state)
        if n_iter % BOUND_CHECK_INTERVAL == 0:
            upper = min(upper, compute_dual_bound(S, state.step_size * state.U, k))
            nearly_feasible = state.primal_residual <= FEASIBILITY_FACTOR * tol * float(np.linalg.norm(state.X))
            converged = abs(upper - float(np.sum(S * state.X))) <= tol * upper and nearly_feasible
        if converged:
            break
    return RelaxationResult(state.X, float(np.sum(S * state.X)) * scale, upper * scale, n_iter, converged)


def compute_dual_bound(S: Array, W: Array, k: int) -> float:
    """λmax(S − W) + k max|W|, plus what rounding may have taken from the eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> compute_dual_bound(np.eye(2), np.zeros((2, 2)), 1) >= 1
    True
    """
    M = S - 0.5 * (W + W.T)
    n = M.shape[0]
    largest = float(sla.eigh(M, eigvals_only=True, subset_by_index=[n - 1, n - 1])[0])
    rounding = n * float(np.finfo(np.float64).eps) * float(np.linalg.norm(M))
    return largest + k * float(np.max(np.abs(W))) + rounding


@dataclass(frozen=True, eq=False)
class _ADMMState:
    """X in the spectraplex, Y in the ℓ1 ball, U the scaled multiplier of X = Y; `step` its scale; its residuals."""

    X: Array
    Y: Array
    U: Array
    step_size: float
    rank: int = MIN_EIGENPAIRS
    primal_residual: float = 0.0
    dual_residual: float = 0.0


def _run_admm_step(S: Array, k: int, state: _ADMMState) -> _ADMMState:
    """One round: X, then Y, then the multiplier."""
    X, rank = project_spectraplex(state.Y - state.U + S / state.step_size, state.rank)
    ahead = OVER_RELAXATION * X + (1 - OVER_RELAXATION) * state.Y
    Y = project_l1_ball(ahead + state.U, float(k))
    U = state.U + ahead - Y
    primal = float(np.linalg.norm(X - Y))
    dual = state.step_size * float(np.linalg.norm(Y - state.Y))
    return _ADMMState(X, Y, U, state.step_size, rank, primal, dual)


def _balance_step_size(state: _ADMMState) -> _ADMMState:
    """A step size that keeps both residuals of the same order."""
    grow, shrink = (
        state.primal_residual > MAX_RESIDUAL_RATIO * state.dual_residual,
        state.dual_residual > MAX_RESIDUAL_RATIO * state.primal_residual,
    )
    factor = STEP_SIZE_FACTOR if grow else 1 / STEP_SIZE_FACTOR if shrink else 1.0
    return replace(state, U=state.U / factor, step_size=state.step_size * factor)


def project_spectraplex(M: Array, rank: int = MIN_EIGENPAIRS) -> tuple[Array, int]:
    """The nearest positive semidefinite matrix of trace one, and its rank plus some: a guess for the next call.

    Only the leading eigenpairs matter: those of `rank` are computed, more where all of them turn out positive.

    Examples
    --------
    >>> import numpy as np
    >>> project_spectraplex(np.diag([3.0, 1.0]))[0]
    array([[1., 0.],
           [0., 0.]])
    """
    n = M.shape[0]
    while True:
        rank = n if rank > n // 8 else rank  # all of them take less time than many
        w, V = np.linalg.eigh(M) if rank == n else sla.eigh(M, subset_by_index=[n - rank, n - 1], driver="evr")
        weights = project_simplex(w)
        positive = int(np.count_nonzero(weights))
        if positive < rank or rank == n:
            break
        rank *= 2
    V = V[:, rank - positive :] * np.sqrt(weights[rank - positive :])
    return np.asarray(V @ V.T), positive + MIN_EIGENPAIRS


def project_simplex(v: Array) -> Array:
    """The nearest non-negative vector of sum one.

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.array([0.5, 1.0]))
    array([0.25, 0.75])
    """
    ordered = np.sort(v)[::-1]
    levels = (np.cumsum(ordered) - 1) / np.arange(1, v.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.maximum(v - level, 0)


def project_l1_ball(M: Array, radius: float) -> Array:
    """The nearest matrix with Σ|Mᵢⱼ| ≤ radius: entries shrunk by a common amount.

    Examples
    --------
    >>> import numpy as np
    >>> project_l1_ball(np.array([[2.0, -1.0]]), 1.0)
    array([[ 1., -0.]])
    """
    size = np.abs(M)
    if size.sum() <= radius:
        return M
    shrunk = radius * project_simplex(size.ravel() / radius).reshape(M.shape)
    return np.copysign(shrunk, M)
