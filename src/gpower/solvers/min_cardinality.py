"""Find the fewest variables that explain a share of the variance of an unrestricted component.

Ascents from the unrestricted component give a cardinality that certainly suffices. From there the cardinality goes down
by steps of 1, 2, 4, … and then by bisection, each cardinality solved with all starts, until one variable less is too
few.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.specification import ExactCardinality, FitSpec, MinCardinality
from gpower.solvers.starts import StartContext, WarmStart

if TYPE_CHECKING:
    from gpower.solvers.component import ComponentResult

#: A share that is missed by less than this, relatively, counts as reached.
RELATIVE_SHARE_TOLERANCE = 1e-9

#: Solves the problem of a context at the absolute γ by a specification.
SolveProblem = Callable[[StartContext, Array, FitSpec], "ComponentResult"]


class SufficientCardinality(NamedTuple):
    """A solution that reaches the share, its cardinality, and the variance that must be reached.

    If no cardinality reaches it, the solution is that of the largest admissible one.
    """

    solution: ComponentResult
    cardinality: int
    target_variance: float


def find_min_cardinality(context: StartContext, gamma: Array, spec: FitSpec, solve: SolveProblem) -> ComponentResult:
    """Return the solution with the fewest variables that reaches the share of variance in ``spec.sparsity.levels``.

    Parameters
    ----------
    context : StartContext
        The problem of one component.
    gamma : ndarray of shape (1,)
        Absolute γ, passed on to `solve`.
    spec : FitSpec
        A specification whose sparsity is `MinCardinality` with one level, a share between 0 and 1.
    solve : callable
        ``solve(context, gamma, spec)`` solves the problem at a given cardinality; the sparsity that it gets is the
        `cardinality_spec` with the cardinality as its level.
    """
    search = _MinCardinalitySearch(context, gamma, spec, solve)
    return search.find_fewest(search.find_sufficient())


@dataclass(frozen=True, eq=False)
class _MinCardinalitySearch:
    """Search for the smallest cardinality of one component."""

    context: StartContext
    gamma: Array
    spec: FitSpec
    solve: SolveProblem

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """Return the smallest and the largest admissible number of variables, or groups."""
        problem = self.context.problem
        rules = problem.penalty.support_rules
        if rules is None:
            return 1, problem.operator.shape[1]
        return max(1, int(rules.required_cost[0])), int(np.count_nonzero(rules.group_sizes[:, 0]))

    def solve_cardinality(self, k: int, spec: FitSpec) -> ComponentResult:
        """Return the solution with k variables, as a fit with this cardinality finds it.

        The random numbers are those of a copy of the generator, the same for every k. The penalty of the problem gets
        its level here for an exact cardinality, and from the calibration otherwise.
        """
        assert isinstance(spec.sparsity, MinCardinality)
        sparsity = replace(spec.sparsity.cardinality_spec, levels=(k,))
        problem = self.context.problem
        if isinstance(sparsity, ExactCardinality):
            problem = replace(problem, penalty=problem.penalty.at_cardinality(np.array([k])))
        context = replace(self.context, problem=problem, rng=deepcopy(self.context.rng))
        return self.solve(context, self.gamma, replace(spec, sparsity=sparsity))

    def compute_explained_variance(self, Z: Array) -> float:
        """Return ‖A z‖² in the norm of the variance that is maximised; Z, (n, 1), is in the memory of the matrix."""
        problem = self.context.problem
        return problem.sample_set.support_function(problem.operator, problem.operator.combine(Z)) ** 2

    def solve_unrestricted(self) -> Array:
        """Return the loadings of a component that may use all variables, (n, 1), in the memory of the matrix."""
        problem = self.context.problem
        is_free = not problem.penalty.is_nonnegative and problem.penalty.support_rules is None
        if problem.is_single_l2_unit and is_free:
            return problem.operator.to_backend(compute_leading_components(problem.operator, 1)[0])
        return self.solve_cardinality(self.cardinality_range[1], replace(self.spec, local_search=False)).Z

    def find_sufficient(self) -> SufficientCardinality:
        """Find a cardinality that reaches the share, by single ascents from the unrestricted component.

        Cardinalities are numbers of groups under support rules. They are doubled until one suffices, then bisected.
        """
        z = self.solve_unrestricted()
        share = self.spec.sparsity.levels[0]
        target = share * self.compute_explained_variance(z) * (1 - RELATIVE_SHARE_TOLERANCE)
        quick_spec = replace(self.spec, start=WarmStart(z), local_search=False)
        low, high = self.cardinality_range
        too_few = low - 1
        k = low
        solution = self.solve_cardinality(k, quick_spec)
        while self.compute_explained_variance(solution.Z) < target and k < high:
            too_few = k
            k = min(2 * k, high)
            solution = self.solve_cardinality(k, quick_spec)
        while k - too_few > 1:
            middle = (k + too_few) // 2
            candidate = self.solve_cardinality(middle, quick_spec)
            if self.compute_explained_variance(candidate.Z) < target:
                too_few = middle
            else:
                solution = candidate
                k = middle
        return SufficientCardinality(solution, k, target)

    def find_fewest(self, sufficient: SufficientCardinality) -> ComponentResult:
        """Reduce a sufficient cardinality with all starts: by growing steps while they suffice, then by bisection.

        The solution returned reaches the target variance if the sufficient one does.
        """
        quick, k, target = sufficient
        thorough = self.solve_cardinality(k, self.spec)
        best = max(quick, thorough, key=lambda solution: self.compute_explained_variance(solution.Z))
        too_few = self.cardinality_range[0] - 1
        step = 1
        is_stepping = True
        while k - too_few > 1:
            tried = max(k - step, too_few + 1) if is_stepping else (k + too_few) // 2
            solution = self.solve_cardinality(tried, self.spec)
            if self.compute_explained_variance(solution.Z) < target:
                too_few = tried
                is_stepping = False
            else:
                best = solution
                k = tried
                step *= 2
        return best
