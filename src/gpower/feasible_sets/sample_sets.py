"""Sets of sample-space units, the columns of X, and the set of their correlations with the columns of the matrix.

A sample set (orthonormal units, or each unit on its sphere; the cube is in `gpower.feasible_sets.cube`) provides the
maximiser of ⟨Y, X⟩, its correlations AᵀX, and the largest |aᵢᵀx| over the set. On spheres and on the Stiefel manifold
the maximiser is Y times a matrix on the right, which also gives the correlations and saves a product with A. On the
cube it is a sign, which does not. `CorrelationSet` is the set {μ∘AᵀX : X in a sample set} of weighted correlations, the
only access of an objective to the data.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`: ``combine(T)`` is A T for T of shape
(n, m), ``correlate(Y)`` is AᵀY, ``inner(X, Y, C)`` is XᵀY and ``squared_norms(Y, C)`` its diagonal for X = Y, both on
the host, where C = AᵀY is read only if the operator has no samples. Y and X, (p, m), are sample-space vectors of m
units, Y of any length, X in the set. A covariance AᵀA is an operator too: it has p = n and no samples, and Y contains
coefficients u of vectors A u, whose inner products are those in sample space. AᵀX, (n, m), are correlations without,
and C = μ∘AᵀX those with the weights μ, (m,), which are on the host. T is the gradient of the objective at C, (n, m). X,
Y, T and correlations are where the matrix is (host or device), in its dtype. Methods without an operator
(`argmax_linear`, `retract`, `contains` of a sample set) work on plain arrays on the host.

``operator.columns(idx)`` are columns of A as sample-space vectors, (p, |idx|); ``column_norms``, (n,), are the ‖aᵢ‖₂,
exactly zero for columns of which only rounding is left; both are where the matrix is, in its dtype. ``norm_tolerance``
is the norm that rounding gives to a vector that should be zero; ``has_samples`` is false for a covariance. A
`Normalizer` is the matrix M of X = Y M, on the host: ``apply(Y)`` is Y M where Y is, ``multiplier`` is M, (m, m), or
its diagonal, (m,); ``free_directions``, (m, d), is an orthonormal basis of the combinations of units in which Y
vanishes, so that d = 0 unless Y is rank deficient; and ``is_ill_conditioned`` tells that Y M has lost digits.
``make_polar_normalizer(gram)`` makes the columns orthonormal, ``make_column_normalizer(squared_norms)`` scales each to
unit norm and leaves zero columns zero. ``polar_factor(g)`` are orthonormal columns on the host, also for dependent
columns of g. ``asarray_like(x, values)`` is a host array `values` where x is, in its own dtype; ``max_or_zero`` is the
largest of non-negative values, 0.0 for none; ``stable_argmax`` is the index of the largest value, the first of those
that are equal up to rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, stable_argmax
from gpower._utils.forwarding import forward
from gpower._utils.polar_factor_and_signs import Normalizer, make_column_normalizer, make_polar_normalizer, polar_factor
from gpower.feasible_sets.base import FeasibleSet
from gpower.operators.base import Operator

#: Share of the largest column norm below which a residual has lost digits of its correlations.
MIN_RELIABLE_RESIDUAL_SHARE = 1e-4
#: Multiple of the machine precision up to which the norm of a residual is rounding error, relative to the largest norm.
RESIDUAL_ROUNDING_FACTOR = 1e3
#: Sample-space units X, (p, m), and their correlations AᵀX, (n, m), without weights.
UnitsAndCorrelations = tuple[Array, Array]


class SampleSet(FeasibleSet):
    """A set of sample-space units X, (p, m), for a matrix A that is available through products.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Stiefel
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0]), center=False)
    >>> Stiefel().compute_max_correlations(operator)  # largest correlation of a unit with each column
    array([3., 2.])
    """

    #: Whether the Gram matrix of some columns determines the problem on them, so that the samples are not needed.
    needs_only_gram = True

    def adapt_to(self, operator: Operator) -> SampleSet:
        """Return the set for the samples of this matrix, whose sample weights may change it; here itself."""
        return self

    @abstractmethod
    def compute_max_correlations(self, operator: Operator) -> Array:
        """Compute the largest |aᵢᵀx| over units x in the set, for every column, (n,), where the matrix is.

        The result has the dtype of the matrix and may be an array that the operator owns: do not write to it.
        """

    @abstractmethod
    def for_independent_starts(self) -> SampleSet:
        """Return the set for many starts of one unit, each column independent of the others."""

    @abstractmethod
    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Return the maximiser X of ⟨Y, X⟩, (p, m), and AᵀX, (n, m), for any Y, (p, m), zero and dependent columns too.

        Pass C = AᵀY, (n, m), if it is known. Neither is changed.
        """

    @abstractmethod
    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute the maximum of ⟨Y, X⟩ over the set, for Y of shape (p, m) and any length."""

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """Return the point of the set near x + b(x − previous), with its correlations.

        `x` and `previous` are pairs (X, AᵀX) of points of the set, whose correlations are extrapolated too, which saves
        a product with A; 0 < b < 1.
        """
        Y, C = ((1 + b) * new - b * old for new, old in zip(x, previous, strict=True))
        return self.place_units(operator, Y, C)


class _NormalizedSet(SampleSet):
    """A set whose maximiser of ⟨Y, X⟩ is Y times a matrix on the right.

    If Y is rank deficient (a unit has no active variable, or two units coincide), the maximiser is not unique. The free
    units are then directed at the columns of A whose part unexplained by the other units is largest. This is still a
    maximiser, so the ascent stays monotone, and such units become active again if any can. If no such column is left
    (more units than the rank of A), a unit without active variables is zero.
    """

    def retract(self, y: Array) -> Array:
        """Return the point of the set nearest to y, (p, m): here the maximiser of ⟨y, X⟩."""
        return np.asarray(self.argmax_linear(y))

    def compute_max_correlations(self, operator: Operator) -> Array:
        """Return ‖aᵢ‖₂ of every column, (n,), where the matrix is."""
        return operator.column_norms

    def for_independent_starts(self) -> SampleSet:
        """Return the set in which every column is on its own sphere."""
        return Spheres()

    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Return Y normalised to the set and its correlations, which are normalised with it.

        Y is (p, m), of any length and rank; C = AᵀY, (n, m), is computed unless it is given. If Y is so ill-conditioned
        that digits are lost, the correlations are computed again and normalised once more.
        """
        is_new = C is None
        C = operator.correlate(Y) if C is None else C
        normalizer = self.make_normalizer(self._compute_unit_gram(operator, Y, C))
        X, C = normalizer.apply(Y), normalizer.apply(C, overwrite=is_new)
        if normalizer.is_ill_conditioned:
            C = operator.correlate(X)
            normalizer = self.make_normalizer(self._compute_unit_gram(operator, X, C))
            X, C = normalizer.apply(X), normalizer.apply(C)
        free = normalizer.free_directions
        return self._fill_free_units(operator, free, X, C) if free.shape[1] else (X, C)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute the maximum of ⟨Y, X⟩ as ⟨M, YᵀY⟩ for the multiplier M that normalises Y, (p, m)."""
        gram = self._compute_unit_gram(operator, Y, correlate_if_needed(operator, Y))
        multiplier = self.make_normalizer(gram).multiplier
        return float(np.sum(multiplier * gram) if multiplier.ndim > 1 else multiplier @ gram[:, 0])

    @abstractmethod
    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the right multiplier that normalises Y to the set; `gram` is the result of `_compute_unit_gram`."""

    @abstractmethod
    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        """Compute the inner products of units that the normaliser needs, on the host, given C = AᵀY.

        They are YᵀY, (m, m), or only its diagonal as a column, (m, 1), as `make_normalizer` of the subclass expects.
        """

    @abstractmethod
    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        """Return X with its free units directed at columns of A, and its correlations.

        `free`, (m, d) on the host with d > 0, are the free directions of `Normalizer`; X, (p, m), is normalised and
        zero along them; C = AᵀX, (n, m). The other units do not change.
        """


