"""Exact search among the supports that groups and known variables allow: branch and bound over whole groups.

A node allows some groups and fixes others. A selection P of groups has the matrix S_P of the blocks S_gh, g and h in P.
Two bounds hold for every selection of a node: λmax of the matrix of all allowed groups, because λmax of a principal
submatrix is no larger; and the largest sum of the norms of the blocks of a row, as in Gershgorin's discs.

Terms: all arrays are NumPy arrays on the host, values in float64, indices of int, masks of bool. An `Operator` is a
matrix A through products, here in float64 in host memory. ``shape`` is (p, n); ``column_norms``, (n,), are exactly zero
for columns that do not vary; ``gram(idx)`` is AᵀA[idx, idx], which may be stored data and is not written to.
``compute_leading_components(operator, 1, support)`` returns the loadings, (|support|, 1), unit or zero, of any sign,
and the variances ‖A z‖², (1,), of the first principal component of the columns `support`, increasing.

`SupportRules` are rules on the supports of the n variables; with one unit, arrays have one column. `group_labels`, (n,)
of int, or None if every variable is a group; `n_groups`; masks `required`, (n_groups, 1), and `excluded`, (n, 1);
`required_cost`, (1,), the cost of all required groups. ``restrict(idx)`` are those of the variables `idx` alone, with
the groups numbered anew in their order and `required_cost` as before; ``groups_hit(pattern)``, (n_groups, 1), says
which groups have a variable in a mask, (n, 1). ``solve_component(operator, spec, rng).Z``, (n, 1), are loadings that
the rules in `spec` allow, unit or zero, and ``orient(Z)`` makes the largest absolute loading of each column positive.

`BestFirstSearch` has `tol`; `incumbent_value`, the value of the best selection so far; `pruning_threshold`,
incumbent_value·(1 + tol), up to which nodes are pruned; `upper_bound`; `open_nodes`; `n_nodes`; ``push(node)``, which
opens a node or counts None; ``record_pruned_bound(bound)``; and ``run_best_first(expand, clock)``, which replaces the
node of the largest bound by its children until all are pruned or the clock expires. `EPS` is the machine epsilon.
``largest_eigenvalue(M)`` is an upper bound on λmax of a symmetric M that contains the rounding. A `Clock` limits the
time: `elapsed_seconds` counts from its creation, its `callback` is called without arguments every now and then, and by
``poll_callback()`` at once; a true result expires it. ``embed_rows(Z, idx, n)`` has n rows, those of Z at `idx` and
zeros elsewhere. ``Certificate.from_bounds`` is the certificate of a value and its bounds, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, embed_rows
from gpower._utils.polar_factor_and_signs import orient
from gpower.certificates.bounds import EPS, MATRIX_ROUNDING_IN_EPS, largest_eigenvalue
from gpower.certificates.branch_and_bound import BestFirstSearch, SearchNode
from gpower.certificates.certificate import Bound, Certificate, CertifiedComponent, Clock, Progress
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.grouped import GroupCardinality
from gpower.penalties.support_rules import SupportRules
from gpower.solvers.component import solve_component
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

#: Largest number of variables whose covariance is formed, 72 MB.
MAX_GROUP_SEARCH_VARIABLES = 3000


@dataclass(frozen=True, eq=False)
class GroupNode(SearchNode):
    """Selections of k groups that contain all fixed groups and only allowed ones; fixed groups are allowed."""

    allowed: Array  # (n_groups,) of bool
    fixed: Array  # (n_groups,) of bool


@dataclass(eq=False)
class GroupSearch(BestFirstSearch[GroupNode]):
    """State of a search for the best selection of k groups. Values and bounds are those of S, λmax(S_P)."""

    S: Array  # (n, n): covariance of the variables that may be used, float64
    group_labels: Array  # (n,) of int: the group of each variable, 0 to n_groups − 1
    k: int  # number of groups of a selection, the required ones included; from 1 to n_groups
    incumbent_groups: Array  # (n_groups,) of bool: a selection of at most k groups, one of them with a variable

    def __post_init__(self) -> None:
        self.block_norms = _compute_block_norms(self.S, self.group_labels, self.incumbent_groups.size)
        self.incumbent_value = self._compute_value(self.incumbent_groups)

    def make_progress(self, seconds: float, columns: Array) -> Progress:
        """Return the progress after some seconds; `columns`, (n,), are the column numbers of the rows of S, sorted."""
        support = columns[self.find_variables(self.incumbent_groups)]
        n_open = len(self.open_nodes)
        return Progress(self.upper_bound, self.incumbent_value, self.n_nodes, n_open, seconds, support)

    def find_variables(self, groups: Array) -> Array:
        """Return the indices into S of the variables of some groups, given as a mask, (n_groups,); increasing."""
        return np.flatnonzero(groups[self.group_labels])

    def _take_covariance(self, groups: Array) -> Array:
        """Return a copy of S over the variables of some groups, given as a mask, (n_groups,), in increasing order."""
        support = self.find_variables(groups)
        return self.S[np.ix_(support, support)]

    def _compute_value(self, groups: Array) -> float:
        """Return λmax(S_P) of the groups P, a mask, (n_groups,), at least one of them with a variable."""
        return float(np.linalg.eigvalsh(self._take_covariance(groups))[-1])

    def _compute_bound(self, allowed: Array, fixed: Array) -> float:
        """Return the smaller of two upper bounds on λmax(S_P) over the selections P of a node.

        One is λmax over all allowed groups, by interlacing. The other is max_g ‖S_gg‖ + Σ ‖S_gh‖, summed over the fixed
        groups h and the largest free ones that fill the selection: Gershgorin's discs for blocks. `allowed` and
        `fixed`, (n_groups,) of bool, are those of the node, with fewer than k fixed and more than k allowed groups.
        Both bounds contain the rounding error.
        """
        slots = self.k - int(np.count_nonzero(fixed))
        norms = self.block_norms[np.ix_(allowed, allowed)]
        is_fixed = fixed[allowed]
        own_norms = np.diagonal(norms)
        other_norms = norms - np.diag(own_norms)
        largest_free = -np.sort(-other_norms[:, ~is_fixed], axis=1)[:, :slots]
        largest_free[~is_fixed, slots - 1 :] = 0.0  # a free group takes one of the slots itself
        discs = own_norms + other_norms[:, is_fixed].sum(axis=1) + largest_free.sum(axis=1)
        discs_bound = float(np.max(discs)) * (1 + MATRIX_ROUNDING_IN_EPS * self.S.shape[0] * EPS)
        return min(largest_eigenvalue(self._take_covariance(allowed)), discs_bound)

    def assess(self, node: GroupNode) -> GroupNode | None:
        """Return the node with its own bound, or None if it has a single selection or is pruned.

        Its own bound is the smaller of that of the node and those of its groups. A node is pruned if that is at most
        `pruning_threshold`, and the bound is recorded. A single selection (k fixed groups, or at most k allowed ones)
        updates the incumbent and is recorded as a pruned bound.
        """
        n_fixed = int(np.count_nonzero(node.fixed))
        if n_fixed == self.k or int(np.count_nonzero(node.allowed)) <= self.k:
            self._update_incumbent(node.fixed if n_fixed == self.k else node.allowed)
            return None
        bound = min(node.bound, self._compute_bound(node.allowed, node.fixed))
        if bound <= self.pruning_threshold:
            self.record_pruned_bound(bound)
            return None
        return replace(node, bound=bound)

    def _update_incumbent(self, groups: Array) -> None:
        """Make a selection the incumbent if its value is larger; record the value, with rounding, as a pruned bound.

        `groups`, (n_groups,), is a mask with at least one variable, and is stored, not copied.
        """
        value = self._compute_value(groups)
        self.record_pruned_bound(value * (1 + MATRIX_ROUNDING_IN_EPS * self.S.shape[0] * EPS))
        if value > self.incumbent_value:
            self.incumbent_value, self.incumbent_groups = value, groups

    def expand(self, node: GroupNode) -> list[GroupNode | None]:
        """Return the nodes with and without the free group that weighs most in the leading eigenvector.

        The node comes from `assess`, so that it has a free group. A group weighs the sum of the squares of its entries;
        of equal weights the first group is taken. A child that is pruned or has a single selection is None.
        """
        leading = np.linalg.eigh(self._take_covariance(node.allowed))[1][:, -1]
        labels = self.group_labels[self.find_variables(node.allowed)]
        weights = np.bincount(labels, leading**2, minlength=self.incumbent_groups.size)
        is_free = node.allowed & ~node.fixed
        is_branched = np.arange(weights.size) == np.argmax(np.where(is_free, weights, -1.0))
        children = replace(node, fixed=node.fixed | is_branched), replace(node, allowed=node.allowed & ~is_branched)
        return [self.assess(child) for child in children]


def _compute_block_norms(S: Array, group_labels: Array, n_groups: int) -> Array:
    """Return the spectral norms ‖S_gh‖ of the blocks of S, (n_groups, n_groups), symmetric, in the dtype float64.

    S, (n, n), is symmetric. `group_labels`, (n,) of int, has the group of each variable, from 0 to n_groups − 1; groups
    without variables have norm 0. Rounding is not added.
    """
    if np.array_equal(group_labels, np.arange(n_groups)):  # every variable is a group: no decomposition is needed
        return np.abs(S)
    members = [np.flatnonzero(group_labels == i) for i in range(n_groups)]
    norms = np.zeros((n_groups, n_groups))
    for i, rows in enumerate(members):
        for j in range(i + 1):
            block = S[np.ix_(rows, members[j])]
            norms[i, j] = norms[j, i] = np.linalg.norm(block, 2) if block.size else 0.0
    return norms


def best_groups(
    operator: Operator,
    support_rules: SupportRules,
    k: int,
    tol: float,
    clock: Clock,
    callback: Callable[[Progress], object] | None = None,
) -> CertifiedComponent:
    """Find the component of k groups that the rules allow with the largest variance, by branch and bound over groups.

    Parameters
    ----------
    operator : Operator
        The matrix, in float64 in host memory.
    support_rules : SupportRules
        Rules of a single unit over all columns, each group at cost one. Required groups have a variable that varies,
        and one variable that is not excluded varies.
    k : int
        Number of groups, the required ones included; `VariableRules.check_levels` must have accepted it.
    tol : float
        Relative gap at which to stop.
    clock : Clock
        Time limit; its callback is replaced if `callback` is given. Ctrl-C ends the search and does not raise.
    callback : callable, optional
        Called with the progress; the search stops if it returns a true value.

    Returns
    -------
    CertifiedComponent
        Unit loadings, (n,), in float64, the largest absolute one positive, and a certificate without a state to resume
        from. Fewer than k groups are used if fewer have a variable that varies.

    Raises
    ------
    ValueError
        If more than MAX_GROUP_SEARCH_VARIABLES variables vary and are not excluded.
    """
    spec = FitSpec(sparsity=ExactCardinality(penalty_family=GroupCardinality(support_rules, np.ones(1)), levels=(k,)))
    start = solve_component(operator, spec, np.random.RandomState(0)).Z  # (n_features, 1)
    usable = np.flatnonzero(~support_rules.excluded[:, 0] & (operator.column_norms > 0))
    if usable.size > MAX_GROUP_SEARCH_VARIABLES:
        raise ValueError(
            "An exact search among groups needs the covariance of its variables in memory, for at most "
            f"{MAX_GROUP_SEARCH_VARIABLES} variables; there are {usable.size}. GPower finds such components, without a "
            "proof."
        )
    rules = support_rules.restrict(usable)  # renumbers the groups: those without a usable variable are gone
    labels = np.arange(usable.size) if rules.group_labels is None else rules.group_labels
    required = rules.required[:, 0]
    n_selected = min(k - int(support_rules.required_cost[0]) + int(np.count_nonzero(required)), rules.n_groups)
    first_groups = rules.groups_hit(start[usable] != 0)[:, 0] | required
    search = GroupSearch(operator.gram(usable).astype(np.float64), labels, n_selected, first_groups, tol=tol)
    search.push(search.assess(GroupNode(np.inf, np.ones(rules.n_groups, bool), required)))
    if callback is not None:
        clock.callback = lambda: callback(search.make_progress(clock.elapsed_seconds, usable))
        clock.poll_callback()
    search.run_best_first(search.expand, clock)
    support = usable[search.find_variables(search.incumbent_groups)]
    loadings, variances = compute_leading_components(operator, 1, support)
    value = float(variances[0])
    seconds = clock.elapsed_seconds
    bound = Bound("search", max(search.upper_bound, value), seconds)
    unit = "variables" if support_rules.group_labels is None else "groups"
    certificate = Certificate.from_bounds(
        value, (bound,), cardinality=k, tol=tol, seconds=seconds, nodes=search.n_nodes, cardinality_unit=unit
    )
    z = orient(embed_rows(loadings, support, operator.shape[1]))[:, 0]
    return CertifiedComponent(z, certificate)
