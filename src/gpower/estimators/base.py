"""What every sparse-PCA model does once its loadings are known: transform, invert, score, name, save, load."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from gpower._utils.arrays import Array, is_device_array, to_host
from gpower._utils.backends import as_native, asarrays_like, is_foreign_array, make_converter_to, to_numpy
from gpower._utils.files import convert_read_errors
from gpower._utils.frames import Frame, make_frame
from gpower._utils.text import format_names, make_names_unique
from gpower.estimators.notebook import render_component_table
from gpower.estimators.outliers import OutlierDistanceMixin
from gpower.io.model_file import (
    ModelFileError,
    check_array_shapes,
    check_header_fields,
    flatten_to_arrays,
    read_saved_object,
    simulate_json_round_trip,
    write_model,
)
from gpower.operators.explained_variance import (
    Scores,
    captured_variance,
    compute_captured_share,
    cosine_matrix,
    count_shared_variables,
    project_samples,
)
from gpower.solvers.component import ComponentResult
from gpower.validation.data import to_plain_table
from gpower.validation.imputation import impute_from_loadings
from gpower.validation.params import get_constructor_params
from gpower.validation.pipelines import ComponentModelMixin
from gpower.validation.prepare import PreparedData, read_estimator_input

#: Parameters of an estimator, or its fitted attributes, by name.
NamedValues: TypeAlias = dict[str, Any]
#: What a file of a model must hold: components × variables.
_REQUIRED_SHAPES = {"components_": "mn", "mean_": "n", "scale_": "n", "n_features_in_": ""}
_REQUIRED_SHAPES |= dict.fromkeys(("cardinality_", "explained_variance_", "explained_variance_ratio_"), "m")
#: What it may hold.
_OPTIONAL_SHAPES = {"feature_names_in_": "n", "extraction_order_": "m"}


def _is_fitted_attribute(name: str) -> bool:
    """Whether an attribute is one that a fit makes, by scikit-learn's custom."""
    return name.endswith("_") and not name.startswith("_")


class IterationCounts(np.ndarray):
    """One number per ascent; a comparison holds when it holds for all of them.

    scikit-learn's conventions ask for ``n_iter_ >= 1``, whose truth is that of every component.
    """

    def __bool__(self) -> bool:
        return bool(np.all(np.asarray(self)))

    def __repr__(self) -> str:
        return repr(np.asarray(self))


@dataclass(frozen=True, eq=False)
class FitSummary:
    """What a model stores of loadings found, in the units of the user."""

    components: Array  # (n_components, n_features)
    component_attributes: dict[str, Array]  # attributes with an entry per component or ascent
    shared_attributes: NamedValues  # attributes of the data
    unadjusted_variance: Array  # (n_components,), of each component on its own

    @property
    def attributes(self) -> NamedValues:
        """All of them by name."""
        return {"components_": self.components} | self.component_attributes | self.shared_attributes


def summarize_fit(
    prepared: PreparedData, result: ComponentResult, *, sort: bool = False, adjust_in_order: bool = False
) -> FitSummary:
    """What loadings explain.

    `sort` puts components of which none has a place of its own by decreasing adjusted variance; `in_order` adjusts
    variances in the order of the components, not of their variance.
    """
    operator, moments = prepared.operator, prepared.moments
    passes, scores = operator.passes, Scores.from_loadings(operator, result.Z)
    variances, total, order = (
        scores.compute_adjusted_variances(keep_order=adjust_in_order),
        operator.total_variance,
        np.arange(result.Z.shape[1]),
    )
    if sort and prepared.fit_spec.should_sort_components:
        order = np.argsort(-np.round(variances / max(variances.max(), np.finfo(float).tiny), 10), kind="stable")
        result, scores, variances = result.reorder(order), scores.reorder(order), variances[order]
    by_component = {
        "explained_variance_": variances / moments.degrees_of_freedom,
        "explained_variance_ratio_": variances / total if total > 0 else np.zeros_like(variances),
        "cardinality_": to_host(np.count_nonzero(result.Z, axis=0)),
        "gamma_": result.gamma,
        "objective_": result.objective,
        "stationarity_gap_": result.gap,
        "n_iter_": result.n_iter.view(IterationCounts),
        "converged_": result.converged,
        "extraction_order_": order,
        "score_covariance_": scores.gram / moments.degrees_of_freedom,
    }
    common = {
        "n_passes_": passes,
        "n_samples_": moments.total_weight,
        "mean_": moments.mean.astype(prepared.dtype),
        "scale_": moments.scale.astype(prepared.dtype),
        "notes_": np.array(prepared.notes, dtype=object),
        "overlap_": count_shared_variables(result.Z),
        "loading_correlation_": cosine_matrix(to_host(result.Z.T @ result.Z).astype(np.float64)),
        "score_correlation_": cosine_matrix(scores.gram),
    }
    return FitSummary(
        result.Z.T.astype(prepared.dtype), by_component, common, scores.variances / moments.degrees_of_freedom
    )


