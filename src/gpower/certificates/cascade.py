"""The cascade of bounds on one component, from cheap to strong, until the gap is small enough.

Terms: the matrix A has n variables and Σ = AᵀA, deflated by the earlier components. λ_k(Σ) is the largest zᵀΣz of unit
z with at most k non-zeros. All arrays are NumPy arrays on the host, in float64; supports and other indices are int. A
"column number" counts the columns of A from 0; a "position" counts the candidates, the variables of large variance.

An `Operator` is A through products; all operators here are in float64 in host memory. ``shape`` is (p, n), with p
samples, or p = n if only Σ is known (`has_samples` is False). ``column_norms``, (n,), are the roots of the diagonal of
Σ. ``gram(idx)`` is Σ[idx, idx] for column numbers in any order, and is not written to. ``combine(T)``, (p, m), is A T
for T of shape (n, m); ``correlate(X)``, (n, m), is AᵀX for X of shape (p, m); ``columns(idx)``, (p, |idx|), is A[:,
idx].

A `CandidateCovariance` has the candidates: `variables`, (m,), their column numbers, increasing; `S`, (m, m), Σ over
them plus shift·I; `shift`, at least zero, which makes S positive semidefinite, and is to be subtracted once from each
bound that comes from S; `floor`, the largest variance of the other variables plus the shift, zero if there are none.
``compute_variance(z)`` is zᵀΣz without the shift for z, (n,), that is zero outside the candidates; ``narrow(max,
support)`` are at most `max` candidates, those of largest variance and the column numbers `support`.

A `Bound` has `method`, `value` (on λ_k(Σ), without the shift), `seconds` and `threshold`, the t of the soft-threshold
bound, else zero. `find_least_bound` returns the least `Bound` of a sequence, one of value infinity if it is empty. A
`Clock` limits the time: ``is_expired`` says whether to stop, and ``interruptible()`` is a context in which Ctrl-C ends
the block and expires the clock. (F) is λ_k(Σ) ≤ max_j U_j + (k − j)·floor, for bounds U_j on λ_j(S), j = 0, …, k.

A `RowProblem` is the row bound over S/scale; `initialize_rows` makes its start from a threshold in those units. A
`SupportSearch` is a branch and bound over positions: `S` is that of its candidates divided by `scale`;
`incumbent_support` are positions, `incumbent_value` their λmax in S; `upper_bound` and `pruning_threshold` are in the
units of S, `variance_bound` is the upper bound in those of Σ, without the shift; `open_nodes` is a heap of
(−bound, serial number, node). ``assess_by_rows(search, node, clock, schedule)`` bounds a node by rows, records what it
prunes, and returns the smaller node, or None if it is pruned; ``open_unless_leaf(node)`` enumerates a node of few
supports or opens it, and does nothing for None.

``make_root(bound)`` of a search is the node of all supports, given a bound on their variance, and
``record_pruned_bound(value)`` notes that supports up to a value are not searched. ``minimize_row_bound(problem, rows,
target=, clock=, smoothings=, steps=)`` has the best `rows` found and their `bound`, in the units of S/scale;
``problem.bound_omitted_supports(rows, bound)`` bounds supports with a variable that was left out.
``solve_component(operator, spec, rng).Z``, (n, 1), are loadings of the cardinality in `spec`. ``embed_rows(Z, idx, n)``
has n rows, those of Z at `idx` and zeros elsewhere; ``orient(Z)`` makes the largest absolute entry of each column
positive. ``relative_gap(value, upper)`` is upper/value − 1, zero if upper ≤ value; ``Certificate.from_bounds`` is the
certificate of a value and its bounds. A `ScalarMinimum` of `bounds` has `value` and `argument`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, embed_rows
from gpower._utils.polar_factor_and_signs import orient
from gpower.certificates import bounds, wide_data_bounds
from gpower.certificates.branch_and_bound import ROOT_SCHEDULE, RowBoundSchedule, SupportSearch, assess_by_rows
from gpower.certificates.certificate import Bound, Certificate, Clock, find_least_bound, relative_gap
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.certificates.wide_data_bounds import CandidateCovariance
from gpower.operators.base import Operator
from gpower.solvers.component import solve_component
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

#: Share of ρ from which columns are gathered: below one, to cover the rounding of ρ and of the norms.
GATHERED_RHO_SHARE = 0.999
#: Largest number of entries of the columns that the sample-space bound reads into memory: 400 MB in float64.
MAX_SAMPLE_SPACE_ENTRIES = 5e7
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


@dataclass(frozen=True, eq=False)
class BoundState:
    """A component and the bounds computed so far; each step returns a new state.

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
    bounds: tuple[Bound, ...] = ()  # all bounds computed, in the order of computation

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

    def with_bound(self, bound: Bound, start_time: float) -> BoundState:
        """Return the state with one more bound, whose computation began at `start_time`, by `time.perf_counter`.

        The bound may be larger than the known ones, or infinite; its `seconds` are replaced.
        """
        return replace(self, bounds=(*self.bounds, replace(bound, seconds=time.perf_counter() - start_time)))

    def with_support(self, support: Array) -> BoundState:
        """Return the state with the best component on a support, if its value is larger; keep the bounds.

        `support` contains different column numbers of candidates, in any order, and is not empty. If the value is not
        larger, the state itself is returned.
        """
        support = np.sort(support)
        z = solve_on_support(self.operator, support)
        value = self.candidates.compute_variance(z)
        return self if value <= self.value else replace(self, support=support, z=z, value=value)

    def with_search_result(self, search: SupportSearch, method: str, start_time: float) -> BoundState:
        """Return the state with the incumbent and the bound of a search that began at `start_time`.

        The candidates of the search are among those of the state. `method` becomes the name of the bound, and
        `start_time` is that of `time.perf_counter`. The component stays if the incumbent has no larger value.
        """
        support = search.candidates.variables[search.incumbent_support]
        return self.with_support(support).with_bound(Bound(method, search.variance_bound), start_time)

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


