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

from gpower._utils.arrays import Array, embedded, orient
from gpower.certificates.bounds import EPS, largest_eigenvalue
from gpower.certificates.certificate import Bound, Certificate, Clock
from gpower.operators.base import Operator
from gpower.operators.leading_pca import leading_components
from gpower.penalties.grouped import Chosen
from gpower.penalties.support_rules import Admissible
from gpower.solvers.component import extract
from gpower.solvers.specification import Exact, Recipe

#: Variables whose covariance, 72 MB, is held in memory.
MOST = 3000


@dataclass(eq=False)
class GroupSearch:
    """The state of a search for the k best groups: the incumbent, and nodes still to be looked at by their bound.

    A node is a pair of masks over the groups: allowed, and fixed. Values and bounds are those of S.
    """

    S: Array  # over the variables that may be used
    labels: Array  # the group of each of them
    k: int
    tol: float
    chosen: Array  # the incumbent, as a mask of groups
    nodes: int = 0
    settled: float = 0.0
    open: list[tuple[float, int, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        g = self.chosen.size
        parts = [np.flatnonzero(self.labels == i) for i in range(g)]
        self.norms = np.zeros((g, g))  # of the blocks
        for i, rows in enumerate(parts):
            for j in range(i + 1):
                block = self.S[np.ix_(rows, parts[j])]
                self.norms[i, j] = self.norms[j, i] = np.linalg.norm(block, 2) if block.size else 0.0
        self.value = self.value_of(self.chosen)

    @property
    def upper(self) -> float:
        """An upper bound on every selection."""
        return max(self.value, self.settled, -self.open[0][0] if self.open else 0.0)

    def support(self, chosen: Array) -> Array:
        """The variables of some groups."""
        return np.flatnonzero(chosen[self.labels])

    def value_of(self, chosen: Array) -> float:
        """The variance of a selection."""
        support = self.support(chosen)
        return float(np.linalg.eigvalsh(self.S[np.ix_(support, support)])[-1])

    def bound(self, allowed: Array, fixed: Array) -> float:
        """What no selection of a node exceeds."""
        slots = self.k - int(np.count_nonzero(fixed))
        free, own = allowed & ~fixed, np.diagonal(self.norms)
        first = largest_eigenvalue(self._part(fixed)) if fixed.any() else 0.0
        trace = first + float(np.sum(np.sort(own[free])[::-1][:slots]))
        others = self.norms - np.diag(own)
        near = -np.sort(-others[:, free], axis=1)[:, :slots]
        near[free, slots - 1 :] = 0.0  # a free group takes one of the slots itself
        rows = (own + others[:, fixed].sum(axis=1) + near.sum(axis=1))[allowed]
        rounding = 1 + 8 * self.S.shape[0] * EPS
        return min(largest_eigenvalue(self._part(allowed)), min(trace, float(np.max(rows))) * rounding)

    def _part(self, groups: Array) -> Array:
        support = self.support(groups)
        return self.S[np.ix_(support, support)]

    def push(self, allowed: Array, fixed: Array, bound: float) -> None:
        """Open a node, or settle it where it holds nothing better than the incumbent or a single selection."""
        self.nodes += 1
        count = int(np.count_nonzero(fixed))
        if count == self.k or int(np.count_nonzero(allowed)) <= self.k:
            self._offer(fixed if count == self.k else allowed)
            return
        bound = min(bound, self.bound(allowed, fixed))
        if bound <= self.value * (1 + self.tol):
            self.settled = max(self.settled, bound)
        else:
            heapq.heappush(self.open, (-bound, self.nodes, allowed, fixed))

    def _offer(self, chosen: Array) -> None:
        value = self.value_of(chosen)
        self.settled = max(self.settled, value * (1 + 8 * self.S.shape[0] * EPS))
        if value > self.value:
            self.value, self.chosen = value, chosen

    def run(self, clock: Clock) -> None:
        """Best bound first, until nothing is open or the clock expires."""
        with clock.interruptible():
            while self.open and not clock.expired:
                bound, _, allowed, fixed = self.open[0]
                if -bound <= self.value * (1 + self.tol):
                    self.settled = max(self.settled, -bound)
                    self.open.clear()
                    return
                heapq.heappop(self.open)
                weight = np.zeros(self.chosen.size)
                support = self.support(allowed)
                np.add.at(weight, self.labels[support], np.linalg.eigh(self._part(allowed))[1][:, -1] ** 2)
                branch = np.arange(weight.size) == np.argmax(np.where(allowed & ~fixed, weight, -1.0))
                self.push(allowed, fixed | branch, -bound)
                self.push(allowed & ~branch, fixed, -bound)
                clock.report()


#: Told of a search and of the variables that it is about; a true answer stops it.
Told = Callable[[GroupSearch, Array], object]


def best_groups(
    operator: Operator, known: Admissible, k: int, tol: float, clock: Clock, told: Told | None = None
) -> tuple[Array, Certificate]:
    """The component of k admissible groups of largest variance, (n,), and the proof; `told` hears of the search."""
    recipe = Recipe(wish=Exact(family=Chosen(known, np.ones(1)), levels=(k,)))
    z = extract(operator, recipe, np.random.RandomState(0)).Z
    usable = np.flatnonzero(~known.barred[:, 0] & (operator.column_norms > 0))
    if usable.size > MOST:
        raise ValueError(
            f"An exact search among groups holds the covariance of its variables in memory, up to {MOST}; there are "
            f"{usable.size}. GPower finds such components, without the proof."
        )
    part = known.restrict(usable)
    labels = np.arange(usable.size) if part.labels is None else part.labels
    count = min(k - int(known.spent[0]) + int(np.count_nonzero(part.forced)), part.n_groups)
    chosen = part.touched(z[usable] != 0)[:, 0] | part.forced[:, 0]
    search = GroupSearch(operator.gram(usable).astype(np.float64), labels, count, tol, chosen)
    search.push(np.ones(part.n_groups, bool), part.forced[:, 0].copy(), np.inf)
    if told is not None:
        clock.ask = lambda: told(search, usable)
        clock.report()
    search.run(clock)
    support = usable[search.support(search.chosen)]
    loadings, variance = leading_components(operator, 1, support)
    bound = Bound("search", max(search.upper, float(variance[0])), clock.elapsed)
    certificate = Certificate(
        value=float(variance[0]),
        upper_bound=bound.value,
        cardinality=k,
        tol=tol,
        method="search",
        bounds=(bound,),
        seconds=clock.elapsed,
        nodes=search.nodes,
        counted="variables" if known.labels is None else "groups",
    )
    return orient(embedded(loadings, support, operator.shape[1]))[:, 0], certificate
