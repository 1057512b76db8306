"""All components as one problem: each improves in turn on what the others leave, until nothing rises.

Rounds, as for one component: a product with the whole matrix says which columns could matter to any component, and
the rest happens on their covariance S alone. There many starts go side by side, as one batch. Each begins with a low
price of touching the others, which grows until it is all but a constraint; at every price each component in turn
exchanges variables as long as that helps it. The best of them settle: the constraint holds exactly, all components
rise together on their supports, and exchanges within and across components are made while the objective rises. It
never falls: the components that came in are one of the starts, and whatever is found is kept only if it is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from gpower._utils.arrays import Array, embed_rows, normalize_columns, to_host
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.penalties.elementary import find_largest_rows
from gpower.solvers.joint.constraints import AdjustedVariancePenalty, Constraint, Supports
from gpower.solvers.joint.manifold_newton import JointSolution
from gpower.solvers.local_search import batched_swap_test

#: Up to this many variables all are looked at together; of more those most correlated with a component, so many or so
#: many times its cardinality.
MAX_UNSCREENED_VARIABLES, N_BASE_CANDIDATES, CANDIDATES_PER_VARIABLE = 300, 48, 3
#: Rounds; and a relative rise that is none.
MAX_JOINT_ROUNDS, MIN_JOINT_RISE = 4, 1e-9
#: Starts · Σ k · variables stays under this; there are never more than so many.
MAX_BATCH_WORK, MAX_STARTS = 60_000, 96
#: Prices, relative to the largest variance: the lowest is spread over the starts between these two; the highest; their
#: number.
LOWEST_PENALTY_RANGE, HIGHEST_PENALTY, N_PENALTY_LEVELS = (0.05, 10.0), 30.0, 8
#: Exchanges of a component at each price. With two the pit props (6 × 4, orthogonal) take a tenth longer for as much.
SWAPS_PER_PENALTY_LEVEL = 1
#: Generations of starts, how many of the best the next begins at, and the share of their components begun anew.
N_GENERATIONS, N_ELITE, RENEWED_COMPONENT_SHARE = 4, 4, 0.4
#: Starts that settle, of those that exchanges are tried, and exchanges made at most.
N_PROJECTED_STARTS, N_POLISHED_SOLUTIONS, MAX_SWAPS = 4, 2, 200
#: What a violation of one costs in the choice of starts that settle.
VIOLATION_COST = 0.5
#: Turns of all components without a constraint.
MAX_COORDINATE_ROUNDS = 20
#: Steps and precision of the last ascent on their supports.
LBFGS_OPTIONS = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-15, "gtol": 1e-9}


@dataclass(eq=False)
class MultiStartBatch:
    """Sets of components side by side over a covariance."""

    S: Array  # (n, n)
    Z: Array  # (R, n, m)
    supports: list[Array]  # of each component, (R, k)

    def improve_component(
        self, j: int, penalty_matrix: tuple[Array, Array], penalty_weights: Array, max_swaps: int
    ) -> None:
        """Exchange variables of component j at a price of some heights, (R,), and take the best loadings there."""
        V, d = penalty_matrix
        support, n, row = self.supports[j].copy(), self.S.shape[0], np.arange(len(self.Z))[:, None]
        penalty_weights = penalty_weights[:, None, None]
        diagonal = np.diagonal(self.S) - penalty_weights[:, 0] * (np.sum(V * V, axis=-1) + d)  # (R, n)
        at = np.arange(support.shape[1])
        for turn in range(max_swaps + 1):
            B = self.S[support] - penalty_weights * (V[row, support] @ np.swapaxes(V, -1, -2))  # (R, k, n)
            B[row, at, support] -= penalty_weights[:, 0] * d[row, support]
            P = np.take_along_axis(B, np.repeat(support[:, None], at.size, axis=1), axis=2)
            if turn == max_swaps:
                u = np.linalg.eigh(P)[1][..., -1]
                break
            _, u, slack = batched_swap_test(P, B, diagonal)
            slack[row[..., None], at[None, :, None], support[:, None]] = np.inf
            best = np.argmin(slack.reshape(len(support), -1), axis=1)
            helps = slack.reshape(len(support), -1)[row[:, 0], best] < 0
            if not helps.any():
                break
            support[helps, best[helps] // n] = best[helps] % n
        self.supports[j] = support
        self.Z[..., j] = 0.0
        self.Z[row, support, j] = u

    def get_member(self, r: int) -> tuple[Array, Supports]:
        """One of the sets."""
        return self.Z[r], [support[r] for support in self.supports]


def make_start_batch(
    S: Array, starts: Sequence[Array], cardinalities: Sequence[int], count: int, rng: np.random.RandomState
) -> MultiStartBatch:
    """A batch of so many starts: the given ones, each (n, m), as they are, then with some components at random."""
    m = len(cardinalities)
    which = np.arange(count)
    given = np.stack(starts)[which % len(starts)]  # (R, n, m)
    anew = (rng.random_sample((count, m)) < RENEWED_COMPONENT_SHARE) & (which >= len(starts))[:, None]
    Z = np.where(anew[:, None], 0.0, given)
    keys = np.where(Z != 0, 1 + np.abs(Z), rng.random_sample(Z.shape))
    order = np.argsort(-keys, axis=1, kind="stable")  # the loadings there are, then any
    supports = [order[:, :k, j] for j, k in enumerate(cardinalities)]
    for j, support in enumerate(supports):
        empty = np.flatnonzero(~Z[..., j].any(axis=1))
        Z[empty[:, None], support[empty], j] = support.shape[1] ** -0.5
    return MultiStartBatch(S, Z, supports)


def multistart(
    S: Array, constraint: Constraint, starts: Sequence[Array], cardinalities: Sequence[int], rng: np.random.RandomState
) -> JointSolution | None:
    """The best components over a covariance whose largest value is about one; None if none were found.

    Generations of starts: the first begins at the given ones and at random, each other at the best so far with some of
    their components begun anew.
    """
    count = int(np.clip(MAX_BATCH_WORK // (sum(cardinalities) * S.shape[0]), len(starts), MAX_STARTS))
    best = _select_distinct_solutions(
        [constraint.project_feasible(S, given, _fill_joint_supports(S, given, cardinalities)) for given in starts]
    )
    if not best:
        best = _select_distinct_solutions(
            [
                constraint.project_feasible(S, sure, _fill_joint_supports(S, sure, cardinalities))
                for sure in constraint.trivial_feasible(S, starts[0])
            ]
        )
    for generation in range(N_GENERATIONS if count > len(starts) else 1):
        elite = [joint.Z for joint in best] if generation and best else [*starts, np.zeros_like(starts[0])]
        batch = make_start_batch(S, elite, cardinalities, count, rng)
        lowest = np.exp(rng.uniform(np.log(LOWEST_PENALTY_RANGE[0]), np.log(LOWEST_PENALTY_RANGE[1]), count))
        for height in np.geomspace(lowest, HIGHEST_PENALTY, N_PENALTY_LEVELS):
            for j in range(len(cardinalities)):
                batch.improve_component(
                    j, constraint.penalty_matrix(S, np.delete(batch.Z, j, axis=-1)), height, SWAPS_PER_PENALTY_LEVEL
                )
        promise = np.sum(batch.Z * (S @ batch.Z), axis=(1, 2)) - VIOLATION_COST * constraint.compute_violation(
            S, batch.Z
        )
        chosen = np.unique(promise.round(9), return_index=True)[1][::-1][:N_PROJECTED_STARTS]
        best = _select_distinct_solutions(
            [*best, *(constraint.project_feasible(S, *batch.get_member(r)) for r in chosen)]
        )
    polished = [_polish_joint_solution(S, constraint, end) for end in best[:N_POLISHED_SOLUTIONS]]
    return max(polished, key=lambda joint: joint.value, default=None)


def _select_distinct_solutions(ends: Sequence[JointSolution | None]) -> list[JointSolution]:
    """The best few of different values."""
    by_value = {round(end.value, 9): end for end in ends if end is not None}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:N_ELITE]]


def _fill_joint_supports(S: Array, Z: Array, cardinalities: Sequence[int]) -> Supports:
    """The supports of loadings, filled up with the variables most correlated with them, or of largest variance."""
    near = np.abs(S @ Z) + 1e-6 * np.diagonal(S)[:, None]
    order = np.argsort(-np.where(Z != 0, np.inf, near), axis=0, kind="stable")
    return [order[: min(k, S.shape[0]), j] for j, k in enumerate(cardinalities)]


def _polish_joint_solution(S: Array, constraint: Constraint, joint: JointSolution) -> JointSolution:
    """Exchanges within and across components, each made as soon as it raises the objective."""
    for _ in range(MAX_SWAPS):
        for supports, guess in constraint.swap_candidates(S, joint):
            end = constraint.project_feasible(S, guess, supports)
            if end is not None and end.value > joint.value * (1 + MIN_JOINT_RISE):
                joint = end
                break
        else:
            break
    return joint


def block_coordinate(S: Array, Z: Array, cardinalities: Sequence[int]) -> tuple[Array, float]:
    """Components without a constraint, each in turn the best on what the others leave, while their total rises.

    The total is the adjusted variance. Exchanges look at what is uncorrelated with the scores of all others.
    """
    total = compute_total_adjusted_variance(S, Z)
    for _ in range(MAX_COORDINATE_ROUNDS):
        before = total
        for j in range(len(cardinalities)):
            batch = MultiStartBatch(
                S, Z[None].copy(), [support[None] for support in _fill_joint_supports(S, Z, cardinalities)]
            )
            batch.improve_component(
                j, AdjustedVariancePenalty().penalty_matrix(S, np.delete(batch.Z, j, axis=-1)), np.ones(1), MAX_SWAPS
            )
            better = compute_total_adjusted_variance(S, batch.Z[0])
            if better > total * (1 + MIN_JOINT_RISE):
                Z, total = batch.Z[0], better
        Z = refine_loadings(S, Z)
        total = compute_total_adjusted_variance(S, Z)
        if total <= before * (1 + MIN_JOINT_RISE):
            break
    return Z, total


def refine_loadings(S: Array, Z: Array) -> Array:
    """Components whose total adjusted variance is the largest near Z on the same supports, or Z where none is larger.

    With the Gram matrix G = ZᵀSZ of the scores = L D Lᵀ in the order of decreasing variance, the total is tr D, and its
    derivative by G is W Wᵀ with W = L⁻ᵀ, so by Z it is 2S Z W Wᵀ. L-BFGS goes along it, columns held to unit length.
    """
    rows, columns = np.nonzero(Z)
    own = np.sum(Z * (S @ Z), axis=0)
    order = np.argsort(-own, kind="stable")[: int(np.count_nonzero(own > 0))]

    def loss(x: Array) -> tuple[float, Array]:
        Y = np.zeros_like(Z)
        Y[rows, columns] = x
        lengths = np.sqrt(np.sum(Y * Y, axis=0)) + (own <= 0)
        Y = Y / lengths
        SY = S @ Y
        root = np.linalg.cholesky((Y.T @ SY)[np.ix_(order, order)] + 1e-15 * float(own.max()) * np.eye(order.size))
        W = np.linalg.inv(root / np.diagonal(root)).T
        slope = np.zeros_like(Z)
        slope[:, order] = 2 * SY[:, order] @ W @ W.T
        slope = (slope - Y * np.sum(Y * slope, axis=0)) / lengths
        return -float(np.sum(np.diagonal(root) ** 2)), -slope[rows, columns]

    try:
        x = minimize(loss, Z[rows, columns], method="L-BFGS-B", jac=True, options=LBFGS_OPTIONS).x
    except np.linalg.LinAlgError:  # scores that depend on each other
        return Z
    found = np.zeros_like(Z)
    found[rows, columns] = x
    found = normalize_columns(found)
    return found if compute_total_adjusted_variance(S, found) > compute_total_adjusted_variance(S, Z) else Z


def compute_total_adjusted_variance(S: Array, Z: Array) -> float:
    """Total adjusted variance."""
    return float(Scores.from_gram(Z.T @ S @ Z).compute_adjusted_variances().sum())


def candidate_variables(operator: Operator, Z: Array, cardinalities: Sequence[int]) -> Array:
    """The variables that may matter to any of the components Z, (n, m): all of few, else those most correlated."""
    norms = to_host(operator.column_norms)
    varying = norms > operator.norm_tolerance
    if int(np.count_nonzero(varying)) <= MAX_UNSCREENED_VARIABLES:
        return np.flatnonzero(varying)
    C = np.abs(to_host(operator.correlate(operator.combine(operator.to_backend(Z.astype(operator.dtype))))))
    near = [
        find_largest_rows((C[:, j] * varying)[:, None], N_BASE_CANDIDATES + CANDIDATES_PER_VARIABLE * k)[:, 0]
        for j, k in enumerate(cardinalities)
    ]
    wanted = np.union1d(np.flatnonzero(Z.any(axis=1)), np.concatenate(near))
    return wanted[varying[wanted]]


def compute_scaled_covariance(operator: Operator, idx: Array) -> tuple[Array, float]:
    """Σ of some variables in float64, symmetric, divided by its largest variance; and that."""
    S = operator.gram(idx).astype(np.float64)
    scale = float(np.max(np.diagonal(S), initial=0.0)) or 1.0
    return (S + S.T) / (2 * scale), scale


def maximize_adjusted_variance(operator: Operator, Z: Array, cardinalities: Sequence[int]) -> Array:
    """Components without a constraint, improved in turn; their total adjusted variance is that of Z at least."""
    total = 0.0
    for _ in range(MAX_JOINT_ROUNDS):
        W = candidate_variables(operator, Z, cardinalities)
        if W.size == 0:
            break
        S, scale = compute_scaled_covariance(operator, W)
        found, better = block_coordinate(S, Z[W], cardinalities)
        if better * scale <= total * (1 + MIN_JOINT_RISE):
            break
        Z, total = embed_rows(found, W, Z.shape[0]), better * scale
        if W.size <= MAX_UNSCREENED_VARIABLES:
            break
    return Z


def solve_joint(
    operator: Operator, Z: Array, cardinalities: Sequence[int], constraint: Constraint, rng: np.random.RandomState
) -> Array | None:
    """Components that keep a constraint, begun at Z, (n, m), on the host in float64; None if there seem to be none.

    Components for which the data have no variance left are zero.
    """
    n, best = Z.shape[0], -np.inf
    found: Array | None = None
    for _ in range(MAX_JOINT_ROUNDS):
        W = candidate_variables(operator, Z, cardinalities)
        m = constraint.compute_max_components(cardinalities, W.size)
        if m == 0:
            return np.zeros_like(Z)
        S, scale = compute_scaled_covariance(operator, W)
        start, size = Z[W][:, :m], float(np.max(np.sum(Z[W] * (S @ Z[W]), axis=0))) or 1.0
        joint = multistart(S / size, constraint, [start], [min(k, W.size) for k in cardinalities[:m]], rng)
        if joint is None or joint.value * size * scale <= best * (1 + MIN_JOINT_RISE):
            break
        best = joint.value * size * scale
        varies = np.sum(joint.Z * (S @ joint.Z), axis=0) > max(
            constraint.min_relative_variance, 64 * operator.precision
        )
        Z = found = np.pad(embed_rows(normalize_columns(joint.Z * varies), W, n), ((0, 0), (0, Z.shape[1] - m)))
        if W.size <= MAX_UNSCREENED_VARIABLES:
            break
    return found
