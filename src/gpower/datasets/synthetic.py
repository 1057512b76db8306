"""Problems whose answer is known: Gaussian noise, and sparse components planted in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = ["PlantedComponents", "gaussian", "planted_components", "planted_expression"]

_MODULES = {"GROWTH": (8, 3.0), "IMMUNE": (6, 2.2), "STRESS": (5, 1.6)}  # name: (genes, sd of the factor)


def gaussian(n_samples: int, n_features: int, *, random_state: Any = None) -> NDArray[np.float64]:
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
    random_state: Any = None,
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
        loadings = rng.uniform(0.7, 1.3, support.size) * rng.choice((-1.0, 1.0), support.size)
        row[support] = loadings / np.linalg.norm(loadings)
    factors = rng.standard_normal((n_samples, len(sds))) * np.asarray(sds)
    X = factors @ components + rng.standard_normal((n_samples, n_features))
    return PlantedComponents(X, components, supports)


def planted_expression(random_state: Any = 0) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """An expression table, 60 samples × 150 genes, in which three modules of genes vary together.

    Eight growth, six immune and five stress genes follow one factor each; the other genes are noise. The
    table that `load_planted_expression` reads is this one, rounded.

    Parameters
    ----------
    random_state : int, RandomState or None
        Where the numbers come from.

    Returns
    -------
    X : ndarray of shape (60, 150)
        Log expression, two decimals.
    genes : tuple of str
        Names that tell the module, such as GROWTH3; the others are called GENE17.

    Examples
    --------
    >>> from gpower.datasets import planted_expression
    >>> X, genes = planted_expression()
    >>> X.shape, sum(gene.startswith("GROWTH") for gene in genes)
    ((60, 150), 8)
    """
    sizes, strengths = zip(*_MODULES.values(), strict=True)
    rng = check_random_state(random_state)
    # A factor of sd s in every gene is s·√k along the unit loading vector of k genes.
    sds = [strength * np.sqrt(size) for size, strength in zip(sizes, strengths, strict=True)]
    planted = planted_components(60, 150, sizes, sds, random_state=rng)
    names = [f"GENE{j + 1}" for j in range(150)]
    for module, support in zip(_MODULES, planted.supports, strict=True):
        for rank, j in enumerate(support, start=1):
            names[j] = f"{module}{rank}"
    levels = rng.uniform(5, 10, 150)
    return np.round(planted.X + levels, 2), tuple(names)
