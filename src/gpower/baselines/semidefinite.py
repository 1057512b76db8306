"""Solve the semidefinite relaxation of sparse PCA by the alternating direction method of multipliers (ADMM).

A unit vector x with at most k nonzeros has ‖x‖₁² ≤ k, so X = xxᵀ is feasible for

    maximise ⟨S, X⟩ over X ⪰ 0, tr X = 1, Σ|Xᵢⱼ| ≤ k.

For every symmetric W and every feasible X, ⟨S, X⟩ = ⟨S − W, X⟩ + ⟨W, X⟩ ≤ λmax(S − W) + k max|Wᵢⱼ|. Every W thus gives
an upper bound on the variance of any component of k variables; the multipliers of the method give good ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from gpower._utils.arrays import Array

#: Number of steps between two evaluations of the bound, and between two adjustments of the step size.
BOUND_CHECK_INTERVAL, STEP_SIZE_CHECK_INTERVAL = 10, 20
#: Ratio of the residuals above which the step size is changed, and the factor of the change.
MAX_RESIDUAL_RATIO, STEP_SIZE_FACTOR = 5.0, 2.0
#: Largest distance of X from the ℓ1 ball, in units of tol·‖X‖, at which X counts as feasible.
FEASIBILITY_FACTOR = 10.0
#: Over-relaxation factor: each step uses Y + 1.6 (X − Y) in place of X.
OVER_RELAXATION = 1.6
#: Number of eigenpairs that a projection computes at first; it is doubled if all of them are positive.
MIN_EIGENPAIRS = 8


@dataclass(frozen=True, eq=False)
class RelaxationResult:
    """Solution of the relaxation with its upper bound."""

    X: Array  # (n, n), positive semidefinite of trace one; near a matrix with Σ|Xᵢⱼ| ≤ k
    value: float  # ⟨S, X⟩
    upper_bound: float  # bound on the variance of any component of k variables
    n_iter: int
    converged: bool  # whether value and bound agree within the tolerance


def solve_relaxation(S: Array, k: int, *, tol: float = 1e-4, max_iter: int = 2000) -> RelaxationResult:
    """Solve the relaxation for a symmetric S (n, n) and k variables, by at most `max_iter` eigendecompositions.

    It stops once the relative difference between bound and value is at most `tol`, and the distance of X from the ℓ1
    ball is at most ten times `tol`, relative to ‖X‖.

    Examples
    --------
    >>> import numpy as np
    >>> result = solve_relaxation(np.diag([3.0, 1.0]) + 1.0, 1)
    >>> 4.0 <= result.upper_bound < 4.01
    True
    """
    scale = float(np.max(np.abs(S)))
    if scale == 0:
        return RelaxationResult(np.eye(S.shape[0]) / S.shape[0], 0.0, 0.0, 0, True)
    S = S / scale
    zero = np.zeros_like(S)
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
    """Return λmax(S − W) + k max|W|, plus a bound on the rounding error of the eigenvalue.

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
    """Iterates and residuals of the method."""

    X: Array  # (n, n), in the spectraplex
    Y: Array  # (n, n), in the ℓ1 ball
    U: Array  # (n, n), multiplier of X = Y divided by the step size
    step_size: float
    rank: int = MIN_EIGENPAIRS  # number of eigenpairs that the next projection computes first
    primal_residual: float = 0.0
    dual_residual: float = 0.0


def _run_admm_step(S: Array, k: int, state: _ADMMState) -> _ADMMState:
    """Return the state after one step, which updates X, then Y, then the multiplier."""
    X, rank = project_spectraplex(state.Y - state.U + S / state.step_size, state.rank)
    relaxed = OVER_RELAXATION * X + (1 - OVER_RELAXATION) * state.Y
    Y = project_l1_ball(relaxed + state.U, float(k))
    U = state.U + relaxed - Y
    primal = float(np.linalg.norm(X - Y))
    dual = state.step_size * float(np.linalg.norm(Y - state.Y))
    return _ADMMState(X, Y, U, state.step_size, rank, primal, dual)


def _balance_step_size(state: _ADMMState) -> _ADMMState:
    """Return the state with a step size that keeps both residuals of the same order."""
    if state.primal_residual > MAX_RESIDUAL_RATIO * state.dual_residual:
        factor = STEP_SIZE_FACTOR
    elif state.dual_residual > MAX_RESIDUAL_RATIO * state.primal_residual:
        factor = 1 / STEP_SIZE_FACTOR
    else:
        return state
    return replace(state, U=state.U / factor, step_size=state.step_size * factor)


def project_spectraplex(M: Array, rank: int = MIN_EIGENPAIRS) -> tuple[Array, int]:
    """Return the nearest positive semidefinite matrix of trace one, and the rank to pass to the next call.

    Only the leading eigenpairs matter: `rank` of them are computed, and more if all of these get positive weights.

    Examples
    --------
    >>> import numpy as np
    >>> project_spectraplex(np.diag([3.0, 1.0]))[0]
    array([[1., 0.],
           [0., 0.]])
    """
    n = M.shape[0]
    while True:
        rank = n if rank > n // 8 else rank  # computing all of them is faster than computing many
        w, V = np.linalg.eigh(M) if rank == n else sla.eigh(M, subset_by_index=[n - rank, n - 1], driver="evr")
        weights = project_simplex(w)
        positive = int(np.count_nonzero(weights))
        if positive < rank or rank == n:
            break
        rank *= 2
    V = V[:, rank - positive :] * np.sqrt(weights[rank - positive :])
    return np.asarray(V @ V.T), positive + MIN_EIGENPAIRS


def project_simplex(v: Array) -> Array:
    """Return the nearest non-negative vector of sum one.

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
    """Return the nearest matrix with Σ|Mᵢⱼ| ≤ radius, whose entries are shrunk by a common amount.

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
