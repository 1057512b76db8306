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

from gpower._utils.arrays import Array, safe_reciprocal
from gpower.penalties.elementary import Penalty, get_min_divisor
from gpower.penalties.support_rules import SupportRules


@dataclass(frozen=True, eq=False)
class GroupedPenalty(Penalty):
    """A penalty that asks what is admissible."""

    rules: SupportRules
    has_uniform_threshold = False

    @property
    def support_rules(self) -> SupportRules:
        """What is known."""
        return self.rules

    def select_unit(self, j: int) -> Self:
        """What unit j is allowed."""
        return replace(self, rules=self.rules.select_unit(j))

    def restrict(self, idx: Array) -> Self:
        """Among the variables `idx`."""
        return replace(self, rules=self.rules.restrict(idx))

    def count_selected(self, pattern: Array) -> Array:
        """Number of groups."""
        return np.count_nonzero(self.rules.groups_hit(pattern), axis=0)

    def select_pattern(self, scores: Array, counts: Array) -> Array:
        """The wanted number of groups."""
        known = self.rules.with_unit_costs()
        chosen = known.select_groups(known.group_norms_sq(known.mask_excluded(scores)), counts)
        return np.asarray(known.broadcast_to_variables(chosen) & ~known.excluded)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """√s of a group over its threshold, for each of its variables that is not barred."""
        known = self.rules
        return np.where(
            known.excluded,
            0.0,
            known.broadcast_to_variables(self._group_activity_ratio(known.group_norms_sq(known.mask_excluded(C)))),
        )

    @abstractmethod
    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        """Of groups, (g, m)."""

    def _max_group_norms(self, norms: Array, mu: Array) -> Array:
        """The largest possible √s of groups, (g, m), by the norms of their columns."""
        known = self.rules
        return np.sqrt(known.group_norms_sq(known.mask_excluded(norms[:, None].astype(np.float64) * mu)))


