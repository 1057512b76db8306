"""Convert the arguments of certificates: data to an operator, loadings to unit columns, models to `CertificateArgs`.

Terms: there are n features and m components. ``UnwrappedModel.unwrap(model)`` has `model`, a copy of the last step of a
pipeline that finds components, or the object itself, and ``apply_earlier_steps(X)``, what the steps before it make of
X. ``read_estimator_input(reader, X)`` checks X and reads the attributes of `reader` (those of `_InputParams`); the
result has ``load_into_memory(reason)``, which raises ValueError with the reason if X does not fit into memory or is on
a device; ``with_covariates(covariates, batch)``; ``fill_missing()``, which imputes if the parameters say so;
``to_float64()``; and ``prepare(sample_weight, reduce=True)``, which builds the operator, checks that entries are
finite, and may replace tall data by their covariance. Its result is a `PreparedData`, with `operator`, `moments`
(`column_norms`, (n,), zero for constant columns) and `feature_names`, (n,) of text, or None. ``to_numpy(x)`` returns a
small array of any library or device as a NumPy array, and ``normalize_columns(Z)`` Z with columns of unit length, zero
ones unchanged. ``check_option(value, name, options)`` returns the value or raises ValueError; so does
`check_covariates_given`, unless covariates are passed exactly if the model was fitted with them.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array, normalize_columns, to_numpy
from gpower._utils.messages import format_param
from gpower.operators import Operator
from gpower.validation.checks import is_sequence
from gpower.validation.covariates import check_covariates_given
from gpower.validation.params import check_option
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import PreparedData, read_estimator_input
from gpower.validation.variable_rules import VARIABLE_RULE_NAMES


class CertificateArgs(TypedDict):
    """How the components of a model were found; the arguments of `certify_components` of the same names."""

    cardinality: Any  # as given to the model: a number, a list of m, a share of variance, or None
    gamma: Any  # (m,): absolute γ, only of the plain ℓ0-penalised problem; else None
    deflation: str  # key of `DEFLATION_RULES`
    order: Any  # (m,) of int: index of each component in the order of extraction; None if all were found at once


@dataclass(frozen=True, eq=False)
class CertificateInput:
    """The checked arguments of a certificate."""

    model: Any  # last step of a pipeline, the model itself, or an array of loadings
    operator: Operator  # the data, in float64 in host memory, not deflated; at least one column varies
    Z: Array  # (n_features, m): loadings, each column of unit length or zero, float64, on the host
    args: CertificateArgs


def read_certificate_input(
    model: Any, X: Any, covariance: str | None, sample_weight: Any, covariates: Any = None, batch: Any = None
) -> CertificateInput:
    """Check the arguments of `certify` and `certify_total`, and read the data as in the fit.

    All are as the user gave them: a fitted model, a pipeline with one, or loadings, (m, n); the data or a covariance;
    "precomputed" for a covariance, or None for what the model says; weights, covariates and batches of the samples.
    Loadings alone may come with covariates; a model must have been fitted with those. Raise ValueError or TypeError
    for arguments that are not valid, scikit-learn's NotFittedError for a model that is not fitted.
    """
    unwrapped = UnwrappedModel.unwrap(model)
    loadings = _get_loadings(unwrapped.model)
    args = certificate_args(unwrapped.model)
    reader_params = _infer_reader_params(unwrapped.model, covariance)
    if isinstance(unwrapped.model, BaseEstimator):
        names = getattr(unwrapped.model, "covariates_names_", None)
        are_variables = reader_params["covariance"] is not None
        check_covariates_given(names, covariates, batch, are_variables=are_variables)
        covariates = names if are_variables else covariates
    X = unwrapped.apply_earlier_steps(X)
    known = {"sample_weight": sample_weight, "covariates": covariates, "batch": batch}
    operator = prepare_certificate_data(X, **known, **reader_params).operator
    return CertificateInput(unwrapped.model, operator, _check_components(loadings, operator.shape[1]), args)


def _get_attributes(model: object, *names: str) -> list[Any]:
    """Return parameters or attributes of a model; None for each that it lacks, as loadings alone do."""
    return [getattr(model, name, None) for name in names]


def certificate_args(model: object) -> CertificateArgs:
    """Return the arguments of `certify_components` that describe how a model was fitted.

    `model` is fitted, not a pipeline, and of any class; parameters and attributes that it lacks count as None. It may
    also be an array of loadings, which has none. γ and the order are left out where they do not describe the problem
    of a single component without rules. Raise ValueError for ``variance="l1"``.
    """
    variance, deflation = _get_attributes(model, "variance", "deflation")
    cardinality, l1_bound = _get_attributes(model, "cardinality", "l1_bound")
    n_components, components = _get_attributes(model, "n_components", "components_")
    if variance == "l1":
        raise ValueError(
            f"The model was fitted with {format_param('variance', 'l1')}, which maximises ‖Az‖₁; the bounds are on "
            "‖Az‖₂². Pass model.components_ to certify that variance instead."
        )
    if n_components == "auto" and is_sequence(cardinality):
        cardinality = list(cardinality)[: len(components)]
    penalty, method, gamma = _get_attributes(model, "penalty", "method", "gamma_")
    constraint, order = _get_attributes(model, "constraint", "extraction_order_")
    if method == "block" or constraint is not None:  # all components were found at once
        order = None
    is_restricted = any(value is not None for value in _get_attributes(model, "budget", *VARIABLE_RULE_NAMES))
    if penalty != "l0" or method != "deflation" or cardinality is not None or l1_bound is not None or is_restricted:
        gamma = None
    return {"cardinality": cardinality, "gamma": gamma, "deflation": deflation or "schur", "order": order}


def _infer_reader_params(model: Any, covariance: str | None) -> dict[str, Any]:
    """Return how the data of a model were centred, scaled and imputed, from its parameters or its means and scales.

    The result has parameters of `_InputParams`, by name. Without the parameter `center` data are centred if a mean is
    not zero, without `scale` scaled if a scale is not one; a model without any of these, or an array of loadings, is
    taken for one of centred and unscaled data. A `covariance` that is not None takes precedence over the model's.
    """
    model_covariance, missing, balance = _get_attributes(model, "covariance", "missing", "balance")
    center, mean, scale, scales = _get_attributes(model, "center", "mean_", "scale", "scale_")
    if covariance is None and model_covariance == "precomputed":
        covariance = "precomputed"
    if center is None:
        center = mean is None or np.any(mean)
    if scale is None:
        scale = scales is not None and np.any(np.asarray(scales) != 1)
    args = {"covariance": covariance, "center": bool(center), "scale": bool(scale), "balance": bool(balance)}
    return args | ({"missing": missing, "n_components": len(model.components_)} if missing == "impute" else {})


class _InputParams(BaseEstimator):
    """Some of the parameters in `DATA_PARAM_DEFAULTS`; the reader of estimator input stores the feature names here."""

    def __init__(self, **params: Any) -> None:
        self.__dict__.update(params)


def prepare_certificate_data(
    X: Any,
    covariance: str | None,
    *,
    sample_weight: Any = None,
    covariates: Any = None,
    batch: Any = None,
    **reader_params: Any,
) -> PreparedData:
    """Return X as an operator in float64 with its feature names, read with the parameters of `_InputParams`.

    `X`, `sample_weight`, `covariates` and `batch` are as the user gave them; None stands for none. `covariance` is
    "precomputed" or None, and is checked. With covariates or batches it is the operator of the residuals. The matrix is
    in host memory. The operator has no samples if X is a covariance, or tall data replaced by theirs. Raise ValueError
    if X does not fit into memory, is on a device, has entries that are not finite, or has no column that varies.
    """
    covariance = check_option(covariance, "covariance", (None, "precomputed"))
    reader = _InputParams(covariance=covariance, **reader_params)
    table = read_estimator_input(reader, X).load_into_memory(
        "A certificate needs the matrix in the memory of this machine"
    )
    prepared = table.with_covariates(covariates, batch).fill_missing().to_float64().prepare(sample_weight, reduce=True)
    if not np.any(prepared.moments.column_norms):
        reason = "The covariance is zero" if covariance is not None else "Every column of X is constant"
        raise ValueError(f"{reason}: no component explains any variance, so there is nothing to certify.")
    return prepared


def _get_loadings(model: Any) -> Array:
    """Return the loadings of a fitted model, or the array that was passed in its place, in float64, on the host.

    The shape is not checked, entries may be NaN, and the loadings are not normalised; they are not copied. Raise
    ValueError if there are none, NotFittedError for a scikit-learn estimator that is not fitted.
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


def _check_components(components: Array, n_features: int) -> Array:
    """Return loadings, (m, n_features), as unit columns, (n_features, m); zero columns stay zero.

    `components` is in float64 on the host; a vector of n_features loadings is one component. The result is a new array.
    Raise ValueError for another shape, and for loadings that are not finite.
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
