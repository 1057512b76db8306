"""Test components against chance: compare their variance with fits to tables whose columns were permuted.

Component j is fitted to the residual of the table after the earlier components: everything correlated with their scores
is removed. Permuting each column of the residual on its own keeps every variable as it is and destroys the correlations
between variables. Permuted columns are again correlated with the earlier scores, and have variance along the earlier
loadings, where the residual has none. Both are removed, and the columns are rescaled to their norms, so that permuted
tables have the degrees of freedom and the norms of the residual. Without this correction a second component would be
claimed too often. For the first component nothing is removed, and the test is exact: at level α chance passes for a
component in at most a share α of tables. The p-values of later components are doubled.

Covariates are removed like earlier scores: residuals are permuted, and the part that covariates predict of the permuted
columns is removed again [Freedman and Lane 1983]. With batches a column is permuted within each batch, so that batches
may differ in their variances. Residuals within a batch are exchangeable, so that with batches alone the test is exact;
with other covariates, whose residuals are only nearly exchangeable, it is approximate.

Freedman and Lane (1983), A nonstochastic interpretation of reported significance levels, Journal of Business & Economic
Statistics 1, 292–298.

Fits are small: two starts, no local search. The table itself is judged by the same small fits.

For a wide table most fits are smaller still. In a permuted table the components lie among the variables of largest
norm, and permuting does not change norms. A few permuted tables show how much more variance a fit to all variables
finds than a fit to the largest ones. After that the largest variables decide if their variance is far below that of the
table; otherwise all variables are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from gpower._utils.arrays import Array, column_dots, to_host
from gpower.feasible_sets import Point
from gpower.operators import as_operator
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.component import solve_component
from gpower.solvers.covariance_stack import can_solve_in_stack, rank_start_columns, solve_covariance_stack
from gpower.solvers.initialization import ColumnStarts, Start, StartContext
from gpower.solvers.multi_component import solve_all_components
from gpower.solvers.specification import FitSpec
from gpower.validation.prepare import EstimatorInput, PreparedData

#: Permuted tables between two checks which components cannot become significant any more, and permuted tables of a wide
#: table before the largest variables decide. Horn's threshold is the mean over the first batch.
PERMUTATIONS_PER_BATCH, N_CALIBRATION_PERMUTATIONS = 20, 5
#: Number of variables that count as the largest: this minimum, or this multiple of the cardinality. Then the margin, a
#: share of the permuted variance: a permuted table is far below the table if at least this lies between them.
MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY, MIN_SCREENING_MARGIN = 300, 6, 0.25
#: Number of entries up to which the residual of a table is kept.
MAX_CACHED_ENTRIES = 1_000_000
#: Tolerance of a small fit, and its largest number of iterations.
QUICK_FIT_TOLERANCE, MAX_QUICK_FIT_STEPS = 1e-3, 60
#: Factor on the p-values of all components but the first. Their test is not exact, because the components that were
#: removed were fitted to the data. Without the factor 2 of 25 tables with three planted components had a fourth at 5 %.
LATER_P_VALUE_FACTOR = 2
#: Relative difference below which two variances tie.
VARIANCE_TIE_TOLERANCE = 1e-5

#: Settings of ``n_components="auto"``: most components, permuted tables, and significance level.
MAX_AUTO_COMPONENTS, N_AUTO_PERMUTATIONS, AUTO_SIGNIFICANCE_LEVEL = 20, 200, 0.05
#: Parameters that may have one entry per component.
PER_COMPONENT_PARAMS = ("cardinality", "gamma", "l1_bound", "mu")

#: Callback with the number of permuted tables done and their total.
PermutationProgress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Variances of components in a table and in permuted tables, sums of squares ‖A z‖².

    Attributes
    ----------
    observed_variance : ndarray of shape (n_components,)
        Variance of each component by a small fit to the residual after the earlier ones.
    permuted_variance : ndarray of shape (n_permutations, n_components)
        Variance of the component in permuted tables, estimated from the largest variables if they decide. NaN if it was
        not computed, because the component could not become significant any more.
    pca_variance : ndarray of shape (n_components,)
        Variance of the principal components.
    horn_mean : ndarray of shape (n_components,)
        Mean variance of the principal components of permuted tables [Horn 1965].
    total_variance : float
        Variance of the table.
    loadings : ndarray of shape (n_features, n_components)
        Loadings of the components by the full fit, on the host.
    notes : tuple of str
        Sentences about the table: imputed values, columns that do not vary.
    """

    observed_variance: Array
    permuted_variance: Array
    pca_variance: Array
    horn_mean: Array
    total_variance: float
    loadings: Array
    notes: tuple[str, ...] = ()

    @property
    def n_tested(self) -> int:
        """Return the number of components that were compared with permuted tables."""
        return int(np.count_nonzero(~np.isnan(self.permuted_variance).all(axis=0)))

    @property
    def p_values(self) -> Array:
        """Return the p-values of the components, (n_components,), non-decreasing; 1 for untested components."""
        n_permuted = np.count_nonzero(~np.isnan(self.permuted_variance), axis=0)
        n_reaching = _count_reaching(self.permuted_variance, self.observed_variance)
        p_values = _get_p_value_factors(n_permuted.size) * (1 + n_reaching) / (1 + n_permuted)
        return np.maximum.accumulate(np.where(n_permuted > 0, np.minimum(p_values, 1.0), 1.0))


