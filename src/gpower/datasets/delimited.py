"""Tables in text: numbers separated by commas, tabs, semicolons or blanks, with or without names.

Read line by line, so that everything wrong with a file is reported with its line and its column.
"""

import csv
import gzip
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TextIO, cast

import numpy as np
from numpy.typing import NDArray

from gpower.datasets.errors import TableError

__all__ = ["read_delimited"]

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
_QUOTED = re.compile(r'"[^"]*"')
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_LOOKAHEAD = 200  # rows that decide where the names are

Row = tuple[int, list[str]]  # (line number, cells)
Names = tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    """Where the names are: `headings` of all columns of the file (or None), `names_at` the names' column."""

    headings: list[str] | None
    names_at: int | None
    width: int

    @property
    def columns(self) -> Names | None:
        """The names of the columns that hold numbers."""
        if self.headings is None:
            return None
        return tuple(heading or f"column {j + 1}" for j, heading in enumerate(self.headings) if j != self.names_at)


def read_delimited(
    path: Path, *, index_col: int | str | None = None, header: bool | None = None
) -> tuple[NDArray[np.float64], Names | None, Names | None]:
    r"""Numbers, names of the columns and names of the rows of a text file.

    Parameters
    ----------
    path : Path
        The file, gzipped where its name ends in ``.gz``.
    index_col : int or str, optional
        The column of the rows' names; by default a first column without a heading or without a number.
    header : bool, optional
        Whether the first line holds names; by default a line of words does.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        A missing cell is NaN.
    columns, rows : tuple of str, or None
        Their names, where the file has them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets.delimited import read_delimited
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plain.txt")
    ...     _ = path.write_text("1 2\n3 4\n")
    ...     read_delimited(path)
    (array([[1., 2.],
           [3., 4.]]), None, None)
    """
    with _open_text(path) as lines:
        try:
            return _read_rows(path, _split(path, lines), index_col, header)
        except UnicodeDecodeError as error:
            raise TableError(path, "this is not a text file in UTF-8") from error
        except csv.Error as error:
            raise TableError(path, f"this is not a table in text: {error}") from error


def _open_text(path: Path) -> TextIO:
    open_bytes = gzip.open if path.suffix.lower() == ".gz" else open
    with open_bytes(path, "rb") as start:
        # Spreadsheets save "Unicode text" as UTF-16 and begin it with a mark; everything else is UTF-8.
        utf16 = start.read(2) in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if utf16 else "utf-8-sig"
    return cast(TextIO, open_bytes(path, "rt", encoding=encoding, newline=""))


def _split(path: Path, lines: Iterable[str]) -> Iterator[Row]:
    """The rows of the file that are not blank, each with its line number."""
    lines = iter(lines)
    blank = list[str]()
    first = ""
    for first in lines:
        if first.strip():
            break
        blank.append(first)
    delimiter = _delimiter(path, first)
    lines = chain(blank, [first], lines)
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader if any(map(str.strip, cells)))


def _delimiter(path: Path, line: str) -> str:
    """The character that separates the cells of `line`: the one the suffix promises, if it occurs at all."""
    bare = _QUOTED.sub("", line)
    promised = "," if ".csv" in map(str.lower, path.suffixes) else "\t"
    if promised in bare:
        return promised
    count, found = max((bare.count(mark), mark) for mark in ",;\t")
    if count:
        return found
    return " " if promised == "\t" and len(bare.split()) > 1 else promised


