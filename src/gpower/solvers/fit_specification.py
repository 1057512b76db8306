"""Specifications: the parameters of a fit as objects, which contain values and build the problems for the solvers.

=================== ========================================= ======================================
specification       levels                                    parameters of `GPower`
=================== ========================================= ======================================
`PenaltyLevel`      fractions of the largest useful γ         ``gamma``
`ExactCardinality`  numbers of variables                      ``cardinality``
`CalibratedPenalty` numbers of variables for which γ is found ``cardinality`` with ``penalty="l1"``
`MinCardinality`    shares of the variance                    ``cardinality`` below 1
`L1BoundSpec`       s of ‖z‖₁ ≤ √s                            ``l1_bound``
`CustomPenalty`     none                                      ``penalty`` is an object without a level
=================== ========================================= ======================================

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. A fit has
m components; `mu`, (m,), are their weights, on the host. A block finds all components at once. γ, (m,), is the absolute
level of a penalty in the units of the data, float64 on the host; a fraction of γ has no unit. `norms`, (n,), in the
memory of the matrix, are the largest |aᵢᵀx| of the columns aᵢ over unit x: ‖aᵢ‖₂, or Σ rₖ|aₖᵢ| for the cube.

- `Penalty`: ``at_gamma(gamma)`` and ``at_cardinality(k)`` are the same kind at another level; ``gamma_max(norms, mu)``
  is the smallest γ at which nothing is active, (m,), float64 on the host; ``select_unit(j)`` keeps the rules of
  component j, ``restrict(idx)`` those of some columns; ``support_rules`` is None without rules;
  ``has_exchangeable_variables`` tells that any variable may replace any other. Rules have ``is_shared_by_units``,
  whether they are the same for all components.
- A sample set is the set of the units X: ``needs_only_gram`` is false only for the cube of ℓ1 variance;
  ``adapt_to(operator)`` takes the sample weights into account.
- A `Start` chooses the first points: ``loadings``, (n, m), of a warm start, or None; ``is_in_sample_space`` tells that
  it needs the samples, ``is_user_chosen`` that the result must be the end of the ascent from there; ``select_unit(j)``
  and ``restrict(idx)`` are those of one component and of some columns.
- ``is_large_matrix(operator, settings)`` tells whether ascents use a working set of columns, by the size of the matrix
  unless the settings say so; ``choose_auto_n_starts(operator)`` is the number of starts that the work allows.
  ``operator.has_samples`` is false for a covariance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from gpower._utils.arrays import Array
from gpower.feasible_sets import SampleSet, Stiefel
from gpower.operators.base import Operator
from gpower.penalties.elementary import Cardinality, L1Ball, NonNegative, Penalty
from gpower.penalties.grouped import GroupCardinality
from gpower.problem.deflation import DeflationRule, SchurDeflation
from gpower.problem.formulation import Problem
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.refit import AUTO_REFIT, RefitSpec
from gpower.solvers.starts import Start, WarmStart, choose_auto_n_starts
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MAX_DIRECT_ENTRIES, AscentSettings, is_large_matrix

#: Starts of a block of exact cardinality or of a large matrix, and of a block with a penalty on a small matrix.
N_BLOCK_STARTS, N_SMALL_BLOCK_STARTS = 4, 16
#: Starts of a component with a penalty, at least. From the longest column alone 34 of 300 tables with two equal columns
#: (30 × 8) ended more than 5 % below the best of 20 starts.
MIN_UNIT_STARTS = 64
#: Approximate passes over the matrix that a component takes: an ascent from one start; many starts, or many γ.
PASSES_PER_UNIT, PASSES_PER_COSTLY_UNIT = 10, 100
#: Forming the covariance of n variables takes the time of about n/GRAM_COLUMNS_PER_PASS matrix-vector products.
GRAM_COLUMNS_PER_PASS = 8
#: With a shared working set the matrix is multiplied by all components and some more columns at once. One column of
#: such a block costs this many matrix-vector products in all: half of the fourteen passes.
PASSES_PER_SHARED_COLUMN, N_EXTRA_SHARED_COLUMNS = 7, 10
#: Largest share of the columns in a shared working set; above it the components are not sparse enough to share one.
MAX_SHARED_COLUMN_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class SparsitySpec(ABC):
    """Kind and level of sparsity of every component; contains no data.

    Attributes
    ----------
    penalty_family : Penalty
        The penalty; its own level is ignored, except by `CustomPenalty`. It may have rules for single variables, and is
        then valid for those columns only.
    levels : tuple of float
        One number per component: a fraction of γ, a cardinality (or a budget of costs), a share of variance or a bound;
        none for `CustomPenalty`.
    positive : bool
        Whether loadings are non-negative.
    sample_set : SampleSet
        The variance that is maximised: ‖A z‖₂ on the Stiefel manifold, ‖A z‖₁ in the cube.
    """

    penalty_family: Penalty
    levels: tuple[float, ...] = ()
    positive: bool = False
    sample_set: SampleSet = field(default_factory=Stiefel)

    #: Whether the levels are cardinalities, or shares of variance that determine them, so that solutions of one level
    #: compare by the variance they explain.
    has_cardinality_levels = False
    #: Whether γ is sought during the solution.
    should_calibrate_gamma = False
    #: Whether a component needs all columns at once, so that components cannot share a working set.
    needs_all_columns = False
    #: Whether ``n_init="auto"`` means many starts, because a single ascent often ends in a poor local optimum.
    has_many_starts = False

    @property
    def has_exchangeable_variables(self) -> bool:
        """Return whether any variable of a component may be exchanged for any other."""
        return False

    @property
    def start_sparsity(self) -> SparsitySpec:
        """Return the kind of sparsity by which starts are compared: this one, unless it has no level yet."""
        return self

    def select_unit(self, j: int) -> Self:
        """Return the specification of component j alone, with one level, or none."""
        return replace(self, levels=self.levels[j : j + 1], penalty_family=self.penalty_family.select_unit(j))

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """Return the absolute γ per component, (m,), float64, on the host; NaN for a kind of sparsity without γ.

        `norms`, (n,), are the largest possible |aᵢᵀx| of the columns: ‖aᵢ‖₂, or for the cube Σ rₖ|aₖᵢ|. `mu`, (m,), are
        the weights, as many as levels. A γ that is sought later is zero.
        """
        return np.full(len(mu), np.nan)

    @abstractmethod
    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty at its level for loadings of either sign; γ, (m,), is absolute, in the dtype of the data.

        Kinds of sparsity without γ ignore it.
        """

    def make_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty at its level, for non-negative loadings where `positive` is set.

        γ, (m,), is absolute, on the host, in the dtype of the data; kinds of sparsity without γ ignore it.
        """
        return NonNegative(self.make_free_sign_penalty(gamma)) if self.positive else self.make_free_sign_penalty(gamma)

    def make_problem(self, operator: Operator, norms: Array, mu: Array, regularization: float = 0.0) -> Problem:
        """Return the problem on a matrix; `norms`, (n,), are the largest possible |aᵢᵀx| of its columns.

        `mu`, (m,), are the weights, on the host, as many as levels. The penalty family must be that of the columns of
        `operator`. γ and weights are rounded to the dtype of the matrix.
        """
        penalty = self.make_penalty(self.compute_gamma(norms, mu).astype(operator.dtype))
        return Problem(operator, penalty, mu.astype(operator.dtype), self.sample_set.adapt_to(operator), regularization)

    def is_ordinary_pca(self, n_features: int) -> bool:
        """Return whether nothing restricts the loadings of n variables, so that the problem is ordinary PCA."""
        return self.sample_set.needs_only_gram and not self.positive and self._allows_all_variables(n_features)

    def _allows_all_variables(self, n_features: int) -> bool:
        """Return whether all n loadings may be non-zero at no cost, in every component."""
        return False

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """Return the number of starts for ``n_init="auto"``: one, or what the size of the matrix allows.

        For a block it is a small number, because every start of a block is a full ascent without a race.
        """
        if not self.has_many_starts:
            return 1
        return N_BLOCK_STARTS if is_block else choose_auto_n_starts(operator)

    def is_costly(self, is_block: bool) -> bool:
        """Return whether a solution without a warm start takes many ascents: of many starts, γ or cardinalities.

        Then a shared working set pays for a single component too.
        """
        return self.has_cardinality_levels


@dataclass(frozen=True, kw_only=True, eq=False)
class PenaltyLevel(SparsitySpec):
    """Sparsity by a penalty: γ is a fraction of the largest useful one, so that it does not depend on units."""

    has_many_starts = True

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """Return the levels times the largest useful γ, (m,), float64 on the host."""
        return np.asarray(self.levels) * self.penalty_family.gamma_max(norms, mu)

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty at absolute γ, (m,), in the dtype of the data."""
        return self.penalty_family.at_gamma(gamma)

    def choose_n_starts(self, operator: Operator, is_block: bool) -> int:
        """Return the number for the size of the matrix, but at least `MIN_UNIT_STARTS` for a single unit.

        For a block it is `N_BLOCK_STARTS`, on a small matrix, which is ascended as a whole, `N_SMALL_BLOCK_STARTS`.
        """
        n_starts = super().choose_n_starts(operator, is_block)
        if is_block and math.prod(operator.shape) > MAX_DIRECT_ENTRIES:
            return n_starts
        return max(n_starts, N_SMALL_BLOCK_STARTS if is_block else MIN_UNIT_STARTS)

    def _allows_all_variables(self, n_features: int) -> bool:
        """Return whether γ is zero and no rule excludes a variable."""
        return self.penalty_family.support_rules is None and all(level == 0 for level in self.levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactCardinality(SparsitySpec):
    """Sparsity by an exact number of variables: the constrained problem."""

    penalty_family: Penalty = field(default_factory=lambda: Cardinality(np.ones(1, np.intp)))
    has_cardinality_levels = has_many_starts = True

    @property
    def has_exchangeable_variables(self) -> bool:
        """Return whether the penalty and the variance allow any exchange of variables."""
        return self.penalty_family.has_exchangeable_variables and self.sample_set.needs_only_gram

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the cardinality constraint as a penalty; γ is not used.

        The levels are numbers of variables, with groups numbers of groups, with a budget sums of costs.
        """
        return self.penalty_family.at_cardinality(np.asarray(self.levels))

    def _allows_all_variables(self, n_features: int) -> bool:
        """Return whether every cardinality is at least `n_features` and no rule excludes a variable."""
        return self.penalty_family.has_exchangeable_variables and all(level >= n_features for level in self.levels)

    def is_costly(self, is_block: bool) -> bool:
        """Return True for a single component, which runs many starts."""
        return not is_block


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedPenalty(SparsitySpec):
    """Sparsity by a penalty whose γ is sought so that a given number of variables is active."""

    has_cardinality_levels = should_calibrate_gamma = True

    @property
    def start_sparsity(self) -> ExactCardinality:
        """Return the exact cardinality of the same number of variables, or of groups: γ is not known yet."""
        rules = self.penalty_family.support_rules
        family = None if rules is None else GroupCardinality(rules.with_unit_costs(), np.ones(1))
        exact = ExactCardinality(levels=self.levels, positive=self.positive, sample_set=self.sample_set)
        return exact if family is None else replace(exact, penalty_family=family)

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """Return zeros, (m,): γ is not known before the calibration."""
        return np.zeros(len(mu))

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty at absolute γ, (m,), in the dtype of the data; zeros before the calibration."""
        return self.penalty_family.at_gamma(gamma)

    def _allows_all_variables(self, n_features: int) -> bool:
        """Return whether every cardinality is at least `n_features` and no rule excludes a variable."""
        return self.penalty_family.support_rules is None and all(level >= n_features for level in self.levels)


@dataclass(frozen=True, kw_only=True, eq=False)
class L1BoundSpec(SparsitySpec):
    """Sparsity by the constraint ‖z‖₁ ≤ √s."""

    penalty_family: Penalty = field(default_factory=lambda: L1Ball(1.0))

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the ball of the one component; γ is not used."""
        return L1Ball(float(self.levels[0]))


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomPenalty(SparsitySpec):
    """Sparsity by a penalty object of the user, at the level that it has."""

    has_many_starts = True

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty unchanged; γ is not used."""
        return self.penalty_family


@dataclass(frozen=True, kw_only=True, eq=False)
class MinCardinality(SparsitySpec):
    """Sparsity by the fewest variables that explain a share of the variance of a component of any cardinality.

    That component satisfies the sign constraint and the rules for variables too; only its cardinality is not limited.

    Attributes
    ----------
    cardinality_spec : SparsitySpec
        How a solution of a given cardinality is found: `ExactCardinality` or `CalibratedPenalty`.
    """

    cardinality_spec: SparsitySpec
    has_cardinality_levels = True
    needs_all_columns = True

    def select_unit(self, j: int) -> MinCardinality:
        """Return the specification of component j alone."""
        return replace(super().select_unit(j), cardinality_spec=self.cardinality_spec.select_unit(j))

    def compute_gamma(self, norms: Array, mu: Array) -> Array:
        """Return the γ of `cardinality_spec`."""
        return self.cardinality_spec.compute_gamma(norms, mu)

    def make_free_sign_penalty(self, gamma: Array) -> Penalty:
        """Return the penalty of `cardinality_spec`."""
        return self.cardinality_spec.make_free_sign_penalty(gamma)


@dataclass(frozen=True, eq=False)
class FitSpec:
    """The parameters of a fit as objects, without data.

    Attributes
    ----------
    sparsity : SparsitySpec
        Kind and level of sparsity.
    mu : tuple of float
        Weights of the components of a block; ones for components found in sequence. Its length is the number of
        components.
    is_block : bool
        Whether all components are found at once.
    n_init : int or None
        Least number of starts; None for the number that `sparsity` chooses.
    start : Start or None
        Start to use instead of columns of the matrix.
    refit : RefitSpec
        Refit of the loadings on their support.
    local_search : bool
        Whether variables are added, dropped and swapped after the ascents.
    deflation : DeflationRule
        Removal of a component before the next is sought.
    regularization : float
        ω of the strongly convex block objective.
    constraint : Constraint or None
        Relation between the components: orthogonal, uncorrelated or disjoint.
    settings : AscentSettings
        Settings of the ascents.
    """

    sparsity: SparsitySpec
    mu: tuple[float, ...] = (1.0,)
    is_block: bool = False
    n_init: int | None = None
    start: Start | None = None
    refit: RefitSpec = AUTO_REFIT
    local_search: bool = True
    deflation: DeflationRule = field(default_factory=SchurDeflation)
    regularization: float = 0.0
    constraint: Constraint | None = None
    settings: AscentSettings = field(default_factory=AscentSettings)

    @property
    def needs_samples(self) -> bool:
        """Return whether the fit needs the samples, not only their covariance: a start in sample space, ℓ1 variance."""
        has_sample_start = self.start is not None and self.start.is_in_sample_space
        return has_sample_start or not self.sparsity.sample_set.needs_only_gram

    @property
    def should_search_locally(self) -> bool:
        """Return whether a local search follows the ascents of a penalty: not with a start chosen by the user."""
        chosen = self.start is not None and self.start.is_user_chosen
        return self.local_search and not chosen and not self.regularization and self.sparsity.sample_set.needs_only_gram

    @property
    def start_loadings(self) -> Array | None:
        """Return the loadings of a warm start, (n_features, m), in any memory, or None."""
        return None if self.start is None else self.start.loadings

    def should_share_rounds(self, operator: Operator) -> bool:
        """Return whether all components are found on one shared working set, which pays on large matrices.

        A warm start is accepted only if no component of it is zero; any other start is not. γ must not be sought from a
        warm start.
        """
        is_warm = self.start_loadings is not None and bool(self.start_loadings.any(axis=0).all())
        accepts_start = self.start is None or (is_warm and not self.sparsity.should_calibrate_gamma)
        pays = operator.has_samples or len(self.mu) > 1  # one component of a covariance is found on all of it
        has_many_ascents = self._needs_many_ascents or self.sparsity.choose_n_starts(operator, self.is_block) > 1
        can_share = accepts_start and pays and has_many_ascents and self._can_share_rounds(operator.shape[1])
        return can_share and is_large_matrix(operator, self.settings)

    @property
    def _needs_many_ascents(self) -> bool:
        """Return whether there are several components, or one that takes many ascents."""
        return len(self.mu) > 1 or self.sparsity.is_costly(self.is_block)

    def _can_share_rounds(self, n_features: int) -> bool:
        """Return whether the components are sparse, found in sequence, and do not need all n columns at once."""
        sparsity = self.sparsity
        is_sequential = not self.is_block and not sparsity.needs_all_columns
        return is_sequential and sparsity.sample_set.needs_only_gram and not sparsity.is_ordinary_pca(n_features)

    def estimate_passes(self, n_features: int) -> int:
        """Return the approximate number of matrix-vector products of a fit to n variables, if the matrix is large.

        One product is with A or its transpose. Rounds on a shared working set count if the cardinalities are small
        enough for them; the data are not looked at.
        """
        is_sparse = COLUMNS_PER_ACTIVE * sum(self.cardinalities) <= MAX_SHARED_COLUMN_SHARE * n_features
        if self._needs_many_ascents and self._can_share_rounds(n_features) and is_sparse:
            return PASSES_PER_SHARED_COLUMN * (N_EXTRA_SHARED_COLUMNS + len(self.mu))
        return self.estimate_sequential_passes()

    def estimate_sequential_passes(self) -> int:
        """Return the approximate number of matrix-vector products if every component is found on its own."""
        per_unit = PASSES_PER_COSTLY_UNIT if self.sparsity.has_cardinality_levels else PASSES_PER_UNIT
        return len(self.mu) * per_unit

    @property
    def cardinalities(self) -> list[int]:
        """Return the cardinalities, one per component; an empty list for other kinds of sparsity.

        They are the levels, rounded down: numbers of variables or of groups, costs for a budget, and zeros for
        `MinCardinality`, whose levels are shares.
        """
        return [int(level) for level in self.sparsity.levels] if self.sparsity.has_cardinality_levels else []

    @property
    def should_maximize_total_variance(self) -> bool:
        """Return whether a block maximises the variance that its components explain together.

        That is a block of several components of equal weight with exact cardinalities and local search.
        """
        is_searched = self.local_search and self.sparsity.has_exchangeable_variables
        return self.is_block and is_searched and len(set(self.mu)) == 1 < len(self.mu)

    @property
    def should_sort_components(self) -> bool:
        """Return whether components may be sorted: none has its own level, weight, rules or start.

        A start in sample space belongs to its component; loadings of a warm start do not forbid sorting.
        """
        rules = self.sparsity.penalty_family.support_rules
        has_one_level = len(set(self.sparsity.levels)) <= 1 and len(set(self.mu)) == 1
        has_one_rule = rules is None or rules.is_shared_by_units
        return has_one_level and has_one_rule and (self.start is None or not self.start.is_in_sample_space)

    def select_unit(self, j: int) -> FitSpec:
        """Return the specification of component j alone, with weight 1; `is_block` stays.

        The constraint stays, but is without effect on one component.
        """
        start = None if self.start is None else self.start.select_unit(j)
        return replace(self, sparsity=self.sparsity.select_unit(j), mu=(1.0,), start=start)

    def with_start_loadings(self, Z: Array) -> FitSpec:
        """Return the specification with a warm start at loadings Z, (n_features, m); the old start is the fallback.

        Z may be in any memory, of any floating dtype and length.
        """
        return replace(self, start=WarmStart(Z, self.start))

    def restrict(self, idx: Array) -> FitSpec:
        """Return the specification for the columns `idx` alone, indices on the host.

        Penalty and start change, levels do not: a cardinality may then exceed the number of columns. The
        `cardinality_spec` of a `MinCardinality` is not restricted: make no problem from such a result, but restrict
        one.
        """
        sparsity = replace(self.sparsity, penalty_family=self.sparsity.penalty_family.restrict(idx))
        return replace(self, sparsity=sparsity, start=self.start and self.start.restrict(idx))
