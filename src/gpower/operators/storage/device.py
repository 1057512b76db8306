"""Arrays on a device (CuPy), which answer NumPy's own functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpower._utils.arrays import Array, asarray_like
from gpower.operators.storage.base import Container
from gpower.operators.storage.dense import MAX_FLOAT32_SUM_ROWS, DenseMatrix

#: Entries that are centred at once.
DEVICE_BLOCK_ENTRIES = 1 << 26


def multiply_on_device(A: Array, Y: Array) -> Array:
    """A @ Y in the fastest form (measured on an H200 with CuPy 14): with the rows of Yᵀ beside each other.

    A single one in double precision is taken twice, since two are read faster than one.
    """
    if Y.shape[1] > 1:
        return (Y.T.copy() @ A.T).T
    if Y.dtype == np.float64:
        return (np.stack([Y[:, 0], Y[:, 0]]) @ A.T).T[:, :1]
    return (A @ Y[:, 0])[:, None]


class DeviceMatrix(DenseMatrix):
    """An array on a device, where every small step costs a wait."""

    multiply_arrays = staticmethod(multiply_on_device)
    double_block_entries = 1 << 26
    projection_block_rows = 1 << 20
    is_remote = True
    storage_description = "on a device"

    @property
    def should_use_covariance(self) -> bool:
        """Never: it stays on the device."""
        return False

    @property
    def max_gram_share(self) -> float:
        """More: a Gram matrix is made at once, and steps on it at the host wait for nobody; unless digits count."""
        return 0.5 if self.has_double_sums else 2.0

    def take(self, idx: Array) -> DeviceMatrix:
        """Some columns, on the device."""
        return DeviceMatrix(self.A[:, self.to_backend(idx)], self.has_double_sums)

    def to_dense(self) -> Array:
        """Itself."""
        return self.A

    def to_backend(self, values: Array) -> Array:
        """On the device."""
        return asarray_like(self.A, values)

    def project_onto(self, Y: Array, q: Array) -> Array:
        """Yᵀq."""
        return self.wrap_array(Y).transposed_times(q[:, None])[:, 0]

    def weighted_sums(self, weight: Array | None) -> Array:
        """By products with a vector, which read at full speed."""
        return self._sum_rows(lambda rows: rows, weight)

    def squared_deviations(self, shift: Array, weight: Array | None) -> Array:
        """A few rows at a time."""
        shift = shift.astype(self.dtype)
        return self._sum_rows(lambda rows: np.square(rows - shift), weight)

    def _sum_rows(self, transform: Callable[[Array], Array], weight: Array | None) -> Array:
        """Weighted sums over rows, as many at a time as take little of a device's memory and keep their digits."""
        p, n = self.shape
        w = np.ones_like(self.A, shape=(p,)) if weight is None else self.to_backend(weight.astype(self.dtype))
        few = max(1, min(DEVICE_BLOCK_ENTRIES // n, MAX_FLOAT32_SUM_ROWS, p))
        many = few * max(1, DEVICE_BLOCK_ENTRIES // (n * few))  # rows at once: some times as few as keep their digits
        sums = np.zeros_like(self.A, dtype=np.float64, shape=(n,))
        for i in range(0, p, many):
            rows, count = transform(self.A[i : i + many]), min(many, p - i) // few
            whole = count * few
            parts = w[i : i + whole].reshape(count, 1, few) @ rows[:whole].reshape(count, few, n)
            sums += np.sum(parts, axis=(0, 1), dtype=np.float64) + w[i + whole : i + many] @ rows[whole:]
        return sums

    compute_moments = Container.compute_moments
    shifted_sums = Container.shifted_sums
