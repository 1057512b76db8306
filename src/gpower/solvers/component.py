"""The recipe on one page: screen → start → ascend → read off → refit → deflate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, embed_rows, max_or_zero, orient, take_rows, to_host
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.problem.formulation import Problem
from gpower.solvers.initialization import StartContext
from gpower.solvers.specification import AscentSolution, FitSpec

#: Screened columns are gathered once when no more than this share is left.
MAX_SCREENED_SHARE = 0.25

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)


@dataclass(frozen=True, eq=False)
class ComponentResult:
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
    ascent_loadings: Array | None = None

    @classmethod
    def from_loadings(cls, Z: Array, gamma: Array) -> ComponentResult:
        """Loadings that no ascent has found."""
        return cls(Z, gamma, np.zeros(1), np.zeros(1), np.zeros(1, int), np.ones(1, bool))

    def restrict(self, idx: Array, restricted_operator: Operator) -> ComponentResult:
        """Its loadings on the columns `idx` alone, of which `part` is made; outside there are none."""
        return self._map_loadings(lambda Z: restricted_operator.to_backend(take_rows(Z, idx)))

    def embed(self, idx: Array, operator: Operator) -> ComponentResult:
        """Loadings on the columns `idx` of an operator as loadings on all of them."""
        like = operator.column_norms
        return self._map_loadings(lambda Z: embed_rows(Z, idx, like.size, like))

    def reorder(self, order: Array) -> ComponentResult:
        """The units in another order."""
        m = self.Z.shape[1]
        rows = {name: getattr(self, name) for name in ("gamma", "objective", "gap", "n_iter", "converged")}
        moved = {name: values[order] for name, values in rows.items() if values.size == m}
        return replace(self._map_loadings(lambda Z: Z[:, asarray_like(Z, order)]), **moved)

    def _map_loadings(self, transform: Callable[[Array], Array]) -> ComponentResult:
        return replace(
            self,
            Z=transform(self.Z),
            ascent_loadings=None if self.ascent_loadings is None else transform(self.ascent_loadings),
        )

    @classmethod
    def concatenate(cls, units: Sequence[ComponentResult]) -> ComponentResult:
        """Units found one after the other, side by side."""
        rows = ("gamma", "objective", "gap", "n_iter", "converged")
        return cls(
            Z=np.hstack([unit.Z for unit in units]),
            **{name: np.concatenate([getattr(unit, name) for unit in units]) for name in rows},
            ascent_loadings=np.hstack(
                [unit.Z if unit.ascent_loadings is None else unit.ascent_loadings for unit in units]
            ),
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
        )


def solve_by_deflation(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    known_units: Sequence[ComponentResult] = (),
    on_component: Callable[[Sequence[ComponentResult]], object] | None = None,
) -> list[ComponentResult]:
    """One component after the other, each from what the ones before it leave of the matrix.

    `known` are components found earlier; `completed` is told of all found so far after each.
    """
    units: list[ComponentResult] = list(known_units)
    for j in range(len(spec.mu)):
        gathering = operator.with_column_cache()  # the columns of this component, dropped with it
        if j == len(units):
            units.append(solve_component(gathering, spec.select_unit(j), rng))
            if on_component is not None:
                on_component(units)
        if j + 1 < len(spec.mu):  # a resumed fit has gathered nothing: with checkpoints nothing gathered is used
            operator = spec.deflation.remove(operator if on_component else gathering, units[j].Z[:, 0])
    return units


def solve_component(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> ComponentResult:
    """One component of a matrix already deflated, or a block of them."""
    operator = operator.with_column_cache()
    wish, mu, n = spec.sparsity, np.asarray(spec.mu), operator.shape[1]
    if wish.is_ordinary_pca(n) and spec.settings.use_working_set is not False and operator.column_norms.any():
        return _solve_ordinary_pca(operator, spec)
    norms = wish.sample_set.compute_max_correlations(operator)
    gamma = wish.compute_gamma(norms, mu)
    if max_or_zero(norms) <= operator.norm_tolerance:  # nothing is there, or nothing but rounding is left
        return _make_zero_result(operator, gamma)
    problem, kept = _screen_problem(wish.make_problem(operator, norms, mu, spec.regularization), norms)
    if kept.size == 0:
        return _make_zero_result(operator, gamma)
    if kept.size < n:
        norms, spec = take_rows(norms, kept), spec.restrict(kept)
    found = wish.solve(StartContext(problem, norms, rng, spec.settings.callback), gamma, spec)
    Z = orient(found.Z)
    unit = _make_component_result(found, Z)
    return unit if kept.size == n else unit.embed(kept, operator)


def _screen_problem(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """The problem on the columns that can be active at all, and their indices; gathered only if few are left."""
    keep, n = problem.penalty.screen(norms, problem.mu), problem.operator.shape[1]
    if int(np.count_nonzero(keep)) > min(MAX_SCREENED_SHARE * n, problem.operator.max_cached_columns):
        return problem, np.arange(n)
    kept = to_host(np.flatnonzero(keep))
    return problem.restrict(kept), kept


def _make_component_result(solution: AscentSolution, Z: Array) -> ComponentResult:
    """Arrays of length one for the one ascent; Z are its loadings with their signs fixed."""
    end = solution.ascent
    value, gap, n_iter, converged = (
        np.array([figure]) for figure in (solution.value, end.gap, end.n_iter, end.converged)
    )
    return ComponentResult(Z, solution.gamma, value, gap, n_iter, converged, solution.notes, solution.ascent_loadings)


def _make_zero_result(operator: Operator, gamma: Array) -> ComponentResult:
    """Zero loadings, found without an ascent."""
    return ComponentResult.from_loadings(
        np.zeros_like(operator.column_norms, shape=(operator.shape[1], gamma.size)), gamma
    )


def _solve_ordinary_pca(operator: Operator, spec: FitSpec) -> ComponentResult:
    """Ordinary principal components, the largest for the unit of the largest weight."""
    mu = np.asarray(spec.mu)
    loadings, variances = compute_leading_components(operator, mu.size)
    rank = np.argsort(np.argsort(-mu, kind="stable"), kind="stable")  # of each unit's weight
    tied = np.unique(mu).size < mu.size
    value = float(np.sum(mu**2 * variances[rank]))
    return ComponentResult(
        Z=operator.to_backend(orient(loadings[:, rank])),
        gamma=0 * spec.sparsity.compute_gamma(np.ones(1), mu),  # none at all where the wish knows none
        objective=np.array([value]),
        gap=np.zeros(1),
        n_iter=np.ones(1, int),  # one factorisation
        converged=np.ones(1, bool),
        notes=(ROTATION_NOTE,) if tied else (),
    )
