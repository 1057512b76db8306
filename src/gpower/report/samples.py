"""The samples that a page shows: their names, scores, distances and metadata, and the values of some variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import Column, Metadata, column_of, columns_of
from gpower.estimators.base import SparsePCAEstimator

#: Samples and columns of metadata that a page shows at most, and numbers of single variables that it holds.
MOST_SAMPLES, MOST_COLUMNS, MOST_VALUES = 2000, 12, 250_000
#: Share of normal samples that the limits hold.
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Samples:
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

    rows: NDArray[np.intp]
    names: list[str]
    scores: Array
    t2: Array
    residual: Array
    limits: tuple[float, float]
    columns: dict[str, Column]
    variables: NDArray[np.intp]
    values: Array
    n_all: int
    left_out: tuple[str, ...] = ()

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Which are beyond which limit, (n_shown, 2)."""
        return np.column_stack([self.t2, self.residual]) > np.array(self.limits)

    @property
    def n_beyond(self) -> tuple[int, int]:
        """How many are."""
        inside, outside = self.beyond.sum(axis=0)
        return int(inside), int(outside)

    def anonymous(self, left_out: tuple[str, ...]) -> Samples:
        """The same in an order of chance, numbered, with columns named that were left out.

        The order comes from the system, not from a seed: nobody can go back.
        """
        order = np.random.default_rng().permutation(len(self.rows))
        names = [f"sample {i}" for i in range(1, len(order) + 1)]
        return replace(self._taken(order), names=names, left_out=(*self.left_out, *left_out))

    def _taken(self, order: NDArray[np.intp]) -> Samples:
        """Rows in another order."""
        taken = {name: getattr(self, name)[order] for name in ("rows", "scores", "t2", "residual", "values")}
        columns = {name: _part(column, order) for name, column in self.columns.items()}
        return replace(self, **taken, names=[self.names[i] for i in order], columns=columns)


def samples_of(
    model: SparsePCAEstimator, matrix: Any, names: Sequence[str], metadata: Metadata, used: NDArray[np.intp]
) -> Samples:
    """What a model says of the rows of a matrix; of very many, some drawn by a fixed seed."""
    n = matrix.shape[0]
    if len(names) != n:
        raise ValueError(f"sample_names has {len(names)} entries, but X has {n} samples.")
    columns = columns_of(metadata, n) if metadata else {}
    kept = dict(list(columns.items())[:MOST_COLUMNS])
    rows = np.arange(n) if n <= MOST_SAMPLES else np.sort(np.random.default_rng(0).permutation(n)[:MOST_SAMPLES])
    shown, variables = matrix[rows], used[: MOST_VALUES // max(len(rows), 1)]
    return Samples(
        rows=rows,
        names=[str(names[i]) for i in rows],
        scores=np.asarray(model.transform(shown), np.float64),
        t2=model.hotelling_t2(shown),
        residual=model.squared_residual(shown),
        limits=(model.hotelling_t2_limit(LEVEL), model.squared_residual_limit(matrix, LEVEL)),
        columns={name: _part(column, rows) for name, column in kept.items()},
        variables=variables,
        values=dense(shown[:, variables]).astype(np.float32),
        n_all=n,
        left_out=tuple(columns)[MOST_COLUMNS:],
    )


def moments(matrix: Any, columns: NDArray[np.intp]) -> Mapping[str, Array]:
    """Mean and standard deviation of some columns, gaps left out."""
    values = dense(matrix[:, columns]).astype(np.float64)
    return {"mean": np.nanmean(values, axis=0), "spread": np.nanstd(values, axis=0, ddof=min(1, len(values) - 1))}


def dense(part: Any) -> Array:
    """A few columns as an ordinary array."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def _part(column: Column, rows: NDArray[np.intp]) -> Column:
    return Column(column.values[rows], column.known[rows])


def naming(metadata: Metadata) -> tuple[str, ...]:
    """Columns that name samples, or nearly: words that mostly differ, whole numbers that all do.

    Examples
    --------
    >>> known = {"id": ["a7", "b1", "c9", "c9"], "number": [1007, 1003, 1009, 1001], "sex": ["f", "m", "f", "m"]}
    >>> naming(known | {"age": [31.5, 40.5, 52.5, 40.5]})
    ('id', 'number')
    """
    return tuple(str(name) for name, values in metadata.items() if _names_samples(column_of(values)))


def _names_samples(column: Column) -> bool:
    """Whether a column tells samples apart as names do."""
    values = column.values[column.known]
    distinct = len(set(values.tolist()))
    if column.is_measured:
        return distinct == values.size > 1 and bool(np.all(values == values.round()))
    return values.size > 1 and distinct > values.size / 2
