"""Small data sets in the package."""

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from gpower.datasets.synthetic import ExpressionCohort
from gpower.io.tables.reader import read_table
from gpower.io.tables.table import Names, Table

__all__ = ["Pitprops", "load_pitprops", "load_planted_expression"]


@dataclass(frozen=True)
class Pitprops:
    """Correlations of 13 measurements on 180 pit props.

    Attributes
    ----------
    correlation : ndarray of shape (13, 13)
        Correlations with three decimals, as published.
    feature_names : tuple of str
        Names of the measurements.
    n_samples : int
        Number of props.

    Examples
    --------
    >>> from gpower.datasets import load_pitprops
    >>> load_pitprops().n_samples
    180
    """

    correlation: NDArray[np.float64]
    feature_names: Names
    n_samples: int

    def __repr__(self) -> str:
        return f"<Pitprops: correlations of {len(self.feature_names)} measurements on {self.n_samples} pit props>"


def load_pitprops() -> Pitprops:
    """Load the pitprops correlations (Jeffers 1967), the standard test case of sparse PCA.

    Returns
    -------
    Pitprops
        Correlations, names and number of samples.

    References
    ----------
    Jeffers (1967). Two case studies in the application of principal component analysis.
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
    table = _read_bundled_table("pitprops.csv")
    return Pitprops(table.X, table.feature_names or (), n_samples=180)


def load_planted_expression() -> ExpressionCohort:
    """Load a synthetic expression table, 60 samples × 150 genes, with three modules of correlated genes.

    Eight growth, six immune and five stress genes follow one factor each. The other genes are noise, in sets of ten.

    Returns
    -------
    ExpressionCohort
        Its active sets are the planted modules, strongest first.

    Examples
    --------
    >>> from gpower.datasets import load_planted_expression
    >>> expression = load_planted_expression()
    >>> expression.X.shape, len(expression.gene_sets)
    ((60, 150), 17)
    >>> {module: len(genes) for module, genes in expression.modules.items()}
    {'GROWTH': 8, 'IMMUNE': 6, 'STRESS': 5}
    """
    table = _read_bundled_table("planted_expression.csv")
    genes = table.feature_names or ()
    active = ("GROWTH", "IMMUNE", "STRESS")
    sets = {module: tuple(gene for gene in genes if gene.startswith(module)) for module in active}
    others = [gene for gene in genes if not gene.startswith(active)]
    sets |= {f"QUIET_{i // 10 + 1}": tuple(others[i : i + 10]) for i in range(0, len(others), 10)}
    return ExpressionCohort(table.X, genes, table.sample_names or (), sets, active)


def _read_bundled_table(name: str) -> Table:
    with resources.as_file(resources.files("gpower.datasets") / "data" / name) as path:
        return read_table(path)
