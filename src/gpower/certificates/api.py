"""Certificates for the components of a model: how far each is from the best possible.

Terms: all arrays are NumPy arrays on the host, in float64. An `Operator` is a matrix A through products, in float64 in
host memory, with Σ = AᵀA; ``column_norms``, (n,), are the roots of the diagonal of Σ. A rule of `DEFLATION_RULES`, by
name, has ``remove(operator, z)``, the operator without the component of unit loadings z, (n,); the operator itself if z
is zero.

A `BoundState` is a component with the bounds computed so far: `operator`; `candidates`, the covariance of the variables
of large variance; `support`, (k',) of int, increasing column numbers; `value`, zᵀΣz; and `variances`, (n,), those of
all variables plus the shift. ``from_loadings(operator, z, k, tol)`` makes one without bounds;
``to_certificate(seconds)`` is its certificate. ``add_cheap_bounds(state, clock)`` adds bounds, one at least, and
``add_row_bound(state, clock)`` the row bound, if that may help. ``compute_sample_space(state)`` returns A, (p, m), with
AᵀA = Σ over the candidates, maybe plus the shift, and the scores of the component, (p,), a unit vector; or None.

The candidates have `S`, (m, m), Σ over them plus shift·I; `shift`, at least zero; and `floor`, the largest variance of
the other variables plus the shift, zero if there are none. ``trace_profile(variances, n)`` and ``gershgorin_profile(S,
n)`` are bounds U_0, …, U_n on the largest eigenvalue of every S_II with j variables, and ``bound_with_penalty(U,
gamma)`` is max_j U_j − γj. ``largest_eigenvalue(S)`` is λmax with its rounding; ``largest_full_eigenvalue(operator)``
is λmax(Σ) with it, or infinity for a large matrix; ``covering_eigenvalue(columns, scores, rho)`` is λmax(Σ Yᵢ), or
infinity. A `RowProblem` is the row bound, ``initialize_rows(problem)`` its start, and ``minimize_row_bound(…).bound``
its value, all in the units of the scaled S.

A `Clock` limits the time: ``is_expired`` says whether to stop,
``interruptible()`` is a context in which Ctrl-C ends the block and expires the clock, ``make_child(seconds)`` is a
clock that expires then, or with this one, and `elapsed_seconds` counts from its creation.

``read_certificate_input(model, X, …)`` checks the arguments of `certify`: its result has `operator`; `Z`, (n, m), unit
or zero columns; and `args`, a dictionary of the arguments `cardinality`, `gamma`, `deflation` and `order` of
`certify_components`. ``check_float(value, name, minimum)`` and ``check_option(value, name, options)`` return the value
or raise ValueError; ``expand_per_component(value, name, m)`` is a list of m values, from one or a list.
``normalize_columns(Z)`` has columns of unit length, zero ones unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, normalize_columns
from gpower.certificates.arguments import read_certificate_input
from gpower.certificates.bounds import bound_with_penalty, gershgorin_profile, largest_eigenvalue, trace_profile
from gpower.certificates.cascade import BoundState, add_cheap_bounds, add_row_bound, compute_sample_space
from gpower.certificates.certificate import Certificate, Clock
from gpower.certificates.row_bound import RowProblem, initialize_rows, minimize_row_bound
from gpower.certificates.wide_data_bounds import covering_eigenvalue, largest_full_eigenvalue
from gpower.operators.base import Operator
from gpower.problem.deflation import DEFLATION_RULES
from gpower.validation.params import check_float, check_option, expand_per_component

#: The row bound on the penalised objective is skipped above this number of variables, and if γ is below this share of
#: the best bound, where the penalty is rounding.
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
    covariates: Any = None,
    batch: Any = None,
) -> list[Certificate]:
    """Bound, for each component, the variance of every component with as few variables.

    The first component is compared with components of the matrix itself. Each further one is compared with components
    of the matrix from which its predecessors were removed by the deflation rule of the model. The predecessors are the
    components found before it. For loadings alone, a block, and components with a constraint, they are the rows above
    it. Components that are each the best of their step need not be the best set; see `certify_total`.

    Parameters
    ----------
    model : fitted model or array-like of shape (n_components, n_features)
        `GPower`, a pipeline with one, any other model with ``components_``, or the loadings alone.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data that the model was fitted on, or the covariance.
    covariance : {None, "precomputed"}
        "precomputed" if X is a covariance; by default as the model was fitted.
    tol : float, default=1e-4
        Relative gap at which to stop; stronger and slower bounds are computed until it is reached.
    max_time : float, default=10.0
        Time limit in seconds for each component. The cheapest bounds are computed in any case.
    deflation : {None, "projection", "orthogonalized", "schur"}
        How a component is removed before the next; by default as in the model, and "schur" for loadings alone.
    sample_weight : array-like of shape (n_samples,), optional
        Sample weights of the fit.
    covariates, batch : optional
        Covariates and batch labels of the fit; the bounds are then on the variance that they do not predict.

    Returns
    -------
    list of Certificate
        One per component. After Ctrl-C the remaining components have cheap bounds only.

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
    tol = check_float(tol, "tol", 0.0)
    max_time = check_float(max_time, "max_time", 0.0)
    checked = read_certificate_input(model, X, covariance, sample_weight, covariates, batch)
    args = checked.args
    deflation = args["deflation"] if deflation is None else deflation
    args["deflation"] = check_option(deflation, "deflation", tuple(DEFLATION_RULES))
    return certify_components(checked.operator, checked.Z, **args, tol=tol, max_time=max_time)


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
    """Bound, for each column of Z, the variance of every component of the operator deflated by the earlier ones.

    Parameters
    ----------
    operator : Operator
        The matrix, as returned by `gpower.operators.as_operator`, in float64 in host memory; not deflated.
    Z : ndarray of shape (n_features, m)
        Loadings in float64 on the host, one component per column: `components_.T` of a model. Columns are normalised;
        zero ones stay zero.
    cardinality : int or sequence of int, optional
        Number of variables of the components that each column is compared with; by default, and if a column has more
        non-zeros, as many as it has.
    gamma : float or sequence of float, optional
        Absolute γ of the ℓ0 penalty, whose objective is then certified too.
    deflation : {"projection", "orthogonalized", "schur"}, default="schur"
        How a component is removed before the next.
    order : sequence of int, optional
        Index of each component in the order of removal, from 0, all different; by default the order of the columns.
    tol : float, default=1e-4
        Relative gap at which to stop.
    max_time : float, default=10.0
        Time limit in seconds for each component. The cheapest bounds are computed in any case.

    Returns
    -------
    list of Certificate
        One per column of Z, in the order of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.certificates import certify_components
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0, 1.0]), covariance=True)
    >>> certify_components(operator, np.array([[0.0], [1.0], [0.0]]))[0].gap
    0.5
    """
    m = Z.shape[1]
    clock = Clock(np.inf)
    cardinalities = expand_per_component(cardinality, "cardinality", m)
    gammas = expand_per_component(gamma, "gamma", m)
    unit_loadings = normalize_columns(Z).T  # (m, n_features)
    certificates: dict[int, Certificate] = {}
    for j in np.argsort(np.arange(m) if order is None else order[:m]).tolist():
        z = unit_loadings[j]
        k = max(int(cardinalities[j] or 0), int(np.count_nonzero(z)), 1)
        state = BoundState.from_loadings(operator, z, k, tol)
        certificates[j] = _certify_component(state, gammas[j], clock.make_child(max_time))
        if len(certificates) < m:
            operator = DEFLATION_RULES[deflation].remove(operator, unit_loadings[j])  # zero loadings change nothing
    return [certificates[j] for j in range(m)]


