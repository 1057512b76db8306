"""An optimisation problem of sparse PCA: a matrix, a penalty and a set of samples, and how to read off the loadings.

Every formulation combines three choices, and `gpower.solvers.ascent.maximize` solves all of them.

==================  ============================================  ======================================
choice              objects                                        parameters of the estimator
==================  ============================================  ======================================
penalty             `L1`, `L0`, `Cardinality`, `L1Ball`,           ``penalty``, ``gamma``,
                    each also `NonNegative`                        ``cardinality``, ``l1_bound``,
                                                                   ``positive``
variance            samples on `Stiefel` (‖A z‖₂) or in the        ``variance``
                    `Cube` (‖A z‖₁)
block size          one unit, or a block with weights μ            ``method``, ``mu``
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
    """A penalty φ as a convex objective of a point; it depends on the point through its correlations C alone."""

    penalty: Penalty

    def value_and_gradient(self, x: CorrelationStart | Point) -> tuple[float, Array]:
        """Return φ(C) and φ′(C), the latter of shape (n_features, m)."""
        return self.penalty.value_and_gradient(x.C)


@dataclass(frozen=True, eq=False)
class RegularizedObjective:
    """The strongly convex objective φ(C) + (ω/2)‖X‖².

    Its maximisers are those of φ: ‖X‖² is constant on the Stiefel manifold, and the value omits that constant.
    The step becomes polar(f′(X) + ωX) [JNRS10, sections 1 and 3.4].
    """

    penalty: Penalty
    omega: float

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        """Return φ(C) and the gradient, the linear function ⟨φ′(C), ·⟩ + ω⟨X, ·⟩, as a `Point`."""
        value, gradient = self.penalty.value_and_gradient(x.C)
        return value, Point(self.omega * x.X, gradient)


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem max φ(μ∘AᵀX) over X in a set of samples.

    Attributes
    ----------
    operator : Operator
        The matrix A.
    penalty : Penalty
        The function φ.
    mu : ndarray of shape (m,)
        Weights of the units; m is the size of the block.
    sample_set : SampleSet
        The set of X, (n_samples, m).
    regularization : float
        The weight ω of the term (ω/2)‖X‖² that makes the objective strongly convex.
    """

    operator: Operator
    penalty: Penalty
    mu: Array = field(default_factory=lambda: np.ones(1))
    sample_set: SampleSet = field(default_factory=Stiefel)
    regularization: float = 0.0

    @property
    def feasible_set(self) -> CorrelationSet:
        """Return the set of points, with the correlations μ∘AᵀX of each."""
        set_class = RegularizedSet if self.regularization else CorrelationSet
        return set_class(self.operator, self.mu, self.sample_set)

    @property
    def objective(self) -> PenaltyObjective | RegularizedObjective:
        """Return φ as an objective on `feasible_set`, with the term of the regularization if there is one."""
        if self.regularization:
            return RegularizedObjective(self.penalty, self.regularization)
        return PenaltyObjective(self.penalty)

    @property
    def is_single_l2_unit(self) -> bool:
        """Return whether there is a single unit of variance ‖A z‖₂²; on a fixed support an eigenvector maximises it."""
        return self.mu.size == 1 and self.sample_set.needs_only_gram

    def as_batch(self, n_starts: int) -> Problem:
        """Return the problem of one unit repeated for `n_starts` independent starts, one column of X for each."""
        return replace(self, mu=np.repeat(self.mu, n_starts), sample_set=self.sample_set.for_independent_starts())

    def restrict(self, idx: Array) -> Problem:
        """Return the problem on the columns `idx` of the matrix."""
        return replace(self, operator=self.operator.take(idx), penalty=self.penalty.restrict(idx))

    def compute_loadings(self, point: Point) -> Array:
        """Return the unit loadings that attain the penalty at a point, (n_features, m)."""
        return self.penalty.loadings(point.C)
