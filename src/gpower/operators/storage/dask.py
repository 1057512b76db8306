"""Container of Dask arrays: products are computed where the blocks are. Needs the ``dask`` extra.

A chunk is a part of the Dask array as the user made it: some rows with all columns, or some columns with all rows,
dense or sparse, on the host or a device (CuPy). A block is the chunk in the working dtype, with each entry stored once.

With a `distributed.Client` the blocks stay on its workers: every product is one task per worker, over the blocks of
that worker, and only the product is transferred. Tasks prefer the worker that holds the blocks but may run on others.
If a worker dies, its blocks are computed again from their source. Without a client, threads work on the chunks.

The products of `dask.array` would need fewer lines, but they are one task per block. On two local workers with an
8000 × 5000 matrix in their memory and one vector, XᵀY takes 0.2 s here and 0.5 s with `dask.array` in 8 blocks, and
0.4 s and 3.5 s in 80 blocks. A block that came through a socket is often not aligned in memory, and NumPy copies it
before each use: a product of 1250 × 5000 with one vector then takes 52 ms instead of 2 ms. Such a block is aligned
once.

Terms: a chunk, or a block, is an array or a CSR or CSC matrix of NumPy, SciPy or CuPy. The working dtype is float32 for
float32 chunks, else float64 (`get_working_dtype`); ``to_working_block(chunk, dtype)`` converts a chunk on the host.
``wrap_device_sparse(chunk)`` is the container of a sparse matrix of CuPy, whose attribute `A` it is, or None for
anything else; `is_device_array` and `is_device_sparse` say what is on a device; ``wrap_in_memory(matrix)`` is the
container of a matrix on the host. A container of a block, an `InMemoryMatrix`, has ``locate_non_finite()``, row and
column of its first entry that is not finite, or None; ``subtract_offsets(shift)`` and ``to_backend(v)``.
``compute_on_block(container, method, *arguments)`` calls a method and returns its result on the host. `n_blocks`,
`nbytes` and ``split(v, 1)`` of a `BlockMatrix` are the number of blocks, the bytes of all entries as a dense array, and
the part of v, one value for each column, of each block.

``open_source(path, key)`` is a store, or None if there is none: `working_dtype`, `axis`, `is_sparse`;
``compute_block_edges(bytes)``, the first line of each block and the end; ``get_block_shape(lo, hi)``; and
``read_source_block(source, lo, hi)``, lines lo to hi − 1. `get_current_client` is the client of a cluster or None, and
``get_workers(client)`` a dictionary by address of what the workers report. ``call_with_worker_timeout(client,
function)`` returns the result of a function and raises ClusterError if there are no workers;
``convert_cluster_errors(client)`` is a context that turns errors of a lost cluster into ClusterError;
``check_python_versions(client)`` raises it if the workers have another Python. A `Delayed` is a lazy task, a `Future`
one that a cluster computes. ``use_one_thread()`` is a context in which BLAS uses a single thread, and ``warn(message)``
warns at the line of the user.
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

from gpower._utils.arrays import Array, get_package_name, is_device_array
from gpower._utils.memory import get_default_memory_limit
from gpower._utils.optional import import_optional
from gpower._utils.threads import use_one_thread
from gpower._utils.warnings import warn
from gpower.io.stores.matrix_source import (
    DataBlock,
    MatrixSource,
    StoreError,
    get_working_dtype,
    read_source_block,
    to_working_block,
)
from gpower.io.stores.open import open_source
from gpower.operators.storage.base import InMemoryMatrix, NonFiniteEntry
from gpower.operators.storage.blocks import BlockArguments, BlockFunction, BlockMatrix, R, compute_on_block
from gpower.operators.storage.dask_client import (
    call_with_worker_timeout,
    check_python_versions,
    convert_cluster_errors,
    get_current_client,
    get_workers,
)
from gpower.operators.storage.device import DeviceMatrix
from gpower.operators.storage.device_sparse import DeviceSparseMatrix, is_device_sparse, wrap_device_sparse
from gpower.operators.storage.sparse import wrap_in_memory

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed
    from distributed import Client, Future

#: Share of the workers' memory that blocks may take before they spill to disk: Dask begins to spill at 0.6 of it.
MAX_PERSISTED_SHARE = 0.55
#: Size in bytes of the blocks into which a store is divided: reading one takes much longer than the overhead of a task.
BLOCK_BYTES = 1 << 26
#: Information on a chunk that Dask passes to a function, by the number of the argument.
ChunkInfo = Mapping[int, Mapping[str, Sequence[tuple[int, int]]]]


def is_dask_array(X: object) -> bool:
    """Return whether X is a Dask array, without importing Dask."""
    return get_package_name(X) == "dask" and hasattr(X, "chunks")


def from_store(path: str | os.PathLike[str], key: str | None = None, block_bytes: int = BLOCK_BYTES) -> DaskArray:
    """Return a store on disk as a Dask array; each worker reads its own blocks, so all must have access to the path.

    Parameters
    ----------
    path : str or path
        Path that ends in .npy, .zarr, .h5, .hdf5, .h5ad or .parquet.
    key : str, optional
        Array within the store.
    block_bytes : int
        Approximate size of a block in memory.

    Returns
    -------
    dask.array.Array of shape (n_samples, n_features)
        Blocks of rows, or of columns if the store is arranged by column; read when they are used.

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
        raise StoreError(f"{path}: this is not a store on disk.")
    dtype = source.working_dtype
    meta = sp.csr_array((0, 0), dtype=dtype) if source.is_sparse else np.empty((0, 0), dtype)
    parts = []
    for lo, hi in pairwise(source.compute_block_edges(block_bytes)):
        block = _make_delayed(_read_store_block)(os.fspath(path), key, lo, hi)
        parts.append(da.from_delayed(block, source.get_block_shape(lo, hi), dtype=dtype, meta=meta))
    return da.concatenate(parts, axis=source.axis)


