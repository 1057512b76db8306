"""What every sparse-PCA model does once its loadings are known: transform, invert, score, name, save, load."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from gpower._arrays import Array
from gpower.inputs import check_finite, check_table
from gpower.metrics import captured_variance
from gpower.operators.moments import deviation_norms
from gpower.persistence import read_model, write_model

#: Samples that `transform` centres at once.
ROWS = 1024


class PerAscent(np.ndarray):
    """One number per ascent; a comparison holds when it holds for all of them.

    scikit-learn's conventions ask for ``n_iter_ >= 1``, whose truth is that of every component.
    """

    def __bool__(self) -> bool:
        return bool(np.all(np.asarray(self)))

    def __repr__(self) -> str:
        return repr(np.asarray(self))


class SparsePCAEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What every sparse-PCA model does once its loadings are known: transform, invert, score, save, load."""

    components_: Array
    mean_: Array
    scale_: Array

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> Array:
        """Scores ``(X − mean_)/scale_ @ components_.T``.

        A model of a precomputed covariance knows no means and scales: centre and scale X yourself.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        X = self._checked(X)
        return self._project(X)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        check_finite(X, getattr(self, "feature_names_in_", None))
        return X

    def _project(self, X: Any) -> Array:
        loadings = (self.components_.T / self.scale_[:, None]).astype(X.dtype)  # (n_features, m)
        mean = self.mean_.astype(X.dtype)
        if sp.issparse(X):
            return np.asarray(X @ loadings - mean @ loadings)
        used = np.flatnonzero(np.any(loadings, axis=1))
        scores = np.empty((X.shape[0], loadings.shape[1]), X.dtype)
        for start in range(0, X.shape[0], ROWS):  # the variables in use, centred a block of samples at a time
            rows = slice(start, start + ROWS)
            scores[rows] = (X[rows][:, used] - mean[used]) @ loadings[used]
        return scores

    def inverse_transform(self, X: Any) -> Array:
        """Data of the given scores with the least squares: the components are not orthogonal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as from `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=(np.float64, np.float32))
        if scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"The scores have {scores.shape[1]} columns, but there are {self._n_features_out} components."
            )
        W = self.components_.astype(np.float64)
        rcond = 1e2 * np.sqrt(np.finfo(self.components_.dtype).eps)
        data = scores @ np.linalg.pinv(W.T, rcond=rcond) * self.scale_ + self.mean_
        return np.asarray(data, scores.dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """Share of the variance of X inside the span of the components, between 0 and 1.

        What is lost when X is projected on the components. `explained_variance_ratio_` counts instead the
        variance of the scores, each only as far as it is uncorrelated with the others: the smaller of the two.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New data; with ``covariance="precomputed"`` a covariance matrix.
        y : ignored
        """
        X = self._checked(X)
        Z = self.components_.T.astype(np.float64)
        if getattr(self, "covariance", None) == "precomputed":
            gram, total = Z.T @ (X @ Z), float(np.trace(X))
        else:
            scores = self._project(X).astype(np.float64)
            gram = scores.T @ scores
            total = float(np.sum((deviation_norms(X, self.mean_) / self.scale_) ** 2))
        return captured_variance(gram, Z) / total if total > 0 else 0.0

    def loadings(self, feature_names: Sequence[str] | None = None) -> list[dict[str, float]]:
        """The variables of each component by name, the largest absolute loading first.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names of all variables; by default those of the fitted frame, or x0, x1, ….

        Returns
        -------
        list of dict
            One per component: name → loading, non-zero ones only.
        """
        check_is_fitted(self)
        names = feature_names if feature_names is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.components_.shape[1])]
        if len(set(map(str, names))) < len(names):
            raise ValueError(
                "feature_names repeats a name, so loadings by name would drop variables; make them unique."
            )
        if len(names) != self.components_.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} entries, but there are {self.components_.shape[1]} variables."
            )
        orders = (np.argsort(-np.abs(row), kind="stable")[: np.count_nonzero(row)] for row in self.components_)
        return [
            {str(names[j]): float(row[j]) for j in order} for row, order in zip(self.components_, orders, strict=True)
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that needs no pickle to read.

        Parameters
        ----------
        path : str or path
            Conventionally ending in ``.npz``. Callbacks and random generators are not saved.
        """
        check_is_fitted(self)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}
        params = {k: v for k, v in self.get_params(deep=False).items() if not callable(v)}
        params = {
            k: None if isinstance(v, (np.random.RandomState, np.random.Generator)) else v for k, v in params.items()
        }
        arrays = {
            name: np.asarray(value).astype(str) if np.asarray(value).dtype == object else np.asarray(value)
            for name, value in fitted.items()
        }
        write_model(path, {"class": type(self).__name__, "params": _jsonable(params)}, arrays)

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
        header, arrays = read_model(path)
        if header["class"] != cls.__name__:
            raise ValueError(f"{str(path)!r} holds a {header['class']}, not a {cls.__name__}; load it with that class.")
        model = cls(**header["params"])
        for name, value in arrays.items():
            setattr(
                model,
                name,
                value.item() if value.ndim == 0 else value.astype(object) if value.dtype.kind == "U" else value,
            )
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _jsonable(value: Any) -> Any:
    """Parameters as JSON holds them."""
    if isinstance(value, dict):
        return {k: _jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