def add_cheap_bounds(state: BoundState, clock: Clock) -> Iterator[BoundState]:
    """Yield the state after each bound but the row bound, until the gap is small enough or the clock expires.

    A state with bounds whose gap is small enough yields nothing. If `state` has no bound, at least one state is
    yielded, and at least one bound is computed even if the clock has expired, unless Ctrl-C ends every step. A step
    that Ctrl-C ends, or that does not apply, adds no bound, but the state is yielded again. Ctrl-C expires the clock
    and does not raise.
    """
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
        start_time = time.perf_counter()
        with clock.interruptible():
            bound = step(state, clock)
            state = state if bound is None else state.with_bound(bound, start_time)
        yield state


def _bound_by_trace(state: BoundState, clock: Clock) -> Bound:
    """Return the sum of the k largest variances: λmax(Σ_II) ≤ tr Σ_II (docs/certificates.md, 3.2).

    The value is a bound on λ_k(Σ), in its units and without the shift of the candidates. The clock is not read.
    """
    return Bound("trace", float(bounds.trace_profile(state.variances, state.k)[-1]) - state.candidates.shift)


def _bound_by_gershgorin(state: BoundState, clock: Clock) -> Bound:
    """Return max_i Σ_ii + the k − 1 largest |Σ_il| of the candidates, extended by (F) (docs/certificates.md, 3.2).

    The value is a bound on λ_k(Σ), without the shift of the candidates. The clock is not read.
    """
    return Bound("gershgorin", _bound_from_profile(state, bounds.gershgorin_profile))


def _bound_by_eigenvalue(state: BoundState, clock: Clock) -> Bound:
    """Return the smaller of λmax of the candidates, extended by (F), and λmax over all variables, if it is computed.

    It is a bound on λ_k(Σ) as λmax(Σ_II) ≤ λmax(Σ), by interlacing (docs/certificates.md, 3.2); the value is without
    the shift of the candidates. The clock is not read.
    """
    full_bound = np.inf if state.candidates.floor == 0 else wide_data_bounds.largest_full_eigenvalue(state.operator)
    return Bound("eigenvalue", min(_bound_from_profile(state, bounds.eigenvalue_profile), full_bound))


