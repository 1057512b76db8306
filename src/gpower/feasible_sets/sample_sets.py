"""Sets of sample-space units, the columns of X: orthonormal, each on its sphere, or in a cube.

Each set provides the maximiser of ⟨Y, X⟩, its correlations C = AᵀX, and the largest |aᵢᵀx| over the set. On spheres and
on the Stiefel manifold the maximiser is Y times a matrix on the right, which also gives the correlations and saves a
product with A. On the cube it is a sign, which does not.

Methods with an operator work on represented vectors Y or X, (p, m) with p = operator.shape[0], where the matrix is
(host or device), and with inner products of the operator; without samples Y contains coefficients u of vectors A u.
Their correlations C = AᵀX, (n, m), are without the weights μ. Methods without an operator (`argmax_linear`, `retract`,
`contains`) work on plain arrays on the host.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, asarray_like, max_or_zero, stable_argmax
from gpower._utils.polar_factor_and_signs import Normalizer, make_column_normalizer, make_polar_normalizer, polar_factor
from gpower.feasible_sets.base import FeasibleSet
from gpower.operators.base import Operator

#: Share of the largest column norm below which a residual has lost digits of its correlations.
MIN_RELIABLE_RESIDUAL_SHARE = 1e-4
#: Sample-space units and their correlations with the columns of A.
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

    #: Whether the Gram matrix of some columns determines the problem on them.
    needs_only_gram = True

    def adapt_to(self, operator: Operator) -> SampleSet:
        """Return the set for the samples of this matrix, whose sample weights may change it."""
        return self

    @abstractmethod
    def compute_max_correlations(self, operator: Operator) -> Array:
        """Compute the largest |aᵢᵀx| over units x in the set, for every column, (n,), where the matrix is."""

    @abstractmethod
    def for_independent_starts(self) -> SampleSet:
        """Return the set for many starts of one unit, each column independent of the others."""

    @abstractmethod
    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Return the maximiser X of ⟨Y, X⟩, (p, m), and AᵀX, (n, m), for any Y. Pass C = AᵀY if it is known."""

    @abstractmethod
    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute the maximum of ⟨Y, X⟩ over the set, for Y of shape (p, m)."""

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """Return the point of the set near x + b(x − previous), with its correlations.

        `x` and `previous` are pairs (X, AᵀX), whose correlations are extrapolated too, which saves a product with A.
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

    def compute_max_correlations(self, operator: Operator) -> Array:
        """Return ‖aᵢ‖₂ of every column."""
        return operator.column_norms

    def for_independent_starts(self) -> SampleSet:
        """Return the set in which every column is on its own sphere."""
        return Spheres()

    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Return Y normalised to the set and its correlations, which are normalised with it.

        If Y is so ill-conditioned that digits are lost, the correlations are computed again and normalised once more.
        """
        C = operator.correlate(Y) if C is None else C
        normalizer = self.make_normalizer(self._compute_unit_gram(operator, Y, C))
        X, C = normalizer.apply(Y), normalizer.apply(C)
        if normalizer.is_ill_conditioned:
            C = operator.correlate(X)
            normalizer = self.make_normalizer(self._compute_unit_gram(operator, X, C))
            X, C = normalizer.apply(X), normalizer.apply(C)
        free = normalizer.free_directions
        return self._fill_free_units(operator, free, X, C) if free.shape[1] else (X, C)

    @abstractmethod
    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the right multiplier that normalises Y to the set, given the result of `_compute_unit_gram`."""

    @abstractmethod
    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        """Compute the inner products of units that the normaliser needs, on the host, given C = AᵀY.

        They are YᵀY, (m, m), or only its diagonal as a column, (m, 1), as `make_normalizer` of the subclass expects.
        """

    @abstractmethod
    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        """Return X with its free units directed at columns of A, and its correlations.

        `free`, (m, d) on the host, are the free directions of `Normalizer`; X, (p, m), is normalised and zero along
        them; C = AᵀX.
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
        """Return the polar factor [JNRS10, proposition on the Stiefel manifold]."""
        return polar_factor(g)

    def retract(self, y: Array) -> Array:
        """Return the nearest matrix with orthonormal columns, the polar factor."""
        return polar_factor(y)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the right multiplier that normalises Y to the set, given its Gram matrix, (m, m)."""
        return make_polar_normalizer(gram)

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Return whether XᵀX = I."""
        return bool(np.max(np.abs(X.T @ X - np.eye(X.shape[1]))) <= tol)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute the nuclear norm of Y."""
        gram = operator.inner(Y, Y, correlate_if_needed(operator, Y))
        M = self.make_normalizer(gram).multiplier
        return float(np.sum(M * gram)) if M.ndim == 2 else float(np.sum(M * np.diagonal(gram)))

    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        return operator.squared_norms(Y, C)[:, None] if Y.shape[1] == 1 else operator.inner(Y, Y, C)

    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
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

    def retract(self, y: Array) -> Array:
        """Return the columns scaled to unit norm."""
        return self.argmax_linear(y)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """Return the diagonal right multiplier that normalises Y to the set, given squared norms, (m, 1)."""
        return make_column_normalizer(gram[:, 0])

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Return whether every column has unit norm."""
        return bool(np.max(np.abs(np.sum(X * X, axis=0) - 1)) <= tol)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute the sum of the column norms of Y."""
        squares = operator.squared_norms(Y, correlate_if_needed(operator, Y))
        return float(np.sum(np.sqrt(np.maximum(squares, 0))))

    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        return operator.squared_norms(Y, C)[:, None]

    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        N, CN = find_residual_directions(operator, 1)
        is_free = asarray_like(X, free.sum(axis=1))
        return X + N * is_free, C + CN * is_free


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
        """Return y with entries clipped to the cube."""
        return np.clip(y, -self.radius, self.radius)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether every entry is in [−r, r]."""
        return bool(np.all(np.abs(x) <= self.radius * (1 + tol)))

    def adapt_to(self, operator: Operator) -> Cube:
        """Return the cube whose half-widths are the square roots of the sample weights; itself without weights."""
        radius = operator.sqrt_sample_weight
        return self if radius is None else Cube(radius[:, None])

    def compute_max_correlations(self, operator: Operator, block_columns: int = 256) -> Array:
        """Compute Σ rₖ|aₖᵢ| of every column, (n,), reading `block_columns` columns at a time.

        It is zero for columns of norm zero. The operator has samples and is on the host. r, (n_samples,), are the
        square roots of its sample weights, or ones: `radius` is not used, so that the result is the same before and
        after `adapt_to`.
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
        """Return the vertex of the cube with the signs of Y, and its correlations; C is not used."""
        X = self.argmax_linear(Y)
        return X, operator.correlate(X)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """Compute Σ rₖ|yₖⱼ|, which is r‖Y‖₁ for a single half-width r."""
        return float(np.sum(self.radius * np.abs(Y)))

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """Return x: extrapolation is useless because the maxima are vertices."""
        return x


