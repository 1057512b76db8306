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
from gpower.analysis.permuted_tables import NullComparison, build_deflation_stages, compute_permuted_variances
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
    column_norms : ndarray of shape (n_features,)
        Norms of the centred and, if asked for, scaled variables.
    notes : tuple of str
        Sentences about the table: imputed values, columns that do not vary.
    """

    observed_variance: Array
    permuted_variance: Array
    pca_variance: Array
    horn_mean: Array
    total_variance: float
    loadings: Array
    column_norms: Array
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
    comparisons = [NullComparison.from_stage(stage) for stage in stages]
    seeds = rng.randint(2**31 - 1, size=n_permutations)
    blocks = np.arange(len(A)) if blocks is None else blocks
    strata = _find_strata(table)
    permuted_variance, horn_mean = _run_permutations(comparisons, seeds, level, blocks, strata, n_jobs, progress)
    _, pca_variance = compute_leading_components(prepared.operator, len(stages))
    return NullDistribution(
        observed_variance=unit**2 * np.array([comparison.observed_variance for comparison in comparisons]),
        permuted_variance=unit**2 * permuted_variance,
        pca_variance=pca_variance,
        horn_mean=unit**2 * horn_mean,
        total_variance=prepared.operator.total_variance,
        loadings=loadings,
        column_norms=to_host(prepared.moments.column_norms),
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
    seeds: Array,
    level: float,
    blocks: Array,
    strata: Sequence[Array] | None,
    n_jobs: int | None,
    progress: PermutationProgress | None,
) -> tuple[Array, Array]:
    """Return the variances in permuted tables, (n_seeds, n_components), and Horn's threshold, (n_components,).

    Stages that cannot become significant any more are left out: their variances in further tables are NaN.
    """
    observed = np.array([comparison.observed_variance for comparison in comparisons])
    n_components = n_active = len(comparisons)
    permuted = np.full((seeds.size, n_components), np.nan)
    max_reaching = np.floor(level * (seeds.size + 1) / _get_p_value_factors(n_components)) - 1
    is_drawn_first = np.zeros(int(blocks.max()) + 1, bool)
    for comparison in comparisons:
        if comparison.longest_variables is not None:
            is_drawn_first[blocks[comparison.longest_variables]] = True
    first_end = N_CALIBRATION_PERMUTATIONS if is_drawn_first.any() else PERMUTATIONS_PER_BATCH
    horn_mean = np.zeros(0)
    for batch in np.split(np.arange(seeds.size), np.arange(first_end, seeds.size, PERMUTATIONS_PER_BATCH)):
        stage = comparisons[0].stage
        # Tables of few variables are solved together, others in parallel.
        parts = [batch] if stage.is_solved_in_stack else np.split(batch, batch.size)
        n_pca_components = n_components if batch[0] == 0 else 0
        with limit_small_products(stage.table.size):
            results = Parallel(n_jobs=n_jobs if len(parts) > 1 else 1)(
                delayed(compute_permuted_variances)(
                    comparisons[:n_active], seeds[part], blocks, is_drawn_first, strata, n_pca_components
                )
                for part in parts
            )
        components, ratios, pca = map(np.vstack, zip(*results, strict=True))
        permuted[batch, :n_active] = components
        comparisons = [each.add_ratios(ratios[:, j]) for j, each in enumerate(comparisons[:n_active])]
        if batch[0] == 0:
            horn_mean = np.mean(pca, axis=0)
        if progress is not None:
            progress(int(batch[-1]) + 1, seeds.size)
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
    p_values = permutation_test(
        table, fit_spec, rng, n_permutations=N_AUTO_PERMUTATIONS, level=AUTO_SIGNIFICANCE_LEVEL
    ).p_values
    count = max(1, int(np.count_nonzero(p_values <= AUTO_SIGNIFICANCE_LEVEL)))
    return fix_n_components(params, count), p_values


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
