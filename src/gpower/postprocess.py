"""From a pattern of active variables to loadings: the rank-one SVD, Algorithm 6, and the swap polish."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as spla

from gpower._arrays import Array, unit_columns
from gpower.ascent import AscentState, maximize
from gpower.feasible_sets import Cube, Point
from gpower.formulations import Problem
from gpower.metrics import adjusted_variances, score_gram
from gpower.operators.base import Operator
from gpower.operators.in_memory import Covariance
from gpower.penalties import FixedSupport, L1Ball, NonNegative, Penalty, signed

#: Above this order an eigenproblem goes to Lanczos iterations.
DENSE_ORDER = 1200
#: Relative growth at which a refit turns from accelerated to plain steps.
REFIT_TOL = 1e-12
#: A swap must raise the variance by this much, relatively.
SWAP_GAIN = 1e-10


def leading_components(operator: Operator, m: int, start: Array | None = None) -> tuple[Array, Array]:
    """Loadings of ordinary PCA, (n, m), and the variances ‖A z‖², (m,), largest first; zero beyond the rank.

    `start`, (n,), near the first component spares iterations.
    """
    p, n = operator.shape
    if min(p, n) > DENSE_ORDER and 4 * m < min(p, n):
        values, Z = _lanczos(operator, m)
    elif n <= p or not operator.has_samples:
        values, Z = _largest_eigenpairs(operator.gram(np.arange(n)), m, start)
    else:
        x = None if start is None else operator.combine(start[:, None])[:, 0]
        values, U = _largest_eigenpairs(_sample_gram(operator), m, x)
        Z = operator.correlate(U.astype(operator.dtype))
    values = np.where(values > 4 * max(p, n) * np.finfo(operator.dtype).eps * values[:1], values, 0.0)
    Z = unit_columns(np.where(operator.column_norms[:, None] > 0, Z, 0)) * (values > 0)
    missing = m - values.size
    return np.pad(Z, ((0, 0), (0, missing))), np.pad(values, (0, missing))


def _largest_eigenpairs(G: Array, m: int, start: Array | None = None) -> tuple[Array, Array]:
    """By Lanczos from a good start, else by a dense solver."""
    n = G.shape[0]
    if start is not None and n > 24 and m == 1:
        w, V = spla.eigsh(G, k=1, which="LA", v0=start, ncv=min(n, 12))
        return w, V
    w, V = sla.eigh(G, subset_by_index=[max(n - m, 0), n - 1], driver="evr")
    return w[::-1], V[:, ::-1]


def _sample_gram(operator: Operator, step: int = 4096) -> Array:
    """AAᵀ, a sum over blocks of columns."""
    p, n = operator.shape
    K = np.zeros((p, p), operator.dtype)
    for i in range(0, n, step):
        A = operator.columns(np.arange(i, min(i + step, n)))
        K += A @ A.T
    return K


def _lanczos(operator: Operator, m: int) -> tuple[Array, Array]:
    """Leading eigenpairs of AᵀA by products alone."""
    n = operator.shape[1]

    def product(v: Array) -> Array:
        return operator.correlate(operator.combine(v.reshape(n, -1).astype(operator.dtype)))

    AtA = spla.LinearOperator((n, n), matvec=product, matmat=product, dtype=operator.dtype)
    w, V = spla.eigsh(AtA, k=m, which="LA", v0=operator.column_norms.astype(operator.dtype))
    return w[::-1], V[:, ::-1]


def fill_unit(operator: Operator, support: Array, start: Array | None = None) -> tuple[Array, float]:
    """Loadings of the largest variance on a support, (n,), and that variance [JNRS10, eq. (28)].

    `start`, (n,), are loadings near the answer.
    """
    z = np.zeros(operator.shape[1], operator.dtype)
    if support.size == 0:
        return z, 0.0
    near = None if start is None else start[support]
    small = support.size < operator.shape[0] or not operator.has_samples
    inner = Covariance(operator.gram(support)) if small else operator.take(support)
    loadings, variance = leading_components(inner, 1, near)
    z[support] = loadings[:, 0]
    return z, float(variance[0])


def fill_pattern(problem: Problem, pattern: Array, start: Point, power: int, max_iter: int = 1000) -> Array:
    """Loadings on a pattern, (n, m), by the alternating scheme [JNRS10, Algorithm 6] from a point.

    `power=1` maximises the sum of norms as the paper does, `power=2` the sum of squares: the variance. Whatever
    else the problem asks for (non-negative loadings, ℓ1 variance) holds for the filled pattern too.
    """
    Z = np.zeros(pattern.shape, problem.operator.dtype)
    W = np.flatnonzero(pattern.any(axis=1))
    if W.size == 0:
        return Z
    penalty: Penalty = FixedSupport(pattern[W], power)
    if isinstance(problem.penalty, NonNegative):
        penalty = NonNegative(penalty)
    samples_needed = isinstance(problem.samples, Cube)
    operator = problem.operator.take(W) if samples_needed else problem.operator.restrict(W).inner
    inner = Problem(operator, penalty, problem.mu, problem.samples)
    objective, feasible_set = inner.objective, inner.feasible_set
    start = Point(None, start.C[W])
    result = maximize(objective, feasible_set, start, tol=REFIT_TOL, max_iter=max_iter, acceleration=True)
    # Values settle at the square of the points' error: go on by plain steps until the loadings rest.
    result = maximize(objective, feasible_set, result.point, tol=-1.0, max_iter=max_iter, callback=AtRest(inner))
    Z[W] = inner.loadings(result.point)
    return Z


class AtRest:
    """A callback that stops an ascent once its loadings move by no more than rounding."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.last: Array | float = np.inf

    def __call__(self, state: AscentState) -> bool:
        """Whether the loadings are where they were."""
        Z = self.problem.loadings(state.point)
        moved, self.last = np.max(np.abs(Z - self.last)), Z
        return bool(moved <= 16 * np.finfo(Z.dtype).eps)


