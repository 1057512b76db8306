"""The data, each made from a seed when asked for."""

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
    """A table under a name, made on demand."""

    name: str
    make: Callable[[], Any]


def gaussian(n_samples: int, n_features: int, seed: int = 0) -> np.ndarray:
    """Independent standard normal entries."""
    return np.random.default_rng(seed).standard_normal((n_samples, n_features))


def factor_model(n_samples: int, n_features: int, seed: int = 0, n_factors: int = 20) -> np.ndarray:
    """Expression-like data: log-normal column deviations, factors of decaying strength on overlapping groups.

    Factor k moves a random 4 % of the variables with strength 2/√(k+1) beside unit noise, so a variable may
    follow several of them; then every column gets its own standard deviation and level.
    """
    rng = np.random.default_rng(seed)
    strengths = 2 / np.sqrt(np.arange(1, n_factors + 1))
    members = rng.random((n_factors, n_features)) < 0.04
    loadings = members * rng.normal(1, 0.3, members.shape) * rng.choice([-1, 1], members.shape)
    X = rng.standard_normal((n_samples, n_factors)) @ (strengths[:, None] * loadings)
    X += rng.standard_normal(X.shape)
    X *= np.exp(rng.normal(-1, 0.5, n_features))
    X += rng.normal(8, 2, n_features)
    return X


def sparse_counts(n_samples: int, n_features: int, density: float = 0.01, seed: int = 0) -> sp.csr_array:
    """Document-like CSR: log-normal entries in random places, and 20 topics where 300 words meet 300 documents."""
    rng = np.random.default_rng(seed)
    total = int(density * n_samples * n_features)
    topics = [_topic(rng, n_samples, n_features, inside=total // 200) for _ in range(20)]
    rest = total - sum(rows.size for rows, _ in topics)
    rows = np.concatenate([rng.integers(n_samples, size=rest), *(rows for rows, _ in topics)])
    cols = np.concatenate([rng.integers(n_features, size=rest), *(cols for _, cols in topics)])
    values = rng.lognormal(0, 0.5, rows.size)
    return sp.csr_array(sp.coo_array((values, (rows, cols)), shape=(n_samples, n_features)))


def _topic(rng: np.random.Generator, n_samples: int, n_features: int, inside: int) -> tuple[np.ndarray, np.ndarray]:
    """Places where some documents use some words."""
    documents = rng.choice(n_samples, 300, replace=False)
    words = rng.choice(n_features, 300, replace=False)
    return rng.choice(documents, inside), rng.choice(words, inside)


def expression(path: Path) -> np.ndarray:
    """The array X, samples × genes, of an ``.npz`` file."""
    with np.load(path, allow_pickle=False) as file:
        return np.asarray(file["X"], np.float64)


def gaussian_dataset(shape: tuple[int, int]) -> Dataset:
    """Gaussian data of one size."""
    return Dataset(f"gaussian {shape[0]}x{shape[1]}", partial(gaussian, *shape))


LARGE = gaussian_dataset((2000, 40000))
FACTOR = Dataset("factor model 295x13319", partial(factor_model, 295, 13319))
TALL = Dataset("tall factor model 20000x500", partial(factor_model, 20000, 500))
SPARSE = Dataset("sparse 20000x20000 1%", partial(sparse_counts, 20000, 20000))
