"""Container of arrays on a device (CuPy), to which NumPy's own functions dispatch.

X, the matrix, has shape (n_samples, n_features) and dtype float32 or float64. Arrays that methods take and return are
on the device, except indices and sample weights, (n_samples,) or None for ones, which may be on the host. `A` is the
array X, and ``to_backend(v)`` moves a small array to the device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators.storage.base import Container
from gpower.operators.storage.dense import MAX_FLOAT32_SUM_ROWS, DenseMatrix

#: Number of entries that are centred at once: few blocks, each small relative to the memory of a device.
DEVICE_BLOCK_ENTRIES = 1 << 26


def multiply_on_device(A: Array, Y: Array) -> Array:
    """Compute A @ Y, (p, m), in the fastest form (measured on an H200 with CuPy 14): with Yᵀ contiguous.

    A, (p, n), and Y, (n, m) with m > 0, are on the device.
    A single column in float64 is duplicated, because the product with two columns is faster than with one.
    """
    if Y.shape[1] > 1:
        return (Y.T.copy() @ A.T).T
    if Y.dtype == np.float64:
        return (np.stack([Y[:, 0], Y[:, 0]]) @ A.T).T[:, :1]
    return (A @ Y[:, 0])[:, None]


class DeviceMatrix(DenseMatrix):
    """Container of an array on a device, where every small operation costs a launch."""

    multiply_arrays = staticmethod(multiply_on_device)
    double_block_entries = 1 << 26
    projection_block_rows = 1 << 20
    is_remote = True
    is_on_device = True
    storage_description = "on a device"

    def weighted_sums(self, weight: Array | None) -> Array:
        """Compute the weighted sums of the columns as products with a vector, which run at full memory speed."""
        return self._sum_rows(lambda rows: rows, weight)

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """Compute the weighted sums of (x − shift)² of every column, (n_features,), a block of rows at a time."""
        shift = shift.astype(self.dtype)
        return self._sum_rows(lambda rows: np.square(rows - shift), weight)

    def _sum_rows(self, transform: Callable[[Array], Array], weight: Array | None) -> Array:
        """Compute weighted sums over the transformed rows, (n_features,), in blocks that fit in the memory of a device.

        `transform` maps rows, (r, n_features), to an array of the same shape; `weight`, (n_samples,), is on the host or
        the device. Within a block, groups of few rows are summed in the dtype of the matrix and added in float64. The
        result is in float64, on the device.
        """
        p, n = self.shape
        # `ones_like` and `zeros_like` of the matrix create arrays on its device.
        w = np.ones_like(self.A, shape=(p,)) if weight is None else self.to_backend(weight.astype(self.dtype))
        group_rows = max(1, min(DEVICE_BLOCK_ENTRIES // n, MAX_FLOAT32_SUM_ROWS, p))
        block_rows = group_rows * max(1, DEVICE_BLOCK_ENTRIES // (n * group_rows))
        sums = np.zeros_like(self.A, dtype=np.float64, shape=(n,))
        for i in range(0, p, block_rows):
            rows = transform(self.A[i : i + block_rows])
            n_groups = min(block_rows, p - i) // group_rows
            whole = n_groups * group_rows
            parts = w[i : i + whole].reshape(n_groups, 1, group_rows) @ rows[:whole].reshape(n_groups, group_rows, n)
            sums += np.sum(parts, axis=(0, 1), dtype=np.float64) + w[i + whole : i + block_rows] @ rows[whole:]
        return sums

    compute_moments = Container.compute_moments
    shifted_sums = Container.shifted_sums
