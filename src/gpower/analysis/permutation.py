"""Is a component more than chance? Its variance beside that of the same fit to tables whose columns were permuted.

Component j is looked for in what the earlier ones leave of the table (everything correlated with their scores is taken
out). Permuting each column of that on its own keeps every variable as it is and breaks what they have in common.
Permuted columns have again something of the earlier scores, and add up to something along the earlier loadings, where
the table has nothing left; both are taken out, and the columns brought back to their lengths, so that permuted tables
have the freedom and the norms of what they are compared with. Without that a second component would be claimed too
often. For the first nothing is taken out, and the test is exact: at the level α chance passes for a component in at
most a share α of tables. The p-values of later ones are doubled.

Fits are small: two starts, no exchanges. The table itself is judged by the same small fits.

Of a wide table most of them are smaller still. Chance finds its components among the longest variables, and permuting
leaves lengths as they are. A few permuted tables tell how much more a fit to all variables finds than one to the
longest; from then on the longest decide where they are far below the table, and all variables elsewhere.
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
from gpower.solvers.initialization import ColumnStarts, Start, StartContext
from gpower.solvers.multi_component import solve_all_components
from gpower.solvers.specification import FitSpec
from gpower.validation.prepare import EstimatorInput

#: Permuted tables between two looks at what is hopeless by now, and those of a wide table before the longest variables
#: decide. Horn's line is the mean of the first batch.
PERMUTATIONS_PER_BATCH, N_CALIBRATION_PERMUTATIONS = 20, 5
#: How many variables are the longest: so many, or so many times the cardinality. A permuted table is far below the
#: table if at least this share of its variance lies between them.
MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY, MIN_SCREENING_MARGIN = 300, 6, 0.25
#: Precision of a small fit, and its most steps.
QUICK_FIT_TOLERANCE, MAX_QUICK_FIT_STEPS = 1e-3, 60
#: What the p-values of all components but the first are multiplied by. Their test is not exact: what was taken out was
#: chosen by the data. Of 25 tables with three planted components, 2 had a fourth without it, at 5 %.
LATER_P_VALUE_FACTOR = 2
#: Variances that differ by less, relatively, tie.
VARIANCE_TIE_TOLERANCE = 1e-5

#: What ``n_components="auto"`` stands for: the most components, permuted tables, and the level.
MAX_AUTO_COMPONENTS, N_AUTO_PERMUTATIONS, AUTO_SIGNIFICANCE_LEVEL = 20, 200, 0.05
#: Parameters that may have an entry per component.
PER_COMPONENT_PARAMS = ("cardinality", "gamma", "l1_bound", "mu")

#: Called with the steps done and their total.
PermutationProgress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """What is found in a table and in permuted ones, in the units of ‖A z‖².

    Attributes
    ----------
    variance : ndarray of shape (n_components,)
        Of each component, by a small fit to what the earlier ones leave.
    permuted : ndarray of shape (n_permutations, n_components)
        The same of permuted tables, by the longest variables where those decide; NaN where it was hopeless already.
    ordinary, horn : ndarray of shape (n_components,)
        Variance of ordinary components, and their mean in permuted tables [Horn 1965].
    total : float
        Variance of the table.
    loadings : ndarray of shape (n_features, n_components)
        Of the components, found with all care.
    notes : tuple of str
        What is worth knowing of the table: values that were filled, columns that do not vary.
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
        """Components that were held against permuted tables."""
        return int(np.count_nonzero(~np.isnan(self.permuted_variance).all(axis=0)))

    @property
    def p_values(self) -> Array:
        """Of each component and all before it: never falling; one for those behind a hopeless one."""
        made = np.count_nonzero(~np.isnan(self.permuted_variance), axis=0)
        own = (
            _get_p_value_factors(made.size)
            * (1 + _count_reaching(self.permuted_variance, self.observed_variance))
            / (1 + made)
        )
        return np.maximum.accumulate(np.where(made > 0, np.minimum(own, 1.0), 1.0))


def _get_p_value_factors(count: int) -> Array:
    """One for the first component, more for the others."""
    return np.where(np.arange(count) > 0, LATER_P_VALUE_FACTOR, 1)


