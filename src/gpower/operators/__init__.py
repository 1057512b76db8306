"""The matrix, seen only through products. `as_operator` is the only place that looks at the type of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array, beside, is_device, largest
from gpower.operators.base import ClosedCounter, Operator, PassCounter, Restriction
from gpower.operators.blocks import BlockMatrix, less
from gpower.operators.in_memory import GRAMS_AT_ONCE, Covariance, DataMatrix
from gpower.operators.moments import Moments, centred_gram, column_moments

__all__ = [
    "BlockMatrix",
    "Covariance",
    "DataMatrix",
    "Moments",
    "Operator",
    "PassCounter",
    "Restriction",
    "as_operator",
]

#: Implicit centring loses eps·‖offset‖/‖deviation‖; beyond this relative error a centred copy is made.
CENTRING_LOSS = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def as_operator(
    X: Any,
    *,
    center: bool = True,
    scale: bool = False,
    sample_weight: Array | None = None,
    covariance: bool = False,
    reduce: bool = True,
    double_sums: bool = False,
) -> tuple[Operator, Moments]:
    """A data matrix or a covariance as an operator, and the means and scales that it applies.

    Parameters
    ----------
    X : ndarray or scipy.sparse array, float32 or float64
        Samples × variables, or a covariance matrix with `covariance=True`. Never copied or changed, except
        that a column offset so large that implicit centring would lose digits makes a centred copy.
    center, scale : bool
        Subtract the (weighted) means; divide by the (weighted) standard deviations.
    sample_weight : ndarray of shape (n_samples,), optional
        Non-negative weights; A has rows √wᵢ xᵢ.
    covariance : bool
        X is AᵀA.
    reduce : bool
        Tall data (twice as many samples as variables or more) are replaced by their covariance, on which
        the ℓ2 problem depends alone.
    double_sums : bool
        Sum products with float32 data in float64; sums over blocks always are.

    Examples
    --------
    >>> import numpy as np
    >>> operator, moments = as_operator(np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]))
    >>> operator.correlate(np.array([[-1.0], [1.0]])).ravel(), moments.mean
    (array([2., 2., 1.]), array([2. , 3. , 0.5]))
    """
    if covariance:
        n = X.shape[0]
        return Covariance(X), Moments(np.zeros(n), np.ones(n), np.sqrt(np.diagonal(X).clip(0)), 1.0)
    if sp.issparse(X) and not X.has_canonical_format:  # an entry stored in parts counts as their sum
        X = X.copy()
        X.sum_duplicates()
    counter = PassCounter()
    found = column_moments(X, center, scale, sample_weight, counter)
    row_scale = None if sample_weight is None else np.sqrt(sample_weight).astype(X.dtype)
    if is_device(X) and row_scale is not None:
        row_scale = beside(X, row_scale)
    column_scale = found.column_scale(X.dtype)
    q, mean = None, None
    if center:
        r = _ones(X) if row_scale is None else row_scale
        q = r / np.sqrt(np.sum(r * r))
        X, mean = _without_large_offsets(X, found)
    if reduce and _is_tall(X) and not (center and sp.issparse(X) and _cancels(found, X.dtype)):
        S = centred_gram(X, mean, sample_weight, counter, double_sums)
        if column_scale is not None:
            S *= column_scale[:, None] * column_scale
        return Covariance(S, counter=ClosedCounter(counter.total) if isinstance(X, BlockMatrix) else counter), found
    norms = found.norms.astype(X.dtype)
    double_sums = double_sums and X.dtype == np.float32 and not isinstance(X, BlockMatrix)
    loss = largest(replace(found, mean=mean).centring_loss(X.dtype)) if mean is not None else 0.0
    return DataMatrix(X, norms, q, row_scale, column_scale, mean, loss, double_sums, counter=counter), found


def _without_large_offsets(X: Any, found: Moments) -> tuple[Any, Array]:
    """X less the means of the columns that implicit centring would lose digits of, and the means that remain."""
    shift = np.where(found.centring_loss(X.dtype) > CENTRING_LOSS[X.dtype], found.mean, 0.0)
    if not shift.any():
        return X, found.mean
    return X.shifted(shift) if isinstance(X, BlockMatrix) else less(X, shift), found.mean - shift


def _cancels(found: Moments, dtype: np.dtype) -> bool:
    """Whether XᵀX − W mmᵀ of sparse data, centred afterwards, loses digits: the offset counts squared."""
    eps = float(np.finfo(dtype).eps)
    return bool(np.max(found.centring_loss(dtype) ** 2) > CENTRING_LOSS[dtype] * eps)


def _ones(X: Any) -> Array:
    """A one for every sample, where the data are."""
    shape = (X.shape[0],)
    return np.ones_like(X, shape=shape) if is_device(X) else np.ones(shape, X.dtype)


def _is_tall(X: Any) -> bool:
    """Whether the covariance takes at most half the room of the data, or little of the memory granted to blocks."""
    p, n = X.shape
    if is_device(X):
        return False
    if isinstance(X, BlockMatrix):
        return X.axis == 0 and 2 * n <= p and 8 * n * n <= X.memory_limit / GRAMS_AT_ONCE
    return bool(n * n < X.nnz if sp.issparse(X) else 2 * n <= p)
