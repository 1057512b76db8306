"""All components at once: an upper bound on the sum of their variances under a constraint, and disjoint ones searched.

Let z₁, …, z_m be unit vectors with at most k₁, …, k_m non-zeros, and U_k a bound on one component of k variables.

*Singles*, whatever the constraint: Σ zⱼᵀΣzⱼ ≤ Σ U_kⱼ. Without a constraint that is all there is to say: the best set is
the best component m times.

*Eigenvalues*, for every constraint: Σ zⱼᵀΣzⱼ ≤ λ₁ + … + λ_m of Σ. For orthonormal z this is Ky Fan's theorem, and
disjoint ones are orthonormal. For uncorrelated ones with variances vⱼ > 0, the uⱼ = Σ^{1/2}zⱼ/√vⱼ are orthonormal,
and uⱼᵀΣuⱼ = zⱼᵀΣ²zⱼ/vⱼ ≥ (zⱼᵀΣzⱼ)²/vⱼ = vⱼ by Cauchy–Schwarz, so Σ vⱼ ≤ Σ uⱼᵀΣuⱼ ≤ λ₁ + … + λ_m. Any s of the
components may be bounded so and the others as singles: the least over s counts.

*Trace*, for disjoint ones: λmax(Σ_II) ≤ tr Σ_II, and no variable counts twice.

*Rows*, for orthogonal and disjoint ones: (K) of `rows`.

*Listing*, for disjoint ones of few variables: `packing` looks at all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, orient
from gpower.certificates import candidates
from gpower.certificates.api import certificate_args, infer_preprocessing_args, params_or_none
from gpower.certificates.bounds import EPS, eigenvalue_rounding_error, trace_profile
from gpower.certificates.cascade import add_cheap_bounds, add_row_bound, solve_on_support, start_from_heuristic
from gpower.certificates.certificate import Bound, Certificate, Clock, relative_gap
from gpower.certificates.disjoint import DisjointSearch, can_list_supports
from gpower.certificates.inputs import check_components, get_loadings, prepare_certificate_operator
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.solvers.joint.constraints import CONSTRAINTS
from gpower.solvers.multi_component import solve_all_components
from gpower.solvers.specification import ExactCardinality, FitSpec
from gpower.validation.params import check_float, check_int, check_option, expand_per_component

#: Share of the time for the bounds on single components.
SINGLES_TIME_SHARE = 0.4
#: Variables up to which rows are minimised over, their smoothings and steps.
MAX_ROW_BOUND_VARIABLES, JOINT_SMOOTHINGS, JOINT_STEPS = 300, (0.03, 0.01, 0.003, 0.001), 60
#: Loadings that violate a constraint by more than this do not keep it.
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
) -> Certificate:
    """An upper bound on the sum of variances of all components together, over all sets that keep the constraint.

    Parameters
    ----------
    model : fitted model or array-like of shape (n_components, n_features)
        `GPower`, anything else with ``components_``, or the loadings alone.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data that the model was fitted on, or the covariance.
    covariance : {None, "precomputed"}
        Whether X is a covariance. A model that was fitted on one knows.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        What the components owe each other; by default what the model says. Without one the best set repeats the best
        component, and the bound is the sum of those on single components.
    tol : float, default=1e-4
        Gap that is good enough.
    max_time : float, default=10.0
        Seconds in all, give or take one step. The cheapest bounds are computed in any case.
    sample_weight : array-like of shape (n_samples,), optional
        As in the fit.

    Returns
    -------
    Certificate
        `value` is Σ zᵀΣz over the components, `cardinality` the number of variables that all of them may have.

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
    tol, max_time = check_float(tol, "tol", 0.0), check_float(max_time, "max_time", 0.0)
    components, cardinality = get_loadings(model), certificate_args(model)["cardinality"]
    word = check_option(
        params_or_none(model, "constraint")[0] if constraint is None else constraint, "constraint", (None, *CONSTRAINTS)
    )
    operator = prepare_certificate_operator(
        X, **infer_preprocessing_args(model, covariance), sample_weight=sample_weight
    )
    Z = check_components(components, operator.shape[1])
    return certify_joint_variance(operator, Z, cardinality=cardinality, constraint=word, tol=tol, max_time=max_time)


