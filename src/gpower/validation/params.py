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
from gpower.penalties.grouped import GroupCardinality, GroupL0, GroupL1
from gpower.problem.deflation import DEFLATION_RULES
from gpower.solvers.initialization import LargestNormStart, Start, UserStart
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint
from gpower.solvers.min_cardinality import MinCardinality
from gpower.solvers.refit import AUTO_REFIT, RefitSpec
from gpower.solvers.specification import (
    CalibratedPenalty,
    CustomPenalty,
    ExactCardinality,
    FitSpec,
    L1BoundSpec,
    PenaltyLevel,
    SparsitySpec,
)
from gpower.solvers.working_set import AscentSettings
from gpower.validation.checks import is_number, is_sequence, to_python, to_python_list
from gpower.validation.variable_rules import FeatureNames, VariableRules

#: What a user gives for all components, or for each of them.
IntPerComponent = int | Sequence[int] | None
FloatPerComponent = float | Sequence[float] | None

DEFAULT_GAMMA = {"l0": 0.01, "l1": 0.1}
PENALTIES_BY_NAME: dict[str, Penalty] = {"l0": L0(np.zeros(1)), "l1": L1(np.zeros(1))}
USE_WORKING_SET_BY_SOLVER = {"auto": None, "rounds": True, "direct": False}
REFITS_BY_NAME = {"auto": AUTO_REFIT, "norms": RefitSpec((1,)), "variance": RefitSpec((2,)), None: RefitSpec(())}


def build_fit_spec(params: Mapping[str, Any], shape: tuple[int, int], names: FeatureNames = None) -> FitSpec:
    """The recipe that `GPower(**params)` asks for on data of a shape (n_samples, n_features), with named variables."""
    m = check_int(params["n_components"], "n_components", 1)
    if m > shape[1]:
        raise ValueError(
            f"n_components={m} is more than the number of variables, n_features={shape[1]}; ask for at most {shape[1]}."
        )
    check_option(params["method"], "method", ("deflation", "block"))
    check_option(params["variance"], "variance", ("l2", "l1"))
    check_option(params["covariance"], "covariance", (None, "precomputed"))
    check_option(params["deflation"], "deflation", tuple(DEFLATION_RULES))
    check_option(params["psd"], "psd", ("lift", "error"))
    check_option(params["accumulation"], "accumulation", (None, "float64"))
    for name in ("positive", "center", "scale", "polish", "acceleration", "certify", "resume", "warm_start"):
        check_option(params[name], name, (True, False))
    if params["callback"] is not None and not callable(params["callback"]):
        raise ValueError(f"callback={params['callback']!r}: a function of the state of the ascent is needed, or None.")
    block = params["method"] == "block"
    _check_option_combinations(params, block, m, shape)
    wish = _build_sparsity_spec(params, VariableRules.from_params(params, shape[1], m, names))
    return FitSpec(
        sparsity=wish,
        mu=_expand_component_weights(params["mu"], block, m),
        is_block=block,
        n_init=None
        if isinstance(params["n_init"], str) and params["n_init"] == "auto"
        else check_int(params["n_init"], "n_init", 1),
        start=_build_start(params["init"], shape[0], m),
        refit=REFITS_BY_NAME[check_option(params["refit"], "refit", tuple(REFITS_BY_NAME))],
        local_search=bool(params["polish"]),
        deflation=DEFLATION_RULES[params["deflation"]],
        regularization=check_float(params["regularization"], "regularization", 0.0),
        constraint=_build_constraint(params, wish, shape),
        settings=AscentSettings(
            use_working_set=USE_WORKING_SET_BY_SOLVER[
                check_option(params["solver"], "solver", tuple(USE_WORKING_SET_BY_SOLVER))
            ],
            tol=check_float(params["tol"], "tol", 0.0),
            max_iter=check_int(params["max_iter"], "max_iter", 1),
            acceleration=bool(params["acceleration"]),
            callback=params["callback"],
        ),
    )


def _check_option_combinations(params: Mapping[str, Any], block: bool, m: int, shape: tuple[int, int]) -> None:
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


