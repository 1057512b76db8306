"""Bounds for wide data, with too many variables n to form the n × n matrix Σ.

Three things replace Σ. First, Σ over the candidates, which are the variables of large variance, together with the
largest variance of the others: (F) of `bounds` needs no more. Second, products with blocks of columns, for bounds over
all variables. Third, the certificate of d'Aspremont, Bach and El Ghaoui [dBE08], computed with p × p matrices of the
sample space.

Over unit vectors y of the sample space, Σ_{i∈I} (aᵢᵀy)² ≤ Σ_i [(aᵢᵀy)² − ρ]₊ + kρ for every ρ ≥ 0 and |I| ≤ k. Let
Bᵢ = aᵢaᵢᵀ − ρI. If Yᵢ ⪰ Bᵢ and Yᵢ ⪰ 0, then [yᵀBᵢy]₊ ≤ yᵀYᵢy, hence

    λ_k(Σ) ≤ λmax(Σ_i Yᵢ) + kρ,      max_z zᵀΣz − ρ‖z‖₀ ≤ λmax(Σ_i Yᵢ).

Given a unit vector x, with c = aᵢᵀx:

- c² > ρ: Yᵢ = Bᵢxxᵀ Bᵢ/(xᵀBᵢx). Bᵢ has one positive eigenvalue and xᵀBᵢx > 0, so it is negative semidefinite on the
  vectors that are Bᵢ-orthogonal to x, and Yᵢ − Bᵢ ⪰ 0.
- c² < ρ < ‖aᵢ‖²: Yᵢ = ρ(‖aᵢ‖² − ρ)/(ρ − c²)·p̂p̂ᵀ, where p̂ is the direction of aᵢ − cx. On the span of x and p̂, the
  determinant of Yᵢ − Bᵢ is zero and its first entry is ρ − c² > 0; on the complement, Yᵢ − Bᵢ = ρI.
- ‖aᵢ‖² ≤ ρ: Yᵢ = 0, so that the column aᵢ need not be read.

x is the vector of scores of a component. The certificate is exact if that component solves the semidefinite relaxation.

Terms: all arrays are on the host, in float64, and indices are int. An `Operator` is A through products, here in float64
in host memory. ``shape`` is (p, n), with p samples, or p = n if only Σ = AᵀA is known (`has_samples` is False).
``column_norms``, (n,), are the roots of the diagonal of Σ, exactly zero for columns of rounding errors;
`norm_tolerance` is the norm up to which the rest of a subtracted column is rounding. ``gram(idx)`` is Σ[idx, idx],
which may be stored data and is not written to; ``sample_gram(idx)``, (p, p), is A[:, idx]A[:, idx]ᵀ, only with samples.
``columns(idx)``, (p, |idx|), is A[:, idx] as a new array, and ``correlate(X)``, (n, m), is AᵀX for X of shape (p, m).
Without samples, vectors of length n stand for A u, so that ``correlate(columns(idx))`` is Σ[:, idx] in both cases.
`is_sparse` says that the matrix is sparse. ``is_expired`` of a `Clock` says whether to stop.

`bounds` has ``largest_eigenvalue(M)``, an upper bound on λmax that contains the rounding, of a dense (n, n) M, and
``largest_sparse_eigenvalue(M)`` of a CSR matrix; ``semidefinite_shift(S, w, noise)``, a δ ≥ 0 for which S + δI is
semidefinite, from the eigenvalues w of S; ``eigenvalue_rounding_error(w)`` of all eigenvalues w of a matrix; and
``minimize_on_grid(f, grid)``, the least value of f that was found. ``apply_soft_threshold(c, t)`` moves each entry of c
by t towards zero, and ``safe_reciprocal(v)`` is 1/v, and 0 where v is not positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, apply_soft_threshold, safe_reciprocal
from gpower.certificates import bounds
from gpower.certificates.certificate import Clock
from gpower.operators.base import Operator

#: Largest number of variables whose covariance is formed (18 MB), and of those in the row bound if variables of small
#: variance can be left out of it. A step of the row bound is an eigendecomposition of that order.
MAX_CANDIDATE_VARIABLES, MAX_ROW_CANDIDATES = 1500, 400
#: Values of ρ tried, as shares of the interval from the (k+1)-th to the k-th largest c². They are denser at the ends,
#: where a c² comes near to ρ and the bound changes fast.
RHO_GRID_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
#: Units of the machine epsilon in the rounding error of zᵀSz, by its sum of absolute terms and the number of variables;
#: of a sum of p squares, by p; of Σ Yᵢ, by its order and number of terms; and of an entry of Σ, by p.
VALUE_ROUNDING_IN_EPS, SQUARES_ROUNDING_IN_EPS, COVERING_ROUNDING_IN_EPS, ENTRY_ROUNDING_IN_EPS = 8, 64, 16, 8
#: Entries of Σ are collected up to this number of times MAX_COVARIANCE_ENTRIES: the estimate of their number is rough.
MAX_ENTRIES_EXCESS = 3
#: If c² is nearer to ρ than this share of ‖aᵢ‖², rounding makes Yᵢ unreliable and the bound is not used.
MIN_RELATIVE_DISTANCE = 1e-7
#: Number of large entries of Σ that are stored (150 MB), of columns in a block, and of random columns from which the
#: size of the entries is estimated.
MAX_COVARIANCE_ENTRIES, COLUMN_BLOCK_SIZE, N_PROBED_COLUMNS = 12_000_000, 256, 128
#: Largest number of samples p for which a p × p matrix is formed and decomposed (72 MB).
MAX_GRAM_SAMPLES = 3000
#: Number of thresholds tried, and the smallest of them as a share of the largest threshold that can improve the bound.
#: Each threshold takes an eigenvalue bound of a large sparse matrix, and a smaller one leaves more entries.
N_WIDE_THRESHOLDS, MIN_THRESHOLD_SHARE = 6, 0.4


@dataclass(frozen=True, eq=False)
class CandidateCovariance:
    """Σ over the variables of large variance; (F) of `bounds` extends bounds on them to all variables.

    Bounds and eigenvalues of S contain the shift: subtract it once for each component. Unless Σ is zero, a floor of
    zero means that all variables are candidates, so that positions in S are column numbers.
    """

    variables: Array  # (m,): indices of the variables, increasing
    S: Array  # (m, m): Σ over these variables plus shift·I, symmetric, float64
    floor: float  # largest variance of the other variables, shift included; zero if there are none
    shift: float  # makes Σ positive semidefinite despite rounding; eigenvalues of S exceed those of Σ by this
    largest_eigenvalue: float  # upper bound on λmax(S), rounding included

    def compute_variance(self, z: Array) -> float:
        """Compute zᵀΣz, without the shift, of unit loadings z, (n,), that are zero outside the candidates.

        The result is zero up to rounding errors of the sum, and for zero loadings. Loadings outside the candidates
        would be ignored.
        """
        z = z[self.variables]
        rounding = VALUE_ROUNDING_IN_EPS * bounds.EPS * z.size * float(np.abs(z) @ np.abs(self.S) @ np.abs(z))
        value = float(z @ self.S @ z) - self.shift
        return value if value > rounding else 0.0

    def narrow(self, max_variables: int, support: Array) -> CandidateCovariance:
        """Return Σ over at most `max_variables` variables of largest variance, those of `support` included.

        `support` contains column numbers, all of them candidates, in any order. If it is larger than `max_variables`,
        the result has exactly its variables. Of equal variances the first is taken. The candidates themselves are
        returned if they are few enough; the shift and the bound on λmax stay, and the floor becomes the largest
        variance that is left out.
        """
        if self.variables.size <= max_variables:
            return self
        positions = np.searchsorted(self.variables, support)
        variances = np.diagonal(self.S)
        idx = _select_largest_variances(variances, positions, max_variables)
        floor = max(self.floor, float(np.max(np.delete(variances, idx), initial=0.0)))
        return CandidateCovariance(
            self.variables[idx], self.S[np.ix_(idx, idx)], floor, self.shift, self.largest_eigenvalue
        )


def select_candidates(
    operator: Operator, support: Array, max_variables: int = MAX_CANDIDATE_VARIABLES
) -> CandidateCovariance:
    """Compute Σ over at most `max_variables` variables of largest variance, those of `support` included.

    `support` contains different column numbers and may be empty; if it is larger than `max_variables`, the candidates
    are exactly its variables. Of equal variances the first is taken. A covariance is available anyway, so that its
    shift is computed over all variables before it is narrowed. The variables are increasing. Raise ValueError if Σ over
    them is not positive semidefinite up to rounding.
    """
    p, n = operator.shape
    if not operator.has_samples or n <= max_variables:
        return _build_candidates(operator, np.arange(n), 0.0).narrow(max_variables, support)
    # At least the exact sums of p squares.
    rounded_up = operator.column_norms**2 * (1 + SQUARES_ROUNDING_IN_EPS * p * bounds.EPS)
    idx = _select_largest_variances(rounded_up, support, max_variables)
    return _build_candidates(operator, idx, float(np.max(np.delete(rounded_up, idx), initial=0.0)))


def _build_candidates(operator: Operator, idx: Array, floor: float) -> CandidateCovariance:
    """Compute Σ[idx, idx] and shift it to be positive semidefinite; the floor is zero if no variable is left out.

    `idx`, (m,), are increasing column numbers, and `floor` is at least the variance of every other variable, without
    the shift, which is added. Raise ValueError if no small shift suffices.
    """
    S = _compute_covariance(operator, idx)
    w = np.linalg.eigvalsh(S)
    shift = bounds.semidefinite_shift(S, w, operator.norm_tolerance**2)
    floor = floor + shift if idx.size < operator.shape[1] else 0.0
    largest = float(w[-1]) + bounds.eigenvalue_rounding_error(w) + shift
    return CandidateCovariance(idx, S + shift * np.eye(idx.size), floor, shift, largest)


def _select_largest_variances(variances: Array, support: Array, max_variables: int) -> Array:
    """Return the indices of the largest variances, (n,), and the support, indices too; different, increasing, of int.

    At most `max_variables` < n are returned: the support, in any order, and of the largest variances as many as
    `max_variables` exceeds its size, some of which may be in it. Of equal variances the first is taken.
    """
    order = np.argsort(-variances, kind="stable")
    return np.union1d(order[: max(max_variables - support.size, 0)], support).astype(np.intp)


def _compute_covariance(operator: Operator, idx: Array) -> Array:
    """Compute Σ[idx, idx], (m, m), symmetric; if the columns are dense, from the deflated columns themselves.

    `idx`, (m,), are column numbers. The result is a new array in float64, with zeros for columns of norm zero.
    """
    A = operator.columns(idx) if operator.has_samples and not operator.is_sparse else None
    S = operator.gram(idx) if A is None else A.T @ A
    S = (S + S.T) / 2  # a copy: `gram` of a covariance may return the matrix of the operator, and S is changed below
    is_zero = operator.column_norms[idx] == 0  # products with such a column are rounding
    S[is_zero] = 0.0
    S[:, is_zero] = 0.0
    return S


def covering_eigenvalue(A: Array, x: Array, rho: float) -> float:
    """Return λmax(Σ_i Yᵢ) for the columns aᵢ of A, (p, n), a unit vector x, (p,), and ρ ≥ 0.

    By docs/certificates.md, 3.4, λ_k(AᵀA) ≤ λmax(Σ_i Yᵢ) + kρ for every k and x. With c = aᵢᵀx and p̂ the direction of
    aᵢ − cx, the matrix Yᵢ is (c·aᵢ − ρx)(c·aᵢ − ρx)ᵀ/(c² − ρ) if c² > ρ, and ρ(‖aᵢ‖² − ρ)/(ρ − c²)·p̂p̂ᵀ if c² < ρ <
    ‖aᵢ‖². Columns with ‖aᵢ‖² ≤ ρ have Yᵢ = 0 and need not be in A; all others must be. The result contains the rounding
    error. It is zero without a column above ρ, and infinity if a c² is nearer to ρ than MIN_RELATIVE_DISTANCE‖aᵢ‖².
    The order of the columns does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> round(covering_eigenvalue(np.diag([2.0, 1.0]), np.array([1.0, 0.0]), 1.0), 6)
    3.0
    """
    squares = np.sum(A * A, axis=0)  # (n,)
    used = squares > rho
    A, squares = A[:, used], squares[used]
    c = A.T @ x
    distance = c * c - rho
    if np.any(np.abs(distance) < MIN_RELATIVE_DISTANCE * squares):
        return np.inf
    active = distance > 0
    P = A - np.outer(x, c)
    V = np.where(active, A * c - rho * x[:, None], P)
    lengths = np.sum(P * P, axis=0)
    weights = np.where(active, 1 / distance, -rho * (squares - rho) / distance * safe_reciprocal(lengths))
    traces = weights * np.sum(V * V, axis=0)  # of the Yᵢ
    factor = COVERING_ROUNDING_IN_EPS * sum(A.shape) * bounds.EPS
    rounding = factor * float(traces @ (1 + squares / np.abs(distance)))
    return bounds.largest_eigenvalue((V * weights) @ V.T) + rounding


def sample_space_bound(A: Array, x: Array, k: int, floor: float = 0.0) -> float:
    """Return the least λmax(Σ_i Yᵢ) + kρ over ρ between the (k+1)-th and the k-th largest (aᵢᵀx)², at least the floor.

    It bounds λ_k(AᵀA) for every ρ (docs/certificates.md, 3.4); `covering_eigenvalue` computes the first term. A, (p,
    m), has the columns of the candidates, in any order; the ‖aᵢ‖² of all other columns are at most `floor`. x, (p,), is
    a unit vector, the scores of a component. k is at least 1; for k ≥ m the ρ are below the least square. The result is
    infinity if no ρ is left between the limits. It contains the rounding error.
    """
    squares = np.sort((A.T @ x) ** 2)[::-1]
    low = max(float(squares[k]) if k < squares.size else 0.0, floor)
    high = float(squares[min(k, squares.size) - 1])
    if not high > low:
        return np.inf
    grid = low + (high - low) * RHO_GRID_SHARES
    return bounds.minimize_on_grid(lambda rho: covering_eigenvalue(A, x, rho) + k * rho, grid)


def compute_full_spectrum(operator: Operator) -> Array | None:
    """Return the eigenvalues of Σ over all variables, increasing; None if the matrix is too large.

    The matrix is too large if it has more than MAX_GRAM_SAMPLES samples, or that many variables without samples. The
    eigenvalues come from A Aᵀ if there are samples, and there are then p of them: the number of zeros may differ from
    that of Σ. Rounding is not added, so that small ones may be negative.
    """
    if operator.shape[0] > MAX_GRAM_SAMPLES:  # without samples, `shape` is (n_features, n_features)
        return None
    gram = operator.sample_gram if operator.has_samples else operator.gram
    return np.linalg.eigvalsh(gram(np.arange(operator.shape[1])))


def largest_full_eigenvalue(operator: Operator) -> float:
    """Return λmax(Σ) over all variables with its rounding error; infinity if the matrix is too large.

    λ_k(Σ) ≤ λmax(Σ) for every k, by interlacing (docs/certificates.md, 3.2). The matrix is too large if it has more
    than MAX_GRAM_SAMPLES samples, or that many variables without samples.
    """
    w = compute_full_spectrum(operator)
    return np.inf if w is None else float(w[-1]) + bounds.eigenvalue_rounding_error(w)


def full_soft_threshold_bound(operator: Operator, k: int, known_bound: float, clock: Clock) -> float:
    """Return the least λmax(soft_t(Σ)) + kt over some t, Σ over all variables, from the entries of Σ above t.

    It bounds λ_k(Σ) for every t (docs/certificates.md, 3.3), as Σ − soft_t(Σ) has entries of size up to t.
    Thresholds are tried from known_bound/k, above which kt alone exceeds the known bound, down to MIN_THRESHOLD_SHARE
    of it, or to the one that about MAX_COVARIANCE_ENTRIES entries of Σ exceed. Variables of variance up to t are left
    out, which by (F) of `bounds` does not weaken the bound. The other variables fall into connected blocks, each
    bounded by LAPACK or, if large, by Collatz–Wielandt. The term kε covers a rounding error of ε in the entries.

    `known_bound`, positive, is a bound on λ_k(Σ) that is proven already, and k is at least 1. The result is infinity if
    no threshold below known_bound/k can be tried, or if the clock expires before the first. It contains no shift, as Σ
    comes from the operator and not from the candidates.
    """
    squares = operator.column_norms**2
    epsilon = ENTRY_ROUNDING_IN_EPS * operator.shape[0] * bounds.EPS * float(np.max(squares, initial=0))
    high = known_bound / k
    low = max(_estimate_lowest_threshold(operator, squares), MIN_THRESHOLD_SHARE * high)
    if not low < high:
        return np.inf
    idx = np.flatnonzero(squares > low)
    if not idx.size:
        return k * (low + epsilon)
    Sigma = _collect_large_entries(operator, idx, low, clock)
    if Sigma is None:
        return np.inf

    def compute_bound(t: float) -> float:
        """Return λmax(soft_t(Σ)) + k(t + ε) over the variables of variance above t; infinity if the clock expired."""
        thresholded = Sigma.copy()
        thresholded.data = apply_soft_threshold(thresholded.data, t)
        used = np.flatnonzero(squares[idx] > t)
        if used.size < idx.size:
            thresholded = sp.csr_array(thresholded[used][:, used])
        thresholded.eliminate_zeros()
        return np.inf if clock.is_expired else bounds.largest_sparse_eigenvalue(thresholded) + k * (t + epsilon)

    return bounds.minimize_on_grid(compute_bound, np.linspace(high, low, N_WIDE_THRESHOLDS))


def _estimate_lowest_threshold(operator: Operator, squares: Array) -> float:
    """Estimate from random columns the size that about MAX_COVARIANCE_ENTRIES entries of Σ exceed.

    Sizes are absolute values. `squares` are the squared column norms, (n,), of which only the number n ≥ 1 is read. The
    columns are chosen with a fixed seed. If Σ has fewer entries, the result is the smallest size that was seen.
    """
    n = squares.size
    idx = np.sort(np.random.RandomState(0).choice(n, min(N_PROBED_COLUMNS, n), replace=False))
    sizes = np.abs(operator.correlate(operator.columns(idx)))
    return float(np.quantile(sizes, max(0.0, 1 - MAX_COVARIANCE_ENTRIES / n**2)))


def _collect_large_entries(operator: Operator, idx: Array, threshold: float, clock: Clock) -> sp.csr_array | None:
    """Collect the entries of Σ[idx, idx] above a threshold; return None if they are too many or the clock expires.

    Entries are compared by absolute value; those up to `threshold` are not stored. The result is symmetric,
    (|idx|, |idx|), in float64, in the order of `idx`, different column numbers of which there is one. They are too many
    if more than MAX_ENTRIES_EXCESS·MAX_COVARIANCE_ENTRIES are found. The clock is read after each block of columns.
    """
    blocks = []
    n_entries = 0
    for i in range(0, idx.size, COLUMN_BLOCK_SIZE):
        # Relies on `correlate` and `columns` using one representation of the sample space, with or without samples.
        rows = operator.correlate(operator.columns(idx[i : i + COLUMN_BLOCK_SIZE]))[idx].T  # (block, |idx|)
        rows[np.abs(rows) <= threshold] = 0.0
        blocks.append(sp.csr_array(rows))
        n_entries += blocks[-1].nnz
        if clock.is_expired or n_entries > MAX_ENTRIES_EXCESS * MAX_COVARIANCE_ENTRIES:
            return None
    S = sp.csr_array(sp.vstack(blocks, format="csr"))
    return sp.csr_array((S + S.T) / 2)