def _certify_component(state: BoundState, gamma: float | None, clock: Clock) -> Certificate:
    """Compute the certificate of a component from a state without bounds.

    `gamma`, at least zero, is the absolute γ of the ℓ0 penalty in the units of zᵀΣz; None and NaN stand for a component
    without one. The clock is that of this component; Ctrl-C expires it and those that share its event.
    """
    add_cheap_bounds(state, clock)
    add_row_bound(state, clock)
    if gamma is None or not np.isfinite(gamma):
        return state.to_certificate(clock.elapsed_seconds)
    objective = state.value - float(gamma) * state.support.size
    bound = max(penalized_bound(state, float(gamma), clock), objective)
    return replace(state.to_certificate(clock.elapsed_seconds), gamma=gamma, objective=objective, objective_bound=bound)


def penalized_bound(state: BoundState, gamma: float, clock: Clock) -> float:
    """Return an upper bound on max zᵀΣz − γ‖z‖₀ over unit vectors z, the ℓ0-penalised objective.

    A variable of variance at most γ is in no solution: it would add at most its variance and cost γ. Over the other
    variables the bound is the least of three (docs/certificates.md, 3.7): max_j U_j − γj, where U_j is the least of
    trace, Gershgorin and λmax; λmax(Σ Yᵢ) of the sample space at ρ = γ; and λmax(Σ + R + Rᵀ +
    diag(ρ²/γ)) of `row_bound` with ρᵢ = ‖rᵢ‖. If the candidates are not all variables above γ, it is the smaller of
    max_j U_j − γj for the trace and λmax(Σ) − γ.

    `gamma` is an absolute γ ≥ 0 in the units of zᵀΣz, as is the result, which is at least zero and may contain the
    shift of the candidates. The row bound is skipped above MAX_PENALIZED_VARIABLES variables, for γ below
    MIN_RELATIVE_GAMMA of the bound, and if the clock has expired; Ctrl-C ends it and the second bound, and expires the
    clock. The first bound is computed in any case.
    """
    view = state.candidates
    if view.floor > gamma:  # variables that can be in a solution are not among the candidates
        variances = state.variances
        trace = trace_profile(variances[variances > gamma], variances.size)
        return min(bound_with_penalty(trace, gamma), max(largest_full_eigenvalue(state.operator) - gamma, 0.0))
    used = np.flatnonzero(np.diagonal(view.S) > gamma)
    if not used.size:
        return 0.0
    S, n = view.S[np.ix_(used, used)], used.size
    profile = np.minimum(trace_profile(np.diagonal(S), n), gershgorin_profile(S, n))
    profile = np.minimum(profile, largest_eigenvalue(S))
    best = bound_with_penalty(profile, gamma) - view.shift
    with clock.interruptible():
        space = compute_sample_space(state)
        if space is not None:
            best = min(best, covering_eigenvalue(*space, gamma))
        if n <= MAX_PENALIZED_VARIABLES and gamma > MIN_RELATIVE_GAMMA * best and not clock.is_expired:
            scale = best + gamma  # an estimate of the largest zᵀΣz, so that entries of S/scale are of order one
            problem = RowProblem(S / scale, k=n, fixed=np.zeros(n, bool), fixed_price=gamma / scale)
            found = minimize_row_bound(problem, initialize_rows(problem), target=0.0, clock=clock)
            best = min(best, found.bound * scale - view.shift)
    return max(best, 0.0)