def _count_reaching(permuted: Array, variance: Array) -> Array:
    """How many permuted tables reach the variance of the table, per component."""
    return np.count_nonzero(permuted >= (1 - VARIANCE_TIE_TOLERANCE) * variance, axis=0)


@dataclass(frozen=True, eq=False)
class DeflationStage:
    """What is left of a table once some components are taken out.

    Attributes
    ----------
    table : ndarray of shape (n_features, n_samples)
        Centred and scaled; a row per variable, so that the samples of one lie together.
    taken : ndarray of shape (n_samples, j)
        Orthonormal basis of the scores taken out.
    bound : ndarray of shape (n_features, j)
        Orthonormal basis of their loadings, along which nothing is left.
    recipe : Recipe
        Of a small fit.
    """

    table: Array
    score_basis: Array
    loading_basis: Array
    fit_spec: FitSpec

    @cached_property
    def score_projections(self) -> Array:
        """What every variable has of the scores taken out, (n_features, j)."""
        return self.table @ self.score_basis

    @cached_property
    def residual_norms(self) -> Array:
        """Of the variables, (n_features, 1)."""
        return np.linalg.norm(self.compute_residual(), axis=1, keepdims=True)

    def compute_residual(self) -> Array:
        """What is left, (n_features, n_samples); made anew, since of many stages it would not fit into memory."""
        return self.table - self.score_projections @ self.score_basis.T if self.score_basis.size else self.table

    def deflate(self, z: Array, fit_spec: FitSpec) -> DeflationStage:
        """The next stage, less the scores of the loadings z."""
        y = z[z != 0] @ self.table[z != 0]
        for _ in range(2):  # once more for what rounding leaves
            y = y - self.score_basis @ (self.score_basis.T @ y)
        length = np.linalg.norm(y)
        if not length > 0:
            return replace(self, fit_spec=fit_spec)
        bound = np.linalg.qr(np.column_stack([self.loading_basis, z]))[0]
        taken = np.column_stack([self.score_basis, y / length])
        return DeflationStage(self.table, taken.astype(self.table.dtype), bound.astype(self.table.dtype), fit_spec)

    def find_longest_variables(self) -> Array | None:
        """The longest variables, and those of earlier components, in order; None where that spares little."""
        n, wish = self.table.shape[0], self.fit_spec.sparsity
        most = max(MIN_LONGEST_VARIABLES, LONGEST_PER_CARDINALITY * max(self.fit_spec.cardinalities, default=0))
        if 2 * most >= n or wish.needs_all_columns or wish.penalty_family.support_rules is not None:
            return None
        kept = np.argsort(-self.residual_norms[:, 0], kind="stable")[:most]
        return np.union1d(kept, np.flatnonzero(self.loading_basis.any(axis=1)))

    def restrict_to_variables(self, variables: Array) -> DeflationStage:
        """The same of some variables, those of earlier components among them."""
        return DeflationStage(
            self.table[variables], self.score_basis, self.loading_basis[variables], self.fit_spec.restrict(variables)
        )

    def permute_residual(self, order: Array) -> Array:
        """The same, every variable's samples in another order, as free as it is: of the same norms, less the same."""
        n, p = self.table.shape
        A = np.take(self.compute_residual(), order + p * np.arange(n)[:, None])  # places in the flattened array
        if self.score_basis.size:
            rows = np.flatnonzero(self.loading_basis.any(axis=1))
            W = self.loading_basis[rows]
            A[rows] -= W @ (W.T @ A[rows])
            A -= (A @ self.score_basis) @ self.score_basis.T
            now = np.linalg.norm(A, axis=1, keepdims=True)
            A *= self.residual_norms / np.where(now > 0, now, np.inf)
        return A

    def compute_variance(self, A: Array) -> float:
        """What a small fit finds in such a table."""
        operator = build_table_operator(A, self.fit_spec)
        if not operator.column_norms.any():
            return 0.0
        found = solve_component(operator, self.fit_spec, np.random.RandomState(0))
        return float(Scores.from_loadings(operator, found.Z).variances[0])


