"""Local search: replace a solution by a better neighbour until there is none.

`search_locally` is the only loop. A function, passed as an argument, finds a better neighbour:

============================ ==================== ======================================================================
function                     solution             neighbours
============================ ==================== ======================================================================
`find_better_swap`           support              one variable out, another in; many at once for large supports
`RefittedSwaps.find_better`  refitted component   such swaps among the most correlated variables, then an ascent
`find_better_penalized`      end of an ascent     one variable added, dropped or swapped under a penalty, then an ascent
============================ ==================== ======================================================================

Swaps of groups are in `gpower.solvers.group_swaps`, those of components under a constraint in
`gpower.solvers.joint.multistart`.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. A problem
has one unit: z, (n,), or Z, (n, 1), are its loadings, and C, (n, 1), the weighted correlations μAᵀx of the columns with
a unit vector x, the scores A z normalised; ``feasible_set.make_point`` makes a `Point` of x and C from A z. These are
where the matrix is, on the host or a device. S, (n, n), is the covariance of some candidate variables, float64 on the
host, and λmax(S[P, P]), the largest eigenvalue, is the variance of the best unit loadings on a support P. A support is
an array of indices on the host. "Better" means a larger objective by a relative gain that is named where it is used.

- `Problem`: ``operator``; ``penalty``; ``mu``, (1,), the weight; ``compute_loadings(point)``, Z at a point;
  ``as_batch(s)``, the problem of s independent starts, one in each column of a point. ``operator.gram(idx)`` is the
  covariance of some columns, on the host; ``restrict(W).operator`` is the matrix of some columns, perhaps a Gram matrix
  on the host; ``to_backend`` moves an array to the memory of a matrix; ``correlate(combine(Z))`` is AᵀA Z.
- `Penalty`: ``evaluate(C)`` gives the value of each unit and the gradient, zero where a variable is not active;
  ``loadings(C)`` are the unit loadings; ``restrict(W)`` is the penalty of some columns. A `GroupCardinality` has
  ``rules`` and ``max_cost``, (1,), which includes required groups.
- `SupportRules` of one component: ``group_sizes``, (g, 1), numbers of variables that are not excluded; ``required``,
  (g, 1), and ``excluded``, (n, 1), masks; ``groups_hit(pattern)``, (g, 1), mask of the groups with a variable in a
  pattern, (n, 1); ``mask_excluded(C)``, C with zeros for excluded variables; ``group_norms_sq(C)``, (g, 1), sums of
  squares over groups; ``broadcast_to_variables(v)``, values of groups, (g, 1), at their variables, (n, 1);
  ``restrict(idx)``, the rules of some variables, without the groups that have none of them.
- `AscentResult`: ``point``, where the ascent ended, and ``value``, the objective there. ``refit_unit(operator,
  support)`` gives the loadings of largest variance on a support, (n,) where the matrix is, and that variance, without
  μ².
- ``maximize`` and ``ascend`` run ascents, the second with a working set of columns; ``find_better_groups`` is a better
  selection of groups, (g,) of bool, or None. ``to_host(x)`` is x as a NumPy array, ``take_rows(x, idx)`` a copy of
  x[idx], ``normalize_columns(Z)`` has unit or zero columns, ``embed_rows(Z, idx, n, like)`` has Z at rows `idx` of n
  rows of zeros, where `like` is; ``find_largest_rows(v, k)`` are the rows of the k largest values of each column, in
  any order.
- ``stable_argmax`` is the index of the largest value, the first of those equal up to rounding; ``select_working_set``
  gives increasing column indices: the active ones and the next ones by correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from gpower._utils.arrays import Array, embed_rows, normalize_columns, stable_argmax, take_rows, to_host
from gpower.feasible_sets import Point
from gpower.penalties.elementary import find_largest_rows
from gpower.penalties.grouped import GroupCardinality
from gpower.penalties.support_rules import SupportRules
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult, maximize
from gpower.solvers.group_swaps import find_better_groups
from gpower.solvers.refit import refit_unit
from gpower.solvers.working_set import AscentSettings, ascend, select_working_set

#: Least relative rise of the variance by a swap, for small and for large supports. With the smaller value the search on
#: 310 variables of a factor model takes half as much time again for a rise that later components lose.
MIN_SWAP_GAIN, MIN_LARGE_SUPPORT_GAIN = 1e-10, 1e-5
#: Swaps with the best test values whose variance is computed before one is made.
MAX_TRIED_SWAPS = 4
#: Swaps that pass the test, for each variable of the support, from which many swaps at once are put together.
MAX_HELPFUL_PER_VARIABLE = 8
#: Power steps after which a neighbour shows whether it is better.
N_POWER_STEPS = 6
#: Multiplications of one local search by single swaps, at least two swaps.
MAX_SWAP_MULTIPLICATIONS = 5e8
#: Multiplications of one local search by group swaps, at least two swaps.
MAX_GROUP_MULTIPLICATIONS = 2e9
#: A support of more variables than the first may make many swaps at once; one of more than the second is large. With
#: single swaps alone, two components of 300 variables in noise of 200 × 1500 take 1.5 instead of 1.0 s.
MAX_SINGLE_SWAP_SUPPORT, MAX_SMALL_SUPPORT = 16, 64
#: Variables outside a support that may come in; for a support of k variables MAX_SWAP_PAIRS/k within these limits,
#: since one test costs k² times their number.
MAX_SWAP_CANDIDATES, MIN_SWAP_CANDIDATES, MAX_SWAP_PAIRS = 384, 96, 8192
#: Variables that are dropped or added on trial under a penalty, and how many of either kind are paired in swaps.
MAX_TRIAL_MOVES, MAX_TRIAL_SWAPS_PER_SIDE = 32, 8
#: Rounds of swaps and ascent.
MAX_SEARCH_ROUNDS = 5
#: Above this cardinality there is no local search: its cost is cubic, and with 800 variables the gain is at most 10⁻⁴
#: on a cohort and a factor model, for five times the time; 0.2 % in noise.
MAX_SEARCHED_SUPPORT = 512

T = TypeVar("T")


def search_locally(start: T, find_better: Callable[[T], T | None], max_moves: int) -> T:
    """Move to better neighbours until there are none, at most `max_moves` times, and return the last solution.

    ``find_better(current)`` returns a better neighbour of a solution, or None if there is none. It must not change the
    solution. With `max_moves` 0 the start is returned.
    """
    current = start
    for _ in range(max_moves):
        better = find_better(current)
        if better is None:
            break
        current = better
    return current


class RefittedComponent(NamedTuple):
    """One component refitted on its support: loadings, (n, 1), their objective, and the last ascent.

    The loadings, of unit length and any sign, or zero, are in the memory and dtype of the matrix, non-zero on the
    support at the end of the ascent (up to rounding). The objective is μ²‖A z‖², not the value of the ascent.
    """

    Z: Array
    value: float
    ascent: AscentResult


def refit_and_swap(
    problem: Problem, results: Sequence[AscentResult], settings: AscentSettings, local_search: bool
) -> RefittedComponent:
    """Refit one component on the support of each ascent, swap variables and ascend in turn, and return the best end.

    Ascents, and searches, that meet at a support are continued once.

    Parameters
    ----------
    problem : Problem
        The problem of one component with a cardinality constraint, of ℓ2 variance and either sign: the refit is an
        eigenvector.
    results : sequence of AscentResult
        The ends of ascents on this problem, at least one.
    settings : AscentSettings
    local_search : bool
        Whether to swap; otherwise the component is only refitted.

    Returns
    -------
    RefittedComponent
        The one of the largest objective, of equal ones the first, by the order of `results`.
    """
    swaps = RefittedSwaps(problem, settings)
    by_support: dict[bytes, AscentResult] = {}
    for result in results:
        by_support.setdefault(_encode_support(problem.compute_loadings(result.point)), result)
    ends = []
    for result in by_support.values():
        start = _refit_ascent(problem, result)
        is_searched = local_search and np.count_nonzero(start.Z) <= MAX_SEARCHED_SUPPORT
        ends.append(search_locally(start, swaps.find_better, MAX_SEARCH_ROUNDS if is_searched else 0))
    return ends[stable_argmax(np.array([end.value for end in ends]))]


def _encode_support(Z: Array) -> bytes:
    """Return the increasing indices of the non-zero loadings Z of one component, (n, 1), as a key of a dictionary.

    It equals ``support.tobytes()`` of a sorted support whose indices have the default integer type.
    """
    return bytes(to_host(np.flatnonzero(Z[:, 0])).tobytes())


def _refit_ascent(problem: Problem, result: AscentResult) -> RefittedComponent:
    """Refit one component on the support at the end of an ascent; an empty support gives zero loadings.

    The problem has one unit of ℓ2 variance and either sign. The refit starts from the loadings of the ascent.
    """
    z = problem.compute_loadings(result.point)[:, 0]
    loadings, variance = refit_unit(problem.operator, to_host(np.flatnonzero(z)))
    return RefittedComponent(loadings[:, None], variance * float(problem.mu[0]) ** 2, result)


@dataclass(frozen=True, eq=False)
class RefittedSwaps:
    """Neighbourhood of a refitted component: swaps among the most correlated variables, then an ascent.

    A component on one of the `searched_supports` has no better neighbour: it was searched from there before. The set
    grows with every search, so that one object serves all searches of one problem, which has a cardinality constraint,
    one unit of ℓ2 variance and either sign.
    """

    problem: Problem
    settings: AscentSettings
    searched_supports: set[bytes] = field(default_factory=set)

    def find_better(self, current: RefittedComponent) -> RefittedComponent | None:
        """Return the component after swaps and an ascent; None if no swap raises the variance enough.

        The swaps, not the ascent, are tested for a gain; the ascent that follows may leave their support.
        """
        problem, searched = self.problem, self.searched_supports
        key = _encode_support(current.Z)
        if key in searched:
            return None
        searched.add(key)
        support = _swap_support_variables(problem, current.ascent.point, current.Z[:, 0])
        if support.tobytes() in searched:
            return None
        swapped, variance = refit_unit(problem.operator, support)
        if variance * float(problem.mu[0]) ** 2 <= current.value * (1 + get_min_swap_gain(support)):
            return None
        if _choose_n_candidates(support, swapped.size) == swapped.size and support.size <= MAX_SINGLE_SWAP_SUPPORT:
            searched.add(support.tobytes())  # no swap of any variable improves it
        # `make_point` normalises the scores A z and computes their correlations with all columns.
        start = problem.feasible_set.make_point(problem.operator.combine(swapped[:, None]))
        return _refit_ascent(problem, ascend(problem, start, self.settings))


def _choose_n_candidates(support: Array, n: int) -> int:
    """Return how many of n variables take part in the swaps of a support, those of the support included; at most n."""
    n_outside = min(MAX_SWAP_CANDIDATES, max(MIN_SWAP_CANDIDATES, MAX_SWAP_PAIRS // max(support.size, 1)))
    return min(n_outside + support.size, n)


def _swap_support_variables(problem: Problem, point: Point, z: Array) -> Array:
    """Return the support after swaps among the variables that are most correlated with the component.

    `point` has one unit and gives the correlations; z, (n,), are the loadings. Both are in the memory of the matrix.
    Which of several equal correlations take part is not specified. The support is sorted and on the host: empty for z =
    0, else as large as that of z unless groups are swapped.
    """
    support = to_host(np.flatnonzero(z))
    if support.size == 0:
        return support
    n_candidates = _choose_n_candidates(support, z.size)
    if isinstance(problem.penalty, GroupCardinality):
        return _swap_support_groups(problem, problem.penalty, point, z, n_candidates)
    candidates = np.union1d(support, to_host(find_largest_rows(np.abs(point.C), n_candidates)[:, 0]))
    S = problem.operator.gram(candidates).astype(np.float64)
    return np.asarray(candidates[swap_search(S, np.searchsorted(candidates, support))])


def _swap_support_groups(
    problem: Problem, penalty: GroupCardinality, point: Point, z: Array, n_candidates: int
) -> Array:
    """Return the support after swaps of whole groups, whose candidates have about `n_candidates` variables.

    `point` has one unit and gives the correlations, (n, 1); z, (n,), are the loadings, not all zero. Both are on the
    host: rules for supports do not work on a device. `penalty` is that of the problem. The support is sorted, on the
    host; its size may change with the groups. Groups of z and required ones are candidates first, then those of the
    largest correlations, the first of equal ones.
    """
    rules = penalty.rules
    used = rules.groups_hit((z != 0)[:, None])[:, 0]
    norms_sq = rules.group_norms_sq(rules.mask_excluded(point.C))[:, 0]
    order = np.argsort(-np.where(used | rules.required[:, 0], np.inf, norms_sq), kind="stable")
    max_variables = max(n_candidates, int(np.sum(rules.group_sizes[used, 0])))
    is_candidate = used.copy()
    is_candidate[order[np.cumsum(rules.group_sizes[order, 0]) <= max_variables]] = True
    candidates = np.flatnonzero(rules.broadcast_to_variables(is_candidate[:, None])[:, 0])
    candidate_rules = rules.restrict(candidates)
    S = problem.operator.gram(candidates).astype(np.float64)
    chosen = group_swap_search(S, used[is_candidate], candidate_rules, float(penalty.max_cost[0]))
    is_chosen = candidate_rules.broadcast_to_variables(chosen[:, None])[:, 0] & ~candidate_rules.excluded[:, 0]
    return np.asarray(candidates[is_chosen])


def improve_penalized(problem: Problem, result: AscentResult, settings: AscentSettings) -> AscentResult:
    """Add, drop or swap variables of one component under a penalty, and ascend from there, while f grows enough.

    Parameters
    ----------
    problem : Problem
        The problem of one component with the ℓ2 variance, a penalty at its level and no regularization.
    result : AscentResult
        The end of an ascent.
    settings : AscentSettings

    Returns
    -------
    AscentResult
        An ascent whose value is no smaller; `result` itself if nothing better was found.
    """
    return search_locally(result, partial(find_better_penalized, problem, settings), MAX_SEARCH_ROUNDS)


def find_better_penalized(problem: Problem, settings: AscentSettings, current: AscentResult) -> AscentResult | None:
    """Return the ascent from the best change of one variable near the end of an ascent; None if f does not rise enough.

    The problem has one unit of ℓ2 variance with a penalty and no regularization. A variable is added, dropped or
    swapped. A move is evaluated by f after a few steps of the ascent, from the direction that explains most with its
    variables. All moves are evaluated as one batch, on the variables that matter.
    """
    moved = _find_best_move(problem, current)
    if moved is None:
        return None
    start = problem.feasible_set.make_point(problem.operator.combine(moved))
    better = ascend(problem, start, settings)
    return better if better.value > current.value * (1 + MIN_LARGE_SUPPORT_GAIN) else None


def _find_best_move(problem: Problem, current: AscentResult) -> Array | None:
    """Return loadings, (n, 1), at which f is larger than at the end of an ascent; None if no move gives any.

    There is no move from a component without variables, or with more than MAX_SEARCHED_SUPPORT of them. The moves are
    listed on the host; the loadings returned are in the memory of C, of unit length. "Larger" is by a relative
    `MIN_LARGE_SUPPORT_GAIN`, the gain that is asked of the ascent from there too.
    """
    C = current.point.C
    _, gradient = problem.penalty.evaluate(C)
    support = to_host(np.flatnonzero(gradient[:, 0]))
    if not 0 < support.size <= MAX_SEARCHED_SUPPORT:
        return None
    W = select_working_set(problem.penalty, C, gradient, support.size + MAX_TRIAL_MOVES)
    operator = problem.operator.restrict(W).operator  # a Gram matrix on the host, or columns on the device
    c = to_host(take_rows(C, W))[:, 0]
    patterns = _list_moved_patterns(np.abs(c), np.isin(W, support))
    n_moves = patterns.shape[1]
    if n_moves == 0:
        return None
    Z = normalize_columns(patterns * c[:, None]).astype(operator.dtype)
    for _ in range(N_POWER_STEPS):
        Z = normalize_columns(patterns * to_host(operator.correlate(operator.combine(operator.to_backend(Z)))))
    batch = replace(problem, operator=operator, penalty=problem.penalty.restrict(W)).as_batch(n_moves)
    start = batch.feasible_set.make_point(operator.combine(operator.to_backend(Z)))
    points = maximize(batch.objective, batch.feasible_set, start, max_iter=N_POWER_STEPS).point
    values = to_host(batch.penalty.evaluate(points.C)[0])
    best = stable_argmax(values)
    if values[best] <= current.value * (1 + MIN_LARGE_SUPPORT_GAIN):
        return None
    return embed_rows(to_host(batch.penalty.loadings(points.C))[:, [best]], W, C.shape[0], C)


def _list_moved_patterns(abs_correlations: Array, active: Array) -> Array:
    """Return the patterns, (|W|, moves), bool, of one variable dropped, added, or swapped for another.

    Active variables with the smallest correlations are dropped, inactive ones with the largest are added. A single
    active variable is swapped but not dropped. `abs_correlations` and `active`, bool, are (|W|,), on the host, with at
    least one active. There may be no move. The order of the columns decides between moves of equal value.
    """
    order = np.argsort(abs_correlations, kind="stable")
    out = order[active[order]][:MAX_TRIAL_MOVES]
    into = order[~active[order]][::-1][:MAX_TRIAL_MOVES]
    pairs = [(i, j) for i in out[:MAX_TRIAL_SWAPS_PER_SIDE] for j in into[:MAX_TRIAL_SWAPS_PER_SIDE]]
    moves = [*((i, None) for i in (out if np.count_nonzero(active) > 1 else [])), *((None, j) for j in into), *pairs]
    patterns = np.repeat(active[:, None], len(moves), axis=1)
    for column, (i, j) in enumerate(moves):
        patterns[[] if i is None else i, column] = False
        patterns[[] if j is None else j, column] = True
    return patterns


def get_min_swap_gain(support: Array) -> float:
    """Return the relative rise of the variance that a swap must bring, given the indices of the support."""
    return MIN_SWAP_GAIN if support.size <= MAX_SMALL_SUPPORT else MIN_LARGE_SUPPORT_GAIN


def swap_test(S: Array, support: Array, outside: Array) -> tuple[float, Array, Array]:
    """Compute λ = λmax(S[support, support]), and for every swap of i for j whether it would raise λ.

    With i out and j in, λ is passed exactly where the bordered secular function λ − S_jj − bᵀ(λI − S_RR)⁻¹b is
    negative, R the support without i and b = S[R, j]. The slack is that function for all i and j at once: with
    N = (λI − S_PP)⁻¹ over the whole support, Schur's formula gives bᵀ(λI − S_RR)⁻¹b = Q_j − V_ij²/N_ii, where
    V = N S[P, J] and Q_j = S[P, j]ᵀV_j. N is singular along the leading eigenvector u; its share, s = 1/N along u
    tending to zero, is divided out by hand.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Symmetric, on the host.
    support, outside : ndarray of int
        The k ≥ 1 variables P of the support, in any order, and the variables J that may come in, none of them in P; J
        may be empty.

    Returns
    -------
    value : float
        λ.
    u : ndarray of shape (k,)
        The loadings on the support, in its order, of unit length and any sign.
    slack : ndarray of shape (k, |J|)
        Negative where the swap raises λ.

    Examples
    --------
    >>> import numpy as np
    >>> value, _, slack = swap_test(np.diag([1.0, 2.0, 3.0]), np.array([0, 1]), np.array([2]))
    >>> value, bool(slack[0, 0] < 0)
    (2.0, True)
    """
    B = S[np.ix_(support, outside)]  # (k, |J|)
    d = S[outside, outside]  # (|J|,)
    value, u, slack = batched_swap_test(S[np.ix_(support, support)], B, d)
    return float(value), u, slack


def batched_swap_test(S_inside: Array, S_cross: Array, outside_variances: Array) -> tuple[Array, Array, Array]:
    """Compute `swap_test` for many supports: from S[support, support], S[support, outside] and the diagonal outside.

    Leading axes, of `S_inside`, (..., k, k), `S_cross`, (..., k, J), and `outside_variances`, (..., J), hold the
    supports, k ≥ 1. All are float64 on the host and are not changed. S need not be semidefinite. The results, the
    largest eigenvalue, its unit eigenvector and the slack, negative where a swap raises that eigenvalue, have the
    shapes (...), (..., k) and (..., k, J). The variables outside may include those of the support: their slack means
    nothing, and the caller overwrites it.
    """
    w, U = np.linalg.eigh(S_inside)
    value, u = w[..., -1], U[..., -1:]  # (...), (..., k, 1)
    precision = np.finfo(w.dtype)
    floor = float(precision.eps) ** 2 * float(np.max(np.abs(S_cross), initial=0)) + float(precision.tiny)
    s = (MIN_SWAP_GAIN * np.max(np.abs(w), axis=-1) + floor)[..., None, None]  # not so small that 1/s overflows
    U, w = U[..., :-1], (value[..., None] - w[..., :-1])[..., None, :] + s  # (..., k, k - 1), (..., 1, k - 1)
    N = np.sum(U * U / w, axis=-1, keepdims=True)  # diagonal of N without u's share, (..., k, 1)
    c, rest = np.swapaxes(u, -1, -2) @ S_cross, np.swapaxes(U, -1, -2) @ S_cross  # (..., 1, J), (..., k - 1, J)
    V = (U / w) @ rest
    Q = np.sum(rest * rest / np.swapaxes(w, -1, -2), axis=-2, keepdims=True)  # (..., 1, J)
    quadratic = (c**2 * N + u**2 * Q - 2 * u * c * V + s * (Q * N - V**2)) / (u**2 + s * N)
    return value, u[..., 0], value[..., None, None] + s - outside_variances[..., None, :] - quadratic


def swap_search(S: Array, support: Array) -> Array:
    """Swap variables while that raises λmax(S[support, support]), as long as MAX_SWAP_MULTIPLICATIONS allow.

    Parameters
    ----------
    S : ndarray of float64 of shape (n, n)
        Covariance of the candidate variables.
    support : ndarray of int
        The support to start from, positions in S; not empty.

    Returns
    -------
    ndarray of int, sorted
        Positions in S of a support that no single swap improves; for a large one, of which each swap costs k³, the best
        so far.
    """
    max_moves = max(2, int(MAX_SWAP_MULTIPLICATIONS / support.size**3))
    return search_locally(np.sort(support), partial(find_better_swap, S), max_moves)


def find_better_swap(S: Array, support: Array) -> Array | None:
    """Return the support, (k,), after the best of the swaps that pass the test, sorted; None if none raises λmax.

    S, (n, n), is float64 and symmetric; `support` are k ≥ 1 distinct positions in any order and is not changed. For a
    large support the best of the candidates may be many swaps at once. λmax must rise by a relative
    `get_min_swap_gain`.
    """
    is_outside = np.ones(len(S), bool)
    is_outside[support] = False
    outside = np.flatnonzero(is_outside)
    if outside.size == 0:
        return None
    value, u, slack = swap_test(S, support, outside)
    candidates = _propose_swaps(slack, support, outside)
    target = max(value, 0.0) * (1 + get_min_swap_gain(support))  # a negative value is rounding error
    values = [lower_bound_variance(S, candidate, u) for candidate in candidates]
    if not max(values, default=0.0) > target:
        values = [float(np.linalg.eigvalsh(S[np.ix_(candidate, candidate)])[-1]) for candidate in candidates]
    if not max(values, default=0.0) > target:
        return None
    return np.sort(candidates[int(np.argmax(values))])


def lower_bound_variance(S: Array, support: Array, start_loadings: Array) -> float:
    """Return a lower bound on λmax(S[support, support]): the Rayleigh quotient after some power steps.

    It is cheaper than the eigenvalue (two components of 500 variables in noise of 200 × 1500 take 2.5 instead of
    5.0 s), and enough to show that a swap helps. `start_loadings`, (k,), belong to the positions of `support`, (k,):
    before a swap, to the variables that are replaced at the same positions. So the order of `support` matters.
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
    """Return supports to try: each of the best swaps alone, and for a large support many of them at once.

    `slack`, (k, |J|), is that of `swap_test` for `support`, (k,), and `outside`, (|J|,). The supports are not sorted: a
    variable that comes in takes the place of the one that goes out, so that loadings of the old support fit the new
    one. The list is empty if no slack is negative.
    """
    helpful = np.flatnonzero(slack < 0)
    helpful = helpful[np.argsort(slack.ravel()[helpful], kind="stable")[: MAX_HELPFUL_PER_VARIABLE * support.size]]
    out, into = np.unravel_index(helpful, slack.shape)
    tried = [np.array([t]) for t in range(min(out.size, MAX_TRIED_SWAPS))]
    if support.size > MAX_SINGLE_SWAP_SUPPORT:
        distinct = _select_disjoint_swaps(out, into)
        sizes = {distinct.size, distinct.size // 2, distinct.size // 4, distinct.size // 8} - {0, 1}
        tried += [distinct[:size] for size in sorted(sizes)]
    supports = [support.copy() for _ in tried]
    for changed, swaps in zip(supports, tried, strict=True):
        changed[out[swaps]] = outside[into[swaps]]
    return supports


def _select_disjoint_swaps(out: Array, into: Array) -> Array:
    """Return positions of swaps in which no variable goes or comes twice, the best first.

    `out` and `into`, (n_swaps,), are the variables of each swap, the best swap first. The positions, of int, increase;
    a swap is left out if a better one has used one of its variables.
    """
    seen: set[tuple[str, int]] = set()
    selected = []
    for t, (i, j) in enumerate(zip(out.tolist(), into.tolist(), strict=True)):
        if seen.isdisjoint({("out", i), ("into", j)}):
            seen |= {("out", i), ("into", j)}
            selected.append(t)
    return np.array(selected, np.intp)


def group_swap_search(S: Array, chosen_groups: Array, rules: SupportRules, cost_limit: float) -> Array:
    """Swap groups while that raises λmax(S) on their variables, as long as MAX_GROUP_MULTIPLICATIONS allow.

    Parameters
    ----------
    S : ndarray of float64 of shape (n, n)
        Covariance of the candidate variables.
    chosen_groups : ndarray of bool of shape (g,)
        Groups to start from: all required ones among the candidates, and within the limit.
    rules : SupportRules
        Rules of a single component for the candidates.
    cost_limit : float
        Largest sum of the costs of the groups, including required ones that are not among the candidates.

    Returns
    -------
    ndarray of bool of shape (g,)
        The groups after the swaps, within the limit; `chosen_groups` itself if no swap helps.
    """
    multiplications_per_move = 4 * S.size * (1 + int(np.count_nonzero(chosen_groups)))
    max_moves = max(2, int(MAX_GROUP_MULTIPLICATIONS / multiplications_per_move))
    return search_locally(chosen_groups, lambda chosen: find_better_groups(S, chosen, rules, cost_limit), max_moves)
