"""Wide data: what stands in for an n × n matrix where there are more variables than one is wanted for.

Three things do. Σ over the candidates, the variables of large variance, with how much variance the others have at most;
(F) of `bounds` concludes from that. Products with blocks of columns alone, for bounds over all variables. And the
certificate of d'Aspremont, Bach and El Ghaoui [dBE08], computed with p × p matrices of the sample space.

Over unit vectors y of the sample space, Σ_{i∈I} (aᵢᵀy)² ≤ Σ_i [(aᵢᵀy)² − ρ]₊ + kρ for every ρ ≥ 0 and |I| ≤ k. Let
Bᵢ = aᵢaᵢᵀ − ρI. If Yᵢ ⪰ Bᵢ and Yᵢ ⪰ 0, then [yᵀBᵢy]₊ ≤ yᵀYᵢy, hence

    λ_k(Σ) ≤ λmax(Σ_i Yᵢ) + kρ,      max_z zᵀΣz − ρ‖z‖₀ ≤ λmax(Σ_i Yᵢ).

Given a unit vector x, with c = aᵢᵀx:

- c² > ρ: Yᵢ = Bᵢxxᵀ Bᵢ/(xᵀBᵢx). Bᵢ has one positive eigenvalue and xᵀBᵢx > 0, so it is negative semidefinite on the
  vectors that are Bᵢ-orthogonal to x, and Yᵢ − Bᵢ ⪰ 0.
- c² < ρ < ‖aᵢ‖²: Yᵢ = ρ(‖aᵢ‖² − ρ)/(ρ − c²)·p̂p̂ᵀ, p̂ the direction of aᵢ − cx. On the span of x and p̂, the determinant of
  Yᵢ − Bᵢ is zero and its first entry ρ − c² > 0; off it, Yᵢ − Bᵢ = ρI.
- ‖aᵢ‖² ≤ ρ: Yᵢ = 0. Such a variable need not even be read.

x is the scores of a component, so that the certificate is exact when that component is the solution of the semidefinite
relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, apply_soft_threshold, safe_reciprocal
from gpower.certificates.bounds import (
    EPS,
    largest_eigenvalue,
    largest_sparse_eigenvalue,
    minimize_on_grid,
    semidefinite_shift,
)
from gpower.certificates.certificate import Clock
from gpower.operators.base import Operator

#: Most variables whose covariance is formed, and most of them in the row bound where others may be left out.
MAX_CANDIDATE_VARIABLES, MAX_ROW_CANDIDATES = 1500, 400
#: Values of ρ tried: shares of the way from the (k+1)-th to the k-th largest c².
RHO_GRID_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
#: A c² nearer to ρ than this share of ‖aᵢ‖² makes Yᵢ too uncertain.
MIN_RELATIVE_DISTANCE = 1e-7
#: Entries of Σ that are kept, columns treated at once, and columns that tell how large the entries are.
MAX_COVARIANCE_ENTRIES, COLUMN_BLOCK_SIZE, N_PROBED_COLUMNS = 12_000_000, 256, 128
#: Samples for which a p × p matrix is formed.
MAX_GRAM_SAMPLES = 3000
#: Thresholds tried, down to this share of the largest that can help.
N_WIDE_THRESHOLDS, MIN_THRESHOLD_SHARE = 6, 0.4


@dataclass(frozen=True, eq=False)
class CandidateCovariance:
    """Σ over some variables; (F) of `bounds` says what may be concluded from them alone."""

    variables: Array  # (m,): the variables, increasing
    S: Array  # (m, m): Σ of these plus shift·I, symmetric
    floor: float  # no other variable has a larger variance, shift included; zero if there are none
    shift: float  # what made Σ positive semidefinite: rounding; values of S are larger than those of Σ by this much

    def compute_variance(self, z: Array) -> float:
        """zᵀΣz of unit loadings over all variables, zero outside these; zero where all that is left is rounding."""
        z = z[self.variables]
        rounding = 8 * EPS * z.size * float(np.abs(z) @ np.abs(self.S) @ np.abs(z))
        value = float(z @ self.S @ z) - self.shift
        return value if value > rounding else 0.0

    def narrow(self, max_variables: int, support: Array) -> CandidateCovariance:
        """The same for at most `most` variables of largest variance, those of `support` among them."""
        if self.variables.size <= max_variables:
            return self
        kept, floor = _select_largest_variances(
            np.diagonal(self.S), np.searchsorted(self.variables, support), max_variables
        )
        return CandidateCovariance(self.variables[kept], self.S[np.ix_(kept, kept)], max(floor, self.floor), self.shift)


def select_candidates(
    operator: Operator, support: Array, max_variables: int = MAX_CANDIDATE_VARIABLES
) -> CandidateCovariance:
    """Σ over the `most` variables of largest variance, those of `support` among them."""
    p, n = operator.shape
    if not operator.has_samples or n <= max_variables:
        return _build_candidates(operator, np.arange(n), 0.0).narrow(max_variables, support)
    rounded_up = operator.column_norms**2 * (1 + 64 * p * EPS)
    return _build_candidates(operator, *_select_largest_variances(rounded_up, support, max_variables))


def _build_candidates(operator: Operator, idx: Array, floor: float) -> CandidateCovariance:
    """Σ[idx, idx] made positive semidefinite; no floor where nothing is left out."""
    S = _compute_covariance(operator, idx)
    shift = semidefinite_shift(S, operator.norm_tolerance**2)
    floor = floor + shift if idx.size < operator.shape[1] else 0.0
    return CandidateCovariance(idx, S + shift * np.eye(idx.size), floor, shift)


def _select_largest_variances(variances: Array, support: Array, max_variables: int) -> tuple[Array, float]:
    """Indices of the largest entries and of the support, and the largest entry left out."""
    order = np.argsort(-variances, kind="stable")
    idx = np.union1d(order[: max(max_variables - support.size, 0)], support).astype(np.intp)
    rest = np.delete(variances, idx)
    return idx, float(np.max(rest, initial=0.0))


def _compute_covariance(operator: Operator, idx: Array) -> Array:
    """Σ[idx, idx], symmetric; of dense columns from the columns, as a deflation leaves them."""
    A = operator.columns(idx) if operator.has_samples and not operator.is_sparse else None
    S = operator.gram(idx) if A is None else A.T @ A
    S = (S + S.T) / 2
    nothing = operator.column_norms[idx] == 0  # what is left of such a column is rounding
    S[nothing], S[:, nothing] = 0.0, 0.0
    return S


def covering_eigenvalue(A: Array, x: Array, rho: float) -> float:
    """λmax(Σ_i Yᵢ) for columns A, (p, n), at a unit vector x, (p,); infinite where a c² is too near to ρ.

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
    size = weights * np.sum(V * V, axis=0)  # traces of the Yᵢ
    noise = 16 * (sum(A.shape)) * EPS * float(size @ (1 + squares / np.abs(distance)))
    return largest_eigenvalue((V * weights) @ V.T) + noise


