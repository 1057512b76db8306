"""Read a Parquet file into memory, with the names of its rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpower._utils.text import quote
from gpower.io.stores.matrix_source import read_source_block
from gpower.io.stores.parquet import open_parquet
from gpower.io.tables.table import MissingCellError, Names, Table, TableError, TableFile


def read_parquet(file: TableFile) -> Table:
    """Return the table of a Parquet file; pandas' index, or a leading column of text, names the rows."""
    path, parquet = file.path, open_parquet(file.path)
    headings = parquet.data_columns
    columns_by_name = {name: j for j, name in enumerate(headings)}
    dropped = {headings[j] for j in file.find_dropped_columns(columns_by_name, len(headings))}
    name_columns = parquet.index_columns
    if file.index_col is not None:
        name_columns = [headings[file.find_column("index_col", file.index_col, columns_by_name, len(headings))]]
    columns = [name for name in headings if name not in dropped and name not in name_columns]
    if not name_columns and len(columns) > 1 and not parquet.is_numeric(columns[0]):
        name_columns, columns = columns[:1], columns[1:]
    text_columns = [name for name in columns if not parquet.is_numeric(name)]
    source = parquet.to_source(columns)
    if text_columns:
        first = text_columns[0]
        value = parquet.read_column(first)[0] if source.shape[0] else parquet.column_types[first]
        where = f"row 1, column {quote(first)} holds {quote(str(value))} where a number belongs"
        raise TableError(path, f"{where}; leave columns of text out with {{drop}}", drop=text_columns)
    row_names = _combine_row_names([parquet.read_column(name) for name in name_columns])
    table = Table(read_source_block(source, 0, source.shape[0]), source.feature_names, row_names)
    if file.complete:
        check_complete(path, table, "fill it in, or leave out the row, or the column with {drop}")
    return table


def _combine_row_names(columns: Sequence[Sequence[object]]) -> Names | None:
    """Return one name per row: the text of its one value, or of the tuple of its values in several columns."""
    if len(columns) < 2:
        return tuple(map(str, columns[0])) if columns else None
    return tuple(map(str, zip(*columns, strict=True)))


def check_complete(path: Path, table: Table, advice: str) -> None:
    """Raise if a dense table has a missing or infinite number, and name the row and column of the first one."""
    for i, j in np.argwhere(~np.isfinite(table.X))[:1]:
        value, column = table.X[i, j], (table.feature_names or ())[j]
        where = f"row {i + 1}, column {quote(column)} holds {value} where a number belongs"
        raise (MissingCellError if np.isnan(value) else TableError)(path, f"{where}; {advice}", drop=[column])
