"""Container of a block on a device whose methods take and return arrays on the host, as those of other blocks do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, is_device_array, to_host
from gpower.io.stores.source import DataBlock, to_working_block
from gpower.operators.storage.base import Container, InMemoryMatrix
from gpower.operators.storage.dense import DenseMatrix
from gpower.operators.storage.device import DeviceMatrix
from gpower.operators.storage.device_sparse import DeviceSparseMatrix, is_device_sparse, wrap_device_sparse
from gpower.operators.storage.sparse import wrap_in_memory


def is_sparse_block(block: object) -> bool:
    """Return whether a block is a sparse matrix, on the host or a device."""
    return sp.issparse(block) or is_device_sparse(block)


def convert_block(block: Any, dtype: np.dtype) -> DataBlock:
    """Return a block in the given dtype, where it is; a sparse one with duplicate entries summed."""
    if is_device_array(block):
        return block.astype(dtype, copy=False)
    container = wrap_device_sparse(block)
    if container is None:
        return to_working_block(block, dtype)
    return container.A if container.dtype == dtype else container.A.astype(dtype)


def wrap_block(block: Any) -> InMemoryMatrix:
    """Return the container of a converted block, dense or sparse, on the host or a device."""
    if is_device_array(block):
        return DeviceBlock(DeviceMatrix(block))
    return DeviceBlock(DeviceSparseMatrix(block)) if is_device_sparse(block) else wrap_in_memory(block)


def _copy_to_host(container: InMemoryMatrix) -> DataBlock:
    """Return the matrix of a container on a device as an array, or a CSR matrix, in host memory."""
    matrix: Any = container.A
    return matrix.get()


class DeviceBlock(InMemoryMatrix):
    """Container of a block on a device, for arrays on the host.

    Parameters
    ----------
    block : DeviceMatrix or DeviceSparseMatrix
        The container on the device. Only products and sums are transferred, and the columns and rows that are gathered.
    """

    def __init__(self, block: DeviceMatrix | DeviceSparseMatrix) -> None:
        super().__init__(block.A)
        self.block = block
        self.is_sparse = block.is_sparse

    def _to_device(self, values: Array | None) -> Any:
        return None if values is None else self.block.to_backend(np.asarray(values))

    def times(self, T: Array) -> Array:
        """Compute X T."""
        return to_host(self.block.times(self._to_device(T)))

    def transposed_times(self, Y: Array) -> Array:
        """Compute XᵀY."""
        return to_host(self.block.transposed_times(self._to_device(Y)))

    def take(self, idx: Array) -> InMemoryMatrix:  # type: ignore[override]
        """Return a copy of some columns in host memory."""
        return wrap_in_memory(_copy_to_host(self.block.take(idx)))

    def take_rows(self, idx: Array) -> DataBlock:
        """Return a copy of some rows in host memory, as an array or a CSR matrix."""
        return _copy_to_host(self.block.select_rows(idx))

    def to_dense(self) -> Array:
        """Return the block as an array in host memory."""
        return np.asfortranarray(to_host(self.block.to_dense()))

    def head(self, n_rows: int) -> Array:
        """Return the first rows, (min(n_rows, n_samples), n_features), as a dense array in host memory."""
        return to_host(self.block.head(n_rows))

    def wrap_array(self, A: Array) -> DenseMatrix:
        """Return the container of an array in host memory."""
        return DenseMatrix(A)

    def gram(self, mean: Array | None, weight: Array | None, idx: Array | None = None) -> Array:
        """Compute the Gram matrix of `Container.gram` on the device; arguments and result are on the host.

        `mean` is (n,), `weight` (n_samples,) and the result (n, n), where n is the number of columns in `idx`.
        """
        return to_host(self.block.gram(self._to_device(mean), self._to_device(weight), idx))

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns."""
        return to_host(self.block.weighted_sums(weight))

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − shift)²."""
        return to_host(self.block.squared_deviations(self._to_device(shift), weight))

    def _select_rows(self, row_mask: Array) -> tuple[Container, Array | None]:
        """Return a copy of some samples on the device, and no weights."""
        return DeviceBlock(self.block.select_rows(np.flatnonzero(row_mask))), None

    def subtract_offsets(self, shift: Array) -> Self:
        """Return the block with a constant subtracted from each column, on the device."""
        return type(self)(self.block.subtract_offsets(self._to_device(shift)))

    @property
    def stored_values(self) -> Array:
        """Return the stored entries, on the device."""
        return self.block.stored_values

    def locate_entries(self, entry_mask: Array) -> tuple[Array, Array]:
        """Return rows and columns of the stored entries that `entry_mask` marks, on the host."""
        return self.block.locate_entries(entry_mask)

    def project_samples(self, loadings: Array, mean: Array) -> Array:
        """Compute the scores on the device."""
        return to_host(self.block.project_samples(self._to_device(loadings), self._to_device(mean)))
