"""The most valuable things that fit: the knapsack problem, solved exactly.

Things are looked at in the order of value per cost. Filling in that order gives a selection, and filling the rest of
the room with a part of the next thing an upper bound (Dantzig 1957). What that bound shows to be in or out of every
better selection is settled; the few left make a list of sums of which none costs more and is worth less than another
(Nemhauser and Ullmann 1969), pruned by the same bound. The answer is exact because an ascent needs a convex objective:
the largest of all admissible ones is, the largest that a heuristic happens to find is not.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array

#: Room that rounding of sums of costs may take, relatively.
RELATIVE_COST_TOLERANCE = 1e-9
#: Exchanges that improve a first selection, each among so many things on either side of where the room ends.
MAX_KNAPSACK_EXCHANGES, EXCHANGE_WINDOW = 16, 64
#: Things above which most are left out before they are put in order.
MAX_UNFILTERED_ITEMS = 1024


def solve_knapsack(value: Array, cost: Array, capacity: float) -> Array:
    """Mask of the things, (n,), of largest total value whose costs sum to no more than the room.

    Things without cost are in, those without value are out where they cost anything.

    Parameters
    ----------
    value, cost : ndarray of shape (n,)
        Non-negative.
    room : float

    Examples
    --------
    >>> import numpy as np
    >>> solve_knapsack(np.array([6.0, 5.0, 5.0]), np.array([3.0, 2.0, 2.0]), 4.0)
    array([False,  True,  True])
    """
    capacity = capacity * (1 + RELATIVE_COST_TOLERANCE)
    free = cost == 0
    chosen, tried = free.copy(), np.flatnonzero(~free & (value > 0) & (cost <= capacity))
    if tried.size > MAX_UNFILTERED_ITEMS:
        tried = tried[_filter_promising_items(value[tried], cost[tried], capacity)]
    tried = tried[np.argsort(-(value[tried] / cost[tried]), kind="stable")]
    while tried.size:
        v, c = value[tried].astype(np.float64), cost[tried].astype(np.float64)
        filled = _fill_greedily(v, c, capacity)
        sure, hopeless = _fix_items(v, c, capacity, float(v[filled].sum()))
        if not (sure.any() or hopeless.any()):
            chosen[tried[_search_undominated(v, c, capacity, filled)]] = True
            break
        chosen[tried[sure]] = True
        capacity -= float(c[sure].sum())
        tried = tried[~(sure | hopeless)]
        tried = tried[cost[tried] <= capacity]
    return chosen


def _filter_promising_items(v: Array, c: Array, capacity: float) -> Array:
    """Of many things those that a better selection than the first may have, by the best of them alone.

    Where the room ends at the value ρ per cost, a thing brings the bound down by ρc − v, if that is positive.
    """
    ratio = v / c
    best = np.argpartition(-ratio, MAX_UNFILTERED_ITEMS // 4)[: MAX_UNFILTERED_ITEMS // 4]
    best = best[np.argsort(-ratio[best], kind="stable")]
    few, cost = v[best].astype(np.float64), c[best].astype(np.float64)
    costs, values = _cumulate_costs_and_values(few, cost)
    end = int(np.searchsorted(costs, capacity, side="right")) - 1  # the first that does not fit
    if end >= best.size:
        return np.arange(v.size)
    slack = float(np.interp(capacity, costs, values)) - float(few[_fill_greedily(few, cost, capacity)].sum())
    return np.flatnonzero(v - ratio[best[end]] * c >= -slack * (1 + 1e-9))


def _fill_greedily(v: Array, c: Array, capacity: float) -> Array:
    """What fits in the order given, or the single most valuable thing, improved by exchanges while they help."""
    filled, single = np.cumsum(c) <= capacity, int(np.argmax(v))
    filled = filled if v[filled].sum() >= v[single] else np.arange(v.size) == single
    for _ in range(MAX_KNAPSACK_EXCHANGES):
        left = capacity - float(c[filled].sum())
        out = np.append(-1, np.flatnonzero(filled)[-EXCHANGE_WINDOW:])  # −1: nothing goes
        into = np.flatnonzero(~filled)[:EXCHANGE_WINDOW]
        gain = v[into][:, None] - np.where(out < 0, 0, v[out])
        gain = np.where(c[into][:, None] <= left + np.where(out < 0, 0, c[out]), gain, -1.0)
        if not gain.size or gain.max() <= 1e-12 * v[single]:
            break
        i, o = np.unravel_index(int(np.argmax(gain)), gain.shape)
        filled[out[o : o + 1][out[o] >= 0]] = False
        filled[into[i]] = True
    return filled


def _cumulate_costs_and_values(v: Array, c: Array) -> tuple[Array, Array]:
    """What filling a room in the order given has cost and is worth after each thing."""
    return np.append(0.0, np.cumsum(c)), np.append(0.0, np.cumsum(v))


def _fix_items(v: Array, c: Array, capacity: float, best_value: float) -> tuple[Array, Array]:
    """Things that every selection worth more than what was found has, and those that none has."""
    least = best_value * (1 - 1e-12)
    hopeless = v + _bound_without_item(v, c, capacity - c) < least
    return (_bound_without_item(v, c, np.full(v.size, capacity)) < least) & ~hopeless, hopeless


def _bound_without_item(v: Array, c: Array, capacity: Array) -> Array:
    """The bound on filling rooms, (n,), each with all things but one: what that one takes up is room for others."""
    costs, values = _cumulate_costs_and_values(v, c)
    reached = costs[:-1] <= capacity
    return np.where(reached, np.interp(capacity + c, costs, values) - v, np.interp(capacity, costs, values))


def _search_undominated(v: Array, c: Array, capacity: float, filled: Array) -> Array:
    """The best selection by the list of undominated sums, as a mask."""
    found, end = float(v[filled].sum()), None
    costs, values, (spent, gained) = np.zeros(1), np.zeros(1), _cumulate_costs_and_values(v, c)
    origins: list[
        Array
    ] = []  # of each sum, after each thing: the one before it, and beyond those the same with the thing
    for i in range(v.size):
        before = costs.size
        costs, values = np.append(costs, costs + c[i]), np.append(values, values + v[i])
        hope = values + np.interp(capacity - costs + spent[i + 1], spent, gained) - gained[i + 1]
        kept = np.flatnonzero((costs <= capacity) & (hope > found * (1 + 1e-12)))
        kept = kept[np.lexsort((-values[kept], costs[kept]))]
        kept = kept[values[kept] > np.append(-1.0, np.maximum.accumulate(values[kept])[:-1])[: kept.size]]
        costs, values = costs[kept], values[kept]
        origins.append(np.where(kept < before, kept, before - 1 - kept))
        if values.size and values[-1] > found:
            found, end = float(values[-1]), (i, values.size - 1)
    return filled if end is None else _trace_selection(origins, *end, v.size)


def _trace_selection(origins: list[Array], i: int, at: int, n: int) -> Array:
    """The things of a sum, from where it came: a negative origin has taken the thing."""
    mask = np.zeros(n, bool)
    for thing in range(i, -1, -1):
        origin = int(origins[thing][at])
        mask[thing], at = origin < 0, origin if origin >= 0 else -1 - origin
    return mask
