"""Where the units of samples live, side by side as columns of X: orthonormal, each on its sphere, or in a cube.

Each set knows the maximiser of ⟨Y, X⟩, the correlations C = AᵀX that come with it, and how large |aᵢᵀx| can be on it.
On the sphere and the Stiefel manifold a point is put in place by a multiplication from the right, which acts on its
correlations as well and saves a product; on the cube by a sign, which does not.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import (
    Array,
    Normalizer,
    asarray_like,
    make_column_normalizer,
    make_polar_normalizer,
    max_or_zero,
    polar_factor,
    stable_argmax,
)
from gpower.feasible_sets.base import FeasibleSet
from gpower.operators.base import Operator

#: A residual that is shorter than this share of the longest column has lost digits of its correlations.
MIN_RELIABLE_RESIDUAL_SHARE = 1e-4
#: Sample-space units and their correlations with the columns of A.
UnitsAndCorrelations = tuple[Array, Array]


class SampleSet(FeasibleSet):
    """A set of sample-space units X, (p, m), for a matrix A that is known by its products.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Stiefel
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.diag([3.0, 2.0]), center=False)
    >>> Stiefel().compute_max_correlations(operator)  # what one unit can have to do with each column
    array([3., 2.])
    """

    #: Whether a problem on some columns needs no more than their Gram matrix.
    needs_only_gram = True

    def adapt_to(self, operator: Operator) -> SampleSet:
        """The set for the samples of this matrix."""
        return self

    @abstractmethod
    def compute_max_correlations(self, operator: Operator) -> Array:
        """The largest |aᵢᵀx| of a unit in the set, for every column, (n,)."""

    @abstractmethod
    def for_independent_starts(self) -> SampleSet:
        """The set of many starts of one unit, each column on its own."""

    @abstractmethod
    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """The maximiser X of ⟨Y, X⟩, and AᵀX; C = AᵀY where that is known."""

    @abstractmethod
    def support_function(self, operator: Operator, Y: Array) -> float:
        """max ⟨Y, X⟩."""

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """The point of the set near x + b(x − previous)."""
        Y, C = ((1 + b) * new - b * old for new, old in zip(x, previous, strict=True))
        return self.place_units(operator, Y, C)


class _NormalizedSet(SampleSet):
    """A set that units are put on by a multiplication from the right.

    Where Y is rank deficient (a unit has no active variable, or two coincide) the maximiser is not unique. The free
    units are then pointed at the columns of A with the largest part that the others leave unexplained: still a
    maximiser, so that the ascent stays monotone, and active again whenever anything can be. Where no such column is
    left (more units than the rank of A) a unit without active variable is zero.
    """

    def compute_max_correlations(self, operator: Operator) -> Array:
        """‖aᵢ‖₂."""
        return operator.column_norms

    def for_independent_starts(self) -> SampleSet:
        """Every column on its own sphere."""
        return Spheres()

    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """Y put on the set, with its correlations carried along."""
        C = operator.correlate(Y) if C is None else C
        normalizer = self.make_normalizer(self._compute_unit_gram(operator, Y, C))
        X, C = normalizer.apply(Y), normalizer.apply(C)
        if normalizer.is_ill_conditioned:
            C = operator.correlate(X)
            normalizer = self.make_normalizer(self._compute_unit_gram(operator, X, C))
            X, C = normalizer.apply(X), normalizer.apply(C)
        return (
            self._fill_free_units(operator, normalizer.free_directions, X, C)
            if normalizer.free_directions.shape[1]
            else (X, C)
        )

    @abstractmethod
    def make_normalizer(self, gram: Array) -> Normalizer:
        """The right multiplier that puts Y on the set, from what `_gram` gives."""

    @abstractmethod
    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        """The inner products of units that the normaliser needs, C = AᵀY."""

    @abstractmethod
    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        """X with its free units pointed at columns of A."""


@dataclass(frozen=True, eq=False)
class Stiefel(_NormalizedSet):
    """{X : XᵀX = I}; the maximiser of ⟨G, X⟩ is the polar factor of G, the value its nuclear norm.

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
        """The polar factor [JNRS10, proposition on the Stiefel manifold]."""
        return polar_factor(g)

    def retract(self, y: Array) -> Array:
        """The nearest matrix with orthonormal columns, again the polar factor."""
        return polar_factor(y)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """The right multiplier that puts Y on the set, from its Gram matrix."""
        return make_polar_normalizer(gram)

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Whether XᵀX = I."""
        return bool(np.max(np.abs(X.T @ X - np.eye(X.shape[1]))) <= tol)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """The nuclear norm."""
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
    """Every column on its own unit sphere: many starts of one unit, side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Spheres
    >>> Spheres().argmax_linear(np.array([[3.0, 0.0], [4.0, 2.0]]))
    array([[0.6, 0. ],
           [0.8, 1. ]])
    """

    def argmax_linear(self, g: Array) -> Array:
        """Columns scaled to unit norm; a zero column stays at the first coordinate."""
        g = np.where(np.any(g, axis=0), g, np.eye(g.shape[0], 1, dtype=g.dtype))
        return self.make_normalizer(np.sum(g * g, axis=0)[:, None]).apply(g)

    def retract(self, y: Array) -> Array:
        """Columns scaled to unit norm."""
        return self.argmax_linear(y)

    def make_normalizer(self, gram: Array) -> Normalizer:
        """The diagonal right multiplier that puts Y on the set, from the squared norms, (m, 1)."""
        return make_column_normalizer(gram[:, 0])

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Whether every column has unit norm."""
        return bool(np.max(np.abs(np.sum(X * X, axis=0) - 1)) <= tol)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """The sum of the norms of the columns."""
        squares = operator.squared_norms(Y, correlate_if_needed(operator, Y))
        return float(np.sum(np.sqrt(np.maximum(squares, 0))))

    def _compute_unit_gram(self, operator: Operator, Y: Array, C: Array) -> Array:
        return operator.squared_norms(Y, C)[:, None]

    def _fill_free_units(self, operator: Operator, free: Array, X: Array, C: Array) -> UnitsAndCorrelations:
        N, CN = find_residual_directions(operator, 1)
        dead = asarray_like(X, free.sum(axis=1))
        return X + N * dead, C + CN * dead


