"""Exchanges of variables: one out, one in, as long as that raises the variance of a component of exact cardinality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, embed_rows, normalize_columns, stable_argmax, take_rows, to_host
from gpower.feasible_sets import Point
from gpower.penalties.elementary import find_largest_rows
from gpower.penalties.grouped import GroupCardinality
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult, maximize
from gpower.solvers.group_swaps import group_swap_search
from gpower.solvers.refit import refit_unit
from gpower.solvers.working_set import AscentSettings, ascend, select_working_set

#: A swap must raise the variance by this much, relatively; where the support is large, so that a look costs much, by
#: more: of 310 variables of a factor model, half as much time again for what other components lose.
MIN_SWAP_GAIN, MIN_LARGE_SUPPORT_GAIN = 1e-10, 1e-5
#: Most promising exchanges whose variance is computed before one is made.
MAX_TRIED_SWAPS = 4
#: Power steps after which an exchange shows whether it helps.
N_POWER_STEPS = 6
#: Multiplications that one polish may take, at least two exchanges.
MAX_SWAP_MULTIPLICATIONS = 5e8
#: A support of more variables than this may make many exchanges at once; one of more than this is large.
MAX_SINGLE_SWAP_SUPPORT, MAX_SMALL_SUPPORT = 16, 64
#: Variables outside a support that the swap polish considers, and how few of a large one: a look costs k² times these.
MAX_SWAP_CANDIDATES, MIN_SWAP_CANDIDATES, MAX_SWAP_PAIRS = 384, 96, 8192
#: Variables that are dropped or added on trial under a penalty, and of each how many are swapped.
MAX_TRIAL_MOVES, MAX_TRIAL_SWAPS_PER_SIDE = 32, 8
#: Turns of polish and ascent.
MAX_SEARCH_ROUNDS = 5
#: Above this cardinality nothing is polished: the polish is cubic in it, and what it gains is lost in the digits. With
#: 800 variables it is 10⁻⁴ at most of a cohort and of a factor model, for five times the time; of noise 0.2 %.
MAX_POLISHED_SUPPORT = 512


def refit_and_swap(
    problem: Problem, result: AscentResult, settings: AscentSettings, local_search: bool
) -> tuple[Array, float, AscentResult]:
    """One unit refitted, then exchanges and ascents in turn while they help.

    Loadings, (n, 1), their objective, and the last ascent.
    """
    z, variance = _refit_at_point(problem, result.point)
    for _ in range(MAX_SEARCH_ROUNDS if local_search and np.count_nonzero(z) <= MAX_POLISHED_SUPPORT else 0):
        support = _swap_support_variables(problem, result.point, z)
        if np.array_equal(support, to_host(np.flatnonzero(z))):
            break
        swapped, better = refit_unit(problem.operator, support)
        if better <= variance * (1 + get_min_swap_gain(support)):
            break
        x = problem.operator.combine(swapped[:, None])
        result = ascend(problem, problem.feasible_set.make_point(x), settings)
        z, variance = _refit_at_point(problem, result.point)
    return z[:, None], variance * float(problem.mu[0]) ** 2, result


def improve_penalized(problem: Problem, result: AscentResult, settings: AscentSettings) -> AscentResult:
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
    for _ in range(MAX_SEARCH_ROUNDS):
        moved = _find_best_move(problem, result)
        if moved is None:
            break
        better = ascend(problem, problem.feasible_set.make_point(problem.operator.combine(moved)), settings)
        if better.value <= result.value * (1 + MIN_LARGE_SUPPORT_GAIN):
            break
        result = better
    return result


def _find_best_move(problem: Problem, result: AscentResult) -> Array | None:
    """Return loadings, (n, 1), at which f is larger than at the end of an ascent; None where no move finds any."""
    C, T = result.point.C, problem.penalty.evaluate(result.point.C)[1]
    support = to_host(np.flatnonzero(T[:, 0]))
    if not 0 < support.size <= MAX_POLISHED_SUPPORT:
        return None
    W = select_working_set(problem.penalty, C, T, support.size + MAX_TRIAL_MOVES)
    part = replace(problem, operator=problem.operator.restrict(W).operator, penalty=problem.penalty.restrict(W))
    c = to_host(take_rows(C, W))[:, 0]
    patterns = _list_moved_patterns(np.abs(c), np.isin(W, support))
    if patterns.shape[1] == 0:
        return None
    Z = normalize_columns(patterns * c[:, None]).astype(part.operator.dtype)
    for _ in range(N_POWER_STEPS):
        Z = normalize_columns(
            patterns * to_host(part.operator.correlate(part.operator.combine(part.operator.to_backend(Z))))
        )
    batch = part.as_batch(Z.shape[1])
    start = batch.feasible_set.make_point(part.operator.combine(part.operator.to_backend(Z)))
    points = maximize(batch.objective, batch.feasible_set, start, max_iter=N_POWER_STEPS).point
    values = to_host(batch.penalty.evaluate(points.C)[0])
    best = stable_argmax(values)
    if values[best] <= result.value * (1 + MIN_LARGE_SUPPORT_GAIN):
        return None
    return embed_rows(to_host(batch.penalty.loadings(points.C))[:, [best]], W, C.shape[0], C)


def _list_moved_patterns(abs_correlations: Array, active: Array) -> Array:
    """Return the patterns, (|W|, moves), of one variable dropped, added, or swapped for another.

    The active variables of the smallest correlation `size` are dropped first, the others of the largest come first.
    """
    order = np.argsort(abs_correlations, kind="stable")
    out, into = order[active[order]][:MAX_TRIAL_MOVES], order[~active[order]][::-1][:MAX_TRIAL_MOVES]
    pairs = [(i, j) for i in out[:MAX_TRIAL_SWAPS_PER_SIDE] for j in into[:MAX_TRIAL_SWAPS_PER_SIDE]]
    moves = [*((i, None) for i in (out if np.count_nonzero(active) > 1 else [])), *((None, j) for j in into), *pairs]
    patterns = np.repeat(active[:, None], len(moves), axis=1)
    for column, (i, j) in enumerate(moves):
        patterns[[] if i is None else i, column] = False
        patterns[[] if j is None else j, column] = True
    return patterns


def get_min_swap_gain(support: Array) -> float:
    """By how much of the variance an exchange must raise it."""
    return MIN_SWAP_GAIN if support.size <= MAX_SMALL_SUPPORT else MIN_LARGE_SUPPORT_GAIN


def _refit_at_point(problem: Problem, point: Point) -> tuple[Array, float]:
    """Loadings of one unit on the support at a point, and their variance."""
    z = problem.compute_loadings(point)[:, 0]
    return refit_unit(problem.operator, to_host(np.flatnonzero(z)), z)


def _swap_support_variables(problem: Problem, point: Point, z: Array) -> Array:
    """The support after swap polish among the variables most correlated with the component."""
    support = to_host(np.flatnonzero(z))
    if support.size == 0:
        return support
    outside = min(MAX_SWAP_CANDIDATES, max(MIN_SWAP_CANDIDATES, MAX_SWAP_PAIRS // support.size))
    count = min(outside + support.size, z.size)
    if isinstance(problem.penalty, GroupCardinality):
        return _swap_support_groups(problem, problem.penalty, point, z, count)
    candidates = np.union1d(support, to_host(find_largest_rows(np.abs(point.C), count)[:, 0]))
    S = problem.operator.gram(candidates).astype(np.float64)
    return np.asarray(candidates[swap_search(S, np.searchsorted(candidates, support))])


def _swap_support_groups(
    problem: Problem, penalty: GroupCardinality, point: Point, z: Array, n_candidates: int
) -> Array:
    """The same where not every support is admissible: whole groups, about so many variables."""
    known = penalty.rules
    used = known.groups_hit((z != 0)[:, None])[:, 0]
    energy = known.group_norms_sq(known.mask_excluded(point.C))[:, 0]
    order = np.argsort(-np.where(used | known.required[:, 0], np.inf, energy), kind="stable")
    near = order[np.cumsum(known.group_sizes[order, 0]) <= max(n_candidates, int(np.sum(known.group_sizes[used, 0])))]
    kept = np.zeros(used.size, bool)
    kept[near] = kept[used] = True
    candidates = np.flatnonzero(known.broadcast_to_variables(kept[:, None])[:, 0])
    S, part = problem.operator.gram(candidates).astype(np.float64), known.restrict(candidates)
    chosen = group_swap_search(S, used[kept], part, float(penalty.max_cost[0]))
    return np.asarray(candidates[part.broadcast_to_variables(chosen[:, None])[:, 0] & ~part.excluded[:, 0]])


def swap_test(S: Array, support: Array, outside: Array) -> tuple[float, Array, Array]:
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
    >>> value, _, slack = swap_test(np.diag([1.0, 2.0, 3.0]), np.array([0, 1]), np.array([2]))
    >>> value, bool(slack[0, 0] < 0)
    (2.0, True)
    """
    B, d = S[np.ix_(support, outside)], S[outside, outside]  # (k, |J|), (|J|,)
    value, u, slack = batched_swap_test(S[np.ix_(support, support)], B, d)
    return float(value), u, slack


