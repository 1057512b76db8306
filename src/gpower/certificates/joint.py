"""Several components jointly: upper bounds on the sum of their variances, and exact search for disjoint components.

Let z₁, …, z_m be unit vectors with at most k₁, …, k_m non-zeros, and U_k a bound on one component of k variables.

*Singles*, for every constraint and for none: Σ zⱼᵀΣzⱼ ≤ Σ U_kⱼ. Without a constraint no better bound exists, because
the best set repeats the best component.

*Eigenvalues*, for every constraint: Σ zⱼᵀΣzⱼ ≤ λ₁ + … + λ_m of Σ. For orthonormal z this is Ky Fan's theorem, and
disjoint z are orthonormal. For uncorrelated components with variances vⱼ > 0, the uⱼ = Σ^{1/2}zⱼ/√vⱼ are orthonormal,
and uⱼᵀΣuⱼ = zⱼᵀΣ²zⱼ/vⱼ ≥ (zⱼᵀΣzⱼ)²/vⱼ = vⱼ by Cauchy–Schwarz, so Σ vⱼ ≤ Σ uⱼᵀΣuⱼ ≤ λ₁ + … + λ_m. Any s of the
components may be bounded in this way and the others as singles; the bound is the least over s.

*Trace*, for disjoint components: λmax(Σ_II) ≤ tr Σ_II, and no variable counts twice.

*Rows*, for orthogonal and disjoint components: (K) of `row_bound`.

*Listing*, for disjoint components of few variables: `disjoint` searches lists of all supports.

Terms: all arrays are NumPy arrays on the host, in float64; supports are arrays of different int. An `Operator` is a
matrix A through products, here in float64 in host memory, with Σ = AᵀA. ``shape`` is (p, n), with p samples, or p = n
if only Σ is known. ``column_norms``, (n,), are the roots of the diagonal of Σ, and ``gram(idx)`` is Σ[idx, idx], not to
be written to. ``Scores.from_loadings(operator, Z)`` has `variances`, (m,), zᵀΣz of the columns of Z, and `gram`, (m,
m), ZᵀΣZ. A constraint in `CONSTRAINTS`, by name, has ``compute_violation(S, Z)``, a sum over pairs of components, for
S, (q, q), and loadings Z, (q, m), over the same q variables.

``wide_data_bounds.select_candidates(operator, support)`` returns `S`, Σ plus shift·I over the variables of largest
variance, its `shift`, and `floor`, zero if these are all n variables in order. ``compute_full_spectrum(operator)``
returns all eigenvalues of Σ, increasing, maybe without some zeros, or None for a large matrix;
``eigenvalue_rounding_error(w)`` bounds the rounding error of each. ``trace_profile(variances, k)``, (min(k, n) + 1,),
has the sums of the largest variances, from zero.

``start_from_heuristic(operator, k, tol, clock)`` returns the state of a component of k variables without bounds;
``add_cheap_bounds(state, clock)`` adds bounds, one at least, and ``add_row_bound(state, clock)`` one more, if that may
help; `upper_bound` of a state bounds every component of k variables. ``solve_on_support(operator, support)`` returns
unit loadings of largest variance on a support, (n,), the largest absolute one positive. A `RowProblem` is the row bound
over a scaled S, and ``minimize_row_bound(problem, rows, target=, clock=).bound`` its value in that scale. A
`DisjointSearch` of cardinalities, equal ones next to each other, and of the value of a known set in S, finds sets of
larger value by ``run(S, clock)``: then `upper_bound`, in S and with rounding, bounds every set (infinity if the lists
were not finished), and ``decode_supports()`` are the variables of the best set, increasing, one array per cardinality,
none if there is none.

A `Bound` has `method`, `value` and `seconds`; `find_least_bound` returns the least, one of value infinity for none.
``relative_gap(value, upper)`` is upper/value − 1, zero if upper ≤ value. A `Clock` limits the time:
``interruptible()`` is a context in which Ctrl-C ends the block and expires the clock, and ``make_child(seconds)`` is a
clock that expires after that time, or with this one; `max_seconds` is its limit, and `elapsed_seconds` counts from its
creation.

``read_certificate_input(model, X, …)`` checks the arguments of `certify_total`: its result has `model`, `operator`,
`Z`, (n, m), with unit or zero columns, and `args`, with the `cardinality` given to the model.
``solve_all_components(operator, spec, rng).Z``, (n, m), are the components of a specification, unit or zero; a
ValueError is raised if none satisfy its constraint. ``can_list_supports(n, cardinalities)`` says whether they are few
enough. ``orient(Z)`` makes the largest absolute entry of each column positive. `check_float`, `check_int` and
`check_option` return a value or raise ValueError; ``expand_per_component(value, name, m)`` is a list of m values, from
one or a list. ``Certificate.from_bounds`` is the certificate of a value and its bounds, in order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.polar_factor_and_signs import orient
from gpower.certificates import wide_data_bounds
from gpower.certificates.arguments import read_certificate_input
from gpower.certificates.bounds import EPS, eigenvalue_rounding_error, trace_profile
from gpower.certificates.cascade import add_cheap_bounds, add_row_bound, solve_on_support, start_from_heuristic
from gpower.certificates.certificate import (
    Bound,
    Certificate,
    CertifiedComponent,
    Clock,
    find_least_bound,
    relative_gap,
)
from gpower.certificates.disjoint_supports import DisjointSearch, can_list_supports
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.solvers.fit_specification import ExactCardinality, FitSpec
from gpower.solvers.joint.constraints import CONSTRAINTS
from gpower.solvers.sequential import solve_all_components
from gpower.validation.params import check_float, check_int, check_option, expand_per_component

#: Share of the time limit for the bounds on single components; the rest is for bounds on all of them.
SINGLES_TIME_SHARE = 0.4
#: Largest number of variables for the row bound; each of its steps is an eigendecomposition of that order.
MAX_ROW_BOUND_VARIABLES = 300
#: Largest violation of a constraint, summed over pairs of components, that counts as rounding.
MAX_CONSTRAINT_VIOLATION = 1e-6


def certify_total(
    model: Any,
    X: Any,
    *,
    covariance: str | None = None,
    constraint: str | None = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
    sample_weight: Any = None,
    covariates: Any = None,
    batch: Any = None,
) -> Certificate:
    """Bound the sum of the variances of all components, over all sets of components that satisfy the constraint.

    Parameters
    ----------
    model : fitted model or array-like of shape (n_components, n_features)
        `GPower`, a pipeline with one, any other model with ``components_``, or the loadings alone.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data that the model was fitted on, or the covariance.
    covariance : {None, "precomputed"}
        "precomputed" if X is a covariance; by default as the model was fitted.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        Constraint between the components; by default that of the model. Without one the best set repeats the best
        component, and the bound is the sum of those on single components.
    tol : float, default=1e-4
        Relative gap at which to stop.
    max_time : float, default=10.0
        Time limit in seconds, checked between steps. The cheapest bounds are computed in any case.
    sample_weight : array-like of shape (n_samples,), optional
        Sample weights of the fit.
    covariates, batch : optional
        Covariates and batch labels of the fit; the bounds are then on the variance that they do not predict.

    Returns
    -------
    Certificate
        `value` is the sum of zᵀΣz over the components, `cardinality` the sum of their cardinalities.

    Examples
    --------
    >>> from gpower import GPower, certify_total
    >>> from gpower.datasets import load_pitprops
    >>> S = load_pitprops().correlation
    >>> model = GPower(2, cardinality=4, constraint="disjoint", covariance="precomputed").fit(S)
    >>> certificate = certify_total(model, S)
    >>> round(certificate.value, 4), certificate.optimal
    (5.2552, True)
    """
    tol = check_float(tol, "tol", 0.0)
    max_time = check_float(max_time, "max_time", 0.0)
    checked = read_certificate_input(model, X, covariance, sample_weight, covariates, batch)
    constraint = getattr(checked.model, "constraint", None) if constraint is None else constraint
    constraint = check_option(constraint, "constraint", (None, *CONSTRAINTS))
    cardinality = checked.args["cardinality"]
    return certify_joint_variance(
        checked.operator, checked.Z, cardinality=cardinality, constraint=constraint, tol=tol, max_time=max_time
    )


def certify_joint_variance(
    operator: Operator,
    Z: Array,
    *,
    cardinality: Any = None,
    constraint: str | None = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
) -> Certificate:
    """Bound the sum of the variances of the unit columns of Z, (n_features, m), over all sets that meet the constraint.

    Z is in float64 on the host; a column may be zero. The operator is in float64 in host memory, is not deflated and
    has a column that varies. `cardinality` is a number of variables or one per column, at most n_features and with
    ``constraint="disjoint"`` also in total; by default, and if a column has more non-zeros, the number of its non-zeros
    counts, one at least. `constraint` is None, "orthogonal", "uncorrelated" or "disjoint"; None compares with sets that
    may repeat a component. `tol`, at least zero, is the relative gap at which to stop, and `max_time` a number of
    seconds, checked between steps; the cheapest bounds are computed in any case. Raise ValueError if Z violates the
    constraint by more than MAX_CONSTRAINT_VIOLATION, or if there are not as many cardinalities as columns.
    """
    value = float(np.trace(Scores.from_loadings(operator, Z).gram))
    requested = expand_per_component(cardinality, "cardinality", Z.shape[1])
    cardinalities = [max(int(k or 0), int(np.count_nonzero(z)), 1) for k, z in zip(requested, Z.T, strict=True)]
    _check_constraint_satisfied(operator, Z, constraint)
    return JointBoundState(operator, cardinalities, constraint, tol, value, Clock(max_time)).compute_certificate()


def _check_constraint_satisfied(operator: Operator, Z: Array, constraint: str | None) -> None:
    """Raise ValueError if the components violate the constraint, as the bounds would not apply to them.

    Z, (n_features, m), has unit or zero columns; a zero column violates nothing. `constraint` is a key of
    `CONSTRAINTS`, or None, for which nothing is checked. A sum over pairs of up to MAX_CONSTRAINT_VIOLATION is
    rounding.
    """
    if constraint is None:
        return
    used = np.flatnonzero(Z.any(axis=1))  # `gram` of these variables alone: Σ may be too large to form
    violation = float(CONSTRAINTS[constraint].compute_violation(operator.gram(used), Z[used]))
    if violation > MAX_CONSTRAINT_VIOLATION:
        raise ValueError(
            f"The components are not {constraint}: the violation, summed over pairs, is {violation:.3g}. Fit with "
            f"{format_param('constraint', constraint)}, or pass constraint=None."
        )


@dataclass(eq=False)
class JointBoundState:
    """A set of components and its bounds, added from cheap to strong until the gap is small enough.

    Each step (`trace`, `listing`, `singles`, `eigenvalues`, `rows`) returns a bound on the sum of the variances zᵀΣz,
    with rounding and without a shift, or infinity if it does not apply; its name becomes that of the bound.
    """

    operator: Operator  # in float64, in host memory
    cardinalities: Sequence[int]  # one per component, sorted when the state is created, so not in the order of Z
    constraint: str | None  # key of `CONSTRAINTS`
    tol: float  # relative gap at which to stop
    value: float  # sum of the variances of the components
    clock: Clock
    bounds: list[Bound] = field(default_factory=list)  # in the order of computation
    n_nodes: int = 0  # nodes of the search for disjoint supports
    single_bounds: dict[int, float] = field(default_factory=dict)  # k: bound on one component of k variables
    #: Increasing column numbers of a set of larger value, in the order of `cardinalities`; empty if none was found.
    improved_supports: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cardinalities = sorted(self.cardinalities)

    @property
    def upper_bound(self) -> float:
        """Return the least bound, but at least the value: only rounding makes a bound smaller; infinity without any."""
        return max(find_least_bound(self.bounds).value, self.value)

    def compute_certificate(self) -> Certificate:
        """Compute the bounds that apply to the constraint until the gap is small enough; return the certificate.

        The order is trace and listing (for disjoint components), singles, eigenvalues (for any constraint), rows (for
        orthogonal and disjoint components). An expired clock does not skip a step: the long ones read it themselves.
        Ctrl-C ends a step, which then adds no bound, and expires the clock. Infinite bounds are left out.
        """
        steps = [self.singles]
        if self.constraint == "disjoint":
            steps = [self.trace, self.listing, self.singles]
        if self.constraint is not None:
            steps.append(self.eigenvalues)
        if self.constraint in ("orthogonal", "disjoint"):
            steps.append(self.rows)
        for step in steps:
            start_time = time.perf_counter()
            value = np.inf
            if relative_gap(self.value, self.upper_bound) > self.tol:
                with self.clock.interruptible():
                    value = step()
            if np.isfinite(value):
                self.bounds.append(Bound(step.__name__, value, time.perf_counter() - start_time))
        total, seconds = sum(self.cardinalities), self.clock.elapsed_seconds
        return Certificate.from_bounds(
            self.value, self.bounds, cardinality=total, tol=self.tol, seconds=seconds, nodes=self.n_nodes
        )

    def singles(self) -> float:
        """Compute Σ U_kⱼ ≥ Σ zⱼᵀΣzⱼ, with U_k a bound on one component of k variables (docs/certificates.md, 3.9).

        Every U_k is stored in `single_bounds`, for `eigenvalues`. All together take the share SINGLES_TIME_SHARE of the
        time limit, each k the same part; the cheapest bounds are computed in any case.
        """
        sizes = sorted(set(self.cardinalities))
        for k in sizes:
            clock = self.clock.make_child(SINGLES_TIME_SHARE * self.clock.max_seconds / len(sizes))
            state = start_from_heuristic(self.operator, k, self.tol, clock)
            add_cheap_bounds(state, clock)
            add_row_bound(state, clock)
            self.single_bounds[k] = state.upper_bound
        return sum(self.single_bounds[k] for k in self.cardinalities)

    def eigenvalues(self) -> float:
        """Compute the least λ₁ + … + λ_s + the m − s smallest U_kⱼ over s, which bounds Σ zⱼᵀΣzⱼ under each constraint.

        Some s components, those of the largest U, are bounded by eigenvalues of Σ, the others as singles
        (docs/certificates.md, 3.9). Runs after `singles`; a U_k that is missing there, after Ctrl-C, counts as
        infinite.
        """
        m = len(self.cardinalities)
        w = wide_data_bounds.compute_full_spectrum(self.operator)
        if w is None:
            return np.inf
        rounding = np.arange(min(m, w.size) + 1) * eigenvalue_rounding_error(w)
        sums = np.cumsum(np.append(0.0, w[::-1][:m])) + rounding  # of the s largest eigenvalues
        sums = np.append(sums, np.full(m + 1 - sums.size, sums[-1]))  # (m + 1,)
        singles = np.cumsum([0.0, *sorted(self.single_bounds.get(k, np.inf) for k in self.cardinalities)])
        return float(np.min(sums + singles[::-1]))

    def trace(self) -> float:
        """Compute the sum of the K largest variances, K the total cardinality, a bound for disjoint components.

        It holds as λmax(Σ_II) ≤ tr Σ_II and no variable counts twice (docs/certificates.md, 3.9). The rounding of the
        norms is added.
        """
        rounding = wide_data_bounds.SQUARES_ROUNDING_IN_EPS * self.operator.shape[0] * EPS
        variances = self.operator.column_norms**2 * (1 + rounding)
        return float(trace_profile(variances, sum(self.cardinalities))[-1])

    def rows(self) -> float:
        """Compute λ₁(M) + … + λ_m(M) + Kb ≥ Σ zⱼᵀΣzⱼ for orthogonal or disjoint components.

        This is (K) of docs/certificates.md, 3.9. M = Σ + R + Rᵀ + diag(ρ²/b), minimised over R and b > 0 until the
        clock expires; K is the total cardinality. S is scaled so that the value of the components is their number m,
        which is also where to stop. The result is infinite for many variables, and for components of no variance.
        """
        n, m, k = self.operator.shape[1], len(self.cardinalities), max(self.cardinalities)
        view = wide_data_bounds.select_candidates(self.operator, np.arange(0))
        if n > MAX_ROW_BOUND_VARIABLES or view.floor > 0 or not self.value > 0:
            return np.inf
        scale = self.value / m
        total = sum(self.cardinalities)
        problem = RowProblem(
            view.S / scale, min(k, n), np.zeros(n, bool), n_components=min(m, n), total_cardinality=total
        )
        result = minimize_row_bound(problem, initialize_rows(problem), target=float(m), clock=self.clock)
        return result.bound * scale - m * view.shift

    def listing(self) -> float:
        """Search the lists of all supports for the best disjoint ones, and return a bound on the value of every set.

        A set whose value exceeds that of the components is stored in `improved_supports`, and the number of nodes in
        `n_nodes`. The result is infinite if there are too many supports, or if the clock expires before all are listed.
        """
        if not can_list_supports(self.operator.shape[1], self.cardinalities):
            return np.inf
        view = wide_data_bounds.select_candidates(self.operator, np.arange(0))  # all variables, as they are few
        total_shift = len(self.cardinalities) * view.shift  # S contains the shift once for each component
        search = DisjointSearch(self.cardinalities, self.value + total_shift)
        search.run(view.S, self.clock)
        self.n_nodes = search.n_nodes
        self.improved_supports = search.decode_supports()
        return search.upper_bound - total_shift


def best_disjoint(operator: Operator, cardinality: Any, tol: float, max_time: float) -> CertifiedComponent:
    """Find the components without a common variable of the largest sum of variances, and bound that sum.

    The operator is in float64 in host memory and has a column that varies. `cardinality` is not yet checked: one
    number, or m of them, one per component, whose order the rows of the result have. `tol` is the relative gap at which
    to stop and `max_time` a number of seconds for the bounds, which begin once the solver has found components. The
    component of the result is (m, n_features), in float64, each row of unit length or zero, its largest absolute entry
    positive. If the search of all supports finds a set of larger value, it is that set. Raise ValueError if a
    cardinality is not a whole number of at least one, or if together they exceed n_features.
    """
    requested = cardinality if isinstance(cardinality, Sequence | np.ndarray) else [cardinality]
    levels = [check_int(k, "cardinality", 1) for k in requested]
    n = operator.shape[1]
    if sum(levels) > n:
        raise ValueError(
            f"{format_param('cardinality', cardinality)}: disjoint components need {sum(levels)} variables in total, "
            f"and there are n_features={n}; ask for fewer."
        )
    mu = (1.0,) * len(levels)
    spec = FitSpec(ExactCardinality(levels=tuple(levels)), mu, constraint=CONSTRAINTS["disjoint"])
    Z = solve_all_components(operator, spec, np.random.RandomState(0)).Z
    value = float(Scores.from_loadings(operator, Z).variances.sum())
    state = JointBoundState(operator, levels, "disjoint", tol, value, Clock(max_time))
    certificate = state.compute_certificate()
    if state.improved_supports:  # sorted by cardinality; equal ones are interchangeable
        order = np.argsort(levels, kind="stable")
        Z = np.zeros_like(Z)
        Z[:, order] = orient(np.column_stack([solve_on_support(operator, idx) for idx in state.improved_supports]))
        value = float(Scores.from_loadings(operator, Z).variances.sum())
        certificate = replace(certificate, value=value, upper_bound=max(certificate.upper_bound, value))
    return CertifiedComponent(Z.T.copy(), certificate)
