"""From cheap to strong, until the gap is small enough: what is known of one component, and each bound's share in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, embed_rows, orient
from gpower.certificates import bounds, candidates
from gpower.certificates.branch_and_bound import ROOT_SCHEDULE, Node, RowBoundSchedule, SupportSearch, assess_by_rows
from gpower.certificates.candidates import CandidateCovariance
from gpower.certificates.certificate import Bound, Certificate, Clock, relative_gap
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.operators.base import Operator
from gpower.solvers.component import solve_component
from gpower.solvers.specification import ExactCardinality, FitSpec

#: Entries of the columns that the sample-space bound may gather.
MAX_SAMPLE_SPACE_ENTRIES = 5e7
#: A search settles nodes at this share of the tolerance, so that what it proves is within the tolerance.
SEARCH_TOLERANCE_SHARE = 0.99
#: Rounds of the row bound after the first ones, while each closes this share of the gap.
EXTRA_SCHEDULE: RowBoundSchedule = (((0.01, 0.003, 0.001), 60),)
MIN_GAP_REDUCTION_SHARE = 0.03
#: A component below this share of the bound is not worth the row bound.
MIN_VALUE_SHARE = 1e-3
#: Where many variables are left, those below this share of value/k are left out of the row bound.
MIN_ROW_VARIANCE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class BoundState:
    """What is known of one component so far; every step gives the next."""

    operator: Operator  # what the component was extracted from, in float64
    candidates: CandidateCovariance  # its variables that can matter
    k: int  # largest number of variables of the components to compare with
    tol: float  # gap that is good enough
    support: Array  # the variables of the component
    z: Array  # (n,): unit loadings, or zero
    value: float  # zᵀΣz
    bounds: tuple[Bound, ...] = ()  # all that were tried, in order

    @classmethod
    def from_loadings(
        cls, operator: Operator, z: Array, k: int, tol: float, support: Array | None = None
    ) -> BoundState:
        """Nothing is proven yet of unit loadings z; their support is that of their non-zeros unless it is given."""
        used = np.flatnonzero(z)
        view = candidates.select_candidates(operator, used)
        return cls(operator, view, k, tol, used if support is None else support, z, view.compute_variance(z))

    @property
    def variances(self) -> Array:
        """Of all variables that vary, `view.shift` included."""
        view = self.candidates
        return np.diagonal(view.S) if view.floor == 0 else self.operator.column_norms**2 + view.shift

    @property
    def best_bound(self) -> Bound:
        """The least of the bounds, the first of equal ones."""
        return min(self.bounds, key=lambda bound: bound.value, default=Bound("none", np.inf))

    @property
    def upper_bound(self) -> float:
        """What is proven; a bound below what was found is so by rounding."""
        return max(self.best_bound.value, self.value)

    def is_done(self, clock: Clock) -> bool:
        """Whether to stop: close enough, or out of time."""
        return relative_gap(self.value, self.upper_bound) <= self.tol or clock.is_expired

    def with_bound(self, bound: Bound, start_time: float) -> BoundState:
        """With one more bound, computed since `begin`."""
        return replace(self, bounds=(*self.bounds, replace(bound, seconds=time.perf_counter() - start_time)))

    def with_support(self, support: Array) -> BoundState:
        """With the best component on a support of candidates, if that is better; bounds stay what they are."""
        support = np.sort(support)
        z = solve_on_support(self.operator, support)
        value = self.candidates.compute_variance(z)
        return self if value <= self.value else replace(self, support=support, z=z, value=value)

    def with_search_result(self, search: SupportSearch, method: str, start_time: float) -> BoundState:
        """With what a search has found and proven since `begin`."""
        return self.with_support(search.candidates.variables[search.incumbent_support]).with_bound(
            Bound(method, search.variance_bound), start_time
        )

    def to_certificate(self, seconds: float) -> Certificate:
        """What was proven, in so many seconds."""
        return Certificate(self.value, self.upper_bound, self.k, self.tol, self.best_bound.method, self.bounds, seconds)


def solve_on_support(operator: Operator, support: Array) -> Array:
    """Unit loadings of the largest variance on a support, (n,)."""
    S = operator.gram(support)
    leading = np.linalg.eigh((S + S.T) / 2)[1][:, -1:]
    return embed_rows(orient(leading), support, operator.shape[1])[:, 0]


def start_from_heuristic(operator: Operator, k: int, tol: float, clock: Clock) -> BoundState:
    """The best heuristic's support, or after Ctrl-C the variables of largest variance."""
    order = np.argsort(-operator.column_norms, kind="stable")
    support = order[:k]
    with clock.interruptible():
        recipe = FitSpec(ExactCardinality(levels=(k,)))
        found = np.flatnonzero(solve_component(operator, recipe, np.random.RandomState(0)).Z[:, 0])
        rest = np.setdiff1d(order, found, assume_unique=True)  # fill with any: more variables never explain less
        support = np.append(found, rest[: k - found.size])
    support = np.sort(support)
    return BoundState.from_loadings(operator, solve_on_support(operator, support), k, tol, support)


