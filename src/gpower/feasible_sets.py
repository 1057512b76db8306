"""Compact sets Q, each known by its linear maximiser: the y in Q with the largest ⟨g, y⟩.

That maximiser is the only thing the gradient scheme needs [JNRS10, Algorithm 1]; `retract`, the point of the
set nearest to y, serves acceleration. `CorrelationSet` is the data's own set {μ∘AᵀX : X in a set of samples}:
the objective holds no data, this set holds all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from gpower._arrays import (
    Array,
    Normalizer,
    beside,
    column_normalizer,
    first_largest,
    largest,
    polar,
    polar_normalizer,
)
from gpower.operators.base import Operator


class FeasibleSet(ABC):
    """A compact set with an easy linear maximiser."""

    @property
    def passes(self) -> float:
        """Reads of the data so far; NaN for a set that holds none."""
        return float("nan")

    @abstractmethod
    def argmax_linear(self, g: Any) -> Any:
        """A y in the set with the largest ⟨g, y⟩; the same one for the same g."""

    def retract(self, y: Any) -> Any:
        """A point of the set near y."""
        raise NotImplementedError(f"{type(self).__name__} offers no retraction: run with acceleration=False.")

    def extrapolate(self, x: Any, previous: Any, b: float) -> Any:
        """The point of the set near x + b(x − previous)."""
        return self.retract(x + b * (x - previous))

    def pairing(self, g: Any, x: Any) -> float:
        """⟨g, x⟩."""
        return float(np.vdot(g, x))

    def support_value(self, g: Any) -> float:
        """max ⟨g, y⟩ over the set."""
        return self.pairing(g, self.argmax_linear(g))


def _first_coordinate(like: Array) -> Array:
    e = np.zeros_like(like)
    e.flat[0] = 1
    return e


@dataclass(frozen=True, eq=False)
class Sphere(FeasibleSet):
    """r·{‖x‖ = 1}; the maximiser of ⟨g, y⟩ is r G⁻¹g/‖g‖* [JNRS10, eq. (22)].

    Parameters
    ----------
    radius : float
        r.
    metric : ndarray of shape (d, d), optional
        Positive definite G of the norm ‖x‖² = ⟨Gx, x⟩; identity by default.

    Examples
    --------
    >>> import numpy as np
    >>> Sphere(2.0).argmax_linear(np.array([3.0, 4.0]))
    array([1.2, 1.6])
    """

    radius: float = 1.0
    metric: Array | None = None

    #: Strong convexity of the hull: σ_Q = 1/r.
    @property
    def convexity(self) -> float:
        """Strong convexity parameter of the convex hull."""
        return 1.0 / self.radius

    @cached_property
    def _factor(self) -> Any:
        try:
            G = np.asarray(self.metric)
            if not np.allclose(G, G.T):
                raise np.linalg.LinAlgError
            return sla.cho_factor(G)
        except np.linalg.LinAlgError:
            raise ValueError(
                "metric must be symmetric positive definite; its Cholesky factor does not exist."
            ) from None

    def _raise_index(self, g: Array) -> Array:
        return g if self.metric is None else np.asarray(sla.cho_solve(self._factor, g))

    def norm(self, x: Array) -> float:
        """‖x‖ in the metric G."""
        return float(np.sqrt(np.vdot(x, x if self.metric is None else self.metric @ x)))

    def dual_norm(self, g: Array) -> float:
        """‖g‖* = ⟨g, G⁻¹g⟩^½."""
        return float(np.sqrt(np.vdot(g, self._raise_index(g))))

    def argmax_linear(self, g: Array) -> Array:
        """r G⁻¹g/‖g‖*; where g = 0 everything is a maximiser and the first coordinate is taken."""
        return self.retract(self._raise_index(g) if np.any(g) else _first_coordinate(g))

    def retract(self, y: Array) -> Array:
        """r y/‖y‖."""
        return np.asarray((self.radius / self.norm(y)) * y)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Whether ‖x‖ = r."""
        return abs(self.norm(x) - self.radius) <= tol * self.radius


