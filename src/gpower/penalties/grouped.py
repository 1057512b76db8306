"""Penalties on admissible supports: the three of the library for groups, forced and barred variables, and weights.

With s_g = ‖c_g‖² over the variables of a group g that are not barred, and its weight w_g, zero where it is forced:

====================== ============================ ==================================================
penalty                φ(c) of one unit              without groups and weights
====================== ============================ ==================================================
`Chosen(level)`        max Σ_{g ∈ G} s_g, G an       `Cardinality`
                       admissible selection
`WeighedL0(gamma)`     Σ (s_g − γw_g)₊               `L0`
`WeighedL1(gamma)`     Σ (√s_g − γw_g)₊²             `L1`; of groups the group lasso's
====================== ============================ ==================================================

All three are convex: the first as a maximum of convex quadratics, whatever selections are admissible.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gpower._utils.arrays import Array, reciprocal
from gpower.penalties.elementary import Penalty, smallest_divisor
from gpower.penalties.support_rules import Admissible


@dataclass(frozen=True, eq=False)
class Restricted(Penalty):
    """A penalty that asks what is admissible."""

    known: Admissible
    even = False

    @property
    def admissible(self) -> Admissible:
        """What is known."""
        return self.known

    def unit(self, j: int) -> Self:
        """What unit j is allowed."""
        return replace(self, known=self.known.unit(j))

    def restrict(self, idx: Array) -> Self:
        """Among the variables `idx`."""
        return replace(self, known=self.known.restrict(idx))

    def count(self, pattern: Array) -> Array:
        """Number of groups."""
        return np.count_nonzero(self.known.touched(pattern), axis=0)

    def pattern_of(self, scores: Array, wanted: Array) -> Array:
        """The wanted number of groups."""
        known = self.known.counting()
        chosen = known.best(known.energy(known.seen(scores)), wanted)
        return np.asarray(known.spread(chosen) & ~known.barred)

    def relevance(self, C: Array, T: Array | None = None) -> Array:
        """√s of a group over its threshold, for each of its variables that is not barred."""
        known = self.known
        return np.where(known.barred, 0.0, known.spread(self._relevance(known.energy(known.seen(C)))))

    @abstractmethod
    def _relevance(self, energy: Array) -> Array:
        """Of groups, (g, m)."""

    def _reach(self, norms: Array, mu: Array) -> Array:
        """The largest possible √s of groups, (g, m), by the norms of their columns."""
        known = self.known
        return np.sqrt(known.energy(known.seen(norms[:, None].astype(np.float64) * mu)))


@dataclass(frozen=True, eq=False)
class Chosen(Restricted):
    """Sum of the squares of the best groups that a level allows: a maximum of convex quadratics.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = Admissible.of(np.array([0, 0, 1, 1]))
    >>> value, gradient = Chosen(pairs, np.array([1])).value_and_gradient(np.array([[3.0], [0.0], [2.0], [-2.5]]))
    >>> value, gradient.ravel().tolist()
    (10.25, [0.0, 0.0, 4.0, -5.0])
    """

    level: Array  # (m,), or (1,) for the same in every unit
    in_parts: bool = False  # whether a part of the last group may be had for a part of its cost
    polishable = True

    @property
    def relaxed(self) -> Chosen:
        """With a part of the last group, a maximum of convex quadratics too; the same where all groups cost as much."""
        return self if self.known.even_cost else replace(self, in_parts=True)

    @property
    def most(self) -> int:
        """The most variables of a unit."""
        return self.known.most(self.level)

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the chosen groups."""
        known = self.known
        C = known.seen(C)
        energy = known.energy(C)
        chosen = self._shares(energy)
        return np.sum(energy * chosen, axis=0, dtype=C.dtype), 2 * C * known.spread(chosen)

    def _shares(self, energy: Array) -> Array:
        """What of each group is had, (g, m): all, nothing or a part."""
        return (self.known.parts if self.in_parts else self.known.best)(energy, self.level)

    def keep(self, norms: Array, mu: Array) -> Array:
        """Variables that vary and are not barred from every unit."""
        return (norms > 0) & self.known.usable

    def promise(self, norms: Array) -> Array:
        """Nothing where a variable is barred from every unit."""
        return np.where(self.known.usable, norms, 0)

    def at_cardinality(self, k: Array) -> Chosen:
        """Another level."""
        return Chosen(self.known, k)

    def _relevance(self, energy: Array) -> Array:
        active = (self._shares(energy) > 0) & (energy > 0)
        smallest = np.min(np.where(active, energy, np.inf), axis=0)
        ratio = np.sqrt(energy / np.maximum(smallest, float(np.finfo(energy.dtype).tiny)))
        return np.where(active, np.inf, np.minimum(ratio, 1))


