"""The recipe on one page: screen → start → ascend → read off → refit → deflate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, beside, embedded, largest, orient, rows_of, to_host
from gpower.operators.base import Operator
from gpower.operators.leading_pca import leading_components
from gpower.problem.formulation import Problem
from gpower.solvers.initialization import Ground
from gpower.solvers.specification import Recipe, Solution

#: Screened columns are gathered once when no more than this share is left.
SCREENED_SHARE = 0.25

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)


@dataclass(frozen=True, eq=False)
class Extraction:
    """Loadings and how they were found.

    `Z` is (n_features, m), and so is `end`, the loadings read off where the ascents ended, where a refit has
    changed them. `gamma` has one entry per unit, the others one per ascent (one for a block);
    `notes` are sentences the user should see.
    """

    Z: Array
    gamma: Array
    objective: Array
    gap: Array
    n_iter: Array
    converged: Array
    notes: tuple[str, ...] = ()
    end: Array | None = None

    @classmethod
    def given(cls, Z: Array, gamma: Array) -> Extraction:
        """Loadings that no ascent has found."""
        return cls(Z, gamma, np.zeros(1), np.zeros(1), np.zeros(1, int), np.ones(1, bool))

    def among(self, idx: Array, part: Operator) -> Extraction:
        """Its loadings on the columns `idx` alone, of which `part` is made; outside there are none."""
        return self._with(lambda Z: part.own(rows_of(Z, idx)))

    def embedded(self, idx: Array, operator: Operator) -> Extraction:
        """Loadings on the columns `idx` of an operator as loadings on all of them."""
        like = operator.column_norms
        return self._with(lambda Z: embedded(Z, idx, like.size, like))

    def ordered(self, order: Array) -> Extraction:
        """The units in another order."""
        m = self.Z.shape[1]
        rows = {name: getattr(self, name) for name in ("gamma", "objective", "gap", "n_iter", "converged")}
        moved = {name: values[order] for name, values in rows.items() if values.size == m}
        return replace(self._with(lambda Z: Z[:, beside(Z, order)]), **moved)

    def _with(self, change: Callable[[Array], Array]) -> Extraction:
        return replace(self, Z=change(self.Z), end=None if self.end is None else change(self.end))

    @classmethod
    def joined(cls, units: Sequence[Extraction]) -> Extraction:
        """Units found one after the other, side by side."""
        rows = ("gamma", "objective", "gap", "n_iter", "converged")
        return cls(
            Z=np.hstack([unit.Z for unit in units]),
            **{name: np.concatenate([getattr(unit, name) for unit in units]) for name in rows},
            end=np.hstack([unit.Z if unit.end is None else unit.end for unit in units]),
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
        )


def extract_in_turn(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    known: Sequence[Extraction] = (),
    completed: Callable[[Sequence[Extraction]], object] | None = None,
) -> list[Extraction]:
    """One component after the other, each from what the ones before it leave of the matrix.

    `known` are components found earlier; `completed` is told of all found so far after each.
    """
    units: list[Extraction] = list(known)
    for j in range(len(recipe.mu)):
        gathering = operator.gathering()  # the columns of this component, dropped with it
        if j == len(units):
            units.append(extract(gathering, recipe.unit(j), rng))
            if completed is not None:
                completed(units)
        if j + 1 < len(recipe.mu):  # a resumed fit has gathered nothing: with checkpoints nothing gathered is used
            operator = recipe.deflation.remove(operator if completed else gathering, units[j].Z[:, 0])
    return units


def extract(operator: Operator, recipe: Recipe, rng: np.random.RandomState) -> Extraction:
    """One component of a matrix already deflated, or a block of them."""
    operator = operator.gathering()
    wish, mu, n = recipe.wish, np.asarray(recipe.mu), operator.shape[1]
    if wish.is_ordinary(n) and recipe.settings.rounds is not False and operator.column_norms.any():
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
    unit = _as_extraction(found, Z)
    return unit if kept.size == n else unit.embedded(kept, operator)


def _screened(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """The problem on the columns that can be active at all, and their indices; gathered only if few are left."""
    keep, n = problem.penalty.keep(norms, problem.mu), problem.operator.shape[1]
    if int(np.count_nonzero(keep)) > min(SCREENED_SHARE * n, problem.operator.widest_take):
        return problem, np.arange(n)
    kept = to_host(np.flatnonzero(keep))
    return problem.among(kept), kept


def _as_extraction(found: Solution, Z: Array) -> Extraction:
    """Arrays of length one for the one ascent; Z are its loadings with their signs fixed."""
    end = found.result
    value, gap, n_iter, converged = (np.array([figure]) for figure in (found.value, end.gap, end.n_iter, end.converged))
    return Extraction(Z, found.gamma, value, gap, n_iter, converged, found.notes, found.end)


def _nothing(operator: Operator, gamma: Array) -> Extraction:
    """Zero loadings, found without an ascent."""
    return Extraction.given(np.zeros_like(operator.column_norms, shape=(operator.shape[1], gamma.size)), gamma)


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
