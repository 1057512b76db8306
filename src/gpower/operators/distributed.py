"""Matrices as Dask arrays: the products go to where the blocks are. Needs dask, the ``dask`` extra.

With a `distributed.Client` the blocks stay on its workers: every product is one task per worker, over the blocks that
are there, and only the product travels. A block that has crossed a socket lies at an odd address, where NumPy copies it
before each use; it is put right once. Tasks prefer the worker that holds the blocks but may run elsewhere, so that a
worker that dies is made up for: its blocks are computed again from their source. Without a client, threads work on the
chunks.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array
from gpower.operators.blocks import BlockMatrix, Share, Work
from gpower.operators.sources import open_source
from gpower.operators.streamed import MEMORY_SHARE, StoreError, free_memory

#: Share of the workers' memory that blocks may take before they spill to disk.
PERSISTED_SHARE = 0.55
#: Size of the blocks that a store is cut into.
BLOCK_BYTES = 1 << 26


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def from_store(path: Any, key: str | None = None, block_bytes: int = BLOCK_BYTES) -> Any:
    """A store on disk as a Dask array whose blocks each worker reads for itself; all must see the path.

    Parameters
    ----------
    path : str or path
        As for `open_source`.
    key : str, optional
        Array within the store.
    block_bytes : int
        Size of a block in memory, roughly.
    """
    import dask.array as da

    source = open_source(path, key)
    if source is None:
        raise StoreError(f"{path}: this is no store on disk.")
    lines, length = source.shape[source.axis], source.shape[1 - source.axis]
    step = max(1, int(block_bytes / source.bytes_per_line) // source.grain) * source.grain
    meta = sp.csr_matrix((0, 0), dtype=source.dtype) if source.sparse else np.empty((0, 0), source.dtype)
    parts = []
    for lo in range(0, lines, step):
        hi = min(lo + step, lines)
        shape = (hi - lo, length) if source.axis == 0 else (length, hi - lo)
        block = _delayed(_read)(os.fspath(path), key, lo, hi)
        parts.append(da.from_delayed(block, shape, dtype=source.dtype, meta=meta))
    return da.concatenate(parts, axis=source.axis)


def _read(path: str, key: str | None, lo: int, hi: int) -> Any:
    """Some rows or columns of a store, read where this runs."""
    source = open_source(path, key)
    assert source is not None
    return source.read(lo, hi)


class DaskMatrix(BlockMatrix):
    """A Dask array, chunked by rows or by columns.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Dense or CSR blocks. Chunked along both axes it is rechunked by rows, with a warning.
    memory_limit : float, optional
        Bytes that gathered columns may take on this machine; by default a quarter of its free memory.
    """

    def __init__(self, X: Any, memory_limit: float | None = None) -> None:
        X = _checked(X)
        self.array = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.axis = 1 if X.numblocks[1] > 1 else 0
        self.edges = np.concatenate([[0], np.cumsum(X.chunks[self.axis])]).astype(int)
        self.sparse = sp.issparse(X._meta)
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        self.memory_limit = free_memory() * MEMORY_SHARE if memory_limit is None else memory_limit
        self.client = _client()
        self.nbytes = self.size * X.dtype.itemsize

    @cached_property
    def blocks(self) -> list[Any]:
        """The blocks: on the workers from the first product on, or lazy where there are none."""
        lazy = [_delayed(_held)(block, self.dtype) for block in self.array.to_delayed().ravel()]
        if self.client is None:
            return lazy
        self._check_room()
        return list(self.client.compute(lazy, retries=2))

    def lazily(self, work: Work, loadings: Array, mean: Array) -> Any:
        """``work(block, loadings, mean)`` of every block of rows, as a Dask array that is computed when it is used."""
        rows = self.array.rechunk({1: self.shape[1]})
        chunks = (rows.chunks[0], (loadings.shape[1],))
        meta = np.empty((0, 0), self.dtype)
        return rows.map_blocks(work, loadings, mean, chunks=chunks, dtype=self.dtype, meta=meta)

    @property
    def nnz(self) -> int:
        """Entries, stored or not: counting would read the matrix."""
        return self.size

    def _check_room(self) -> None:
        """Say before the work that the blocks will not fit the workers' memory."""
        workers = self.client.scheduler_info()["workers"].values()
        granted = sum(worker["memory_limit"] for worker in workers)
        if granted and not self.sparse and self.nbytes > PERSISTED_SHARE * granted:
            warnings.warn(
                f"The matrix takes {self.nbytes / 1e9:.3g} GB, more than {PERSISTED_SHARE:.0%} of the "
                f"{granted / 1e9:.3g} GB that the workers have; blocks will spill to disk. Use more workers.",
                UserWarning,
                stacklevel=2,
            )

    def shifted(self, shift: Array) -> DaskMatrix:
        """The same matrix less a constant per column."""
        dense = self.array.map_blocks(_dense) if self.sparse else self.array
        return DaskMatrix(dense - shift.astype(self.dtype), self.memory_limit)

    def pieces(self, work: Work, shares: Sequence[Share]) -> list[Any]:
        """What `work` makes of every block with a share."""
        wanted = [i for i, share in enumerate(shares) if share is not None]
        if self.client is None:
            return list(_compute([_delayed(_piece)(self.blocks[i], work, shares[i]) for i in wanted]))
        results: dict[int, Any] = {}
        for group, found in self._by_worker(_pieces, work, shares, wanted):
            results.update(zip(group, found, strict=True))
        return [results[i] for i in wanted]

    def total(self, work: Work, shares: Sequence[Share]) -> Any:
        """The sum of it in float64: over the blocks of each worker there, then over workers by their first block."""
        wanted = [i for i, share in enumerate(shares) if share is not None]
        if self.client is None:
            results = _compute([_delayed(_piece)(self.blocks[i], work, shares[i]) for i in wanted])
        else:
            results = [found for _, found in self._by_worker(_sum, work, shares, wanted)]
        total = np.array(results[0], np.float64)
        for result in results[1:]:
            total += result
        return total

    def _by_worker(
        self, fused: Work, work: Work, shares: Sequence[Share], wanted: list[int]
    ) -> list[tuple[list[int], Any]]:
        """One task per worker over the blocks that it holds, in the order of their first blocks."""
        groups = self._owners(wanted)
        tasks = [
            self.client.submit(
                fused,
                [self.blocks[i] for i in group],
                work,
                [shares[i] for i in group],
                workers=[owner] if owner else None,
                allow_other_workers=bool(owner),
                pure=False,
                retries=2,
            )
            for owner, group in groups
        ]
        try:
            found = self.client.gather(tasks)
        except BaseException:
            self.client.cancel(tasks)  # nothing is left running on the cluster, Ctrl-C included
            raise
        return [(group, result) for (_, group), result in zip(groups, found, strict=True)]

    def _owners(self, wanted: list[int]) -> list[tuple[str | None, list[int]]]:
        """Workers with the blocks that each holds; blocks that are nowhere yet are spread over the workers."""
        blocks = [self.blocks[i] for i in wanted]
        if not all(block.status in ("finished", "error") for block in blocks):
            from distributed import wait

            wait(blocks)
        held = self.client.who_has(blocks)
        groups: dict[str | None, list[int]] = {}
        for i, block in zip(wanted, blocks, strict=True):
            owners = sorted(held.get(block.key) or ())
            groups.setdefault(owners[0] if owners else None, []).append(i)
        return sorted(groups.items(), key=lambda item: item[1][0])