def certify_joint_variance(
    operator: Operator,
    Z: Array,
    *,
    cardinality: Any = None,
    constraint: str | None = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
) -> Certificate:
    """The certificate of unit columns Z, (n_features, m), as one set; see `certify_total`."""
    gram, cards = Scores.from_loadings(operator, Z).gram, expand_per_component(cardinality, "cardinality", Z.shape[1])
    levels = [max(int(k or 0), int(np.count_nonzero(z)), 1) for k, z in zip(cards, Z.T, strict=True)]
    _check_constraint_kept(operator, Z, gram, constraint)
    return JointBoundState(
        operator, levels, constraint, tol, float(np.trace(gram)), Clock(max_time)
    ).compute_certificate()


def _check_constraint_kept(operator: Operator, Z: Array, gram: Array, constraint: str | None) -> None:
    """Refuse components that do not keep the constraint: what they reach says nothing of those that do."""
    if constraint is None:
        return
    used = np.flatnonzero(Z.any(axis=1))
    violation = float(CONSTRAINTS[constraint].compute_violation(operator.gram(used), Z[used]))
    if violation > MAX_CONSTRAINT_VIOLATION:
        raise ValueError(
            f"The components are not {constraint}: they violate it by {violation:.3g}, summed over pairs. Fit with "
            f"constraint={constraint!r}, or leave constraint None."
        )


