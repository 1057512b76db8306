"""Penalties with support rules: groups, required and excluded variables, and weights.

With s_g = ‖c_g‖² over the variables of a group g that are not excluded, and its weight w_g, zero if it is required:

=============================== ============================ ===========================================
penalty                         φ(c) of one unit             without groups and weights
=============================== ============================ ===========================================
`GroupCardinality(rules, cost)` max Σ_{g ∈ G} s_g, G an      `Cardinality`
                                admissible selection
`GroupL0(rules, gamma)`         Σ (s_g − γw_g)₊              `L0`
`GroupL1(rules, gamma)`         Σ (√s_g − γw_g)₊²            `L1`; with groups, the group lasso
=============================== ============================ ===========================================

All three are convex. A selection of groups is admissible if it has all required groups and their costs sum to at most
the maximum cost. The first penalty is a maximum of convex quadratics for any set of such selections.

All arrays are on the host: data on a device are refused with these penalties. C, (n, m), are correlations of n
variables and m units, in the dtype of the data; `norms`, (n,), are the largest |aᵢᵀx| over units x (column norms on
spheres) in the same dtype; `mu`, (m,), are the positive weights of the units. Values of g groups are (g, m).

Terms: the rules, a `SupportRules`, have these members; arrays have one column for each unit, or one for all.

================================= ===================================================================================
``group_costs``, ``required``     (g, ·): costs, float64, not negative; mask of the groups that are always selected
``excluded``                      (n, ·): mask of the variables that are never used
``usable_variables``              (n,): mask of the variables that are not excluded from all units
``group_labels``                  (n,): the group of each variable, or None if each is its own group
``uniform_cost``                  the cost of every group if all are equal, else 0.0
``mask_excluded(C)``              C with zeros for excluded variables; perhaps C itself
``group_norms_sq(C)``             (g, m): sums of squares of C over each group; C must be masked first
``broadcast_to_variables(v)``     (n, m): values v of groups, (g, m), at their variables, excluded ones too
``reduce_groups(v, np.maximum)``  (g,): the largest of the values v of variables, (n,), in each group
``groups_hit(pattern)``           (g, m): mask of the groups with a variable in a pattern, (n, m)
``select_groups(s, cost)``        (g, m): mask of the best admissible groups for squared norms s at a maximum cost,
                                  (m,) or (1,), which includes the required groups; these are always selected
``select_fractional_groups``      the same, with a fraction of the last group; for the rules of one unit
``max_cardinality(cost)``         upper bound on the number of variables of a unit at a maximum cost
``with_unit_costs()``             these rules with cost one for every group
================================= ===================================================================================

``get_min_divisor(C)`` is a tiny number of the dtype of C that replaces a zero threshold as a divisor.
``safe_reciprocal(x)`` is 1/x, and 0 for x = 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from gpower._utils.arrays import Array, safe_reciprocal
from gpower._utils.forwarding import forward
from gpower.penalties.elementary import Penalty, get_min_divisor
from gpower.penalties.support_rules import SupportRules


@dataclass(frozen=True, eq=False)
class GroupedPenalty(Penalty):
    """A penalty with rules for admissible supports: groups as a whole, all required ones, no excluded variable.

    The number of variables n is that of the rules, so that C must have the rows of all these variables.
    """

    rules: SupportRules
    has_uniform_threshold = False

    support_rules = forward("rules", "Return the rules.")

    def select_unit(self, j: int) -> Self:
        """Return the penalty with the rules of unit j alone; γ and maximum costs stay those of all units."""
        return replace(self, rules=self.rules.select_unit(j))

    def restrict(self, idx: Array) -> Self:
        """Return the penalty of the variables `idx` alone, increasing indices; costs of groups stay the same."""
        return replace(self, rules=self.rules.restrict(idx))

    def count_selected(self, pattern: Array) -> Array:
        """Count the groups with a variable in a pattern, (n, m) of bool, per unit, (m,) of int."""
        return np.count_nonzero(self.rules.groups_hit(pattern), axis=0)

    def select_pattern(self, scores: Array, counts: Array) -> Array:
        """Return the pattern, (n, m) of bool, of `counts[j]` groups in each unit j.

        These are the required groups, which count, and those of the largest sums of squared scores; `scores` has shape
        (n, m), `counts` (m,) of int. Costs do not matter here. Excluded variables are not in the pattern. Which of
        equal groups are selected is not specified.
        """
        rules = self.rules.with_unit_costs()
        selected = rules.select_groups(rules.group_norms_sq(rules.mask_excluded(scores)), counts)
        return np.asarray(rules.broadcast_to_variables(selected) & ~rules.excluded)

    def activity_ratio(self, C: Array, T: Array | None = None) -> Array:
        """Compute the ratio of √s of the group to its threshold, for each variable, (n, m); zero if it is excluded.

        Above one a variable is active. The gradient T is not used.
        """
        rules = self.rules
        group_ratios = self._group_activity_ratio(rules.group_norms_sq(rules.mask_excluded(C)))
        return np.where(rules.excluded, 0.0, rules.broadcast_to_variables(group_ratios))

    @abstractmethod
    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        """Compute the ratio of √s to the threshold for every group, (g, m), given s; above one a group is active.

        s, (g, m), are the squared norms of groups without their excluded variables, in the dtype of the data or
        float64.
        """

    def _max_group_norms(self, norms: Array, mu: Array) -> Array:
        """Compute an upper bound on √s of every group, (g, m) in float64, from `norms` of its variables and `mu`."""
        rules = self.rules
        return np.sqrt(rules.group_norms_sq(rules.mask_excluded(norms[:, None].astype(np.float64) * mu)))


@dataclass(frozen=True, eq=False)
class GroupCardinality(GroupedPenalty):
    """Penalty that sums the squares of the best groups of a limited total cost, a maximum of convex quadratics.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = SupportRules.from_groups(np.array([0, 0, 1, 1]))
    >>> C = np.array([[3.0], [0.0], [2.0], [-2.5]])
    >>> value, gradient = GroupCardinality(pairs, np.array([1])).value_and_gradient(C)
    >>> value, gradient.ravel().tolist()
    (10.25, [0.0, 0.0, 4.0, -5.0])
    """

    max_cost: Array  # (m,), or (1,) if it is the same in every unit; includes the cost of the required groups
    allows_partial_group: bool = False  # whether a fraction of the last group may be selected at a fraction of its cost
    supports_local_search = True

    @property
    def relaxation(self) -> GroupCardinality:
        """Return the penalty that allows a fraction of the last group, or itself if all groups have one positive cost.

        The relaxation is a maximum of convex quadratics too. It is for one unit: `select_fractional_groups` uses the
        first maximum cost for all columns of C.
        """
        return self if self.rules.uniform_cost else replace(self, allows_partial_group=True)

    @property
    def max_cardinality(self) -> int:
        """Return an upper bound on the number of variables (not of groups, not a cost) of a unit."""
        return self.rules.max_cardinality(self.max_cost)

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of squares of the selected groups, (m,), and the gradient, (n, m), in the dtype of C.

        The gradient is 2c times the share of the group, zero for excluded variables. C is not changed.
        """
        rules = self.rules
        C = rules.mask_excluded(C)
        norms_sq = rules.group_norms_sq(C)
        shares = self._compute_group_shares(norms_sq)
        return np.sum(norms_sq * shares, axis=0, dtype=C.dtype), 2 * C * rules.broadcast_to_variables(shares)

    def _compute_group_shares(self, group_norms_sq: Array) -> Array:
        """Return the share of each group that is selected, (g, m): one, zero or a fraction; bool without fractions.

        `group_norms_sq`, (g, m), are those of C without excluded variables.
        """
        rules = self.rules
        select = rules.select_fractional_groups if self.allows_partial_group else rules.select_groups
        return select(group_norms_sq, self.max_cost)

    def screen(self, norms: Array, mu: Array) -> Array:
        """Return the mask, (n,), of variables of positive norm that are not excluded from every unit."""
        return (norms > 0) & self.rules.usable_variables

    def start_score(self, norms: Array) -> Array:
        """Return the column norms, zero for variables that are excluded from every unit."""
        return np.where(self.rules.usable_variables, norms, 0)

    def at_cardinality(self, k: Array) -> GroupCardinality:
        """Return the penalty of whole groups at other maximum costs k, (m,) or (1,): numbers of groups, or costs."""
        return GroupCardinality(self.rules, k)

    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        """Compute infinity for selected groups, and for others √s over the smallest √s of a selected one, (g, m).

        The others are at most one, and zero in a unit without selected groups. Selected groups of norm zero count as
        others.
        """
        active = (self._compute_group_shares(group_norms_sq) > 0) & (group_norms_sq > 0)
        smallest = np.min(np.where(active, group_norms_sq, np.inf), axis=0)
        ratio = np.sqrt(group_norms_sq / np.maximum(smallest, float(np.finfo(group_norms_sq.dtype).tiny)))
        return np.where(active, np.inf, np.minimum(ratio, 1))


