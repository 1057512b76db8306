"""Mean and covariance of samples that come in batches, each seen once.

Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37, 242–247.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators import Table, container_of
from gpower.operators.base import PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import scaled
from gpower.operators.moments import Moments, centred_gram, column_moments, degrees_of
from gpower.operators.storage.base import Container

#: Most variables of a stream: their covariance is kept in memory.
MOST_FEATURES = 10_000
#: Share of a sum of squares, in units of rounding, below which what a subtraction left of it is none.
NOISE = 64


@dataclass(frozen=True, eq=False)
class RunningMoments:
    """What is known of all samples so far.

    Attributes
    ----------
    weight : float
        Number of samples, or the sum of their weights.
    degrees : float
        Divisor of variances, as in `Moments`; zero of a single sample.
    mean : ndarray of shape (n_features,)
    scatter : ndarray of shape (n_features, n_features)
        Σ w (x − mean)(x − mean)ᵀ, in float64.
    dtype : dtype
        Of the samples.
    """

    weight: float
    degrees: float
    mean: Array
    scatter: Array
    dtype: np.dtype

    @classmethod
    def of(cls, X: Table, sample_weight: Array | None = None) -> RunningMoments:
        """The moments of one batch."""
        batch = container_of(X).prepared(False)
        found = column_moments(batch, True, False, sample_weight, PassCounter())
        scatter = np.asarray(centred_gram(batch, found, sample_weight), np.float64)
        return cls(found.weight, degrees_of(sample_weight, batch.shape[0]), found.mean, scatter, np.dtype(batch.dtype))

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
        pairs = self.degrees * self.weight + other.degrees * other.weight + 2 * self.weight * other.weight
        return RunningMoments(weight, pairs / weight, mean, scatter, self.dtype)

    @property
    def spread(self) -> Array:
        """Σ w (x − mean)² of every variable."""
        return np.maximum(np.diagonal(self.scatter), 0)

    def products(self, T: Array, center: Array) -> Array:
        """Inner products of the scores (x − center) T, (m, m)."""
        offset = (self.mean - center) @ T
        return np.asarray(T.T @ (self.scatter @ T) + self.weight * np.outer(offset, offset))

    def in_double(self) -> RunningMoments:
        """The same, whose operator is in float64."""
        return replace(self, dtype=np.dtype(np.float64))

    def operator(self, center: bool, scale: bool) -> tuple[Covariance, Moments]:
        """The matrix of all samples as its covariance, centred and scaled as asked."""
        moments = Moments.standard(
            self.mean, np.sqrt(self.spread), self.weight, self.degrees, center=center, scale=scale
        )
        S = self.scatter if center else self.scatter + self.weight * np.outer(self.mean, self.mean)
        factor = moments.column_scale(np.dtype(np.float64))
        return Covariance((S if factor is None else scaled(S, factor)).astype(self.dtype)), moments


def moments_by_part(X: Container, moments: Moments, part: Array, count: int) -> list[RunningMoments]:
    """Those of each part of the samples, in one read; `moments` are those of all of them."""
    lossy = moments.cancels(X.dtype, power=2) | ((moments.norms == 0) & (moments.mean != 0))
    center = None if X.is_sparse and not lossy.any() else moments.mean.astype(X.dtype)
    sums = X.sums_by_part(center, part, count)
    return [_about(center, int(np.sum(part == i)), sums[i], X.dtype) for i in range(count)]


def _about(center: Array | None, size: int, sums: Array, dtype: np.dtype) -> RunningMoments:
    """From sums and products of the deviations from `center`, (1 + n, n); a variable that does not vary has none."""
    total, scatter = sums[0], sums[1:]
    squares = np.diagonal(scatter).copy()
    scatter -= np.outer(total, total / size)
    still = np.diagonal(scatter) <= NOISE * np.finfo(dtype).eps * squares
    scatter[still], scatter[:, still] = 0, 0
    mean = total / size if center is None else center + total / size
    return RunningMoments(float(size), size - 1.0, mean, scatter, np.dtype(dtype))