@dataclass(frozen=True, eq=False)
class Stiefel(_NormalizedSet):
    """Stiefel manifold {X : XᵀX = I}; the maximiser of ⟨G, X⟩ is the polar factor of G, the value its nuclear norm.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Stiefel
    >>> Stiefel().support_value(np.diag([3.0, 2.0]))
    5.0
    """

    def argmax_linear(self, g: Array) -> Array:
        """Return the polar factor of g, (p, m) with p ≥ m [JNRS10, proposition on the Stiefel manifold]."""
        return polar_factor(g)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the right multiplier that normalises Y to the set, given its Gram matrix, (m, m), on the host."""
        return make_polar_normalizer(gram)

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Return whether XᵀX = I up to an absolute `tol` in every entry."""
        return bool(np.max(np.abs(X.T @ X - np.eye(X.shape[1]))) <= tol)

    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        """Compute YᵀY, (m, m), on the host, given C = AᵀY, (n, m), which only an operator without samples reads."""
        return operator.squared_norms(Y, C)[:, None] if Y.shape[1] == 1 else operator.inner(Y, Y, C)

    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        """Return X + N freeᵀ and its correlations, where N, (p, d), are directions that X explains least.

        N is orthonormal and orthogonal to X, or zero beyond the rank of A. `free`, (m, d), is on the host; C = AᵀX.
        """
        N, CN = find_residual_directions(operator, free.shape[1], X, C)
        return X + N @ asarray_like(X, free.T), C + CN @ asarray_like(X, free.T)


