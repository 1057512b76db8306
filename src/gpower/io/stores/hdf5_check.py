"""Heaps of text in HDF5 files: in a damaged one the library that reads them may look for the end without end."""

from __future__ import annotations

import mmap
from pathlib import Path

from gpower.io.stores.source import StoreError

#: Bytes up to which a file is looked through.
LOOKED_THROUGH = 1 << 28
_SUPERBLOCK, _HEAP = b"\x89HDF\r\n\x1a\n", b"GCOL\x01\x00\x00\x00"
_WORD = 16  # bytes in front of an object, and of a heap


def check_heaps(path: Path) -> None:
    r"""Refuse a file with a gap of no length in a heap, at which the HDF5 library would stay for ever.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.h5")
    ...     start = b"\x89HDF\r\n\x1a\n" + bytes([2, 8, 8, 0]) + bytes(4)
    ...     _ = path.write_bytes(start + b"GCOL" + bytes([1, 0, 0, 0, 64]) + bytes(55))
    ...     try:
    ...         check_heaps(path)
    ...     except StoreError as error:
    ...         print(path.name, str(error).partition("x.h5")[2])
    x.h5 : this is not a whole HDF5 file (the heap of text at byte 16 is damaged).
    """
    if not path.is_file() or not 0 < path.stat().st_size <= LOOKED_THROUGH:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _check(path, content)


def _check(path: Path, content: mmap.mmap) -> None:
    """Walk every heap of a file, which is mapped, not held in memory."""
    lengths = 14 if content[8:9] in (b"\0", b"\1") else 10  # where it stands how long a length is
    if content[: len(_SUPERBLOCK)] != _SUPERBLOCK or content[lengths : lengths + 1] != b"\x08":
        return
    at = content.find(_HEAP)
    while at >= 0:
        if not _ends(content, at):
            raise StoreError(f"{path}: this is not a whole HDF5 file (the heap of text at byte {at} is damaged).")
        at = content.find(_HEAP, at + 1)


def _ends(content: mmap.mmap, at: int) -> bool:
    """Whether a walk over the objects of a heap comes to its end."""
    end, place = min(at + _number(content, at + 8, 8), len(content)), at + _WORD
    while place + _WORD <= end:
        index, size = _number(content, place, 2), _number(content, place + 8, 8)
        if index == 0 and size < _WORD:  # a gap counts what stands in front of it
            return False
        place += size if index == 0 else _WORD + -(-size // 8) * 8
    return True


def _number(content: mmap.mmap, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
