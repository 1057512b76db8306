"""From a pattern of active variables to loadings: the rank-one SVD, Algorithm 6, and the swap polish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as spla

from gpower._arrays import Array, embedded, rows_of, to_host, unit_columns
from gpower.ascent import AscentState, maximize
from gpower.feasible_sets import Cube, Point
from gpower.formulations import Problem
from gpower.metrics import adjusted_variances, score_gram
from gpower.operators.base import Operator
from gpower.penalties import FixedSupport, L1Ball, NonNegative, Penalty, signed

#: Above this order an eigenproblem goes to Lanczos iterations; from a good start above this one.
DENSE_ORDER, LEAST_LANCZOS = 1200, 96
#: Relative growth at which a refit turns from accelerated to plain steps.
REFIT_TOL = 1e-12
#: A swap must raise the variance by this much, relatively.
SWAP_GAIN = 1e-10
#: Most promising exchanges whose variance is computed before one is made.
SWAPS_TRIED = 4
#: Power steps after which an exchange shows whether it helps.
POWER_STEPS = 6
#: Multiplications that one polish may take, at least two exchanges.
SWAP_WORK = 5e8
#: A support of more variables than this may make many exchanges at once.
LARGE_SUPPORT = 16


def leading_components(
    operator: Operator, m: int, idx: Array | None = None, start: Array | None = None
) -> tuple[Array, Array]:
    """Loadings of ordinary PCA of some columns, (|idx|, m), and the variances ‖A z‖², (m,), largest first.

    Zero beyond the rank. `start`, (|idx|,), near the first component spares iterations.
    """
    p, n = operator.shape
    idx = np.arange(n) if idx is None else idx
    found = None
    if start is not None and m == 1 and idx.size > p > LEAST_LANCZOS and _is_gathered(operator, idx):
        found = _by_products(operator.restrict(idx).inner, m, np.arange(idx.size), start)
    elif min(p, idx.size) > DENSE_ORDER and 4 * m < min(p, idx.size):
        found = _by_products(operator, m, idx, start)
    if found is not None:
        values, Z = found
    elif idx.size <= p or not operator.has_samples:
        values, Z = _largest_eigenpairs(operator.gram(idx), m, start)
    else:
        like = operator.column_norms
        x = None if start is None else to_host(operator.combine(embedded(start[:, None], idx, n, like))[:, 0])
        values, U = _largest_eigenpairs(operator.sample_gram(idx), m, x)
        Z = to_host(rows_of(operator.correlate(operator.own(U.astype(operator.dtype))), idx))
    noise = 8 * np.sqrt(min(p, idx.size)) * np.finfo(operator.dtype).eps
    values = np.where(values > noise * values[:1], values, 0.0)
    norms = to_host(rows_of(operator.column_norms, idx))
    Z = unit_columns(np.where(norms[:, None] > 0, Z, 0)) * (values > 0)
    missing = m - values.size
    return np.pad(Z, ((0, 0), (0, missing))), np.pad(values, (0, missing))


def _is_gathered(operator: Operator, idx: Array) -> bool:
    """Whether some dense columns are in memory already, beside the matrix."""
    return not (operator.is_remote or operator.is_sparse) and operator.holds(idx)


def _largest_eigenpairs(G: Array, m: int, start: Array | None = None) -> tuple[Array, Array]:
    """By Lanczos from a good start or for a large matrix, else by a dense solver."""
    n = G.shape[0]
    if (start is not None and n > LEAST_LANCZOS and m == 1) or n > DENSE_ORDER > 4 * m:
        found = _lanczos(G, m, np.ones(n, G.dtype) if start is None else start)
        if found is not None:
            return found
    w, V = sla.eigh(G, subset_by_index=[max(n - m, 0), n - 1], driver="evr")
    return w[::-1], V[:, ::-1]


def _lanczos(G: Any, m: int, start: Array) -> tuple[Array, Array] | None:
    """Leading eigenpairs from a start, or None where eigenvalues cluster so that it does not converge."""
    n = G.shape[0]
    try:
        w, V = spla.eigsh(G, k=m, which="LA", v0=start, ncv=min(n, max(2 * m + 1, 12)), maxiter=100 * m)
    except spla.ArpackError:
        return None
    return w[::-1], V[:, ::-1]


def _by_products(operator: Operator, m: int, idx: Array, start: Array | None) -> tuple[Array, Array] | None:
    """Leading eigenpairs of A[:, idx]ᵀA[:, idx] by products with the matrix alone; None where they cluster."""
    n = operator.shape[1]

    def product(v: Array) -> Array:
        T = embedded(v.reshape(idx.size, -1).astype(operator.dtype), idx, n, operator.column_norms)
        return to_host(rows_of(operator.correlate(operator.combine(T)), idx))

    AtA = spla.LinearOperator((idx.size, idx.size), matvec=product, matmat=product, dtype=operator.dtype)
    return _lanczos(AtA, m, to_host(rows_of(operator.column_norms, idx)) if start is None else start)


def fill_unit(operator: Operator, support: Array, start: Array | None = None) -> tuple[Array, float]:
    """Loadings of the largest variance on a support, (n,), and that variance [JNRS10, eq. (28)].

    `start`, (n,), are loadings near the answer.
    """
    if support.size == 0:
        return np.zeros_like(operator.column_norms), 0.0
    near = None if start is None else to_host(rows_of(start, support))
    loadings, variance = leading_components(operator, 1, support, near)
    return embedded(loadings, support, operator.shape[1], operator.column_norms)[:, 0], float(variance[0])


def fill_pattern(
    problem: Problem, pattern: Array, start: Point, power: int, tol: float = 0.0, max_iter: int = 1000
) -> Array:
    """Loadings on a pattern, (n, m), by the alternating scheme [JNRS10, Algorithm 6] from a point.

    `power=1` maximises the sum of norms as the paper does, `power=2` the sum of squares: the variance. Whatever
    else the problem asks for (non-negative loadings, ℓ1 variance) holds for the filled pattern too.
    """
    n, like = pattern.shape[0], problem.operator.column_norms
    W = to_host(np.flatnonzero(pattern.any(axis=1)))
    if W.size == 0:
        return np.zeros_like(like, shape=pattern.shape)
    penalty: Penalty = FixedSupport(to_host(rows_of(pattern, W)), power)
    if isinstance(problem.penalty, NonNegative):
        penalty = NonNegative(penalty)
    samples_needed = isinstance(problem.samples, Cube)
    operator = problem.operator.take(W) if samples_needed else problem.operator.restrict(W).inner
    inner = Problem(operator, penalty, problem.mu, problem.samples)
    objective, feasible_set = inner.objective, inner.feasible_set
    start = Point(None, operator.own(rows_of(start.C, W)))
    result = maximize(objective, feasible_set, start, tol=REFIT_TOL, max_iter=max_iter, acceleration=True)
    # Values settle at the square of the points' error: go on by plain steps until the loadings rest.
    at_rest = AtRest(inner.loadings, 1e-4 * tol)
    result = maximize(objective, feasible_set, result.point, tol=-1.0, max_iter=max_iter, callback=at_rest)
    return embedded(inner.loadings(result.point), W, n, like)


class AtRest:
    """A callback that stops an ascent once its loadings move by no more than `least`, or rounding."""

    def __init__(self, loadings: Callable[[Any], Array], least: float) -> None:
        self.loadings, self.least = loadings, least
        self.last: Array | float = np.inf

    def __call__(self, state: AscentState) -> bool:
        """Whether the loadings are where they were."""
        Z = self.loadings(state.point)
        moved, self.last = np.max(np.abs(Z - self.last)), Z
        return bool(moved <= max(self.least, 16 * float(np.finfo(Z.dtype).eps)))


def refit(
    problem: Problem,
    point: Point,
    how: str | None,
    pattern: Array | None = None,
    tol: float = 0.0,
    max_iter: int = 1000,
) -> Array:
    """Unit loadings, (n, m), on the pattern active at a point (or on a given one).

    Parameters
    ----------
    how : {"auto", "norms", "variance", None}
        None reads the loadings off the point. One unit of plain variance is filled by the rank-one SVD whatever
        the word. A block takes the sum of norms (the paper's), the sum of squares, or under "auto" whichever
        ends with the larger adjusted variance. Under "auto" an ℓ1-ball is read off, since a refit would leave it.
    tol : float
        Of the ascent that found the pattern: filled loadings rest to a ten-thousandth of it.
    """
    Z = problem.loadings(point)
    pattern = Z != 0 if pattern is None else pattern
    plain = not isinstance(problem.penalty, NonNegative) and not isinstance(problem.samples, Cube)
    if how is None or (how == "auto" and isinstance(signed(problem.penalty), L1Ball)):
        return unit_columns(np.where(pattern, Z, 0))
    if pattern.shape[1] == 1 and plain:
        return fill_unit(problem.operator, to_host(np.flatnonzero(pattern[:, 0])), Z[:, 0])[0][:, None]
    powers = {"norms": (1,), "variance": (2,), "auto": (1, 2) if pattern.shape[1] > 1 else (2,)}[how]
    filled = [fill_pattern(problem, pattern, point, power, tol, max_iter) for power in powers]
    if len(filled) == 1:
        return filled[0]
    return max(filled, key=lambda Z: float(adjusted_variances(score_gram(problem.operator, Z)).sum()))


def swap_slack(S: Array, support: Array, outside: Array) -> tuple[float, Array, Array]:
    """λ = λmax(S[support, support]), and for every exchange of i for j the sign of what it would do to λ.

    With i out and j in, λ is passed exactly where the bordered secular function λ − S_jj − bᵀ(λI − S_RR)⁻¹b is
    negative, R the support without i and b = S[R, j]. The slack is that function for all i and j at once: with
    N = (λI − S_PP)⁻¹ over the whole support, Schur's formula gives bᵀ(λI − S_RR)⁻¹b = Q_j − V_ij²/N_ii, where
    V = N S[P, J] and Q_j = S[P, j]ᵀV_j. N is singular along the leading eigenvector u; its share, s = 1/N along u
    tending to zero, is divided out by hand.

    Parameters
    ----------
    S : ndarray of shape (n, n)
    support, outside : ndarray of int
        P of k variables, and J, those that may come in.

    Returns
    -------
    value : float
    u : ndarray of shape (k,)
        The loadings on the support.
    slack : ndarray of shape (k, |J|)

    Examples
    --------
    >>> import numpy as np
    >>> value, _, slack = swap_slack(np.diag([1.0, 2.0, 3.0]), np.array([0, 1]), np.array([2]))
    >>> value, bool(slack[0, 0] < 0)
    (2.0, True)
    """
    w, U = np.linalg.eigh(S[np.ix_(support, support)])
    B, d = S[np.ix_(support, outside)], S[outside, outside]  # (k, |J|), (|J|,)
    u, s = U[:, -1:], SWAP_GAIN * abs(float(w[-1])) + np.finfo(S.dtype).tiny
    value = float(w[-1])
    U, w = U[:, :-1], value + s - w[:-1]
    N = np.sum(U * U / w, axis=1)[:, None]  # diagonal of N without u's share, (k, 1)
    c, rest = u.T @ B, U.T @ B  # (1, |J|), (k - 1, |J|)
    V = (U / w) @ rest
    Q = np.sum(rest * rest / w[:, None], axis=0)
    quadratic = (c**2 * N + u**2 * Q - 2 * u * c * V + s * (Q * N - V**2)) / (u**2 + s * N)
    return value, u[:, 0], value + s - d - quadratic


def swap_polish(S: Array, support: Array) -> Array:
    """Exchange one variable at a time while that raises λmax(S[support, support]), and while SWAP_WORK lasts.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Covariance of the candidate variables.
    support : ndarray of int
        Where to begin.

    Returns
    -------
    ndarray of int, sorted
        A support that no single exchange improves; a large one, of which each exchange costs k³, as far as it got.
    """
    support = np.sort(support)
    for _ in range(max(2, int(SWAP_WORK / support.size**3))):
        outside = np.setdiff1d(np.arange(S.shape[0]), support)
        if outside.size == 0:
            break
        value, u, slack = swap_slack(S, support, outside)
        candidates = _exchanges(slack, support, outside)
        enough = value * (1 + SWAP_GAIN)
        values = [variance_at_least(S, new, u) for new in candidates]
        if not max(values, default=0.0) > enough:
            values = [float(np.linalg.eigvalsh(S[np.ix_(new, new)])[-1]) for new in candidates]
        if not max(values, default=0.0) > enough:
            break
        support = np.sort(candidates[int(np.argmax(values))])
    return support


def variance_at_least(S: Array, support: Array, near: Array) -> float:
    """A lower bound on λmax(S[support, support]): the Rayleigh quotient after some power steps from `near`.

    Far cheaper than the eigenvalue where an exchange helps, which is all that a polish on its way needs to know.
    """
    P = S[np.ix_(support, support)]
    z = near
    for _ in range(POWER_STEPS):
        z = P @ z
        length = float(np.linalg.norm(z))
        if length == 0:
            return 0.0
        z = z / length
    return float(z @ (P @ z))


def _exchanges(slack: Array, support: Array, outside: Array) -> list[Array]:
    """Supports to try: each of the most promising exchanges, and for a large support many of them at once."""
    helpful = np.flatnonzero(slack < 0)
    helpful = helpful[np.argsort(slack.ravel()[helpful], kind="stable")[: 8 * support.size]]
    out, into = np.unravel_index(helpful, slack.shape)
    tried = [_exchanged(support, outside, out[[t]], into[[t]]) for t in range(min(out.size, SWAPS_TRIED))]
    if support.size > LARGE_SUPPORT:
        distinct = _disjoint(out, into)
        sizes = {distinct.size, distinct.size // 2, distinct.size // 4, distinct.size // 8} - {0, 1}
        tried += [_exchanged(support, outside, out[distinct[:size]], into[distinct[:size]]) for size in sorted(sizes)]
    return tried


def _disjoint(out: Array, into: Array) -> Array:
    """Positions of exchanges in which no variable goes or comes twice, the most promising first."""
    seen_out: set[int] = set()
    seen_into: set[int] = set()
    kept = []
    for t, (i, j) in enumerate(zip(out.tolist(), into.tolist(), strict=True)):
        if i not in seen_out and j not in seen_into:
            seen_out.add(i)
            seen_into.add(j)
            kept.append(t)
    return np.array(kept, np.intp)


def _exchanged(support: Array, outside: Array, out: Array, into: Array) -> Array:
    new = support.copy()
    new[out] = outside[into]
    return new
