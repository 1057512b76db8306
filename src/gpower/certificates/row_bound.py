"""The row bound: the strongest certificate here, a convex dual with one row and one price per variable.

Let R be any n × n matrix with rows rᵢ, b > 0 a price, and z a unit vector with support I, |I| ≤ k. For i in I,

    −2zᵢ rᵢᵀz − zᵢ²ρᵢ²/b ≤ 2|zᵢ|ρᵢ − zᵢ²ρᵢ²/b ≤ b,      ρᵢ = max { rᵢᵀy : ‖y‖ = 1, yᵢ and at most k − 1 others ≠ 0 },

so ρᵢ² is rᵢᵢ² plus the k − 1 largest of the other rᵢⱼ². Summed over I, −zᵀ(R + Rᵀ + diag(ρ²/b))z ≤ kb, that is

    λ_k(Σ) ≤ λmax(Σ + R + Rᵀ + diag(ρ²/b)) + kb      for every R and b > 0.                                  (R)

*Every* R gives a bound, so the minimisation over R may stop anywhere. With |rᵢⱼ| ≤ tᵢ, ρᵢ² ≤ k tᵢ²: the row-ℓ1 dual of
the relaxations of [BCP22] and [LX25]; with ρᵢ ≤ ‖rᵢ‖ their second-order-cone dual; with all tᵢ = b that of [dEJL07].
(R) is at least as strong as each of them, at the same R.

Three refinements. Variables *fixed* in every support considered pay a price of their own and are counted in every ρᵢ.
Where variables of a variance up to `floor` were left out, (F) of `bounds` says: with b ≥ floor, (R) holds for supports
with at least one variable that was not, and k·floor for the others. With the price held at γ and ρᵢ = ‖rᵢ‖, λmax alone
bounds the ℓ0-penalised problem.

Several components: let z₁, …, z_m be orthonormal, as orthogonal loadings and disjoint ones are, each of at most k
variables and of K together. The same R and b for all of them, and Ky Fan's Σ zⱼᵀM zⱼ ≤ λ₁(M) + … + λ_m(M), give

    Σ zⱼᵀΣzⱼ ≤ λ₁(M) + … + λ_m(M) + Kb,      M = Σ + R + Rᵀ + diag(ρ²/b).                                      (K)

Screening: variables that no better support contains, and variables that every better one contains, from one point of
the dual. Let M be the matrix of (R), b the free price, c what the fixed variables pay, and let a support be better if
its value exceeds `level`. With P = θI − M for the right θ each question is whether a small change of P is positive
definite.

*Out.* If i is in the support its row need not be charged: with M⁽ⁱ⁾ = M − eᵢrᵢᵀ − rᵢeᵢᵀ − (ρᵢ²/b)eᵢeᵢᵀ,
λmax(M⁽ⁱ⁾) + c + (slots − 1)·b ≤ level means that no better support contains i. At θ = level − c − (slots − 1)·b, if
P ≻ 0, P + [eᵢ rᵢ]·C·[eᵢ rᵢ]ᵀ with C = [[ρᵢ²/b, 1], [1, 0]], of one positive and one negative eigenvalue, stays positive
definite if and only if C⁻¹ + [eᵢ rᵢ]ᵀP⁻¹[eᵢ rᵢ] has one of each too: its determinant is negative.

*In.* λmax(M without row and column i) + c + slots·b ≤ level means that every better support contains i. At
θ = level − c − slots·b, if P has exactly one negative eigenvalue, that is so if and only if (P⁻¹)ᵢᵢ < 0.

Both for all i from one eigendecomposition; doubtful signs count as no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from gpower._utils.arrays import Array
from gpower.certificates.bounds import eigenvalue_rounding_error
from gpower.certificates.certificate import Clock

#: Corrections that L-BFGS keeps.
N_LBFGS_CORRECTIONS = 10
#: Shares below this of the smoothed eigenvectors are left out of a gradient.
MIN_EIGENVECTOR_SHARE = 1e-12
#: Halvings of an interval that reach full precision.
N_BISECTION_STEPS = 60
#: Relative size below which a sign is doubtful in screening, and how far θ stays below what is allowed.
SIGN_TOLERANCE, THETA_MARGIN = 1e-8, 1e-9


@dataclass(frozen=True, eq=False)
class DualRows:
    """A point of the dual."""

    R: Array  # (n, n)
    prices: Array  # (n,): b for every free variable, its own for each fixed one

    def restrict(self, kept: Array) -> DualRows:
        """The same over some of the variables."""
        return DualRows(self.R[np.ix_(kept, kept)], self.prices[kept])


@dataclass(frozen=True, eq=False)
class RowProblem:
    """max zᵀΣz over supports of k variables that contain the fixed ones, or the ℓ0-penalised problem."""

    S: Array  # (n, n): Σ, scaled so that the value in question is about one
    k: int
    fixed: Array  # (n,) of bool
    floor: float = 0.0  # largest variance of a variable that was left out of S; nothing may be fixed then
    fixed_price: float | None = (
        None  # γ of the penalised problem, which pays it itself; k is n then, and nothing is fixed
    )
    n_components: int = 1  # orthogonal components of at most k variables each; nothing is fixed or left out of several
    total_cardinality: int | None = None  # variables of all of them together

    @property
    def n_open_slots(self) -> int:
        """Variables that are still to be chosen."""
        return self.k - int(np.count_nonzero(self.fixed))

    def compute_support_cost(self, prices: Array) -> float:
        """What a support pays."""
        if self.fixed_price is not None:
            return 0.0
        free = prices[~self.fixed]
        if self.total_cardinality is not None:
            return self.total_cardinality * float(np.max(free))
        return float(np.sum(prices[self.fixed])) + self.n_open_slots * max(float(np.max(free, initial=0)), self.floor)

    def zero_uncounted(self, R: Array) -> Array:
        """R with zeros where ρᵢ does not count an entry: it does i, the fixed ones, and the largest others."""
        left_out = R.shape[0] - self.k
        if left_out <= 0:
            return R
        sizes = np.abs(R)
        sizes[:, self.fixed] = np.inf
        np.fill_diagonal(sizes, np.inf)
        counted = R.copy()
        np.put_along_axis(counted, np.argpartition(sizes, left_out, axis=1)[:, :left_out], 0.0, axis=1)
        return counted

    def compute_charges(self, rows: DualRows) -> Array:
        """ρ²/b, (n,)."""
        return np.sum(self.zero_uncounted(rows.R) ** 2, axis=1) / rows.prices

    def build_matrix(self, rows: DualRows) -> Array:
        """Σ + R + Rᵀ + diag(ρ²/b)."""
        return self.S + rows.R + rows.R.T + np.diag(self.compute_charges(rows))

    def compute_bound(self, w: Array, prices: Array) -> float:
        """(R), or (K) of several units, from the eigenvalues w of its matrix, with LAPACK's rounding added."""
        largest = float(np.sum(w[-self.n_components :])) + self.n_components * eigenvalue_rounding_error(w)
        return max(largest + self.compute_support_cost(prices), self.k * self.floor)

    def bound_omitted_supports(self, rows: DualRows, bound: float) -> float:
        """A bound on supports with a variable that was left out, from the bound (R) at the same rows."""
        return max(bound - float(rows.prices[0]) + self.floor, self.k * self.floor)


