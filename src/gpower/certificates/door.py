"""What the user hands over, checked once: a matrix as an operator, and components as unit columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gpower._arrays import Array, unit_columns
from gpower.inputs import check_finite, check_range, check_table
from gpower.operators import Operator, as_operator
from gpower.parameters import check_covariance, check_weights, one_of


class _Reader(BaseEstimator):
    """Carries the names of the variables while a table is checked."""


def checked_operator(
    X: Any, covariance: str | None, *, center: bool = True, scale: bool = False, sample_weight: Any = None
) -> Operator:
    """X as an operator in float64, or a sentence that says why it cannot be certified."""
    one_of(covariance, "covariance", (None, "precomputed"))
    reader = _Reader()
    X = check_table(reader, X, reset=True)
    names = getattr(reader, "feature_names_in_", None)
    check_finite(X, names)
    if covariance is not None:
        if sp.issparse(X) or sample_weight is not None:
            what = "a dense matrix" if sp.issparse(X) else "no sample_weight"
            raise ValueError(f'covariance="precomputed" takes {what}.')
        X = check_covariance(X)
        X = (X + X.T) / 2
    X = X.astype(np.float64)
    weight = check_weights(sample_weight, X.shape[0], X.dtype)
    operator, moments = as_operator(
        X, center=center, scale=scale, sample_weight=weight, covariance=covariance is not None
    )
    if not np.any(moments.norms):
        what = "The covariance is zero" if covariance is not None else "Every column of X is constant"
        raise ValueError(f"{what}: no component explains anything, so there is nothing to certify.")
    check_range(moments.norms, names, operator.dtype)
    return operator


def checked_components(components: Any, n: int) -> Array:
    """Loadings as unit columns, (n, m) in float64; zero columns stay zero."""
    Z = np.asarray(components, np.float64)
    Z = Z[None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or Z.shape[1] != n:
        raise ValueError(
            f"The components have shape {np.shape(components)}, but X has {n} variables: "
            f"one row of {n} loadings per component is needed."
        )
    if not np.all(np.isfinite(Z)):
        raise ValueError("The components hold NaN or infinite loadings; certify those of a fitted model.")
    return unit_columns(Z.T)
