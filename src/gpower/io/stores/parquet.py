"""Parquet files: columns by name, their numbers a row group at a time. Needs pyarrow, the ``io`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.optional import import_optional
from gpower.io.stores.source import MatrixSource, StoreError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_NUMERIC_TYPE_PREFIXES = ("int", "uint", "float", "double", "halffloat", "bool")  # how the names of numeric types begin


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """An open Parquet file.

    Attributes
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile
    types : dict of str to str
        The type of each column, as Arrow calls it.
    index : list of str
        Columns in which pandas keeps the names of the rows.
    """

    path: Path
    file: ParquetFile
    column_types: dict[str, str]
    index_columns: list[str]

    @property
    def data_columns(self) -> list[str]:
        """All columns but the names of the rows."""
        return [name for name in self.column_types if name not in self.index_columns]

    def is_numeric(self, column: str) -> bool:
        """Whether it does; True and False are numbers."""
        return self.column_types[column].startswith(_NUMERIC_TYPE_PREFIXES)

    def read_column(self, column: str) -> list[object]:
        """The values of a column, whatever they are."""
        return list(self.file.read([column]).column(column).to_pylist())

    def to_source(self, columns: Sequence[str]) -> MatrixSource:
        """Columns of numbers as a matrix: in single precision where all of them are."""
        rows = [self.file.metadata.row_group(i).num_rows for i in range(self.file.num_row_groups)]
        edges = np.concatenate([[0], np.cumsum(rows, dtype=int)])
        single = all(self.column_types[name] == "float" for name in columns)
        dtype = np.dtype(np.float32 if single and columns else np.float64)
        read = _make_row_reader(self.file, edges, list(columns), dtype)
        return MatrixSource(str(self.path), (int(edges[-1]), len(columns)), dtype, read, feature_names=tuple(columns))


def open_parquet(path: Path) -> ParquetTable:
    """The columns of a file; their numbers are read later."""
    parquet = import_optional("pyarrow.parquet", "io", "Reading a Parquet file needs")
    with convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole Parquet file ({what}).")):
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
        kept = (schema.pandas_metadata or {}).get("index_columns", [])
        types = {field.name: str(field.type) for field in schema}
        return ParquetTable(path, file, types, [name for name in types if name in kept])


def open_parquet_source(path: Path) -> MatrixSource:
    """A file whose columns are all numbers, but for the names of the rows."""
    table = open_parquet(path)
    for name in table.data_columns:
        if not table.is_numeric(name):
            raise StoreError(
                f"{path}: column {name!r} holds {table.column_types[name]}, not numbers. Drop it from the file."
            )
    return table.to_source(table.data_columns)


def _make_row_reader(
    file: ParquetFile, group_edges: Array, names: list[str], dtype: np.dtype
) -> Callable[[int, int], Array]:
    """A reader of rows that keeps the last row group, since blocks and groups do not begin together."""
    kept: dict[int, Array] = {}

    def group(i: int) -> Array:
        if i not in kept:
            kept.clear()
            # Selected again, because a name such as "a" also brings "a.b".
            table = file.read_row_group(i, columns=names).select(names)
            kept[i] = np.empty((table.num_rows, len(names)), dtype)
            for j, column in enumerate(table.columns):
                kept[i][:, j] = column.to_numpy()
        return kept[i]

    def read(lo: int, hi: int) -> Array:
        first, last = np.searchsorted(group_edges, [lo, hi - 1], side="right") - 1
        parts = [group(i)[max(lo - group_edges[i], 0) : hi - group_edges[i]] for i in range(first, last + 1)]
        return np.concatenate([np.empty((0, len(names)), dtype), *parts])

    return read
