"""Models as users hold them: alone, or as a step of a scikit-learn pipeline, whose names come through."""

from __future__ import annotations

import reprlib
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array


class ComponentModelMixin:
    """Mark an estimator of this package, so that `UnwrappedModel` knows it among the steps of a pipeline."""


@dataclass(frozen=True, eq=False)
class UnwrappedModel:
    """A model that finds components, out of whatever a user holds it in, and the pipeline that ends with it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from gpower import GPower
    >>> pipeline = make_pipeline(StandardScaler(), GPower(1, cardinality=2))
    >>> pipeline = pipeline.fit(np.random.default_rng(0).standard_normal((20, 4)))
    >>> UnwrappedModel.unwrap(pipeline).model.n_components_
    1
    """

    model: Any
    pipeline: Pipeline | None = None

    @classmethod
    def unwrap(cls, model: Any) -> UnwrappedModel:
        """The model itself or, of a pipeline, its last step that finds components, with the names that it was given."""
        if not isinstance(model, Pipeline):
            return cls(model)
        at = [j for j, (_, step) in enumerate(model.steps) if isinstance(step, ComponentModelMixin)]
        if not at:
            steps = ", ".join(type(step).__name__ for _, step in model.steps)
            raise TypeError(f"The pipeline has no step of this package, only {steps}; pass a fitted GPower.")
        whole = model[: at[-1] + 1]
        inner = copy(whole[-1])
        if len(whole) > 1 and hasattr(inner, "components_") and not hasattr(inner, "feature_names_in_"):
            inner.feature_names_in_ = _get_pipeline_feature_names(whole[:-1], inner.n_features_in_)
        return cls(inner, whole)

    @classmethod
    def unwrap_fitted(cls, model: Any) -> UnwrappedModel:
        """The same, if it has components."""
        held = cls.unwrap(model)
        if isinstance(held.model, BaseEstimator):
            check_is_fitted(held.model)
        if not hasattr(held.model, "components_"):
            raise TypeError(
                f"{reprlib.repr(model)} is no fitted model; pass one, such as GPower(2, cardinality=5).fit(X)."
            )
        return held

    def apply_earlier_steps(self, X: Any) -> Any:
        """Data as the model itself sees them."""
        return X if self.pipeline is None or len(self.pipeline) == 1 else self.pipeline[:-1].transform(X)

    def compute_scores(self, X: Any) -> Array:
        """Scores of samples."""
        return np.asarray((self.model if self.pipeline is None else self.pipeline).transform(X))


def _get_pipeline_feature_names(earlier_steps: Pipeline, n_features: int) -> Array:
    """Names of variables after the steps of a pipeline, or x0, x1, … where a step does not tell."""
    try:
        return np.asarray(earlier_steps.get_feature_names_out(), dtype=object)
    except (AttributeError, NotFittedError, ValueError):
        return np.array([f"x{j}" for j in range(n_features)], dtype=object)
