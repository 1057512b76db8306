"""From the estimator's words to the recipe's objects, with errors that teach."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpower._utils.arrays import Array
from gpower.feasible_sets import Cube, Stiefel
from gpower.penalties.elementary import L0, L1, Penalty
from gpower.penalties.grouped import Chosen, WeighedL0, WeighedL1
from gpower.problem.deflation import RULES
from gpower.solvers.initialization import Given, Paper, Start
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint
from gpower.solvers.min_cardinality import Share
from gpower.solvers.refit import AUTOMATIC, Refit
from gpower.solvers.specification import AsGiven, Bounded, Calibrated, Exact, Penalized, Recipe, Wish
from gpower.solvers.working_set import Settings
from gpower.validation.checks import is_a, is_listed, unboxed, unboxed_list
from gpower.validation.variable_rules import Knowledge, Names

#: What a user gives for all components, or for each of them.
Counts = int | Sequence[int] | None
Levels = float | Sequence[float] | None

DEFAULT_GAMMA = {"l0": 0.01, "l1": 0.1}
FAMILIES: dict[str, Penalty] = {"l0": L0(np.zeros(1)), "l1": L1(np.zeros(1))}
SOLVERS = {"auto": None, "rounds": True, "direct": False}
REFITS = {"auto": AUTOMATIC, "norms": Refit((1,)), "variance": Refit((2,)), None: Refit(())}


def recipe_from(params: Mapping[str, Any], shape: tuple[int, int], names: Names = None) -> Recipe:
    """The recipe that `GPower(**params)` asks for on data of a shape (n_samples, n_features), with named variables."""
    m = whole(params["n_components"], "n_components", 1)
    if m > shape[1]:
        raise ValueError(
            f"n_components={m} is more than the number of variables, n_features={shape[1]}; ask for at most {shape[1]}."
        )
    one_of(params["method"], "method", ("deflation", "block"))
    one_of(params["variance"], "variance", ("l2", "l1"))
    one_of(params["covariance"], "covariance", (None, "precomputed"))
    one_of(params["deflation"], "deflation", tuple(RULES))
    one_of(params["psd"], "psd", ("lift", "error"))
    one_of(params["accumulation"], "accumulation", (None, "float64"))
    for name in ("positive", "center", "scale", "polish", "acceleration", "certify", "resume", "warm_start"):
        one_of(params[name], name, (True, False))
    if params["callback"] is not None and not callable(params["callback"]):
        raise ValueError(f"callback={params['callback']!r}: a function of the state of the ascent is needed, or None.")
    block = params["method"] == "block"
    _check_combinations(params, block, m, shape)
    wish = _wish(params, Knowledge.of(params, shape[1], m, names))
    return Recipe(
        wish=wish,
        mu=_weights(params["mu"], block, m),
        block=block,
        n_init=None
        if isinstance(params["n_init"], str) and params["n_init"] == "auto"
        else whole(params["n_init"], "n_init", 1),
        start=_start(params["init"], shape[0], m),
        refit=REFITS[one_of(params["refit"], "refit", tuple(REFITS))],
        polish=bool(params["polish"]),
        deflation=RULES[params["deflation"]],
        regularization=number(params["regularization"], "regularization", 0.0),
        constraint=_constraint(params, wish, shape),
        settings=Settings(
            rounds=SOLVERS[one_of(params["solver"], "solver", tuple(SOLVERS))],
            tol=number(params["tol"], "tol", 0.0),
            max_iter=whole(params["max_iter"], "max_iter", 1),
            acceleration=bool(params["acceleration"]),
            callback=params["callback"],
        ),
    )


def _check_combinations(params: Mapping[str, Any], block: bool, m: int, shape: tuple[int, int]) -> None:
    """Options that exclude each other."""
    given = [name for name in ("cardinality", "gamma", "l1_bound", "budget") if params[name] is not None]
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


def _wish(params: Mapping[str, Any], knowledge: Knowledge) -> Wish:
    """What is sparse, and how much, one level per unit."""
    word, n, m = params["penalty"], knowledge.n_features, knowledge.n_components
    own = isinstance(word, Penalty)
    if not own and not isinstance(word, str):
        raise ValueError(
            f"penalty={reprlib.repr(word)} is not known; use one of 'l0', 'l1', or an object of a class derived from "
            "gpower.penalties.Penalty."
        )
    family = word if own else FAMILIES[one_of(word, "penalty", tuple(FAMILIES))]
    if own:
        _check_contract(family, (n, m if params["method"] == "block" else 1))
    samples = Cube() if params["variance"] == "l1" else Stiefel()
    common: dict[str, Any] = {"positive": bool(params["positive"]), "samples": samples}
    if knowledge.told or params["budget"] is not None:
        return _restricted(params, knowledge, common)
    if params["cardinality"] is not None:
        if _is_share(params["cardinality"]):
            return _shared(params, knowledge, common)
        common["levels"] = _cardinalities(params["cardinality"], m, n)
        if own:
            family.at_cardinality(np.asarray(common["levels"]))  # refuses here what it does not know
            return Exact(family=family, **common)
        return Exact(**common) if word == "l0" else Calibrated(family=family, **common)
    if params["l1_bound"] is not None:
        bounds = tuple(number(s, "l1_bound", 1.0) for s in per_unit(params["l1_bound"], "l1_bound", m))
        return Bounded(levels=bounds, **common)
    if own and params["gamma"] is None:
        return AsGiven(family=family, **common)
    levels = _fractions(DEFAULT_GAMMA[word] if params["gamma"] is None else params["gamma"], m)
    family.at_gamma(np.zeros(m))
    return Penalized(family=family, levels=levels, **common)


def _restricted(params: Mapping[str, Any], knowledge: Knowledge, common: dict[str, Any]) -> Wish:
    """The same where not all supports are admissible."""
    word, m = params["penalty"], knowledge.n_components
    told = [*knowledge.told, *(["budget"] if params["budget"] is not None else [])]
    for name, odd in {
        "a penalty of your own": isinstance(word, Penalty),
        "l1_bound": params["l1_bound"] is not None,
        f"constraint={params['constraint']!r}": params["constraint"] is not None,
    }.items():
        if odd:
            raise ValueError(f"{told[0]} does not go together with {name}; leave one of the two.")
    if params["budget"] is not None:
        return _budgeted(params, knowledge, common)
    zeros = np.zeros(m)
    if params["cardinality"] is not None:
        if word == "l0" and knowledge.weights is not None:
            raise ValueError(
                "penalty_weights says nothing about a cardinality, which counts; give budget=, the most that "
                "the weights may sum to, or gamma."
            )
        if _is_share(params["cardinality"]):
            return _shared(params, knowledge, common)
        common["levels"] = _cardinalities(params["cardinality"], m, knowledge.n_groups, "groups" in told)
        counting = knowledge.admissible()
        assert counting is not None
        knowledge.check_level(counting, common["levels"], "cardinality")
        if word == "l0":
            return Exact(family=Chosen(counting, np.ones(1)), **common)
    known = knowledge.admissible(adding=False)
    assert known is not None
    family = WeighedL0(known, zeros) if word == "l0" else WeighedL1(known, zeros)
    if params["cardinality"] is not None:
        return Calibrated(family=family, **common)
    levels = _fractions(DEFAULT_GAMMA[word] if params["gamma"] is None else params["gamma"], m)
    return Penalized(family=family, levels=levels, **common)


def _is_share(cardinality: Any) -> bool:
    """Whether the number of variables is a share of the variance, for all components or for each."""
    listed = is_listed(cardinality)
    levels = list(cardinality) if listed else [cardinality]
    return bool(levels) and all(is_a(s, Real) and not is_a(s, Integral) and 0 < float(s) < 1 for s in levels)


def _shared(params: Mapping[str, Any], knowledge: Knowledge, common: dict[str, Any]) -> Wish:
    """The fewest variables for shares of the variance."""
    m = knowledge.n_components
    if params["method"] == "block":
        raise ValueError(
            f"cardinality={params['cardinality']!r} is a share, of what a component could explain at its turn; "
            'method="block" knows no turns: give numbers of variables, or use method="deflation".'
        )
    shares = tuple(float(s) for s in per_unit(params["cardinality"], "cardinality", m))
    inner = _wish({**params, "cardinality": knowledge.numbers[0]}, knowledge)
    return Share(inner=inner, family=inner.family, levels=shares, **common)


def _budgeted(params: Mapping[str, Any], knowledge: Knowledge, common: dict[str, Any]) -> Wish:
    """So much to spend on variables."""
    if params["penalty"] != "l0":
        raise ValueError(f'budget works with penalty="l0", not {params["penalty"]!r}; use gamma with weights there.')
    if params["penalty_weights"] is None:
        raise ValueError("budget is what the variables of a component may cost; give penalty_weights, a cost for each.")
    m = knowledge.n_components
    levels = tuple(number(s, "budget", 0.0) for s in per_unit(params["budget"], "budget", m))
    known = knowledge.admissible(adding=True)
    if known is None:  # all cost one: a number of variables
        numbers = [min(int(level), knowledge.n_features) for level in levels]
        return Exact(levels=_cardinalities(numbers, m, knowledge.n_features), **common)
    knowledge.check_level(known, levels, "budget")
    return Exact(family=Chosen(known, np.ones(1)), levels=levels, **common)


def _constraint(params: Mapping[str, Any], wish: Wish, shape: tuple[int, int]) -> Constraint | None:
    """What components owe each other, if they can."""
    word = one_of(params["constraint"], "constraint", (None, *CONSTRAINTS))
    if word is None:
        return None
    if _is_share(params["cardinality"]):
        raise ValueError(
            f"cardinality={params['cardinality']!r} is a share, of what a component could explain at its turn, and "
            f'with constraint="{word}" there are no turns; fit without the constraint first, and give the numbers of '
            "variables that it takes."
        )
    if not wish.exchangeable:
        good = {"cardinality": params["cardinality"], "penalty": "l0", "variance": "l2"}
        seen = ", ".join(f"{k}={params[k]!r}" for k, v in good.items() if v is None or params[k] != v)
        raise ValueError(
            f'constraint="{word}" works on components with a cardinality, penalty="l0" and variance="l2", not with '
            f"{seen}; say how many variables each may have, as cardinality=10."
        )
    if wish.positive and word != "disjoint":
        raise ValueError(
            f"positive=True with constraint={word!r}: non-negative loadings are orthogonal only without common "
            'variables; use constraint="disjoint".'
        )
    m, wanted, (p, n) = len(wish.levels), sum(map(int, wish.levels)), shape
    if word == "disjoint" and wanted > n:
        raise ValueError(
            f'constraint="disjoint": {m} components of cardinality={params["cardinality"]!r} need {wanted} variables, '
            f"and there are n_features={n}; ask for fewer components or variables."
        )
    rank = min(n, p) if params["covariance"] is not None or not params["center"] else min(n, p - 1)
    if word == "uncorrelated" and m > rank:
        raise ValueError(
            f'constraint="uncorrelated": n_components={m} is more than the data have, whose rank is at most {rank}.'
        )
    return CONSTRAINTS[word]


def _check_contract(penalty: Penalty, shape: tuple[int, int]) -> None:
    """Refuse a penalty of the user's own that does not keep its contract on correlations of a shape (n, m)."""
    name = f"{type(penalty).__name__}.evaluate"
    try:
        values, gradient = penalty.evaluate(np.ones(shape))
    except Exception as error:
        raise ValueError(f"{name} cannot be used on correlations of shape {shape}: {error}") from error
    if np.shape(values) != shape[1:] or np.shape(gradient) != shape:
        raise ValueError(
            f"{name} gives arrays of shape {np.shape(values)} and {np.shape(gradient)} for correlations of shape "
            f"{shape}; a value per unit, {shape[1:]}, and the gradient, {shape}, are needed."
        )


