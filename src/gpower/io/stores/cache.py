"""Decode a compressed store once into plain numbers on disk, for data that are read many times."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gpower.io.stores.matrix_source import (
    MAX_BLOCK_BYTES,
    DataBlock,
    MatrixSource,
    StoreError,
    get_storage_state,
    read_source_block,
)
from gpower.io.stores.npy import NpyFile, open_npy_source
from gpower.io.stores.open import SPARSE_ARRAY_NAMES, create_sparse_source, open_source

__all__ = ["cache_store"]

#: Rows (or columns) at the beginning and at the end whose numbers enter the fingerprint of a store.
N_FINGERPRINT_LINES = 16
#: File of a copy with the checksums of the others.
_CHECKSUM_FILE = "checksums.json"


def cache_store(X: object, folder: str | os.PathLike[str], key: str | None = None) -> MatrixSource:
    """Decode a store into a folder of plain numbers, or reuse the copy that is there.

    A fit reads its matrix about ten times per component; if blocks are compressed, decoding them takes most of that
    time. A copy is written completely or not at all, and belongs to one state of one store: a store that has changed is
    decoded again, into another subfolder. The checksums of a copy are compared when it is opened, and a damaged copy is
    written again. Delete the folder when you no longer need it.

    Parameters
    ----------
    X : path, zarr array, h5py dataset, backed matrix of an AnnData, or MatrixSource
        The store, as for `GPower.fit`; or a `MatrixSource` with your own function that reads rows or columns, as below.
        Plain numbers, as in a .npy file, are not copied.
    folder : str or path
        Folder of the copies; created if needed. A copy takes the size of the decoded matrix.
    key : str, optional
        Name of the array within the store.

    Returns
    -------
    MatrixSource
        The decoded matrix, read in blocks. Pass it to `GPower.fit`, `transform` or `score` instead of the store.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.io.stores.cache import cache_store
    >>> from gpower.io.stores.matrix_source import MatrixSource
    >>> rows = np.random.default_rng(0).standard_normal((50, 8))
    >>> store = MatrixSource("rows", rows.shape, rows.dtype, lambda lo, hi: rows[lo:hi])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = GPower(1, cardinality=3).fit(cache_store(store, folder))
    >>> bool(np.allclose(model.components_, GPower(1, cardinality=3).fit(rows).components_))
    True
    """
    source = open_source(X, key, memory_limit=0)
    if source is None:
        raise StoreError(
            f"A {type(X).__name__} is not a store on disk, so there is nothing to decode; fit it as it is."
        )
    if source.is_decoded:
        return source
    stem = Path(source.storage_path).name.replace(".", "-") or "matrix"  # so that users recognise the store
    cache_folder = Path(folder) / f"{stem}-{_compute_store_fingerprint(source)[:20]}"
    if cache_folder.exists() and not _is_undamaged(cache_folder):
        _remove_cache_folder(cache_folder)
    if not cache_folder.exists():
        _write_cache_folder(source, cache_folder)
    return replace(_open_cache_folder(source, cache_folder), feature_names=source.feature_names, notes=source.notes)


def _compute_store_fingerprint(source: MatrixSource) -> str:
    """Return a hash of the state of a store: its place, size, time of change, and first and last numbers."""
    state = (
        source.name,
        source.shape,
        str(source.dtype),
        source.axis,
        source.nnz,
        source.feature_names,
        get_storage_state(source),
    )
    digest = hashlib.sha256(repr(state).encode())
    n_lines = source.shape[source.axis]
    for lo, hi in ((0, min(N_FINGERPRINT_LINES, n_lines)), (max(0, n_lines - N_FINGERPRINT_LINES), n_lines)):
        block = read_source_block(source, lo, hi)
        for part in (block.data, block.indices, block.indptr) if source.is_sparse else (block,):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _write_cache_folder(source: MatrixSource, cache_folder: Path) -> None:
    """Decode a source into a temporary folder and rename it once it is complete; raise if the disk is too small."""
    cache_folder.parent.mkdir(parents=True, exist_ok=True)
    itemsize = source.working_dtype.itemsize
    needed = source.nnz * (itemsize + 8) if source.is_sparse else source.shape[0] * source.shape[1] * itemsize
    free = shutil.disk_usage(cache_folder.parent).free
    if needed > free:
        raise StoreError(
            f"{cache_folder.parent}: {source.name} takes {needed / 1e9:.3g} GB as plain numbers, and only "
            f"{free / 1e9:.3g} GB are free. Choose another folder, or read the store as it is."
        )
    temp_folder = Path(tempfile.mkdtemp(dir=cache_folder.parent, prefix=f".{cache_folder.name}."))
    try:
        (_write_sparse_cache if source.is_sparse else _write_dense_cache)(source, temp_folder)
        checksums = {file.name: _compute_checksum(file) for file in temp_folder.iterdir()}
        (temp_folder / _CHECKSUM_FILE).write_text(json.dumps(checksums))
        os.chmod(temp_folder, 0o755)
        temp_folder.rename(cache_folder)
    except BaseException:
        shutil.rmtree(temp_folder, ignore_errors=True)
        if not cache_folder.exists():  # if it exists, another process has written it
            raise


def _is_undamaged(cache_folder: Path) -> bool:
    """Return whether the files of a copy are those that were written, by their checksums; it reads all of them."""
    try:
        checksums = json.loads((cache_folder / _CHECKSUM_FILE).read_bytes())
        return bool(checksums) and all(_compute_checksum(cache_folder / name) == checksums[name] for name in checksums)
    except (OSError, ValueError, TypeError):
        return False


def _compute_checksum(file: Path) -> int:
    """Return the CRC of a file."""
    checksum = 0
    with file.open("rb") as content:
        while chunk := content.read(MAX_BLOCK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _remove_cache_folder(cache_folder: Path) -> None:
    """Remove a damaged copy: rename it first, so that no other process opens half of it."""
    discarded = Path(tempfile.mkdtemp(dir=cache_folder.parent, prefix=f".{cache_folder.name}."))
    with suppress(FileNotFoundError):  # another process has removed it
        cache_folder.rename(discarded / "damaged")
    shutil.rmtree(discarded, ignore_errors=True)


def _iterate_source_blocks(source: MatrixSource) -> Iterator[DataBlock]:
    """Return an iterator over the blocks of a source, in order."""
    return (read_source_block(source, lo, hi) for lo, hi in pairwise(source.compute_block_edges(MAX_BLOCK_BYTES)))


def _write_dense_cache(source: MatrixSource, folder: Path) -> None:
    """Write X.npy, in Fortran order if the blocks are columns."""
    with (folder / "X.npy").open("wb") as file:
        _write_npy_header(file, source.shape, source.working_dtype, bool(source.axis))
        for block in _iterate_source_blocks(source):
            file.write(np.ascontiguousarray(block.T if source.axis else block).data)


def _write_sparse_cache(source: MatrixSource, folder: Path) -> None:
    """Write data.npy, indices.npy and indptr.npy; duplicates are summed, so the ends of the first two may be zeros."""
    index_dtype = np.dtype(np.int32 if source.shape[1 - source.axis] < 1 << 31 else np.int64)
    ends = [np.zeros(1, np.int64)]
    with (folder / "data.npy").open("wb") as data, (folder / "indices.npy").open("wb") as indices:
        _write_npy_header(data, (source.nnz,), source.working_dtype)
        _write_npy_header(indices, (source.nnz,), index_dtype)
        for block in _iterate_source_blocks(source):
            data.write(np.ascontiguousarray(block.data).data)
            indices.write(np.ascontiguousarray(block.indices, index_dtype).data)
            ends.append(block.indptr[1:].astype(np.int64) + ends[-1][-1])
        n_unused = source.nnz - int(ends[-1][-1])
        data.write(bytes(n_unused * source.working_dtype.itemsize))
        indices.write(bytes(n_unused * index_dtype.itemsize))
    np.save(folder / "indptr.npy", np.concatenate(ends))


def _write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype, is_fortran_order: bool = False) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": is_fortran_order, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _open_cache_folder(source: MatrixSource, cache_folder: Path) -> MatrixSource:
    """Return the matrix of a cache folder as a source."""
    if not source.is_sparse:
        return open_npy_source(cache_folder / "X.npy")
    arrays = [NpyFile.from_path(cache_folder / f"{part}.npy") for part in SPARSE_ARRAY_NAMES]
    return create_sparse_source(arrays, source.shape, bool(source.axis), str(cache_folder), source.working_dtype)
