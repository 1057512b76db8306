"""The samples that a page shows: their names, scores, distances and metadata, and the values of some variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import Metadata, MetadataColumn, parse_metadata, parse_metadata_column
from gpower.estimators.base import SparsePCAEstimator

#: Samples and columns of metadata that a page shows at most, and numbers of single variables that it holds.
MAX_REPORT_SAMPLES, MAX_METADATA_COLUMNS, MAX_EMBEDDED_VALUES = 2000, 12, 250_000
#: Share of normal samples that the limits hold.
OUTLIER_LIMIT_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class ReportSamples:
    """Rows of a table as a page shows them.

    Attributes
    ----------
    rows : ndarray of int
        Which of the rows of the data, in the order of the page.
    names : list of str
    scores : ndarray of shape (n_shown, n_components)
    t2, residual : ndarray of shape (n_shown,)
        Distances inside and outside of the components.
    limits : pair of float
        What a share `LEVEL` of normal samples keeps of each.
    columns : dict of str to Column
        Metadata.
    variables : ndarray of int
        Those whose values are in the page.
    values : ndarray of float32 of shape (n_shown, n_variables)
    n_all : int
        Samples of the data.
    left_out : tuple of str
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
    omitted_columns: tuple[str, ...] = ()

    @property
    def is_beyond_limits(self) -> NDArray[np.bool_]:
        """Which are beyond which limit, (n_shown, 2)."""
        return np.column_stack([self.hotelling_t2, self.squared_residual]) > np.array(self.limits)

    @property
    def n_beyond_limits(self) -> tuple[int, int]:
        """How many are."""
        inside, outside = self.is_beyond_limits.sum(axis=0)
        return int(inside), int(outside)

    def anonymise(self, omitted_columns: tuple[str, ...]) -> ReportSamples:
        """The same in an order of chance, numbered, with columns named that were left out.

        The order comes from the system, not from a seed: nobody can go back.
        """
        order = np.random.default_rng().permutation(len(self.row_indices))
        names = [f"sample {i}" for i in range(1, len(order) + 1)]
        return replace(
            self._reorder(order), sample_names=names, omitted_columns=(*self.omitted_columns, *omitted_columns)
        )

    def _reorder(self, order: NDArray[np.intp]) -> ReportSamples:
        """Rows in another order."""
        taken = {
            name: getattr(self, name)[order]
            for name in ("row_indices", "scores", "hotelling_t2", "squared_residual", "variable_values")
        }
        columns = {name: _take_column_rows(column, order) for name, column in self.metadata_columns.items()}
        return replace(self, **taken, sample_names=[self.sample_names[i] for i in order], metadata_columns=columns)


def collect_samples(
    model: SparsePCAEstimator,
    matrix: Any,
    sample_names: Sequence[str],
    metadata: Metadata,
    used_variables: NDArray[np.intp],
) -> ReportSamples:
    """What a model says of the rows of a matrix; of very many, some drawn by a fixed seed."""
    n = matrix.shape[0]
    if len(sample_names) != n:
        raise ValueError(f"sample_names has {len(sample_names)} entries, but X has {n} samples.")
    columns = parse_metadata(metadata, n) if metadata else {}
    kept = dict(list(columns.items())[:MAX_METADATA_COLUMNS])
    rows = (
        np.arange(n)
        if n <= MAX_REPORT_SAMPLES
        else np.sort(np.random.default_rng(0).permutation(n)[:MAX_REPORT_SAMPLES])
    )
    shown, variables = matrix[rows], used_variables[: MAX_EMBEDDED_VALUES // max(len(rows), 1)]
    return ReportSamples(
        row_indices=rows,
        sample_names=[str(sample_names[i]) for i in rows],
        scores=np.asarray(model.transform(shown), np.float64),
        hotelling_t2=model.hotelling_t2(shown),
        squared_residual=model.squared_residual(shown),
        limits=(
            model.hotelling_t2_limit(OUTLIER_LIMIT_LEVEL),
            model.squared_residual_limit(matrix, OUTLIER_LIMIT_LEVEL),
        ),
        metadata_columns={name: _take_column_rows(column, rows) for name, column in kept.items()},
        variable_indices=variables,
        variable_values=to_dense(shown[:, variables]).astype(np.float32),
        n_samples=n,
        omitted_columns=tuple(columns)[MAX_METADATA_COLUMNS:],
    )


def compute_column_moments(matrix: Any, column_indices: NDArray[np.intp]) -> Mapping[str, Array]:
    """Mean and standard deviation of some columns, gaps left out."""
    values = to_dense(matrix[:, column_indices]).astype(np.float64)
    return {"mean": np.nanmean(values, axis=0), "spread": np.nanstd(values, axis=0, ddof=min(1, len(values) - 1))}


def to_dense(part: Any) -> Array:
    """A few columns as an ordinary array."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def _take_column_rows(column: MetadataColumn, rows: NDArray[np.intp]) -> MetadataColumn:
    return MetadataColumn(column.values[rows], column.is_known[rows])


def find_identifying_columns(metadata: Metadata) -> tuple[str, ...]:
    """Columns that name samples, or nearly: words that mostly differ, whole numbers that all do.

    Examples
    --------
    >>> known = {"id": ["a7", "b1", "c9", "c9"], "number": [1007, 1003, 1009, 1001], "sex": ["f", "m", "f", "m"]}
    >>> find_identifying_columns(known | {"age": [31.5, 40.5, 52.5, 40.5]})
    ('id', 'number')
    """
    return tuple(str(name) for name, values in metadata.items() if _is_identifying(parse_metadata_column(values)))


def _is_identifying(column: MetadataColumn) -> bool:
    """Whether a column tells samples apart as names do."""
    values = column.values[column.is_known]
    distinct = len(set(values.tolist()))
    if column.is_continuous:
        return distinct == values.size > 1 and bool(np.all(values == values.round()))
    return values.size > 1 and distinct > values.size / 2
