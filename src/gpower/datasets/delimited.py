"""Tables in text: numbers separated by commas, tabs, semicolons or blanks, with or without names.

Read line by line, so that everything wrong with a file is reported with its line and its column.
"""

import csv
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise
from pathlib import Path

import numpy as np

from gpower.datasets.errors import MissingCell, TableError
from gpower.datasets.table import Names, Table
from gpower.datasets.text import Row, open_text

__all__ = ["Columns", "listed", "read_delimited", "read_rows", "unique_names"]

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
_QUOTED = re.compile(r'"[^"]*"')
_THOUSANDS = re.compile(r"[-+]?\d{1,3}([,'\u00a0 ]\d{3})+(\.\d*)?")
_LIKE_A_NUMBER = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_LOOKAHEAD = 200  # rows that decide where the names are
_SHOWN = 6  # headings that an error lists

Columns = Sequence[int | str]  # by position from 0, or by heading


@dataclass(frozen=True)
class _Layout:
    """What the columns of the file hold.

    `headings` of all of them (or None), `names_at` the rows' names, `kept` the numbers, `text` those of `kept`
    that seem to hold words only, `complete` whether a missing number is an error.
    """

    headings: list[str] | None
    width: int
    names_at: int | None
    kept: tuple[int, ...]
    text: tuple[int, ...]
    complete: bool

    @property
    def columns(self) -> Names | None:
        """The names of the columns that hold numbers."""
        return None if self.headings is None else tuple(self.headings[j] or f"column {j + 1}" for j in self.kept)

    def place(self, j: int) -> str:
        """How an error calls a column of the file."""
        return f"column {j + 1}" + (f" ({self.headings[j]!r})" if self.headings and self.headings[j] else "")

    def option(self, j: int) -> int | str:
        """How an option calls it: by its heading, unless that could mean something else."""
        heading = self.headings[j] if self.headings else ""
        usable = heading and not heading.isdecimal() and "," not in heading
        return heading if usable and self.headings and self.headings.count(heading) == 1 else j


def read_delimited(
    path: Path,
    *,
    index_col: int | str | None = None,
    header: bool | None = None,
    drop: Columns = (),
    complete: bool = False,
) -> Table:
    r"""The table of a text file.

    Parameters
    ----------
    path : Path
        The file, gzipped where its name ends in ``.gz``.
    index_col : int or str, optional
        The column of the rows' names; by default a first column without a heading or without a number.
    header : bool, optional
        Whether the first line holds names; by default a line of words does.
    drop : sequence of int or str, optional
        Columns to leave out.
    complete : bool, default False
        Refuse a missing or infinite number.

    Returns
    -------
    Table
        As the file lies: its rows are the samples.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets.delimited import read_delimited
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plain.txt")
    ...     _ = path.write_text("1 2\n3 4\n")
    ...     read_delimited(path)
    Table(X=array([[1., 2.],
           [3., 4.]]), feature_names=None, sample_names=None)
    """
    with open_text(path) as lines:
        return read_rows(path, _split(path, lines, header), index_col, header, drop, complete)


def _split(path: Path, lines: Iterable[str], header: bool | None) -> Iterator[Row]:
    """The rows of the table that are not blank, each with its line number."""
    lines = iter(lines)
    above = list[str]()  # blank lines and comments
    first = ""
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            first = line
            break
        above.append(line)
    delimiter = _delimiter(path, first)
    blank = ["\n"] * len(above)
    if above and header is not False and (names := _commented_names(above[-1], first, delimiter)):
        blank[-1] = names
    lines = chain(blank, [first], lines)
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    rows = ((reader.line_num, cells) for cells in reader if any(map(str.strip, cells)))
    return _with_points(path, rows) if delimiter == ";" else rows


def _commented_names(comment: str, first: str, delimiter: str) -> str:
    """The header that a comment right above the numbers is, as NumPy and many genomics programs write it; or ""."""
    names = comment.strip().lstrip("#").strip(" ")
    above, below = _cells(names, delimiter), _cells(first, delimiter)
    return names if len(above) == len(below) > 1 and _is_header(above) and not _is_header(below) else ""


