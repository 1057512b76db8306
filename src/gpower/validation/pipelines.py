"""Models inside scikit-learn pipelines: find the model, its data after the earlier steps, and its variable names."""

from __future__ import annotations

import reprlib
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array
from gpower.validation.checks import ComponentModelMixin


@dataclass(frozen=True, eq=False)
class UnwrappedModel:
    """A model that finds components, and the pipeline that ends with it, if it is a step of one.

    The model may also be any other object, such as loadings alone; only `unwrap_fitted` checks it. Models of this
    package are instances of `ComponentModelMixin`; fitted ones have `components_`, (n_components, n_features).

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
        """Return the model itself, or a copy of the last step of a pipeline that finds components, with names.

        A model that is not a pipeline is returned itself. The copy is shallow and shares its arrays; if it is fitted
        without names and the earlier steps can tell theirs, it gets `feature_names_in_`, (n_features,) of dtype object,
        which is not set on the user's model. Of several steps that find components the last counts, and steps after it
        are dropped from `pipeline`. Raise TypeError if the pipeline has no such step.
        """
        if not isinstance(model, Pipeline):
            return cls(model)
        positions = [j for j, (_, step) in enumerate(model.steps) if isinstance(step, ComponentModelMixin)]
        if not positions:
            steps = ", ".join(type(step).__name__ for _, step in model.steps)
            raise TypeError(f"The pipeline has no step of this package, only {steps}; pass a fitted GPower.")
        pipeline = model[: positions[-1] + 1]
        inner = copy(pipeline[-1])
        if len(pipeline) > 1 and hasattr(inner, "components_") and not hasattr(inner, "feature_names_in_"):
            with suppress(AttributeError, NotFittedError, ValueError):  # a step may have no names
                inner.feature_names_in_ = np.asarray(pipeline[:-1].get_feature_names_out(), dtype=object)
        return cls(inner, pipeline)

    @classmethod
    def unwrap_fitted(cls, model: Any) -> UnwrappedModel:
        """Return the unwrapped model, which has `components_`.

        Raise scikit-learn's NotFittedError for an estimator that is not fitted, and TypeError for any other object
        without `components_` and for a pipeline without a model of this package.
        """
        unwrapped = cls.unwrap(model)
        if isinstance(unwrapped.model, BaseEstimator):
            check_is_fitted(unwrapped.model)
        if not hasattr(unwrapped.model, "components_"):
            raise TypeError(
                f"{reprlib.repr(model)} is not a fitted model; pass one, such as GPower(2, cardinality=5).fit(X)."
            )
        return unwrapped

    def apply_earlier_steps(self, X: Any) -> Any:
        """Return X transformed by the steps before the model; X itself without a pipeline or earlier steps.

        X is what the pipeline takes, samples × variables; the steps must be fitted. The result is what the last of them
        returns, such as an array or a frame.
        """
        return X if self.pipeline is None or len(self.pipeline) == 1 else self.pipeline[:-1].transform(X)

    def compute_scores(self, X: Any) -> Array:
        """Return the scores of samples, (n_samples, n_components), by the steps up to the model, or by the model alone.

        X is what the pipeline takes, samples × variables; all steps must be fitted. The scores are a NumPy array, also
        if the model returns a frame.
        """
        return np.asarray((self.model if self.pipeline is None else self.pipeline).transform(X))
