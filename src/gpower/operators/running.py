"""Mean and covariance of samples that come in batches, each seen once.

Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37, 242–247.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower._arrays import Array
from gpower.operators.base import PassCounter
from gpower.operators.blocks import BlockMatrix
from gpower.operators.in_memory import Covariance
from gpower.operators.moments import Moments, block_gram, centred_gram, column_moments

#: Where sparse products are centred afterwards the offset counts squared; this relative loss of digits is too much.
CANCELLING = 1e-9
#: Most variables of a stream: their covariance is kept in memory.
MOST_FEATURES = 10_000


@dataclass(frozen=True, eq=False)
class RunningMoments:
    """What is known of all samples so far.

    Attributes
    ----------
    weight : float
        Number of samples, or the sum of their weights.
    mean : ndarray of shape (n_features,)
    scatter : ndarray of shape (n_features, n_features)
        Σ w (x − mean)(x − mean)ᵀ, in float64.
    dtype : dtype
        Of the samples.
    """

    weight: float
    mean: Array
    scatter: Array
    dtype: np.dtype

    @classmethod
    def of(cls, X: Any, sample_weight: Array | None = None) -> RunningMoments:
        """The moments of one batch."""
        if isinstance(X, BlockMatrix) and X.axis == 1:
            X = X[:, np.arange(X.shape[1])]
        found = column_moments(X, True, False, sample_weight, PassCounter())
        scatter = _scatter(X, found, sample_weight)
        return cls(found.weight, found.mean, scatter, np.dtype(X.dtype))

    def merged(self, other: RunningMoments) -> RunningMoments:
        """Those of both, without either's samples.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[1.0], [2.0], [6.0]])
        >>> both = RunningMoments.of(X[:1]).merged(RunningMoments.of(X[1:]))
        >>> both.mean, both.scatter
        (array([3.]), array([[14.]]))
        """
        weight = self.weight + other.weight
        step = other.mean - self.mean
        mean = self.mean + step * (other.weight / weight)
        scatter = self.scatter + other.scatter + np.outer(step, step) * (self.weight * other.weight / weight)
        return RunningMoments(weight, mean, scatter, self.dtype)

    def operator(self, center: bool, scale: bool) -> tuple[Covariance, Moments]:
        """The matrix of all samples as its covariance, centred and scaled as asked."""
        square = self.scatter if center else self.scatter + self.weight * np.outer(self.mean, self.mean)
        deviation = np.sqrt(np.maximum(np.diagonal(self.scatter), 0))
        noise = 16 * np.finfo(np.float64).eps * np.abs(self.mean) * np.sqrt(self.weight)
        deviation = np.where(deviation <= noise, 0.0, deviation)
        spread = np.ones_like(deviation)
        if scale:
            spread = np.where(deviation > 0, deviation / np.sqrt(max(self.weight - 1, 1.0)), 1.0)
        norms = np.sqrt(np.maximum(np.diagonal(square), 0)) / spread
        norms = np.where(deviation > 0, norms, 0.0) if center else norms
        factor = np.where(norms > 0, 1 / spread, 0.0)
        S = (square * np.outer(factor, factor)).astype(self.dtype)
        mean = self.mean if center else np.zeros_like(self.mean)
        return Covariance(S), Moments(mean, spread, norms, self.weight)


def _scatter(X: Any, found: Moments, weight: Array | None) -> Array:
    """Sums of squares and products of deviations; sparse rows are dense, a few at a time, where offsets are large."""
    eps = np.finfo(np.float64).eps
    if sp.issparse(X) and np.any(found.centring_loss(np.dtype(np.float64)) ** 2 > CANCELLING * eps):
        return block_gram(X.tocsr(), found.mean, weight)
    return np.asarray(centred_gram(X, found.mean, weight, PassCounter()), np.float64)