def _cells(line: str, delimiter: str) -> list[str]:
    line = " ".join(line.split()) if delimiter == " " else line
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _with_points(path: Path, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows with their decimal commas as points; a table with both may mean either by a point."""
    comma = point = ""
    for line, cells in rows:
        for j, cell in enumerate(cells):
            if _DECIMAL_COMMA.fullmatch(cell.strip()):
                comma, cells[j] = cell.strip(), cell.replace(",", ".")
            elif "." in cell and _is_number(cell):
                point = cell.strip()
        if comma and point:
            raise TableError(path, f"line {line}: {comma!r} has a decimal comma and {point!r} a point; use one of them")
        yield line, cells


def _delimiter(path: Path, line: str) -> str:
    """The character that separates the cells of `line`: the one the suffix promises, if it occurs at all."""
    bare = _QUOTED.sub("", line)
    promised = "," if ".csv" in map(str.lower, path.suffixes) else "\t"
    cells = [cell.strip() for cell in bare.split(";")]
    if len(cells) > 1 and "\t" not in bare and all("," not in cell or _DECIMAL_COMMA.fullmatch(cell) for cell in cells):
        return ";"  # whatever commas there are stand inside numbers
    if promised in bare:
        return promised
    count, found = max((bare.count(mark), mark) for mark in ",;\t")
    if count:
        return found
    return " " if promised == "\t" and len(bare.split()) > 1 else promised


def read_rows(
    path: Path,
    rows: Iterator[Row],
    index_col: int | str | None = None,
    header: bool | None = None,
    drop: Columns = (),
    complete: bool = False,
) -> Table:
    """The table, as `read_delimited` gives it, of lines already cut into cells.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.datasets.delimited import read_rows
    >>> read_rows(Path("made-up"), iter([(7, ["", "s1"]), (8, ["TP53", "1.5"])]))
    Table(X=array([[1.5]]), feature_names=('s1',), sample_names=('TP53',))
    """
    first = list(islice(rows, _LOOKAHEAD))
    if not first:
        raise TableError(path, "the file holds only blank lines and comments")
    has_header = _is_header([cell.strip() for cell in first[0][1]]) if header is None else header
    headings = [cell.strip() for cell in first.pop(0)[1]] if has_header else None
    if not first:
        raise TableError(path, "the file has a header and no samples below it")
    layout = _layout(path, headings, first, index_col, drop, complete)
    values, names = array("d"), list[str]()
    for line, cells in chain(first, rows):
        if len(cells) != layout.width:
            raise TableError(path, f"line {line} has {len(cells)} cells where {layout.width} are expected")
        if layout.names_at is not None:
            names.append(cells[layout.names_at].strip())
        values.extend(_numbers(path, line, cells, layout))
    X = np.frombuffer(values).reshape(-1, len(layout.kept))
    return Table(X, layout.columns, tuple(names) if layout.names_at is not None else None)


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
    # A number with a decimal comma or thousands separators is a mistake to report, no heading and no sample's name.
    odd = _DECIMAL_COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell)
    return not (_is_number(cell) or _is_missing(cell) or odd)


def _layout(
    path: Path,
    headings: list[str] | None,
    rows: Sequence[Row],
    index_col: int | str | None,
    drop: Columns,
    complete: bool,
) -> _Layout:
    if headings is not None and index_col is None and _lacks_corner(headings, rows):
        headings = ["", *headings]
    width = len(rows[0][1]) if headings is None else len(headings)
    dropped = {_position(path, "drop", column, headings, width) for column in drop}
    if index_col is not None:
        names_at: int | None = _position(path, "index_col", index_col, headings, width)
    else:
        names_at = _names_column(headings, [j for j in range(width) if j not in dropped], rows)
    kept = tuple(j for j in range(width) if j != names_at and j not in dropped)
    if not kept:
        raise TableError(path, "the table has no variables: every column is left out or holds names")
    text = tuple(j for j in kept if all(j < len(cells) and _is_word(cells[j].strip()) for _, cells in rows))
    return _Layout(headings, width, names_at, kept, text, complete)


def _lacks_corner(headings: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether every row is one cell longer than the header, as R writes a table with row names.

    A separator at the end of every row looks the same but for its empty last cell.
    """
    longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return longer and any(cells[-1].strip() for _, cells in rows)


def _position(path: Path, option: str, column: int | str, headings: list[str] | None, width: int) -> int:
    """Where the column is that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < width:
        return column
    for names in [] if headings is None else [headings, unique_names(headings)]:
        if str(column) in names:  # headings may be numbers, such as years
            return names.index(str(column))
    if isinstance(column, int):
        raise TableError(path, f"{{{option}}} is not one of the columns 0 to {width - 1}", **{option: column})
    found = "no header" if headings is None else f"the columns {listed(headings)}"
    raise TableError(path, f"{{{option}}} is not a heading; the file has {found}", **{option: column})


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, a repeated one followed by .1, .2, … as pandas and R do; several probes measure one gene.

    Examples
    --------
    >>> from gpower.datasets.delimited import unique_names
    >>> unique_names(["BRCA1", "TP53", "BRCA1"])
    ['BRCA1', 'TP53', 'BRCA1.1']
    """
    taken, seen, unique = set(names), set[str](), list[str]()
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    for name in names:
        if name in seen:
            name = next(new for i in numbers[name] if (new := f"{name}.{i}") not in taken)
        seen.add(name)
        taken.add(name)
        unique.append(name)
    return unique


def listed(names: Sequence[str]) -> str:
    """The first few names, and whether there are more.

    Examples
    --------
    >>> from gpower.datasets.delimited import listed
    >>> listed("abcdefgh")
    'a, b, c, d, e, f, …'
    """
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])


