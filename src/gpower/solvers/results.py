"""Results of the solvers: one ascent, and components with their loadings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, embed_rows, take_rows
from gpower.operators.base import Operator
from gpower.solvers.ascent import AscentResult

#: Fields of `ComponentResult` with one entry per component or per ascent.
_ARRAYS = ("gamma", "objective", "gap", "n_iter", "converged")


@dataclass(frozen=True, eq=False)
class AscentSolution:
    """Solution of one problem: a component or a block of m components.

    Attributes
    ----------
    Z : ndarray of shape (n_features, m)
        Refitted unit loadings, in the memory of the matrix; zero columns where nothing is active.
    gamma : ndarray of shape (m,)
        Absolute γ, on the host; NaN where there is none.
    value : float
        Objective.
    ascent : AscentResult
        The ascent that found the solution.
    notes : tuple of str
        Sentences for the user.
    ascent_loadings : ndarray of shape (n_features, m) or None
        Loadings at the end of the ascent, before the refit; None if they are those of `Z` up to its tolerance.
    """

    Z: Array
    gamma: Array
    value: float
    ascent: AscentResult
    notes: tuple[str, ...] = ()
    ascent_loadings: Array | None = None


@dataclass(frozen=True, eq=False)
class ComponentResult:
    """Components and how they were found.

    Attributes
    ----------
    Z : ndarray of shape (n_features, m)
        Unit loadings, or zero columns, in the memory of the matrix. All other arrays but `ascent_loadings` are on the
        host.
    gamma : ndarray of shape (m,)
        Absolute γ; NaN where there is none.
    objective, gap, n_iter, converged : ndarray
        Value, stationarity gap, number of steps and convergence of the ascents: one entry per component, a single one
        for a block.
    notes : tuple of str
        Sentences for the user.
    ascent_loadings : ndarray of shape (n_features, m) or None
        Loadings at the end of the ascents, before the refit; None if they are those of `Z`.
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
        """Return a result for loadings that no ascent has found, for instance zeros or a warm start.

        Its objective and its gap are zero, and it counts as converged after no step.
        """
        return cls(Z, gamma, np.zeros(1), np.zeros(1), np.zeros(1, int), np.ones(1, bool))

    @classmethod
    def from_solution(cls, solution: AscentSolution, Z: Array) -> ComponentResult:
        """Return the result of one ascent with the loadings Z, whose signs are fixed.

        Reading the gap costs one product with the matrix.
        """
        ascent = solution.ascent
        return cls(
            Z=Z,
            gamma=solution.gamma,
            objective=np.array([solution.value]),
            gap=np.array([ascent.gap]),
            n_iter=np.array([ascent.n_iter]),
            converged=np.array([ascent.converged]),
            notes=solution.notes,
            ascent_loadings=solution.ascent_loadings,
        )

    @classmethod
    def concatenate(cls, units: Sequence[ComponentResult]) -> ComponentResult:
        """Return components that were found in sequence as one result; all have the same n_features."""
        ends = [unit.Z if unit.ascent_loadings is None else unit.ascent_loadings for unit in units]
        return cls(
            Z=np.hstack([unit.Z for unit in units]),
            **{name: np.concatenate([getattr(unit, name) for unit in units]) for name in _ARRAYS},
            ascent_loadings=np.hstack(ends),
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
        )

    def restrict(self, idx: Array, restricted_operator: Operator) -> ComponentResult:
        """Return the loadings on the columns `idx`, which make up `restricted_operator`; all others must be zero.

        They are moved to the memory of `restricted_operator`, which may be a Gram matrix on the host.
        """
        return self._map_loadings(lambda Z: restricted_operator.to_backend(take_rows(Z, idx)))

    def embed(self, idx: Array, operator: Operator) -> ComponentResult:
        """Return loadings on the columns `idx` of an operator as loadings on all of its columns, in its memory."""
        like = operator.column_norms
        return self._map_loadings(lambda Z: embed_rows(Z, idx, like.size, like))

    def reorder(self, order: Array) -> ComponentResult:
        """Return the components in another order; the figures of a block, one for all components, stay as they are."""
        m = self.Z.shape[1]
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        reordered = {name: values[order] for name, values in arrays.items() if values.size == m}
        return replace(self._map_loadings(lambda Z: Z[:, asarray_like(Z, order)]), **reordered)

    def _map_loadings(self, transform: Callable[[Array], Array]) -> ComponentResult:
        ends = None if self.ascent_loadings is None else transform(self.ascent_loadings)
        return replace(self, Z=transform(self.Z), ascent_loadings=ends)
