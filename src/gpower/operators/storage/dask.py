"""Matrices as Dask arrays: the products go to where the blocks are. Needs dask, the ``dask`` extra.

With a `distributed.Client` the blocks stay on its workers: every product is one task per worker, over the blocks that
are there, and only the product travels. A block that has crossed a socket lies at an odd address, where NumPy copies it
before each use; it is put right once. Tasks prefer the worker that holds the blocks but may run elsewhere, so that a
worker that dies is made up for: its blocks are computed again from their source. Without a client, threads work on the
chunks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, get_package_name
from gpower._utils.memory import get_default_memory_limit
from gpower._utils.optional import import_optional
from gpower._utils.warnings import warn
from gpower.io.stores.open import open_source
from gpower.io.stores.source import (
    DataBlock,
    MatrixSource,
    StoreError,
    get_working_dtype,
    read_source_block,
    to_working_block,
)
from gpower.operators.storage.base import NonFiniteEntry
from gpower.operators.storage.blocks import BlockArguments, BlockFunction, BlockMatrix, R
from gpower.operators.storage.dask_client import (
    call_with_worker_timeout,
    convert_cluster_errors,
    get_current_client,
    get_workers,
)
from gpower.operators.storage.sparse import wrap_in_memory

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed
    from distributed import Client, Future

#: Share of the workers' memory that blocks may take before they spill to disk.
MAX_PERSISTED_SHARE = 0.55
#: Size of the blocks that a store is cut into.
BLOCK_BYTES = 1 << 26
#: What Dask tells a function of its chunk, by the number of the argument.
ChunkInfo = Mapping[int, Mapping[str, Sequence[tuple[int, int]]]]


def is_dask_array(X: object) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    return get_package_name(X) == "dask" and hasattr(X, "chunks")


def from_store(path: str | os.PathLike[str], key: str | None = None, block_bytes: int = BLOCK_BYTES) -> DaskArray:
    """A store on disk as a Dask array whose blocks each worker reads for itself; all must see the path.

    Parameters
    ----------
    path : str or path
        It ends in .npy, .zarr, .h5, .hdf5, .h5ad or .parquet.
    key : str, optional
        Array within the store.
    block_bytes : int
        Size of a block in memory, roughly.

    Returns
    -------
    dask.array.Array of shape (n_samples, n_features)
        Blocks of rows, or of columns where the store keeps those together; read when they are used.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from gpower.operators.storage.dask import from_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.eye(4))
    ...     from_store(f"{folder}/x.npy").shape
    (4, 4)
    """
    da = import_optional("dask.array", "dask", "A store on a cluster needs")
    source = open_source(path, key)
    if source is None:
        raise StoreError(f"{path}: this is no store on disk.")
    dtype = source.working_dtype
    meta = sp.csr_matrix((0, 0), dtype=dtype) if source.is_sparse else np.empty((0, 0), dtype)
    parts = []
    for lo, hi in pairwise(source.compute_block_edges(block_bytes)):
        block = _make_delayed(_read_store_block)(os.fspath(path), key, lo, hi)
        parts.append(da.from_delayed(block, source.get_block_shape(lo, hi), dtype=dtype, meta=meta))
    return da.concatenate(parts, axis=source.axis)


def _read_store_block(path: str, key: str | None, lo: int, hi: int) -> DataBlock:
    """Some rows or columns of a store, read where this runs."""
    return read_source_block(_open_store_cached(path, key, os.stat(path).st_mtime_ns), lo, hi)


@lru_cache(maxsize=4)
def _open_store_cached(path: str, key: str | None, modified_ns: int) -> MatrixSource:
    """A store in its present state, opened once for the many blocks that a worker reads of it."""
    source = open_source(path, key)
    assert source is not None
    return source


class DaskMatrix(BlockMatrix):
    """A Dask array, chunked by rows or by columns.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Dense or CSR blocks. Chunked along both axes it is rechunked by rows, with a warning.
    memory_limit : float, optional
        Bytes that gathered columns may take on this machine; by default a quarter of its free memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from gpower.operators.storage.dask import DaskMatrix
    >>> DaskMatrix(da.ones((6, 4), chunks=(2, 4))).shape
    (6, 4)
    """

    def __init__(self, X: DaskArray, memory_limit: float | None = None) -> None:
        self.array = X = _check_dask_array(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.axis = 1 if X.numblocks[1] > 1 else 0
        self.block_edges = np.concatenate([[0], np.cumsum(X.chunks[self.axis])]).astype(int)
        self.is_sparse = sp.issparse(X._meta)
        self.dtype = get_working_dtype(X.dtype)
        self.memory_limit = get_default_memory_limit() if memory_limit is None else memory_limit
        self.client = get_current_client()

    @property
    def feature_names(self) -> None:  # type: ignore[override]
        """None: a Dask array does not name its columns."""

    @property
    def is_checked_on_read(self) -> bool:
        """Whether values are checked when they are read: always, as what is lazy is not there before."""
        return True

    @property
    def max_covariances(self) -> int:
        """How many covariances of all columns fit; without workers each block has its own until they are added."""
        return super().max_covariances // (self.n_blocks if self.client is None else 1)

    @cached_property
    def blocks(self) -> list[Delayed] | list[Future]:
        """The blocks: on the workers from the first product on, or lazy where there are none."""
        lazy = [_make_delayed(_wrap_chunk)(block, self.dtype) for block in self.array.to_delayed().ravel()]
        if self.client is None:
            return lazy
        with self._cancel_on_error():
            self._warn_if_memory_short()
            return list(self.client.compute(lazy, retries=2))

    def project_samples(self, loadings: Array, mean: Array) -> DaskArray:
        """Scores as a Dask array that is computed when it is used; an entry that is not finite is named then."""
        rows = self.array.rechunk({1: self.shape[1]})
        chunks = (rows.chunks[0], (loadings.shape[1],))
        meta = np.empty((0, 0), self.dtype)
        return rows.map_blocks(_project_chunk, loadings=loadings, mean=mean, chunks=chunks, dtype=self.dtype, meta=meta)

    def _warn_if_memory_short(self) -> None:
        """Say before the work that the blocks will not fit the workers' memory."""
        workers = get_workers(self.client).values()
        granted = sum(worker["memory_limit"] for worker in workers)
        if granted and not self.is_sparse and self.nbytes > MAX_PERSISTED_SHARE * granted:
            warn(
                f"The matrix takes {self.nbytes / 1e9:.3g} GB, more than {MAX_PERSISTED_SHARE:.0%} of the "
                f"{granted / 1e9:.3g} GB that the workers have; blocks will spill to disk. Use more workers.",
            )

    def subtract_offsets(self, shift: Array) -> Self:
        """The same matrix less a constant per column."""
        numbers = self.array.astype(self.dtype)
        if not self.is_sparse:
            return type(self)(numbers - shift.astype(self.dtype), self.memory_limit)
        cut = [shift if self.axis == 0 else shift[part] for part in self.get_block_slices()]
        place = self.axis  # of a block's number among the two of `block_id`

        def moved(block: DataBlock, block_id: tuple[int, int] | None = None) -> DataBlock:
            return (
                wrap_in_memory(to_working_block(block, block.dtype)).subtract_offsets(cut[block_id[place]]).A
                if block_id
                else block
            )

        return type(self)(numbers.map_blocks(moved, dtype=self.dtype, meta=self.array._meta), self.memory_limit)

    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """What `work` makes of every block with a share."""
        wanted = [i for i, share in enumerate(arguments) if share is not None]
        if self.client is None:
            import dask

            tasks = [_make_delayed(_run_on_block)(self.blocks[i], function, arguments[i]) for i in wanted]
            return list(dask.compute(*tasks, scheduler="threads"))
        grouped = self._run_by_worker(_run_on_blocks, function, arguments, wanted)
        results = {i: piece for group, found in grouped for i, piece in zip(group, found, strict=True)}
        return [results[i] for i in wanted]

    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """The sum of ``work(block, *share)`` in float64, over the blocks of each worker there, then over workers.

        What rounding loses of each addition is kept and added at the end, so that the sum does not depend on which
        worker holds which block.
        """
        if self.client is None:
            return np.sum(_sum_compensated((piece, 0.0) for piece in self.map_blocks(function, arguments)), axis=0)
        wanted = [i for i, share in enumerate(arguments) if share is not None]
        return np.sum(
            _sum_compensated(found for _, found in self._run_by_worker(_sum_over_blocks, function, arguments, wanted)),
            axis=0,
        )

    def _run_by_worker(
        self,
        batch_function: BlockFunction[R],
        function: BlockFunction[object],
        arguments: Sequence[BlockArguments],
        block_numbers: list[int],
    ) -> list[tuple[list[int], R]]:
        """One task per worker over the blocks that it holds, in the order of their first blocks."""
        import dask

        tasks: list[Future] = []
        with self._cancel_on_error(tasks):
            groups = self._group_by_worker(block_numbers)
            for owner, group in groups:
                blocks, own = [self.blocks[i] for i in group], [arguments[i] for i in group]
                # Better run where the blocks are than anywhere else, but run it must.
                where = {"workers": [owner] if owner else None, "allow_other_workers": bool(owner)}
                # Dask warns of tasks with large arguments; ours are the vectors of a product, which must travel.
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                    tasks.append(
                        self.client.submit(batch_function, blocks, function, own, **where, pure=False, retries=2)
                    )
            found = call_with_worker_timeout(self.client, partial(self.client.gather, tasks))
        return [(group, result) for (_, group), result in zip(groups, found, strict=True)]

    @contextmanager
    def _cancel_on_error(self, tasks: Sequence[Future] = ()) -> Iterator[None]:
        """Nothing is left running on the cluster when something goes wrong, Ctrl-C included; a lost one is named."""
        try:
            with convert_cluster_errors(self.client):
                yield
        except BaseException:
            stop = [*tasks, *self.__dict__.pop("blocks", [])]
            threading.Thread(target=_cancel_tasks, args=(self.client, stop), daemon=True).start()
            raise

    def _group_by_worker(self, block_numbers: list[int]) -> list[tuple[str | None, list[int]]]:
        """Workers with the blocks that each holds; blocks that are nowhere yet are spread over the workers."""
        blocks = [self.blocks[i] for i in block_numbers]
        if not all(block.status in ("finished", "error") for block in blocks):
            from distributed import wait

            call_with_worker_timeout(self.client, partial(wait, blocks))
        held = self.client.who_has(blocks)
        groups: dict[str | None, list[int]] = {}
        for i, block in zip(block_numbers, blocks, strict=True):
            owners = sorted(held.get(block.key) or ())
            groups.setdefault(owners[0] if owners else None, []).append(i)
        return sorted(groups.items(), key=lambda item: item[1][0])