def _cardinalities(cardinality: Any, m: int, n: int, grouped: bool = False) -> tuple[int, ...]:
    """A number of variables, or of groups of them, for every unit."""
    levels = per_unit(cardinality, "cardinality", m)
    most = f"{n} groups" if grouped else f"n_features={n} variables"
    if not all(is_a(k, Integral) and 1 <= int(k) <= n for k in levels):
        remedy = "one number for all components, or one each, or as 0.9 a share of the variance that the fewest reach"
        if isinstance(cardinality, str):
            remedy = "GPowerCV chooses it by cross-validation, and sparsity_path shows what each number explains"
        elif is_a(cardinality, Real) and float(cardinality).is_integer():
            remedy = f"write cardinality={int(cardinality)}" if 1 <= cardinality <= n else remedy
        raise ValueError(
            f"cardinality={cardinality!r}: a component uses between 1 and {most}, as a whole number; {remedy}."
        )
    return tuple(int(k) for k in levels)


def _fractions(gamma: Any, m: int) -> tuple[float, ...]:
    """A fraction of the largest useful γ for every unit."""
    levels = per_unit(gamma, "gamma", m)
    if not all(is_a(fraction, Real) and 0 <= float(fraction) < 1 for fraction in levels):
        raise ValueError(
            f"gamma={gamma!r}: gamma is a fraction of its largest useful value and lies in [0, 1); "
            "0 is ordinary PCA, values near 1 leave a single variable. "
            "To set the number of variables, use cardinality."
        )
    return tuple(float(fraction) for fraction in levels)


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