def _bound_by_soft_threshold(state: BoundState, clock: Clock) -> Bound | None:
    """Return the least λmax(soft_t(Σ)) + k·max(t, floor) over t, Σ over the candidates (docs/certificates.md, 3.3).

    The value is a bound on λ_k(Σ), without the shift of the candidates, and `threshold` of the result is that t, in the
    units of Σ. Return None if k variables that were left out could alone, by the sum k·floor of their variances, reach
    a bound that is known already. A bound must be known. The clock is not read.
    """
    view, k = state.candidates, state.k
    if k * view.floor >= state.upper_bound:
        return None
    least = bounds.soft_threshold_bound(view.S, k, view.floor, state.upper_bound)
    return Bound("soft threshold", least.value - view.shift, threshold=least.argument)


def _bound_by_sample_space(state: BoundState, clock: Clock) -> Bound:
    """Return the least λmax(Σ Yᵢ) + kρ over ρ (docs/certificates.md, 3.4), infinity if columns are not available.

    The value is a bound on λ_k(Σ), which may contain the shift of the candidates. The clock is not read.
    """
    space = gather_sample_space(state)
    value = np.inf if space is None else wide_data_bounds.sample_space_bound(space.columns, space.scores, state.k)
    return Bound("sample space", value)


def _bound_by_full_soft_threshold(state: BoundState, clock: Clock) -> Bound | None:
    """Return the least λmax(soft_t(Σ)) + kt over t, Σ over all variables; None if the candidates are all variables.

    The value is a bound on λ_k(Σ), without a shift. It is infinite if it cannot be below the known bounds, of which
    there must be one, or if the clock expires (docs/certificates.md, 3.3).
    """
    if state.candidates.floor == 0:
        return None
    bound = wide_data_bounds.full_soft_threshold_bound(state.operator, state.k, state.upper_bound, clock)
    return Bound("soft threshold, all variables", bound)


def _bound_from_profile(state: BoundState, compute_profile: Callable[[Array, int], Array]) -> float:
    """Return max_j U_j + (k − j)·floor, j ≤ k, without the shift, from a profile U of the candidates (F).

    `compute_profile` receives S, (m, m), and k' = min(k, m), and returns bounds U_0, …, U_k' on the largest eigenvalue
    of every S_JJ with j variables, (k' + 1,), of which U_0 is zero. If variables were left out, each U_j is replaced by
    the sum of the j largest variances of all variables if that is smaller.
    """
    view, k = state.candidates, state.k
    profile = compute_profile(view.S, min(k, view.variables.size))
    if view.floor > 0:
        profile = np.minimum(profile, bounds.trace_profile(state.variances, k)[: profile.size])
    return bounds.bound_with_floor(profile, k, view.floor) - view.shift


class SampleSpace(NamedTuple):
    """Columns aᵢ of a matrix with Σ = AᵀA, in increasing order of i, and the scores of a component; both float64."""

    columns: Array  # (p, m): at least the columns with ‖aᵢ‖² above the requested ρ
    scores: Array  # (p,): unit vector


