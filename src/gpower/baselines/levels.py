"""The level of a penalty that gives a wanted number of variables, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gpower._arrays import Array
from gpower.ascent import AscentResult

#: Bisections before the nearest number has to do.
MOST = 24

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class End:
    """Where the ascent at one level ended, and the loadings there."""

    level: float
    result: AscentResult
    Z: Array

    def size(self) -> int:
        """Number of non-zero loadings."""
        return int(np.count_nonzero(self.Z))


def bisected(
    solve: Callable[[float], T],
    size: Callable[[T], int],
    sparse: float,
    dense: float,
    wanted: int,
    most: int = MOST,
    densest: bool = False,
) -> T:
    """The solution with `wanted` variables at a level between one that is too sparse and one that is too dense.

    With `densest` the search goes on to the edge of the levels that give the wanted number, where the penalty shrinks
    the loadings least. Where the number jumps over the wanted one, the smallest solution above it that was met, or
    the largest below.

    Parameters
    ----------
    solve : callable
        The solution at a level.
    size : callable
        Number of variables of a solution.
    sparse, dense : float
        Levels at the two ends; either may be the larger.
    wanted, most : int
        Number of variables; most levels tried.
    densest : bool
        Do not stop at the first solution of the wanted number.

    Examples
    --------
    >>> bisected(lambda level: int(10 * level), lambda count: count, 0.0, 1.0, 7)
    7
    """
    best = solve(dense)
    if size(best) == wanted:
        return best
    for _ in range(most):
        middle = 0.5 * (sparse + dense)
        found = solve(middle)
        if _miss(size(found), wanted) <= _miss(size(best), wanted):
            best = found
        if size(found) == wanted and not densest:
            break
        if size(found) < wanted or (densest and size(found) == wanted):
            sparse = middle
        else:
            dense = middle
    return best


def _miss(size: int, wanted: int) -> tuple[bool, int]:
    return size < wanted, abs(size - wanted)
