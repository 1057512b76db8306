"""Convert the parameters groups, include, exclude and penalty_weights to rules about the variables.

Values without effect (groups of one variable, weights of one, empty lists) are dropped, so that the result is the same
as without them.

Terms: there are n variables and m components, and all arrays are NumPy arrays on the host. Variables are known by
column number, from 0, or by name; the names of a table, text, are different from each other (its reader makes them so).
Groups are numbered from 0 to g − 1; a group of a single variable without a label stands for the variable.

`SupportRules` are the rules that a support must satisfy. An axis of length u has one column per component, or a single
one for all; attributes may differ in u: `group_labels`, (n,) of int, or None if every variable is a group;
`group_costs`, (g, u), float64; `required`, (g, u), and `excluded`, (n, u), of bool; `required_cost`, (u,), the sum of
the costs of the required groups; `group_sizes`, (g, u) of int, the variables of a group that are not excluded.
``from_groups(group_labels, costs, required, excluded)`` makes them, each group at cost one if `costs` is None.
``select_unit(j)`` are those of component j alone, u = 1; ``mask_excluded(C)`` is C, (n, m), with zeros for excluded
variables; ``group_norms_sq(C)`` are the sums of squares of groups, (g, m); ``broadcast_to_variables(values)`` turns
(g, m) into (n, m).

``find_column(selector, column_by_name, n)`` of `_utils.text` returns the column that an int from 0 to n − 1 selects, or
else one whose name is ``str(selector)``; None if there is none. ``get_variable_name(j, names)`` returns the name of a
variable, x0, x1, … if `names` is None. `format_names` joins the first names of a list. ``is_number(value, kind)`` says
whether a value is of a kind of number and not a bool, `is_sequence` whether it is iterable and not text;
`to_python_list` makes a list, with NumPy scalars as Python objects. A `WarningSpec` is a pair of message and class.
"""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.text import find_column, format_names, get_variable_name
from gpower._utils.warnings import GPowerWarning, WarningSpec
from gpower.penalties.knapsack import RELATIVE_COST_TOLERANCE
from gpower.penalties.support_rules import SupportRules
from gpower.validation.checks import format_variable_name, is_number, is_sequence, to_python, to_python_list

#: Names of the variables, or None.
FeatureNames = Sequence[str] | Array | None
#: Parameters that are rules on the variables.
VARIABLE_RULE_NAMES = ("groups", "include", "exclude", "penalty_weights")


class VariableGroups(NamedTuple):
    """Groups of the variables, numbered in the order of the columns in which they appear.

    Attributes
    ----------
    indices : ndarray of int of shape (n_features,)
        Number of the group of each variable; 0, 1, 2, … if every variable is a group of its own.
    labels : list
        Label of each group, a name or a number; None for a variable that is a group of its own.
    """

    indices: Array
    labels: list[Any]


class PenaltyWeights(NamedTuple):
    """Weights of the variables, (n_features,), and of groups given by label, (n_groups,), NaN for the other groups.

    Both are in float64, finite and non-negative where they are not NaN. The variables of a group with a weight of its
    own have weight one here.
    """

    variables: Array
    groups: Array