def _read_rows(
    path: Path, rows: Iterator[Row], index_col: int | str | None, header: bool | None
) -> tuple[NDArray[np.float64], Names | None, Names | None]:
    first = list(islice(rows, _LOOKAHEAD))
    if not first:
        raise TableError(path, "the file holds only blank lines")
    has_header = _is_header([cell.strip() for cell in first[0][1]]) if header is None else header
    headings = [cell.strip() for cell in first.pop(0)[1]] if has_header else None
    if not first:
        raise TableError(path, "the file has a header and no samples below it")
    layout = _layout(path, headings, first, index_col)
    values, names = array("d"), list[str]()
    for line, cells in chain(first, rows):
        if len(cells) != layout.width:
            raise TableError(path, f"line {line} has {len(cells)} cells where {layout.width} are expected")
        if layout.names_at is not None:
            names.append(cells.pop(layout.names_at).strip())
        values.extend(_numbers(path, line, cells, layout))
    n_columns = layout.width - (layout.names_at is not None)
    X = np.frombuffer(values).reshape(-1, n_columns) if n_columns else np.empty((len(names), 0))
    return X, layout.columns, tuple(names) if layout.names_at is not None else None


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a first line holds names: words, or consecutive integers below a corner that is no number."""
    if _is_word(cells[0]) or _is_missing(cells[0]):
        if _are_consecutive(cells[1:]):
            return True
        # A word in front of numbers names a sample; what follows it decides.
        cells = cells[1:] or cells
    # Among a majority of numbers a word is an error to report, not a header.
    return 2 * sum(map(_is_word, cells)) > sum(not _is_missing(cell) for cell in cells)


def _are_consecutive(cells: Sequence[str]) -> bool:
    """Whether the cells are integers that count upwards, as numbered columns or years do."""
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as ten; in a table it is a name


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_word(cell: str) -> bool:
    # A number with a decimal comma is a mistake to report, and neither a heading nor a sample's name.
    return not (_is_number(cell) or _is_missing(cell) or _DECIMAL_COMMA.fullmatch(cell))


def _layout(path: Path, headings: list[str] | None, rows: Sequence[Row], index_col: int | str | None) -> _Layout:
    width = len(rows[0][1])
    if headings is None:
        return _Layout(None, _names_column(path, None, width, rows, index_col), width)
    if index_col is None and _lacks_corner(headings, rows):
        return _Layout(["", *headings], 0, len(headings) + 1)
    return _Layout(headings, _names_column(path, headings, len(headings), rows, index_col), len(headings))


def _lacks_corner(headings: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether every row is one cell longer than the header, as R writes a table with row names.

    A separator at the end of every row looks the same but for its empty last cell.
    """
    longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return longer and any(cells[-1].strip() for _, cells in rows)


def _names_column(
    path: Path, headings: list[str] | None, width: int, rows: Sequence[Row], index_col: int | str | None
) -> int | None:
    """The column that holds the rows' names: the one asked for, or the first if it can be nothing else."""
    if isinstance(index_col, str):
        if headings is None or index_col not in headings:
            found = "no header" if headings is None else f"the columns {', '.join(headings[:6])}"
            raise TableError(path, f"index_col {index_col!r} is not a heading; the file has {found}")
        return headings.index(index_col)
    if index_col is not None:
        if not 0 <= index_col < width:
            raise TableError(path, f"index_col {index_col} is not one of the columns 0 to {width - 1}")
        return index_col
    corner_is_empty = headings is not None and width > 1 and headings[0] in ("", "Unnamed: 0")
    only_words = width > 1 and all(cells and _is_word(cells[0].strip()) for _, cells in rows)
    return 0 if corner_is_empty or only_words else None


def _numbers(path: Path, line: int, cells: list[str], layout: _Layout) -> list[float]:
    """The cells as floats, NaN for a missing one; an error that says which of them is text."""
    try:
        if "_" not in "".join(cells):
            return list(map(float, cells))
    except ValueError:
        pass
    return [_number(path, line, j, cell, layout) for j, cell in enumerate(cells)]


def _number(path: Path, line: int, j: int, cell: str, layout: _Layout) -> float:
    if _is_missing(cell):
        return float("nan")
    if _is_number(cell):
        return float(cell)
    in_file = j + (layout.names_at is not None and j >= layout.names_at)
    column = f"column {in_file + 1}" + (f" ({layout.columns[j]!r})" if layout.columns else "")
    if _DECIMAL_COMMA.fullmatch(cell.strip()):
        advice = "; write decimals with a point"
    else:
        advice = "; if these are names, say so with index_col" if layout.names_at is None else ""
    raise TableError(path, f"line {line}, {column} holds {cell.strip()!r} where a number belongs{advice}")
