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
from gpower.penalties.elementary import top
from gpower.penalties.knapsack import ROUNDING, best_within


@dataclass(frozen=True, eq=False)
class Admissible:
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
    >>> pairs = Admissible.of(np.array([0, 0, 1, 1, 2, 2]))
    >>> energy = pairs.energy(np.array([[1.0], [1.0], [2.0], [0.0], [0.0], [1.0]]))
    >>> pairs.best(energy, np.array([1.0])).ravel()
    array([False,  True, False])
    """

    labels: Array | None
    cost: Array
    forced: Array
    barred: Array
    spent: Array

    @classmethod
    def of(
        cls,
        labels: Array,
        cost: Array | None = None,
        forced: Array | None = None,
        barred: Array | None = None,
    ) -> Admissible:
        """The same from labels, (n,), and what is known of groups, (g, u), and variables, (n, u); else nothing is."""
        g, n = int(labels.max()) + 1, labels.size
        cost = np.ones((g, 1)) if cost is None else cost
        forced = np.zeros((g, 1), bool) if forced is None else forced
        barred = np.zeros((n, 1), bool) if barred is None else barred
        alone = g == n and np.array_equal(labels, np.arange(n))
        return cls(None if alone else labels, cost, forced, barred, np.sum(cost * forced, axis=0))

    @property
    def n_groups(self) -> int:
        """g."""
        return len(self.cost)

    @property
    def alike(self) -> bool:
        """Whether all units are allowed the same."""
        return self.cost.shape[1] == self.forced.shape[1] == self.barred.shape[1] == 1

    @property
    def usable(self) -> Array:
        """Mask of the variables that some unit may use, (n,)."""
        return np.asarray(~np.all(self.barred, axis=1))

    @cached_property
    def even_cost(self) -> float:
        """What every group costs, where all cost the same; else zero."""
        first = float(self.cost.flat[0])
        return first if np.all(self.cost == first) else 0.0

    @cached_property
    def _order(self) -> tuple[Array, Array]:
        """Variables by group, and where each group begins among them."""
        assert self.labels is not None
        order = np.argsort(self.labels, kind="stable")
        return order, np.searchsorted(self.labels[order], np.arange(self.n_groups))

    @cached_property
    def sizes(self) -> Array:
        """Variables of each group that are not barred, (g, u)."""
        return self.summed((~self.barred).astype(np.intp))

    def summed(self, values: Array) -> Array:
        """Sums over groups, (g, m)."""
        if self.labels is None:
            return values
        order, begin = self._order
        return np.add.reduceat(values[order], begin, axis=0)

    def largest(self, values: Array) -> Array:
        """The largest of values, (n,), of every group, (g,)."""
        if self.labels is None:
            return values
        order, begin = self._order
        return np.asarray(np.maximum.reduceat(values[order], begin))

    def seen(self, C: Array) -> Array:
        """C, (n, m), with zeros where a variable is barred."""
        return np.where(self.barred, 0, C) if self.barred.any() else C

    def energy(self, C: Array) -> Array:
        """‖c‖² of every group, (g, m), of what `seen` leaves of C."""
        return self.summed(C * C)

    def spread(self, values: Array) -> Array:
        """Values of groups, (g, m), at their variables, (n, m)."""
        return values if self.labels is None else values[self.labels]

    def touched(self, pattern: Array) -> Array:
        """Groups with a variable in a pattern, (g, m)."""
        return self.summed(pattern.astype(np.intp)) > 0

    def members(self, i: int) -> Array:
        """The variables of the group of variable i."""
        return np.array([i]) if self.labels is None else np.flatnonzero(self.labels == self.labels[i])

    def best(self, energy: Array, level: Array) -> Array:
        """Mask of the groups of largest energy, (g, m), that a level, (m,) or (1,), allows; the forced among them."""
        room = np.maximum(level - self.spent, 0)  # (m,) or (1,)
        if self.even_cost and np.all(room == room[0]):
            return self._largest(energy, int(room[0] / self.even_cost * (1 + ROUNDING)))
        room = np.broadcast_to(room, energy.shape[1])
        return np.column_stack([self.unit(j)._chosen(energy[:, j], float(left)) for j, left in enumerate(room)])

    def _largest(self, energy: Array, count: int) -> Array:
        """The forced groups and so many others, where all units are allowed as many."""
        mask = np.zeros(energy.shape, bool)
        if count:
            rows = top(np.where(self.forced, -1, energy), min(count, self.n_groups))
            mask[rows, np.arange(energy.shape[1])] = True
        return mask | self.forced

    def _chosen(self, energy: Array, room: float) -> Array:
        """The forced groups of a single unit, (g,), and the best others that a room allows."""
        if self.even_cost:
            return self._largest(energy[:, None], int(room / self.even_cost * (1 + ROUNDING)))[:, 0]
        chosen = self.forced[:, 0].copy()
        free = np.flatnonzero(~chosen)
        chosen[free[best_within(energy[free], self.cost[free, 0], room)]] = True
        return chosen

    def parts(self, energy: Array, level: Array) -> Array:
        """Shares of the groups, (g, m), that a level, (1,), pays for in one unit, where a part of a group costs a part.

        In the order of energy per cost as long as there is room, the last in part (Dantzig 1957).
        """
        room, cost = max(float(level[0] - self.spent[0]), 0.0), np.where(self.forced, 0, self.cost)[:, 0]
        dear = np.flatnonzero((cost > 0) & (cost <= room * (1 + ROUNDING)))
        shares = np.repeat((cost == 0).astype(energy.dtype)[:, None], energy.shape[1], axis=1)
        count = int(np.searchsorted(np.cumsum(np.sort(cost[dear])), room)) + 1  # no more can be paid for
        ratio = energy[dear] / cost[dear, None]
        rows = top(ratio, min(count, dear.size))
        rows = np.take_along_axis(rows, np.argsort(-np.take_along_axis(ratio, rows, axis=0), axis=0), axis=0)
        price = cost[dear][rows]
        shares[dear[rows], np.arange(energy.shape[1])] = np.clip(1 + (room - np.cumsum(price, axis=0)) / price, 0, 1)
        return shares

    def most(self, level: Array) -> int:
        """No fewer than the most variables that a unit can have at a level."""
        room = np.broadcast_to(np.maximum(level - self.spent, 0), max(level.size, self.spent.size))
        return max(self.unit(j)._most(float(left)) for j, left in enumerate(room))

    def _most(self, room: float) -> int:
        """The same of a single unit, of the last group that a room has place for also a part."""
        sizes, cost = self.sizes[:, 0], np.where(self.forced, 0, self.cost)[:, 0]
        order = np.lexsort((-sizes, cost / np.maximum(sizes, 1)))
        return int(np.interp(room, np.cumsum(cost[order]), np.cumsum(sizes[order]), left=np.max(sizes)))

    def unit(self, j: int) -> Admissible:
        """What unit j is allowed."""
        if self.alike:
            return self
        mine = {name: _column(getattr(self, name), j) for name in ("cost", "forced", "barred")}
        return replace(self, **mine, spent=self.spent if self.spent.size == 1 else self.spent[j : j + 1])

    def restrict(self, idx: Array) -> Admissible:
        """The same among the variables `idx`; what the other forced groups cost stays spent."""
        if self.labels is None:
            return replace(self, cost=self.cost[idx], forced=self.forced[idx], barred=self.barred[idx])
        kept, labels = np.unique(self.labels[idx], return_inverse=True)
        return Admissible(labels, self.cost[kept], self.forced[kept], self.barred[idx], self.spent)

    def counting(self) -> Admissible:
        """The same where every group costs one."""
        one = np.ones((self.n_groups, 1))
        return replace(self, cost=one, spent=np.sum(one * self.forced, axis=0))


def _column(values: Array, j: int) -> Array:
    """Column j of (n, m); the one there is of (n, 1)."""
    return values if values.shape[1] == 1 else values[:, j : j + 1]
