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
    """Start of an ascent given by its weighted correlations C, (n_features, m), without sample-space units.

    C is where the matrix is, host or device. It need not belong to the set: an ascent only takes the gradient at C.
    """

    C: Array


@dataclass(frozen=True, eq=False)
class Point:
    """Sample-space units X, (p, m), with their weighted correlations C = μ∘AᵀX, (n_features, m).

    X is in the representation of the operator, with p = operator.shape[0]: coordinates of the samples or, without
    samples, coefficients u of vectors A u (p = n_features), whose norm is √(uᵀAᵀAu). Both arrays are where the matrix
    is. As the gradient of a regularised objective, a `Point` contains a linear function of X and of C instead.
    """

    X: Array
    C: Array

    def select_unit(self, j: int) -> Point:
        """Return the point of unit j alone."""
        return Point(self.X[:, j : j + 1], self.C[:, j : j + 1])

    def replace_unit(self, j: int, unit: Point) -> Point:
        """Return the point with unit j replaced by a point of one unit; the units may no longer be orthogonal."""
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
        Positive weights of the units, on the host.
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

    @cached_property
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
        """Compute C/μ, (n_features, m), the unweighted correlations AᵀX of a point; C itself for unit weights."""
        return C if self._has_unit_weights else C / asarray_like(C, self.mu)

    def argmax_linear(self, g: Array) -> Point:
        """Return the maximiser of ⟨g, C⟩ for g of shape (n_features, m), where the matrix is.

        It combines columns, projects onto the sample set and correlates. A zero column of g leaves its unit free.
        """
        return self.make_point(self.combine_weighted(g))

    def combine_weighted(self, T: Array) -> Array:
        """Compute Y = A(μ∘T), (p, m), for which ⟨Y, X⟩ = ⟨T, μ∘AᵀX⟩, for T of shape (n_features, m)."""
        return self.operator.combine(self._apply_weights(T))

    def make_point(self, Y: Array) -> Point:
        """Return the point of the set that maximises ⟨Y, X⟩, for sample-space vectors Y, (p, m), of any length.

        Its units are thus normalised: orthonormal (`Stiefel`: the polar factor of Y), each of unit norm (`Spheres`), or
        ±r by the signs of Y (`Cube`). Zero or dependent columns of Y are replaced by directions of columns of A, and by
        zero if none is left. This takes a pass over the matrix for the correlations.
        """
        X, C = self.sample_set.place_units(self.operator, Y)
        return Point(X, self._apply_weights(C))

    def extrapolate(self, x: Point, previous: Point, b: float) -> Point:
        """Return the point of the set near x + b(x − previous), extrapolating units and correlations alike.

        On spheres and the Stiefel manifold this normally takes no pass over the matrix; the cube returns x.
        """
        current, old = ((point.X, self.remove_weights(point.C)) for point in (x, previous))
        X, C = self.sample_set.extrapolate_units(self.operator, current, old, b)
        return Point(X, self._apply_weights(C))

    def pairing(self, g: Array, x: Point) -> float:
        """Compute ⟨g, C⟩ for the correlations C of x."""
        return float(np.vdot(g, x.C))

    def support_value(self, g: Array) -> float:
        """Compute the nuclear norm (Stiefel), sum of column norms (Spheres) or weighted ℓ1 norm (Cube) of A(μ∘g)."""
        return self.sample_set.support_function(self.operator, self.combine_weighted(g))


@dataclass(frozen=True, eq=False)
class RegularizedSet(CorrelationSet):
    """Correlation set with linear functions ⟨g.C, μ∘AᵀX⟩ + ⟨g.X, X⟩, for an objective with a term in X itself.

    g is a `Point` that contains a gradient: g.C, (n_features, m), with respect to C, and g.X, (p, m), with respect to
    X, represented like sample-space vectors.
    """

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
