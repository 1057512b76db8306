"""Synthetic data with known sparse components and unit noise."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PlantedComponents:
    """Data X = F Vᵀ + unit noise with orthonormal sparse loadings V, components = Vᵀ and the support of each row."""

    X: np.ndarray
    components: np.ndarray
    supports: tuple[np.ndarray, ...]


def make_planted_components(n_samples, n_features, cardinality, sds, *, random_state):
    """Return data with sparse orthogonal components whose factors have standard deviations `sds`; the noise has 1.

    The loadings of a component are of similar size and random sign, on variables chosen at random. No variable is in
    two components. A `random_state` that is a RandomState is drawn from in its present state.
    """
    rng = np.random.RandomState(random_state) if isinstance(random_state, int) else random_state
    chosen = rng.permutation(n_features)[: sum(cardinality)]
    supports = tuple(np.sort(part) for part in np.split(chosen, np.cumsum(cardinality)[:-1]))
    components = np.zeros((len(sds), n_features))
    for row, support in zip(components, supports, strict=True):
        loadings = rng.uniform(0.7, 1.3, support.size) * rng.choice((-1.0, 1.0), support.size)
        row[support] = loadings / np.linalg.norm(loadings)
    factors = rng.standard_normal((n_samples, len(sds))) * np.asarray(sds)
    X = factors @ components + rng.standard_normal((n_samples, n_features))
    return PlantedComponents(X, components, supports)


def make_modules(shape, *modules, seed=0, noise=1.0):
    """Return Gaussian noise in which every module, a pair of variables and loadings, follows a factor of its own."""
    rng = np.random.default_rng(seed)
    X = noise * rng.standard_normal(shape)
    for variables, loadings in modules:
        X[:, variables] += loadings * rng.standard_normal((shape[0], 1))
    return X
