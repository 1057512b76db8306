"""Mean and covariance of samples that arrive in batches, each batch read once.

Samples have n_features variables, c are further columns. Means, scatter matrices and sums are NumPy arrays in float64
on the host; a container X, (n_samples, n_features), may be anywhere, and X.dtype is that of its entries.

Terms: `Moments` have `mean`, `scale` and `column_norms`, (n_features,), in float64, `total_weight` and
`degrees_of_freedom`; the norms are those of the standardised columns, exactly zero for constant ones;
``make_column_scale(dtype)`` is 1/scale, zero for constant columns, or None for ones; ``find_cancelling_columns(dtype,
power=2)`` is the mask, (n_features,), of columns whose Gram matrix loses digits if it is centred afterwards.
``compute_container_moments(X, center, scale, w, counter)`` computes them, and ``compute_centered_gram(X, moments, w)``
is (X − mean)ᵀ diag(w) (X − mean). A `Container` has ``transposed_times(Y)``, XᵀY; ``to_backend(v)``, which moves an
array to where X is; and ``shifted_sums_by_part(center, part, n_parts)``, (n_parts, 1 + n, n), float64 on the host: for
every part Σ(x − center) in the first row and Σ(x − center)(x − center)ᵀ below, with None for zero. A `Covariance` is
the operator of a matrix AᵀA. ``scale_rows_and_columns(S, s)`` is diag(s) S diag(s), a new array. ``as_container(X)``
wraps a matrix, and ``prepare(False)`` of it is the container for a fit; ``to_host(v)`` is v as a NumPy array.
``compute_degrees_of_freedom(w, n_samples)`` is the divisor of variances, and ``Moments.from_deviations`` makes moments
from means and norms of the deviations, of which those that are rounding errors become zero.

Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37, 242–247.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, to_host
from gpower.operators import MatrixLike, as_container
from gpower.operators.base import PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import scale_rows_and_columns
from gpower.operators.moments import (
    Moments,
    compute_centered_gram,
    compute_container_moments,
    compute_degrees_of_freedom,
)
from gpower.operators.storage.base import Container

#: Largest number of variables for batches of samples: the covariance is kept in memory, here 800 MB in float64.
MAX_STREAM_FEATURES = 10_000
#: Share of a sum of squares, in units of the machine epsilon, below which the rest of a subtraction counts as zero.
MIN_SCATTER_IN_EPS = 64


@dataclass(frozen=True, eq=False)
class RunningMoments:
    """Mean and scatter matrix of all samples so far.

    Attributes
    ----------
    total_weight : float
        Number of samples, or the sum of their weights.
    degrees_of_freedom : float
        Divisor of variances, as in `Moments`, but zero for a single sample.
    mean : ndarray of shape (n_features,)
        Weighted mean, in float64, on the host.
    scatter : ndarray of shape (n_features, n_features)
        Σ w (x − mean)(x − mean)ᵀ, in float64, on the host.
    dtype : dtype
        Type of the samples, and of the operator that is made of them.
    """

    total_weight: float
    degrees_of_freedom: float
    mean: Array
    scatter: Array
    dtype: np.dtype

    @classmethod
    def from_batch(cls, X: MatrixLike, sample_weight: Array | None = None) -> RunningMoments:
        """Compute the moments of one batch on the host, with weights of shape (n_samples,) or none.

        X is a NumPy array, a SciPy sparse matrix, or a container whose arrays are on the host, float32 or float64, with
        a sample; its dtype is that of the result. Weights are finite, non-negative and not all zero. Entries that are
        not finite give moments that are not.
        """
        batch = as_container(X).prepare(False)
        moments = compute_container_moments(batch, True, False, sample_weight, PassCounter())
        scatter = np.asarray(compute_centered_gram(batch, moments, sample_weight), np.float64)
        degrees_of_freedom = compute_degrees_of_freedom(sample_weight, batch.shape[0])
        return cls(moments.total_weight, degrees_of_freedom, moments.mean, scatter, np.dtype(batch.dtype))

    def merge(self, other: RunningMoments) -> RunningMoments:
        """Return the moments of the samples of both, without reading any sample again; the dtype is that of `self`.

        `other` is of the same variables. Neither is changed.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[1.0], [2.0], [6.0]])
        >>> both = RunningMoments.from_batch(X[:1]).merge(RunningMoments.from_batch(X[1:]))
        >>> both.mean, both.scatter
        (array([3.]), array([[14.]]))
        """
        v, w = self.total_weight, other.total_weight
        step = other.mean - self.mean
        mean = self.mean + step * (w / (v + w))
        scatter = self.scatter + other.scatter + np.outer(step, step) * (v * w / (v + w))
        pair_weight = self.degrees_of_freedom * v + other.degrees_of_freedom * w + 2 * v * w  # 2 Σ wᵢwⱼ over i < j
        return RunningMoments(v + w, pair_weight / (v + w), mean, scatter, self.dtype)

    @property
    def squared_deviations(self) -> Array:
        """Return Σ w (x − mean)² of every variable, (n_features,), at least zero."""
        return np.maximum(np.diagonal(self.scatter), 0)

    def compute_score_gram(self, loadings: Array, center: Array) -> Array:
        """Compute the inner products of the scores (x − center) Z, (m, m), for loadings Z of shape (n_features, m).

        `center`, (n_features,), need not be the mean. The inner products are weighted sums over all samples, in float64
        on the host, where both arguments are.
        """
        offset = (self.mean - center) @ loadings
        return np.asarray(loadings.T @ (self.scatter @ loadings) + self.total_weight * np.outer(offset, offset))

    def to_float64(self) -> RunningMoments:
        """Return these moments with float64 as `dtype`, that of the operator made of them."""
        return replace(self, dtype=np.dtype(np.float64))

    def to_operator(self, center: bool, scale: bool) -> tuple[Covariance, Moments]:
        """Return the operator of all samples, centred and scaled as requested, and its moments.

        The operator is a `Covariance` of the scatter, a weighted sum that is not divided by the degrees of freedom, in
        `dtype`. Rows and columns of variables whose norm is zero up to rounding are exactly zero in it.
        """
        moments = Moments.from_deviations(
            self.mean,
            np.sqrt(self.squared_deviations),
            self.total_weight,
            self.degrees_of_freedom,
            center=center,
            scale=scale,
        )
        S = self.scatter if center else self.scatter + self.total_weight * np.outer(self.mean, self.mean)
        factor = moments.make_column_scale(np.dtype(np.float64))
        return Covariance((S if factor is None else scale_rows_and_columns(S, factor)).astype(self.dtype)), moments


def compute_moments_by_part(X: Container, moments: Moments, part: Array, n_parts: int) -> list[RunningMoments]:
    """Compute the moments of each part of the samples in one pass.

    Samples are not weighted. Sample i belongs to part `part[i]`, 0 ≤ part[i] < n_parts; `part`, (n_samples,), is on the
    host, and every part has a sample. `moments` are those of all samples, centred and not scaled: sums are taken about
    their means unless X is sparse and no digits would be lost. The result has part i at index i, with the dtype of X.
    """
    lossy = moments.find_cancelling_columns(X.dtype, power=2) | ((moments.column_norms == 0) & (moments.mean != 0))
    center = None if X.is_sparse and not lossy.any() else moments.mean.astype(X.dtype)
    sums = X.shifted_sums_by_part(center, part, n_parts)
    return [_moments_from_shifted_sums(center, int(np.sum(part == i)), sums[i], X.dtype) for i in range(n_parts)]


def append_columns(moments: Sequence[RunningMoments], X: Container, C: Array, part: Array) -> list[RunningMoments]:
    """Return the moments of X and further columns C, (n_samples, c), given those of every part of X, in one pass.

    `part`, (n_samples,) of int on the host, has the part of every sample, from 0, and `moments` those of each part of
    X, without weights; neither is changed. C is in float64 on the host. The columns of C follow those of X; products of
    both are computed in the dtype of X.
    """
    n_parts, c = len(moments), C.shape[1]
    means = np.array([C[part == i].mean(axis=0) for i in range(n_parts)])
    deviations = C - means[part]
    by_part = (part[:, None] == np.arange(n_parts))[:, :, None] * deviations[:, None]  # (n_samples, n_parts, c)
    products = X.transposed_times(X.to_backend(by_part.reshape(len(C), n_parts * c).astype(X.dtype)))
    cross = to_host(products).astype(np.float64).reshape(-1, n_parts, c)
    grams = [deviations[part == i].T @ deviations[part == i] for i in range(n_parts)]
    return [
        replace(
            each,
            mean=np.concatenate([each.mean, means[i]]),
            scatter=np.block([[each.scatter, cross[:, i]], [cross[:, i].T, grams[i]]]),
        )
        for i, each in enumerate(moments)
    ]


def _moments_from_shifted_sums(center: Array | None, n_samples: int, sums: Array, dtype: np.dtype) -> RunningMoments:
    """Return the moments of `n_samples` > 0 samples from sums of deviations x − center and of their products.

    `sums`, (1 + n, n), float64 on the host, contains Σ(x − center) in its first row and Σ(x − center)(x − center)ᵀ
    below. It is overwritten. `center`, (n,), is None for zero. The scatter of a variable that is constant up to the
    rounding of `dtype`, the type of the samples, is exactly zero.
    """
    total, scatter = sums[0], sums[1:]
    squares = np.diagonal(scatter).copy()
    scatter -= np.outer(total, total / n_samples)
    constant = np.diagonal(scatter) <= MIN_SCATTER_IN_EPS * np.finfo(dtype).eps * squares
    scatter[constant] = 0
    scatter[:, constant] = 0
    mean = total / n_samples if center is None else center + total / n_samples
    return RunningMoments(float(n_samples), n_samples - 1.0, mean, scatter, np.dtype(dtype))
