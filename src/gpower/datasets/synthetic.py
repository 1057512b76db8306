"""Synthetic data: Gaussian noise, and expression data with known active gene sets."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gpower._utils.arrays import Seed
from gpower.io.tables.table import Names

__all__ = ["ExpressionCohort", "expression_cohort", "gaussian"]

#: Share of the genes of an active set that follow its factor; in real gene sets not all genes do either.
_FACTOR_GENE_SHARE = 0.7


def gaussian(n_samples: int, n_features: int, *, random_state: Seed = None) -> NDArray[np.float64]:
    """Draw a matrix of independent standard normal entries, as in the paper's measurements of time and quality.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the matrix.
    random_state : int, RandomState or None
        Seed or generator of the random numbers.

    Returns
    -------
    ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> from gpower.datasets import gaussian
    >>> gaussian(3, 4, random_state=0).shape
    (3, 4)
    """
    rng = check_random_state(random_state)
    return np.asarray(rng.standard_normal((n_samples, n_features)))


@dataclass(frozen=True)
class ExpressionCohort:
    """A synthetic expression table with its gene sets, some of which are active.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_genes)
        Log expression.
    feature_names, sample_names : tuple of str
        Names of genes and samples.
    gene_sets : dict of str to tuple of str
        Active sets, then inactive ones; some of their genes may not be in the table.
    active : tuple of str
        Names of the sets whose genes are correlated.

    Examples
    --------
    >>> from gpower.datasets import expression_cohort
    >>> cohort = expression_cohort(random_state=0)
    >>> cohort.X.shape, len(cohort.gene_sets), cohort.active[:2]
    ((100, 1000), 60, ('ACTIVE_1', 'ACTIVE_2'))
    """

    X: NDArray[np.float64]
    feature_names: Names
    sample_names: Names
    gene_sets: dict[str, Names]
    active: Names

    def __repr__(self) -> str:
        n_samples, n_genes = self.X.shape
        sets = f"{len(self.active)} of {len(self.gene_sets)} gene sets active"
        return f"<ExpressionCohort: {n_samples} samples × {n_genes} genes, {sets}>"

    @property
    def modules(self) -> dict[str, Names]:
        """Return the genes of each active set.

        Examples
        --------
        >>> from gpower.datasets import load_planted_expression
        >>> list(load_planted_expression().modules)
        ['GROWTH', 'IMMUNE', 'STRESS']
        """
        return {name: self.gene_sets[name] for name in self.active}


def expression_cohort(
    n_samples: int = 100,
    n_genes: int = 1000,
    *,
    n_sets: int = 60,
    n_active: int = 20,
    set_size: int = 30,
    strength: float = 1.2,
    leak: float = 0.2,
    spread: float = 0.5,
    random_state: Seed = None,
) -> ExpressionCohort:
    """Draw expression data in which some gene sets are active: most of their genes follow a common factor.

    The genes of every set are chosen at random, so sets overlap by chance. A tenth of each set is not in the table.
    Genes differ in scale and mean. For the easier problem, few factors without `leak` and genes of equal scale, the
    largest loadings of ordinary PCA are as good as sparse PCA.

    Parameters
    ----------
    n_samples, n_genes : int, default 100 and 1000
        Shape of the data.
    n_sets, n_active : int, default 60 and 20
        Number of gene sets, and of active sets among them.
    set_size : int, default 30
        Number of genes in a set.
    strength : float, default 1.2
        Standard deviation of the first factor relative to the noise of a gene. Later factors are weaker, down to half.
    leak : float, default 0.2
        Standard deviation of the random effects of every factor on all genes, because the programmes of a tumour also
        affect genes outside a set.
    spread : float, default 0.5
        Standard deviation of the logarithm of the genes' scales; 0 gives all genes the same scale.
    random_state : int, RandomState or None
        Seed or generator of the random numbers.

    Returns
    -------
    ExpressionCohort
        The table, its gene sets, and the names of the active sets.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import expression_cohort
    >>> from gpower.analysis.enrichment import enrich
    >>> cohort = expression_cohort(random_state=0)
    >>> model = GPower(10, cardinality=40).fit(cohort.X)
    >>> significant = enrich(model, cohort.gene_sets, genes=cohort.feature_names).significant
    >>> sum(name in cohort.active for name in significant), sum(name not in cohort.active for name in significant)
    (8, 0)
    """
    if not 0 <= n_active <= n_sets:
        raise ValueError(f"n_active is {n_active}; it must be from 0 to n_sets={n_sets}.")
    n_measured = round(0.9 * set_size)
    if not 1 <= n_measured <= n_genes:
        raise ValueError(f"set_size is {set_size}; a set needs at least 1 measured gene and at most n_genes={n_genes}.")
    rng = check_random_state(random_state)
    genes = [f"GENE{j + 1}" for j in range(n_genes)]
    members = [rng.choice(n_genes, n_measured, replace=False) for _ in range(n_sets)]
    loadings = np.zeros((n_active, n_genes))
    for row, set_genes in zip(loadings, members, strict=False):
        followers = set_genes[: max(1, round(_FACTOR_GENE_SHARE * set_genes.size))]
        row[followers] = rng.uniform(0.7, 1.3, followers.size) * rng.choice((-1.0, 1.0), followers.size)
    loadings += leak * rng.standard_normal(loadings.shape)
    factors = rng.standard_normal((n_samples, n_active)) * (strength * np.linspace(1, 0.5, n_active))
    X = factors @ loadings + rng.standard_normal((n_samples, n_genes))
    X = X * np.exp(rng.normal(0, spread, n_genes)) + rng.uniform(5, 10, n_genes)
    names = [f"ACTIVE_{i + 1}" if i < n_active else f"QUIET_{i - n_active + 1}" for i in range(n_sets)]
    unmeasured = [tuple(f"UNSEEN{i + 1}_{j + 1}" for j in range(set_size - n_measured)) for i in range(n_sets)]
    sets = {
        name: (*(genes[j] for j in np.sort(set_genes)), *others)
        for name, set_genes, others in zip(names, members, unmeasured, strict=True)
    }
    samples = tuple(f"S{i + 1}" for i in range(n_samples))
    return ExpressionCohort(X, tuple(genes), samples, sets, tuple(names[:n_active]))
