"""Swap groups of variables while that raises the variance of a component.

Terms: S, (n, n), is the covariance of n candidate variables, float64 on the host. The variables belong to g groups, by
default each to its own, and a group is in the support as a whole, apart from excluded variables: `rules`, the
`SupportRules` of one component for the n variables, whose arrays have one column. A selection of groups is a mask,
(g,) of bool; its variance is the largest eigenvalue of S on its variables. All arrays are on the host.

================================ ====================================================================================
``group_labels``                 (n,): the group of each variable, from 0; None if each variable is its own group
``group_sizes``                  (g, 1): number of variables of a group that are not excluded
``group_costs``, ``required``    (g, 1): costs, float64, not negative; mask of the groups that every selection has
``excluded``                     (n, 1): mask of the variables that no support has
``required_cost``                (1,): cost of all required groups, also of those that are not among the candidates, so
                                 that a cost limit less ``required_cost`` is what the other groups may cost
``uniform_cost``                 the cost of every group if all are equal and positive, else 0.0
``mask_excluded(C)``             C, (n, r), with zeros for excluded variables
``reduce_groups(v)``             (g, r): sums over groups of values v of variables, (n, r)
``group_norms_sq(C)``            (g, r): sums of squares over groups
``broadcast_to_variables(v)``    (n, r): values v of groups, (g, r), at their variables, excluded ones too
================================ ====================================================================================
"""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower.penalties.knapsack import RELATIVE_COST_TOLERANCE
from gpower.penalties.support_rules import SupportRules

#: Least relative rise of the variance by a change of groups; a smaller one is rounding.
MIN_GROUP_SWAP_GAIN = 1e-10
#: Number of group swaps whose variance is computed if no lower bound shows a gain, and the largest support for it.
MAX_EXACT_SWAPS, MAX_EXACT_SUPPORT = 48, 64
#: Groups whose entry or exit may rearrange all other groups. Without this 4 of 120 components with a budget
#: (30 samples, 20 to 200 variables) end 0.2 to 2.6 % lower.
MAX_REARRANGED_GROUPS = 12


def find_better_groups(S: Array, chosen_groups: Array, rules: SupportRules, cost_limit: float) -> Array | None:
    """Return a selection of groups, (g,), near `chosen_groups` whose variance is larger; None if none is found.

    The costs of a selection, with those of required groups that are not among the candidates, sum to `cost_limit` at
    most, but for rounding. `chosen_groups`, (g,) of bool, has all required groups and keeps that limit; it is not
    changed, and neither is S, (n, n). "Larger" means by a relative `MIN_GROUP_SWAP_GAIN`, so that repeated calls end.

    One group goes out and another comes in, or one more where the costs allow it. The swap with the largest lower bound
    is returned, or else the best of a few selections whose variance is computed; the first of equal ones.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1]))
    >>> find_better_groups(np.diag([1.0, 2.0, 3.0, 1.0]), np.array([True, False]), pairs, 1.0)
    array([False,  True])
    """
    swaps = _list_group_swaps(chosen_groups, rules, cost_limit)
    value, u = _compute_leading_loadings(S, chosen_groups, rules)
    target = value * (1 + MIN_GROUP_SWAP_GAIN)
    bounds = _bound_swap_variances(S, u, swaps, rules)
    if np.max(bounds, initial=0.0) > target:
        return _apply_group_swap(chosen_groups, swaps[int(np.argmax(bounds))])
    n_exact = MAX_EXACT_SWAPS if np.count_nonzero(u) <= MAX_EXACT_SUPPORT else 0
    candidates = [_apply_group_swap(chosen_groups, swaps[t]) for t in np.argsort(-bounds, kind="stable")[:n_exact]]
    candidates += _rearrange_groups(S, u, chosen_groups, rules, cost_limit)
    variances = [_compute_leading_loadings(S, candidate, rules)[0] for candidate in candidates]
    return candidates[int(np.argmax(variances))] if max(variances, default=0.0) > target else None


def _list_group_swaps(chosen_groups: Array, rules: SupportRules, cost_limit: float) -> Array:
    """Return the swaps that keep the rules as rows, (n_swaps, 2): a group that leaves, −1 for none, and one that comes.

    `chosen_groups` is (g,), bool, and `rules` are those of one component, with one column. Required groups never leave,
    and a group comes only if it is not chosen and has a variable that is not excluded. `cost_limit` includes the
    required groups and may be exceeded by a relative `RELATIVE_COST_TOLERANCE`, for the rounding of sums; the excess
    does not add up over several swaps, because the costs of all chosen groups are summed anew. The order of the rows
    decides between swaps of equal value.
    """
    usable = rules.group_sizes[:, 0] > 0
    out = np.append(-1, np.flatnonzero(chosen_groups & ~rules.required[:, 0]))
    into = np.flatnonzero(~chosen_groups & usable)
    pairs = np.stack(np.meshgrid(out, into, indexing="ij"), axis=-1).reshape(-1, 2)
    cost = np.append(rules.group_costs[:, 0], 0.0)  # index −1 is the last entry
    chosen_cost = float(np.sum(rules.group_costs[chosen_groups & ~rules.required[:, 0], 0]))
    remaining_cost = cost_limit - float(rules.required_cost[0]) - chosen_cost
    is_affordable = cost[pairs[:, 1]] - cost[pairs[:, 0]] <= remaining_cost + RELATIVE_COST_TOLERANCE * cost_limit
    return np.asarray(pairs[is_affordable])


