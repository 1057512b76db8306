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
from gpower.feasible_sets import Correlations, CorrelationSet, Point, RegularizedSet, SampleSet, Stiefel
from gpower.operators.base import Operator
from gpower.penalties.elementary import Penalty


@dataclass(frozen=True, eq=False)
class OnCorrelations:
    """A penalty as a convex function on the data's set; the gradient is a function of the correlations."""

    penalty: Penalty

    def value_and_gradient(self, x: Correlations | Point) -> tuple[float, Array]:
        """φ(C) and φ′(C)."""
        return self.penalty.value_and_gradient(x.C)


@dataclass(frozen=True, eq=False)
class Regularized:
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
    samples: SampleSet = field(default_factory=Stiefel)
    regularization: float = 0.0

    @property
    def feasible_set(self) -> CorrelationSet:
        """The data's own set."""
        kind = RegularizedSet if self.regularization else CorrelationSet
        return kind(self.operator, self.mu, self.samples)

    @property
    def objective(self) -> OnCorrelations | Regularized:
        """φ on that set."""
        if self.regularization:
            return Regularized(self.penalty, self.regularization)
        return OnCorrelations(self.penalty)

    @property
    def is_single(self) -> bool:
        """Whether it is one unit of plain variance, whose best loadings on given columns an eigenvector gives."""
        return self.mu.size == 1 and self.samples.by_gram

    def as_batch(self, n_starts: int) -> Problem:
        """The problem of one unit, `n_starts` times side by side as columns of one product."""
        return replace(self, mu=np.repeat(self.mu, n_starts), samples=self.samples.side_by_side())

    def among(self, idx: Array) -> Problem:
        """The problem on the columns `idx` alone."""
        return replace(self, operator=self.operator.take(idx), penalty=self.penalty.restrict(idx))

    def loadings(self, point: Point) -> Array:
        """The loadings that attain the penalty at a point, (n_features, m)."""
        return self.penalty.loadings(point.C)