@dataclass(frozen=True, eq=False)
class Ball(Sphere):
    """r·{‖x‖ ≤ 1}; a convex function is largest on its boundary, the sphere.

    Examples
    --------
    >>> import numpy as np
    >>> Ball(2.0).contains(np.array([0.5, 0.5]))
    True
    """

    def retract(self, y: Array) -> Array:
        """The point of the ball nearest to y."""
        return np.asarray(y * min(1.0, self.radius / max(self.norm(y), np.finfo(float).tiny)))

    def argmax_linear(self, g: Array) -> Array:
        """As on the sphere."""
        return Sphere(self.radius, self.metric).argmax_linear(g)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Whether ‖x‖ ≤ r."""
        return self.norm(x) <= self.radius * (1 + tol)


@dataclass(frozen=True, eq=False)
class Stiefel(FeasibleSet):
    """{X : XᵀX = I}; the maximiser of ⟨G, X⟩ is the polar factor of G, the value its nuclear norm.

    Examples
    --------
    >>> import numpy as np
    >>> Stiefel().support_value(np.diag([3.0, 2.0]))
    5.0
    """

    def argmax_linear(self, g: Array) -> Array:
        """The polar factor [JNRS10, proposition on the Stiefel manifold]."""
        return polar(g)

    def retract(self, y: Array) -> Array:
        """The nearest matrix with orthonormal columns, again the polar factor."""
        return polar(y)

    def normalizer(self, gram: Array) -> Normalizer:
        """The right multiplier that does it, from the Gram matrix."""
        return polar_normalizer(gram)

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Whether XᵀX = I."""
        return bool(np.max(np.abs(X.T @ X - np.eye(X.shape[1]))) <= tol)


@dataclass(frozen=True, eq=False)
class Spheres(FeasibleSet):
    """Every column on its own unit sphere: many starts of one unit, side by side.

    Examples
    --------
    >>> import numpy as np
    >>> Spheres().argmax_linear(np.array([[3.0, 0.0], [4.0, 2.0]]))
    array([[0.6, 0. ],
           [0.8, 1. ]])
    """

    def argmax_linear(self, g: Array) -> Array:
        """Columns scaled to unit norm; a zero column stays at the first coordinate."""
        g = np.where(np.any(g, axis=0), g, np.eye(g.shape[0], 1, dtype=g.dtype))
        return self.normalizer(np.sum(g * g, axis=0)[:, None]).apply(g)

    def retract(self, y: Array) -> Array:
        """Columns scaled to unit norm."""
        return self.argmax_linear(y)

    def normalizer(self, gram: Array) -> Normalizer:
        """The diagonal right multiplier that does it, from the squared norms, (m, 1)."""
        return column_normalizer(gram[:, 0])

    def contains(self, X: Array, tol: float = 1e-9) -> bool:
        """Whether every column has unit norm."""
        return bool(np.max(np.abs(np.sum(X * X, axis=0) - 1)) <= tol)


@dataclass(frozen=True, eq=False)
class Cube(FeasibleSet):
    """[−r, r]^d; the maximiser of ⟨g, y⟩ is r·sign(g), the value r‖g‖₁.

    Examples
    --------
    >>> import numpy as np
    >>> Cube().argmax_linear(np.array([0.3, -2.0, 0.0]))
    array([ 1., -1.,  1.])
    """

    radius: float | Array = 1.0  # one for all coordinates, or broadcast against the points

    def argmax_linear(self, g: Array) -> Array:
        """r·sign(g), with +r where g is zero."""
        return np.where(g < 0, -self.radius, self.radius).astype(g.dtype)

    def retract(self, y: Array) -> Array:
        """Entries clipped to the cube."""
        return np.clip(y, -self.radius, self.radius)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Whether every entry is in [−r, r]."""
        return bool(np.all(np.abs(x) <= self.radius * (1 + tol)))


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the data's set, or a linear function on it.

    As a point: sample-space units X with their weighted correlations C = μ∘AᵀX. As a linear function:
    ⟨X, ·⟩ on the samples plus ⟨C, ·⟩ on the correlations. Either part may be missing: a start known
    only by its correlations, a gradient that is a thresholding of C alone.
    """

    X: Any
    C: Any

    def column(self, j: int) -> Point:
        """Unit j alone."""
        return Point(self.X[:, j : j + 1], self.C[:, j : j + 1])


