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

from gpower._utils.arrays import Array, embedded, to_host, unit_columns
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.penalties.elementary import top
from gpower.solvers.joint.constraints import Constraint, Schur, Supports
from gpower.solvers.joint.manifold_newton import Joint
from gpower.solvers.local_search import bordered_slack

#: Up to this many variables all are looked at together; of more those most correlated with a component, so many or so
#: many times its cardinality.
WHOLE, CANDIDATES, TIMES = 300, 48, 3
#: Rounds; and a relative rise that is none.
ROUNDS, RISE = 4, 1e-9
#: Starts · Σ k · variables stays under this; there are never more than so many.
WORK, MOST_STARTS = 60_000, 96
#: Prices, relative to the largest variance: the lowest is spread over the starts between these two; the highest; their
#: number.
LOWEST, HIGHEST, LEVELS = (0.05, 10.0), 30.0, 8
#: Exchanges of a component at each price. With two the pit props (6 × 4, orthogonal) take a tenth longer for as much.
EXCHANGES = 1
#: Generations of starts, how many of the best the next begins at, and the share of their components begun anew.
GENERATIONS, ELITE, RENEWED = 4, 4, 0.4
#: Starts that settle, of those that exchanges are tried, and exchanges made at most.
SETTLED, POLISHED, MOST_EXCHANGES = 4, 2, 200
#: What a violation of one costs in the choice of starts that settle.
VIOLATION_COST = 0.5
#: Turns of all components without a constraint.
TURNS = 20
#: Steps and precision of the last ascent on their supports.
REFINING = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-15, "gtol": 1e-9}


