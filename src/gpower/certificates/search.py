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

import numpy as np

from gpower._arrays import Array
from gpower.certificates.bounds import trace_profile
from gpower.certificates.clock import Clock
from gpower.certificates.eigenvalues import EPS, largest_eigenvalue
from gpower.certificates.enumeration import best_completion, count
from gpower.certificates.rows import RowProblem, Rows, first_rows, minimize_rows
from gpower.certificates.screening import screen
from gpower.exchanges import swap_polish

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


@dataclass(frozen=True, eq=False)
class Node:
    """Supports between `fixed` and `members`.

    Attributes
    ----------
    bound : float
        No support of this node has a larger value.
    members : ndarray of int
        Variables allowed, increasing.
    fixed : ndarray of bool
        Those of them that every support contains.
    rows : Rows or None
        A point of the dual over the members, from which to go on.
    weights : ndarray
        How much of the relaxed solution each member has.
    """

    bound: float
    members: Array
    fixed: Array
    rows: Rows | None
    weights: Array

    @property
    def free(self) -> Array:
        """Members that may be in or out."""
        return self.members[~self.fixed]

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
    """The state of a search: enough to report what was proven, and to go on.

    Attributes
    ----------
    S : ndarray of shape (n, n)
        Σ, scaled so that the first incumbent has the value one.
    k : int
    tol : float
    support : ndarray of int
        The incumbent.
    leaf : int
        Nodes of no more supports are enumerated.
    """

    S: Array
    k: int
    tol: float
    support: Array
    leaf: int = LEAF
    value: float = field(init=False)
    settled: float = field(init=False, default=0.0)
    nodes: int = field(init=False, default=0)
    open: list[tuple[float, int, Node]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.value = self._value_of(self.support)

    @property
    def level(self) -> float:
        """What a support must exceed to be better than the incumbent, tolerance included."""
        return self.value * (1 + self.tol)

    @property
    def upper(self) -> float:
        """An upper bound on every support."""
        return max(self.value, self.settled, -self.open[0][0] if self.open else 0.0)

    def root(self, bound: float, rows: Rows | None = None) -> Node:
        """The node of all variables."""
        n = self.S.shape[0]
        return Node(bound, np.arange(n), np.zeros(n, bool), rows, np.ones(n))

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

    def run(self, assess: Callable[[Search, Node, Clock], Node | None], clock: Clock) -> None:
        """Best bound first, until nothing is open or the clock expires."""
        with clock.interruptible():
            while self.open and not clock.expired:
                _, _, node = self.open[0]  # stays open until its children are there: an interrupt loses nothing
                if node.bound <= self.level:
                    self.settled = max(self.settled, node.bound)
                    self.open.clear()
                    return
                children = self._expand(assess, node, clock)
                heapq.heappop(self.open)
                for child in children:
                    self.push(child)
                clock.report()

    def _expand(
        self, assess: Callable[[Search, Node, Clock], Node | None], node: Node, clock: Clock
    ) -> tuple[Node, ...]:
        tightened = None if self.enumerated(node) else assess(self, node, clock)
        if tightened is None or self.enumerated(tightened):
            return ()
        self.offer_weights(tightened)
        return tightened.branches()

    def offer_weights(self, node: Node) -> None:
        """Round the relaxed solution: the fixed members and the heaviest free ones."""
        order = np.argsort(-np.where(node.fixed, np.inf, node.weights), kind="stable")
        self.offer(np.sort(node.members[order[: self.k]]))

    def enumerated(self, node: Node) -> bool:
        """Whether the node was small enough to look at all its supports."""
        slots, free = self.k - int(np.count_nonzero(node.fixed)), node.free
        if free.size > slots > 0 and count(free.size, slots) > self.leaf:
            return False
        fixed = node.members[node.fixed]
        value, support = best_completion(self.S, fixed, free, slots)
        self.offer(support)
        self.settled = max(self.settled, value * (1 + 8 * self.k * EPS))
        return True


def assess_cheaply(search: Search, node: Node, clock: Clock) -> Node | None:
    """Trace, Gershgorin and the largest eigenvalue of the members; None if that settles the node."""
    S = search.S[np.ix_(node.members, node.members)]
    bound = min(node.bound, _cheap_bound(S, node.fixed, search.k), largest_eigenvalue(S))
    if bound <= search.level:
        search.settled = max(search.settled, bound)
        return None
    weights = np.square(np.linalg.eigh(S)[1][:, -1])
    return replace(node, bound=bound, weights=weights)


def _cheap_bound(S: Array, fixed: Array, k: int) -> float:
    """Trace and Gershgorin's discs over supports that contain the fixed members."""
    slots, d = k - int(np.count_nonzero(fixed)), np.diagonal(S)
    trace = float(np.sum(d[fixed])) + float(trace_profile(d[~fixed], slots)[-1])
    rows = np.abs(S)
    np.fill_diagonal(rows, 0.0)
    others = -np.sort(-rows[:, ~fixed], axis=1)[:, :slots]
    others[~fixed, slots - 1 :] = 0.0  # a free row takes one of the slots itself
    discs = d + np.sum(rows[:, fixed], axis=1) + np.sum(others, axis=1)
    return min(trace, float(np.max(discs))) * (1 + 4 * k * EPS)


def assess_by_rows(search: Search, node: Node, clock: Clock, rounds: Rounds = NODE) -> Node | None:
    """The row bound and screening in turn; None if that settles the node."""
    for smoothings, steps in rounds:
        S = search.S[np.ix_(node.members, node.members)]
        problem = RowProblem(S, search.k, node.fixed)
        start = first_rows(problem, 0.0) if node.rows is None else node.rows
        found = minimize_rows(problem, start, target=search.level, clock=clock, smoothings=smoothings, steps=steps)
        node = replace(node, bound=min(node.bound, found.bound), rows=found.rows, weights=found.weights)
        if node.bound <= search.level:
            search.settled = max(search.settled, node.bound)
            return None
        search.offer_weights(node)
        keep, must = screen(problem, found.rows, search.level)
        changed = (np.count_nonzero(~keep) + np.count_nonzero(must & ~node.fixed)) / keep.size
        if changed == 0:
            if rounds is NODE:
                break
            continue
        search.settled = max(search.settled, search.level)  # what was dropped may reach the level
        if np.any(must & ~keep) or np.count_nonzero(must) > search.k or np.count_nonzero(keep) < search.k:
            return None
        node = node.reduced(keep, must)
        slots = search.k - int(np.count_nonzero(node.fixed))
        if node.free.size <= slots or slots == 0 or count(node.free.size, slots) <= search.leaf:
            break
        if clock.expired or (rounds is NODE and changed < WORTHWHILE):
            break
    return node
