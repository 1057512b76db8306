"""Read text tables: numbers separated by commas, tabs, semicolons or blanks, with or without names.

NumPy parses a table of numbers. Any other file is read cell by cell, so that an error names the line and the column.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import get_free_memory
from gpower._utils.messages import format_param
from gpower._utils.text import MISSING_NUMBER_WORDS, format_count, format_names, make_names_unique, quote
from gpower.io.tables.decompression import MAX_BLANK_LINES, open_text
from gpower.io.tables.numpy_text import read_with_numpy
from gpower.io.tables.table import MissingCellError, Table, TableError, TableFile

Row = TypeVar("Row")
NumberedRow = tuple[int, list[str]]  # (line number, cells)
#: Line and content of the first cell that is no number, and the count of such cells, by column and whether missing.
RejectedCells = dict[tuple[int, bool], tuple[int, str, int]]

_THOUSANDS_PATTERN = re.compile(r"[-+]?\d{1,3}([,'\u00a0 ]\d{3})+(\.\d*)?")
_DECIMAL_COMMA_PATTERN = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_QUOTED_PATTERN = re.compile(r'"[^"]*"')
_NUMBER_LIKE_PATTERN = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
# Limits on the first rows that decide where the names are; the limit on cells does not hold for the first few rows.
_MIN_LOOKAHEAD_ROWS, _MAX_LOOKAHEAD_ROWS, _MAX_LOOKAHEAD_CELLS = 3, 200, 400_000

_MAX_LISTED_COLUMNS = 8  # columns with cells that are not numbers, which a message names


def read_delimited(file: TableFile) -> Table:
    r"""Return the table of a text file without transposing it: each line is a sample.

    By default a first line of words is the header, and a first column without a heading, or without a number, holds the
    names of the rows.

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


def read_text_cells(path: Path) -> list[list[str]]:
    """Return the cells of a text table without surrounding blanks, row by row, its headings first."""
    with open_text(path) as lines:
        return [[cell.strip() for cell in cells] for _, cells in split_table_rows(TableFile(path), lines)[1]]


def split_table_rows(file: TableFile, lines: Iterator[str]) -> tuple[TableFile, Iterator[NumberedRow]]:
    """Return the file with its separator, decimal mark and lines to skip, and an iterator over the rows, not blank."""
    above = first = ""  # the last blank line or comment above the table, and the first line of the table
    number = 0
    for number, line in enumerate(lines, 1):
        if number > file.skip and line.strip() and not line.lstrip().startswith("#"):
            first = line
            break
        above = line if number > file.skip else ""
        if number > MAX_BLANK_LINES:
            raise TableError(file.path, f"the first {MAX_BLANK_LINES:,} lines are comments: this is not a text table")
    delimiter = file.sep or _detect_delimiter(file.path, first)
    header = _parse_commented_header(above, first, delimiter) if above and file.header is not False else "\n"
    top = [header, first] if number > 1 else [first]
    numbered = ((line + number - len(top), cells) for line, cells in _split_cells(chain(top, lines), delimiter))
    rows: Iterator[NumberedRow] = (row for row in numbered if any(map(str.strip, row[1])))
    first_rows = _take_first_rows(rows)
    rows = chain(first_rows, rows)
    decimal = file.decimal or _detect_decimal_mark(first_rows, delimiter)
    if decimal == ",":
        rows = _replace_decimal_commas(file.path, rows)
    return replace(file, sep=delimiter, decimal=decimal, skip=number - 1), rows


def _parse_commented_header(comment: str, first: str, delimiter: str) -> str:
    """Return the header in a comment right above the numbers, as NumPy and others write it; else a newline."""
    names = comment.strip().lstrip("#").strip(" ")
    above, below = (
        [cell.strip() for _, cells in _split_cells([line], delimiter) for cell in cells] for line in (names, first)
    )
    return names if len(above) == len(below) > 1 and _is_header_row(above) and not _is_header_row(below) else "\n"


def _split_cells(lines: Iterable[str], delimiter: str) -> Iterator[NumberedRow]:
    """Return an iterator over the line number and the cells of each line."""
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader)