@dataclass(frozen=True, eq=False)
class GroupCardinality(GroupedPenalty):
    """Sum of the squares of the best groups that a level allows: a maximum of convex quadratics.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1]))
    >>> C = np.array([[3.0], [0.0], [2.0], [-2.5]])
    >>> value, gradient = GroupCardinality(pairs, np.array([1])).value_and_gradient(C)
    >>> value, gradient.ravel().tolist()
    (10.25, [0.0, 0.0, 4.0, -5.0])
    """

    max_cost: Array  # (m,), or (1,) for the same in every unit
    allows_partial_group: bool = False  # whether a part of the last group may be had for a part of its cost
    supports_local_search = True

    @property
    def relaxation(self) -> GroupCardinality:
        """With a part of the last group, a maximum of convex quadratics too; the same where all groups cost as much."""
        return self if self.rules.uniform_cost else replace(self, allows_partial_group=True)

    @property
    def max_cardinality(self) -> int:
        """The most variables of a unit."""
        return self.rules.max_cardinality(self.max_cost)

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the chosen groups."""
        known = self.rules
        C = known.mask_excluded(C)
        energy = known.group_norms_sq(C)
        chosen = self._compute_group_shares(energy)
        return np.sum(energy * chosen, axis=0, dtype=C.dtype), 2 * C * known.broadcast_to_variables(chosen)

    def _compute_group_shares(self, group_norms_sq: Array) -> Array:
        """What of each group is had, (g, m): all, nothing or a part."""
        return (self.rules.select_fractional_groups if self.allows_partial_group else self.rules.select_groups)(
            group_norms_sq, self.max_cost
        )

    def screen(self, norms: Array, mu: Array) -> Array:
        """Variables that vary and are not barred from every unit."""
        return (norms > 0) & self.rules.usable_variables

    def start_score(self, norms: Array) -> Array:
        """Nothing where a variable is barred from every unit."""
        return np.where(self.rules.usable_variables, norms, 0)

    def at_cardinality(self, k: Array) -> GroupCardinality:
        """Another level."""
        return GroupCardinality(self.rules, k)

    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        active = (self._compute_group_shares(group_norms_sq) > 0) & (group_norms_sq > 0)
        smallest = np.min(np.where(active, group_norms_sq, np.inf), axis=0)
        ratio = np.sqrt(group_norms_sq / np.maximum(smallest, float(np.finfo(group_norms_sq.dtype).tiny)))
        return np.where(active, np.inf, np.minimum(ratio, 1))


@dataclass(frozen=True, eq=False)
class WeightedPenalty(GroupedPenalty):
    """A penalty whose threshold is γ times the weight of a group."""

    gamma: Array  # (m,)

    def _group_thresholds(self, like: Array) -> Array:
        """γw of every group, (g, m), none where it is forced."""
        known = self.rules
        return np.asarray(np.where(known.required, 0, known.group_costs) * self.gamma, like.dtype)

    def at_gamma(self, gamma: Array) -> Self:
        """Another level."""
        return replace(self, gamma=gamma)

    def screen(self, norms: Array, mu: Array) -> Array:
        """Variables of groups whose columns together are long enough."""
        known, reach = self.rules, self._max_group_norms(norms, mu)
        able = self._group_activity_ratio(reach**2) > 1
        return np.any(known.broadcast_to_variables(able) & ~known.excluded, axis=1) & (norms > 0)

    def start_score(self, norms: Array) -> Array:
        """Of each group its longest column alone, which counts by γ at which the group would be let in."""
        known = self.rules
        worth = np.max(self._max_group_gammas(norms, np.ones(1)), axis=1)  # (g,)
        free = ~np.isfinite(worth)
        worth[free] = np.max(worth[~free], initial=0.0) or 1.0
        own = np.where(known.usable_variables, norms, 0)
        first = own > 0
        if known.group_labels is not None:
            longest = np.flatnonzero(own == known.max_over_groups(own)[known.group_labels])
            at = longest[np.unique(known.group_labels[longest], return_index=True)[1]]  # one of each group
            first = first & np.isin(np.arange(own.size), at)
        return np.where(first, known.broadcast_to_variables(np.sqrt(worth)[:, None])[:, 0], 0).astype(norms.dtype)

    def _max_group_gammas(self, norms: Array, mu: Array) -> Array:
        """The γ at which each group is out, (g, m), by the norms of its columns; infinite without weight."""
        weight = np.where(self.rules.required, 0, self.rules.group_costs)
        size = self._threshold_statistic(self._max_group_norms(norms, mu))
        return np.where(weight > 0, size / np.where(weight > 0, weight, 1), np.where(size > 0, np.inf, 0))

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """The largest of those that have a weight; zero where none has."""
        largest = self._max_group_gammas(norms, np.asarray(mu, float))
        return np.broadcast_to(np.max(np.where(np.isfinite(largest), largest, 0), axis=0), len(mu)).astype(float)

    @abstractmethod
    def _threshold_statistic(self, group_norms: Array) -> Array:
        """What of a group γw is compared with, of √s."""


@dataclass(frozen=True, eq=False)
class GroupL0(WeightedPenalty):
    """Σ (s_g − γw_g)₊: hard thresholding of groups.

    Examples
    --------
    >>> import numpy as np
    >>> known = SupportRules.from_groups(np.arange(2), group_costs=np.array([[1.0], [0.1]]))
    >>> GroupL0(known, np.array([1.0])).value_and_gradient(np.array([[3.0], [-0.5]]))[1].ravel().tolist()
    [6.0, -1.0]
    """

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Excess of the squares over γw."""
        known = self.rules
        C = known.mask_excluded(C)
        excess = known.group_norms_sq(C) - self._group_thresholds(C)
        active = excess > 0
        return np.sum(excess * active, axis=0), 2 * C * known.broadcast_to_variables(active)

    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        return np.sqrt(group_norms_sq) / np.maximum(
            np.sqrt(self._group_thresholds(group_norms_sq)), get_min_divisor(group_norms_sq)
        )

    def _threshold_statistic(self, group_norms: Array) -> Array:
        return group_norms * group_norms


@dataclass(frozen=True, eq=False)
class GroupL1(WeightedPenalty):
    """Σ (√s_g − γw_g)₊²: soft thresholding of the norms of groups.

    Examples
    --------
    >>> import numpy as np
    >>> pair = SupportRules.from_groups(np.array([0, 0]))
    >>> GroupL1(pair, np.array([1.0])).value_and_gradient(np.array([[3.0], [-4.0]]))[0]
    16.0
    """

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Squares of the soft-thresholded norms."""
        known = self.rules
        C = known.mask_excluded(C)
        root = np.sqrt(known.group_norms_sq(C))
        excess = np.maximum(root - self._group_thresholds(C), 0)
        return np.sum(excess * excess, axis=0), 2 * C * known.broadcast_to_variables(excess * safe_reciprocal(root))

    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        return np.sqrt(group_norms_sq) / np.maximum(
            self._group_thresholds(group_norms_sq), get_min_divisor(group_norms_sq)
        )

    def _threshold_statistic(self, group_norms: Array) -> Array:
        return group_norms
