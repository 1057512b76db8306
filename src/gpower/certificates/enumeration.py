"""All supports of a few variables, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice
from math import comb

import numpy as np

from gpower._arrays import Array
from gpower.certificates.clock import Clock

#: Supports whose eigenvalues are computed at once.
BATCH = 2048


def count(n: int, slots: int) -> int:
    """Number of ways to fill the slots from n variables."""
    return comb(n, slots)


def best_completion(S: Array, fixed: Array, free: Array, slots: int, clock: Clock | None = None) -> tuple[float, Array]:
    """The largest λmax(S_II) over I = fixed ∪ J, J of `slots` free variables, and that I; −∞ if the clock expires.

    Examples
    --------
    >>> import numpy as np
    >>> best_completion(np.diag([1.0, 3.0, 2.0]), np.array([0]), np.array([1, 2]), 1)
    (3.0, array([0, 1]))
    """
    best, support = -np.inf, fixed
    for chosen in _batches(free, min(slots, free.size)):
        if clock is not None and clock.expired:
            return -np.inf, fixed
        sets = np.hstack([np.broadcast_to(fixed, (len(chosen), fixed.size)), chosen])  # (batch, k)
        values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
        j = int(np.argmax(values))
        if values[j] > best:
            best, support = float(values[j]), sets[j]
    return best, np.sort(support)


def _batches(free: Array, slots: int) -> Iterator[Array]:
    """Subsets of `slots` free variables, (at most BATCH, slots) at a time."""
    subsets = combinations(free.tolist(), slots)
    while part := list(islice(subsets, BATCH)):
        yield np.fromiter(chain.from_iterable(part), np.intp, len(part) * slots).reshape(len(part), slots)
