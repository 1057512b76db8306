"""The fewest variables for a share of the variance: a number of variables that the data decide, component by component.

What a component of all admissible variables explains at its turn is the whole. Ascents from there give a number of
variables that certainly suffices; from it the number goes down by steps of 1, 2, 4, … and then by halves, every number
tried with all care, until one less is too few.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Penalty
from gpower.solvers.initialization import StartContext, WarmStart
from gpower.solvers.specification import AscentSolution, ExactCardinality, FitSpec, SparsitySpec

#: A share that is missed by less, relatively, is reached.
RELATIVE_SHARE_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class MinCardinality(SparsitySpec):
    """The fewest variables that explain shares, the levels, of what an unrestricted component would."""

    cardinality_spec: SparsitySpec
    has_cardinality_levels = True
    needs_all_columns = True

    def select_unit(self, j: int) -> MinCardinality:
        """The wish of unit j alone."""
        return replace(super().select_unit(j), cardinality_spec=self.cardinality_spec.select_unit(j))

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """As of the number that is sought."""
        return self.cardinality_spec.compute_gamma(norms, mu)

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """That of the fewest variables."""
        return self.cardinality_spec.make_free_sign_penalty(gamma)

    def is_costly(self, is_block: bool) -> bool:
        """Many numbers are tried."""
        return True

    def solve(self, context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
        """The solution of the fewest variables that reach the share."""
        asked = _MinCardinalitySearch(self, context, gamma, spec)
        return asked.find_fewest(asked.find_sufficient())


@dataclass(frozen=True, eq=False)
class _MinCardinalitySearch:
    """A share that is asked of one unit on a matrix."""

    sparsity: MinCardinality
    context: StartContext
    gamma: Array
    spec: FitSpec

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups, that are admissible."""
        problem = self.context.problem
        known = problem.penalty.support_rules
        if known is None:
            return 1, problem.operator.shape[1]
        return max(1, int(known.required_cost[0])), int(np.count_nonzero(known.group_sizes[:, 0]))

    def solve_cardinality(self, k: int, spec: FitSpec) -> AscentSolution:
        """The solution of k variables, as a fit that asks for k would find it."""
        inner = replace(self.sparsity.cardinality_spec, levels=(k,))
        problem = self.context.problem
        if isinstance(inner, ExactCardinality):
            problem = replace(problem, penalty=problem.penalty.at_cardinality(np.array([k])))
        ground = replace(self.context, problem=problem, rng=deepcopy(self.context.rng))
        return inner.solve(ground, self.gamma, replace(spec, sparsity=inner))

    def compute_explained_variance(self, Z: Array) -> float:
        """‖A z‖², or its square by the other variance."""
        problem = self.context.problem
        return problem.sample_set.support_function(problem.operator, problem.operator.combine(Z)) ** 2

    def solve_unrestricted(self) -> Array:
        """The loadings of a component of all variables, (n, 1)."""
        problem = self.context.problem
        free = (
            problem.is_single_l2_unit and not problem.penalty.is_nonnegative and problem.penalty.support_rules is None
        )
        if free:
            return problem.operator.to_backend(compute_leading_components(problem.operator, 1)[0])
        return self.solve_cardinality(self.cardinality_range[1], replace(self.spec, local_search=False)).Z

    def find_sufficient(self) -> tuple[AscentSolution, int, float]:
        """A solution that reaches the share, its number of variables, and what there is to reach."""
        z = self.solve_unrestricted()
        enough = self.sparsity.levels[0] * self.compute_explained_variance(z) * (1 - RELATIVE_SHARE_TOLERANCE)
        near = replace(self.spec, start=WarmStart(z), local_search=False)
        low, high = self.cardinality_range
        k, too_few = low, low - 1
        while (
            (found := self.solve_cardinality(k, near))
            and self.compute_explained_variance(found.Z) < enough
            and k < high
        ):
            too_few, k = k, min(2 * k, high)
        while k - too_few > 1:
            middle = (k + too_few) // 2
            tried = self.solve_cardinality(middle, near)
            if self.compute_explained_variance(tried.Z) < enough:
                too_few = middle
            else:
                found, k = tried, middle
        return found, k, enough

    def find_fewest(self, sufficient: tuple[AscentSolution, int, float]) -> AscentSolution:
        """The same with all care: steps down of growing width while they suffice, then halves."""
        quick, k, enough = sufficient
        best = max(
            quick, self.solve_cardinality(k, self.spec), key=lambda found: self.compute_explained_variance(found.Z)
        )
        too_few, step, stepping = self.cardinality_range[0] - 1, 1, True
        while k - too_few > 1:
            tried = max(k - step, too_few + 1) if stepping else (k + too_few) // 2
            found = self.solve_cardinality(tried, self.spec)
            if self.compute_explained_variance(found.Z) < enough:
                too_few, stepping = tried, False
            else:
                best, k, step = found, tried, 2 * step
        return best
