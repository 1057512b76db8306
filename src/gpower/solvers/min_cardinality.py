"""Find the fewest variables that explain a share of the variance of an unlimited component.

An unlimited component may use as many variables as the rules allow: signs, groups, required and excluded variables
still hold, only the cardinality is free. Ascents from it give a cardinality that certainly suffices. From there the
cardinality goes down by steps of 1, 2, 4, … and then by bisection, each cardinality solved with all starts, until one
variable less is too few.

Terms: a cardinality is a number of variables or, with support rules, of groups, required ones included; every group
costs one here. Z, (n, 1), are loadings in the memory of the matrix, host or device, of unit length or zero, of any
sign. The `StartContext` is the problem of one component on the columns that can be active, with their norms and a
random generator, ``rng``. Its ``problem.operator`` is the matrix A of n variables: ``combine(Z)`` is A Z,
``to_backend`` moves an array to the memory of the matrix, and ``shape[1]`` is n. Its ``problem.penalty`` has
``is_nonnegative``, whether loadings must not be negative, and ``support_rules``, None without rules; of these,
``required_cost``, (1,), is the number of required groups and ``group_sizes``, (g, 1), the number of variables of each
group that are not excluded. ``penalty.at_cardinality(k)`` is the penalty at cardinalities k, (1,).
``problem.is_single_l2_unit`` tells that there is one unit of variance ‖A z‖₂², so that the first principal component
has the largest variance without rules and signs. ``sample_set.support_function(operator, A Z)`` is ‖A z‖ in the norm of
the variance. A `FitSpec` is the specification of a fit; its ``sparsity`` is a `MinCardinality`, with ``levels``, one
share, and ``cardinality_spec``, the specification of a fit with a given cardinality. A `ComponentResult` has the
loadings ``Z``. ``compute_leading_components(operator, 1)[0]`` are the loadings of the first principal component, (n,
1), on the host. An `ExactCardinality` is a `cardinality_spec` whose level is the level of the penalty; the other kind
seeks γ. A `WarmStart` starts an ascent at loadings.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.fit_specification import ExactCardinality, FitSpec, MinCardinality
from gpower.solvers.starts import StartContext, WarmStart

if TYPE_CHECKING:
    from gpower.solvers.component import ComponentResult

#: A share that is missed by less than this, relatively, counts as reached; variances that differ by less are equal.
RELATIVE_SHARE_TOLERANCE = 1e-9

#: Solves the problem of a context by a specification; the second argument is the absolute γ, (1,), to be reported.
SolveProblem = Callable[[StartContext, Array, FitSpec], "ComponentResult"]


class SizedSolution(NamedTuple):
    """A component and the cardinality at which it was found: a number of variables, or of groups."""

    result: ComponentResult
    cardinality: int


def find_min_cardinality(context: StartContext, gamma: Array, spec: FitSpec, solve: SolveProblem) -> ComponentResult:
    """Return the component with the fewest variables that reaches the share of variance in ``spec.sparsity.levels``.

    If no cardinality reaches it, the component of the largest cardinality that the rules allow is returned. The figures
    of the result, γ among them, are those of `solve` at the cardinality found.

    Parameters
    ----------
    context : StartContext
        The problem of one component, on the columns that may be active.
    gamma : ndarray of shape (1,)
        Absolute γ, float64 on the host, passed on to `solve`: NaN if `cardinality_spec` has no γ, zero if it seeks γ.
    spec : FitSpec
        A specification whose sparsity is `MinCardinality` with one level, a share between 0 and 1.
    solve : callable
        ``solve(context, gamma, spec)`` solves the problem at a given cardinality; the sparsity that it gets is the
        `cardinality_spec` with the cardinality as its level.
    """
    return _MinCardinalitySearch(context, gamma, spec, solve).find_fewest()


@dataclass(frozen=True, eq=False)
class _MinCardinalitySearch:
    """Search for the smallest cardinality of one component; the attributes are those of `find_min_cardinality`."""

    context: StartContext
    gamma: Array
    spec: FitSpec
    solve: SolveProblem

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """Return the smallest and the largest number of variables, or of groups, that the rules allow.

        Required groups are counted in both. The smallest is at least 1; the largest counts the groups with a variable
        that is not excluded, among the columns of the problem.
        """
        problem = self.context.problem
        rules = problem.penalty.support_rules
        if rules is None:
            return 1, problem.operator.shape[1]
        return max(1, int(rules.required_cost[0])), int(np.count_nonzero(rules.group_sizes[:, 0]))

    @cached_property
    def unlimited_loadings(self) -> Array:
        """Return the loadings of a component without a limit on its cardinality, (n, 1), in the memory of the matrix.

        They are of unit length and any sign, in the dtype of the matrix, and satisfy the rules and the sign constraint.
        Without these they are the first principal component; otherwise the best component found at the largest
        cardinality.
        """
        problem = self.context.problem
        is_free = not problem.penalty.is_nonnegative and problem.penalty.support_rules is None
        if problem.is_single_l2_unit and is_free:
            return problem.operator.to_backend(compute_leading_components(problem.operator, 1)[0])
        return self.solve_cardinality(self.cardinality_range[1], replace(self.spec, local_search=False)).Z

    @cached_property
    def target_variance(self) -> float:
        """Return the variance that must be reached: the share of that of the unlimited component, less rounding."""
        share = self.spec.sparsity.levels[0] * (1 - RELATIVE_SHARE_TOLERANCE)
        return share * self.compute_explained_variance(self.unlimited_loadings)

    def compute_explained_variance(self, Z: Array) -> float:
        """Return ‖A z‖² in the norm of the variance that is maximised: ℓ2, or ℓ1 with the weights of the samples.

        Z, (n, 1), is in the memory of the matrix.
        """
        problem = self.context.problem
        return problem.sample_set.support_function(problem.operator, problem.operator.combine(Z)) ** 2

    def reaches_target(self, result: ComponentResult) -> bool:
        """Return whether the loadings of `result` explain at least the target variance."""
        return self.compute_explained_variance(result.Z) >= self.target_variance

    def solve_cardinality(self, k: int, spec: FitSpec) -> ComponentResult:
        """Return the component with k variables, or groups, as a fit with this cardinality finds it.

        k is within `cardinality_range`. `spec` is ``self.spec`` with other starts or without local search; its sparsity
        is replaced by the `cardinality_spec` at level k. The random numbers are those of a copy of the generator, the
        same for every k. The penalty of the problem gets its level here for an exact cardinality, and from the
        calibration otherwise.
        """
        assert isinstance(spec.sparsity, MinCardinality)
        sparsity = replace(spec.sparsity.cardinality_spec, levels=(k,))
        problem = self.context.problem
        if isinstance(sparsity, ExactCardinality):
            problem = replace(problem, penalty=problem.penalty.at_cardinality(np.array([k])))
        context = replace(self.context, problem=problem, rng=deepcopy(self.context.rng))
        return self.solve(context, self.gamma, replace(spec, sparsity=sparsity))

    def bisect(self, enough: SizedSolution, too_few: int, spec: FitSpec) -> SizedSolution:
        """Return a solution with as few variables as bisection finds between one of enough and a number of too few.

        `enough` reaches the target variance, or is that of the largest cardinality; `too_few` is a smaller cardinality
        that does not reach it, or one less than the smallest cardinality. The solutions between are found by `spec`.
        """
        while enough.cardinality - too_few > 1:
            middle = (enough.cardinality + too_few) // 2
            result = self.solve_cardinality(middle, spec)
            if self.reaches_target(result):
                enough = SizedSolution(result, middle)
            else:
                too_few = middle
        return enough

    def find_sufficient(self) -> SizedSolution:
        """Find a cardinality that reaches the share, by single ascents from the unlimited component.

        Cardinalities are doubled until one suffices, then bisected. If none does, it is the largest one.
        """
        quick_spec = replace(self.spec, start=WarmStart(self.unlimited_loadings), local_search=False)
        k, high = self.cardinality_range
        too_few = k - 1
        result = self.solve_cardinality(k, quick_spec)
        while not self.reaches_target(result) and k < high:
            too_few = k
            k = min(2 * k, high)
            result = self.solve_cardinality(k, quick_spec)
        return self.bisect(SizedSolution(result, k), too_few, quick_spec)

    def find_fewest(self) -> ComponentResult:
        """Reduce a sufficient cardinality with all starts: by growing steps while they suffice, then by bisection.

        The component returned reaches the target variance if that of the sufficient cardinality does.
        """
        quick, k = self.find_sufficient()
        thorough = self.solve_cardinality(k, self.spec)
        least = (1 + RELATIVE_SHARE_TOLERANCE) * self.compute_explained_variance(quick.Z)
        fewest = SizedSolution(thorough if self.compute_explained_variance(thorough.Z) > least else quick, k)
        too_few = self.cardinality_range[0] - 1
        step = 1
        while fewest.cardinality - too_few > 1:
            k = max(fewest.cardinality - step, too_few + 1)
            result = self.solve_cardinality(k, self.spec)
            if not self.reaches_target(result):
                too_few = k
                break
            fewest = SizedSolution(result, k)
            step *= 2
        return self.bisect(fewest, too_few, self.spec).result
