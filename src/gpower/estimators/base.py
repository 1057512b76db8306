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

from gpower._utils.arrays import Array, is_device, to_host
from gpower._utils.backends import as_native, back_to, beside_all, is_foreign, on_host
from gpower._utils.files import reading
from gpower._utils.frames import Frame, frame
from gpower._utils.text import listed, unique_names
from gpower.estimators.notebook import component_table
from gpower.estimators.outliers import Outlying
from gpower.io.model_file import ModelFileError, flattened, jsonable, read_object, require, require_shapes, write_model
from gpower.operators.explained_variance import (
    Scores,
    captured_variance,
    cosines,
    project,
    share_inside,
    shared_variables,
)
from gpower.solvers.component import Extraction
from gpower.validation.data import plain
from gpower.validation.imputation import fill_from
from gpower.validation.params import parameters_of
from gpower.validation.pipelines import FindsComponents
from gpower.validation.prepare import Prepared, read

#: Parameters of an estimator, or its fitted attributes, by name.
Named: TypeAlias = dict[str, Any]
#: What a file of a model must hold: components × variables.
_SHAPES = {"components_": "mn", "mean_": "n", "scale_": "n", "n_features_in_": ""}
_SHAPES |= dict.fromkeys(("cardinality_", "explained_variance_", "explained_variance_ratio_"), "m")
#: What it may hold.
_MAY = {"feature_names_in_": "n", "order_found_": "m"}


def _is_fitted(name: str) -> bool:
    """Whether an attribute is one that a fit makes, by scikit-learn's custom."""
    return name.endswith("_") and not name.startswith("_")


class PerAscent(np.ndarray):
    """One number per ascent; a comparison holds when it holds for all of them.

    scikit-learn's conventions ask for ``n_iter_ >= 1``, whose truth is that of every component.
    """

    def __bool__(self) -> bool:
        return bool(np.all(np.asarray(self)))

    def __repr__(self) -> str:
        return repr(np.asarray(self))


@dataclass(frozen=True, eq=False)
class Fit:
    """What a model stores of loadings found, in the units of the user."""

    components: Array  # (n_components, n_features)
    by_component: dict[str, Array]  # attributes with an entry per component or ascent
    common: Named  # attributes of the data
    own_variance: Array  # (n_components,), of each component on its own

    @property
    def attributes(self) -> Named:
        """All of them by name."""
        return {"components_": self.components} | self.by_component | self.common


def fit_of(prepared: Prepared, found: Extraction, *, sort: bool = False, in_order: bool = False) -> Fit:
    """What loadings explain.

    `sort` puts components of which none has a place of its own by decreasing adjusted variance; `in_order` adjusts
    variances in the order of the components, not of their variance.
    """
    operator, moments = prepared.operator, prepared.moments
    passes, scores = operator.passes, Scores.of(operator, found.Z)
    variances, total, order = scores.adjusted(in_order=in_order), operator.total_variance, np.arange(found.Z.shape[1])
    if sort and prepared.recipe.orders:
        order = np.argsort(-np.round(variances / max(variances.max(), np.finfo(float).tiny), 10), kind="stable")
        found, scores, variances = found.ordered(order), scores.ordered(order), variances[order]
    by_component = {
        "explained_variance_": variances / moments.degrees,
        "explained_variance_ratio_": variances / total if total > 0 else np.zeros_like(variances),
        "cardinality_": to_host(np.count_nonzero(found.Z, axis=0)),
        "gamma_": found.gamma,
        "objective_": found.objective,
        "optimality_gap_": found.gap,
        "n_iter_": found.n_iter.view(PerAscent),
        "converged_": found.converged,
        "order_found_": order,
        "score_covariance_": scores.gram / moments.degrees,
    }
    common = {
        "n_passes_": passes,
        "n_samples_": moments.weight,
        "mean_": moments.mean.astype(prepared.dtype),
        "scale_": moments.scale.astype(prepared.dtype),
        "notes_": np.array(prepared.notes, dtype=object),
        "overlap_": shared_variables(found.Z),
        "loading_correlation_": cosines(to_host(found.Z.T @ found.Z).astype(np.float64)),
        "score_correlation_": cosines(scores.gram),
    }
    return Fit(found.Z.T.astype(prepared.dtype), by_component, common, scores.variances / moments.degrees)


