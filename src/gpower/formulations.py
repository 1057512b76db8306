"""A problem of sparse PCA: a penalty, the data's own set, a start, and how to read the loadings off.

All formulations are compositions of three choices; the same loop solves each of them.

==================  ============================================  ======================================
choice              objects                                        words of the estimator
==================  ============================================  ======================================
what is sparse      `L1`, `L0`, `Cardinality`, `L1Ball`,           ``penalty``, ``gamma``,
                    each also `NonNegative`                        ``cardinality``, ``l1_bound``,
                                                                   ``positive``
which variance      samples on `Stiefel` (‖A z‖₂) or in the        ``variance``
                    `Cube` (‖A z‖₁)
how many at once    one column, or a block with weights μ          ``method``, ``mu``
==================  ============================================  ======================================
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gpower._arrays import Array, largest
from gpower.feasible_sets import CorrelationSet, Cube, Point, Spheres, Stiefel
from gpower.operators.base import Operator
from gpower.penalties import L0, L1, Cardinality, L1Ball, NonNegative, Penalty


@dataclass(frozen=True, eq=False)
class OnCorrelations:
    """A penalty as a convex function on the data's set; the gradient is a function of the correlations."""

    penalty: Penalty

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        """φ(C) and the linear function ⟨φ′(C), ·⟩."""
        value, gradient = self.penalty.value_and_gradient(x.C)
        return value, Point(None, gradient)


@dataclass(frozen=True, eq=False)
class Regularized(OnCorrelations):
    """f + (ω/2)‖X‖²: strongly convex, and the same problem, since ‖X‖² is constant on the Stiefel manifold.

    The constant is left out of the value. The step becomes polar(f′(X) + ωX) [JNRS10, sections 1 and 3.4].
    """

    omega: float = 0.0

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        """φ(C) and the linear function ⟨φ′(C), ·⟩ + ω⟨X, ·⟩."""
        value, gradient = super().value_and_gradient(x)
        return value, Point(self.omega * x.X, gradient.C)


@dataclass(frozen=True, eq=False)
class Problem:
    """max φ(μ∘AᵀX) over X in a set of samples.

    Attributes
    ----------
    operator : Operator
        A.
    penalty : Penalty
        φ.
    mu : ndarray of shape (m,)
        Weights of the units; their number is the size of the block.
    samples : Stiefel, Spheres or Cube
        The set of X.
    regularization : float
        ω.
    """

    operator: Operator
    penalty: Penalty
    mu: Array = field(default_factory=lambda: np.ones(1))
    samples: Stiefel | Spheres | Cube = field(default_factory=Stiefel)
    regularization: float = 0.0

    @property
    def feasible_set(self) -> CorrelationSet:
        """The data's own set."""
        return CorrelationSet(self.operator, self.mu, self.samples)

    @property
    def objective(self) -> OnCorrelations:
        """φ on that set."""
        if self.regularization:
            return Regularized(self.penalty, self.regularization)
        return OnCorrelations(self.penalty)

    def as_batch(self, n_starts: int) -> Problem:
        """The problem of one unit, `n_starts` times side by side as columns of one product."""
        samples = self.samples if isinstance(self.samples, Cube) else Spheres()
        return replace(self, mu=np.repeat(self.mu, n_starts), samples=samples)

    def loadings(self, point: Point) -> Array:
        """The loadings that attain the penalty at a point, (n_features, m)."""
        return self.penalty.loadings(point.C)


@dataclass(frozen=True)
class Formulation:
    """The user's wish, free of the data: which penalty at which level, for every unit.

    Attributes
    ----------
    kind : {"l1", "l0", "cardinality", "l1_ball"}
    levels : tuple
        One number per unit: a fraction of the largest useful γ, a cardinality, or s of ‖z‖₁ ≤ √s.
    positive : bool
        Non-negative loadings.
    l1_variance : bool
        ‖A z‖₁ in place of ‖A z‖₂.
    calibrated : bool
        Levels are cardinalities for which γ has yet to be found.
    """

    kind: str
    levels: tuple[float, ...]
    positive: bool = False
    l1_variance: bool = False
    calibrated: bool = False

    def unit(self, j: int) -> Formulation:
        """The wish of unit j alone."""
        return replace(self, levels=(self.levels[j],))

    def gamma_max(self, norms: Array, mu: Array) -> Array:
        """The smallest γ per unit, (m,), that lets no variable in: μⱼ max‖aᵢ‖ (ℓ1), its square (ℓ0), else NaN."""
        bound = np.asarray(mu, float) * largest(norms)
        return {"l1": bound, "l0": bound**2}.get(self.kind, np.full(bound.size, np.nan))

    def gamma(self, norms: Array, mu: Array) -> Array:
        """Absolute γ per unit: fractions of the largest useful one, free of the data's scale."""
        levels = np.zeros(len(self.levels)) if self.calibrated else np.asarray(self.levels)
        return levels * self.gamma_max(norms, mu)

    def penalty(self, gamma: Array, dtype: np.dtype) -> Penalty:
        """The penalty object, with γ absolute."""
        penalty: Penalty
        if self.kind == "cardinality":
            penalty = Cardinality(np.asarray(self.levels, dtype=np.intp))
        elif self.kind == "l1_ball":
            penalty = L1Ball(float(self.levels[0]))
        else:
            penalty = {"l1": L1, "l0": L0}[self.kind](gamma.astype(dtype))
        return NonNegative(penalty) if self.positive else penalty

    def problem(
        self, operator: Operator, norms: Array, mu: Array, regularization: float = 0.0
    ) -> tuple[Problem, Array]:
        """The problem on a matrix whose columns have these `norms`, and the absolute γ it uses."""
        gamma = self.gamma(norms, mu)
        radius = operator.sample_radius
        samples = Cube(1.0 if radius is None else radius[:, None]) if self.l1_variance else Stiefel()
        mu = np.asarray(mu, operator.dtype)
        return Problem(operator, self.penalty(gamma, operator.dtype), mu, samples, regularization), gamma

    def norms(self, operator: Operator) -> Array:
        """The largest |aᵢᵀx| over the set of samples, (n,): ‖aᵢ‖₂, or ‖aᵢ‖₁ over the cube."""
        return column_l1_norms(operator) if self.l1_variance else operator.column_norms


def column_l1_norms(operator: Operator, step: int = 256) -> Array:
    """Σ rₖ|aₖᵢ| of every column: the largest |aᵢᵀx| over the cube."""
    n = operator.shape[1]
    blocks = [np.arange(i, min(i + step, n)) for i in range(0, n, step)]
    radius = np.ones(operator.shape[0], operator.dtype) if operator.sample_radius is None else operator.sample_radius
    norms = np.concatenate([radius @ np.abs(operator.columns(idx)) for idx in blocks])
    return np.where(operator.column_norms > 0, norms, 0)
