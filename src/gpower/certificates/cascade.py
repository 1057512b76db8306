"""The cascade of bounds on one component, from cheap to strong, until the gap is small enough.

Terms: the matrix A has n variables and Σ = AᵀA, deflated by the earlier components. λ_k(Σ) is the largest zᵀΣz of unit
z with at most k non-zeros. All arrays are NumPy arrays on the host, in float64; supports and other indices are int. A
"column number" counts the columns of A from 0; a "position" counts the candidates, the variables of large variance.

An `Operator` is A through products; all operators here are in float64 in host memory. ``shape`` is (p, n), with p
samples, or p = n if only Σ is known (`has_samples` is False). ``column_norms``, (n,), are the roots of the diagonal of
Σ. ``gram(idx)`` is Σ[idx, idx] for column numbers in any order, and is not written to; ``columns(idx)``, (p, |idx|), is
A[:, idx].

A `CandidateCovariance` has the candidates: `variables`, (m,), their column numbers, increasing; `S`, (m, m), Σ over
them plus shift·I; `shift`, at least zero, which makes S positive semidefinite, and is to be subtracted once from each
bound that comes from S; `floor`, the largest variance of the other variables plus the shift, zero if there are none;
`largest_eigenvalue`, a bound on λmax(S). ``compute_variance(z)`` is zᵀΣz without the shift for z, (n,), that is zero
outside the candidates; ``narrow(max, support)`` are at most `max` candidates, those of largest variance and the column
numbers `support`.

A `Bound` has `method`, `value` (on λ_k(Σ), without the shift) and `seconds`. `find_least_bound` returns the least
`Bound` of a sequence, one of value infinity if it is empty. A `Clock` limits the time: ``is_expired`` says whether to
stop, and ``interruptible()`` is a context in which Ctrl-C ends the block and expires the clock. (F) is λ_k(Σ) ≤ max_j
U_j + (k − j)·floor, for bounds U_j on λ_j(S), j = 0, …, k.

A `SupportSearch` is a branch and bound over positions. ``start(bound, clock)`` bounds its root by rows, given a bound
on the variance; ``run(clock)`` searches on; ``assess(node, clock, schedule)`` bounds a node by rows, records what it
prunes, and returns the smaller node, or None if it is finished; ``push(node)`` opens a node. `open_nodes` is a heap of
(−bound, serial number, node), `n_nodes` their number so far; `incumbent` are positions, `incumbent_value` their λmax in
units of the search, as `upper_bound` is; `incumbent_variance` and `variance_bound` are in those of Σ, without the
shift.

``solve_component(operator, spec, rng).Z``, (n, 1), are loadings of the cardinality in `spec`. ``embed_rows(Z, idx, n)``
has n rows, those of Z at `idx` and zeros elsewhere; ``orient(Z)`` makes the largest absolute entry of each column
positive. ``relative_gap(value, upper)`` is upper/value − 1, zero if upper ≤ value; ``Certificate.from_bounds`` is the
certificate of a value and its bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop

import numpy as np

from gpower._utils.arrays import Array, embed_rows
from gpower._utils.polar_factor_and_signs import orient
from gpower.certificates import bounds, wide_data_bounds
from gpower.certificates.branch_and_bound import RowBoundSchedule, SupportSearch
from gpower.certificates.certificate import Bound, Certificate, Clock, Progress, find_least_bound, relative_gap
from gpower.certificates.wide_data_bounds import CandidateCovariance
from gpower.operators.base import Operator
from gpower.solvers.component import solve_component
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

#: A search prunes nodes at this share of the tolerance, so that despite rounding its bound is within the tolerance.
SEARCH_TOLERANCE_SHARE = 0.99
#: Further rounds of the row bound, repeated while each closes at least this share of the gap. On a table of 1,000
#: genes they halved the gap for 20 variables (12 to 6 %) in twice the time; on small tables they change little.
EXTRA_SCHEDULE: RowBoundSchedule = (((0.01, 0.003, 0.001), 60),)
MIN_GAP_REDUCTION_SHARE = 0.03
#: The row bound is skipped for a component whose value is below this share of the best bound: it divides S by the
#: value, and its smoothings are for matrices with a largest eigenvalue of about one.
MIN_VALUE_SHARE = 1e-3
#: If there are many candidates, those of variance below this share of value/k are left out of the row bound. A variable
#: of the support adds value/k on average, so that supports with such variables can rarely be better.
MIN_ROW_VARIANCE_SHARE = 0.25


@dataclass(eq=False)
class BoundState:
    """A component, the bounds computed so far, and the search for a better component.

    `value` and `bounds` are those of Σ, without the shift of the candidates. The bounds hold for every component of k
    variables, not for this one alone, so they stay if the component is replaced.
    """

    operator: Operator  # deflated matrix that the component was extracted from, in float64, in host memory
    candidates: CandidateCovariance  # Σ over the variables of large variance
    k: int  # cardinality of the components that the bounds cover
    tol: float  # relative gap at which to stop
    support: Array  # column numbers of the component, all of them candidates, increasing; may contain zero loadings
    z: Array  # (n,): unit loadings, or zero; zero outside the support
    value: float  # zᵀΣz
    bounds: list[Bound] = field(default_factory=list)  # all bounds computed, in the order of computation
    search: SupportSearch | None = None  # search of `best_subset`; None before its root is bounded
    seconds: float = 0.0  # total time of the calls of `best_subset`

    @classmethod
    def from_loadings(
        cls, operator: Operator, z: Array, k: int, tol: float, support: Array | None = None
    ) -> BoundState:
        """Create a state without bounds from unit loadings z, (n,); the support defaults to their non-zeros.

        A zero z has the value zero and an empty support. A given support contains column numbers, increasing, and at
        least the non-zeros. k ≥ 1 may be less than the number of non-zeros, and larger than n. The candidates contain
        the non-zeros; that they contain a larger support is up to the caller.
        """
        used = np.flatnonzero(z)
        view = wide_data_bounds.select_candidates(operator, used)
        return cls(operator, view, k, tol, used if support is None else support, z, view.compute_variance(z))

    def copy(self) -> BoundState:
        """Return a copy whose bounds and search can change while those of this state stay."""
        search = None if self.search is None else replace(self.search, open_nodes=list(self.search.open_nodes))
        return replace(self, bounds=list(self.bounds), search=search)

    @property
    def variances(self) -> Array:
        """Return the variances of all variables, (n,), in their order, the shift included; not to be written to."""
        view = self.candidates  # with a floor of zero all variables are candidates
        return np.diagonal(view.S) if view.floor == 0 else self.operator.column_norms**2 + view.shift

    @property
    def upper_bound(self) -> float:
        """Return the least bound, but at least the value: only rounding makes a bound smaller; infinity without any."""
        return max(find_least_bound(self.bounds).value, self.value)

    def is_done(self, clock: Clock) -> bool:
        """Return whether upper_bound/value − 1 is at most `tol` or the clock has expired."""
        return relative_gap(self.value, self.upper_bound) <= self.tol or clock.is_expired

    def add_bound(self, method: str, value: float, start_time: float) -> None:
        """Add a bound whose computation began at `start_time`, by `time.perf_counter`; it may exceed the known ones."""
        self.bounds.append(Bound(method, value, time.perf_counter() - start_time))

    def adopt_search(self, search: SupportSearch, method: str, start_time: float) -> None:
        """Continue with a search, use its incumbent if that has a larger value, and add its bound.

        The candidates of the search are among those of the state. `method` becomes the name of the bound; the search
        began at `start_time`, by `time.perf_counter`.
        """
        self.search = search
        support = search.candidates.variables[search.incumbent]
        z = solve_on_support(self.operator, support)
        value = self.candidates.compute_variance(z)
        if value > self.value:
            self.support, self.z, self.value = support, z, value
        self.add_bound(method, search.variance_bound, start_time)

    def make_progress(self, seconds: float) -> Progress:
        """Return the progress after some seconds; the search may be in the middle of its work.

        The search changes while it runs and the component does not, so that value and bound come from both, and the
        support from the component alone.
        """
        search = self.search
        if search is None:
            return Progress(self.upper_bound, self.value, 0, 0, seconds, self.support)
        value = max(self.value, search.incumbent_variance)
        bound = max(min(self.upper_bound, search.variance_bound), value)
        return Progress(bound, value, search.n_nodes, len(search.open_nodes), seconds, self.support)

    def to_certificate(self, seconds: float) -> Certificate:
        """Return the certificate of the value and the least bound, with the total time in seconds.

        There should be a bound: without one the upper bound of the certificate is infinite.
        """
        return Certificate.from_bounds(self.value, self.bounds, cardinality=self.k, tol=self.tol, seconds=seconds)


def solve_on_support(operator: Operator, support: Array) -> Array:
    """Return the unit loadings of largest variance on a support, (n,), in float64; zero outside it.

    They are the leading eigenvector of Σ[support, support]; of several it is any. The loading of largest absolute value
    is positive (of those equal to it up to rounding, the first in the order of `support`). The operator is in float64
    on the host. `support` contains different column numbers, in any order, at least one. If no variable of it varies,
    the loadings are still a unit vector, not zero.
    """
    S = operator.gram(support)  # on the host
    leading = np.linalg.eigh((S + S.T) / 2)[1][:, -1:]
    return embed_rows(orient(leading), support, operator.shape[1])[:, 0]


def start_from_heuristic(operator: Operator, k: int, tol: float, clock: Clock) -> BoundState:
    """Return the state, without bounds, of the best component that the solver finds.

    Its support has exactly k ≥ 1 variables, or all n if k > n: the non-zeros of the solver, and those of largest
    variance if the solver uses fewer; other variables would not do, because the candidates of the state are sure to
    contain its non-zeros and the variables of largest variance only. After Ctrl-C it is the best component on the k
    variables of largest variance (of equal ones the first). The clock is not read, and its callback not called; Ctrl-C
    expires it. The result is the same at every call, as starts are drawn with a fixed seed.
    """
    order = np.argsort(-operator.column_norms, kind="stable")
    support = order[:k]
    with clock.interruptible():
        spec = FitSpec(ExactCardinality(levels=(k,)))
        # `Z` of the result is (n, 1), in float64 on the host, and zero if the matrix is zero up to rounding.
        nonzeros = np.flatnonzero(solve_component(operator, spec, np.random.RandomState(0)).Z[:, 0])
        rest = np.setdiff1d(order, nonzeros, assume_unique=True)  # more variables never explain less
        support = np.append(nonzeros, rest[: k - nonzeros.size])
    support = np.sort(support)
    return BoundState.from_loadings(operator, solve_on_support(operator, support), k, tol, support)


def add_cheap_bounds(state: BoundState, clock: Clock) -> None:
    """Add each bound but the row bound, until the gap is small enough or the clock expires.

    If `state` has no bound, at least one is computed even if the clock has expired, unless Ctrl-C ends every step. A
    step that Ctrl-C ends, or that does not apply, adds no bound. Ctrl-C expires the clock and does not raise.
    """
    for method, compute_bound in CHEAP_BOUNDS.items():
        if state.bounds and state.is_done(clock):
            return
        start_time = time.perf_counter()
        with clock.interruptible():
            value = compute_bound(state, clock)
            if np.isfinite(value):
                state.add_bound(method, value, start_time)


def _bound_by_trace(state: BoundState, clock: Clock) -> float:
    """Return the sum of the k largest variances: λmax(Σ_II) ≤ tr Σ_II (docs/certificates.md, 3.2)."""
    return float(bounds.trace_profile(state.variances, state.k)[-1]) - state.candidates.shift


def _bound_by_gershgorin(state: BoundState, clock: Clock) -> float:
    """Return max_i Σ_ii + the k − 1 largest |Σ_il| of the candidates, extended by (F) (docs/certificates.md, 3.2)."""
    view = state.candidates
    return _bound_from_profile(state, bounds.gershgorin_profile(view.S, min(state.k, view.variables.size)))


def _bound_by_eigenvalue(state: BoundState, clock: Clock) -> float:
    """Return the smaller of λmax of the candidates, extended by (F), and λmax over all variables, if it is computed.

    It is a bound as λmax(Σ_II) ≤ λmax(Σ), by interlacing (docs/certificates.md, 3.2).
    """
    view = state.candidates
    profile = np.append(0.0, np.full(min(state.k, view.variables.size), view.largest_eigenvalue))
    full_bound = np.inf if view.floor == 0 else wide_data_bounds.largest_full_eigenvalue(state.operator)
    return min(_bound_from_profile(state, profile), full_bound)


def _bound_from_profile(state: BoundState, profile: Array) -> float:
    """Return max_j U_j + (k − j)·floor, without the shift, from bounds U_j on λ_j(S), j ≤ k, over the candidates (F).

    If variables were left out, each U_j is replaced by the sum of the j largest variances of all variables if that is
    smaller.
    """
    view, k = state.candidates, state.k
    if view.floor > 0:
        profile = np.minimum(profile, bounds.trace_profile(state.variances, k)[: profile.size])
    return bounds.bound_with_floor(profile, k, view.floor) - view.shift


def _bound_by_soft_threshold(state: BoundState, clock: Clock) -> float:
    """Return the least λmax(soft_t(Σ)) + k·max(t, floor) over t, Σ over the candidates (docs/certificates.md, 3.3).

    The result is infinity if k variables that were left out could alone, by the sum k·floor of their variances, reach a
    bound that is known already. A bound must be known.
    """
    view, k = state.candidates, state.k
    if k * view.floor >= state.upper_bound:
        return np.inf
    return bounds.soft_threshold_bound(view.S, k, view.floor, state.upper_bound) - view.shift


def _bound_by_sample_space(state: BoundState, clock: Clock) -> float:
    """Return the least λmax(Σ Yᵢ) + kρ over ρ (docs/certificates.md, 3.4); it may contain the shift."""
    space = compute_sample_space(state)
    return np.inf if space is None else wide_data_bounds.sample_space_bound(*space, state.k, state.candidates.floor)


def _bound_by_full_soft_threshold(state: BoundState, clock: Clock) -> float:
    """Return the least λmax(soft_t(Σ)) + kt over t, Σ over all variables; infinity if these are the candidates.

    It is infinite too if it cannot be below the known bounds, of which there must be one, or if the clock expires
    (docs/certificates.md, 3.3).
    """
    if state.candidates.floor == 0:
        return np.inf
    return wide_data_bounds.full_soft_threshold_bound(state.operator, state.k, state.upper_bound, clock)


#: The bounds in the order of their cost, by the name of the method. Each is a bound on λ_k(Σ), in its units and without
#: the shift unless it says so, and infinity if it does not apply. The clock is read only where it is named.
CHEAP_BOUNDS: dict[str, Callable[[BoundState, Clock], float]] = {
    "trace": _bound_by_trace,
    "gershgorin": _bound_by_gershgorin,
    "eigenvalue": _bound_by_eigenvalue,
    "soft threshold": _bound_by_soft_threshold,
    "sample space": _bound_by_sample_space,
    "soft threshold, all variables": _bound_by_full_soft_threshold,
}


def compute_sample_space(state: BoundState) -> tuple[Array, Array] | None:
    """Return a matrix A, (p, m), with AᵀA = Σ over the candidates, and the scores of the component, a unit vector (p,).

    If there are no samples, or more than candidates, A is a factor of Σ plus the shift, with p = m; bounds from it then
    contain the shift. The result is None for a component of no variance, and if variables were left out and such a
    factor would be needed.
    """
    operator, view, p = state.operator, state.candidates, state.operator.shape[0]
    has_few_samples = operator.has_samples and p <= view.variables.size
    if not state.value > 0 or (view.floor > 0 and not has_few_samples):
        return None
    A = operator.columns(view.variables) if has_few_samples else _factor_covariance(view.S)
    scores = A @ state.z[view.variables]
    return A, scores / np.linalg.norm(scores)


def _factor_covariance(S: Array) -> Array:
    """Return A, (n, n), with AᵀA ⪰ S, so that bounds for AᵀA hold for S, (n, n), symmetric.

    S is positive semidefinite up to rounding. AᵀA equals it up to rounding, by which its eigenvalues are increased,
    with negative ones counted as zero. Column i of A belongs to variable i.
    """
    w, Q = np.linalg.eigh(S)
    return np.asarray((Q * np.sqrt(np.maximum(w, 0) + bounds.eigenvalue_rounding_error(w))).T)


def start_search(state: BoundState, candidates: CandidateCovariance, clock: Clock) -> SupportSearch:
    """Create a search with the component as its incumbent, and bound its root by rows and screening.

    The candidates are those of the state, or fewer by `narrow`, which keeps the support. The component has positive
    variance. The root is the only open node of the result; see `SupportSearch.start`. `variance_bound` of the result is
    proven in each case, also if the clock expires; the incumbent may have improved.
    """
    search = SupportSearch(
        candidates=candidates,
        k=state.k,
        incumbent=np.searchsorted(candidates.variables, state.support),  # relies on all being candidates
        scale=state.value + candidates.shift,
        tol=SEARCH_TOLERANCE_SHARE * state.tol,
    )
    search.start(state.upper_bound, clock)
    return search


def add_row_bound(state: BoundState, clock: Clock) -> None:
    """Add the row bound, after screening at the root alone; nothing if it is not computed.

    The bound is λ_k(Σ) ≤ λmax(Σ + R + Rᵀ + diag(ρ²/b)) + kb, minimised over R and b (docs/certificates.md, 3.5 and
    3.6). The state must have a bound. None is computed if the gap is within the tolerance, the clock has expired, the
    value is below MIN_VALUE_SHARE of the least bound, or k variables that were left out could alone reach that bound.
    The component to be certified does not change even if the search finds a better support.
    """
    view = select_row_candidates(state)
    is_hopeless = state.value <= MIN_VALUE_SHARE * state.upper_bound or state.k * view.floor >= state.upper_bound
    if state.is_done(clock) or is_hopeless:
        return
    start_time = time.perf_counter()
    search = start_search(state, view, clock)
    while search.open_nodes and not clock.is_expired:
        _, _, root = heappop(search.open_nodes)
        tightened = search.assess(root, clock, EXTRA_SCHEDULE)
        if tightened is not None:
            search.push(tightened)
        bound = search.upper_bound
        if root.bound - bound < MIN_GAP_REDUCTION_SHARE * (bound - search.incumbent_value):
            break
    state.add_bound("rows", search.variance_bound, start_time)


def select_row_candidates(state: BoundState) -> CandidateCovariance:
    """Return the candidates for the row bound: those of the state, without those of small variance if there are many.

    The result has at most max(MAX_ROW_CANDIDATES, c + the size of the support) variables, those of largest variance and
    the support; c is the number of candidates of variance above MIN_ROW_VARIANCE_SHARE·value/k.
    """
    n_large = int(np.count_nonzero(np.diagonal(state.candidates.S) > MIN_ROW_VARIANCE_SHARE * state.value / state.k))
    return state.candidates.narrow(
        max(n_large + state.support.size, wide_data_bounds.MAX_ROW_CANDIDATES), state.support
    )
