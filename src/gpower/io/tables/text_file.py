"""Open text files, plain or compressed, with errors that say what the file is instead; split and classify cells."""

import bz2
import csv
import gzip
import lzma
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

from gpower._utils.files import convert_read_errors
from gpower._utils.text import quote
from gpower.io.tables.streams import copy_stream_to_disk
from gpower.io.tables.table import TableError

NumberedRow = tuple[int, list[str]]  # (line number, cells)

# First bytes of files that are not text, and the advice that the error gives.
_WORKBOOK_ADVICE = "save its sheet as CSV from the spreadsheet program"
_ADVICE_BY_MAGIC = {
    b"PK\x03\x04": "this is a zip archive and not text; end its name in .xlsx if it is a workbook, or unpack it",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook (.xls) and not text; {_WORKBOOK_ADVICE}",
    b"PAR1\x15": "this is a Parquet file and not text; end its name in .parquet",
    b"\x1f\x8b": "this is gzipped; end its name in .gz, or unpack it with gunzip",
    b"BZh": "this is compressed by bzip2; end its name in .bz2, or unpack it with bunzip2",
    b"\xfd7zXZ": "this is compressed by xz; end its name in .xz, or unpack it with unxz",
}
#: Functions that open a compressed file, by its last suffix.
DECOMPRESSORS: dict[str, Callable[[Path], object]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Limits on the length of a line, in characters, and on blank lines. A few kilobytes can unpack to one endless line.
_MAX_LINE_LENGTH = 1 << 27
MAX_BLANK_LINES = 1_000_000

#: Cells, in lower case, that mean a missing number.
MISSING_MARKERS = frozenset({"", "na", "n/a", "n.a.", "n.d.", "nan", "null", "none", ".", "#n/a"})
THOUSANDS_PATTERN = re.compile(r"[-+]?\d{1,3}([,'\u00a0 ]\d{3})+(\.\d*)?")
DECIMAL_COMMA_PATTERN = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")


@contextmanager
def open_text(path: Path, *, errors: str = "strict") -> Iterator[Iterator[str]]:
    r"""Yield an iterator over the lines of a text file; raise a `TableError` for any problem with it.

    Parameters
    ----------
    path : Path
        The file, compressed if its name ends in ``.gz``, ``.bz2`` or ``.xz``; UTF-8, or UTF-16 with a byte order mark.
    errors : str, default "strict"
        How to treat bytes that cannot be decoded, as for `open`. ``"replace"`` serves files whose free text may be in
        any encoding and whose names and numbers are ASCII.

    Yields
    ------
    iterator of str
        The lines, with their ends.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.text_file import open_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.txt")
    ...     _ = path.write_text("a\nb\n")
    ...     with open_text(path) as lines:
    ...         print([line.strip() for line in lines])
    ['a', 'b']
    """
    check_is_file(path)
    with (
        convert_read_errors(lambda what: TableError(path, f"the file cannot be read: {what}")),
        copy_stream_to_disk(path) as path_on_disk,
    ):
        with open_decompressed(path_on_disk) as file:
            start = file.read(8)
        for magic, advice in _ADVICE_BY_MAGIC.items():
            if start.startswith(magic):
                raise TableError(path, advice)
        # Spreadsheets save "Unicode text" as UTF-16 with a byte order mark; everything else is UTF-8.
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        try:
            with TextIOWrapper(open_decompressed(path_on_disk), encoding, errors, newline="") as text:
                yield _iterate_checked_lines(path, text)
        except UnicodeDecodeError as error:
            raise TableError(path, f"this is not a text file in UTF-8{_locate_latin1_text(path_on_disk)}") from error
        except csv.Error as error:
            raise TableError(path, f"this is not a text table: {error}") from error


def _iterate_checked_lines(path: Path, text: TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text; raise if one of them is too long, or too many are blank."""
    n_blank = number = 0
    while line := text.readline(_MAX_LINE_LENGTH):
        number += 1
        n_blank += line in ("\n", "\r\n")
        if len(line) == _MAX_LINE_LENGTH:
            reason = f"line {number} has more than {_MAX_LINE_LENGTH:,} characters: this is not a text table"
            raise TableError(path, reason)
        if n_blank > MAX_BLANK_LINES:
            raise TableError(path, f"more than {MAX_BLANK_LINES:,} lines are blank: this is not a text table")
        yield line


def check_is_file(path: Path) -> None:
    """Raise if a path is a folder or does not exist."""
    if path.is_dir():
        raise TableError(path, "this is a folder; a table is one file")
    if not path.exists():
        raise TableError(path, "there is no such file")


def split_tabbed_rows(lines: Iterator[str]) -> Iterator[NumberedRow]:
    r"""Yield the line number and the cells of each tab-separated line, without quotes around cells.

    Quotes inside a cell stay: gene titles have 3' and 5" ends.

    Examples
    --------
    >>> from gpower.io.tables.text_file import split_tabbed_rows
    >>> list(split_tabbed_rows(iter(['"ID"\t"s1"\n', "TP53\t1.5\t\n"])))
    [(1, ['ID', 's1']), (2, ['TP53', '1.5', ''])]
    """
    for number, line in enumerate(lines, 1):
        yield number, [_strip_quotes(cell) for cell in line.rstrip("\r\n").split("\t")]


def _strip_quotes(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def open_decompressed(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed if its suffix says that it is compressed."""
    open_compressed = DECOMPRESSORS.get(path.suffix.lower())
    return cast(BinaryIO, path.open("rb") if open_compressed is None else open_compressed(path))


def _locate_latin1_text(path: Path) -> str:
    """Return the place of the first character that is not UTF-8, if it is a letter of Latin-1 or cp1252; else ""."""
    with open_decompressed(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_LENGTH), b""), 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                letter = line[error.start : error.start + 1].decode("cp1252", errors="replace")
                if b"\0" in line or not letter.isprintable() or letter == "\ufffd":
                    return ""
                advice = "save the file as UTF-8, or use iconv -f latin1"
                return f": line {number} holds {quote(letter)} in Latin-1; {advice}"
    return ""


def is_header_row(cells: Sequence[str]) -> bool:
    """Return whether a first line holds names: words, or consecutive integers after a first cell that is no number."""
    if is_text_cell(cells[0]) or is_missing_cell(cells[0]):
        if _are_consecutive_integers(cells[1:]):
            return True
        # A word in front of numbers names a sample; the cells after it decide.
        cells = cells[1:] or cells
    # Among a majority of numbers a word is an error to report, not a header.
    return 2 * sum(map(is_text_cell, cells)) > sum(not is_missing_cell(cell) for cell in cells)


def _are_consecutive_integers(cells: Sequence[str]) -> bool:
    """Return whether the cells are integers that count upwards, as numbered columns or years do."""
    all_integers = len(cells) > 1 and all(map(str.isdecimal, cells))
    return all_integers and all(int(after) == int(before) + 1 for before, after in pairwise(cells))


def is_number_cell(cell: str) -> bool:
    """Return whether a cell is a number with a decimal point; NaN and infinity count."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as ten; in a table it is a name


def is_missing_cell(cell: str) -> bool:
    """Return whether a cell is empty or a marker of a missing number, such as NA."""
    return cell.strip().lower() in MISSING_MARKERS


def is_text_cell(cell: str) -> bool:
    """Return whether a cell can only be a name."""
    # A number with a decimal comma or thousands separators is a mistake to report, not a heading or a sample's name.
    is_odd_number = DECIMAL_COMMA_PATTERN.fullmatch(cell.strip()) or THOUSANDS_PATTERN.fullmatch(cell.strip())
    return not (is_number_cell(cell) or is_missing_cell(cell) or is_odd_number)
