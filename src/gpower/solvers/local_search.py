"""Exchanges of variables: one out, one in, as long as that raises the variance of a component of exact cardinality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, embedded, first_largest, rows_of, to_host, unit_columns
from gpower.feasible_sets import Point
from gpower.penalties.elementary import top
from gpower.penalties.grouped import Chosen
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult, maximize
from gpower.solvers.group_swaps import trade_polish
from gpower.solvers.refit import fill_unit
from gpower.solvers.working_set import Settings, ascend, working_set

#: A swap must raise the variance by this much, relatively; where the support is large, so that a look costs much, by
#: more: of 310 variables of a factor model, half as much time again for what other components lose.
SWAP_GAIN, LARGE_GAIN = 1e-10, 1e-5
#: Most promising exchanges whose variance is computed before one is made.
SWAPS_TRIED = 4
#: Power steps after which an exchange shows whether it helps.
POWER_STEPS = 6
#: Multiplications that one polish may take, at least two exchanges.
SWAP_WORK = 5e8
#: A support of more variables than this may make many exchanges at once; one of more than this is large.
SEVERAL_AT_ONCE, LARGE_SUPPORT = 16, 64
#: Variables outside a support that the swap polish considers, and how few of a large one: a look costs k² times these.
SWAP_CANDIDATES, LEAST_CANDIDATES, SWAP_LOOK = 384, 96, 8192
#: Variables that are dropped or added on trial under a penalty, and of each how many are swapped.
MOVES, SWAPPED = 32, 8
#: Turns of polish and ascent.
TURNS = 5
#: Above this cardinality nothing is polished: the polish is cubic in it, and what it gains is lost in the digits. With
#: 800 variables it is 10⁻⁴ at most of a cohort and of a factor model, for five times the time; of noise 0.2 %.
POLISH_MOST = 512


def polished(
    problem: Problem, result: AscentResult, settings: Settings, polish: bool
) -> tuple[Array, float, AscentResult]:
    """One unit refitted, then exchanges and ascents in turn while they help.

    Loadings, (n, 1), their objective, and the last ascent.
    """
    z, variance = _filled(problem, result.point)
    for _ in range(TURNS if polish and np.count_nonzero(z) <= POLISH_MOST else 0):
        support = _swapped(problem, result.point, z)
        if np.array_equal(support, to_host(np.flatnonzero(z))):
            break
        swapped, better = fill_unit(problem.operator, support)
        if better <= variance * (1 + least_gain(support)):
            break
        x = problem.operator.combine(swapped[:, None])
        result = ascend(problem, problem.feasible_set.point(x), settings)
        z, variance = _filled(problem, result.point)
    return z[:, None], variance * float(problem.mu[0]) ** 2, result


def improve_penalized(problem: Problem, result: AscentResult, settings: Settings) -> AscentResult:
    """Add, drop or swap variables of one unit under a penalty, and ascend from there, as long as f grows.

    A move is judged by f at the direction that explains most with its variables, after a few steps of the ascent; all
    moves are made at once, side by side, on the variables that matter.

    Parameters
    ----------
    problem : Problem
        Of one unit of plain variance.
    result : AscentResult
        The end of an ascent.
    settings : Settings

    Returns
    -------
    AscentResult
        An end whose value is no smaller.
    """
    for _ in range(TURNS):
        moved = _best_move(problem, result)
        if moved is None:
            break
        better = ascend(problem, problem.feasible_set.point(problem.operator.combine(moved)), settings)
        if better.value <= result.value * (1 + LARGE_GAIN):
            break
        result = better
    return result


def _best_move(problem: Problem, result: AscentResult) -> Array | None:
    """Return loadings, (n, 1), at which f is larger than at the end of an ascent; None where no move finds any."""
    C, T = result.point.C, problem.penalty.evaluate(result.point.C)[1]
    support = to_host(np.flatnonzero(T[:, 0]))
    if not 0 < support.size <= POLISH_MOST:
        return None
    W = working_set(problem.penalty, C, T, support.size + MOVES)
    part = replace(problem, operator=problem.operator.restrict(W).inner, penalty=problem.penalty.restrict(W))
    c = to_host(rows_of(C, W))[:, 0]
    patterns = _moved_patterns(np.abs(c), np.isin(W, support))
    if patterns.shape[1] == 0:
        return None
    Z = unit_columns(patterns * c[:, None]).astype(part.operator.dtype)
    for _ in range(POWER_STEPS):
        Z = unit_columns(patterns * to_host(part.operator.correlate(part.operator.combine(part.operator.own(Z)))))
    batch = part.as_batch(Z.shape[1])
    start = batch.feasible_set.point(part.operator.combine(part.operator.own(Z)))
    points = maximize(batch.objective, batch.feasible_set, start, max_iter=POWER_STEPS).point
    values = to_host(batch.penalty.evaluate(points.C)[0])
    best = first_largest(values)
    if values[best] <= result.value * (1 + LARGE_GAIN):
        return None
    return embedded(to_host(batch.penalty.loadings(points.C))[:, [best]], W, C.shape[0], C)


def _moved_patterns(size: Array, active: Array) -> Array:
    """Return the patterns, (|W|, moves), of one variable dropped, added, or swapped for another.

    The active variables of the smallest correlation `size` are dropped first, the others of the largest come first.
    """
    order = np.argsort(size, kind="stable")
    out, into = order[active[order]][:MOVES], order[~active[order]][::-1][:MOVES]
    pairs = [(i, j) for i in out[:SWAPPED] for j in into[:SWAPPED]]
    moves = [*((i, None) for i in (out if np.count_nonzero(active) > 1 else [])), *((None, j) for j in into), *pairs]
    patterns = np.repeat(active[:, None], len(moves), axis=1)
    for column, (i, j) in enumerate(moves):
        patterns[[] if i is None else i, column] = False
        patterns[[] if j is None else j, column] = True
    return patterns


def least_gain(support: Array) -> float:
    """By how much of the variance an exchange must raise it."""
    return SWAP_GAIN if support.size <= LARGE_SUPPORT else LARGE_GAIN


def _filled(problem: Problem, point: Point) -> tuple[Array, float]:
    """Loadings of one unit on the support at a point, and their variance."""
    z = problem.loadings(point)[:, 0]
    return fill_unit(problem.operator, to_host(np.flatnonzero(z)), z)


def _swapped(problem: Problem, point: Point, z: Array) -> Array:
    """The support after swap polish among the variables most correlated with the component."""
    support = to_host(np.flatnonzero(z))
    if support.size == 0:
        return support
    outside = min(SWAP_CANDIDATES, max(LEAST_CANDIDATES, SWAP_LOOK // support.size))
    count = min(outside + support.size, z.size)
    if isinstance(problem.penalty, Chosen):
        return _traded(problem, problem.penalty, point, z, count)
    candidates = np.union1d(support, to_host(top(np.abs(point.C), count)[:, 0]))
    S = problem.operator.gram(candidates).astype(np.float64)
    return np.asarray(candidates[swap_polish(S, np.searchsorted(candidates, support))])


def _traded(problem: Problem, penalty: Chosen, point: Point, z: Array, count: int) -> Array:
    """The same where not every support is admissible: whole groups, about so many variables."""
    known = penalty.known
    used = known.touched((z != 0)[:, None])[:, 0]
    energy = known.energy(known.seen(point.C))[:, 0]
    order = np.argsort(-np.where(used | known.forced[:, 0], np.inf, energy), kind="stable")
    near = order[np.cumsum(known.sizes[order, 0]) <= max(count, int(np.sum(known.sizes[used, 0])))]
    kept = np.zeros(used.size, bool)
    kept[near] = kept[used] = True
    candidates = np.flatnonzero(known.spread(kept[:, None])[:, 0])
    S, part = problem.operator.gram(candidates).astype(np.float64), known.restrict(candidates)
    chosen = trade_polish(S, used[kept], part, float(penalty.level[0]))
    return np.asarray(candidates[part.spread(chosen[:, None])[:, 0] & ~part.barred[:, 0]])


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
    B, d = S[np.ix_(support, outside)], S[outside, outside]  # (k, |J|), (|J|,)
    value, u, slack = bordered_slack(S[np.ix_(support, support)], B, d)
    return float(value), u, slack


def bordered_slack(P: Array, B: Array, d: Array) -> tuple[Array, Array, Array]:
    """What `swap_slack` says, of P = S[support, support], B = S[support, outside] and the diagonal outside.

    Axes in front, (..., k, k), (..., k, J) and (..., J), hold many supports side by side. S need not be semidefinite.
    """
    w, U = np.linalg.eigh(P)
    value, u = w[..., -1], U[..., -1:]  # (...), (..., k, 1)
    least = float(np.finfo(w.dtype).eps) ** 2 * float(np.max(np.abs(B), initial=0)) + float(np.finfo(w.dtype).tiny)
    s = (SWAP_GAIN * np.max(np.abs(w), axis=-1) + least)[..., None, None]  # not so small that 1/s overflows
    U, w = U[..., :-1], (value[..., None] - w[..., :-1])[..., None, :] + s  # (..., k, k - 1), (..., 1, k - 1)
    N = np.sum(U * U / w, axis=-1, keepdims=True)  # diagonal of N without u's share, (..., k, 1)
    c, rest = _turned(u) @ B, _turned(U) @ B  # (..., 1, J), (..., k - 1, J)
    V = (U / w) @ rest
    Q = np.sum(rest * rest / _turned(w), axis=-2, keepdims=True)  # (..., 1, J)
    quadratic = (c**2 * N + u**2 * Q - 2 * u * c * V + s * (Q * N - V**2)) / (u**2 + s * N)
    return value, u[..., 0], value[..., None, None] + s - d[..., None, :] - quadratic


def _turned(M: Array) -> Array:
    """The last two axes exchanged."""
    return np.swapaxes(M, -1, -2)


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
        enough = max(value, 0.0) * (1 + least_gain(support))  # below zero there is nothing but rounding
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
    if support.size > SEVERAL_AT_ONCE:
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
