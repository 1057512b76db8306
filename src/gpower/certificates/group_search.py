"""Exact search among admissible supports: branch and bound over which groups are in and which are out.

A node allows some groups and fixes others. Three bounds hold for every selection P in between, whose matrix S_P has the
blocks S_gh of its groups: λmax over all that is allowed, since a part of a matrix has no larger one; the sum of λmax of
the blocks on the diagonal, as a trace; and the largest sum of the norms of a row of blocks, as Gershgorin's discs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpower._utils.arrays import Array, embed_rows, orient
from gpower.certificates.bounds import EPS, largest_eigenvalue
from gpower.certificates.certificate import Bound, Certificate, Clock
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.grouped import GroupCardinality
from gpower.penalties.support_rules import SupportRules
from gpower.solvers.component import solve_component
from gpower.solvers.specification import ExactCardinality, FitSpec

#: Variables whose covariance, 72 MB, is held in memory.
MAX_GROUP_SEARCH_VARIABLES = 3000


@dataclass(eq=False)
class GroupSearch:
    """The state of a search for the k best groups: the incumbent, and nodes still to be looked at by their bound.

    A node is a pair of masks over the groups: allowed, and fixed. Values and bounds are those of S.
    """

    S: Array  # over the variables that may be used
    group_labels: Array  # the group of each of them
    k: int
    tol: float
    incumbent_groups: Array  # the incumbent, as a mask of groups
    n_nodes: int = 0
    pruned_bound: float = 0.0
    open_nodes: list[tuple[float, int, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        g = self.incumbent_groups.size
        parts = [np.flatnonzero(self.group_labels == i) for i in range(g)]
        self.block_norms = np.zeros((g, g))  # of the blocks
        for i, rows in enumerate(parts):
            for j in range(i + 1):
                block = self.S[np.ix_(rows, parts[j])]
                self.block_norms[i, j] = self.block_norms[j, i] = np.linalg.norm(block, 2) if block.size else 0.0
        self.incumbent_value = self.compute_value(self.incumbent_groups)

    @property
    def upper_bound(self) -> float:
        """An upper bound on every selection."""
        return max(self.incumbent_value, self.pruned_bound, -self.open_nodes[0][0] if self.open_nodes else 0.0)

    def find_variables(self, groups: Array) -> Array:
        """The variables of some groups."""
        return np.flatnonzero(groups[self.group_labels])

    def compute_value(self, groups: Array) -> float:
        """The variance of a selection."""
        support = self.find_variables(groups)
        return float(np.linalg.eigvalsh(self.S[np.ix_(support, support)])[-1])

    def compute_bound(self, allowed: Array, fixed: Array) -> float:
        """What no selection of a node exceeds."""
        slots = self.k - int(np.count_nonzero(fixed))
        free, own = allowed & ~fixed, np.diagonal(self.block_norms)
        first = largest_eigenvalue(self._take_covariance(fixed)) if fixed.any() else 0.0
        trace = first + float(np.sum(np.sort(own[free])[::-1][:slots]))
        others = self.block_norms - np.diag(own)
        near = -np.sort(-others[:, free], axis=1)[:, :slots]
        near[free, slots - 1 :] = 0.0  # a free group takes one of the slots itself
        rows = (own + others[:, fixed].sum(axis=1) + near.sum(axis=1))[allowed]
        rounding = 1 + 8 * self.S.shape[0] * EPS
        return min(largest_eigenvalue(self._take_covariance(allowed)), min(trace, float(np.max(rows))) * rounding)

    def _take_covariance(self, groups: Array) -> Array:
        support = self.find_variables(groups)
        return self.S[np.ix_(support, support)]

    def push(self, allowed: Array, fixed: Array, bound: float) -> None:
        """Open a node, or settle it where it holds nothing better than the incumbent or a single selection."""
        self.n_nodes += 1
        count = int(np.count_nonzero(fixed))
        if count == self.k or int(np.count_nonzero(allowed)) <= self.k:
            self._update_incumbent(fixed if count == self.k else allowed)
            return
        bound = min(bound, self.compute_bound(allowed, fixed))
        if bound <= self.incumbent_value * (1 + self.tol):
            self.pruned_bound = max(self.pruned_bound, bound)
        else:
            heapq.heappush(self.open_nodes, (-bound, self.n_nodes, allowed, fixed))

    def _update_incumbent(self, groups: Array) -> None:
        value = self.compute_value(groups)
        self.pruned_bound = max(self.pruned_bound, value * (1 + 8 * self.S.shape[0] * EPS))
        if value > self.incumbent_value:
            self.incumbent_value, self.incumbent_groups = value, groups

    def run(self, clock: Clock) -> None:
        """Best bound first, until nothing is open or the clock expires."""
        with clock.interruptible():
            while self.open_nodes and not clock.is_expired:
                bound, _, allowed, fixed = self.open_nodes[0]
                if -bound <= self.incumbent_value * (1 + self.tol):
                    self.pruned_bound = max(self.pruned_bound, -bound)
                    self.open_nodes.clear()
                    return
                heapq.heappop(self.open_nodes)
                weight = np.zeros(self.incumbent_groups.size)
                support = self.find_variables(allowed)
                np.add.at(
                    weight, self.group_labels[support], np.linalg.eigh(self._take_covariance(allowed))[1][:, -1] ** 2
                )
                branch = np.arange(weight.size) == np.argmax(np.where(allowed & ~fixed, weight, -1.0))
                self.push(allowed, fixed | branch, -bound)
                self.push(allowed & ~branch, fixed, -bound)
                clock.poll_callback()


#: Told of a search and of the variables that it is about; a true answer stops it.
GroupSearchCallback = Callable[[GroupSearch, Array], object]


def best_groups(
    operator: Operator,
    support_rules: SupportRules,
    k: int,
    tol: float,
    clock: Clock,
    callback: GroupSearchCallback | None = None,
) -> tuple[Array, Certificate]:
    """The component of k admissible groups of largest variance, (n,), and the proof; `told` hears of the search."""
    recipe = FitSpec(sparsity=ExactCardinality(penalty_family=GroupCardinality(support_rules, np.ones(1)), levels=(k,)))
    z = solve_component(operator, recipe, np.random.RandomState(0)).Z
    usable = np.flatnonzero(~support_rules.excluded[:, 0] & (operator.column_norms > 0))
    if usable.size > MAX_GROUP_SEARCH_VARIABLES:
        raise ValueError(
            "An exact search among groups holds the covariance of its variables in memory, up to "
            f"{MAX_GROUP_SEARCH_VARIABLES}; there are {usable.size}. GPower finds such components, without the proof."
        )
    part = support_rules.restrict(usable)
    labels = np.arange(usable.size) if part.group_labels is None else part.group_labels
    count = min(k - int(support_rules.required_cost[0]) + int(np.count_nonzero(part.required)), part.n_groups)
    chosen = part.groups_hit(z[usable] != 0)[:, 0] | part.required[:, 0]
    search = GroupSearch(operator.gram(usable).astype(np.float64), labels, count, tol, chosen)
    search.push(np.ones(part.n_groups, bool), part.required[:, 0].copy(), np.inf)
    if callback is not None:
        clock.callback = lambda: callback(search, usable)
        clock.poll_callback()
    search.run(clock)
    support = usable[search.find_variables(search.incumbent_groups)]
    loadings, variance = compute_leading_components(operator, 1, support)
    bound = Bound("search", max(search.upper_bound, float(variance[0])), clock.elapsed_seconds)
    certificate = Certificate(
        value=float(variance[0]),
        upper_bound=bound.value,
        cardinality=k,
        tol=tol,
        method="search",
        bounds=(bound,),
        seconds=clock.elapsed_seconds,
        nodes=search.n_nodes,
        cardinality_unit="variables" if support_rules.group_labels is None else "groups",
    )
    return orient(embed_rows(loadings, support, operator.shape[1]))[:, 0], certificate