def _replace_decimal_commas(path: Path, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    """Yield the rows with decimal commas replaced by points; raise if commas and points occur, which is ambiguous."""
    comma = point = ""
    for line, cells in rows:
        for j, cell in enumerate(cells):
            if _DECIMAL_COMMA_PATTERN.fullmatch(cell.strip()):
                comma = cell.strip()
                cells[j] = cell.replace(",", ".")
            elif "." in cell and _is_number_cell(cell):
                point = cell.strip()
        if comma and point:
            both = f"{quote(comma)} has a decimal comma and {quote(point)} a point"
            raise TableError(path, f"line {line}: {both}; use one of them")
        yield line, cells


def _detect_decimal_mark(rows: Sequence[NumberedRow], delimiter: str) -> str:
    """Return "," if semicolons separate the cells, or if a comma in a number cannot mean thousands; else "."."""
    if delimiter in ",;":
        return "." if delimiter == "," else ","
    cells = [cell.strip() for _, row in rows for cell in row if "," in cell]
    is_comma = any(_DECIMAL_COMMA_PATTERN.fullmatch(cell) and not _THOUSANDS_PATTERN.fullmatch(cell) for cell in cells)
    return "," if is_comma else "."


def _take_first_rows(rows: Iterator[NumberedRow]) -> list[NumberedRow]:
    """Remove the first rows from an iterator and return them: enough to see where the names are."""
    first_rows, n_cells = list[NumberedRow](), 0
    for line, cells in islice(rows, _MAX_LOOKAHEAD_ROWS):
        first_rows.append((line, cells))
        n_cells += len(cells)
        if n_cells > _MAX_LOOKAHEAD_CELLS and len(first_rows) >= _MIN_LOOKAHEAD_ROWS:
            break
    return first_rows


def _detect_delimiter(path: Path, line: str) -> str:
    """Return the character that separates the cells of `line`, preferably the usual one for the suffix of the file."""
    unquoted = _QUOTED_PATTERN.sub("", line)
    usual = "," if ".csv" in map(str.lower, path.suffixes) else "\t"
    cells = [cell.strip() for cell in unquoted.split(";")]
    commas_are_decimal = all("," not in cell or _DECIMAL_COMMA_PATTERN.fullmatch(cell) for cell in cells)
    if len(cells) > 1 and "\t" not in unquoted and commas_are_decimal:
        return ";"
    if usual in unquoted:
        return usual
    count, most_frequent = max((unquoted.count(mark), mark) for mark in ",;\t")
    if count:
        return most_frequent
    return " " if usual == "\t" and len(unquoted.split()) > 1 else usual


def split_tabbed_rows(lines: Iterator[str]) -> Iterator[NumberedRow]:
    r"""Yield the line number and the cells of each tab-separated line, without quotes around cells.

    Quotes inside a cell stay: gene titles have 3' and 5" ends.

    Examples
    --------
    >>> from gpower.io.tables.delimited import split_tabbed_rows
    >>> list(split_tabbed_rows(iter(['"ID"\t"s1"\n', "TP53\t1.5\t\n"])))
    [(1, ['ID', 's1']), (2, ['TP53', '1.5', ''])]
    """
    for number, line in enumerate(lines, 1):
        yield number, [_strip_quotes(cell) for cell in line.rstrip("\r\n").split("\t")]


def _strip_quotes(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def build_table_from_rows(file: TableFile, rows: Iterator[NumberedRow]) -> Table:
    """Return the table of rows that are already split into cells, by the rules of `read_delimited`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.delimited import build_table_from_rows
    >>> from gpower.io.tables.table import TableFile
    >>> build_table_from_rows(TableFile(Path("made-up")), iter([(7, ["", "s1"]), (8, ["TP53", "1.5"])]))
    Table(X=array([[1.5]]), feature_names=('s1',), sample_names=('TP53',))
    """
    first_rows = _take_first_rows(rows)
    if not first_rows:
        raise TableError(file.path, "the file contains only blank lines and comments")
    first_cells = [cell.strip() for cell in first_rows[0][1]]
    has_header = _is_header_row(first_cells) if file.header is None else file.header
    headings = first_cells if has_header else []
    if has_header:
        file = replace(file, skip=first_rows.pop(0)[0])
    if not first_rows:
        raise TableError(file.path, "the file has a header and no samples below it")
    layout = _detect_layout(file, headings, first_rows)
    # Rows of GCT and GEO files have no separator here, and one that is also the decimal mark needs quotes around cells.
    can_use_numpy = file.sep is not None and file.sep != file.decimal and not file.drop_rows
    parsed = read_with_numpy(layout) if can_use_numpy else None
    X, sample_names = _parse_all_rows(layout, chain(first_rows, rows)) if parsed is None else parsed
    feature_names = tuple(layout.headings[j] or f"column {j}" for j in layout.numeric_columns) if has_header else None
    return Table(X, feature_names, sample_names or None, notes=_describe_repeated_names(layout, sample_names))


def _describe_repeated_names(layout: TextTableLayout, sample_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note if a column that was taken for the names of the samples repeats them, as a column of data does."""
    if layout.name_column is None or layout.file.index_col is not None or layout.file.transpose:
        return ()
    n_different = len(set(sample_names))
    if n_different == len(sample_names) or (layout.headings and not layout.headings[layout.name_column]):
        return ()
    option = layout.format_column_option(layout.name_column)
    heading = quote(str(option)) if isinstance(option, str) else "the first column"
    counts = f"{len(sample_names)} samples, {n_different} different {'name' if n_different == 1 else 'names'}"
    drop = format_param("drop", [option])
    return (f"{heading} is taken for the names of the samples: {counts}; if it is data, leave it out with {drop}",)


def _parse_all_rows(layout: TextTableLayout, rows: Iterator[NumberedRow]) -> tuple[Array, tuple[str, ...]]:
    """Return the numbers of all rows, float64, and the names of the rows; raise if cells are not numbers."""
    file, values, names, rejected = layout.file, array("d"), list[str](), RejectedCells()
    kept_rows = _iterate_kept_rows(file, layout.name_column, rows) if file.drop_rows else rows
    for line, cells in layout.limit_rows(kept_rows):
        if len(cells) != layout.n_columns:
            layout.refuse_cells(rejected)
            raise TableError(file.path, f"line {line} has {len(cells)} cells where {layout.n_columns} are expected")
        if layout.name_column is not None:
            names.append(cells[layout.name_column].strip())
        values.extend(layout.parse_row(line, cells, rejected))
    layout.refuse_cells(rejected)
    return np.frombuffer(values).reshape(-1, len(layout.numeric_columns)), tuple(names)


def _iterate_kept_rows(file: TableFile, name_column: int | None, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    """Yield the rows that `drop_rows` does not select by name, pattern, or position below the header."""
    matched = set[int | str]()
    for i, (line, cells) in enumerate(rows):
        name = cells[name_column].strip() if name_column is not None and name_column < len(cells) else ""
        selectors = [
            row for row in file.drop_rows if row == i or str(row) == name or (name and fnmatchcase(name, str(row)))
        ]
        matched.update(selectors)
        if not selectors:
            yield line, cells
    unmatched = [row for row in file.drop_rows if row not in matched]
    if unmatched:
        raise TableError(file.path, "{drop_rows} matches no name or position of a row", drop_rows=unmatched)


@dataclass(frozen=True)
class TextTableLayout:
    """Content of the columns of a text table.

    Attributes
    ----------
    file : TableFile
    headings : list of str
        One per column; empty without a header.
    n_columns : int
        Columns of the file.
    name_column : int or None
        Column with the names of the rows.
    numeric_columns : tuple of int
        Columns to read as numbers.
    text_columns : tuple of int
        Those of `numeric_columns` whose first rows hold only words: reading them will fail.
    """

    file: TableFile
    headings: list[str]
    n_columns: int
    name_column: int | None
    numeric_columns: tuple[int, ...]
    text_columns: tuple[int, ...]

    def format_column_option(self, j: int) -> int | str:
        """Return how an option selects column j: by its heading, or by its position if the heading is ambiguous."""
        heading = self.headings[j] if self.headings else ""
        is_usable = heading and not heading.isdecimal() and "," not in heading
        return heading if is_usable and self.headings.count(heading) == 1 else j

    def limit_rows(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield rows of any form; raise if the numbers of all of them do not fit into the free memory."""
        max_rows = get_free_memory() / 2 / (8 * self.n_columns)  # the array needs twice its size while it grows
        for i, row in enumerate(rows):
            if i > max_rows:
                advice = "save it as .npy, .zarr or .parquet, which are read in blocks"
                raise TableError(self.file.path, f"the table does not fit into the free memory; {advice}")
            yield row

    def parse_row(self, line: int, cells: list[str], rejected: RejectedCells) -> list[float]:
        """Return the numbers of a row, NaN for a missing one; add cells that are not numbers to `rejected`."""
        if len(self.numeric_columns) < len(cells):
            cells = [cells[j] for j in self.numeric_columns]
        with suppress(ValueError):
            if "_" not in "".join(cells):
                numbers = list(map(float, cells))
                if not self.file.complete or math.isfinite(sum(numbers)):
                    return numbers
        numbers = [float(cell) if _is_number_cell(cell) else math.nan for cell in cells]
        for j, number, cell in zip(self.numeric_columns, numbers, cells, strict=True):
            is_missing = _is_missing_cell(cell)
            is_rejected = not math.isfinite(number) if self.file.complete else not is_missing and math.isnan(number)
            if is_rejected:
                first_line, first_cell, count = rejected.get((j, is_missing), (line, cell.strip(), 0))
                rejected[j, is_missing] = first_line, first_cell, count + 1
        return numbers

    def refuse_cells(self, rejected: RejectedCells) -> None:
        """Raise if there are cells that are not numbers, and name all columns that have one.

        The position of the first cell is named instead if there is one column, if all columns consist of words, or if
        the cell is a number written in another notation, as others will be.
        """
        if not rejected:
            return
        (j, is_missing), (line, cell, _) = next(iter(rejected.items()))
        columns = sorted({column for column, _ in rejected})
        is_odd_number = not (is_missing or _is_text_cell(cell))
        if len(rejected) == 1 or is_odd_number or set(columns) <= set(self.text_columns):
            self._refuse_cell(line, j, cell)
        examples = list[str]()
        for column in columns:
            _, example, _ = rejected.get((column, False)) or rejected[column, True]
            count = sum(rejected[key][2] for key in rejected if key[0] == column)
            name = quote(self.headings[column], 24) if self.headings else f"column {column}"
            examples.append(f"{name} ({count}, such as {quote(example, 12)})" if example else f"{name} ({count} empty)")
        names = format_names(examples, _MAX_LISTED_COLUMNS)
        have = f"{format_count(len(columns), 'column')} {'has' if len(columns) == 1 else 'have'}"
        drop = [self.format_column_option(column) for column in columns]
        advice = "leave them out" + (" with {drop}" if len(columns) <= _MAX_LISTED_COLUMNS else "")
        if all(is_missing for _, is_missing in rejected):
            raise MissingCellError(self.file.path, f"{have} missing cells: {names}; {advice}", drop=drop)
        advice += ", or write NA for text that stands for a missing value"
        advice += " and add {missing}" if self.file.complete else ""
        reason = f"{have} cells that are not numbers: {names}; {advice}"
        raise TableError(self.file.path, reason, drop=drop, missing="impute")

    def _refuse_cell(self, line: int, j: int, cell: str) -> NoReturn:
        """Raise with the position of a cell that is not a number."""
        if not (_is_missing_cell(cell) or _is_number_cell(cell)):
            problem = f"{self._describe_position(line, j)} holds {quote(cell)} where a number belongs"
            drop = [self.format_column_option(column) for column in self.text_columns]
            index_col = self.format_column_option(j)
            raise TableError(self.file.path, problem + self._suggest_fix(j, cell), index_col=index_col, drop=drop)
        content = f"holds {quote(cell)}" if cell else "is empty"
        advice = "fill it in, or leave out the line, or the column with {drop}"
        reason = f"{self._describe_position(line, j)} {content} where a number belongs; {advice}"
        error = MissingCellError if _is_missing_cell(cell) else TableError
        raise error(self.file.path, reason, drop=[self.format_column_option(j)])

    def _describe_position(self, line: int, j: int) -> str:
        heading = self.headings[j] if self.headings else ""
        return f"line {line}, column {quote(heading) if heading else f'{j} (counted from 0)'}"

    def _suggest_fix(self, j: int, cell: str) -> str:
        """Return the advice, if any, for a cell that is no number, each part after a semicolon."""
        if _DECIMAL_COMMA_PATTERN.fullmatch(cell):
            return "; write decimals with a point, and thousands without a separator"
        advice = {
            "write plain numbers, such as 1234.5": bool(_NUMBER_LIKE_PATTERN.fullmatch(cell)),
            "if these are names, say so with {index_col}": self.name_column is None,
            "leave columns of text out with {drop}": j in self.text_columns,
            "if it stands for a missing value, write NA": _is_text_cell(cell) and j not in self.text_columns,
        }
        return "".join(f"; {part}" for part, applies in advice.items() if applies)


def _detect_layout(file: TableFile, headings: list[str], rows: Sequence[NumberedRow]) -> TextTableLayout:
    """Return which columns hold names, numbers and words, judged by the headings and the first rows."""
    if headings and file.index_col is None and _lacks_corner_heading(headings, rows):
        headings = ["", *headings]
    n_columns = len(headings or rows[0][1])
    is_selected = bool(file.drop) or file.index_col is not None
    columns_by_name = {name: j for j, name in enumerate(make_names_unique(headings))} if is_selected else {}
    dropped = file.find_dropped_columns(columns_by_name, n_columns)
    columns = [j for j in range(n_columns) if j not in dropped]
    text = [j for j in columns if all(j < len(cells) and _is_text_cell(cells[j]) for _, cells in rows)]
    name_column: int | None = None
    if file.index_col is not None:
        name_column = file.find_column("index_col", file.index_col, columns_by_name, n_columns)
    elif len(columns) > 1 and (columns[0] in text or (columns[0] == 0 and headings[:1] in ([""], ["Unnamed: 0"]))):
        name_column = columns[0]
    numeric = tuple(j for j in columns if j != name_column)
    if not numeric:
        raise TableError(file.path, "the table has no variables: every column is left out or holds names")
    return TextTableLayout(file, headings, n_columns, name_column, numeric, tuple(j for j in text if j != name_column))


def _lacks_corner_heading(headings: Sequence[str], rows: Sequence[NumberedRow]) -> bool:
    """Return whether every row is one cell longer than the header, as R writes a table with row names.

    Rows whose extra cell is empty in all of them end with a separator instead.
    """
    is_longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return is_longer and any(cells[-1].strip() for _, cells in rows)


def _is_header_row(cells: Sequence[str]) -> bool:
    """Return whether a first line holds names: words, or consecutive integers after a first cell that is no number."""
    if _is_text_cell(cells[0]) or _is_missing_cell(cells[0]):
        if _are_consecutive_integers(cells[1:]):
            return True
        # A word in front of numbers names a sample; the cells after it decide.
        cells = cells[1:] or cells
    # Among a majority of numbers a word is an error to report, not a header.
    return 2 * sum(map(_is_text_cell, cells)) > sum(not _is_missing_cell(cell) for cell in cells)


def _are_consecutive_integers(cells: Sequence[str]) -> bool:
    """Return whether the cells are integers that count upwards, as numbered columns or years do."""
    all_integers = len(cells) > 1 and all(map(str.isdecimal, cells))
    return all_integers and all(int(after) == int(before) + 1 for before, after in pairwise(cells))


def _is_number_cell(cell: str) -> bool:
    """Return whether a cell is a number with a decimal point; NaN and infinity count."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as ten; in a table it is a name


def _is_missing_cell(cell: str) -> bool:
    """Return whether a cell is empty or a marker of a missing number, such as NA."""
    return cell.strip().lower() in MISSING_NUMBER_WORDS


def _is_text_cell(cell: str) -> bool:
    """Return whether a cell can only be a name."""
    # A number with a decimal comma or thousands separators is a mistake to report, not a heading or a sample's name.
    is_odd_number = _DECIMAL_COMMA_PATTERN.fullmatch(cell.strip()) or _THOUSANDS_PATTERN.fullmatch(cell.strip())
    return not (_is_number_cell(cell) or _is_missing_cell(cell) or is_odd_number)
