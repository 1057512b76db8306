"""From cheap to strong, until the gap is small enough: what is known of one component, and each bound's share in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, embedded, orient
from gpower.certificates import bounds, candidates
from gpower.certificates.branch_and_bound import ROOT, Node, Rounds, Search, assess_by_rows
from gpower.certificates.candidates import Candidates
from gpower.certificates.certificate import Bound, Certificate, Clock, relative_gap
from gpower.certificates.row_bound import RowProblem, first_rows, minimize_rows
from gpower.operators.base import Operator
from gpower.solvers.component import extract
from gpower.solvers.specification import Exact, Recipe

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


@dataclass(frozen=True, eq=False)
class Standing:
    """What is known of one component so far; every step gives the next."""

    operator: Operator  # what the component was extracted from, in float64
    view: Candidates  # its variables that can matter
    k: int  # largest number of variables of the components to compare with
    tol: float  # gap that is good enough
    support: Array  # the variables of the component
    z: Array  # (n,): unit loadings, or zero
    value: float  # zᵀΣz
    bounds: tuple[Bound, ...] = ()  # all that were tried, in order

    @classmethod
    def of(cls, operator: Operator, z: Array, k: int, tol: float, support: Array | None = None) -> Standing:
        """Nothing is proven yet of unit loadings z; their support is that of their non-zeros unless it is given."""
        used = np.flatnonzero(z)
        view = candidates.candidates(operator, used)
        return cls(operator, view, k, tol, used if support is None else support, z, view.value(z))

    @property
    def variances(self) -> Array:
        """Of all variables that vary, `view.shift` included."""
        view = self.view
        return np.diagonal(view.S) if view.floor == 0 else self.operator.column_norms**2 + view.shift

    @property
    def best(self) -> Bound:
        """The least of the bounds, the first of equal ones."""
        return min(self.bounds, key=lambda bound: bound.value, default=Bound("none", np.inf))

    @property
    def upper(self) -> float:
        """What is proven; a bound below what was found is so by rounding."""
        return max(self.best.value, self.value)

    def done(self, clock: Clock) -> bool:
        """Whether to stop: close enough, or out of time."""
        return relative_gap(self.value, self.upper) <= self.tol or clock.expired

    def bounded(self, bound: Bound, begin: float) -> Standing:
        """With one more bound, computed since `begin`."""
        return replace(self, bounds=(*self.bounds, replace(bound, seconds=time.perf_counter() - begin)))

    def improved(self, support: Array) -> Standing:
        """With the best component on a support of candidates, if that is better; bounds stay what they are."""
        support = np.sort(support)
        z = loadings(self.operator, support)
        value = self.view.value(z)
        return self if value <= self.value else replace(self, support=support, z=z, value=value)

    def searched(self, search: Search, method: str, begin: float) -> Standing:
        """With what a search has found and proven since `begin`."""
        return self.improved(search.view.idx[search.support]).bounded(Bound(method, search.proven), begin)

    def certificate(self, seconds: float) -> Certificate:
        """What was proven, in so many seconds."""
        return Certificate(self.value, self.upper, self.k, self.tol, self.best.method, self.bounds, seconds)


def loadings(operator: Operator, support: Array) -> Array:
    """Unit loadings of the largest variance on a support, (n,)."""
    S = operator.gram(support)
    leading = np.linalg.eigh((S + S.T) / 2)[1][:, -1:]
    return embedded(orient(leading), support, operator.shape[1])[:, 0]


def best_known(operator: Operator, k: int, tol: float, clock: Clock) -> Standing:
    """The best heuristic's support, or after Ctrl-C the variables of largest variance."""
    order = np.argsort(-operator.column_norms, kind="stable")
    support = order[:k]
    with clock.interruptible():
        recipe = Recipe(Exact(levels=(k,)))
        found = np.flatnonzero(extract(operator, recipe, np.random.RandomState(0)).Z[:, 0])
        rest = np.setdiff1d(order, found, assume_unique=True)  # fill with any: more variables never explain less
        support = np.append(found, rest[: k - found.size])
    support = np.sort(support)
    return Standing.of(operator, loadings(operator, support), k, tol, support)


def cheap_bounds(standing: Standing, clock: Clock) -> Iterator[Standing]:
    """Everything but the row bound, one step at a time, until what is known is good enough; Ctrl-C leaves one out."""
    for step in (_trace, _gershgorin, _eigenvalue, _soft_threshold, _sample_space, _wide):
        if standing.bounds and standing.done(clock):
            return
        begin = time.perf_counter()
        with clock.interruptible():
            bound = step(standing, clock)
            standing = standing if bound is None else standing.bounded(bound, begin)
        yield standing


def _trace(standing: Standing, clock: Clock) -> Bound:
    return Bound("trace", float(bounds.trace_profile(standing.variances, standing.k)[-1]) - standing.view.shift)


def _gershgorin(standing: Standing, clock: Clock) -> Bound:
    return Bound("gershgorin", _from_profile(standing, bounds.gershgorin_profile))


def _eigenvalue(standing: Standing, clock: Clock) -> Bound:
    whole = np.inf if standing.view.floor == 0 else candidates.whole_eigenvalue(standing.operator)
    return Bound("eigenvalue", min(_from_profile(standing, bounds.eigenvalue_profile), whole))


