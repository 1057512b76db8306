"""Check the parameters of the estimator and convert them to a `FitSpec`, which contains objects, not string options.

Terms: n variables, m components, p samples; for a covariance p = n. Unless stated otherwise `params` contains
parameters of an estimator by name, as the user gave them. Arrays are NumPy arrays on the host.

A `FitSpec` is the specification of a fit, a `SparsitySpec` the kind and level of sparsity. Kinds: `PenaltyLevel` (γ as
a fraction), `ExactCardinality`, `CalibratedPenalty` (γ sought for a cardinality), `MinCardinality` (share of variance),
`L1BoundSpec`, `CustomPenalty`. All have `levels`, a tuple of m numbers (none for `CustomPenalty`), `penalty_family`,
`positive` and `sample_set` (`Stiefel` for ‖A z‖₂, `Cube` for ‖A z‖₁); ``has_exchangeable_variables`` says that any
variable may be replaced by any other. A `Penalty` has ``evaluate(C)``, (m,) values and the gradient (n, m), for
correlations C, (n, m); ``at_gamma(γ)`` and ``at_cardinality(levels)`` return it at another level, or raise ValueError
if it has none; so `family` below is a penalty whose own level is not used.

`VariableRules` are groups, include, exclude and weights: `active_params` are the names of those with an effect,
`cardinality_range` the smallest and largest number of variables or groups of a component, and `n_groups` the number of
groups, n without groups. ``build_support_rules(sum_weights)`` are the `SupportRules` with the costs of
groups: sums of weights, roots of sums of their squares (False), or ones (None, the default); None if no rule is active
and, so, all supports are allowed. ``check_levels(support_rules, levels, name)`` raises ValueError if a level cannot be
met. A `Solver` has options as attributes. ``is_number(value, kind)`` says whether a value is of a kind of number and
not a bool; `is_sequence` whether it is iterable and not text; `to_python` turns NumPy scalars into Python objects, as
`to_python_list` does in a list. ``format_param(name, value)`` is how the user writes a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpower._utils.messages import format_param
from gpower.feasible_sets import Cube, Stiefel
from gpower.penalties.elementary import L0, L1, Penalty
from gpower.penalties.grouped import GroupCardinality, GroupL0, GroupL1
from gpower.problem.deflation import DEFLATION_RULES
from gpower.solvers.fit_specification import (
    CalibratedPenalty,
    CustomPenalty,
    ExactCardinality,
    FitSpec,
    L1BoundSpec,
    MinCardinality,
    PenaltyLevel,
    SparsitySpec,
)
from gpower.solvers.joint.constraints import CONSTRAINTS, Constraint
from gpower.solvers.refit import AUTO_REFIT, RefitSpec
from gpower.solvers.starts import LargestNormStart, Start, UserStart
from gpower.solvers.working_set import AscentSettings
from gpower.validation.checks import is_number, is_sequence, to_python, to_python_list
from gpower.validation.solver import DEFAULT_TOL, PAPER_TOL, Solver
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
#: The solver of ``solver="auto"``, made once; it must not be changed.
DEFAULT_SOLVER = Solver()
#: How ``solver="paper"`` fills in the loadings of a support, by penalty: the paper refits ℓ1 solutions only.
PAPER_REFITS = {"l0": None, "l1": "norms"}
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
#: Parameters about how a fit is run, which do not change what is fitted.
RUN_PARAMS = ("checkpoint", "resume", "memory_limit", "verbose", "warm_start")
#: Parameters with a number for each component: its smallest value, the limit that it stays below, and the requirement.
NUMBER_RANGES = {
    "gamma": (
        0.0,
        1.0,
        "gamma is a fraction of its largest useful value and lies in [0, 1); 0 is ordinary PCA, values near 1 leave a "
        "single variable. To set the number of variables, use cardinality",
    ),
    "l1_bound": (1.0, np.inf, "a finite number of at least 1 is needed"),
    "budget": (0.0, np.inf, "a finite number of at least 0 is needed"),
    "mu": (1e-6, np.nextafter(1e6, np.inf), "the weights of the units must be positive numbers, between 1e-6 and 1e6"),
}
#: Parameters that may be lists of variables, one list for each component.
VARIABLE_LIST_PARAMS = ("include", "exclude")


def _is_given(value: Any) -> bool:
    """Return whether a parameter has a value."""
    return value is not None


def _is_own_penalty(penalty: Any) -> bool:
    """Return whether a penalty is an object of the user."""
    return isinstance(penalty, Penalty)


def _is_variance_share(cardinality: Any) -> bool:
    """Return whether `cardinality` is a share of variance between 0 and 1, or a list of such shares.

    `cardinality` is the parameter as the user gave it; None, whole numbers, an empty list, a list with a value that is
    no such share, and invalid values give False. The length of a list is not checked.
    """
    levels = list(cardinality) if is_sequence(cardinality) else [cardinality]
    return bool(levels) and all(is_number(s, Real) and not is_number(s, Integral) and 0 < float(s) < 1 for s in levels)


#: Settings that exclude each other: a parameter, its value or a function that recognises its values, another parameter
#: with the same, and the reason.
CONFLICTS: tuple[tuple[str, Any, str, Any, str], ...] = (
    ("certify", True, "variance", "l1", "a certificate bounds ‖Az‖₂²; leave one of the two out"),
    ("variance", "l1", "method", "block", "it works on one unit at a time; use {deflation}"),
    ("variance", "l1", "covariance", "precomputed", "it needs the samples; pass the data"),
    ("scale", True, "covariance", "precomputed", "the matrix is used unchanged; pass the correlation matrix instead"),
    ("l1_bound", _is_given, "method", "block", "it works on one unit at a time; use {deflation}, or gamma"),
    ("mu", _is_given, "method", "deflation", "it weighs the units of a block; use {block}"),
    ("cardinality", _is_variance_share, "method", "block", "each step of {deflation} explains a share; use it instead"),
    ("cardinality", _is_variance_share, "constraint", _is_given, "fit without one first, and give the numbers found"),
    ("positive", True, "constraint", "orthogonal", "orthogonal ones share no variables; use {disjoint}"),
    ("positive", True, "constraint", "uncorrelated", "non-negative components can only be disjoint; use {disjoint}"),
    ("budget", _is_given, "penalty", "l1", "a budget replaces the penalty; use gamma with weights instead"),
    *(
        (rule, _is_given, other, setting, "leave one of the two out")
        for rule in (*VARIABLE_RULE_NAMES, "budget")
        for other, setting in (("penalty", _is_own_penalty), ("l1_bound", _is_given), ("constraint", _is_given))
    ),
)


def build_fit_spec(params: Mapping[str, Any], shape: tuple[int, int], names: FeatureNames = None) -> FitSpec:
    """Return the specification of the fit of `GPower(**params)` to data of a shape (n_samples, n_features).

    `params` contains all constructor parameters, unchecked, and `n_components` as a number, not "auto". For a
    covariance the shape is (n_features, n_features). `names`, (n_features,), are the names of the variables, all
    different, or None. Raise ValueError if a parameter is not valid or does not go together with another; the order of
    the checks decides which of several errors is reported. No data are read, so that arrays in the specification are on
    the host.
    """
    params = resolve_solver(params)
    solver: Solver = params["solver"]
    m = check_int(params["n_components"], "n_components", 1)
    p, n = shape
    if m > n:
        raise ValueError(f"{format_param('n_components', m)} is more than the number of variables, n_features={n}.")
    for values, options in ((params, ESTIMATOR_OPTIONS), (vars(solver), SOLVER_OPTIONS)):
        for name, allowed in options.items():
            check_option(values[name], name, allowed)
    if solver.callback is not None and not callable(solver.callback):
        raise ValueError(f"callback={solver.callback!r}: a function of the state of the ascent is needed, or None.")
    _check_penalty(params["penalty"], (n, m if params["method"] == "block" else 1))
    rules = VariableRules.from_params(params, n, m, names)
    inactive = set(VARIABLE_RULE_NAMES) - set(rules.active_params)
    _check_conflicts(params | dict.fromkeys(inactive))
    if params["method"] == "block" and m > p:
        raise ValueError(
            f"A block of {format_param('n_components', m)} exceeds n_samples={p}; ask for at most {p}, or use "
            f"{format_param('method', 'deflation')}."
        )
    sparsity = _build_sparsity_spec(params, rules)
    is_auto = isinstance(params["n_init"], str) and params["n_init"] == "auto"
    return FitSpec(
        sparsity=sparsity,
        mu=_expand_numbers(1.0 if params["mu"] is None else params["mu"], "mu", m),
        is_block=params["method"] == "block",
        n_init=None if is_auto else check_int(params["n_init"], "n_init", 1),
        start=_build_start(solver.init, p, m, params["covariance"] is not None),
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


def make_solver(solver: Any) -> Solver:
    """Return the `Solver` that a value of the parameter `solver` other than "paper" stands for.

    A `Solver` is returned itself, with options that are not checked, and "auto" gives the shared `DEFAULT_SOLVER`,
    which must not be changed. Raise ValueError for anything else.
    """
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver == "auto":
        return DEFAULT_SOLVER
    if isinstance(solver, str) and solver == "paper":
        raise ValueError(f"{format_param('solver', solver)} has no options to set; use gpower.Solver(...).")
    raise ValueError(f"{format_param('solver', solver)} is not known; use 'auto', 'paper', or gpower.Solver(...).")


def resolve_solver(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator with a `Solver` as `solver`; "paper" also sets `n_init` and `tol`.

    The result is a new dictionary. Parameters may be missing, as in estimators without a solver; a `tol` other than the
    default of `GPower` is kept. Options of the `Solver` are not checked.

    Examples
    --------
    >>> resolve_solver({"solver": "paper", "penalty": "l0", "tol": 1e-6})["tol"]
    0.0001
    """
    solver = params.get("solver", "auto")
    if not isinstance(solver, str) or solver != "paper":
        return {**params, "solver": make_solver(solver)}
    penalty = params.get("penalty")
    refit = PAPER_REFITS.get(penalty, "auto") if isinstance(penalty, str) else "auto"
    tol = params.get("tol", DEFAULT_TOL)
    return {
        **params,
        "solver": Solver("full", "largest_norm", refit, local_search=False, acceleration=False),
        "n_init": 1,
        "tol": PAPER_TOL if tol == DEFAULT_TOL else tol,
    }