class _Block:
    """A block on a worker, put at an even address the first time it is used after a move."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def get(self) -> Any:
        """The block, aligned."""
        if sp.issparse(self.block):
            for name in ("data", "indices", "indptr"):
                setattr(self.block, name, _aligned(getattr(self.block, name)))
        else:
            self.block = _aligned(self.block)
        return self.block

    def __sizeof__(self) -> int:
        """What Dask counts as its memory."""
        parts = (self.block.data, self.block.indices) if sp.issparse(self.block) else (self.block,)
        return int(sum(part.nbytes for part in parts))


def _aligned(array: Array) -> Array:
    return array if array.flags.aligned else np.array(array, order="K", copy=True)


def _held(block: Any, dtype: np.dtype) -> _Block:
    """A chunk as it stays on its worker: numbers of the type that is worked with."""
    return _Block(block.astype(dtype, copy=False))


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if sp.issparse(block) else block)


def _piece(block: _Block, work: Work, share: Share) -> Any:
    """One block's result."""
    return work(block.get(), *(share or ()))


def _pieces(blocks: list[_Block], work: Work, shares: list[Share]) -> list[Any]:
    """The results of a worker's blocks."""
    return [_piece(block, work, share) for block, share in zip(blocks, shares, strict=True)]


def _sum(blocks: list[_Block], work: Work, shares: list[Share]) -> Array:
    """Their sum."""
    total = np.array(_piece(blocks[0], work, shares[0]), np.float64)
    for block, share in zip(blocks[1:], shares[1:], strict=True):
        total += _piece(block, work, share)
    return total


def _delayed(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False)


def _compute(tasks: list[Any]) -> Any:
    import dask

    return dask.compute(*tasks, scheduler="threads")


def _client() -> Any:
    """The user's client, if there is one."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def connect(address: str) -> Any:
    """A client of the cluster at an address, which later fits use."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('A cluster needs dask and distributed: pip install "gpower[dask]".') from None
    try:
        return Client(address, timeout=10)
    except OSError as error:
        raise OSError(f"No Dask scheduler answers at {address} ({error}).") from None


def _checked(X: Any) -> Any:
    """X as a matrix of numbers of known size, chunked along one axis."""
    if X.ndim != 2:
        raise StoreError(f"The Dask array has {X.ndim} dimensions; a matrix of samples × variables has two.")
    for axis, name in ((0, "rows"), (1, "columns")):
        if any(not size == size for size in X.chunks[axis]):
            raise StoreError(
                f"The Dask array has chunks of unknown size along its {name}; call X.compute_chunk_sizes() first."
            )
    if X.dtype.kind not in "fiub":
        raise StoreError(f"The Dask array holds values of type {X.dtype}, not numbers.")
    if X.numblocks[0] > 1 and X.numblocks[1] > 1:
        warnings.warn(
            f"The Dask array is chunked along both axes ({X.numblocks[0]} × {X.numblocks[1]}) and is rechunked by "
            "rows; chunk it along the longer axis to spare that.",
            UserWarning,
            stacklevel=2,
        )
        X = X.rechunk({1: X.shape[1]})
    return X
