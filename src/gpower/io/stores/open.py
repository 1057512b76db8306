"""What a matrix on disk may be: files and arrays that give rows or columns, recognised once, each by its own reader.

Nothing here imports zarr, h5py, anndata or pyarrow before an object or a file of that kind is at hand.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, package_of
from gpower._utils.files import reading
from gpower._utils.memory import granted_memory
from gpower._utils.optional import extra
from gpower._utils.text import told_apart
from gpower._utils.warnings import warn
from gpower.io.stores.hdf5_check import check_heaps
from gpower.io.stores.npy import NpyFile, npy_source
from gpower.io.stores.parquet import parquet_source
from gpower.io.stores.source import Source, StoreError, matrix_form

#: Suffixes of stores that are always read in blocks, and of files that are where they are large.
STORES, FILES = (".zarr", ".h5", ".hdf5", ".h5ad"), (".npy", ".parquet")
_NEEDS = "Reading this store needs"
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

    Returns
    -------
    Source or None
        What `GPower.fit` and whatever else takes stores can be given in place of the path, for one array of several.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from gpower.io.stores.open import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.npy")
    ...     np.save(path, np.eye(3))
    ...     open_source(path).shape
    (3, 3)
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
    with reading(lambda what: StoreError(f"{name}: it cannot be read ({what}).")):
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
    with reading(lambda what: StoreError(f"{path}: this is not {_WHAT[suffix]} ({what}).")):
        return replace(_OPENED[suffix](path, key), origin=str(path.resolve()))


def _from_zarr(path: Path, key: str | None) -> Source:
    return _from_member(extra("zarr", "dask", _NEEDS).open(str(path), mode="r"), str(path), key)


def _from_hdf5(path: Path, key: str | None) -> Source:
    check_heaps(path)
    return _from_member(extra("h5py", "io", _NEEDS).File(str(path), mode="r"), str(path), key)


def _from_memmap(X: Array, name: str) -> Source:
    """Rows of a C-ordered map, columns of a Fortran-ordered one; copied, so that the pages can be let go."""
    shape, dtype = matrix_form(name, X.shape, X.dtype)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return Source(name, shape, dtype, lambda lo, hi: np.array(X[:, lo:hi], order="F"), axis=1, decoded=True)
    return Source(name, shape, dtype, lambda lo, hi: np.array(X[lo:hi]), decoded=True)


def _from_array(X: StoredArray, name: str, key: str | None = None) -> Source:
    """Rows, or columns where the chunks are whole columns."""
    shape, dtype = matrix_form(name, X.shape, X.dtype)
    _warn_of_missing(X, name)
    rows, columns = getattr(X, "shards", None) or X.chunks or (1, shape[1])
    if rows >= shape[0] and columns < shape[1]:
        return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[:, lo:hi]), axis=1, grain=columns)
    return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[lo:hi]), grain=rows)


def _warn_of_missing(X: Any, name: str) -> None:
    """Chunks that were never written read as the fill value; zarr leaves out chunks that hold nothing else, too."""
    stored, total, fill = (_hdf5_chunks if package_of(X) == "h5py" else _zarr_chunks)(X)
    if stored < total:
        warn(
            f"{name}: {total - stored} of {total} chunks are not stored and read as {fill}. "
            "That is right for chunks that hold nothing else; if not, the store is incomplete.",
        )


def _zarr_chunks(X: Any) -> tuple[int, int, object]:
    """Chunks that are stored, all chunks, and what the others read as; none where there are no chunks."""
    return (X.nchunks_initialized, X.nchunks, X.fill_value) if hasattr(X, "nchunks_initialized") else (0, 0, None)


def _hdf5_chunks(X: Any) -> tuple[int, int, object]:
    """The same; what is not in chunks is one, and has no room in the file before it is written."""
    if X.chunks is not None:
        total = math.prod(-(-length // size) for length, size in zip(X.shape, X.chunks, strict=True))
        return X.id.get_num_chunks(), total, X.fillvalue
    elsewhere = X.is_virtual or X.external or X.size == 0
    return int(bool(elsewhere) or X.id.get_storage_size() > 0), 1, X.fillvalue


def _from_backed(X: Backed, name: str, key: str | None = None) -> Source:
    return _compressed_group(X.group, name)


def compressed_source(
    arrays: Sequence[StoredArray | NpyFile | Array], shape: tuple[int, int], by_column: bool, name: str, dtype: np.dtype
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
    names, notes = told_apart(_names_in(group, "var", n))
    return replace(source, names=names or None, sample_names=_names_in(group, "obs", p) or None, notes=notes)


def _from_member(X: object, name: str, key: str | None = None) -> Source:
    """The matrix of an array or a group within a store, or of the store itself."""
    opener = _opener(X)
    if opener is None:
        raise StoreError(f"{name}: a {type(X).__name__} is no matrix.")
    return opener(X, name, key)


def _names_in(group: StoredGroup, table: str, count: int) -> tuple[str, ...]:
    """Names of the genes (var) or cells (obs) in the file of an AnnData; empty where there are none."""
    index = group[table].attrs.get("_index") if table in group else None
    if index is None or index not in group[table]:
        return ()
    held = group[table][index]
    if _opener(held) is _from_group:
        held = held["values"]  # nullable strings: values beside a mask
    if tuple(held.shape) != (count,):
        return ()
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in held[:])


def column_in(path: Path, table: str, name: str) -> list[str]:
    """A column of what is known of the genes (var) or cells (obs) in an .h5ad file, as words."""
    check_heaps(path)
    with extra("h5py", "io", _NEEDS).File(str(path), mode="r") as file:
        held = file.get(table, {})
        if name not in held:
            there = ", ".join(sorted(held)[:8]) or "nothing"
            raise StoreError(f"{path}: there is no column {name!r} in .{table}, which holds {there}.")
        column = held[name]
        coded = "codes" in column if _opener(column) is _from_group else False
        values = column["categories"][:][column["codes"][:]] if coded else column[:]
    return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in values]


def _compressed_group(group: StoredGroup, name: str) -> Source:
    encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr"))
    shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    if shape is None:
        raise StoreError(f"{name}: a sparse matrix without the attribute 'shape'.")
    form, dtype = matrix_form(name, tuple(int(length) for length in shape), group["data"].dtype)
    arrays = [group[part] for part in COMPRESSED]
    return compressed_source(arrays, form, encoding.startswith("csc"), name, dtype)


#: What a path with each suffix has to be, and what opens it.
_WHAT = dict.fromkeys(STORES, "a whole HDF5 file") | {
    ".zarr": "a zarr store",
    ".npy": "a whole .npy file of numbers",
    ".parquet": "a whole Parquet file",
}
_OPENED: dict[str, Callable[[Path, str | None], Source]] = dict.fromkeys(STORES, _from_hdf5) | {
    ".zarr": _from_zarr,
    ".npy": lambda path, key: npy_source(path),
    ".parquet": lambda path, key: parquet_source(path),
}
Opener = Callable[[Any, str, str | None], Source]

#: Which class of which package is read how; the name of a class serves, since the package may not be there.
_OPENERS: dict[tuple[str, str], Opener] = {
    ("zarr", "Array"): _from_array,
    ("zarr", "Group"): _from_group,
    ("h5py", "Dataset"): _from_array,
    ("h5py", "Group"): _from_group,
    ("anndata", "BaseCompressedSparseDataset"): _from_backed,
}