def correlate_if_needed(operator: Operator, Y: Array) -> Array:
    """Return AᵀY, (n, m), if the operator needs it for inner products (it has no samples), otherwise an empty array."""
    return np.zeros((0, Y.shape[1])) if operator.has_samples else operator.correlate(Y)


def find_residual_directions(
    operator: Operator, n_directions: int, X: Array | None = None, C: Array | None = None
) -> UnitsAndCorrelations:
    """Return orthonormal directions of the columns that X explains least, and their correlations.

    This continues the pivoted QR factorisation of A from X: each new direction is the residual of the column whose
    residual is largest. Directions beyond the rank of A are zero.

    Parameters
    ----------
    operator : Operator
        The matrix A.
    n_directions : int
    X : ndarray of shape (p, k), optional
        Represented units that are orthonormal, or zero, in sample space, where the matrix is; none by default.
    C : ndarray of shape (n, k), optional
        Their correlations AᵀX, without weights; given together with X.

    Returns
    -------
    ndarray of shape (p, n_directions) and ndarray of shape (n, n_directions)
        The directions, orthogonal to X, and their correlations with the columns.
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

    They have shapes (p, 1) and (n, 1). Both are zero if X, (p, k) with C = AᵀX, (n, k), spans all columns up to
    rounding.
    """
    squares = operator.column_norms.astype(np.float64) ** 2  # (n,)
    pivot = stable_argmax(np.maximum(squares - np.sum(C.astype(np.float64) ** 2, axis=1), 0))
    q = operator.columns(np.array([pivot]))  # (p, 1)
    c = operator.correlate(q)
    largest_norm = np.sqrt(max_or_zero(squares))
    rounding = 1e3 * float(np.finfo(q.dtype).eps)  # of a norm, or of its square if only AᵀA is known
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