def _get_p_value_factors(count: int) -> Array:
    """Return the factors on the p-values: 1 for the first component, `LATER_P_VALUE_FACTOR` for the others."""
    return np.where(np.arange(count) > 0, LATER_P_VALUE_FACTOR, 1)


def _count_reaching(permuted: Array, variance: Array) -> Array:
    """Return, per component, the number of permuted tables that reach the variance of the table, ties included."""
    return np.count_nonzero(permuted >= (1 - VARIANCE_TIE_TOLERANCE) * variance, axis=0)


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
            return float(self.compute_variances(_compute_gram(A)[None])[0])
        operator = build_table_operator(A, self.fit_spec)
        if not operator.column_norms.any():
            return 0.0
        result = solve_component(operator, self.fit_spec, np.random.RandomState(0))
        return float(Scores.from_loadings(operator, result.Z).variances[0])


def _compute_gram(A: Array) -> Array:
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


class Permutations:
    """Orders of the samples of every variable in one permuted table, (n_features, n_samples), drawn when needed.

    Parameters
    ----------
    seed : int
    n_samples : int
    blocks : ndarray of int of shape (n_features,)
        Block of each variable, from 0: variables of the same block share an order.
    is_drawn_first : ndarray of bool of shape (n_blocks,)
        Whether the order of a block is drawn at once; the other orders are drawn on the first use of `all_orders`.
    strata : sequence of ndarray of int, optional
        Indices of the samples of each batch, within which samples are permuted; by default all are one batch.
    """

    def __init__(
        self, seed: int, n_samples: int, blocks: Array, is_drawn_first: Array, strata: Sequence[Array] | None = None
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._strata = [np.arange(n_samples)] if strata is None else strata
        self._block_indices = blocks
        self._deferred_blocks = np.flatnonzero(~is_drawn_first)
        self._orders_by_block = np.empty((is_drawn_first.size, n_samples), np.intp)
        self._draw_orders(np.flatnonzero(is_drawn_first))

    def _draw_orders(self, blocks: Array) -> None:
        for rows in self._strata:
            identity = np.tile(rows, (blocks.size, 1))
            self._orders_by_block[np.ix_(blocks, rows)] = self._rng.permuted(identity, axis=1)

    def get_for_variables(self, variables: Array) -> Array:
        """Return the orders of variables whose blocks are drawn first, (n_variables, n_samples)."""
        return self._orders_by_block[self._block_indices[variables]]

    @cached_property
    def all_orders(self) -> Array:
        """Return the orders of all variables, (n_features, n_samples)."""
        self._draw_orders(self._deferred_blocks)
        return self._orders_by_block[self._block_indices]


@dataclass(frozen=True, eq=False)
class NullComparison:
    """Comparison of permuted tables with the table at one stage, by the largest variables if they suffice.

    Attributes
    ----------
    stage : DeflationStage
    observed_variance : float
        Variance of the component that a small fit finds in the table.
    longest_variables : ndarray of int or None
        The variables of largest norm; None if all variables are always used.
    screening_ratios : ndarray
        Ratios of the variance of all variables to that of the largest ones, from permuted tables with both.
    """

    stage: DeflationStage
    observed_variance: float
    longest_variables: Array | None
    screening_ratios: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def from_stage(cls, stage: DeflationStage) -> NullComparison:
        """Create a comparison without permuted tables."""
        return cls(stage, stage.compute_variance(stage.compute_residual()), stage.find_longest_variables())

    @cached_property
    def _longest_stage(self) -> DeflationStage:
        """Return the stage of the largest variables, with one start."""
        stage = self.stage.restrict_to_variables(
            np.zeros(0, np.intp) if self.longest_variables is None else self.longest_variables
        )
        return replace(stage, fit_spec=replace(stage.fit_spec, start=None))

    def compute_permuted_variance(self, permutations: Permutations) -> tuple[float, float]:
        """Return the variance in a permuted table, and its ratio to that of the largest variables.

        The ratio is NaN if only one of the two was computed.
        """
        if self.longest_variables is None:
            return self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders)), np.nan
        orders = permutations.get_for_variables(self.longest_variables)
        restricted = self._longest_stage.compute_variance(self._longest_stage.permute_residual(orders))
        if self.screening_ratios.size:
            upper = (1 + MIN_SCREENING_MARGIN) * self._max_expected_ratio * restricted
            if upper < self.observed_variance:
                return float(np.mean(self.screening_ratios)) * restricted, np.nan
        variance = self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders))
        return variance, variance / restricted if restricted > 0 else np.nan

    @property
    def _max_expected_ratio(self) -> float:
        """Return an upper estimate of the ratio: as far above the largest as the largest is above the smallest."""
        return float(2 * self.screening_ratios.max() - self.screening_ratios.min())

    def add_ratios(self, ratios: Array) -> NullComparison:
        """Return the comparison with more ratios; NaN are left out."""
        return replace(self, screening_ratios=np.concatenate([self.screening_ratios, ratios[~np.isnan(ratios)]]))


