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
from gpower.certificates.api import certifiable, reading_of, said
from gpower.certificates.bounds import EPS, rounding, trace_profile
from gpower.certificates.cascade import best_known, cheap_bounds, loadings, row_bound
from gpower.certificates.certificate import Bound, Certificate, Clock, relative_gap
from gpower.certificates.disjoint import Packing, is_small
from gpower.certificates.inputs import checked_components, checked_operator, loadings_of
from gpower.certificates.row_bound import RowProblem, first_rows, minimize_rows
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.solvers.joint.constraints import CONSTRAINTS
from gpower.solvers.multi_component import extract_components
from gpower.solvers.specification import Exact, Recipe
from gpower.validation.params import number, one_of, per_unit, whole

#: Share of the time for the bounds on single components.
SINGLES_SHARE = 0.4
#: Variables up to which rows are minimised over, their smoothings and steps.
MOST_ROWS, SMOOTHINGS, STEPS = 300, (0.03, 0.01, 0.003, 0.001), 60
#: Loadings that violate a constraint by more than this do not keep it.
KEPT = 1e-6


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
    tol, max_time = number(tol, "tol", 0.0), number(max_time, "max_time", 0.0)
    components, cardinality = loadings_of(model), certifiable(model)["cardinality"]
    word = one_of(
        said(model, "constraint")[0] if constraint is None else constraint, "constraint", (None, *CONSTRAINTS)
    )
    operator = checked_operator(X, **reading_of(model, covariance), sample_weight=sample_weight)
    Z = checked_components(components, operator.shape[1])
    return certify_together(operator, Z, cardinality=cardinality, constraint=word, tol=tol, max_time=max_time)


def certify_together(
    operator: Operator,
    Z: Array,
    *,
    cardinality: Any = None,
    constraint: str | None = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
) -> Certificate:
    """The certificate of unit columns Z, (n_features, m), as one set; see `certify_total`."""
    gram, cards = Scores.of(operator, Z).gram, per_unit(cardinality, "cardinality", Z.shape[1])
    levels = [max(int(k or 0), int(np.count_nonzero(z)), 1) for k, z in zip(cards, Z.T, strict=True)]
    _check_kept(operator, Z, gram, constraint)
    return Total(operator, levels, constraint, tol, float(np.trace(gram)), Clock(max_time)).certificate()


def _check_kept(operator: Operator, Z: Array, gram: Array, word: str | None) -> None:
    """Refuse components that do not keep the constraint: what they reach says nothing of those that do."""
    if word is None:
        return
    used = np.flatnonzero(Z.any(axis=1))
    violation = float(CONSTRAINTS[word].violation(operator.gram(used), Z[used]))
    if violation > KEPT:
        raise ValueError(
            f"The components are not {word}: they violate it by {violation:.3g}, summed over pairs. Fit with "
            f"constraint={word!r}, or leave constraint None."
        )


