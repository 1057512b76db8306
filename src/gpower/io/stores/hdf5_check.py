"""Heaps of text in HDF5 files: in a damaged one the library that reads them may look for the end without end."""

from __future__ import annotations

import mmap
from pathlib import Path

from gpower.io.stores.source import StoreError

#: Bytes up to which a file is looked through.
MAX_CHECKED_BYTES = 1 << 28
_SUPERBLOCK_SIGNATURE, _HEAP_SIGNATURE = b"\x89HDF\r\n\x1a\n", b"GCOL\x01\x00\x00\x00"
_HEAP_HEADER_BYTES = 16  # bytes in front of an object, and of a heap


def check_hdf5_heaps(path: Path) -> None:
    r"""Refuse a file with a gap of no length in a heap, at which the HDF5 library would stay for ever.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.h5")
    ...     start = b"\x89HDF\r\n\x1a\n" + bytes([2, 8, 8, 0]) + bytes(4)
    ...     _ = path.write_bytes(start + b"GCOL" + bytes([1, 0, 0, 0, 64]) + bytes(55))
    ...     try:
    ...         check_hdf5_heaps(path)
    ...     except StoreError as error:
    ...         print(path.name, str(error).partition("x.h5")[2])
    x.h5 : this is not a whole HDF5 file (the heap of text at byte 16 is damaged).
    """
    if not path.is_file() or not 0 < path.stat().st_size <= MAX_CHECKED_BYTES:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _check_all_heaps(path, content)


def _check_all_heaps(path: Path, content: mmap.mmap) -> None:
    """Walk every heap of a file, which is mapped, not held in memory."""
    lengths = 14 if content[8:9] in (b"\0", b"\1") else 10  # where it stands how long a length is
    if content[: len(_SUPERBLOCK_SIGNATURE)] != _SUPERBLOCK_SIGNATURE or content[lengths : lengths + 1] != b"\x08":
        return
    at = content.find(_HEAP_SIGNATURE)
    while at >= 0:
        if not _is_heap_walkable(content, at):
            raise StoreError(f"{path}: this is not a whole HDF5 file (the heap of text at byte {at} is damaged).")
        at = content.find(_HEAP_SIGNATURE, at + 1)


def _is_heap_walkable(content: mmap.mmap, heap_offset: int) -> bool:
    """Whether a walk over the objects of a heap comes to its end."""
    end, place = (
        min(heap_offset + _read_uint(content, heap_offset + 8, 8), len(content)),
        heap_offset + _HEAP_HEADER_BYTES,
    )
    while place + _HEAP_HEADER_BYTES <= end:
        index, size = _read_uint(content, place, 2), _read_uint(content, place + 8, 8)
        if index == 0 and size < _HEAP_HEADER_BYTES:  # a gap counts what stands in front of it
            return False
        place += size if index == 0 else _HEAP_HEADER_BYTES + -(-size // 8) * 8
    return True


def _read_uint(content: mmap.mmap, offset: int, size: int) -> int:
    return int.from_bytes(content[offset : offset + size], "little")