def initialize_rows(problem: RowProblem, threshold: float) -> DualRows:
    """A start near the soft threshold of size `threshold`, its corners rounded so that no two entries tie."""
    t = max(threshold, 0.2 / problem.k, problem.floor)
    R = -t * np.tanh(problem.S / (2 * t))
    return DualRows(R, np.full(problem.S.shape[0], t if problem.fixed_price is None else problem.fixed_price))


def smooth_eigenvalue_sum(w: Array, count: int, smoothing: float) -> tuple[float, Array]:
    """The sum of the `count` largest of the eigenvalues w, increasing, smoothed; and its derivatives, their shares.

    One: μ·log Σ exp(w/μ). Several: min_s count·s + μ Σ log(1 + exp((w − s)/μ)), whose shares 1/(1 + exp((s − w)/μ)) add
    up to `count`. Both are at least the sum.

    Examples
    --------
    >>> import numpy as np
    >>> value, share = smooth_eigenvalue_sum(np.array([0.0, 1.0, 2.0]), 2, 1e-3)
    >>> round(value, 6), share.round(6)
    (3.0, array([0., 1., 1.]))
    """
    if count == 1:
        share = np.exp((w - w[-1]) / smoothing)
        total = float(share.sum())
        return float(w[-1]) + smoothing * float(np.log(total)), share / total
    if count >= w.size:
        return float(np.sum(w)), np.ones(w.size)
    low, high = float(w[0]) - 50 * smoothing, float(w[-1]) + 50 * smoothing
    for _ in range(N_BISECTION_STEPS):
        s = (low + high) / 2
        share = expit((w - s) / smoothing)
        low, high = (s, high) if float(share.sum()) > count else (low, s)
    return count * s + smoothing * float(np.sum(np.logaddexp(0, (w - s) / smoothing))), share


