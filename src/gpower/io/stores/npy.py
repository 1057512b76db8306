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
from gpower._utils.files import convert_read_errors
from gpower._utils.memory import get_free_memory
from gpower.io.stores.source import MatrixSource, StoreError, check_matrix_form

_HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


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
    is_fortran_order: bool
    dtype: np.dtype
    data_offset: int
    chunks: tuple[int, ...] | None = None

    @classmethod
    def from_path(cls, path: Path) -> NpyFile:
        """The file, once it is known to be as long as it says."""
        with _npy_error_context(path), path.open("rb") as file:
            return cls(path, *_read_npy_header(file, os.fstat(file.fileno()).st_size), file.tell())

    def __getitem__(self, key: slice) -> Array:
        """A window along the axis whose lines lie together: rows, or columns in Fortran's order."""
        lines = self.shape[-1 if self.is_fortran_order else 0]
        lo, hi, _ = key.indices(lines)
        length = math.prod(self.shape) // max(lines, 1)
        offset = self.data_offset + lo * length * self.dtype.itemsize
        numbers = np.fromfile(self.path, self.dtype, (hi - lo) * length, offset=offset)
        rest = self.shape[:-1] if self.is_fortran_order else self.shape[1:]
        shape = (*rest, hi - lo) if self.is_fortran_order else (hi - lo, *rest)
        return numbers.reshape(shape, order="F" if self.is_fortran_order else "C")


def _npy_error_context(path: Path) -> AbstractContextManager[None]:
    return convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole .npy file of numbers ({what})."))


def _read_npy_header(file: BinaryIO, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type, if they are of numbers or names that `size` bytes can hold."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADER_READERS:
        raise ValueError(f"version {version} of the format holds no plain numbers")
    shape, by_column, dtype = _HEADER_READERS[version](file)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"it holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"it ends before the {' × '.join(map(str, shape))} entries that it announces")
    return shape, by_column, dtype


def read_npy(path: Path) -> Array:
    """The array of a .npy file, all of it."""
    file = NpyFile.from_path(path)
    with _npy_error_context(path):
        return file[:] if file.shape else np.fromfile(path, file.dtype, 1, offset=file.data_offset).reshape(())


def open_npy_source(path: Path) -> MatrixSource:
    """The matrix of a .npy file, read rather than mapped: quicker, and a file that is cut short is an error."""
    file = NpyFile.from_path(path)
    shape, dtype = check_matrix_form(str(path), file.shape, file.dtype)
    return MatrixSource(
        str(path), shape, dtype, lambda lo, hi: file[lo:hi], axis=int(file.is_fortran_order), is_decoded=True
    )


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz archive by name; none of them is unpacked before its size is known to fit."""
    with (
        convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole .npz archive of numbers ({what}).")),
        zipfile.ZipFile(path) as archive,
    ):
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        size = sum(member.file_size for member in members)
        if size > get_free_memory():
            raise ValueError(f"it unpacks to {size / 1e9:.3g} GB, more than the memory that is free")
        return {member.filename.removesuffix(".npy"): _read_npz_member(archive, member) for member in members}


def _read_npz_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as file:
        shape, by_column, dtype = _read_npy_header(file, member.file_size)  # type: ignore[arg-type]
        size = math.prod(shape) * dtype.itemsize
        content = file.read(size)
        if len(content) < size or file.read(1):
            raise ValueError(f"{member.filename} is shorter or longer than it says")
        return np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if by_column else "C")
