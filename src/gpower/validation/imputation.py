"""Tables with holes: missing entries filled by a low-rank model of the others.

The model is mean + U Vᵀ of a few ordinary components. Each step fills the holes from the model and fits the model to
the filled table by least squares, first the scores U, then means and loadings V. With the holes filled from the model
the misfit of the whole table is that of the observed entries, and no step raises it: the fit to what was observed can
only improve. Steps are lengthened as long as that holds (over-relaxation, Wen, Yin and Zhang 2012); one that would
raise the misfit is taken back, and a plain one follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.warnings import NotConvergedWarning, warn
from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components

#: Relative fall of the misfit at which the filling stops, and the most steps. On three synthetic cohorts (60 × 150 to
#: 100 × 1000) with 5, 20 and 40 % missing it took 8 to 62 steps; 1e-5 and 1e-8 gave errors within 0.4 % of its own.
MISFIT_TOLERANCE, MAX_IMPUTATION_STEPS = 1e-6, 300
#: Misfit of a table that the model fits exactly, as the square of a relative error.
EXACT_FIT_TOLERANCE = 1e-9
#: Growth of the length of a step after one that lowered the misfit. On tables of rank 3 (60 × 80) with half the entries
#: missing 23 to 61 steps instead of 42 to 151, noise of 0.5 to none; as many as without with a tenth missing. From 1.15
#: to 1.6 it made little difference.
STEP_GROWTH_FACTOR = 1.3
#: Rows whose misfit is summed at once.
MISFIT_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class ImputationResult:
    """A filled table.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The table, observed entries as they were.
    misfit : ndarray
        Sum of squares over the observed entries that the model leaves, from the first filling on; never rising.
    converged : bool
        Whether the misfit stopped falling before the steps ran out.
    note : str
        How many values were missing, and of how many variables.
    """

    X: Array
    misfit_history: Array
    converged: bool
    note: str


def impute(
    X: Array, rank: int, *, center: bool = True, scale: bool = False, names: Sequence[str] | Array | None = None
) -> ImputationResult:
    """Fill NaN entries by a model of means and `rank` components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Not changed.
    rank : int
        With 0 holes are at their means.
    center : bool
        Whether the model has means; if not, holes begin at zero.
    scale : bool
        Measure every variable in its standard deviation, so that none counts for its unit.
    names : sequence of str, optional
        Of the variables, for messages.

    Warns
    -----
    NotConverged
        The steps ran out first: there are many holes for so large a rank.

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
    _check_observed(holes, "Column", 0, names)
    _check_observed(holes, "Row", 1)
    deviation = np.nanstd(X, axis=0, dtype=np.float64) if scale else np.ones(X.shape[1])
    unit = np.where(deviation > 0, deviation, 1.0).astype(X.dtype)
    rows, columns = np.nonzero(holes)
    filled = X / unit
    mean = np.nanmean(filled, axis=0, dtype=np.float64).astype(X.dtype) if center else np.zeros_like(unit)
    filled[rows, columns] = mean[columns]
    misfit, converged = list[float](), True
    if rank > 0:
        V = compute_leading_components(as_operator(filled, center=center)[0], min(rank, *X.shape))[
            0
        ]  # (n_features, rank)
        misfit, converged = _iterate_imputation(filled, holes, mean, V, center)
    if not converged:
        warn(
            f"The filling of {rows.size} missing entries still changed after {MAX_IMPUTATION_STEPS} steps; a model of "
            f"rank {rank} may be too much for what was observed. Ask for fewer components, or drop variables and "
            "samples with many holes.",
            NotConvergedWarning,
        )
    table = X.copy()
    table[rows, columns] = filled[rows, columns] * unit[columns]
    share, variables = 100 * rows.size / X.size, np.unique(columns).size
    note = f"{rows.size} missing value(s), {share:.2g} % of the table, in {variables} variable(s) were estimated."
    return ImputationResult(table, np.array(misfit), converged, note)


