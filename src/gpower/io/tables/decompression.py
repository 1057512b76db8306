"""Decompress text files and tables (gzip, bzip2, xz) as they are read; errors say what a file is if it is not text."""

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
from gpower.io.tables.streams import copy_stream_to_disk
from gpower.io.tables.table import TableError

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
    >>> from gpower.io.tables.decompression import open_text
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