class _WorkerBlock:
    """A block on a worker, put at an even address the first time it is used after a move."""

    def __init__(self, block: DataBlock) -> None:
        self.block = block

    def get_aligned(self) -> DataBlock:
        """The block, aligned."""
        if sp.issparse(self.block):
            stored = self.block
            arrays = (stored.data, stored.indices, stored.indptr)
            stored.data, stored.indices, stored.indptr = (np.require(part, requirements="A") for part in arrays)
        else:
            self.block = np.require(self.block, requirements="A")
        return self.block

    def __sizeof__(self) -> int:
        """What Dask counts as its memory."""
        parts = (self.block.data, self.block.indices) if sp.issparse(self.block) else (self.block,)
        return int(sum(part.nbytes for part in parts))


def _wrap_chunk(block: DataBlock, dtype: np.dtype) -> _WorkerBlock:
    """A chunk as it stays on its worker: numbers of the type that is worked with."""
    return _WorkerBlock(to_working_block(block, dtype))


def _run_on_block(block: _WorkerBlock, function: BlockFunction[R], arguments: BlockArguments) -> R:
    """One block's result; values that are not finite are named later."""
    with np.errstate(all="ignore"):
        return function(wrap_in_memory(block.get_aligned()), *(arguments or ()))


def _project_chunk(block: DataBlock, loadings: Array, mean: Array, block_info: ChunkInfo | None = None) -> Array:
    """The scores of a chunk that must hold numbers throughout."""
    table = wrap_in_memory(to_working_block(block, loadings.dtype))
    place = table.locate_non_finite()
    if place is not None:
        above = block_info[0]["array-location"][0][0] if block_info else 0
        raise NonFiniteEntry(place[0] + above, place[1]).make_error(place[1])
    return table.project_samples(loadings, mean)


