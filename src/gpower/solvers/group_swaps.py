"""Exchanges where not every support is admissible: a group out, another in, or one more where the level allows it.

A trade is judged by two vectors: what is left of the component without the group that goes, and its correlations with
the group that comes. The variance of their best combination, an eigenvalue of order two, is a lower bound on what the
trade gives, for all trades at once by two products.
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower.penalties.knapsack import RELATIVE_COST_TOLERANCE
from gpower.penalties.support_rules import SupportRules

#: A trade must raise the variance by this much, relatively.
MIN_RELATIVE_GAIN = 1e-10
#: Trades whose variance is computed where no lower bound shows a gain, on supports of no more variables than these.
MAX_EXACT_SWAPS, MAX_EXACT_SUPPORT = 48, 64
#: Groups whose entry or exit may rearrange all others.
MAX_REARRANGED_GROUPS = 12
#: Multiplications that one polish may take.
MAX_MULTIPLICATIONS = 2e9


def group_swap_search(S: Array, chosen_groups: Array, rules: SupportRules, cost_limit: float) -> Array:
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
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1]))
    >>> group_swap_search(np.diag([1.0, 2.0, 3.0, 1.0]), np.array([True, False]), pairs, 1.0)
    array([False,  True])
    """
    each = 4 * S.size * (1 + int(np.count_nonzero(chosen_groups)))
    for _ in range(max(2, int(MAX_MULTIPLICATIONS / each))):
        trades, (value, u) = (
            _list_group_swaps(chosen_groups, rules, cost_limit),
            _compute_leading_loadings(S, chosen_groups, rules),
        )
        bounds = _bound_swap_variances(S, u, trades, rules)
        if np.max(bounds, initial=0.0) > value * (1 + MIN_RELATIVE_GAIN):
            chosen_groups = _apply_group_swap(chosen_groups, trades[int(np.argmax(bounds))])
            continue
        few = np.argsort(-bounds, kind="stable")[: MAX_EXACT_SWAPS if np.count_nonzero(u) <= MAX_EXACT_SUPPORT else 0]
        tried = [_apply_group_swap(chosen_groups, trades[t]) for t in few] + _rearrange_groups(
            S, u, chosen_groups, rules, cost_limit
        )
        exact = [_compute_max_variance(S, each, rules) for each in tried]
        if not max(exact, default=0.0) > value * (1 + MIN_RELATIVE_GAIN):
            break
        chosen_groups = tried[int(np.argmax(exact))]
    return chosen_groups


def _list_group_swaps(chosen_groups: Array, rules: SupportRules, cost_limit: float) -> Array:
    """Pairs of a group that goes, −1 for none, and one that comes, as rows, of those that are admissible."""
    usable = rules.group_sizes[:, 0] > 0
    out = np.append(-1, np.flatnonzero(chosen_groups & ~rules.required[:, 0]))
    into = np.flatnonzero(~chosen_groups & usable)
    pairs = np.stack(np.meshgrid(out, into, indexing="ij"), axis=-1).reshape(-1, 2)
    cost = np.append(rules.group_costs[:, 0], 0.0)  # −1 is the last
    room = (
        cost_limit
        - float(rules.required_cost[0])
        - float(np.sum(rules.group_costs[chosen_groups & ~rules.required[:, 0], 0]))
    )
    fit = cost[pairs[:, 1]] - cost[pairs[:, 0]] <= room + 1e-9 * max(cost_limit, 1.0)
    return np.asarray(pairs[fit])


