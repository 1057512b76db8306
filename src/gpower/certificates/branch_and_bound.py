"""Exact search: branch and bound over which variables are in and which are out.

A node allows some variables and fixes others; its bound holds for every support in between. The best support so
far, the incumbent, sets the level: a node whose bound is at most incumbent·(1 + tol) holds nothing better and is
settled. One loop serves both ways to bound a node, the cheap one and the row bound with screening. At any moment
max(incumbent, settled, largest open bound) is an upper bound on the whole problem, so the search may stop there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from math import comb

import numpy as np

from gpower._utils.arrays import Array
from gpower.certificates.bounds import EPS, largest_eigenvalue, trace_profile
from gpower.certificates.candidates import CandidateCovariance
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import DualRows, RowProblem, initialize_rows, minimize_row_bound, screen_variables
from gpower.solvers.local_search import swap_search

#: (smoothings, steps) of the row bound, one pair per round.
RowBoundSchedule = tuple[tuple[tuple[float, ...], int], ...]
#: Rounds of minimising and screening at the root, and at a node.
ROOT_SCHEDULE: RowBoundSchedule = (
    ((0.03, 0.01, 0.003), 40),
    ((0.01, 0.003, 0.001), 40),
    ((0.003, 0.001, 0.0003), 60),
    ((0.001, 0.0003), 80),
)
NODE_SCHEDULE: RowBoundSchedule = (((0.003, 0.0007), 12), ((0.003, 0.0007), 12))
#: A round of screening that removes a smaller share is the last one of a node.
MIN_SCREENED_SHARE = 0.1
#: A node with no more supports than this is enumerated.
MAX_LEAF_SUPPORTS = 400
#: Supports whose eigenvalues are computed at once.
ENUMERATION_BATCH_SIZE = 2048


@dataclass(frozen=True, eq=False)
class Node:
    """Supports between `fixed` and `members`."""

    bound: float  # no support of this node has a larger value
    allowed_variables: Array  # indices of the variables allowed, increasing
    fixed: Array  # which of them every support contains, of bool
    rows: DualRows | None  # a point of the dual over the members, from which to go on
    weights: Array  # how much of the relaxed solution each member has

    @property
    def free_variables(self) -> Array:
        """Members that may be in or out."""
        return self.allowed_variables[~self.fixed]

    def count_open_slots(self, k: int) -> int:
        """Members that are still to be chosen for supports of k."""
        return k - int(np.count_nonzero(self.fixed))

    def reduce(self, kept: Array, required: Array) -> Node:
        """Some members dropped, others fixed."""
        rows = None if self.rows is None else self.rows.restrict(np.flatnonzero(kept))
        return replace(
            self,
            allowed_variables=self.allowed_variables[kept],
            fixed=required[kept],
            rows=rows,
            weights=self.weights[kept],
        )

    def branch(self) -> tuple[Node, Node]:
        """Without and with the free variable of the largest weight."""
        j = int(np.argmax(np.where(self.fixed, -1.0, self.weights)))
        one = np.arange(self.allowed_variables.size) == j
        return self.reduce(~one, self.fixed), self.reduce(np.ones(one.size, bool), self.fixed | one)


@dataclass(eq=False)
class SupportSearch:
    """The state of a search over some candidates: enough to report what was proven, and to go on.

    Values and bounds are those of S, in units of `scale`; `found` and `proven` are those of Σ itself.
    """

    candidates: CandidateCovariance
    k: int
    tol: float
    incumbent_support: Array  # the incumbent: which of the candidates
    scale: float  # makes the first incumbent's value about one
    max_leaf_supports: int = MAX_LEAF_SUPPORTS  # nodes of no more supports are enumerated
    pruned_bound: float = 0.0
    n_nodes: int = 0
    open_nodes: list[tuple[float, int, Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.S = self.candidates.S / self.scale
        self.incumbent_value = self._compute_value(self.incumbent_support)

    @property
    def pruning_threshold(self) -> float:
        """What a support must exceed to be better than the incumbent, tolerance included."""
        return self.incumbent_value * (1 + self.tol)

    @property
    def upper_bound(self) -> float:
        """An upper bound on every support."""
        return max(self.incumbent_value, self.pruned_bound, -self.open_nodes[0][0] if self.open_nodes else 0.0)

    @property
    def incumbent_variance(self) -> float:
        """The variance of the incumbent."""
        return self.incumbent_value * self.scale - self.candidates.shift

    @property
    def variance_bound(self) -> float:
        """An upper bound on the variance of every support."""
        return self.upper_bound * self.scale - self.candidates.shift

    def make_root(self, variance_bound: float) -> Node:
        """The node of all variables, of which a bound is proven already."""
        n, bound = self.candidates.variables.size, (variance_bound + self.candidates.shift) / self.scale
        return Node(bound, np.arange(n), np.zeros(n, bool), None, np.ones(n))

    def _compute_value(self, support: Array) -> float:
        return float(np.linalg.eigvalsh(self.S[np.ix_(support, support)])[-1])

    def update_incumbent(self, support: Array) -> None:
        """Take a support as the incumbent, polished, if it is better."""
        if self._compute_value(support) > self.incumbent_value * (1 + 1e-12):
            self.incumbent_support = swap_search(self.S, support)
            self.incumbent_value = self._compute_value(self.incumbent_support)

    def push(self, node: Node) -> None:
        """Open a node."""
        self.n_nodes += 1
        heapq.heappush(self.open_nodes, (-node.bound, self.n_nodes, node))

    def record_pruned_bound(self, bound: float) -> None:
        """Leave supports of no larger value than the bound aside."""
        self.pruned_bound = max(self.pruned_bound, bound)

    def make_row_problem(self, node: Node) -> RowProblem:
        """What a node is about."""
        return RowProblem(self.S[np.ix_(node.allowed_variables, node.allowed_variables)], self.k, node.fixed)

    def run(self, assess: NodeAssessor, clock: Clock) -> None:
        """Best bound first, until nothing is open or the clock expires."""
        with clock.interruptible():
            while self.open_nodes and not clock.is_expired:
                _, _, node = self.open_nodes[0]  # stays open until its children are there: an interrupt loses nothing
                if node.bound <= self.pruning_threshold:
                    self.record_pruned_bound(node.bound)
                    self.open_nodes.clear()
                    return
                children = self._expand(assess, node, clock)
                heapq.heappop(self.open_nodes)
                for child in children:
                    self.push(child)
                clock.poll_callback()

    def _expand(self, assess: NodeAssessor, node: Node, clock: Clock) -> tuple[Node, ...]:
        tightened = None if self.enumerate_if_leaf(node) else assess(self, node, clock)
        if tightened is None or self.enumerate_if_leaf(tightened):
            return ()
        self.update_from_weights(tightened)
        return tightened.branch()

    def update_from_weights(self, node: Node) -> None:
        """Round the relaxed solution: the fixed members and the heaviest free ones."""
        order = np.argsort(-np.where(node.fixed, np.inf, node.weights), kind="stable")
        self.update_incumbent(np.sort(node.allowed_variables[order[: self.k]]))

    def is_leaf(self, node: Node) -> bool:
        """Whether the node is small enough to look at all its supports."""
        return comb(node.free_variables.size, node.count_open_slots(self.k)) <= self.max_leaf_supports

    def enumerate_if_leaf(self, node: Node) -> bool:
        """Whether the node was small enough to look at all its supports."""
        if not self.is_leaf(node):
            return False
        value, support = best_completion(
            self.S, node.allowed_variables[node.fixed], node.free_variables, node.count_open_slots(self.k)
        )
        self.update_incumbent(support)
        self.record_pruned_bound(value * (1 + 8 * self.k * EPS))
        return True


#: A node with a smaller bound, and perhaps fewer members; None once it is settled.
NodeAssessor = Callable[[SupportSearch, Node, Clock], Node | None]


def assess_cheaply(search: SupportSearch, node: Node, clock: Clock) -> Node | None:
    """Trace, Gershgorin and the largest eigenvalue of the members; None if that settles the node."""
    problem = search.make_row_problem(node)
    bound = min(node.bound, _compute_cheap_bound(problem), largest_eigenvalue(problem.S))
    if bound <= search.pruning_threshold:
        search.record_pruned_bound(bound)
        return None
    return replace(node, bound=bound, weights=np.square(np.linalg.eigh(problem.S)[1][:, -1]))


def _compute_cheap_bound(problem: RowProblem) -> float:
    """Trace and Gershgorin's discs over supports that contain the fixed members."""
    d, fixed, slots = np.diagonal(problem.S), problem.fixed, problem.n_open_slots
    trace = float(np.sum(d[fixed])) + float(trace_profile(d[~fixed], slots)[-1])
    rows = np.abs(problem.S)
    np.fill_diagonal(rows, 0.0)
    others = -np.sort(-rows[:, ~fixed], axis=1)[:, :slots]
    others[~fixed, slots - 1 :] = 0.0  # a free row takes one of the slots itself
    discs = d + np.sum(rows[:, fixed], axis=1) + np.sum(others, axis=1)
    return min(trace, float(np.max(discs))) * (1 + 4 * problem.k * EPS)


