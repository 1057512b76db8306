"""Grids of sparsity, sorted from sparse to dense without repetitions, and what is wrong with an unusable one."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower.validation.checks import is_number, is_sequence, to_python_list


def cardinality_grid(n_features: int, n_points: int = 50) -> Array:
    """Whole numbers from one to all variables, evenly spaced on a logarithmic scale, each once.

    Parameters
    ----------
    n_features : int
        Number of variables.
    n_points : int, default=50
        Most points; small numbers that would be repeated are there once.

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
    """The grid of a user, ascending, each number once; the default grid for None, between the fewest and the most."""
    least, most = limits
    if cardinalities is None:
        grid = cardinality_grid(most, n_points)
        return np.unique(np.maximum(grid, least))
    kind = f"a whole number of variables between {least} and {most}"
    values = _check_grid_values(
        cardinalities, "cardinalities", lambda k: is_number(k, Integral) and least <= k <= most, kind
    )
    return np.unique(np.array(values, int))


def check_gamma_grid(gammas: object) -> Array:
    """The grid of a user, descending, each number once."""
    kind = "a fraction, from 0 to below 1, of the largest useful penalty"
    values = _check_grid_values(gammas, "gammas", lambda gamma: is_number(gamma, Real) and 0 <= gamma < 1, kind)
    return np.unique(np.array(values, float))[::-1]


def _check_grid_values(values: object, name: str, is_valid: Callable[[Any], bool], requirement: str) -> list[object]:
    """The values of a grid, if there are any and each fits."""
    if not is_sequence(values):
        raise ValueError(f"{name}={values!r}: a sequence of numbers is needed, such as {name}=[5, 10, 20].")
    listed = to_python_list(values)
    if not listed:
        raise ValueError(f"{name} is empty; give at least one number, or None for the default grid.")
    for value in listed:
        if not is_valid(value):
            raise ValueError(f"{name} holds {value!r}: each is {requirement}.")
    return listed
