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
from gpower._utils.memory import free_memory
from gpower._utils.text import quoted
from gpower.io.tables.arrow_csv import read_quickly
from gpower.io.tables.cells import DECIMAL_COMMA, THOUSANDS, is_header, is_missing, is_number, is_word
from gpower.io.tables.errors import MissingCell, TableError
from gpower.io.tables.row_selection import kept_rows, position, positions
from gpower.io.tables.table import Table, TableFile
from gpower.io.tables.text_file import MOST_BLANK, Row, open_text

_QUOTED = re.compile(r'"[^"]*"')
_LIKE_A_NUMBER = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
_LOOKAHEAD, _MOST_CELLS = 200, 1_000_000  # rows that decide where the names are, and cells that are enough


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
        return read_rows(*split_rows(file, lines))


def split_rows(file: TableFile, lines: Iterator[str]) -> tuple[TableFile, Iterator[Row]]:
    """The rows of the table that are not blank, each with its line number; the file with the separator they have."""
    above = first = ""  # the last of the blank lines and comments on top, and the first line below them
    number = 0
    for number, line in enumerate(lines, 1):
        if number > file.skip and line.strip() and not line.lstrip().startswith("#"):
            first = line
            break
        above = line if number > file.skip else ""
        if number > MOST_BLANK:
            raise TableError(file.path, f"the first {MOST_BLANK:,} lines are comments: this is no table in text")
    delimiter = file.sep or _delimiter(file.path, first)
    names = _commented_names(above, first, delimiter) if above and file.header is not False else "\n"
    top = [names, first] if number > 1 else [first]
    cut = ((line + number - len(top), cells) for line, cells in _cut(chain(top, lines), delimiter))
    filled = (row for row in cut if any(map(str.strip, row[1])))
    rows = _with_points(file, filled, delimiter) if delimiter != "," or file.decimal else filled
    return replace(file, sep=delimiter), rows


def _commented_names(comment: str, first: str, delimiter: str) -> str:
    """The header that a comment right above the numbers is, as NumPy and many genomics programs write it; or blank."""
    names = comment.strip().lstrip("#").strip(" ")
    above, below = ([cell.strip() for _, cells in _cut([line], delimiter) for cell in cells] for line in (names, first))
    return names if len(above) == len(below) > 1 and is_header(above) and not is_header(below) else "\n"


def _cut(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """The cells of each line, with its number."""
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader)


def _with_points(file: TableFile, rows: Iterator[Row], delimiter: str) -> Iterator[Row]:
    """The rows with their decimal commas as points; a table with both may mean either by a point."""
    first = _looked_ahead(rows)
    if (file.decimal or _decimal(first, delimiter)) == ".":
        yield from chain(first, rows)
        return
    comma = point = ""
    for line, cells in chain(first, rows):
        for j, cell in enumerate(cells):
            if DECIMAL_COMMA.fullmatch(cell.strip()):
                comma, cells[j] = cell.strip(), cell.replace(",", ".")
            elif "." in cell and is_number(cell):
                point = cell.strip()
        if comma and point:
            both = f"{quoted(comma)} has a decimal comma and {quoted(point)} a point"
            raise TableError(file.path, f"line {line}: {both}; use one of them")
        yield line, cells


def _decimal(rows: Sequence[Row], delimiter: str) -> str:
    """What stands before decimals: a comma between semicolons, or where a number with one cannot mean thousands."""
    if delimiter == ";":
        return ","
    cells = [cell.strip() for _, row in rows for cell in row if "," in cell]
    return "," if any(DECIMAL_COMMA.fullmatch(cell) and not THOUSANDS.fullmatch(cell) for cell in cells) else "."


def _looked_ahead(rows: Iterator[Row]) -> list[Row]:
    """The first rows, as many as tell where the names are; fewer where they are long."""
    first, cells = list[Row](), 0
    for row in islice(rows, _LOOKAHEAD):
        first.append(row)
        cells += len(row[1])
        if cells > _MOST_CELLS:
            break
    return first


def _delimiter(path: Path, line: str) -> str:
    """The character that separates the cells of `line`: the one the suffix promises, if it occurs at all."""
    bare = _QUOTED.sub("", line)
    promised = "," if ".csv" in map(str.lower, path.suffixes) else "\t"
    cells = [cell.strip() for cell in bare.split(";")]
    if len(cells) > 1 and "\t" not in bare and all("," not in cell or DECIMAL_COMMA.fullmatch(cell) for cell in cells):
        return ";"  # whatever commas there are stand inside numbers
    if promised in bare:
        return promised
    count, found = max((bare.count(mark), mark) for mark in ",;\t")
    if count:
        return found
    return " " if promised == "\t" and len(bare.split()) > 1 else promised


def read_rows(file: TableFile, rows: Iterator[Row]) -> Table:
    """The table, as `read_delimited` gives it, of lines already cut into cells.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.delimited import read_rows
    >>> from gpower.io.tables.table import TableFile
    >>> read_rows(TableFile(Path("made-up")), iter([(7, ["", "s1"]), (8, ["TP53", "1.5"])]))
    Table(X=array([[1.5]]), feature_names=('s1',), sample_names=('TP53',))
    """
    first = _looked_ahead(rows)
    if not first:
        raise TableError(file.path, "the file holds only blank lines and comments")
    top = [cell.strip() for cell in first[0][1]]
    has_header = is_header(top) if file.header is None else file.header
    headings, first = (top, first[1:]) if has_header else ([], first)
    if not first:
        raise TableError(file.path, "the file has a header and no samples below it")
    layout = _layout(file, headings, first)
    longest = max(sum(map(len, cells)) + len(cells) for _, cells in first)
    X, names = read_quickly(layout, first[0][0], longest) or _numbers(layout, chain(first, rows))
    columns = tuple(layout.headings[j] or f"column {j}" for j in layout.kept) if has_header else None
    return Table(X, columns, names or None)


