"""How far from the best possible: a certificate for every component of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpower._arrays import Array, unit_columns
from gpower.certificates.cascade import Cascade
from gpower.certificates.certificate import Certificate
from gpower.certificates.clock import Clock
from gpower.certificates.door import checked_components, checked_operator, loadings_of
from gpower.certificates.penalty import penalized_bound
from gpower.deflation import RULES, deflate
from gpower.operators.base import Operator
from gpower.parameters import number, one_of, per_unit


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
    as the model removed them. That each is the best of its kind does not make them the best together.

    Parameters
    ----------
    model : fitted model or array-like of shape (n_components, n_features)
        `GPower`, anything else with ``components_``, or the loadings alone.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data that the model was fitted on, or the covariance.
    covariance : {None, "precomputed"}
        Whether X is a covariance. A model that was fitted on one knows.
    tol : float, default=1e-4
        Gap that is good enough: stronger and slower bounds are tried until it is reached.
    max_time : float, default=10.0
        Seconds for each component. The cheapest bounds are computed in any case.
    deflation : {None, "projection", "orthogonalized", "schur"}
        How a component is removed before the next; by default as the model did, else by projection.
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
    loadings, wishes = loadings_of(model), _wishes(model)
    if covariance is None and wishes.get("covariance") == "precomputed":
        covariance = "precomputed"
    operator = checked_operator(
        X, covariance, center=wishes["center"], scale=wishes["scale"], sample_weight=sample_weight
    )
    Z = checked_components(loadings, operator.shape[1])
    rule = one_of(wishes["deflation"] if deflation is None else deflation, "deflation", RULES)
    return certify_components(
        operator,
        Z,
        cardinality=wishes["cardinality"],
        gamma=wishes["gamma"],
        deflation=rule,
        tol=tol,
        max_time=max_time,
    )


def certifiable(model: Any) -> dict[str, Any]:
    """What `certify_components` needs to know of a model besides its loadings."""
    wishes = _wishes(model)
    return {name: wishes[name] for name in ("cardinality", "gamma", "deflation")}


def _wishes(model: Any) -> dict[str, Any]:
    """What a fitted model was asked for; defaults for loadings alone."""
    if getattr(model, "variance", "l2") == "l1":
        raise ValueError(
            'The model was fitted with variance="l1", which maximises ‖Az‖₁; the bounds are on ‖Az‖₂². '
            "Pass model.components_ to certify that variance instead."
        )
    shift, spread = getattr(model, "mean_", None), getattr(model, "scale_", None)
    penalized = (
        getattr(model, "penalty", None) == "l0"
        and getattr(model, "method", None) == "deflation"
        and getattr(model, "cardinality", None) is None
        and getattr(model, "l1_bound", None) is None
    )
    return {
        "covariance": getattr(model, "covariance", None),
        "center": bool(getattr(model, "center", shift is None or np.any(shift))),
        "scale": bool(getattr(model, "scale", spread is not None and np.any(np.asarray(spread) != 1))),
        "deflation": getattr(model, "deflation", "projection"),
        "cardinality": getattr(model, "cardinality", None),
        "gamma": getattr(model, "gamma_", None) if penalized else None,
    }


def certify_components(
    operator: Operator,
    Z: Array,
    *,
    cardinality: Any = None,
    gamma: Any = None,
    deflation: str = "projection",
    tol: float = 1e-4,
    max_time: float = 10.0,
) -> list[Certificate]:
    """Certificates of unit columns Z, (n_features, m), each against the operator deflated by the earlier ones.

    Parameters
    ----------
    cardinality : int or sequence of int, optional
        What each component is compared with: the number of variables asked for. By default as many as it has.
    gamma : float or sequence of float, optional
        Absolute γ of the ℓ0 penalty, whose objective is then certified too.
    deflation, tol, max_time
        As in `certify`.
    """
    m = Z.shape[1]
    cards, gammas = per_unit(cardinality, "cardinality", m), per_unit(gamma, "gamma", m)
    found: list[Certificate] = []
    clock = Clock(np.inf)
    for j in range(m):
        z = Z[:, j].astype(np.float64)
        inner = clock.part(max_time)
        found.append(certify_component(operator, z, cardinality=cards[j], gamma=gammas[j], tol=tol, clock=inner))
        if j + 1 < m:
            operator = deflate(operator, z, deflation)
    return found


def certify_component(
    operator: Operator,
    z: Array,
    *,
    cardinality: int | None = None,
    gamma: float | None = None,
    tol: float = 1e-4,
    clock: Clock | None = None,
) -> Certificate:
    """The certificate of one component of unit loadings z, (n_features,), against the operator as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0, 1.0]), covariance=True)
    >>> certify_component(operator, np.array([0.0, 1.0, 0.0])).gap
    0.5
    """
    clock = Clock(10.0) if clock is None else clock
    z = unit_columns(z.astype(np.float64)[:, None])[:, 0]
    used = int(np.count_nonzero(z))
    cascade = Cascade(operator, z, max(int(cardinality or 0), used, 1), tol, clock)
    cascade.run_cheap()
    cascade.run_rows()
    objective = bound = None
    if gamma is not None and np.isfinite(gamma):
        objective = cascade.value - float(gamma) * used
        bound = max(penalized_bound(cascade, float(gamma)), objective)
    return Certificate(
        value=cascade.value,
        upper_bound=cascade.upper,
        cardinality=cascade.k,
        tol=tol,
        method=cascade.method,
        bounds=tuple(cascade.bounds),
        seconds=clock.elapsed,
        gamma=None if objective is None else gamma,
        objective=objective,
        objective_bound=bound,
    )
