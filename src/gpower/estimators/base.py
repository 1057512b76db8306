"""The base class of fitted sparse-PCA models: transform, invert, score, name, save, load."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from gpower._utils.arrays import Array, as_native, is_foreign_array, make_converter_to, to_host, to_numpy
from gpower._utils.files import convert_read_errors
from gpower._utils.frames import Frame, make_frame, name_by_component
from gpower._utils.text import format_names, get_variable_name, make_names_unique
from gpower.estimators.fit_summary import NamedValues
from gpower.estimators.notebook import format_summary, render_component_table
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
from gpower.operators import Container, as_container
from gpower.operators.explained_variance import captured_variance, compute_captured_share, project_samples
from gpower.operators.storage.covariate_residuals import ResidualMatrix
from gpower.validation.checks import ComponentModelMixin, to_plain_table
from gpower.validation.covariates import CovariateEncoding, CovariateVariables, check_covariates_given, read_covariates
from gpower.validation.imputation import impute_from_loadings
from gpower.validation.params import get_constructor_params, make_solver
from gpower.validation.prepare import EstimatorInput, read_estimator_input
from gpower.validation.solver import restore_solver

#: Shapes of the arrays that a model file must contain; m components, n variables.
_REQUIRED_SHAPES = {
    "components_": "mn",
    "mean_": "n",
    "scale_": "n",
    **dict.fromkeys(("cardinality_", "explained_variance_", "explained_variance_ratio_"), "m"),
    **dict.fromkeys(("overlap_", "loading_correlation_", "score_correlation_", "score_covariance_"), "mm"),
    **dict.fromkeys(("n_features_in_", "n_samples_", "n_passes_"), ""),
}
#: Shapes of the arrays that it may contain.
_OPTIONAL_SHAPES = {
    "feature_names_in_": "n",
    **dict.fromkeys(("extraction_order_", "upper_bound_", "optimality_ratio_"), "m"),
}


def _is_fitted_attribute(name: str) -> bool:
    """Return whether a fit sets an attribute of this name, by scikit-learn's convention."""
    return name.endswith("_") and not name.startswith("_")


