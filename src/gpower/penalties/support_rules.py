"""Which supports are admissible, and what they cost: groups, variables that must or must not be used, weights.

Variables come in groups, each alone if nothing is said; a group is in or out as a whole. Some groups are forced, some
variables are barred, and a group that is in costs something. A support is admissible at a level if it has all forced
groups, no barred variable, and costs no more than the level. Where each costs one, the level is a number of groups.

All that a search for a component wants to know of this it asks here: how much of a component a group has, which groups
are the best that a level allows, what is left on some of the columns, what unit j is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array
from gpower.penalties.elementary import find_largest_rows
from gpower.penalties.knapsack import RELATIVE_COST_TOLERANCE, solve_knapsack


@dataclass(frozen=True, eq=False)
class SupportRules:
    """Admissible supports of n variables in g groups, for u units: one column for each, or one for all.

    Attributes
    ----------
    labels : ndarray of int of shape (n,) or None
        The group of every variable, from 0 on; None where each is a group of its own.
    cost : ndarray of shape (g, u)
        Of a group, not negative.
    forced : ndarray of bool of shape (g, u)
    barred : ndarray of bool of shape (n, u)
    spent : ndarray of shape (u,)
        What the forced groups cost, also those that are not among these variables.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1, 2, 2]))
    >>> energy = pairs.group_norms_sq(np.array([[1.0], [1.0], [2.0], [0.0], [0.0], [1.0]]))
    >>> pairs.select_groups(energy, np.array([1.0])).ravel()
    array([False,  True, False])
    """

    group_labels: Array | None
    group_costs: Array
    required: Array
    excluded: Array
    required_cost: Array

    @classmethod
    def from_groups(
        cls,
        group_labels: Array,
        group_costs: Array | None = None,
        required: Array | None = None,
        excluded: Array | None = None,
    ) -> SupportRules:
        """The same from labels, (n,), and what is known of groups, (g, u), and variables, (n, u); else nothing is."""
        g, n = int(group_labels.max()) + 1, group_labels.size
        group_costs = np.ones((g, 1)) if group_costs is None else group_costs
        required = np.zeros((g, 1), bool) if required is None else required
        excluded = np.zeros((n, 1), bool) if excluded is None else excluded
        alone = g == n and np.array_equal(group_labels, np.arange(n))
        return cls(
            None if alone else group_labels, group_costs, required, excluded, np.sum(group_costs * required, axis=0)
        )

    @property
    def n_groups(self) -> int:
        """g."""
        return len(self.group_costs)

    @property
    def is_shared_by_units(self) -> bool:
        """Whether all units are allowed the same."""
        return self.group_costs.shape[1] == self.required.shape[1] == self.excluded.shape[1] == 1

    @property
    def usable_variables(self) -> Array:
        """Mask of the variables that some unit may use, (n,)."""
        return np.asarray(~np.all(self.excluded, axis=1))

    @cached_property
    def uniform_cost(self) -> float:
        """What every group costs, where all cost the same; else zero."""
        first = float(self.group_costs.flat[0])
        return first if np.all(self.group_costs == first) else 0.0

    @cached_property
    def _group_order(self) -> tuple[Array, Array]:
        """Variables by group, and where each group begins among them."""
        assert self.group_labels is not None
        order = np.argsort(self.group_labels, kind="stable")
        return order, np.searchsorted(self.group_labels[order], np.arange(self.n_groups))

    @cached_property
    def group_sizes(self) -> Array:
        """Variables of each group that are not barred, (g, u)."""
        return self.sum_groups((~self.excluded).astype(np.intp))

    def sum_groups(self, values: Array) -> Array:
        """Sums over groups, (g, m)."""
        if self.group_labels is None:
            return values
        order, begin = self._group_order
        return np.add.reduceat(values[order], begin, axis=0)

    def max_over_groups(self, values: Array) -> Array:
        """The largest of values, (n,), of every group, (g,)."""
        if self.group_labels is None:
            return values
        order, begin = self._group_order
        return np.asarray(np.maximum.reduceat(values[order], begin))

    def mask_excluded(self, C: Array) -> Array:
        """C, (n, m), with zeros where a variable is barred."""
        return np.where(self.excluded, 0, C) if self.excluded.any() else C

    def group_norms_sq(self, C: Array) -> Array:
        """‖c‖² of every group, (g, m), of what `seen` leaves of C."""
        return self.sum_groups(C * C)

    def broadcast_to_variables(self, values: Array) -> Array:
        """Values of groups, (g, m), at their variables, (n, m)."""
        return values if self.group_labels is None else values[self.group_labels]

    def groups_hit(self, pattern: Array) -> Array:
        """Groups with a variable in a pattern, (g, m)."""
        return self.sum_groups(pattern.astype(np.intp)) > 0

    def group_members(self, i: int) -> Array:
        """The variables of the group of variable i."""
        return np.array([i]) if self.group_labels is None else np.flatnonzero(self.group_labels == self.group_labels[i])

    def select_groups(self, group_norms_sq: Array, max_cost: Array) -> Array:
        """Mask of the groups of largest energy, (g, m), that a level, (m,) or (1,), allows; the forced among them."""
        room = np.maximum(max_cost - self.required_cost, 0)  # (m,) or (1,)
        if self.uniform_cost and np.all(room == room[0]):
            return self._select_largest_groups(
                group_norms_sq, int(room[0] / self.uniform_cost * (1 + RELATIVE_COST_TOLERANCE))
            )
        room = np.broadcast_to(room, group_norms_sq.shape[1])
        return np.column_stack(
            [self.select_unit(j)._select_unit_groups(group_norms_sq[:, j], float(left)) for j, left in enumerate(room)]
        )

    def _select_largest_groups(self, group_norms_sq: Array, n_groups: int) -> Array:
        """The forced groups and so many others, where all units are allowed as many."""
        mask = np.zeros(group_norms_sq.shape, bool)
        if n_groups:
            rows = find_largest_rows(np.where(self.required, -1, group_norms_sq), min(n_groups, self.n_groups))
            mask[rows, np.arange(group_norms_sq.shape[1])] = True
        return mask | self.required

    def _select_unit_groups(self, group_norms_sq: Array, remaining_cost: float) -> Array:
        """The forced groups of a single unit, (g,), and the best others that a room allows."""
        if self.uniform_cost:
            return self._select_largest_groups(
                group_norms_sq[:, None], int(remaining_cost / self.uniform_cost * (1 + RELATIVE_COST_TOLERANCE))
            )[:, 0]
        chosen = self.required[:, 0].copy()
        free = np.flatnonzero(~chosen)
        chosen[free[solve_knapsack(group_norms_sq[free], self.group_costs[free, 0], remaining_cost)]] = True
        return chosen

    def select_fractional_groups(self, group_norms_sq: Array, max_cost: Array) -> Array:
        """Shares of the groups, (g, m), that a level, (1,), pays for in one unit, where a part of a group costs a part.

        In the order of energy per cost as long as there is room, the last in part (Dantzig 1957).
        """
        room, cost = (
            max(float(max_cost[0] - self.required_cost[0]), 0.0),
            np.where(self.required, 0, self.group_costs)[:, 0],
        )
        dear = np.flatnonzero((cost > 0) & (cost <= room * (1 + RELATIVE_COST_TOLERANCE)))
        shares = np.repeat((cost == 0).astype(group_norms_sq.dtype)[:, None], group_norms_sq.shape[1], axis=1)
        count = int(np.searchsorted(np.cumsum(np.sort(cost[dear])), room)) + 1  # no more can be paid for
        ratio = group_norms_sq[dear] / cost[dear, None]
        rows = find_largest_rows(ratio, min(count, dear.size))
        rows = np.take_along_axis(rows, np.argsort(-np.take_along_axis(ratio, rows, axis=0), axis=0), axis=0)
        price = cost[dear][rows]
        shares[dear[rows], np.arange(group_norms_sq.shape[1])] = np.clip(
            1 + (room - np.cumsum(price, axis=0)) / price, 0, 1
        )
        return shares

    def max_cardinality(self, max_cost: Array) -> int:
        """No fewer than the most variables that a unit can have at a level."""
        room = np.broadcast_to(
            np.maximum(max_cost - self.required_cost, 0), max(max_cost.size, self.required_cost.size)
        )
        return max(self.select_unit(j)._max_unit_cardinality(float(left)) for j, left in enumerate(room))

    def _max_unit_cardinality(self, remaining_cost: float) -> int:
        """The same of a single unit, of the last group that a room has place for also a part."""
        sizes, cost = self.group_sizes[:, 0], np.where(self.required, 0, self.group_costs)[:, 0]
        order = np.lexsort((-sizes, cost / np.maximum(sizes, 1)))
        return int(np.interp(remaining_cost, np.cumsum(cost[order]), np.cumsum(sizes[order]), left=np.max(sizes)))

    def select_unit(self, j: int) -> SupportRules:
        """What unit j is allowed."""
        if self.is_shared_by_units:
            return self
        mine = {name: _take_unit_column(getattr(self, name), j) for name in ("group_costs", "required", "excluded")}
        return replace(
            self,
            **mine,
            required_cost=self.required_cost if self.required_cost.size == 1 else self.required_cost[j : j + 1],
        )

    def restrict(self, idx: Array) -> SupportRules:
        """The same among the variables `idx`; what the other forced groups cost stays spent."""
        if self.group_labels is None:
            return replace(
                self, group_costs=self.group_costs[idx], required=self.required[idx], excluded=self.excluded[idx]
            )
        kept, labels = np.unique(self.group_labels[idx], return_inverse=True)
        return SupportRules(labels, self.group_costs[kept], self.required[kept], self.excluded[idx], self.required_cost)

    def with_unit_costs(self) -> SupportRules:
        """The same where every group costs one."""
        one = np.ones((self.n_groups, 1))
        return replace(self, group_costs=one, required_cost=np.sum(one * self.required, axis=0))


def _take_unit_column(values: Array, j: int) -> Array:
    """Column j of (n, m); the one there is of (n, 1)."""
    return values if values.shape[1] == 1 else values[:, j : j + 1]