def _check_conflicts(params: Mapping[str, Any]) -> None:
    """Raise ValueError if parameters exclude each other, with the first pair found.

    `params` contains all parameters: options and penalty are valid, and rules on the variables without effect are None.
    """
    given = [name for name in ("cardinality", "gamma", "l1_bound", "budget") if params[name] is not None]
    if len(given) > 1:
        raise ValueError(
            f"{' and '.join(map(format_param, given))} are set together, but each fixes the sparsity; keep one."
        )
    for name, setting, other, other_setting, reason in CONFLICTS:
        if _has_setting(params[name], setting) and _has_setting(params[other], other_setting):
            shown = format_param(name) if name in VARIABLE_RULE_NAMES else format_param(name, params[name])
            remedies = {method: format_param("method", method) for method in ("block", "deflation")}
            reason = reason.format(disjoint=format_param("constraint", "disjoint"), **remedies)
            raise ValueError(f"{shown} excludes {format_param(other, params[other])}: {reason}.")
    if params["penalty_weights"] is not None and params["cardinality"] is not None and params["penalty"] == "l0":
        raise ValueError(f"{format_param('penalty_weights')} has no effect on a cardinality; give a budget, or gamma.")


def _has_setting(value: Any, setting: Any) -> bool:
    """Return whether a parameter has a setting of `CONFLICTS`: a value, or one that a function recognises."""
    return bool(setting(value) if callable(setting) else value == setting)


