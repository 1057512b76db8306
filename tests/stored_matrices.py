"""Matrices that are read in blocks of rows or columns: stores of arrays in memory, and Dask arrays."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gpower.io.stores.matrix_source import MatrixSource
from gpower.operators.storage.disk import StreamedMatrix


def make_store(A, axis=0):
    """Return a matrix as a store that is read by rows, or by columns if the axis is 1."""
    read = (lambda lo, hi: A[lo:hi]) if axis == 0 else (lambda lo, hi: A[:, lo:hi])
    facts = {"is_sparse": True, "nnz": A.nnz} if sp.issparse(A) else {}
    return MatrixSource("table", A.shape, A.dtype, read, axis, **facts)


def stream(A, axis=0, lines=4, spare=1 << 20):
    """Return a matrix read in blocks of a few rows or columns; `spare` bytes may hold gathered columns."""
    matrix = StreamedMatrix(make_store(A, axis), spare)
    matrix.block_edges = np.append(np.arange(0, A.shape[axis], lines), A.shape[axis])
    return matrix


def make_dask_matrix(A, axis=0, wrap=None, meta=None, spare=1 << 20):
    """Return a dense table as a Dask array of four rows or columns per chunk; `wrap` converts each chunk."""
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    from gpower.operators.storage.dask import DaskMatrix

    lazy = da.from_array(A, chunks=(4, A.shape[1]) if axis == 0 else (A.shape[0], 4))
    return DaskMatrix(lazy if wrap is None else lazy.map_blocks(wrap, meta=meta), spare)


def make_counting_store(A, axis=0, **facts):
    """Return a matrix as a store, and the list of its reads: the first line and the one after the last."""
    store, reads = make_store(A, axis), []
    return replace(store, read_slice=lambda lo, hi: reads.append((lo, hi)) or store.read_slice(lo, hi), **facts), reads
