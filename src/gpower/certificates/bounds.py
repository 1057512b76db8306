"""Cheap upper bounds on λ_k(Σ) = max { zᵀΣz : ‖z‖ = 1, ‖z‖₀ ≤ k } = max_{|I| ≤ k} λmax(Σ_II).

Σ is positive semidefinite. Often only its entries for the variables of large variance are computed. Let C be these
variables, and let every other variable have a variance of at most `floor`. A support I of k variables with j of them in
C has

    λmax(Σ_II) ≤ λmax(Σ_JJ) + (k − j)·floor,   J = I ∩ C,

since A_I A_Iᵀ is A_J A_Jᵀ plus one term aᵢaᵢᵀ, of norm ‖aᵢ‖² ≤ floor, for each variable outside. Hence

    λ_k(Σ) ≤ max_{0 ≤ j ≤ k} λ_j(Σ_CC) + (k − j)·floor,                                                      (F)

and it suffices to bound λ_j(Σ_CC) by some U_j for every j. The vector U is called a *profile* here. With `floor = 0` no
variable is left out. A profile also bounds the ℓ0-penalised problem, by max_j U_j − γj.

The largest eigenvalues are themselves bounded from above with proof: by LAPACK and its rounding error, or by
Collatz–Wielandt. A power or Lanczos iteration that has not converged gives a value *below* the largest eigenvalue, so
no bound depends on one.

Terms: arrays are NumPy arrays on the host, in float64. Σ or S, (n, n), is symmetric, and given as both triangles. A
profile is (k + 1,): U_0 = 0, and U_j is at least λ_j(Σ). ``apply_soft_threshold(M, t)`` moves each entry of M by t
towards zero, also on the diagonal, and returns a new array. No function changes its arguments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components

from gpower._utils.arrays import Array, apply_soft_threshold

EPS = float(np.finfo(np.float64).eps)
#: Blocks of a sparse matrix up to this order are passed to LAPACK, which takes 0.04 s for one of this order; larger
#: ones are bounded by Collatz–Wielandt.
MAX_DENSE_BLOCK_SIZE = 800
#: Power iterations that choose the vector of the Collatz–Wielandt bound. Any number gives a bound; more tighten it.
N_PERRON_STEPS = 40
#: Rounding error of an eigenvalue of LAPACK, in units of the machine epsilon and by the order of the matrix.
MATRIX_ROUNDING_IN_EPS = 8
#: Rounding error of a sum of non-negative terms, in units of the machine epsilon and by their number; and that of a
#: quotient of the Collatz–Wielandt bound.
SUM_ROUNDING_IN_EPS, QUOTIENT_ROUNDING_IN_EPS = 2, 4
#: Share of the last vector in a power iteration, which lets blocks of period two converge, and the smallest entry of
#: the next vector relative to the largest: entries must be positive, so that the quotients are bounds.
PERRON_DAMPING, MIN_PERRON_ENTRY = 1e-3, 1e-12
#: Largest shift that makes a covariance semidefinite, relative to n times its largest entry. It suffices for
#: correlations rounded to three decimals (measured for 10 to 800 variables), but in general not for two.
MAX_RELATIVE_SHIFT = 2e-4
#: Number of thresholds tried before the best one is refined. The bound may have several minima in t.
N_THRESHOLD_GRID_POINTS = 12
#: Width of the interval of a refined minimum, as a share of the interval searched. A less exact one gives a bound too.
RELATIVE_GRID_TOLERANCE = 2e-3


def eigenvalue_rounding_error(w: Array) -> float:
    """Return 8 n ε max|w|, an upper bound on the rounding error of eigenvalues w of LAPACK, in their units.

    It covers the rounding of the sums that made the matrix too. ε is that of float64. `w`, (n,), must contain all
    eigenvalues of the matrix, in any order, as its size is taken for the order n; it may be empty.
    """
    return MATRIX_ROUNDING_IN_EPS * w.size * EPS * float(np.max(np.abs(w), initial=0))


def largest_eigenvalue(M: Array) -> float:
    """Return an upper bound on λmax of a symmetric matrix, equal to it up to rounding; zero for an empty matrix.

    M is a dense (n, n) NumPy array in float64; only its lower triangle is read.

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


