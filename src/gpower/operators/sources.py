"""What a matrix on disk may be: files and arrays that give rows or columns, recognised once, each by its own reader.

Nothing here imports zarr, h5py, anndata or pyarrow before an object or a file of that kind is at hand.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower.operators.streamed import MEMORY_SHARE, Source, StoreError, free_memory

#: Suffixes of stores that are always read in blocks, and of files that are where they are large.
STORES, FILES = (".zarr", ".h5", ".hdf5", ".h5ad"), (".npy", ".parquet")
_NUMBERS = "fiub"  # kinds of dtype that a float can hold


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
        limit = MEMORY_SHARE * free_memory() if memory_limit is None else memory_limit
        return _from_memmap(X, "the memory map") if X.nbytes > limit else None
    package = type(X).__module__.partition(".")[0]
    opener: Callable[[Any, str], Source] | None = {
        "zarr": _from_zarr,
        "h5py": _from_hdf5,
        "anndata": _from_backed,
    }.get(package)
    in_memory = isinstance(X, np.ndarray) or sp.issparse(X)  # a view of an AnnData is that
    if package in ("zarr", "h5py") and not hasattr(X, "shape") and hasattr(X, "attrs"):
        return _from_group(X, key, f"the {package} group")
    if opener is None or in_memory or not hasattr(X, "shape") or not hasattr(X, "dtype"):
        return None
    group = getattr(X, "group", X)
    place = str(getattr(group, "name", "") or "").strip("/")
    return replace(opener(X, f"the {package} matrix {place}".rstrip()), origin=_origin(group))


def _origin(group: Any) -> str:
    """The file or folder that a zarr or HDF5 array is in; empty where it is in neither."""
    store = getattr(group, "store", None)
    names = (getattr(getattr(group, "file", None), "filename", None), getattr(store, "root", None))
    return next((str(name) for name in (*names, getattr(store, "path", None)) if name), "")


def is_store(path: Path, memory_limit: Any = None) -> bool:
    """Whether a path is one to read in blocks: a store, or a file that a quarter of the free memory cannot hold."""
    suffix = path.suffix.lower()
    large = path.is_file() and path.stat().st_size > MEMORY_SHARE * free_memory()
    return suffix in STORES or (suffix in FILES and (large or memory_limit is not None))


def some_columns_of(source: Source, idx: np.ndarray) -> Source:
    """A source that gives only some columns of another; their indices grow."""
    shape, grain, n = (source.shape[0], len(idx)), source.grain, source.shape[1]
    names = None if source.names is None else tuple(source.names[j] for j in idx)
    part = replace(source, shape=shape, names=names, decoded=False, read_bytes=source.bytes_per_line)
    if source.axis == 0:
        return replace(part, read=lambda lo, hi: source.read(lo, hi)[:, idx])

    def read(lo: int, hi: int) -> Any:
        wanted, columns = idx[lo:hi], []
        for first in np.unique(wanted // grain) * grain:  # what the store keeps together is read once
            held = wanted[(wanted >= first) & (wanted < first + grain)] - first
            columns.append(source.read(int(first), min(int(first) + grain, n))[:, held])
        return sp.hstack(columns, format="csc") if source.sparse else np.concatenate(columns, axis=1)

    return replace(part, read=read, grain=1, nnz=int(source.nnz * len(idx) / max(n, 1)))


def _open_path(path: Path, key: str | None) -> Source:
    """The matrix of a file or folder, by its suffix."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file.")
    suffix = path.suffix.lower()
    if suffix in FILES:
        source = npy_source(path) if suffix == ".npy" else _from_parquet(path)
        return replace(source, origin=str(path.resolve()))
    opener = {".zarr": _zarr, ".h5": _hdf5, ".hdf5": _hdf5, ".h5ad": _hdf5}.get(suffix)
    if opener is not None:
        return replace(_from_group(opener(path), key, str(path)), origin=str(path.resolve()))
    raise StoreError(f"{path}: a matrix on disk ends in {', '.join((*FILES, *STORES)[:-1])} or {STORES[-1]}.")


def _extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f'Reading this store needs {module}: pip install "gpower[{extra}]".') from None


