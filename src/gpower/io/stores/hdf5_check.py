"""Check the heaps of text in HDF5 files: the HDF5 library may loop forever on a damaged one."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from gpower.io.stores.matrix_source import StoreError

#: Largest file, in bytes, that is checked.
MAX_CHECKED_BYTES = 1 << 28
_SUPERBLOCK_SIGNATURE, _HEAP_SIGNATURE = b"\x89HDF\r\n\x1a\n", b"GCOL\x01\x00\x00\x00"
_HEAP_HEADER_BYTES = 16  # header of a heap, and of an object in it


def check_hdf5_heaps(path: Path) -> None:
    r"""Raise if a heap has a gap of length zero, on which the HDF5 library would loop forever.

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
    """Raise if a heap of a memory-mapped file is damaged; skip files whose lengths do not take 8 bytes."""
    size_field = 14 if content[8:9] in (b"\0", b"\1") else 10  # offset of the byte that gives the size of lengths
    is_hdf5 = content[: len(_SUPERBLOCK_SIGNATURE)] == _SUPERBLOCK_SIGNATURE
    if not is_hdf5 or content[size_field : size_field + 1] != b"\x08":
        return
    offset = content.find(_HEAP_SIGNATURE)
    while offset >= 0:
        if not _is_heap_walkable(content, offset):
            raise StoreError(f"{path}: this is not a whole HDF5 file (the heap of text at byte {offset} is damaged).")
        offset = content.find(_HEAP_SIGNATURE, offset + 1)


def _is_heap_walkable(content: mmap.mmap, heap_offset: int) -> bool:
    """Return whether a walk over the objects of a heap ends."""
    offset = heap_offset + _HEAP_HEADER_BYTES
    if offset > len(content):
        return True
    (heap_size,) = struct.unpack_from("<8xQ", content, heap_offset)
    while offset + _HEAP_HEADER_BYTES <= min(heap_offset + heap_size, len(content)):
        index, size = struct.unpack_from("<H6xQ", content, offset)
        if index == 0 and size < _HEAP_HEADER_BYTES:  # the size of a gap includes its header
            return False
        offset += size if index == 0 else _HEAP_HEADER_BYTES + -(-size // 8) * 8
    return True