class SparsePCAEstimator(
    OutlierDistanceMixin, ComponentModelMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What every sparse-PCA model does once its loadings are known: transform, invert, score, save, load."""

    components_: Array
    cardinality_: Array
    n_passes_: float
    mean_: Array
    scale_: Array
    notes_: Array
    overlap_: Array
    loading_correlation_: Array
    score_correlation_: Array
    #: Parameter that may be too large for any variable to be active.
    _sparsity_param: ClassVar[str | None] = "gamma"
    #: Whether the class itself says why a component has fewer variables than asked for.
    _explains_shortfall: ClassVar[bool] = False

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    @property
    def n_components_(self) -> int:
        """Number of components found."""
        return self._n_features_out

    def transform(self, X: Any) -> Array:
        """Scores ``(X - mean_) / scale_ @ components_.T``.

        A model of a precomputed covariance knows no means and scales: centre and scale X yourself.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        native = self._read_samples(X)
        return make_converter_to(X)(project_samples(native, *self._get_fitted_arrays_like(native)))

    def _get_fitted_arrays_like(self, X: Any) -> tuple[Array, Array, Array]:
        """Loadings (n_features, m), means and scales, where X is."""
        fitted = (self.components_, self.mean_, self.scale_)
        if all(isinstance(values, np.ndarray) for values in fitted) and not is_device_array(X):
            return self.components_.T, self.mean_, self.scale_
        components, mean, scale = (as_native(v) if is_device_array(X) else to_numpy(v) for v in fitted)
        return asarrays_like(X, components.T, mean, scale)

    def _read_samples(self, X: Any) -> Any:
        check_is_fitted(self)
        table = read_estimator_input(self, X, reset=False)
        X, impute = table.X, table.data_params.missing == "impute" and not sp.issparse(table.X)
        table.require_finite(allow_nan=impute)
        return impute_from_loadings(X, *self._get_fitted_arrays_like(X)) if impute and np.isnan(np.sum(X)) else X

    def inverse_transform(self, X: Any) -> Array:
        """Data of the given scores with the least squares, as components need not be orthogonal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as from `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = check_array(to_numpy(X) if is_foreign_array(X) else to_plain_table(X), dtype=(np.float64, np.float32))
        if scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"The scores have {scores.shape[1]} columns, but there are {self._n_features_out} components."
            )
        Z, mean, scale = self._get_fitted_arrays_like(scores)
        rcond = 1e2 * np.sqrt(np.finfo(Z.dtype).eps)
        data = scores @ np.linalg.pinv(Z.astype(np.float64), rcond=rcond) * scale + mean
        return make_converter_to(X)(np.asarray(data, scores.dtype))

    def score(self, X: Any, y: Any = None) -> float:
        """Share of the variance of X inside the span of the components, between 0 and 1.

        What is lost when X is projected on the components. `explained_variance_ratio_` counts instead the
        variance of the scores, each only as far as it is uncorrelated with the others: the smaller of the two.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New data; a covariance matrix where the model is of one.
        y : ignored
        """
        X = self._read_samples(X)
        if get_constructor_params(self).get("covariance") != "precomputed":
            return compute_captured_share(X, *self._get_fitted_arrays_like(X))
        Z, total = self.components_.T.astype(np.float64), float(np.trace(X))
        return captured_variance(Z.T @ (X @ Z), Z) / total if total > 0 else 0.0

    def loadings(self, feature_names: Sequence[str] | None = None) -> list[dict[str, float]]:
        """The variables of each component by name, the largest absolute loading first.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names of all variables; by default those of the fitted frame, or x0, x1, …. A repeated one gets .1, .2, ….

        Returns
        -------
        list of dict
            One per component: name → loading, non-zero ones only.
        """
        names, rows = self._get_variable_names(feature_names), to_numpy(self.components_)
        orders = (np.argsort(-np.abs(row), kind="stable")[: np.count_nonzero(row)] for row in rows)
        return [{names[j]: float(row[j]) for j in order} for row, order in zip(rows, orders, strict=True)]

    def _get_variable_names(self, feature_names: Sequence[str] | None) -> list[str]:
        """A name of its own for every variable: the given ones, those of the fitted frame, or x0, x1, …."""
        check_is_fitted(self)
        names = feature_names if feature_names is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.components_.shape[1])]
        if len(names) != self.components_.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} entries, but there are {self.components_.shape[1]} variables."
            )
        return make_names_unique([str(name) for name in names])

    def loadings_frame(self, feature_names: Sequence[str] | None = None, *, all_variables: bool = False) -> Frame:
        """The loadings as a pandas frame, variables × components, named as the scores are.

        Parameters
        ----------
        feature_names : sequence of str, optional
            As in `loadings`.
        all_variables : bool, default=False
            Also those that no component uses.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> from gpower import GPower
        >>> from gpower.datasets import load_pitprops
        >>> pitprops = load_pitprops()
        >>> model = GPower(2, cardinality=3, covariance="precomputed").fit(pitprops.correlation)
        >>> model.loadings_frame(pitprops.feature_names).shape
        (6, 2)
        """
        names = self._get_variable_names(feature_names)
        rows = to_numpy(self.components_)
        kept = np.arange(rows.shape[1]) if all_variables else np.flatnonzero(rows.any(axis=0))
        columns = dict(zip(self.get_feature_names_out(), rows[:, kept], strict=True))
        return make_frame(columns, [names[j] for j in kept])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that needs no pickle to read.

        Parameters
        ----------
        path : str or path
            Conventionally ending in ``.npz``. Callbacks and random generators are not saved.
        """
        check_is_fitted(self)
        params = {k: v for k, v in self.get_params(deep=False).items() if not callable(v)}
        params = {
            k: None if isinstance(v, (np.random.RandomState, np.random.Generator)) else v for k, v in params.items()
        }
        write_model(
            path,
            {"class": type(self).__name__, "params": simulate_json_round_trip(params)},
            flatten_to_arrays(self._get_fitted_attributes()),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A model written by `save`.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        The fitted estimator
        """
        header, fitted = read_saved_object(path, cls.__name__)
        check_header_fields(path, header, {"params": dict})
        check_array_shapes(
            path,
            fitted,
            _REQUIRED_SHAPES | {name: _OPTIONAL_SHAPES[name] for name in _OPTIONAL_SHAPES.keys() & fitted.keys()},
        )
        with convert_read_errors(
            lambda what: ModelFileError(f"{str(path)!r} is damaged: it makes no {cls.__name__} ({what}).")
        ):
            odd = [name for name in fitted if not _is_fitted_attribute(name) or hasattr(cls, name)]
            if odd or fitted["n_features_in_"] != len(fitted["mean_"]):
                raise ValueError(
                    f"no place for {format_names(odd)}" if odd else f"n_features_in_={fitted['n_features_in_']}"
                )
            model = cls(**header["params"])
            model._restore(fitted)
        return model

    def _get_fitted_attributes(self) -> NamedValues:
        """The fitted attributes by name."""
        return {name: value for name, value in vars(self).items() if _is_fitted_attribute(name)}

    def _restore(self, fitted: NamedValues) -> None:
        """Take on the attributes of a fitted model."""
        self.__dict__.update(fitted)

    def report(self, X: Any, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one HTML page that shows the model and its samples, to send and to explore; see `gpower.html_report`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data of the fit, in memory; a covariance where the model is of one.
        path : str or path
            The file, conventionally ending in ``.html``.
        **options
            Parameters of `gpower.html_report`, such as ``metadata`` and ``title``.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> from gpower import GPower
        >>> from gpower.datasets import load_pitprops
        >>> pitprops = load_pitprops()
        >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
        >>> model.report(pitprops.correlation, "pitprops.html", title="Pit props")  # doctest: +SKIP
        """
        from gpower import html_report  # what shows a model stands above it

        return html_report(self, X, path, **options)

    def _html_repr(self) -> str:
        """What a notebook shows: scikit-learn's diagram and, once there are components, a small table of them."""
        return str(super()._html_repr()) + (render_component_table(self) if hasattr(self, "components_") else "")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = get_constructor_params(self).get("missing") == "impute"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
