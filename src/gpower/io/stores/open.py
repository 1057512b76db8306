"""Open matrices on disk, paths or arrays of zarr, h5py and anndata, as a `MatrixSource`.

zarr, h5py, anndata and pyarrow are imported only when a file or an object of that package is opened.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, get_package_name
from gpower._utils.files import convert_read_errors, refuse_pipe
from gpower._utils.memory import get_default_memory_limit
from gpower._utils.messages import format_param
from gpower._utils.optional import import_optional
from gpower._utils.text import deduplicate, quote
from gpower._utils.warnings import warn
from gpower.io.stores.external_references import (
    check_hdf5_dataset,
    check_zarr_folder,
    find_member,
    iterate_virtual_sources,
)
from gpower.io.stores.hdf5_check import check_hdf5_heaps
from gpower.io.stores.matrix_source import (
    MIN_CHECKED_BYTES,
    MatrixSource,
    StoreError,
    check_matrix_form,
    decode_text,
    describe_excessive_shape,
)
from gpower.io.stores.npy import NpyFile, open_npy_source
from gpower.io.stores.parquet import open_parquet_source

#: Suffixes of stores, which are always read in blocks, and of files that are read in blocks only if they are large.
STORE_SUFFIXES, FILE_SUFFIXES = (".zarr", ".h5", ".hdf5", ".h5ad"), (".npy", ".parquet")
_MISSING_PACKAGE_PREFIX = "Reading this store needs"
SPARSE_ARRAY_NAMES = ("data", "indices", "indptr")  # the arrays of a CSR or CSC matrix


StoredArray: TypeAlias = Any  # an array of zarr or h5py, whose classes have no types
StoredGroup: TypeAlias = Any  # a group of zarr or h5py: arrays and other groups by name, and attributes


def open_source(
    X: Any, key: str | None = None, memory_limit: float | None = None, *, virtual: bool = False
) -> MatrixSource | None:
    """Return X as a source of blocks; None if it is not a matrix on disk, or a memory map that fits into memory.

    Parameters
    ----------
    X : path, np.memmap, zarr array, h5py dataset, backed matrix of an AnnData, or anything else
        Paths end in .npy, .zarr, .h5, .hdf5, .h5ad or .parquet.
    key : str, optional
        Name of the array within a .zarr group or an HDF5 file; by default "X" if there is one, or the only array.
    memory_limit : float, optional
        Largest memory map, in bytes, that is left to be read as an array; by default a quarter of the free memory.
    virtual : bool, default False
        Whether to read the array if it is a virtual dataset of an HDF5 file. All its sources must be plain datasets of
        files in the folder of this file, or below it.

    Returns
    -------
    MatrixSource or None
        Pass it to `GPower.fit`, or any function that takes a path, to select one array of several.

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
    if isinstance(X, MatrixSource):
        return X
    if isinstance(X, str | os.PathLike):
        return _open_path_source(Path(X), key, virtual)
    if isinstance(X, np.memmap):
        limit = get_default_memory_limit() if memory_limit is None else memory_limit
        return _open_memmap_source(X, "the memory map") if X.nbytes > limit else None
    opener = _find_opener(X)
    if opener is None:
        return None
    stored = getattr(X, "group", X)  # the group of a sparse matrix of anndata
    name = f"the {get_package_name(X)} matrix {str(stored.name or '').strip('/')}".rstrip()
    with convert_read_errors(lambda what: StoreError(f"{name}: it cannot be read ({what}).")):
        return replace(opener(X, name, key), storage_path=_find_storage_path(stored))


def _find_opener(X: object) -> SourceOpener | None:
    """Return the opener of an object of zarr, h5py or anndata, by the name of its class; None for any other object."""
    class_names = ((cls.__module__.partition(".")[0], cls.__name__) for cls in type(X).__mro__)
    return next((_OBJECT_OPENERS[name] for name in class_names if name in _OBJECT_OPENERS), None)


def _find_storage_path(array: Any) -> str:
    """Return the file or folder of a zarr or HDF5 array; "" if it is in neither."""
    if get_package_name(array) == "h5py":
        return str(array.file.filename)
    return str(getattr(array.store, "root", getattr(array.store, "path", "")))