def _zarr(path: Path) -> Any:
    try:
        return _extra("zarr", "dask").open(str(path), mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{path}: this is not a zarr store ({error}).") from None


def _hdf5(path: Path) -> Any:
    h5py = _extra("h5py", "io")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise StoreError(f"{path}: this is not a whole HDF5 file ({error}).") from None


def _checked(name: str, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, int], np.dtype]:
    """Shape and type, if they are those of a matrix of numbers."""
    if len(shape) != 2:
        raise StoreError(f"{name}: a matrix has two dimensions, this array has the shape {tuple(shape)}.")
    if np.dtype(dtype).kind not in _NUMBERS:
        raise StoreError(f"{name}: its values are of type {np.dtype(dtype)}, not numbers.")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def npy_source(path: Path) -> Source:
    """The array of a .npy file, read rather than mapped: quicker, and a file that is cut short is an error."""
    try:
        mapped = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"{path}: this is not a whole .npy file ({error}).") from None
    source, offset, size = _from_memmap(mapped, str(path)), int(mapped.offset), mapped.dtype.itemsize
    length, axis = source.shape[1 - source.axis], source.axis

    def read(lo: int, hi: int) -> np.ndarray:
        numbers = np.fromfile(path, source.dtype, (hi - lo) * length, offset=offset + lo * length * size)
        lines = numbers.reshape(hi - lo, length)
        return lines.T if axis == 1 else lines

    return replace(source, read=read)


def _from_memmap(X: np.memmap, name: str) -> Source:
    """Rows of a C-ordered map, columns of a Fortran-ordered one; copied, so that the pages can be let go."""
    shape, dtype = _checked(name, X.shape, X.dtype)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return Source(name, shape, dtype, lambda lo, hi: np.array(X[:, lo:hi], order="F"), axis=1, decoded=True)
    return Source(name, shape, dtype, lambda lo, hi: np.array(X[lo:hi]), decoded=True)


def _from_chunked(X: Any, name: str, chunks: tuple[int, int]) -> Source:
    """Rows, or columns where the chunks are whole columns."""
    shape, dtype = _checked(name, X.shape, X.dtype)
    if chunks[0] >= shape[0] and chunks[1] < shape[1]:
        return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[:, lo:hi]), axis=1, grain=chunks[1])
    return Source(name, shape, dtype, lambda lo, hi: np.asarray(X[lo:hi]), grain=chunks[0])


def _from_zarr(X: Any, name: str) -> Source:
    if not hasattr(X, "chunks"):
        return _from_group(X, None, name)
    _checked(name, X.shape, X.dtype)
    _warn_of_missing(X, name)
    return _from_chunked(X, name, getattr(X, "shards", None) or X.chunks)


def _warn_of_missing(X: Any, name: str) -> None:
    """Chunks of a zarr array that are not there read as its fill value, which is what zarr does to empty ones, too."""
    missing = int(X.nchunks) - int(X.nchunks_initialized) if hasattr(X, "nchunks_initialized") else 0
    if missing:
        warnings.warn(
            f"{name}: {missing} of {X.nchunks} chunks are not stored and read as {X.fill_value}. "
            "That is right for chunks that hold nothing else; if not, the store is incomplete.",
            UserWarning,
            stacklevel=2,
        )


def _from_hdf5(X: Any, name: str) -> Source:
    if not hasattr(X, "chunks"):
        return _from_group(X, None, name)
    return _from_chunked(X, name, X.chunks or (1, int(X.shape[1]) if len(X.shape) == 2 else 1))


def _from_backed(X: Any, name: str) -> Source:
    """A CSR or CSC matrix of an AnnData that is on disk."""
    shape, dtype = _checked(name, X.shape, X.dtype)
    group = X.group
    return compressed_source(group["data"], group["indices"], group["indptr"], shape, X.format == "csc", name, dtype)


def compressed_source(
    data: Any, indices: Any, indptr: Any, shape: tuple[int, int], by_column: bool, name: str, dtype: np.dtype
) -> Source:
    """The three arrays of a CSR or CSC matrix; those of `indptr` are kept in memory."""
    for part, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        _warn_of_missing(array, f"{name}, {part}")
    pointers = np.asarray(indptr[:])
    lines = shape[1] if by_column else shape[0]
    if pointers.size != lines + 1 or pointers[0] != 0 or np.any(np.diff(pointers) < 0):
        raise StoreError(
            f"{name}: indptr has {pointers.size} entries; {lines + 1} are needed, the first 0, none less than the "
            "one before it."
        )
    build = sp.csc_matrix if by_column else sp.csr_matrix

    def read(lo: int, hi: int) -> Any:
        first, last = int(pointers[lo]), int(pointers[hi])
        part = (shape[0], hi - lo) if by_column else (hi - lo, shape[1])
        stored = (np.array(data[first:last]), np.array(indices[first:last]), pointers[lo : hi + 1] - first)
        block = build(stored, shape=part)
        block.check_format(full_check=True)
        return block

    return Source(name, shape, dtype, read, axis=int(by_column), sparse=True, nnz=int(pointers[-1]))


