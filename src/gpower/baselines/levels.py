"""The level of a penalty that gives a wanted number of variables, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

#: Bisections before the nearest number has to do.
MAX_BISECTIONS = 24

T = TypeVar("T")


def bisect_penalty_level(
    solve: Callable[[float], T],
    count_variables: Callable[[T], int],
    sparse_level: float,
    dense_level: float,
    target_size: int,
    max_bisections: int = MAX_BISECTIONS,
    prefer_densest: bool = False,
) -> T:
    """The solution with `wanted` variables at a level between one that is too sparse and one that is too dense.

    `solve` gives the solution at a level, `size` its number of variables; at `most` so many levels are tried. With
    `densest` the search goes on to the edge of the levels that give the wanted number, where the penalty shrinks the
    loadings least. Where the number jumps over the wanted one, the smallest solution above it that was met, or the
    largest below.

    Examples
    --------
    >>> bisect_penalty_level(lambda level: int(10 * level), lambda count: count, 0.0, 1.0, 7)
    7
    """
    best = solve(dense_level)
    if count_variables(best) == target_size:
        return best
    for _ in range(max_bisections):
        middle = 0.5 * (sparse_level + dense_level)
        found = solve(middle)
        count = count_variables(found)
        if _rank_size_mismatch(count, target_size) <= _rank_size_mismatch(count_variables(best), target_size):
            best = found
        if count == target_size and not prefer_densest:
            break
        sparse_level, dense_level = (middle, dense_level) if count <= target_size else (sparse_level, middle)
    return best


def _rank_size_mismatch(size: int, target_size: int) -> tuple[bool, int]:
    return size < target_size, abs(size - target_size)
