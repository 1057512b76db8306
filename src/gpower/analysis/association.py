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
MISSING_VALUE_WORDS = frozenset(
    ("", "?", "na", "n/a", "nan", "none", "null", "<na>", "missing", "unknown", "not available")
)
#: Whole numbers of at most so many different values are groups; so are scores for the table of counts.
MAX_CATEGORIES = 6
#: Samples that a test needs, and those that make a group.
MIN_TEST_SAMPLES, MIN_GROUP_SAMPLES = 4, 2

#: Columns by name: a mapping, or a frame of pandas.
Metadata: TypeAlias = Mapping[str, Iterable[object]]


@dataclass(frozen=True, eq=False)
class MetadataColumn:
    """A column of metadata.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        Numbers where it is measured, words where it is grouped.
    known : ndarray of bool
        Where there is a value.
    """

    values: Array
    is_known: NDArray[np.bool_]

    @property
    def is_continuous(self) -> bool:
        """Whether its values are numbers to be ranked."""
        return self.values.dtype.kind == "f"

    @property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """The samples of each group, in the order in which the groups come; numbers in their own."""
        words = list(dict.fromkeys(self.values[self.is_known].tolist()))
        with suppress(ValueError):
            words.sort(key=float)
        return {str(word): np.flatnonzero(self.is_known & (self.values == word)) for word in words}


def parse_metadata_column(values: Iterable[object]) -> MetadataColumn:
    """Values of any kind as a column: what they are is told by themselves.

    Examples
    --------
    >>> parse_metadata_column(["1.5", "2.25", "NA", "7"]).is_continuous
    True
    >>> parse_metadata_column([0, 1, 1, 0]).is_continuous
    False
    >>> parse_metadata_column(["a", None, "b", "a"]).groups
    {'a': array([0, 3]), 'b': array([2])}
    """
    words = ["" if value is None else str(value).strip() for value in values]
    known = np.array([word.lower() not in MISSING_VALUE_WORDS for word in words], bool)
    try:
        numbers = np.array([float(word) if there else np.nan for word, there in zip(words, known, strict=True)])
    except ValueError:
        return MetadataColumn(np.array(words, dtype=object), known)
    known = known & np.isfinite(numbers)
    distinct = np.unique(numbers[known])
    counted = distinct.size <= 2 or (distinct.size <= MAX_CATEGORIES and np.all(distinct == distinct.round()))
    return MetadataColumn(np.array(words, dtype=object), known) if counted else MetadataColumn(numbers, known)


def align_metadata(X: object, metadata: Metadata, names: Sequence[str] | None = None) -> Metadata:
    """Metadata in the order of the samples: the rows of a frame by its index, where that and the data name samples.

    `names` are those of the samples, by default a frame's index. Rows that are only numbered stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> X, ages = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]), pd.DataFrame({"age": [50, 40]}, index=["b", "a"])
    >>> align_metadata(X, ages)["age"].tolist()
    [40, 50]
    """
    names = get_row_names(X) if names is None else list(map(str, names))
    told = get_row_names(metadata)
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


def get_row_names(frame: object) -> list[str] | None:
    """The names in the index of a frame; None where it has none, or but numbers from 0."""
    index = getattr(frame, "index", None)
    if index is None or callable(index) or not isinstance(index, Iterable):
        return None
    names = [str(name) for name in index]
    return None if names == [str(i) for i in range(len(names))] else names


def parse_metadata(metadata: Metadata, n_samples: int) -> dict[str, MetadataColumn]:
    """The columns of metadata by name, if each has a value for every sample."""
    columns = {str(name): parse_metadata_column(values) for name, values in metadata.items()}
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
    columns = parse_metadata(metadata, len(scores))
    cells = [[_test_association(scores[:, j], column) for column in columns.values()] for j in range(scores.shape[1])]
    strength, p_values, tested = (np.array([[cell[i] for cell in row] for row in cells], float) for i in range(3))
    adjusted, made = np.full(p_values.shape, np.nan), np.isfinite(p_values)
    if made.any():
        adjusted[made] = stats.false_discovery_control(p_values[made], method="bh")
    sign = np.where(tested == 0, np.sign(strength), 0.0)
    tests = tuple(TEST_NAMES[int(column.max(initial=0))] for column in np.nan_to_num(tested).T)
    return Association(tuple(columns), tests, np.abs(strength), sign, p_values, adjusted)


TEST_NAMES = ("Spearman", "Kruskal–Wallis", "χ²")


def _test_association(score: Array, column: MetadataColumn) -> tuple[float, float, int]:
    """Strength of the association, signed where it has a direction; its p-value; and which of the tests it is."""
    if column.is_continuous:
        return (*_test_spearman(score[column.is_known], column.values[column.is_known]), 0)
    groups = [score[members] for members in column.groups.values() if members.size >= MIN_GROUP_SAMPLES]
    together = np.concatenate(groups) if groups else np.zeros(0)
    few = 1 < np.unique(together).size <= MAX_CATEGORIES
    if len(groups) < 2 or together.size < MIN_TEST_SAMPLES or np.ptp(together) == 0:
        return np.nan, np.nan, 1 + few
    return (*_test_chi2(groups, together), 2) if few else (*_test_kruskal(groups), 1)


def _test_spearman(score: Array, values: Array) -> tuple[float, float]:
    if score.size < MIN_TEST_SAMPLES or np.ptp(score) == 0 or np.ptp(values) == 0:
        return np.nan, np.nan
    found = stats.spearmanr(score, values)
    return float(found.statistic), float(found.pvalue)


def _test_kruskal(groups: Sequence[Array]) -> tuple[float, float]:
    statistic, p_value = stats.kruskal(*groups)
    return float(np.sqrt(min(statistic / (sum(map(len, groups)) - 1), 1.0))), float(p_value)


def _test_chi2(groups: Sequence[Array], pooled_scores: Array) -> tuple[float, float]:
    levels = np.unique(pooled_scores)
    counts = np.array([[np.count_nonzero(group == level) for level in levels] for group in groups])
    found = stats.chi2_contingency(counts, correction=False)
    return float(np.sqrt(found.statistic / (counts.sum() * (min(counts.shape) - 1)))), float(found.pvalue)
