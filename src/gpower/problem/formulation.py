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

from gpower._utils.arrays import Array
from gpower.feasible_sets import CorrelationSet, CorrelationStart, Point, RegularizedSet, SampleSet, Stiefel
from gpower.operators.base import Operator
from gpower.penalties.elementary import Penalty


@dataclass(frozen=True, eq=False)
class PenaltyObjective:
    """A penalty as a convex function on the data's set; the gradient is a function of the correlations."""

    penalty: Penalty

    def value_and_gradient(self, x: CorrelationStart | Point) -> tuple[float, Array]:
        """φ(C) and φ′(C)."""
        return self.penalty.value_and_gradient(x.C)


@dataclass(frozen=True, eq=False)
class RegularizedObjective:
    """f + (ω/2)‖X‖²: strongly convex, and the same problem, since ‖X‖² is constant on the Stiefel manifold.

    The constant is left out of the value. The step becomes polar(f′(X) + ωX) [JNRS10, sections 1 and 3.4].
    """

    penalty: Penalty
    omega: float

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        """φ(C) and the linear function ⟨φ′(C), ·⟩ + ω⟨X, ·⟩."""
        value, gradient = self.penalty.value_and_gradient(x.C)
        return value, Point(self.omega * x.X, gradient)


@dataclass(frozen=True, eq=False)
class Problem:
    """max φ(μ∘AᵀX) over X in a set of samples.

    Attributes
    ----------
    operator : Operator
        The matrix A.
    penalty : Penalty
        The function φ.
    mu : ndarray of shape (m,)
        Weights of the units; their number is the size of the block.
    samples : SampleSet
        The set of X.
    regularization : float
        The weight ω.
    """

    operator: Operator
    penalty: Penalty
    mu: Array = field(default_factory=lambda: np.ones(1))
    sample_set: SampleSet = field(default_factory=Stiefel)
    regularization: float = 0.0

    @property
    def feasible_set(self) -> CorrelationSet:
        """The data's own set."""
        kind = RegularizedSet if self.regularization else CorrelationSet
        return kind(self.operator, self.mu, self.sample_set)

    @property
    def objective(self) -> PenaltyObjective | RegularizedObjective:
        """φ on that set."""
        if self.regularization:
            return RegularizedObjective(self.penalty, self.regularization)
        return PenaltyObjective(self.penalty)

    @property
    def is_single_l2_unit(self) -> bool:
        """Whether it is one unit of plain variance, whose best loadings on given columns an eigenvector gives."""
        return self.mu.size == 1 and self.sample_set.needs_only_gram

    def as_batch(self, n_starts: int) -> Problem:
        """The problem of one unit, `n_starts` times side by side as columns of one product."""
        return replace(self, mu=np.repeat(self.mu, n_starts), sample_set=self.sample_set.for_independent_starts())

    def restrict(self, idx: Array) -> Problem:
        """The problem on the columns `idx` alone."""
        return replace(self, operator=self.operator.take(idx), penalty=self.penalty.restrict(idx))

    def compute_loadings(self, point: Point) -> Array:
        """The loadings that attain the penalty at a point, (n_features, m)."""
        return self.penalty.loadings(point.C)