@dataclass(frozen=True, eq=False)
class WeightedPenalty(GroupedPenalty):
    """A penalty with a threshold for every group: group g is active in unit j where √s_g^power exceeds γⱼw_g."""

    gamma: Array  # (m,), absolute, not negative
    #: Power of √s that is compared with γw.
    power: ClassVar[int]

    def _group_thresholds(self, like: Array) -> Array:
        """Return γw of every group, (g, m) in the dtype of `like`, zero for required groups."""
        return np.asarray(np.where(self.rules.required, 0, self.rules.group_costs) * self.gamma, like.dtype)

    def _group_activity_ratio(self, group_norms_sq: Array) -> Array:
        """Compute √s over the threshold (γw)^(1/power) of every group, (g, m), given s, (g, m), in its dtype."""
        thresholds = self._group_thresholds(group_norms_sq) ** (1 / self.power)
        return np.sqrt(group_norms_sq) / np.maximum(thresholds, get_min_divisor(group_norms_sq))

    def at_gamma(self, gamma: Array) -> Self:
        """Return the penalty at another γ, (m,)."""
        return replace(self, gamma=gamma)

    def screen(self, norms: Array, mu: Array) -> Array:
        """Return the mask, (n,), of variables of positive norm whose group can exceed its threshold in some unit.

        A variable that is excluded from a unit does not count there.
        """
        can_be_active = self._group_activity_ratio(self._max_group_norms(norms, mu) ** 2) > 1
        usable = self.rules.broadcast_to_variables(can_be_active) & ~self.rules.excluded
        return np.any(usable, axis=1) & (norms > 0)

    def start_score(self, norms: Array) -> Array:
        """Return scores, (n,): the root of the largest γ at which a group can be active, and zero elsewhere.

        Each group has its score at its usable variable of largest norm, the first of equal ones; its other variables
        have score zero. A group without weight, active at every γ, has the largest score of the groups with a weight,
        or one if there are none. The scores have the dtype of `norms`.
        """
        rules = self.rules
        group_gammas = np.max(self._max_group_gammas(norms, np.ones(1)), axis=1)  # (g,)
        is_free = ~np.isfinite(group_gammas)
        group_gammas[is_free] = np.max(group_gammas[~is_free], initial=0.0) or 1.0
        usable_norms = np.where(rules.usable_variables, norms, 0)
        is_start = usable_norms > 0
        if rules.group_labels is not None:
            longest = np.flatnonzero(usable_norms == rules.reduce_groups(usable_norms, np.maximum)[rules.group_labels])
            _, first = np.unique(rules.group_labels[longest], return_index=True)  # one variable of each group
            is_start = is_start & np.isin(np.arange(norms.size), longest[first])
        scores = rules.broadcast_to_variables(np.sqrt(group_gammas)[:, None])[:, 0]
        return np.where(is_start, scores, 0).astype(norms.dtype)

    def _max_group_gammas(self, norms: Array, mu: Array) -> Array:
        """Compute the smallest γ at which each group is surely inactive, (g, m) in float64, from `norms` and `mu`.

        It is infinite for groups without weight (or required ones) that vary, and zero for groups of norm zero.
        """
        weight = np.where(self.rules.required, 0, self.rules.group_costs)
        statistic = self._max_group_norms(norms, mu) ** self.power
        return np.where(weight > 0, statistic / np.where(weight > 0, weight, 1), np.where(statistic > 0, np.inf, 0))

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """Compute the largest γ, (m,) in float64, at which a group with a weight can be active.

        It is zero if no group has a weight. Groups without weight are active beyond it.
        """
        largest = self._max_group_gammas(norms, np.asarray(mu, float))
        return np.broadcast_to(np.max(np.where(np.isfinite(largest), largest, 0), axis=0), len(mu)).astype(float)


