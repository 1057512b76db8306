"""Tables that come through a pipe: kept in a file of their own while they are read, since readers look twice."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpower._utils.memory import get_free_memory
from gpower.io.tables.errors import TableError

# What a stream begins with, and the suffix that a file of its kind has; anything else is text.
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
_COPY_CHUNK_BYTES = 1 << 20  # bytes


def is_stream(path: Path) -> bool:
    """Whether a path stands for standard input (-), a pipe, or what a shell puts in the place of a command.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.streams import is_stream
    >>> is_stream(Path("-")), is_stream(Path("/dev/fd/63")), is_stream(Path("genes.csv"))
    (True, True, False)
    """
    return (
        str(path) == "-" or str(path).startswith("/dev/") or (path.exists() and not (path.is_file() or path.is_dir()))
    )


@contextmanager
def copy_stream_to_disk(path: Path) -> Iterator[Path]:
    """The path, or that of a copy of what comes through it; its name tells what it is."""
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
    start, room = stream.read(8), get_free_memory()
    suffix = next((suffix for magic, suffix in _SUFFIX_BY_MAGIC.items() if start.startswith(magic)), ".txt")
    place = folder / f"table{suffix}"
    with place.open("wb") as copy:
        copy.write(start)
        while part := stream.read(_COPY_CHUNK_BYTES):
            copy.write(part)
            room -= len(part)
            if room < 0:
                raise TableError(path, "more comes through it than the memory that is free; save it to a file")
    return place