@dataclass(frozen=True, eq=False)
class CorrelationSet(FeasibleSet):
    """The data's own set {μ∘AᵀX : X in `samples`}; the maximiser of ⟨T, C⟩ is μ∘Aᵀ·argmax⟨A(μ∘T), X⟩.

    Parameters
    ----------
    operator : Operator
        A.
    mu : ndarray of shape (m,)
        Weights of the units.
    samples : Stiefel, Spheres or Cube
        Where X lives: orthonormal units of a block, independent starts of one unit, or the cube of ℓ1 variance.

    Notes
    -----
    Where A(μ∘T) is rank deficient (a unit has no active variable, or two coincide) its polar factor is not
    unique. The free units are then pointed at the columns of A with the largest part that the others leave
    unexplained: still a maximiser, so that the ascent stays monotone, and active again whenever anything can
    be. Where no such column is left (more units than the rank of A) a unit without active variable is zero.
    """

    operator: Operator
    mu: Array
    samples: Stiefel | Spheres | Cube = field(default_factory=Stiefel)

    @property
    def passes(self) -> float:
        """Reads of the matrix so far."""
        return self.operator.passes

    @cached_property
    def _unweighted(self) -> bool:
        return bool(np.all(self.mu == 1))

    def _weigh(self, C: Array) -> Array:
        """μ∘C."""
        return C if self._unweighted else beside(C, self.mu) * C

    def argmax_linear(self, g: Point) -> Point:
        """One step: combine, put on the set of samples, correlate."""
        Y = self._representative(g)
        if isinstance(self.samples, Cube):
            X = self.samples.argmax_linear(Y)
            return Point(X, self._weigh(self.operator.correlate(X)))
        return self._place(Y, self.operator.correlate(Y))

    def _representative(self, g: Point) -> Array:
        """The sample-space Y with ⟨Y, X⟩ = g(X)."""
        if g.C is None:
            return g.X
        Y = self.operator.combine(self._weigh(g.C))
        return Y if g.X is None else Y + g.X

    def _place(self, Y: Array, C: Array) -> Point:
        """Y put on the set of samples, with C = AᵀY carried along."""
        normalizer = self._normalizer(Y, C)
        X, C = normalizer.apply(Y), normalizer.apply(C)
        if normalizer.ill_conditioned:
            normalizer = self._normalizer(X, C)
            X, C = normalizer.apply(X), normalizer.apply(C)
        if normalizer.free.shape[1]:
            X, C = self._fill_free(normalizer.free, X, C)
        return Point(X, self._weigh(C))

    def _fill_free(self, free: Array, X: Array, C: Array) -> tuple[Array, Array]:
        """X with its free units pointed at columns of A: orthogonal ones in a block, the largest for each start."""
        if isinstance(self.samples, Spheres):
            N, CN = self.fresh_directions(1)
            dead = beside(X, free.sum(axis=1))
            return X + N * dead, C + CN * dead
        N, CN = self.fresh_directions(free.shape[1], X, C)
        return X + N @ beside(X, free.T), C + CN @ beside(X, free.T)

    def _normalizer(self, Y: Array, C: Array) -> Normalizer:
        """What puts Y on the set of samples."""
        assert not isinstance(self.samples, Cube)
        if Y.shape[1] == 1 or isinstance(self.samples, Spheres):
            gram = self.operator.squared_norms(Y, C)[:, None]
        else:
            gram = self.operator.inner(Y, Y, C)
        return self.samples.normalizer(gram)

    def fresh_directions(self, count: int, X: Array | None = None, C: Array | None = None) -> tuple[Array, Array]:
        """Orthonormal directions towards the columns that X leaves least explained, and their correlations.

        Pivoted QR of A continued from X: each new direction is the residual of the column whose residual is
        largest. Zero where A has nothing left.
        """
        operator, (p, n) = self.operator, self.operator.shape
        X = np.zeros_like(operator.column_norms, shape=(p, 0)) if X is None else X
        C = np.zeros_like(operator.column_norms, shape=(n, 0)) if C is None else C
        known = X.shape[1]
        for _ in range(count):
            q, c = self._residual_direction(X, C)
            X, C = np.hstack([X, q]), np.hstack([C, c])
        return X[:, known:], C[:, known:]

    def _residual_direction(self, X: Array, C: Array) -> tuple[Array, Array]:
        """Unit vector towards the column with the largest part orthogonal to X, and its correlations."""
        squares = self.operator.column_norms.astype(np.float64) ** 2  # (n,)
        pivot = first_largest(np.maximum(squares - np.sum(C.astype(np.float64) ** 2, axis=1), 0))
        q = self.operator.columns(np.array([pivot]))  # (p, 1)
        c = self.operator.correlate(q)
        noise = 1e3 * float(np.finfo(q.dtype).eps)  # of a length; of its square where only AᵀA is known
        least = (noise if self.operator.has_samples else np.sqrt(noise)) * np.sqrt(largest(squares))
        for _ in range(2):  # twice is enough to be orthogonal to working precision
            overlap = self.operator.inner(X, q, c)  # (k, 1)
            overlap = beside(q, overlap)
            q, c = q - X @ overlap, c - C @ overlap
            norm = float(np.sqrt(max(float(self.operator.squared_norms(q, c)[0]), 0.0)))
            if norm <= least:
                return 0 * q, 0 * c
            q, c, least = q / norm, c / norm, 0.0
        return q, c

    def extrapolate(self, x: Point, previous: Point, b: float) -> Point:
        """Momentum on samples and correlations alike; on the cube, whose maxima are vertices, none."""
        if isinstance(self.samples, Cube):
            return x
        Y = (1 + b) * x.X - b * previous.X
        C = (1 + b) * x.C - b * previous.C
        return self._place(Y, C if self._unweighted else C / beside(C, self.mu))

    def pairing(self, g: Point, x: Point) -> float:
        """⟨g, x⟩, both parts."""
        total = 0.0 if g.C is None else float(np.vdot(g.C, x.C))
        if g.X is not None:
            total += float(np.trace(self.operator.inner(g.X, x.X, x.C / beside(x.C, self.mu))))
        return total

    def support_value(self, g: Point) -> float:
        """Nuclear norm (Stiefel), sum of column norms (Spheres) or ℓ1 norm (Cube) of A(μ∘T)."""
        Y = self._representative(g)
        if isinstance(self.samples, Cube):
            return float(np.sum(self.samples.radius * np.abs(Y)))
        C = np.zeros((0, Y.shape[1])) if self.operator.has_samples else self.operator.correlate(Y)
        if isinstance(self.samples, Spheres):
            return float(np.sum(np.sqrt(np.maximum(self.operator.squared_norms(Y, C), 0))))
        gram = self.operator.inner(Y, Y, C)
        M = self.samples.normalizer(gram).multiplier
        return float(np.sum(M * gram)) if M.ndim == 2 else float(np.sum(M * np.diagonal(gram)))

    def point(self, X: Array) -> Point:
        """The point of the set at sample-space units X, put on the set of samples first."""
        return self.argmax_linear(Point(X, None))