def sample_space_bound(A: Array, x: Array, k: int) -> float:
    """The least λmax(Σ Yᵢ) + kρ over ρ between the (k+1)-th and the k-th largest (aᵢᵀx)²."""
    squares = np.sort((A.T @ x) ** 2)[::-1]
    low, high = (float(squares[k]) if k < squares.size else 0.0), float(squares[min(k, squares.size) - 1])
    if not high > low:
        return np.inf
    return minimize_on_grid(lambda rho: covering_eigenvalue(A, x, rho) + k * rho, low + (high - low) * RHO_GRID_SHARES)[
        0
    ]


def largest_full_eigenvalue(operator: Operator) -> float:
    """λmax(Σ) of all variables, as that of A Aᵀ where there are samples; infinite for too large a matrix."""
    gram = _compute_small_gram(operator)
    return np.inf if gram is None else largest_eigenvalue(gram)


def compute_full_spectrum(operator: Operator) -> Array | None:
    """The eigenvalues of Σ of all variables, increasing, without some zeros; None for too large a matrix."""
    gram = _compute_small_gram(operator)
    return None if gram is None else np.linalg.eigvalsh(gram)


def _compute_small_gram(operator: Operator) -> Array | None:
    """A Aᵀ where there are samples, else Σ; None for too large a matrix."""
    if operator.shape[0] > MAX_GRAM_SAMPLES:
        return None
    gram = operator.sample_gram if operator.has_samples else operator.gram
    return gram(np.arange(operator.shape[1]))


def full_soft_threshold_bound(operator: Operator, k: int, known_bound: float, clock: Clock) -> float:
    """The soft-threshold bound over all variables, min_t λmax(soft_t(Σ)) + kt, with few entries of Σ above t.

    Thresholds are tried from upper/k, where kt alone is no better than what is known, down to a share of it above
    which no more than ENTRIES entries are expected. A variable of variance at most t is left out, by (F) of `bounds`
    at no cost. What is left falls into blocks of connected variables, each bounded by LAPACK or, if large, by
    Collatz–Wielandt. Entries that are off by ε are paid for by kε.
    """
    squares = operator.column_norms**2
    epsilon = 8 * operator.shape[0] * EPS * float(np.max(squares, initial=0))
    high = known_bound / k
    low = max(_estimate_lowest_threshold(operator, squares), MIN_THRESHOLD_SHARE * high)
    if not low < high:
        return np.inf
    kept = np.flatnonzero(squares > low)
    if not kept.size:
        return k * (low + epsilon)
    Sigma = _collect_large_entries(operator, kept, low, clock)
    if Sigma is None:
        return np.inf

    def value(t: float) -> float:
        part = Sigma.copy()
        part.data = apply_soft_threshold(part.data, t)
        members = np.flatnonzero(squares[kept] > t)
        part = sp.csr_array(part[members][:, members]) if members.size < kept.size else part
        part.eliminate_zeros()
        return np.inf if clock.is_expired else largest_sparse_eigenvalue(part) + k * (t + epsilon)

    return minimize_on_grid(value, np.linspace(high, low, N_WIDE_THRESHOLDS))[0]


def _estimate_lowest_threshold(operator: Operator, squares: Array) -> float:
    """The size that about ENTRIES entries of Σ exceed, from some columns at random."""
    n = squares.size
    idx = np.sort(np.random.RandomState(0).choice(n, min(N_PROBED_COLUMNS, n), replace=False))
    sizes = np.abs(operator.correlate(operator.columns(idx)))
    return float(np.quantile(sizes, max(0.0, 1 - MAX_COVARIANCE_ENTRIES / n**2)))


def _collect_large_entries(operator: Operator, kept: Array, threshold: float, clock: Clock) -> sp.csr_array | None:
    """Σ over some variables without the entries up to a threshold; None if they are too many or the clock expires."""
    parts, total = [], 0
    for i in range(0, kept.size, COLUMN_BLOCK_SIZE):
        rows = operator.correlate(operator.columns(kept[i : i + COLUMN_BLOCK_SIZE]))[kept].T
        rows[np.abs(rows) <= threshold] = 0.0
        parts.append(sp.csr_array(rows))
        total += parts[-1].nnz
        if clock.is_expired or total > 3 * MAX_COVARIANCE_ENTRIES:
            return None
    S = sp.csr_array(sp.vstack(parts, format="csr"))
    return sp.csr_array((S + S.T) / 2)
