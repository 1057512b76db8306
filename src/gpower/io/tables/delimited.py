"""Tables in text: numbers separated by commas, tabs, semicolons or blanks, with or without names.

Read line by line, so that everything wrong with a file is reported with its line and its column.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import get_free_memory
from gpower._utils.text import quote
from gpower.io.tables.arrow_csv import read_with_arrow
from gpower.io.tables.cells import (
    DECIMAL_COMMA_PATTERN,
    THOUSANDS_PATTERN,
    is_header_row,
    is_missing_cell,
    is_number_cell,
    is_text_cell,
)
from gpower.io.tables.errors import MissingCellError, TableError
from gpower.io.tables.row_selection import find_column, find_dropped_columns, iterate_kept_rows
from gpower.io.tables.table import Table, TableFile
from gpower.io.tables.text_file import MAX_BLANK_LINES, NumberedRow, open_text

_QUOTED_PATTERN = re.compile(r'"[^"]*"')
_NUMBER_LIKE_PATTERN = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
_MAX_LOOKAHEAD_ROWS, _MAX_LOOKAHEAD_CELLS = (
    200,
    1_000_000,
)  # rows that decide where the names are, and cells that are enough


def read_delimited(file: TableFile) -> Table:
    r"""The table of a text file as the file lies: its rows are the samples.

    The names of the rows are by default those of a first column without a heading or without a number; a first line of
    words is by default the header.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.delimited import read_delimited
    >>> from gpower.io.tables.table import TableFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plain.txt")
    ...     _ = path.write_text("1 2\n3 4\n")
    ...     read_delimited(TableFile(path))
    Table(X=array([[1., 2.],
           [3., 4.]]), feature_names=None, sample_names=None)
    """
    with open_text(file.path) as lines:
        return build_table_from_rows(*split_table_rows(file, lines))


def split_table_rows(file: TableFile, lines: Iterator[str]) -> tuple[TableFile, Iterator[NumberedRow]]:
    """The rows of the table that are not blank, each with its line number; the file with the separator they have."""
    above = first = ""  # the last of the blank lines and comments on top, and the first line below them
    number = 0
    for number, line in enumerate(lines, 1):
        if number > file.skip and line.strip() and not line.lstrip().startswith("#"):
            first = line
            break
        above = line if number > file.skip else ""
        if number > MAX_BLANK_LINES:
            raise TableError(file.path, f"the first {MAX_BLANK_LINES:,} lines are comments: this is no table in text")
    delimiter = file.sep or _detect_delimiter(file.path, first)
    names = _parse_commented_header(above, first, delimiter) if above and file.header is not False else "\n"
    top = [names, first] if number > 1 else [first]
    cut = ((line + number - len(top), cells) for line, cells in _split_cells(chain(top, lines), delimiter))
    filled = (row for row in cut if any(map(str.strip, row[1])))
    rows = _replace_decimal_commas(file, filled, delimiter) if delimiter != "," or file.decimal else filled
    return replace(file, sep=delimiter), rows


def _parse_commented_header(comment: str, first: str, delimiter: str) -> str:
    """The header that a comment right above the numbers is, as NumPy and many genomics programs write it; or blank."""
    names = comment.strip().lstrip("#").strip(" ")
    above, below = (
        [cell.strip() for _, cells in _split_cells([line], delimiter) for cell in cells] for line in (names, first)
    )
    return names if len(above) == len(below) > 1 and is_header_row(above) and not is_header_row(below) else "\n"


def _split_cells(lines: Iterable[str], delimiter: str) -> Iterator[NumberedRow]:
    """The cells of each line, with its number."""
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader)


def _replace_decimal_commas(file: TableFile, rows: Iterator[NumberedRow], delimiter: str) -> Iterator[NumberedRow]:
    """The rows with their decimal commas as points; a table with both may mean either by a point."""
    first = _take_first_rows(rows)
    if (file.decimal or _detect_decimal_mark(first, delimiter)) == ".":
        yield from chain(first, rows)
        return
    comma = point = ""
    for line, cells in chain(first, rows):
        for j, cell in enumerate(cells):
            if DECIMAL_COMMA_PATTERN.fullmatch(cell.strip()):
                comma, cells[j] = cell.strip(), cell.replace(",", ".")
            elif "." in cell and is_number_cell(cell):
                point = cell.strip()
        if comma and point:
            both = f"{quote(comma)} has a decimal comma and {quote(point)} a point"
            raise TableError(file.path, f"line {line}: {both}; use one of them")
        yield line, cells


def _detect_decimal_mark(rows: Sequence[NumberedRow], delimiter: str) -> str:
    """What stands before decimals: a comma between semicolons, or where a number with one cannot mean thousands."""
    if delimiter == ";":
        return ","
    cells = [cell.strip() for _, row in rows for cell in row if "," in cell]
    return (
        ","
        if any(DECIMAL_COMMA_PATTERN.fullmatch(cell) and not THOUSANDS_PATTERN.fullmatch(cell) for cell in cells)
        else "."
    )


def _take_first_rows(rows: Iterator[NumberedRow]) -> list[NumberedRow]:
    """The first rows, as many as tell where the names are; fewer where they are long."""
    first, cells = list[NumberedRow](), 0
    for row in islice(rows, _MAX_LOOKAHEAD_ROWS):
        first.append(row)
        cells += len(row[1])
        if cells > _MAX_LOOKAHEAD_CELLS:
            break
    return first


def _detect_delimiter(path: Path, line: str) -> str:
    """The character that separates the cells of `line`: the one the suffix promises, if it occurs at all."""
    bare = _QUOTED_PATTERN.sub("", line)
    promised = "," if ".csv" in map(str.lower, path.suffixes) else "\t"
    cells = [cell.strip() for cell in bare.split(";")]
    if (
        len(cells) > 1
        and "\t" not in bare
        and all("," not in cell or DECIMAL_COMMA_PATTERN.fullmatch(cell) for cell in cells)
    ):
        return ";"  # whatever commas there are stand inside numbers
    if promised in bare:
        return promised
    count, found = max((bare.count(mark), mark) for mark in ",;\t")
    if count:
        return found
    return " " if promised == "\t" and len(bare.split()) > 1 else promised


def build_table_from_rows(file: TableFile, rows: Iterator[NumberedRow]) -> Table:
    """The table, as `read_delimited` gives it, of lines already cut into cells.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.delimited import build_table_from_rows
    >>> from gpower.io.tables.table import TableFile
    >>> build_table_from_rows(TableFile(Path("made-up")), iter([(7, ["", "s1"]), (8, ["TP53", "1.5"])]))
    Table(X=array([[1.5]]), feature_names=('s1',), sample_names=('TP53',))
    """
    first = _take_first_rows(rows)
    if not first:
        raise TableError(file.path, "the file holds only blank lines and comments")
    top = [cell.strip() for cell in first[0][1]]
    has_header = is_header_row(top) if file.header is None else file.header
    headings, first = (top, first[1:]) if has_header else ([], first)
    if not first:
        raise TableError(file.path, "the file has a header and no samples below it")
    layout = _detect_layout(file, headings, first)
    longest = max(sum(map(len, cells)) + len(cells) for _, cells in first)
    X, names = read_with_arrow(layout, first[0][0], longest) or _parse_all_rows(layout, chain(first, rows))
    columns = tuple(layout.headings[j] or f"column {j}" for j in layout.numeric_columns) if has_header else None
    return Table(X, columns, names or None)


def _parse_all_rows(layout: TextTableLayout, rows: Iterator[NumberedRow]) -> tuple[Array, tuple[str, ...]]:
    """The numbers of all rows, and the names of the rows; what is wrong with a cell is said of it."""
    file, values, names = layout.file, array("d"), list[str]()
    room = get_free_memory() / 2  # growing, and then handed over, takes twice as much
    for line, cells in iterate_kept_rows(file, layout.name_column, rows) if file.drop_rows else rows:
        if 8 * len(values) > room:
            advice = "save it as .npy, .zarr or .parquet, which are read in blocks"
            raise TableError(file.path, f"line {line}: the table does not fit the memory that is free; {advice}")
        if len(cells) != layout.n_columns:
            raise TableError(file.path, f"line {line} has {len(cells)} cells where {layout.n_columns} are expected")
        if layout.name_column is not None:
            names.append(cells[layout.name_column].strip())
        values.extend(layout.parse_row(line, cells))
    return np.frombuffer(values).reshape(-1, len(layout.numeric_columns)), tuple(names)


@dataclass(frozen=True)
class TextTableLayout:
    """What the columns of a file hold.

    `headings` of all of them (none without a header), `names_at` the rows' names, `kept` the numbers, `text` those of
    `kept` that seem to hold words only.
    """

    file: TableFile
    headings: list[str]
    n_columns: int
    name_column: int | None
    numeric_columns: tuple[int, ...]
    text_columns: tuple[int, ...]

    def format_column_option(self, j: int) -> int | str:
        """How an option calls a column: by its heading, unless that could mean something else."""
        heading = self.headings[j] if self.headings else ""
        usable = heading and not heading.isdecimal() and "," not in heading
        return heading if usable and self.headings.count(heading) == 1 else j

    def parse_row(self, line: int, cells: list[str]) -> list[float]:
        """The numbers of a row, NaN for a missing one; an error that says which of them is none."""
        if len(self.numeric_columns) < len(cells):
            cells = [cells[j] for j in self.numeric_columns]
        with suppress(ValueError):
            if "_" not in "".join(cells):
                numbers = list(map(float, cells))
                if not self.file.complete or math.isfinite(sum(numbers)):
                    return numbers
        return [self._parse_cell(line, j, cell.strip()) for j, cell in zip(self.numeric_columns, cells, strict=True)]

    def _parse_cell(self, line: int, j: int, cell: str) -> float:
        if not (is_missing_cell(cell) or is_number_cell(cell)):
            reason = (
                f"{self._describe_position(line, j)} holds {quote(cell)} where a number belongs"
                f"{self._suggest_fix(j, cell)}"
            )
            drop = [self.format_column_option(column) for column in self.text_columns]
            raise TableError(self.file.path, reason, index_col=self.format_column_option(j), drop=drop)
        number = math.nan if is_missing_cell(cell) else float(cell)
        if self.file.complete and not math.isfinite(number):
            what = f"holds {quote(cell)}" if cell else "is empty"
            advice = "fill it in, or leave out the line, or the column with {drop}"
            reason = f"{self._describe_position(line, j)} {what} where a number belongs; {advice}"
            raise (MissingCellError if math.isnan(number) else TableError)(
                self.file.path, reason, drop=[self.format_column_option(j)]
            )
        return number

    def _describe_position(self, line: int, j: int) -> str:
        heading = self.headings[j] if self.headings else ""
        return f"line {line}, column {quote(heading) if heading else f'{j} (counted from 0)'}"

    def _suggest_fix(self, j: int, cell: str) -> str:
        """What to do about a cell of text."""
        if DECIMAL_COMMA_PATTERN.fullmatch(cell):
            return "; write decimals with a point, and thousands without a separator"
        advice = {
            "write plain numbers, such as 1234.5": bool(_NUMBER_LIKE_PATTERN.fullmatch(cell)),
            "if these are names, say so with {index_col}": self.name_column is None,
            "leave columns of text out with {drop}": j in self.text_columns,
            "if it stands for a missing value, write NA": is_text_cell(cell) and j not in self.text_columns,
        }
        return "".join(f"; {part}" for part, helps in advice.items() if helps)


def _detect_layout(file: TableFile, headings: list[str], rows: Sequence[NumberedRow]) -> TextTableLayout:
    if headings and file.index_col is None and _lacks_corner_heading(headings, rows):
        headings = ["", *headings]
    width = len(headings or rows[0][1])
    dropped = {j for column in file.drop for j in find_dropped_columns(file.path, column, headings, width)}
    columns = [j for j in range(width) if j not in dropped]
    text = [j for j in columns if all(j < len(cells) and is_text_cell(cells[j]) for _, cells in rows)]
    names_at: int | None = None
    if file.index_col is not None:
        names_at = find_column(file.path, "index_col", file.index_col, headings, width)
    elif len(columns) > 1 and (columns[0] in text or (columns[0] == 0 and headings[:1] in ([""], ["Unnamed: 0"]))):
        names_at = columns[0]  # the first of several, since it can be nothing else
    kept = tuple(j for j in columns if j != names_at)
    if not kept:
        raise TableError(file.path, "the table has no variables: every column is left out or holds names")
    return TextTableLayout(file, headings, width, names_at, kept, tuple(j for j in text if j != names_at))


def _lacks_corner_heading(headings: Sequence[str], rows: Sequence[NumberedRow]) -> bool:
    """Whether every row is one cell longer than the header, as R writes a table with row names.

    A separator at the end of every row looks the same but for its empty last cell.
    """
    longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return longer and any(cells[-1].strip() for _, cells in rows)
