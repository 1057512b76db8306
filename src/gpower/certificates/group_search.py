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

`BranchAndBound` is the best-first search; its module has the terms. `EPS` is the machine epsilon;
``eigenvalue_rounding_error(w)`` bounds the rounding of the eigenvalues w of a matrix, and
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
from gpower.certificates.bounds import EPS, MATRIX_ROUNDING_IN_EPS, eigenvalue_rounding_error, largest_eigenvalue
from gpower.certificates.branch_and_bound import BranchAndBound, Node
from gpower.certificates.certificate import Bound, Certificate, CertifiedComponent, Clock, Progress
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.grouped import GroupCardinality
from gpower.penalties.support_rules import SupportRules
from gpower.solvers.component import solve_component
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

#: Largest number of variables whose covariance is formed, 72 MB.
MAX_GROUP_SEARCH_VARIABLES = 3000


@dataclass(eq=False, kw_only=True)
class GroupSearch(BranchAndBound):
    """State of a search for the best selection of k groups. Values and bounds are those of S, λmax(S_P)."""

    group_labels: Array  # (n,) of int: the group of each variable, 0 to n_groups − 1

    def __post_init__(self) -> None:
        self.block_norms = _compute_block_norms(self.S, self.group_labels)
        super().__post_init__()

    def make_progress(self, seconds: float, columns: Array) -> Progress:
        """Return the progress after some seconds; `columns`, (n,), are the column numbers of the rows of S, sorted."""
        support = columns[self.find_variables(self.incumbent)]
        n_open = len(self.open_nodes)
        return Progress(self.upper_bound, self.incumbent_value, self.n_nodes, n_open, seconds, support)

    def find_variables(self, units: Array) -> Array:
        """Return the indices into S of the variables of some groups, (m,) of int; increasing."""
        return np.flatnonzero(np.isin(self.group_labels, units))

    def _bound_by_discs(self, node: Node) -> float:
        """Return max_g ‖S_gg‖ + Σ ‖S_gh‖, summed over the fixed groups h and the largest free ones of a selection.

        These are Gershgorin's discs for blocks. The node has fewer than k fixed and more than k allowed groups. The
        rounding error is added.
        """
        norms = self.block_norms[np.ix_(node.allowed, node.allowed)]
        own_norms = np.diagonal(norms)
        other_norms = norms - np.diag(own_norms)
        slots = node.count_open_slots(self.k)
        largest_free = -np.sort(-other_norms[:, ~node.fixed], axis=1)[:, :slots]
        largest_free[~node.fixed, slots - 1 :] = 0.0  # a free group takes one of the slots itself
        discs = own_norms + other_norms[:, node.fixed].sum(axis=1) + largest_free.sum(axis=1)
        return float(np.max(discs)) * (1 + MATRIX_ROUNDING_IN_EPS * self.S.shape[0] * EPS)

    def assess(self, node: Node, clock: Clock) -> Node | None:
        """Return the node with the smaller of its bound and those of its groups; None if it is finished.

        One bound of its groups is λmax over all that are allowed, by interlacing, the other that of the discs. A group
        weighs the sum of the squares of its entries in the leading eigenvector. A single selection (k fixed groups, or
        at most k allowed ones) updates the incumbent and is recorded as a pruned bound.
        """
        if node.count_open_slots(self.k) == 0 or node.allowed.size <= self.k:
            groups = node.allowed if node.allowed.size <= self.k else node.allowed[node.fixed]
            self.update_incumbent(groups)
            self.record_pruned_bound(largest_eigenvalue(self.take_covariance(groups)))
            return None
        w, U = np.linalg.eigh(self.take_covariance(node.allowed))
        largest = float(w[-1]) + eigenvalue_rounding_error(w)
        bound = min(node.bound, largest, self._bound_by_discs(node))
        if bound <= self.pruning_threshold:
            self.record_pruned_bound(bound)
            return None
        labels = self.group_labels[self.find_variables(node.allowed)]
        weights = np.bincount(labels, U[:, -1] ** 2, minlength=len(self.block_norms))[node.allowed]
        return replace(node, bound=bound, weights=weights)


def _compute_block_norms(S: Array, group_labels: Array) -> Array:
    """Return the spectral norms ‖S_gh‖ of the blocks of S, (n_groups, n_groups), symmetric, in the dtype float64.

    S, (n, n), is symmetric. `group_labels`, (n,) of int, has the group of each variable, from 0 to n_groups − 1, each
    with a variable at least. Rounding is not added.
    """
    n_groups = int(group_labels.max()) + 1
    if np.array_equal(group_labels, np.arange(n_groups)):  # every variable is a group: no decomposition is needed
        return np.abs(S)
    members = [np.flatnonzero(group_labels == i) for i in range(n_groups)]
    norms = np.zeros((n_groups, n_groups))
    for i, rows in enumerate(members):
        for j in range(i + 1):
            norms[i, j] = norms[j, i] = np.linalg.norm(S[np.ix_(rows, members[j])], 2)
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
    S, groups = operator.gram(usable).astype(np.float64), np.arange(rules.n_groups)
    search = GroupSearch(S=S, group_labels=labels, k=n_selected, incumbent=np.flatnonzero(first_groups), tol=tol)
    search.push(Node(largest_eigenvalue(S), groups, required, np.ones(groups.size)))
    if callback is not None:
        clock.callback = lambda: callback(search.make_progress(clock.elapsed_seconds, usable))
        clock.poll_callback()
    search.run(clock)
    support = usable[search.find_variables(search.incumbent)]
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
