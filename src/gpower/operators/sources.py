"""What a matrix on disk may be: files and arrays that give rows or columns, recognised once, each by its own reader.

Nothing here imports zarr, h5py, anndata or pyarrow before an object or a file of that kind is at hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, package_of
from gpower.cautions import warn
from gpower.extras import extra
from gpower.operators.parquet import parquet_source
from gpower.operators.streamed import Source, StoreError, granted_memory

#: Suffixes of stores that are always read in blocks, and of files that are where they are large.
STORES, FILES = (".zarr", ".h5", ".hdf5", ".h5ad"), (".npy", ".parquet")
_NUMBERS = "fiub"  # kinds of dtype that a float can hold
COMPRESSED = ("data", "indices", "indptr")  # the arrays of a CSR or CSC matrix


class StoredArray(Protocol):
    """What arrays of zarr and of h5py have in common."""

    shape: tuple[int, ...]
    dtype: np.dtype
    chunks: tuple[int, ...] | None

    def __getitem__(self, key: slice | tuple[slice, slice]) -> Array: ...


class StoredGroup(Protocol):
    """What groups of zarr and of h5py have in common: arrays and other groups, by name."""

    attrs: Mapping[str, Any]

    def __getitem__(self, key: str, /) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, key: object, /) -> bool: ...


class Backed(Protocol):
    """A CSR or CSC matrix of an AnnData that is on disk."""

    group: StoredGroup


def open_source(X: Any, key: str | None = None, memory_limit: float | None = None) -> Source | None:
    """X as a source of blocks; None where it is no matrix on disk.

    Parameters
    ----------
    X : path, np.memmap, zarr array, h5py dataset, backed matrix of an AnnData, or anything else
        Paths end in .npy, .zarr, .h5, .hdf5, .h5ad or .parquet. A memory map that fits the memory is left to be read
        as an array.
    key : str, optional
        Array within a .zarr group or an HDF5 file; by default "X" if there is one, or the only one.
    memory_limit : float, optional
        Bytes that a memory map may take as an array; by default a quarter of the free memory.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return _open_path(Path(X), key)
    if isinstance(X, np.memmap):
        limit = granted_memory() if memory_limit is None else memory_limit
        return _from_memmap(X, "the memory map") if X.nbytes > limit else None
    opener = _opener(X)
    if opener is None:
        return None
    held = X.group if opener is _from_backed else X  # what is in a file or folder
    name = f"the {package_of(X)} matrix {str(held.name or '').strip('/')}".rstrip()
    return replace(opener(X, name, key), origin=_origin(held))


def _opener(X: object) -> Opener | None:
    """The reader of an object of zarr, h5py or anndata, by the name of its class; None for anything else."""
    places = ((cls.__module__.partition(".")[0], cls.__name__) for cls in type(X).__mro__)
    return next((_OPENERS[place] for place in places if place in _OPENERS), None)


def _origin(held: Any) -> str:
    """The file or folder that a zarr or HDF5 array is in; empty where it is in neither."""
    if package_of(held) == "h5py":
        return str(held.file.filename)
    return str(getattr(held.store, "root", getattr(held.store, "path", "")))


def is_store(path: Path, memory_limit: object = None) -> bool:
    """Whether a path is one to read in blocks: a store, or a file that a quarter of the free memory cannot hold."""
    suffix = path.suffix.lower()
    large = path.is_file() and path.stat().st_size > granted_memory()
    return suffix in STORES or (suffix in FILES and (large or memory_limit is not None))