def _read_store_block(path: str, key: str | None, lo: int, hi: int) -> DataBlock:
    """Read lines lo to hi − 1 of a store, rows or columns as the store is arranged, on the worker that runs this.

    `key` names an array within the store. The block is a NumPy array or a SciPy matrix, float32 or float64.
    """
    return read_source_block(_open_store_cached(path, key, os.stat(path).st_mtime_ns), lo, hi)


@lru_cache(maxsize=4)
def _open_store_cached(path: str, key: str | None, modified_ns: int) -> MatrixSource:
    """Open a store once for the many blocks that a worker reads, and again if its time of change (ns) differs."""
    source = open_source(path, key)
    assert source is not None
    return source


class DaskMatrix(BlockMatrix):
    """Container of a Dask array, chunked by rows or by columns.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Dense or CSR blocks, in host memory or on GPUs (CuPy). An array chunked along both axes is rechunked by rows,
        with a warning.
    memory_limit : float, optional
        Memory in bytes on this machine for gathered columns and Gram matrices; by default a quarter of its free memory.

    Attributes
    ----------
    array : dask.array.Array of shape (n_samples, n_features)
        X, chunked along one axis, in its own dtype.
    client : distributed.Client or None
        Client of the cluster that holds the blocks; None if threads of this process work on the chunks.
    is_checked_on_read : bool
        True: the entries of a lazy array can only be checked when they are computed.

    Examples
    --------
    >>> import dask.array as da
    >>> from gpower.operators.storage.dask import DaskMatrix
    >>> DaskMatrix(da.ones((6, 4), chunks=(2, 4))).shape
    (6, 4)
    """

    is_checked_on_read = True

    def __init__(self, X: DaskArray, memory_limit: float | None = None) -> None:
        self.array = X = _check_dask_array(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.axis = 1 if X.numblocks[1] > 1 else 0
        self.block_edges = np.concatenate([[0], np.cumsum(X.chunks[self.axis])]).astype(int)
        self.is_sparse = sp.issparse(X._meta) or is_device_sparse(X._meta)
        self.dtype = get_working_dtype(X.dtype)
        self.memory_limit = get_default_memory_limit() if memory_limit is None else memory_limit
        self.client = get_current_client()

    @property
    def max_covariances(self) -> int:
        """Return the number of covariances that fit in the memory limit; without a client each block has its own."""
        return super().max_covariances // (self.n_blocks if self.client is None else 1)

    @cached_property
    def blocks(self) -> list[Delayed] | list[Future]:
        """Return the blocks (`_WorkerBlock`): on the workers from the first product on, or lazy without a client."""
        lazy = [_make_delayed(_keep_chunk)(chunk, self.dtype) for chunk in self.array.to_delayed().ravel()]
        if self.client is None:
            return lazy
        with self._cancel_on_error():
            check_python_versions(self.client)
            self._warn_if_memory_short()
            return list(self.client.compute(lazy, retries=2))

    def project_samples(self, loadings: Array, mean: Array) -> DaskArray:
        """Return the scores (X − mean) @ loadings, (n_samples, m), as a lazy Dask array in the working dtype.

        `loadings`, (n_features, m), and `mean`, (n_features,), are NumPy arrays of that dtype. The computation of the
        scores raises ValueError at an entry of X that is not finite.
        """
        rows = self.array.rechunk({1: self.shape[1]})
        chunks = (rows.chunks[0], (loadings.shape[1],))
        meta = np.empty((0, 0), self.dtype)
        return rows.map_blocks(_project_chunk, loadings=loadings, mean=mean, chunks=chunks, dtype=self.dtype, meta=meta)

    def _warn_if_memory_short(self) -> None:
        """Warn before the computation if the blocks will not fit in the workers' memory."""
        available = sum(worker["memory_limit"] for worker in get_workers(self.client).values())
        if available and not self.is_sparse and self.nbytes > MAX_PERSISTED_SHARE * available:
            warn(
                f"The matrix takes {self.nbytes / 1e9:.3g} GB, more than {MAX_PERSISTED_SHARE:.0%} of the "
                f"{available / 1e9:.3g} GB that the workers have; blocks will spill to disk. Use more workers.",
            )

    def subtract_offsets(self, shift: Array) -> Self:
        """Return the matrix with a constant subtracted from each column, `shift` of shape (n_features,) on the host.

        Sparse blocks subtract it from stored entries only, as `Container.subtract_offsets` says.
        """
        # Local copies, so that the function sent to the workers does not refer to this object.
        axis, dtype = self.axis, self.dtype
        block_shifts = self.split(shift, 1)

        def subtract_shift(block: DataBlock, block_id: tuple[int, int] | None = None) -> DataBlock:
            if not block_id:
                return block
            container = _wrap_block(_convert_chunk(block, dtype))
            return container.subtract_offsets(container.to_backend(block_shifts[block_id[axis]])).A

        meta = self.array._meta.astype(dtype)
        return type(self)(self.array.map_blocks(subtract_shift, dtype=dtype, meta=meta), self.memory_limit)

    def map_blocks(self, function: BlockFunction[R], arguments: Sequence[BlockArguments]) -> list[R]:
        """Return ``function(block, *arguments[i])`` for every block i whose arguments are not None, in that order.

        `function` gets an `InMemoryMatrix` and runs on a worker (or in a thread); the results come to this process.
        """
        if self.client is None:
            import dask

            run = _make_delayed(_run_in_pool)
            pairs = zip(self.blocks, arguments, strict=True)
            tasks = [run(block, function, own_arguments) for block, own_arguments in pairs if own_arguments is not None]
            return list(dask.compute(*tasks, scheduler="threads"))
        by_worker = self._run_by_worker(_run_on_blocks, function, arguments)
        results = {i: result for group, values in by_worker for i, result in zip(group, values, strict=True)}
        return [results[i] for i in sorted(results)]

    def sum_blocks(self, function: BlockFunction[Array], arguments: Sequence[BlockArguments]) -> Array:
        """Add ``function(block, *arguments[i])`` over the blocks whose arguments are not None, in float64.

        `function` gets an `InMemoryMatrix` and returns arrays of one shape, that of the sum, which is a NumPy array.
        Each worker adds the results of its blocks; then the sums of the workers are added. The rounding error of each
        addition is added at the end, so that the sum does not depend on which worker holds which block.
        """
        if self.client is None:
            return np.sum(_sum_compensated((value, 0.0) for value in self.map_blocks(function, arguments)), axis=0)
        by_worker = self._run_by_worker(_sum_over_blocks, function, arguments)
        return np.sum(_sum_compensated(result for _, result in by_worker), axis=0)

    def _run_by_worker(
        self,
        batch_function: BlockFunction[R],
        function: BlockFunction[object],
        arguments: Sequence[BlockArguments],
    ) -> list[tuple[list[int], R]]:
        """Run one task per worker over its blocks; return block numbers and result of each, by first block.

        A task is ``batch_function(blocks, function, block_arguments)`` for the blocks of a worker. `arguments` has an
        entry for every block of the matrix, None for a block that is skipped. If the cluster is lost or has no workers,
        ClusterError is raised and all blocks are released.
        """
        import dask

        tasks: list[Future] = []
        with self._cancel_on_error(tasks):
            groups = self._group_by_worker([i for i, each in enumerate(arguments) if each is not None])
            for owner, group in groups:
                blocks = [self.blocks[i] for i in group]
                block_arguments = [arguments[i] for i in group]
                # Prefer the worker that holds the blocks, but allow others.
                placement = {"workers": [owner] if owner else None, "allow_other_workers": bool(owner)}
                submit = partial(self.client.submit, pure=False, retries=2, **placement)
                # Dask warns about tasks with large arguments; the vectors of a product must be transferred.
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                    tasks.append(submit(batch_function, blocks, function, block_arguments))
            results = call_with_worker_timeout(self.client, partial(self.client.gather, tasks))
        return [(group, result) for (_, group), result in zip(groups, results, strict=True)]

    @contextmanager
    def _cancel_on_error(self, tasks: Sequence[Future] = ()) -> Iterator[None]:
        """Cancel the tasks, and the blocks themselves, after an error or Ctrl-C inside; ClusterError if all is lost.

        `tasks` may be filled inside. The exception always propagates. Blocks are forgotten too, so that a later product
        computes them again. The cancellation runs in a thread because a lost cluster would not answer.
        """
        try:
            with convert_cluster_errors(self.client):
                yield
        except BaseException:
            running = [*tasks, *self.__dict__.pop("blocks", [])]
            threading.Thread(target=_cancel_tasks, args=(self.client, running), daemon=True).start()
            raise

    def _group_by_worker(self, block_numbers: list[int]) -> list[tuple[str | None, list[int]]]:
        """Return each worker's address with the numbers of the blocks that it holds, in the order of their first block.

        Blocks that no worker holds are under the address None. A block on several workers is given to the first by
        address. It waits until all blocks are computed.
        """
        blocks = [self.blocks[i] for i in block_numbers]
        if not all(block.status in ("finished", "error") for block in blocks):
            from distributed import wait

            call_with_worker_timeout(self.client, partial(wait, blocks))
        owners_by_key = self.client.who_has(blocks)
        groups: dict[str | None, list[int]] = {}
        for i, block in zip(block_numbers, blocks, strict=True):
            owners = sorted(owners_by_key.get(block.key) or ())
            groups.setdefault(owners[0] if owners else None, []).append(i)
        return sorted(groups.items(), key=lambda item: item[1][0])


class _WorkerBlock:
    """A block on a worker: an array or sparse matrix, aligned in memory the first time it is used after a transfer."""

    def __init__(self, block: DataBlock) -> None:
        self.block = block

    def get_aligned(self) -> DataBlock:
        """Return the block, aligned in memory; blocks on a device always are."""
        if sp.issparse(self.block):
            for name in ("data", "indices", "indptr"):
                setattr(self.block, name, np.require(getattr(self.block, name), requirements="A"))
        elif isinstance(self.block, np.ndarray):
            self.block = np.require(self.block, requirements="A")
        return self.block

    def __sizeof__(self) -> int:
        """Return the number of bytes that Dask counts as the memory of the block."""
        parts = (self.block.data, self.block.indices) if hasattr(self.block, "indptr") else (self.block,)
        return int(sum(part.nbytes for part in parts))


def _convert_chunk(chunk: DataBlock, dtype: np.dtype) -> DataBlock:
    """Return a chunk of a Dask array in the working dtype, where it is; a sparse one with duplicate entries summed.

    A chunk has some rows or columns, dense or sparse, on the host or a device (CuPy). This runs on a worker.
    """
    sparse = wrap_device_sparse(chunk)
    if sparse is None and not is_device_array(chunk):
        return to_working_block(chunk, dtype)
    block = chunk if sparse is None else sparse.A
    return block if block.dtype == dtype else block.astype(dtype)


def _keep_chunk(chunk: DataBlock, dtype: np.dtype) -> _WorkerBlock:
    """Return a chunk in the working dtype, to be kept on the worker that runs this."""
    return _WorkerBlock(_convert_chunk(chunk, dtype))


def _wrap_block(block: DataBlock) -> InMemoryMatrix:
    """Return the container of a converted chunk, dense or sparse, on the host or a device."""
    if is_device_array(block):
        return DeviceMatrix(block)
    return DeviceSparseMatrix(block) if is_device_sparse(block) else wrap_in_memory(block)


def _run_on_block(block: _WorkerBlock, function: BlockFunction[R], arguments: BlockArguments) -> R:
    """Return the result of a function for one block; values that are not finite are reported later."""
    with np.errstate(all="ignore"):
        return function(_wrap_block(block.get_aligned()), *(arguments or ()))


def _run_in_pool(block: _WorkerBlock, function: BlockFunction[R], arguments: BlockArguments) -> R:
    """Return the result of a function for one block, without threads besides those of Dask."""
    with use_one_thread():
        return _run_on_block(block, function, arguments)


def _project_chunk(block: DataBlock, loadings: Array, mean: Array, block_info: ChunkInfo | None = None) -> Array:
    """Compute the scores of a chunk of rows with all columns; raise ValueError if an entry is not finite.

    `loadings`, (n_features, m), and `mean`, (n_features,), have the working dtype. `block_info`, which Dask passes,
    gives the first row of the chunk for the message.
    """
    container = _wrap_block(_convert_chunk(block, loadings.dtype))
    position = container.locate_non_finite()
    if position is not None:
        row, column = position
        first_row = block_info[0]["array-location"][0][0] if block_info else 0
        raise NonFiniteEntry(row + first_row, column).make_error(column)
    return compute_on_block(container, "project_samples", loadings, mean)


def _run_on_blocks(blocks: list[_WorkerBlock], function: BlockFunction[R], arguments: list[BlockArguments]) -> list[R]:
    """Return the results of a function for the blocks of a worker, each with its own arguments."""
    return [_run_on_block(block, function, each) for block, each in zip(blocks, arguments, strict=True)]


def _sum_over_blocks(
    blocks: list[_WorkerBlock], function: BlockFunction[Array], arguments: list[BlockArguments]
) -> Array:
    """Add the results of a function over the blocks of a worker; return the sum and its rounding error, stacked."""
    return _sum_compensated(
        (_run_on_block(block, function, each), 0.0) for block, each in zip(blocks, arguments, strict=True)
    )


def _sum_compensated(terms: Iterable[tuple[Array, Array | float] | Array]) -> Array:
    """Add pairs (value, rounding error) with Knuth's TwoSum; return the sum and its rounding error, stacked.

    Values are arrays of one shape; the result, (2, *shape), is in float64, and the sum of its two parts is the total.
    """
    total, error = np.zeros(()), np.zeros(())
    for term, term_error in terms:
        new_total = total + np.asarray(term, np.float64)
        added = new_total - total
        error = error + ((total - (new_total - added)) + (term - added)) + term_error
        total = new_total
    return np.stack([total, error])


def _cancel_tasks(client: Client, tasks: list[Future]) -> None:
    """Cancel tasks and release their results, if the cluster still answers."""
    with suppress(Exception):  # a lost cluster has nothing to cancel
        client.cancel(tasks)


def _make_delayed(function: BlockFunction[object]) -> Delayed:
    """Return a function that makes a lazy Dask task of each call; tasks with equal arguments are not merged."""
    import dask

    return dask.delayed(function, pure=False)


def _check_dask_array(X: DaskArray) -> DaskArray:
    """Return X as a matrix of numbers of known size, chunked along one axis; raise StoreError if that is impossible.

    A matrix chunked along both axes is rechunked to blocks of rows, with a warning.
    """
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
            "rows; chunk it along the longer axis to avoid that.",
        )
        X = X.rechunk({1: X.shape[1]})
    return X
