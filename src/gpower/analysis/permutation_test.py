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

Fits are small: two starts, no local search. The table itself is fitted in the same way for the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from gpower._utils.arrays import Array, to_host
from gpower._utils.threads import limit_small_products
from gpower.analysis.permuted_tables import (
    DeflationStage,
    Permutations,
    build_deflation_stages,
    fit_permuted_tables,
)
from gpower.operators.leading_pca import compute_leading_components
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.sequential import solve_all_components
from gpower.validation.params import fix_n_components, get_component_lists
from gpower.validation.prepare import EstimatorInput, PreparedData

#: Permuted tables between two checks which components cannot become significant any more, and permuted tables of a wide
#: table before the largest variables decide. Horn's threshold is the mean over the first batch.
PERMUTATIONS_PER_BATCH, N_CALIBRATION_PERMUTATIONS = 20, 5
#: Factor on the p-values of all components but the first. Their test is not exact, because the components that were
#: removed were fitted to the data. Without the factor 2 of 25 tables with three planted components had a fourth at 5 %.
LATER_P_VALUE_FACTOR = 2
#: Relative difference below which two variances tie.
VARIANCE_TIE_TOLERANCE = 1e-5

#: Settings of ``n_components="auto"``: most components, permuted tables, and significance level.
MAX_AUTO_COMPONENTS, N_AUTO_PERMUTATIONS, AUTO_SIGNIFICANCE_LEVEL = 20, 200, 0.05

#: Callback with the number of permuted tables done and their total.
PermutationProgress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False, repr=False)
class NullDistribution:
    """Variances of components in a table and in permuted tables, not sums of squares.

    `gpower.ComponentTest` describes the attributes. An entry of `permuted_variance` is NaN if the component could not
    become significant any more.
    """

    variance: Array
    permuted_variance: Array
    pca_variance: Array
    horn: Array
    total_variance: float
    level: float
    degrees_of_freedom: float
    loadings: Array
    column_norms: Array
    notes: tuple[str, ...] = ()

    @property
    def p_values(self) -> Array:
        """Return the p-value of each component, (n_components,), non-decreasing.

        A component's p-value is at least those of the earlier components. Components after the first that fails are
        not tested and have p-value one.
        """
        n_permuted = np.count_nonzero(~np.isnan(self.permuted_variance), axis=0)
        n_reaching = _count_reaching(self.permuted_variance, self.variance)
        p_values = _get_p_value_factors(n_permuted.size) * (1 + n_reaching) / (1 + n_permuted)
        return np.maximum.accumulate(np.where(n_permuted > 0, np.minimum(p_values, 1.0), 1.0))

    @property
    def n_components(self) -> int:
        """Return the number of components with p-value at most `level`."""
        return int(np.count_nonzero(self.p_values <= self.level))

    @property
    def n_tested(self) -> int:
        """Return the number of components that were compared with permuted tables."""
        return int(np.count_nonzero(~np.isnan(self.permuted_variance).all(axis=0)))


def _get_p_value_factors(count: int) -> Array:
    """Return the factors on the p-values: 1 for the first component, `LATER_P_VALUE_FACTOR` for the others."""
    return np.where(np.arange(count) > 0, LATER_P_VALUE_FACTOR, 1)


def _count_reaching(permuted: Array, variance: Array) -> Array:
    """Return, per component, the number of permuted tables that reach the variance of the table, ties included."""
    return np.count_nonzero(permuted >= (1 - VARIANCE_TIE_TOLERANCE) * variance, axis=0)


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
    stages = build_deflation_stages(A, basis.astype(np.float32), loadings, fit_spec)
    blocks = np.arange(len(A)) if blocks is None else blocks
    permutations = Permutations.from_stages(stages, blocks, _find_strata(table))
    seeds = rng.randint(2**31 - 1, size=n_permutations)
    first_end = N_CALIBRATION_PERMUTATIONS if permutations.n_first else PERMUTATIONS_PER_BATCH
    batches = np.split(seeds, np.arange(first_end, n_permutations, PERMUTATIONS_PER_BATCH))
    permuted_variance, horn_mean = _run_permutations(stages, batches, permutations, level, n_jobs, progress)
    degrees_of_freedom = max(table.shape[0] - 1.0, 1.0)
    factor = unit**2 / degrees_of_freedom
    return NullDistribution(
        variance=factor * np.array([stage.observed_variance for stage in stages]),
        permuted_variance=factor * permuted_variance,
        pca_variance=compute_leading_components(prepared.operator, len(stages))[1] / degrees_of_freedom,
        horn=factor * horn_mean,
        total_variance=prepared.operator.total_variance / degrees_of_freedom,
        level=level,
        degrees_of_freedom=degrees_of_freedom,
        loadings=loadings,
        column_norms=to_host(prepared.moments.column_norms),
        notes=prepared.notes,
    )


