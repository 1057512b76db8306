"""The set {μ∘AᵀX : X in a sample set} of weighted correlations, the only access of an objective to the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, asarray_like
from gpower.feasible_sets.base import FeasibleSet
from gpower.feasible_sets.sample_sets import SampleSet, Stiefel
from gpower.operators.base import Operator


@dataclass(frozen=True, eq=False)
class CorrelationStart:
    """Start of an ascent given by its weighted correlations C, (n_features, m), without sample-space units."""

    C: Array


@dataclass(frozen=True, eq=False)
class Point:
    """Sample-space units X, (p, m), with their weighted correlations C = μ∘AᵀX, (n_features, m)."""

    X: Array
    C: Array

    def select_unit(self, j: int) -> Point:
        """Return the point of unit j alone."""
        return Point(self.X[:, j : j + 1], self.C[:, j : j + 1])

    def replace_unit(self, j: int, unit: Point) -> Point:
        """Return the point with unit j replaced."""
        parts = (self.X, unit.X), (self.C, unit.C)
        return Point(*(np.hstack([old[:, :j], new, old[:, j + 1 :]]) for old, new in parts))


@dataclass(frozen=True, eq=False)
class CorrelationSet(FeasibleSet):
    """Set {μ∘AᵀX : X in `sample_set`} of the data; the maximiser of ⟨T, C⟩ is μ∘Aᵀ·argmax⟨A(μ∘T), X⟩.

    Parameters
    ----------
    operator : Operator
        The matrix A.
    mu : ndarray of shape (m,)
        Weights of the units.
    sample_set : SampleSet, default=Stiefel()
        Set of X: orthonormal units of a block, independent starts of one unit, or the cube of ℓ1 variance.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import CorrelationSet
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0]), center=False)
    >>> data = CorrelationSet(operator, np.ones(1))
    >>> data.argmax_linear(np.array([[1.0], [0.0]])).C.ravel()
    array([3., 0.])
    """

    operator: Operator
    mu: Array
    sample_set: SampleSet = field(default_factory=Stiefel)

    @property
    def passes(self) -> float:
        """Return the number of passes over the matrix so far."""
        return self.operator.passes

    @property
    def objective_tolerance(self) -> float:
        """Return the rounding error of an objective, the square of that of a correlation."""
        return (self.operator.norm_tolerance * float(np.max(self.mu))) ** 2

    @cached_property
    def _has_unit_weights(self) -> bool:
        return bool(np.all(self.mu == 1))

    def _apply_weights(self, C: Array) -> Array:
        """Compute μ∘C."""
        return C if self._has_unit_weights else asarray_like(C, self.mu) * C

    def remove_weights(self, C: Array) -> Array:
        """Compute C/μ, the unweighted correlations."""
        return C if self._has_unit_weights else C / asarray_like(C, self.mu)

    def argmax_linear(self, g: Array) -> Point:
        """Return the maximiser of ⟨g, C⟩: combine columns, project onto the sample set, correlate."""
        return self.make_point(self.combine_weighted(g))

    def combine_weighted(self, T: Array) -> Array:
        """Compute Y = A(μ∘T), for which ⟨Y, X⟩ = ⟨T, μ∘AᵀX⟩."""
        return self.operator.combine(self._apply_weights(T))

    def make_point(self, Y: Array) -> Point:
        """Return the point of the set that maximises ⟨Y, X⟩, for sample-space units Y, (p, m)."""
        X, C = self.sample_set.place_units(self.operator, Y)
        return Point(X, self._apply_weights(C))

    def extrapolate(self, x: Point, previous: Point, b: float) -> Point:
        """Return the point of the set near x + b(x − previous), extrapolating units and correlations alike."""
        current, old = ((point.X, self.remove_weights(point.C)) for point in (x, previous))
        X, C = self.sample_set.extrapolate_units(self.operator, current, old, b)
        return Point(X, self._apply_weights(C))

    def pairing(self, g: Array, x: Point) -> float:
        """Compute ⟨g, C⟩ for the correlations C of x."""
        return float(np.vdot(g, x.C))

    def support_value(self, g: Array) -> float:
        """Compute the nuclear norm (Stiefel), sum of column norms (Spheres) or ℓ1 norm (Cube) of A(μ∘g)."""
        return self.sample_set.support_function(self.operator, self.combine_weighted(g))


@dataclass(frozen=True, eq=False)
class RegularizedSet(CorrelationSet):
    """Correlation set with linear functions ⟨g.C, μ∘AᵀX⟩ + ⟨g.X, X⟩, for an objective with a term in X itself."""

    def argmax_linear(self, g: Point) -> Point:  # type: ignore[override]
        """Return the maximiser of both terms together."""
        return self.make_point(self.combine_weighted(g.C) + g.X)

    def pairing(self, g: Point, x: Point) -> float:  # type: ignore[override]
        """Compute ⟨g.C, x.C⟩ + ⟨g.X, x.X⟩."""
        unit_term = np.trace(self.operator.inner(g.X, x.X, self.remove_weights(x.C)))
        return super().pairing(g.C, x) + float(unit_term)

    def support_value(self, g: Point) -> float:  # type: ignore[override]
        """Compute the support function of the sample set at A(μ∘g.C) + g.X."""
        return self.sample_set.support_function(self.operator, self.combine_weighted(g.C) + g.X)
