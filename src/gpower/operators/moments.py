"""What standardisation subtracts and divides by, and what that costs in digits; the one builder of Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array, reciprocal, rows_of

if TYPE_CHECKING:
    from gpower.operators.base import PassCounter
    from gpower.operators.storage.base import Container

#: Relative rounding error that is borne of what centring leaves.
BORNE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def cancelled(whole: Array, kept: Array, dtype: np.dtype) -> Array:
    """Where differences `kept` of numbers as large as `whole` have lost more digits than are borne."""
    return ~(BORNE[dtype] * kept >= float(np.finfo(dtype).eps) * whole)


def degrees_of(weight: Array | None, n_samples: int) -> float:
    """The divisor of variances: n − 1 or, of weighted samples, Σw − Σw²/Σw, without cancellation.

    Weights say how reliable a sample is: those of another sum give the same variances, and of equal weights it is that
    of none.

    Examples
    --------
    >>> import numpy as np
    >>> degrees_of(None, 5), degrees_of(np.full(5, 0.25), 5) / 0.25
    (4.0, 4.0)
    """
    if weight is None:
        return n_samples - 1.0
    before = np.cumsum(weight, dtype=np.float64)
    return float(2 * (weight[1:] @ before[:-1]) / before[-1])


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
    degrees : float
        Divisor of variances, of `scale` too: n_samples − 1 or, of samples with weights w, Σw − Σw²/Σw. One where a
        single sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> _, moments = as_operator(np.array([[1.0, 2.0], [3.0, 2.0]]), center=True)
    >>> moments.mean, moments.norms.round(3)
    (array([2., 2.]), array([1.414, 0.   ]))
    """

    mean: Array
    scale: Array
    norms: Array
    weight: float
    degrees: float

    @classmethod
    def standard(
        cls, mean: Array, deviation: Array, weight: float, degrees: float, *, center: bool, scale: bool
    ) -> Moments:
        """From the means and the norms of the deviations from them; a norm below the rounding of sums is zero."""
        degrees = degrees if degrees > 0 else 1.0
        noise = 16 * np.finfo(np.float64).eps * np.abs(mean) * np.sqrt(weight)  # of sums, which are in float64
        deviation = np.where(deviation <= noise, 0.0, deviation)
        spread = np.ones_like(deviation)
        if scale:
            spread = np.where(deviation > 0, deviation / np.sqrt(degrees), 1.0)
        if not center and np.any(mean):
            deviation, mean = np.sqrt(deviation**2 + weight * mean**2), np.zeros_like(mean)
        return cls(mean, spread, deviation / spread, weight, degrees)

    @property
    def offset(self) -> Array:
        """Norms of what centring removes, (n_features,)."""
        return np.abs(self.mean) * np.sqrt(self.weight)

    @property
    def deviation(self) -> Array:
        """Norms of what centring leaves, (n_features,)."""
        return self.norms * self.scale

    def of(self, idx: Array) -> Moments:
        """Those of some columns."""
        return replace(
            self, mean=rows_of(self.mean, idx), scale=rows_of(self.scale, idx), norms=rows_of(self.norms, idx)
        )

    def column_scale(self, dtype: np.dtype) -> Array | None:
        """1/scale, zero for constant columns whose rounding noise must not pass for data; None for all ones."""
        factor = np.where(self.norms > 0, 1 / self.scale, 0.0)
        return None if np.all(factor == 1) else factor.astype(dtype)

    def centring_loss(self, dtype: np.dtype) -> Array:
        """Relative rounding error of each column, (n_features,), in a product that is centred afterwards."""
        return float(np.finfo(dtype).eps) * self.offset * reciprocal(self.deviation)

    def cancels(self, dtype: np.dtype, power: int = 1) -> Array:
        """Which columns, (n_features,), lose too many digits if a product is centred afterwards.

        In a Gram matrix the offset counts squared, `power=2`. A constant column has no digits to lose.
        """
        deviation = self.deviation
        return (deviation > 0) & cancelled(self.offset**power, deviation**power, dtype)


def column_moments(X: Container, center: bool, scale: bool, weight: Array | None, counter: PassCounter) -> Moments:
    """Means and norms of the columns in one pass, and some columns again where that lost digits."""
    total = float(X.shape[0] if weight is None else np.sum(weight, dtype=np.float64))
    if center or scale:
        mean, deviation, reads = X.moments(weight, total)
    else:
        mean, reads = X.own(np.zeros(X.shape[1])), 1.0
        deviation = X.deviation_norms(mean, weight)
    counter.add(reads)
    return Moments.standard(mean, deviation, total, degrees_of(weight, X.shape[0]), center=center, scale=scale)


def centred_gram(X: Container, moments: Moments | None, weight: Array | None, idx: Array | None = None) -> Array:
    """(X − mean)ᵀ diag(w) (X − mean) of all columns or of some, in one pass; uncentred without moments.

    A sparse matrix is centred afterwards, XᵀWX − Σw·mmᵀ, unless that cancels.
    """
    if moments is None:
        return X.gram(None, weight, idx)
    moments = moments if idx is None else moments.of(idx)
    if not X.is_sparse or moments.cancels(X.dtype, power=2).any():
        return X.gram(moments.mean, weight, idx)
    return X.gram(None, weight, idx) - moments.weight * np.outer(moments.mean, moments.mean)
