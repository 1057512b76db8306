"""The tables, each made from a seed when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Sizes of the paper's three timing tables: fixed aspect ratio, fixed n_samples, and m = 5.
TABLE_RATIO = ((100, 1000), (250, 2500), (500, 5000), (750, 7500), (1000, 10000))
TABLE_WIDTH = ((500, 1000), (500, 2000), (500, 4000), (500, 8000), (500, 16000))
TABLE_FIVE = ((50, 500), (100, 1000), (250, 2500), (500, 5000), (750, 7500))


@dataclass(frozen=True)
class Dataset:
    """A named table, made by calling `make`."""

    name: str
    make: Callable[[], Any]


def gaussian(n_samples: int, n_features: int, seed: int = 0) -> np.ndarray:
    """Return independent standard normal entries."""
    return np.random.default_rng(seed).standard_normal((n_samples, n_features))


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
    """

    X: np.ndarray
    loadings: np.ndarray
    scales: np.ndarray


def factor_model(
    n_samples: int, n_features: int, seed: int = 0, *, n_factors: int = 20, share: float = 0.04, spread: float = 0.5
) -> FactorModel:
    """Factors of decaying strength on overlapping groups of variables whose variances differ, as in expression data.

    Factor k moves a random `share` of the variables with strength 2/√k beside unit noise, so that a variable may
    follow several of them; then every variable gets its own scale, log-normal of deviation `spread`, and its own level.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; give the share of the variables that a factor moves, from 0 to 1.")
    rng = np.random.default_rng(seed)
    strengths = 2 / np.sqrt(np.arange(1, n_factors + 1))
    members = rng.random((n_factors, n_features)) < share
    loadings = strengths[:, None] * (members * rng.normal(1, 0.3, members.shape) * rng.choice([-1, 1], members.shape))
    X = rng.standard_normal((n_samples, n_factors)) @ loadings
    X += rng.standard_normal(X.shape)
    scales = np.exp(rng.normal(-1, spread, n_features))
    X *= scales
    X += rng.normal(8, 2, n_features)
    return FactorModel(X, loadings, scales)


def factor_data(n_samples: int, n_features: int, **options: Any) -> np.ndarray:
    """Return the data of a factor model."""
    return factor_model(n_samples, n_features, **options).X


def sparse_topics(n_samples: int, n_features: int, density: float = 0.01, seed: int = 0) -> sp.csr_array:
    """Return documents × words in CSR: random positive entries, a tenth of them larger, in 20 topics of 200 words."""
    rng = np.random.default_rng(seed)
    total = int(density * n_samples * n_features)
    places = [_topic(rng, (n_samples, n_features), total // 200) for _ in range(20)]
    inside = sum(rows.size for rows, _ in places)
    places.append((rng.integers(n_samples, size=total - inside), rng.integers(n_features, size=total - inside)))
    rows, cols = (np.concatenate(part) for part in zip(*places, strict=True))
    values = rng.lognormal(0, 0.5, total) * np.where(np.arange(total) < inside, 3, 1)
    return sp.csr_array(sp.coo_array((values, (rows, cols)), shape=(n_samples, n_features)))


def _topic(rng: np.random.Generator, shape: tuple[int, int], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions at which 200 documents use 200 words, with unequal frequencies of the documents."""
    documents, words = (rng.choice(size, 200, replace=False) for size in shape)
    weights = rng.dirichlet(np.full(200, 2.0))
    return rng.choice(documents, count, p=weights), rng.choice(words, count)


def expression(path: Path) -> np.ndarray:
    """Return the array X, samples × genes, of an ``.npz`` file."""
    with np.load(path, allow_pickle=False) as file:
        return np.asarray(file["X"], np.float64)


def gaussian_dataset(shape: tuple[int, int], seed: int = 0) -> Dataset:
    """Return the dataset of Gaussian data of one size; the name contains the seed unless it is 0."""
    name = f"gaussian {shape[0]}x{shape[1]}" + (f" seed {seed}" if seed else "")
    return Dataset(name, partial(gaussian, *shape, seed))


FACTOR = Dataset("factor model 295x13319", partial(factor_data, 295, 13319))
TALL = Dataset("tall factor model 20000x500", partial(factor_data, 20000, 500, n_factors=8, share=0.2, spread=0.2))
SPARSE = Dataset("sparse 20000x20000 1%", partial(sparse_topics, 20000, 20000))
