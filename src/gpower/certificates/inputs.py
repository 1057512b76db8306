"""What the user hands over, checked once: a matrix as an operator, and components as unit columns."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array, normalize_columns
from gpower._utils.backends import to_numpy
from gpower.operators import Operator
from gpower.validation.params import check_option
from gpower.validation.prepare import PreparedData, read_estimator_input


class _InputParams(BaseEstimator):
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


def prepare_certificate_operator(
    X: Any, covariance: str | None, *, sample_weight: Any = None, **reader_params: Any
) -> Operator:
    """X as an operator in float64, read as `_InputParams` is told.

    Or a sentence that says why it cannot be certified.
    """
    return prepare_certificate_input(X, covariance, sample_weight=sample_weight, **reader_params).operator


def prepare_certificate_input(
    X: Any, covariance: str | None, *, sample_weight: Any = None, **reader_params: Any
) -> PreparedData:
    """The same with the names of its variables."""
    reader = _InputParams(check_option(covariance, "covariance", (None, "precomputed")), **reader_params)
    table = read_estimator_input(reader, X).load_into_memory(
        "A certificate needs the matrix in the memory of this machine"
    )
    prepared = table.fill_missing().to_float64().prepare(sample_weight, reduce=True)
    if not np.any(prepared.moments.column_norms):
        what = "The covariance is zero" if covariance is not None else "Every column of X is constant"
        raise ValueError(f"{what}: no component explains anything, so there is nothing to certify.")
    return prepared


def get_loadings(model: Any) -> Array:
    """The loadings of a fitted model, or those that stand in its place, in float64."""
    if isinstance(model, BaseEstimator):
        check_is_fitted(model, "components_")
    try:
        return np.asarray(to_numpy(getattr(model, "components_", model)), np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"model={reprlib.repr(model)} holds no loadings; give a fitted model, or an array of shape "
            "(n_components, n_features)."
        ) from None


def check_components(components: Array, n_features: int) -> Array:
    """Loadings as unit columns, (n, m) in float64; zero columns stay zero."""
    Z = components[None] if components.ndim == 1 else components
    if Z.ndim != 2 or Z.shape[1] != n_features:
        raise ValueError(
            f"The components have shape {components.shape}, but X has {n_features} variables: "
            f"one row of {n_features} loadings per component is needed."
        )
    if not np.all(np.isfinite(Z)):
        raise ValueError("The components hold NaN or infinite loadings; certify those of a fitted model.")
    return normalize_columns(Z.T)