@dataclass(frozen=True, eq=False)
class RowBoundResult:
    """The best point found, its bound, and the weights diag(X) of the primal point at it."""

    rows: DualRows
    bound: float
    weights: Array


class RowDual:
    """(R) as a smooth function of R and the logarithms of the prices, for L-BFGS; it remembers the best point seen.

    λmax, or the sum of the largest few, is smoothed; values that count as bounds are not.
    """

    def __init__(self, problem: RowProblem, rows: DualRows) -> None:
        self.problem = problem
        self.free_variables, self.fixed_variables = np.flatnonzero(~problem.fixed), np.flatnonzero(problem.fixed)
        w, Q = np.linalg.eigh(problem.build_matrix(rows))
        self.best_result = RowBoundResult(rows, problem.compute_bound(w, rows.prices), np.square(Q[:, -1]))

    def pack(self, rows: DualRows) -> Array:
        """R scaled to the size of one, then logarithms of the free price above the floor and of the fixed ones."""
        k, floor = self.problem.k, self.problem.floor
        if self.problem.fixed_price is not None:
            return np.ravel(rows.R) * k
        free = float(np.max(rows.prices[self.free_variables], initial=0)) or 1.0 / k
        tail = np.log(k * np.concatenate([[max(free - floor, 1e-6 / k)], rows.prices[self.fixed_variables]]))
        return np.concatenate([np.ravel(rows.R) * k, tail])

    def unpack(self, point: Array) -> DualRows:
        """The rows of a packed point."""
        problem, n = self.problem, self.problem.fixed.size
        R = point[: n * n].reshape(n, n) / problem.k
        if problem.fixed_price is not None:
            return DualRows(R, np.full(n, problem.fixed_price))
        prices, tail = np.empty(n), np.exp(np.clip(point[n * n :], -30, 30)) / problem.k
        prices[self.free_variables], prices[self.fixed_variables] = problem.floor + tail[0], tail[1:]
        return DualRows(R, prices)

    def evaluate(self, point: Array, smoothing: float) -> tuple[float, Array]:
        """The smoothed bound and its gradient."""
        rows, problem = self.unpack(point), self.problem
        R, b, counted = rows.R, rows.prices, problem.zero_uncounted(rows.R)
        squares = np.sum(counted * counted, axis=1)  # ρ²
        M = problem.S + R + R.T
        M[np.diag_indices_from(M)] += squares / b
        w, Q = np.linalg.eigh(M)
        largest, share = smooth_eigenvalue_sum(w, problem.n_components, smoothing)
        kept = share > MIN_EIGENVECTOR_SHARE
        X = (Q[:, kept] * share[kept]) @ Q[:, kept].T
        d = np.diagonal(X)
        bound = problem.compute_bound(w, b)
        if bound < self.best_result.bound:
            self.best_result = RowBoundResult(rows, bound, d.copy())
        gradient = np.ravel(2 * X + (2 * d / b)[:, None] * counted) / problem.k
        if problem.fixed_price is None:
            gradient = np.concatenate([gradient, self._price_gradient(d, squares, b)])
        return largest + problem.compute_support_cost(b), gradient

    def _price_gradient(self, d: Array, squares: Array, b: Array) -> Array:
        """By the logarithms of the prices."""
        by_price = -d * squares / b**2
        slots = self.problem.n_open_slots if self.problem.total_cardinality is None else self.problem.total_cardinality
        free = slots + float(np.sum(by_price[self.free_variables]))
        above = float(b[self.free_variables[0]]) - self.problem.floor if self.free_variables.size else 0.0
        return np.concatenate([[above * free], b[self.fixed_variables] * (1 + by_price[self.fixed_variables])])


