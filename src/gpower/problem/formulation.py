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

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place, with
p = n. A problem has m units with weights μ, (m,), on the host: the components of a block, independent starts of one
component, or a single one. A `Point` has the sample-space units X, (p, m), and their weighted correlations C = μ∘AᵀX,
(n, m), where the matrix is, on the host or a device, in its dtype. φ is a penalty, a function of C alone, and φ′(C),
(n, m), its gradient; the loadings at a point are the normalised columns of φ′(C).

``penalty.value_and_gradient(C)`` is φ(C), a float, and φ′(C); ``penalty.loadings(C)`` are the loadings, zero in a unit
without active variables; ``penalty.restrict(idx)`` is the penalty of some variables. A `CorrelationStart` has C alone.
Of a sample set, the set of X, ``needs_only_gram`` is false only for the cube, and ``for_independent_starts()`` is the
set of columns that are independent of each other. ``operator.take(idx)`` is the operator of some columns as a matrix in
its own right.
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
    """A penalty φ as a convex objective of a point; it depends on the point through its correlations C alone.

    Hence a `CorrelationStart`, which has no sample-space units X, is enough to evaluate it.
    """

    penalty: Penalty

    def value_and_gradient(self, x: CorrelationStart | Point) -> tuple[float, Array]:
        """Return φ(C) at the point or start x, summed over units, and φ′(C), (n_features, m), in the memory of C.

        φ′(C) is a new array in the dtype of C.
        """
        return self.penalty.value_and_gradient(x.C)


@dataclass(frozen=True, eq=False)
class RegularizedObjective:
    """The strongly convex objective φ(C) + (ω/2)‖X‖².

    Its maximisers are those of φ: ‖X‖² is constant on the Stiefel manifold, and the value omits that constant.
    The step becomes polar(f′(X) + ωX) [JNRS10, sections 1 and 3.4]. `omega` > 0 is ω.
    """

    penalty: Penalty
    omega: float

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        """Return φ(C) at the point x and the gradient, the linear function ⟨φ′(C), ·⟩ + ω⟨X, ·⟩, as a `Point`.

        This `Point` is a pair (ωX, φ′(C)) for `RegularizedSet`, not a point of the set.
        """
        value, gradient = self.penalty.value_and_gradient(x.C)
        return value, Point(self.omega * x.X, gradient)


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem max φ(μ∘AᵀX) over X in a set of samples.

    Of the fields only `operator` and `penalty` depend on the n columns: both change in `restrict`.

    Attributes
    ----------
    operator : Operator
        The matrix A, (n_samples, n_features), or a covariance AᵀA.
    penalty : Penalty
        The function φ, for m units; rules for single variables cover all n columns of the operator.
    mu : ndarray of shape (m,)
        Positive weights of the units, on the host, in the dtype of the operator; m is the size of the block.
    sample_set : SampleSet
        The set of X, (n_samples, m); of a covariance, X is represented by coefficients, (n_features, m). A weighted
        `Cube` depends on the samples, no set on the columns.
    regularization : float
        The weight ω of the term (ω/2)‖X‖² that makes the objective strongly convex; 0 for none.
    """

    operator: Operator
    penalty: Penalty
    mu: Array = field(default_factory=lambda: np.ones(1))
    sample_set: SampleSet = field(default_factory=Stiefel)
    regularization: float = 0.0

    @property
    def feasible_set(self) -> CorrelationSet:
        """Return the set of points, with the correlations μ∘AᵀX of each.

        Its `make_point(Y)` takes any sample-space vectors Y and returns the maximiser of ⟨Y, X⟩ over the set: Y with
        orthonormal columns (polar factor) on `Stiefel`, with unit columns on `Spheres`, ±radius by sign on `Cube`. On
        the first two a zero column of Y becomes a direction that the other units do not explain, zero beyond the rank.
        """
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
        """Return whether there is a single unit of variance ‖A z‖₂²; on a fixed support an eigenvector maximises it.

        It is true of penalties with non-negative loadings too, although the eigenvector may then have both signs.
        """
        return self.mu.size == 1 and self.sample_set.needs_only_gram

    def as_batch(self, n_starts: int) -> Problem:
        """Return the problem of one unit repeated for `n_starts` independent starts, one column of X for each.

        This problem must have a single unit. The columns are normalised each by itself, not orthonormalised, and the
        penalty of the one unit applies to each: its `evaluate` gives one value per start. A regularization stays.
        """
        return replace(self, mu=np.repeat(self.mu, n_starts), sample_set=self.sample_set.for_independent_starts())

    def restrict(self, idx: Array) -> Problem:
        """Return the problem on the columns `idx` of the matrix; `idx` are increasing integers on the host.

        With samples, X means the same in both problems. Of a covariance, X has one coefficient for each of the columns
        of its own problem and must be embedded to be used in the other.
        """
        return replace(self, operator=self.operator.take(idx), penalty=self.penalty.restrict(idx))

    def compute_loadings(self, point: Point) -> Array:
        """Return the unit loadings that attain the penalty at a point, (n_features, m); zero for a unit without any.

        They are where the matrix is, in its dtype, with the signs of the correlations, not oriented.
        """
        return self.penalty.loadings(point.C)