def _check_penalty(penalty: Any, shape: tuple[int, int]) -> None:
    """Raise ValueError unless `penalty` is a name, or a penalty of the user's own that keeps its contract.

    The latter is called once, with ones in float64 as correlations of a shape (n, m); values of shape (m,) and a
    gradient of shape (n, m) are expected. Whatever it raises becomes a ValueError.
    """
    if isinstance(penalty, str) and penalty in PENALTIES_BY_NAME:
        return
    if not isinstance(penalty, Penalty):
        raise ValueError(
            f"{format_param('penalty', penalty)} is not known; use one of 'l0', 'l1', or an object of a class derived "
            "from gpower.penalties.Penalty."
        )
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


def _build_sparsity_spec(params: Mapping[str, Any], rules: VariableRules) -> SparsitySpec:
    """Return the kind of sparsity of the components and its levels; raise ValueError if parameters are not valid.

    `params` contains all constructor parameters as the user gave them, at most one of those that fix the sparsity, and
    `rules` are those of them, for n variables and m components. Levels are cardinalities, fractions of the largest
    useful γ, ℓ1 bounds, budgets or shares of variance, one per component. The penalty of the result is a family, whose
    level the solver sets; only a `CustomPenalty` has its own. Without a level the cardinality is
    `choose_default_cardinality`, or γ is `DEFAULT_GAMMA` if the penalty is ℓ1 or variables have weights. Supports and
    costs are those of the rules: weights enter γ as roots of sums of squares, and a cardinality counts groups.
    """
    n, m = rules.n_features, rules.n_components
    sample_set = Cube() if params["variance"] == "l1" else Stiefel()
    common: dict[str, Any] = {"positive": bool(params["positive"]), "sample_set": sample_set}
    if params["budget"] is not None:
        return _build_budgeted_sparsity(params, rules, common)
    if params["l1_bound"] is not None:
        return L1BoundSpec(levels=_expand_numbers(params["l1_bound"], "l1_bound", m), **common)
    cardinality = params["cardinality"]
    if has_default_cardinality(params):
        cardinality = choose_default_cardinality(*rules.cardinality_range)
    if _is_variance_share(cardinality):
        shares = tuple(float(s) for s in expand_per_component(cardinality, "cardinality", m))
        inner = _build_sparsity_spec({**params, "cardinality": rules.cardinality_range[0]}, rules)
        return MinCardinality(cardinality_spec=inner, penalty_family=inner.penalty_family, levels=shares, **common)
    family = _choose_penalty_family(params["penalty"], rules)
    if cardinality is not None:
        levels = _expand_cardinalities(cardinality, m, rules.n_groups, rules.n_groups < n)
        counting_rules = rules.build_support_rules()  # every group costs one
        if counting_rules is not None:
            rules.check_levels(counting_rules, levels, "cardinality")
        if params["penalty"] == "l1":
            return CalibratedPenalty(penalty_family=family, levels=levels, **common)
        if counting_rules is not None:
            family = GroupCardinality(counting_rules, np.ones(1))
        elif params["penalty"] == "l0":
            return ExactCardinality(levels=levels, **common)
        family.at_cardinality(np.asarray(levels))  # raises if a penalty of the user's own has no cardinality
        return ExactCardinality(penalty_family=family, levels=levels, **common)
    if params["gamma"] is None and isinstance(params["penalty"], Penalty):
        return CustomPenalty(penalty_family=family, **common)
    gamma = DEFAULT_GAMMA[params["penalty"]] if params["gamma"] is None else params["gamma"]
    family.at_gamma(np.zeros(m))  # raises if a penalty of the user's own has no gamma
    return PenaltyLevel(penalty_family=family, levels=_expand_numbers(gamma, "gamma", m), **common)


