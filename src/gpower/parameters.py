"""From the estimator's words to the recipe's objects, with errors that teach."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._arrays import Array
from gpower.deflation import RULES
from gpower.extraction import Recipe
from gpower.formulations import Formulation
from gpower.working_set import Settings

DEFAULT_GAMMA = {"l0": 0.01, "l1": 0.1}


def recipe_from(params: dict[str, Any], shape: tuple[int, int]) -> Recipe:
    """The recipe that `GPower(**params)` asks for on data of a shape (n_samples, n_features)."""
    m = whole(params["n_components"], "n_components", 1)
    if m > shape[1]:
        raise ValueError(
            f"n_components={m} is more than the number of variables, n_features={shape[1]}; ask for at most {shape[1]}."
        )
    one_of(params["method"], "method", ("deflation", "block"))
    one_of(params["variance"], "variance", ("l2", "l1"))
    one_of(params["covariance"], "covariance", (None, "precomputed"))
    one_of(params["refit"], "refit", ("auto", "norms", "variance", None))
    one_of(params["deflation"], "deflation", RULES)
    one_of(params["accumulation"], "accumulation", (None, "float64"))
    for name in ("positive", "center", "scale", "polish", "acceleration", "certify", "resume"):
        one_of(params[name], name, (True, False))
    if params["callback"] is not None and not callable(params["callback"]):
        raise ValueError(f"callback={params['callback']!r}: a function of the state of the ascent is needed, or None.")
    block = params["method"] == "block"
    _check_combinations(params, block, m, shape)
    return Recipe(
        formulation=_formulation(params, m, shape[1]),
        mu=_weights(params["mu"], block, m),
        block=block,
        n_init=None
        if isinstance(params["n_init"], str) and params["n_init"] == "auto"
        else whole(params["n_init"], "n_init", 1),
        init=_init(params["init"], shape[0], m),
        refit=params["refit"],
        polish=bool(params["polish"]),
        deflation=params["deflation"],
        regularization=number(params["regularization"], "regularization", 0.0),
        settings=Settings(
            solver=one_of(params["solver"], "solver", ("auto", "rounds", "direct")),
            tol=number(params["tol"], "tol", 0.0),
            max_iter=whole(params["max_iter"], "max_iter", 1),
            acceleration=bool(params["acceleration"]),
            callback=params["callback"],
        ),
    )


def _check_combinations(params: dict[str, Any], block: bool, m: int, shape: tuple[int, int]) -> None:
    """Options that exclude each other."""
    given = [name for name in ("cardinality", "gamma", "l1_bound") if params[name] is not None]
    if len(given) > 1:
        raise ValueError(
            f"{' and '.join(given)} are set together, but each of them fixes the sparsity; "
            "keep one and leave the others None."
        )
    if params["variance"] == "l1" and params["certify"]:
        raise ValueError('certify=True bounds ‖Az‖₂²; it says nothing of variance="l1".')
    if params["variance"] == "l1" and (block or params["covariance"] is not None):
        other = 'method="block"' if block else 'covariance="precomputed"'
        raise ValueError(
            f'variance="l1" needs the samples and one unit at a time, so it excludes {other}; '
            'use method="deflation" on the data.'
        )
    if block and params["deflation"] != "projection":
        raise ValueError('A block finds all components at once and deflates nothing; leave deflation="projection".')
    if params["covariance"] is not None and params["scale"]:
        raise ValueError(
            "scale=True cannot act on a precomputed covariance, which is taken as it is; "
            "pass the correlation matrix instead."
        )
    if block and params["l1_bound"] is not None:
        raise ValueError('l1_bound works on one unit at a time; use method="deflation", or gamma with method="block".')
    if block and m > shape[0]:
        raise ValueError(
            f"A block of n_components={m} orthonormal units does not fit into n_samples={shape[0]}; "
            f'ask for at most {shape[0]}, or use method="deflation".'
        )
    if not isinstance(params["init"], str | None) and params["covariance"] is not None:
        raise ValueError(
            "init holds points of the sample space, which a precomputed covariance does not have; leave it None."
        )


def _formulation(params: dict[str, Any], m: int, n: int) -> Formulation:
    """Penalty and levels, one per unit."""
    penalty = one_of(params["penalty"], "penalty", ("l0", "l1"))
    common = {"positive": bool(params["positive"]), "l1_variance": params["variance"] == "l1"}
    if params["cardinality"] is not None:
        levels = per_unit(params["cardinality"], "cardinality", m)
        for k in levels:
            if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= int(k) <= n:
                raise ValueError(
                    f"cardinality={params['cardinality']!r}: a component uses between 1 and n_features={n} variables, "
                    "as a whole number; one number for all components, or one each."
                )
        kind, calibrated = ("cardinality", False) if penalty == "l0" else ("l1", True)
        return Formulation(kind, tuple(int(k) for k in levels), calibrated=calibrated, **common)
    if params["l1_bound"] is not None:
        bounds = [number(s, "l1_bound", 1.0) for s in per_unit(params["l1_bound"], "l1_bound", m)]
        return Formulation("l1_ball", tuple(bounds), **common)
    gamma = DEFAULT_GAMMA[penalty] if params["gamma"] is None else params["gamma"]
    levels = per_unit(gamma, "gamma", m)
    for fraction in levels:
        if not isinstance(fraction, Real) or isinstance(fraction, bool) or not 0 <= float(fraction) < 1:
            raise ValueError(
                f"gamma={gamma!r}: gamma is a fraction of its largest useful value and lies in [0, 1); "
                "0 is ordinary PCA, values near 1 leave a single variable. "
                "To set the number of variables, use cardinality."
            )
    return Formulation(penalty, tuple(float(g) for g in levels), **common)


def _weights(mu: Any, block: bool, m: int) -> tuple[float, ...]:
    if mu is None:
        return (1.0,) * m
    if not block:
        raise ValueError(
            'mu weighs the units of a block; it has no meaning with method="deflation". Use method="block".'
        )
    weights = per_unit(mu, "mu", m)
    if not all(isinstance(w, Real) and 1e-6 <= float(w) <= 1e6 for w in weights):
        raise ValueError(f"mu={mu!r}: the weights of the units must be positive numbers, between 1e-6 and 1e6.")
    return tuple(float(w) for w in weights)


def _init(init: Any, p: int, m: int) -> Any:
    if init is None or (isinstance(init, str) and init == "paper"):
        return init
    if isinstance(init, str):
        raise ValueError(f'init={init!r}: use None, "paper", or an array of shape (n_samples, n_components).')
    points = np.asarray(init, float)
    if points.shape != (p, m):
        raise ValueError(f"init has shape {points.shape}, but a start for each component is needed: {(p, m)}.")
    if not np.all(np.isfinite(points)) or not np.all(np.any(points, axis=0)):
        raise ValueError("init has a column that is zero or not finite; every start must be a direction.")
    return points


def per_unit(value: Any, name: str, m: int) -> list[Any]:
    """A number for every unit, from one number or one each."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        values = [v.item() if isinstance(v, np.generic) else v for v in value]
        if len(values) != m:
            raise ValueError(f"{name} has {len(values)} entries, but n_components={m}; give one number, or {m}.")
        return values
    return [value] * m