def build_table_operator(A: Array, fit_spec: FitSpec) -> Operator:
    """Return a centred and scaled table, (n_features, n_samples), as an operator; tall tables by their covariance."""
    return as_operator(A.T, center=False, reduce_tall=not fit_spec.needs_samples)[0]


def permutation_test(
    table: EstimatorInput,
    fit_spec: FitSpec,
    rng: np.random.RandomState,
    *,
    n_permutations: int,
    level: float,
    blocks: Array | None = None,
    n_jobs: int | None = None,
    progress: PermutationProgress | None = None,
) -> NullDistribution:
    """Compare the components of a table with those of permuted tables.

    Parameters
    ----------
    table : EstimatorInput
        A dense table in memory, without missing values.
    fit_spec : FitSpec
        Specification of a fit by deflation, one component after the other.
    rng : RandomState
    n_permutations : int
        Number of permuted tables.
    level : float
        Significance level. Once a component cannot reach it, this and all later components are not tested further.
    blocks : ndarray of int of shape (n_features,), optional
        Block of each variable, from 0: variables of the same block are permuted together.
    n_jobs : int, optional
        Number of parallel jobs, as in joblib.
    progress : callable, optional
        Called with the number of permuted tables done and their total.

    Returns
    -------
    NullDistribution
    """
    prepared = table.prepare(None, [fit_spec])
    loadings = to_host(solve_all_components(prepared.operator, fit_spec, rng).Z)
    unit = float(prepared.moments.column_norms.max()) or 1.0
    samples, basis = _standardize_samples(table, prepared)
    # Single precision suffices for a comparison and takes half the time.
    A = np.ascontiguousarray((samples / unit).T.astype(np.float32))
    stages = _build_deflation_stages(A, basis.astype(np.float32), loadings, fit_spec)
    comparisons = [NullComparison.from_stage(stage) for stage in stages]
    seeds = rng.randint(2**31 - 1, size=n_permutations)
    strata = _find_strata(table)
    permuted_variance, horn_mean = _run_permutations(comparisons, strata, blocks, seeds, level, n_jobs, progress)
    _, pca_variance = compute_leading_components(prepared.operator, len(comparisons))
    return NullDistribution(
        observed_variance=unit**2 * np.array([comparison.observed_variance for comparison in comparisons]),
        permuted_variance=unit**2 * permuted_variance,
        pca_variance=pca_variance,
        horn_mean=unit**2 * horn_mean,
        total_variance=prepared.operator.total_variance,
        loadings=loadings,
        notes=prepared.notes,
    )