def batched_swap_test(S_inside: Array, S_cross: Array, outside_variances: Array) -> tuple[Array, Array, Array]:
    """What `swap_test` says, of P = S[support, support], B = S[support, outside] and the diagonal outside.

    Axes in front, (..., k, k), (..., k, J) and (..., J), hold many supports side by side. S need not be semidefinite.
    """
    w, U = np.linalg.eigh(S_inside)
    value, u = w[..., -1], U[..., -1:]  # (...), (..., k, 1)
    least = float(np.finfo(w.dtype).eps) ** 2 * float(np.max(np.abs(S_cross), initial=0)) + float(
        np.finfo(w.dtype).tiny
    )
    s = (MIN_SWAP_GAIN * np.max(np.abs(w), axis=-1) + least)[..., None, None]  # not so small that 1/s overflows
    U, w = U[..., :-1], (value[..., None] - w[..., :-1])[..., None, :] + s  # (..., k, k - 1), (..., 1, k - 1)
    N = np.sum(U * U / w, axis=-1, keepdims=True)  # diagonal of N without u's share, (..., k, 1)
    c, rest = _transpose_last_axes(u) @ S_cross, _transpose_last_axes(U) @ S_cross  # (..., 1, J), (..., k - 1, J)
    V = (U / w) @ rest
    Q = np.sum(rest * rest / _transpose_last_axes(w), axis=-2, keepdims=True)  # (..., 1, J)
    quadratic = (c**2 * N + u**2 * Q - 2 * u * c * V + s * (Q * N - V**2)) / (u**2 + s * N)
    return value, u[..., 0], value[..., None, None] + s - outside_variances[..., None, :] - quadratic