def _names_column(headings: list[str] | None, columns: Sequence[int], rows: Sequence[Row]) -> int | None:
    """The column that holds the rows' names: the first of several, if it can be nothing else."""
    if len(columns) < 2:
        return None
    first = columns[0]
    corner_is_empty = headings is not None and first == 0 and headings[0] in ("", "Unnamed: 0")
    only_words = all(first < len(cells) and _is_word(cells[first].strip()) for _, cells in rows)
    return first if corner_is_empty or only_words else None


def _numbers(path: Path, line: int, cells: list[str], layout: _Layout) -> list[float]:
    """The numbers of a row, NaN for a missing one; an error that says which of them is none."""
    if len(layout.kept) < len(cells):
        cells = [cells[j] for j in layout.kept]
    try:
        if "_" not in "".join(cells):
            numbers = list(map(float, cells))
            if not layout.complete or math.isfinite(sum(numbers)):
                return numbers
    except ValueError:
        pass
    return [_number(path, line, j, cell.strip(), layout) for j, cell in zip(layout.kept, cells, strict=True)]


def _number(path: Path, line: int, j: int, cell: str, layout: _Layout) -> float:
    if _is_missing(cell) or _is_number(cell):
        number = float("nan") if _is_missing(cell) else float(cell)
        if layout.complete and not math.isfinite(number):
            what = f"holds {cell!r}" if cell else "is empty"
            advice = "fill it in, or leave out the line, or the column with {drop}"
            reason = f"line {line}, {layout.place(j)} {what} where a number belongs; {advice}"
            raise (MissingCell if math.isnan(number) else TableError)(path, reason, drop=[layout.option(j)])
        return number
    advice, options = _advice(j, cell, layout)
    raise TableError(path, f"line {line}, {layout.place(j)} holds {cell!r} where a number belongs{advice}", **options)


def _advice(j: int, cell: str, layout: _Layout) -> tuple[str, dict[str, object]]:
    """What to do about a cell of text, and the options that do it."""
    if _DECIMAL_COMMA.fullmatch(cell):
        return "; write decimals with a point, and thousands without a separator", {}
    options: dict[str, object] = {
        "index_col": layout.option(j),
        "drop": [layout.option(column) for column in layout.text],
    }
    advice = [
        *(["write plain numbers, such as 1234.5"] if _LIKE_A_NUMBER.fullmatch(cell) else []),
        *(["if these are names, say so with {index_col}"] if layout.names_at is None else []),
        *(["leave columns of text out with {drop}"] if j in layout.text else []),
    ]
    return "".join(f"; {part}" for part in advice), options
