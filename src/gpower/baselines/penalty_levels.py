"""Find the penalty level that gives a target number of variables, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

#: Default number of bisections after which the nearest number of variables is accepted.
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
    """Return the solution with `target_size` variables, at a level between a too sparse and a too dense one.

    `solve` computes the solution at a level, and `count_variables` its number of variables. The solution at
    `sparse_level` is not computed; it may be the larger or the smaller of the two levels. At most `max_bisections`
    levels between them are tried. With `prefer_densest` the search continues to the densest level that gives the
    target, where the penalty shrinks the loadings least. If the number jumps over the target, the result is the
    smallest solution above the target that was found, or else the largest below.

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
        solution = solve(middle)
        count = count_variables(solution)
        if _rank_size_mismatch(count, target_size) <= _rank_size_mismatch(count_variables(best), target_size):
            best = solution
        if count == target_size and not prefer_densest:
            break
        if count <= target_size:
            sparse_level = middle
        else:
            dense_level = middle
    return best


def _rank_size_mismatch(size: int, target_size: int) -> tuple[bool, int]:
    """Return a key that is smaller for a better size: sizes below the target come last, then the distance counts."""
    return size < target_size, abs(size - target_size)