def _rearrange_groups(
    S: Array, loadings: Array, chosen_groups: Array, rules: SupportRules, cost_limit: float
) -> list[Array]:
    """Return selections with one group added or removed and all others chosen again; none where costs are equal.

    This swaps several groups at once, for instance an expensive one for several cheap ones. `loadings`, (n,), are those
    of the chosen groups, (g,), bool, of unit length; every selection is (g,), bool. Each keeps the rules and the limit,
    which includes the required groups, but it need not be better, and the same selection may be returned twice. Groups
    of large squared correlation with the component are added, chosen ones of small squared correlation removed.
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
    # One column for each change: first the groups `into` that are forced in, then the groups `out` that are left out.
    near = np.hstack(
        [loadings[:, None] + pull * (labels == into) / np.sqrt(energy[into]), loadings[:, None] * (labels != out)]
    )
    groups, none = np.arange(chosen_groups.size)[:, None], np.full(MAX_REARRANGED_GROUPS, -1)
    must = forced[:, None] | (groups == np.append(into, none[: out.size]))
    energy = rules.group_norms_sq(rules.mask_excluded(S @ near)) * (groups != np.append(none[: into.size], out))
    room = cost_limit - rules.required_cost[0] - np.append(cost[into], np.zeros(out.size))
    return list(_fill_cost_limit(energy, cost, must, room * (1 + RELATIVE_COST_TOLERANCE)).T)


def _fill_cost_limit(group_norms_sq: Array, group_costs: Array, required: Array, cost_limits: Array) -> Array:
    """Return selections, (g, m), bool: required groups, then groups by squared norm per cost up to the limits.

    `group_norms_sq` and `required`, bool, are (g, m), `group_costs` is (g,). `cost_limits`, (m,), are what the required
    groups leave, and may be negative. A group that does not fit is passed over. A group with norm zero is selected only
    if it is required; one without cost and of positive norm always. Of equal ratios the first group is taken. No
    argument is changed.
    """
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
    """Return a copy of `chosen_groups`, (g,) of bool, without group swap[0], −1 for none, and with group swap[1].

    `swap`, (2,) of int, is a row of `_list_group_swaps`: the first group is chosen, the second is not.
    """
    new = np.append(chosen_groups, False)  # index −1 is the last entry
    new[swap[0]] = False
    new[swap[1]] = True
    return new[:-1]


def _compute_leading_loadings(S: Array, chosen_groups: Array, rules: SupportRules) -> tuple[float, Array]:
    """Return the largest variance on the variables of some groups, and its loadings among all variables, (n,).

    The loadings are float64, of unit length and any sign. Both are zero if the groups, (g,), bool, have no variable
    that is not excluded.
    """
    u = np.zeros(len(S))
    support = np.flatnonzero(rules.broadcast_to_variables(chosen_groups[:, None])[:, 0] & ~rules.excluded[:, 0])
    if not support.size:
        return 0.0, u
    w, U = np.linalg.eigh(S[np.ix_(support, support)])
    u[support] = U[:, -1]
    return float(w[-1]), u


def _bound_swap_variances(S: Array, loadings: Array, swaps: Array, rules: SupportRules) -> Array:
    """Return a lower bound on the variance after each swap, (n_swaps,).

    A swap is evaluated by two vectors: the component without the group that leaves, and its correlations with the group
    that comes. The variance of their best combination, an eigenvalue of order two, is a lower bound on the variance
    after the swap; two products give it for all swaps.

    `loadings`, (n,), of unit length, are those of the current groups, zero for excluded variables; `swaps`, (n_swaps,
    2), have a group that leaves, −1 for none, and a group that comes, which is not among the current ones.
    """
    going, at = np.unique(swaps[:, 0], return_inverse=True)
    labels = np.arange(len(S)) if rules.group_labels is None else rules.group_labels
    left = loadings[:, None] * (labels[:, None] != going)  # (n, |going|)
    lengths = np.sqrt(np.sum(left * left, axis=0))
    left = left / np.where(lengths > 0, lengths, 1)
    pull = np.where(rules.excluded, 0, S @ left)
    own = np.sum(left * pull, axis=0)  # (|going|,)
    inside = rules.group_norms_sq(pull)  # (g, |going|)
    joint = rules.reduce_groups(pull * (np.where(labels[:, None] == labels, S, 0) @ pull))
    q, b2, d = own[at], inside[swaps[:, 1], at], joint[swaps[:, 1], at]
    d = d / np.where(b2 > 0, b2, 1)
    return np.asarray((q + d) / 2 + np.sqrt(((q - d) / 2) ** 2 + b2))