def refit(problem: Problem, point: Point, how: str | None, pattern: Array | None = None, max_iter: int = 1000) -> Array:
    """Unit loadings, (n, m), on the pattern active at a point (or on a given one).

    Parameters
    ----------
    how : {"auto", "norms", "variance", None}
        None reads the loadings off the point. One unit of plain variance is filled by the rank-one SVD whatever
        the word. A block takes the sum of norms (the paper's), the sum of squares, or under "auto" whichever
        ends with the larger adjusted variance. Under "auto" an ℓ1-ball is read off, since a refit would leave it.
    """
    Z = problem.loadings(point)
    pattern = Z != 0 if pattern is None else pattern
    plain = not isinstance(problem.penalty, NonNegative) and not isinstance(problem.samples, Cube)
    if how is None or (how == "auto" and isinstance(signed(problem.penalty), L1Ball)):
        return unit_columns(np.where(pattern, Z, 0))
    if pattern.shape[1] == 1 and plain:
        return fill_unit(problem.operator, np.flatnonzero(pattern[:, 0]), Z[:, 0])[0][:, None]
    powers = {"norms": (1,), "variance": (2,), "auto": (1, 2) if pattern.shape[1] > 1 else (2,)}[how]
    filled = [fill_pattern(problem, pattern, point, power, max_iter=max_iter) for power in powers]
    if len(filled) == 1:
        return filled[0]
    return max(filled, key=lambda Z: float(adjusted_variances(score_gram(problem.operator, Z)).sum()))


def bordered_eigenvalues(S: Array, inside: Array, outside: Array) -> Array:
    """λmax of S[inside + j, inside + j] for every j of `outside`, from one eigendecomposition.

    With S[inside, inside] = Q diag(w) Qᵀ and c = QᵀS[inside, j], the largest eigenvalue is the root right
    of max(w) of x − S_jj − Σ cᵢ²/(x − wᵢ): increasing and concave, so Newton from the left is monotone.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> bordered_eigenvalues(S, np.array([0]), np.array([1]))
    array([3.])
    """
    d = S[outside, outside]
    if inside.size == 0:
        return np.asarray(d)
    w, Q = np.linalg.eigh(S[np.ix_(inside, inside)])
    squares = (Q.T @ S[np.ix_(inside, outside)]) ** 2  # (k, |outside|)
    tiny = 8 * np.finfo(S.dtype).eps * max(abs(float(w[-1])), float(np.max(np.abs(d), initial=0)), 1e-300)
    x = np.maximum(_two_by_two(w[-1], d, squares[-1]), w[-1] + tiny)
    upper = np.maximum(_two_by_two(w[-1], d, squares.sum(axis=0)), x)
    for _ in range(60):
        distance = np.maximum(x - w[:, None], tiny)
        ratio = squares / distance
        step = -(x - d - ratio.sum(axis=0)) / (1 + (ratio / distance).sum(axis=0))
        new = np.clip(x + step, x, upper)
        if np.all(new - x <= 4 * np.finfo(S.dtype).eps * np.abs(x)):
            break
        x = new
    return np.asarray(x)


def _two_by_two(a: float, d: Array, square: Array) -> Array:
    """Largest eigenvalue of [[a, c], [c, d]], where square = c²."""
    return np.asarray(0.5 * (a + d + np.sqrt((a - d) ** 2 + 4 * square)))


def swap_polish(S: Array, support: Array, max_positions: int = 48, max_swaps: int = 200) -> Array:
    """Exchange one variable at a time while that raises λmax(S[support, support]); steepest exchange first.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Covariance of the candidate variables.
    support : ndarray of int
        Where to begin.
    max_positions : int
        With more variables than this, only those with the smallest loadings are offered for exchange.

    Returns
    -------
    ndarray of int, sorted
    """
    support = np.array(support)
    for _ in range(max_swaps):
        w, V = np.linalg.eigh(S[np.ix_(support, support)])
        order = np.argsort(np.abs(V[:, -1]))[:max_positions]
        outside = np.setdiff1d(np.arange(S.shape[0]), support)
        best, swap = w[-1] * (1 + SWAP_GAIN) + np.finfo(S.dtype).tiny, None
        for position in order if outside.size else []:
            values = bordered_eigenvalues(S, np.delete(support, position), outside)
            j = int(np.argmax(values))
            if values[j] > best:
                best, swap = values[j], (position, outside[j])
        if swap is None:
            break
        support[swap[0]] = swap[1]
    return np.sort(support)
