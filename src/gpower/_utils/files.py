"""Files: what reading one may raise becomes a sentence, what is written is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpower._utils.text import make_printable

#: What folders are called in which files are written, and seconds without a change after which nobody writes there.
_TEMP_FOLDER_PREFIX, _ABANDONED_AFTER_SECONDS = ".gpower-", 3600.0


class FileError(ValueError):
    """A file that is not what it should be, in one sentence that names it and is fit to print."""

    def __init__(self, message: str) -> None:
        super().__init__(make_printable(message))


def format_error_line(error: BaseException) -> str:
    """What an exception says, on one line and without a full stop; its kind where that is no plain complaint.

    Examples
    --------
    >>> from gpower._utils.files import format_error_line
    >>> format_error_line(ValueError("no numbers.")), format_error_line(KeyError("shape"))
    ('no numbers', "KeyError: 'shape'")
    """
    text = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    plain = isinstance(error, ValueError | OSError | EOFError | MemoryError | OverflowError)
    return text if plain and text else f"{type(error).__name__}: {text}".rstrip(": ")


@contextmanager
def convert_read_errors(make_error: Callable[[str], FileError], *passthrough: type[Exception]) -> Iterator[None]:
    """Whatever goes wrong inside becomes the error that `complain` makes of it; ours, missing packages and some pass.

    A damaged file makes its reader raise anything: a `KeyError` of a header, a `RuntimeError` of a decoder, a
    `MemoryError` of a size that was never true.

    Examples
    --------
    >>> from gpower._utils.files import FileError, convert_read_errors
    >>> with convert_read_errors(lambda what: FileError(f"table.x: it is damaged ({what}).")):
    ...     {}["shape"]
    Traceback (most recent call last):
    ...
    gpower._utils.files.FileError: table.x: it is damaged (KeyError: 'shape').
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (FileError, ImportError, *passthrough)):
            raise
        raise make_error(format_error_line(error)) from error


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made, before the work whose results would go there."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: nothing can be written here", str(folder)) from None


@contextmanager
def write_files_atomically(folder: Path) -> Iterator[Path]:
    """A place to write files; those of `folder` with their names are replaced together once all are whole, or none is.

    Permissions are those of the file replaced, or what the umask leaves. An error names the file it is about.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower._utils.files import write_files_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_files_atomically(pathlib.Path(folder)) as place:
    ...         _ = (place / "a.txt").write_text("whole")
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['a.txt']
    """
    place = Path(tempfile.mkdtemp(dir=folder, prefix=_TEMP_FOLDER_PREFIX))
    _remove_abandoned_folders(place)
    try:
        yield place
        files = sorted(place.iterdir())
        for file in files:
            _sync_file_to_disk(file, folder / file.name)
        for file in files:
            os.replace(file, (folder / file.name).resolve())
    except OSError as error:
        if error.errno is None:  # not of the system, so not of these files
            raise
        begun = sorted(place.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        name = Path(error.filename).name if error.filename else begun[-1].name if begun else ""
        raise OSError(error.errno, error.strerror, str(folder / name)) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _remove_abandoned_folders(temp_folder: Path) -> None:
    """Remove what an earlier process of the same user was writing beside a place when it was killed."""
    for left in temp_folder.parent.glob(f"{_TEMP_FOLDER_PREFIX}*"):
        with suppress(OSError):  # another process may sweep too
            stats = [path.lstat() for path in (left, *left.iterdir())]
            old = max(each.st_mtime for each in stats) < time.time() - _ABANDONED_AFTER_SECONDS
            if old and stats[0].st_uid == temp_folder.stat().st_uid and not left.is_symlink():
                shutil.rmtree(left)


def _sync_file_to_disk(file: Path, target: Path) -> None:
    """Bring a file to the disk, with the permissions of the one that it will replace."""
    with file.open("r+b") as handle:
        os.fsync(handle.fileno())
    if target.exists():
        shutil.copymode(target, file)


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """A place to write one file, which takes the name `path` once it is whole; a pipe or device is written directly.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower._utils.files import write_file_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt")
    ...     with write_file_atomically(path) as place:
    ...         _ = place.write_text("whole")
    ...     path.read_text()
    'whole'
    """
    if path.exists() and not path.is_file():
        yield path
        return
    with write_files_atomically(path.parent) as place:
        yield place / path.name