def _transpose_last_axes(M: Array) -> Array:
    """The last two axes exchanged."""
    return np.swapaxes(M, -1, -2)


def swap_search(S: Array, support: Array) -> Array:
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
    for _ in range(max(2, int(MAX_SWAP_MULTIPLICATIONS / support.size**3))):
        outside = np.setdiff1d(np.arange(S.shape[0]), support)
        if outside.size == 0:
            break
        value, u, slack = swap_test(S, support, outside)
        candidates = _propose_swaps(slack, support, outside)
        enough = max(value, 0.0) * (1 + get_min_swap_gain(support))  # below zero there is nothing but rounding
        values = [lower_bound_variance(S, new, u) for new in candidates]
        if not max(values, default=0.0) > enough:
            values = [float(np.linalg.eigvalsh(S[np.ix_(new, new)])[-1]) for new in candidates]
        if not max(values, default=0.0) > enough:
            break
        support = np.sort(candidates[int(np.argmax(values))])
    return support


def lower_bound_variance(S: Array, support: Array, start_loadings: Array) -> float:
    """A lower bound on λmax(S[support, support]): the Rayleigh quotient after some power steps from `near`.

    Far cheaper than the eigenvalue where an exchange helps, which is all that a polish on its way needs to know.
    """
    P = S[np.ix_(support, support)]
    z = start_loadings
    for _ in range(N_POWER_STEPS):
        z = P @ z
        length = float(np.linalg.norm(z))
        if length == 0:
            return 0.0
        z = z / length
    return float(z @ (P @ z))


def _propose_swaps(slack: Array, support: Array, outside: Array) -> list[Array]:
    """Supports to try: each of the most promising exchanges, and for a large support many of them at once."""
    helpful = np.flatnonzero(slack < 0)
    helpful = helpful[np.argsort(slack.ravel()[helpful], kind="stable")[: 8 * support.size]]
    out, into = np.unravel_index(helpful, slack.shape)
    tried = [_apply_swaps(support, outside, out[[t]], into[[t]]) for t in range(min(out.size, MAX_TRIED_SWAPS))]
    if support.size > MAX_SINGLE_SWAP_SUPPORT:
        distinct = _select_disjoint_swaps(out, into)
        sizes = {distinct.size, distinct.size // 2, distinct.size // 4, distinct.size // 8} - {0, 1}
        tried += [_apply_swaps(support, outside, out[distinct[:size]], into[distinct[:size]]) for size in sorted(sizes)]
    return tried


def _select_disjoint_swaps(out: Array, into: Array) -> Array:
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


def _apply_swaps(support: Array, outside: Array, out: Array, into: Array) -> Array:
    new = support.copy()
    new[out] = outside[into]
    return new
