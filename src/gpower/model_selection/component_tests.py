"""How many components? As many as explain more than chance does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpower._utils.arrays import Array, Seed
from gpower.analysis.permutation import LATER_P_VALUE_FACTOR, NullDistribution, PermutationProgress, permutation_test
from gpower.estimators.gpower import GPower
from gpower.estimators.outliers import check_probability_level
from gpower.plotting import plot_components
from gpower.plotting.style import AxesLike, Panel
from gpower.validation.params import check_int, make_random_state
from gpower.validation.prepare import read_estimator_input


@dataclass(frozen=True, eq=False, repr=False)
class ComponentTest:
    """Which components are more than chance, as `component_test` returns it.

    Attributes
    ----------
    null_distribution : Chance
        What was found in the table and in permuted ones.
    level : float
        p-value up to which a component counts.
    degrees_of_freedom : float
        Divisor of variances, n_samples − 1.

    Examples
    --------
    >>> from gpower import component_test
    >>> from gpower.datasets import load_planted_expression
    >>> test = component_test(load_planted_expression().X, 4, cardinality=8, random_state=0)
    >>> test.n_components, test.p_values.shape
    (3, (4,))
    """

    null_distribution: NullDistribution
    level: float
    degrees_of_freedom: float

    def __repr__(self) -> str:
        shares = 100 / (self.total_variance or 1.0)
        each = (
            f"{shares * own:.3g} % of the variance, by chance {shares * chance:.3g} %, p = {p:.2g}"
            for own, chance, p in zip(self.variance, self.null_quantile, self.p_values, strict=True)
        )
        lines = [f"{j}: {words}" for j, words in enumerate(each, 1)][: self.n_tested]
        count = f"<ComponentTest: {self.n_components} component(s) at the level {self.level:g}"
        return "\n  ".join([count, *lines]) + ">"

    @property
    def p_values(self) -> Array:
        """Of each component together with those before it, (n_components,): never falling.

        One for those behind a component that fails, which are not tested.
        """
        return self.null_distribution.p_values

    @property
    def n_components(self) -> int:
        """Components at the level."""
        return int(np.count_nonzero(self.p_values <= self.level))

    @property
    def n_tested(self) -> int:
        """Components that were held against permuted tables at all."""
        return self.null_distribution.n_tested

    @property
    def variance(self) -> Array:
        """Of each component, once the earlier ones are taken out; by the small fits that permuted tables get."""
        return self.null_distribution.observed_variance / self.degrees_of_freedom

    @property
    def permuted_variance(self) -> Array:
        """`variance` of every permuted table, (n_permutations, n_components); NaN where it was not needed.

        Of a wide table mostly an estimate, by a fit to the longest variables, which decide where they are far below.
        """
        return self.null_distribution.permuted_variance / self.degrees_of_freedom

    @property
    def null_quantile(self) -> Array:
        """Variance that a share 1 − level of permuted tables stays below; NaN where none was made."""
        null = self.permuted_variance
        columns = [column[~np.isnan(column)] for column in null.T]
        return np.array([np.quantile(c, 1 - self.level) if c.size else np.nan for c in columns])

    @property
    def pca_variance(self) -> Array:
        """Variance of as many ordinary components."""
        return self.null_distribution.pca_variance / self.degrees_of_freedom

    @property
    def horn(self) -> Array:
        """Mean variance of ordinary components of permuted tables, Horn's line (1965)."""
        return self.null_distribution.horn_mean / self.degrees_of_freedom

    @property
    def n_components_pca(self) -> int:
        """Ordinary components above Horn's line."""
        below = self.pca_variance <= self.horn
        return int(np.argmax(below)) if below.any() else below.size

    @property
    def total_variance(self) -> float:
        """Of the table."""
        return self.null_distribution.total_variance / self.degrees_of_freedom

    def columns(self) -> dict[str, Array]:
        """What a table of it has, a row per component."""
        return {
            "component": np.arange(1, self.p_values.size + 1),
            "variance": self.variance,
            "by_chance": self.null_quantile,
            "p_value": self.p_values,
            "pca_variance": self.pca_variance,
            "horn": self.horn,
        }

    def plot(self, axes: AxesLike = None) -> Panel:
        """Variances beside those of permuted tables; see `gpower.plotting.plot_components`.

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
    **options: Any,
) -> ComponentTest:
    """Hold each component's variance against that of the same fit to tables whose columns were permuted.

    Each component is looked for in what the earlier ones leave. Components are tested one after the other, up to the
    first that fails: a table without structure passes for one with a component in a share `level` of cases.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        A sparse table is made dense. Of data in blocks that `memory_limit` does not let be permuted, as many samples
        as it does are drawn at random, with a warning: chance among them is chance.
    n_components : int, default=10
        The most components to look for.
    n_permutations : int, default=200
        Permuted tables; the smallest possible p-value is 1/(n_permutations + 1), twice that for all components but the
        first, whose test is not exact. A component that cannot reach the level any more gets no further ones.
    level : float, default=0.05
        p-value up to which a component counts.
    blocks : sequence, optional
        A label per variable: variables of a block, such as probes of one gene, are permuted together, so that what they
        have in common is not taken for a component.
    n_jobs : int, optional
        Permuted tables worked on at the same time, as in scikit-learn; the answer is the same for any number.
    progress : callable, optional
        Called as ``progress(done, total)``.
    random_state : int, RandomState or None
        Of the permutations. None stands for a fixed seed.
    **options
        Parameters of `GPower`, such as ``cardinality=20`` and ``scale=True``.

    Returns
    -------
    ComponentTest
        How many components pass, and of each its p-value and its variance beside that of permuted tables.

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
    table = read_estimator_input(model, X).prepare_for_permutation()
    n_permutations, level = check_permutations(n_permutations, level)
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
    return ComponentTest(found, level, max(table.shape[0] - 1.0, 1.0))


def check_permutations(n_permutations: int, level: float) -> tuple[int, float]:
    """Number of permuted tables and level, if so many can reach it."""
    level, n_permutations = check_probability_level(level), check_int(n_permutations, "n_permutations", 1)
    if (n_permutations + 1) * level < LATER_P_VALUE_FACTOR:
        raise ValueError(
            f"n_permutations={n_permutations} give p-values down to {LATER_P_VALUE_FACTOR / (n_permutations + 1):.2g}, "
            f"above level={level:g}; take at least {int(np.ceil(LATER_P_VALUE_FACTOR / level)) - 1}."
        )
    return n_permutations, level


def _encode_blocks(blocks: Iterable[object], n: int) -> Array:
    """The number of each variable's block."""
    words = [str(block) for block in blocks]
    if len(words) != n:
        raise ValueError(f"blocks has {len(words)} entries, but there are {n} variables.")
    return np.unique(words, return_inverse=True)[1]
