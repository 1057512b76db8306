"""Choose the number of components: count those that explain more variance than components of permuted tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, Seed
from gpower._utils.warnings import warn_all
from gpower.analysis.permutation_test import (
    LATER_P_VALUE_FACTOR,
    NullDistribution,
    PermutationProgress,
    permutation_test,
)
from gpower.estimators.fit_summary import iter_scale_warnings
from gpower.estimators.gpower import GPower
from gpower.estimators.outliers import check_probability_level
from gpower.plotting import plot_components
from gpower.plotting.style import AxesLike, Panel
from gpower.validation.params import check_int, make_random_state
from gpower.validation.prepare import read_estimator_input


class ComponentTest(NullDistribution):
    """Result of `component_test`: variance and p-value of every component.

    Attributes
    ----------
    variance : ndarray of shape (n_components,)
        Variance of each component after deflation by the earlier ones, by the same quick fits as for permuted tables.
    permuted_variance : ndarray of shape (n_permutations, n_components)
        `variance` of every permuted table; NaN if it was not computed. For a wide table most entries are estimates
        from the variables of largest norm only. They are used if they are far below the variance of the table.
    pca_variance : ndarray of shape (n_components,)
        Variances of the leading PCA components.
    horn : ndarray of shape (n_components,)
        Mean variances of the PCA components of permuted tables (Horn 1965).
    total_variance : float
        Variance of the table.
    level : float
        Significance level: a component counts if its p-value is at most this.
    degrees_of_freedom : float
        Divisor of the variances, n_samples − 1.
    loadings : ndarray of shape (n_features, n_components)
        Loadings of the components by a full fit.
    column_norms : ndarray of shape (n_features,)
        Norms of the centred and, if asked for, scaled variables.
    notes : tuple of str
        Sentences about the table: imputed values, columns that do not vary.

    Examples
    --------
    >>> from gpower import component_test
    >>> from gpower.datasets import load_planted_expression
    >>> test = component_test(load_planted_expression().X, 4, cardinality=8, random_state=0)
    >>> test.n_components, test.p_values.shape
    (3, (4,))
    """

    def __repr__(self) -> str:
        percent = 100 / (self.total_variance or 1.0)
        rows = zip(percent * self.variance, percent * self.null_quantile, self.p_values, strict=True)
        lines = [
            f"{j}: {observed:.3g} % of the variance, by chance {null:.3g} %, p = {p:.2g}"
            for j, (observed, null, p) in enumerate(rows, 1)
        ]
        more = "; all that were tested, there may be more" * (self.n_components == self.p_values.size)
        count = f"<ComponentTest: {self.n_components} component(s) at the level {self.level:g}{more}"
        return "\n  ".join([count, *lines[: self.n_tested]]) + ">"

    @property
    def null_quantile(self) -> Array:
        """Return the 1 − level quantile of `permuted_variance`, (n_components,); NaN for components not tested."""
        columns = [column[~np.isnan(column)] for column in self.permuted_variance.T]
        return np.array([np.quantile(c, 1 - self.level) if c.size else np.nan for c in columns])

    @property
    def n_components_pca(self) -> int:
        """Return the number of leading PCA components whose variance exceeds `horn`."""
        below = self.pca_variance <= self.horn
        return int(np.argmax(below)) if below.any() else below.size

    def columns(self) -> dict[str, Array]:
        """Return the result as named columns with one row per component."""
        return {
            "component": np.arange(1, self.p_values.size + 1),
            "variance": self.variance,
            "by_chance": self.null_quantile,
            "p_value": self.p_values,
            "pca_variance": self.pca_variance,
            "horn": self.horn,
        }

    def plot(self, axes: AxesLike = None) -> Panel:
        """Plot the variances with those of permuted tables; see `gpower.plotting.plot_components`.

        Parameters
        ----------
        axes : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_components(self, axes)


def component_test(
    X: object,
    n_components: int = 10,
    *,
    n_permutations: int = 200,
    level: float = 0.05,
    blocks: Iterable[object] | None = None,
    n_jobs: int | None = None,
    progress: PermutationProgress | None = None,
    random_state: Seed = None,
    covariates: Any = None,
    batch: Any = None,
    **options: Any,
) -> ComponentTest:
    """Compare each component's variance with that of the same fit to tables whose columns were permuted.

    Each component is computed after deflation by the earlier ones. Components are tested one after the other, up to the
    first that fails: in a table without structure, a component is found with probability at most `level`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        A sparse table is converted to a dense one. If data in blocks are too large to be permuted within
        `memory_limit`, the test uses as many randomly drawn samples as fit and warns; it is still valid.
    n_components : int, default=10
        Maximum number of components.
    n_permutations : int, default=200
        Number of permuted tables. The smallest possible p-value is 1/(n_permutations + 1) for the first component and
        twice that for the others, whose test is not exact. Permuting stops early for a component that cannot reach the
        level any more.
    level : float, default=0.05
        Significance level: a component counts if its p-value is at most this.
    blocks : sequence, optional
        A label for each variable. Variables with the same label, such as probes of one gene, are permuted together, so
        that the variance they share does not count as a component.
    n_jobs : int, optional
        Number of permuted tables processed in parallel, as in scikit-learn. The result does not depend on it.
    progress : callable, optional
        Called as ``progress(done, total)``.
    random_state : int, RandomState or None
        Seed of the permutations. None stands for a fixed seed.
    covariates, batch : optional
        Covariates and batch labels of the samples, as for `GPower.fit`. Residuals are permuted, within batches if
        there are any, and what the covariates predict of permuted residuals is removed again.
    **options
        Parameters of `GPower`, such as ``cardinality=20`` and ``scale=True``.

    Returns
    -------
    ComponentTest
        Number of components that pass, with the p-value, the variance and the permuted variances of each.

    References
    ----------
    Horn (1965). A rationale and test for the number of factors in factor analysis. Psychometrika 30, 179–185.

    Examples
    --------
    >>> from gpower import component_test
    >>> from gpower.datasets import load_planted_expression
    >>> test = component_test(load_planted_expression().X, 5, cardinality=6, n_permutations=99)  # three modules
    >>> test.n_components, test.p_values[:3]
    (3, array([0.01, 0.02, 0.02]))
    """
    model = GPower(n_components, **options)
    table = read_estimator_input(model, X).with_covariates(covariates, batch).prepare_for_permutation()
    level = check_probability_level(level)
    n_permutations = check_int(n_permutations, "n_permutations", 1)
    if (n_permutations + 1) * level < LATER_P_VALUE_FACTOR:
        raise ValueError(
            f"n_permutations={n_permutations} give p-values down to {LATER_P_VALUE_FACTOR / (n_permutations + 1):.2g}, "
            f"above level={level:g}; use at least {int(np.ceil(LATER_P_VALUE_FACTOR / level)) - 1}."
        )
    found = permutation_test(
        table,
        table.build_fit_specs({"method": "deflation", "mu": None})[0],
        make_random_state(random_state),
        n_permutations=n_permutations,
        level=level,
        blocks=None if blocks is None else _encode_blocks(blocks, table.shape[1]),
        n_jobs=n_jobs,
        progress=progress,
    )
    warn_all(iter_scale_warnings(found.loadings.T, found.column_norms, table.feature_names))
    return ComponentTest(**vars(found))


def _encode_blocks(blocks: Iterable[object], n_features: int) -> Array:
    """Return the integer code of each variable's block, (n_features,)."""
    labels = [str(block) for block in blocks]
    if len(labels) != n_features:
        raise ValueError(f"blocks has {len(labels)} entries, but there are {n_features} variables.")
    return np.unique(labels, return_inverse=True)[1]
