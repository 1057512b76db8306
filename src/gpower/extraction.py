"""The recipe on one page: screen → start → ascend → read off → refit → deflate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._arrays import Array, embedded, largest, orient, rows_of, to_host
from gpower.constraints import Constraint
from gpower.deflation import deflate
from gpower.feasible_sets import CorrelationSet
from gpower.formulations import OnCorrelations, Problem
from gpower.leading import leading_components
from gpower.metrics import adjusted_variances, score_gram
from gpower.operators.base import Operator
from gpower.recipes import Recipe, Solution
from gpower.starts import Ground
from gpower.together import adjusted_together, considered, held_together

#: Screened columns are gathered once when no more than this share is left.
SCREENED_SHARE = 0.25
#: Turns of non-negative components that share no variable.
APART_TURNS = 5

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)


@dataclass(frozen=True, eq=False)
class Extraction:
    """Loadings and how they were found.

    `Z` is (n_features, m); `gamma` has one entry per unit, the others one per ascent (one for a block);
    `notes` are sentences the user should see.
    """

    Z: Array
    gamma: Array
    objective: Array
    gap: Array
    n_iter: Array
    converged: Array
    notes: tuple[str, ...] = ()

    @classmethod
    def joined(cls, units: Sequence[Extraction]) -> Extraction:
        """Units found one after the other, side by side."""
        rows = ("gamma", "objective", "gap", "n_iter", "converged")
        return cls(
            Z=np.hstack([unit.Z for unit in units]),
            **{name: np.concatenate([getattr(unit, name) for unit in units]) for name in rows},
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
        )


def extract_components(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    known: Sequence[Extraction] = (),
    completed: Callable[[Sequence[Extraction]], object] | None = None,
) -> Extraction:
    """All components: a block at once, or one after the other from the deflated matrix.

    `known` are components found earlier; `completed` is told of all found so far after each.
    """
    if recipe.constraint is not None and len(recipe.mu) > 1:
        free = extract_components(operator, replace(recipe, constraint=None), rng, known, completed)
        return _constrained(operator, recipe, recipe.constraint, free, rng)
    if recipe.block:
        found = extract(operator, recipe, rng)
        return _total(operator, recipe, found, rng) if recipe.is_total else found
    units: list[Extraction] = list(known)
    for j in range(len(recipe.mu)):
        gathering = operator.gathering()  # the columns of this component, dropped with it
        if j == len(units):
            units.append(extract(gathering, recipe.unit(j), rng))
            if completed is not None:
                completed(units)
        if j + 1 < len(recipe.mu):  # a resumed fit has gathered nothing: with checkpoints nothing gathered is used
            operator = deflate(operator if completed else gathering, units[j].Z[:, 0], recipe.deflation)
    return Extraction.joined(units)


def _constrained(
    operator: Operator, recipe: Recipe, constraint: Constraint, free: Extraction, rng: np.random.RandomState
) -> Extraction:
    """Components that keep a constraint, begun at those without; by decreasing variance unless each has its place."""
    levels, start = recipe.levels, to_host(free.Z).astype(np.float64)
    if recipe.wish.positive:
        Z: Array | None = _apart(operator, recipe, start, rng)
    else:
        Z = held_together(operator, start, levels, constraint, rng)
    m = len(levels)
    gram = np.zeros((m, m)) if Z is None else score_gram(operator, operator.own(Z))
    if Z is None or not constraint.allows(np.diagonal(gram)):
        raise ValueError(constraint.refusal(m, min(levels)))
    order = _places(gram, levels)
    variances, Z = np.diagonal(gram), operator.own(orient(Z[:, order]).astype(operator.dtype))
    n_iter, converged = np.resize(free.n_iter, m), np.resize(free.converged, m)
    return replace(free, Z=Z, objective=variances[order], gap=np.full(m, np.nan), n_iter=n_iter, converged=converged)


def _places(gram: Array, levels: Sequence[int]) -> Array:
    """Components by decreasing adjusted variance, unless each has a cardinality of its own."""
    return np.argsort(-adjusted_variances(gram), kind="stable") if len(set(levels)) == 1 else np.arange(len(levels))


def _apart(operator: Operator, recipe: Recipe, Z: Array, rng: np.random.RandomState) -> Array:
    """Disjoint components that are non-negative: each in turn the best of what the others leave, while that helps."""
    W = considered(operator, Z, recipe.levels)
    inner, best, found = operator.take(W), np.zeros(Z.shape[1]), np.zeros((W.size, Z.shape[1]))
    for _ in range(APART_TURNS if W.size else 0):
        before = best.sum()
        for j in range(best.size):
            room = np.flatnonzero(~np.delete(found, j, axis=1).any(axis=1))
            unit = extract(inner.take(room), recipe.unit(j), rng)
            if unit.objective[0] > best[j] * (1 + 1e-9):
                best[j], found[:, j] = unit.objective[0], embedded(to_host(unit.Z), room, W.size)[:, 0]
        if best.sum() <= before * (1 + 1e-9):
            break
    return embedded(found, W, Z.shape[0])


def _total(operator: Operator, recipe: Recipe, found: Extraction, rng: np.random.RandomState) -> Extraction:
    """A block that explains as much as it can: the better of itself and of components found in turn, each improved."""
    alone = replace(recipe, block=False, mu=(1.0,) * len(recipe.mu), start=None, deflation="schur")
    ends = [to_host(each.Z).astype(np.float64) for each in (extract_components(operator, alone, rng), found)]
    if not recipe.wish.positive:
        ends = [adjusted_together(operator, Z, recipe.levels) for Z in ends]
    grams = [score_gram(operator, operator.own(Z)) for Z in ends]
    best = int(np.argmax([adjusted_variances(gram).sum() for gram in grams]))
    Z = ends[best][:, _places(grams[best], recipe.levels)]
    Z = operator.own(orient(Z).astype(operator.dtype))
    problem = recipe.wish.problem(operator, operator.column_norms, np.asarray(recipe.mu), recipe.regularization)
    point = problem.feasible_set.point(operator.combine(Z))
    value, slope = OnCorrelations(problem.penalty).value_and_gradient(point)
    data = CorrelationSet(operator, problem.mu, problem.samples)
    gap = max(data.support_value(slope) - data.pairing(slope, point), 0.0)
    return replace(found, Z=Z, objective=np.array([value]), gap=np.array([gap]))


def extract(operator: Operator, recipe: Recipe, rng: np.random.RandomState) -> Extraction:
    """One component of a matrix already deflated, or a block of them."""
    operator = operator.gathering()
    wish, mu, n = recipe.wish, np.asarray(recipe.mu), operator.shape[1]
    if wish.is_ordinary(n) and recipe.settings.solver != "direct" and operator.column_norms.any():
        return _ordinary(operator, recipe)
    norms = wish.samples.reach(operator)
    gamma = wish.gamma(norms, mu)
    if largest(norms) <= operator.noise:  # nothing is there, or nothing but rounding is left
        return _nothing(operator, gamma)
    problem, kept = _screened(wish.problem(operator, norms, mu, recipe.regularization), norms)
    if kept.size == 0:
        return _nothing(operator, gamma)
    if kept.size < n:
        norms, recipe = rows_of(norms, kept), recipe.among(kept)
    found = wish.solve(Ground(problem, norms, rng, recipe.settings.callback), gamma, recipe)
    Z = orient(found.Z)
    return _as_extraction(replace(found, Z=Z if kept.size == n else embedded(Z, kept, n)))


def _screened(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """The problem on the columns that can be active at all, and their indices; gathered only if few are left."""
    keep, n = problem.penalty.keep(norms, problem.mu), problem.operator.shape[1]
    if int(np.count_nonzero(keep)) > min(SCREENED_SHARE * n, problem.operator.widest_take):
        return problem, np.arange(n)
    kept = to_host(np.flatnonzero(keep))
    return problem.among(kept), kept


def _as_extraction(found: Solution) -> Extraction:
    """Arrays of length one for the one ascent."""
    end = found.result
    value, gap, n_iter, converged = (np.array([figure]) for figure in (found.value, end.gap, end.n_iter, end.converged))
    return Extraction(found.Z, found.gamma, value, gap, n_iter, converged, found.notes)


def _nothing(operator: Operator, gamma: Array) -> Extraction:
    """Zero loadings, found without an ascent."""
    Z = np.zeros_like(operator.column_norms, shape=(operator.shape[1], gamma.size))
    return Extraction(Z, gamma, np.zeros(1), np.zeros(1), np.zeros(1, int), np.ones(1, bool))


def _ordinary(operator: Operator, recipe: Recipe) -> Extraction:
    """Ordinary principal components, the largest for the unit of the largest weight."""
    mu = np.asarray(recipe.mu)
    loadings, variances = leading_components(operator, mu.size)
    rank = np.argsort(np.argsort(-mu, kind="stable"), kind="stable")  # of each unit's weight
    tied = np.unique(mu).size < mu.size
    value = float(np.sum(mu**2 * variances[rank]))
    return Extraction(
        Z=operator.own(orient(loadings[:, rank])),
        gamma=0 * recipe.wish.gamma(np.ones(1), mu),  # none at all where the wish knows none
        objective=np.array([value]),
        gap=np.zeros(1),
        n_iter=np.ones(1, int),  # one factorisation
        converged=np.ones(1, bool),
        notes=(ROTATION_NOTE,) if tied else (),
    )
