"""Means and scales of standardisation, the digits that centring loses, and centred Gram matrices.

Data X, (n_samples, n_features), are standardised as (x − mean)/scale without being changed: products are centred
afterwards. That loses digits if a mean is much larger than the deviations from it, as two large numbers are
subtracted. Unless stated otherwise, arrays of length n_features are where X is, host or device, in float64; indices and
sample weights are on the host. Weights w are None for ones.

Terms: a `Container` X stores the data. ``compute_moments(w, total)`` of it returns means, ‖√w∘(x − mean)‖ of each
column, both (n_features,), and the number of passes; ``deviation_norms(mean, w)`` are such norms about any values;
``gram(mean, w, idx)`` is (X − mean)ᵀ diag(w) (X − mean) of the columns `idx` (None for all), with `mean` of these
columns alone, or None for zero, and w where X is; `is_sparse`; ``to_backend(v)``, which moves v to where X is. A
`PassCounter` has ``add(share)``. ``safe_reciprocal(v)`` is 1/v, and 0 where v is not positive; ``take_rows(v, idx)`` is
v[idx], where v is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array, safe_reciprocal, take_rows

if TYPE_CHECKING:
    from gpower.operators.base import PassCounter
    from gpower.operators.storage.base import Container

#: Rounding error of a mean, in units of the machine epsilon of float64, up to which a deviation is none.
MEAN_ROUNDING_IN_EPS = 16
#: Largest accepted relative rounding error of a centred column, below the square root of the precision of each dtype.
MAX_RELATIVE_ERROR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def find_cancelled(whole: Array, difference: Array, dtype: np.dtype) -> Array:
    """Return the mask, (n,), of differences, (n,), of numbers as large as `whole`, (n,), that lost too many digits.

    Both are non-negative, where X is. `dtype`, float32 or float64, is that in which the numbers were computed; digits
    are lost if its relative rounding error of `whole` is more than MAX_RELATIVE_ERROR of the difference. A difference
    that is NaN, or zero unless `whole` is, is lost.
    """
    return ~(MAX_RELATIVE_ERROR[dtype] * difference >= float(np.finfo(dtype).eps) * whole)


def compute_degrees_of_freedom(sample_weight: Array | None, n_samples: int) -> float:
    """Compute the divisor of variances, n − 1 or, for weighted samples, Σw − Σw²/Σw, without cancellation.

    Weights, (n_samples,) on the host, finite, non-negative and not all zero, measure the reliability of samples:
    rescaled weights give the same variances, and equal weights give the same variances as no weights. The result is
    zero for a single sample, or a single positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> compute_degrees_of_freedom(None, 5), compute_degrees_of_freedom(np.full(5, 0.25), 5) / 0.25
    (4.0, 4.0)
    """
    if sample_weight is None:
        return n_samples - 1.0
    before = np.cumsum(sample_weight, dtype=np.float64)
    return float(2 * (sample_weight[1:] @ before[:-1]) / before[-1])


@dataclass(frozen=True, eq=False)
class Moments:
    """Means, scales and column norms of standardised data, where the matrix is, on the host or a device.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,)
        Data are standardised as (x − mean)/scale. The means are zeros without centring and the scales are ones without
        scaling. A constant column has scale one.
    column_norms : ndarray of shape (n_features,)
        Norms of the standardised, weighted columns; exactly zero for a constant column.
    total_weight : float
        Number of samples, or the sum of their weights.
    degrees_of_freedom : float
        Divisor of variances, also in `scale`: n_samples − 1 or, for samples with weights w, Σw − Σw²/Σw. It is one for
        a single sample of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> _, moments = as_operator(np.array([[1.0, 2.0], [3.0, 2.0]]), center=True)
    >>> moments.mean, moments.column_norms.round(3)
    (array([2., 2.]), array([1.414, 0.   ]))
    """

    mean: Array
    scale: Array
    column_norms: Array
    total_weight: float
    degrees_of_freedom: float

    @classmethod
    def from_deviations(
        cls,
        mean: Array,
        deviation_norms: Array,
        total_weight: float,
        degrees_of_freedom: float,
        *,
        center: bool,
        scale: bool,
    ) -> Moments:
        """Create the moments from means and norms of the deviations; norms within rounding error become zero.

        Parameters
        ----------
        mean : ndarray of shape (n_features,)
            Weighted column means; zeros if they were not computed because neither `center` nor `scale` is set.
        deviation_norms : ndarray of shape (n_features,)
            ‖√w∘(x − mean)‖ of every column.
        total_weight, degrees_of_freedom : float
            As in the attributes; degrees of freedom of zero are replaced by one.
        center, scale : bool
            Without `center`, `column_norms` are those of the uncentred columns and `mean` becomes zero. `scale` is
            always the standard deviation about the mean.
        """
        degrees_of_freedom = degrees_of_freedom if degrees_of_freedom > 0 else 1.0
        eps = np.finfo(np.float64).eps  # sums are in float64
        rounding = MEAN_ROUNDING_IN_EPS * eps * np.abs(mean) * np.sqrt(total_weight)
        norms = np.where(deviation_norms <= rounding, 0.0, deviation_norms)
        scales = np.ones_like(norms)
        if scale:
            scales = np.where(norms > 0, norms / np.sqrt(degrees_of_freedom), 1.0)
        if not center and np.any(mean):
            norms = np.sqrt(norms**2 + total_weight * mean**2)
            mean = np.zeros_like(mean)
        return cls(mean, scales, norms / scales, total_weight, degrees_of_freedom)

    @property
    def offset_norms(self) -> Array:
        """Return the norms of the mean parts that centring removes, (n_features,)."""
        return np.abs(self.mean) * np.sqrt(self.total_weight)

    @property
    def deviation_norms(self) -> Array:
        """Return the norms of the centred, unscaled columns, (n_features,)."""
        return self.column_norms * self.scale

    def take(self, idx: Array) -> Moments:
        """Return the moments of the columns `idx`, (q,) of int on the host, in that order; the totals stay."""
        return replace(
            self,
            mean=take_rows(self.mean, idx),
            scale=take_rows(self.scale, idx),
            column_norms=take_rows(self.column_norms, idx),
        )

    def make_column_scale(self, dtype: np.dtype) -> Array | None:
        """Return 1/scale, (n_features,), where the moments are; None for all ones.

        It is in `dtype`, and zero for constant columns, so that rounding errors do not pass for data.
        """
        factor = np.where(self.column_norms > 0, 1 / self.scale, 0.0)
        return None if np.all(factor == 1) else factor.astype(dtype)

    def compute_centering_errors(self, dtype: np.dtype) -> Array:
        """Compute the relative rounding error of each column, (n_features,), if a product is centred afterwards.

        `dtype` is that of the product. Constant columns have zero.
        """
        return float(np.finfo(dtype).eps) * self.offset_norms * safe_reciprocal(self.deviation_norms)

    def find_cancelling_columns(self, dtype: np.dtype, power: int = 1) -> Array:
        """Return the mask of columns, (n_features,), that lose too many digits if a product is centred afterwards.

        `dtype` is that of the product, and `power` is 2 for Gram matrices, in which the mean enters squared, else 1.
        Constant columns are never in the mask.
        """
        deviation = self.deviation_norms
        return (deviation > 0) & find_cancelled(self.offset_norms**power, deviation**power, dtype)


def compute_container_moments(
    X: Container, center: bool, scale: bool, sample_weight: Array | None, counter: PassCounter
) -> Moments:
    """Compute means, scales and norms of the columns in one or two passes; columns that lost digits are read again.

    `sample_weight`, (n_samples,), is on the host, finite, non-negative and not all zero, or None; the moments are where
    X is, in float64. The passes are added to `counter`. Without centring and scaling the means are not computed: the
    norms are those of the columns themselves. Entries that are not finite make the norms of their columns not finite.
    """
    total = float(X.shape[0] if sample_weight is None else np.sum(sample_weight, dtype=np.float64))
    if center or scale:
        mean, deviation, reads = X.compute_moments(sample_weight, total)
    else:
        mean, reads = X.to_backend(np.zeros(X.shape[1])), 1.0
        deviation = X.deviation_norms(mean, sample_weight)
    counter.add(reads)
    return Moments.from_deviations(
        mean, deviation, total, compute_degrees_of_freedom(sample_weight, X.shape[0]), center=center, scale=scale
    )


def compute_centered_gram(
    X: Container, moments: Moments | None, sample_weight: Array | None, idx: Array | None = None
) -> Array:
    """Compute (X − mean)ᵀ diag(w) (X − mean) of all columns or of some, in one pass; without moments, XᵀWX.

    For sparse X it is computed as XᵀWX − Σw·mmᵀ, unless that cancels. Columns are not scaled.

    Parameters
    ----------
    X : Container of shape (n_samples, n_features)
    moments : Moments or None
        Moments of all columns, also with `idx`; the means are subtracted, and the total weight is that of the samples.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights w, non-negative, where X is, on the host or a device.
    idx : ndarray of int, optional
        Columns, on the host.

    Returns
    -------
    ndarray of shape (n_features, n_features) or (|idx|, |idx|)
        Where X is; in float64, or in the dtype of X if its product needs a single block.
    """
    if moments is None:
        return X.gram(None, sample_weight, idx)
    moments = moments if idx is None else moments.take(idx)
    if not X.is_sparse or moments.find_cancelling_columns(X.dtype, power=2).any():
        return X.gram(moments.mean, sample_weight, idx)
    return X.gram(None, sample_weight, idx) - moments.total_weight * np.outer(moments.mean, moments.mean)
