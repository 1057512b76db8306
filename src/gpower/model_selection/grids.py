"""Grids of sparsity, sorted from sparse to dense without repetitions, and what is wrong with an unusable one."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._arrays import Array


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


def checked_cardinalities(cardinalities: Any, n_features: int) -> Array:
    """The grid of a user, ascending, each number once; the default grid for None."""
    if cardinalities is None:
        return cardinality_grid(n_features)
    values = _listed(cardinalities, "cardinalities")
    for k in values:
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= int(k) <= n_features:
            raise ValueError(
                f"cardinalities holds {k!r}: each is a whole number of variables between 1 and n_features={n_features}."
            )
    return np.unique(np.array(values, int))


def checked_gammas(gammas: Any) -> Array:
    """The grid of a user, descending, each number once."""
    values = _listed(gammas, "gammas")
    for gamma in values:
        if not isinstance(gamma, Real) or isinstance(gamma, bool) or not 0 <= float(gamma) < 1:
            raise ValueError(
                f"gammas holds {gamma!r}: each is a fraction, from 0 to below 1, of the largest useful penalty."
            )
    return np.unique(np.array(values, float))[::-1]


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name}={values!r}: a sequence of numbers is needed, such as {name}=[5, 10, 20].")
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not listed:
        raise ValueError(f"{name} is empty; give at least one number, or None for the default grid.")
    return listed
