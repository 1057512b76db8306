"""Exact search by branch and bound: the best-first loop, and the search over which variables are in the support.

A node stands for a set of supports and has an upper bound on their values. The best support so far is the incumbent. A
node whose bound is at most incumbent·(1 + tol) contains nothing better and is pruned. At any moment
max(incumbent, largest pruned bound, largest open bound) is an upper bound on the whole problem, so a search may stop
after any node.

`BestFirstSearch` is the loop. `SupportSearch` branches on single variables: a node allows some variables and fixes
others, and is bounded by rows and reduced by screening. `group_search` branches on whole groups.

Terms: all arrays are NumPy arrays on the host, values in float64 and indices of int. The value of a support I is
λmax(S_II), for S, (n, n), symmetric and positive semidefinite. A `CandidateCovariance` has `variables`, (n,), the
column numbers of the candidates; `S`, (n, n), Σ over them plus shift·I; and `shift`, at least zero, which is to be
subtracted once from an eigenvalue of S for one of Σ. A "position" counts the candidates from 0.

A `RowProblem` (S, k, fixed) asks for the best support of k variables that contains the fixed ones, a mask. `DualRows`
are a point of its dual, whose ``restrict(idx)`` is that over the variables of some indices;
``initialize_rows(problem, threshold)`` makes one without knowledge of a threshold if that is zero.
``minimize_row_bound(problem, rows, target=, clock=, smoothings=, steps=)`` returns the best point found, as `rows`, a
`bound` on every support of the problem with rounding, and `weights`, (n,), non-negative, large for variables that good
supports contain; it stops at a bound of at most `target` or when the clock expires. ``screen_variables(problem, rows,
threshold)`` returns two masks that hold for supports of a value above the threshold: `keep`, the variables that they
may contain, and `required`, those that all contain. ``swap_search(S, support)`` returns the increasing positions of a
support of the same size and of no smaller value that no single swap improves, unless it is large.

A `Clock` limits the time: ``is_expired`` says whether to stop, ``poll_callback()`` calls the user's function, and
``interruptible()`` is a context in which Ctrl-C ends the block and expires the clock. `EPS` is the machine epsilon.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from math import comb
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gpower._utils.arrays import Array
from gpower.certificates.bounds import EPS, MATRIX_ROUNDING_IN_EPS
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import DualRows, RowProblem, initialize_rows, minimize_row_bound, screen_variables
from gpower.certificates.wide_data_bounds import CandidateCovariance
from gpower.solvers.local_search import swap_search

#: Smoothings and L-BFGS steps of the row bound, one pair per round.
RowBoundSchedule = tuple[tuple[tuple[float, ...], int], ...]
#: Rounds of minimising and screening at the root, and at every other node.
ROOT_SCHEDULE: RowBoundSchedule = (
    ((0.03, 0.01, 0.003), 40),
    ((0.01, 0.003, 0.001), 40),
    ((0.003, 0.001, 0.0003), 60),
    ((0.001, 0.0003), 80),
)
NODE_SCHEDULE: RowBoundSchedule = (((0.003, 0.0007), 12), ((0.003, 0.0007), 12))
#: A node with at most this many supports is enumerated, which takes about 1 ms.
MAX_LEAF_SUPPORTS = 400
#: Number of supports whose eigenvalues are computed in one call.
ENUMERATION_BATCH_SIZE = 2048
#: Relative gain from which a support replaces the incumbent: a smaller one may be rounding.
MIN_RELATIVE_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class SearchNode:
    """A set of supports with an upper bound on their values."""

    bound: float  # no support of this node has a larger value


NodeT = TypeVar("NodeT", bound=SearchNode)


@dataclass(eq=False, kw_only=True)
class BestFirstSearch(Generic[NodeT]):
    """State of a best-first branch and bound: enough to report what is proven and to resume.

    A subclass sets `incumbent_value` when it is created, and updates it while it expands nodes.
    """

    tol: float  # relative gap at which a node is pruned
    incumbent_value: float = field(init=False)  # value of the best support so far
    pruned_bound: float = 0.0  # no support that was enumerated or pruned has a larger value
    n_nodes: int = 0  # nodes created so far
    open_nodes: list[tuple[float, int, NodeT]] = field(default_factory=list)  # heap of (−bound, serial number, node)

    @property
    def pruning_threshold(self) -> float:
        """Return incumbent·(1 + tol): nodes with a bound up to this are pruned."""
        return self.incumbent_value * (1 + self.tol)

    @property
    def upper_bound(self) -> float:
        """Return an upper bound on the value of every support."""
        return max(self.incumbent_value, self.pruned_bound, -self.open_nodes[0][0] if self.open_nodes else 0.0)

    def record_pruned_bound(self, bound: float) -> None:
        """Record that some supports, of values up to `bound`, are no longer searched; a smaller one changes nothing."""
        self.pruned_bound = max(self.pruned_bound, bound)

    def push(self, node: NodeT | None) -> None:
        """Count a node and open it; None stands for a node that was pruned when it was created, and is only counted.

        Of open nodes with equal bounds the one that was opened first is expanded first.
        """
        self.n_nodes += 1
        if node is not None:
            heapq.heappush(self.open_nodes, (-node.bound, self.n_nodes, node))

    def run_best_first(self, expand: Callable[[NodeT], Sequence[NodeT | None]], clock: Clock) -> None:
        """Expand the node of the largest bound until every node is pruned or the clock expires.

        `expand` returns the children of a node, None for each that is pruned, and records the bounds of these itself.
        Together they contain all supports of the node that may exceed `pruning_threshold`. It may update the incumbent.
        If the largest bound is at most `pruning_threshold`, all open nodes are pruned. The callback of the clock is
        called after each node. Ctrl-C expires the clock and does not raise; the node being expanded then stays open.
        """
        with clock.interruptible():
            while self.open_nodes and not clock.is_expired:
                _, _, node = self.open_nodes[0]  # stays open until its children exist, so that Ctrl-C loses nothing
                if node.bound <= self.pruning_threshold:
                    self.record_pruned_bound(node.bound)
                    self.open_nodes.clear()
                    return
                children = expand(node)
                heapq.heappop(self.open_nodes)
                for child in children:
                    self.push(child)
                clock.poll_callback()


@dataclass(frozen=True, eq=False)
class Node(SearchNode):
    """Supports of k variables that contain all fixed variables and only allowed ones; `bound` is in the units of S."""

    allowed_variables: Array  # (m,): indices of the allowed variables among the candidates, increasing
    fixed: Array  # (m,) of bool: the allowed variables that every support contains
    rows: DualRows | None  # point of the dual over the allowed variables, a start for the next minimisation
    weights: Array  # (m,): share of each allowed variable in the relaxed solution, non-negative

    @property
    def free_variables(self) -> Array:
        """Return the positions of the allowed variables that are not fixed, increasing."""
        return self.allowed_variables[~self.fixed]

    def count_open_slots(self, k: int) -> int:
        """Return how many free variables a support of k variables contains; negative if more than k are fixed."""
        return k - int(np.count_nonzero(self.fixed))

    def reduce(self, keep: Array, required: Array) -> Node:
        """Return the node without the variables outside the mask `keep` and with `required` fixed, both (m,) of bool.

        `required` replaces the fixed variables, so it must contain them, and `keep` must contain `required`. The bound
        stays; rows and weights are those of the variables that stay.
        """
        return replace(
            self,
            allowed_variables=self.allowed_variables[keep],
            fixed=required[keep],
            rows=None if self.rows is None else self.rows.restrict(np.flatnonzero(keep)),
            weights=self.weights[keep],
        )

    def branch(self) -> tuple[Node, Node]:
        """Return the nodes without and with the free variable of the largest weight; at least one must be free.

        Of equal weights the first variable is taken. Both nodes have the bound of this one.
        """
        j = int(np.argmax(np.where(self.fixed, -1.0, self.weights)))
        is_branched = np.arange(self.allowed_variables.size) == j
        return self.reduce(~is_branched, self.fixed), self.reduce(np.ones_like(is_branched), self.fixed | is_branched)


@dataclass(eq=False)
class SupportSearch(BestFirstSearch[Node]):
    """State of a search for the best support of k candidates.

    Values and bounds are those of S, in units of `scale`, so they contain the shift; `incumbent_variance` and
    `variance_bound` are those of Σ. Supports and nodes contain positions. k is at most the number of candidates.
    """

    candidates: CandidateCovariance
    k: int
    incumbent_support: Array  # (k,), or fewer at the start: indices among the candidates, not column numbers
    scale: float  # positive; value of the first incumbent, so that values of S are about one
    max_leaf_supports: int = MAX_LEAF_SUPPORTS  # a node with at most this many supports is enumerated

    def __post_init__(self) -> None:
        self.S = self.candidates.S / self.scale
        self.incumbent_value = self._compute_value(self.incumbent_support)

    @property
    def incumbent_variance(self) -> float:
        """Return the variance of the incumbent, zᵀΣz."""
        return self.incumbent_value * self.scale - self.candidates.shift

    @property
    def variance_bound(self) -> float:
        """Return an upper bound on the variance of every support of k candidates, without the shift."""
        return self.upper_bound * self.scale - self.candidates.shift

    def make_root(self, variance_bound: float) -> Node:
        """Return the node of all supports, given a proven bound on their variance.

        The bound is in the units of Σ and without the shift, as `variance_bound` is. The node has no rows, and weights
        of one.
        """
        n = self.candidates.variables.size
        bound = (variance_bound + self.candidates.shift) / self.scale
        return Node(bound, np.arange(n), np.zeros(n, bool), None, np.ones(n))

    def _compute_value(self, support: Array) -> float:
        """Return λmax of the scaled S on a support, different positions in any order, not empty."""
        return float(np.linalg.eigvalsh(self.S[np.ix_(support, support)])[-1])

    def update_incumbent(self, support: Array) -> None:
        """Improve a support by swaps and make it the incumbent, if its value exceeds the incumbent's.

        `support` contains different positions, in any order, and is not empty; it need not belong to an open node.
        Gains up to the share MIN_RELATIVE_GAIN do not count: nothing happens then, and no swap is tried.
        """
        if self._compute_value(support) > self.incumbent_value * (1 + MIN_RELATIVE_GAIN):
            self.incumbent_support = swap_search(self.S, support)
            self.incumbent_value = self._compute_value(self.incumbent_support)

    def make_row_problem(self, node: Node) -> RowProblem:
        """Return the problem of the row bound over the allowed variables of a node, in units of `scale`."""
        return RowProblem(self.S[np.ix_(node.allowed_variables, node.allowed_variables)], self.k, node.fixed)

    def run(self, clock: Clock) -> None:
        """Expand open nodes, by enumeration or row bound, screening and branching, until all are pruned or time is up.

        Ctrl-C and a callback that returns true stop the search and do not raise; `variance_bound` is proven then too.
        """

        def expand(node: Node) -> tuple[Node, ...]:
            """Return two children, or none if the node was enumerated or pruned."""
            tightened = None if self.enumerate_if_leaf(node) else assess_by_rows(self, node, clock)
            return () if tightened is None or self.enumerate_if_leaf(tightened) else tightened.branch()

        self.run_best_first(expand, clock)

    def update_from_weights(self, node: Node) -> None:
        """Update the incumbent from the support of k variables of the largest weights, all fixed ones included.

        This rounds the relaxed solution of the row bound; the node stays as it is.
        """
        order = np.argsort(-np.where(node.fixed, np.inf, node.weights), kind="stable")
        self.update_incumbent(np.sort(node.allowed_variables[order[: self.k]]))

    def is_leaf(self, node: Node) -> bool:
        """Return whether the node has at most `max_leaf_supports` supports, so that they are enumerated."""
        return comb(node.free_variables.size, node.count_open_slots(self.k)) <= self.max_leaf_supports

    def open_unless_leaf(self, node: Node | None) -> None:
        """Open a node, or enumerate its supports if they are few; None stands for a node that is pruned already.

        For None nothing is done or counted.
        """
        if node is not None and not self.enumerate_if_leaf(node):
            self.push(node)

    def enumerate_if_leaf(self, node: Node) -> bool:
        """Enumerate the supports of a node that has few, and return whether it did; the node is then finished.

        The node has a support: at most k variables are fixed and at least k allowed. The best support updates the
        incumbent, and its value, with rounding, is recorded as a pruned bound. The clock is not read.
        """
        if not self.is_leaf(node):
            return False
        best = find_best_support(
            self.S, node.allowed_variables[node.fixed], node.free_variables, node.count_open_slots(self.k)
        )
        assert best is not None  # without a clock the enumeration is complete
        self.update_incumbent(best.support)
        self.record_pruned_bound(best.bound)
        return True


def assess_by_rows(
    search: SupportSearch, node: Node, clock: Clock, schedule: RowBoundSchedule = NODE_SCHEDULE
) -> Node | None:
    """Alternate between the row bound and screening at a node; return the reduced node, or None if it is pruned.

    There is one round for each pair of `schedule`: the values of μ of a minimisation and its L-BFGS steps for each. A
    node without `rows` starts from those of `initialize_rows`. The incumbent of the search is updated from the weights
    of every round, and the bounds of what is pruned or screened are recorded. A node is pruned if its bound is at most
    `pruning_threshold` or if screening leaves it no support. Rounds end if few supports are left. If the clock expires,
    or after Ctrl-C, the node is returned with the bound that is proven so far. The given node is not changed.
    """
    for smoothings, steps in schedule:
        problem = search.make_row_problem(node)
        start = initialize_rows(problem, 0.0) if node.rows is None else node.rows
        result = minimize_row_bound(
            problem, start, target=search.pruning_threshold, clock=clock, smoothings=smoothings, steps=steps
        )
        node = replace(node, bound=min(node.bound, result.bound), rows=result.rows, weights=result.weights)
        if node.bound <= search.pruning_threshold:
            search.record_pruned_bound(node.bound)
            return None
        search.update_from_weights(node)
        keep, required = screen_variables(problem, result.rows, search.pruning_threshold)
        if np.any(~keep | (required & ~node.fixed)):
            search.record_pruned_bound(search.pruning_threshold)  # screened supports have values up to the threshold
            n_required, n_kept = np.count_nonzero(required), np.count_nonzero(keep)
            if np.any(required & ~keep) or n_required > search.k or n_kept < search.k:
                return None
            node = node.reduce(keep, required)
            if search.is_leaf(node) or clock.is_expired:
                break
    return node


class SupportBatch(NamedTuple):
    """Some supports of equal size and their values."""

    supports: Array  # (n_supports, k) of int: indices into S, first the fixed ones, then the free ones, in given order
    values: Array  # (n_supports,): λmax(S_II), with the rounding error of LAPACK


def iterate_supports(S: Array, fixed: Array, free: Array, slots: int) -> Iterator[SupportBatch]:
    """Yield all supports I = fixed ∪ J, J of `slots` free variables, and λmax(S_II), in batches.

    S is symmetric, (n, n), in float64. `fixed` and `free` are arrays of int, different indices into S without a common
    one; a support must not be empty. `slots` is at least zero; if fewer are free, J contains them all. The supports
    come in the lexicographic order of the positions in `free`, in batches of up to ENUMERATION_BATCH_SIZE.
    """
    subsets = combinations(free.tolist(), min(slots, free.size))
    while batch := list(islice(subsets, ENUMERATION_BATCH_SIZE)):
        supports = np.hstack([np.tile(fixed, (len(batch), 1)), np.array(batch, np.intp)])
        yield SupportBatch(supports, np.linalg.eigvalsh(S[supports[:, :, None], supports[:, None, :]])[:, -1])


class BestSupport(NamedTuple):
    """The best of all supports that were enumerated."""

    support: Array  # (k,) of int: indices into S, increasing
    bound: float  # λmax(S_II) of this support plus the rounding error of LAPACK: no support has a larger value


def find_best_support(
    S: Array, fixed: Array, free: Array, slots: int, clock: Clock | None = None
) -> BestSupport | None:
    """Return the best of the supports of `iterate_supports`; None if the clock expires before all are compared.

    S, (n, n), is symmetric, in float64. A support is `fixed` and `slots` of the indices `free`; both are arrays of int
    without a common index, a support is not empty. Of values that are equal in floating point the first is kept, in the
    order of `free`. The bound exceeds the value by the rounding error of LAPACK, 8 k ε of it, so that it holds for all
    supports. The clock is read before each batch of ENUMERATION_BATCH_SIZE supports.

    Examples
    --------
    >>> import numpy as np
    >>> find_best_support(np.diag([1.0, 3.0, 2.0]), np.array([0]), np.array([1, 2]), 1).support
    array([0, 1])
    """
    best_value, best_support = -np.inf, fixed
    for batch in iterate_supports(S, fixed, free, slots):
        if clock is not None and clock.is_expired:
            return None
        j = int(np.argmax(batch.values))
        if batch.values[j] > best_value:
            best_value, best_support = float(batch.values[j]), batch.supports[j]
    return BestSupport(np.sort(best_support), best_value * (1 + MATRIX_ROUNDING_IN_EPS * best_support.size * EPS))
