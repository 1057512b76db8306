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
from gpower._utils.text import listed
from gpower._utils.warnings import Caution, GPowerWarning
from gpower.penalties.support_rules import Admissible
from gpower.validation.checks import is_a, is_listed, unboxed_list

#: What the variables are called, if they have names.
Names = Sequence[str] | Array | None
#: What stands in front of the column of a variable that is in no group.
_ALONE = object()
#: The parameters that say what is known.
WORDS = ("groups", "include", "exclude", "penalty_weights")


@dataclass(frozen=True, eq=False)
class Knowledge:
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
    names: Names = None
    groups: Any = None
    include: Any = None
    exclude: Any = None
    penalty_weights: Any = None

    @classmethod
    def of(cls, params: Mapping[str, Any], n: int, m: int, names: Names) -> Knowledge:
        """What an estimator was told."""
        told = {word: params.get(word) for word in WORDS}
        return cls(n, m, names, **told | {word: _by_index(told[word]) for word in ("groups", "penalty_weights")})

    @property
    def told(self) -> list[str]:
        """The parameters that say something."""
        something = {
            "groups": self.labels is not None,
            "include": any(part.size for part in self.included),
            "exclude": any(part.size for part in self.excluded),
            "penalty_weights": self.weights is not None,
        }
        return [word for word, says in something.items() if says]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {} if self.names is None else {str(name): j for j, name in enumerate(self.names)}

    def name(self, j: int) -> str:
        """How to call variable j in a sentence."""
        return repr(str(self.names[j])) if self.names is not None else str(j)

    def place(self, variable: Any, word: str) -> int:
        """The column of a variable that is called by its name or its number."""
        if is_a(variable, Integral):
            if 0 <= int(variable) < self.n_features:
                return int(variable)
            raise ValueError(
                f"{word} names column {variable}, and there are {self.n_features} variables, counted from 0."
            )
        if str(variable) in self._places:
            return self._places[str(variable)]
        if self.names is None:
            raise ValueError(f"{word} names {variable!r}, but the variables have no names; give column numbers.")
        near = difflib.get_close_matches(str(variable), self._places, 3)
        hint = f"; near are {', '.join(map(repr, near))}" if near else ""
        raise ValueError(f"{word} names {variable!r}, and no variable is called so{hint}.")

    @property
    def _grouped(self) -> tuple[Array, list[Any]] | None:
        """The same, None where each variable is alone."""
        return None if self.groups is None or len(self._called[1]) == self.n_features else self._called

    @cached_property
    def _called(self) -> tuple[Array, list[Any]]:
        """The group of every variable, from 0 on, and what the groups are called."""
        if self.groups is None:
            return np.arange(self.n_features), [(_ALONE, j) for j in range(self.n_features)]
        if isinstance(self.groups, np.ndarray) and self.groups.dtype.kind in "iuU" and self.groups.ndim == 1:
            return self._numbered(self.groups)
        labels = self._labels()
        for j, label in enumerate(labels):
            if not isinstance(label, Hashable):
                raise ValueError(
                    f"groups has {reprlib.repr(label)} for variable {self.name(j)}; a label is a name or a number, and "
                    "a variable is in one group."
                )
            if label is None or (label == label) is not True:  # not a number, or pandas' missing value
                raise ValueError(f"groups has no label for variable {self.name(j)}; each variable needs one.")
        called = list(dict.fromkeys(labels))
        number = {label: g for g, label in enumerate(called)}
        return self._told_apart(np.array([number[label] for label in labels], np.intp), called)

    def _numbered(self, labels: Array) -> tuple[Array, list[Any]]:
        """The same of an array, at once; groups in the order of their first variables."""
        self._check_length(labels.size)
        called, first, number = np.unique(labels, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))
        return self._told_apart(place[number], called[np.argsort(first)].tolist())

    def _told_apart(self, labels: Array, called: list[Any]) -> tuple[Array, list[Any]]:
        """Labels that leave something to choose."""
        if len(called) == 1 and self.n_features > 1:
            raise ValueError(
                f"groups puts all {self.n_features} variables into one group, {called[0]!r}, which leaves nothing to "
                "choose; give several groups, or None."
            )
        return labels, called

    def _check_length(self, count: int) -> None:
        if count != self.n_features:
            raise ValueError(
                f"groups has {count} labels, but there are {self.n_features} variables; give one for each, or a "
                "dictionary by name."
            )

    def _labels(self) -> list[Any]:
        """One label per variable; with a dictionary those that it does not name are groups of their own."""
        if isinstance(self.groups, Mapping):
            labels: list[Any] = [(_ALONE, j) for j in range(self.n_features)]
            for variable, label in self.groups.items():
                labels[self.place(variable, "groups")] = label
            return labels
        if not is_listed(self.groups):
            raise ValueError(f"groups={self.groups!r}: one label per variable is needed, or a dictionary by name.")
        labels = unboxed_list(self.groups)
        self._check_length(len(labels))
        return labels

    @property
    def labels(self) -> Array | None:
        """The group of every variable, from 0 on; None where each is alone."""
        return None if self._grouped is None else self._grouped[0]

    @property
    def _group(self) -> Array:
        """The same, (n,), where each is alone too."""
        return np.arange(self.n_features) if self.labels is None else self.labels

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.n_features if self._grouped is None else len(self._grouped[1])

    def group_name(self, g: int) -> str:
        """How to call a group in a sentence: a variable that is alone by its own name."""
        label = self._called[1][g]
        return self.name(label[1]) if _is_alone(label) else repr(label)

    def ranked(self, z: Array) -> list[Any]:
        """Labels of the groups with loadings, (n,), the largest by their squares first; variables alone by name."""
        labels, called = self._called
        squares = np.bincount(labels, z * z, minlength=len(called))
        order = np.argsort(-squares, kind="stable")[: np.count_nonzero(squares)]
        return [self._variable(called[g][1]) if _is_alone(called[g]) else called[g] for g in order]

    def _variable(self, j: int) -> str:
        """The name of variable j, made where it has none."""
        return f"x{j}" if self.names is None else str(self.names[j])

    @property
    def numbers(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups, that every component can have."""
        known = self.admissible()
        if known is None:
            return 1, self.n_features
        least, most = int(np.max(known.spent)), int(np.min(np.count_nonzero(known.sizes, axis=0)))
        return max(least, 1), most

    @cached_property
    def included(self) -> list[Array]:
        """Variables that must be used, for each component."""
        return self._lists("include")

    @cached_property
    def excluded(self) -> list[Array]:
        """Variables that must not be used, for each component."""
        return self._lists("exclude")

    def idle(self, Z: Array) -> list[list[str]]:
        """Included variables without a loading in each of some components, (m, n), that have any."""
        pairs = zip(Z, self.included, strict=True)
        return [[self.name(int(j)) for j in part if z.any() and not z[j]] for z, part in pairs]

    def told_idle(self, idle: Sequence[Sequence[str]]) -> Iterator[Caution]:
        """What there is to say of these."""
        told = [f"{listed(names)} in components_[{j}]" for j, names in enumerate(idle) if names]
        if told:
            yield (
                f"include asks for {listed(told)}, where the best loading is zero: the components before leave nothing "
                "of it, or what is left goes with no other variable, or only with the opposite sign.",
                GPowerWarning,
            )

    def _lists(self, word: str) -> list[Array]:
        """A list for all components, or one each."""
        given = getattr(self, word)
        if given is None:
            given = []
        if isinstance(given, str | Integral):
            given = [given]
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise ValueError(f"{word}={reprlib.repr(given)}: names or column numbers of variables are needed.")
        given = unboxed_list(given)
        nested = [is_listed(each) for each in given]
        if any(nested) and not all(nested):
            raise ValueError(f"{word} mixes variables and lists of them; give one list, or one for each component.")
        if any(nested) and len(given) != self.n_components:
            raise ValueError(
                f"{word} has {len(given)} lists, but n_components={self.n_components}; give one list for all "
                f"components, or {self.n_components}."
            )
        lists = given if any(nested) else [given]
        found = [np.unique(np.array([self.place(each, word) for each in part], np.intp)) for part in lists]
        return found if any(nested) else found * self.n_components

    @cached_property
    def weights(self) -> tuple[Array, Array] | None:
        """What variables weigh, (n,), and groups that a label names, (g,), NaN else; None where all weigh one."""
        given = self.penalty_weights
        if given is None:
            return None
        own, of_groups = np.ones(self.n_features), np.full(self.n_groups, np.nan)
        if isinstance(given, Mapping):
            self._weigh_by_name(given, own, of_groups)
        else:
            self._weigh_in_order(given, own)
        named = np.isfinite(of_groups)
        if not (own[~named[self._group]].any() or of_groups[named].any()):
            raise ValueError("penalty_weights are all zero, so that nothing is sparse; give some that are positive.")
        return None if np.all(own == 1) and not named.any() else (own, of_groups)

    def _weigh_in_order(self, given: Any, own: Array) -> None:
        """Weights of all variables, one after the other."""
        try:
            values = given if _is_numeric(given) else [_number(value) for value in given]
        except TypeError:
            told = "one non-negative number per variable is needed, or a dictionary by name"
            raise ValueError(f"penalty_weights={reprlib.repr(given)}: {told}.") from None
        if len(values) != self.n_features:
            raise ValueError(
                f"penalty_weights has {len(values)} entries, but there are {self.n_features} variables; give one for "
                "each."
            )
        own[:] = values
        for j in np.flatnonzero(~((own >= 0) & (own < np.inf)))[:1]:
            _weight(own[j], self.name(int(j)))

    def _weigh_by_name(self, given: Mapping[Any, Any], own: Array, of_groups: Array) -> None:
        """Weights of groups by their labels and of variables by their names or columns; a label comes first."""
        for key, value in given.items():
            g = self._numbers.get(key)
            if g is None:
                j = self._weighed(key)
                own[j] = _weight(value, self.name(j))
            else:
                (own if self._grouped is None else of_groups)[g] = _weight(value, self.group_name(g))
        group = self._group
        both = np.flatnonzero((own != 1) & np.isfinite(of_groups[group]))
        if both.size:
            name, label = self.name(int(both[0])), self.group_name(int(group[both[0]]))
            raise ValueError(f"penalty_weights names {name} and its group, {label}; keep one of the two.")

    def _weighed(self, key: Any) -> int:
        """The column of a variable that weights call by its name or its number."""
        try:
            return self.place(key, "penalty_weights")
        except ValueError as error:
            nor = "" if self.groups is None else "; no group is called so either"
            raise ValueError(f"{str(error)[:-1]}{nor}.") from None

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        """Groups by their labels; by the text of one too, where no variable is called so."""
        if self.groups is None:
            return {}
        called = {label: g for g, label in enumerate(self._called[1]) if not _is_alone(label)}
        return {str(label): g for label, g in called.items() if str(label) not in self._places} | called

    def admissible(self, adding: bool | None = None) -> Admissible | None:
        """Which supports are admissible, None where all are.

        Parameters
        ----------
        adding : bool, optional
            Whether the weights of a group's variables add up, as costs do, or count by the root of their squares, as a
            penalty does; by default every group costs one.
        """
        if not self.told:
            return None
        self._check()
        labels = self._group
        barred = _masks(self.excluded, self.n_features)
        forced = _masks([labels[part] for part in self.included], self.n_groups)
        cost = None if adding is None else self._costs(labels, barred, adding)
        return Admissible.of(labels, cost, forced, barred)

    def _costs(self, labels: Array, barred: Array, adding: bool) -> Array:
        """Of groups, (g, u), by their variables that are not barred."""
        own, of_groups = self.weights or (np.ones(self.n_features), np.full(self.n_groups, np.nan))
        w = np.where(barred, 0.0, own[:, None])
        summed = np.column_stack([np.bincount(labels, v if adding else v * v, minlength=self.n_groups) for v in w.T])
        named = np.isfinite(of_groups)[:, None]
        return np.where(named, of_groups[:, None], summed if adding else np.sqrt(summed))

    def _check(self) -> None:
        """Refuse what contradicts itself."""
        for include, exclude in zip(self.included, self.excluded, strict=True):
            both = np.intersect1d(include, exclude)
            if both.size:
                raise ValueError(f"{self._list(both)} in include and in exclude; keep each variable in one of the two.")
            if exclude.size == self.n_features:
                raise ValueError(f"exclude names all {self.n_features} variables, which leaves none to use.")

    def check_level(self, known: Admissible, levels: Sequence[float], word: str) -> None:
        """Refuse levels that what must be used does not fit into, or what may be used does not reach."""
        what = "groups" if self._grouped is not None else "variables"
        for j, level in enumerate(levels):
            unit = known.unit(j)
            forced, usable = np.flatnonzero(unit.forced[:, 0]), unit.sizes[:, 0] > 0
            if unit.spent[0] > level * (1 + 1e-9):
                called = listed([self.group_name(int(g)) for g in forced])
                cost = f"{forced.size} {what}" if word == "cardinality" else f"a cost of {unit.spent[0]:g}"
                raise ValueError(
                    f"include asks for {cost} ({called}), and {word}={level:g}; include fewer or raise it."
                )
            count = int(np.count_nonzero(usable))
            if word == "cardinality" and level > count:
                raise ValueError(f"cardinality={level:g}, and exclude leaves {count} {what}; ask for no more.")
            cheapest = float(np.min(unit.cost[usable, 0]))
            if word == "budget" and level < cheapest:
                raise ValueError(f"budget={level:g} pays for nothing: the cheapest of the {what} costs {cheapest:g}.")

    def _list(self, idx: Array) -> str:
        names = listed([self.name(int(j)) for j in idx])
        return f"{names} is" if idx.size == 1 else f"{names} are"


def check_varies(known: Admissible, norms: Array, names: Names) -> None:
    """Refuse variables that must be used and do not vary, by the norms of their columns."""
    still = known.energy(known.seen(norms[:, None])) == 0
    idle = np.flatnonzero(known.spread(known.forced & still).any(axis=1))
    if idle.size:
        called = listed([str(j) if names is None else repr(str(names[int(j)])) for j in idle])
        raise ValueError(f"include asks for {called}, which does not vary and can have no loading; leave it out.")


def _by_index(value: Any) -> Any:
    """A pandas Series of values by name as a dictionary; anything else, one by position too, as it is."""
    if not hasattr(value, "to_dict") or not all(isinstance(name, str) for name in value.index):
        return value
    return dict(zip(value.index, value, strict=True))


def _is_alone(label: Any) -> bool:
    """Whether a label was made for a variable in no group: with its column."""
    return isinstance(label, tuple) and len(label) == 2 and label[0] is _ALONE


def _masks(lists: Sequence[Array], size: int) -> Array:
    """A column per component, or one where all are alike."""
    lists = lists[:1] if all(np.array_equal(lists[0], each) for each in lists) else lists
    masks = np.zeros((size, len(lists)), bool)
    for j, part in enumerate(lists):
        masks[part, j] = True
    return masks


def _is_numeric(values: Any) -> bool:
    """Whether values are an array of real numbers."""
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiu"


def _number(value: Any) -> float:
    """A number as it is; NaN for what is none."""
    return float(value) if is_a(value, Real) else float("nan")


def _weight(value: Any, whose: str) -> float:
    """A weight as it is, if it is one."""
    weight = _number(value)
    if not 0 <= weight < float("inf"):
        raise ValueError(
            f"penalty_weights holds {weight:g} for {whose}; weights are finite numbers, none negative, and zero is "
            "free."
        )
    return weight
