"""Impute missing entries of a table by a low-rank model of the observed entries.

The model is mean + U Vᵀ of a few ordinary components. Each step fills the missing entries from the model and fits the
model to the filled table by least squares, first the scores U, then means and loadings V. If the missing entries are
filled from the model, the misfit of the whole table is that of the observed entries, and no step increases it. Steps
are lengthened as long as this holds (over-relaxation, Wen, Yin and Zhang 2012); a step that would increase the misfit
is undone and followed by a step of length one.

Terms: all arrays are NumPy arrays on the host; a table, (n_samples, n_features), is in float32 or float64. "Holes" are
the missing entries. ``as_operator(X, center=)`` returns the operator of X, centred if asked, and its moments;
``compute_leading_components(operator, r)`` returns r loadings, (n_features, r), unit or zero, in the dtype of the
table, and their variances. ``warn(message, category)`` warns at the line of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.warnings import NotConvergedWarning, warn
from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components

#: Relative decrease of the misfit at which the iteration stops, and the maximal number of steps. On three synthetic
#: cohorts (60 × 150 to 100 × 1000) with 5, 20 and 40 % missing it took 8 to 62 steps; tolerances of 1e-5 and 1e-8 gave
#: errors within 0.4 % of those of 1e-6.
MISFIT_TOLERANCE, MAX_IMPUTATION_STEPS = 1e-6, 300
#: Misfit of a table that the model fits exactly, as the square of a relative error.
EXACT_FIT_TOLERANCE = 1e-9
#: Smallest exact misfit in units of the machine epsilon of the table, also as a relative error.
EXACT_FIT_IN_EPS = 100
#: Factor by which a step grows after one that reduced the misfit. On tables of rank 3 (60 × 80) with half the entries
#: missing and noise of 0.5 to none it took 23 to 61 steps instead of 42 to 151; with a tenth missing it made no
#: difference. Values from 1.15 to 1.6 made little difference.
STEP_GROWTH_FACTOR = 1.3


@dataclass(frozen=True, eq=False)
class ImputationResult:
    """A filled table.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The table, a new array, with the observed entries unchanged, in their dtype.
    misfit_history : ndarray of shape (n_steps,)
        Residual sum of squares over the observed entries, in units of the scaled variables, after each step that was
        not undone; it never increases, up to rounding. Empty for a model of means alone.
    converged : bool
        Whether the misfit stopped decreasing within the maximal number of steps.
    note : str
        Message with the number of missing values and of variables with any.
    """

    X: Array
    misfit_history: Array
    converged: bool
    note: str


def impute(
    X: Array, rank: int, *, center: bool = True, scale: bool = False, names: Sequence[str] | Array | None = None
) -> ImputationResult:
    """Return the table with its NaN entries filled by a model of means and `rank` components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The table in float32 or float64, with NaN for missing entries and no infinite ones; it is not changed. The model
        is computed in its dtype. A row or a column without an observed entry raises ValueError.
    rank : int
        Number of components, limited by the shape of X; 0 fills in means.
    center : bool
        Whether the model has means; otherwise missing entries start at zero.
    scale : bool
        Divide every variable by its standard deviation, so that its unit has no influence.
    names : sequence of str, optional
        Names of the variables, for messages.

    Warns
    -----
    NotConvergedWarning
        The maximal number of steps was reached: too many entries are missing for this rank.

    Examples
    --------
    The table has rank one, so that the missing entry is determined by the others.

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
    scaled = X / unit
    mean = np.nanmean(scaled, axis=0, dtype=np.float64).astype(X.dtype) if center else np.zeros_like(unit)
    filled = np.where(holes, mean, scaled)
    n_missing = np.count_nonzero(holes)
    misfit: list[float] = []
    has_converged = True
    if rank > 0:
        operator, _ = as_operator(filled, center=center)
        V, _ = compute_leading_components(operator, min(rank, *X.shape))  # (n_features, rank)
        has_converged = _iterate_imputation(filled, holes, mean, V, center, misfit)
    if not has_converged:
        warn(
            f"The estimates of {n_missing} missing entries still changed after {MAX_IMPUTATION_STEPS} steps; a model "
            f"of rank {rank} may be too large for the observed entries. Ask for fewer components, or drop variables "
            "and samples with many missing entries.",
            NotConvergedWarning,
        )
    share = f"{100 * n_missing / X.size:.2g} % of the table"
    note = (
        f"{n_missing} missing value(s), {share}, in {np.count_nonzero(holes.any(axis=0))} variable(s) were estimated."
    )
    return ImputationResult(np.where(holes, filled * unit, X), np.array(misfit), has_converged, note)


