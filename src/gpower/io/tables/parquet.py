"""Parquet files read whole, with the names of their rows."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpower._utils.text import format_names, quote
from gpower.io.stores.parquet import open_parquet
from gpower.io.stores.source import read_source_block
from gpower.io.tables.errors import MissingCellError, TableError
from gpower.io.tables.table import Names, Table, TableFile


def read_parquet(file: TableFile) -> Table:
    """The table of a file; a leading column of text, or pandas' index, names the rows."""
    path, parquet = file.path, open_parquet(file.path)
    dropped = [name for column in file.drop for name in _match_headings(path, parquet.data_columns, column)]
    named = parquet.index_columns
    if file.index_col is not None:
        named = [_find_heading(path, parquet.data_columns, "index_col", file.index_col)]
    columns = [name for name in parquet.data_columns if name not in (*dropped, *named)]
    if not named and len(columns) > 1 and not parquet.is_numeric(columns[0]):
        named, columns = columns[:1], columns[1:]  # a leading column of text, where nothing else names the rows
    source = parquet.to_source(columns)
    text = [name for name in columns if not parquet.is_numeric(name)]
    if text:
        value = parquet.read_column(text[0])[0] if source.shape[0] else parquet.column_types[text[0]]
        where = f"row 1, column {quote(text[0])} holds {quote(str(value))} where a number belongs"
        raise TableError(path, f"{where}; leave columns of text out with {{drop}}", drop=text)
    rows = _combine_row_names([parquet.read_column(name) for name in named])
    table = Table(read_source_block(source, 0, source.shape[0]), source.feature_names, rows)
    if file.complete:
        check_complete(path, table, "fill it in, or leave out the row, or the column with {drop}")
    return table


def _combine_row_names(columns: Sequence[Sequence[object]]) -> Names | None:
    """One name per row: that of the one column, or those of several together."""
    if len(columns) < 2:
        return tuple(map(str, columns[0])) if columns else None
    return tuple(map(str, zip(*columns, strict=True)))


def _match_headings(path: Path, columns: list[str], column: int | str) -> list[str]:
    """The headings that one entry of `drop` names, which may be a pattern."""
    matching = fnmatch.filter(columns, column) if isinstance(column, str) and column not in columns else []
    return matching or [_find_heading(path, columns, "drop", column)]


def _find_heading(path: Path, columns: list[str], option: str, column: int | str) -> str:
    """The heading of the column that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < len(columns):
        return columns[column]
    if str(column) in columns:  # headings may be numbers, such as years
        return str(column)
    raise TableError(path, f"{{{option}}} is not one of the columns {format_names(columns)}", **{option: column})


def check_complete(path: Path, table: Table, advice: str) -> None:
    """Refuse a missing or infinite number, and say where the first one is."""
    for i, j in np.argwhere(~np.isfinite(table.X))[:1]:
        value, column = table.X[i, j], (table.feature_names or ())[j]
        where = f"row {i + 1}, column {quote(column)} holds {value} where a number belongs"
        raise (MissingCellError if np.isnan(value) else TableError)(path, f"{where}; {advice}", drop=[column])
