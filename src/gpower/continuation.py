"""Solutions along a grid of sparsity, each begun at its neighbours.

A solution with k variables is a good start for one with a few more or a few less. The grid is walked from the densest
point to the sparsest and back; of what a point is given, the best is kept. On the way back a component begins at one of
fewer variables and can only gain: with one component the variance never falls as the cardinality grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from gpower.extraction import POLISH_ALL, Extraction, Recipe, extract_components
from gpower.metrics import adjusted_variances, score_gram
from gpower.operators.base import Operator

#: Points that get starts of their own where n_init="auto" makes them costly; the others begin at their neighbours.
ANCHORS = 5


def sweep(
    operator: Operator,
    recipes: Sequence[Recipe],
    rng: np.random.RandomState,
    known: Mapping[int, Extraction] | None = None,
) -> Iterator[tuple[int, Extraction]]:
    """The best solution so far of each point of the grid, as the walk comes by: twice, the sparsest once.

    Parameters
    ----------
    operator : Operator
    recipes : sequence of Recipe
        One per point, from the sparsest to the densest.
    rng : RandomState
        Every point draws the same from it, so that its own starts are those of a fit on its own.
    known : mapping of int to Extraction, optional
        Solutions found earlier. Those points get no starts of their own, and keep theirs where it is the best.
    """
    operator = operator.gathering()  # columns gathered for one point serve the next
    best = dict(known or {})
    worth = {i: value_of(operator, recipes[i], found) for i, found in best.items()}
    cold = set(anchors(recipes)) - set(best)
    n = len(recipes)
    for order in (range(n - 1, -1, -1), range(1, n)):
        back = order.step > 0
        for i in order:
            neighbour = best.get(i - 1 if back else i + 1)
            tries = [] if neighbour is None else [_beside(recipes[i], neighbour)]
            if not back and (i in cold or (not tries and i not in best)):
                tries.append(recipes[i])
            for recipe in tries:
                found = _other(operator, recipe, deepcopy(rng), best.get(i))
                value = -np.inf if found is None else value_of(operator, recipe, found)
                if found is not None and (i not in best or value > worth[i]):
                    best[i], worth[i] = found, value
            yield i, best[i]


def _beside(recipe: Recipe, neighbour: Extraction) -> Recipe:
    """The recipe begun at a neighbour; a large support, where the polish costs most and gains least, goes without."""
    polish = recipe.polish and max(recipe.formulation.levels) <= POLISH_ALL
    return replace(recipe, near=(neighbour.Z,), polish=polish)


def _other(
    operator: Operator, recipe: Recipe, rng: np.random.RandomState, known: Extraction | None
) -> Extraction | None:
    """A solution of one point; None where it would be the one known, found out before the costly polish."""
    if known is None or not recipe.polish or not recipe.near:
        return extract_components(operator, recipe, rng)
    plain = extract_components(operator, replace(recipe, polish=False), rng)
    if np.array_equal(plain.Z != 0, known.Z != 0):
        return None
    return extract_components(operator, replace(recipe, near=(plain.Z,)), rng)


def anchors(recipes: Sequence[Recipe]) -> list[int]:
    """Points that get starts of their own: all where starts were counted or are cheap, else a few spread evenly.

    A unit of exact cardinality races many starts, and a calibration is many ascents; a block, or a given γ, is neither.
    """
    n, wish = len(recipes), recipes[0].formulation
    costly = wish.calibrated or (wish.kind == "cardinality" and not recipes[0].block)
    if recipes[0].n_init is not None or not costly or n <= ANCHORS:
        return list(range(n))
    return [int(i) for i in np.linspace(0, n - 1, ANCHORS).round()]


def value_of(operator: Operator, recipe: Recipe, found: Extraction) -> float:
    """What solutions of one point are compared by: adjusted variance at equal cardinality, the objective at equal γ."""
    wish = recipe.formulation
    if (wish.kind == "cardinality" or wish.calibrated) and not wish.l1_variance:
        return float(adjusted_variances(score_gram(operator, found.Z)).sum())
    return float(found.objective.sum())
