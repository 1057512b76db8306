"""Build and check grids of cardinalities or penalties, sorted from sparse to dense without repetitions."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower.validation.checks import is_number, is_sequence, to_python_list


def cardinality_grid(n_features: int, n_points: int = 50) -> Array:
    """Return distinct cardinalities from one to all variables, evenly spaced on a logarithmic scale.

    Parameters
    ----------
    n_features : int
        Number of variables.
    n_points : int, default=50
        Maximum number of points; small numbers that would be repeated appear once.

    Returns
    -------
    ndarray of int, ascending

    Examples
    --------
    >>> from gpower.model_selection import cardinality_grid
    >>> cardinality_grid(1000, 7)
    array([   1,    3,   10,   32,  100,  316, 1000])
    """
    return np.unique(np.geomspace(1, n_features, n_points).round().astype(int))


def check_cardinality_grid(cardinalities: object, limits: tuple[int, int], n_points: int = 50) -> Array:
    """Return the distinct cardinalities in ascending order, or the default grid of at most n_points for None.

    `limits` are the smallest and the largest cardinality that is allowed.
    """
    smallest, largest = limits
    if cardinalities is None:
        return np.unique(np.maximum(cardinality_grid(largest, n_points), smallest))

    def is_valid(k: Any) -> bool:
        return is_number(k, Integral) and smallest <= k <= largest

    requirement = f"a whole number of variables between {smallest} and {largest}"
    return np.unique(np.array(_check_grid_values(cardinalities, "cardinalities", is_valid, requirement), int))


def check_gamma_grid(gammas: object) -> Array:
    """Return the distinct penalties in descending order."""
    requirement = "a fraction, from 0 to below 1, of the largest useful penalty"
    values = _check_grid_values(gammas, "gammas", lambda gamma: is_number(gamma, Real) and 0 <= gamma < 1, requirement)
    return np.unique(np.array(values, float))[::-1]


def _check_grid_values(values: object, name: str, is_valid: Callable[[Any], bool], requirement: str) -> list[object]:
    """Return the values of a grid as a list; raise ValueError if it is empty or a value is not valid."""
    if not is_sequence(values):
        raise ValueError(
            f"{format_param(name, values)}: a sequence of numbers is needed, such as {format_param(name, [5, 10, 20])}."
        )
    entries = to_python_list(values)
    if not entries:
        raise ValueError(f"{name} is empty; give at least one number, or None for the default grid.")
    for value in entries:
        if not is_valid(value):
            raise ValueError(f"{name} contains {value!r}: each entry must be {requirement}.")
    return entries