def semidefinite_shift(S: Array, w: Array, entry_noise: float = 0.0) -> float:
    """Return the least δ ≥ 0 for which the eigenvalues prove S + δI to be positive semidefinite.

    S is symmetric, (n, n), in float64, and w, (n,), are its eigenvalues by LAPACK. For a covariance δ is rounding.
    `entry_noise`, at least zero, is the rounding error of the entries of S that larger numbers left, as after a
    deflation, in their units. Raise ValueError if δ is larger than this noise and MAX_RELATIVE_SHIFT allow.
    """
    n, rounding = S.shape[0], eigenvalue_rounding_error(w)
    shift = max(rounding - float(np.min(w, initial=0)), 0.0)
    if shift > 2 * rounding + n * max(entry_noise, MAX_RELATIVE_SHIFT * float(np.max(np.abs(S), initial=0))):
        raise ValueError(
            f"The matrix of {n} variables is not positive semidefinite, so it is not a covariance, and bounds on its "
            "components would not hold. Pairwise deletion of missing values is a common cause."
        )
    return shift


def perron_bound(M: sp.csr_array) -> float:
    """Return max_i (|M|d)_i/d_i for some d > 0, an upper bound on λmax of a symmetric sparse matrix M.

    λmax(M) ≤ λmax(|M|), and for a non-negative matrix every positive d gives an upper bound (Collatz, Wielandt):
    with D = diag(d), D⁻¹|M|D has the same eigenvalues and none exceeds its largest row sum. A power iteration
    chooses d; stopping it early costs tightness, not validity. M, (n, n), must not be zero, as d is divided by its
    largest entry. The rounding error is added.
    """
    N = abs(M)
    d = np.ones(N.shape[0])
    best = np.inf
    for _ in range(N_PERRON_STEPS):
        product = N @ d
        best = min(best, float(np.max(product / d)))
        d = product + PERRON_DAMPING * float(np.max(product)) * d
        d = np.maximum(d / float(np.max(d)), MIN_PERRON_ENTRY)
    return best * (1 + QUOTIENT_ROUNDING_IN_EPS * N.shape[0] * EPS)


def largest_sparse_eigenvalue(M: sp.csr_array) -> float:
    """Return an upper bound on λmax of a symmetric sparse matrix, the largest over its connected blocks.

    M is (n, n) in CSR, with its explicit zeros removed, as they would connect blocks. The bound is at least zero, also
    for an empty matrix, and contains the rounding error. Blocks of up to MAX_DENSE_BLOCK_SIZE variables are bounded by
    LAPACK, larger ones by Collatz–Wielandt.
    """
    n_blocks, labels = connected_components(M, directed=False)
    sizes = np.bincount(labels, minlength=n_blocks)
    isolated = np.flatnonzero(sizes[labels] == 1)
    bound = float(np.max(M.diagonal()[isolated], initial=0.0))
    for block in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(labels == block)
        submatrix = sp.csr_array(M[members][:, members])
        is_small = members.size <= MAX_DENSE_BLOCK_SIZE
        bound = max(bound, largest_eigenvalue(submatrix.toarray()) if is_small else perron_bound(submatrix))
    return bound


def bound_with_floor(profile: Array, k: int, floor: float) -> float:
    """Return max_j U_j + (k − j)·floor over 0 ≤ j ≤ k, which bounds λ_k(Σ) (docs/certificates.md, 3.1, (F)).

    `profile` has U_0 = 0, …, U_k, with U_j ≥ λ_j(Σ_CC) for the candidates C; a shorter one stands for fewer than k
    candidates, and of a longer one the rest is not read. `floor`, at least zero, is the largest variance of the other
    variables, in the units of the profile, and zero if there are none.
    """
    j = np.arange(min(k, profile.size - 1) + 1)
    return float(np.max(profile[j] + (k - j) * floor))


def bound_with_penalty(profile: Array, gamma: float) -> float:
    """Return max_j U_j − γj, which bounds max_z zᵀΣz − γ‖z‖₀ over unit vectors z (docs/certificates.md, 3.7).

    `profile`, (n + 1,), has a U_j ≥ λ_j(Σ) for every cardinality j = 0, …, n, with U_0 = 0; `gamma` ≥ 0 is in its
    units. The result is at least zero.
    """
    return float(np.max(profile - gamma * np.arange(profile.size)))


def trace_profile(variances: Array, k: int) -> Array:
    """Return U_j, the sum of the j largest variances, j = 0, …, k: λmax(Σ_II) ≤ tr Σ_II (docs/certificates.md, 3.2).

    `variances`, (n,), non-negative, is the diagonal of Σ, in any order, and k ≥ 0. The result has min(k, n) + 1
    entries, with the rounding of the sums added.

    Examples
    --------
    >>> import numpy as np
    >>> trace_profile(np.array([1.0, 3.0, 2.0]), 2).round(6)
    array([0., 3., 5.])
    """
    sums = np.cumsum(np.sort(variances)[::-1][:k])
    return np.concatenate([[0.0], sums * (1 + SUM_ROUNDING_IN_EPS * variances.size * EPS)])


