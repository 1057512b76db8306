"""Columns gathered from a matrix, kept between rounds: a new working set shares most of them with the last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpower._arrays import Array, beside, product, to_host


def cross_gram(L: Array, R: Array, double_sums: bool) -> Array:
    """LᵀR; of a matrix with itself by half the multiplications, which a product in its fastest form would hide."""
    return product(L.T, R, double_sums) if double_sums else L.T @ R


@dataclass(eq=False)
class Gathered:
    """The columns last asked for, contiguous, and their Gram matrix once that was asked for too."""

    idx: Array = field(default_factory=lambda: np.zeros(0, np.intp))  # sorted
    A: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (n_samples, |idx|), by column
    G: Array | None = None  # (|idx|, |idx|), on the host

    def find(self, idx: Array) -> Array | None:
        """Positions of `idx` among the gathered columns, or None if one of them is missing."""
        if self.idx.size == 0:
            return None
        at = np.searchsorted(self.idx, idx)
        at[at == self.idx.size] = 0
        return at if np.array_equal(self.idx[at], idx) else None

    def forget(self) -> None:
        """Hold nothing."""
        self.idx, self.A, self.G = np.zeros(0, np.intp), np.zeros((0, 0)), None

    def gather(self, idx: Array, fetch: Callable[[Array], Array], gram: bool, double_sums: bool = False) -> None:
        """Hold the columns `idx` (sorted), fetching those not held yet, and their Gram matrix if asked for."""
        at = np.searchsorted(self.idx, idx)
        at[at == self.idx.size] = 0
        held = self.idx[at] == idx if self.idx.size else np.zeros(idx.size, bool)
        fresh = fetch(idx[~held])
        A = fresh
        if held.any():
            A = np.empty_like(fresh, shape=(fresh.shape[0], idx.size), order="F")
            A[:, beside(A, np.flatnonzero(~held))] = fresh
            A[:, beside(A, np.flatnonzero(held))] = self.A[:, beside(A, at[held])]
        G = None
        if gram and (self.G is None or not held.any()):
            G = to_host(cross_gram(A, A, double_sums))
        elif gram and self.G is not None:
            G = np.empty((idx.size, idx.size), fresh.dtype)
            cross = to_host(cross_gram(fresh, A, double_sums))  # (|fresh|, |idx|)
            G[np.ix_(held, held)] = self.G[np.ix_(at[held], at[held])]
            G[~held], G[:, ~held] = cross, cross.T
        self.idx, self.A, self.G = idx, A, G
