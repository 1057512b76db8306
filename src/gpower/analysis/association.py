"""Test the association of component scores with metadata of the samples.

A column of metadata is continuous (numbers) or categorical (words, at most six different whole numbers, or any two
values; in Python also numbers as text or categories of a frame or an array). Columns in which each sample has a word of
its own are left out. Continuous columns are compared with the scores by Spearman's rank correlation, categorical ones
by the Kruskal–Wallis test. If the scores take only a few values, as those of a component of one binary variable do,
categorical columns are compared by the χ² test of the contingency table. All p-values together are adjusted by the
Benjamini–Hochberg procedure (1995).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gpower._utils.arrays import Array
from gpower._utils.text import format_names, is_missing_label
from gpower.io.tables.metadata import describe_unmatched_samples, explain_unmatched_names

#: Most different values of whole numbers that are treated as categories, and of scores for the χ² test.
MAX_CATEGORIES = 6
#: Fewest samples of a test, and of a group that takes part in it.
MIN_TEST_SAMPLES, MIN_GROUP_SAMPLES = 4, 2
TEST_NAMES = ("Spearman", "Kruskal–Wallis", "χ²")

#: Columns by name: a mapping, or a pandas DataFrame. `align_metadata` also accepts a Series.
Metadata: TypeAlias = Mapping[str, Iterable[object]]


@dataclass(frozen=True, eq=False)
class MetadataColumn:
    """A column of metadata.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        float64 if the column is continuous, text (dtype object) if it is categorical.
    is_known : ndarray of bool of shape (n_samples,)
        Whether each sample has a value.
    """

    values: Array
    is_known: NDArray[np.bool_]

    @property
    def is_continuous(self) -> bool:
        """Return whether the values are numbers to be ranked."""
        return self.values.dtype.kind == "f"

    @property
    def is_identifier(self) -> bool:
        """Return whether each sample has a word of its own, which no test can use."""
        return not self.is_continuous and 1 < len(self.groups) == np.count_nonzero(self.is_known)

    @property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """Return the samples of each group, sorted by name, or increasing if they are numbers."""
        words = sorted(set(self.values[self.is_known].tolist()), key=_make_sorting_key)
        with suppress(ValueError):
            words.sort(key=float)
        return {str(word): np.flatnonzero(self.is_known & (self.values == word)) for word in words}


def _make_sorting_key(word: object) -> tuple[list[str | int], str]:
    """Return the key that sorts a word by its letters in either case, and the numbers in it by their value."""
    parts = re.split(r"([0-9]+)", str(word).casefold())  # numbers have the odd places
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], str(word)


def parse_metadata_column(values: Iterable[object]) -> MetadataColumn:
    """Return values as a column, continuous or categorical as their dtype or their content suggests.

    Categories and text of a frame or an array are groups, also if they look like numbers. A list of text has no dtype.

    Examples
    --------
    >>> parse_metadata_column(["1.5", "2.25", "NA", "7"]).is_continuous
    True
    >>> parse_metadata_column([0, 1, 1, 0]).is_continuous
    False
    >>> parse_metadata_column(np.array(["1.5", "2.25", "NA", "7"])).is_continuous
    False
    >>> parse_metadata_column(["a", None, "b", "a"]).groups
    {'a': array([0, 3]), 'b': array([2])}
    """
    values, dtype = list(values), str(getattr(values, "dtype", "list"))
    words = ["" if value is None else str(value).strip() for value in values]
    is_known = np.array([not is_missing_label(word) for word in words], bool)
    try:
        numbers = np.array([float(word) if known else np.nan for word, known in zip(words, is_known, strict=True)])
    except ValueError:
        return MetadataColumn(np.array(words, dtype=object), is_known)
    is_known = is_known & np.isfinite(numbers)
    distinct = np.unique(numbers[is_known])
    is_text = dtype != "list" and all(isinstance(values[i], str) for i in np.flatnonzero(is_known))
    has_few_values = distinct.size <= 2 or (distinct.size <= MAX_CATEGORIES and np.all(distinct == distinct.round()))
    if not (is_text or has_few_values or dtype.lower().startswith(("categor", "enum"))):
        return MetadataColumn(numbers, is_known)
    return MetadataColumn(np.array([word.removesuffix(".0") for word in words], dtype=object), is_known)


def align_metadata(
    X: object, metadata: Metadata, names: Sequence[str] | None = None, metadata_by_order: bool = False
) -> Metadata:
    """Return metadata in the order of the samples, by `align_rows`, also each column of a mapping.

    A Series is a DataFrame of one column, named "metadata" if the Series has no name.

    Examples
    --------
    >>> import pandas as pd
    >>> X, ages = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]), pd.DataFrame({"age": [50, 40]}, index=["b", "a"])
    >>> align_metadata(X, ages)["age"].tolist()
    [40, 50]
    """
    if hasattr(metadata, "to_frame"):
        name = getattr(metadata, "name", None)
        metadata = metadata.to_frame("metadata" if name is None else name)
    return align_rows(X, metadata, "metadata", names, metadata_by_order)


def align_rows(
    X: object, values: Any, parameter: str, names: Sequence[str] | None = None, by_order: bool = False
) -> Any:
    """Return values of the samples in the order of X: the rows of a Series or DataFrame are selected by its index.

    `names` are the names of the samples, by default the index of X. Values without an index stay as they are, and so do
    all values with `by_order`, or for an array without names. An index that counts from 0 has no names: it is used if X
    has the same numbers, and otherwise the rows are in the order of X. Raise ValueError, which names `parameter`, if
    the values have names and the index of X has none, or others.

    Examples
    --------
    >>> import pandas as pd
    >>> X, ages = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]), pd.Series([50, 40], index=["b", "a"])
    >>> align_rows(X, ages, "color").tolist(), align_rows(X, {"age": [50, 40]}, "color")
    ([40, 50], {'age': [50, 40]})
    """
    if isinstance(values, Mapping):
        return {key: align_rows(X, each, f"{parameter}[{key!r}]", names, by_order) for key, each in values.items()}
    sample_names = _list_index(X) if names is None else list(map(str, names))
    row_names = _list_index(values)
    if by_order or row_names is None or sample_names is None or row_names == sample_names:
        return values
    rows, samples = set(row_names), set(sample_names)
    if samples and (rows == samples or (rows > samples and not _is_count(sample_names))):
        if len(rows) < len(row_names):
            raise ValueError(f"{parameter}: the index names a sample twice; keep one row for each.")
        row_of = {name: i for i, name in enumerate(row_names)}
        return values.iloc[[row_of[name] for name in sample_names]]
    if _is_count(row_names):
        return values
    by_order_advice = f"{parameter}.reset_index(drop=True) matches the rows by order"
    if _is_count(sample_names):
        reason = f"the index names the rows ({format_names(row_names, 3)}), but X has no sample names"
        advice = f"Give X these names as its index; {by_order_advice}"
    else:
        reason = f"by the index, {describe_unmatched_samples(sample_names, row_names)}"
        advice = (
            "Give one row for each sample of the data: "
            f"{parameter}.reindex(X.index) adds rows without values, and {by_order_advice}"
        )
    columns = list(map(str, getattr(X, "columns", ())))
    cause = explain_unmatched_names(sample_names, row_names, columns, "pass X.T")
    raise ValueError(f"{parameter}: {reason}. {cause or advice}.")


def get_row_names(frame: object) -> list[str] | None:
    """Return the index of a DataFrame as text; None if there is none, or if it only counts the rows from 0."""
    names = _list_index(frame)
    return None if names is None or _is_count(names) else names


def _list_index(frame: object) -> list[str] | None:
    index = getattr(frame, "index", None)
    return None if callable(index) or not isinstance(index, Iterable) else [str(name) for name in index]


def _is_count(names: Sequence[str]) -> bool:
    return names == [str(i) for i in range(len(names))]


def parse_metadata(metadata: Metadata, n_samples: int) -> dict[str, MetadataColumn]:
    """Return the columns of metadata by name; raise if there are none, or if one does not have n_samples values."""
    columns = {str(name): parse_metadata_column(values) for name, values in metadata.items()}
    for name, column in columns.items():
        if column.values.size != n_samples:
            raise ValueError(f"metadata: {name!r} has {column.values.size} values, but there are {n_samples} samples.")
    if not columns:
        raise ValueError("metadata has no column; give at least one, such as {'group': [...]}.")
    return columns


@dataclass(frozen=True, eq=False)
class Association:
    """Association of each component with each column of metadata, the result of `associate`.

    Attributes
    ----------
    names, tests : tuple of str
        Names of the columns, and the test that was used for each.
    strength : ndarray of shape (n_components, n_columns)
        Between 0 and 1: |Spearman's ρ|, the square root of the share of the ranks' variance between groups, or
        Cramér's V. NaN if there are fewer than four samples, one group, or one value.
    sign : ndarray of shape (n_components, n_columns)
        Sign of ρ; zero for groups.
    p_values, adjusted_p_values : ndarray of shape (n_components, n_columns)
        p-values, and p-values adjusted for all tests that were made.
    identifiers : tuple of str
        Names of the columns that were left out because each sample has a word of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.association import associate
    >>> result = associate(np.arange(12.0)[:, None], {"age": np.arange(12.0), "batch": ["a", "b"] * 6})
    >>> result.names, result.adjusted_p_values.round(2)
    (('age', 'batch'), array([[0.  , 0.63]]))
    """

    names: tuple[str, ...]
    tests: tuple[str, ...]
    strength: Array
    sign: Array
    p_values: Array
    adjusted_p_values: Array
    identifiers: tuple[str, ...] = ()


def associate(scores: Array, metadata: Metadata) -> Association:
    """Test the association of every component with every column of metadata.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_components)
    metadata : mapping of str to sequence, or pandas.DataFrame
        One value per sample. None, NaN and words such as "NA" are missing; a test leaves out samples without a value.
        Columns in which each sample has a word of its own, such as a name, are left out.

    Returns
    -------
    Association
        Strength, sign and p-values of each component with each column.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.association import associate
    >>> scores = np.arange(12.0)[:, None]
    >>> result = associate(scores, {"age": scores[:, 0] ** 2 + 0.5, "batch": ["a", "b"] * 6})
    >>> result.tests, result.strength.round(2)
    (('Spearman', 'Kruskal–Wallis'), array([[1.  , 0.14]]))
    """
    scores = np.asarray(scores, float)
    parsed = parse_metadata(metadata, len(scores))
    columns = {name: column for name, column in parsed.items() if not column.is_identifier}
    shape = scores.shape[1], len(columns), 3
    cells = [_test_association(score, column) for score in scores.T for column in columns.values()]
    strength, p_values, test = np.moveaxis(np.array(cells, float).reshape(shape), 2, 0)
    adjusted = np.full(p_values.shape, np.nan)
    is_tested = np.isfinite(p_values)
    if is_tested.any():
        adjusted[is_tested] = stats.false_discovery_control(p_values[is_tested], method="bh")
    sign = np.where(test == 0, np.sign(strength), 0.0)
    tests = tuple(TEST_NAMES[int(column.max(initial=0))] for column in np.nan_to_num(test).T)
    identifiers = tuple(name for name in parsed if name not in columns)
    return Association(tuple(columns), tests, np.abs(strength), sign, p_values, adjusted, identifiers)


def _test_association(score: Array, column: MetadataColumn) -> tuple[float, float, int]:
    """Return the strength, signed for Spearman's test; the p-value; and the index of the test in `TEST_NAMES`."""
    if column.is_continuous:
        return (*_test_spearman(score[column.is_known], column.values[column.is_known]), 0)
    groups = [score[members] for members in column.groups.values() if members.size >= MIN_GROUP_SAMPLES]
    pooled = np.concatenate(groups) if groups else np.zeros(0)
    has_few_scores = 1 < np.unique(pooled).size <= MAX_CATEGORIES
    if len(groups) < 2 or pooled.size < MIN_TEST_SAMPLES or np.ptp(pooled) == 0:
        return np.nan, np.nan, 1 + has_few_scores
    return (*_test_chi2(groups, pooled), 2) if has_few_scores else (*_test_kruskal(groups), 1)


def _test_spearman(score: Array, values: Array) -> tuple[float, float]:
    if score.size < MIN_TEST_SAMPLES or np.ptp(score) == 0 or np.ptp(values) == 0:
        return np.nan, np.nan
    result = stats.spearmanr(score, values)
    return float(result.statistic), float(result.pvalue)


def _test_kruskal(groups: Sequence[Array]) -> tuple[float, float]:
    statistic, p_value = stats.kruskal(*groups)
    return float(np.sqrt(min(statistic / (sum(map(len, groups)) - 1), 1.0))), float(p_value)


def _test_chi2(groups: Sequence[Array], pooled_scores: Array) -> tuple[float, float]:
    levels = np.unique(pooled_scores)
    counts = np.array([[np.count_nonzero(group == level) for level in levels] for group in groups])
    result = stats.chi2_contingency(counts, correction=False)
    return float(np.sqrt(result.statistic / (counts.sum() * (min(counts.shape) - 1)))), float(result.pvalue)