def _start(init: Any, p: int, m: int) -> Start | None:
    if init is None:
        return None
    if isinstance(init, str):
        if init == "paper":
            return Paper()
        raise ValueError(f'init={init!r}: use None, "paper", or an array of shape (n_samples, n_components).')
    points = np.asarray(init, float)
    if points.shape != (p, m):
        raise ValueError(f"init has shape {points.shape}, but a start for each component is needed: {(p, m)}.")
    if not np.all(np.isfinite(points)) or not np.all(np.any(points, axis=0)):
        raise ValueError("init has a column that is zero or not finite; every start must be a direction.")
    return Given(points)


def parameters_of(estimator: object) -> dict[str, Any]:
    """What an estimator was constructed with, by name: `get_params` without its look at the signature, 0.2 ms."""
    return {name: value for name, value in vars(estimator).items() if name[0] != "_" != name[-1]}


def random_source(state: Any) -> np.random.RandomState:
    """The generator of random starts and parts; None stands for a fixed seed."""
    return np.random.RandomState(0) if state is None else check_random_state(state)


def per_unit(value: Any, name: str, m: int) -> list[Any]:
    """A number for every unit, from one number or one each."""
    if is_listed(value):
        values = unboxed_list(value)
        if len(values) != m:
            raise ValueError(f"{name} has {len(values)} entries, but n_components={m}; give one number, or {m}.")
        return values
    return [value] * m


