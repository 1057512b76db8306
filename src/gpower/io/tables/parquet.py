"""Parquet files read whole, with the names of their rows."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpower._utils.text import listed, quoted
from gpower.io.stores.parquet import open_parquet
from gpower.io.stores.source import read_block
from gpower.io.tables.errors import MissingCell, TableError
from gpower.io.tables.table import Names, Table, TableFile


def read_parquet(file: TableFile) -> Table:
    """The table of a file; a leading column of text, or pandas' index, names the rows."""
    path, parquet = file.path, open_parquet(file.path)
    dropped = [name for column in file.drop for name in _headings(path, parquet.columns, column)]
    named = parquet.index
    if file.index_col is not None:
        named = [_heading(path, parquet.columns, "index_col", file.index_col)]
    columns = [name for name in parquet.columns if name not in (*dropped, *named)]
    if not named and len(columns) > 1 and not parquet.holds_numbers(columns[0]):
        named, columns = columns[:1], columns[1:]  # a leading column of text, where nothing else names the rows
    source = parquet.source(columns)
    text = [name for name in columns if not parquet.holds_numbers(name)]
    if text:
        value = parquet.values(text[0])[0] if source.shape[0] else parquet.types[text[0]]
        where = f"row 1, column {quoted(text[0])} holds {quoted(str(value))} where a number belongs"
        raise TableError(path, f"{where}; leave columns of text out with {{drop}}", drop=text)
    rows = _row_names([parquet.values(name) for name in named])
    table = Table(read_block(source, 0, source.shape[0]), source.names, rows)
    if file.complete:
        refuse_missing(path, table, "fill it in, or leave out the row, or the column with {drop}")
    return table


def _row_names(columns: Sequence[Sequence[object]]) -> Names | None:
    """One name per row: that of the one column, or those of several together."""
    if len(columns) < 2:
        return tuple(map(str, columns[0])) if columns else None
    return tuple(map(str, zip(*columns, strict=True)))


def _headings(path: Path, columns: list[str], column: int | str) -> list[str]:
    """The headings that one entry of `drop` names, which may be a pattern."""
    matching = fnmatch.filter(columns, column) if isinstance(column, str) and column not in columns else []
    return matching or [_heading(path, columns, "drop", column)]


def _heading(path: Path, columns: list[str], option: str, column: int | str) -> str:
    """The heading of the column that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < len(columns):
        return columns[column]
    if str(column) in columns:  # headings may be numbers, such as years
        return str(column)
    raise TableError(path, f"{{{option}}} is not one of the columns {listed(columns)}", **{option: column})


def refuse_missing(path: Path, table: Table, advice: str) -> None:
    """Refuse a missing or infinite number, and say where the first one is."""
    for i, j in np.argwhere(~np.isfinite(table.X))[:1]:
        value, column = table.X[i, j], (table.feature_names or ())[j]
        where = f"row {i + 1}, column {quoted(column)} holds {value} where a number belongs"
        raise (MissingCell if np.isnan(value) else TableError)(path, f"{where}; {advice}", drop=[column])