@dataclass(frozen=True, eq=False)
class Cube(SampleSet):
    """[−r, r]^d; the maximiser of ⟨g, y⟩ is r·sign(g), the value r‖g‖₁.

    Parameters
    ----------
    radius : float or ndarray, default=1.0
        Half of the width, r: one for all coordinates, or broadcast against the points.

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
        """r·sign(g), with +r where g is zero."""
        return np.where(g < 0, -self.radius, self.radius).astype(g.dtype)

    def retract(self, y: Array) -> Array:
        """Entries clipped to the cube."""
        return np.clip(y, -self.radius, self.radius)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Whether every entry is in [−r, r]."""
        return bool(np.all(np.abs(x) <= self.radius * (1 + tol)))

    def adapt_to(self, operator: Operator) -> Cube:
        """As wide in every sample as its weight says."""
        radius = operator.sqrt_sample_weight
        return self if radius is None else Cube(radius[:, None])

    def compute_max_correlations(self, operator: Operator, block_columns: int = 256) -> Array:
        """Σ rₖ|aₖᵢ|."""
        n, blocks = operator.shape[1], range(0, operator.shape[1], block_columns)
        radius = operator.sqrt_sample_weight
        radius = np.ones(operator.shape[0], operator.dtype) if radius is None else radius
        parts = [radius @ np.abs(operator.columns(np.arange(i, min(i + block_columns, n)))) for i in blocks]
        return np.where(operator.column_norms > 0, np.concatenate(parts), 0)

    def for_independent_starts(self) -> Cube:
        """The same: the columns do not see each other."""
        return self

    def place_units(self, operator: Operator, Y: Array, C: Array | None = None) -> UnitsAndCorrelations:
        """The vertex that Y points at."""
        X = self.argmax_linear(Y)
        return X, operator.correlate(X)

    def support_function(self, operator: Operator, Y: Array) -> float:
        """r‖Y‖₁."""
        return float(np.sum(self.radius * np.abs(Y)))

    def extrapolate_units(
        self, operator: Operator, x: UnitsAndCorrelations, previous: UnitsAndCorrelations, b: float
    ) -> UnitsAndCorrelations:
        """No momentum: maxima are vertices."""
        return x


def correlate_if_needed(operator: Operator, Y: Array) -> Array:
    """AᵀY where inner products cannot be had without, else nothing."""
    return np.zeros((0, Y.shape[1])) if operator.has_samples else operator.correlate(Y)


def find_residual_directions(
    operator: Operator, n_directions: int, X: Array | None = None, C: Array | None = None
) -> UnitsAndCorrelations:
    """Orthonormal directions towards the columns that X leaves least explained, and their correlations.

    Pivoted QR of A continued from X: each new direction is the residual of the column whose residual is
    largest. Zero where A has nothing left.
    """
    (p, n), like = operator.shape, operator.column_norms
    X = np.zeros_like(like, shape=(p, 0)) if X is None else X
    C = np.zeros_like(like, shape=(n, 0)) if C is None else C
    known = X.shape[1]
    for _ in range(n_directions):
        q, c = _find_next_direction(operator, X, C)
        X, C = np.hstack([X, q]), np.hstack([C, c])
    return X[:, known:], C[:, known:]


def _find_next_direction(operator: Operator, X: Array, C: Array) -> UnitsAndCorrelations:
    """Unit vector towards the column with the largest part orthogonal to X, and its correlations."""
    squares = operator.column_norms.astype(np.float64) ** 2  # (n,)
    pivot = stable_argmax(np.maximum(squares - np.sum(C.astype(np.float64) ** 2, axis=1), 0))
    q = operator.columns(np.array([pivot]))  # (p, 1)
    c = operator.correlate(q)
    noise = 1e3 * float(np.finfo(q.dtype).eps)  # of a length; of its square where only AᵀA is known
    least = (noise if operator.has_samples else np.sqrt(noise)) * np.sqrt(max_or_zero(squares))
    faint = MIN_RELIABLE_RESIDUAL_SHARE * np.sqrt(max_or_zero(squares))
    for _ in range(2):  # twice is enough to be orthogonal to working precision
        overlap = asarray_like(q, operator.inner(X, q, c))  # (k, 1)
        q, c = q - X @ overlap, c - C @ overlap
        norm = float(np.sqrt(max(float(operator.squared_norms(q, c)[0]), 0.0)))
        if norm <= least:
            return 0 * q, 0 * c
        q, c = q / norm, c / norm
        if norm < faint:  # what was carried along has lost its digits
            c = operator.correlate(q)
        least, faint = 0.0, 0.0
    return q, c
