"""What standardisation subtracts and divides by, and what that costs in digits; the one builder of Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array, safe_reciprocal, take_rows

if TYPE_CHECKING:
    from gpower.operators.base import PassCounter
    from gpower.operators.storage.base import Container

#: Relative rounding error that is borne of what centring leaves.
MAX_RELATIVE_ERROR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def find_cancelled(whole: Array, difference: Array, dtype: np.dtype) -> Array:
    """Where differences `kept` of numbers as large as `whole` have lost more digits than are borne."""
    return ~(MAX_RELATIVE_ERROR[dtype] * difference >= float(np.finfo(dtype).eps) * whole)


def compute_degrees_of_freedom(sample_weight: Array | None, n_samples: int) -> float:
    """The divisor of variances: n − 1 or, of weighted samples, Σw − Σw²/Σw, without cancellation.

    Weights say how reliable a sample is: those of another sum give the same variances, and of equal weights it is that
    of none.

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
    """What standardisation subtracts and divides by.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,)
        (x − mean)/scale; zeros and ones where switched off. A constant column has scale one.
    column_norms : ndarray of shape (n_features,)
        Norms of the standardised, weighted columns; exactly zero for a constant column.
    total_weight : float
        Number of samples, or the sum of their weights.
    degrees_of_freedom : float
        Divisor of variances, of `scale` too: n_samples − 1 or, of samples with weights w, Σw − Σw²/Σw. One where a
        single sample counts.

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
        """From the means and the norms of the deviations from them; a norm below the rounding of sums is zero."""
        degrees_of_freedom = degrees_of_freedom if degrees_of_freedom > 0 else 1.0
        noise = 16 * np.finfo(np.float64).eps * np.abs(mean) * np.sqrt(total_weight)  # of sums, which are in float64
        deviation_norms = np.where(deviation_norms <= noise, 0.0, deviation_norms)
        spread = np.ones_like(deviation_norms)
        if scale:
            spread = np.where(deviation_norms > 0, deviation_norms / np.sqrt(degrees_of_freedom), 1.0)
        if not center and np.any(mean):
            deviation_norms, mean = np.sqrt(deviation_norms**2 + total_weight * mean**2), np.zeros_like(mean)
        return cls(mean, spread, deviation_norms / spread, total_weight, degrees_of_freedom)

    @property
    def offset_norms(self) -> Array:
        """Norms of what centring removes, (n_features,)."""
        return np.abs(self.mean) * np.sqrt(self.total_weight)

    @property
    def deviation_norms(self) -> Array:
        """Norms of what centring leaves, (n_features,)."""
        return self.column_norms * self.scale

    def take(self, idx: Array) -> Moments:
        """Those of some columns."""
        return replace(
            self,
            mean=take_rows(self.mean, idx),
            scale=take_rows(self.scale, idx),
            column_norms=take_rows(self.column_norms, idx),
        )

    def make_column_scale(self, dtype: np.dtype) -> Array | None:
        """1/scale, zero for constant columns whose rounding noise must not pass for data; None for all ones."""
        factor = np.where(self.column_norms > 0, 1 / self.scale, 0.0)
        return None if np.all(factor == 1) else factor.astype(dtype)

    def compute_centering_errors(self, dtype: np.dtype) -> Array:
        """Relative rounding error of each column, (n_features,), in a product that is centred afterwards."""
        return float(np.finfo(dtype).eps) * self.offset_norms * safe_reciprocal(self.deviation_norms)

    def find_cancelling_columns(self, dtype: np.dtype, power: int = 1) -> Array:
        """Which columns, (n_features,), lose too many digits if a product is centred afterwards.

        In a Gram matrix the offset counts squared, `power=2`. A constant column has no digits to lose.
        """
        deviation = self.deviation_norms
        return (deviation > 0) & find_cancelled(self.offset_norms**power, deviation**power, dtype)


def compute_container_moments(
    X: Container, center: bool, scale: bool, sample_weight: Array | None, counter: PassCounter
) -> Moments:
    """Means and norms of the columns in one pass, and some columns again where that lost digits."""
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
    """(X − mean)ᵀ diag(w) (X − mean) of all columns or of some, in one pass; uncentred without moments.

    A sparse matrix is centred afterwards, XᵀWX − Σw·mmᵀ, unless that cancels.
    """
    if moments is None:
        return X.gram(None, sample_weight, idx)
    moments = moments if idx is None else moments.take(idx)
    if not X.is_sparse or moments.find_cancelling_columns(X.dtype, power=2).any():
        return X.gram(moments.mean, sample_weight, idx)
    return X.gram(None, sample_weight, idx) - moments.total_weight * np.outer(moments.mean, moments.mean)
