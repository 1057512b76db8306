"""How far from the best possible: a certificate for every component of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, unit_columns
from gpower.certificates.bounds import eigenvalue_profile, gershgorin_profile, penalized, trace_profile
from gpower.certificates.candidates import covering_eigenvalue, whole_eigenvalue
from gpower.certificates.cascade import Standing, cheap_bounds, columns, row_bound
from gpower.certificates.certificate import Certificate, Clock
from gpower.certificates.inputs import checked_components, checked_operator, loadings_of
from gpower.certificates.row_bound import RowProblem, first_rows, minimize_rows
from gpower.operators.base import Operator
from gpower.problem.deflation import RULES
from gpower.validation.params import number, one_of, per_unit
from gpower.validation.pipelines import Held
from gpower.validation.variable_rules import WORDS

#: Smoothings and steps of the row bound on the penalised objective.
SMOOTHINGS, STEPS = (0.03, 0.01, 0.003, 0.001), 40
#: Above this number of variables the row bound is left out, and below this γ, relative to the best bound, there is
#: nothing to gain by it: the penalty is rounding.
MOST_PENALIZED, NEGLIGIBLE = 600, 1e-9


def certify(
    model: Any,
    X: Any,
    *,
    covariance: str | None = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
    deflation: str | None = None,
    sample_weight: Any = None,
) -> list[Certificate]:
    """An upper bound for each component on what any component of as few variables could reach.

    The first component is certified against the matrix itself, each further one against what its predecessors leave,
    removed by the model's rule: those that were found before it, or, of loadings alone, of a block and of components
    with a constraint, those that stand before it. That each is the best of its kind does not make them the best
    together.

    Parameters
    ----------
    model : fitted model or array-like of shape (n_components, n_features)
        `GPower`, a pipeline that has one, anything else with ``components_``, or the loadings alone.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data that the model was fitted on, or the covariance.
    covariance : {None, "precomputed"}
        Whether X is a covariance. A model that was fitted on one knows.
    tol : float, default=1e-4
        Gap that is good enough: stronger and slower bounds are tried until it is reached.
    max_time : float, default=10.0
        Seconds for each component. The cheapest bounds are computed in any case.
    deflation : {None, "projection", "orthogonalized", "schur"}
        How a component is removed before the next; by default as the model did, else by Schur's rule.
    sample_weight : array-like of shape (n_samples,), optional
        As in the fit.

    Returns
    -------
    list of Certificate
        One per component. After Ctrl-C the remaining ones have cheap bounds only.

    Examples
    --------
    >>> from gpower import GPower, certify
    >>> from gpower.datasets import load_pitprops
    >>> S = load_pitprops().correlation
    >>> model = GPower(n_components=1, cardinality=7, covariance="precomputed").fit(S)
    >>> certificate = certify(model, S)[0]
    >>> round(certificate.value, 4), certificate.optimal
    (3.9962, True)
    """
    tol, max_time = number(tol, "tol", 0.0), number(max_time, "max_time", 0.0)
    held = Held.of(model)
    model, X = held.model, held.seen(X)
    loadings, asked = loadings_of(model), certifiable(model)
    operator = checked_operator(X, **reading_of(model, covariance), sample_weight=sample_weight)
    Z = checked_components(loadings, operator.shape[1])
    asked["deflation"] = one_of(asked["deflation"] if deflation is None else deflation, "deflation", tuple(RULES))
    return certify_components(operator, Z, **asked, tol=tol, max_time=max_time)


def said(model: object, *names: str) -> list[Any]:
    """Parameters or attributes of a model, None for what it has not; of loadings alone all are."""
    return [getattr(model, name, None) for name in names]


def certifiable(model: object) -> dict[str, Any]:
    """What `certify_components` needs to know of a model besides its loadings."""
    variance, deflation, cardinality, l1_bound = said(model, "variance", "deflation", "cardinality", "l1_bound")
    if variance == "l1":
        raise ValueError(
            'The model was fitted with variance="l1", which maximises ‖Az‖₁; the bounds are on ‖Az‖₂². '
            "Pass model.components_ to certify that variance instead."
        )
    penalty, method, gamma = said(model, "penalty", "method", "gamma_")
    constraint, order = said(model, "constraint", "order_found_")
    if method == "block" or constraint is not None:  # found at once
        order = None
    restricted = any(each is not None for each in said(model, "budget", *WORDS))
    if penalty != "l0" or method != "deflation" or cardinality is not None or l1_bound is not None or restricted:
        gamma = None
    return {"cardinality": cardinality, "gamma": gamma, "deflation": deflation or "schur", "order": order}


def reading_of(model: object, covariance: str | None) -> dict[str, Any]:
    """How the data of a model were read, and filled; from its means and scales where it does not say."""
    given, center, mean, scale, spread = said(model, "covariance", "center", "mean_", "scale", "scale_")
    if covariance is None and given == "precomputed":
        covariance = "precomputed"
    if center is None:
        center = mean is None or np.any(mean)
    if scale is None:
        scale = spread is not None and np.any(np.asarray(spread) != 1)
    how = {"covariance": covariance, "center": bool(center), "scale": bool(scale)}
    missing, found = said(model, "missing", "components_")
    return how | ({"missing": missing, "n_components": len(found)} if missing == "impute" else {})


def certify_components(
    operator: Operator,
    Z: Array,
    *,
    cardinality: Any = None,
    gamma: Any = None,
    deflation: str = "schur",
    order: Any = None,
    tol: float = 1e-4,
    max_time: float = 10.0,
) -> list[Certificate]:
    """Certificates of the columns of Z, each against the operator deflated by the earlier ones.

    Parameters
    ----------
    operator : Operator
        The matrix, as `gpower.operators.as_operator` gives it.
    Z : ndarray of shape (n_features, m)
        Loadings, a component per column: `components_.T` of a model.
    cardinality : int or sequence of int, optional
        What each component is compared with: the number of variables asked for. By default as many as it has.
    gamma : float or sequence of float, optional
        Absolute γ of the ℓ0 penalty, whose objective is then certified too.
    order : sequence of int, optional
        The place of each component in the order in which they are removed, by default as they stand.
    deflation : {"projection", "orthogonalized", "schur"}, default="schur"
        How a component is removed before the next.
    tol, max_time
        As in `certify`.

    Returns
    -------
    list of Certificate
        One per column of Z.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.certificates import certify_components
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0, 1.0]), covariance=True)
    >>> certify_components(operator, np.array([[0.0], [1.0], [0.0]]))[0].gap
    0.5
    """
    m, clock = Z.shape[1], Clock(np.inf)
    cards, gammas = per_unit(cardinality, "cardinality", m), per_unit(gamma, "gamma", m)
    units, found = unit_columns(Z).T, dict[int, Certificate]()
    for j in np.argsort(np.arange(m) if order is None else order[:m]).tolist():
        inner, k = clock.part(max_time), max(int(cards[j] or 0), int(np.count_nonzero(units[j])), 1)
        found[j] = _certified(Standing.of(operator, units[j], k, tol), gammas[j], inner)
        if len(found) < m:
            operator = RULES[deflation].remove(operator, Z[:, j])
    return [found[j] for j in range(m)]


def _certified(standing: Standing, gamma: float | None, clock: Clock) -> Certificate:
    """The certificate of a component of which nothing is proven yet."""
    *_, standing = cheap_bounds(standing, clock)
    standing = row_bound(standing, clock)
    if gamma is None or not np.isfinite(gamma):
        return standing.certificate(clock.elapsed)
    objective = standing.value - float(gamma) * standing.support.size
    bound = max(penalized_bound(standing, float(gamma), clock), objective)
    return replace(standing.certificate(clock.elapsed), gamma=gamma, objective=objective, objective_bound=bound)


def penalized_bound(standing: Standing, gamma: float, clock: Clock) -> float:
    """An upper bound on the ℓ0-penalised objective max_z zᵀΣz − γ‖z‖₀, the problem of a model fitted with ``gamma``.

    A variable of variance at most γ, which is absolute here, is in no solution (safe elimination: it would add at most
    its variance and cost γ), so only the others are looked at. The least of three bounds: a profile of `bounds` less
    γj, the largest over j; λmax(Σ Yᵢ) of `wide` at ρ = γ; λmax of `rows` with the price held at γ.
    """
    view = standing.view
    if view.floor > gamma:  # variables that count are not all at hand
        variances = standing.variances
        trace = trace_profile(variances[variances > gamma], variances.size)
        return min(penalized(trace, gamma), max(whole_eigenvalue(standing.operator) - gamma, 0.0))
    used = np.flatnonzero(np.diagonal(view.S) > gamma)
    if not used.size:
        return 0.0
    S, n = view.S[np.ix_(used, used)], used.size
    profiles = (trace_profile(np.diagonal(S), n), gershgorin_profile(S, n), eigenvalue_profile(S, n))
    best = penalized(np.minimum.reduce(profiles), gamma) - view.shift
    with clock.interruptible():
        found = columns(standing, gamma)
        if found is not None:
            best = min(best, covering_eigenvalue(*found, gamma))
        if n <= MOST_PENALIZED and gamma > NEGLIGIBLE * best and not clock.expired:
            best = min(best, _row_bound(S, gamma, best, clock) - view.shift)
    return max(best, 0.0)


def _row_bound(S: Array, gamma: float, best: float, clock: Clock) -> float:
    """Rows at the price γ, in the scale of the best bound known."""
    n, scale = S.shape[0], best + gamma
    problem = RowProblem(S / scale, n, np.zeros(n, bool), price=gamma / scale)
    rows = first_rows(problem, gamma / scale)
    found = minimize_rows(problem, rows, target=0.0, clock=clock, smoothings=SMOOTHINGS, steps=STEPS)
    return found.bound * scale
