"""Read Parquet files one row group at a time. Needs pyarrow, the ``io`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.optional import import_optional
from gpower.io.stores.matrix_source import MatrixSource, StoreError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

# Beginnings of the names of Arrow's numeric types.
_NUMERIC_TYPE_PREFIXES = ("int", "uint", "float", "double", "halffloat", "bool")


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """An open Parquet file.

    Attributes
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile
    column_types : dict of str to str
        Arrow's name of the type of each column.
    index_columns : list of str
        Columns in which pandas stores the names of the rows.
    """

    path: Path
    file: ParquetFile
    column_types: dict[str, str]
    index_columns: list[str]

    @property
    def data_columns(self) -> list[str]:
        """Return the names of all columns except `index_columns`."""
        return [name for name in self.column_types if name not in self.index_columns]

    def is_numeric(self, column: str) -> bool:
        """Return whether a column holds numbers; bool counts."""
        return self.column_types[column].startswith(_NUMERIC_TYPE_PREFIXES)

    def read_column(self, column: str) -> list[object]:
        """Return the values of a column as Python objects."""
        return list(self.file.read([column]).column(column).to_pylist())

    def to_source(self, columns: Sequence[str]) -> MatrixSource:
        """Return numeric columns as a source of row blocks: float32 if all columns are, else float64."""
        group_sizes = [self.file.metadata.row_group(i).num_rows for i in range(self.file.num_row_groups)]
        edges = np.concatenate([[0], np.cumsum(group_sizes, dtype=int)])
        is_single = bool(columns) and all(self.column_types[name] == "float" for name in columns)
        dtype = np.dtype(np.float32 if is_single else np.float64)
        read = _make_row_reader(self.file, edges, list(columns), dtype)
        return MatrixSource(str(self.path), (int(edges[-1]), len(columns)), dtype, read, feature_names=tuple(columns))


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file and return its columns, without reading their values."""
    parquet = import_optional("pyarrow.parquet", "io", "Reading a Parquet file needs")
    with convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole Parquet file ({what}).")):
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
        index_columns = (schema.pandas_metadata or {}).get("index_columns", [])
        types = {field.name: str(field.type) for field in schema}
        return ParquetTable(path, file, types, [name for name in types if name in index_columns])


def open_parquet_source(path: Path) -> MatrixSource:
    """Return the matrix of a Parquet file as a source; raise if a column other than the index is not numeric."""
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
    """Return a function that reads rows lo to hi; it caches the last row group, since blocks and groups overlap."""
    cache: dict[int, Array] = {}

    def read_group(i: int) -> Array:
        if i not in cache:
            cache.clear()
            # Select again, because a name such as "a" also reads "a.b".
            table = file.read_row_group(i, columns=names).select(names)
            cache[i] = np.empty((table.num_rows, len(names)), dtype)
            for j, column in enumerate(table.columns):
                cache[i][:, j] = column.to_numpy()
        return cache[i]

    def read(lo: int, hi: int) -> Array:
        first, last = np.searchsorted(group_edges, [lo, hi - 1], side="right") - 1
        parts = [read_group(i)[max(lo - group_edges[i], 0) : hi - group_edges[i]] for i in range(first, last + 1)]
        return np.concatenate([np.empty((0, len(names)), dtype), *parts])

    return read
