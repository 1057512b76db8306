"""Problems whose answer is known: Gaussian noise, sparse components planted in it, expression with active gene sets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gpower._arrays import Seed
from gpower.datasets.table import Names

__all__ = ["ExpressionCohort", "PlantedComponents", "expression_cohort", "gaussian", "planted_components"]

_FOLLOWING = 0.7  # share of an active set's genes that follow its factor; in real sets, too, not all do


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
class PlantedComponents:
    """Data X = F Vᵀ + noise with orthonormal sparse loadings V, and what was planted.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data.
    components : ndarray of shape (n_components, n_features)
        Vᵀ: unit rows with disjoint supports, so they are orthogonal.
    supports : tuple of ndarray
        The variables of each component, in increasing order.

    Examples
    --------
    >>> from gpower.datasets import planted_components
    >>> planted = planted_components(20, 10, [3, 2], [5.0, 3.0], random_state=0)
    >>> [len(support) for support in planted.supports]
    [3, 2]
    """

    X: NDArray[np.float64]
    components: NDArray[np.float64]
    supports: tuple[NDArray[np.intp], ...]


def planted_components(
    n_samples: int,
    n_features: int,
    cardinality: Sequence[int],
    sds: Sequence[float],
    *,
    random_state: Seed = None,
) -> PlantedComponents:
    """Sparse orthogonal components of given strengths in unit noise.

    The loadings of a component are of similar size and random sign, on variables chosen at random.

    Parameters
    ----------
    n_samples, n_features : int
        The shape of the data.
    cardinality : sequence of int
        Number of variables of each component; no variable is in two of them.
    sds : sequence of float
        Standard deviation of each component's factor; the noise has 1.
    random_state : int, RandomState or None
        Where the numbers come from.

    Returns
    -------
    PlantedComponents
        Data, loadings and supports.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.datasets import planted_components
    >>> planted = planted_components(200, 30, [4, 4], [8.0, 4.0], random_state=0)
    >>> bool(np.allclose(planted.components @ planted.components.T, np.eye(2)))
    True
    """
    if len(cardinality) != len(sds):
        raise ValueError(f"cardinality has {len(cardinality)} entries and sds has {len(sds)}; give one each.")
    if sum(cardinality) > n_features:
        raise ValueError(f"{sum(cardinality)} planted variables do not fit into n_features={n_features}; plant fewer.")
    rng = check_random_state(random_state)
    chosen = rng.permutation(n_features)[: sum(cardinality)]
    supports = tuple(np.sort(part) for part in np.split(chosen, np.cumsum(cardinality)[:-1]))
    components = np.zeros((len(sds), n_features))
    for row, support in zip(components, supports, strict=True):
        loadings = _similar_loadings(rng, support.size)
        row[support] = loadings / np.linalg.norm(loadings)
    factors = rng.standard_normal((n_samples, len(sds))) * np.asarray(sds)
    X = factors @ components + rng.standard_normal((n_samples, n_features))
    return PlantedComponents(X, components, supports)


def _similar_loadings(rng: np.random.RandomState, size: int) -> NDArray[np.float64]:
    """Loadings of similar size and random sign."""
    return rng.uniform(0.7, 1.3, size) * rng.choice((-1.0, 1.0), size)


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

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import expression_cohort
    >>> from gpower.enrichment import enrich
    >>> cohort = expression_cohort(random_state=0)
    >>> model = GPower(10, cardinality=40, method="block", n_init=1).fit(cohort.X)
    >>> found = enrich(model, cohort.gene_sets, genes=cohort.feature_names).significant
    >>> sum(name in cohort.active for name in found), sum(name not in cohort.active for name in found)
    (9, 0)
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
        following = chosen[: max(1, round(_FOLLOWING * chosen.size))]
        row[following] = _similar_loadings(rng, following.size)
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
