"""The data's own set {μ∘AᵀX : X in a set of samples}: all that an objective sees of the data."""

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
    """What an objective sees of a point, C of shape (n, m): enough of a start to begin an ascent at."""

    C: Array


@dataclass(frozen=True, eq=False)
class Point:
    """Sample-space units X with their weighted correlations C = μ∘AᵀX."""

    X: Array
    C: Array

    def select_unit(self, j: int) -> Point:
        """Unit j alone."""
        return Point(self.X[:, j : j + 1], self.C[:, j : j + 1])

    def replace_unit(self, j: int, unit: Point) -> Point:
        """Return the point with unit j replaced."""
        parts = (self.X, unit.X), (self.C, unit.C)
        return Point(*(np.hstack([old[:, :j], new, old[:, j + 1 :]]) for old, new in parts))


@dataclass(frozen=True, eq=False)
class CorrelationSet(FeasibleSet):
    """The data's own set {μ∘AᵀX : X in `samples`}; the maximiser of ⟨T, C⟩ is μ∘Aᵀ·argmax⟨A(μ∘T), X⟩.

    Parameters
    ----------
    operator : Operator
        The matrix A.
    mu : ndarray of shape (m,)
        Weights of the units.
    sample_set : SampleSet, default=Stiefel()
        Where X lives: orthonormal units of a block, independent starts of one unit, or the cube of ℓ1 variance.

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
        """Reads of the matrix so far."""
        return self.operator.passes

    @property
    def objective_tolerance(self) -> float:
        """What of an objective is rounding: the square of that of a correlation."""
        return (self.operator.norm_tolerance * float(np.max(self.mu))) ** 2

    @cached_property
    def _has_unit_weights(self) -> bool:
        return bool(np.all(self.mu == 1))

    def _apply_weights(self, C: Array) -> Array:
        """μ∘C."""
        return C if self._has_unit_weights else asarray_like(C, self.mu) * C

    def remove_weights(self, C: Array) -> Array:
        """C/μ, the plain correlations."""
        return C if self._has_unit_weights else C / asarray_like(C, self.mu)

    def argmax_linear(self, g: Array) -> Point:
        """One step: combine, put on the set of samples, correlate."""
        return self.make_point(self.combine_weighted(g))

    def combine_weighted(self, T: Array) -> Array:
        """A(μ∘T): the Y with ⟨Y, X⟩ = ⟨T, μ∘AᵀX⟩."""
        return self.operator.combine(self._apply_weights(T))

    def make_point(self, Y: Array) -> Point:
        """The point of the set at sample-space units Y, put on the set of samples first."""
        X, C = self.sample_set.place_units(self.operator, Y)
        return Point(X, self._apply_weights(C))

    def extrapolate(self, x: Point, previous: Point, b: float) -> Point:
        """Momentum on samples and correlations alike."""
        here, before = ((at.X, self.remove_weights(at.C)) for at in (x, previous))
        X, C = self.sample_set.extrapolate_units(self.operator, here, before, b)
        return Point(X, self._apply_weights(C))

    def pairing(self, g: Array, x: Point) -> float:
        """⟨g, C⟩, C the correlations at x."""
        return float(np.vdot(g, x.C))

    def support_value(self, g: Array) -> float:
        """Nuclear norm (Stiefel), sum of column norms (Spheres) or ℓ1 norm (Cube) of A(μ∘g)."""
        return self.sample_set.support_function(self.operator, self.combine_weighted(g))


@dataclass(frozen=True, eq=False)
class RegularizedSet(CorrelationSet):
    """The same set under linear functions ⟨g.C, μ∘AᵀX⟩ + ⟨g.X, X⟩, which a term in X itself adds to a gradient."""

    def argmax_linear(self, g: Point) -> Point:  # type: ignore[override]
        """One step, towards both parts."""
        return self.make_point(self.combine_weighted(g.C) + g.X)

    def pairing(self, g: Point, x: Point) -> float:  # type: ignore[override]
        """⟨g, x⟩, both parts."""
        samples = np.trace(self.operator.inner(g.X, x.X, self.remove_weights(x.C)))
        return super().pairing(g.C, x) + float(samples)

    def support_value(self, g: Point) -> float:  # type: ignore[override]
        """The dual norm of A(μ∘T) + Y."""
        return self.sample_set.support_function(self.operator, self.combine_weighted(g.C) + g.X)
