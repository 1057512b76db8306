"""Tables in text: numbers separated by commas, tabs, semicolons or blanks, with or without names.

Read line by line, so that everything wrong with a file is reported with its line and its column.
"""

import csv
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise
from pathlib import Path

import numpy as np

from gpower.datasets.errors import MissingCell, TableError
from gpower.datasets.table import Table, TableFile
from gpower.datasets.text import Row, open_text

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
_QUOTED = re.compile(r'"[^"]*"')
_THOUSANDS = re.compile(r"[-+]?\d{1,3}([,'\u00a0 ]\d{3})+(\.\d*)?")
_LIKE_A_NUMBER = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_LOOKAHEAD = 200  # rows that decide where the names are
_SHOWN = 6  # headings that an error lists


def read_delimited(file: TableFile) -> Table:
    r"""The table of a text file as the file lies: its rows are the samples.

    The names of the rows are by default those of a first column without a heading or without a number; a first line of
    words is by default the header.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets.delimited import read_delimited
    >>> from gpower.datasets.table import TableFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plain.txt")
    ...     _ = path.write_text("1 2\n3 4\n")
    ...     read_delimited(TableFile(path))
    Table(X=array([[1., 2.],
           [3., 4.]]), feature_names=None, sample_names=None)
    """
    with open_text(file.path) as lines:
        return read_rows(file, split_rows(file, lines))


def split_rows(file: TableFile, lines: Iterator[str]) -> Iterator[Row]:
    """The rows of the table that are not blank, each with its line number."""
    above = list[str]()  # blank lines and comments
    first = ""
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            first = line
            break
        above.append(line)
    delimiter = _delimiter(file.path, first)
    blank = ["\n"] * len(above)
    if above and file.header is not False:
        blank[-1] = _commented_names(above[-1], first, delimiter)
    cut = _cut(chain(blank, [first], lines), delimiter)
    rows = (row for row in cut if any(map(str.strip, row[1])))
    return _with_points(file.path, rows) if delimiter == ";" else rows


def _commented_names(comment: str, first: str, delimiter: str) -> str:
    """The header that a comment right above the numbers is, as NumPy and many genomics programs write it; or blank."""
    names = comment.strip().lstrip("#").strip(" ")
    above, below = ([cell.strip() for _, cells in _cut([line], delimiter) for cell in cells] for line in (names, first))
    return names if len(above) == len(below) > 1 and _is_header(above) and not _is_header(below) else "\n"


def _cut(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """The cells of each line, with its number."""
    if delimiter == " ":  # columns padded with blanks
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader)


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


def read_rows(file: TableFile, rows: Iterator[Row]) -> Table:
    """The table, as `read_delimited` gives it, of lines already cut into cells.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.datasets.delimited import read_rows
    >>> from gpower.datasets.table import TableFile
    >>> read_rows(TableFile(Path("made-up")), iter([(7, ["", "s1"]), (8, ["TP53", "1.5"])]))
    Table(X=array([[1.5]]), feature_names=('s1',), sample_names=('TP53',))
    """
    first = list(islice(rows, _LOOKAHEAD))
    if not first:
        raise TableError(file.path, "the file holds only blank lines and comments")
    top = [cell.strip() for cell in first[0][1]]
    has_header = _is_header(top) if file.header is None else file.header
    headings, first = (top, first[1:]) if has_header else ([], first)
    if not first:
        raise TableError(file.path, "the file has a header and no samples below it")
    layout = _layout(file, headings, first)
    values, names = array("d"), list[str]()
    for line, cells in chain(first, rows):
        if len(cells) != layout.width:
            raise TableError(file.path, f"line {line} has {len(cells)} cells where {layout.width} are expected")
        if layout.names_at is not None:
            names.append(cells[layout.names_at].strip())
        values.extend(layout.numbers(line, cells))
    X = np.frombuffer(values).reshape(-1, len(layout.kept))
    columns = tuple(layout.headings[j] or f"column {j + 1}" for j in layout.kept) if has_header else None
    return Table(X, columns, tuple(names) or None)


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
    numbered = len(cells) > 1 and all(map(str.isdecimal, cells))
    return numbered and all(int(after) == int(before) + 1 for before, after in pairwise(cells))


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
    odd = _DECIMAL_COMMA.fullmatch(cell.strip()) or _THOUSANDS.fullmatch(cell.strip())
    return not (_is_number(cell) or _is_missing(cell) or odd)