def _standardize_samples(table: EstimatorInput, prepared: PreparedData) -> tuple[Array, Array]:
    """Return the standardised samples, (n_samples, n_features), and the basis of the covariates, (n_samples, c).

    With covariates the samples are residuals, and times the roots of their weights if batches are balanced.
    """
    if prepared.covariates is None:
        moments = prepared.moments
        return (table.X - moments.mean) / moments.scale, np.zeros((table.shape[0], 0))
    operator = table.prepare(reduce=False).operator  # that of `prepared` may be a covariance
    basis, root_weight = prepared.covariates.basis, operator.sqrt_sample_weight
    assert basis is not None
    A = operator.columns(np.arange(table.shape[1]))
    return A, basis if root_weight is None else root_weight[:, None] * basis


def _find_strata(table: EstimatorInput) -> list[Array] | None:
    """Return the indices of the samples of each batch; None without batches."""
    batch = getattr(table.covariates, "batch", None)
    return None if batch is None else [np.flatnonzero(batch == label) for label in sorted(set(batch))]


def _run_permutations(
    comparisons: Sequence[NullComparison],
    strata: Sequence[Array] | None,
    blocks: Array | None,
    seeds: Array,
    level: float,
    n_jobs: int | None,
    progress: PermutationProgress | None,
) -> tuple[Array, Array]:
    """Return the variances in permuted tables, (n_seeds, n_components), and Horn's threshold, (n_components,).

    Stages that cannot become significant any more are left out: their variances are NaN.
    """
    variance = np.array([comparison.observed_variance for comparison in comparisons])
    n_components = n_active = len(comparisons)
    permuted = np.full((seeds.size, n_components), np.nan)
    max_reaching = np.floor(level * (seeds.size + 1) / _get_p_value_factors(n_components)) - 1
    block_of = np.arange(comparisons[0].stage.table.shape[0]) if blocks is None else blocks
    is_drawn_first = np.zeros(int(block_of.max()) + 1, bool)
    for comparison in comparisons:
        if comparison.longest_variables is not None:
            is_drawn_first[block_of[comparison.longest_variables]] = True
    first_end = N_CALIBRATION_PERMUTATIONS if is_drawn_first.any() else PERMUTATIONS_PER_BATCH
    ends = np.arange(first_end, seeds.size + PERMUTATIONS_PER_BATCH, PERMUTATIONS_PER_BATCH)
    horn_mean = np.zeros(0)
    for start, end in zip([0, *ends], ends, strict=False):
        args = comparisons[:n_active], strata, block_of, is_drawn_first
        n_pca_components = 0 if start else n_components
        if comparisons[0].stage.is_solved_in_stack:
            values, ratios, pca_variances = _run_stacked_permutations(*args, seeds[start:end], n_pca_components)
        else:
            jobs = (delayed(_run_one_permutation)(*args, int(seed), n_pca_components) for seed in seeds[start:end])
            values, ratios, pca_variances = map(np.array, zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True))
        permuted[start:end, :n_active] = values
        comparisons = [each.add_ratios(ratios[:, j]) for j, each in enumerate(comparisons[:n_active])]
        if start == 0:
            horn_mean = np.mean(pca_variances, axis=0)
        if progress is not None:
            progress(start + len(values), seeds.size)
        hopeless = np.flatnonzero(_count_reaching(permuted, variance)[:n_active] > max_reaching[:n_active])
        n_active = int(hopeless[0]) if hopeless.size else n_active
        if n_active == 0:
            break
    return permuted, horn_mean


