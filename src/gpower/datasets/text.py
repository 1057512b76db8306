"""Text files, plain or gzipped, opened with care: what is no text says so, with the line where it stops being text."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from gpower.datasets.errors import TableError

Row = tuple[int, list[str]]  # (line number, cells)

# What a file that only claims to be text begins with, and what to do about it.
_WORKBOOK = "save its sheet as CSV from the spreadsheet program"
_NOT_TEXT = {
    b"PK\x03\x04": f"this is a zip archive, as .xlsx workbooks are, and not text; {_WORKBOOK}, or unpack it",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook (.xls) and not text; {_WORKBOOK}",
    b"PAR1\x15": "this is a Parquet file and not text; end its name in .parquet",
    b"\x1f\x8b": "this is gzipped; end its name in .gz, or unpack it with gunzip",
}


@contextmanager
def open_text(path: Path, *, errors: str = "strict") -> Iterator[TextIO]:
    r"""The lines of a text file; whatever is wrong with it becomes a `TableError`.

    Parameters
    ----------
    path : Path
        The file, gzipped where its name ends in ``.gz``; UTF-8, or UTF-16 with its mark.
    errors : str, default "strict"
        ``"replace"`` for files whose free text may be in any encoding and whose names and numbers are ASCII.

    Yields
    ------
    file object

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets.text import open_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.txt")
    ...     _ = path.write_text("a\nb\n")
    ...     with open_text(path) as lines:
    ...         print([line.strip() for line in lines])
    ['a', 'b']
    """
    require_file(path)
    try:
        with _opened(path) as file:
            start = file.read(8)
        for magic, advice in _NOT_TEXT.items():
            if start.startswith(magic):
                raise TableError(path, advice)
        # Spreadsheets save "Unicode text" as UTF-16 and begin it with a mark; everything else is UTF-8.
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        with TextIOWrapper(_opened(path), encoding, errors, newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise TableError(path, f"this is not a text file in UTF-8{_in_latin1(path)}") from error
    except csv.Error as error:
        raise TableError(path, f"this is not a table in text: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(path, f"the file cannot be read: {str(error).rstrip('.')}") from error


def require_file(path: Path) -> None:
    """Refuse a folder, and what is not there."""
    if path.is_dir():
        raise TableError(path, "this is a folder; a table is one file")
    if not path.exists():
        raise TableError(path, "there is no such file")


def tabbed_rows(lines: Iterator[str]) -> Iterator[Row]:
    r"""The cells of tab-separated lines with their line numbers, quotes around cells taken off.

    A quote inside a cell stays: gene titles have 3' and 5" ends.

    Examples
    --------
    >>> from gpower.datasets.text import tabbed_rows
    >>> list(tabbed_rows(iter(['"ID"\t"s1"\n', "TP53\t1.5\t\n"])))
    [(1, ['ID', 's1']), (2, ['TP53', '1.5', ''])]
    """
    for number, line in enumerate(lines, 1):
        yield number, [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def _in_latin1(path: Path) -> str:
    """Where a file that is not UTF-8 stops being so, if it is text in Latin-1 or what Windows makes of that."""
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                letter = line[error.start : error.start + 1].decode("cp1252", errors="replace")
                if b"\0" in line or not letter.isprintable() or letter == "\ufffd":
                    return ""
                return f": line {number} holds {letter!r} in Latin-1; save the file as UTF-8, or use iconv -f latin1"
    return ""