def minimize_row_bound(
    problem: RowProblem, rows: DualRows, *, target: float, clock: Clock, smoothings: Sequence[float], steps: int
) -> RowBoundResult:
    """A good point of the dual from a start, by L-BFGS on ever less smoothed eigenvalues.

    Parameters
    ----------
    target : float
        A bound that is good enough to stop.
    smoothings : sequence of float
        μ, relative to a value of one.
    steps : int
        Steps for each of them.
    """
    dual = RowDual(problem, rows)
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": N_LBFGS_CORRECTIONS, "ftol": 1e-10, "gtol": 1e-9}

    def enough(_: Array) -> None:
        if clock.is_expired or dual.best_result.bound <= target:
            raise StopIteration

    for smoothing in smoothings:
        if clock.is_expired or dual.best_result.bound <= target:
            break
        start = dual.pack(dual.best_result.rows)
        with clock.interruptible(), np.errstate(all="ignore"):  # a step that overflows is rejected by the line search
            minimize(dual.evaluate, start, (smoothing,), "L-BFGS-B", jac=True, callback=enough, options=options)
    return dual.best_result


def screen_variables(problem: RowProblem, rows: DualRows, pruning_threshold: float) -> tuple[Array, Array]:
    """Variables that may be kept, and variables that must be in, both (n,) of bool."""
    keep, must = np.ones(problem.fixed.size, bool), problem.fixed.copy()
    if problem.n_open_slots < 1 or problem.fixed.all():
        return keep, must
    b = float(np.max(rows.prices[~problem.fixed]))
    paid = float(np.sum(rows.prices[problem.fixed]))
    w, Q = np.linalg.eigh(problem.build_matrix(rows))
    safe = THETA_MARGIN + 4 * eigenvalue_rounding_error(w)
    theta = pruning_threshold - paid - (problem.n_open_slots - 1) * b - safe
    if w[-1] < theta:
        keep = problem.fixed | ~_find_excluded_variables(problem, rows, Q, 1 / (theta - w))
    theta -= b
    if w[-1] > theta and (w.size == 1 or w[-2] < theta - safe):
        terms = Q**2 / (theta - w)  # (n, n); the diagonal of P⁻¹ is the sum of each row
        must = must | (np.sum(terms, axis=1) < -SIGN_TOLERANCE * np.sum(np.abs(terms), axis=1))
    return keep, must


def _find_excluded_variables(problem: RowProblem, rows: DualRows, Q: Array, inverse: Array) -> Array:
    """The sign of the 2 × 2 determinant for all variables, P⁻¹ = Q diag(inverse) Qᵀ positive definite."""
    charge, RQ = problem.compute_charges(rows), rows.R @ Q
    corner = np.sum(Q * Q * inverse, axis=1)  # (P⁻¹)ᵢᵢ
    cross = np.sum(Q * RQ * inverse, axis=1)  # eᵢᵀP⁻¹rᵢ
    other = np.sum(RQ * RQ * inverse, axis=1)  # rᵢᵀP⁻¹rᵢ
    determinant = corner * (other - charge) - (1 + cross) ** 2
    return np.asarray(determinant < -SIGN_TOLERANCE * (corner * (other + charge) + (1 + np.abs(cross)) ** 2))
