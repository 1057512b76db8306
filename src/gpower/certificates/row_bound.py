"""The row bound: the strongest bound of this package, a convex dual problem with one row and one price per variable.

Let R be any n × n matrix with rows rᵢ, b > 0 the price of a variable (a number that the bound adds for each variable of
a support), and z a unit vector with support I, |I| ≤ k. For i in I,

    −2zᵢ rᵢᵀz − zᵢ²ρᵢ²/b ≤ 2|zᵢ|ρᵢ − zᵢ²ρᵢ²/b ≤ b,      ρᵢ = max { rᵢᵀy : ‖y‖ = 1, yᵢ and at most k − 1 others ≠ 0 },

so ρᵢ² is rᵢᵢ² plus the k − 1 largest of the other rᵢⱼ². The sum over I is −zᵀ(R + Rᵀ + diag(ρ²/b))z ≤ kb, that is

    λ_k(Σ) ≤ λmax(Σ + R + Rᵀ + diag(ρ²/b)) + kb      for every R and b > 0.                                  (R)

*Every* R gives a bound, so the minimisation over R may stop anywhere. If |rᵢⱼ| ≤ tᵢ, then ρᵢ² ≤ k tᵢ², and (R) becomes
the row-ℓ1 dual of the relaxations of [BCP22] and [LX25]; with all tᵢ = b it is the dual of [dEJL07]. The estimate
ρᵢ ≤ ‖rᵢ‖ gives their second-order-cone dual. At the same R, (R) is at least as strong as each of them.

There are three refinements. First, each variable that is *fixed*, that is, in every support considered, has its own
price, and every ρᵢ counts its entry. Second, a least price keeps b at or above the variance of variables that were left
out of Σ, which is the most that each of them adds to a support. Third, with the price fixed at γ and ρᵢ = ‖rᵢ‖, λmax
alone bounds the ℓ0-penalised problem.

Several components: let z₁, …, z_m be orthonormal, as orthogonal or disjoint loadings are, with at most k variables each
and K in total. One R and b for all of them, and Ky Fan's Σ zⱼᵀM zⱼ ≤ λ₁(M) + … + λ_m(M), give

    Σ zⱼᵀΣzⱼ ≤ λ₁(M) + … + λ_m(M) + Kb,      M = Σ + R + Rᵀ + diag(ρ²/b).                                      (K)

Screening finds, from one point of the dual, variables that no better support contains and variables that every better
support contains. Let M be the matrix of (R), b the price of the free variables and c the sum of the prices of the fixed
ones. A support is better if its value exceeds the `pruning_threshold`, τ for short. Both tests ask for some θ whether
a small change of P = θI − M is positive definite.

*Out.* For a support that contains i the bound may omit row i: with M⁽ⁱ⁾ = M − eᵢrᵢᵀ − rᵢeᵢᵀ − (ρᵢ²/b)eᵢeᵢᵀ, no better
support contains i if λmax(M⁽ⁱ⁾) + c + (slots − 1)·b ≤ τ. Let θ = τ − c − (slots − 1)·b and P ≻ 0. The matrix
C = [[ρᵢ²/b, 1], [1, 0]] has one positive and one negative eigenvalue. P + [eᵢ rᵢ]·C·[eᵢ rᵢ]ᵀ is positive definite if
and only if C⁻¹ + [eᵢ rᵢ]ᵀP⁻¹[eᵢ rᵢ] has one of each too, that is, a negative determinant.

*In.* Every better support contains i if λmax(M without row and column i) + c + slots·b ≤ τ. Let θ = τ − c − slots·b. If
P has exactly one negative eigenvalue, the condition holds if and only if (P⁻¹)ᵢᵢ < 0.

One eigendecomposition answers both for all i. If rounding could change a sign, the test counts as failed.

Terms: all arrays are NumPy arrays on the host, in float64, and masks are of bool. ``eigenvalue_rounding_error(w)`` of
all eigenvalues w of a matrix, in any order, is an upper bound on the rounding error of each. A `Clock` limits the time:
``is_expired`` says whether to stop, and ``interruptible()`` is a context in which Ctrl-C ends the block and expires the
clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit

from gpower._utils.arrays import Array
from gpower.certificates.bounds import eigenvalue_rounding_error
from gpower.certificates.certificate import Clock

#: Smoothings of a minimisation without screening, and L-BFGS steps for each.
SMOOTHINGS, STEPS_PER_SMOOTHING = (0.03, 0.01, 0.003, 0.001), 60
#: Number of corrections that L-BFGS stores; each is as large as R, (n, n).
N_LBFGS_CORRECTIONS = 10
#: Threshold of a start, times k. A unit z of k variables has |zᵢzⱼ| of about 1/k, and R is of that scale. Starts from
#: 0.2, 0.35 and 0.6 end at bounds that are equal on average.
START_THRESHOLD_TIMES_K = 0.6
#: Relative tolerances of L-BFGS on value and gradient: so small that steps or time end a minimisation.
LBFGS_VALUE_TOLERANCE, LBFGS_GRADIENT_TOLERANCE = 1e-10, 1e-9
#: Evaluations that L-BFGS may make for each of its steps.
MAX_EVALUATIONS_PER_STEP = 2
#: Smallest price above the least one, times k, at which a minimisation starts: its logarithm must be finite.
MIN_START_PRICE_TIMES_K = 1e-6
#: Largest absolute logarithm of a price above the least one, times k, so that prices stay positive and finite.
MAX_LOG_PRICE = 30
#: Distance from an eigenvalue, in units of the smoothing, beyond which a share is 0 or 1 up to rounding.
SMOOTHING_RANGE = 50
#: Rounding errors of eigenvalues, as bounded by `eigenvalue_rounding_error`, that screening allows for.
N_SCREENING_ROUNDING_ERRORS = 4
#: Eigenvectors with a smaller share in the smoothed eigenvalue sum are left out of its gradient.
MIN_EIGENVECTOR_SHARE = 1e-12
#: Relative size below which screening does not rely on a sign, and the margin by which θ stays below its exact value.
SIGN_TOLERANCE, THETA_MARGIN = 1e-8, 1e-9


@dataclass(frozen=True, eq=False)
class DualRows:
    """A point of the dual: the matrix R and the prices, in the units of the scaled S of a `RowProblem`."""

    R: Array  # (n, n), any matrix, not symmetric in general
    prices: Array  # (n,), positive: b for every free variable, a price of its own for each fixed one

    def restrict(self, idx: Array) -> DualRows:
        """Return the point over the variables `idx`, different indices of int, in that order; new arrays."""
        return DualRows(self.R[np.ix_(idx, idx)], self.prices[idx])


@dataclass(frozen=True, eq=False)
class RowProblem:
    """The problem max zᵀΣz over supports of k variables that contain the fixed ones, or the ℓ0-penalised problem.

    For every matrix R with rows rᵢ and prices b > 0, the value is at most λmax(Σ + R + Rᵀ + diag(ρ²/b)) plus the prices
    of a support (docs/certificates.md, 3.5). ρᵢ² is the sum of rᵢᵢ² and the k − 1 largest of the other rᵢⱼ², those of
    fixed variables j first. All arrays are in float64 on the host, in units of the value of a known component.
    """

    S: Array  # (n, n): Σ, scaled so that the value of the incumbent is about one
    k: int  # largest number of variables of a support, at least one; may exceed n
    fixed: Array  # (n,) of bool: variables that every support contains, at most k
    min_price: float = 0.0  # least price of the free variables; if positive, no variable is fixed
    fixed_price: float | None = None  # γ of the penalised problem; then k is n, and no variable is fixed
    n_components: int = 1  # orthogonal components of at most k variables each; if several, none fixed
    total_cardinality: int | None = None  # number of variables of all components together, if they are several

    @property
    def n_open_slots(self) -> int:
        """Return how many free variables a support contains, or all supports together for several components.

        With k above n it exceeds the number of variables that are free.
        """
        return self.total_cardinality or self.k - int(np.count_nonzero(self.fixed))

    def compute_support_cost(self, prices: Array) -> float:
        """Compute the largest sum of the prices, (n,), of a support: the term kb of (R), or Kb of (K).

        It is the sum of the prices of the fixed variables plus `n_open_slots` times the price of the free ones. It is
        zero for the penalised problem, whose objective already has the price. With a total cardinality K no variable is
        fixed.
        """
        if self.fixed_price is not None:
            return 0.0
        free_price = float(np.max(prices[~self.fixed], initial=0))
        return float(np.sum(prices[self.fixed])) + self.n_open_slots * free_price

    def zero_uncounted(self, R: Array) -> Array:
        """Return R, (n, n), with zeros for the entries that ρᵢ omits, so that ρᵢ² is the sum of squares of row i.

        In each row k entries are counted: the diagonal one, those of fixed variables and the others of largest absolute
        value. Of equal ones any are counted, which changes no ρᵢ. If k variables are fixed, row i of another one counts
        k of these k + 1 entries, and it is not defined which. The result is R itself, not a copy, if ρᵢ counts every
        entry (n ≤ k): do not change it.
        """
        n_omitted = R.shape[0] - self.k
        if n_omitted <= 0:
            return R
        sizes = np.abs(R)
        sizes[:, self.fixed] = np.inf
        np.fill_diagonal(sizes, np.inf)
        counted = R.copy()
        np.put_along_axis(counted, np.argpartition(sizes, n_omitted, axis=1)[:, :n_omitted], 0.0, axis=1)
        return counted

    def compute_charges(self, rows: DualRows) -> Array:
        """Compute ρᵢ²/bᵢ for every variable, (n,), with ρᵢ as in `zero_uncounted`."""
        return np.sum(self.zero_uncounted(rows.R) ** 2, axis=1) / rows.prices

    def build_matrix(self, rows: DualRows) -> Array:
        """Compute M = Σ + R + Rᵀ + diag(ρ²/b), (n, n), symmetric, a new array."""
        return self.S + rows.R + rows.R.T + np.diag(self.compute_charges(rows))

    def compute_bound(self, w: Array, prices: Array) -> float:
        """Compute the sum of the m largest eigenvalues of M plus the prices of a support.

        It is the bound (R) for m = `n_components` = 1, and (K) for more (docs/certificates.md, 3.5 and 3.9). `w`, (n,),
        contains all eigenvalues of `build_matrix`, increasing, whose rounding error is added; `prices`, (n,), are those
        of the same rows.
        """
        largest = float(np.sum(w[-self.n_components :])) + self.n_components * eigenvalue_rounding_error(w)
        return largest + self.compute_support_cost(prices)


def initialize_rows(problem: RowProblem) -> DualRows:
    """Return R = −t·tanh(S/2t), near the one of the soft-threshold bound at t, and all prices equal to t.

    The tanh keeps entries of R from tying, where ρ has kinks. t is START_THRESHOLD_TIMES_K/k, or the least price if
    that is larger. With a fixed price the prices are that one instead, and t is at least as large. Both arrays are new.
    """
    t = max(START_THRESHOLD_TIMES_K / problem.k, problem.min_price, problem.fixed_price or 0.0)
    R = -t * np.tanh(problem.S / (2 * t))
    return DualRows(R, np.full(problem.S.shape[0], t if problem.fixed_price is None else problem.fixed_price))


class SmoothedSum(NamedTuple):
    """A smooth upper bound on the sum of the largest eigenvalues, and its derivatives by the eigenvalues."""

    value: float
    shares: Array  # (n,), from 0 to 1; they add up to the number of eigenvalues in the sum


def smooth_eigenvalue_sum(w: Array, count: int, smoothing: float) -> SmoothedSum:
    """Return a smooth upper bound on the sum of the `count` ≥ 1 largest of w, and its derivatives, the shares.

    w, (n,), contains all n ≥ 1 eigenvalues, finite and increasing, and μ is the `smoothing`, positive, in their units.
    One eigenvalue is smoothed to μ·log Σ exp(w/μ), several to min_s count·s + μ Σ log(1 + exp((w − s)/μ)), with shares
    1/(1 + exp((s − w)/μ)). If `count` is n or more, and not one, the sum of all w is exact and all shares are one. The
    shares are in the order of w.

    Examples
    --------
    >>> import numpy as np
    >>> smoothed = smooth_eigenvalue_sum(np.array([0.0, 1.0, 2.0]), 2, 1e-3)
    >>> round(smoothed.value, 6), smoothed.shares.round(6)
    (3.0, array([0., 1., 1.]))
    """
    if count == 1:
        share = np.exp((w - w[-1]) / smoothing)
        total = float(share.sum())
        return SmoothedSum(float(w[-1]) + smoothing * float(np.log(total)), share / total)
    if count >= w.size:
        return SmoothedSum(float(np.sum(w)), np.ones(w.size))
    margin = SMOOTHING_RANGE * smoothing
    low, high = float(w[0]) - margin, float(w[-1]) + margin
    s = float(brentq(lambda level: float(np.sum(expit((w - level) / smoothing))) - count, low, high))
    value = count * s + smoothing * float(np.sum(np.logaddexp(0, (w - s) / smoothing)))
    return SmoothedSum(value, expit((w - s) / smoothing))


@dataclass(frozen=True, eq=False)
class RowBoundResult:
    """The best point found, its bound, and the weights diag(X) of the primal point X there, (n,).

    The bound is in the units of the scaled S, holds without smoothing and includes rounding. The weights are
    non-negative; a large weight marks a variable that good supports contain. At the start they are the squares of the
    leading eigenvector of M, which sum to one, later they sum to the number of components.
    """

    rows: DualRows
    bound: float
    weights: Array


class RowDual:
    """(R) as a smooth function of R and the logarithms of the prices, for L-BFGS; stores the best point evaluated.

    L-BFGS sees λmax, or the sum of the largest eigenvalues, smoothed. The stored bounds are not smoothed. `problem`
    and `rows`, the first point, are over the same n variables.
    """

    def __init__(self, problem: RowProblem, rows: DualRows) -> None:
        self.problem = problem
        self.free_variables, self.fixed_variables = np.flatnonzero(~problem.fixed), np.flatnonzero(problem.fixed)
        w, Q = np.linalg.eigh(problem.build_matrix(rows))
        self.best_result = RowBoundResult(rows, problem.compute_bound(w, rows.prices), np.square(Q[:, -1]))

    def pack(self, rows: DualRows) -> Array:
        """Return k·R as a vector; unless `fixed_price` is set, append log k·(b − min_price) and log k·prices[fixed].

        The factor k makes the entries of order one. b is the largest price of the free variables, 1/k without any, and
        raised to MIN_START_PRICE_TIMES_K/k above the least price. The vector, float64, has n² entries, R row by row,
        and 1 + the number of fixed variables more, these in increasing order.
        """
        k = self.problem.k
        if self.problem.fixed_price is not None:
            return np.ravel(rows.R) * k
        free = float(np.max(rows.prices[self.free_variables], initial=0)) or 1.0 / k
        above = max(free - self.problem.min_price, MIN_START_PRICE_TIMES_K / k)
        return np.concatenate([np.ravel(rows.R) * k, np.log(k * np.append(above, rows.prices[self.fixed_variables]))])

    def unpack(self, point: Array) -> DualRows:
        """Return the point of the dual from a vector made by `pack`; free variables share a price.

        Prices above the least one lie between e^±MAX_LOG_PRICE/k, so that they stay positive and finite. With a
        `fixed_price` all prices are that one.
        """
        problem, n = self.problem, self.problem.fixed.size
        R = point[: n * n].reshape(n, n) / problem.k
        if problem.fixed_price is not None:
            return DualRows(R, np.full(n, problem.fixed_price))
        prices, tail = np.empty(n), np.exp(np.clip(point[n * n :], -MAX_LOG_PRICE, MAX_LOG_PRICE)) / problem.k
        prices[self.free_variables], prices[self.fixed_variables] = problem.min_price + tail[0], tail[1:]
        return DualRows(R, prices)

    def evaluate(self, point: Array, smoothing: float) -> tuple[float, Array]:
        """Return the smoothed bound, a scalar, and its gradient at a vector made by `pack`; update `best_result`.

        With M = Σ + R + Rᵀ + diag(ρ²/b) and X the derivative of its smoothed eigenvalue sum, the gradient is
        2X + diag(2Xᵢᵢ/bᵢ)·R by R, for the entries of R that ρ counts in the second term, divided by k as the vector
        contains k·R. The bound that is compared with `best_result` is not smoothed; of equal ones the first stays.
        """
        problem = self.problem
        rows = self.unpack(point)
        R, b = rows.R, rows.prices
        counted = problem.zero_uncounted(R)
        squares = np.sum(counted * counted, axis=1)  # ρ²
        M = problem.S + R + R.T
        M[np.diag_indices_from(M)] += squares / b
        w, Q = np.linalg.eigh(M)
        largest, share = smooth_eigenvalue_sum(w, problem.n_components, smoothing)
        used = share > MIN_EIGENVECTOR_SHARE
        X = (Q[:, used] * share[used]) @ Q[:, used].T
        d = np.diagonal(X)
        bound = problem.compute_bound(w, b)
        if bound < self.best_result.bound:
            self.best_result = RowBoundResult(rows, bound, d.copy())
        gradient = np.ravel(2 * X + (2 * d / b)[:, None] * counted) / problem.k
        if problem.fixed_price is None:
            gradient = np.concatenate([gradient, self._price_gradient(d, squares, b)])
        return largest + problem.compute_support_cost(b), gradient

    def _price_gradient(self, d: Array, squares: Array, b: Array) -> Array:
        """Return the derivatives by the logarithms of the free price above the least one and of the fixed prices.

        `d` is the diagonal of X in `evaluate`, `squares` is ρ², `b` the prices, all (n,). The result has first the
        derivative for the free variables, then those of the fixed ones in increasing order. There is no `fixed_price`.
        """
        charges = -d * squares / b
        free, fixed = self.free_variables, self.fixed_variables
        price = float(np.max(b[free], initial=0))
        slope = self.problem.n_open_slots * price + float(np.sum(charges[free]))  # by log b
        share_above = 1 - self.problem.min_price / price if price > 0 else 0.0
        return np.append(share_above * slope, b[fixed] + charges[fixed])


def minimize_row_bound(
    problem: RowProblem,
    rows: DualRows,
    *,
    target: float,
    clock: Clock,
    smoothings: Sequence[float] = SMOOTHINGS,
    steps: int = STEPS_PER_SMOOTHING,
) -> RowBoundResult:
    """Minimise the row bound from a start by L-BFGS, with less and less smoothing, and return the best point.

    The bound of the result is at most that of the start. If the clock expires it is the best point so far; Ctrl-C,
    which `clock.interruptible()` catches, expires the clock and does not raise.

    Parameters
    ----------
    problem : RowProblem
        The problem, over n variables.
    rows : DualRows
        The start, over the same n variables.
    target : float
        Bound at which to stop, or below it, in units of the scaled S.
    clock : Clock
        Time limit, checked after each L-BFGS step.
    smoothings : sequence of float
        Values of μ, positive, in units of the scaled S, used in this order.
    steps : int
        L-BFGS steps for each μ, at most; each starts at the best point so far.

    Returns
    -------
    RowBoundResult
        The start itself if its bound is at most `target` or the clock has expired.
    """
    dual = RowDual(problem, rows)
    options = {
        "maxiter": steps,
        "maxfun": MAX_EVALUATIONS_PER_STEP * steps,
        "maxcor": N_LBFGS_CORRECTIONS,
        "ftol": LBFGS_VALUE_TOLERANCE,
        "gtol": LBFGS_GRADIENT_TOLERANCE,
    }

    def stop_early(_: Array) -> None:
        if clock.is_expired or dual.best_result.bound <= target:
            raise StopIteration

    for smoothing in smoothings:
        if clock.is_expired or dual.best_result.bound <= target:
            break
        start = dual.pack(dual.best_result.rows)
        with clock.interruptible(), np.errstate(all="ignore"):  # the line search rejects a step that overflows
            minimize(dual.evaluate, start, (smoothing,), "L-BFGS-B", jac=True, callback=stop_early, options=options)
    return dual.best_result


class Screening(NamedTuple):
    """What is proven about supports whose value exceeds a threshold; both masks include the fixed variables.

    If a variable is required and not kept, there is no such support.
    """

    keep: Array  # (n,) of bool: variables that such supports may contain
    required: Array  # (n,) of bool: variables that all such supports contain


def screen_variables(problem: RowProblem, rows: DualRows, pruning_threshold: float) -> Screening:
    """Find variables that no support, or every support, of value above `pruning_threshold` contains.

    With M = Σ + R + Rᵀ + diag(ρ²/b), no such support contains i if λmax(M without the terms of row i) + c + (s − 1)b is
    at most the threshold, and all contain i if λmax(M without row and column i) + c + s·b is; s counts the open slots,
    c is the sum of the prices of the fixed variables (docs/certificates.md, 3.6). A margin is subtracted from the
    threshold for rounding, and a test whose sign is uncertain finds nothing. The threshold is in units of the scaled S.
    The problem has one component and no fixed price; `rows` are over its variables.
    """
    keep, required = np.ones(problem.fixed.size, bool), problem.fixed.copy()
    if problem.n_open_slots < 1 or problem.fixed.all():
        return Screening(keep, required)
    b = float(np.max(rows.prices[~problem.fixed]))
    fixed_cost = float(np.sum(rows.prices[problem.fixed]))
    w, Q = np.linalg.eigh(problem.build_matrix(rows))
    margin = THETA_MARGIN + N_SCREENING_ROUNDING_ERRORS * eigenvalue_rounding_error(w)
    theta = pruning_threshold - fixed_cost - (problem.n_open_slots - 1) * b - margin
    if w[-1] < theta:
        keep = problem.fixed | ~_find_excluded_variables(problem, rows, Q, 1 / (theta - w))
    theta -= b
    if w[-1] > theta and (w.size == 1 or w[-2] < theta - margin):
        terms = Q**2 / (theta - w)  # (n, n); the diagonal of P⁻¹ is the sum of each row
        required = required | (np.sum(terms, axis=1) < -SIGN_TOLERANCE * np.sum(np.abs(terms), axis=1))
    return Screening(keep, required)


def _find_excluded_variables(problem: RowProblem, rows: DualRows, Q: Array, inverse: Array) -> Array:
    """Return the mask, (n,), of variables i for which P plus the terms of row i is positive definite.

    P⁻¹ = Q diag(inverse) Qᵀ is positive definite, and `rows` is over the same n variables. The condition is
    (P⁻¹)ᵢᵢ(rᵢᵀP⁻¹rᵢ − ρᵢ²/bᵢ) < (1 + eᵢᵀP⁻¹rᵢ)², a negative 2 × 2 determinant; it counts as failed if rounding could
    change the sign. Q, (n, n), contains the eigenvectors of the matrix of the rows; `inverse`, (n,), the eigenvalues of
    P⁻¹, positive.
    """
    charge = problem.compute_charges(rows)
    RQ = rows.R @ Q
    corner = np.sum(Q * Q * inverse, axis=1)  # (P⁻¹)ᵢᵢ
    cross = np.sum(Q * RQ * inverse, axis=1)  # eᵢᵀP⁻¹rᵢ
    other = np.sum(RQ * RQ * inverse, axis=1)  # rᵢᵀP⁻¹rᵢ
    determinant = corner * (other - charge) - (1 + cross) ** 2
    return np.asarray(determinant < -SIGN_TOLERANCE * (corner * (other + charge) + (1 + np.abs(cross)) ** 2))
