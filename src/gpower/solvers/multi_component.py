"""All components of a recipe: a block, or one after the other; kept apart where that is asked for; in their order.

What finds several components at once meets here: shared rounds and deflation (`shared_rounds`), blocks (`extraction`),
and the improvement of all of them together (`together`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, beside, embedded, orient, to_host
from gpower.feasible_sets import CorrelationSet
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import leading_components
from gpower.problem.deflation import Schur
from gpower.problem.formulation import OnCorrelations
from gpower.solvers.component import Extraction, extract
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.joint.search import adjusted_together, considered, held_together
from gpower.solvers.sequential import Standing, Told, extract_one_by_one
from gpower.solvers.specification import Recipe

#: Turns of non-negative components that share no variable.
APART_TURNS = 5


def extract_components(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    standing: Standing | None = None,
    told: Told | None = None,
) -> Extraction:
    """All components; `standing` is where an earlier fit of the same problem was, `told` hears how far this one is."""
    if recipe.constraint is not None and len(recipe.mu) > 1:
        free = extract_components(operator, replace(recipe, constraint=None, polish=False), rng, standing, told)
        return _constrained(operator, recipe, recipe.constraint, free, rng)
    if recipe.block:
        found = extract(operator, recipe, rng)
        return _within_rank(operator, _total(operator, recipe, found, rng) if recipe.is_total else found)
    return extract_one_by_one(operator, recipe, rng, standing, told)


def _constrained(
    operator: Operator, recipe: Recipe, constraint: Constraint, free: Extraction, rng: np.random.RandomState
) -> Extraction:
    """Components that keep a constraint, begun at those without."""
    levels, start = recipe.levels, to_host(free.Z).astype(np.float64)
    if recipe.wish.positive:
        Z: Array | None = _apart(operator, recipe, constraint, start, rng)
    else:
        Z = _held(operator, recipe, constraint, start, rng)
    m = len(levels)
    variances = np.zeros(m) if Z is None else Scores.of(operator, operator.own(Z)).variances
    if Z is None or not constraint.allows(variances):
        raise ValueError(constraint.refusal(m, min(levels)))
    Z = operator.own(orient(Z).astype(operator.dtype))
    n_iter, converged = np.resize(free.n_iter, m), np.resize(free.converged, m)
    return replace(free, Z=Z, objective=variances, gap=np.full(m, np.nan), n_iter=n_iter, converged=converged, end=None)


def _held(
    operator: Operator, recipe: Recipe, constraint: Constraint, Z: Array, rng: np.random.RandomState
) -> Array | None:
    """Such components of either sign, begun at Z, and at components that share no variable, one after the other."""
    starts = [Z]
    if constraint.of_loadings and operator.widest_take >= operator.shape[1]:
        alone = replace(recipe, constraint=None, start=None)
        starts.append(_in_turn_apart(operator, alone, np.zeros(Z.shape, bool), rng, turns=1)[0])
    ends = [held_together(operator, start, recipe.levels, constraint, rng) for start in starts]
    kept = [end for end in ends if end is not None]
    return max(kept, key=lambda end: float(Scores.of(operator, operator.own(end)).variances.sum()), default=None)


def _apart(operator: Operator, recipe: Recipe, constraint: Constraint, Z: Array, rng: np.random.RandomState) -> Array:
    """Disjoint components that are non-negative: each in turn the best of what the others leave, while that helps.

    From nothing, and from the variables of components of either sign, whose search exchanges them; the better is kept.
    """
    W = considered(operator, Z, recipe.levels)
    if W.size == 0:
        return np.zeros_like(Z)
    inner = operator.take(W)
    signed = held_together(inner, Z[W], recipe.levels, constraint, rng)
    starts = [np.zeros_like(Z[W]), np.zeros_like(Z[W]) if signed is None else signed]
    ends = [_in_turn_apart(inner, recipe, start != 0, rng) for start in starts]
    return embedded(max(ends, key=lambda end: end[1])[0], W, Z.shape[0])


def _in_turn_apart(
    operator: Operator, recipe: Recipe, begun: Array, rng: np.random.RandomState, turns: int = APART_TURNS
) -> tuple[Array, float]:
    """Such components begun on supports, (n, m), and the sum of their variances."""
    best, found = np.zeros(begun.shape[1]), np.zeros(begun.shape)

    def improve(j: int, room: Array) -> None:
        unit = extract(operator.take(room), recipe.unit(j), rng)
        if unit.objective[0] > best[j] * (1 + 1e-9):
            best[j], found[:, j] = unit.objective[0], embedded(to_host(unit.Z), room, len(found))[:, 0]

    for j in np.flatnonzero(begun.any(axis=0)).tolist():
        improve(j, np.flatnonzero(begun[:, j]))
    for _ in range(turns):
        before = best.sum()
        for j in range(best.size):
            improve(j, np.flatnonzero(~np.delete(found, j, axis=1).any(axis=1)))
        if best.sum() <= before * (1 + 1e-9):
            break
    return found, float(best.sum())


def _total(operator: Operator, recipe: Recipe, found: Extraction, rng: np.random.RandomState) -> Extraction:
    """A block that explains as much as it can: the better of itself and of components found in turn, each improved."""
    alone = replace(recipe, block=False, mu=(1.0,) * len(recipe.mu), start=None, deflation=Schur())
    ends = [to_host(each.Z).astype(np.float64) for each in (extract_one_by_one(operator, alone, rng), found)]
    if not recipe.wish.positive:
        ends = [adjusted_together(operator, Z, recipe.levels) for Z in ends]
    Z = max(ends, key=lambda Z: float(Scores.of(operator, operator.own(Z)).adjusted().sum()))
    Z = operator.own(orient(Z).astype(operator.dtype))
    problem = recipe.wish.problem(operator, operator.column_norms, np.asarray(recipe.mu), recipe.regularization)
    point = problem.feasible_set.point(operator.combine(Z))
    value, slope = OnCorrelations(problem.penalty).value_and_gradient(point)
    data = CorrelationSet(operator, problem.mu, problem.samples)
    gap = max(data.support_value(slope) - data.pairing(slope, point), 0.0)
    return replace(found, Z=Z, objective=np.array([value]), gap=np.array([gap]), end=None)


def _within_rank(operator: Operator, found: Extraction) -> Extraction:
    """A block less its units beyond the rank of the data, which can but repeat the others: they are zero."""
    m, used = found.Z.shape[1], to_host(np.count_nonzero(found.Z, axis=0)) > 0
    adjusted = Scores.of(operator, found.Z).adjusted()
    if not np.any(used & (adjusted <= 64 * operator.precision * adjusted.max())):
        return found
    rank = int(np.count_nonzero(leading_components(operator, m)[1]))
    beyond = np.argsort(np.where(used, adjusted, -1), kind="stable")[: m - rank]
    kept = np.isin(np.arange(m), beyond, invert=True).astype(operator.dtype)
    return replace(found, Z=found.Z * beside(found.Z, kept))