def gather_sample_space(state: BoundState, rho: float | None = None) -> SampleSpace | None:
    """Return the columns of variance above ρ and the scores of the component; None if they are not available.

    By default ρ is the smallest value that `wide_data_bounds.sample_space_bound` tries, the (k + 1)-th largest (aᵢᵀx)²
    of the scores x, zero if k ≥ n. Columns of smaller variance may be included. If all n variables are candidates, and
    there are no samples or more than n, the columns are those of a factor of Σ plus the shift, with p = n; bounds from
    them then contain the shift. The scores are A z/‖A z‖. The result is None for a component of no variance, for a
    covariance of which variables were left out, and for more than MAX_CANDIDATE_VARIABLES samples or
    MAX_SAMPLE_SPACE_ENTRIES entries.
    """
    operator, view, p = state.operator, state.candidates, state.operator.shape[0]
    if not state.value > 0:
        return None
    if view.floor == 0 and (not operator.has_samples or p > view.variables.size):
        A = _factor_covariance(view.S)
        scores = A @ state.z
        return SampleSpace(A, scores / np.linalg.norm(scores))
    if not operator.has_samples or p > wide_data_bounds.MAX_CANDIDATE_VARIABLES:
        return None
    x = operator.combine(state.z[:, None])
    x /= np.linalg.norm(x)
    if rho is None:
        c = operator.correlate(x)[:, 0]
        rho = float(np.sort(c * c)[::-1][state.k]) if state.k < c.size else 0.0
    idx = np.flatnonzero(operator.column_norms**2 > GATHERED_RHO_SHARE * rho)
    return None if p * idx.size > MAX_SAMPLE_SPACE_ENTRIES else SampleSpace(operator.columns(idx), x[:, 0])


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
    variance. The root is the only open node of the result. No node is open if the root was pruned or enumerated, or if
    a better support may contain a variable that was left out, so that branching cannot close the gap. `variance_bound`
    of the result is proven in each case, also if the clock expires; the incumbent may have improved.
    """
    support = np.searchsorted(candidates.variables, state.support)  # positions; relies on all being candidates
    k = min(state.k, candidates.variables.size)
    scale = state.value + candidates.shift
    search = SupportSearch(candidates, k, support, scale, tol=SEARCH_TOLERANCE_SHARE * state.tol)
    root = search.make_root(state.upper_bound)
    problem = RowProblem(search.S, state.k, root.fixed, candidates.floor / search.scale)
    rows = initialize_rows(problem, max((bound.threshold for bound in state.bounds), default=0.0) / search.scale)
    if candidates.floor == 0:
        search.open_unless_leaf(assess_by_rows(search, replace(root, rows=rows), clock, ROOT_SCHEDULE))
        return search
    smoothings, steps = (*ROOT_SCHEDULE[0][0], *ROOT_SCHEDULE[1][0]), ROOT_SCHEDULE[0][1]
    result = minimize_row_bound(
        problem, rows, target=search.pruning_threshold, clock=clock, smoothings=smoothings, steps=steps
    )
    omitted_bound = problem.bound_omitted_supports(result.rows, result.bound)
    search.record_pruned_bound(min(omitted_bound, root.bound))
    root = replace(root, bound=min(root.bound, result.bound), rows=result.rows)
    if omitted_bound > search.pruning_threshold:
        search.record_pruned_bound(root.bound)
    else:
        search.open_unless_leaf(assess_by_rows(search, root, clock, ROOT_SCHEDULE[1:]))
    return search


def add_row_bound(state: BoundState, clock: Clock) -> BoundState:
    """Return the state with the row bound, after screening at the root alone, or the state itself if none is computed.

    The bound is λ_k(Σ) ≤ λmax(Σ + R + Rᵀ + diag(ρ²/b)) + kb, minimised over R and b (docs/certificates.md, 3.5 and
    3.6). The state must have a bound. None is computed if the gap is within the tolerance, the clock has expired, the
    value is below MIN_VALUE_SHARE of the least bound, or k variables that were left out could alone reach that bound.
    The component to be certified does not change even if the search finds a better support.
    """
    view = select_row_candidates(state)
    is_hopeless = state.value <= MIN_VALUE_SHARE * state.upper_bound or state.k * view.floor >= state.upper_bound
    if state.is_done(clock) or is_hopeless:
        return state
    start_time = time.perf_counter()
    search = start_search(state, view, clock)
    while search.open_nodes and not clock.is_expired:
        _, _, root = search.open_nodes.pop()
        tightened = assess_by_rows(search, root, clock, EXTRA_SCHEDULE)
        search.open_unless_leaf(tightened)
        bound = search.upper_bound
        if root.bound - bound < MIN_GAP_REDUCTION_SHARE * (bound - search.incumbent_value):
            break
    return state.with_bound(Bound("rows", search.variance_bound), start_time)


def select_row_candidates(state: BoundState) -> CandidateCovariance:
    """Return the candidates for the row bound: those of the state, without those of small variance if there are many.

    The result has at most max(MAX_ROW_CANDIDATES, c + the size of the support) variables, those of largest variance and
    the support; c is the number of candidates of variance above MIN_ROW_VARIANCE_SHARE·value/k.
    """
    n_large = int(np.count_nonzero(np.diagonal(state.candidates.S) > MIN_ROW_VARIANCE_SHARE * state.value / state.k))
    return state.candidates.narrow(
        max(n_large + state.support.size, wide_data_bounds.MAX_ROW_CANDIDATES), state.support
    )