def add_cheap_bounds(state: BoundState, clock: Clock) -> Iterator[BoundState]:
    """Everything but the row bound, one step at a time, until what is known is good enough; Ctrl-C leaves one out."""
    for step in (
        _bound_by_trace,
        _bound_by_gershgorin,
        _bound_by_eigenvalue,
        _bound_by_soft_threshold,
        _bound_by_sample_space,
        _bound_by_full_soft_threshold,
    ):
        if state.bounds and state.is_done(clock):
            return
        begin = time.perf_counter()
        with clock.interruptible():
            bound = step(state, clock)
            state = state if bound is None else state.with_bound(bound, begin)
        yield state


def _bound_by_trace(state: BoundState, clock: Clock) -> Bound:
    return Bound("trace", float(bounds.trace_profile(state.variances, state.k)[-1]) - state.candidates.shift)


def _bound_by_gershgorin(state: BoundState, clock: Clock) -> Bound:
    return Bound("gershgorin", _bound_from_profile(state, bounds.gershgorin_profile))


def _bound_by_eigenvalue(state: BoundState, clock: Clock) -> Bound:
    whole = np.inf if state.candidates.floor == 0 else candidates.largest_full_eigenvalue(state.operator)
    return Bound("eigenvalue", min(_bound_from_profile(state, bounds.eigenvalue_profile), whole))


def _bound_by_soft_threshold(state: BoundState, clock: Clock) -> Bound | None:
    """None where the variables that were left out alone could reach what is known."""
    view, k = state.candidates, state.k
    if k * view.floor >= state.upper_bound:
        return None
    bound, threshold = bounds.soft_threshold_bound(view.S, k, view.floor, state.upper_bound)
    return Bound("soft threshold", bound - view.shift, threshold=threshold)


def _bound_by_sample_space(state: BoundState, clock: Clock) -> Bound:
    found = gather_columns_and_scores(state)
    return Bound("sample space", np.inf if found is None else candidates.sample_space_bound(*found, state.k))


def _bound_by_full_soft_threshold(state: BoundState, clock: Clock) -> Bound | None:
    """None where nothing was left out."""
    if state.candidates.floor == 0:
        return None
    bound = candidates.full_soft_threshold_bound(state.operator, state.k, state.upper_bound, clock)
    return Bound("soft threshold, all variables", bound)


def _bound_from_profile(state: BoundState, compute_profile: Callable[[Array, int], Array]) -> float:
    """(F) for a profile of the candidates, with the help of the trace where variables were left out."""
    view, k = state.candidates, state.k
    profile = compute_profile(view.S, min(k, view.variables.size))
    if view.floor > 0:
        profile = np.minimum(profile, bounds.trace_profile(state.variances, k)[: profile.size])
    return bounds.bound_with_floor(profile, k, view.floor) - view.shift


