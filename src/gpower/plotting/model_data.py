"""What figures read from a fitted model: loadings, scores, names of components, and the data as the fit saw them."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.text import format_percent
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators import Operator
from gpower.validation.prepare import read_estimator_input


class FittedModel(Protocol):
    """Fitted model with loadings, (n_components, n_features), explained variances and scores."""

    components_: Array
    explained_variance_ratio_: Array

    def transform(self, X: ArrayLike) -> Array:
        """Return the scores of the samples, (n_samples, n_components)."""


def prepare_operator(model: SparsePCAEstimator, X: ArrayLike) -> Operator:
    """Return the operator of samples or of a covariance, centred and scaled as in the fit of the model."""
    return read_estimator_input(model, X, reset=False).fill_missing(len(model.components_)).prepare().operator


def format_component_label(model: FittedModel, j: int) -> str:
    """Return the label of component j with its share of the variance."""
    return f"Component {j + 1} · {format_percent(model.explained_variance_ratio_[j])} of variance"


def check_component_pair(components: tuple[int, int], n_components: int) -> list[int]:
    """Return the indices of two different components; raise ValueError if they are not."""
    pair = list(components)
    if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= j < n_components for j in pair):
        raise ValueError(
            f"components={components!r}: give two different ones of the model's {n_components}, counted from 0"
            + (f"; fit one with {format_param('n_components', 2)} or more." if n_components < 2 else ".")
        )
    return pair
