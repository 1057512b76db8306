"""The data, each made from a seed when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpower import datasets

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


def factor_model(n_samples: int, n_features: int, seed: int = 0, **options: Any) -> np.ndarray:
    """Expression-like data: log-normal column deviations, factors of decaying strength on overlapping groups."""
    return datasets.factor_model(n_samples, n_features, random_state=np.random.default_rng(seed), **options).X


def sparse_topics(n_samples: int, n_features: int, density: float = 0.01, seed: int = 0) -> sp.csr_array:
    """Documents × words in CSR: positive entries at random, a tenth of them larger and in 20 topics of 200 words."""
    rng = np.random.default_rng(seed)
    total = int(density * n_samples * n_features)
    places = [_topic(rng, (n_samples, n_features), total // 200) for _ in range(20)]
    inside = sum(rows.size for rows, _ in places)
    places.append((rng.integers(n_samples, size=total - inside), rng.integers(n_features, size=total - inside)))
    rows, cols = (np.concatenate(part) for part in zip(*places, strict=True))
    values = rng.lognormal(0, 0.5, total) * np.where(np.arange(total) < inside, 3, 1)
    return sp.csr_array(sp.coo_array((values, (rows, cols)), shape=(n_samples, n_features)))


def _topic(rng: np.random.Generator, shape: tuple[int, int], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places where 200 documents use 200 words, the documents unequally often."""
    documents, words = (rng.choice(size, 200, replace=False) for size in shape)
    weights = rng.dirichlet(np.full(200, 2.0))
    return rng.choice(documents, count, p=weights), rng.choice(words, count)


def expression(path: Path) -> np.ndarray:
    """The array X, samples × genes, of an ``.npz`` file."""
    with np.load(path, allow_pickle=False) as file:
        return np.asarray(file["X"], np.float64)


def gaussian_dataset(shape: tuple[int, int], seed: int = 0) -> Dataset:
    """Gaussian data of one size; seed 0 bears the plain name."""
    name = f"gaussian {shape[0]}x{shape[1]}" + (f" seed {seed}" if seed else "")
    return Dataset(name, partial(gaussian, *shape, seed))


FACTOR = Dataset("factor model 295x13319", partial(factor_model, 295, 13319))
TALL = Dataset("tall factor model 20000x500", partial(factor_model, 20000, 500, n_factors=8, share=0.2, spread=0.2))
SPARSE = Dataset("sparse 20000x20000 1%", partial(sparse_topics, 20000, 20000))