def _soft_threshold(standing: Standing, clock: Clock) -> Bound | None:
    """None where the variables that were left out alone could reach what is known."""
    view, k = standing.view, standing.k
    if k * view.floor >= standing.upper:
        return None
    bound, threshold = bounds.soft_threshold_bound(view.S, k, view.floor, standing.upper)
    return Bound("soft threshold", bound - view.shift, threshold=threshold)


def _sample_space(standing: Standing, clock: Clock) -> Bound:
    found = columns(standing)
    return Bound("sample space", np.inf if found is None else candidates.sample_space_bound(*found, standing.k))


def _wide(standing: Standing, clock: Clock) -> Bound | None:
    """None where nothing was left out."""
    if standing.view.floor == 0:
        return None
    bound = candidates.wide_soft_threshold(standing.operator, standing.k, standing.upper, clock)
    return Bound("soft threshold, all variables", bound)


def _from_profile(standing: Standing, of: Callable[[Array, int], Array]) -> float:
    """(F) for a profile of the candidates, with the help of the trace where variables were left out."""
    view, k = standing.view, standing.k
    profile = of(view.S, min(k, view.idx.size))
    if view.floor > 0:
        profile = np.minimum(profile, bounds.trace_profile(standing.variances, k)[: profile.size])
    return bounds.with_floor(profile, k, view.floor) - view.shift


def columns(standing: Standing, rho: float | None = None) -> tuple[Array, Array] | None:
    """Columns of more variance than the smallest ρ in question and unit scores of the component; None if too many."""
    operator, view, p = standing.operator, standing.view, standing.operator.shape[0]
    if not standing.value > 0:
        return None
    if view.floor == 0 and (not operator.has_samples or p > view.idx.size):
        A = _factor(view.S)
        scores = A @ standing.z
        return A, scores / np.linalg.norm(scores)
    if not operator.has_samples or p > candidates.MOST:
        return None
    x = operator.combine(standing.z[:, None])
    x /= np.linalg.norm(x)
    if rho is None:
        c = operator.correlate(x)[:, 0]
        rho = float(np.sort(c * c)[::-1][standing.k]) if standing.k < c.size else 0.0
    idx = np.flatnonzero(operator.column_norms**2 > 0.999 * rho)
    return None if p * idx.size > SAMPLE_ENTRIES else (operator.columns(idx), x[:, 0])


def _factor(S: Array) -> Array:
    """A with AᵀA ⪰ S, equal but for what is negative or rounding in S: a bound for AᵀA is one for S."""
    w, Q = np.linalg.eigh(S)
    return np.asarray((Q * np.sqrt(np.maximum(w, 0) + bounds.rounding(w))).T)


def exact_search(standing: Standing, view: Candidates) -> Search:
    """A search over some candidates for what is better than the component, nothing of it done."""
    k, support = min(standing.k, view.idx.size), np.searchsorted(view.idx, standing.support)
    return Search(view, k, INSIDE * standing.tol, support, standing.value + view.shift)


def search_root(standing: Standing, view: Candidates, clock: Clock) -> tuple[Search, Node | None]:
    """The exact search over some candidates, its root bounded by rows and reduced by screening.

    The second is None if the search is over: the root is settled, or a variable that was left out may be in a
    better support, so that nothing is gained by branching.
    """
    search = exact_search(standing, view)
    root = search.root(standing.upper)
    problem = RowProblem(search.S, standing.k, root.fixed, view.floor / search.scale)
    rows = first_rows(problem, max((bound.threshold for bound in standing.bounds), default=0.0) / search.scale)
    if view.floor == 0:
        return search, assess_by_rows(search, replace(root, rows=rows), clock, ROOT)
    smoothings, steps = (*ROOT[0][0], *ROOT[1][0]), ROOT[0][1]
    found = minimize_rows(problem, rows, target=search.level, clock=clock, smoothings=smoothings, steps=steps)
    outside = problem.outside(found.rows, found.bound)
    search.settle(min(outside, root.bound))
    root = replace(root, bound=min(root.bound, found.bound), rows=found.rows)
    if outside > search.level:
        search.settle(root.bound)
        return search, None
    return search, assess_by_rows(search, root, clock, ROOT[1:])


def row_bound(standing: Standing, clock: Clock) -> Standing:
    """The row bound with screening, at the root alone."""
    view = row_candidates(standing)
    hopeless = standing.value <= HOPELESS * standing.upper or standing.k * view.floor >= standing.upper
    if standing.done(clock) or hopeless:
        return standing
    begin, before = time.perf_counter(), np.inf
    search, node = search_root(standing, view, clock)
    while node is not None and not search.enumerated(node):
        if clock.expired or before - node.bound < WORTHWHILE * (node.bound - search.value):
            search.push(node)
            break
        before, node = node.bound, assess_by_rows(search, node, clock, MORE)
    return standing.bounded(Bound("rows", search.proven), begin)


def row_candidates(standing: Standing) -> Candidates:
    """The candidates, or where they are many those of a variance that counts."""
    few = int(np.count_nonzero(np.diagonal(standing.view.S) > ROW_SHARE * standing.value / standing.k))
    return standing.view.narrow(max(few + standing.support.size, candidates.MOST_ROWS), standing.support)
