"""Find all components jointly by a multistart search: under a constraint, or for the largest total adjusted variance.

The search works in rounds, as for one component. A product with the whole matrix finds the candidate variables of all
components, and the rest of the round needs only their covariance S. Many starts are improved as one batch. Each begins
with a low penalty on violations of the constraint, which grows until it nearly enforces the constraint. At every
penalty level each component in turn swaps variables if this improves the penalised objective. The best starts are then
projected on the feasible set, where all components are maximised together on their supports, and are among the starts
of the next generation. At the end a local search swaps variables within and between components. The objective never
falls: the components passed in are one of the starts, and a result is used only if it is better.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. W are
sorted candidate variables; inside the search n is their number. S, (n, n), is their covariance, scaled so that
variances are about one; Z, (n, m), are loadings of m components, unit or zero columns; supports are m arrays of
positions in S, in any order; `cardinalities` are m numbers of variables. All arrays of the search are on the host, in
float64.

- `Constraint`: ``penalty_matrix(S, others)`` gives V, (R, n, q), and d, (R, n), of the penalty zᵀ(VVᵀ + diag(d))z of
  one component given the others; ``compute_violation(S, Z)``, (R,), is zero for feasible components;
  ``project_feasible(S, Z, supports)`` are feasible loadings near Z, or None; ``trivial_feasible(S, like)`` gives
  components that need no search; ``min_relative_variance`` is the share of the largest variance that is rounding;
  ``entering_loading`` is the loading with which a swapped variable comes in.
- ``search_locally(start, find_better, n)`` moves to better solutions up to n times; ``find_largest_rows(v, k)`` are the
  rows of the k largest values of each column, in any order; ``embed_rows(Z, idx, n)`` has Z at rows `idx` of n rows of
  zeros; ``normalize_columns(Z)`` has unit or zero columns; ``to_host(x)`` is x as a NumPy array. An
  `AdjustedVariancePenalty` gives the penalty matrix of the variance that other components explain.
- ``batched_swap_test(P, B, d)`` takes the covariances on the supports, (R, k, k), with all variables, (R, k, n), and
  the variances, (R, n); it gives the largest eigenvalues, their vectors, (R, k), and a slack, (R, k, n), which is
  negative where swapping the variable of the row for that of the column raises the eigenvalue.
- `Operator`: ``gram(idx)``, the covariance of some columns, on the host; ``correlate(combine(Z))``, AᵀA Z where the
  matrix is; ``to_backend`` moves an array there; ``column_norms``, (n,), and ``norm_tolerance``, the norm that rounding
  gives to a zero column; ``precision``, the relative rounding error of a product. ``Scores.from_gram(G)`` computes
  adjusted variances, (m,), from inner products of scores, by its method ``compute_adjusted_variances()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from gpower._utils.arrays import Array, embed_rows, normalize_columns, to_host
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.penalties.elementary import find_largest_rows
from gpower.solvers.joint.constraints import AdjustedVariancePenalty, Constraint, Supports
from gpower.solvers.local_search import batched_swap_test, search_locally

#: Number of variables up to which all of them are candidates.
MAX_UNSCREENED_VARIABLES = 300
#: Number of candidates for a component of k variables among more: the first number plus k times the second.
N_BASE_CANDIDATES, CANDIDATES_PER_VARIABLE = 48, 3
#: Largest number of rounds, and the relative rise of the objective that ends them.
MAX_JOINT_ROUNDS, MIN_JOINT_RISE = 4, 1e-9
#: Largest product of the number of starts, Σ k and the number of variables, and the largest number of starts.
MAX_BATCH_WORK, MAX_STARTS = 60_000, 96
#: Penalties, relative to the largest variance: range of the lowest, which differs between starts; the highest; and the
#: number of levels from the lowest to the highest.
LOWEST_PENALTY_RANGE, HIGHEST_PENALTY, N_PENALTY_LEVELS = (0.05, 10.0), 30.0, 8
#: Largest number of swaps of a component at each penalty level. With two, the pit props (6 components of 4 variables,
#: orthogonal) take a tenth longer for the same result.
SWAPS_PER_PENALTY_LEVEL = 1
#: Number of generations of starts, number of best solutions from which the next generation starts, and share of their
#: components that start at random variables instead. With one generation 10 of 55 problems end lower, by up to 9 %.
N_GENERATIONS, N_ELITE, RENEWED_COMPONENT_SHARE = 4, 4, 0.4
#: Number of starts of a generation that are projected on the feasible set, number of solutions that get a local search,
#: and its largest number of swaps.
N_PROJECTED_STARTS, N_SEARCHED_SOLUTIONS, MAX_SWAPS = 4, 2, 200
#: Largest number of swaps that are tried from one solution, and of loadings of all components together for which swaps
#: are tried. Without swaps 7 of 120 problems of 7 variables end lower, by up to 0.5 %.
MAX_TRIED_SWAPS, MAX_SWAPPED_LOADINGS = 16, 64
#: Decimals to which values of about one are compared: solutions and starts that agree so far count as the same.
VALUE_DECIMALS = 9
#: Cost of a unit of violation when the starts to project are chosen.
VIOLATION_COST = 0.5
#: Largest number of rounds over all components without a constraint.
MAX_COORDINATE_ROUNDS = 20
#: Loading of a unit vector up to which it counts as zero. Rounding makes such loadings of variables that the other
#: components explain, and the final ascent would use those that are not zero.
MIN_LOADING = 1e-9
#: Weight of a variance beside a correlation when a support is filled up: it decides for components that are zero.
VARIANCE_TIE_WEIGHT = 1e-6
#: Share of the largest variance that is added to all variances, so that a Gram matrix of full rank can be factorised.
RIDGE_SHARE = 1e-15
#: Limits and tolerances of the final ascent on fixed supports.
LBFGS_OPTIONS = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-15, "gtol": 1e-9}


@dataclass(eq=False)
class MultiStartBatch:
    """A batch of R starts, each a set of m components over a covariance S, all on the host in float64.

    `improve_component` changes Z and the supports in place. Loadings are zero outside of the supports.
    """

    S: Array  # (n, n)
    Z: Array  # (R, n, m)
    supports: list[Array]  # m arrays of shape (R, k), one for each component

    def improve_component(
        self, j: int, penalty_matrix: tuple[Array, Array], penalty_weights: Array, max_swaps: int
    ) -> None:
        """Swap variables of component j in every start, then set its loadings to the best ones on the new support.

        The covariance of start r is S − penalty_weights[r]·(VVᵀ + diag(d)) of its `penalty_matrix`: V is (R, n, q), d
        is (R, n) and `penalty_weights` is (R,). Each start makes at most `max_swaps` swaps, the best one each time. The
        best loadings are the leading eigenvector of that covariance, of unit length and any sign. The sizes of supports
        stay; of the other components only the penalty knows.
        """
        V, d = penalty_matrix
        n = self.S.shape[0]
        support = self.supports[j].copy()
        row = np.arange(len(self.Z))[:, None]
        weights = penalty_weights[:, None, None]
        diagonal = np.diagonal(self.S) - weights[:, 0] * (np.sum(V * V, axis=-1) + d)  # (R, n)
        positions = np.arange(support.shape[1])
        for n_swaps in range(max_swaps + 1):
            B = self.S[support] - weights * (V[row, support] @ np.swapaxes(V, -1, -2))  # (R, k, n)
            B[row, positions, support] -= weights[:, 0] * d[row, support]
            P = np.take_along_axis(B, np.repeat(support[:, None], positions.size, axis=1), axis=2)
            if n_swaps == max_swaps:
                u = np.linalg.eigh(P)[1][..., -1]
                break
            _, u, slack = batched_swap_test(P, B, diagonal)
            slack[row[..., None], positions[None, :, None], support[:, None]] = np.inf
            best = np.argmin(slack.reshape(len(support), -1), axis=1)
            helps = slack.reshape(len(support), -1)[row[:, 0], best] < 0
            if not helps.any():
                break
            support[helps, best[helps] // n] = best[helps] % n
        self.supports[j] = support
        self.Z[..., j] = 0.0
        self.Z[row, support, j] = np.where(np.abs(u) > MIN_LOADING, u, 0.0)


def make_start_batch(
    S: Array, starts: Sequence[Array], cardinalities: Sequence[int], count: int, rng: np.random.RandomState
) -> MultiStartBatch:
    """Return a batch of `count` starts: the given ones, each (n, m), then copies with some components at random.

    Supports have exactly the given cardinalities, from 1 to n, which no given start exceeds: the largest loadings of a
    start, filled up with random variables. A component without loadings gets equal ones on its support. If `count` is
    smaller than the number of starts, only the first `count` are used. `rng` is advanced by numbers for all starts.
    """
    m = len(cardinalities)
    which = np.arange(count)
    copies = np.stack(starts)[which % len(starts)]  # (R, n, m)
    renewed = (rng.random_sample((count, m)) < RENEWED_COMPONENT_SHARE) & (which >= len(starts))[:, None]
    Z = np.where(renewed[:, None], 0.0, copies)
    keys = np.where(Z != 0, 1 + np.abs(Z), rng.random_sample(Z.shape))
    order = np.argsort(-keys, axis=1, kind="stable")  # non-zero loadings first, then random variables
    supports = [order[:, :k, j] for j, k in enumerate(cardinalities)]
    for j, support in enumerate(supports):
        empty = np.flatnonzero(~Z[..., j].any(axis=1))
        Z[empty[:, None], support[empty], j] = support.shape[1] ** -0.5
    return MultiStartBatch(S, Z, supports)


def multistart(
    S: Array, constraint: Constraint, starts: Sequence[Array], cardinalities: Sequence[int], rng: np.random.RandomState
) -> Array | None:
    """Return the best feasible components over a covariance S, (n, n), of scale one; None if none were found.

    The search runs in generations of starts. The first consists of the given starts and random ones, each later one of
    the best solutions so far and copies with some components at random.

    Each start is (n, m), float64, with unit or zero columns, and there is at least one; `cardinalities` are m numbers
    from 1 to n. The result is (n, m).
    """

    def project(candidates: Sequence[Array]) -> list[Array]:
        """Return the feasible components near each of the loadings, (n, m), the best few, best first; perhaps none."""
        projected = [constraint.project_feasible(S, Z, _fill_joint_supports(S, Z, cardinalities)) for Z in candidates]
        return _select_distinct_solutions(S, projected)

    count = int(np.clip(MAX_BATCH_WORK // (sum(cardinalities) * S.shape[0]), len(starts), MAX_STARTS))
    best = project(starts) or project(constraint.trivial_feasible(S, starts[0]))
    for generation in range(N_GENERATIONS if count > len(starts) else 1):
        elite = best if generation and best else [*starts, np.zeros_like(starts[0])]
        batch = make_start_batch(S, elite, cardinalities, count, rng)
        lowest = np.exp(rng.uniform(np.log(LOWEST_PENALTY_RANGE[0]), np.log(LOWEST_PENALTY_RANGE[1]), count))
        for penalty_weights in np.geomspace(lowest, HIGHEST_PENALTY, N_PENALTY_LEVELS):
            for j in range(len(cardinalities)):
                penalty_matrix = constraint.penalty_matrix(S, np.delete(batch.Z, j, axis=-1))
                batch.improve_component(j, penalty_matrix, penalty_weights, SWAPS_PER_PENALTY_LEVEL)
        scores = compute_total_variance(S, batch.Z) - VIOLATION_COST * constraint.compute_violation(S, batch.Z)
        chosen = np.unique(scores.round(VALUE_DECIMALS), return_index=True)[1][::-1][:N_PROJECTED_STARTS]
        projected = [
            constraint.project_feasible(S, batch.Z[r], [support[r] for support in batch.supports]) for r in chosen
        ]
        best = _select_distinct_solutions(S, [*best, *projected])
    if sum(cardinalities) > MAX_SWAPPED_LOADINGS:
        return best[0] if best else None
    find_better = partial(find_better_constrained, S, constraint, cardinalities)
    searched = [search_locally(Z, find_better, MAX_SWAPS) for Z in best[:N_SEARCHED_SOLUTIONS]]
    return max(searched, key=partial(compute_total_variance, S), default=None)


def compute_total_variance(S: Array, Z: Array) -> Array:
    """Compute the sum of variances Σ zⱼᵀΣzⱼ of components, (..., n, m), over a covariance S, (n, n), as (...)."""
    return np.asarray(np.sum(Z * (S @ Z), axis=(-2, -1)))


def _select_distinct_solutions(S: Array, solutions: Sequence[Array | None]) -> list[Array]:
    """Return the best `N_ELITE` solutions, (n, m), with distinct total variances, best first, without None.

    Variances are about one and compared to `VALUE_DECIMALS`; of equal ones the last is kept.
    """
    by_value = {round(float(compute_total_variance(S, Z)), VALUE_DECIMALS): Z for Z in solutions if Z is not None}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:N_ELITE]]


def _fill_joint_supports(S: Array, Z: Array, cardinalities: Sequence[int]) -> Supports:
    """Return the supports of Z, (n, m), filled up with the most correlated variables, or those of largest variance.

    A component with more non-zero loadings than its cardinality keeps the first of them, by position. There is an array
    for each component, not sorted, non-zero loadings first, with as many variables as its cardinality, at most n.
    """
    scores = np.abs(S @ Z) + VARIANCE_TIE_WEIGHT * np.diagonal(S)[:, None]
    order = np.argsort(-np.where(Z != 0, np.inf, scores), axis=0, kind="stable")
    return [order[: min(k, S.shape[0]), j] for j, k in enumerate(cardinalities)]


def find_better_constrained(S: Array, constraint: Constraint, cardinalities: Sequence[int], Z: Array) -> Array | None:
    """Return the first feasible swap near Z, within or between components, that raises the total variance, or None.

    Z, (n, m), and the result satisfy the constraint. The total variance must rise by a relative `MIN_JOINT_RISE`. A
    variable that comes in may belong to another component: if supports must be disjoint, that one gets another.
    """
    supports = _fill_joint_supports(S, Z, cardinalities)
    min_variance = compute_total_variance(S, Z) * (1 + MIN_JOINT_RISE)
    swaps = [(*swap, j) for j, support in enumerate(supports) for swap in _rank_swaps(S, constraint, Z, j, support)]
    for _, out, into, sign, j in sorted(swaps, reverse=True)[:MAX_TRIED_SWAPS]:
        guess, swapped = Z.copy(), list(supports)
        guess[out, j], guess[into, j] = 0.0, sign * constraint.entering_loading
        swapped[j] = np.where(swapped[j] == out, into, swapped[j])
        better = constraint.project_feasible(S, guess, swapped)
        if better is not None and compute_total_variance(S, better) > min_variance:
            return better
    return None


def _rank_swaps(
    S: Array, constraint: Constraint, Z: Array, j: int, support: Array
) -> list[tuple[float, int, int, float]]:
    """Return the best swaps of a variable of component j, on a support, for another: gain, variable out and in, sign.

    A variable gains the loading that a power step would give it, less that of the variable that goes out. The power
    step leaves out what the constraint with the other components takes away. There are `MAX_TRIED_SWAPS` swaps at most.
    """
    z = Z[:, j]
    outside = np.setdiff1d(np.arange(len(S)), support)
    normals = np.column_stack([z, constraint.penalty_matrix(S, np.delete(Z, j, axis=1))[0]])
    pull = S @ z
    slope = pull - normals @ np.linalg.lstsq(normals[support], pull[support], rcond=None)[0]
    slope = slope[outside] / max(float(z @ pull), np.finfo(np.float64).tiny)
    gains = np.abs(slope) - np.abs(z[support])[:, None]
    best = np.argsort(-gains, axis=None, kind="stable")[:MAX_TRIED_SWAPS]
    out, into = np.unravel_index(best, gains.shape)
    columns = gains.ravel()[best], support[out], outside[into], np.copysign(1.0, slope[into])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def block_coordinate(S: Array, Z: Array, cardinalities: Sequence[int]) -> tuple[Array, float]:
    """Improve components without a constraint in turn while the total adjusted variance rises; return Z and the total.

    The swaps of a component maximise its variance that is uncorrelated with the scores of all others. A component that
    is zero stays zero. S, (n, n), and Z, (n, m), are float64 on the host; `cardinalities` that exceed n count as n. Z
    is not changed, and the total of the result is no smaller than its own.
    """
    total = compute_total_adjusted_variance(S, Z)
    for _ in range(MAX_COORDINATE_ROUNDS):
        last_total = total
        for j in np.flatnonzero(Z.any(axis=0)).tolist():
            supports = [support[None] for support in _fill_joint_supports(S, Z, cardinalities)]
            batch = MultiStartBatch(S, Z[None].copy(), supports)
            penalty_matrix = AdjustedVariancePenalty().penalty_matrix(S, np.delete(batch.Z, j, axis=-1))
            batch.improve_component(j, penalty_matrix, np.ones(1), MAX_SWAPS)
            new_total = compute_total_adjusted_variance(S, batch.Z[0])
            if new_total > total * (1 + MIN_JOINT_RISE):
                Z, total = batch.Z[0], new_total
        Z = refine_loadings(S, Z)
        total = compute_total_adjusted_variance(S, Z)
        if total <= last_total * (1 + MIN_JOINT_RISE):
            break
    return Z, total


def refine_loadings(S: Array, Z: Array) -> Array:
    """Return loadings near Z, (n, m), on the same supports with a locally maximal total adjusted variance, or Z itself.

    Let G = ZᵀSZ = L D Lᵀ be the Gram matrix of the scores in the order of decreasing variance. Then the total is tr D,
    its derivative by G is W Wᵀ with W = L⁻ᵀ, and its derivative by Z is 2S Z W Wᵀ. L-BFGS maximises it over columns of
    unit norm. S is (n, n). Zero columns stay zero, and Z is not changed; it is returned itself if nothing is better or
    the scores are linearly dependent. A column of Z must have variance unless it is zero.
    """
    rows, columns = np.nonzero(Z)
    variances = np.sum(Z * (S @ Z), axis=0)
    order = np.argsort(-variances, kind="stable")[: int(np.count_nonzero(variances > 0))]
    ridge = RIDGE_SHARE * float(variances.max()) * np.eye(order.size)

    def loss(x: Array) -> tuple[float, Array]:
        """Return minus the total adjusted variance, and its gradient by x, for the non-zero loadings x of Z.

        x is in the order of ``np.nonzero(Z)``; columns may have any length but zero, and are normalised first. Raise
        LinAlgError if the scores are linearly dependent.
        """
        Y = np.zeros_like(Z)
        Y[rows, columns] = x
        lengths = np.sqrt(np.sum(Y * Y, axis=0)) + (variances <= 0)
        Y = Y / lengths
        SY = S @ Y
        root = np.linalg.cholesky((Y.T @ SY)[np.ix_(order, order)] + ridge)
        W = np.linalg.inv(root / np.diagonal(root)).T
        slope = np.zeros_like(Z)
        slope[:, order] = 2 * SY[:, order] @ W @ W.T
        slope = (slope - Y * np.sum(Y * slope, axis=0)) / lengths
        return -float(np.sum(np.diagonal(root) ** 2)), -slope[rows, columns]

    try:
        x = minimize(loss, Z[rows, columns], method="L-BFGS-B", jac=True, options=LBFGS_OPTIONS).x
    except np.linalg.LinAlgError:  # linearly dependent scores
        return Z
    refined = np.zeros_like(Z)
    refined[rows, columns] = x
    refined = normalize_columns(refined)
    return refined if compute_total_adjusted_variance(S, refined) > compute_total_adjusted_variance(S, Z) else Z


def compute_total_adjusted_variance(S: Array, Z: Array) -> float:
    """Compute the total adjusted variance of loadings Z, (n, m), over a covariance S, (n, n).

    That is what each component adds to those of larger variance, summed. Zero columns add nothing.
    """
    return float(Scores.from_gram(Z.T @ S @ Z).compute_adjusted_variances().sum())


def candidate_variables(operator: Operator, Z: Array, cardinalities: Sequence[int]) -> Array:
    """Return the variables that components near Z, (n, m), may use: all of few, else those most correlated with Z.

    Z is on the host, of any floating dtype; so are the variables, which are sorted. Variables of zero norm, up to
    rounding, are left out, even if Z uses them, and nothing may remain. "Few" are at most `MAX_UNSCREENED_VARIABLES`
    that vary. Which of equal correlations are chosen is not specified.
    """
    norms = to_host(operator.column_norms)
    varying = norms > operator.norm_tolerance
    if int(np.count_nonzero(varying)) <= MAX_UNSCREENED_VARIABLES:
        return np.flatnonzero(varying)
    C = np.abs(to_host(operator.correlate(operator.combine(operator.to_backend(Z.astype(operator.dtype))))))
    correlated = [
        find_largest_rows((C[:, j] * varying)[:, None], N_BASE_CANDIDATES + CANDIDATES_PER_VARIABLE * k)[:, 0]
        for j, k in enumerate(cardinalities)
    ]
    candidates = np.union1d(np.flatnonzero(Z.any(axis=1)), np.concatenate(correlated))
    return candidates[varying[candidates]]


def compute_scaled_covariance(operator: Operator, idx: Array) -> tuple[Array, float]:
    """Return the covariance of the variables `idx` divided by their largest variance, and the divisor.

    The covariance is symmetric, (|idx|, |idx|), float64 on the host, a new array. The divisor is positive, 1 if all
    variances are zero. `idx` are on the host.
    """
    S = operator.gram(idx).astype(np.float64)
    scale = float(np.max(np.diagonal(S), initial=0.0)) or 1.0
    return (S + S.T) / (2 * scale), scale


def maximize_adjusted_variance(operator: Operator, Z: Array, cardinalities: Sequence[int]) -> Array:
    """Return components without a constraint, found from Z, (n, m), with at least its total adjusted variance.

    Z and the result are on the host, in float64; `cardinalities` are m numbers of variables. Components that are zero
    in Z stay zero; those beyond the rank of the matrix must be zero, because rounding would choose their variables.
    """
    total = 0.0
    for _ in range(MAX_JOINT_ROUNDS):
        W = candidate_variables(operator, Z, cardinalities)
        if W.size == 0:
            break
        S, scale = compute_scaled_covariance(operator, W)
        Z_inside, scaled_total = block_coordinate(S, Z[W], cardinalities)
        if scaled_total * scale <= total * (1 + MIN_JOINT_RISE):
            break
        Z, total = embed_rows(Z_inside, W, Z.shape[0]), scaled_total * scale
        if W.size <= MAX_UNSCREENED_VARIABLES:
            break
    return Z


def solve_joint(
    operator: Operator, Z: Array, cardinalities: Sequence[int], constraint: Constraint, rng: np.random.RandomState
) -> Array | None:
    """Return components that satisfy a constraint, found from Z, (n, m), on the host in float64; None if none is found.

    Components for which the data have no variance left are zero, and so are those beyond the number of variables that
    vary. Z, unit or zero columns, need not satisfy the constraint; `cardinalities` are m numbers, at least 1. The
    result, (n, m), is float64 on the host, not oriented.
    """
    n = Z.shape[0]
    best_value = -np.inf
    best: Array | None = None
    for _ in range(MAX_JOINT_ROUNDS):
        W = candidate_variables(operator, Z, cardinalities)
        m = min(len(cardinalities), W.size)
        if m == 0:
            return np.zeros_like(Z)
        S, scale = compute_scaled_covariance(operator, W)
        largest_variance = float(np.max(np.sum(Z[W] * (S @ Z[W]), axis=0))) or 1.0
        sizes = [min(k, W.size) for k in cardinalities[:m]]
        joint = multistart(S / largest_variance, constraint, [Z[W][:, :m]], sizes, rng)
        value = -np.inf if joint is None else float(compute_total_variance(S, joint)) * scale
        if joint is None or value <= best_value * (1 + MIN_JOINT_RISE):
            break
        best_value = value
        min_variance = max(constraint.min_relative_variance, 64 * operator.precision)
        varies = np.sum(joint * (S @ joint), axis=0) > min_variance
        Z = best = np.pad(embed_rows(normalize_columns(joint * varies), W, n), ((0, 0), (0, Z.shape[1] - m)))
        if W.size <= MAX_UNSCREENED_VARIABLES:
            break
    return best