def _iterate_imputation(filled: Array, holes: Array, mean: Array, V: Array, center: bool) -> tuple[list[float], bool]:
    """Fill the holes in place, from the model (mean, V) on; the misfits, and whether they stopped falling."""
    rows, columns = np.nonzero(holes)
    exact = max(EXACT_FIT_TOLERANCE, 100 * float(np.finfo(filled.dtype).eps)) ** 2
    enough = exact * float(np.sum(np.where(holes, 0, filled - mean) ** 2, dtype=np.float64))
    misfit: list[float] = []
    modelled, length = filled[rows, columns], 1.0
    for _ in range(MAX_IMPUTATION_STEPS):
        U, new_mean, new_V = _update_low_rank_model(filled, mean, V, center)
        left = _compute_observed_misfit(filled, holes, U, new_mean, new_V)
        if length > 1 and left > misfit[-1]:
            filled[rows, columns], length = modelled, 1.0
            continue
        mean, V = new_mean, new_V
        modelled = np.sum(U[rows] * V[columns], axis=1) + mean[columns]
        stalled = bool(misfit) and misfit[-1] - left <= MISFIT_TOLERANCE * left
        misfit.append(left)
        if left <= enough or (stalled and length == 1):
            filled[rows, columns] = modelled
            return misfit, True
        length = 1.0 if stalled else STEP_GROWTH_FACTOR * length
        filled[rows, columns] += length * (modelled - filled[rows, columns])
    filled[rows, columns] = modelled
    return misfit, False


def _check_observed(holes: Array, what: str, axis: int, names: Sequence[str] | Array | None = None) -> None:
    """Every variable and every sample needs a value to go by."""
    empty = np.flatnonzero(holes.all(axis=axis))
    if empty.size:
        which = f"{empty[0]} (counted from 0)" if names is None else repr(str(names[empty[0]]))
        others = f", nor have {empty.size - 1} more" if empty.size > 1 else ""
        raise ValueError(f"{what} {which} has no observed value{others}, so nothing says how to fill it. Drop it.")


def _update_low_rank_model(X: Array, mean: Array, V: Array, center: bool) -> tuple[Array, Array, Array]:
    """Scores by least squares on the loadings, then means and loadings by least squares on the scores."""
    U = (X @ V - mean @ V) @ np.linalg.pinv(V.T @ V)
    design = np.hstack([U, np.ones((len(U), 1), U.dtype)]) if center else U
    solved = np.linalg.pinv(design) @ X  # (rank + 1, n_features)
    return U, solved[-1] if center else mean, solved[: V.shape[1]].T


def _compute_observed_misfit(X: Array, holes: Array, U: Array, mean: Array, V: Array) -> float:
    """‖X − mean − U Vᵀ‖² over the observed entries, a block of rows at a time."""
    total = 0.0
    for start in range(0, len(X), MISFIT_BLOCK_ROWS):
        part = slice(start, start + MISFIT_BLOCK_ROWS)
        left = np.where(holes[part], 0.0, X[part] - mean - U[part] @ V.T)
        total += float(np.sum(left.astype(np.float64) ** 2))
    return total


def impute_from_loadings(X: Array, Z: Array, mean: Array, scale: Array) -> Array:
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
    >>> impute_from_loadings(np.array([[3.0, np.nan]]), np.array([[0.6], [0.8]]), np.zeros(2), np.ones(2))
    array([[3., 4.]])
    """
    missing, filled = np.isnan(X), X.copy()
    _check_observed(missing, "Row", 1)
    for i in np.flatnonzero(missing.any(axis=1)):
        holes, seen = missing[i], ~missing[i]
        scores = np.linalg.lstsq(Z[seen], (X[i, seen] - mean[seen]) / scale[seen], rcond=None)[0]
        filled[i, holes] = (Z[holes] @ scores) * scale[holes] + mean[holes]
    return filled
