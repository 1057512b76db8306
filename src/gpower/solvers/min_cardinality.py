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
from gpower.operators.leading_pca import leading_components
from gpower.penalties.elementary import Penalty
from gpower.solvers.initialization import Ground, Near
from gpower.solvers.specification import Exact, Recipe, Solution, Wish

#: A share that is missed by less, relatively, is reached.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Share(Wish):
    """The fewest variables that explain shares, the levels, of what an unrestricted component would."""

    inner: Wish
    counts = True
    sees_all = True

    def unit(self, j: int) -> Share:
        """The wish of unit j alone."""
        return replace(super().unit(j), inner=self.inner.unit(j))

    def gamma(self, norms: Array, mu: Array) -> Array:
        """As of the number that is sought."""
        return self.inner.gamma(norms, mu)

    def penalty(self, gamma: Array) -> Penalty:
        """That of the fewest variables."""
        return self.inner.penalty(gamma)

    def is_costly(self, block: bool) -> bool:
        """Many numbers are tried."""
        return True

    def solve(self, ground: Ground, gamma: Array, recipe: Recipe) -> Solution:
        """The solution of the fewest variables that reach the share."""
        asked = _Asked(self, ground, gamma, recipe)
        return asked.fewest(asked.sufficient())


@dataclass(frozen=True, eq=False)
class _Asked:
    """A share that is asked of one unit on a matrix."""

    wish: Share
    ground: Ground
    gamma: Array
    recipe: Recipe

    @property
    def numbers(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups, that are admissible."""
        problem = self.ground.problem
        known = problem.penalty.admissible
        if known is None:
            return 1, problem.operator.shape[1]
        return max(1, int(known.spent[0])), int(np.count_nonzero(known.sizes[:, 0]))

    def at(self, k: int, recipe: Recipe) -> Solution:
        """The solution of k variables, as a fit that asks for k would find it."""
        inner = replace(self.wish.inner, levels=(k,))
        problem = self.ground.problem
        if isinstance(inner, Exact):
            problem = replace(problem, penalty=problem.penalty.at_cardinality(np.array([k])))
        ground = replace(self.ground, problem=problem, rng=deepcopy(self.ground.rng))
        return inner.solve(ground, self.gamma, replace(recipe, wish=inner))

    def explained(self, Z: Array) -> float:
        """‖A z‖², or its square by the other variance."""
        problem = self.ground.problem
        return problem.samples.support(problem.operator, problem.operator.combine(Z)) ** 2

    def whole(self) -> Array:
        """The loadings of a component of all variables, (n, 1)."""
        problem = self.ground.problem
        free = problem.is_single and not problem.penalty.one_sided and problem.penalty.admissible is None
        if free:
            return problem.operator.own(leading_components(problem.operator, 1)[0])
        return self.at(self.numbers[1], replace(self.recipe, polish=False)).Z

    def sufficient(self) -> tuple[Solution, int, float]:
        """A solution that reaches the share, its number of variables, and what there is to reach."""
        z = self.whole()
        enough = self.wish.levels[0] * self.explained(z) * (1 - ROUNDING)
        near = replace(self.recipe, start=Near(z), polish=False)
        low, high = self.numbers
        k, too_few = low, low - 1
        while (found := self.at(k, near)) and self.explained(found.Z) < enough and k < high:
            too_few, k = k, min(2 * k, high)
        while k - too_few > 1:
            middle = (k + too_few) // 2
            tried = self.at(middle, near)
            if self.explained(tried.Z) < enough:
                too_few = middle
            else:
                found, k = tried, middle
        return found, k, enough

    def fewest(self, known: tuple[Solution, int, float]) -> Solution:
        """The same with all care: steps down of growing width while they suffice, then halves."""
        quick, k, enough = known
        best = max(quick, self.at(k, self.recipe), key=lambda found: self.explained(found.Z))
        too_few, step, stepping = self.numbers[0] - 1, 1, True
        while k - too_few > 1:
            tried = max(k - step, too_few + 1) if stepping else (k + too_few) // 2
            found = self.at(tried, self.recipe)
            if self.explained(found.Z) < enough:
                too_few, stepping = tried, False
            else:
                best, k, step = found, tried, 2 * step
        return best
