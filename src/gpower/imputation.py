"""Tables with holes: missing entries filled by a low-rank model of the others.

The model is mean + U Vᵀ of a few ordinary components. Each step fills the holes from the model and fits the model to
the filled table by least squares, first the scores U, then means and loadings V. With the holes filled from the model
the misfit of the whole table is that of the observed entries, and no step raises it: the fit to what was observed can
only improve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._arrays import Array
from gpower.operators import as_operator
from gpower.postprocess import leading_components

#: Relative fall of the misfit at which the filling stops, and the most steps.
TOL, MAX_STEPS = 1e-6, 300


@dataclass(frozen=True, eq=False)
class Imputed:
    """A filled table.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The table, observed entries as they were.
    misfit : ndarray
        Sum of squares over the observed entries that the model leaves, from the first filling on; never rising.
    """

    X: Array
    misfit: Array


def impute(X: Array, rank: int, *, center: bool = True, scale: bool = False) -> Imputed:
    """Fill NaN entries by a model of means and `rank` components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Not changed.
    rank : int
    center : bool
        Whether the model has means; if not, holes begin at zero.
    scale : bool
        Measure every variable in its standard deviation, so that none counts for its unit.

    Examples
    --------
    Rank one, so that the hole is determined by the rest.

    >>> import numpy as np
    >>> X = np.outer([-1.0, 0.0, 1.0, 2.0, -2.0], [1.0, 2.0, 3.0])
    >>> X[3, 2] = np.nan
    >>> float(np.round(impute(X, 1).X[3, 2], 1))
    6.0
    """
    holes = np.isnan(X)
    _check_observed(holes)
    unit = _deviations(X) if scale else np.ones(X.shape[1], X.dtype)
    rows, columns = np.nonzero(holes)
    filled = X / unit
    mean = np.nanmean(filled, axis=0, dtype=np.float64).astype(X.dtype) if center else np.zeros_like(unit)
    filled[rows, columns] = mean[columns]
    V = leading_components(as_operator(filled, center=center)[0], min(rank, *X.shape))[0]  # (n_features, rank)
    misfit: list[float] = []
    for _ in range(MAX_STEPS):
        U, mean, V = _refitted(filled, mean, V, center)
        misfit.append(_observed_misfit(filled, holes, U, mean, V))
        filled[rows, columns] = np.sum(U[rows] * V[columns], axis=1) + mean[columns]
        if len(misfit) > 1 and misfit[-2] - misfit[-1] <= TOL * misfit[-1]:
            break
    table = X.copy()
    table[rows, columns] = filled[rows, columns] * unit[columns]
    return Imputed(table, np.array(misfit))


def _check_observed(holes: Array, axes: tuple[int, ...] = (0, 1)) -> None:
    """Every variable and every sample needs a value to go by."""
    for axis in axes:
        what = ("Column", "Row")[axis]
        empty = holes.all(axis=axis)
        if empty.any():
            raise ValueError(
                f"{what} {int(np.argmax(empty))} (counted from 0) has no observed value, so nothing says how to "
                "fill it. Drop it."
            )


def _deviations(X: Array) -> Array:
    """Standard deviations of the observed entries; one for a constant column."""
    deviation = np.nanstd(X, axis=0, dtype=np.float64)
    return np.where(deviation > 0, deviation, 1.0).astype(X.dtype)


def _refitted(X: Array, mean: Array, V: Array, center: bool) -> tuple[Array, Array, Array]:
    """Scores by least squares on the loadings, then means and loadings by least squares on the scores."""
    U = (X @ V - mean @ V) @ np.linalg.pinv(V.T @ V)
    design = np.hstack([U, np.ones((len(U), 1), U.dtype)]) if center else U
    solved = np.linalg.pinv(design) @ X  # (rank + 1, n_features)
    return U, solved[-1] if center else mean, solved[: V.shape[1]].T


def _observed_misfit(X: Array, holes: Array, U: Array, mean: Array, V: Array, rows: int = 1024) -> float:
    """‖X − mean − U Vᵀ‖² over the observed entries, a block of rows at a time."""
    total = 0.0
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        left = np.where(holes[part], 0.0, X[part] - mean - U[part] @ V.T)
        total += float(np.sum(left.astype(np.float64) ** 2))
    return total


def fill_from(X: Array, Z: Array, mean: Array, scale: Array) -> Array:
    """X with the holes of each sample filled by the combination of loadings nearest to what was observed of it.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Not changed.
    Z : ndarray of shape (n_features, m)
    mean, scale : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> fill_from(np.array([[3.0, np.nan]]), np.array([[0.6], [0.8]]), np.zeros(2), np.ones(2))
    array([[3., 4.]])
    """
    _check_observed(np.isnan(X), axes=(1,))
    filled = X.copy()
    for i in np.flatnonzero(np.isnan(X).any(axis=1)):
        holes = np.isnan(X[i])
        seen = (X[i, ~holes] - mean[~holes]) / scale[~holes]
        scores = np.linalg.lstsq(Z[~holes], seen, rcond=None)[0]
        filled[i, holes] = (Z[holes] @ scores) * scale[holes] + mean[holes]
    return filled
