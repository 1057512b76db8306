"""The samples that a page shows: their names, scores, distances and metadata, and the values of some variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import Metadata, MetadataColumn, parse_metadata, parse_metadata_column
from gpower.estimators.base import SparsePCAEstimator

#: Largest numbers of samples and of columns of metadata on a page, and of embedded values of single variables.
MAX_REPORT_SAMPLES, MAX_METADATA_COLUMNS, MAX_EMBEDDED_VALUES = 2000, 12, 250_000
#: Share of normal samples within the limits of the distances.
OUTLIER_LIMIT_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class ReportSamples:
    """Samples as a page shows them, and the values of some variables.

    Attributes
    ----------
    row_indices : ndarray of int of shape (n_shown,)
        Rows of the data, in the order of the page.
    sample_names : list of str
    scores : ndarray of shape (n_shown, n_components)
    hotelling_t2, squared_residual : ndarray of shape (n_shown,)
        Distances within and outside the components.
    limits : pair of float
        Limits of the two distances that a share `OUTLIER_LIMIT_LEVEL` of normal samples does not exceed.
    metadata_columns : dict of str to MetadataColumn
    variable_indices : ndarray of int of shape (n_variables,)
        Variables whose values are in the page.
    variable_values : ndarray of float32 of shape (n_shown, n_variables)
    n_samples : int
        Number of samples of the data.
    omitted_columns : tuple of str
        Columns of metadata that are not shown.
    """

    row_indices: NDArray[np.intp]
    sample_names: list[str]
    scores: Array
    hotelling_t2: Array
    squared_residual: Array
    limits: tuple[float, float]
    metadata_columns: dict[str, MetadataColumn]
    variable_indices: NDArray[np.intp]
    variable_values: Array
    n_samples: int
    omitted_columns: tuple[str, ...]

    @property
    def is_beyond_limits(self) -> NDArray[np.bool_]:
        """Return whether each sample exceeds each limit, of shape (n_shown, 2)."""
        return np.column_stack([self.hotelling_t2, self.squared_residual]) > np.array(self.limits)

    @property
    def n_beyond_limits(self) -> tuple[int, int]:
        """Return the number of samples that exceed each limit."""
        n_t2, n_residual = self.is_beyond_limits.sum(axis=0)
        return int(n_t2), int(n_residual)


def collect_samples(
    model: SparsePCAEstimator,
    matrix: Any,
    sample_names: Sequence[str],
    metadata: Metadata,
    omitted_columns: tuple[str, ...],
    used_variables: NDArray[np.intp],
    *,
    anonymise: bool,
) -> ReportSamples:
    """Compute scores and distances of the rows of a matrix, or of `MAX_REPORT_SAMPLES` drawn with a fixed seed.

    Anonymous samples are numbered in a random order, which comes from the operating system and cannot be reproduced.
    """
    n = matrix.shape[0]
    if len(sample_names) != n:
        raise ValueError(f"sample_names has {len(sample_names)} entries, but X has {n} samples.")
    columns = parse_metadata(metadata, n) if metadata else {}
    shown_columns = dict(list(columns.items())[:MAX_METADATA_COLUMNS])
    rows = np.arange(n)
    if n > MAX_REPORT_SAMPLES:
        rows = np.sort(np.random.default_rng(0).permutation(n)[:MAX_REPORT_SAMPLES])
    shown_names = [str(sample_names[i]) for i in rows]
    if anonymise:
        rows = np.random.default_rng().permutation(rows)
        shown_names = [f"sample {i}" for i in range(1, len(rows) + 1)]
    shown = matrix[rows]
    variables, level = used_variables[: MAX_EMBEDDED_VALUES // max(len(rows), 1)], OUTLIER_LIMIT_LEVEL
    return ReportSamples(
        row_indices=rows,
        sample_names=shown_names,
        scores=np.asarray(model.transform(shown), np.float64),
        hotelling_t2=model.hotelling_t2(shown),
        squared_residual=model.squared_residual(shown),
        limits=(model.hotelling_t2_limit(level), model.squared_residual_limit(matrix, level)),
        metadata_columns={
            name: MetadataColumn(column.values[rows], column.is_known[rows]) for name, column in shown_columns.items()
        },
        variable_indices=variables,
        variable_values=to_dense(shown[:, variables]).astype(np.float32),
        n_samples=n,
        omitted_columns=(*tuple(columns)[MAX_METADATA_COLUMNS:], *omitted_columns),
    )


def compute_column_moments(
    matrix: Any, column_indices: NDArray[np.intp], *, is_covariance: bool
) -> tuple[Array, Array]:
    """Return the means, NaN for a covariance, and standard deviations of some variables; ignore missing values."""
    if is_covariance:
        spreads = np.sqrt(np.diagonal(to_dense(matrix))[column_indices].clip(0))
        return np.full(column_indices.size, np.nan), spreads
    values = to_dense(matrix[:, column_indices]).astype(np.float64)
    return np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=min(1, len(values) - 1))


def to_dense(part: Any) -> Array:
    """Return a dense array of a dense or sparse matrix."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def find_identifying_columns(metadata: Metadata) -> tuple[str, ...]:
    """Return the columns that identify samples: labels that mostly differ, and integers that all differ.

    Examples
    --------
    >>> metadata = {"id": ["a7", "b1", "c9", "c9"], "number": [1007, 1003, 1009, 1001], "sex": ["f", "m", "f", "m"]}
    >>> find_identifying_columns(metadata | {"age": [31.5, 40.5, 52.5, 40.5]})
    ('id', 'number')
    """
    found = []
    for name, labels in metadata.items():
        column = parse_metadata_column(labels)
        values = column.values[column.is_known]
        distinct = len(set(values.tolist()))
        is_numbering = column.is_continuous and distinct == values.size and np.all(values == values.round())
        if values.size > 1 and (is_numbering or (not column.is_continuous and distinct > values.size / 2)):
            found.append(str(name))
    return tuple(found)