def _build_sparsity_spec(params: Mapping[str, Any], variable_rules: VariableRules) -> SparsitySpec:
    """What is sparse, and how much, one level per unit."""
    word, n, m = params["penalty"], variable_rules.n_features, variable_rules.n_components
    own = isinstance(word, Penalty)
    if not own and not isinstance(word, str):
        raise ValueError(
            f"penalty={reprlib.repr(word)} is not known; use one of 'l0', 'l1', or an object of a class derived from "
            "gpower.penalties.Penalty."
        )
    family = word if own else PENALTIES_BY_NAME[check_option(word, "penalty", tuple(PENALTIES_BY_NAME))]
    if own:
        _check_custom_penalty(family, (n, m if params["method"] == "block" else 1))
    samples = Cube() if params["variance"] == "l1" else Stiefel()
    common: dict[str, Any] = {"positive": bool(params["positive"]), "sample_set": samples}
    if variable_rules.active_params or params["budget"] is not None:
        return _build_restricted_sparsity(params, variable_rules, common)
    if params["cardinality"] is not None:
        if _is_variance_share(params["cardinality"]):
            return _build_min_cardinality(params, variable_rules, common)
        common["levels"] = _expand_cardinalities(params["cardinality"], m, n)
        if own:
            family.at_cardinality(np.asarray(common["levels"]))  # refuses here what it does not know
            return ExactCardinality(penalty_family=family, **common)
        return ExactCardinality(**common) if word == "l0" else CalibratedPenalty(penalty_family=family, **common)
    if params["l1_bound"] is not None:
        bounds = tuple(check_float(s, "l1_bound", 1.0) for s in expand_per_component(params["l1_bound"], "l1_bound", m))
        return L1BoundSpec(levels=bounds, **common)
    if own and params["gamma"] is None:
        return CustomPenalty(penalty_family=family, **common)
    levels = _expand_gamma_fractions(DEFAULT_GAMMA[word] if params["gamma"] is None else params["gamma"], m)
    family.at_gamma(np.zeros(m))
    return PenaltyLevel(penalty_family=family, levels=levels, **common)