@dataclass(frozen=True, eq=False)
class TwoColumnStart(Start):
    """The longest column, and that along which most of the matrix lies: which correlates with many, or much.

    The longest alone may have nothing to do with the components, of standardised columns least of all.
    """

    def choose_points(self, context: StartContext) -> list[Point]:
        """Both."""
        along = np.sqrt(_compute_column_alignments(context.problem.operator, context.norms)).astype(context.norms.dtype)
        return [
            point
            for norms in (context.norms, along)
            for point in ColumnStarts(1).choose_points(replace(context, norms=norms))
        ]


def _compute_column_alignments(operator: Operator, norms: Array) -> Array:
    """‖Aᵀx‖² for x = a/‖a‖ of every column a, (n,)."""
    p, n = operator.shape
    columns = np.arange(n)
    if n > p and operator.has_samples:
        G, parts = operator.sample_gram(columns), np.array_split(columns, 16)
        squares = np.concatenate([column_dots(G @ A, A) for A in map(operator.columns, parts)])
    else:
        squares = np.sum(operator.gram(columns) ** 2, axis=1)
    return np.maximum(squares, 0) / np.where(norms > 0, norms, np.inf) ** 2


class Permutations:
    """The orders of all samples in one permuted table, (n_features, n_samples), drawn as they are needed.

    Parameters
    ----------
    seed : int
    n_samples : int
    blocks : ndarray of shape (n_features,)
        Numbers from 0: variables of the same block share an order.
    first : ndarray of bool of shape (n_blocks,)
        Blocks whose orders are drawn first.
    """

    def __init__(self, seed: int, n_samples: int, blocks: Array, is_drawn_first: Array) -> None:
        self._rng, self._block_indices, self._deferred_blocks = (
            np.random.default_rng(seed),
            blocks,
            np.flatnonzero(~is_drawn_first),
        )
        self._orders_by_block = np.empty((is_drawn_first.size, n_samples), np.intp)
        self._draw_orders(np.flatnonzero(is_drawn_first))

    def _draw_orders(self, blocks: Array) -> None:
        fresh = np.tile(np.arange(self._orders_by_block.shape[1]), (blocks.size, 1))
        self._orders_by_block[blocks] = self._rng.permuted(fresh, axis=1)

    def get_for_variables(self, variables: Array) -> Array:
        """Of variables whose blocks come first."""
        return self._orders_by_block[self._block_indices[variables]]

    @cached_property
    def all_orders(self) -> Array:
        """Of all variables."""
        self._draw_orders(self._deferred_blocks)
        return self._orders_by_block[self._block_indices]


@dataclass(frozen=True, eq=False)
class NullComparison:
    """Holds permuted tables against the table at one stage, by its longest variables where they are far apart.

    Attributes
    ----------
    stage : Stage
    variance : float
        What a small fit finds in the table.
    rows : ndarray of int or None
        The longest variables; None where all of them decide.
    ratios : ndarray
        Of the variances of all variables and of the longest, in permuted tables where both are known.
    """

    stage: DeflationStage
    observed_variance: float
    longest_variables: Array | None
    screening_ratios: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def from_stage(cls, stage: DeflationStage) -> NullComparison:
        """Who has seen nothing yet."""
        return cls(stage, stage.compute_variance(stage.compute_residual()), stage.find_longest_variables())

    @cached_property
    def _longest_stage(self) -> DeflationStage:
        """The stage of the longest variables, with one start."""
        stage = self.stage.restrict_to_variables(
            np.zeros(0, np.intp) if self.longest_variables is None else self.longest_variables
        )
        return replace(stage, fit_spec=replace(stage.fit_spec, start=None))

    def compute_permuted_variance(self, permutations: Permutations) -> tuple[float, float]:
        """Variance in a permuted table, and its ratio to that of the longest; NaN where only one is known."""
        if self.longest_variables is None:
            return self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders)), np.nan
        short = self._longest_stage.compute_variance(
            self._longest_stage.permute_residual(permutations.get_for_variables(self.longest_variables))
        )
        if (
            self.screening_ratios.size
            and (1 + MIN_SCREENING_MARGIN) * self._max_expected_ratio * short < self.observed_variance
        ):
            return float(np.mean(self.screening_ratios)) * short, np.nan
        value = self.stage.compute_variance(self.stage.permute_residual(permutations.all_orders))
        return value, value / short if short > 0 else np.nan

    @property
    def _max_expected_ratio(self) -> float:
        """More than the ratio will be: as far beyond the largest as that is from the smallest."""
        return float(2 * self.screening_ratios.max() - self.screening_ratios.min())

    def add_ratios(self, ratios: Array) -> NullComparison:
        """Who has seen some more."""
        return replace(self, screening_ratios=np.concatenate([self.screening_ratios, ratios[~np.isnan(ratios)]]))


