"""The contract of a compact set, and the sphere and the ball.

Terms: x, y are points of a set and g is a linear function of them, in the form that the set uses; ⟨g, y⟩ is its value.
For the sphere and the ball all three are arrays of shape (d,) on the host, in float32 or float64, and results have the
dtype of the argument; with a metric they have the common dtype of both. Other sets may have points of another kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from gpower._utils.arrays import Array


class FeasibleSet(ABC):
    """A compact set whose linear maximiser is easy to compute.

    Examples
    --------
    The linear maximiser of a simplex is the corner of the largest coordinate.

    >>> import numpy as np
    >>> from gpower.feasible_sets import FeasibleSet
    >>> class Simplex(FeasibleSet):
    ...     def argmax_linear(self, g):
    ...         return np.eye(len(g))[np.argmax(g)]
    >>> Simplex().support_value(np.array([1.0, 3.0, 2.0]))
    3.0
    """

    @property
    def passes(self) -> float:
        """Return the number of passes over the data so far, or NaN for a set without data."""
        return float("nan")

    @property
    def objective_tolerance(self) -> float:
        """Return the amount by which rounding errors may lower an objective on this set, zero if it is unknown."""
        return 0.0

    @abstractmethod
    def argmax_linear(self, g: Any) -> Any:
        """Return a y in the set with the largest ⟨g, y⟩, always the same y for the same g, also for g = 0.

        g is a linear function in the form that the set uses, normally an array of the shape of y; it is not changed.
        """

    def retract(self, y: Any) -> Any:
        """Return a point of the set near y, a new object; raise NotImplementedError if the set has no retraction."""
        raise NotImplementedError(f"{type(self).__name__} offers no retraction: run with acceleration=False.")

    def extrapolate(self, x: Any, previous: Any, b: float) -> Any:
        """Return the point of the set near x + b(x − previous), for two points of the set and 0 ≤ b < 1."""
        return self.retract(x + b * (x - previous))

    def pairing(self, g: Any, x: Any) -> float:
        """Compute ⟨g, x⟩."""
        return float(np.vdot(g, x))

    def support_value(self, g: Any) -> float:
        """Compute the maximum of ⟨g, y⟩ over the set."""
        return self.pairing(g, self.argmax_linear(g))


@dataclass(frozen=True, eq=False)
class Sphere(FeasibleSet):
    """Sphere r·{‖x‖ = 1}; the maximiser of ⟨g, y⟩ is r G⁻¹g/‖g‖* [JNRS10, equation (22)].

    Parameters
    ----------
    radius : float, default=1.0
        The norm r of all points.
    metric : ndarray of shape (d, d), optional
        Positive definite G of the norm ‖x‖² = ⟨Gx, x⟩; identity by default.

    Attributes
    ----------
    radius, metric
        The parameters.
    convexity : float
        Strong convexity of the convex hull, 1/r.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Sphere
    >>> Sphere(2.0).argmax_linear(np.array([3.0, 4.0]))
    array([1.2, 1.6])
    """

    radius: float = 1.0
    metric: Array | None = None

    @property
    def convexity(self) -> float:
        """Return the strong convexity of the convex hull, σ_Q = 1/r."""
        return 1.0 / self.radius

    @cached_property
    def _cholesky_factor(self) -> Any:
        """Return the Cholesky factor of the metric, which is not None, in the form that ``cho_solve`` takes.

        Raise ValueError if the metric is not symmetric (to the tolerances of ``np.allclose``) or not positive definite.
        """
        try:
            G = np.asarray(self.metric)
            if not np.allclose(G, G.T):
                raise np.linalg.LinAlgError
            return sla.cho_factor(G)
        except np.linalg.LinAlgError:
            raise ValueError(
                "metric must be symmetric positive definite; its Cholesky factor does not exist."
            ) from None

    def _apply_inverse_metric(self, g: Array) -> Array:
        """Compute G⁻¹g, (d,); g itself, not a copy, without a metric."""
        return g if self.metric is None else np.asarray(sla.cho_solve(self._cholesky_factor, g))

    def norm(self, x: Array) -> float:
        """Compute ‖x‖ in the metric G, for x of shape (d,)."""
        return float(np.sqrt(np.vdot(x, x if self.metric is None else self.metric @ x)))

    def dual_norm(self, g: Array) -> float:
        """Compute ‖g‖* = ⟨g, G⁻¹g⟩^½, for g of shape (d,)."""
        return float(np.sqrt(np.vdot(g, self._apply_inverse_metric(g))))

    def argmax_linear(self, g: Array) -> Array:
        """Return r G⁻¹g/‖g‖*; if g = 0, every point is a maximiser and the first coordinate vector is returned."""
        direction = self._apply_inverse_metric(g) if np.any(g) else np.eye(1, g.size, dtype=g.dtype).reshape(g.shape)
        return self.retract(direction)

    def retract(self, y: Array) -> Array:
        """Return r y/‖y‖, for y ≠ 0 of shape (d,)."""
        return np.asarray((self.radius / self.norm(y)) * y)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether ‖x‖ = r up to `tol`, a share of r."""
        return abs(self.norm(x) - self.radius) <= tol * self.radius


@dataclass(frozen=True, eq=False)
class Ball(Sphere):
    """Ball r·{‖x‖ ≤ 1}; a convex function attains its maximum on the boundary, the sphere.

    Parameters
    ----------
    radius : float, default=1.0
        The largest norm r of a point.
    metric : ndarray of shape (d, d), optional
        Positive definite G of the norm ‖x‖² = ⟨Gx, x⟩; identity by default.

    Attributes
    ----------
    radius, metric, convexity
        The attributes of `Sphere`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.feasible_sets import Ball
    >>> Ball(2.0).contains(np.array([0.5, 0.5]))
    True
    """

    def retract(self, y: Array) -> Array:
        """Return the point of the ball nearest to y, (d,), in the norm of the metric; y may be zero."""
        return np.asarray(y * min(1.0, self.radius / max(self.norm(y), np.finfo(float).tiny)))

    def argmax_linear(self, g: Array) -> Array:
        """Return the maximiser on the sphere."""
        return Sphere(self.radius, self.metric).argmax_linear(g)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether ‖x‖ ≤ r up to `tol`, a share of r."""
        return self.norm(x) <= self.radius * (1 + tol)
