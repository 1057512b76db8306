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
ROUNDING = 1e-9
#: Exchanges that improve a first selection, each among so many things on either side of where the room ends.
EXCHANGES, NEAR = 16, 64
#: Things above which most are left out before they are put in order.
MANY = 1024


def best_within(value: Array, cost: Array, room: float) -> Array:
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
    >>> best_within(np.array([6.0, 5.0, 5.0]), np.array([3.0, 2.0, 2.0]), 4.0)
    array([False,  True,  True])
    """
    room = room * (1 + ROUNDING)
    free = cost == 0
    chosen, tried = free.copy(), np.flatnonzero(~free & (value > 0) & (cost <= room))
    if tried.size > MANY:
        tried = tried[_near(value[tried], cost[tried], room)]
    tried = tried[np.argsort(-(value[tried] / cost[tried]), kind="stable")]
    while tried.size:
        v, c = value[tried].astype(np.float64), cost[tried].astype(np.float64)
        filled = _greedy(v, c, room)
        sure, hopeless = _settled(v, c, room, float(v[filled].sum()))
        if not (sure.any() or hopeless.any()):
            chosen[tried[_undominated(v, c, room, filled)]] = True
            break
        chosen[tried[sure]] = True
        room -= float(c[sure].sum())
        tried = tried[~(sure | hopeless)]
        tried = tried[cost[tried] <= room]
    return chosen


def _near(v: Array, c: Array, room: float) -> Array:
    """Of many things those that a better selection than the first may have, by the best of them alone.

    Where the room ends at the value ρ per cost, a thing brings the bound down by ρc − v, if that is positive.
    """
    ratio = v / c
    best = np.argpartition(-ratio, MANY // 4)[: MANY // 4]
    best = best[np.argsort(-ratio[best], kind="stable")]
    few, cost = v[best].astype(np.float64), c[best].astype(np.float64)
    costs, values = _filling(few, cost)
    end = int(np.searchsorted(costs, room, side="right")) - 1  # the first that does not fit
    if end >= best.size:
        return np.arange(v.size)
    slack = float(np.interp(room, costs, values)) - float(few[_greedy(few, cost, room)].sum())
    return np.flatnonzero(v - ratio[best[end]] * c >= -slack * (1 + 1e-9))


def _greedy(v: Array, c: Array, room: float) -> Array:
    """What fits in the order given, or the single most valuable thing, improved by exchanges while they help."""
    filled, single = np.cumsum(c) <= room, int(np.argmax(v))
    filled = filled if v[filled].sum() >= v[single] else np.arange(v.size) == single
    for _ in range(EXCHANGES):
        left = room - float(c[filled].sum())
        out = np.append(-1, np.flatnonzero(filled)[-NEAR:])  # −1: nothing goes
        into = np.flatnonzero(~filled)[:NEAR]
        gain = v[into][:, None] - np.where(out < 0, 0, v[out])
        gain = np.where(c[into][:, None] <= left + np.where(out < 0, 0, c[out]), gain, -1.0)
        if not gain.size or gain.max() <= 1e-12 * v[single]:
            break
        i, o = np.unravel_index(int(np.argmax(gain)), gain.shape)
        filled[out[o : o + 1][out[o] >= 0]] = False
        filled[into[i]] = True
    return filled


def _filling(v: Array, c: Array) -> tuple[Array, Array]:
    """What filling a room in the order given has cost and is worth after each thing."""
    return np.append(0.0, np.cumsum(c)), np.append(0.0, np.cumsum(v))


def _settled(v: Array, c: Array, room: float, found: float) -> tuple[Array, Array]:
    """Things that every selection worth more than what was found has, and those that none has."""
    least = found * (1 - 1e-12)
    hopeless = v + _without(v, c, room - c) < least
    return (_without(v, c, np.full(v.size, room)) < least) & ~hopeless, hopeless


def _without(v: Array, c: Array, room: Array) -> Array:
    """The bound on filling rooms, (n,), each with all things but one: what that one takes up is room for others."""
    costs, values = _filling(v, c)
    reached = costs[:-1] <= room
    return np.where(reached, np.interp(room + c, costs, values) - v, np.interp(room, costs, values))


def _undominated(v: Array, c: Array, room: float, filled: Array) -> Array:
    """The best selection by the list of undominated sums, as a mask."""
    found, end = float(v[filled].sum()), None
    costs, values, (spent, gained) = np.zeros(1), np.zeros(1), _filling(v, c)
    origins: list[
        Array
    ] = []  # of each sum, after each thing: the one before it, and beyond those the same with the thing
    for i in range(v.size):
        before = costs.size
        costs, values = np.append(costs, costs + c[i]), np.append(values, values + v[i])
        hope = values + np.interp(room - costs + spent[i + 1], spent, gained) - gained[i + 1]
        kept = np.flatnonzero((costs <= room) & (hope > found * (1 + 1e-12)))
        kept = kept[np.lexsort((-values[kept], costs[kept]))]
        kept = kept[values[kept] > np.append(-1.0, np.maximum.accumulate(values[kept])[:-1])[: kept.size]]
        costs, values = costs[kept], values[kept]
        origins.append(np.where(kept < before, kept, before - 1 - kept))
        if values.size and values[-1] > found:
            found, end = float(values[-1]), (i, values.size - 1)
    return filled if end is None else _traced(origins, *end, v.size)


def _traced(origins: list[Array], i: int, at: int, n: int) -> Array:
    """The things of a sum, from where it came: a negative origin has taken the thing."""
    mask = np.zeros(n, bool)
    for thing in range(i, -1, -1):
        origin = int(origins[thing][at])
        mask[thing], at = origin < 0, origin if origin >= 0 else -1 - origin
    return mask