@dataclass(frozen=True, eq=False)
class Weighed(Restricted):
    """A penalty whose threshold is γ times the weight of a group."""

    gamma: Array  # (m,)

    def _levels(self, like: Array) -> Array:
        """γw of every group, (g, m), none where it is forced."""
        known = self.known
        return np.asarray(np.where(known.forced, 0, known.cost) * self.gamma, like.dtype)

    def at_gamma(self, gamma: Array) -> Self:
        """Another level."""
        return replace(self, gamma=gamma)

    def keep(self, norms: Array, mu: Array) -> Array:
        """Variables of groups whose columns together are long enough."""
        known, reach = self.known, self._reach(norms, mu)
        able = self._relevance(reach**2) > 1
        return np.any(known.spread(able) & ~known.barred, axis=1) & (norms > 0)

    def promise(self, norms: Array) -> Array:
        """Of each group its longest column alone, which counts by γ at which the group would be let in."""
        known = self.known
        worth = np.max(self._largest_gamma(norms, np.ones(1)), axis=1)  # (g,)
        free = ~np.isfinite(worth)
        worth[free] = np.max(worth[~free], initial=0.0) or 1.0
        own = np.where(known.usable, norms, 0)
        first = own > 0
        if known.labels is not None:
            longest = np.flatnonzero(own == known.largest(own)[known.labels])
            at = longest[np.unique(known.labels[longest], return_index=True)[1]]  # one of each group
            first = first & np.isin(np.arange(own.size), at)
        return np.where(first, known.spread(np.sqrt(worth)[:, None])[:, 0], 0).astype(norms.dtype)

    def _largest_gamma(self, norms: Array, mu: Array) -> Array:
        """The γ at which each group is out, (g, m), by the norms of its columns; infinite without weight."""
        weight = np.where(self.known.forced, 0, self.known.cost)
        size = self._size(self._reach(norms, mu))
        return np.where(weight > 0, size / np.where(weight > 0, weight, 1), np.where(size > 0, np.inf, 0))

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """The largest of those that have a weight; zero where none has."""
        largest = self._largest_gamma(norms, np.asarray(mu, float))
        return np.broadcast_to(np.max(np.where(np.isfinite(largest), largest, 0), axis=0), len(mu)).astype(float)

    @abstractmethod
    def _size(self, root: Array) -> Array:
        """What of a group γw is compared with, of √s."""


@dataclass(frozen=True, eq=False)
class WeighedL0(Weighed):
    """Σ (s_g − γw_g)₊: hard thresholding of groups.

    Examples
    --------
    >>> import numpy as np
    >>> known = Admissible.of(np.arange(2), cost=np.array([[1.0], [0.1]]))
    >>> WeighedL0(known, np.array([1.0])).value_and_gradient(np.array([[3.0], [-0.5]]))[1].ravel().tolist()
    [6.0, -1.0]
    """

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Excess of the squares over γw."""
        known = self.known
        C = known.seen(C)
        excess = known.energy(C) - self._levels(C)
        active = excess > 0
        return np.sum(excess * active, axis=0), 2 * C * known.spread(active)

    def _relevance(self, energy: Array) -> Array:
        return np.sqrt(energy) / np.maximum(np.sqrt(self._levels(energy)), smallest_divisor(energy))

    def _size(self, root: Array) -> Array:
        return root * root


@dataclass(frozen=True, eq=False)
class WeighedL1(Weighed):
    """Σ (√s_g − γw_g)₊²: soft thresholding of the norms of groups.

    Examples
    --------
    >>> import numpy as np
    >>> pair = Admissible.of(np.array([0, 0]))
    >>> WeighedL1(pair, np.array([1.0])).value_and_gradient(np.array([[3.0], [-4.0]]))[0]
    16.0
    """

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the soft-thresholded norms."""
        known = self.known
        C = known.seen(C)
        root = np.sqrt(known.energy(C))
        excess = np.maximum(root - self._levels(C), 0)
        return np.sum(excess * excess, axis=0), 2 * C * known.spread(excess * reciprocal(root))

    def _relevance(self, energy: Array) -> Array:
        return np.sqrt(energy) / np.maximum(self._levels(energy), smallest_divisor(energy))

    def _size(self, root: Array) -> Array:
        return root