@dataclass(frozen=True, eq=False)
class Spheres(_NormalizedSet):
    """Set in which every column is on its own unit sphere, for many starts of one unit.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Spheres
    >>> Spheres().argmax_linear(np.array([[3.0, 0.0], [4.0, 2.0]]))
    array([[0.6, 0. ],
           [0.8, 1. ]])
    """

    def argmax_linear(self, g: Array) -> Array:
        """Return the columns scaled to unit norm; a zero column becomes the first coordinate vector."""
        g = np.where(np.any(g, axis=0), g, np.eye(g.shape[0], 1, dtype=g.dtype))
        return self.make_normalizer(np.sum(g * g, axis=0)[:, None]).apply(g)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the diagonal right multiplier that normalises Y to the set, given squared norms, (m, 1)."""
        return make_column_normalizer(gram[:, 0])

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Return whether every column has unit norm, up to an absolute `tol` in its square."""
        return bool(np.max(np.abs(np.sum(X * X, axis=0) - 1)) <= tol)

    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        """Compute the squared norms of the columns of Y, (m, 1), on the host, given C = AᵀY."""
        return operator.squared_norms(Y, C)[:, None]

    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        """Return X with its zero columns at the column of A of largest norm, normalised, and its correlations.

        `free`, (m, d) on the host, has one unit vector for each zero column of X; all of them get the same vector, zero
        if A is. C = AᵀX.
        """
        N, CN = find_residual_directions(operator, 1)
        is_free = asarray_like(X, free.sum(axis=1))
        return X + N * is_free, C + CN * is_free


def correlate_if_needed(operator: Operator, Y: Array) -> Array:
    """Return AᵀY, (n, m), if the operator needs it for inner products (it has no samples), otherwise an empty array."""
    return np.zeros((0, Y.shape[1])) if operator.has_samples else operator.correlate(Y)


def find_residual_directions(
    operator: Operator, n_directions: int, X: Array | None = None, C: Array | None = None
) -> UnitsAndCorrelations:
    """Return orthonormal directions of the columns that X explains least, and their correlations.

    This continues the pivoted QR factorisation of A from X: each new direction is the residual of the column whose
    residual is largest, the first of those that are equal up to rounding. Directions beyond the rank of A are zero.

    Parameters
    ----------
    operator : Operator
        The matrix A.
    n_directions : int
        Number of directions, at least zero.
    X : ndarray of shape (p, k), optional
        Represented units that are orthonormal, or zero, in sample space, where the matrix is; none by default.
    C : ndarray of shape (n, k), optional
        Their correlations AᵀX, without weights; given together with X.

    Returns
    -------
    ndarray of shape (p, n_directions) and ndarray of shape (n, n_directions)
        The directions, orthogonal to X, and their correlations with the columns, where the matrix is, in its dtype.
    """
    p, n = operator.shape
    # `zeros_like` of the column norms creates arrays where the matrix is.
    X = np.zeros_like(operator.column_norms, shape=(p, 0)) if X is None else X
    C = np.zeros_like(operator.column_norms, shape=(n, 0)) if C is None else C
    n_given = X.shape[1]
    for _ in range(n_directions):
        q, c = _find_next_direction(operator, X, C)
        X, C = np.hstack([X, q]), np.hstack([C, c])
    return X[:, n_given:], C[:, n_given:]