def build_table_operator(A: Array, fit_spec: FitSpec) -> Operator:
    """Variables × samples, centred and scaled, as an operator; tall tables by their covariance."""
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
    """Hold the components that a recipe finds in a table against chance.

    Parameters
    ----------
    table : Input
        Dense, in memory, without holes.
    recipe : Recipe
        One component after the other.
    rng : RandomState
    n_permutations : int
    level : float
        p-value that is called small: a component that cannot reach it any more is given up, and those behind it.
    blocks : ndarray of shape (n_features,), optional
        Numbers from 0: variables of the same block are permuted together.
    n_jobs : int, optional
    progress : callable, optional
    """
    prepared = table.prepare(None, [fit_spec])
    loadings = to_host(solve_all_components(prepared.operator, fit_spec, rng).Z)
    mean, scale = prepared.moments.mean, prepared.moments.scale
    unit = float(prepared.moments.column_norms.max()) or 1.0  # single precision does for a comparison, at half the time
    A = np.ascontiguousarray(((table.X - mean) / scale / unit).T.astype(np.float32))
    judges = [NullComparison.from_stage(stage) for stage in _build_deflation_stages(A, loadings, fit_spec)]
    variance = np.array([judge.observed_variance for judge in judges])
    permuted, horn = _run_permutations(
        judges, blocks, rng.randint(2**31 - 1, size=n_permutations), level, n_jobs, progress
    )
    ordinary, total = compute_leading_components(prepared.operator, len(judges))[1], prepared.operator.total_variance
    return NullDistribution(
        unit**2 * variance, unit**2 * permuted, ordinary, unit**2 * horn, total, loadings, prepared.notes
    )


def _run_permutations(
    comparisons: Sequence[NullComparison],
    blocks: Array | None,
    seeds: Array,
    level: float,
    n_jobs: int | None,
    progress: PermutationProgress | None,
) -> tuple[Array, Array]:
    """What is found in permuted tables, one per seed, at the stages that are not hopeless; Horn's line."""
    variance, alive, lines = np.array([judge.observed_variance for judge in comparisons]), len(comparisons), []
    permuted = np.full((seeds.size, alive), np.nan)
    allowed = np.floor(level * (seeds.size + 1) / _get_p_value_factors(alive)) - 1  # permuted tables that may reach it
    numbers = np.arange(comparisons[0].stage.table.shape[0]) if blocks is None else blocks
    first = np.zeros(int(numbers.max()) + 1, bool)
    for rows in (judge.longest_variables for judge in comparisons if judge.longest_variables is not None):
        first[numbers[rows]] = True
    ends = np.arange(
        N_CALIBRATION_PERMUTATIONS if first.any() else PERMUTATIONS_PER_BATCH,
        seeds.size + PERMUTATIONS_PER_BATCH,
        PERMUTATIONS_PER_BATCH,
    )
    for start, end in zip([0, *ends], ends, strict=False):
        ordinary = 0 if start else len(comparisons)
        jobs = (
            delayed(_run_one_permutation)(comparisons[:alive], numbers, first, int(seed), ordinary)
            for seed in seeds[start:end]
        )
        values, ratios, horn = map(np.array, zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True))
        permuted[start:end, :alive] = values
        comparisons = [judge.add_ratios(ratios[:, j]) for j, judge in enumerate(comparisons[:alive])]
        lines.append(horn)
        if progress is not None:
            progress(start + len(values), seeds.size)
        hopeless = np.flatnonzero(_count_reaching(permuted, variance)[:alive] > allowed[:alive])
        alive = int(hopeless[0]) if hopeless.size else alive
        if alive == 0:
            break
    return permuted, np.mean(lines[0], axis=0)


