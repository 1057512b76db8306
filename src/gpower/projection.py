"""Samples seen through loadings: their scores, and how much of their variance the span of the loadings holds."""

from __future__ import annotations

import numpy as np

from gpower._arrays import Array, is_device, to_host
from gpower.metrics import captured_variance
from gpower.operators import Table, container_of


def project(X: Table, Z: Array, mean: Array, scale: Array) -> Array:
    """Scores (X − mean)/scale @ Z, dense or sparse X, reading only the variables in use.

    Parameters
    ----------
    X : ndarray, sparse matrix or container of shape (n_samples, n_features)
    Z : ndarray of shape (n_features, m)
    mean, scale : ndarray of shape (n_features,)
    """
    return container_of(X).project((Z / scale[:, None]).astype(X.dtype), mean.astype(X.dtype))


def total_variance(X: Table, mean: Array, scale: Array) -> float:
    """‖(X − mean)/scale‖², entry by entry."""
    return float(np.sum((container_of(X).deviation_norms(mean) / scale) ** 2))


def _gram(scores: Array) -> Array:
    """Sums of squares and products of scores, in float64."""
    scores = scores.astype(np.float64) if is_device(scores) else np.asarray(scores, np.float64)
    return to_host(scores.T @ scores)


def share_inside(X: Table, Z: Array, mean: Array, scale: Array, total: float | None = None) -> float:
    """Share of the variance of X about `mean` inside the span of Z, between 0 and 1."""
    total = total_variance(X, mean, scale) if total is None else total
    return captured_variance(_gram(project(X, Z, mean, scale)), Z) / total if total > 0 else 0.0
