"""From cheap to strong, until the gap is small enough: the bounds of one component, and what each of them gave."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpower._arrays import Array
from gpower.certificates.bounds import (
    eigenvalue_profile,
    gershgorin_profile,
    soft_threshold_bound,
    trace_profile,
    with_floor,
)
from gpower.certificates.candidates import MOST, MOST_ROWS, Candidates, candidates
from gpower.certificates.certificate import Bound, relative_gap
from gpower.certificates.clock import Clock
from gpower.certificates.eigenvalues import rounding
from gpower.certificates.rows import RowProblem, first_rows, minimize_rows
from gpower.certificates.sample_space import sample_space_bound
from gpower.certificates.search import ROOT, Node, Rounds, Search, assess_by_rows
from gpower.certificates.wide import whole_eigenvalue, wide_soft_threshold
from gpower.operators.base import Operator

#: Entries of the columns that the sample-space bound may gather.
SAMPLE_ENTRIES = 5e7
#: A search settles nodes at this share of the tolerance, so that what it proves is within the tolerance.
INSIDE = 0.99
#: Rounds of the row bound after the first ones, while each closes this share of the gap.
MORE: Rounds = (((0.01, 0.003, 0.001), 60),)
WORTHWHILE = 0.03
#: A component below this share of the bound is not worth the row bound.
HOPELESS = 1e-3
#: Where many variables are left, those below this share of value/k are left out of the row bound.
ROW_SHARE = 0.25


@dataclass(eq=False)
class Cascade:
    """The bounds of one component so far.

    Attributes
    ----------
    operator : Operator
        The matrix that the component was extracted from.
    z : ndarray of shape (n,)
        Unit loadings, or zero.
    k : int
        Largest number of variables of the components to compare with.
    tol : float
        Gap that is good enough.
    clock : Clock
    """

    operator: Operator
    z: Array
    k: int
    tol: float
    clock: Clock
    bounds: list[Bound] = field(init=False, default_factory=list)
    upper: float = field(init=False, default=np.inf)
    method: str = field(init=False, default="none")
    threshold: float = field(init=False, default=0.0)
    view: Candidates = field(init=False)
    value: float = field(init=False)
    row_view: Candidates = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        self.view = candidates(self.operator, np.flatnonzero(self.z))
        self.value = self.view.value(self.z)

    @property
    def done(self) -> bool:
        """Whether to stop: close enough, or out of time."""
        return relative_gap(self.value, self.upper) <= self.tol or self.clock.expired

    def add(self, method: str, bound: Callable[[], float]) -> None:
        """Compute a bound, unless what is known is good enough; Ctrl-C leaves it out."""
        if self.done and self.bounds:
            return
        begin = time.perf_counter()
        with self.clock.interruptible():
            self.note(method, bound(), time.perf_counter() - begin)

    def note(self, method: str, bound: float, seconds: float) -> None:
        """Keep a bound that was computed."""
        self.bounds.append(Bound(method, bound, seconds))
        if bound < self.upper:
            self.upper, self.method = max(bound, self.value), method

    def run_cheap(self) -> None:
        """Everything but the row bound."""
        floor, shift = self.view.floor, self.view.shift
        self.add("trace", lambda: float(self._trace()[-1]) - shift)
        self.add("gershgorin", self._gershgorin)
        self.add("eigenvalue", self._eigenvalue)
        if self.k * floor < self.upper:
            self.add("soft threshold", self._soft_threshold)
        self.add("sample space", self._sample_space)
        if floor > 0:
            self.add("soft threshold, all variables", self._wide)

    def _trace(self) -> Array:
        """The trace profile of all variables."""
        if self.view.floor == 0:
            return trace_profile(np.diagonal(self.view.S), self.k)
        return trace_profile(self.operator.column_norms.astype(np.float64) ** 2 + self.view.shift, self.k)

    def _from_profile(self, profile: Array) -> float:
        """(F) for a profile of the candidates, with the help of the trace where variables were left out."""
        if self.view.floor > 0:
            profile = np.minimum(profile, self._trace()[: profile.size])
        return with_floor(profile, self.k, self.view.floor) - self.view.shift

    def _gershgorin(self) -> float:
        return self._from_profile(gershgorin_profile(self.view.S, min(self.k, self.view.idx.size)))

    def _eigenvalue(self) -> float:
        bound = self._from_profile(eigenvalue_profile(self.view.S, min(self.k, self.view.idx.size)))
        return bound if self.view.floor == 0 else min(bound, whole_eigenvalue(self.operator))

    def _soft_threshold(self) -> float:
        bound, self.threshold = soft_threshold_bound(self.view.S, self.k, self.view.floor, self.upper)
        return bound - self.view.shift

    def _wide(self) -> float:
        return wide_soft_threshold(self.operator, self.k, self.upper, self.clock)

    def _sample_space(self) -> float:
        A, x = self.columns()
        if x is None:
            return np.inf
        return sample_space_bound(A, x, self.k)

    def columns(self, rho: float | None = None) -> tuple[Array, Array | None]:
        """Columns with more variance than the smallest ρ in question, and the unit scores of the component."""
        if not self.value > 0:
            return self.view.S, None
        if self.view.floor == 0 and (not self.operator.has_samples or self.operator.shape[0] > self.view.idx.size):
            A = _factor(self.view.S)
            x = A @ self.z
            return A, x / np.linalg.norm(x)
        if not self.operator.has_samples or self.operator.shape[0] > MOST:
            return self.view.S, None
        x = self.operator.combine(self.z[:, None].astype(self.operator.dtype)).astype(np.float64)
        x /= np.linalg.norm(x)
        squares = self.operator.column_norms.astype(np.float64) ** 2
        if rho is None:
            c = self.operator.correlate(x.astype(self.operator.dtype)).astype(np.float64)[:, 0]
            rho = float(np.sort(c * c)[::-1][self.k]) if self.k < c.size else 0.0
        idx = np.flatnonzero(squares > 0.999 * rho)
        if self.operator.shape[0] * idx.size > SAMPLE_ENTRIES:
            return self.view.S, None
        return self.operator.columns(idx).astype(np.float64), x[:, 0]

    def search(self, support: Array, view: Candidates) -> tuple[Search, Node | None]:
        """The exact search over some candidates, its root bounded by rows and reduced by screening.

        The second is None if the search is over: the root is settled, or a variable that was left out may be in a
        better support, so that nothing is gained by branching.
        """
        scale, k = self.value + view.shift, min(self.k, view.idx.size)
        search = Search(view.S / scale, k, INSIDE * self.tol, np.searchsorted(view.idx, support))
        self.row_view, self.scale = view, scale
        root = search.root((self.upper + view.shift) / scale)
        problem = RowProblem(search.S, self.k, root.fixed, view.floor / scale)
        rows = first_rows(problem, self.threshold / scale)
        rounds: Rounds = ROOT
        if view.floor > 0:
            smoothings, steps = ROOT[0]
            found = minimize_rows(
                problem, rows, target=search.level, clock=self.clock, smoothings=(*smoothings, *ROOT[1][0]), steps=steps
            )
            outside = problem.outside(found.rows, found.bound)
            search.settled, rows = min(outside, root.bound), found.rows
            root = search.root(min(root.bound, found.bound), rows)
            if outside > search.level:
                search.settled = root.bound
                return search, None
            rounds = ROOT[1:]
        node = assess_by_rows(search, search.root(root.bound, rows), self.clock, rounds)
        return search, node

    def upper_of(self, search: Search, node: Node | None) -> float:
        """The bound that a search has reached, in the units of the matrix."""
        reached = max(search.upper, 0.0 if node is None else node.bound)
        return reached * self.scale - self.row_view.shift

    def run_rows(self) -> None:
        """The row bound with screening, at the root alone."""
        support = np.flatnonzero(self.z)
        view = self.row_candidates(support)
        if self.done or self.value <= HOPELESS * self.upper or self.k * view.floor >= self.upper:
            return
        begin = time.perf_counter()
        search, node = self.search(support, view)
        gain = np.inf
        while node is not None and not search.enumerated(node):
            if self.clock.expired or gain < WORTHWHILE * (node.bound - search.value):
                break
            before = node.bound
            node = assess_by_rows(search, node, self.clock, MORE)
            gain = 0.0 if node is None else before - node.bound
        else:
            node = None
        self.note("rows", self.upper_of(search, node), time.perf_counter() - begin)

    def row_candidates(self, support: Array) -> Candidates:
        """The candidates, or where they are many those of a variance that counts."""
        if self.view.idx.size <= MOST_ROWS:
            return self.view
        few = int(np.count_nonzero(np.diagonal(self.view.S) > ROW_SHARE * self.value / self.k))
        return self.view.narrow(max(few + support.size, MOST_ROWS), support)


def _factor(S: Array) -> Array:
    """A with AᵀA ⪰ S, equal but for what is negative or rounding in S: a bound for AᵀA is one for S."""
    w, Q = np.linalg.eigh(S)
    return np.asarray((Q * np.sqrt(np.maximum(w, 0) + rounding(w))).T)
