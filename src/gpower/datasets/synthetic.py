"""Problems whose answer is known: Gaussian noise, sparse components planted in it, factors, a textbook example."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = [
    "FactorModel",
    "PlantedComponents",
    "TenVariables",
    "factor_model",
    "gaussian",
    "planted_components",
    "planted_expression",
    "zou_hastie_tibshirani",
]

#: What random numbers come from; None for others at every call.
Seed: TypeAlias = int | np.random.RandomState | None

_MODULES = {"GROWTH": (8, 3.0), "IMMUNE": (6, 2.2), "STRESS": (5, 1.6)}  # name: (genes, sd of the factor)


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
        loadings = rng.uniform(0.7, 1.3, support.size) * rng.choice((-1.0, 1.0), support.size)
        row[support] = loadings / np.linalg.norm(loadings)
    factors = rng.standard_normal((n_samples, len(sds))) * np.asarray(sds)
    X = factors @ components + rng.standard_normal((n_samples, n_features))
    return PlantedComponents(X, components, supports)


def planted_expression(random_state: Seed = 0) -> tuple[NDArray[np.float64], tuple[str, ...]]:
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


@dataclass(frozen=True)
class FactorModel:
    """Expression-like data: factors on overlapping groups of variables, each variable with its own scale and level.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data.
    loadings : ndarray of shape (n_factors, n_features)
        What a unit of each factor adds to the variables, before they are scaled; 0 outside the factor's group.
    scales : ndarray of shape (n_features,)
        The standard deviation of each variable's noise.

    Examples
    --------
    >>> from gpower.datasets import factor_model
    >>> factor_model(10, 50, n_factors=3, random_state=0).loadings.shape
    (3, 50)
    """

    X: NDArray[np.float64]
    loadings: NDArray[np.float64]
    scales: NDArray[np.float64]


def factor_model(
    n_samples: int,
    n_features: int,
    *,
    n_factors: int = 20,
    share: float = 0.04,
    spread: float = 0.5,
    random_state: Seed | np.random.Generator = None,
) -> FactorModel:
    """Factors of decaying strength on overlapping groups of variables whose variances differ, as in expression data.

    Factor k moves a random `share` of the variables with strength 2/√k beside unit noise, so that a variable may
    follow several of them; then every variable gets its own scale, log-normal, and its own level.

    Parameters
    ----------
    n_samples, n_features : int
        The shape of the data.
    n_factors : int, default 20
        Number of factors.
    share : float, default 0.04
        Expected share of the variables that a factor moves.
    spread : float, default 0.5
        Standard deviation of the logarithm of the scales; 0 gives all variables the same.
    random_state : int, RandomState, numpy Generator or None
        Where the numbers come from.

    Returns
    -------
    FactorModel

    Examples
    --------
    >>> from gpower.datasets import factor_model
    >>> factor_model(20, 100, random_state=0).X.shape
    (20, 100)
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; give the share of the variables that a factor moves, from 0 to 1.")
    rng = random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)
    strengths = 2 / np.sqrt(np.arange(1, n_factors + 1))
    members = rng.random((n_factors, n_features)) < share
    loadings = strengths[:, None] * (members * rng.normal(1, 0.3, members.shape) * rng.choice([-1, 1], members.shape))
    X = rng.standard_normal((n_samples, n_factors)) @ loadings
    X += rng.standard_normal(X.shape)
    scales = np.exp(rng.normal(-1, spread, n_features))
    X *= scales
    X += rng.normal(8, 2, n_features)
    return FactorModel(X, loadings, scales)


@dataclass(frozen=True)
class TenVariables:
    """The ten variables of Zou, Hastie and Tibshirani, exactly or sampled.

    Attributes
    ----------
    covariance : ndarray of shape (10, 10)
        The exact covariance.
    X : ndarray of shape (n_samples, 10), or None
        Samples, where they were asked for.
    supports : tuple of tuple of int
        The variables of the two components of four variables that explain the data, counted from 0: the best
        one first.

    Examples
    --------
    >>> from gpower.datasets import zou_hastie_tibshirani
    >>> zou_hastie_tibshirani().supports
    ((4, 5, 6, 7), (0, 1, 2, 3))
    """

    covariance: NDArray[np.float64]
    X: NDArray[np.float64] | None
    supports: tuple[tuple[int, ...], ...] = ((4, 5, 6, 7), (0, 1, 2, 3))


def zou_hastie_tibshirani(n_samples: int | None = None, random_state: Seed = None) -> TenVariables:
    """The ten-variable example of Zou, Hastie and Tibshirani (2006), on which sparse PCA is explained.

    Three hidden factors: V1 of variance 290, V2 of variance 300, V3 = −0.3 V1 + 0.925 V2 + noise. Variables 1 to 4
    are V1 + noise, 5 to 8 V2 + noise, 9 and 10 V3 + noise; all noises are independent and standard normal. Two
    components of four variables each should find the first two groups.

    Parameters
    ----------
    n_samples : int, optional
        Draw that many samples; by default only the exact covariance is given.
    random_state : int, RandomState or None
        Where samples come from.

    Returns
    -------
    TenVariables

    References
    ----------
    H. Zou, T. Hastie, R. Tibshirani (2006). Sparse principal component analysis. Journal of Computational and
    Graphical Statistics 15, 265–286.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import zou_hastie_tibshirani
    >>> example = zou_hastie_tibshirani()
    >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(example.covariance)
    >>> [sorted(component) for component in model.loadings()]
    [['x4', 'x5', 'x6', 'x7'], ['x0', 'x1', 'x2', 'x3']]
    """
    mixing = np.array([[1, 0, 0], [0, 1, 0], [-0.3, 0.925, 1]])[[0] * 4 + [1] * 4 + [2] * 2]  # (10, 3)
    variances = np.array([290.0, 300.0, 1.0])
    covariance = (mixing * variances) @ mixing.T + np.eye(10)
    if n_samples is None:
        return TenVariables(covariance, None)
    rng = check_random_state(random_state)
    hidden = rng.standard_normal((n_samples, 3)) * np.sqrt(variances)
    return TenVariables(covariance, hidden @ mixing.T + rng.standard_normal((n_samples, 10)))
