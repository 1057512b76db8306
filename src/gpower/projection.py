"""Samples seen through loadings: their scores, and how much of their variance the span of the loadings holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, is_device, to_host
from gpower.metrics import captured_variance
from gpower.operators import BlockMatrix
from gpower.operators.blocks import bad_place, not_finite
from gpower.operators.distributed import DaskMatrix
from gpower.operators.moments import deviation_norms

#: Samples that are centred at once.
ROWS = 1024


def project(X: Any, Z: Array, mean: Array, scale: Array) -> Array:
    """Scores (X − mean)/scale @ Z, dense or sparse X, reading only the variables in use.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
    Z : ndarray of shape (n_features, m)
    mean, scale : ndarray of shape (n_features,)
    """
    loadings = (Z / scale[:, None]).astype(X.dtype)
    mean = mean.astype(X.dtype)
    if isinstance(X, DaskMatrix):
        return X.lazily(_projected, loadings, mean)
    if isinstance(X, BlockMatrix) and X.axis == 0:
        return _projected_rows(X, loadings, mean)
    return _projected(X, loadings, mean)


def _projected_rows(X: BlockMatrix, loadings: Array, mean: Array) -> Array:
    """The same of blocks of rows, which are looked through for holes in the same read."""
    found = X.pieces(_projected_and_checked, X.shares(loadings, mean))
    for part, (_, place) in zip(X.slices(), found, strict=True):
        if place is not None:
            raise not_finite(place[0] + part.start, place[1])
    return np.concatenate([scores for scores, _ in found])


def _projected_and_checked(block: Any, loadings: Array, mean: Array) -> tuple[Array, tuple[int, int] | None]:
    """Scores of a block, and where it holds the first value that is not finite."""
    with np.errstate(all="ignore"):
        return _projected(block, loadings, mean), bad_place(block)


def _projected(X: Any, loadings: Array, mean: Array) -> Array:
    """(X − mean) @ loadings."""
    if sp.issparse(X) or isinstance(X, BlockMatrix):
        return np.asarray(X @ loadings - mean @ loadings)
    used = np.flatnonzero(np.any(loadings, axis=1))
    if is_device(X):
        return (X[:, used] - mean[used]) @ loadings[used]
    scores = np.empty((X.shape[0], loadings.shape[1]), X.dtype)
    for start in range(0, X.shape[0], ROWS):  # the variables in use, centred a block of samples at a time
        rows = slice(start, start + ROWS)
        scores[rows] = (X[rows][:, used] - mean[used]) @ loadings[used]
    return scores


def total_variance(X: Any, mean: Array, scale: Array) -> float:
    """‖(X − mean)/scale‖², entry by entry."""
    return float(np.sum((deviation_norms(X, mean) / scale) ** 2))


def _gram(scores: Array) -> Array:
    """Sums of squares and products of scores, in float64."""
    scores = scores.astype(np.float64) if is_device(scores) else np.asarray(scores, np.float64)
    return to_host(scores.T @ scores)


def share_inside(X: Any, Z: Array, mean: Array, scale: Array, total: float | None = None) -> float:
    """Share of the variance of X about `mean` inside the span of Z, between 0 and 1."""
    total = total_variance(X, mean, scale) if total is None else total
    return captured_variance(_gram(project(X, Z, mean, scale)), Z) / total if total > 0 else 0.0