def _from_group(group: Any, key: str | None, name: str) -> Source:
    """The matrix of a zarr group or HDF5 file: an array, or a group with data, indices and indptr."""
    if hasattr(group, "shape"):
        return _from_zarr(group, name) if type(group).__module__.startswith("zarr") else _from_hdf5(group, name)
    if {"data", "indices", "indptr"} <= set(group):
        return _compressed_group(group, name)
    keys = sorted(group)
    if key is None:
        key = "X" if "X" in keys else keys[0] if len(keys) == 1 else None
    if key is None or key not in group:
        wanted = "no array is called X" if key is None else f"there is no {key!r}"
        raise StoreError(f"{name}: {wanted}; it holds {', '.join(keys[:8]) or 'nothing'}. Say which one with key.")
    source = _from_group(group[key], None, f"{name}, {key}")
    p, n = source.shape
    return replace(source, names=_names_in(group, "var", n), sample_names=_names_in(group, "obs", p))


def _names_in(group: Any, table: str, count: int) -> tuple[str, ...] | None:
    """Names of the genes (var) or cells (obs) in the file of an AnnData; None where there are none."""
    if table not in group or not hasattr(group[table], "attrs"):
        return None
    index = group[table].attrs.get("_index")
    if index is None or index not in group[table]:
        return None
    held = group[table][index]
    held = held if hasattr(held, "shape") else held.get("values")  # nullable strings: values beside a mask
    if held is None:
        return None
    names = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in held[:])
    return names if len(set(names)) == len(names) == count else None


def _compressed_group(group: Any, name: str) -> Source:
    attributes = dict(group.attrs)
    encoding = attributes.get("encoding-type", "csr_matrix")
    shape = attributes.get("shape", attributes.get("h5sparse_shape"))
    if shape is None:
        raise StoreError(f"{name}: a sparse matrix without the attribute 'shape'.")
    shape, dtype = _checked(name, tuple(int(length) for length in shape), group["data"].dtype)
    return compressed_source(
        group["data"], group["indices"], group["indptr"], shape, encoding.startswith("csc"), name, dtype
    )


def _from_parquet(path: Path) -> Source:
    """Row groups of a table whose columns are all numbers."""
    parquet = _extra("pyarrow.parquet", "io")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: this is not a whole Parquet file ({error}).") from None
    schema = file.schema_arrow
    index = (schema.pandas_metadata or {}).get("index_columns", [])  # names of the samples are no variables
    fields = [field for field in schema if field.name not in index]
    for field in fields:
        if not str(field.type).startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            raise StoreError(f"{path}: column {field.name!r} holds {field.type}, not numbers. Drop it from the file.")
    rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    edges = np.concatenate([[0], np.cumsum(rows, dtype=int)])
    narrow = all(str(field.type) in ("float", "halffloat") for field in fields)
    dtype = np.dtype(np.float32 if narrow else np.float64)
    names = tuple(field.name for field in fields)
    read = _row_groups(file, edges, names, dtype)
    return Source(str(path), (int(edges[-1]), len(names)), dtype, read, names=names)


def _row_groups(file: Any, edges: np.ndarray, names: tuple[str, ...], dtype: np.dtype) -> Callable[[int, int], Any]:
    """A reader of rows that keeps the last row group, since blocks and groups do not begin together."""
    kept: dict[int, np.ndarray] = {}

    def group(i: int) -> np.ndarray:
        if i not in kept:
            kept.clear()
            table = file.read_row_group(i, columns=list(names))
            columns = [column.to_numpy(zero_copy_only=False).astype(dtype) for column in table.columns]
            kept[i] = np.column_stack(columns)
        return kept[i]

    def read(lo: int, hi: int) -> np.ndarray:
        first, last = np.searchsorted(edges, [lo, hi - 1], side="right") - 1
        parts = [group(i)[max(lo - edges[i], 0) : hi - edges[i]] for i in range(first, last + 1)]
        return np.concatenate(parts)

    return read