class SparsePCAEstimator(
    OutlierDistanceMixin, ComponentModelMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A sparse-PCA model, whatever method finds its loadings: transform, invert, score, save, load."""

    notes_: Array
    #: Parameter that leaves no variable active if it is too large; None for a method without one.
    _sparsity_param: ClassVar[str | None] = "gamma"
    #: Whether the class itself explains why a component has fewer variables than requested.
    _explains_shortfall: ClassVar[bool] = False

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    @property
    def n_components_(self) -> int:
        """Return the number of components found."""
        return self._n_features_out

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``solver__acceleration`` and the like set options of the `solver`.

        Parameters
        ----------
        **params
            Parameters of the estimator.

        Returns
        -------
        self
        """
        options = {name: value for name, value in params.items() if name.startswith("solver__")}
        super().set_params(**{name: value for name, value in params.items() if name not in options})
        if options:  # in a copy, as several models may share a solver
            solver = clone(make_solver(get_constructor_params(self).get("solver")))
            self.solver = solver.set_params(**{name.removeprefix("solver__"): options[name] for name in options})
        return self

    def transform(self, X: Any, covariates: Any = None, batch: Any = None) -> Array:
        """Compute the scores ``(X - mean_) / scale_ @ components_.T``.

        A model of a precomputed covariance has no means and scales: centre and scale X yourself.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any: their fitted part is
            subtracted from X first.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        samples = self._read_samples(X, covariates, batch)
        return make_converter_to(X)(project_samples(samples, *self._get_fitted_arrays_like(samples)))

    def remove_covariates(self, X: Any, covariates: Any = None, batch: Any = None) -> tuple[Any, Any]:
        """Return the model without its covariates, and the residuals of X as a table.

        Functions that take a model and its data, such as those of `gpower.plotting`, take the two instead. The
        residuals of a sparse matrix are dense; a table in blocks is loaded.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples; a covariance if the model was fitted to one.
        covariates, batch : optional
            Covariates and batch labels of these samples.

        Returns
        -------
        model : GPower
            A copy with the same components; of a model without covariates, the model itself.
        residuals : ndarray, pandas.DataFrame, or X itself if the model has no covariates

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> rng = np.random.default_rng(0)
        >>> age, X = rng.uniform(20, 80, 40), rng.standard_normal((40, 6))
        >>> model = GPower(1, cardinality=2).fit(X, covariates=age)
        >>> plain, residuals = model.remove_covariates(X, covariates=age)
        >>> bool(np.allclose(plain.transform(residuals), model.transform(X, covariates=age)))
        True
        """
        samples = self._read_samples(X, covariates, batch)
        names = getattr(self, "covariates_names_", None)
        if names is None:
            return self, X
        plain: Any = copy(getattr(self, "best_estimator_", self))
        rest = as_container(samples).to_dense()
        if get_constructor_params(plain).get("covariance") == "precomputed":  # from both sides of the matrix
            columns = CovariateVariables.find(names, vars(plain).get("feature_names_in_"), len(rest)).columns
            rest = rest - self.covariates_coef_.T @ rest[columns]
        if hasattr(X, "iloc"):
            rest = type(X)(rest, index=X.index, columns=X.columns)
        else:  # an array has no names
            vars(plain).pop("feature_names_in_", None)
        plain._n_removed_covariates = self._covariate_rank
        for name in [name for name in vars(plain) if name.startswith("covariate")]:
            delattr(plain, name)
        return plain, rest

    def _subtract_covariates(self, table: EstimatorInput, covariates: Any, batch: Any) -> Any:
        """Return the matrix of a table, or its residuals if the model was fitted with covariates.

        Raise ValueError if covariates are missing or were not fitted, or if they do not fit to the table.
        """
        names, is_covariance = getattr(self, "covariates_names_", None), table.params["covariance"] is not None
        check_covariates_given(names, covariates, batch, are_variables=is_covariance)
        if names is None:
            return table.X
        if is_covariance:  # covariates are variables of X
            columns = CovariateVariables.find(names, table.feature_names, table.shape[1]).columns
            return ResidualMatrix(table.container, to_host(table.container.columns(columns)), self.covariates_coef_)
        known = read_covariates(covariates, batch, table.shape[0], table.row_names)
        C = CovariateEncoding(names, self.covariates_levels_).encode(known)
        return ResidualMatrix(table.container, C - self.covariates_mean_, self.covariates_coef_)

    def _get_fitted_arrays_like(self, X: Any) -> tuple[Array, Array, Array]:
        """Return loadings (n_features, m), means and scales as arrays of the library and device of X.

        X is native, as `_read_samples` returns it, so that the arrays are NumPy arrays, or CuPy arrays if X is on a
        device. The fitted attributes may be of any library, as they have that of the data of the fit.
        """
        to_backend, fitted = as_container(X).to_backend, (self.components_, self.mean_, self.scale_)
        components, mean, scale = (to_backend(as_native(values)) for values in fitted)
        return components.T, mean, scale

    def _read_samples(self, X: Any, covariates: Any = None, batch: Any = None) -> Any:
        """Check samples against the fitted variables; subtract what their covariates predict, impute if requested.

        The result is a NumPy or CuPy array, a CSR or CSC matrix, or a container, in float32 or float64, not centred and
        not scaled; it may share memory with X, so it must not be changed. Raise ValueError for missing values that are
        not imputed, for infinite ones, and unless covariates are passed exactly if the model was fitted with them.
        """
        check_is_fitted(self)
        table = read_estimator_input(self, X, reset=False)
        is_array = not sp.issparse(table.X) and not isinstance(table.X, Container)
        should_impute = table.params["missing"] == "impute" and is_array
        table.require_finite(allow_nan=should_impute)
        samples = self._subtract_covariates(table, covariates, batch)
        if should_impute and np.isnan(np.sum(table.X)):
            return impute_from_loadings(as_container(samples).to_dense(), *self._get_fitted_arrays_like(table.X))
        return samples

    def inverse_transform(self, X: Any) -> Array:
        """Compute the data that have the given scores, by least squares, as components need not be orthogonal.

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

    def score(self, X: Any, y: Any = None, covariates: Any = None, batch: Any = None) -> float:
        """Compute the share of the variance of X that is retained in the span of the components, between 0 and 1.

        A projection of X on the components keeps this share and loses the rest. `explained_variance_ratio_` is smaller:
        it counts the variance of the scores, and of correlated scores only the uncorrelated part. The share grows with
        every variable, so scikit-learn's `GridSearchCV` over `cardinality` takes the largest number by this score:
        pass `gpower.model_selection.score_sparseness` as its ``scoring``, or use `GPowerCV`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New data; a covariance matrix if the model was fitted to one.
        y : ignored
        covariates, batch : optional
            Covariates and batch labels of these samples, if the model was fitted with any. The share is then that of
            the variance which they do not predict.

        Returns
        -------
        float
        """
        if get_constructor_params(self).get("covariance") != "precomputed":
            samples = self._read_samples(X, covariates, batch)
            return compute_captured_share(samples, *self._get_fitted_arrays_like(samples))
        S, Z = to_host(self.remove_covariates(X)[1]), self.components_.T.astype(np.float64)
        total = float(np.trace(S))
        return captured_variance(Z.T @ (S @ Z), Z) / total if total > 0 else 0.0

    def loadings(self, feature_names: Sequence[str] | None = None) -> list[dict[str, float]]:
        """Return the variables of each component by name, the largest absolute loading first.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names of all variables; by default those of the fitted frame, or x0, x1, …. Repeated names get .1, .2, ….

        Returns
        -------
        list of dict
            One per component: name → non-zero loading.
        """
        names, rows = self._get_variable_names(feature_names), to_numpy(self.components_)
        orders = (np.argsort(-np.abs(row), kind="stable")[: np.count_nonzero(row)] for row in rows)
        return [
            {get_variable_name(j, names): float(row[j]) for j in order} for row, order in zip(rows, orders, strict=True)
        ]

    def _get_variable_names(self, feature_names: Sequence[str] | None) -> list[str] | None:
        """Return unique names of the variables: the given ones, those of the fitted frame, or None.

        Raise if the model is not fitted, or if the number of given names is not that of the variables.
        """
        check_is_fitted(self)
        names = feature_names if feature_names is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            return None
        if len(names) != self.components_.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} entries, but there are {self.components_.shape[1]} variables."
            )
        return make_names_unique([str(name) for name in names])

    def loadings_frame(self, feature_names: Sequence[str] | None = None, *, all_variables: bool = False) -> Frame:
        """Return the loadings as a pandas frame, variables × components: component_1, component_2, ….

        Parameters
        ----------
        feature_names : sequence of str, optional
            As in `loadings`.
        all_variables : bool, default=False
            Include variables that no component uses.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> from gpower import GPower
        >>> from gpower.datasets import load_pitprops
        >>> pitprops = load_pitprops()
        >>> model = GPower(2, cardinality=3, covariance="precomputed").fit(pitprops.correlation)
        >>> model.loadings_frame(pitprops.feature_names).round(2)
                 component_1  component_2
        topdiam         0.60         0.00
        length          0.61         0.00
        ringtop         0.00         0.60
        ringbut         0.00         0.57
        bowdist         0.51         0.00
        diaknot         0.00        -0.56
        """
        names = self._get_variable_names(feature_names)
        rows = to_numpy(self.components_)
        shown = np.arange(rows.shape[1]) if all_variables else np.flatnonzero(rows.any(axis=0))
        return make_frame(name_by_component(rows[:, shown]), [get_variable_name(j, names) for j in shown.tolist()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that is read without pickle.

        Parameters
        ----------
        path : str or path
            Conventionally ending in ``.npz``. Callbacks and random generators are not saved.
        """
        check_is_fitted(self)
        generators = (np.random.RandomState, np.random.Generator)
        params = {
            name: None if isinstance(value, generators) else value
            for name, value in self.get_params(deep=False).items()
            if not callable(value)
        }
        write_model(
            path,
            {"class": type(self).__name__, "params": simulate_json_round_trip(params)},
            flatten_to_arrays(self._get_fitted_attributes()),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        Self
            The fitted estimator.
        """
        header, fitted = read_saved_object(path, cls.__name__)
        check_header_fields(path, header, {"params": dict})
        optional = {name: _OPTIONAL_SHAPES[name] for name in _OPTIONAL_SHAPES.keys() & fitted.keys()}
        check_array_shapes(path, fitted, _REQUIRED_SHAPES | optional)
        with convert_read_errors(
            lambda what: ModelFileError(f"{str(path)!r} is damaged: it makes no {cls.__name__} ({what}).")
        ):
            unknown = [name for name in fitted if not _is_fitted_attribute(name) or hasattr(cls, name)]
            if unknown:
                raise ValueError(f"unknown attribute {format_names(unknown)}")
            if fitted["n_features_in_"] != len(fitted["mean_"]):
                raise ValueError(f"n_features_in_={fitted['n_features_in_']}")
            model = cls(**restore_solver(header["params"]))
            model._restore(fitted)
        return model

    def _get_fitted_attributes(self) -> NamedValues:
        """Return the fitted attributes by name."""
        return {name: value for name, value in vars(self).items() if _is_fitted_attribute(name)}

    def _restore(self, fitted: NamedValues) -> None:
        """Set the attributes of a fitted model."""
        self.__dict__.update(fitted)

    def report(self, X: Any, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write an HTML page that shows the model and its samples; see `gpower.html_report`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data of the fit, in memory; a covariance if the model was fitted to one.
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
        from gpower import html_report  # the report lies in a layer above this one

        return html_report(self, X, path, **options)

    def __str__(self) -> str:
        """Return a summary of a fitted model; before a fit, its parameters."""
        return format_summary(self) if hasattr(self, "components_") else repr(self)

    def _html_repr(self) -> str:
        """Return what a notebook shows: scikit-learn's diagram and, after a fit, a table of the components."""
        return str(super()._html_repr()) + (render_component_table(self) if hasattr(self, "components_") else "")
