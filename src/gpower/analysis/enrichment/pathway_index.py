"""Compare the pathway enrichment index with that of random genes, and compute it over a scan of cardinalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gpower._utils.arrays import Seed
from gpower._utils.frames import make_frame
from gpower.analysis.enrichment.over_representation import Enrichment, compute_overrepresentation, enrich
from gpower.io.gmt import GeneSets
from gpower.validation.params import check_int

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["IndexScan", "RandomIndex", "random_index", "scan_index"]


@dataclass(frozen=True)
class RandomIndex:
    """Pathway enrichment index of random genes.

    Attributes
    ----------
    values : ndarray of shape (n_draws,)
        The index of each draw.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.enrichment import RandomIndex
    >>> RandomIndex(np.array([0.0, 0.0, 0.0, 0.5])).mean
    0.125
    """

    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Return the mean over the draws."""
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean; NaN for a single draw."""
        n_draws = self.values.size
        return float(np.std(self.values, ddof=1) / np.sqrt(n_draws)) if n_draws > 1 else float("nan")

    def share_reaching(self, index: float) -> float:
        """Return the share of the draws whose index is at least `index`, with the observed index as one more draw."""
        return float((1 + np.sum(self.values >= index)) / (1 + self.values.size))


def random_index(enrichment: Enrichment, *, n_draws: int = 200, random_state: Seed = None) -> RandomIndex:
    """Compute the index of random genes: as many per component, with the same sets and the same adjustment.

    Most draws have the index 0, but sets overlap, so that one draw can hit many of them: average many draws.

    Parameters
    ----------
    enrichment : Enrichment
        The enrichment to compare with.
    n_draws : int, default 200
        Number of draws; each draws the genes of every component anew.
    random_state : int, RandomState or None
        Source of the random numbers.

    Returns
    -------
    RandomIndex
        The index of every draw, with their mean and its standard error.

    Examples
    --------
    >>> from gpower.analysis.enrichment import enrich, random_index
    >>> sets = {"ABC": ["A", "B", "C"], "FGH": ["F", "G", "H"]}
    >>> result = enrich([[0.9, 0.3, 0.3, 0, 0, 0, 0, 0]], sets, genes=list("ABCDEFGH"))
    >>> chance = random_index(result, random_state=0)
    >>> chance.mean < result.index
    True
    """
    n_draws = check_int(n_draws, "n_draws", 1)
    rng = check_random_state(random_state)
    universe, sizes = enrichment.universe, enrichment.n_selected.tolist()
    draws = (universe.draw(sizes, rng) for _ in range(n_draws))
    results = (compute_overrepresentation(universe, genes, enrichment.scope, enrichment.alpha) for genes in draws)
    return RandomIndex(np.array([result.index for result in results]))


@dataclass(frozen=True)
class IndexScan:
    """Pathway enrichment index over a scan of cardinalities.

    Attributes
    ----------
    cardinalities : ndarray of int of shape (n_cardinalities,)
        Largest number of genes of a component.
    indices : ndarray of shape (n_cardinalities,)
        Index at each cardinality.
    chance : ndarray of shape (n_cardinalities,)
        Mean index of as many random genes.
    chance_standard_error : ndarray of shape (n_cardinalities,)
        Standard error of `chance`.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.analysis.enrichment import IndexScan
    >>> scan = IndexScan(np.array([10, 20]), np.array([0.2, 0.1]), np.zeros(2), np.zeros(2))
    >>> scan.maximum, scan.best_cardinality
    (0.2, 10)
    """

    cardinalities: NDArray[np.int64]
    indices: NDArray[np.float64]
    chance: NDArray[np.float64]
    chance_standard_error: NDArray[np.float64]

    @property
    def maximum(self) -> float:
        """Return the largest index of the scan, which [JNRS10] reports; selecting it biases it upwards."""
        return float(self.indices.max())

    @property
    def best_cardinality(self) -> int:
        """Return the smallest cardinality that attains the maximum."""
        return int(self.cardinalities[self.indices == self.indices.max()].min())

    def to_frame(self) -> pd.DataFrame:
        """Return the scan as a pandas DataFrame, one row per cardinality."""
        columns = {"cardinality": self.cardinalities, "index": self.indices, "chance": self.chance}
        return make_frame({**columns, "chance_standard_error": self.chance_standard_error})


def scan_index(
    models: Mapping[int, Any],
    gene_sets: GeneSets,
    *,
    genes: Sequence[str] | None = None,
    scope: str = "component",
    alpha: float = 0.05,
    n_draws: int = 50,
    random_state: Seed = None,
) -> IndexScan:
    """Compute the index at several cardinalities, and that of as many random genes.

    [JNRS10] reports the maximum over a scan. It compares methods at different numbers of genes and selects the largest
    value, so compare two methods at the same cardinality as well.

    Parameters
    ----------
    models : mapping of int to fitted model or loadings
        Cardinality → model or loadings of that cardinality. At cardinality k the k genes of largest absolute loading
        are used: for a dense model, ``{k: pca for k in (50, 100)}``.
    gene_sets, genes, scope, alpha
        As in `enrich`.
    n_draws : int, default 50
        Number of random draws at each cardinality.
    random_state : int, RandomState or None
        Source of the random numbers.

    Returns
    -------
    IndexScan
        Index of the models and of random genes at each cardinality.

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.analysis.enrichment import scan_index
    >>> table = load_planted_expression()
    >>> models = {k: GPower(3, cardinality=k, method="block").fit(table.X) for k in (1, 5)}
    >>> scan = scan_index(models, table.gene_sets, genes=table.feature_names, random_state=0)
    >>> scan.best_cardinality
    5
    """
    if not models:
        raise ValueError("There is no cardinality to scan; give a mapping such as {50: model}.")
    rng = check_random_state(random_state)
    rows = []
    for cardinality, model in models.items():
        result = enrich(model, gene_sets, genes=genes, top=cardinality, scope=scope, alpha=alpha)
        chance = random_index(result, n_draws=n_draws, random_state=rng)
        rows.append((result.index, chance.mean, chance.standard_error))
    return IndexScan(np.array(list(models), dtype=np.int64), *np.array(rows).T)
