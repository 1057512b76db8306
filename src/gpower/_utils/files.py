"""Files: errors of reading as one-line messages, and atomic writing.

Files are written into a temporary folder next to their target and then moved to it, so that a reader sees either the
earlier file or the complete new one. A target is the path to be replaced, with links followed. A `make_error` is a
function that converts a message to the exception that is raised.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from gpower._utils.text import make_printable

#: Prefix of the temporary folders in which files are written.
_TEMP_FOLDER_PREFIX = ".gpower-"
#: Prefix of the folders that keep new files if they could not replace the earlier ones.
_KEPT_FOLDER_PREFIX = "new-results-"
#: Time without a change after which a temporary folder counts as abandoned: longer than writing one file takes.
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


def refuse_pipe(path: Path, make_error: Callable[[str], FileError]) -> None:
    """Raise if a path is a pipe or a device, which can be read only once and from its beginning."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise make_error(f"{path}: this is a pipe or a device, and the file is read in parts; save it to a file.")


def check_writable(folder: Path) -> None:
    """Raise OSError if no file can be created in a folder, before the results are computed that would go there."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: nothing can be written here", str(folder)) from None


@contextmanager
def write_files_atomically(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files replace those of `folder` with the same names if no error occurs.

    The files are replaced all together or not at all. A file keeps the permissions of the file that it replaces; a new
    file has those that the umask gives. An error names the file that caused it.

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
        _replace_together(files, folder)
    except OSError as error:
        if error.errno is None:  # not an error of the operating system, so not about these files
            raise
        last_written = max(temp_folder.glob("*"), key=lambda file: file.stat().st_mtime_ns, default=Path())
        raise OSError(error.errno, error.strerror, str(folder / Path(error.filename or last_written).name)) from error
    finally:
        shutil.rmtree(temp_folder, ignore_errors=True)


def _replace_together(files: Sequence[Path], folder: Path) -> None:
    """Replace the files of the same names in `folder`, all or none: after an error, put the earlier files back.

    After an OSError the new files stay in a folder that the message names.
    """
    targets = [Path(os.path.realpath(folder / file.name)) for file in files]
    try:
        check_replaceable(folder / file.name for file in files)
        with _lock_folder(folder), _restore_on_error(files, targets) if len(files) > 1 else nullcontext():
            for file, target in zip(files, targets, strict=True):
                os.replace(file, target)
    except OSError as error:
        temp_folder = files[0].parent
        kept = folder / temp_folder.name.replace(_TEMP_FOLDER_PREFIX, _KEPT_FOLDER_PREFIX)
        temp_folder.rename(kept)
        reason = f"{error.strerror}; nothing was replaced, and the new results are in {kept}"
        raise OSError(error.errno, reason, error.filename) from error


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Wait until no other process replaces files in a folder, and keep others waiting; no lock where there is none."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # Windows, or a folder that may be written but not read
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _restore_on_error(files: Sequence[Path], targets: Sequence[Path]) -> Iterator[None]:
    """Undo the replacement of `targets` by `files` if an error occurs inside."""
    backup_folder = files[0].parent / ".earlier"
    backup_folder.mkdir()
    backups = [backup_folder / file.name for file in files]
    for target, backup in zip(targets, backups, strict=True):
        if target.exists():
            _link_or_copy(target, backup)
    try:
        yield
    except BaseException:
        for file, target, backup in zip(files, targets, backups, strict=True):
            if not file.exists():  # it has replaced its target
                os.replace(target, file)
                if backup.exists():
                    os.replace(backup, target)
        shutil.rmtree(backup_folder, ignore_errors=True)
        raise


def _link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a file, or a copy on file systems without hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def check_replaceable(paths: Iterable[Path]) -> None:
    """Raise OSError if a path is a folder, or a link that a file written in the same folder cannot replace."""
    for path in paths:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            code, obstacle = errno.EISDIR, "this is a folder"
        elif target.is_symlink():
            code, obstacle = errno.ELOOP, "this is a loop of links"
        elif path.is_symlink() and not target.parent.is_dir():
            code, obstacle = errno.ENOENT, f"this is a link to {target}, whose folder does not exist"
        elif path.is_symlink() and target.parent.stat().st_dev != path.parent.stat().st_dev:
            code, obstacle = errno.EXDEV, f"this is a link to {target}, on another file system"
        else:
            continue
        raise OSError(code, obstacle, str(path))


def _remove_abandoned_folders(temp_folder: Path) -> None:
    """Remove the temporary folders that killed processes of the same user left next to a temporary folder."""
    for other in temp_folder.parent.glob(f"{_TEMP_FOLDER_PREFIX}*"):
        with suppress(OSError):  # another process may remove them at the same time
            stats = [path.lstat() for path in (other, *other.iterdir())]
            is_old = max(each.st_mtime for each in stats) < time.time() - _ABANDONED_AFTER_SECONDS
            if is_old and stats[0].st_uid == temp_folder.stat().st_uid and not other.is_symlink():
                shutil.rmtree(other)


def _sync_file_to_disk(file: Path, target: Path) -> None:
    """Flush a file to the disk and copy the permissions of `target`, which it will replace, if that exists."""
    with file.open("r+b") as handle:
        os.fsync(handle.fileno())
    if target.exists():
        shutil.copymode(target, file)


def follow_link(path: Path) -> Path:
    """Return the file that a link leads to, or a path that is no link; raise OSError if the link leads nowhere."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink() or not target.parent.is_dir():
        check_replaceable([path])
    return target


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces `path` if no error occurs; for a pipe or device, yield `path` itself.

    If `path` is a link, the file that it leads to is replaced.

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
    target = follow_link(path)
    with write_files_atomically(target.parent) as temp_folder:
        yield temp_folder / path.name  # a writer may choose the format by the suffix
        os.replace(temp_folder / path.name, temp_folder / target.name)
