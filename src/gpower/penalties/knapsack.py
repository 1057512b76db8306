"""Exact solution of the knapsack problem: the items of largest total value whose costs fit in a capacity.

Items are sorted by value per cost. Filling the capacity in that order gives a selection; adding a fraction of the next
item gives an upper bound (Dantzig 1957). Items that this bound shows to be in, or out of, every better selection are
fixed. For the few items left, a list of undominated sums, none of which costs more and is worth less than another, is
built item by item (Nemhauser and Ullmann 1969) and pruned by the same bound. The solution must be exact because an
ascent needs a convex objective: the maximum over all selections that fit is convex, the best selection that a
heuristic finds is not.

Terms: v and c are the values and the costs of n items, (n,), `capacity` is the largest sum of costs. A selection is a
mask of items, (n,) of bool, or the items where it is true; it fits if its costs sum to at most the capacity. All arrays
are on the host. The private functions take positive v and c in float64, every cost within the capacity, sorted by
decreasing v/c (items of equal ratio in any order), unless they say otherwise. "Worth" means the sum of values.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array

#: Relative excess over the capacity that is accepted as rounding of a sum of costs.
RELATIVE_COST_TOLERANCE = 1e-9
#: Largest number of swaps that improve the greedy selection. Without swaps 50 to 3000 items of random costs take 1.3 to
#: 3.6 times as long.
MAX_KNAPSACK_SWAPS = 16
#: Number of selected items, and of unselected ones, that a swap considers, in the order of value per cost.
SWAP_WINDOW = 64
#: Largest number of items that are sorted without discarding most of them first. With 20,000 items of random costs this
#: saves 3.6 of 5.1 ms, and two components of 15,000 variables with a budget take 3.7 instead of 5.3 s.
MAX_UNFILTERED_ITEMS = 1024
#: Relative difference up to which two sums of values count as equal: rounding of sums of some thousand float64 numbers.
RELATIVE_VALUE_TOLERANCE = 1e-12
#: The same for values that are not sorted, and may be in single precision, when most items are discarded. A larger
#: tolerance only keeps more items.
RELATIVE_FILTER_TOLERANCE = 1e-9


def solve_knapsack(value: Array, cost: Array, capacity: float) -> Array:
    """Return the mask, (n,), of the items of largest total value whose costs sum to at most the capacity.

    Items without cost are selected. Items with a cost but without value are not. The mask is bool, on the host. Of
    selections whose values agree to a relative 1e-12 any one is returned, always the same one for the same arguments.

    Parameters
    ----------
    value, cost : ndarray of shape (n,)
        Non-negative values and costs of the items in any order, on the host, in single or double precision; they may
        have different dtypes, and n may be zero. They are not changed.
    capacity : float
        Largest total cost, not negative; zero selects only items without cost. A sum may exceed it by a relative 1e-9.

    Examples
    --------
    >>> import numpy as np
    >>> solve_knapsack(np.array([6.0, 5.0, 5.0]), np.array([3.0, 2.0, 2.0]), 4.0)
    array([False,  True,  True])
    """
    capacity = capacity * (1 + RELATIVE_COST_TOLERANCE)
    selected = cost == 0
    items = np.flatnonzero(~selected & (value > 0) & (cost <= capacity))
    if items.size > MAX_UNFILTERED_ITEMS:
        items = items[_filter_promising_items(value[items], cost[items], capacity)]
    items = items[np.argsort(-(value[items] / cost[items]), kind="stable")]
    while items.size:
        v, c = value[items].astype(np.float64), cost[items].astype(np.float64)
        greedy = _fill_greedily(v, c, capacity)
        always_in, always_out = _fix_items(v, c, capacity, float(v[greedy].sum()))
        if not (always_in.any() or always_out.any()):
            selected[items[_search_undominated(v, c, capacity, greedy)]] = True
            break
        selected[items[always_in]] = True
        capacity -= float(c[always_in].sum())
        items = items[~(always_in | always_out)]
        items = items[cost[items] <= capacity]
    return selected


def _filter_promising_items(v: Array, c: Array, capacity: float) -> Array:
    """Return the increasing indices of the items that a selection worth as much as the greedy one may contain.

    Values v and costs c, (n,) with n > `MAX_UNFILTERED_ITEMS`, are positive, in any order and precision, and every cost
    fits in the capacity. All items are returned if those of the largest value per cost fit in it together. The greedy
    selection uses only these items. If the capacity is used up at the value ρ per cost, selecting an item lowers the
    upper bound by ρc − v, if that is positive. The items of the greedy selection are among those returned, because the
    caller does not store it.
    """
    ratio = v / c
    best = np.argpartition(-ratio, MAX_UNFILTERED_ITEMS // 4)[: MAX_UNFILTERED_ITEMS // 4]
    best = best[np.argsort(-ratio[best], kind="stable")]
    best_v, best_c = v[best].astype(np.float64), c[best].astype(np.float64)
    values, costs = _cumulate_values_and_costs(best_v, best_c)
    first_out = int(np.searchsorted(costs, capacity, side="right")) - 1  # the first item that does not fit
    if first_out >= best.size:
        return np.arange(v.size)
    greedy = _fill_greedily(best_v, best_c, capacity)
    slack = float(np.interp(capacity, costs, values)) - float(best_v[greedy].sum())
    return np.flatnonzero(v - ratio[best[first_out]] * c >= -slack * (1 + RELATIVE_FILTER_TOLERANCE))


def _fill_greedily(v: Array, c: Array, capacity: float) -> Array:
    """Return the mask, (n,), of a good selection that fits: items in order, or the most valuable item, with swaps.

    The first items that fit are taken, up to the first one that does not, or the most valuable item alone if it is
    worth more. Then a selected item is swapped for another one, or one is added, while that raises the value. Values v
    and costs c, (n,) with n > 0, are positive float64, sorted by decreasing v/c; every cost is at most `capacity`.
    """
    selected = np.cumsum(c) <= capacity
    most_valuable = int(np.argmax(v))
    if v[selected].sum() < v[most_valuable]:
        selected = np.arange(v.size) == most_valuable
    for _ in range(MAX_KNAPSACK_SWAPS):
        remaining = capacity - float(c[selected].sum())
        leaving = np.append(-1, np.flatnonzero(selected)[-SWAP_WINDOW:])  # −1: no item leaves
        entering = np.flatnonzero(~selected)[:SWAP_WINDOW]
        gain = v[entering][:, None] - np.where(leaving < 0, 0, v[leaving])  # (|entering|, |leaving|)
        gain = np.where(c[entering][:, None] <= remaining + np.where(leaving < 0, 0, c[leaving]), gain, -1.0)
        if not gain.size or gain.max() <= RELATIVE_VALUE_TOLERANCE * v[most_valuable]:
            break
        i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if leaving[j] >= 0:
            selected[leaving[j]] = False
        selected[entering[i]] = True
    return selected


def _cumulate_values_and_costs(v: Array, c: Array) -> tuple[Array, Array]:
    """Return the sums of the values v, and of the costs c, of the first i items, for i = 0, …, n.

    v and c are (n,), positive float64; both results are (n + 1,), increasing from zero, so that the costs serve as
    abscissae of an interpolation.
    """
    return np.append(0.0, np.cumsum(v)), np.append(0.0, np.cumsum(c))


def _fix_items(v: Array, c: Array, capacity: float, best_value: float) -> tuple[Array, Array]:
    """Return the masks of the items that every selection worth at least `best_value` contains, and that none contains.

    Both are true of every selection that fits and is worth at least `best_value`. `best_value` is the value of a known
    selection, which the caller does not store: it goes on with the items of neither mask and must find that selection
    again, or a better one. Hence an item is fixed only if the upper bound for the opposite choice is below `best_value`
    by more than rounding; a bound equal to `best_value` fixes nothing.

    v and c, (n,) with n > 0, are positive float64, sorted by decreasing v/c; every cost is at most `capacity`. The
    masks, (n,), do not overlap: both bounds can be too low only by rounding, and then the item counts as out.
    """
    threshold = best_value * (1 - RELATIVE_VALUE_TOLERANCE)
    always_out = v + _bound_without_item(v, c, capacity - c) < threshold
    always_in = (_bound_without_item(v, c, np.full(v.size, capacity)) < threshold) & ~always_out
    return always_in, always_out


def _bound_without_item(v: Array, c: Array, capacity: Array) -> Array:
    """Compute the upper bound, (n,), on the value of filling `capacity[i]` with all items except item i.

    v, c and `capacity`, (n,), are float64; v and c are positive, `capacity` is not negative. Items are sorted by
    decreasing v/c, so that the value of the best fractional filling is an interpolation of cumulative values over
    cumulative costs. If the items before item i fill `capacity[i]`, leaving item i out changes nothing. Otherwise the
    filling without it is the filling of ``capacity[i] + c[i]`` with it, less its value.
    """
    values, costs = _cumulate_values_and_costs(v, c)
    is_reached = costs[:-1] <= capacity  # the items before item i fit
    return np.where(is_reached, np.interp(capacity + c, costs, values) - v, np.interp(capacity, costs, values))


def _search_undominated(v: Array, c: Array, capacity: float, greedy: Array) -> Array:
    """Return the mask, (n,), of the selection of largest value that fits, by a list of undominated selections.

    v and c, (n,) with n > 0, are positive float64, sorted by decreasing v/c, on which the bound relies. `greedy`, (n,),
    is the mask of a selection that fits; it is returned if no selection is worth more by a relative 1e-12. The list has
    up to 2ⁿ selections, usually far fewer: fix items with `_fix_items` first.
    """
    best, best_value = greedy, float(v[greedy].sum())
    all_values, all_costs = _cumulate_values_and_costs(v, c)
    # Selections of some of the first items; after every item both sums increase strictly: the last selection is best.
    values, costs, masks = np.zeros(1), np.zeros(1), np.zeros((1, v.size), bool)
    for i in range(v.size):
        n_before = values.size
        values, costs = np.append(values, values + v[i]), np.append(costs, costs + c[i])
        bound = values + np.interp(capacity - costs + all_costs[i + 1], all_costs, all_values) - all_values[i + 1]
        idx = np.flatnonzero((costs <= capacity) & (bound > best_value * (1 + RELATIVE_VALUE_TOLERANCE)))
        idx = idx[np.lexsort((-values[idx], costs[idx]))]
        idx = idx[values[idx] > np.append(-1.0, np.maximum.accumulate(values[idx])[:-1])[: idx.size]]
        values, costs, masks = values[idx], costs[idx], masks[idx % n_before]
        masks[:, i] = idx >= n_before
        if values.size and values[-1] > best_value:
            best, best_value = masks[-1], float(values[-1])
    return best
