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
from gpower.certificates.candidates import Candidates
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import RowProblem, Rows, first_rows, minimize_rows, screen
from gpower.solvers.local_search import swap_polish

#: (smoothings, steps) of the row bound, one pair per round.
Rounds = tuple[tuple[tuple[float, ...], int], ...]
#: Rounds of minimising and screening at the root, and at a node.
ROOT: Rounds = (
    ((0.03, 0.01, 0.003), 40),
    ((0.01, 0.003, 0.001), 40),
    ((0.003, 0.001, 0.0003), 60),
    ((0.001, 0.0003), 80),
)
NODE: Rounds = (((0.003, 0.0007), 12), ((0.003, 0.0007), 12))
#: A round of screening that removes a smaller share is the last one of a node.
WORTHWHILE = 0.1
#: A node with no more supports than this is enumerated.
LEAF = 400
#: Supports whose eigenvalues are computed at once.
BATCH = 2048


@dataclass(frozen=True, eq=False)
class Node:
    """Supports between `fixed` and `members`."""

    bound: float  # no support of this node has a larger value
    members: Array  # indices of the variables allowed, increasing
    fixed: Array  # which of them every support contains, of bool
    rows: Rows | None  # a point of the dual over the members, from which to go on
    weights: Array  # how much of the relaxed solution each member has

    @property
    def free(self) -> Array:
        """Members that may be in or out."""
        return self.members[~self.fixed]

    def slots(self, k: int) -> int:
        """Members that are still to be chosen for supports of k."""
        return k - int(np.count_nonzero(self.fixed))

    def reduced(self, keep: Array, must: Array) -> Node:
        """Some members dropped, others fixed."""
        rows = None if self.rows is None else self.rows.restrict(np.flatnonzero(keep))
        return replace(self, members=self.members[keep], fixed=must[keep], rows=rows, weights=self.weights[keep])

    def branches(self) -> tuple[Node, Node]:
        """Without and with the free variable of the largest weight."""
        j = int(np.argmax(np.where(self.fixed, -1.0, self.weights)))
        one = np.arange(self.members.size) == j
        return self.reduced(~one, self.fixed), self.reduced(np.ones(one.size, bool), self.fixed | one)