def choose_n_components(table: EstimatorInput, rng: np.random.RandomState) -> tuple[dict[str, Any], Array]:
    """The parameters with the number of components that are more than chance, and the p-values of all looked at.

    At most `MOST`, or as many as a list of cardinalities or penalties has. One is kept where none is more than chance.
    """
    params = table.params
    lists = {name: list(params[name]) for name in PER_COMPONENT_PARAMS if isinstance(params[name], Iterable)}
    most = min([len(values) for values in lists.values()] or [MAX_AUTO_COMPONENTS, *table.shape])
    table = table.prepare_for_permutation()
    asked = table.build_fit_specs({"n_components": most, "method": "deflation", "mu": None, "constraint": None})[0]
    p_values = permutation_test(
        table, asked, rng, n_permutations=N_AUTO_PERMUTATIONS, level=AUTO_SIGNIFICANCE_LEVEL
    ).p_values
    count = max(1, int(np.count_nonzero(p_values <= AUTO_SIGNIFICANCE_LEVEL)))
    return {"n_components": count} | {name: values[:count] for name, values in lists.items()}, p_values


def describe_selection(p_values: Array) -> str:
    """A sentence about the number of components that ``n_components="auto"`` stands for.

    Examples
    --------
    >>> print(describe_selection(np.array([0.005, 0.38])).partition(", by")[0])
    1 of up to 2 components explain more than chance at the level 0.05 (p = 0.005; of the next 0.38)
    """
    passed = [f"{p:.2g}" for p in p_values if p <= AUTO_SIGNIFICANCE_LEVEL]
    following = "".join(f"of the next {p:.2g}" for p in p_values[len(passed) :][:1])
    told = "; ".join(filter(None, ("p = " + ", ".join(passed) if passed else "", following)))
    return (
        f"{len(passed)} of up to {p_values.size} components explain more than chance at the level "
        f"{AUTO_SIGNIFICANCE_LEVEL:g} ({told}), by {N_AUTO_PERMUTATIONS} permuted tables."
    )


def _build_deflation_stages(A: Array, loadings: Array, fit_spec: FitSpec) -> list[DeflationStage]:
    """The table, and what each component leaves of it to the next."""
    quick = replace(
        fit_spec.settings,
        tol=max(fit_spec.settings.tol, QUICK_FIT_TOLERANCE),
        max_iter=MAX_QUICK_FIT_STEPS,
        callback=None,
    )
    small = [
        replace(fit_spec.select_unit(j), n_init=1, start=TwoColumnStart(), local_search=False, settings=quick)
        for j in range(len(fit_spec.mu))
    ]
    n, p = A.shape
    stages = [DeflationStage(A, np.zeros((p, 0), A.dtype), np.zeros((n, 0), A.dtype), small[0])]
    for j in range(1, len(small)):
        stages.append(stages[-1].deflate(loadings[:, j - 1], small[j]))
    return stages


def _run_one_permutation(
    comparisons: Sequence[NullComparison], blocks: Array, is_drawn_first: Array, seed: int, n_pca_components: int
) -> tuple[list[float], list[float], Array]:
    """What is found in a permuted table, at every stage by the same orders; ratios; some of its ordinary components."""
    stage = comparisons[0].stage
    orders = Permutations(seed, stage.table.shape[1], blocks, is_drawn_first)
    values, ratios = zip(*(judge.compute_permuted_variance(orders) for judge in comparisons), strict=True)
    line = np.zeros(0)
    if n_pca_components:
        line = compute_leading_components(
            build_table_operator(stage.permute_residual(orders.all_orders), stage.fit_spec), n_pca_components
        )[1]
    return list(values), list(ratios), line