class Total:
    """What is known of a set of components; bounds are added from cheap to strong until the gap is small enough."""

    def __init__(
        self, operator: Operator, levels: Sequence[int], word: str | None, tol: float, value: float, clock: Clock
    ) -> None:
        self.operator, self.levels, self.word, self.tol = operator, sorted(levels), word, tol
        self.value, self.clock, self.bounds, self.nodes = value, clock, [Bound("none", np.inf)], 0
        self.single: dict[int, float] = {}  # bounds on one component of k variables
        self.supports: list[Array] = []  # of a better set, where the search has found one

    @property
    def upper(self) -> float:
        """What is proven; a bound below what was found is so by rounding."""
        return max(min(bound.value for bound in self.bounds), self.value)

    def certificate(self) -> Certificate:
        """The bounds that apply, the least of them on top."""
        steps = [self.singles]
        if self.word == "disjoint":
            steps = [self.trace, self.listing, self.singles]
        if self.word is not None:
            steps.append(self.eigenvalues)
        if self.word in ("orthogonal", "disjoint"):
            steps.append(self.rows)
        for step in steps:
            begin = time.perf_counter()
            value = np.inf
            if relative_gap(self.value, self.upper) > self.tol:
                with self.clock.interruptible():
                    value = step()
            if np.isfinite(value):
                self.bounds.append(Bound(step.__name__, value, time.perf_counter() - begin))
        best = min(self.bounds, key=lambda bound: bound.value)
        return Certificate(
            self.value,
            self.upper,
            sum(self.levels),
            self.tol,
            best.method,
            tuple(self.bounds[1:]),
            self.clock.elapsed,
            self.nodes,
        )

    def singles(self) -> float:
        """The sum of bounds on components of their own."""
        sizes = sorted(set(self.levels))
        for k in sizes:
            clock = self.clock.part(SINGLES_SHARE * self.clock.limit / len(sizes))
            *_, standing = cheap_bounds(best_known(self.operator, k, self.tol, clock), clock)
            self.single[k] = row_bound(standing, clock).upper
        return sum(self.single[k] for k in self.levels)

    def eigenvalues(self) -> float:
        """Some components by the largest eigenvalues, the others as singles."""
        m, w = len(self.levels), candidates.whole_spectrum(self.operator)
        if w is None:
            return np.inf
        largest = np.cumsum(np.append(0.0, w[::-1][:m])) + np.arange(min(m, w.size) + 1) * rounding(w)
        largest = np.append(largest, np.full(m + 1 - largest.size, largest[-1]))
        singles = np.cumsum([0.0, *sorted(self.single.get(k, np.inf) for k in self.levels)])
        return float(np.min(largest + singles[::-1]))

    def trace(self) -> float:
        """The sum of as many largest variances as there are variables in all components."""
        norms = self.operator.column_norms**2 * (1 + 64 * self.operator.shape[0] * EPS)
        return float(trace_profile(norms, sum(self.levels))[-1])

    def rows(self) -> float:
        """(K), minimised while there is time."""
        n, m, k = self.operator.shape[1], len(self.levels), max(self.levels)
        view = candidates.candidates(self.operator, np.arange(0))
        if n > MOST_ROWS or view.floor > 0 or not self.value > 0:
            return np.inf
        scale = self.value / m
        problem = RowProblem(view.S / scale, min(k, n), np.zeros(n, bool), units=min(m, n), charged=sum(self.levels))
        found = minimize_rows(
            problem, first_rows(problem, 0.0), target=float(m), clock=self.clock, smoothings=SMOOTHINGS, steps=STEPS
        )
        return found.bound * scale - m * view.shift

    def listing(self) -> float:
        """All disjoint supports, where they are few."""
        n = self.operator.shape[1]
        if not is_small(n, self.levels):
            return np.inf
        view = candidates.candidates(self.operator, np.arange(0))
        packing = Packing(self.levels, self.value + len(self.levels) * view.shift)
        packing.run(view.S, self.clock)
        self.nodes, self.supports = packing.nodes, packing.supports()
        return packing.proven - len(self.levels) * view.shift


def best_disjoint(operator: Operator, cardinality: Any, tol: float, max_time: float) -> tuple[Array, Certificate]:
    """The best components without a common variable, (m, n_features), and what is proven of them; see `best_subset`."""
    given = cardinality if isinstance(cardinality, Sequence | np.ndarray) else [cardinality]
    levels, n = [whole(k, "cardinality", 1) for k in given], operator.shape[1]
    if sum(levels) > n:
        raise ValueError(
            f"cardinality={cardinality!r}: disjoint components of so many variables need {sum(levels)}, and there are "
            f"n_features={n}; ask for fewer."
        )
    m = len(levels)
    recipe = Recipe(Exact(levels=tuple(levels)), (1.0,) * m, constraint=CONSTRAINTS["disjoint"])
    Z = extract_components(operator, recipe, np.random.RandomState(0)).Z
    total = Total(operator, levels, "disjoint", tol, float(Scores.of(operator, Z).variances.sum()), Clock(max_time))
    found = total.certificate()
    if total.supports:  # by size; equal sizes may be in any order
        order = np.argsort(levels, kind="stable")
        Z = np.zeros_like(Z)
        Z[:, order] = orient(np.column_stack([loadings(operator, support) for support in total.supports]))
        total.value = float(Scores.of(operator, Z).variances.sum())
        found = replace(found, value=total.value, upper_bound=max(found.upper_bound, total.value))
    return Z.T.copy(), found
