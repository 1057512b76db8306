"""The pathway enrichment index beside what random genes score, and along a scan of cardinalities."""

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
    """The index of random genes.

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
        """The mean over the draws."""
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN for a single draw."""
        n_draws = self.values.size
        return float(np.std(self.values, ddof=1) / np.sqrt(n_draws)) if n_draws > 1 else float("nan")

    def share_reaching(self, index: float) -> float:
        """The share of the draws whose index is `index` or more, the observed one counted among them."""
        return float((1 + np.sum(self.values >= index)) / (1 + self.values.size))


def random_index(enrichment: Enrichment, *, n_draws: int = 200, random_state: Seed = None) -> RandomIndex:
    """The index of random genes: as many per component, the same sets, the same correction.

    Most draws score 0, but sets overlap, so that one draw can hit a whole family of them: average many.

    Parameters
    ----------
    enrichment : Enrichment
        What the random genes stand beside.
    n_draws : int, default 200
        Each draws anew the genes of every component.
    random_state : int, RandomState or None
        Where the draws come from.

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
    return RandomIndex(
        np.array(
            [compute_overrepresentation(universe, drawn, enrichment.scope, enrichment.alpha).index for drawn in draws]
        )
    )


@dataclass(frozen=True)
class IndexScan:
    """The index along a scan of cardinalities.

    Attributes
    ----------
    cardinalities : ndarray of int
        Most genes of a component.
    indices : ndarray
        The index at each of them.
    chance : ndarray
        The mean index of random genes, as many.
    chance_standard_error : ndarray
        Its standard error.

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
        """The largest index of the scan, which is what [JNRS10] reports; it flatters, being chosen afterwards."""
        return float(self.indices.max())

    @property
    def best_cardinality(self) -> int:
        """The smallest cardinality that attains the maximum."""
        return int(self.cardinalities[self.indices == self.indices.max()].min())

    def to_frame(self) -> pd.DataFrame:
        """The scan as a pandas DataFrame, one row per cardinality."""
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
    """The index at several cardinalities, each beside that of as many random genes.

    The maximum over a scan is how [JNRS10] reports the index. It compares methods at different numbers of genes
    and picks the luckiest, so look at the same cardinality of two methods as well.

    Parameters
    ----------
    models : mapping of int to fitted model or loadings
        Cardinality → what was fitted with it. At cardinality k the k genes of largest absolute loading are used:
        for a dense model, ``{k: pca for k in (50, 100)}``.
    gene_sets, genes, scope, alpha
        As in `enrich`.
    n_draws : int, default 50
        Random draws at each cardinality.
    random_state : int, RandomState or None
        Where they come from.

    Returns
    -------
    IndexScan
        The index at each cardinality and that of random genes, with the largest and where it is.

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
    found = []
    for cardinality, model in models.items():
        result = enrich(model, gene_sets, genes=genes, top=cardinality, scope=scope, alpha=alpha)
        chance = random_index(result, n_draws=n_draws, random_state=rng)
        found.append((result.index, chance.mean, chance.standard_error))
    return IndexScan(np.array(list(models), dtype=np.int64), *np.array(found).T)
