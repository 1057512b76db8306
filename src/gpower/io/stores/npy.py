"""Read NumPy files, .npy and .npz; the header is checked against the size of the file before anything is allocated."""

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
from gpower.io.stores.matrix_source import MatrixSource, StoreError, check_matrix_form

_HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class NpyFile:
    """An array in a .npy file, read in slices without a memory map.

    Attributes
    ----------
    path : Path
    shape : tuple of int
    is_fortran_order : bool
        Whether the numbers are stored in Fortran order.
    dtype : dtype
    data_offset : int
        Bytes of the header.
    chunks : None
        As for an HDF5 array that is not stored in chunks.
    """

    path: Path
    shape: tuple[int, ...]
    is_fortran_order: bool
    dtype: np.dtype
    data_offset: int
    chunks: tuple[int, ...] | None = None

    @classmethod
    def from_path(cls, path: Path) -> NpyFile:
        """Read the header; raise if the file is shorter than the header says."""
        with _npy_error_context(path), path.open("rb") as file:
            return cls(path, *_read_npy_header(file, os.fstat(file.fileno()).st_size), file.tell())

    def __getitem__(self, key: slice) -> Array:
        """Return a slice along the axis whose lines are contiguous: rows, or columns in Fortran order."""
        n_lines = self.shape[-1 if self.is_fortran_order else 0]
        lo, hi, _ = key.indices(n_lines)
        length = math.prod(self.shape) // max(n_lines, 1)
        offset = self.data_offset + lo * length * self.dtype.itemsize
        numbers = np.fromfile(self.path, self.dtype, (hi - lo) * length, offset=offset)
        if self.is_fortran_order:
            return numbers.reshape((*self.shape[:-1], hi - lo), order="F")
        return numbers.reshape((hi - lo, *self.shape[1:]))


def _npy_error_context(path: Path) -> AbstractContextManager[None]:
    return convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole .npy file of numbers ({what})."))


def _read_npy_header(file: BinaryIO, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the order is Fortran's, and dtype; raise if they are no plain array within `size` bytes."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADER_READERS:
        raise ValueError(f"version {version} of the format does not hold plain numbers")
    shape, is_fortran_order, dtype = _HEADER_READERS[version](file)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"it holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"it ends before the {' × '.join(map(str, shape))} entries that it announces")
    return shape, is_fortran_order, dtype


def read_npy(path: Path) -> Array:
    """Return the whole array of a .npy file."""
    file = NpyFile.from_path(path)
    with _npy_error_context(path):
        return file[:] if file.shape else np.fromfile(path, file.dtype, 1, offset=file.data_offset).reshape(())


def open_npy_source(path: Path) -> MatrixSource:
    """Return the matrix of a .npy file as a source; reading is faster than mapping, and detects a truncated file."""
    file = NpyFile.from_path(path)
    shape, dtype = check_matrix_form(str(path), file.shape, file.dtype)
    return MatrixSource(
        str(path), shape, dtype, lambda lo, hi: file[lo:hi], axis=int(file.is_fortran_order), is_decoded=True
    )


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of an .npz archive by name; raise, before unpacking, if they exceed the free memory."""
    with (
        convert_read_errors(lambda what: StoreError(f"{path}: this is not a whole .npz archive of numbers ({what}).")),
        zipfile.ZipFile(path) as archive,
    ):
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        size = sum(member.file_size for member in members)
        if size > get_free_memory():
            raise ValueError(f"it unpacks to {size / 1e9:.3g} GB, more than the free memory")
        return {member.filename.removesuffix(".npy"): _read_npz_member(archive, member) for member in members}


def _read_npz_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as file:
        shape, is_fortran_order, dtype = _read_npy_header(file, member.file_size)  # type: ignore[arg-type]
        size = math.prod(shape) * dtype.itemsize
        content = file.read(size)
        if len(content) < size or file.read(1):
            raise ValueError(f"{member.filename} is shorter or longer than its header says")
        return np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if is_fortran_order else "C")