def _build_restricted_sparsity(
    params: Mapping[str, Any], variable_rules: VariableRules, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """The same where not all supports are admissible."""
    word, m = params["penalty"], variable_rules.n_components
    told = [*variable_rules.active_params, *(["budget"] if params["budget"] is not None else [])]
    for name, odd in {
        "a penalty of your own": isinstance(word, Penalty),
        "l1_bound": params["l1_bound"] is not None,
        f"constraint={params['constraint']!r}": params["constraint"] is not None,
    }.items():
        if odd:
            raise ValueError(f"{told[0]} does not go together with {name}; leave one of the two.")
    if params["budget"] is not None:
        return _build_budgeted_sparsity(params, variable_rules, spec_kwargs)
    zeros = np.zeros(m)
    if params["cardinality"] is not None:
        if word == "l0" and variable_rules.variable_and_group_weights is not None:
            raise ValueError(
                "penalty_weights says nothing about a cardinality, which counts; give budget=, the most that "
                "the weights may sum to, or gamma."
            )
        if _is_variance_share(params["cardinality"]):
            return _build_min_cardinality(params, variable_rules, spec_kwargs)
        spec_kwargs["levels"] = _expand_cardinalities(
            params["cardinality"], m, variable_rules.n_groups, "groups" in told
        )
        counting = variable_rules.build_support_rules()
        assert counting is not None
        variable_rules.check_levels(counting, spec_kwargs["levels"], "cardinality")
        if word == "l0":
            return ExactCardinality(penalty_family=GroupCardinality(counting, np.ones(1)), **spec_kwargs)
    known = variable_rules.build_support_rules(sum_weights=False)
    assert known is not None
    family = GroupL0(known, zeros) if word == "l0" else GroupL1(known, zeros)
    if params["cardinality"] is not None:
        return CalibratedPenalty(penalty_family=family, **spec_kwargs)
    levels = _expand_gamma_fractions(DEFAULT_GAMMA[word] if params["gamma"] is None else params["gamma"], m)
    return PenaltyLevel(penalty_family=family, levels=levels, **spec_kwargs)


def _is_variance_share(cardinality: Any) -> bool:
    """Whether the number of variables is a share of the variance, for all components or for each."""
    listed = is_sequence(cardinality)
    levels = list(cardinality) if listed else [cardinality]
    return bool(levels) and all(is_number(s, Real) and not is_number(s, Integral) and 0 < float(s) < 1 for s in levels)


def _build_min_cardinality(
    params: Mapping[str, Any], variable_rules: VariableRules, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """The fewest variables for shares of the variance."""
    m = variable_rules.n_components
    if params["method"] == "block":
        raise ValueError(
            f"cardinality={params['cardinality']!r} is a share, of what a component could explain at its turn; "
            'method="block" knows no turns: give numbers of variables, or use method="deflation".'
        )
    shares = tuple(float(s) for s in expand_per_component(params["cardinality"], "cardinality", m))
    inner = _build_sparsity_spec({**params, "cardinality": variable_rules.cardinality_range[0]}, variable_rules)
    return MinCardinality(cardinality_spec=inner, penalty_family=inner.penalty_family, levels=shares, **spec_kwargs)


def _build_budgeted_sparsity(
    params: Mapping[str, Any], variable_rules: VariableRules, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """So much to spend on variables."""
    if params["penalty"] != "l0":
        raise ValueError(f'budget works with penalty="l0", not {params["penalty"]!r}; use gamma with weights there.')
    if params["penalty_weights"] is None:
        raise ValueError("budget is what the variables of a component may cost; give penalty_weights, a cost for each.")
    m = variable_rules.n_components
    levels = tuple(check_float(s, "budget", 0.0) for s in expand_per_component(params["budget"], "budget", m))
    known = variable_rules.build_support_rules(sum_weights=True)
    if known is None:  # all cost one: a number of variables
        numbers = [min(int(level), variable_rules.n_features) for level in levels]
        return ExactCardinality(levels=_expand_cardinalities(numbers, m, variable_rules.n_features), **spec_kwargs)
    variable_rules.check_levels(known, levels, "budget")
    return ExactCardinality(penalty_family=GroupCardinality(known, np.ones(1)), levels=levels, **spec_kwargs)


def _build_constraint(params: Mapping[str, Any], sparsity: SparsitySpec, shape: tuple[int, int]) -> Constraint | None:
    """What components owe each other, if they can."""
    word = check_option(params["constraint"], "constraint", (None, *CONSTRAINTS))
    if word is None:
        return None
    if _is_variance_share(params["cardinality"]):
        raise ValueError(
            f"cardinality={params['cardinality']!r} is a share, of what a component could explain at its turn, and "
            f'with constraint="{word}" there are no turns; fit without the constraint first, and give the numbers of '
            "variables that it takes."
        )
    if not sparsity.has_exchangeable_variables:
        good = {"cardinality": params["cardinality"], "penalty": "l0", "variance": "l2"}
        seen = ", ".join(f"{k}={params[k]!r}" for k, v in good.items() if v is None or params[k] != v)
        raise ValueError(
            f'constraint="{word}" works on components with a cardinality, penalty="l0" and variance="l2", not with '
            f"{seen}; say how many variables each may have, as cardinality=10."
        )
    if sparsity.positive and word != "disjoint":
        raise ValueError(
            f"positive=True with constraint={word!r}: non-negative loadings are orthogonal only without common "
            'variables; use constraint="disjoint".'
        )
    m, wanted, (p, n) = len(sparsity.levels), sum(map(int, sparsity.levels)), shape
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


def _check_custom_penalty(penalty: Penalty, shape: tuple[int, int]) -> None:
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


def _expand_cardinalities(cardinality: Any, m: int, n: int, grouped: bool = False) -> tuple[int, ...]:
    """A number of variables, or of groups of them, for every unit."""
    levels = expand_per_component(cardinality, "cardinality", m)
    most = f"{n} groups" if grouped else f"n_features={n} variables"
    if not all(is_number(k, Integral) and 1 <= int(k) <= n for k in levels):
        remedy = "one number for all components, or one each, or as 0.9 a share of the variance that the fewest reach"
        if isinstance(cardinality, str):
            remedy = "GPowerCV chooses it by cross-validation, and sparsity_path shows what each number explains"
        elif is_number(cardinality, Real) and float(cardinality).is_integer():
            remedy = f"write cardinality={int(cardinality)}" if 1 <= cardinality <= n else remedy
        raise ValueError(
            f"cardinality={cardinality!r}: a component uses between 1 and {most}, as a whole number; {remedy}."
        )
    return tuple(int(k) for k in levels)


def _expand_gamma_fractions(gamma: Any, m: int) -> tuple[float, ...]:
    """A fraction of the largest useful γ for every unit."""
    levels = expand_per_component(gamma, "gamma", m)
    if not all(is_number(fraction, Real) and 0 <= float(fraction) < 1 for fraction in levels):
        raise ValueError(
            f"gamma={gamma!r}: gamma is a fraction of its largest useful value and lies in [0, 1); "
            "0 is ordinary PCA, values near 1 leave a single variable. "
            "To set the number of variables, use cardinality."
        )
    return tuple(float(fraction) for fraction in levels)


def _expand_component_weights(mu: Any, block: bool, m: int) -> tuple[float, ...]:
    if mu is None:
        return (1.0,) * m
    if not block:
        raise ValueError(
            'mu weighs the units of a block; it has no meaning with method="deflation". Use method="block".'
        )
    weights = expand_per_component(mu, "mu", m)
    if not all(isinstance(w, Real) and 1e-6 <= float(w) <= 1e6 for w in weights):
        raise ValueError(f"mu={mu!r}: the weights of the units must be positive numbers, between 1e-6 and 1e6.")
    return tuple(float(w) for w in weights)


def _build_start(init: Any, p: int, m: int) -> Start | None:
    if init is None:
        return None
    if isinstance(init, str):
        if init == "paper":
            return LargestNormStart()
        raise ValueError(f'init={init!r}: use None, "paper", or an array of shape (n_samples, n_components).')
    points = np.asarray(init, float)
    if points.shape != (p, m):
        raise ValueError(f"init has shape {points.shape}, but a start for each component is needed: {(p, m)}.")
    if not np.all(np.isfinite(points)) or not np.all(np.any(points, axis=0)):
        raise ValueError("init has a column that is zero or not finite; every start must be a direction.")
    return UserStart(points)


def get_constructor_params(estimator: object) -> dict[str, Any]:
    """What an estimator was constructed with, by name: `get_params` without its look at the signature, 0.2 ms."""
    return {name: value for name, value in vars(estimator).items() if name[0] != "_" != name[-1]}


def make_random_state(state: Any) -> np.random.RandomState:
    """The generator of random starts and parts; None stands for a fixed seed."""
    return np.random.RandomState(0) if state is None else check_random_state(state)


def expand_per_component(value: Any, name: str, m: int) -> list[Any]:
    """A number for every unit, from one number or one each."""
    if is_sequence(value):
        values = to_python_list(value)
        if len(values) != m:
            raise ValueError(f"{name} has {len(values)} entries, but n_components={m}; give one number, or {m}.")
        return values
    return [value] * m


def check_option(value: Any, name: str, options: tuple[Any, ...]) -> Any:
    """The value, if it is one of the options."""
    own = to_python(value)
    if not any(own is option or (type(own) is type(option) and own == option) for option in options):
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name}={reprlib.repr(value)} is not known; use one of {allowed}.")
    return own


def check_int(value: Any, name: str, minimum: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    if not is_number(value, Integral) or value < minimum:
        raise ValueError(f"{name}={value!r}: a whole number of at least {minimum} is needed.")
    return int(value)


def check_float(value: Any, name: str, minimum: float) -> float:
    """The value, if it is a finite number of at least `least`."""
    if not is_number(value, Real) or not np.isfinite(float(value)) or value < minimum:
        raise ValueError(f"{name}={value!r}: a finite number of at least {minimum:g} is needed.")
    return float(value)


def check_sample_weight(sample_weight: Any, n_samples: int, dtype: np.dtype) -> Array | None:
    """Non-negative sample weights, or None."""
    if sample_weight is None:
        return None
    try:
        w = np.ma.filled(np.ma.asarray(sample_weight).astype(np.float64), np.nan)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight={reprlib.repr(sample_weight)} does not hold numbers; give one non-negative number per "
            "sample."
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
