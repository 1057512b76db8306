"""Exchanges where not every support is admissible: a group out, another in, or one more where the level allows it.

A trade is judged by two vectors: what is left of the component without the group that goes, and its correlations with
the group that comes. The variance of their best combination, an eigenvalue of order two, is a lower bound on what the
trade gives, for all trades at once by two products.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower.penalties.knapsack import ROUNDING
from gpower.penalties.support_rules import Admissible

#: A trade must raise the variance by this much, relatively.
GAIN = 1e-10
#: Trades whose variance is computed where no lower bound shows a gain, on supports of no more variables than these.
TRIED, SMALL = 48, 64
#: Groups whose entry or exit may rearrange all others.
REARRANGED = 12
#: Multiplications that one polish may take.
WORK = 2e9


def trade_polish(S: Array, chosen: Array, known: Admissible, level: float) -> Array:
    """Trade groups while that raises λmax(S) on the variables of the chosen ones, and while WORK lasts.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Covariance of the candidate variables.
    chosen : ndarray of bool of shape (g,)
        Groups to begin with.
    known : Admissible
        Of a single unit, on the candidates.
    level : float

    Returns
    -------
    ndarray of bool of shape (g,)

    Examples
    --------
    >>> import numpy as np
    >>> pairs = Admissible.of(np.array([0, 0, 1, 1]))
    >>> trade_polish(np.diag([1.0, 2.0, 3.0, 1.0]), np.array([True, False]), pairs, 1.0)
    array([False,  True])
    """
    each = 4 * S.size * (1 + int(np.count_nonzero(chosen)))
    for _ in range(max(2, int(WORK / each))):
        trades, (value, u) = _trades(chosen, known, level), _leading(S, chosen, known)
        bounds = _lower_bounds(S, u, trades, known)
        if np.max(bounds, initial=0.0) > value * (1 + GAIN):
            chosen = _traded(chosen, trades[int(np.argmax(bounds))])
            continue
        few = np.argsort(-bounds, kind="stable")[: TRIED if np.count_nonzero(u) <= SMALL else 0]
        tried = [_traded(chosen, trades[t]) for t in few] + _rearranged(S, u, chosen, known, level)
        exact = [_value(S, each, known) for each in tried]
        if not max(exact, default=0.0) > value * (1 + GAIN):
            break
        chosen = tried[int(np.argmax(exact))]
    return chosen


def _trades(chosen: Array, known: Admissible, level: float) -> Array:
    """Pairs of a group that goes, −1 for none, and one that comes, as rows, of those that are admissible."""
    usable = known.sizes[:, 0] > 0
    out = np.append(-1, np.flatnonzero(chosen & ~known.forced[:, 0]))
    into = np.flatnonzero(~chosen & usable)
    pairs = np.stack(np.meshgrid(out, into, indexing="ij"), axis=-1).reshape(-1, 2)
    cost = np.append(known.cost[:, 0], 0.0)  # −1 is the last
    room = level - float(known.spent[0]) - float(np.sum(known.cost[chosen & ~known.forced[:, 0], 0]))
    fit = cost[pairs[:, 1]] - cost[pairs[:, 0]] <= room + 1e-9 * max(level, 1.0)
    return np.asarray(pairs[fit])


def _rearranged(S: Array, u: Array, chosen: Array, known: Admissible, level: float) -> list[Array]:
    """Where costs differ: selections after a group outside has come in, or one inside has gone, the others chosen anew.

    Such a trade exchanges several groups at once: a dear one for some that are cheap.
    """
    if known.even_cost or np.count_nonzero(u) > SMALL:
        return []
    pull, cost, forced = known.seen((S @ u)[:, None]), known.cost[:, 0], known.forced[:, 0]
    energy = known.energy(pull)[:, 0]
    order = np.argsort(-energy, kind="stable")
    into = order[(~chosen & (energy > 0) & (cost <= level - known.spent[0]))[order]][:REARRANGED]
    out = order[(chosen & ~forced)[order]][::-1][:REARRANGED]
    labels = np.arange(len(S))[:, None] if known.labels is None else known.labels[:, None]
    near = np.hstack([u[:, None] + pull * (labels == into) / np.sqrt(energy[into]), u[:, None] * (labels != out)])
    groups, none = np.arange(chosen.size)[:, None], np.full(REARRANGED, -1)
    must = forced[:, None] | (groups == np.append(into, none[: out.size]))
    energy = known.energy(known.seen(S @ near)) * (groups != np.append(none[: into.size], out))
    room = level - known.spent[0] - np.append(cost[into], np.zeros(out.size))
    return list(_filled(energy, cost, must, room * (1 + ROUNDING)).T)


def _filled(energy: Array, cost: Array, must: Array, room: Array) -> Array:
    """Selections, (g, m): what must be there, and in the order of energy per cost what a room, (m,), holds besides."""
    chosen, units = must | ((cost[:, None] == 0) & (energy > 0)), np.arange(room.size)
    ratio = np.where(chosen, 0.0, energy / np.where(cost > 0, cost, 1)[:, None])
    least = float(np.min(cost, where=cost > 0, initial=np.inf))
    for row in np.argsort(-ratio, axis=0, kind="stable"):
        fits = (ratio[row, units] > 0) & (cost[row] <= room)
        chosen[row[fits], units[fits]] = True
        room = room - np.where(fits, cost[row], 0.0)
        if not np.any(room >= least):
            break
    return chosen


def _traded(chosen: Array, trade: Array) -> Array:
    new = np.append(chosen, False)
    new[trade[0]], new[trade[1]] = False, True
    return new[:-1]


def _support(chosen: Array, known: Admissible) -> Array:
    """The variables of some groups."""
    return np.flatnonzero(known.spread(chosen[:, None])[:, 0] & ~known.barred[:, 0])


def _value(S: Array, chosen: Array, known: Admissible) -> float:
    """The largest variance on the variables of some groups."""
    support = _support(chosen, known)
    return float(np.linalg.eigvalsh(S[np.ix_(support, support)])[-1]) if support.size else 0.0


def _leading(S: Array, chosen: Array, known: Admissible) -> tuple[float, Array]:
    """The same, and its loadings among all, (n,)."""
    u, support = np.zeros(len(S)), _support(chosen, known)
    if not support.size:
        return 0.0, u
    w, U = np.linalg.eigh(S[np.ix_(support, support)])
    u[support] = U[:, -1]
    return float(w[-1]), u


def _lower_bounds(S: Array, u: Array, trades: Array, known: Admissible) -> Array:
    """The variance of the best combination of what stays and of what a group that comes adds to it."""
    going, at = np.unique(trades[:, 0], return_inverse=True)
    labels = np.arange(len(S)) if known.labels is None else known.labels
    left = u[:, None] * (labels[:, None] != going)  # (n, |going|)
    lengths = np.sqrt(np.sum(left * left, axis=0))
    left = left / np.where(lengths > 0, lengths, 1)
    pull = np.where(known.barred, 0, S @ left)
    own = np.sum(left * pull, axis=0)  # (|going|,)
    inside = known.energy(pull)  # (g, |going|)
    joint = known.summed(pull * (np.where(labels[:, None] == labels, S, 0) @ pull))
    q, b2, d = own[at], inside[trades[:, 1], at], joint[trades[:, 1], at]
    d = d / np.where(b2 > 0, b2, 1)
    return np.asarray((q + d) / 2 + np.sqrt(((q - d) / 2) ** 2 + b2))