@dataclass(eq=False)
class Search:
    """The state of a search over some candidates: enough to report what was proven, and to go on.

    Values and bounds are those of S, in units of `scale`; `found` and `proven` are those of Σ itself.
    """

    view: Candidates
    k: int
    tol: float
    support: Array  # the incumbent: which of the candidates
    scale: float  # makes the first incumbent's value about one
    leaf: int = LEAF  # nodes of no more supports are enumerated
    settled: float = 0.0
    nodes: int = 0
    open: list[tuple[float, int, Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.S = self.view.S / self.scale
        self.value = self._value_of(self.support)

    @property
    def level(self) -> float:
        """What a support must exceed to be better than the incumbent, tolerance included."""
        return self.value * (1 + self.tol)

    @property
    def upper(self) -> float:
        """An upper bound on every support."""
        return max(self.value, self.settled, -self.open[0][0] if self.open else 0.0)

    @property
    def found(self) -> float:
        """The variance of the incumbent."""
        return self.value * self.scale - self.view.shift

    @property
    def proven(self) -> float:
        """An upper bound on the variance of every support."""
        return self.upper * self.scale - self.view.shift

    def root(self, proven: float) -> Node:
        """The node of all variables, of which a bound is proven already."""
        n, bound = self.view.idx.size, (proven + self.view.shift) / self.scale
        return Node(bound, np.arange(n), np.zeros(n, bool), None, np.ones(n))

    def _value_of(self, support: Array) -> float:
        return float(np.linalg.eigvalsh(self.S[np.ix_(support, support)])[-1])

    def offer(self, support: Array) -> None:
        """Take a support as the incumbent, polished, if it is better."""
        if self._value_of(support) > self.value * (1 + 1e-12):
            self.support = swap_polish(self.S, support)
            self.value = self._value_of(self.support)

    def push(self, node: Node) -> None:
        """Open a node."""
        self.nodes += 1
        heapq.heappush(self.open, (-node.bound, self.nodes, node))

    def settle(self, bound: float) -> None:
        """Leave supports of no larger value than the bound aside."""
        self.settled = max(self.settled, bound)

    def problem(self, node: Node) -> RowProblem:
        """What a node is about."""
        return RowProblem(self.S[np.ix_(node.members, node.members)], self.k, node.fixed)

    def run(self, assess: Assess, clock: Clock) -> None:
        """Best bound first, until nothing is open or the clock expires."""
        with clock.interruptible():
            while self.open and not clock.expired:
                _, _, node = self.open[0]  # stays open until its children are there: an interrupt loses nothing
                if node.bound <= self.level:
                    self.settle(node.bound)
                    self.open.clear()
                    return
                children = self._expand(assess, node, clock)
                heapq.heappop(self.open)
                for child in children:
                    self.push(child)
                clock.report()

    def _expand(self, assess: Assess, node: Node, clock: Clock) -> tuple[Node, ...]:
        tightened = None if self.enumerated(node) else assess(self, node, clock)
        if tightened is None or self.enumerated(tightened):
            return ()
        self.offer_weights(tightened)
        return tightened.branches()

    def offer_weights(self, node: Node) -> None:
        """Round the relaxed solution: the fixed members and the heaviest free ones."""
        order = np.argsort(-np.where(node.fixed, np.inf, node.weights), kind="stable")
        self.offer(np.sort(node.members[order[: self.k]]))

    def is_leaf(self, node: Node) -> bool:
        """Whether the node is small enough to look at all its supports."""
        return comb(node.free.size, node.slots(self.k)) <= self.leaf

    def enumerated(self, node: Node) -> bool:
        """Whether the node was small enough to look at all its supports."""
        if not self.is_leaf(node):
            return False
        value, support = best_completion(self.S, node.members[node.fixed], node.free, node.slots(self.k))
        self.offer(support)
        self.settle(value * (1 + 8 * self.k * EPS))
        return True


#: A node with a smaller bound, and perhaps fewer members; None once it is settled.
Assess = Callable[[Search, Node, Clock], Node | None]


def assess_cheaply(search: Search, node: Node, clock: Clock) -> Node | None:
    """Trace, Gershgorin and the largest eigenvalue of the members; None if that settles the node."""
    problem = search.problem(node)
    bound = min(node.bound, _cheap_bound(problem), largest_eigenvalue(problem.S))
    if bound <= search.level:
        search.settle(bound)
        return None
    return replace(node, bound=bound, weights=np.square(np.linalg.eigh(problem.S)[1][:, -1]))


def _cheap_bound(problem: RowProblem) -> float:
    """Trace and Gershgorin's discs over supports that contain the fixed members."""
    d, fixed, slots = np.diagonal(problem.S), problem.fixed, problem.slots
    trace = float(np.sum(d[fixed])) + float(trace_profile(d[~fixed], slots)[-1])
    rows = np.abs(problem.S)
    np.fill_diagonal(rows, 0.0)
    others = -np.sort(-rows[:, ~fixed], axis=1)[:, :slots]
    others[~fixed, slots - 1 :] = 0.0  # a free row takes one of the slots itself
    discs = d + np.sum(rows[:, fixed], axis=1) + np.sum(others, axis=1)
    return min(trace, float(np.max(discs))) * (1 + 4 * problem.k * EPS)


def assess_by_rows(search: Search, node: Node, clock: Clock, rounds: Rounds = NODE) -> Node | None:
    """The row bound and screening in turn; None if that settles the node."""
    for smoothings, steps in rounds:
        problem = search.problem(node)
        start = first_rows(problem, 0.0) if node.rows is None else node.rows
        found = minimize_rows(problem, start, target=search.level, clock=clock, smoothings=smoothings, steps=steps)
        node = replace(node, bound=min(node.bound, found.bound), rows=found.rows, weights=found.weights)
        if node.bound <= search.level:
            search.settle(node.bound)
            return None
        search.offer_weights(node)
        keep, must = screen(problem, found.rows, search.level)
        changed = (np.count_nonzero(~keep) + np.count_nonzero(must & ~node.fixed)) / keep.size
        if changed > 0:
            search.settle(search.level)  # what was dropped may reach the level
            if np.any(must & ~keep) or np.count_nonzero(must) > search.k or np.count_nonzero(keep) < search.k:
                return None
            node = node.reduced(keep, must)
            if search.is_leaf(node) or clock.expired:
                break
        if rounds is NODE and changed < WORTHWHILE:
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
    while part := list(islice(subsets, BATCH)):
        if clock is not None and clock.expired:
            return -np.inf, fixed
        sets = np.hstack([np.tile(fixed, (len(part), 1)), np.array(part, np.intp)])  # (batch, k)
        values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
        j = int(np.argmax(values))
        if values[j] > best:
            best, support = float(values[j]), sets[j]
    return best, np.sort(support)