def gather_columns_and_scores(state: BoundState, rho: float | None = None) -> tuple[Array, Array] | None:
    """Columns of more variance than the smallest ρ in question and unit scores of the component; None if too many."""
    operator, view, p = state.operator, state.candidates, state.operator.shape[0]
    if not state.value > 0:
        return None
    if view.floor == 0 and (not operator.has_samples or p > view.variables.size):
        A = _factor_covariance(view.S)
        scores = A @ state.z
        return A, scores / np.linalg.norm(scores)
    if not operator.has_samples or p > candidates.MAX_CANDIDATE_VARIABLES:
        return None
    x = operator.combine(state.z[:, None])
    x /= np.linalg.norm(x)
    if rho is None:
        c = operator.correlate(x)[:, 0]
        rho = float(np.sort(c * c)[::-1][state.k]) if state.k < c.size else 0.0
    idx = np.flatnonzero(operator.column_norms**2 > 0.999 * rho)
    return None if p * idx.size > MAX_SAMPLE_SPACE_ENTRIES else (operator.columns(idx), x[:, 0])


def _factor_covariance(S: Array) -> Array:
    """A with AᵀA ⪰ S, equal but for what is negative or rounding in S: a bound for AᵀA is one for S."""
    w, Q = np.linalg.eigh(S)
    return np.asarray((Q * np.sqrt(np.maximum(w, 0) + bounds.eigenvalue_rounding_error(w))).T)


def create_search(state: BoundState, candidates: CandidateCovariance) -> SupportSearch:
    """A search over some candidates for what is better than the component, nothing of it done."""
    k, support = min(state.k, candidates.variables.size), np.searchsorted(candidates.variables, state.support)
    return SupportSearch(candidates, k, SEARCH_TOLERANCE_SHARE * state.tol, support, state.value + candidates.shift)


def start_search(state: BoundState, candidates: CandidateCovariance, clock: Clock) -> tuple[SupportSearch, Node | None]:
    """The exact search over some candidates, its root bounded by rows and reduced by screening.

    The second is None if the search is over: the root is settled, or a variable that was left out may be in a
    better support, so that nothing is gained by branching.
    """
    search = create_search(state, candidates)
    root = search.make_root(state.upper_bound)
    problem = RowProblem(search.S, state.k, root.fixed, candidates.floor / search.scale)
    rows = initialize_rows(problem, max((bound.threshold for bound in state.bounds), default=0.0) / search.scale)
    if candidates.floor == 0:
        return search, assess_by_rows(search, replace(root, rows=rows), clock, ROOT_SCHEDULE)
    smoothings, steps = (*ROOT_SCHEDULE[0][0], *ROOT_SCHEDULE[1][0]), ROOT_SCHEDULE[0][1]
    found = minimize_row_bound(
        problem, rows, target=search.pruning_threshold, clock=clock, smoothings=smoothings, steps=steps
    )
    outside = problem.bound_omitted_supports(found.rows, found.bound)
    search.record_pruned_bound(min(outside, root.bound))
    root = replace(root, bound=min(root.bound, found.bound), rows=found.rows)
    if outside > search.pruning_threshold:
        search.record_pruned_bound(root.bound)
        return search, None
    return search, assess_by_rows(search, root, clock, ROOT_SCHEDULE[1:])


def add_row_bound(state: BoundState, clock: Clock) -> BoundState:
    """The row bound with screening, at the root alone."""
    view = select_row_candidates(state)
    hopeless = state.value <= MIN_VALUE_SHARE * state.upper_bound or state.k * view.floor >= state.upper_bound
    if state.is_done(clock) or hopeless:
        return state
    begin, before = time.perf_counter(), np.inf
    search, node = start_search(state, view, clock)
    while node is not None and not search.enumerate_if_leaf(node):
        if clock.is_expired or before - node.bound < MIN_GAP_REDUCTION_SHARE * (node.bound - search.incumbent_value):
            search.push(node)
            break
        before, node = node.bound, assess_by_rows(search, node, clock, EXTRA_SCHEDULE)
    return state.with_bound(Bound("rows", search.variance_bound), begin)


def select_row_candidates(state: BoundState) -> CandidateCovariance:
    """The candidates, or where they are many those of a variance that counts."""
    few = int(np.count_nonzero(np.diagonal(state.candidates.S) > MIN_ROW_VARIANCE_SHARE * state.value / state.k))
    return state.candidates.narrow(max(few + state.support.size, candidates.MAX_ROW_CANDIDATES), state.support)
