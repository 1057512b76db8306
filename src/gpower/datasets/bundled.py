"""Small data that come with the package."""

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from gpower.datasets.readers import read_table
from gpower.datasets.table import Table

__all__ = ["Pitprops", "PlantedExpression", "load_pitprops", "load_planted_expression"]


@dataclass(frozen=True)
class Pitprops:
    """Correlations of 13 measurements on 180 pit props.

    Attributes
    ----------
    correlation : ndarray of shape (13, 13)
        Three decimals, as published.
    feature_names : tuple of str
        The measurements.
    n_samples : int
        The number of props.

    Examples
    --------
    >>> from gpower.datasets import load_pitprops
    >>> load_pitprops().n_samples
    180
    """

    correlation: NDArray[np.float64]
    feature_names: tuple[str, ...]
    n_samples: int


@dataclass(frozen=True)
class PlantedExpression:
    """A small expression table with the modules planted in it.

    Attributes
    ----------
    X : ndarray of shape (60, 150)
        Log expression, samples × genes.
    feature_names, sample_names : tuple of str
        Genes and samples.
    modules : dict of str to tuple of str
        The genes of each planted module, strongest module first.

    Examples
    --------
    >>> from gpower.datasets import load_planted_expression
    >>> list(load_planted_expression().modules)
    ['GROWTH', 'IMMUNE', 'STRESS']
    """

    X: NDArray[np.float64]
    feature_names: tuple[str, ...]
    sample_names: tuple[str, ...]
    modules: dict[str, tuple[str, ...]]

    @property
    def gene_sets(self) -> dict[str, tuple[str, ...]]:
        """Gene sets to try enrichment on: the planted modules, and the other genes in sets of ten, QUIET_1, ….

        Examples
        --------
        >>> from gpower.datasets import load_planted_expression
        >>> len(load_planted_expression().gene_sets)
        17
        """
        planted = {gene for genes in self.modules.values() for gene in genes}
        others = [gene for gene in self.feature_names if gene not in planted]
        quiet = {f"QUIET_{i // 10 + 1}": tuple(others[i : i + 10]) for i in range(0, len(others), 10)}
        return self.modules | quiet


def load_pitprops() -> Pitprops:
    """The pitprops correlations (Jeffers 1967), the standard test case of sparse PCA.

    Returns
    -------
    Pitprops
        Correlations, names and number of samples.

    References
    ----------
    J. N. R. Jeffers (1967). Two case studies in the application of principal component analysis.
    Applied Statistics 16, 225–236.

    Examples
    --------
    >>> from gpower.datasets import load_pitprops
    >>> pitprops = load_pitprops()
    >>> pitprops.feature_names[:3]
    ('topdiam', 'length', 'moist')
    >>> float(pitprops.correlation[0, 1])
    0.954
    """
    table = _read("pitprops.csv")
    return Pitprops(table.X, table.feature_names or (), n_samples=180)


def load_planted_expression() -> PlantedExpression:
    """A made-up expression table, 60 samples × 150 genes, with three modules of genes that vary together.

    Returns
    -------
    PlantedExpression
        Table, names and the planted modules of 8, 6 and 5 genes.

    See Also
    --------
    gpower.datasets.planted_expression : The generator that made the table.

    Examples
    --------
    >>> from gpower.datasets import load_planted_expression
    >>> expression = load_planted_expression()
    >>> expression.X.shape
    (60, 150)
    >>> {module: len(genes) for module, genes in expression.modules.items()}
    {'GROWTH': 8, 'IMMUNE': 6, 'STRESS': 5}
    """
    table = _read("planted_expression.csv")
    genes = table.feature_names or ()
    modules = {
        module: tuple(gene for gene in genes if gene.startswith(module)) for module in ("GROWTH", "IMMUNE", "STRESS")
    }
    return PlantedExpression(table.X, genes, table.sample_names or (), modules)


def _read(name: str) -> Table:
    with resources.as_file(resources.files("gpower.datasets") / "data" / name) as path:
        return read_table(path)