def _find_next_direction(operator: Operator, X: Array, C: Array) -> UnitsAndCorrelations:
    """Return the unit residual of the column with the largest part orthogonal to X, and its correlations.

    They have shapes (p, 1) and (n, 1), where the matrix is. Both are zero if X, (p, k) with C = AᵀX, (n, k), spans all
    columns up to rounding. The columns of X are orthonormal or zero in sample space, and k may be zero.
    """
    squares = operator.column_norms.astype(np.float64) ** 2  # (n,)
    pivot = stable_argmax(np.maximum(squares - np.sum(C.astype(np.float64) ** 2, axis=1), 0))
    q = operator.columns(np.array([pivot]))  # (p, 1)
    c = operator.correlate(q)
    largest_norm = np.sqrt(max_or_zero(squares))
    rounding = RESIDUAL_ROUNDING_FACTOR * float(np.finfo(q.dtype).eps)  # of a norm; of a square if only AᵀA is known
    min_norm = (rounding if operator.has_samples else np.sqrt(rounding)) * largest_norm
    min_reliable_norm = MIN_RELIABLE_RESIDUAL_SHARE * largest_norm
    for _ in range(2):  # two projections suffice for orthogonality to working precision
        overlap = asarray_like(q, operator.inner(X, q, c))  # (k, 1)
        q, c = q - X @ overlap, c - C @ overlap
        norm = float(np.sqrt(max(float(operator.squared_norms(q, c)[0]), 0.0)))
        if norm <= min_norm:
            return 0 * q, 0 * c
        q, c = q / norm, c / norm
        if norm < min_reliable_norm:  # the updated correlations have lost digits
            c = operator.correlate(q)
        min_norm = min_reliable_norm = 0.0
    return q, c


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
        """Return the point of unit j alone, X of shape (p, 1) and C of shape (n, 1), as views."""
        return Point(self.X[:, j : j + 1], self.C[:, j : j + 1])

    def replace_unit(self, j: int, unit: Point) -> Point:
        """Return the point with unit j replaced by `unit`, a point of one unit; units may no longer be orthogonal.

        The correlations of `unit` must contain the weight μⱼ and be those with the columns of the same matrix.
        """
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

    passes = forward("operator.passes", "Return the number of passes over the matrix so far.")

    @cached_property
    def objective_tolerance(self) -> float:
        """Return the rounding error of an objective, the square of that of a weighted correlation; absolute."""
        return (self.operator.norm_tolerance * float(np.max(self.mu))) ** 2

    @cached_property
    def _has_unit_weights(self) -> bool:
        """Return whether all weights are exactly one, so that products with them are left out."""
        return bool(np.all(self.mu == 1))

    def _apply_weights(self, C: Array) -> Array:
        """Compute μ∘C for C of shape (n_features, m), where C is; C itself for unit weights."""
        return C if self._has_unit_weights else asarray_like(C, self.mu) * C

    def remove_weights(self, C: Array) -> Array:
        """Compute C/μ, (n_features, m), the unweighted correlations AᵀX of a point; C itself for unit weights."""
        return C if self._has_unit_weights else C / asarray_like(C, self.mu)

    def argmax_linear(self, g: Any) -> Point:
        """Return the maximiser of ⟨g, C⟩ for g of shape (n_features, m), where the matrix is.

        It combines columns, projects onto the sample set and correlates. A zero column of g leaves its unit free.
        """
        return self.make_point(self.combine_gradient(g))

    def combine_gradient(self, g: Any) -> Array:
        """Compute the sample-space vectors Y, (p, m), for which ⟨Y, X⟩ is the linear function g at X."""
        return self.combine_weighted(g)

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

        Both points have m units, and 0 < b < 1. On spheres and the Stiefel manifold this normally takes no pass over
        the matrix; the cube returns x.
        """
        current, old = ((point.X, self.remove_weights(point.C)) for point in (x, previous))
        X, C = self.sample_set.extrapolate_units(self.operator, current, old, b)
        return Point(X, self._apply_weights(C))

    def pairing(self, g: Any, x: Point) -> float:
        """Compute ⟨g, C⟩ for the weighted correlations C of x, (n_features, m) like g."""
        return float(np.vdot(g, x.C))

    def support_value(self, g: Any) -> float:
        """Compute the nuclear norm (Stiefel), sum of column norms (Spheres) or weighted ℓ1 norm (Cube) of A(μ∘g)."""
        return self.sample_set.support_function(self.operator, self.combine_gradient(g))


@dataclass(frozen=True, eq=False)
class RegularizedSet(CorrelationSet):
    """Correlation set with linear functions ⟨g.C, μ∘AᵀX⟩ + ⟨g.X, X⟩, for an objective with a term in X itself.

    g is a `Point` that contains a gradient: g.C, (n_features, m), with respect to C, and g.X, (p, m), with respect to
    X, represented like sample-space vectors.
    """

    def combine_gradient(self, g: Point) -> Array:
        """Compute A(μ∘g.C) + g.X, (p, m)."""
        return self.combine_weighted(g.C) + g.X

    def pairing(self, g: Point, x: Point) -> float:
        """Compute ⟨g.C, x.C⟩ + ⟨g.X, x.X⟩."""
        unit_term = np.trace(self.operator.inner(g.X, x.X, self.remove_weights(x.C)))
        return super().pairing(g.C, x) + float(unit_term)
