"""What the user hands over, checked once: a matrix as an operator, and components as unit columns."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array, unit_columns
from gpower._utils.backends import on_host
from gpower.operators import Operator
from gpower.validation.params import one_of
from gpower.validation.prepare import Prepared, read


class _Reader(BaseEstimator):
    """Carries the wishes of the user, and the names of the variables, while a table is checked."""

    def __init__(
        self,
        covariance: str | None,
        center: bool = True,
        scale: bool = False,
        missing: str = "error",
        n_components: int = 1,
    ) -> None:
        self.covariance, self.center, self.scale = covariance, center, scale
        self.missing, self.n_components = missing, n_components


def checked_operator(X: Any, covariance: str | None, *, sample_weight: Any = None, **how: Any) -> Operator:
    """X as an operator in float64, read as `_Reader` is told, or a sentence that says why it cannot be certified."""
    return checked_table(X, covariance, sample_weight=sample_weight, **how).operator


def checked_table(X: Any, covariance: str | None, *, sample_weight: Any = None, **how: Any) -> Prepared:
    """The same with the names of its variables."""
    reader = _Reader(one_of(covariance, "covariance", (None, "precomputed")), **how)
    table = read(reader, X).in_memory("A certificate needs the matrix in the memory of this machine")
    prepared = table.filled().in_double().prepared(sample_weight, reduce=True)
    if not np.any(prepared.moments.norms):
        what = "The covariance is zero" if covariance is not None else "Every column of X is constant"
        raise ValueError(f"{what}: no component explains anything, so there is nothing to certify.")
    return prepared


def loadings_of(model: Any) -> Array:
    """The loadings of a fitted model, or those that stand in its place, in float64."""
    if isinstance(model, BaseEstimator):
        check_is_fitted(model, "components_")
    try:
        return np.asarray(on_host(getattr(model, "components_", model)), np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"model={reprlib.repr(model)} holds no loadings; give a fitted model, or an array of shape "
            "(n_components, n_features)."
        ) from None


def checked_components(components: Array, n: int) -> Array:
    """Loadings as unit columns, (n, m) in float64; zero columns stay zero."""
    Z = components[None] if components.ndim == 1 else components
    if Z.ndim != 2 or Z.shape[1] != n:
        raise ValueError(
            f"The components have shape {components.shape}, but X has {n} variables: "
            f"one row of {n} loadings per component is needed."
        )
    if not np.all(np.isfinite(Z)):
        raise ValueError("The components hold NaN or infinite loadings; certify those of a fitted model.")
    return unit_columns(Z.T)