def some_columns_of(source: Source, idx: Array) -> Source:
    """A source that gives only some columns of another; their indices grow."""
    shape, grain, n = (source.shape[0], len(idx)), source.grain, source.shape[1]
    names = None if source.names is None else tuple(source.names[j] for j in idx)
    part = replace(source, shape=shape, names=names, decoded=False, read_bytes=source.bytes_per_line)
    if source.axis == 0:
        return replace(part, read=lambda lo, hi: source.read(lo, hi)[:, idx])

    def read(lo: int, hi: int) -> Array | sp.csc_matrix:
        wanted, columns = idx[lo:hi], []
        for first in np.unique(wanted // grain) * grain:  # what the store keeps together is read once
            held = wanted[(wanted >= first) & (wanted < first + grain)] - first
            columns.append(source.read(int(first), min(int(first) + grain, n))[:, held])
        return sp.hstack(columns, format="csc") if source.sparse else np.concatenate(columns, axis=1)

    return replace(part, read=read, grain=1, nnz=int(source.nnz * len(idx) / max(n, 1)))


def _open_path(path: Path, key: str | None) -> Source:
    """The matrix of a file or folder, by its suffix."""
    suffix = path.suffix.lower()
    if suffix not in (*FILES, *STORES):
        raise StoreError(
            f"{path}: a matrix on disk ends in {', '.join((*FILES, *STORES)[:-1])} or {STORES[-1]}. Read any other "
            "table with gpower.datasets.read_table(path), and fit its X."
        )
    if not path.exists():
        raise StoreError(f"{path}: there is no such file.")
    if suffix in FILES:
        source = npy_source(path) if suffix == ".npy" else parquet_source(path)
    else:
        source = _from_member(_open_store(path, suffix), str(path), key)
    return replace(source, origin=str(path.resolve()))


def _open_store(path: Path, suffix: str) -> StoredArray | StoredGroup:
    """What a folder of zarr or a file of HDF5 holds."""
    if suffix == ".zarr":
        opener, kind = extra("zarr", "dask", "Reading this store needs").open, "a zarr store"
    else:
        opener, kind = extra("h5py", "io", "Reading this store needs").File, "a whole HDF5 file"
    try:
        return opener(str(path), mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{path}: this is not {kind} ({error}).") from None


def _matrix_form(name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[tuple[int, int], np.dtype]:
    """Shape and type, if they are those of a matrix of numbers."""
    if len(shape) != 2:
        raise StoreError(f"{name}: a matrix has two dimensions, this array has the shape {tuple(shape)}.")
    if np.dtype(dtype).kind not in _NUMBERS:
        raise StoreError(f"{name}: its values are of type {np.dtype(dtype)}, not numbers.")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def npy_array(path: Path, *, mapped: bool = False) -> Array:
    """The array of a .npy file, read or mapped."""
    try:
        if mapped:
            return np.lib.format.open_memmap(path, mode="r")
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"{path}: this is not a whole .npy file of numbers ({error}).") from None


def npy_source(path: Path) -> Source:
    """The array of a .npy file, read rather than mapped: quicker, and a file that is cut short is an error."""
    mapped = cast(np.memmap, npy_array(path, mapped=True))
    source, first = _from_memmap(mapped, str(path)), int(mapped.offset)
    length = source.shape[1 - source.axis]

    def read(lo: int, hi: int) -> Array:
        offset = first + lo * length * source.dtype.itemsize
        numbers = np.fromfile(path, source.dtype, (hi - lo) * length, offset=offset)
        return numbers.reshape(source.block_shape(lo, hi), order="F" if source.axis else "C")

    return replace(source, read=read)


def _from_memmap(X: Array, name: str) -> Source:
    """Rows of a C-ordered map, columns of a Fortran-ordered one; copied, so that the pages can be let go."""
    shape, dtype = _matrix_form(name, X.shape, X.dtype)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return Source(name, shape, dtype, lambda lo, hi: np.array(X[:, lo:hi], order="F"), axis=1, decoded=True)
    return Source(name, shape, dtype, lambda lo, hi: np.array(X[lo:hi]), decoded=True)


def _from_array(X: StoredArray, name: str, key: str | None = None) -> Source:
    """Rows, or columns where the chunks are whole columns."""
    shape, dtype = _matrix_form(name, X.shape, X.dtype)
    _warn_of_missing(X, name)
    rows, columns = getattr(X, "shards", None) or X.chunks or (1, shape[1])
    if rows >= shape[0] and columns < shape[1]:
        return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[:, lo:hi]), axis=1, grain=columns)
    return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[lo:hi]), grain=rows)


def _warn_of_missing(X: Any, name: str) -> None:
    """Chunks of a zarr array that are not there read as its fill value, which is what zarr does to empty ones, too."""
    stored = getattr(X, "nchunks_initialized", None)
    if stored is not None and stored < X.nchunks:
        warn(
            f"{name}: {X.nchunks - stored} of {X.nchunks} chunks are not stored and read as {X.fill_value}. "
            "That is right for chunks that hold nothing else; if not, the store is incomplete.",
        )