class SparsePCAEstimator(Outlying, FindsComponents, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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
    _sparsity_word: ClassVar[str | None] = "gamma"
    #: Whether the class itself says why a component has fewer variables than asked for.
    _explains_short: ClassVar[bool] = False

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
        return back_to(X)(project(native, *self._fitted_like(native)))

    def _fitted_like(self, X: Any) -> tuple[Array, Array, Array]:
        """Loadings (n_features, m), means and scales, where X is."""
        fitted = (self.components_, self.mean_, self.scale_)
        if all(isinstance(values, np.ndarray) for values in fitted) and not is_device(X):
            return self.components_.T, self.mean_, self.scale_
        components, mean, scale = (as_native(v) if is_device(X) else on_host(v) for v in fitted)
        return beside_all(X, components.T, mean, scale)

    def _read_samples(self, X: Any) -> Any:
        check_is_fitted(self)
        table = read(self, X, reset=False)
        X, impute = table.X, table.reading.missing == "impute" and not sp.issparse(table.X)
        table.finite(allow_nan=impute)
        return fill_from(X, *self._fitted_like(X)) if impute and np.isnan(np.sum(X)) else X

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
        scores = check_array(on_host(X) if is_foreign(X) else plain(X), dtype=(np.float64, np.float32))
        if scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"The scores have {scores.shape[1]} columns, but there are {self._n_features_out} components."
            )
        Z, mean, scale = self._fitted_like(scores)
        rcond = 1e2 * np.sqrt(np.finfo(Z.dtype).eps)
        data = scores @ np.linalg.pinv(Z.astype(np.float64), rcond=rcond) * scale + mean
        return back_to(X)(np.asarray(data, scores.dtype))

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
        if parameters_of(self).get("covariance") != "precomputed":
            return share_inside(X, *self._fitted_like(X))
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
        names, rows = self._variable_names(feature_names), on_host(self.components_)
        orders = (np.argsort(-np.abs(row), kind="stable")[: np.count_nonzero(row)] for row in rows)
        return [{names[j]: float(row[j]) for j in order} for row, order in zip(rows, orders, strict=True)]

    def _variable_names(self, feature_names: Sequence[str] | None) -> list[str]:
        """A name of its own for every variable: the given ones, those of the fitted frame, or x0, x1, …."""
        check_is_fitted(self)
        names = feature_names if feature_names is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.components_.shape[1])]
        if len(names) != self.components_.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} entries, but there are {self.components_.shape[1]} variables."
            )
        return unique_names([str(name) for name in names])

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
        names = self._variable_names(feature_names)
        rows = on_host(self.components_)
        kept = np.arange(rows.shape[1]) if all_variables else np.flatnonzero(rows.any(axis=0))
        columns = dict(zip(self.get_feature_names_out(), rows[:, kept], strict=True))
        return frame(columns, [names[j] for j in kept])

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
        write_model(path, {"class": type(self).__name__, "params": jsonable(params)}, flattened(self._fitted()))

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
        header, fitted = read_object(path, cls.__name__)
        require(path, header, {"params": dict})
        require_shapes(path, fitted, _SHAPES | {name: _MAY[name] for name in _MAY.keys() & fitted.keys()})
        with reading(lambda what: ModelFileError(f"{str(path)!r} is damaged: it makes no {cls.__name__} ({what}).")):
            odd = [name for name in fitted if not _is_fitted(name) or hasattr(cls, name)]
            if odd or fitted["n_features_in_"] != len(fitted["mean_"]):
                raise ValueError(f"no place for {listed(odd)}" if odd else f"n_features_in_={fitted['n_features_in_']}")
            model = cls(**header["params"])
            model._restore(fitted)
        return model

    def _fitted(self) -> Named:
        """The fitted attributes by name."""
        return {name: value for name, value in vars(self).items() if _is_fitted(name)}

    def _restore(self, fitted: Named) -> None:
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
        return str(super()._html_repr()) + (component_table(self) if hasattr(self, "components_") else "")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = parameters_of(self).get("missing") == "impute"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
