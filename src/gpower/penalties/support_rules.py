"""Rules for admissible supports and their costs: groups, required and excluded variables, and weights.

Every variable belongs to a group, by default of its own, and a group is selected or not as a whole. Some groups are
required, some variables are excluded, and every group has a cost. A support is admissible at a maximum cost if it
contains all required groups and no excluded variable, and the costs of its groups sum to at most that maximum. If every
group costs one, the maximum cost is a number of groups. "Optional" groups are those that are not required.

Terms: there are n variables, g groups and m units (components). C, (n, m), are correlations, and the squared norm of a
group is ‖c‖² over its variables. `idx` are indices of variables in increasing order. ``find_largest_rows(values, k)``
gives the row indices, (k, m), of the k largest values of each column, in any order; which of equal values is not
specified. ``solve_knapsack(value, cost, capacity)`` gives the mask of the items of largest total value whose costs sum
to at most the capacity, with a relative tolerance of `RELATIVE_COST_TOLERANCE` for rounding.
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
    """Rules for the supports of n variables in g groups, with u columns: one for each unit, or one for all units.

    All arrays are on the host. The number of columns, m or one, may differ between attributes; a single column is
    broadcast against the m units of an argument. Squared norms of groups, (g, m), are those of `group_norms_sq`, of
    correlations without the excluded variables, in single or double precision.

    Attributes
    ----------
    group_labels : ndarray of int of shape (n,) or None
        Group of every variable, counted from 0; None if each variable is a group of its own. Every group has a variable
        (`reduce_groups` relies on it).
    group_costs : ndarray of shape (g, u)
        Non-negative costs of the groups, float64, in units that the caller chooses.
    required : ndarray of bool of shape (g, u)
        Groups that every support contains, without their excluded variables.
    excluded : ndarray of bool of shape (n, u)
        Variables that no support contains.
    required_cost : ndarray of shape (u,)
        Total cost of the required groups, float64, including those that a restriction to some variables has removed.
        Subtract it from a maximum cost to get what the optional groups may cost.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1, 2, 2]))
    >>> norms_sq = pairs.group_norms_sq(np.array([[1.0], [1.0], [2.0], [0.0], [0.0], [1.0]]))
    >>> pairs.select_groups(norms_sq, np.array([1.0])).ravel()
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
        """Create the rules from group labels; by default with unit costs and no required or excluded variables.

        `group_labels`, (n,) of int with n > 0, contains every number from 0 to its maximum, in any order; the other
        arguments are as the attributes.
        """
        g, n = int(group_labels.max()) + 1, group_labels.size
        group_costs = np.ones((g, 1)) if group_costs is None else group_costs
        required = np.zeros((g, 1), bool) if required is None else required
        excluded = np.zeros((n, 1), bool) if excluded is None else excluded
        labels = None if g == n and np.array_equal(group_labels, np.arange(n)) else group_labels
        return cls(labels, group_costs, required, excluded, np.sum(group_costs * required, axis=0))

    @property
    def n_groups(self) -> int:
        """Return the number g of groups."""
        return len(self.group_costs)

    @property
    def is_shared_by_units(self) -> bool:
        """Return whether all units have the same rules."""
        return self.group_costs.shape[1] == self.required.shape[1] == self.excluded.shape[1] == 1

    @property
    def usable_variables(self) -> Array:
        """Return the mask of the variables that some unit may use, (n,): those that are not excluded from all."""
        return np.asarray(~np.all(self.excluded, axis=1))

    @cached_property
    def uniform_cost(self) -> float:
        """Return the cost of every group if all groups cost the same in all units, otherwise zero.

        It is zero, too, if all groups cost nothing. If it is positive, a maximum cost is a number of groups times it.
        """
        first = float(self.group_costs.flat[0])
        return first if np.all(self.group_costs == first) else 0.0

    @cached_property
    def _group_order(self) -> tuple[Array, Array]:
        """Return the variables sorted by group, (n,), and the position at which each group begins, (g,).

        There must be labels. Variables of one group keep their order, so that sums over groups are reproducible.
        """
        assert self.group_labels is not None
        order = np.argsort(self.group_labels, kind="stable")
        return order, np.searchsorted(self.group_labels[order], np.arange(self.n_groups))

    @cached_property
    def group_sizes(self) -> Array:
        """Return the number of variables of each group that are not excluded, (g, u) of int; it may be zero."""
        return self.reduce_groups((~self.excluded).astype(np.intp))

    def reduce_groups(self, values: Array, operation: np.ufunc = np.add) -> Array:
        """Add values of variables, (n, …), over groups, (g, …), or reduce them by another operation; in their dtype.

        Excluded variables count too. If every variable is its own group, `values` itself is returned: do not write to
        the result.
        """
        if self.group_labels is None:
            return values
        order, starts = self._group_order
        return np.asarray(operation.reduceat(values[order], starts, axis=0))

    def mask_excluded(self, C: Array) -> Array:
        """Return C, (n, m), with zeros for excluded variables; C itself if there are none, so do not write to it."""
        return np.where(self.excluded, 0, C) if self.excluded.any() else C

    def group_norms_sq(self, C: Array) -> Array:
        """Compute ‖c‖² of every group, (g, m), in the dtype of C; C must be masked by `mask_excluded` before."""
        return self.reduce_groups(C * C)

    def broadcast_to_variables(self, values: Array) -> Array:
        """Return the values of groups, (g, m), at all of their variables, (n, m); perhaps `values` itself.

        Excluded variables get the value of their group too.
        """
        return values if self.group_labels is None else values[self.group_labels]

    def groups_hit(self, pattern: Array) -> Array:
        """Return the mask, (g, m), of the groups with a variable in a pattern, (n, m) of bool."""
        return self.reduce_groups(pattern.astype(np.intp)) > 0

    def group_members(self, i: int) -> Array:
        """Return the increasing indices of the variables of the group of variable i, with i and excluded ones."""
        return np.array([i]) if self.group_labels is None else np.flatnonzero(self.group_labels == self.group_labels[i])

    def select_groups(self, group_norms_sq: Array, max_cost: Array) -> Array:
        """Return the mask, (g, m), of the admissible groups of largest total squared norm at a maximum cost.

        `max_cost`, (m,) or (1,), includes the required groups, which are always selected, even if they cost more.
        Groups of squared norm zero may be selected too. Which of equally good selections is returned is not specified.
        The squared norms must not be negative. The mask is a new array.
        """
        shape = group_norms_sq.shape
        budget = np.broadcast_to(np.maximum(max_cost - self.required_cost, 0), shape[1])
        selected = np.broadcast_to(self.required, shape).copy()
        if not self.uniform_cost:
            costs = np.broadcast_to(self.group_costs, shape)
            for j in range(shape[1]):
                optional = np.flatnonzero(~selected[:, j])
                is_best = solve_knapsack(group_norms_sq[optional, j], costs[optional, j], float(budget[j]))
                selected[optional[is_best], j] = True
            return selected
        counts = (budget / self.uniform_cost * (1 + RELATIVE_COST_TOLERANCE)).astype(int)
        optional_norms_sq = np.where(self.required, -1, group_norms_sq)  # required groups come last
        # Units of one number of groups are ordered together.
        units = [slice(None)] if np.all(counts == counts[0]) else [slice(j, j + 1) for j in range(shape[1])]
        for unit, count in zip(units, counts.tolist(), strict=False):
            if count:
                rows = find_largest_rows(optional_norms_sq[:, unit], min(count, self.n_groups))
                np.put_along_axis(selected[:, unit], rows, True, axis=0)
        return selected

    def select_fractional_groups(self, group_norms_sq: Array, max_cost: Array) -> Array:
        """Return the shares of the groups, (g, m), selected at a maximum cost, (1,), with one fractional group.

        For the rules of one unit, with m columns of starts of that unit; the budget is what the required groups leave
        of the maximum cost. Required groups have share one, and so have groups without cost. Groups that cost more than
        the whole budget have share zero. The others are taken in the order of squared norm per cost while the budget
        lasts, the last one in part (Dantzig 1957). The shares, from 0 to 1, have the dtype of the squared norms; the
        order of groups of equal ratio is not specified.
        """
        budget = max(float(max_cost[0] - self.required_cost[0]), 0.0)
        cost = np.where(self.required, 0, self.group_costs)[:, 0]
        groups = np.flatnonzero((cost > 0) & (cost <= budget * (1 + RELATIVE_COST_TOLERANCE)))
        shares = np.repeat((cost == 0).astype(group_norms_sq.dtype)[:, None], group_norms_sq.shape[1], axis=1)
        max_count = int(np.searchsorted(np.cumsum(np.sort(cost[groups])), budget)) + 1  # more are never affordable
        ratio = group_norms_sq[groups] / cost[groups, None]
        rows = find_largest_rows(ratio, min(max_count, groups.size))
        rows = np.take_along_axis(rows, np.argsort(-np.take_along_axis(ratio, rows, axis=0), axis=0), axis=0)
        sorted_costs = cost[groups][rows]
        sorted_shares = np.clip(1 + (budget - np.cumsum(sorted_costs, axis=0)) / sorted_costs, 0, 1)
        shares[groups[rows], np.arange(group_norms_sq.shape[1])] = sorted_shares
        return shares

    def max_cardinality(self, max_cost: Array) -> int:
        """Return an upper bound on the number of variables (not groups) of any unit at a maximum cost, (m,) or (1,).

        Excluded variables do not count. The maximum cost includes the required groups.
        """
        n_units = max(max_cost.size, self.required_cost.size)
        budgets = np.broadcast_to(np.maximum(max_cost - self.required_cost, 0), n_units)
        return max(self.select_unit(j)._max_unit_cardinality(float(budget)) for j, budget in enumerate(budgets))

    def _max_unit_cardinality(self, budget: float) -> int:
        """Return an upper bound on the number of variables of a single unit, with one fractional group.

        These rules have one column; `budget`, not negative, is what the required groups leave of the maximum cost.
        Groups are taken by increasing cost per variable, required groups first, at no cost to the budget. At a budget
        below the cost of the first group the result is the size of the largest group, because callers take zero for an
        unknown number. They use the result as the size of working sets only, so that costs need no tolerance here.
        """
        sizes = self.group_sizes[:, 0]
        is_usable = sizes > 0
        sizes, cost = sizes[is_usable], np.where(self.required, 0, self.group_costs)[is_usable, 0]
        order = np.lexsort((-sizes, cost / sizes))
        if not order.size:
            return 0
        return int(np.interp(budget, np.cumsum(cost[order]), np.cumsum(sizes[order]), left=np.max(sizes)))

    def select_unit(self, j: int) -> SupportRules:
        """Return the rules of unit j, with one column; these rules themselves if all units share them.

        An attribute with one column for all units keeps it.
        """
        if self.is_shared_by_units:
            return self
        arrays = {name: getattr(self, name) for name in ("group_costs", "required", "excluded", "required_cost")}
        columns = {name: a if a.shape[-1] == 1 else a[..., j : j + 1] for name, a in arrays.items()}
        return replace(self, **columns)

    def restrict(self, idx: Array) -> SupportRules:
        """Return the rules of the variables `idx` alone; `required_cost` still includes the other required groups.

        Variable i of the result is idx[i]; `idx` is increasing. Groups without a variable in `idx` are dropped, the
        others numbered anew in their order. A group keeps its cost even if only some of its variables are in `idx`.
        """
        if self.group_labels is None:
            groups, labels = idx, None
        else:
            groups, labels = np.unique(self.group_labels[idx], return_inverse=True)
        costs, required = self.group_costs[groups], self.required[groups]
        return SupportRules(labels, costs, required, self.excluded[idx], self.required_cost)

    def with_unit_costs(self) -> SupportRules:
        """Return the rules with cost one for every group; `required_cost` is then the number of required groups.

        Required groups that a restriction has removed do not count.
        """
        ones = np.ones((self.n_groups, 1))
        return replace(self, group_costs=ones, required_cost=np.sum(ones * self.required, axis=0))