def _standardize_samples(table: EstimatorInput, prepared: PreparedData) -> tuple[Array, Array]:
    """Return the standardised samples, (n_samples, n_features), and the basis of the covariates, (n_samples, c).

    With covariates the samples are residuals, and times the roots of their weights if batches are balanced.
    """
    operator = table.prepare(reduce=False).operator  # that of `prepared` may be a covariance
    samples = operator.columns(np.arange(table.shape[1]))
    if prepared.covariates is None:
        return samples, np.zeros((len(samples), 0))
    basis, root_weight = prepared.covariates.basis, operator.sqrt_sample_weight
    assert basis is not None
    return samples, basis if root_weight is None else root_weight[:, None] * basis


def _find_strata(table: EstimatorInput) -> list[Any]:
    """Return the indices of the samples of each batch; without batches one slice of all samples."""
    batch = getattr(table.covariates, "batch", None)
    return [slice(None)] if batch is None else [np.flatnonzero(batch == label) for label in sorted(set(batch))]


def _run_permutations(
    stages: Sequence[DeflationStage],
    batches: Sequence[Array],
    permutations: Permutations,
    level: float,
    n_jobs: int | None,
    progress: PermutationProgress | None,
) -> tuple[Array, Array]:
    """Return the variances in permuted tables, (n_permutations, n_components), and Horn's threshold, (n_components,).

    `batches` are seeds of tables. Stages that cannot become significant any more are left out: their variances in
    further tables are NaN.
    """
    observed = np.array([stage.observed_variance for stage in stages])
    n_permutations, n_active, done = sum(map(len, batches)), len(stages), 0
    permuted = np.full((n_permutations, n_active), np.nan)
    ratios, horn_mean = permuted.copy(), np.zeros(0)
    max_reaching = np.floor(level * (n_permutations + 1) / _get_p_value_factors(n_active)) - 1
    is_stacked = stages[0].is_solved_in_stack
    for seeds in batches:
        # Tables of few variables are solved together, others in parallel.
        parts = [seeds] if is_stacked else np.split(seeds, seeds.size)
        with limit_small_products(stages[0].table.size):
            results = Parallel(n_jobs=1 if is_stacked else n_jobs)(
                delayed(fit_permuted_tables)(
                    stages[:n_active], part, permutations, ratios[:done, :n_active], 0 if done else len(stages)
                )
                for part in parts
            )
        rows = slice(done, done + seeds.size)
        permuted[rows, :n_active], ratios[rows, :n_active], pca = map(np.vstack, zip(*results, strict=True))
        horn_mean = horn_mean if done else np.mean(pca, axis=0)
        done += seeds.size
        if progress is not None:
            progress(done, n_permutations)
        hopeless = np.flatnonzero(_count_reaching(permuted, observed)[:n_active] > max_reaching[:n_active])
        n_active = int(hopeless[0]) if hopeless.size else n_active
        if n_active == 0:
            break
    return permuted, horn_mean


def choose_n_components(table: EstimatorInput, rng: np.random.RandomState) -> tuple[dict[str, Any], Array]:
    """Return the parameters for as many components as are significant, and the p-values of all tested components.

    At most `MAX_AUTO_COMPONENTS` are tested, or as many as a list with one entry per component has. If none is
    significant, one component is kept.
    """
    params = table.params
    lengths = [len(entries) for entries in get_component_lists(params).values()]
    max_components = min(lengths or [MAX_AUTO_COMPONENTS, *table.shape])
    table = table.prepare_for_permutation()
    overrides = {"n_components": max_components, "method": "deflation", "mu": None, "constraint": None}
    fit_spec = table.build_fit_specs(overrides)[0]
    found = permutation_test(table, fit_spec, rng, n_permutations=N_AUTO_PERMUTATIONS, level=AUTO_SIGNIFICANCE_LEVEL)
    return fix_n_components(params, max(1, found.n_components)), found.p_values


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