@dataclass(frozen=True, eq=False)
class VariableRules:
    """Rules on the variables of the components, as the user gave them; properties read and check them.

    Every property and method that reads one of the four parameters raises ValueError if that is not valid.

    Attributes
    ----------
    n_features, n_components : int
        Numbers of variables and of components.
    feature_names : sequence of str or None
        Names of the variables, all different.
    groups
        One label per variable, a dictionary from variables to labels, or None. A label is hashable; None, NaN and blank
        text are no label.
    include, exclude
        A variable, a list of variables for all components, or a list of such lists, one per component; or None.
    penalty_weights
        One non-negative number per variable, a dictionary from variables or labels of groups to numbers, or None.
    """

    n_features: int
    n_components: int
    feature_names: FeatureNames = None
    groups: Any = None
    include: Any = None
    exclude: Any = None
    penalty_weights: Any = None

    @classmethod
    def from_params(cls, params: Mapping[str, Any], n: int, m: int, names: FeatureNames) -> VariableRules:
        """Create the rules from the parameters of an estimator, for n variables and m components.

        `params` contains parameters by name, of which the rules are read as the user gave them, and not checked yet;
        those that are missing are None. `names`, (n,), are the names of the variables, if they have any.
        """
        return cls(n, m, names, **{name: params.get(name) for name in VARIABLE_RULE_NAMES})

    @cached_property
    def active_params(self) -> list[str]:
        """Return the names of the parameters that have an effect, in the order of VARIABLE_RULE_NAMES."""
        has_effect: dict[str, Callable[[], bool]] = {
            "groups": lambda: self.group_indices is not None,
            "include": lambda: any(part.size for part in self.included_columns),
            "exclude": lambda: any(part.size for part in self.excluded_columns),
            "penalty_weights": lambda: bool(
                np.any(self.weights.variables != 1) or np.isfinite(self.weights.groups).any()
            ),
        }
        return [name for name, is_active in has_effect.items() if getattr(self, name) is not None and is_active()]

    @cached_property
    def _column_by_name(self) -> dict[str, int]:
        """Return the column number of each name, as text; empty without names. Of equal names the last counts."""
        return {} if self.feature_names is None else {str(name): j for j, name in enumerate(self.feature_names)}

    def format_variable(self, j: int) -> str:
        """Return how a message names variable j: its quoted name, or its column number."""
        return format_variable_name(j, self.feature_names)

    def locate_variable(self, variable: Any, parameter: str) -> int:
        """Return the column, from 0, of a variable given by name or column number.

        An int from 0 to n − 1, also of NumPy, is a column number. Everything else (a negative or larger number, a bool,
        a float, text such as "3") is looked up as a name, by its `str`: so "3" is a variable only if it has that name,
        and True only if it is called "True". Raise ValueError, which names the `parameter` that contains the variable,
        if there is no such variable.
        """
        column = find_column(variable, self._column_by_name, self.n_features)
        if column is not None:
            return column
        if is_number(variable, Integral):
            problem = f"column {variable}, and there are {self.n_features} variables, counted from 0"
        elif self.feature_names is None:
            problem = f"{variable!r}, but the variables have no names; give column numbers"
        else:
            near = difflib.get_close_matches(str(variable), self._column_by_name, 3)
            hint = f"; similar names are {', '.join(map(repr, near))}" if near else ""
            problem = f"{variable!r}, but no variable has this name{hint}"
        no_group = parameter == "penalty_weights" and self.groups is not None
        raise ValueError(f"{parameter} names {problem}{'; no group has this label either' * no_group}.")

    @cached_property
    def variable_groups(self) -> VariableGroups:
        """Return the groups of all variables; raise ValueError if `groups` is not valid.

        Equal labels make a group, by Python's equality and hash, so that 1 and 1.0 are one label and 1 and "1" are two.
        A variable without a label is a group of its own. Not valid are labels that cannot be hashed, groups that leave
        all variables without a label, and a single group of several variables.
        """
        if self.groups is None:
            return VariableGroups(np.arange(self.n_features), [None] * self.n_features)
        indices, labels = np.zeros(self.n_features, np.intp), list[Any]()
        number_by_label: dict[Any, int] = {}
        for j, label in enumerate(self._read_labels()):
            if not isinstance(label, Hashable):
                raise ValueError(
                    f"groups has {reprlib.repr(label)} for variable {self.format_variable(j)}; a label is a name or a "
                    "number, and a variable is in one group."
                )
            # None, not a number, pandas' missing value, or an empty cell.
            is_missing = label is None or (label == label) is not True or (isinstance(label, str) and not label.strip())
            indices[j] = len(labels) if is_missing else number_by_label.setdefault(label, len(labels))
            if indices[j] == len(labels):
                labels.append(None if is_missing else label)
        if len(self.groups) and not number_by_label:
            raise ValueError("groups has no label for any variable; give some, or None.")
        if len(labels) == 1 and self.n_features > 1:
            raise ValueError(
                f"groups puts all {self.n_features} variables into one group, {labels[0]!r}; give several, or None."
            )
        return VariableGroups(indices, labels)

    def _read_labels(self) -> list[Any]:
        """Return one label per variable, not checked; None for those that a dictionary does not name.

        If a dictionary names a variable twice, by name and column, the last entry counts.
        """
        given = self._read_by_variable("groups", "label")
        if isinstance(given, Mapping):
            label_by_column = {self.locate_variable(each, "groups"): label for each, label in given.items()}
            return [label_by_column.get(j) for j in range(self.n_features)]
        return given

    def _read_by_variable(self, parameter: str, what: str) -> Mapping[Any, Any] | list[Any]:
        """Return a parameter that has an entry per variable, as a dictionary or as a list in the order of the columns.

        `what` says in the message what an entry is. Entries and keys are not checked. Raise ValueError if the parameter
        is neither a dictionary nor a list of n entries.
        """
        given = _convert_series_to_dict(getattr(self, parameter), parameter)
        if isinstance(given, Mapping):
            return given
        if not is_sequence(given):
            raise ValueError(
                f"{format_param(parameter, given)}: one {what} per variable is needed, or a dictionary by name."
            )
        entries = to_python_list(given)
        if len(entries) != self.n_features:
            raise ValueError(
                f"{format_param(parameter)} has {len(entries)} entries, but there are {self.n_features} variables; "
                "give one for each, or a dictionary by name."
            )
        return entries

    @property
    def group_indices(self) -> Array | None:
        """Return the number of each variable's group, (n,) of int; None if every variable is a group of its own."""
        return None if self.n_groups == self.n_features else self.variable_groups.indices

    @property
    def n_groups(self) -> int:
        """Return the number of groups; a variable without a label is a group of its own."""
        return len(self.variable_groups.labels)

    def format_group(self, g: int) -> str:
        """Return how a message names group g, from 0: the `repr` of its label, or the name of its only variable."""
        indices, labels = self.variable_groups
        return self.format_variable(int(np.argmax(indices == g))) if labels[g] is None else repr(labels[g])

    def rank_groups(self, z: Array) -> list[Any]:
        """Return the labels of the groups that loadings z, (n,), use, sorted by decreasing sum of squares.

        A variable without a label appears under its name. Of equal sums the group with the lower number comes first.
        """
        indices, labels = self.variable_groups
        squares = np.bincount(indices, z * z, minlength=len(labels))
        order = np.argsort(-squares, kind="stable")[: np.count_nonzero(squares)]
        return [
            get_variable_name(int(np.argmax(indices == g)), self.feature_names) if labels[g] is None else labels[g]
            for g in order
        ]

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """Return the smallest and largest number of variables, or of groups if there are groups, of a component.

        The smallest is the largest number of required groups of any component, at least one; the largest is the least
        number of groups with a variable that is not excluded.
        """
        rules = self.build_support_rules()
        if rules is None:
            return 1, self.n_features
        n_required = int(np.max(rules.required_cost))
        n_allowed = int(np.min(np.count_nonzero(rules.group_sizes, axis=0)))
        return max(n_required, 1), n_allowed

    @cached_property
    def included_columns(self) -> list[Array]:
        """Return the columns that each component must use: for each an array of different int, increasing, or empty."""
        return self._read_column_lists("include")

    @cached_property
    def excluded_columns(self) -> list[Array]:
        """Return for each component the columns that it must not use: an array of different int, increasing."""
        return self._read_column_lists("exclude")

    def find_unused_includes(self, Z: Array) -> list[list[str]]:
        """Return the names of the included variables without a loading, one list for each component of Z, (m, n).

        Z contains the loadings, a NumPy array with a row per component; the list of a zero component is empty.
        """
        pairs = zip(Z, self.included_columns, strict=True)
        return [[self.format_variable(int(j)) for j in part if z.any() and not z[j]] for z, part in pairs]

    def warn_unused_includes(self, unused: Sequence[Sequence[str]]) -> Iterator[WarningSpec]:
        """Yield a warning about included variables without a loading, if there are any.

        `unused` contains the names of such variables, one list per component, as `find_unused_includes` returns them.
        """
        cases = [f"{format_names(names)} in component {j + 1}" for j, names in enumerate(unused) if names]
        if cases:
            yield (
                f"include asks for {format_names(cases)}, where the best loading is zero: earlier components explain "
                "the variable completely, or what is left is uncorrelated with the other variables, or correlated with "
                "the opposite sign only.",
                GPowerWarning,
            )

    def _read_column_lists(self, parameter: str) -> list[Array]:
        """Return the columns that `parameter` names: m arrays of different int, increasing, possibly empty.

        `parameter` is "include" or "exclude". Its value is a name, a column number, a list of these for all components,
        or m such lists, one for each; None and an empty list name none. Raise ValueError for any other value, such as a
        dictionary or a list of variables and lists, and for a variable that does not exist.
        """
        given = getattr(self, parameter)
        given = [given] if isinstance(given, str | Integral) else [] if given is None else given
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise ValueError(f"{format_param(parameter, given)}: names or column numbers of variables are needed.")
        entries = to_python_list(given)
        n_nested = sum(map(is_sequence, entries))
        if 0 < n_nested < len(entries):
            raise ValueError(f"{parameter} mixes variables and lists; give one list, or one for each component.")
        if n_nested and len(entries) != self.n_components:
            raise ValueError(
                f"{parameter} has {len(entries)} lists, but {format_param('n_components', self.n_components)}; give "
                f"one list for all components, or {self.n_components}."
            )
        lists = entries if n_nested else [entries]
        columns = [
            np.unique(np.array([self.locate_variable(each, parameter) for each in part], np.intp)) for part in lists
        ]
        return columns if n_nested else columns * self.n_components

    @cached_property
    def weights(self) -> PenaltyWeights:
        """Return the weights of the variables and of the groups; raise ValueError unless all are finite and ≥ 0."""
        weights = PenaltyWeights(np.ones(self.n_features), np.full(self.n_groups, np.nan))
        if self.penalty_weights is None:
            return weights
        given = self._read_by_variable("penalty_weights", "non-negative number")
        if isinstance(given, Mapping):
            self._assign_weights_by_name(given, weights)
        else:
            weights.variables[:] = [_check_penalty_weight(w, j, self.format_variable) for j, w in enumerate(given)]
        return weights

    def _assign_weights_by_name(self, given: Mapping[Any, Any], weights: PenaltyWeights) -> None:
        """Fill in weights by label of a group, or by name or column of a variable; a label takes precedence.

        `given` maps keys to weights. A key that equals a label is that group, also its `str` if the label is a number
        and no variable has that name; every other key is a variable. The arrays of `weights` are changed in place:
        those of variables come filled with ones, those of groups with NaN, which stays where no label is given. Without
        groups of several variables, a label stands for its only variable. Raise ValueError for an unknown key, a weight
        that is not valid, and a variable with a weight other than one whose group is named too.
        """
        indices, labels = self.variable_groups
        group_by_label = {label: g for g, label in enumerate(labels) if label is not None}
        # A label that is a number may be given as text, as in a file, unless a variable has that name.
        as_text = {str(label): g for label, g in group_by_label.items() if str(label) not in self._column_by_name}
        group_by_label = as_text | group_by_label
        for key, value in given.items():
            g = group_by_label.get(key)
            if g is None:
                j = self.locate_variable(key, "penalty_weights")
                weights.variables[j] = _check_penalty_weight(value, j, self.format_variable)
            else:
                owner = weights.variables if self.group_indices is None else weights.groups
                owner[g] = _check_penalty_weight(value, g, self.format_group)
        both = np.flatnonzero((weights.variables != 1) & np.isfinite(weights.groups[indices]))
        if both.size:
            name, label = self.format_variable(int(both[0])), self.format_group(int(indices[both[0]]))
            raise ValueError(f"{format_param('penalty_weights')} names {name} and its group, {label}; keep one.")

    def build_support_rules(self, sum_weights: bool | None = None) -> SupportRules | None:
        """Return the rules that a support must satisfy; None if no parameter has an effect.

        A group is required if one of its variables is included. Raise ValueError if a variable is both included and
        excluded in a component, or if all variables are excluded from one.

        Parameters
        ----------
        sum_weights : bool, optional
            Whether the cost of a group is the sum of its variables' weights, as for a budget, or the root of the sum of
            their squares, as for a penalty; by default every group costs one.
        """
        if not self.active_params:
            return None
        for include, exclude in zip(self.included_columns, self.excluded_columns, strict=True):
            both = np.intersect1d(include, exclude)
            if both.size:
                names = format_names([self.format_variable(int(j)) for j in both])
                raise ValueError(f"include and exclude both name {names}; keep each variable in one of them.")
            if exclude.size == self.n_features:
                raise ValueError(f"exclude names all {self.n_features} variables, which leaves none to use.")
        indices = self.variable_groups.indices
        excluded = _build_component_masks(self.excluded_columns, self.n_features)
        required = _build_component_masks([indices[part] for part in self.included_columns], self.n_groups)
        costs = None if sum_weights is None else self._compute_group_costs(excluded, sum_weights)
        if costs is not None and not costs.any():
            raise ValueError(f"{format_param('penalty_weights')} are all zero; give some that are positive.")
        return SupportRules.from_groups(indices, costs, required, excluded)

    def _compute_group_costs(self, excluded: Array, sum_weights: bool) -> Array:
        """Return the costs of the groups, (n_groups, u), from the weights of their variables that are not excluded.

        `excluded`, (n_features, u) of bool, marks variables of each component, with u = 1 if it is the same for all.
        The cost is the sum of these weights with `sum_weights`, otherwise the root of the sum of their squares; zero if
        all are excluded. A weight that is given to a group by its label is its cost. The result is in float64.
        """
        weights = self.weights
        allowed = np.where(excluded, 0.0, weights.variables[:, None])
        addends = allowed if sum_weights else allowed**2
        indices = self.variable_groups.indices
        sums = np.column_stack([np.bincount(indices, column, minlength=self.n_groups) for column in addends.T])
        costs = sums if sum_weights else np.sqrt(sums)
        return np.where(np.isfinite(weights.groups)[:, None], weights.groups[:, None], costs)

    def check_levels(self, support_rules: SupportRules, levels: Sequence[float], parameter: str) -> None:
        """Raise if the required variables exceed a level, or if the allowed variables cannot reach it.

        `support_rules` are those of `build_support_rules`, with cost one for every group for a cardinality and with
        `sum_weights` for a budget; each component has a group that is not excluded. `levels`, one per component, are
        those of the `parameter`, "cardinality" or "budget": numbers of groups, or sums of weights. A required cost may
        exceed a level by the share RELATIVE_COST_TOLERANCE. Raise ValueError for the first component without a support:
        its required groups cost more than the level, a cardinality exceeds the number of groups with variables that are
        not excluded, or a budget is below the cost of the cheapest of these.
        """
        what = "groups" if self.group_indices is not None else "variables"
        is_count = parameter == "cardinality"
        for j, level in enumerate(levels):
            unit = support_rules.select_unit(j)
            required = np.flatnonzero(unit.required[:, 0])
            usable = unit.group_sizes[:, 0] > 0
            if unit.required_cost[0] > level * (1 + RELATIVE_COST_TOLERANCE):
                names = format_names([self.format_group(int(g)) for g in required])
                cost = f"{required.size} {what}" if is_count else f"a cost of {unit.required_cost[0]:g}"
                raise ValueError(
                    f"include asks for {cost} ({names}), and {format_param(parameter, level)}; include fewer or raise "
                    "it."
                )
            count, cheapest = np.count_nonzero(usable), np.min(unit.group_costs[usable, 0])
            if is_count and level > count:
                raise ValueError(
                    f"{format_param(parameter, level)}, and exclude leaves {count} {what}; ask for no more."
                )
            if not is_count and level < cheapest:
                raise ValueError(
                    f"{format_param(parameter, level)} pays for nothing; {what} cost {cheapest:g} or more."
                )


