"""Copy a table from standard input or a pipe to a temporary file, because readers open a file more than once."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpower._utils.memory import get_free_memory
from gpower.io.tables.table import TableError

# First bytes of a stream, and the suffix of a file of that format; any other stream is text.
_SUFFIX_BY_MAGIC = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PAR1": ".parquet",
    b"%%Matrix": ".mtx",
    b"#1.2": ".gct",
    b"#1.3": ".gct",
    b"\x1f\x8b": ".txt.gz",
    b"BZh": ".txt.bz2",
    b"\xfd7zXZ": ".txt.xz",
}
# Suffixes of a pipe that say more than its first bytes: an archive, or what is compressed.
_TELLING_SUFFIXES = (".xlsx", ".xlsm", ".mtx.gz", ".gct.gz")
_COPY_CHUNK_BYTES = 1 << 20


def is_stream(path: Path) -> bool:
    """Return whether a path is standard input (-), a device, a pipe, or a process substitution of a shell.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.streams import is_stream
    >>> is_stream(Path("-")), is_stream(Path("/dev/fd/63")), is_stream(Path("genes.csv"))
    (True, True, False)
    """
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    return str(path) == "-" or str(path).startswith("/dev/") or is_special


@contextmanager
def copy_stream_to_disk(path: Path) -> Iterator[Path]:
    """Yield the path itself, or, if it is a stream, the path of a temporary copy whose suffix gives its format."""
    if not is_stream(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="gpower-") as folder:
        if str(path) == "-":
            yield _copy_stream(path, sys.stdin.buffer, Path(folder))
        else:
            with path.open("rb") as stream:
                yield _copy_stream(path, stream, Path(folder))


def _copy_stream(path: Path, stream: BinaryIO, folder: Path) -> Path:
    start, free_bytes = stream.read(8), get_free_memory()
    suffix = next((suffix for magic, suffix in _SUFFIX_BY_MAGIC.items() if start.startswith(magic)), ".txt")
    name = path.name.lower()
    suffix = next((own for own in _TELLING_SUFFIXES if start and name.endswith(own)), suffix)
    target = folder / f"table{suffix}"
    with target.open("wb") as copy:
        copy.write(start)
        while chunk := stream.read(_COPY_CHUNK_BYTES):
            copy.write(chunk)
            free_bytes -= len(chunk)
            if free_bytes < 0:
                raise TableError(path, "the stream is larger than the free memory; save it to a file")
    return target