def _iterate_imputation(
    filled: Array, holes: Array, mean: Array, V: Array, center: bool, misfit_history: list[float]
) -> bool:
    """Fill the holes in place, starting from means and loadings; return whether the misfit converged.

    It converged if a step of length one reduced it by at most MISFIT_TOLERANCE of itself, or if it is at most that of
    an exact fit. Otherwise the holes are those of the model after MAX_IMPUTATION_STEPS.

    Parameters
    ----------
    filled : ndarray of shape (n_samples, n_features)
        The scaled table, float32 or float64, with a first estimate at every hole; only its holes are changed.
    holes : ndarray of bool of the same shape
        The missing entries.
    mean : ndarray of shape (n_features,)
        First means; with ``center=False`` zeros, which then stay.
    V : ndarray of shape (n_features, rank)
        First loadings, with a rank of at least one; columns may be zero.
    center : bool
        Whether the means are fitted.
    misfit_history : list of float
        An empty list, to which the misfit after each step that is not undone is appended.
    """
    exact = max(EXACT_FIT_TOLERANCE, EXACT_FIT_IN_EPS * float(np.finfo(filled.dtype).eps)) ** 2
    negligible_misfit = exact * _compute_observed_misfit(filled, holes, mean)
    missing = np.nonzero(holes)
    modelled, length = filled[missing], 1.0
    for _ in range(MAX_IMPUTATION_STEPS):
        # Least squares; pseudo-inverses allow for loadings of less than full rank.
        U = (filled @ V - mean @ V) @ np.linalg.pinv(V.T @ V)
        design = np.hstack([U, np.ones((len(U), 1), U.dtype)]) if center else U
        solved = np.linalg.pinv(design) @ filled  # (rank + 1, n_features)
        model = design @ solved
        misfit = _compute_observed_misfit(filled, holes, model)
        if length > 1 and misfit > misfit_history[-1]:
            filled[missing], length = modelled, 1.0
            continue
        mean = solved[-1] if center else mean
        V, modelled = solved[: V.shape[1]].T, model[missing]
        has_stalled = bool(misfit_history) and misfit_history[-1] - misfit <= MISFIT_TOLERANCE * misfit
        misfit_history.append(misfit)
        if misfit <= negligible_misfit or (has_stalled and length == 1):
            filled[missing] = modelled
            return True
        length = 1.0 if has_stalled else STEP_GROWTH_FACTOR * length
        filled[missing] += length * (modelled - filled[missing])
    filled[missing] = modelled
    return False


def _compute_observed_misfit(X: Array, holes: Array, model: Array) -> float:
    """Compute the sum of (X − model)² over the entries that are not holes, in float64.

    X has no NaN; it, the mask `holes` and the model are (n_samples, n_features), or broadcast to it.
    """
    return float(np.sum(np.where(holes, 0, X - model) ** 2, dtype=np.float64))


def _check_observed(holes: Array, what: str, axis: int, names: Sequence[str] | Array | None = None) -> None:
    """Raise ValueError if a variable (axis 0) or a sample (axis 1) has no observed value; the first one is named.

    `holes`, (n_samples, n_features) of bool, marks the missing entries. In the message `what` is "Column" or "Row", and
    `names`, one per column or row, or None, has the name.
    """
    empty = np.flatnonzero(holes.all(axis=axis))
    if empty.size:
        which = f"{empty[0]} (counted from 0)" if names is None else repr(str(names[empty[0]]))
        others = f", nor have {empty.size - 1} more" if empty.size > 1 else ""
        raise ValueError(f"{what} {which} has no observed value{others}, so it cannot be estimated. Drop it.")


def impute_from_loadings(X: Array, Z: Array, mean: Array, scale: Array) -> Array:
    """Return X with the missing entries of each sample estimated from the loadings.

    The scores of a sample are those that fit its observed entries best, by least squares; if several do, the smallest.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples, with NaN for missing entries; they are not changed. ValueError is raised if a sample has no
        observed entry.
    Z : ndarray of shape (n_features, m)
        Loadings of the standardised variables.
    mean, scale : ndarray of shape (n_features,)
        Variables are standardised as (x − mean)/scale; scales are positive. All arrays are NumPy arrays of float type.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        A copy of X in its dtype; observed entries are unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> impute_from_loadings(np.array([[3.0, np.nan]]), np.array([[0.6], [0.8]]), np.zeros(2), np.ones(2))
    array([[3., 4.]])
    """
    missing, filled = np.isnan(X), X.copy()
    _check_observed(missing, "Row", 1)
    for i in np.flatnonzero(missing.any(axis=1)):
        holes, observed = missing[i], ~missing[i]
        scores = np.linalg.lstsq(Z[observed], (X[i, observed] - mean[observed]) / scale[observed], rcond=None)[0]
        filled[i, holes] = (Z[holes] @ scores) * scale[holes] + mean[holes]
    return filled