def one_of(value: Any, name: str, options: tuple[Any, ...]) -> Any:
    """The value, if it is one of the options."""
    own = unboxed(value)
    if not any(own is option or (type(own) is type(option) and own == option) for option in options):
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name}={reprlib.repr(value)} is not known; use one of {allowed}.")
    return own


def whole(value: Any, name: str, least: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    if not is_a(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r}: a whole number of at least {least} is needed.")
    return int(value)


def number(value: Any, name: str, least: float) -> float:
    """The value, if it is a finite number of at least `least`."""
    if not is_a(value, Real) or not np.isfinite(float(value)) or value < least:
        raise ValueError(f"{name}={value!r}: a finite number of at least {least:g} is needed.")
    return float(value)


def check_weights(weight: Any, n_samples: int, dtype: np.dtype) -> Array | None:
    """Non-negative sample weights, or None."""
    if weight is None:
        return None
    try:
        w = np.ma.filled(np.ma.asarray(weight).astype(np.float64), np.nan)
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
    w, most = w.astype(dtype), float(np.sqrt(np.finfo(dtype).max))
    total = float(np.sum(w, dtype=np.float64))
    if not 1 / most < total < most:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, out of the range of {np.dtype(dtype).name}; multiply the weights by a "
            "constant, which changes nothing else."
        )
    return w
