"""Exact search by branch and bound: the best-first loop, and the search over which variables are in the support.

A node stands for a set of supports and has an upper bound on their values: a support consists of k *units*, and a node
allows some units and fixes others. The units are variables in `SupportSearch`, and groups in `group_search`. The best
support so far is the incumbent. A node whose bound is at most incumbent·(1 + tol) contains nothing better and is
pruned. At any moment max(incumbent, largest pruned bound, largest open bound) is an upper bound on the whole problem,
so a search may stop after any node.

`BranchAndBound` is the loop. `SupportSearch` bounds a node by rows, reduces it by screening, and enumerates its
supports if they are few. Bounds on supports with variables that are no candidates come from the same rows.

Terms: all arrays are NumPy arrays on the host, values in float64 and indices of int. The value of a support I is
λmax(S_II), for S, (n, n), symmetric and positive semidefinite. A `CandidateCovariance` has `variables`, (n,), the
column numbers of the candidates; `S`, (n, n), Σ over them plus shift·I; `shift`, at least zero, which is to be
subtracted once from an eigenvalue of S for one of Σ; and `floor`, at least the variance of every other variable, with
the shift, zero if there are none. A "position" counts the candidates from 0.

A `RowProblem` (S, k, fixed) asks for the best support of k variables that contains the fixed ones, a mask. `DualRows`
are a point of its dual, with `prices`, (n,), that of every free variable the same; ``restrict(idx)`` is the point over
the variables of some indices, and ``initialize_rows(problem)`` a start. ``minimize_row_bound(problem, rows, target=,
clock=, smoothings=, steps=)`` returns the best point found, as `rows`, a `bound` on every support of the problem with
rounding, and `weights`, (n,), non-negative, large for variables that good supports contain; it stops at a bound of at
most `target` or when the clock expires. ``screen_variables(problem, rows, threshold)`` returns two masks that hold for
supports of a value above the threshold: `keep`, the variables that they may contain, and `required`, those that all
contain. ``swap_search(S, support)`` returns the increasing positions of a support of the same size and of no smaller
value that no single swap improves, unless it is large.

A `Clock` limits the time: ``is_expired`` says whether to stop, ``poll_callback()`` calls the user's function, and
``interruptible()`` is a context in which Ctrl-C ends the block and expires the clock. `EPS` is the machine epsilon.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from math import comb

import numpy as np

from gpower._utils.arrays import Array
from gpower.certificates.bounds import EPS, MATRIX_ROUNDING_IN_EPS
from gpower.certificates.certificate import Clock
from gpower.certificates.row_bound import (
    DualRows,
    RowBoundResult,
    RowProblem,
    initialize_rows,
    minimize_row_bound,
    screen_variables,
)
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
#: A node with at most this many supports is enumerated, which takes about 10 ms.
MAX_LEAF_SUPPORTS = 2000
#: Number of supports whose eigenvalues are computed in one call.
ENUMERATION_BATCH_SIZE = 2048
#: Relative gain from which a support replaces the incumbent: a smaller one may be rounding.
MIN_RELATIVE_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class Node:
    """Supports of k units that contain all fixed units and only allowed ones, with an upper bound on their values."""

    bound: float  # no support of this node has a larger value
    allowed: Array  # (m,): indices of the allowed units, increasing
    fixed: Array  # (m,) of bool: the allowed units that every support contains
    weights: Array  # (m,): how much of a relaxed solution is at each allowed unit, non-negative
    rows: DualRows | None = None  # point of the dual over the allowed variables, a start for the next minimisation

    @property
    def free(self) -> Array:
        """Return the allowed units that are not fixed, increasing."""
        return self.allowed[~self.fixed]

    def count_open_slots(self, k: int) -> int:
        """Return how many free units a support of k units contains; negative if more than k are fixed."""
        return k - int(np.count_nonzero(self.fixed))

    def reduce(self, keep: Array, fixed: Array) -> Node:
        """Return the node without the units outside the mask `keep` and with the units of `fixed`, both (m,) of bool.

        `fixed` replaces the fixed units, so it must contain them, and `keep` must contain `fixed`. The bound stays;
        rows and weights are those of the units that stay.
        """
        rows = None if self.rows is None else self.rows.restrict(np.flatnonzero(keep))
        return Node(self.bound, self.allowed[keep], fixed[keep], self.weights[keep], rows)

    def branch(self) -> tuple[Node, Node]:
        """Return the nodes without and with the free unit of the largest weight; at least one must be free.

        Of equal weights the first unit is taken. Both nodes have the bound of this one.
        """
        j = int(np.argmax(np.where(self.fixed, -1.0, self.weights)))
        is_branched = np.arange(self.allowed.size) == j
        return self.reduce(~is_branched, self.fixed), self.reduce(np.ones_like(is_branched), self.fixed | is_branched)


@dataclass(eq=False, kw_only=True)
class BranchAndBound(ABC):
    """State of a best-first search for the best support of k units: enough to report what is proven and to resume.

    Values and bounds are those of S.
    """

    S: Array  # (n, n): covariance of the variables
    k: int  # number of units of a support
    incumbent: Array  # increasing indices of the units of the best support so far
    tol: float  # relative gap at which a node is pruned
    incumbent_value: float = field(init=False)  # value of the best support so far
    pruned_bound: float = 0.0  # no support that was enumerated or pruned has a larger value
    n_nodes: int = 0  # nodes that were opened so far
    open_nodes: list[tuple[float, int, Node]] = field(default_factory=list)  # heap of (−bound, serial number, node)

    def __post_init__(self) -> None:
        self.incumbent_value = self.compute_value(self.incumbent)

    @property
    def pruning_threshold(self) -> float:
        """Return incumbent·(1 + tol): nodes with a bound up to this are pruned."""
        return self.incumbent_value * (1 + self.tol)

    @property
    def upper_bound(self) -> float:
        """Return an upper bound on the value of every support."""
        return max(self.incumbent_value, self.pruned_bound, -self.open_nodes[0][0] if self.open_nodes else 0.0)

    @abstractmethod
    def assess(self, node: Node, clock: Clock) -> Node | None:
        """Return the node with a smaller bound, maybe without units that cannot matter; None if it is finished.

        A node is finished if it is pruned or if all its supports were compared; what is proven about it is recorded.
        A node that is returned has a free unit. The incumbent may improve.
        """

    def find_variables(self, units: Array) -> Array:
        """Return the indices into S of the variables of some units, (m,) of int; here each unit is a variable."""
        return units

    def take_covariance(self, units: Array) -> Array:
        """Return a copy of S over the variables of some units, (m,) of int, in the order of `find_variables`."""
        variables = self.find_variables(units)
        return self.S[np.ix_(variables, variables)]

    def compute_value(self, units: Array) -> float:
        """Return λmax of S over the variables of some units, (m,) of int, of which there is one at least."""
        return float(np.linalg.eigvalsh(self.take_covariance(units))[-1])

    def update_incumbent(self, units: Array) -> None:
        """Make a support, different units, the incumbent if its value exceeds the incumbent's.

        Gains up to the share MIN_RELATIVE_GAIN do not count.
        """
        value = self.compute_value(units)
        if value > self.incumbent_value * (1 + MIN_RELATIVE_GAIN):
            self.incumbent, self.incumbent_value = np.sort(units), value

    def record_pruned_bound(self, bound: float) -> None:
        """Record that some supports, of values up to `bound`, are no longer searched; a smaller one changes nothing."""
        self.pruned_bound = max(self.pruned_bound, bound)

    def push(self, node: Node) -> None:
        """Count a node and open it. Of open nodes with equal bounds the one that was opened first is expanded first."""
        self.n_nodes += 1
        heapq.heappush(self.open_nodes, (-node.bound, self.n_nodes, node))

    def run(self, clock: Clock) -> None:
        """Assess and branch the node of the largest bound until every node is finished or the clock expires.

        If the largest bound is at most `pruning_threshold`, all open nodes are pruned. The callback of the clock is
        called after each node. Ctrl-C and a callback that returns true expire the clock and do not raise; the node in
        progress then stays open.
        """
        with clock.interruptible():
            while self.open_nodes and not clock.is_expired:
                _, _, node = self.open_nodes[0]  # stays open until its children exist, so that Ctrl-C loses nothing
                if node.bound <= self.pruning_threshold:
                    self.record_pruned_bound(node.bound)
                    self.open_nodes.clear()
                    return
                assessed = self.assess(node, clock)
                heapq.heappop(self.open_nodes)
                for child in () if assessed is None else assessed.branch():
                    self.push(child)
                clock.poll_callback()


@dataclass(eq=False, kw_only=True)
class SupportSearch(BranchAndBound):
    """State of a search for the best support of k candidates.

    Values and bounds are those of S, in units of `scale`, so they contain the shift; `incumbent_variance` and
    `variance_bound` are those of Σ. Supports and nodes contain positions. If k exceeds the number of candidates, a
    support is all of them.
    """

    S: Array = field(init=False)  # (n, n): that of the candidates, divided by `scale`
    candidates: CandidateCovariance
    scale: float  # positive; value of the first incumbent, so that values of S are about one
    max_leaf_supports: int = MAX_LEAF_SUPPORTS  # a node with at most this many supports is enumerated
    #: No support with a variable that is no candidate has a larger value; zero if all variables are candidates.
    omitted_bound: float = 0.0

    def __post_init__(self) -> None:
        self.S = self.candidates.S / self.scale
        self.n_used = min(self.k, self.S.shape[0])  # number of candidates in a support
        super().__post_init__()

    @property
    def upper_bound(self) -> float:
        """Return an upper bound on the value of every support, also of those with variables that are no candidates."""
        return max(super().upper_bound, self.omitted_bound)

    @property
    def may_omit_better(self) -> bool:
        """Return whether a support with a variable that is no candidate may be better; then the root is not reduced."""
        return self.omitted_bound > self.pruning_threshold

    @property
    def incumbent_variance(self) -> float:
        """Return the variance of the incumbent, zᵀΣz."""
        return self.incumbent_value * self.scale - self.candidates.shift

    @property
    def variance_bound(self) -> float:
        """Return an upper bound on the variance of every support, without the shift."""
        return self.upper_bound * self.scale - self.candidates.shift

    def start(self, variance_bound: float, clock: Clock) -> None:
        """Assess the root, the node of all supports, given a proven bound on their variance, without the shift.

        The root becomes the only open node. No node is open if the root is finished, or if a better support may contain
        a variable that is no candidate, so that branching cannot close the gap.
        """
        n = self.S.shape[0]
        bound = (variance_bound + self.candidates.shift) / self.scale
        self.omitted_bound = bound if self.candidates.floor > 0 else 0.0
        root = self.assess(Node(bound, np.arange(n), np.zeros(n, bool), np.ones(n)), clock, ROOT_SCHEDULE)
        if root is not None and self.may_omit_better:
            self.record_pruned_bound(root.bound)
        elif root is not None:
            self.push(root)

    def update_incumbent(self, units: Array) -> None:
        """Improve a support by swaps and make it the incumbent, if its value exceeds the incumbent's."""
        if self.compute_value(units) > self.incumbent_value * (1 + MIN_RELATIVE_GAIN):
            super().update_incumbent(swap_search(self.S, units))

    def assess(self, node: Node, clock: Clock, schedule: RowBoundSchedule = NODE_SCHEDULE) -> Node | None:
        """Alternate between the row bound and screening at a node; return the reduced node, or None if it is finished.

        There is one round for each pair of `schedule`: the values of μ of a minimisation and its L-BFGS steps for each.
        A node without `rows` starts from those of `initialize_rows`. The weights of every round are rounded to a
        support for the incumbent, and the bounds of what is pruned or screened are recorded. The node is finished if
        its bound is at most `pruning_threshold`, if screening leaves no support, or if few are left, which are
        enumerated. If the clock expires, the node is returned with the bound that is proven so far.
        """
        if not self.may_omit_better and self._enumerate_if_leaf(node):
            return None
        for smoothings, steps in schedule:
            min_price = self.candidates.floor / self.scale if self.may_omit_better else 0.0
            problem = RowProblem(self.take_covariance(node.allowed), self.n_used, node.fixed, min_price)
            start = initialize_rows(problem) if node.rows is None else node.rows
            result = minimize_row_bound(
                problem, start, target=self.pruning_threshold, clock=clock, smoothings=smoothings, steps=steps
            )
            node = replace(node, bound=min(node.bound, result.bound), rows=result.rows, weights=result.weights)
            if self.may_omit_better:
                self.omitted_bound = min(self.omitted_bound, self._bound_omitted_supports(result))
            if node.bound <= self.pruning_threshold:
                self.record_pruned_bound(node.bound)
                return None
            order = np.argsort(-np.where(node.fixed, np.inf, node.weights), kind="stable")
            self.update_incumbent(node.allowed[order[: self.n_used]])
            if self.may_omit_better:
                continue
            keep, required = screen_variables(problem, result.rows, self.pruning_threshold)
            if np.any(~keep | (required & ~node.fixed)):
                self.record_pruned_bound(self.pruning_threshold)  # screened supports have values up to the threshold
                n_required, n_kept = np.count_nonzero(required), np.count_nonzero(keep)
                if np.any(required & ~keep) or n_required > self.n_used or n_kept < self.n_used:
                    return None
                node = node.reduce(keep, required)
                if self._enumerate_if_leaf(node):
                    return None
            if clock.is_expired:
                break
        return node

    def _bound_omitted_supports(self, result: RowBoundResult) -> float:
        """Return a bound on supports with a variable that is no candidate, from the row bound at the whole root.

        With the price b, and at most k − 1 candidates, j in number, such a support is worth at most λmax(M) + jb + (k −
        j)·floor, by (F) of `bounds`. This is linear in j; λmax(M) counts as zero if it is negative.
        """
        b, floor = float(result.rows.prices[0]), self.candidates.floor / self.scale  # no variable is fixed at the root
        largest = max(result.bound - self.n_used * b, 0.0)
        return max(largest + j * b + (self.k - j) * floor for j in (0, min(self.k - 1, self.n_used)))

    def _enumerate_if_leaf(self, node: Node) -> bool:
        """Enumerate the supports of a node that has few, and return whether it did; the node is then finished.

        The node has a support: at most k variables are fixed and at least k allowed. The best support updates the
        incumbent, and its value, with rounding, is recorded as a pruned bound. The clock is not read.
        """
        slots = node.count_open_slots(self.n_used)
        if comb(node.free.size, slots) > self.max_leaf_supports:
            return False
        rounding = MATRIX_ROUNDING_IN_EPS * self.n_used * EPS
        for supports, values in iterate_supports(self.S, node.allowed[node.fixed], node.free, slots):
            best = int(np.argmax(values))
            self.update_incumbent(supports[best])
            self.record_pruned_bound(float(values[best]) * (1 + rounding))
        return True


def iterate_supports(S: Array, fixed: Array, free: Array, slots: int) -> Iterator[tuple[Array, Array]]:
    """Yield all supports I = fixed ∪ J, J of `slots` free variables, (n_supports, k), and λmax(S_II), in batches.

    S is symmetric, (n, n), in float64. `fixed` and `free` are arrays of int, different indices into S without a common
    one; a support must not be empty. `slots` is at least zero and at most the number of free variables. A support has
    first the fixed variables, then the free ones. The supports come in the lexicographic order of the positions in
    `free`, in batches of up to ENUMERATION_BATCH_SIZE; the values, (n_supports,), have the rounding error of LAPACK.
    """
    subsets = combinations(free.tolist(), slots)
    while batch := list(islice(subsets, ENUMERATION_BATCH_SIZE)):
        supports = np.hstack([np.tile(fixed, (len(batch), 1)), np.array(batch, np.intp)])
        yield supports, np.linalg.eigvalsh(S[supports[:, :, None], supports[:, None, :]])[:, -1]