class JointBoundState:
    """What is known of a set of components; bounds are added from cheap to strong until the gap is small enough."""

    def __init__(
        self,
        operator: Operator,
        cardinalities: Sequence[int],
        constraint: str | None,
        tol: float,
        value: float,
        clock: Clock,
    ) -> None:
        self.operator, self.cardinalities, self.constraint, self.tol = operator, sorted(cardinalities), constraint, tol
        self.value, self.clock, self.bounds, self.n_nodes = value, clock, [Bound("none", np.inf)], 0
        self.single_bounds: dict[int, float] = {}  # bounds on one component of k variables
        self.improved_supports: list[Array] = []  # of a better set, where the search has found one

    @property
    def upper_bound(self) -> float:
        """What is proven; a bound below what was found is so by rounding."""
        return max(min(bound.value for bound in self.bounds), self.value)

    def compute_certificate(self) -> Certificate:
        """The bounds that apply, the least of them on top."""
        steps = [self.singles]
        if self.constraint == "disjoint":
            steps = [self.trace, self.listing, self.singles]
        if self.constraint is not None:
            steps.append(self.eigenvalues)
        if self.constraint in ("orthogonal", "disjoint"):
            steps.append(self.rows)
        for step in steps:
            begin = time.perf_counter()
            value = np.inf
            if relative_gap(self.value, self.upper_bound) > self.tol:
                with self.clock.interruptible():
                    value = step()
            if np.isfinite(value):
                self.bounds.append(Bound(step.__name__, value, time.perf_counter() - begin))
        best = min(self.bounds, key=lambda bound: bound.value)
        return Certificate(
            self.value,
            self.upper_bound,
            sum(self.cardinalities),
            self.tol,
            best.method,
            tuple(self.bounds[1:]),
            self.clock.elapsed_seconds,
            self.n_nodes,
        )

    def singles(self) -> float:
        """The sum of bounds on components of their own."""
        sizes = sorted(set(self.cardinalities))
        for k in sizes:
            clock = self.clock.make_child(SINGLES_TIME_SHARE * self.clock.max_seconds / len(sizes))
            *_, standing = add_cheap_bounds(start_from_heuristic(self.operator, k, self.tol, clock), clock)
            self.single_bounds[k] = add_row_bound(standing, clock).upper_bound
        return sum(self.single_bounds[k] for k in self.cardinalities)

    def eigenvalues(self) -> float:
        """Some components by the largest eigenvalues, the others as singles."""
        m, w = len(self.cardinalities), candidates.compute_full_spectrum(self.operator)
        if w is None:
            return np.inf
        largest = np.cumsum(np.append(0.0, w[::-1][:m])) + np.arange(min(m, w.size) + 1) * eigenvalue_rounding_error(w)
        largest = np.append(largest, np.full(m + 1 - largest.size, largest[-1]))
        singles = np.cumsum([0.0, *sorted(self.single_bounds.get(k, np.inf) for k in self.cardinalities)])
        return float(np.min(largest + singles[::-1]))

    def trace(self) -> float:
        """The sum of as many largest variances as there are variables in all components."""
        norms = self.operator.column_norms**2 * (1 + 64 * self.operator.shape[0] * EPS)
        return float(trace_profile(norms, sum(self.cardinalities))[-1])

    def rows(self) -> float:
        """(K), minimised while there is time."""
        n, m, k = self.operator.shape[1], len(self.cardinalities), max(self.cardinalities)
        view = candidates.select_candidates(self.operator, np.arange(0))
        if n > MAX_ROW_BOUND_VARIABLES or view.floor > 0 or not self.value > 0:
            return np.inf
        scale = self.value / m
        problem = RowProblem(
            view.S / scale,
            min(k, n),
            np.zeros(n, bool),
            n_components=min(m, n),
            total_cardinality=sum(self.cardinalities),
        )
        found = minimize_row_bound(
            problem,
            initialize_rows(problem, 0.0),
            target=float(m),
            clock=self.clock,
            smoothings=JOINT_SMOOTHINGS,
            steps=JOINT_STEPS,
        )
        return found.bound * scale - m * view.shift

    def listing(self) -> float:
        """All disjoint supports, where they are few."""
        n = self.operator.shape[1]
        if not can_list_supports(n, self.cardinalities):
            return np.inf
        view = candidates.select_candidates(self.operator, np.arange(0))
        packing = DisjointSearch(self.cardinalities, self.value + len(self.cardinalities) * view.shift)
        packing.run(view.S, self.clock)
        self.n_nodes, self.improved_supports = packing.n_nodes, packing.decode_supports()
        return packing.upper_bound - len(self.cardinalities) * view.shift


def best_disjoint(operator: Operator, cardinality: Any, tol: float, max_time: float) -> tuple[Array, Certificate]:
    """The best components without a common variable, (m, n_features), and what is proven of them; see `best_subset`."""
    given = cardinality if isinstance(cardinality, Sequence | np.ndarray) else [cardinality]
    levels, n = [check_int(k, "cardinality", 1) for k in given], operator.shape[1]
    if sum(levels) > n:
        raise ValueError(
            f"cardinality={cardinality!r}: disjoint components of so many variables need {sum(levels)}, and there are "
            f"n_features={n}; ask for fewer."
        )
    m = len(levels)
    recipe = FitSpec(ExactCardinality(levels=tuple(levels)), (1.0,) * m, constraint=CONSTRAINTS["disjoint"])
    Z = solve_all_components(operator, recipe, np.random.RandomState(0)).Z
    total = JointBoundState(
        operator, levels, "disjoint", tol, float(Scores.from_loadings(operator, Z).variances.sum()), Clock(max_time)
    )
    found = total.compute_certificate()
    if total.improved_supports:  # by size; equal sizes may be in any order
        order = np.argsort(levels, kind="stable")
        Z = np.zeros_like(Z)
        Z[:, order] = orient(
            np.column_stack([solve_on_support(operator, support) for support in total.improved_supports])
        )
        total.value = float(Scores.from_loadings(operator, Z).variances.sum())
        found = replace(found, value=total.value, upper_bound=max(found.upper_bound, total.value))
    return Z.T.copy(), found