@dataclass(frozen=True, eq=False)
class GroupL0(WeightedPenalty):
    """Penalty Σ (s_g − γw_g)₊, hard thresholding of groups.

    Examples
    --------
    >>> import numpy as np
    >>> rules = SupportRules.from_groups(np.arange(2), group_costs=np.array([[1.0], [0.1]]))
    >>> _, gradient = GroupL0(rules, np.array([1.0])).value_and_gradient(np.array([[3.0], [-0.5]]))
    >>> gradient.ravel().tolist()
    [6.0, -1.0]
    """

    power = 2

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of the excess of the squares over γw, (m,), and the gradient, (n, m), in the dtype of C.

        The gradient is 2c in groups with s > γw and zero elsewhere and for excluded variables; C is not changed.
        """
        rules = self.rules
        C = rules.mask_excluded(C)
        excess = rules.group_norms_sq(C) - self._group_thresholds(C)
        active = excess > 0
        return np.sum(excess * active, axis=0), 2 * C * rules.broadcast_to_variables(active)


@dataclass(frozen=True, eq=False)
class GroupL1(WeightedPenalty):
    """Penalty Σ (√s_g − γw_g)₊², soft thresholding of the norms of groups.

    Examples
    --------
    >>> import numpy as np
    >>> pair = SupportRules.from_groups(np.array([0, 0]))
    >>> GroupL1(pair, np.array([1.0])).value_and_gradient(np.array([[3.0], [-4.0]]))[0]
    16.0
    """

    power = 1

    def evaluate(self, C: Array) -> tuple[Array, Array]:
        """Compute the sums of squares of the soft-thresholded norms, (m,), and the gradient, (n, m), in the dtype of C.

        The gradient is 2c(1 − γw/√s)₊ and zero for excluded variables; C is not changed.
        """
        rules = self.rules
        C = rules.mask_excluded(C)
        norms = np.sqrt(rules.group_norms_sq(C))
        excess = np.maximum(norms - self._group_thresholds(C), 0)
        return np.sum(excess * excess, axis=0), 2 * C * rules.broadcast_to_variables(excess * safe_reciprocal(norms))