def one_of(value: Any, name: str, options: tuple[Any, ...]) -> Any:
    """The value, if it is one of the options."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not any(plain is option or (type(plain) is type(option) and plain == option) for option in options):
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name}={reprlib.repr(value)} is not known; use one of {allowed}.")
    return plain


def whole(value: Any, name: str, least: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: a whole number of at least {least} is needed.")
    return int(value)


def number(value: Any, name: str, least: float) -> float:
    """The value, if it is a finite number of at least `least`."""
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(float(value)) or value < least:
        raise ValueError(f"{name}={value!r}: a finite number of at least {least:g} is needed.")
    return float(value)


def check_covariance(S: Array) -> Array:
    """S, symmetrised, if it is a covariance: square, symmetric and positive semidefinite."""
    if S.shape[0] != S.shape[1]:
        raise ValueError(
            f'covariance="precomputed" needs a square matrix of variables × variables, got shape {S.shape}; '
            "for data of samples × variables leave covariance=None."
        )
    largest = float(np.max(np.abs(S), initial=0))
    tolerance = 1e3 * np.finfo(S.dtype).eps * S.shape[0] * largest
    difference = np.abs(S - S.T)
    i, j = np.unravel_index(int(np.argmax(difference)), S.shape)
    if difference[i, j] > max(tolerance, 1e-8 * largest):
        raise ValueError(
            f"The covariance is not symmetric: entry ({i}, {j}) is {S[i, j]:.6g} and ({j}, {i}) is {S[j, i]:.6g}."
        )
    smallest = float(np.linalg.eigvalsh(S)[0]) if S.shape[0] <= 3000 else float(np.min(np.diagonal(S)))
    if smallest < -max(tolerance, 1e-8 * largest):
        raise ValueError(
            f"The covariance is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}. A covariance of "
            "real data has none below zero; pairwise deletion of missing values is a common cause."
        )
    return S


def check_weights(weight: Any, n_samples: int, dtype: np.dtype) -> Array | None:
    """Non-negative sample weights, or None."""
    if weight is None:
        return None
    try:
        w = np.asarray(weight, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight={reprlib.repr(weight)} does not hold numbers; give one non-negative number per sample."
        ) from None
    if w.ndim == 0:
        w = np.full(n_samples, float(w))
    if w.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {w.shape}, but there are n_samples={n_samples}.")
    if not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ValueError("sample_weight must be finite, non-negative and not all zero.")
    return w.astype(dtype)
