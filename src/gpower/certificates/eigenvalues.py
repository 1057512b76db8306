"""Upper bounds on largest eigenvalues that are proofs: LAPACK with its rounding, Cholesky, Collatz–Wielandt.

A power or Lanczos iteration that has not converged gives a value *below* the largest eigenvalue, so nothing here
rests on one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gpower._arrays import Array

EPS = float(np.finfo(np.float64).eps)
#: Blocks of a sparse matrix up to this order go to LAPACK, larger ones to Collatz–Wielandt.
DENSE_BLOCK = 800
#: Products spent on a good vector for the Collatz–Wielandt bound.
PERRON_STEPS = 40
#: Shifts tried, relative to the largest entry, until a matrix is positive definite.
SHIFTS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 2e-4)


def rounding(w: Array) -> float:
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
    return float(w[-1]) + rounding(w)


def semidefinite_shift(S: Array, entry_noise: float = 0.0) -> float:
    """A δ ≥ 0 for which S + δI is positive semidefinite, proven by Cholesky; zero but for rounding for a covariance.

    The factorisation of S + δI succeeds only if S + δI is positive definite up to n ε tr(S), which is added.
    `entry_noise` is the rounding that the entries of S carry from larger numbers, as after a deflation.
    """
    n, largest = S.shape[0], float(np.max(np.abs(S), initial=0))
    if largest == 0:
        return 0.0
    noise = max(8 * n * EPS * max(float(np.trace(S)), largest), n * entry_noise)
    for share in SHIFTS:
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
    for _ in range(PERRON_STEPS):
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
        small = members.size <= DENSE_BLOCK
        best = max(best, largest_eigenvalue(part.toarray()) if small else perron_bound(part))
    return best