@dataclass(frozen=True)
class _Layout:
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
        if not (_is_missing(cell) or _is_number(cell)):
            reason = f"{self._place(line, j)} holds {cell!r} where a number belongs{self._advice(j, cell)}"
            drop = [self.option(column) for column in self.text]
            raise TableError(self.file.path, reason, index_col=self.option(j), drop=drop)
        number = math.nan if _is_missing(cell) else float(cell)
        if self.file.complete and not math.isfinite(number):
            what = f"holds {cell!r}" if cell else "is empty"
            advice = "fill it in, or leave out the line, or the column with {drop}"
            reason = f"{self._place(line, j)} {what} where a number belongs; {advice}"
            raise (MissingCell if math.isnan(number) else TableError)(self.file.path, reason, drop=[self.option(j)])
        return number

    def _place(self, line: int, j: int) -> str:
        heading = self.headings[j] if self.headings else ""
        return f"line {line}, column {j + 1}" + (f" ({heading!r})" if heading else "")

    def _advice(self, j: int, cell: str) -> str:
        """What to do about a cell of text."""
        if _DECIMAL_COMMA.fullmatch(cell):
            return "; write decimals with a point, and thousands without a separator"
        advice = {
            "write plain numbers, such as 1234.5": bool(_LIKE_A_NUMBER.fullmatch(cell)),
            "if these are names, say so with {index_col}": self.names_at is None,
            "leave columns of text out with {drop}": j in self.text,
        }
        return "".join(f"; {part}" for part, helps in advice.items() if helps)


def _layout(file: TableFile, headings: list[str], rows: Sequence[Row]) -> _Layout:
    if headings and file.index_col is None and _lacks_corner(headings, rows):
        headings = ["", *headings]
    width = len(headings or rows[0][1])
    dropped = {_position(file.path, "drop", column, headings, width) for column in file.drop}
    columns = [j for j in range(width) if j not in dropped]
    text = [j for j in columns if all(j < len(cells) and _is_word(cells[j]) for _, cells in rows)]
    names_at: int | None = None
    if file.index_col is not None:
        names_at = _position(file.path, "index_col", file.index_col, headings, width)
    elif len(columns) > 1 and (columns[0] in text or (columns[0] == 0 and headings[:1] in ([""], ["Unnamed: 0"]))):
        names_at = columns[0]  # the first of several, since it can be nothing else
    kept = tuple(j for j in columns if j != names_at)
    if not kept:
        raise TableError(file.path, "the table has no variables: every column is left out or holds names")
    return _Layout(file, headings, width, names_at, kept, tuple(j for j in text if j != names_at))


def _lacks_corner(headings: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether every row is one cell longer than the header, as R writes a table with row names.

    A separator at the end of every row looks the same but for its empty last cell.
    """
    longer = all(len(cells) == len(headings) + 1 for _, cells in rows)
    return longer and any(cells[-1].strip() for _, cells in rows)


def _position(path: Path, option: str, column: int | str, headings: list[str], width: int) -> int:
    """Where the column is that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < width:
        return column
    names = unique_names(headings)  # as they are shown
    if str(column) in names:  # headings may be numbers, such as years
        return names.index(str(column))
    if isinstance(column, int):
        raise TableError(path, f"{{{option}}} is not one of the columns 0 to {width - 1}", **{option: column})
    found = f"the columns {listed(headings)}" if headings else "no header"
    raise TableError(path, f"{{{option}}} is not a heading; the file has {found}", **{option: column})


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, a repeated one followed by .1, .2, … as pandas and R do; several probes measure one gene.

    Examples
    --------
    >>> from gpower.datasets.delimited import unique_names
    >>> unique_names(["BRCA1", "TP53", "BRCA1"])
    ['BRCA1', 'TP53', 'BRCA1.1']
    """
    taken, unique = frozenset(names), dict[str, None]()
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    for name in names:
        if name in unique:
            name = next(new for i in numbers[name] if (new := f"{name}.{i}") not in taken)
        unique[name] = None
    return list(unique)


def listed(names: Sequence[str]) -> str:
    """The first few names, and whether there are more.

    Examples
    --------
    >>> from gpower.datasets.delimited import listed
    >>> listed("abcdefgh")
    'a, b, c, d, e, f, …'
    """
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])
