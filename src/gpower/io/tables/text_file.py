"""Text files, plain or compressed, opened with care: what is no text says so, and where it stops being text."""

import bz2
import csv
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from gpower._utils.files import convert_read_errors
from gpower._utils.text import quote
from gpower.io.tables.errors import TableError

NumberedRow = tuple[int, list[str]]  # (line number, cells)

# What a file that only claims to be text begins with, and what to do about it.
_WORKBOOK_ADVICE = "save its sheet as CSV from the spreadsheet program"
_ADVICE_BY_MAGIC = {
    b"PK\x03\x04": "this is a zip archive and not text; end its name in .xlsx if it is a workbook, or unpack it",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook (.xls) and not text; {_WORKBOOK_ADVICE}",
    b"PAR1\x15": "this is a Parquet file and not text; end its name in .parquet",
    b"\x1f\x8b": "this is gzipped; end its name in .gz, or unpack it with gunzip",
    b"BZh": "this is compressed by bzip2; end its name in .bz2, or unpack it with bunzip2",
    b"\xfd7zXZ": "this is compressed by xz; end its name in .xz, or unpack it with unxz",
}
#: What opens a compressed file, by its last suffix.
DECOMPRESSORS: dict[str, Callable[[Path], object]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# A few kilobytes can unpack to one line, or to blank lines, without end.
_MAX_LINE_LENGTH = 1 << 27  # characters
MAX_BLANK_LINES = 1_000_000  # lines


@contextmanager
def open_text(path: Path, *, errors: str = "strict") -> Iterator[Iterator[str]]:
    r"""The lines of a text file; whatever is wrong with it becomes a `TableError`.

    Parameters
    ----------
    path : Path
        The file, compressed where its name ends in ``.gz``, ``.bz2`` or ``.xz``; UTF-8, or UTF-16 with its mark.
    errors : str, default "strict"
        ``"replace"`` for files whose free text may be in any encoding and whose names and numbers are ASCII.

    Yields
    ------
    iterator over the lines

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
    with convert_read_errors(lambda what: TableError(path, f"the file cannot be read: {what}")):
        with open_decompressed(path) as file:
            start = file.read(8)
        for magic, advice in _ADVICE_BY_MAGIC.items():
            if start.startswith(magic):
                raise TableError(path, advice)
        # Spreadsheets save "Unicode text" as UTF-16 and begin it with a mark; everything else is UTF-8.
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        try:
            with TextIOWrapper(open_decompressed(path), encoding, errors, newline="") as text:
                yield _iterate_checked_lines(path, text)
        except UnicodeDecodeError as error:
            raise TableError(path, f"this is not a text file in UTF-8{_locate_latin1_text(path)}") from error
        except csv.Error as error:
            raise TableError(path, f"this is not a table in text: {error}") from error


def _iterate_checked_lines(path: Path, text: TextIOWrapper) -> Iterator[str]:
    """The lines of a text, refused where one of them, or the blank ones, seem to have no end."""
    blank = number = 0
    while line := text.readline(_MAX_LINE_LENGTH):
        number += 1
        blank += line in ("\n", "\r\n")
        if len(line) == _MAX_LINE_LENGTH:
            raise TableError(
                path, f"line {number} has more than {_MAX_LINE_LENGTH:,} characters: this is no table in text"
            )
        if blank > MAX_BLANK_LINES:
            raise TableError(path, f"more than {MAX_BLANK_LINES:,} lines are blank: this is no table in text")
        yield line


def check_is_file(path: Path) -> None:
    """Refuse a folder, and what is not there."""
    if path.is_dir():
        raise TableError(path, "this is a folder; a table is one file")
    if not path.exists():
        raise TableError(path, "there is no such file")


def split_tabbed_rows(lines: Iterator[str]) -> Iterator[NumberedRow]:
    r"""The cells of tab-separated lines with their line numbers, quotes around cells taken off.

    A quote inside a cell stays: gene titles have 3' and 5" ends.

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
    """The bytes of a file, unpacked where its suffix says that it is compressed."""
    compressed = DECOMPRESSORS.get(path.suffix.lower())
    return cast(BinaryIO, path.open("rb") if compressed is None else compressed(path))


def _locate_latin1_text(path: Path) -> str:
    """Where a file that is not UTF-8 stops being so, if it is text in Latin-1 or what Windows makes of that."""
    with open_decompressed(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_LENGTH), b""), 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                letter = line[error.start : error.start + 1].decode("cp1252", errors="replace")
                if b"\0" in line or not letter.isprintable() or letter == "\ufffd":
                    return ""
                return (
                    f": line {number} holds {quote(letter)} in Latin-1; save the file as UTF-8, or use iconv -f latin1"
                )
    return ""
