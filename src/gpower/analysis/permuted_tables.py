"""Permuted tables of a permutation test: the residual of a table after the earlier components, permuted and fitted.

Fits are small: two starts, no local search. `gpower.analysis.permutation_test` has the reasons for each step.

For a wide table most fits are smaller still. In a permuted table the components lie among the variables of largest
norm, and permuting does not change norms. A few permuted tables show how much more variance a fit to all variables
finds than a fit to the largest ones. After that the largest variables decide if their variance is far below that of the
table; otherwise all variables are used. On a factor model of 295 × 13,319 a test with 40 permuted tables took 11 s
instead of 25 s (processor time); on tables of 100 × 5000 with three planted components it took 8 s instead of 6 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array, column_dots
from gpower.feasible_sets import Point
from gpower.operators import as_operator
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.component import solve_component
from gpower.solvers.covariance_stack import can_solve_in_stack, rank_start_columns, solve_covariance_stack
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.starts import ColumnStarts, Start, StartContext

#: Number of variables that count as the largest: this minimum, or this multiple of the cardinality.
MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY = 300, 6
#: Margin, a share of the permuted variance: a permuted table is far below the table if at least this lies between them.
MIN_SCREENING_MARGIN = 0.25
#: Tolerance of a small fit, and its largest number of iterations.
QUICK_FIT_TOLERANCE, MAX_QUICK_FIT_STEPS = 1e-3, 60

#: Function of variables, or of None for all, that returns the order of the samples of each in one permuted table,
#: (n_variables, n_samples).
OrderSource: TypeAlias = Callable[[Array | None], Array]


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
        """Return the coefficients of every variable in `score_basis`, (n_features, c), c being its columns."""
        return self.table @ self.score_basis

    @cached_property
    def residual_norms(self) -> Array:
        """Return the norms of the variables in the residual, (n_features, 1)."""
        return np.linalg.norm(self.compute_residual(), axis=1, keepdims=True)

    @cached_property
    def observed_variance(self) -> float:
        """Return the variance of the component that a small fit finds in the residual."""
        return self.compute_variance(self.compute_residual())

    @cached_property
    def longest_stage(self) -> DeflationStage | None:
        """Return the stage of `longest_variables`, with one start; None if all variables are always used."""
        if self.longest_variables is None:
            return None
        stage = self.restrict_to_variables(self.longest_variables)
        return replace(stage, fit_spec=replace(stage.fit_spec, start=None))

    @cached_property
    def longest_variables(self) -> Array | None:
        """Return the variables of largest norm and those of earlier components, in order; None if that saves little."""
        spec = self.fit_spec.sparsity
        count = max(MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY * max(self.fit_spec.cardinalities, default=0))
        saves_little = 2 * count >= self.table.shape[0]
        if saves_little or spec.needs_all_columns or spec.penalty_family.support_rules is not None:
            return None
        largest = np.argsort(-self.residual_norms[:, 0], kind="stable")[:count]
        return np.union1d(largest, np.flatnonzero(self.loading_basis.any(axis=1)))

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
        A = np.take(self.compute_residual(), order + p * np.arange(n)[:, None])  # indices into the flattened array
        rows = np.flatnonzero(self.loading_basis.any(axis=1))
        W = self.loading_basis[rows]
        A[rows] -= W @ (W.T @ A[rows])
        if self.score_basis.size:
            A -= (A @ self.score_basis) @ self.score_basis.T
            norms = np.linalg.norm(A, axis=1, keepdims=True)
            A *= self.residual_norms / np.where(norms > 0, norms, np.inf)
        return A

    @property
    def is_solved_in_stack(self) -> bool:
        """Return whether the fits to permuted tables are solved together, as a stack of covariances."""
        return can_solve_in_stack(replace(self.fit_spec, start=None, n_init=None), self.table.shape[0])

    def compute_variance(self, A: Array) -> float:
        """Return the variance of the component that a small fit finds in a table, (n_features, n_samples)."""
        if self.is_solved_in_stack:
            return float(fit_covariances(compute_table_gram(A)[None], [self])[0])
        operator = build_table_operator(A, self.fit_spec)
        if not operator.column_norms.any():
            return 0.0
        result = solve_component(operator, self.fit_spec, np.random.RandomState(0))
        return float(Scores.from_loadings(operator, result.Z).variances[0])

    def compute_permuted_variance(self, draw_orders: OrderSource, known_ratios: Array) -> tuple[float, float]:
        """Return the variance in a permuted table, and its ratio to that of the largest variables.

        If the largest variables decide, the variance is estimated from theirs, and the ratio is NaN. `known_ratios` are
        those of earlier tables, or NaN.
        """
        longest_variance = np.nan
        if self.longest_stage is not None:
            A = self.longest_stage.permute_residual(draw_orders(self.longest_variables))
            longest_variance = self.longest_stage.compute_variance(A)
            ratios = known_ratios[~np.isnan(known_ratios)]
            if ratios.size:
                # The ratio may be as far above the largest one seen as the largest is above the smallest.
                max_expected_ratio = 2 * ratios.max() - ratios.min()
                if (1 + MIN_SCREENING_MARGIN) * max_expected_ratio * longest_variance < self.observed_variance:
                    return float(ratios.mean() * longest_variance), np.nan
        variance = self.compute_variance(self.permute_residual(draw_orders(None)))
        return variance, variance / longest_variance if longest_variance > 0 else np.nan


def fit_covariances(covariances: Array, stages: Sequence[DeflationStage]) -> Array:
    """Return the variances, (q,), of the components that small fits find in covariances, (q, n, n), one for each stage.

    The starts are those of `TwoColumnStart`.
    """
    longest = np.argmax(np.diagonal(covariances, axis1=1, axis2=2), axis=1)
    starts = np.column_stack([longest, rank_start_columns(covariances)[:, 0]])
    cardinalities = np.array([stage.fit_spec.cardinalities[0] for stage in stages])
    return solve_covariance_stack(covariances, cardinalities, start_columns=starts, local_search=False)[1]


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
class Permutations:
    """Orders of the samples of every variable in permuted tables.

    Attributes
    ----------
    n_samples : int
    blocks : ndarray of int of shape (n_features,)
        Block of each variable, from 0: variables of the same block share an order.
    n_first : int
        Number of blocks that are drawn first. The others are drawn only if all variables are needed.
    strata : sequence of ndarray of int, or of slice
        Indices of the samples of each batch, within which samples are permuted.
    """

    n_samples: int
    blocks: Array
    n_first: int
    strata: Sequence[Any]

    @classmethod
    def from_stages(cls, stages: Sequence[DeflationStage], blocks: Array, strata: Sequence[Any]) -> Permutations:
        """Create the source of orders; the blocks of the largest variables of all stages are drawn first."""
        is_first = np.zeros(int(blocks.max()) + 1, bool)
        for stage in stages:
            if stage.longest_variables is not None:
                is_first[blocks[stage.longest_variables]] = True
        rank = np.argsort(np.argsort(~is_first, kind="stable"))
        return cls(stages[0].table.shape[1], rank[blocks], int(is_first.sum()), strata)

    def draw(self, seed: int) -> OrderSource:
        """Return a function that draws the orders of one table."""

        @cache
        def draw_blocks(count: int) -> Array:
            orders = np.tile(np.arange(self.n_samples), (count, 1))
            for i, rows in enumerate(self.strata):
                part = orders[:, rows]
                rng = np.random.default_rng([seed, i])  # one for each, so that the first blocks are always the same
                orders[:, rows] = rng.permuted(part, axis=1, out=part)  # several times as fast as without `out`
            return orders

        def draw_orders(variables: Array | None) -> Array:
            if variables is None:
                return draw_blocks(int(self.blocks.max()) + 1)[self.blocks]
            return draw_blocks(self.n_first)[self.blocks[variables]]

        return draw_orders


def fit_permuted_tables(
    stages: Sequence[DeflationStage],
    seeds: Array,
    permutations: Permutations,
    known_ratios: Array,
    n_pca_components: int,
) -> tuple[Array, Array, Array]:
    """Fit every stage of the tables that are permuted with these seeds; tables of few variables are solved together.

    Parameters
    ----------
    stages : sequence of DeflationStage
    seeds : ndarray of int of shape (n_tables,)
    permutations : Permutations
    known_ratios : ndarray of shape (n_known, n_stages)
        Ratios of earlier tables, or NaN.
    n_pca_components : int

    Returns
    -------
    variances : ndarray of shape (n_tables, n_stages)
        Variances, sums of squares ‖A z‖², of the next component at every stage.
    ratios : ndarray of shape (n_tables, n_stages)
        Ratios of these variances to those of the largest variables; NaN if only one of the two was computed.
    pca_variances : ndarray of shape (n_tables, n_pca_components)
        Variances of the principal components of the tables themselves.
    """
    shape = seeds.size, len(stages)
    variances, ratios, pca_variances = np.empty(shape), np.full(shape, np.nan), np.zeros((shape[0], n_pca_components))
    is_stacked = stages[0].is_solved_in_stack
    grams: list[Array] = []
    for i, draw_orders in enumerate(map(permutations.draw, seeds.tolist())):
        if is_stacked:
            orders = draw_orders(None)
            grams += [compute_table_gram(stage.permute_residual(orders)) for stage in stages]
            continue
        for j, stage in enumerate(stages):
            variances[i, j], ratios[i, j] = stage.compute_permuted_variance(draw_orders, known_ratios[:, j])
        if n_pca_components:
            operator = build_table_operator(stages[0].permute_residual(draw_orders(None)), stages[0].fit_spec)
            pca_variances[i] = compute_leading_components(operator, n_pca_components)[1]
    if is_stacked:
        variances = fit_covariances(np.array(grams), [*stages] * seeds.size).reshape(shape)
        if n_pca_components:
            spectra = np.linalg.eigvalsh(np.array(grams[:: len(stages)]))
            pca_variances = np.maximum(spectra[:, ::-1][:, :n_pca_components], 0)
    return variances, ratios, pca_variances


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
