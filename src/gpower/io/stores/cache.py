"""Stores decoded once: plain numbers on disk, for data that are compressed and will be read many times."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gpower.io.stores.npy import NpyFile, open_npy_source
from gpower.io.stores.open import SPARSE_ARRAY_NAMES, create_sparse_source, open_source
from gpower.io.stores.source import (
    MAX_BLOCK_BYTES,
    DataBlock,
    MatrixSource,
    StoreError,
    get_storage_state,
    read_source_block,
)

__all__ = ["cache_store"]

#: Rows or columns at either end whose numbers are part of the fingerprint.
N_FINGERPRINT_LINES = 16


def cache_store(X: object, folder: str | os.PathLike[str], key: str | None = None) -> MatrixSource:
    """A store as plain numbers, decoded into a folder the first time and found there the next.

    A fit reads its matrix some ten times per component; where blocks are compressed, decoding them takes most of that
    time. What is in the folder is whole or not there, and belongs to one state of one store: when the store has
    changed it is decoded again, into another file. Delete the folder when you no longer need it.

    Parameters
    ----------
    X : path, zarr array, h5py dataset, backed matrix of an AnnData, or Source
        As for `GPower.fit`, or rows or columns that a function of yours gives, as below. What is kept as plain numbers
        already, as in a .npy file, is not copied.
    folder : str or path
        Made if it is not there. It takes the size of the matrix as numbers.
    key : str, optional
        Array within the store.

    Returns
    -------
    Source
        The decoded matrix, read in blocks: to be given to `GPower.fit`, `transform` or `score` instead of the store.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.io.stores.cache import cache_store
    >>> from gpower.io.stores.source import MatrixSource
    >>> rows = np.random.default_rng(0).standard_normal((50, 8))
    >>> store = MatrixSource("rows", rows.shape, rows.dtype, lambda lo, hi: rows[lo:hi])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = GPower(1, cardinality=3).fit(cache_store(store, folder))
    >>> bool(np.allclose(model.components_, GPower(1, cardinality=3).fit(rows).components_))
    True
    """
    source = open_source(X, key, memory_limit=0)
    if source is None:
        raise StoreError(f"A {type(X).__name__} is no store on disk, so there is nothing to decode; fit it as it is.")
    if source.is_decoded:
        return source
    stem = Path(source.storage_path).name.replace(".", "-") or "matrix"  # a person recognises the store by it
    kept = Path(folder) / f"{stem}-{_compute_store_fingerprint(source)[:20]}"
    if not kept.exists():
        _write_cache_folder(source, kept)
    return replace(_open_cache_folder(source, kept), feature_names=source.feature_names, notes=source.notes)


def _compute_store_fingerprint(source: MatrixSource) -> str:
    """Of the store as it is now: where it is, its size, when it was changed, its first and last numbers."""
    facts = (
        source.name,
        source.shape,
        str(source.dtype),
        source.axis,
        source.nnz,
        source.feature_names,
        get_storage_state(source.storage_path),
    )
    digest = hashlib.sha256(repr(facts).encode())
    lines = source.shape[source.axis]
    for lo, hi in ((0, min(N_FINGERPRINT_LINES, lines)), (max(0, lines - N_FINGERPRINT_LINES), lines)):
        block = read_source_block(source, lo, hi)
        for part in (block.data, block.indices, block.indptr) if source.is_sparse else (block,):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _write_cache_folder(source: MatrixSource, cache_folder: Path) -> None:
    """Decode a source into a folder that gets its name once it is whole."""
    cache_folder.parent.mkdir(parents=True, exist_ok=True)
    size = source.working_dtype.itemsize
    needed = source.nnz * (size + 8) if source.is_sparse else source.shape[0] * source.shape[1] * size
    free = shutil.disk_usage(cache_folder.parent).free
    if needed > free:
        raise StoreError(
            f"{cache_folder.parent}: {source.name} takes {needed / 1e9:.3g} GB as plain numbers, and only "
            f"{free / 1e9:.3g} GB are free. Choose another folder, or read the store as it is."
        )
    made = Path(tempfile.mkdtemp(dir=cache_folder.parent, prefix=f".{cache_folder.name}."))
    try:
        (_write_sparse_cache if source.is_sparse else _write_dense_cache)(source, made)
        os.chmod(made, 0o755)
        made.rename(cache_folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        if not cache_folder.exists():  # another process has not been quicker
            raise


def _iterate_source_blocks(source: MatrixSource) -> Iterator[DataBlock]:
    """The blocks of a source, one after the other."""
    return (read_source_block(source, lo, hi) for lo, hi in pairwise(source.compute_block_edges(MAX_BLOCK_BYTES)))


def _write_dense_cache(source: MatrixSource, folder: Path) -> None:
    """One .npy, by column where the blocks are columns."""
    with (folder / "X.npy").open("wb") as file:
        _write_npy_header(file, source.shape, source.working_dtype, bool(source.axis))
        for block in _iterate_source_blocks(source):
            file.write(np.ascontiguousarray(block.T if source.axis else block).data)


def _write_sparse_cache(source: MatrixSource, folder: Path) -> None:
    """Three .npy: data, indices and indptr. Entries that were stored in parts are fewer now; the rest is zeros."""
    index = np.dtype(np.int32 if source.shape[1 - source.axis] < 1 << 31 else np.int64)
    ends = [np.zeros(1, np.int64)]
    with (folder / "data.npy").open("wb") as data, (folder / "indices.npy").open("wb") as indices:
        _write_npy_header(data, (source.nnz,), source.working_dtype)
        _write_npy_header(indices, (source.nnz,), index)
        for block in _iterate_source_blocks(source):
            data.write(np.ascontiguousarray(block.data).data)
            indices.write(np.ascontiguousarray(block.indices, index).data)
            ends.append(block.indptr[1:].astype(np.int64) + ends[-1][-1])
        short = source.nnz - int(ends[-1][-1])
        data.write(bytes(short * source.working_dtype.itemsize))
        indices.write(bytes(short * index.itemsize))
    np.save(folder / "indptr.npy", np.concatenate(ends))


def _write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype, is_fortran_order: bool = False) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": is_fortran_order, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)


def _open_cache_folder(source: MatrixSource, cache_folder: Path) -> MatrixSource:
    """What was written, as a source."""
    if not source.is_sparse:
        return open_npy_source(cache_folder / "X.npy")
    arrays = [NpyFile.from_path(cache_folder / f"{part}.npy") for part in SPARSE_ARRAY_NAMES]
    return create_sparse_source(arrays, source.shape, bool(source.axis), str(cache_folder), source.working_dtype)
