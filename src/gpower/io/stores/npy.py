"""Files of NumPy, .npy and .npz: checked against what they claim to hold before anything is made of it."""

from __future__ import annotations

import math
import os
import zipfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.files import reading
from gpower._utils.memory import free_memory
from gpower.io.stores.source import Source, StoreError, matrix_form

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class NpyFile:
    """An array in a file, plain numbers behind a header, read in windows: however large it is, nothing is mapped.

    Attributes
    ----------
    path : Path
    shape : tuple of int
    by_column : bool
        Whether the numbers lie in Fortran's order.
    dtype : dtype
    offset : int
        Bytes of the header.
    """

    path: Path
    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype
    offset: int
    chunks: tuple[int, ...] | None = None

    @classmethod
    def of(cls, path: Path) -> NpyFile:
        """The file, once it is known to be as long as it says."""
        with _reading(path), path.open("rb") as file:
            return cls(path, *_header(file, os.fstat(file.fileno()).st_size), file.tell())

    def __getitem__(self, key: slice) -> Array:
        """A window along the axis whose lines lie together: rows, or columns in Fortran's order."""
        lines = self.shape[-1 if self.by_column else 0]
        lo, hi, _ = key.indices(lines)
        length = math.prod(self.shape) // max(lines, 1)
        offset = self.offset + lo * length * self.dtype.itemsize
        numbers = np.fromfile(self.path, self.dtype, (hi - lo) * length, offset=offset)
        rest = self.shape[:-1] if self.by_column else self.shape[1:]
        shape = (*rest, hi - lo) if self.by_column else (hi - lo, *rest)
        return numbers.reshape(shape, order="F" if self.by_column else "C")


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading(lambda what: StoreError(f"{path}: this is not a whole .npy file of numbers ({what})."))


def _header(file: BinaryIO, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type, if they are of numbers or names that `size` bytes can hold."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format holds no plain numbers")
    shape, by_column, dtype = _HEADERS[version](file)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"it holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"it ends before the {' × '.join(map(str, shape))} entries that it announces")
    return shape, by_column, dtype


def read_npy(path: Path) -> Array:
    """The array of a .npy file, all of it."""
    file = NpyFile.of(path)
    with _reading(path):
        return file[:] if file.shape else np.fromfile(path, file.dtype, 1, offset=file.offset).reshape(())


def npy_source(path: Path) -> Source:
    """The matrix of a .npy file, read rather than mapped: quicker, and a file that is cut short is an error."""
    file = NpyFile.of(path)
    shape, dtype = matrix_form(str(path), file.shape, file.dtype)
    return Source(str(path), shape, dtype, lambda lo, hi: file[lo:hi], axis=int(file.by_column), decoded=True)


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz archive by name; none of them is unpacked before its size is known to fit."""
    with (
        reading(lambda what: StoreError(f"{path}: this is not a whole .npz archive of numbers ({what}).")),
        zipfile.ZipFile(path) as archive,
    ):
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        size = sum(member.file_size for member in members)
        if size > free_memory():
            raise ValueError(f"it unpacks to {size / 1e9:.3g} GB, more than the memory that is free")
        return {member.filename.removesuffix(".npy"): _member(archive, member) for member in members}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as file:
        shape, by_column, dtype = _header(file, member.file_size)  # type: ignore[arg-type]
        size = math.prod(shape) * dtype.itemsize
        content = file.read(size)
        if len(content) < size or file.read(1):
            raise ValueError(f"{member.filename} is shorter or longer than it says")
        return np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if by_column else "C")
