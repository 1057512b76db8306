"""Stages of a permutation test: the residual of a table after the earlier components, permuted and fitted.

Fits are small: two starts, no local search. The module `gpower.analysis.permutation` has the reasons for each step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, column_dots
from gpower.feasible_sets import Point
from gpower.operators import as_operator
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.solvers.component import solve_component
from gpower.solvers.covariance_stack import can_solve_in_stack, rank_start_columns, solve_covariance_stack
from gpower.solvers.specification import FitSpec
from gpower.solvers.starts import ColumnStarts, Start, StartContext

#: Number of variables that count as the largest: this minimum, or this multiple of the cardinality.
MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY = 300, 6
#: Number of entries up to which the residual of a table is kept.
MAX_CACHED_ENTRIES = 1_000_000
#: Tolerance of a small fit, and its largest number of iterations.
QUICK_FIT_TOLERANCE, MAX_QUICK_FIT_STEPS = 1e-3, 60


@dataclass(frozen=True, eq=False)
class DeflationStage:
    """Residual of a table after j components, and the specification of the fit to it.

    Attributes
    ----------
    table : ndarray of shape (n_features, n_samples)
        The centred and scaled table, float32; one row per variable, so that its samples are contiguous.
    score_basis : ndarray of shape (n_samples, c + j)
        Orthonormal basis of the covariates, if there are any, and of the scores of the removed components.
    loading_basis : ndarray of shape (n_features, j)
        Orthonormal basis of the loadings of the removed components; the residual has no variance along them.
    fit_spec : FitSpec
        Specification of a small fit of the next component.
    """

    table: Array
    score_basis: Array
    loading_basis: Array
    fit_spec: FitSpec

    @cached_property
    def score_projections(self) -> Array:
        """Return the coefficients of every variable in `score_basis`, (n_features, c + j)."""
        return self.table @ self.score_basis

    @cached_property
    def residual_norms(self) -> Array:
        """Return the norms of the variables in the residual, (n_features, 1)."""
        return np.linalg.norm(self.compute_residual(), axis=1, keepdims=True)

    def compute_residual(self) -> Array:
        """Compute the residual, (n_features, n_samples); not cached, because many stages would not fit into memory."""
        return self.table - self.score_projections @ self.score_basis.T if self.score_basis.size else self.table

    def deflate(self, z: Array, fit_spec: FitSpec) -> DeflationStage:
        """Return the next stage, without the scores of the loadings z, (n_features,)."""
        y = z[z != 0] @ self.table[z != 0]
        for _ in range(2):  # the second pass removes rounding errors
            y = y - self.score_basis @ (self.score_basis.T @ y)
        length = np.linalg.norm(y)
        if not length > 0:
            return replace(self, fit_spec=fit_spec)
        dtype = self.table.dtype
        score_basis = np.column_stack([self.score_basis, y / length]).astype(dtype)
        loading_basis = np.linalg.qr(np.column_stack([self.loading_basis, z])).Q.astype(dtype)
        return DeflationStage(self.table, score_basis, loading_basis, fit_spec)

    def find_longest_variables(self) -> Array | None:
        """Return the variables of largest norm and those of earlier components, in order; None if that saves little."""
        spec = self.fit_spec.sparsity
        count = max(MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY * max(self.fit_spec.cardinalities, default=0))
        saves_little = 2 * count >= self.table.shape[0]
        if saves_little or spec.needs_all_columns or spec.penalty_family.support_rules is not None:
            return None
        largest = np.argsort(-self.residual_norms[:, 0], kind="stable")[:count]
        return np.union1d(largest, np.flatnonzero(self.loading_basis.any(axis=1)))

    def restrict_to_variables(self, variables: Array) -> DeflationStage:
        """Return the stage of some variables, which must include those of earlier components."""
        return DeflationStage(
            self.table[variables], self.score_basis, self.loading_basis[variables], self.fit_spec.restrict(variables)
        )

    def permute_residual(self, order: Array) -> Array:
        """Return the residual, (n_features, n_samples), with the samples of every variable in the given order.

        `order`, (n_features, n_samples), has a permutation in each row. Scores and loadings of earlier components are
        removed again, and the norms of the variables restored.
        """
        n, p = self.table.shape
        residual = self._cached_residual if self.table.size <= MAX_CACHED_ENTRIES else self.compute_residual()
        A = np.take(residual, order + p * np.arange(n)[:, None])  # indices into the flattened array
        if self.score_basis.size:
            rows = np.flatnonzero(self.loading_basis.any(axis=1))
            W = self.loading_basis[rows]
            A[rows] -= W @ (W.T @ A[rows])
            A -= (A @ self.score_basis) @ self.score_basis.T
            norms = np.linalg.norm(A, axis=1, keepdims=True)
            A *= self.residual_norms / np.where(norms > 0, norms, np.inf)
        return A

    @cached_property
    def _cached_residual(self) -> Array:
        """Return the residual of a small table, which is permuted many times."""
        return self.compute_residual()

    @property
    def is_solved_in_stack(self) -> bool:
        """Return whether the fits to permuted tables are solved together, as a stack of covariances."""
        return can_solve_in_stack(replace(self.fit_spec, start=None, n_init=None), self.table.shape[0])

    def compute_variances(self, covariances: Array) -> Array:
        """Return the variances, (q,), of the components that small fits find in covariances, (q, n, n).

        The starts are those of `TwoColumnStart`.
        """
        longest = np.argmax(np.diagonal(covariances, axis1=1, axis2=2), axis=1)
        starts = np.column_stack([longest, rank_start_columns(covariances)[:, 0]])
        cardinalities = np.full(len(covariances), self.fit_spec.cardinalities[0])
        return solve_covariance_stack(covariances, cardinalities, start_columns=starts, local_search=False)[1]

    def compute_variance(self, A: Array) -> float:
        """Return the variance of the component that a small fit finds in a table, (n_features, n_samples)."""
        if self.is_solved_in_stack:
            return float(self.compute_variances(compute_table_gram(A)[None])[0])
        operator = build_table_operator(A, self.fit_spec)
        if not operator.column_norms.any():
            return 0.0
        result = solve_component(operator, self.fit_spec, np.random.RandomState(0))
        return float(Scores.from_loadings(operator, result.Z).variances[0])


def build_deflation_stages(A: Array, basis: Array, loadings: Array, fit_spec: FitSpec) -> list[DeflationStage]:
    """Return one stage per component: the table without the `basis`, then its residual after each earlier component."""
    settings = replace(
        fit_spec.settings,
        tol=max(fit_spec.settings.tol, QUICK_FIT_TOLERANCE),
        max_iter=MAX_QUICK_FIT_STEPS,
        callback=None,
    )
    small_specs = [
        replace(fit_spec.select_unit(j), n_init=1, start=TwoColumnStart(), local_search=False, settings=settings)
        for j in range(len(fit_spec.mu))
    ]
    stages = [DeflationStage(A, basis, np.zeros((len(A), 0), A.dtype), small_specs[0])]
    for j in range(1, len(small_specs)):
        stages.append(stages[-1].deflate(loadings[:, j - 1], small_specs[j]))
    return stages


def build_table_operator(A: Array, fit_spec: FitSpec) -> Operator:
    """Return a centred and scaled table, (n_features, n_samples), as an operator; tall tables by their covariance."""
    return as_operator(A.T, center=False, reduce_tall=not fit_spec.needs_samples)[0]


def compute_table_gram(A: Array) -> Array:
    """Return the inner products of the variables of a table A, (n_features, n_samples), in float64."""
    return (A @ A.T).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TwoColumnStart(Start):
    """Two starts: the column of largest norm, and the column whose direction explains the most variance.

    The column of largest norm alone may be unrelated to the components, above all if columns are standardised.
    """

    def choose_points(self, context: StartContext) -> list[Point]:
        """Return the points of both starts."""
        alignments = _compute_column_alignments(context.problem.operator, context.norms)
        starts = (context.norms, np.sqrt(alignments).astype(context.norms.dtype))
        return [point for norms in starts for point in ColumnStarts(1).choose_points(replace(context, norms=norms))]


def _compute_column_alignments(operator: Operator, norms: Array) -> Array:
    """Compute ‖Aᵀx‖² for x = a/‖a‖ of every column a, (n,)."""
    p, n = operator.shape
    columns = np.arange(n)
    if n > p and operator.has_samples:
        G = operator.sample_gram(columns)
        blocks = map(operator.columns, np.array_split(columns, 16))
        squares = np.concatenate([column_dots(G @ A, A) for A in blocks])
    else:
        squares = np.sum(operator.gram(columns) ** 2, axis=1)
    return np.maximum(squares, 0) / np.where(norms > 0, norms, np.inf) ** 2