@dataclass(eq=False)
class Batch:
    """Sets of components side by side over a covariance."""

    S: Array  # (n, n)
    Z: Array  # (R, n, m)
    supports: list[Array]  # of each component, (R, k)

    def improve(self, j: int, price: tuple[Array, Array], height: Array, exchanges: int) -> None:
        """Exchange variables of component j at a price of some heights, (R,), and take the best loadings there."""
        V, d = price
        support, n, row = self.supports[j].copy(), self.S.shape[0], np.arange(len(self.Z))[:, None]
        height = height[:, None, None]
        diagonal = np.diagonal(self.S) - height[:, 0] * (np.sum(V * V, axis=-1) + d)  # (R, n)
        at = np.arange(support.shape[1])
        for turn in range(exchanges + 1):
            B = self.S[support] - height * (V[row, support] @ np.swapaxes(V, -1, -2))  # (R, k, n)
            B[row, at, support] -= height[:, 0] * d[row, support]
            P = np.take_along_axis(B, np.repeat(support[:, None], at.size, axis=1), axis=2)
            if turn == exchanges:
                u = np.linalg.eigh(P)[1][..., -1]
                break
            _, u, slack = bordered_slack(P, B, diagonal)
            slack[row[..., None], at[None, :, None], support[:, None]] = np.inf
            best = np.argmin(slack.reshape(len(support), -1), axis=1)
            helps = slack.reshape(len(support), -1)[row[:, 0], best] < 0
            if not helps.any():
                break
            support[helps, best[helps] // n] = best[helps] % n
        self.supports[j] = support
        self.Z[..., j] = 0.0
        self.Z[row, support, j] = u

    def member(self, r: int) -> tuple[Array, Supports]:
        """One of the sets."""
        return self.Z[r], [support[r] for support in self.supports]


def begun(S: Array, starts: Sequence[Array], levels: Sequence[int], count: int, rng: np.random.RandomState) -> Batch:
    """A batch of so many starts: the given ones, each (n, m), as they are, then with some components at random."""
    m = len(levels)
    which = np.arange(count)
    given = np.stack(starts)[which % len(starts)]  # (R, n, m)
    anew = (rng.random_sample((count, m)) < RENEWED) & (which >= len(starts))[:, None]
    Z = np.where(anew[:, None], 0.0, given)
    keys = np.where(Z != 0, 1 + np.abs(Z), rng.random_sample(Z.shape))
    order = np.argsort(-keys, axis=1, kind="stable")  # the loadings there are, then any
    supports = [order[:, :k, j] for j, k in enumerate(levels)]
    for j, support in enumerate(supports):
        empty = np.flatnonzero(~Z[..., j].any(axis=1))
        Z[empty[:, None], support[empty], j] = support.shape[1] ** -0.5
    return Batch(S, Z, supports)


def searched(
    S: Array, constraint: Constraint, starts: Sequence[Array], levels: Sequence[int], rng: np.random.RandomState
) -> Joint | None:
    """The best components over a covariance whose largest value is about one; None if none were found.

    Generations of starts: the first begins at the given ones and at random, each other at the best so far with some of
    their components begun anew.
    """
    count = int(np.clip(WORK // (sum(levels) * S.shape[0]), len(starts), MOST_STARTS))
    best = _distinct([constraint.settled(S, given, _filled(S, given, levels)) for given in starts])
    if not best:
        best = _distinct(
            [constraint.settled(S, sure, _filled(S, sure, levels)) for sure in constraint.surely(S, starts[0])]
        )
    for generation in range(GENERATIONS if count > len(starts) else 1):
        elite = [joint.Z for joint in best] if generation and best else [*starts, np.zeros_like(starts[0])]
        batch = begun(S, elite, levels, count, rng)
        lowest = np.exp(rng.uniform(np.log(LOWEST[0]), np.log(LOWEST[1]), count))
        for height in np.geomspace(lowest, HIGHEST, LEVELS):
            for j in range(len(levels)):
                batch.improve(j, constraint.price(S, np.delete(batch.Z, j, axis=-1)), height, EXCHANGES)
        promise = np.sum(batch.Z * (S @ batch.Z), axis=(1, 2)) - VIOLATION_COST * constraint.violation(S, batch.Z)
        chosen = np.unique(promise.round(9), return_index=True)[1][::-1][:SETTLED]
        best = _distinct([*best, *(constraint.settled(S, *batch.member(r)) for r in chosen)])
    polished = [_polished(S, constraint, end) for end in best[:POLISHED]]
    return max(polished, key=lambda joint: joint.value, default=None)


def _distinct(ends: Sequence[Joint | None]) -> list[Joint]:
    """The best few of different values."""
    by_value = {round(end.value, 9): end for end in ends if end is not None}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:ELITE]]


def _filled(S: Array, Z: Array, levels: Sequence[int]) -> Supports:
    """The supports of loadings, filled up with the variables most correlated with them, or of largest variance."""
    near = np.abs(S @ Z) + 1e-6 * np.diagonal(S)[:, None]
    order = np.argsort(-np.where(Z != 0, np.inf, near), axis=0, kind="stable")
    return [order[: min(k, S.shape[0]), j] for j, k in enumerate(levels)]


def _polished(S: Array, constraint: Constraint, joint: Joint) -> Joint:
    """Exchanges within and across components, each made as soon as it raises the objective."""
    for _ in range(MOST_EXCHANGES):
        for supports, guess in constraint.proposals(S, joint):
            end = constraint.settled(S, guess, supports)
            if end is not None and end.value > joint.value * (1 + RISE):
                joint = end
                break
        else:
            break
    return joint


def cycled(S: Array, Z: Array, levels: Sequence[int]) -> tuple[Array, float]:
    """Components without a constraint, each in turn the best on what the others leave, while their total rises.

    The total is the adjusted variance. Exchanges look at what is uncorrelated with the scores of all others.
    """
    total = adjusted_total(S, Z)
    for _ in range(TURNS):
        before = total
        for j in range(len(levels)):
            batch = Batch(S, Z[None].copy(), [support[None] for support in _filled(S, Z, levels)])
            batch.improve(j, Schur().price(S, np.delete(batch.Z, j, axis=-1)), np.ones(1), MOST_EXCHANGES)
            better = adjusted_total(S, batch.Z[0])
            if better > total * (1 + RISE):
                Z, total = batch.Z[0], better
        Z = refined(S, Z)
        total = adjusted_total(S, Z)
        if total <= before * (1 + RISE):
            break
    return Z, total


def refined(S: Array, Z: Array) -> Array:
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
        x = minimize(loss, Z[rows, columns], method="L-BFGS-B", jac=True, options=REFINING).x
    except np.linalg.LinAlgError:  # scores that depend on each other
        return Z
    found = np.zeros_like(Z)
    found[rows, columns] = x
    found = unit_columns(found)
    return found if adjusted_total(S, found) > adjusted_total(S, Z) else Z


def adjusted_total(S: Array, Z: Array) -> float:
    """Total adjusted variance."""
    return float(Scores.of_products(Z.T @ S @ Z).adjusted().sum())


def considered(operator: Operator, Z: Array, levels: Sequence[int]) -> Array:
    """The variables that may matter to any of the components Z, (n, m): all of few, else those most correlated."""
    norms = to_host(operator.column_norms)
    varying = norms > operator.noise
    if int(np.count_nonzero(varying)) <= WHOLE:
        return np.flatnonzero(varying)
    C = np.abs(to_host(operator.correlate(operator.combine(operator.own(Z.astype(operator.dtype))))))
    near = [top((C[:, j] * varying)[:, None], CANDIDATES + TIMES * k)[:, 0] for j, k in enumerate(levels)]
    wanted = np.union1d(np.flatnonzero(Z.any(axis=1)), np.concatenate(near))
    return wanted[varying[wanted]]


def covariance_of(operator: Operator, idx: Array) -> tuple[Array, float]:
    """Σ of some variables in float64, symmetric, divided by its largest variance; and that."""
    S = operator.gram(idx).astype(np.float64)
    scale = float(np.max(np.diagonal(S), initial=0.0)) or 1.0
    return (S + S.T) / (2 * scale), scale


def adjusted_together(operator: Operator, Z: Array, levels: Sequence[int]) -> Array:
    """Components without a constraint, improved in turn; their total adjusted variance is that of Z at least."""
    total = 0.0
    for _ in range(ROUNDS):
        W = considered(operator, Z, levels)
        if W.size == 0:
            break
        S, scale = covariance_of(operator, W)
        found, better = cycled(S, Z[W], levels)
        if better * scale <= total * (1 + RISE):
            break
        Z, total = embedded(found, W, Z.shape[0]), better * scale
        if W.size <= WHOLE:
            break
    return Z


def held_together(
    operator: Operator, Z: Array, levels: Sequence[int], constraint: Constraint, rng: np.random.RandomState
) -> Array | None:
    """Components that keep a constraint, begun at Z, (n, m), on the host in float64; None if there seem to be none.

    Components for which the data have no variance left are zero.
    """
    n, best = Z.shape[0], -np.inf
    found: Array | None = None
    for _ in range(ROUNDS):
        W = considered(operator, Z, levels)
        m = constraint.most_components(levels, W.size)
        if m == 0:
            return np.zeros_like(Z)
        S, scale = covariance_of(operator, W)
        start, size = Z[W][:, :m], float(np.max(np.sum(Z[W] * (S @ Z[W]), axis=0))) or 1.0
        joint = searched(S / size, constraint, [start], [min(k, W.size) for k in levels[:m]], rng)
        if joint is None or joint.value * size * scale <= best * (1 + RISE):
            break
        best = joint.value * size * scale
        varies = np.sum(joint.Z * (S @ joint.Z), axis=0) > max(constraint.least_variance, 64 * operator.precision)
        Z = found = np.pad(embedded(unit_columns(joint.Z * varies), W, n), ((0, 0), (0, Z.shape[1] - m)))
        if W.size <= WHOLE:
            break
    return found
