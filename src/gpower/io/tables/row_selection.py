"""Columns and rows of a text table to leave out: by name, by pattern or by position."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from gpower._utils.text import format_names, make_names_unique
from gpower.io.tables.errors import TableError
from gpower.io.tables.table import TableFile
from gpower.io.tables.text_file import NumberedRow


def find_dropped_columns(path: Path, column: int | str, headings: list[str], width: int) -> list[int]:
    """The columns to leave out that a pattern, a heading or a position names."""
    names = make_names_unique(headings)
    matching = [j for j, name in enumerate(names) if _is_glob_pattern(column) and fnmatchcase(name, str(column))]
    return matching if matching and column not in names else [find_column(path, "drop", column, headings, width)]


def _is_glob_pattern(name: int | str) -> bool:
    return any(mark in str(name) for mark in "*?[")


def iterate_kept_rows(file: TableFile, name_column: int | None, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    """The rows but those to leave out, which a pattern, a name or a position below the header names."""
    found = set[int | str]()
    for i, (line, cells) in enumerate(rows):
        name = cells[name_column].strip() if name_column is not None and name_column < len(cells) else ""
        by = [row for row in file.drop_rows if row == i or str(row) == name or (name and fnmatchcase(name, str(row)))]
        found.update(by)
        if not by:
            yield line, cells
    absent = [row for row in file.drop_rows if row not in found]
    if absent:
        raise TableError(file.path, "{drop_rows} is none of the rows' names or positions", drop_rows=absent)


def find_column(path: Path, option: str, column: int | str, headings: list[str], width: int) -> int:
    """Where the column is that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < width:
        return column
    names = make_names_unique(headings)  # as they are shown
    if str(column) in names:  # headings may be numbers, such as years
        return names.index(str(column))
    if isinstance(column, int):
        raise TableError(path, f"{{{option}}} is not one of the columns 0 to {width - 1}", **{option: column})
    found = f"the columns {format_names(headings)}" if headings else "no header"
    raise TableError(path, f"{{{option}}} is not a heading; the file has {found}", **{option: column})
