"""How far from the best possible: a certificate for every component of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, normalize_columns
from gpower.certificates.bounds import bound_with_penalty, eigenvalue_profile, gershgorin_profile, trace_profile
from gpower.certificates.candidates import covering_eigenvalue, largest_full_eigenvalue
from gpower.certificates.cascade import BoundState, add_cheap_bounds, add_row_bound, gather_columns_and_scores
from gpower.certificates.certificate import Certificate, Clock
from gpower.certificates.inputs import check_components, get_loadings, prepare_certificate_operator
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.operators.base import Operator
from gpower.problem.deflation import DEFLATION_RULES
from gpower.validation.params import check_float, check_option, expand_per_component
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.variable_rules import VARIABLE_RULE_NAMES

#: Smoothings and steps of the row bound on the penalised objective.
PENALIZED_SMOOTHINGS, PENALIZED_STEPS = (0.03, 0.01, 0.003, 0.001), 40
#: Above this number of variables the row bound is left out, and below this γ, relative to the best bound, there is
#: nothing to gain by it: the penalty is rounding.
MAX_PENALIZED_VARIABLES, MIN_RELATIVE_GAMMA = 600, 1e-9


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
    tol, max_time = check_float(tol, "tol", 0.0), check_float(max_time, "max_time", 0.0)
    held = UnwrappedModel.unwrap(model)
    model, X = held.model, held.apply_earlier_steps(X)
    loadings, asked = get_loadings(model), certificate_args(model)
    operator = prepare_certificate_operator(
        X, **infer_preprocessing_args(model, covariance), sample_weight=sample_weight
    )
    Z = check_components(loadings, operator.shape[1])
    asked["deflation"] = check_option(
        asked["deflation"] if deflation is None else deflation, "deflation", tuple(DEFLATION_RULES)
    )
    return certify_components(operator, Z, **asked, tol=tol, max_time=max_time)


def params_or_none(model: object, *names: str) -> list[Any]:
    """Parameters or attributes of a model, None for what it has not; of loadings alone all are."""
    return [getattr(model, name, None) for name in names]


def certificate_args(model: object) -> dict[str, Any]:
    """What `certify_components` needs to know of a model besides its loadings."""
    variance, deflation, cardinality, l1_bound = params_or_none(
        model, "variance", "deflation", "cardinality", "l1_bound"
    )
    if variance == "l1":
        raise ValueError(
            'The model was fitted with variance="l1", which maximises ‖Az‖₁; the bounds are on ‖Az‖₂². '
            "Pass model.components_ to certify that variance instead."
        )
    penalty, method, gamma = params_or_none(model, "penalty", "method", "gamma_")
    constraint, order = params_or_none(model, "constraint", "extraction_order_")
    if method == "block" or constraint is not None:  # found at once
        order = None
    restricted = any(each is not None for each in params_or_none(model, "budget", *VARIABLE_RULE_NAMES))
    if penalty != "l0" or method != "deflation" or cardinality is not None or l1_bound is not None or restricted:
        gamma = None
    return {"cardinality": cardinality, "gamma": gamma, "deflation": deflation or "schur", "order": order}


def infer_preprocessing_args(model: object, covariance: str | None) -> dict[str, Any]:
    """How the data of a model were read, and filled; from its means and scales where it does not say."""
    given, center, mean, scale, spread = params_or_none(model, "covariance", "center", "mean_", "scale", "scale_")
    if covariance is None and given == "precomputed":
        covariance = "precomputed"
    if center is None:
        center = mean is None or np.any(mean)
    if scale is None:
        scale = spread is not None and np.any(np.asarray(spread) != 1)
    how = {"covariance": covariance, "center": bool(center), "scale": bool(scale)}
    missing, found = params_or_none(model, "missing", "components_")
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
    cards, gammas = expand_per_component(cardinality, "cardinality", m), expand_per_component(gamma, "gamma", m)
    units, found = normalize_columns(Z).T, dict[int, Certificate]()
    for j in np.argsort(np.arange(m) if order is None else order[:m]).tolist():
        inner, k = clock.make_child(max_time), max(int(cards[j] or 0), int(np.count_nonzero(units[j])), 1)
        found[j] = _certify_component(BoundState.from_loadings(operator, units[j], k, tol), gammas[j], inner)
        if len(found) < m:
            operator = DEFLATION_RULES[deflation].remove(operator, Z[:, j])
    return [found[j] for j in range(m)]


def _certify_component(state: BoundState, gamma: float | None, clock: Clock) -> Certificate:
    """The certificate of a component of which nothing is proven yet."""
    *_, state = add_cheap_bounds(state, clock)
    state = add_row_bound(state, clock)
    if gamma is None or not np.isfinite(gamma):
        return state.to_certificate(clock.elapsed_seconds)
    objective = state.value - float(gamma) * state.support.size
    bound = max(penalized_bound(state, float(gamma), clock), objective)
    return replace(state.to_certificate(clock.elapsed_seconds), gamma=gamma, objective=objective, objective_bound=bound)


def penalized_bound(state: BoundState, gamma: float, clock: Clock) -> float:
    """An upper bound on the ℓ0-penalised objective max_z zᵀΣz − γ‖z‖₀, the problem of a model fitted with ``gamma``.

    A variable of variance at most γ, which is absolute here, is in no solution (safe elimination: it would add at most
    its variance and cost γ), so only the others are looked at. The least of three bounds: a profile of `bounds` less
    γj, the largest over j; λmax(Σ Yᵢ) of `wide` at ρ = γ; λmax of `rows` with the price held at γ.
    """
    view = state.candidates
    if view.floor > gamma:  # variables that count are not all at hand
        variances = state.variances
        trace = trace_profile(variances[variances > gamma], variances.size)
        return min(bound_with_penalty(trace, gamma), max(largest_full_eigenvalue(state.operator) - gamma, 0.0))
    used = np.flatnonzero(np.diagonal(view.S) > gamma)
    if not used.size:
        return 0.0
    S, n = view.S[np.ix_(used, used)], used.size
    profiles = (trace_profile(np.diagonal(S), n), gershgorin_profile(S, n), eigenvalue_profile(S, n))
    best = bound_with_penalty(np.minimum.reduce(profiles), gamma) - view.shift
    with clock.interruptible():
        found = gather_columns_and_scores(state, gamma)
        if found is not None:
            best = min(best, covering_eigenvalue(*found, gamma))
        if n <= MAX_PENALIZED_VARIABLES and gamma > MIN_RELATIVE_GAMMA * best and not clock.is_expired:
            best = min(best, _penalized_row_bound(S, gamma, best, clock) - view.shift)
    return max(best, 0.0)


def _penalized_row_bound(S: Array, gamma: float, known_bound: float, clock: Clock) -> float:
    """Rows at the price γ, in the scale of the best bound known."""
    n, scale = S.shape[0], known_bound + gamma
    problem = RowProblem(S / scale, n, np.zeros(n, bool), fixed_price=gamma / scale)
    rows = initialize_rows(problem, gamma / scale)
    found = minimize_row_bound(
        problem, rows, target=0.0, clock=clock, smoothings=PENALIZED_SMOOTHINGS, steps=PENALIZED_STEPS
    )
    return found.bound * scale