def _rearrange_groups(
    S: Array, loadings: Array, chosen_groups: Array, rules: SupportRules, cost_limit: float
) -> list[Array]:
    """Where costs differ: selections after a group outside has come in, or one inside has gone, the others chosen anew.

    Such a trade exchanges several groups at once: a dear one for some that are cheap.
    """
    if rules.uniform_cost or np.count_nonzero(loadings) > MAX_EXACT_SUPPORT:
        return []
    pull, cost, forced = rules.mask_excluded((S @ loadings)[:, None]), rules.group_costs[:, 0], rules.required[:, 0]
    energy = rules.group_norms_sq(pull)[:, 0]
    order = np.argsort(-energy, kind="stable")
    into = order[(~chosen_groups & (energy > 0) & (cost <= cost_limit - rules.required_cost[0]))[order]][
        :MAX_REARRANGED_GROUPS
    ]
    out = order[(chosen_groups & ~forced)[order]][::-1][:MAX_REARRANGED_GROUPS]
    labels = np.arange(len(S))[:, None] if rules.group_labels is None else rules.group_labels[:, None]
    near = np.hstack(
        [loadings[:, None] + pull * (labels == into) / np.sqrt(energy[into]), loadings[:, None] * (labels != out)]
    )
    groups, none = np.arange(chosen_groups.size)[:, None], np.full(MAX_REARRANGED_GROUPS, -1)
    must = forced[:, None] | (groups == np.append(into, none[: out.size]))
    energy = rules.group_norms_sq(rules.mask_excluded(S @ near)) * (groups != np.append(none[: into.size], out))
    room = cost_limit - rules.required_cost[0] - np.append(cost[into], np.zeros(out.size))
    return list(_fill_cost_limit(energy, cost, must, room * (1 + RELATIVE_COST_TOLERANCE)).T)


def _fill_cost_limit(group_norms_sq: Array, group_costs: Array, required: Array, cost_limits: Array) -> Array:
    """Selections, (g, m): what must be there, and in the order of energy per cost what a room, (m,), holds besides."""
    chosen, units = required | ((group_costs[:, None] == 0) & (group_norms_sq > 0)), np.arange(cost_limits.size)
    ratio = np.where(chosen, 0.0, group_norms_sq / np.where(group_costs > 0, group_costs, 1)[:, None])
    least = float(np.min(group_costs, where=group_costs > 0, initial=np.inf))
    for row in np.argsort(-ratio, axis=0, kind="stable"):
        fits = (ratio[row, units] > 0) & (group_costs[row] <= cost_limits)
        chosen[row[fits], units[fits]] = True
        cost_limits = cost_limits - np.where(fits, group_costs[row], 0.0)
        if not np.any(cost_limits >= least):
            break
    return chosen


def _apply_group_swap(chosen_groups: Array, swap: Array) -> Array:
    new = np.append(chosen_groups, False)
    new[swap[0]], new[swap[1]] = False, True
    return new[:-1]


def _find_group_support(chosen_groups: Array, rules: SupportRules) -> Array:
    """The variables of some groups."""
    return np.flatnonzero(rules.broadcast_to_variables(chosen_groups[:, None])[:, 0] & ~rules.excluded[:, 0])


def _compute_max_variance(S: Array, chosen_groups: Array, rules: SupportRules) -> float:
    """The largest variance on the variables of some groups."""
    support = _find_group_support(chosen_groups, rules)
    return float(np.linalg.eigvalsh(S[np.ix_(support, support)])[-1]) if support.size else 0.0


def _compute_leading_loadings(S: Array, chosen_groups: Array, rules: SupportRules) -> tuple[float, Array]:
    """The same, and its loadings among all, (n,)."""
    u, support = np.zeros(len(S)), _find_group_support(chosen_groups, rules)
    if not support.size:
        return 0.0, u
    w, U = np.linalg.eigh(S[np.ix_(support, support)])
    u[support] = U[:, -1]
    return float(w[-1]), u


def _bound_swap_variances(S: Array, loadings: Array, swaps: Array, rules: SupportRules) -> Array:
    """The variance of the best combination of what stays and of what a group that comes adds to it."""
    going, at = np.unique(swaps[:, 0], return_inverse=True)
    labels = np.arange(len(S)) if rules.group_labels is None else rules.group_labels
    left = loadings[:, None] * (labels[:, None] != going)  # (n, |going|)
    lengths = np.sqrt(np.sum(left * left, axis=0))
    left = left / np.where(lengths > 0, lengths, 1)
    pull = np.where(rules.excluded, 0, S @ left)
    own = np.sum(left * pull, axis=0)  # (|going|,)
    inside = rules.group_norms_sq(pull)  # (g, |going|)
    joint = rules.sum_groups(pull * (np.where(labels[:, None] == labels, S, 0) @ pull))
    q, b2, d = own[at], inside[swaps[:, 1], at], joint[swaps[:, 1], at]
    d = d / np.where(b2 > 0, b2, 1)
    return np.asarray((q + d) / 2 + np.sqrt(((q - d) / 2) ** 2 + b2))
