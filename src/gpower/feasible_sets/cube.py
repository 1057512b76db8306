"""The cube of sample-space units, for the variance ‖A z‖₁.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator` with samples, on the host:
``operator.correlate(X)`` is AᵀX, (n, m), ``operator.columns(idx)`` are columns of A, (p, |idx|), ``column_norms`` are
the ‖aᵢ‖₂, (n,), and ``sqrt_sample_weight``, (p,), are the square roots of the sample weights, or None if all are one.
Y and X, (p, m), are vectors of m units in the sample space, Y of any length, X in the set. Arrays are in the dtype of
the matrix. `UnitsAndCorrelations` is the pair (X, AᵀX), without weights of units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array
from gpower.feasible_sets.sample_sets import SampleSet, UnitsAndCorrelations
from gpower.operators.base import Operator


@dataclass(frozen=True, eq=False)
class Cube(SampleSet):
    """Cube [−r, r]^d; the maximiser of ⟨g, y⟩ is r·sign(g), the value r‖g‖₁.

    Parameters
    ----------
    radius : float or ndarray, default=1.0
        Half-width r: a number for all coordinates, or an array that is broadcast against the points.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Cube
    >>> Cube().argmax_linear(np.array([0.3, -2.0, 0.0]))
    array([ 1., -1.,  1.])
    """

    radius: float | Array = 1.0
    needs_only_gram = False

    def argmax_linear(self, g: Array) -> Array:
        """Return r·sign(g), with +r where g is zero."""
        return np.where(g < 0, -self.radius, self.radius).astype(g.dtype)

    def retract(self, y: Array) -> Array:
        """Return the nearest point of the cube, y with its entries clipped."""
        return np.clip(y, -self.radius, self.radius)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether every entry is in [−r, r] up to `tol`, a share of r."""
        return bool(np.all(np.abs(x) <= self.radius * (1 + tol)))

    def adapt_to(self, operator: Operator) -> Cube:
        """Return the cube whose half-widths are the square roots of the sample weights; itself without weights."""
        radius = operator.sqrt_sample_weight
        return self if radius is None else Cube(radius[:, None])

    def compute_max_correlations(self, operator: Operator, block_columns: int = 256) -> Array:
        """Compute Σ rₖ|aₖᵢ| of every column, (n,), reading `block_columns` columns at a time.

        It is zero for columns of norm zero, and n > 0. The operator has samples and is on the host. r, (n_samples,),
        are the square roots of its sample weights, or ones: `radius` is not used, so that the result is the same before
        and after `adapt_to`.
        """
        p, n = operator.shape
        radius = operator.sqrt_sample_weight
        radius = np.ones(p, operator.dtype) if radius is None else radius
        blocks = [np.arange(i, min(i + block_columns, n)) for i in range(0, n, block_columns)]
        parts = [radius @ np.abs(operator.columns(idx)) for idx in blocks]
        return np.where(operator.column_norms > 0, np.concatenate(parts), 0)

    def for_independent_starts(self) -> Cube:
        """Return this set: the columns are independent already."""
        return self

    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Return the vertex X of the cube with the signs of Y, + for zero, and AᵀX, (n, m); C is not used."""
        X = self.argmax_linear(Y)
        return X, operator.correlate(X)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute Σ rₖ|yₖⱼ| over all entries of Y, (p, m), which is r‖Y‖₁ for a single half-width r."""
        return float(np.sum(self.radius * np.abs(Y)))

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """Return x: extrapolation is useless because the maxima are vertices."""
        return x