def _numbers(layout: Layout, rows: Iterator[Row]) -> tuple[Array, tuple[str, ...]]:
    """The numbers of all rows, and the names of the rows; what is wrong with a cell is said of it."""
    file, values, names = layout.file, array("d"), list[str]()
    room = free_memory() / 2  # growing, and then handed over, takes twice as much
    for line, cells in kept_rows(file, layout.names_at, rows) if file.drop_rows else rows:
        if 8 * len(values) > room:
            advice = "save it as .npy, .zarr or .parquet, which are read in blocks"
            raise TableError(file.path, f"line {line}: the table does not fit the memory that is free; {advice}")
        if len(cells) != layout.width:
            raise TableError(file.path, f"line {line} has {len(cells)} cells where {layout.width} are expected")
        if layout.names_at is not None:
            names.append(cells[layout.names_at].strip())
        values.extend(layout.numbers(line, cells))
    return np.frombuffer(values).reshape(-1, len(layout.kept)), tuple(names)


@dataclass(frozen=True)
class Layout:
    """What the columns of a file hold.

    `headings` of all of them (none without a header), `names_at` the rows' names, `kept` the numbers, `text` those of
    `kept` that seem to hold words only.
    """

    file: TableFile
    headings: list[str]
    width: int
    names_at: int | None
    kept: tuple[int, ...]
    text: tuple[int, ...]

    def option(self, j: int) -> int | str:
        """How an option calls a column: by its heading, unless that could mean something else."""
        heading = self.headings[j] if self.headings else ""
        usable = heading and not heading.isdecimal() and "," not in heading
        return heading if usable and self.headings.count(heading) == 1 else j

    def numbers(self, line: int, cells: list[str]) -> list[float]:
        """The numbers of a row, NaN for a missing one; an error that says which of them is none."""
        if len(self.kept) < len(cells):
            cells = [cells[j] for j in self.kept]
        with suppress(ValueError):
            if "_" not in "".join(cells):
                numbers = list(map(float, cells))
                if not self.file.complete or math.isfinite(sum(numbers)):
                    return numbers
        return [self._number(line, j, cell.strip()) for j, cell in zip(self.kept, cells, strict=True)]

    def _number(self, line: int, j: int, cell: str) -> float:
        if not (is_missing(cell) or is_number(cell)):
            reason = f"{self._place(line, j)} holds {quoted(cell)} where a number belongs{self._advice(j, cell)}"
            drop = [self.option(column) for column in self.text]
            raise TableError(self.file.path, reason, index_col=self.option(j), drop=drop)
        number = math.nan if is_missing(cell) else float(cell)
        if self.file.complete and not math.isfinite(number):
            what = f"holds {quoted(cell)}" if cell else "is empty"
            advice = "fill it in, or leave out the line, or the column with {drop}"
            reason = f"{self._place(line, j)} {what} where a number belongs; {advice}"
            raise (MissingCell if math.isnan(number) else TableError)(self.file.path, reason, drop=[self.option(j)])
        return number

    def _place(self, line: int, j: int) -> str:
        heading = self.headings[j] if self.headings else ""
        return f"line {line}, column {quoted(heading) if heading else f'{j} (counted from 0)'}"

    def _advice(self, j: int, cell: str) -> str:
        """What to do about a cell of text."""
        if DECIMAL_COMMA.fullmatch(cell):
            return "; write decimals with a point, and thousands without a separator"
        advice = {
            "write plain numbers, such as 1234.5": bool(_LIKE_A_NUMBER.fullmatch(cell)),
            "if these are names, say so with {index_col}": self.names_at is None,
            "leave columns of text out with {drop}": j in self.text,
            "if it stands for a missing value, write NA": is_word(cell) and j not in self.text,
        }
        return "".join(f"; {part}" for part, helps in advice.items() if helps)


def _layout(file: TableFile, headings: list[str], rows: Sequence[Row]) -> Layout:
    if headings and file.index_col is None and _lacks_corner(headings, rows):
        headings = ["", *headings]
    width = len(headings or rows[0][1])
    dropped = {j for column in file.drop for j in positions(file.path, column, headings, width)}
    columns = [j for j in range(width) if j not in dropped]
    text = [j for j in columns if all(j < len(cells) and is_word(cells[j]) for _, cells in rows)]
    names_at: int | None = None
    if file.index_col is not None:
        names_at = position(file.path, "index_col", file.index_col, headings, width)
    elif len(columns) > 1 and (columns[0] in text or (columns[0] == 0 and headings[:1] in ([""], ["Unnamed: 0"]))):
        names_at = columns[0]  # the first of several, since it can be nothing else
    kept = tuple(j for j in columns if j != names_at)
    if not kept:
        raise TableError(file.path, "the table has no variables: every column is left out or holds names")
    return Layout(file, headings, width, names_at, kept, tuple(j for j in text if j != names_at))


def _lacks_corner(headings: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether every row is one cell longer than the header, as R writes a table with row names.

    A separator at the end of every row looks the same but for its empty last cell.
    """
    longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return longer and any(cells[-1].strip() for _, cells in rows)
