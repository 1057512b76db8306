"""Data that are made up: Gaussian noise, and expression of which it is known which gene sets are active."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gpower._utils.arrays import Seed
from gpower.io.tables.table import Names

__all__ = ["ExpressionCohort", "expression_cohort", "gaussian"]

_FACTOR_GENE_SHARE = 0.7  # share of an active set's genes that follow its factor; in real sets, too, not all do


def gaussian(n_samples: int, n_features: int, *, random_state: Seed = None) -> NDArray[np.float64]:
    """Independent standard normal entries, the matrices on which the paper measures time and quality.

    Parameters
    ----------
    n_samples, n_features : int
        The shape.
    random_state : int, RandomState or None
        Where the numbers come from.

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
    """A made-up expression table, its gene sets, and which of them are active.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_genes)
        Log expression.
    feature_names, sample_names : tuple of str
        Genes and samples.
    gene_sets : dict of str to tuple of str
        Active and inactive sets, the active ones first; some of their genes may not have been measured.
    active : tuple of str
        The sets whose genes vary together.

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
        """The genes of each active set.

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
    """Expression in which some gene sets are active: most of their genes follow a common factor.

    The genes of every set are chosen at random, so sets overlap by chance; a tenth of each set was not measured.
    Genes have scales and levels of their own. The easier problem, few factors without `leak` and genes of one scale,
    is solved by the largest loadings of ordinary PCA just as well.

    Parameters
    ----------
    n_samples, n_genes : int, default 100 and 1000
        The shape of the data.
    n_sets, n_active : int, default 60 and 20
        Number of gene sets, and of active ones among them.
    set_size : int, default 30
        Genes of a set.
    strength : float, default 1.2
        Standard deviation of the first factor beside that of a gene's noise; later factors are weaker, down to half.
    leak : float, default 0.2
        How much a factor moves all other genes, at random, beside those of its set: a tumour's programmes have wide
        effects.
    spread : float, default 0.5
        Standard deviation of the logarithm of the genes' scales; 0 gives all genes the same.
    random_state : int, RandomState or None
        Where the numbers come from.

    Returns
    -------
    ExpressionCohort
        The table, its gene sets, and which of them are active.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import expression_cohort
    >>> from gpower.analysis.enrichment import enrich
    >>> cohort = expression_cohort(random_state=0)
    >>> model = GPower(10, cardinality=40).fit(cohort.X)
    >>> found = enrich(model, cohort.gene_sets, genes=cohort.feature_names).significant
    >>> sum(name in cohort.active for name in found), sum(name not in cohort.active for name in found)
    (8, 0)
    """
    if not 0 <= n_active <= n_sets:
        raise ValueError(f"n_active is {n_active}; it is a number of sets, from 0 to n_sets={n_sets}.")
    n_measured = round(0.9 * set_size)
    if not 1 <= n_measured <= n_genes:
        raise ValueError(f"set_size is {set_size}; a set has at least 1 measured gene and at most n_genes={n_genes}.")
    rng = check_random_state(random_state)
    genes = [f"GENE{j + 1}" for j in range(n_genes)]
    members = [rng.choice(n_genes, n_measured, replace=False) for _ in range(n_sets)]
    loadings = np.zeros((n_active, n_genes))
    for row, chosen in zip(loadings, members, strict=False):
        following = chosen[: max(1, round(_FACTOR_GENE_SHARE * chosen.size))]
        row[following] = rng.uniform(0.7, 1.3, following.size) * rng.choice((-1.0, 1.0), following.size)
    loadings += leak * rng.standard_normal(loadings.shape)
    factors = rng.standard_normal((n_samples, n_active)) * (strength * np.linspace(1, 0.5, n_active))
    X = factors @ loadings + rng.standard_normal((n_samples, n_genes))
    X = X * np.exp(rng.normal(0, spread, n_genes)) + rng.uniform(5, 10, n_genes)
    names = [f"ACTIVE_{i + 1}" if i < n_active else f"QUIET_{i - n_active + 1}" for i in range(n_sets)]
    unmeasured = [tuple(f"UNSEEN{i + 1}_{j + 1}" for j in range(set_size - n_measured)) for i in range(n_sets)]
    sets = {
        name: (*(genes[j] for j in np.sort(chosen)), *others)
        for name, chosen, others in zip(names, members, unmeasured, strict=True)
    }
    samples = tuple(f"S{i + 1}" for i in range(n_samples))
    return ExpressionCohort(X, tuple(genes), samples, sets, tuple(names[:n_active]))