def gershgorin_profile(S: Array, k: int) -> Array:
    """Return U_j = max_i Σ_ii + the j − 1 largest |Σ_il|, l ≠ i, j = 0, …, k: Gershgorin's discs [BB19].

    λmax(Σ_II) ≤ U_j for every I of j variables (docs/certificates.md, 3.2). S is Σ, symmetric, (n, n) with n ≥ 1, and
    k ≥ 1. The result has min(k, n) + 1 entries; the first one, for j = 0, is zero. Rounding is added.

    Examples
    --------
    >>> import numpy as np
    >>> gershgorin_profile(np.array([[2.0, -1.0], [-1.0, 1.0]]), 2).round(6)
    array([0., 2., 3.])
    """
    n = S.shape[0]
    rows = np.abs(S)
    np.fill_diagonal(rows, 0.0)
    n_others = min(k - 1, n - 1)
    if n_others > 0:
        rows = -np.sort(-np.partition(rows, n - n_others, axis=1)[:, n - n_others :], axis=1)
    sums = np.cumsum(np.hstack([np.diagonal(S)[:, None], rows[:, :n_others]]), axis=1)
    return np.concatenate([[0.0], np.max(sums, axis=0) * (1 + SUM_ROUNDING_IN_EPS * n * EPS)])


def soft_threshold_bound(S: Array, k: int, floor: float = 0.0, upper: float = np.inf) -> float:
    """Return the least λmax(soft_t(Σ)) + k·max(t, floor) over t.

    It bounds λ_k(Σ) for every t (docs/certificates.md, 3.3). soft_t moves every entry by t towards zero.
    With U = soft_t(Σ) − Σ, whose entries are at most t in size, zᵀΣz = zᵀsoft_t(Σ)z − zᵀUz ≤ λmax(soft_t(Σ)) + t‖z‖₁²,
    and ‖z‖₁² ≤ j for j variables. This is a feasible point of the dual of [dEJL07], with U_j = λmax + jt in (F).
    Variables of variance up to t are left out, which by (F) does not weaken the bound. Thresholds above `upper`/k
    cannot improve on `upper`, a bound that is known already. S is symmetric, (n, n), k ≥ 1; `floor` and `upper` are in
    the units of S, and a shift in the diagonal of S is in the returned bound too. `upper` is positive, or infinity if
    no bound is known. Thresholds from zero are tried: N_THRESHOLD_GRID_POINTS, then around the best.

    Examples
    --------
    >>> import numpy as np
    >>> round(soft_threshold_bound(np.ones((3, 3)), 2), 6)
    2.0
    """
    variances = np.diagonal(S)

    def compute_bound(t: float) -> float:
        """Return λmax(soft_t(Σ)) + k·max(t, floor), Σ over the variables of variance above t."""
        used = np.flatnonzero(variances > t)
        submatrix = S if used.size == variances.size else S[np.ix_(used, used)]
        return largest_eigenvalue(apply_soft_threshold(submatrix, t)) + k * max(t, floor)

    max_threshold = min(float(np.max(variances, initial=0)), upper / k)
    return minimize_on_grid(compute_bound, np.linspace(0, max_threshold, N_THRESHOLD_GRID_POINTS))


def minimize_on_grid(function: Callable[[float], float], grid: Array) -> float:
    """Return the least value of a function over a grid, (n_points,), or between the neighbours of the best point.

    `grid`, with one point at least, is sorted, either way, and its points are passed to `function` as floats, in its
    order. The function may return infinity, where it has no bound, but not NaN. Its local minima away from the best
    grid point (of equal ones the first) may be missed. The interval between the neighbours is searched to
    RELATIVE_GRID_TOLERANCE of its width.
    """
    values = [function(float(t)) for t in grid]
    i = int(np.argmin(values))
    low, high = sorted((float(grid[max(i - 1, 0)]), float(grid[min(i + 1, grid.size - 1)])))
    options = {"xatol": RELATIVE_GRID_TOLERANCE * (high - low)}
    with np.errstate(all="ignore"):  # values may be infinite
        refined = minimize_scalar(function, bounds=(low, high), method="bounded", options=options)
    return min(values[i], float(refined.fun))
