"""Files: errors of reading as one-line messages, and atomic writing."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpower._utils.text import make_printable

#: Prefix of the temporary folders in which files are written.
_TEMP_FOLDER_PREFIX = ".gpower-"
#: Time without a change after which a temporary folder counts as abandoned.
_ABANDONED_AFTER_SECONDS = 3600.0


class FileError(ValueError):
    """Error about a file that cannot be used; the message names the file and is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(make_printable(message))


def format_error_line(error: BaseException) -> str:
    """Return the message of an exception on one line, without a full stop, after its type if that is informative.

    Examples
    --------
    >>> from gpower._utils.files import format_error_line
    >>> format_error_line(ValueError("no numbers.")), format_error_line(KeyError("shape"))
    ('no numbers', "KeyError: 'shape'")
    """
    text = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    is_clear = isinstance(error, ValueError | OSError | EOFError | MemoryError | OverflowError)
    return text if is_clear and text else f"{type(error).__name__}: {text}".rstrip(": ")


@contextmanager
def convert_read_errors(make_error: Callable[[str], FileError], *passthrough: type[Exception]) -> Iterator[None]:
    """Convert every exception raised inside to the error that `make_error` makes of its message.

    A `FileError`, an `ImportError` and the types in `passthrough` are not converted. A reader may raise any exception
    for a damaged file: a `KeyError` in a header, a `RuntimeError` in a decoder, a `MemoryError` for a wrong size.

    Examples
    --------
    >>> from gpower._utils.files import FileError, convert_read_errors
    >>> with convert_read_errors(lambda message: FileError(f"table.x: it is damaged ({message}).")):
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
    """Raise OSError if no file can be created in a folder, before the results are computed that would go there."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: nothing can be written here", str(folder)) from None


@contextmanager
def write_files_atomically(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files replace those of `folder` with the same names if no error occurs.

    A file keeps the permissions of the file that it replaces; a new file has those that the umask gives. An error names
    the file that caused it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower._utils.files import write_files_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_files_atomically(pathlib.Path(folder)) as temp_folder:
    ...         _ = (temp_folder / "a.txt").write_text("complete")
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['a.txt']
    """
    temp_folder = Path(tempfile.mkdtemp(dir=folder, prefix=_TEMP_FOLDER_PREFIX))
    _remove_abandoned_folders(temp_folder)
    try:
        yield temp_folder
        files = sorted(temp_folder.iterdir())
        for file in files:
            _sync_file_to_disk(file, folder / file.name)
        for file in files:
            os.replace(file, (folder / file.name).resolve())
    except OSError as error:
        if error.errno is None:  # not an error of the operating system, so not about these files
            raise
        written = sorted(temp_folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        name = Path(error.filename).name if error.filename else written[-1].name if written else ""
        raise OSError(error.errno, error.strerror, str(folder / name)) from error
    finally:
        shutil.rmtree(temp_folder, ignore_errors=True)


def _remove_abandoned_folders(temp_folder: Path) -> None:
    """Remove the temporary folders that killed processes of the same user left next to a temporary folder."""
    for other in temp_folder.parent.glob(f"{_TEMP_FOLDER_PREFIX}*"):
        with suppress(OSError):  # another process may remove them at the same time
            stats = [path.lstat() for path in (other, *other.iterdir())]
            is_old = max(each.st_mtime for each in stats) < time.time() - _ABANDONED_AFTER_SECONDS
            if is_old and stats[0].st_uid == temp_folder.stat().st_uid and not other.is_symlink():
                shutil.rmtree(other)


def _sync_file_to_disk(file: Path, target: Path) -> None:
    """Flush a file to the disk and copy the permissions of the file that it will replace."""
    with file.open("r+b") as handle:
        os.fsync(handle.fileno())
    if target.exists():
        shutil.copymode(target, file)


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces `path` if no error occurs; for a pipe or device, yield `path` itself.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower._utils.files import write_file_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt")
    ...     with write_file_atomically(path) as temp_path:
    ...         _ = temp_path.write_text("complete")
    ...     path.read_text()
    'complete'
    """
    if path.exists() and not path.is_file():
        yield path
        return
    with write_files_atomically(path.parent) as temp_folder:
        yield temp_folder / path.name