def choose_n_components(table: EstimatorInput, rng: np.random.RandomState) -> tuple[dict[str, Any], Array]:
    """Return the parameters for as many components as are significant, and the p-values of all tested components.

    At most `MAX_AUTO_COMPONENTS` are tested, or as many as a list of cardinalities or penalties has entries. If none is
    significant, one component is kept.
    """
    params = table.params
    lists = {name: list(params[name]) for name in PER_COMPONENT_PARAMS if isinstance(params[name], Iterable)}
    max_components = min([len(values) for values in lists.values()] or [MAX_AUTO_COMPONENTS, *table.shape])
    table = table.prepare_for_permutation()
    overrides = {"n_components": max_components, "method": "deflation", "mu": None, "constraint": None}
    fit_spec = table.build_fit_specs(overrides)[0]
    p_values = permutation_test(
        table, fit_spec, rng, n_permutations=N_AUTO_PERMUTATIONS, level=AUTO_SIGNIFICANCE_LEVEL
    ).p_values
    count = max(1, int(np.count_nonzero(p_values <= AUTO_SIGNIFICANCE_LEVEL)))
    return {"n_components": count} | {name: values[:count] for name, values in lists.items()}, p_values


def describe_selection(p_values: Array) -> str:
    """Return a sentence about the number of components that ``n_components="auto"`` selects.

    Examples
    --------
    >>> print(describe_selection(np.array([0.005, 0.38])).partition(", by")[0])
    1 of up to 2 components explain more than chance at the level 0.05 (p = 0.005; next 0.38)
    """
    passed = [f"{p:.2g}" for p in p_values if p <= AUTO_SIGNIFICANCE_LEVEL]
    following = [f"next {p:.2g}" for p in p_values[len(passed) :][:1]]
    details = "; ".join((["p = " + ", ".join(passed)] if passed else []) + following)
    return (
        f"{len(passed)} of up to {p_values.size} components explain more than chance at the level "
        f"{AUTO_SIGNIFICANCE_LEVEL:g} ({details}), by {N_AUTO_PERMUTATIONS} permuted tables."
    )


def _build_deflation_stages(A: Array, basis: Array, loadings: Array, fit_spec: FitSpec) -> list[DeflationStage]:
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


def _run_one_permutation(
    comparisons: Sequence[NullComparison],
    strata: Sequence[Array] | None,
    blocks: Array,
    is_drawn_first: Array,
    seed: int,
    n_pca_components: int,
) -> tuple[list[float], list[float], Array]:
    """Return variances and ratios of one permuted table at every stage, and the variances of its PCA components."""
    stage = comparisons[0].stage
    permutations = Permutations(seed, stage.table.shape[1], blocks, is_drawn_first, strata)
    results = [comparison.compute_permuted_variance(permutations) for comparison in comparisons]
    variances, ratios = zip(*results, strict=True)
    pca_variances = np.zeros(0)
    if n_pca_components:
        operator = build_table_operator(stage.permute_residual(permutations.all_orders), stage.fit_spec)
        _, pca_variances = compute_leading_components(operator, n_pca_components)
    return list(variances), list(ratios), pca_variances


def _run_stacked_permutations(
    comparisons: Sequence[NullComparison],
    strata: Sequence[Array] | None,
    blocks: Array,
    is_drawn_first: Array,
    seeds: Array,
    n_pca_components: int,
) -> tuple[Array, Array, Array]:
    """Return what `_run_one_permutation` returns, for many permuted tables of few variables, solved together.

    Variances and ratios, which are all NaN, are (n_seeds, n_comparisons), variances of PCA (n_seeds, n_pca_components).
    """
    first = comparisons[0].stage
    n, p = first.table.shape
    grams = np.empty((len(comparisons), seeds.size, n, n))
    for i, seed in enumerate(seeds):
        orders = Permutations(int(seed), p, blocks, is_drawn_first, strata).all_orders
        for j, comparison in enumerate(comparisons):
            grams[j, i] = _compute_gram(comparison.stage.permute_residual(orders))
    variances = [each.stage.compute_variances(S) for each, S in zip(comparisons, grams, strict=True)]
    pca_variances = np.linalg.eigvalsh(grams[0])[:, ::-1][:, :n_pca_components]
    return np.column_stack(variances), np.full((seeds.size, len(comparisons)), np.nan), np.maximum(pca_variances, 0)