def check_required_have_variance(support_rules: SupportRules, norms: Array, names: FeatureNames) -> None:
    """Raise ValueError if a required variable, or all variables of a required group, are constant.

    `support_rules` are those of all n variables. `norms`, (n,) on the host, are those of the centred columns, exactly
    zero for constant ones. `names`, (n,), are those of the variables, or None. Excluded variables of a required group
    do not count as varying.
    """
    is_constant = support_rules.group_norms_sq(support_rules.mask_excluded(norms[:, None])) == 0
    columns = np.flatnonzero(support_rules.broadcast_to_variables(support_rules.required & is_constant).any(axis=1))
    if columns.size:
        shown = format_names([format_variable_name(int(j), names) for j in columns])
        raise ValueError(f"include asks for {shown}, which does not vary and can have no loading; leave it out.")


def _convert_series_to_dict(value: Any, parameter: str) -> Any:
    """Return a pandas Series with text as index as a dictionary by name; return every other value unchanged.

    `value` is what the user gave as `parameter`. A Series whose index is not all text, such as 0, 1, 2, …, is returned
    itself: its values are read in the order of the columns. Raise ValueError for a frame, whatever its number of
    columns, and for a Series with the same name twice.
    """
    if not hasattr(value, "to_dict") or not hasattr(value, "index"):
        return value
    if getattr(value, "ndim", 1) != 1:
        raise ValueError(f"{parameter} is a table of shape {value.shape}; give one of its columns, or a dictionary.")
    if not all(isinstance(name, str) for name in value.index):
        return value
    if not value.index.is_unique:
        repeated = format_names([repr(name) for name in value.index[value.index.duplicated()].unique()])
        raise ValueError(f"{parameter} has more than one entry for {repeated}; give each variable once.")
    return dict(zip(value.index, value, strict=True))


def _build_component_masks(lists: Sequence[Array], size: int) -> Array:
    """Return a mask, (size, m) of bool, of the indices in each of m lists; (size, 1) if all lists are equal.

    `lists` are m ≥ 1 arrays of int from 0 to size − 1, possibly empty, one per component.
    """
    lists = lists[:1] if all(np.array_equal(lists[0], each) for each in lists) else lists
    masks = np.zeros((size, len(lists)), bool)
    for j, part in enumerate(lists):
        masks[part, j] = True
    return masks


def _check_penalty_weight(value: Any, i: int, format_owner: Callable[[int], str]) -> float:
    """Return a weight as a float; raise ValueError unless it is finite and not negative.

    ``format_owner(i)`` names its variable or group in the message.
    """
    is_real = type(value) is float or is_number(value, Real)  # the first test is the fast one
    if not is_real or not 0 <= value < math.inf:
        shown = reprlib.repr(to_python(value))
        raise ValueError(
            f"{format_param('penalty_weights')} holds {shown} for {format_owner(i)}; weights are finite numbers, none "
            "negative, and zero is free."
        )
    return float(value)