def should_read_in_blocks(path: Path, memory_limit: object = None) -> bool:
    """Return whether to read a path in blocks: a store, or a file that exceeds a quarter of the free memory.

    If `memory_limit` is given, every .npy and .parquet file is read in blocks.
    """
    suffix = path.suffix.lower()
    is_large = path.is_file() and path.stat().st_size > get_default_memory_limit()
    return suffix in STORE_SUFFIXES or (suffix in FILE_SUFFIXES and (is_large or memory_limit is not None))


def select_source_columns(source: MatrixSource, idx: Array) -> MatrixSource:
    """Return a source of the columns `idx`, in increasing order, of another source."""
    n_features, chunk = source.shape[1], source.chunk_length
    names = None if source.feature_names is None else tuple(source.feature_names[j] for j in idx)
    selection = replace(
        source,
        shape=(source.shape[0], len(idx)),
        feature_names=names,
        is_decoded=False,
        read_bytes_per_line=source.bytes_per_line,
    )
    if source.axis == 0:
        return replace(selection, read_slice=lambda lo, hi: source.read_slice(lo, hi)[:, idx])

    def read(lo: int, hi: int) -> Array | sp.csc_array:
        columns, parts = idx[lo:hi], []
        for first in np.unique(columns // chunk) * chunk:  # read each chunk of the store once
            within_chunk = columns[(columns >= first) & (columns < first + chunk)] - first
            parts.append(source.read_slice(int(first), min(int(first) + chunk, n_features))[:, within_chunk])
        return sp.hstack(parts, format="csc") if source.is_sparse else np.concatenate(parts, axis=1)

    return replace(selection, read_slice=read, chunk_length=1, nnz=int(source.nnz * len(idx) / max(n_features, 1)))


def _open_path_source(path: Path, key: str | None, virtual: bool) -> MatrixSource:
    """Open the matrix of a file or folder, by its suffix."""
    suffix = path.suffix.lower()
    if suffix not in (*FILE_SUFFIXES, *STORE_SUFFIXES):
        raise StoreError(
            f"{path}: a matrix on disk ends in {', '.join((*FILE_SUFFIXES, *STORE_SUFFIXES)[:-1])} or "
            f"{STORE_SUFFIXES[-1]}. Read any other table with gpower.datasets.read_table(path), and fit its X."
        )
    if virtual and suffix in (*FILE_SUFFIXES, ".zarr"):
        raise StoreError(f"{path}: {format_param('virtual', True)} is for HDF5 files; leave it out.")
    if not path.exists():
        raise StoreError(f"{path}: there is no such file.")
    refuse_pipe(path, StoreError)
    content, opener = _PATH_FORMATS[suffix]
    with convert_read_errors(lambda what: StoreError(f"{path}: this is not {content} ({what}).")):
        return replace(opener(path, key, virtual), storage_path=str(path.resolve()))


def _open_zarr_source(path: Path, key: str | None, virtual: bool) -> MatrixSource:
    zarr = import_optional("zarr", "dask", _MISSING_PACKAGE_PREFIX)
    check_zarr_folder(path)
    return _open_member_source(zarr.open(str(path), mode="r"), str(path), key)


def _open_hdf5_source(path: Path, key: str | None, virtual: bool) -> MatrixSource:
    check_hdf5_heaps(path)
    h5py = import_optional("h5py", "io", _MISSING_PACKAGE_PREFIX)
    # HDF5 looks for the sources of a virtual dataset in the folder of the name by which the file was opened.
    file = h5py.File(str(path.resolve() if virtual else path), mode="r")
    return _open_group_source(file, str(path), key, virtual)


def _open_memmap_source(X: Array, name: str) -> MatrixSource:
    """Return rows of a C-ordered map, columns of a Fortran-ordered one; blocks are copied to release the pages."""
    shape, dtype = check_matrix_form(name, X.shape, X.dtype)
    axis = int(X.flags.f_contiguous and not X.flags.c_contiguous)
    return MatrixSource(
        name, shape, dtype, lambda lo, hi: np.array(X[:, lo:hi] if axis else X[lo:hi]), axis, is_decoded=True
    )


def _open_array_source(X: StoredArray, name: str, key: str | None = None) -> MatrixSource:
    """Return a source of rows, or of columns if the chunks are whole columns; shards are read by their inner chunks."""
    shape, dtype = check_matrix_form(name, X.shape, X.dtype)
    chunks = X.chunks or (1, shape[1])
    axis = int(chunks[0] >= shape[0] and chunks[1] < shape[1])
    source = MatrixSource(
        name, shape, dtype, lambda lo, hi: np.asarray(X[:, lo:hi] if axis else X[lo:hi]), axis, chunks[axis]
    )
    smallest_block = source.bytes_per_line * min(source.chunk_length, shape[source.axis])
    _check_announced_shape(name, shape, [X], smallest_block)
    _warn_unwritten_chunks(X, name)
    return source


def _check_announced_shape(name: str, shape: tuple[int, int], arrays: Sequence[Any], block_bytes: float = 0) -> None:
    """Raise if a shape is too large for the memory, or for what the arrays of a matrix store."""
    reason = describe_excessive_shape(shape, lambda: sum(map(_count_stored_bytes, arrays)), block_bytes)
    if reason is not None:
        raise StoreError(f"{name}: {reason}.")


def _count_stored_bytes(X: Any) -> float:
    """Return the bytes that an array takes on disk, possibly compressed; infinity if they are in other files."""
    if get_package_name(X) == "h5py":
        return math.inf if X.is_virtual or X.external else float(X.id.get_storage_size())
    if get_package_name(X) == "zarr":
        return float(X.nbytes_stored() if callable(X.nbytes_stored) else X.nbytes_stored)
    return float(math.prod(X.shape) * X.dtype.itemsize)


def _warn_unwritten_chunks(X: Any, name: str) -> bool:
    """Warn if chunks are not stored and therefore read as the fill value; return whether all are stored.

    zarr does not store chunks that contain only the fill value, so this is not always an error.
    """
    stored, total, fill = (_count_hdf5_chunks if get_package_name(X) == "h5py" else _count_zarr_chunks)(X)
    if stored < total:
        warn(
            f"{name}: {total - stored} of {total} chunks are not stored and read as {fill}. "
            "That is right if they contain only this value; otherwise the store is incomplete.",
        )
    return bool(stored >= total)


def _count_zarr_chunks(X: Any) -> tuple[int, int, object]:
    """Return the number of stored chunks, of all chunks, and the fill value; zeros for an array without chunks."""
    return (X.nchunks_initialized, X.nchunks, X.fill_value) if hasattr(X, "nchunks_initialized") else (0, 0, None)


def _count_hdf5_chunks(X: Any) -> tuple[int, int, object]:
    """Return the number of stored chunks, of all chunks, and the fill value; a contiguous dataset is one chunk."""
    if X.chunks is not None:
        total = math.prod(-(-length // size) for length, size in zip(X.shape, X.chunks, strict=True))
        return X.id.get_num_chunks(), total, X.fillvalue
    is_elsewhere = bool(X.is_virtual or X.external or X.size == 0)
    is_stored = is_elsewhere or X.id.get_storage_size() > 0  # no space is allocated before it is written
    return int(is_stored), 1, X.fillvalue


def create_sparse_source(
    arrays: Sequence[StoredArray | NpyFile | Array], shape: tuple[int, int], is_csc: bool, name: str, dtype: np.dtype
) -> MatrixSource:
    """Return a source of the arrays data, indices and indptr of a CSR or CSC matrix; indptr is read into memory."""
    _check_announced_shape(name, shape, arrays)
    for array, part in zip(arrays, SPARSE_ARRAY_NAMES, strict=True):
        is_complete = _warn_unwritten_chunks(array, f"{name}, {part}")
        n_bytes = math.prod(array.shape) * array.dtype.itemsize
        if not is_complete and n_bytes > MIN_CHECKED_BYTES:
            raise StoreError(f"{name}, {part}: it announces {n_bytes / 1e9:.3g} GB of numbers, and not all are stored.")
    data, indices, indptr = arrays
    n_lines = shape[1] if is_csc else shape[0]
    pointers = np.asarray(indptr[:] if tuple(indptr.shape) == (n_lines + 1,) else ())
    if not pointers.size or pointers[0] != 0 or np.any(np.diff(pointers) < 0):
        raise StoreError(
            f"{name}: indptr has {math.prod(indptr.shape)} entries; {n_lines + 1} are needed, which begin with 0 and "
            "do not decrease."
        )
    build = sp.csc_array if is_csc else sp.csr_array

    def read(lo: int, hi: int) -> sp.csr_array | sp.csc_array:
        first, last = int(pointers[lo]), int(pointers[hi])
        block_shape = (shape[0], hi - lo) if is_csc else (hi - lo, shape[1])
        positions, starts = np.array(indices[first:last]), pointers[lo : hi + 1] - first
        # A sparse array keeps int64, which most stores hold and which takes twice the memory.
        narrow = sp.get_index_dtype((positions, starts), maxval=max(last - first, *block_shape), check_contents=True)
        arrays = (np.array(data[first:last]), positions.astype(narrow, copy=False), starts.astype(narrow, copy=False))
        block = build(arrays, shape=block_shape)
        block.check_format(full_check=True)
        return block

    return MatrixSource(name, shape, dtype, read, axis=int(is_csc), is_sparse=True, nnz=int(pointers[-1]))


def _open_group_source(group: StoredGroup, name: str, key: str | None = None, virtual: bool = False) -> MatrixSource:
    """Return the matrix of a zarr group or HDF5 file: an array, or a group with data, indices and indptr."""
    keys = sorted(group)
    if set(SPARSE_ARRAY_NAMES) <= set(keys):
        return _open_sparse_group(group, name)
    if key is None:
        key = "X" if "X" in keys else keys[0] if len(keys) == 1 else None
    member = None if key is None else find_member(group, key, name, virtual)
    if member is None:
        problem = "no array is called X" if key is None else f"there is no {key!r}"
        raise StoreError(f"{name}: {problem}; it holds {', '.join(keys[:8]) or 'nothing'}. Select one with key.")
    other_paths = list[str]()
    for part, part_name in iterate_virtual_sources(member, f"{name}, {key}"):
        other_paths.append(str(part.file.filename))
        _warn_unwritten_chunks(part, part_name)
    source = _open_member_source(member, f"{name}, {key}")
    n_samples, n_features = source.shape
    feature_names, notes = deduplicate(_read_annotation_names(group, "var", n_features, name))
    sample_names = _read_annotation_names(group, "obs", n_samples, name)
    return replace(
        source,
        feature_names=feature_names or None,
        sample_names=sample_names or None,
        notes=notes,
        other_paths=tuple(other_paths),
    )


def _open_member_source(X: object, name: str, key: str | None = None) -> MatrixSource:
    """Return the matrix of an array or a group of zarr, h5py or anndata; raise for any other object."""
    opener = _find_opener(X)
    if opener is None:
        raise StoreError(f"{name}: a {type(X).__name__} is not a matrix.")
    return opener(X, name, key)


def _read_annotation_names(group: StoredGroup, table: str, count: int, name: str) -> tuple[str, ...]:
    """Return the names of the genes (var) or cells (obs) in the file of an AnnData; () if there are none."""
    columns = find_member(group, table, name)
    index = None if columns is None else columns.attrs.get("_index")
    names = None if index is None else find_member(columns, index, f"{name}, {table}")
    if _find_opener(names) is _open_group_source:
        names = find_member(names, "values", f"{name}, {table}")  # nullable strings are a group of values and a mask
    if names is None or tuple(names.shape) != (count,):
        return ()
    return tuple(decode_text(name) for name in names[:])


def read_annotation_column(path: Path, table: str, name: str) -> list[str | None]:
    """Return one annotation of the genes (var) or cells (obs) in an .h5ad file, as text; None where it is missing."""
    check_hdf5_heaps(path)
    h5py = import_optional("h5py", "io", _MISSING_PACKAGE_PREFIX)
    place = f"{path}, {table}/{name}"
    with (
        convert_read_errors(lambda what: StoreError(f"{place}: it cannot be read ({what}).")),
        h5py.File(str(path), mode="r") as file,
    ):
        columns = find_member(file, table, str(path))
        column = find_member(columns, name, f"{path}, {table}") if isinstance(columns, h5py.Group) else None
        if column is None:
            content = ", ".join(sorted(columns)[:8]) if isinstance(columns, h5py.Group) else ""
            raise StoreError(f"{path}: there is no column {name!r} in .{table}, which holds {content or 'nothing'}.")
        return _read_labels(file, column, place)


def _read_labels(file: Any, column: Any, place: str) -> list[str | None]:
    """Return the values of a column as text, None where they are missing: plain, categorical, or with a mask."""
    if _find_opener(column) is _open_array_source:
        reference = column.attrs.get("categories")  # as anndata stored categories before 0.8
        if reference is None:
            return [None if value != value else decode_text(value) for value in column[:]]
        categories, codes = file[reference], column
        check_hdf5_dataset(categories, place)
    else:
        categories, codes = find_member(column, "categories", place), find_member(column, "codes", place)
    if categories is not None and codes is not None:
        return _decode_categories([decode_text(value) for value in categories[:]], codes[:], place)
    values, mask = find_member(column, "values", place), find_member(column, "mask", place)
    if values is None or mask is None:
        raise StoreError(f"{place}: this is not a column of labels; it holds {quote(', '.join(column))}.")
    return [None if missing else decode_text(value) for value, missing in zip(values[:], mask[:], strict=True)]


def _decode_categories(categories: list[str], codes: Array, place: str) -> list[str | None]:
    """Return the category of each code, None for −1; raise for any other code that is not the index of a category."""
    n_categories = len(categories)
    if codes.dtype.kind not in "iu":
        raise StoreError(f"{place}: its codes are of type {codes.dtype}, not integers.")
    for code in codes[(codes < -1) | (codes >= n_categories)][:1]:
        raise StoreError(
            f"{place}: code {code} is not one of the {n_categories} categories, nor −1 for a missing label."
        )
    return [None if code < 0 else categories[code] for code in codes.tolist()]


def _open_sparse_group(group: StoredGroup, name: str) -> MatrixSource:
    encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr"))
    shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    if shape is None:
        raise StoreError(f"{name}: a sparse matrix without the attribute 'shape'.")
    arrays = [find_member(group, part, name) for part in SPARSE_ARRAY_NAMES]
    checked_shape, dtype = check_matrix_form(name, tuple(int(length) for length in shape), arrays[0].dtype)
    return create_sparse_source(arrays, checked_shape, encoding.startswith("csc"), name, dtype)


# Expected content of a path with each suffix, for messages, and its opener.
_PATH_FORMATS: dict[str, tuple[str, Callable[[Path, str | None, bool], MatrixSource]]] = {
    **dict.fromkeys((".h5", ".hdf5", ".h5ad"), ("a whole HDF5 file", _open_hdf5_source)),
    ".zarr": ("a zarr store", _open_zarr_source),
    ".npy": ("a whole .npy file of numbers", lambda path, key, virtual: open_npy_source(path)),
    ".parquet": ("a whole Parquet file", lambda path, key, virtual: open_parquet_source(path)),
}
SourceOpener = Callable[[Any, str, str | None], MatrixSource]
# Openers by package and class name; names are compared because the package may not be installed.
_OBJECT_OPENERS: dict[tuple[str, str], SourceOpener] = {
    ("zarr", "Array"): _open_array_source,
    ("zarr", "Group"): _open_group_source,
    ("h5py", "Dataset"): _open_array_source,
    ("h5py", "Group"): _open_group_source,
    ("anndata", "BaseCompressedSparseDataset"): lambda X, name, key: _open_sparse_group(X.group, name),
}
