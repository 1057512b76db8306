"""What the user knows of the variables, words turned into objects: groups, include, exclude, penalty_weights.

What says nothing (groups of one, weights of one, empty lists) is dropped here, so that the answer is that without it.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.text import format_names
from gpower._utils.warnings import GPowerWarning, WarningSpec
from gpower.penalties.support_rules import SupportRules
from gpower.validation.checks import is_number, is_sequence, to_python_list

#: What the variables are called, if they have names.
FeatureNames = Sequence[str] | Array | None
#: What stands in front of the column of a variable that is in no group.
_UNGROUPED_MARKER = object()
#: The parameters that say what is known.
VARIABLE_RULE_NAMES = ("groups", "include", "exclude", "penalty_weights")


@dataclass(frozen=True, eq=False)
class VariableRules:
    """What is known of n variables, for m components.

    Attributes
    ----------
    n_features, n_components : int
    names : sequence of str or None
        Of the variables.
    groups, include, exclude, penalty_weights
        As in `GPower`.
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
        """What an estimator was told."""
        told = {word: params.get(word) for word in VARIABLE_RULE_NAMES}
        return cls(
            n, m, names, **told | {word: _convert_series_to_dict(told[word]) for word in ("groups", "penalty_weights")}
        )

    @property
    def active_params(self) -> list[str]:
        """The parameters that say something."""
        something = {
            "groups": self.group_indices is not None,
            "include": any(part.size for part in self.included_columns),
            "exclude": any(part.size for part in self.excluded_columns),
            "penalty_weights": self.variable_and_group_weights is not None,
        }
        return [word for word, says in something.items() if says]

    @cached_property
    def _column_by_name(self) -> dict[str, int]:
        return {} if self.feature_names is None else {str(name): j for j, name in enumerate(self.feature_names)}

    def format_variable(self, j: int) -> str:
        """How to call variable j in a sentence."""
        return repr(str(self.feature_names[j])) if self.feature_names is not None else str(j)

    def find_column(self, variable: Any, parameter: str) -> int:
        """The column of a variable that is called by its name or its number."""
        if is_number(variable, Integral):
            if 0 <= int(variable) < self.n_features:
                return int(variable)
            raise ValueError(
                f"{parameter} names column {variable}, and there are {self.n_features} variables, counted from 0."
            )
        if str(variable) in self._column_by_name:
            return self._column_by_name[str(variable)]
        if self.feature_names is None:
            raise ValueError(f"{parameter} names {variable!r}, but the variables have no names; give column numbers.")
        near = difflib.get_close_matches(str(variable), self._column_by_name, 3)
        hint = f"; near are {', '.join(map(repr, near))}" if near else ""
        raise ValueError(f"{parameter} names {variable!r}, and no variable is called so{hint}.")

    @property
    def _nontrivial_groups(self) -> tuple[Array, list[Any]] | None:
        """The same, None where each variable is alone."""
        return (
            None
            if self.groups is None or len(self._group_indices_and_labels[1]) == self.n_features
            else self._group_indices_and_labels
        )

    @cached_property
    def _group_indices_and_labels(self) -> tuple[Array, list[Any]]:
        """The group of every variable, from 0 on, and what the groups are called."""
        if self.groups is None:
            return np.arange(self.n_features), [(_UNGROUPED_MARKER, j) for j in range(self.n_features)]
        if isinstance(self.groups, np.ndarray) and self.groups.dtype.kind in "iuU" and self.groups.ndim == 1:
            return self._index_label_array(self.groups)
        labels = self._get_variable_labels()
        for j, label in enumerate(labels):
            if not isinstance(label, Hashable):
                raise ValueError(
                    f"groups has {reprlib.repr(label)} for variable {self.format_variable(j)}; a label is a name or a "
                    "number, and a variable is in one group."
                )
            if label is None or (label == label) is not True:  # not a number, or pandas' missing value
                raise ValueError(
                    f"groups has no label for variable {self.format_variable(j)}; each variable needs one."
                )
        called = list(dict.fromkeys(labels))
        number = {label: g for g, label in enumerate(called)}
        return self._check_several_groups(np.array([number[label] for label in labels], np.intp), called)

    def _index_label_array(self, labels: Array) -> tuple[Array, list[Any]]:
        """The same of an array, at once; groups in the order of their first variables."""
        self._check_label_count(labels.size)
        called, first, number = np.unique(labels, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))
        return self._check_several_groups(place[number], called[np.argsort(first)].tolist())

    def _check_several_groups(self, group_indices: Array, group_labels: list[Any]) -> tuple[Array, list[Any]]:
        """Labels that leave something to choose."""
        if len(group_labels) == 1 and self.n_features > 1:
            raise ValueError(
                f"groups puts all {self.n_features} variables into one group, {group_labels[0]!r}, which leaves "
                "nothing to choose; give several groups, or None."
            )
        return group_indices, group_labels

    def _check_label_count(self, count: int) -> None:
        if count != self.n_features:
            raise ValueError(
                f"groups has {count} labels, but there are {self.n_features} variables; give one for each, or a "
                "dictionary by name."
            )

    def _get_variable_labels(self) -> list[Any]:
        """One label per variable; with a dictionary those that it does not name are groups of their own."""
        if isinstance(self.groups, Mapping):
            labels: list[Any] = [(_UNGROUPED_MARKER, j) for j in range(self.n_features)]
            for variable, label in self.groups.items():
                labels[self.find_column(variable, "groups")] = label
            return labels
        if not is_sequence(self.groups):
            raise ValueError(f"groups={self.groups!r}: one label per variable is needed, or a dictionary by name.")
        labels = to_python_list(self.groups)
        self._check_label_count(len(labels))
        return labels

    @property
    def group_indices(self) -> Array | None:
        """The group of every variable, from 0 on; None where each is alone."""
        return None if self._nontrivial_groups is None else self._nontrivial_groups[0]

    @property
    def _full_group_indices(self) -> Array:
        """The same, (n,), where each is alone too."""
        return np.arange(self.n_features) if self.group_indices is None else self.group_indices

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.n_features if self._nontrivial_groups is None else len(self._nontrivial_groups[1])

    def format_group(self, g: int) -> str:
        """How to call a group in a sentence: a variable that is alone by its own name."""
        label = self._group_indices_and_labels[1][g]
        return self.format_variable(label[1]) if _is_ungrouped(label) else repr(label)

    def rank_groups(self, z: Array) -> list[Any]:
        """Labels of the groups with loadings, (n,), the largest by their squares first; variables alone by name."""
        labels, called = self._group_indices_and_labels
        squares = np.bincount(labels, z * z, minlength=len(called))
        order = np.argsort(-squares, kind="stable")[: np.count_nonzero(squares)]
        return [self._get_variable_name(called[g][1]) if _is_ungrouped(called[g]) else called[g] for g in order]

    def _get_variable_name(self, j: int) -> str:
        """The name of variable j, made where it has none."""
        return f"x{j}" if self.feature_names is None else str(self.feature_names[j])

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups, that every component can have."""
        known = self.build_support_rules()
        if known is None:
            return 1, self.n_features
        least, most = int(np.max(known.required_cost)), int(np.min(np.count_nonzero(known.group_sizes, axis=0)))
        return max(least, 1), most

    @cached_property
    def included_columns(self) -> list[Array]:
        """Variables that must be used, for each component."""
        return self._read_column_lists("include")

    @cached_property
    def excluded_columns(self) -> list[Array]:
        """Variables that must not be used, for each component."""
        return self._read_column_lists("exclude")

    def find_unused_includes(self, Z: Array) -> list[list[str]]:
        """Included variables without a loading in each of some components, (m, n), that have any."""
        pairs = zip(Z, self.included_columns, strict=True)
        return [[self.format_variable(int(j)) for j in part if z.any() and not z[j]] for z, part in pairs]

    def warn_unused_includes(self, unused: Sequence[Sequence[str]]) -> Iterator[WarningSpec]:
        """What there is to say of these."""
        told = [f"{format_names(names)} in components_[{j}]" for j, names in enumerate(unused) if names]
        if told:
            yield (
                f"include asks for {format_names(told)}, where the best loading is zero: the components before leave "
                "nothing of it, or what is left goes with no other variable, or only with the opposite sign.",
                GPowerWarning,
            )

    def _read_column_lists(self, parameter: str) -> list[Array]:
        """A list for all components, or one each."""
        given = getattr(self, parameter)
        if given is None:
            given = []
        if isinstance(given, str | Integral):
            given = [given]
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise ValueError(f"{parameter}={reprlib.repr(given)}: names or column numbers of variables are needed.")
        given = to_python_list(given)
        nested = [is_sequence(each) for each in given]
        if any(nested) and not all(nested):
            raise ValueError(
                f"{parameter} mixes variables and lists of them; give one list, or one for each component."
            )
        if any(nested) and len(given) != self.n_components:
            raise ValueError(
                f"{parameter} has {len(given)} lists, but n_components={self.n_components}; give one list for all "
                f"components, or {self.n_components}."
            )
        lists = given if any(nested) else [given]
        found = [np.unique(np.array([self.find_column(each, parameter) for each in part], np.intp)) for part in lists]
        return found if any(nested) else found * self.n_components

    @cached_property
    def variable_and_group_weights(self) -> tuple[Array, Array] | None:
        """What variables weigh, (n,), and groups that a label names, (g,), NaN else; None where all weigh one."""
        given = self.penalty_weights
        if given is None:
            return None
        own, of_groups = np.ones(self.n_features), np.full(self.n_groups, np.nan)
        if isinstance(given, Mapping):
            self._assign_weights_by_name(given, own, of_groups)
        else:
            self._assign_weights_in_order(given, own)
        named = np.isfinite(of_groups)
        if not (own[~named[self._full_group_indices]].any() or of_groups[named].any()):
            raise ValueError("penalty_weights are all zero, so that nothing is sparse; give some that are positive.")
        return None if np.all(own == 1) and not named.any() else (own, of_groups)

    def _assign_weights_in_order(self, given: Any, variable_weights: Array) -> None:
        """Weights of all variables, one after the other."""
        try:
            values = given if _is_numeric_vector(given) else [_to_float_or_nan(value) for value in given]
        except TypeError:
            told = "one non-negative number per variable is needed, or a dictionary by name"
            raise ValueError(f"penalty_weights={reprlib.repr(given)}: {told}.") from None
        if len(values) != self.n_features:
            raise ValueError(
                f"penalty_weights has {len(values)} entries, but there are {self.n_features} variables; give one for "
                "each."
            )
        variable_weights[:] = values
        for j in np.flatnonzero(~((variable_weights >= 0) & (variable_weights < np.inf)))[:1]:
            _check_penalty_weight(variable_weights[j], self.format_variable(int(j)))

    def _assign_weights_by_name(self, given: Mapping[Any, Any], variable_weights: Array, group_weights: Array) -> None:
        """Weights of groups by their labels and of variables by their names or columns; a label comes first."""
        for key, value in given.items():
            g = self._group_by_label.get(key)
            if g is None:
                j = self._find_weighted_column(key)
                variable_weights[j] = _check_penalty_weight(value, self.format_variable(j))
            else:
                (variable_weights if self._nontrivial_groups is None else group_weights)[g] = _check_penalty_weight(
                    value, self.format_group(g)
                )
        group = self._full_group_indices
        both = np.flatnonzero((variable_weights != 1) & np.isfinite(group_weights[group]))
        if both.size:
            name, label = self.format_variable(int(both[0])), self.format_group(int(group[both[0]]))
            raise ValueError(f"penalty_weights names {name} and its group, {label}; keep one of the two.")

    def _find_weighted_column(self, key: Any) -> int:
        """The column of a variable that weights call by its name or its number."""
        try:
            return self.find_column(key, "penalty_weights")
        except ValueError as error:
            nor = "" if self.groups is None else "; no group is called so either"
            raise ValueError(f"{str(error)[:-1]}{nor}.") from None

    @cached_property
    def _group_by_label(self) -> dict[Any, int]:
        """Groups by their labels; by the text of one too, where no variable is called so."""
        if self.groups is None:
            return {}
        called = {label: g for g, label in enumerate(self._group_indices_and_labels[1]) if not _is_ungrouped(label)}
        return {str(label): g for label, g in called.items() if str(label) not in self._column_by_name} | called

    def build_support_rules(self, sum_weights: bool | None = None) -> SupportRules | None:
        """Which supports are admissible, None where all are.

        Parameters
        ----------
        adding : bool, optional
            Whether the weights of a group's variables add up, as costs do, or count by the root of their squares, as a
            penalty does; by default every group costs one.
        """
        if not self.active_params:
            return None
        self._check_contradictions()
        labels = self._full_group_indices
        barred = _build_component_masks(self.excluded_columns, self.n_features)
        forced = _build_component_masks([labels[part] for part in self.included_columns], self.n_groups)
        cost = None if sum_weights is None else self._compute_group_costs(labels, barred, sum_weights)
        return SupportRules.from_groups(labels, cost, forced, barred)

    def _compute_group_costs(self, group_indices: Array, excluded: Array, sum_weights: bool) -> Array:
        """Of groups, (g, u), by their variables that are not barred."""
        own, of_groups = self.variable_and_group_weights or (np.ones(self.n_features), np.full(self.n_groups, np.nan))
        w = np.where(excluded, 0.0, own[:, None])
        summed = np.column_stack(
            [np.bincount(group_indices, v if sum_weights else v * v, minlength=self.n_groups) for v in w.T]
        )
        named = np.isfinite(of_groups)[:, None]
        return np.where(named, of_groups[:, None], summed if sum_weights else np.sqrt(summed))

    def _check_contradictions(self) -> None:
        """Refuse what contradicts itself."""
        for include, exclude in zip(self.included_columns, self.excluded_columns, strict=True):
            both = np.intersect1d(include, exclude)
            if both.size:
                raise ValueError(
                    f"{self._format_variables_with_verb(both)} in include and in exclude; keep each variable in one of "
                    "the two."
                )
            if exclude.size == self.n_features:
                raise ValueError(f"exclude names all {self.n_features} variables, which leaves none to use.")

    def check_levels(self, support_rules: SupportRules, levels: Sequence[float], parameter: str) -> None:
        """Refuse levels that what must be used does not fit into, or what may be used does not reach."""
        what = "groups" if self._nontrivial_groups is not None else "variables"
        for j, level in enumerate(levels):
            unit = support_rules.select_unit(j)
            forced, usable = np.flatnonzero(unit.required[:, 0]), unit.group_sizes[:, 0] > 0
            if unit.required_cost[0] > level * (1 + 1e-9):
                called = format_names([self.format_group(int(g)) for g in forced])
                cost = f"{forced.size} {what}" if parameter == "cardinality" else f"a cost of {unit.required_cost[0]:g}"
                raise ValueError(
                    f"include asks for {cost} ({called}), and {parameter}={level:g}; include fewer or raise it."
                )
            count = int(np.count_nonzero(usable))
            if parameter == "cardinality" and level > count:
                raise ValueError(f"cardinality={level:g}, and exclude leaves {count} {what}; ask for no more.")
            cheapest = float(np.min(unit.group_costs[usable, 0]))
            if parameter == "budget" and level < cheapest:
                raise ValueError(f"budget={level:g} pays for nothing: the cheapest of the {what} costs {cheapest:g}.")

    def _format_variables_with_verb(self, idx: Array) -> str:
        names = format_names([self.format_variable(int(j)) for j in idx])
        return f"{names} is" if idx.size == 1 else f"{names} are"


def check_required_have_variance(support_rules: SupportRules, norms: Array, names: FeatureNames) -> None:
    """Refuse variables that must be used and do not vary, by the norms of their columns."""
    still = support_rules.group_norms_sq(support_rules.mask_excluded(norms[:, None])) == 0
    idle = np.flatnonzero(support_rules.broadcast_to_variables(support_rules.required & still).any(axis=1))
    if idle.size:
        called = format_names([str(j) if names is None else repr(str(names[int(j)])) for j in idle])
        raise ValueError(f"include asks for {called}, which does not vary and can have no loading; leave it out.")


def _convert_series_to_dict(value: Any) -> Any:
    """A pandas Series of values by name as a dictionary; anything else, one by position too, as it is."""
    if not hasattr(value, "to_dict") or not all(isinstance(name, str) for name in value.index):
        return value
    return dict(zip(value.index, value, strict=True))


def _is_ungrouped(label: Any) -> bool:
    """Whether a label was made for a variable in no group: with its column."""
    return isinstance(label, tuple) and len(label) == 2 and label[0] is _UNGROUPED_MARKER


def _build_component_masks(lists: Sequence[Array], size: int) -> Array:
    """A column per component, or one where all are alike."""
    lists = lists[:1] if all(np.array_equal(lists[0], each) for each in lists) else lists
    masks = np.zeros((size, len(lists)), bool)
    for j, part in enumerate(lists):
        masks[part, j] = True
    return masks


def _is_numeric_vector(values: Any) -> bool:
    """Whether values are an array of real numbers."""
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiu"


def _to_float_or_nan(value: Any) -> float:
    """A number as it is; NaN for what is none."""
    return float(value) if is_number(value, Real) else float("nan")


def _check_penalty_weight(value: Any, owner: str) -> float:
    """A weight as it is, if it is one."""
    weight = _to_float_or_nan(value)
    if not 0 <= weight < float("inf"):
        raise ValueError(
            f"penalty_weights holds {weight:g} for {owner}; weights are finite numbers, none negative, and zero is "
            "free."
        )
    return weight
