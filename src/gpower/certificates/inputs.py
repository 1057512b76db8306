"""Check the arguments of certificates: the matrix becomes an operator, the components become unit columns."""

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
    """Parameters that the reader of estimator input expects; it stores the feature names here too."""

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
    """Return X as an operator in float64, read with the parameters of `_InputParams`.

    Raise ValueError if X cannot be certified.
    """
    return prepare_certificate_input(X, covariance, sample_weight=sample_weight, **reader_params).operator


def prepare_certificate_input(
    X: Any, covariance: str | None, *, sample_weight: Any = None, **reader_params: Any
) -> PreparedData:
    """Return X as an operator in float64 with its feature names, read with the parameters of `_InputParams`.

    The matrix is in host memory. The operator has no samples if X is a covariance, or tall data replaced by theirs.
    Raise ValueError if X does not fit into memory, is on a device, or has no column that varies.
    """
    reader = _InputParams(check_option(covariance, "covariance", (None, "precomputed")), **reader_params)
    table = read_estimator_input(reader, X).load_into_memory(
        "A certificate needs the matrix in the memory of this machine"
    )
    prepared = table.fill_missing().to_float64().prepare(sample_weight, reduce=True)
    if not np.any(prepared.moments.column_norms):
        reason = "The covariance is zero" if covariance is not None else "Every column of X is constant"
        raise ValueError(f"{reason}: no component explains any variance, so there is nothing to certify.")
    return prepared


def get_loadings(model: Any) -> Array:
    """Return the loadings of a fitted model, or the array that was passed in its place, in float64, on the host.

    The shape is not checked, and the loadings are not normalised; `check_components` does both.
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model, "components_")
    try:
        return np.asarray(to_numpy(getattr(model, "components_", model)), np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"model={reprlib.repr(model)} has no loadings; pass a fitted model or an array of shape "
            "(n_components, n_features)."
        ) from None


def check_components(components: Array, n_features: int) -> Array:
    """Return loadings, (m, n_features), as unit columns, (n_features, m); zero columns stay zero.

    A vector of n_features loadings is one component.
    """
    Z = components[None] if components.ndim == 1 else components
    if Z.ndim != 2 or Z.shape[1] != n_features:
        raise ValueError(
            f"The components have shape {components.shape}, but X has {n_features} variables: "
            f"one row of {n_features} loadings per component is needed."
        )
    if not np.all(np.isfinite(Z)):
        raise ValueError("The components contain NaN or infinite loadings; pass those of a fitted model.")
    return normalize_columns(Z.T)