def _choose_penalty_family(penalty: str | Penalty, rules: VariableRules) -> Penalty:
    """Return the penalty that a checked parameter stands for, with rules on the variables.

    Weights of the rules are costs of groups as roots of sums of squares. The level of the result is not used.
    """
    support_rules = rules.build_support_rules(sum_weights=False)
    if isinstance(penalty, Penalty):
        return penalty
    if support_rules is None:
        return PENALTIES_BY_NAME[penalty]
    return (GroupL0 if penalty == "l0" else GroupL1)(support_rules, np.zeros(support_rules.group_costs.shape[1]))


def has_default_cardinality(params: Mapping[str, Any]) -> bool:
    """Return whether no parameter of `GPower` gives a level of sparsity, so that the cardinality is the default one.

    `params` contains at least the parameters about sparsity by name, as the user gave them, None if not given.
    The ℓ1 penalty, penalties of the user and weights of the variables need γ, and have no default cardinality.
    """
    given = ("cardinality", "gamma", "l1_bound", "budget", "penalty_weights")
    is_l0 = isinstance(params["penalty"], str) and params["penalty"] == "l0"
    return is_l0 and all(params[name] is None for name in given)


def choose_default_cardinality(smallest: int, largest: int) -> int:
    """Return the cardinality of a component if none is given: ten, or a third of the variables of a small table.

    `smallest` ≥ 1 and `largest` are the numbers of variables, or of groups, that a component can have. The third is
    rounded up, and the result is at least `smallest`.

    Examples
    --------
    >>> choose_default_cardinality(1, 13), choose_default_cardinality(1, 20_000)
    (5, 10)
    """
    return max(smallest, min(DEFAULT_CARDINALITY, -(-largest // VARIABLES_PER_SELECTED)))


def _build_budgeted_sparsity(params: Mapping[str, Any], rules: VariableRules, common: dict[str, Any]) -> SparsitySpec:
    """Return the sparsity of components whose weights sum to at most a budget.

    `params` contains all parameters, a budget among them, and `common` the fields `positive` and `sample_set` that all
    kinds of sparsity share. If the rules allow all supports and every weight is one, it is an ordinary cardinality, the
    budget rounded down, at most n. Raise ValueError without weights, with a penalty other than ℓ0, and for a budget
    that is negative, not finite, or that no support meets.
    """
    if params["penalty_weights"] is None:
        raise ValueError(
            f"budget limits a sum of costs; give those of the variables, {format_param('penalty_weights')}."
        )
    m, n = rules.n_components, rules.n_features
    levels = _expand_numbers(params["budget"], "budget", m)
    support_rules = rules.build_support_rules(sum_weights=True)
    if support_rules is None:  # every variable costs one: the budget is a number of variables
        return ExactCardinality(levels=_expand_cardinalities([min(int(s), n) for s in levels], m, n), **common)
    rules.check_levels(support_rules, levels, "budget")
    return ExactCardinality(penalty_family=GroupCardinality(support_rules, np.ones(1)), levels=levels, **common)


def _build_constraint(params: Mapping[str, Any], sparsity: SparsitySpec, shape: tuple[int, int]) -> Constraint | None:
    """Return the constraint between the components, or None; raise ValueError if the other parameters exclude it.

    `params` contains all constructor parameters, with an option that is allowed as `constraint`, and `sparsity` was
    made from them. `shape` is (n_samples, n_features), or (n_features, n_features) for a covariance. Excluded are kinds
    of sparsity other than a cardinality without rules; non-negative loadings that are not disjoint; more variables in
    total than there are, if disjoint; and more uncorrelated components than the rank of the data can be. The result is
    the shared object from `CONSTRAINTS`.
    """
    name = params["constraint"]
    if name is None:
        return None
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


def _expand_cardinalities(cardinality: Any, m: int, n: int, grouped: bool = False) -> tuple[int, ...]:
    """Return the number of variables, or of groups, of every component, a tuple of m int from 1 to n.

    `cardinality` is the parameter as the user gave it, m the number of components, and n that of the variables, or of
    the groups if `grouped`. Raise ValueError for anything but one whole number or m of them; 2.0 and bool are refused.
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


def _expand_numbers(value: Any, name: str, m: int) -> tuple[float, ...]:
    """Return one number per component; raise ValueError unless all lie in the range of the parameter `name`.

    `value` is one number or a list of m, as the user gave it, and `name` a key of `NUMBER_RANGES`: its smallest value
    is allowed, its limit is not. bool, text and NaN are refused.
    """
    smallest, limit, requirement = NUMBER_RANGES[name]
    levels = expand_per_component(value, name, m)
    if not all(is_number(level, Real) and smallest <= float(level) < limit for level in levels):
        raise ValueError(f"{format_param(name, value)}: {requirement}.")
    return tuple(map(float, levels))


def _build_start(init: Any, p: int, m: int, is_covariance: bool) -> Start | None:
    """Return the start that `init` stands for, for p samples and m components; None for promising columns.

    `init` is the option as the user gave it: None, "largest_norm", or points, (p, m), which become a NumPy array in
    float64 and need not be normalised: `UserStart` makes them feasible, in the dtype and memory of the matrix. A
    covariance has no samples, hence no points. Raise ValueError for anything else, and for a point that is zero or not
    finite.
    """
    if init is None:
        return None
    if isinstance(init, str) and init == "largest_norm":
        return LargestNormStart()
    if isinstance(init, str):
        raise ValueError(
            f"{format_param('init', init)}: use None, 'largest_norm', or an array of shape (n_samples, n_components)."
        )
    if is_covariance:
        raise ValueError(
            "init contains points of the sample space, and a precomputed covariance has none; leave it None."
        )
    points = np.asarray(init, float)
    if points.shape != (p, m) or not np.all(np.isfinite(points)) or not np.all(np.any(points, axis=0)):
        raise ValueError(
            f"init has shape {points.shape}; a direction for each component is needed, an array of shape {(p, m)} "
            "without a column that is zero or not finite."
        )
    return UserStart(points)


def get_constructor_params(estimator: object) -> dict[str, Any]:
    """Return the constructor parameters of an estimator by name.

    It equals `get_params(deep=False)` without the inspection of the signature, which takes 0.2 ms. It relies on other
    attributes beginning or ending with an underscore. The dictionary is new, its values are not copied.
    """
    return {name: value for name, value in vars(estimator).items() if name[0] != "_" != name[-1]}


def make_random_state(state: Any) -> np.random.RandomState:
    """Return the random generator of a seed; None stands for the seed 0, and a `RandomState` is returned itself.

    Raise ValueError for anything but None, an int or a `RandomState`.
    """
    return np.random.RandomState(0) if state is None else check_random_state(state)


def get_component_lists(params: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the parameters that have one entry per component, as lists: of numbers, or of lists of variables.

    Parameters may be missing, and values are not checked. A single list of variables is for all components.

    Examples
    --------
    >>> get_component_lists({"cardinality": (5, 3), "include": ["a", "b"], "exclude": [["c"], []]})
    {'cardinality': [5, 3], 'exclude': [['c'], []]}
    """
    names = ("cardinality", *NUMBER_RANGES, *VARIABLE_LIST_PARAMS)
    lists = {name: to_python_list(params[name]) for name in names if is_sequence(params.get(name))}
    return {
        name: entries
        for name, entries in lists.items()
        if name not in VARIABLE_LIST_PARAMS or any(map(is_sequence, entries))
    }


def fix_n_components(params: Mapping[str, Any], m: int) -> dict[str, Any]:
    """Return what to change in the parameters to fit m components: their number, and lists cut to as many entries.

    Lists are those of `get_component_lists`, which may be longer with ``n_components="auto"``.
    """
    return {"n_components": m} | {name: entries[:m] for name, entries in get_component_lists(params).items()}


def expand_per_component(value: Any, name: str, m: int) -> list[Any]:
    """Return one value per component, from one value for all or a list of m values.

    The values are not checked, but NumPy scalars in a list become Python objects; None and text count as one value. A
    list of another length raises ValueError, which names the parameter `name`.
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
    """Return the value as a Python object; raise unless it is one of the options, of the same type: 1 is not True.

    A NumPy scalar is compared as a Python object. The error is a ValueError that names the parameter `name`.
    """
    option_value = to_python(value)
    if not any(
        option_value is option or (type(option_value) is type(option) and option_value == option) for option in options
    ):
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{format_param(name, value)} is not known; use one of {allowed}.")
    return option_value


def check_int(value: Any, name: str, minimum: int) -> int:
    """Return the value of the parameter `name` as an int; raise ValueError unless it is whole and at least `minimum`.

    A float such as 2.0, a bool and text are refused.
    """
    if not is_number(value, Integral) or value < minimum:
        raise ValueError(f"{format_param(name, value)}: a whole number of at least {minimum} is needed.")
    return int(value)


def check_float(value: Any, name: str, minimum: float) -> float:
    """Return the value of the parameter `name` as a float; raise ValueError unless finite and at least `minimum`.

    A bool and text are refused.
    """
    if not is_number(value, Real) or not np.isfinite(float(value)) or value < minimum:
        raise ValueError(f"{format_param(name, value)}: a finite number of at least {minimum:g} is needed.")
    return float(value)
