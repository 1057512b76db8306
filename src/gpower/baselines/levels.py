"""The level of a penalty that gives a wanted number of variables, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

#: Bisections before the nearest number has to do.
MOST = 24

T = TypeVar("T")


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

    `solve` gives the solution at a level, `size` its number of variables; at `most` so many levels are tried. With
    `densest` the search goes on to the edge of the levels that give the wanted number, where the penalty shrinks the
    loadings least. Where the number jumps over the wanted one, the smallest solution above it that was met, or the
    largest below.

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
        count = size(found)
        if _miss(count, wanted) <= _miss(size(best), wanted):
            best = found
        if count == wanted and not densest:
            break
        sparse, dense = (middle, dense) if count <= wanted else (sparse, middle)
    return best


def _miss(size: int, wanted: int) -> tuple[bool, int]:
    return size < wanted, abs(size - wanted)
