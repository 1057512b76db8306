"""Cheap upper bounds on λ_k(Σ) = max { zᵀΣz : ‖z‖ = 1, ‖z‖₀ ≤ k } = max_{|I| ≤ k} λmax(Σ_II).

All are for a positive semidefinite Σ, of which often only the variables of large variance are at hand. Let C be those,
and let every other variable have a variance of at most `floor`. A support I of k variables with j of them in C has

    λmax(Σ_II) ≤ λmax(Σ_JJ) + (k − j)·floor,   J = I ∩ C,

since A_I A_Iᵀ is A_J A_Jᵀ plus one term aᵢaᵢᵀ, of norm ‖aᵢ‖² ≤ floor, for each variable outside. So

    λ_k(Σ) ≤ max_{0 ≤ j ≤ k} λ_j(Σ_CC) + (k − j)·floor,                                                      (F)

and a bound U_j on λ_j(Σ_CC) for every j, called a *profile* here, is enough. With `floor = 0` nothing is left out.
The same profile bounds the ℓ0-penalised problem, max_j U_j − γj.

They rest on upper bounds on largest eigenvalues that are proofs: LAPACK with its rounding, Cholesky, Collatz–Wielandt.
A power or Lanczos iteration that has not converged gives a value *below* the largest eigenvalue, so nothing here rests
on one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components

from gpower._utils.arrays import Array, apply_soft_threshold

EPS = float(np.finfo(np.float64).eps)
#: Blocks of a sparse matrix up to this order go to LAPACK, larger ones to Collatz–Wielandt.
MAX_DENSE_BLOCK_SIZE = 800
#: Products spent on a good vector for the Collatz–Wielandt bound.
N_PERRON_STEPS = 40
#: Shifts tried, relative to the largest entry, until a matrix is positive definite.
RELATIVE_SHIFTS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 2e-4)
#: Values of a parameter tried before the best is refined.
N_THRESHOLD_GRID_POINTS = 12


def eigenvalue_rounding_error(w: Array) -> float:
    """What the eigenvalues w of LAPACK, and sums that made the matrix, may be off by: 8 n ε max|w|."""
    return 8 * w.size * EPS * float(np.max(np.abs(w), initial=0))


def largest_eigenvalue(M: Array) -> float:
    """An upper bound on λmax of a symmetric matrix, equal to it but for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> bound = largest_eigenvalue(np.diag([1.0, 3.0]))
    >>> 3.0 <= bound <= 3.0 + 1e-13
    True
    """
    if M.shape[0] == 0:
        return 0.0
    w = np.linalg.eigvalsh(M)
    return float(w[-1]) + eigenvalue_rounding_error(w)


def semidefinite_shift(S: Array, entry_noise: float = 0.0) -> float:
    """A δ ≥ 0 for which S + δI is positive semidefinite, proven by Cholesky; zero but for rounding for a covariance.

    The factorisation of S + δI succeeds only if S + δI is positive definite up to n ε tr(S), which is added.
    `entry_noise` is the rounding that the entries of S carry from larger numbers, as after a deflation.
    """
    n, largest = S.shape[0], float(np.max(np.abs(S), initial=0))
    if largest == 0:
        return 0.0
    noise = max(8 * n * EPS * max(float(np.trace(S)), largest), n * entry_noise)
    for share in RELATIVE_SHIFTS:
        shift = share * n * largest + noise
        try:
            np.linalg.cholesky(S + shift * np.eye(n))
        except np.linalg.LinAlgError:
            continue
        return shift + noise
    raise ValueError(
        f"The matrix of {n} variables is not positive semidefinite, so it is no covariance; bounds on its components "
        "do not hold. Pairwise deletion of missing values is a common cause."
    )


def perron_bound(M: sp.csr_array) -> float:
    """An upper bound on λmax of a symmetric sparse matrix: max_i (|M|d)_i/d_i for some d > 0.

    λmax(M) ≤ λmax(|M|), and for a non-negative matrix every positive d gives an upper bound (Collatz, Wielandt):
    with D = diag(d), D⁻¹|M|D has the same eigenvalues and none exceeds its largest row sum. A power iteration
    chooses d; stopping it early costs tightness, not validity.
    """
    N = abs(M)
    d = np.ones(N.shape[0])
    best = np.inf
    for _ in range(N_PERRON_STEPS):
        product = N @ d
        best = min(best, float(np.max(product / d)))
        d = product + 1e-3 * float(np.max(product)) * d  # stays positive, and a block of period two converges
        d /= float(np.max(d))
        d = np.maximum(d, 1e-12)
    return best * (1 + 4 * N.shape[0] * EPS)


def largest_sparse_eigenvalue(M: sp.csr_array) -> float:
    """An upper bound on λmax of a symmetric sparse matrix, block by block of variables that are connected."""
    count, label = connected_components(M, directed=False)
    sizes = np.bincount(label, minlength=count)
    alone = np.flatnonzero(sizes[label] == 1)
    best = float(np.max(M.diagonal()[alone], initial=0.0))
    for block in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(label == block)
        part = sp.csr_array(M[members][:, members])
        small = members.size <= MAX_DENSE_BLOCK_SIZE
        best = max(best, largest_eigenvalue(part.toarray()) if small else perron_bound(part))
    return best


def bound_with_floor(profile: Array, k: int, floor: float) -> float:
    """(F): the largest U_j + (k − j)·floor over j ≤ k, for a profile U_0, …, U_k."""
    j = np.arange(min(k, profile.size - 1) + 1)
    return float(np.max(profile[j] + (k - j) * floor))


def bound_with_penalty(profile: Array, gamma: float) -> float:
    """A bound on max_z zᵀΣz − γ‖z‖₀ from a profile over all cardinalities."""
    return float(np.max(profile - gamma * np.arange(profile.size)))


def trace_profile(variances: Array, k: int) -> Array:
    """λmax ≤ trace: U_j is the sum of the j largest variances, (k + 1,).

    Examples
    --------
    >>> import numpy as np
    >>> trace_profile(np.array([1.0, 3.0, 2.0]), 2).round(6)
    array([0., 3., 5.])
    """
    sums = np.cumsum(np.sort(variances)[::-1][:k])
    return np.concatenate([[0.0], sums * (1 + 2 * variances.size * EPS)])


def gershgorin_profile(S: Array, k: int) -> Array:
    """Gershgorin's discs of Σ_II: U_j = max_i Σ_ii + the j − 1 largest |Σ_il|, l ≠ i, (k + 1,) [BB19].

    Examples
    --------
    >>> import numpy as np
    >>> gershgorin_profile(np.array([[2.0, -1.0], [-1.0, 1.0]]), 2).round(6)
    array([0., 2., 3.])
    """
    n = S.shape[0]
    rows = np.abs(S)
    np.fill_diagonal(rows, 0.0)
    most = min(k - 1, n - 1)
    if most > 0:
        rows = -np.sort(-np.partition(rows, n - most, axis=1)[:, n - most :], axis=1)
    sums = np.cumsum(np.hstack([np.diagonal(S)[:, None], rows[:, :most]]), axis=1)
    return np.concatenate([[0.0], np.max(sums, axis=0) * (1 + 2 * n * EPS)])


def eigenvalue_profile(S: Array, k: int) -> Array:
    """λmax(Σ_II) ≤ λmax(Σ): the same for every j but zero, (k + 1,)."""
    return np.concatenate([[0.0], np.full(k, largest_eigenvalue(S))])


def soft_threshold_bound(S: Array, k: int, floor: float = 0.0, upper: float = np.inf) -> tuple[float, float]:
    """λmax(soft_t(Σ)) + k·max(t, floor), the least over t, and that t.

    With U = soft_t(Σ) − Σ, whose entries are at most t in size, zᵀΣz = zᵀsoft_t(Σ)z − zᵀUz ≤ λmax(soft_t(Σ)) + t‖z‖₁²,
    and ‖z‖₁² ≤ j for j variables: a feasible point of the dual of [dEJL07], with U_j = λmax + jt in (F). Variables of a
    variance up to t are left out, by (F) at no cost. Thresholds above `upper`/k cannot improve on `upper`.

    Examples
    --------
    >>> import numpy as np
    >>> bound, t = soft_threshold_bound(np.ones((3, 3)), 2)
    >>> round(bound, 6)
    2.0
    """
    d = np.diagonal(S)

    def value(t: float) -> float:
        used = np.flatnonzero(d > t)
        part = S if used.size == d.size else S[np.ix_(used, used)]
        return largest_eigenvalue(apply_soft_threshold(part, t)) + k * max(t, floor)

    return minimize_on_grid(value, np.linspace(0, min(float(np.max(d, initial=0)), upper / k), N_THRESHOLD_GRID_POINTS))


def minimize_on_grid(function: Callable[[float], float], grid: Array) -> tuple[float, float]:
    """The least value over a grid, refined around its best point, and where."""
    values = [function(float(t)) for t in grid]
    a = int(np.argmin(values))
    low, high = sorted((float(grid[max(a - 1, 0)]), float(grid[min(a + 1, grid.size - 1)])))
    with np.errstate(all="ignore"):  # infinite values are fine
        found = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 2e-3 * (high - low)})
    return min((values[a], float(grid[a])), (float(found.fun), float(found.x)))
