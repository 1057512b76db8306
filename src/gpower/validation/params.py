"""Parameters of the estimator, checked and turned into the objects of a `FitSpec`; below are no string options."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower.feasible_sets import Cube, Stiefel
from gpower.penalties.elementary import L0, L1, Penalty
from gpower.penalties.grouped import GroupCardinality, GroupL0, GroupL1
from gpower.problem.deflation import DEFLATION_RULES
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint
from gpower.solvers.refit import AUTO_REFIT, RefitSpec
from gpower.solvers.specification import (
    CalibratedPenalty,
    CustomPenalty,
    ExactCardinality,
    FitSpec,
    L1BoundSpec,
    MinCardinality,
    PenaltyLevel,
    SparsitySpec,
)
from gpower.solvers.starts import LargestNormStart, Start, UserStart
from gpower.solvers.working_set import AscentSettings
from gpower.validation.checks import is_number, is_sequence, to_python, to_python_list
from gpower.validation.solver import Solver, resolve_solver
from gpower.validation.variable_rules import VARIABLE_RULE_NAMES, FeatureNames, VariableRules

#: Types of a parameter with one value for all components, or one per component.
IntPerComponent = int | Sequence[int] | None
FloatPerComponent = float | Sequence[float] | None

#: Cardinality of a component if no level of sparsity is given: at most this number of variables, a list that can be
#: read, and at most one variable, or group, of this many.
DEFAULT_CARDINALITY, VARIABLES_PER_SELECTED = 10, 3
#: Fraction of the largest useful γ if no level is given with the ℓ1 penalty or with weights of the variables.
DEFAULT_GAMMA = {"l0": 0.01, "l1": 0.1}
PENALTIES_BY_NAME: dict[str, Penalty] = {"l0": L0(np.zeros(1)), "l1": L1(np.zeros(1))}
USE_WORKING_SET_BY_ALGORITHM = {"auto": None, "working_set": True, "full": False}
REFITS_BY_NAME = {"auto": AUTO_REFIT, "norms": RefitSpec((1,)), "variance": RefitSpec((2,)), None: RefitSpec(())}
#: Allowed values of the options of an estimator, and of those of its solver.
ESTIMATOR_OPTIONS: dict[str, tuple[Any, ...]] = {
    "method": ("deflation", "block"),
    "variance": ("l2", "l1"),
    "covariance": (None, "precomputed"),
    "deflation": tuple(DEFLATION_RULES),
    "constraint": (None, *CONSTRAINTS),
    **dict.fromkeys(("positive", "center", "scale", "balance", "certify", "resume", "warm_start"), (True, False)),
}
SOLVER_OPTIONS: dict[str, tuple[Any, ...]] = {
    "algorithm": tuple(USE_WORKING_SET_BY_ALGORITHM),
    "refit": tuple(REFITS_BY_NAME),
    "accumulate_dtype": (None, "float64"),
    **dict.fromkeys(("local_search", "acceleration"), (True, False)),
}


def build_fit_spec(params: Mapping[str, Any], shape: tuple[int, int], names: FeatureNames = None) -> FitSpec:
    """Return the specification of the fit of `GPower(**params)` to data of a shape (n_samples, n_features).

    `params` contains all constructor parameters, unchecked, and `n_components` as a number, not "auto". For a
    covariance the shape is (n_features, n_features). `names` are the names of the variables, if they have any. Raise
    ValueError if a parameter is not valid or does not go together with another. No data are read, so that arrays in the
    specification are on the host.
    """
    params = resolve_solver(params)
    solver: Solver = params["solver"]
    m = check_int(params["n_components"], "n_components", 1)
    if m > shape[1]:
        raise ValueError(
            f"{format_param('n_components', m)} is more than the number of variables, n_features={shape[1]}; "
            f"ask for at most {shape[1]}."
        )
    for values, options in ((params, ESTIMATOR_OPTIONS), (vars(solver), SOLVER_OPTIONS)):
        for name, allowed in options.items():
            check_option(values[name], name, allowed)
    if solver.callback is not None and not callable(solver.callback):
        raise ValueError(f"callback={solver.callback!r}: a function of the state of the ascent is needed, or None.")
    block = params["method"] == "block"
    _check_option_combinations(params, block, m, shape)
    has_rules = any(params[name] is not None for name in (*VARIABLE_RULE_NAMES, "budget"))
    rules = VariableRules.from_params(params, shape[1], m, names) if has_rules else None
    sparsity = _build_sparsity_spec(params, shape[1], m, rules)
    is_auto = isinstance(params["n_init"], str) and params["n_init"] == "auto"
    return FitSpec(
        sparsity=sparsity,
        mu=_expand_component_weights(params["mu"], block, m),
        is_block=block,
        n_init=None if is_auto else check_int(params["n_init"], "n_init", 1),
        start=_build_start(solver.init, shape[0], m),
        refit=REFITS_BY_NAME[solver.refit],
        local_search=bool(solver.local_search),
        deflation=DEFLATION_RULES[params["deflation"]],
        regularization=check_float(solver.regularization, "regularization", 0.0),
        constraint=_build_constraint(params, sparsity, shape),
        settings=AscentSettings(
            use_working_set=USE_WORKING_SET_BY_ALGORITHM[solver.algorithm],
            tol=check_float(params["tol"], "tol", 0.0),
            max_iter=check_int(params["max_iter"], "max_iter", 1),
            acceleration=bool(solver.acceleration),
            callback=solver.callback,
        ),
    )


def _check_option_combinations(params: Mapping[str, Any], block: bool, m: int, shape: tuple[int, int]) -> None:
    """Raise if options are set that exclude each other.

    `params` comes from `resolve_solver`, so that its `solver` is a `Solver`; `m` is the number of components and
    `shape` that of the data, (n_samples, n_features).
    """
    given = [name for name in ("cardinality", "gamma", "l1_bound", "budget") if params[name] is not None]
    if len(given) > 1:
        raise ValueError(
            f"{' and '.join(map(format_param, given))} are set together, but each of them fixes the sparsity; "
            "keep one and leave the others None."
        )
    if params["variance"] == "l1" and params["certify"]:
        raise ValueError(
            f"{format_param('certify', True)} bounds ‖Az‖₂², not the objective of {format_param('variance', 'l1')}."
        )
    if params["variance"] == "l1" and (block or params["covariance"] is not None):
        other = format_param("method", "block") if block else format_param("covariance", "precomputed")
        raise ValueError(
            f"{format_param('variance', 'l1')} needs the samples and one unit at a time, so it excludes {other}; "
            f"use {format_param('method', 'deflation')} on the data."
        )
    if params["covariance"] is not None and params["scale"]:
        raise ValueError(
            f"{format_param('scale', True)} cannot be applied to a precomputed covariance, which is used unchanged; "
            "pass the correlation matrix instead."
        )
    if block and params["l1_bound"] is not None:
        raise ValueError(
            f"{format_param('l1_bound')} works on one unit at a time; use {format_param('method', 'deflation')}, or "
            f"gamma with {format_param('method', 'block')}."
        )
    if block and m > shape[0]:
        raise ValueError(
            f"A block of {format_param('n_components', m)} orthonormal units does not fit into n_samples={shape[0]}; "
            f"ask for at most {shape[0]}, or use {format_param('method', 'deflation')}."
        )
    if not isinstance(params["solver"].init, str | None) and params["covariance"] is not None:
        raise ValueError(
            "init contains points of the sample space, which a precomputed covariance does not have; leave it None."
        )


def _build_sparsity_spec(
    params: Mapping[str, Any], n: int, m: int, variable_rules: VariableRules | None
) -> SparsitySpec:
    """Return the kind of sparsity of m components of n variables and its levels; raise if parameters are not valid.

    `variable_rules` is None if the user gave neither rules on the variables nor a budget. Levels are cardinalities,
    fractions of the largest useful γ, ℓ1 bounds, budgets or shares of variance, one per component. The penalty of the
    result is a family, whose level the solver sets; only a `CustomPenalty` has its own.
    """
    penalty = params["penalty"]
    is_custom = isinstance(penalty, Penalty)
    if not is_custom and not isinstance(penalty, str):
        raise ValueError(
            f"{format_param('penalty', penalty)} is not known; use one of 'l0', 'l1', or an object of a class derived "
            "from gpower.penalties.Penalty."
        )
    family = penalty if is_custom else PENALTIES_BY_NAME[check_option(penalty, "penalty", tuple(PENALTIES_BY_NAME))]
    if is_custom:
        _check_custom_penalty(family, (n, m if params["method"] == "block" else 1))
    if has_default_cardinality(params):
        limits = (1, n) if variable_rules is None else variable_rules.cardinality_range
        params = {**params, "cardinality": choose_default_cardinality(*limits)}
    samples = Cube() if params["variance"] == "l1" else Stiefel()
    common: dict[str, Any] = {"positive": bool(params["positive"]), "sample_set": samples}
    if variable_rules is not None and (variable_rules.active_params or params["budget"] is not None):
        return _build_restricted_sparsity(params, variable_rules, common)
    if params["cardinality"] is not None:
        if _is_variance_share(params["cardinality"]):
            return _build_min_cardinality(params, n, m, variable_rules, common)
        common["levels"] = _expand_cardinalities(params["cardinality"], m, n)
        if is_custom:
            family.at_cardinality(np.asarray(common["levels"]))  # raises if the penalty has no cardinality
            return ExactCardinality(penalty_family=family, **common)
        return ExactCardinality(**common) if penalty == "l0" else CalibratedPenalty(penalty_family=family, **common)
    if params["l1_bound"] is not None:
        bounds = tuple(check_float(s, "l1_bound", 1.0) for s in expand_per_component(params["l1_bound"], "l1_bound", m))
        return L1BoundSpec(levels=bounds, **common)
    if is_custom and params["gamma"] is None:
        return CustomPenalty(penalty_family=family, **common)
    levels = _expand_gamma_fractions(DEFAULT_GAMMA[penalty] if params["gamma"] is None else params["gamma"], m)
    family.at_gamma(np.zeros(m))  # raises if the penalty has no gamma
    return PenaltyLevel(penalty_family=family, levels=levels, **common)


def has_default_cardinality(params: Mapping[str, Any]) -> bool:
    """Return whether no parameter of `GPower` gives a level of sparsity, so that the cardinality is the default one.

    The ℓ1 penalty, penalties of the user and weights of the variables need γ, and have no default cardinality.
    """
    given = ("cardinality", "gamma", "l1_bound", "budget", "penalty_weights")
    is_l0 = isinstance(params["penalty"], str) and params["penalty"] == "l0"
    return is_l0 and all(params[name] is None for name in given)


def choose_default_cardinality(smallest: int, largest: int) -> int:
    """Return the cardinality of a component if none is given: ten, or a third of the variables of a small table.

    `smallest` and `largest` are the numbers of variables, or of groups, that a component can have.

    Examples
    --------
    >>> choose_default_cardinality(1, 13), choose_default_cardinality(1, 20_000)
    (5, 10)
    """
    return max(smallest, min(DEFAULT_CARDINALITY, -(-largest // VARIABLES_PER_SELECTED)))


def _build_restricted_sparsity(
    params: Mapping[str, Any], variable_rules: VariableRules, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """Return the kind of sparsity and its levels if rules on the variables or a budget restrict the supports.

    `spec_kwargs` contains the fields that all kinds of sparsity share; `levels` is added to it.
    """
    penalty, m = params["penalty"], variable_rules.n_components
    active = [*variable_rules.active_params, *(["budget"] if params["budget"] is not None else [])]
    for name, is_set in {
        "a penalty of your own": isinstance(penalty, Penalty),
        format_param("l1_bound"): params["l1_bound"] is not None,
        format_param("constraint", params["constraint"]): params["constraint"] is not None,
    }.items():
        if is_set:
            raise ValueError(f"{format_param(active[0])} does not go together with {name}; leave one of the two out.")
    if params["budget"] is not None:
        return _build_budgeted_sparsity(params, variable_rules, spec_kwargs)
    zeros = np.zeros(m)
    if params["cardinality"] is not None:
        if penalty == "l0" and variable_rules.variable_and_group_weights is not None:
            raise ValueError(
                f"{format_param('penalty_weights')} has no effect on a cardinality, which counts variables; give "
                "budget=, the largest sum of the weights, or gamma."
            )
        if _is_variance_share(params["cardinality"]):
            return _build_min_cardinality(params, variable_rules.n_features, m, variable_rules, spec_kwargs)
        spec_kwargs["levels"] = _expand_cardinalities(
            params["cardinality"], m, variable_rules.n_groups, "groups" in active
        )
        counting_rules = variable_rules.build_support_rules()  # every group costs one; not None, as a rule is active
        assert counting_rules is not None
        variable_rules.check_levels(counting_rules, spec_kwargs["levels"], "cardinality")
        if penalty == "l0":
            return ExactCardinality(penalty_family=GroupCardinality(counting_rules, np.ones(1)), **spec_kwargs)
    weighted_rules = variable_rules.build_support_rules(sum_weights=False)
    assert weighted_rules is not None
    family = GroupL0(weighted_rules, zeros) if penalty == "l0" else GroupL1(weighted_rules, zeros)
    if params["cardinality"] is not None:
        return CalibratedPenalty(penalty_family=family, **spec_kwargs)
    levels = _expand_gamma_fractions(DEFAULT_GAMMA[penalty] if params["gamma"] is None else params["gamma"], m)
    return PenaltyLevel(penalty_family=family, levels=levels, **spec_kwargs)


def _is_variance_share(cardinality: Any) -> bool:
    """Return whether `cardinality` is a share of variance between 0 and 1, or a list of such shares."""
    levels = list(cardinality) if is_sequence(cardinality) else [cardinality]
    return bool(levels) and all(is_number(s, Real) and not is_number(s, Integral) and 0 < float(s) < 1 for s in levels)


def _build_min_cardinality(
    params: Mapping[str, Any], n: int, m: int, variable_rules: VariableRules | None, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """Return the sparsity of the fewest variables that explain given shares of variance.

    Its `cardinality_spec` is the specification for the smallest cardinality that the rules admit.
    """
    if params["method"] == "block":
        raise ValueError(
            f"{format_param('cardinality', params['cardinality'])} is a share of the variance that an unrestricted "
            "component would explain at its step, and a block has no steps; give numbers of variables, or use "
            f"{format_param('method', 'deflation')}."
        )
    shares = tuple(float(s) for s in expand_per_component(params["cardinality"], "cardinality", m))
    smallest = 1 if variable_rules is None else variable_rules.cardinality_range[0]
    inner = _build_sparsity_spec({**params, "cardinality": smallest}, n, m, variable_rules)
    return MinCardinality(cardinality_spec=inner, penalty_family=inner.penalty_family, levels=shares, **spec_kwargs)


def _build_budgeted_sparsity(
    params: Mapping[str, Any], variable_rules: VariableRules, spec_kwargs: dict[str, Any]
) -> SparsitySpec:
    """Return the sparsity of components whose weights sum to at most a budget.

    If the rules allow all supports and every weight is one, it is an ordinary cardinality, the budget rounded down.
    """
    if params["penalty"] != "l0":
        raise ValueError(
            f"budget works with {format_param('penalty', 'l0')}, not {params['penalty']!r}; use gamma with weights "
            "instead."
        )
    if params["penalty_weights"] is None:
        raise ValueError(
            f"budget is the largest total cost of a component's variables; give {format_param('penalty_weights')}, "
            "the cost of each variable."
        )
    m = variable_rules.n_components
    levels = tuple(check_float(s, "budget", 0.0) for s in expand_per_component(params["budget"], "budget", m))
    rules = variable_rules.build_support_rules(sum_weights=True)
    if rules is None:  # every variable costs one: the budget is a number of variables
        numbers = [min(int(level), variable_rules.n_features) for level in levels]
        return ExactCardinality(levels=_expand_cardinalities(numbers, m, variable_rules.n_features), **spec_kwargs)
    variable_rules.check_levels(rules, levels, "budget")
    return ExactCardinality(penalty_family=GroupCardinality(rules, np.ones(1)), levels=levels, **spec_kwargs)


def _build_constraint(params: Mapping[str, Any], sparsity: SparsitySpec, shape: tuple[int, int]) -> Constraint | None:
    """Return the constraint between the components, or None; raise if the other parameters exclude it.

    `shape` is (n_samples, n_features), or (n_features, n_features) for a covariance.
    """
    name = params["constraint"]
    if name is None:
        return None
    if _is_variance_share(params["cardinality"]):
        raise ValueError(
            f"{format_param('cardinality', params['cardinality'])} is a share of the variance that an unrestricted "
            f"component would explain at its step, and {format_param('constraint', name)} has no steps; fit without "
            "the constraint first, and give the numbers of variables that were found."
        )
    if not sparsity.has_exchangeable_variables:
        supported = {"cardinality": params["cardinality"], "penalty": "l0", "variance": "l2"}
        unsupported = ", ".join(
            format_param(key, params[key]) for key, value in supported.items() if value is None or params[key] != value
        )
        raise ValueError(
            f"{format_param('constraint', name)} works on components with a cardinality, "
            f"{format_param('penalty', 'l0')} and {format_param('variance', 'l2')}, not with {unsupported}; set the "
            f"number of variables, as {format_param('cardinality', 10)}."
        )
    if sparsity.positive and name != "disjoint":
        raise ValueError(
            f"{format_param('positive', True)} with {format_param('constraint', name)}: non-negative loadings are "
            f"orthogonal only without common variables; use {format_param('constraint', 'disjoint')}."
        )
    m, n_needed = len(sparsity.levels), sum(map(int, sparsity.levels))
    p, n = shape
    if name == "disjoint" and n_needed > n:
        raise ValueError(
            f"{format_param('constraint', name)}: {m} components of "
            f"{format_param('cardinality', params['cardinality'])} need {n_needed} variables, "
            f"and there are n_features={n}; ask for fewer components or variables."
        )
    rank = min(n, p) if params["covariance"] is not None or not params["center"] else min(n, p - 1)
    if name == "uncorrelated" and m > rank:
        raise ValueError(
            f"{format_param('constraint', name)}: {format_param('n_components', m)} exceeds the rank of the data, "
            f"which is at most {rank}."
        )
    return CONSTRAINTS[name]


def _check_custom_penalty(penalty: Penalty, shape: tuple[int, int]) -> None:
    """Raise if a penalty of the user's own violates its contract on correlations of a shape (n, m).

    It is called once, with ones; values of shape (m,) and a gradient of shape (n, m) are expected.
    """
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
    """Return the number of variables, or of groups, of every component.

    `cardinality` is the parameter as the user gave it, m the number of components, and n that of the variables, or of
    the groups if `grouped`.
    """
    levels = expand_per_component(cardinality, "cardinality", m)
    largest = f"{n} groups" if grouped else f"n_features={n} variables"
    if not all(is_number(k, Integral) and 1 <= int(k) <= n for k in levels):
        remedy = "give one number for all components, one each, or a share of variance such as 0.9"
        if isinstance(cardinality, str):
            remedy = "GPowerCV chooses it by cross-validation, and sparsity_path shows what each number explains"
        elif is_number(cardinality, Real) and float(cardinality).is_integer():
            remedy = f"write {format_param('cardinality', int(cardinality))}" if 1 <= cardinality <= n else remedy
        raise ValueError(
            f"{format_param('cardinality', cardinality)}: a component uses between 1 and {largest}, as a whole number; "
            f"{remedy}."
        )
    return tuple(int(k) for k in levels)


def _expand_gamma_fractions(gamma: Any, m: int) -> tuple[float, ...]:
    """Return the fraction of the largest useful γ of every component, in [0, 1).

    `gamma` is the parameter as the user gave it, not None; m is the number of components.
    """
    levels = expand_per_component(gamma, "gamma", m)
    if not all(is_number(fraction, Real) and 0 <= float(fraction) < 1 for fraction in levels):
        raise ValueError(
            f"{format_param('gamma', gamma)}: gamma is a fraction of its largest useful value and lies in [0, 1); "
            "0 is ordinary PCA, values near 1 leave a single variable. "
            "To set the number of variables, use cardinality."
        )
    return tuple(float(fraction) for fraction in levels)


def _expand_component_weights(mu: Any, block: bool, m: int) -> tuple[float, ...]:
    """Return the weight of each of m units, positive; ones by default, and always without a block.

    `mu` is the parameter as the user gave it.
    """
    if mu is None:
        return (1.0,) * m
    if not block:
        raise ValueError(
            f"mu weighs the units of a block; it has no meaning with {format_param('method', 'deflation')}. Use "
            f"{format_param('method', 'block')}."
        )
    weights = expand_per_component(mu, "mu", m)
    if not all(isinstance(w, Real) and 1e-6 <= float(w) <= 1e6 for w in weights):
        raise ValueError(
            f"{format_param('mu', mu)}: the weights of the units must be positive numbers, between 1e-6 and 1e6."
        )
    return tuple(float(w) for w in weights)


def _build_start(init: Any, p: int, m: int) -> Start | None:
    """Return the start that `init` stands for, for p samples and m components; None for promising columns.

    Points, (p, m), become a NumPy array in float64 and need not be normalised: `UserStart` makes them feasible, in the
    dtype and memory of the matrix.
    """
    if init is None:
        return None
    if isinstance(init, str):
        if init == "largest_norm":
            return LargestNormStart()
        raise ValueError(
            f"{format_param('init', init)}: use None, 'largest_norm', or an array of shape (n_samples, n_components)."
        )
    points = np.asarray(init, float)
    if points.shape != (p, m):
        raise ValueError(f"init has shape {points.shape}, but a start for each component is needed: {(p, m)}.")
    if not np.all(np.isfinite(points)) or not np.all(np.any(points, axis=0)):
        raise ValueError("init has a column that is zero or not finite; every start must be a direction.")
    return UserStart(points)


def get_constructor_params(estimator: object) -> dict[str, Any]:
    """Return the constructor parameters of an estimator by name.

    It equals `get_params(deep=False)` without the inspection of the signature, which takes 0.2 ms. It relies on other
    attributes beginning or ending with an underscore.
    """
    return {name: value for name, value in vars(estimator).items() if name[0] != "_" != name[-1]}


def make_random_state(state: Any) -> np.random.RandomState:
    """Return the random generator of a seed; None stands for a fixed seed, and a generator is returned itself."""
    return np.random.RandomState(0) if state is None else check_random_state(state)


def expand_per_component(value: Any, name: str, m: int) -> list[Any]:
    """Return one value per component, from one value for all or a list of m values.

    The values are not checked, but NumPy scalars in a list become Python objects; None and text count as one value.
    """
    if is_sequence(value):
        values = to_python_list(value)
        if len(values) != m:
            raise ValueError(
                f"{format_param(name)} has {len(values)} entries, but {format_param('n_components', m)}; give one "
                f"number, or {m}."
            )
        return values
    return [value] * m


def check_option(value: Any, name: str, options: tuple[Any, ...]) -> Any:
    """Return the value as a Python object; raise unless it is one of the options, of the same type: 1 is not True."""
    option_value = to_python(value)
    if not any(
        option_value is option or (type(option_value) is type(option) and option_value == option) for option in options
    ):
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{format_param(name, value)} is not known; use one of {allowed}.")
    return option_value


def check_int(value: Any, name: str, minimum: int) -> int:
    """Return the value as an int; raise unless it is a whole number of at least `minimum`."""
    if not is_number(value, Integral) or value < minimum:
        raise ValueError(f"{format_param(name, value)}: a whole number of at least {minimum} is needed.")
    return int(value)


def check_float(value: Any, name: str, minimum: float) -> float:
    """Return the value as a float; raise unless it is a finite number of at least `minimum`."""
    if not is_number(value, Real) or not np.isfinite(float(value)) or value < minimum:
        raise ValueError(f"{format_param(name, value)}: a finite number of at least {minimum:g} is needed.")
    return float(value)


def check_sample_weight(sample_weight: Any, n_samples: int, dtype: np.dtype) -> Array | None:
    """Return the sample weights as an array, (n_samples,), or None; raise unless they are valid.

    The array is on the host, in the given dtype, which is that of the data. One number stands for equal weights. Valid
    weights are finite and non-negative, and at least one is positive.
    """
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
    w = w.astype(dtype)
    limit = float(np.sqrt(np.finfo(dtype).max))
    total = float(np.sum(w, dtype=np.float64))
    if not 1 / limit < total < limit:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, out of the range of {np.dtype(dtype).name}; multiply the weights by a "
            "constant, which has no other effect."
        )
    return w
