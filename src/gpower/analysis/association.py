"""What is known of the samples beside the table, and how each component goes with it.

A column of metadata is measured (numbers, of which there are many) or grouped (words, or a few whole numbers). Measured
ones are held against scores by Spearman's rank correlation, groups by the test of Kruskal and Wallis; scores that take
a few values only, as a component of one yes-or-no variable does, against groups by χ² of the table of counts. All
p-values together are corrected after Benjamini and Hochberg (1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gpower._utils.arrays import Array

#: Words that stand for nothing known.
MISSING = frozenset(("", "?", "na", "n/a", "nan", "none", "null", "<na>", "missing", "unknown", "not available"))
#: Whole numbers of at most so many different values are groups; so are scores for the table of counts.
FEW = 6
#: Samples that a test needs, and those that make a group.
LEAST, LEAST_GROUP = 4, 2

#: Columns by name: a mapping, or a frame of pandas.
Metadata: TypeAlias = Mapping[str, Iterable[object]]


@dataclass(frozen=True, eq=False)
class Column:
    """A column of metadata.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        Numbers where it is measured, words where it is grouped.
    known : ndarray of bool
        Where there is a value.
    """

    values: Array
    known: NDArray[np.bool_]

    @property
    def is_measured(self) -> bool:
        """Whether its values are numbers to be ranked."""
        return self.values.dtype.kind == "f"

    @property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """The samples of each group, in the order in which the groups come; numbers in their own."""
        words = list(dict.fromkeys(self.values[self.known].tolist()))
        with suppress(ValueError):
            words.sort(key=float)
        return {str(word): np.flatnonzero(self.known & (self.values == word)) for word in words}


def column_of(values: Iterable[object]) -> Column:
    """Values of any kind as a column: what they are is told by themselves.

    Examples
    --------
    >>> column_of(["1.5", "2.25", "NA", "7"]).is_measured, column_of([0, 1, 1, 0]).is_measured
    (True, False)
    >>> column_of(["a", None, "b", "a"]).groups
    {'a': array([0, 3]), 'b': array([2])}
    """
    words = ["" if value is None else str(value).strip() for value in values]
    known = np.array([word.lower() not in MISSING for word in words], bool)
    try:
        numbers = np.array([float(word) if there else np.nan for word, there in zip(words, known, strict=True)])
    except ValueError:
        return Column(np.array(words, dtype=object), known)
    known = known & np.isfinite(numbers)
    distinct = np.unique(numbers[known])
    counted = distinct.size <= 2 or (distinct.size <= FEW and np.all(distinct == distinct.round()))
    return Column(np.array(words, dtype=object), known) if counted else Column(numbers, known)


def in_order_of(X: object, metadata: Metadata, names: Sequence[str] | None = None) -> Metadata:
    """Metadata in the order of the samples: the rows of a frame by its index, where that and the data name samples.

    `names` are those of the samples, by default a frame's index. Rows that are only numbered stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> X, ages = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]), pd.DataFrame({"age": [50, 40]}, index=["b", "a"])
    >>> in_order_of(X, ages)["age"].tolist()
    [40, 50]
    """
    names = names_of_rows(X) if names is None else list(map(str, names))
    told = names_of_rows(metadata)
    if names is None or told is None or told == names:
        return metadata
    place = {name: i for i, name in enumerate(told)}
    strange = next((name for name in names if name not in place), None)
    if strange is not None or len(place) < len(told):
        raise ValueError(
            "metadata: the index names a sample twice; keep one row for each."
            if strange is None
            else f"metadata: the index has no row for the sample {strange!r}; give one for each sample of the data, as "
            "metadata.reindex(X.index) does: one without values where there is none."
        )
    return metadata.iloc[[place[name] for name in names]]  # type: ignore[attr-defined]


def names_of_rows(frame: object) -> list[str] | None:
    """The names in the index of a frame; None where it has none, or but numbers from 0."""
    index = getattr(frame, "index", None)
    if index is None or callable(index) or not isinstance(index, Iterable):
        return None
    names = [str(name) for name in index]
    return None if names == [str(i) for i in range(len(names))] else names


def columns_of(metadata: Metadata, n_samples: int) -> dict[str, Column]:
    """The columns of metadata by name, if each has a value for every sample."""
    columns = {str(name): column_of(values) for name, values in metadata.items()}
    for name, column in columns.items():
        if column.values.size != n_samples:
            raise ValueError(f"metadata: {name!r} has {column.values.size} values, but there are {n_samples} samples.")
    if not columns:
        raise ValueError("metadata has no column; give at least one, such as {'group': [...]}.")
    return columns


@dataclass(frozen=True, eq=False)
class Association:
    """How each component goes with each column of metadata, as `associate` returns it.

    Attributes
    ----------
    names, tests : tuple of str
        The columns, and by which test each was held against the scores.
    strength : ndarray of shape (n_components, n_columns)
        Between 0 and 1: |Spearman's ρ|, the square root of the share of the ranks' variance between groups, or
        Cramér's V. NaN where nothing can be said: fewer than four samples, one group, one value.
    sign : ndarray of the same shape
        Of ρ; zero for groups.
    p_values, adjusted_p_values : ndarray of the same shape
        As they are, and after the correction for all that were made.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.association import associate
    >>> found = associate(np.arange(12.0)[:, None], {"age": np.arange(12.0), "batch": ["a", "b"] * 6})
    >>> found.names, found.adjusted_p_values.round(2)
    (('age', 'batch'), array([[0.  , 0.63]]))
    """

    names: tuple[str, ...]
    tests: tuple[str, ...]
    strength: Array
    sign: Array
    p_values: Array
    adjusted_p_values: Array


def associate(scores: Array, metadata: Metadata) -> Association:
    """Hold every component against every column of metadata.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_components)
    metadata : mapping of str to sequence, or pandas.DataFrame
        A value for every sample; None, NaN and words such as "NA" are missing, and their samples left out.

    Returns
    -------
    Association
        Strength, sign and p-values of each component with each column.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.association import associate
    >>> scores = np.arange(12.0)[:, None]
    >>> found = associate(scores, {"age": scores[:, 0] ** 2 + 0.5, "batch": ["a", "b"] * 6})
    >>> found.tests, found.strength.round(2)
    (('Spearman', 'Kruskal–Wallis'), array([[1.  , 0.14]]))
    """
    scores = np.asarray(scores, float)
    columns = columns_of(metadata, len(scores))
    cells = [[_held_against(scores[:, j], column) for column in columns.values()] for j in range(scores.shape[1])]
    strength, p_values, tested = (np.array([[cell[i] for cell in row] for row in cells], float) for i in range(3))
    adjusted, made = np.full(p_values.shape, np.nan), np.isfinite(p_values)
    if made.any():
        adjusted[made] = stats.false_discovery_control(p_values[made], method="bh")
    sign = np.where(tested == 0, np.sign(strength), 0.0)
    tests = tuple(TESTS[int(column.max(initial=0))] for column in np.nan_to_num(tested).T)
    return Association(tuple(columns), tests, np.abs(strength), sign, p_values, adjusted)


TESTS = ("Spearman", "Kruskal–Wallis", "χ²")


def _held_against(score: Array, column: Column) -> tuple[float, float, int]:
    """Strength of the association, signed where it has a direction; its p-value; and which of the tests it is."""
    if column.is_measured:
        return (*_ranked(score[column.known], column.values[column.known]), 0)
    groups = [score[members] for members in column.groups.values() if members.size >= LEAST_GROUP]
    together = np.concatenate(groups) if groups else np.zeros(0)
    few = 1 < np.unique(together).size <= FEW
    if len(groups) < 2 or together.size < LEAST or np.ptp(together) == 0:
        return np.nan, np.nan, 1 + few
    return (*_counted(groups, together), 2) if few else (*_between(groups), 1)


def _ranked(score: Array, values: Array) -> tuple[float, float]:
    if score.size < LEAST or np.ptp(score) == 0 or np.ptp(values) == 0:
        return np.nan, np.nan
    found = stats.spearmanr(score, values)
    return float(found.statistic), float(found.pvalue)


def _between(groups: Sequence[Array]) -> tuple[float, float]:
    statistic, p_value = stats.kruskal(*groups)
    return float(np.sqrt(min(statistic / (sum(map(len, groups)) - 1), 1.0))), float(p_value)


def _counted(groups: Sequence[Array], together: Array) -> tuple[float, float]:
    levels = np.unique(together)
    counts = np.array([[np.count_nonzero(group == level) for level in levels] for group in groups])
    found = stats.chi2_contingency(counts, correction=False)
    return float(np.sqrt(found.statistic / (counts.sum() * (min(counts.shape) - 1)))), float(found.pvalue)