def _run_on_blocks(blocks: list[_WorkerBlock], function: BlockFunction[R], arguments: list[BlockArguments]) -> list[R]:
    """The results of a worker's blocks."""
    return [_run_on_block(block, function, share) for block, share in zip(blocks, arguments, strict=True)]


def _sum_over_blocks(
    blocks: list[_WorkerBlock], function: BlockFunction[Array], arguments: list[BlockArguments]
) -> Array:
    """Their sum, and what rounding lost of it."""
    return _sum_compensated(
        (_run_on_block(block, function, share), 0.0) for block, share in zip(blocks, arguments, strict=True)
    )


def _sum_compensated(terms: Iterable[tuple[Array, Array | float] | Array]) -> Array:
    """Sum of pairs (number, what was lost of it) as such a pair: each addition's own loss is kept (Knuth's TwoSum)."""
    total, lost = np.zeros(()), np.zeros(())
    for term, missing in terms:
        grown = total + np.asarray(term, np.float64)
        back = grown - total
        lost = lost + ((total - (grown - back)) + (term - back)) + missing
        total = grown
    return np.stack([total, lost])


def _cancel_tasks(client: Client, tasks: list[Future]) -> None:
    with suppress(Exception):  # a lost cluster has nothing to stop
        client.cancel(tasks)


def _make_delayed(function: BlockFunction[object]) -> Delayed:
    import dask

    return dask.delayed(function, pure=False)


def _check_dask_array(X: DaskArray) -> DaskArray:
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
        warn(
            f"The Dask array is chunked along both axes ({X.numblocks[0]} × {X.numblocks[1]}) and is rechunked by "
            "rows; chunk it along the longer axis to spare that.",
        )
        X = X.rechunk({1: X.shape[1]})
    return X