def assess_by_rows(
    search: SupportSearch, node: Node, clock: Clock, schedule: RowBoundSchedule = NODE_SCHEDULE
) -> Node | None:
    """The row bound and screening in turn; None if that settles the node."""
    for smoothings, steps in schedule:
        problem = search.make_row_problem(node)
        start = initialize_rows(problem, 0.0) if node.rows is None else node.rows
        found = minimize_row_bound(
            problem, start, target=search.pruning_threshold, clock=clock, smoothings=smoothings, steps=steps
        )
        node = replace(node, bound=min(node.bound, found.bound), rows=found.rows, weights=found.weights)
        if node.bound <= search.pruning_threshold:
            search.record_pruned_bound(node.bound)
            return None
        search.update_from_weights(node)
        keep, must = screen_variables(problem, found.rows, search.pruning_threshold)
        changed = (np.count_nonzero(~keep) + np.count_nonzero(must & ~node.fixed)) / keep.size
        if changed > 0:
            search.record_pruned_bound(search.pruning_threshold)  # what was dropped may reach the level
            if np.any(must & ~keep) or np.count_nonzero(must) > search.k or np.count_nonzero(keep) < search.k:
                return None
            node = node.reduce(keep, must)
            if search.is_leaf(node) or clock.is_expired:
                break
        if schedule is NODE_SCHEDULE and changed < MIN_SCREENED_SHARE:
            break
    return node


def best_completion(S: Array, fixed: Array, free: Array, slots: int, clock: Clock | None = None) -> tuple[float, Array]:
    """The largest λmax(S_II) over I = fixed ∪ J, J of `slots` free variables, and that I; −∞ if the clock expires.

    Examples
    --------
    >>> import numpy as np
    >>> best_completion(np.diag([1.0, 3.0, 2.0]), np.array([0]), np.array([1, 2]), 1)
    (3.0, array([0, 1]))
    """
    best, support = -np.inf, fixed
    subsets = combinations(free.tolist(), min(slots, free.size))
    while part := list(islice(subsets, ENUMERATION_BATCH_SIZE)):
        if clock is not None and clock.is_expired:
            return -np.inf, fixed
        sets = np.hstack([np.tile(fixed, (len(part), 1)), np.array(part, np.intp)])  # (batch, k)
        values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
        j = int(np.argmax(values))
        if values[j] > best:
            best, support = float(values[j]), sets[j]
    return best, np.sort(support)