def _from_backed(X: Backed, name: str, key: str | None = None) -> Source:
    return _compressed_group(X.group, name)


def compressed_source(
    arrays: Sequence[StoredArray | Array], shape: tuple[int, int], by_column: bool, name: str, dtype: np.dtype
) -> Source:
    """The arrays data, indices and indptr of a CSR or CSC matrix; the last one is kept in memory."""
    for array, part in zip(arrays, COMPRESSED, strict=True):
        _warn_of_missing(array, f"{name}, {part}")
    data, indices, indptr = arrays
    pointers = np.asarray(indptr[:])
    lines = shape[1] if by_column else shape[0]
    if pointers.size != lines + 1 or pointers[0] != 0 or np.any(np.diff(pointers) < 0):
        raise StoreError(
            f"{name}: indptr has {pointers.size} entries; {lines + 1} are needed, the first 0, none less than the "
            "one before it."
        )
    build = sp.csc_matrix if by_column else sp.csr_matrix

    def read(lo: int, hi: int) -> sp.csr_matrix | sp.csc_matrix:
        first, last = int(pointers[lo]), int(pointers[hi])
        part = (shape[0], hi - lo) if by_column else (hi - lo, shape[1])
        stored = (np.array(data[first:last]), np.array(indices[first:last]), pointers[lo : hi + 1] - first)
        block = build(stored, shape=part)
        block.check_format(full_check=True)
        return block

    return Source(name, shape, dtype, read, axis=int(by_column), sparse=True, nnz=int(pointers[-1]))


def _from_group(group: StoredGroup, name: str, key: str | None = None) -> Source:
    """The matrix of a zarr group or HDF5 file: an array, or a group with data, indices and indptr."""
    keys = sorted(group)
    if set(COMPRESSED) <= set(keys):
        return _compressed_group(group, name)
    if key is None:
        key = "X" if "X" in keys else keys[0] if len(keys) == 1 else None
    if key is None or key not in group:
        wanted = "no array is called X" if key is None else f"there is no {key!r}"
        raise StoreError(f"{name}: {wanted}; it holds {', '.join(keys[:8]) or 'nothing'}. Say which one with key.")
    source = _from_member(group[key], f"{name}, {key}")
    p, n = source.shape
    return replace(source, names=_names_in(group, "var", n), sample_names=_names_in(group, "obs", p))


def _from_member(X: object, name: str, key: str | None = None) -> Source:
    """The matrix of an array or a group within a store, or of the store itself."""
    opener = _opener(X)
    if opener is None:
        raise StoreError(f"{name}: a {type(X).__name__} is no matrix.")
    return opener(X, name, key)


def _names_in(group: StoredGroup, table: str, count: int) -> tuple[str, ...] | None:
    """Names of the genes (var) or cells (obs) in the file of an AnnData; None where there are none."""
    if table not in group:
        return None
    index = group[table].attrs.get("_index")
    if index is None or index not in group[table]:
        return None
    held = group[table][index]
    if _opener(held) is _from_group:
        held = held.get("values", ())  # nullable strings: values beside a mask
    names = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in held[:])
    return names if len(set(names)) == len(names) == count else None


def _compressed_group(group: StoredGroup, name: str) -> Source:
    encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr"))
    shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    if shape is None:
        raise StoreError(f"{name}: a sparse matrix without the attribute 'shape'.")
    form, dtype = _matrix_form(name, tuple(int(length) for length in shape), group["data"].dtype)
    arrays = [group[part] for part in COMPRESSED]
    return compressed_source(arrays, form, encoding.startswith("csc"), name, dtype)


Opener = Callable[[Any, str, str | None], Source]

#: Which class of which package is read how; the name of a class serves, since the package may not be there.
_OPENERS: dict[tuple[str, str], Opener] = {
    ("zarr", "Array"): _from_array,
    ("zarr", "Group"): _from_group,
    ("h5py", "Dataset"): _from_array,
    ("h5py", "Group"): _from_group,
    ("anndata", "BaseCompressedSparseDataset"): _from_backed,
}
