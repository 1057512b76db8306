"""Means, column norms and covariances of a matrix in memory, accurate and in bounded extra memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array
from gpower.operators.base import PassCounter

#: Elements of the blocks in which a dense matrix is centred: a buffer that stays in the cache.
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Moments:
    """What standardisation subtracts and divides by.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,)
        (x − mean)/scale; zeros and ones where switched off. A constant column has scale one.
    norms : ndarray of shape (n_features,)
        Norms of the standardised, weighted columns; exactly zero for a constant column.
    weight : float
        Number of samples, or the sum of their weights.
    """

    mean: Array
    scale: Array
    norms: Array
    weight: float

    @property
    def degrees(self) -> float:
        """Weight − 1, the divisor of variances; one where that would not be positive."""
        return self.weight - 1 if self.weight > 1 else 1.0

    def column_scale(self, dtype: np.dtype) -> Array | None:
        """1/scale, zero for constant columns whose rounding noise must not pass for data; None for all ones."""
        factor = np.where(self.norms > 0, 1 / self.scale, 0.0)
        return None if np.all(factor == 1) else factor.astype(dtype)

    def centring_loss(self, dtype: np.dtype) -> float:
        """Relative rounding error of a product that is centred afterwards."""
        varying = self.norms > 0
        offset = np.abs(self.mean[varying]) * np.sqrt(self.weight) / (self.norms * self.scale)[varying]
        return float(np.finfo(dtype).eps * np.max(offset, initial=0.0))


def moments(X: Any, center: bool, scale: bool, weight: Array | None, counter: PassCounter) -> Moments:
    """Means and norms of the columns in two passes (three with scaling of uncentred data)."""
    n = X.shape[1]
    total = float(X.shape[0] if weight is None else np.sum(weight, dtype=np.float64))
    mean = np.zeros(n)
    if center or scale:
        counter.add(1)
        mean = _weighted_sum(X, weight) / total
    counter.add(1)
    deviation = deviation_norms(X, mean, weight)
    if center:
        noise = 16 * np.finfo(X.dtype).eps * np.abs(mean) * np.sqrt(total)
        deviation = np.where(deviation <= noise, 0.0, deviation)
    spread = np.ones(n)
    if scale:
        spread = deviation / np.sqrt(max(total - 1, 1.0))
        spread = np.where(spread > 0, spread, 1.0)
    if not center and scale:
        counter.add(1)
        deviation, mean = deviation_norms(X, np.zeros(n), weight), np.zeros(n)
    return Moments(mean, spread, deviation / spread, total)


def _weighted_sum(X: Any, weight: Array | None) -> Array:
    """Σ wᵢ xᵢ in float64."""
    if weight is None and sp.issparse(X):
        return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    w = np.ones(X.shape[0], X.dtype) if weight is None else weight.astype(X.dtype)
    if X.dtype == np.float64 or sp.issparse(X):
        return np.asarray(w @ X, np.float64)
    blocks = [np.asarray(w[rows] @ X[rows], np.float64) for rows in _row_blocks(X, 64)]
    return np.asarray(np.sum(blocks, axis=0))


def deviation_norms(X: Any, mean: Array, weight: Array | None = None) -> Array:
    """‖√w∘(x − mean)‖ of every column, without cancellation."""
    if sp.issparse(X):
        return _sparse_deviation_norms(X, mean, weight)
    p, n = X.shape
    squares = np.zeros(n)
    shift = mean.astype(X.dtype)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        w = np.ones(p, X.dtype) if weight is None else weight.astype(X.dtype)
        step = max(1, BLOCK // p)
        for start in range(0, n, step):
            B = X[:, start : start + step] - shift[start : start + step]
            B *= B
            squares[start : start + step] = w @ B
        return np.sqrt(squares)
    for rows in _row_blocks(X):
        B = X[rows] - shift
        B *= B
        w = np.ones(B.shape[0], X.dtype) if weight is None else weight[rows].astype(X.dtype)
        squares += w @ B
    return np.sqrt(squares)


def _sparse_deviation_norms(X: Any, mean: Array, weight: Array | None) -> Array:
    """Stored entries deviate by x − m, all others by m."""
    p, n = X.shape
    coo_columns = X.indices if X.format == "csc" else None
    w = np.ones(p) if weight is None else weight.astype(np.float64)
    rows = X.indices if X.format == "csc" else np.repeat(np.arange(p), np.diff(X.indptr))
    cols = np.repeat(np.arange(n), np.diff(X.indptr)) if coo_columns is not None else X.indices
    stored_weight = np.bincount(cols, weights=w[rows], minlength=n)
    deviation = (X.data - mean[cols]) ** 2 * w[rows]
    inside = np.bincount(cols, weights=deviation, minlength=n)
    return np.asarray(np.sqrt(inside + np.maximum(w.sum() - stored_weight, 0) * mean**2))


def _row_blocks(X: Array, least: int = 1) -> Iterator[slice]:
    """Slices of rows of about `BLOCK` elements."""
    step = max(least, BLOCK // max(X.shape[1], 1), 1)
    for start in range(0, X.shape[0], step):
        yield slice(start, start + step)


def centred_gram(X: Any, mean: Array | None, weight: Array | None, counter: PassCounter) -> Array:
    """(X − mean)ᵀ diag(w) (X − mean), (n_features, n_features), in one pass."""
    counter.add(1)
    if sp.issparse(X):
        WX = X if weight is None else sp.diags_array(weight.astype(X.dtype)) @ X
        S = np.asarray((X.T @ WX).todense())
        if mean is not None:
            total = X.shape[0] if weight is None else float(np.sum(weight))
            S -= (total * np.outer(mean, mean)).astype(S.dtype)
        return S
    S = np.zeros((X.shape[1], X.shape[1]), np.float64)
    step = max(X.shape[1], 256)
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        B = X[rows] if mean is None else X[rows] - mean.astype(X.dtype)
        if weight is not None:
            B = np.sqrt(weight[rows]).astype(X.dtype)[:, None] * B
        S += B.T @ B
    return S.astype(X.dtype)
