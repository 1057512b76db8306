"""Arrays on a device (CuPy), which answer NumPy's own functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpower._utils.arrays import Array, beside
from gpower.operators.storage.base import Container
from gpower.operators.storage.dense import ROWS_IN_SINGLE, Dense

#: Entries that are centred at once.
DEVICE_BLOCK = 1 << 26


def product(A: Array, Y: Array) -> Array:
    """A @ Y in the fastest form (measured on an H200 with CuPy 14): with the rows of Yᵀ beside each other.

    A single one in double precision is taken twice, since two are read faster than one.
    """
    if Y.shape[1] > 1:
        return (Y.T.copy() @ A.T).T
    if Y.dtype == np.float64:
        return (np.stack([Y[:, 0], Y[:, 0]]) @ A.T).T[:, :1]
    return (A @ Y[:, 0])[:, None]


class Device(Dense):
    """An array on a device, where every small step costs a wait."""

    multiply = staticmethod(product)
    doubled_at_once = 1 << 26
    projected_at_once = 1 << 20
    is_remote = True
    whereabouts = "on a device"

    @property
    def is_tall(self) -> bool:
        """Never: it stays on the device."""
        return False

    @property
    def gram_share(self) -> float:
        """More: a Gram matrix is made at once, and steps on it at the host wait for nobody; unless digits count."""
        return 0.5 if self.in_double else 2.0

    def part(self, idx: Array) -> Device:
        """Some columns, on the device."""
        return Device(self.A[:, self.own(idx)], self.in_double)

    def dense(self) -> Array:
        """Itself."""
        return self.A

    def own(self, values: Array) -> Array:
        """On the device."""
        return beside(self.A, values)

    def along(self, Y: Array, q: Array) -> Array:
        """Yᵀq."""
        return self.held(Y).transposed_times(q[:, None])[:, 0]

    def sums(self, weight: Array | None) -> Array:
        """By products with a vector, which read at full speed."""
        return self._summed(lambda rows: rows, weight)

    def squares_about(self, shift: Array, weight: Array | None) -> Array:
        """A few rows at a time."""
        shift = shift.astype(self.dtype)
        return self._summed(lambda rows: np.square(rows - shift), weight)

    def _summed(self, entries: Callable[[Array], Array], weight: Array | None) -> Array:
        """Weighted sums over rows, as many at a time as take little of a device's memory and keep their digits."""
        p, n = self.shape
        w = np.ones_like(self.A, shape=(p,)) if weight is None else self.own(weight.astype(self.dtype))
        few = max(1, min(DEVICE_BLOCK // n, ROWS_IN_SINGLE, p))
        many = few * max(1, DEVICE_BLOCK // (n * few))  # rows at once: some times as few as keep their digits
        sums = np.zeros_like(self.A, dtype=np.float64, shape=(n,))
        for i in range(0, p, many):
            rows, count = entries(self.A[i : i + many]), min(many, p - i) // few
            whole = count * few
            parts = w[i : i + whole].reshape(count, 1, few) @ rows[:whole].reshape(count, few, n)
            sums += np.sum(parts, axis=(0, 1), dtype=np.float64) + w[i + whole : i + many] @ rows[whole:]
        return sums

    moments = Container.moments
    sums_about = Container.sums_about
