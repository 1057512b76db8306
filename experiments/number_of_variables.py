"""``python -m experiments.number_of_variables``: compare criteria for the number of variables of a component.

Each criterion scores every number k by held-out samples and takes the best, or the fewest within one standard error of
it. It is judged on generated tables by the variables it finds (F1, the harmonic mean of precision and recall), and on
real tables by the agreement of two halves of the samples: the share of variables in common (Jaccard index), less that
expected by chance. The page docs/how-many-variables.md has the results.

To be fast, components are found by truncated power iterations on the covariances of the folds, from the eight columns
of largest correlations and three principal components, all folds and all k at once.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from gpower.model_selection import cardinality_grid
from gpower.model_selection.criteria import choose_point

N_FOLDS, N_STEPS, N_COLUMN_STARTS, N_PCA_STARTS, MAX_GRID_POINTS = 5, 20, 8, 3, 30


# --- components of a stack of covariances ---


def keep_largest(W: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return unit vectors (q, r, n) with the k (q,) largest entries of W."""
    size = np.abs(W)
    threshold = np.take_along_axis(np.sort(size, axis=-1), (W.shape[-1] - k)[:, None, None], axis=-1)
    Z = np.where(size >= threshold, W, 0)
    return Z / np.maximum(np.linalg.norm(Z, axis=-1, keepdims=True), 1e-300)


def find_components(S: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the sparse components (q, n) of covariances S (q, n, n) with k (q,) variables each."""
    score = np.sum(S**2, axis=1) / np.maximum(np.diagonal(S, axis1=1, axis2=2), 1e-300)
    columns = np.argsort(-score, axis=1)[:, :N_COLUMN_STARTS, None]
    vectors = np.linalg.eigh(S)[1][:, :, -N_PCA_STARTS:]
    W = np.concatenate([np.take_along_axis(S, columns, axis=1), np.swapaxes(vectors, 1, 2)], axis=1)
    for _ in range(N_STEPS):
        Z = keep_largest(W, k)
        W = Z @ S
    best = np.argmax(np.sum(Z * W, axis=-1), axis=1)
    used = Z[np.arange(len(Z)), best] != 0
    z = np.linalg.eigh(S * used[:, :, None] * used[:, None, :])[1][:, :, -1] * used
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def deflate(S: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the covariances without everything that is correlated with the scores of z, (…, n)."""
    Sz = (S @ z[..., None])[..., 0]
    return S - Sz[..., :, None] * Sz[..., None, :] / np.maximum(np.sum(z * Sz, axis=-1), 1e-300)[..., None, None]


def find_path(S: np.ndarray, grid: np.ndarray, m: int = 1) -> np.ndarray:
    """Return m components with the same k variables for every k of the grid, (n_folds, n_points, n, m)."""
    shape = (len(S), len(grid), S.shape[1])
    D, loadings = np.repeat(S, len(grid), axis=0), []
    for _ in range(m):
        z = find_components(D, np.tile(grid, len(S)))
        D = deflate(D, z)
        loadings.append(z.reshape(shape))
    return np.stack(loadings, axis=-1)


def explain(T: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the part of the scatter T (…, n, n) in the span of Z (…, n, m)."""
    transposed = np.swapaxes(Z, -1, -2)
    inverse = np.linalg.pinv(transposed @ Z, rcond=1e-10, hermitian=True)
    return np.trace(inverse @ (transposed @ T @ Z), axis1=-2, axis2=-1)


# --- scores of held-out samples ---


class HeldOutScores:
    """Held-out scores of a table for every number of variables, with the components chosen so far."""

    def __init__(self, X: np.ndarray, m: int) -> None:
        order = np.random.RandomState(0).permutation(len(X))
        tests = [order[i::N_FOLDS] for i in range(N_FOLDS)]
        trains = [np.setdiff1d(order, test) for test in tests]
        self.S = np.array([np.cov(X[train].T) for train in trains])
        centred = [X[test] - X[train].mean(axis=0) for train, test in zip(trains, tests, strict=True)]
        self.T = np.array([B.T @ B / np.sum(B**2) for B in centred])
        self.m, self.n, self.grid = m, X.shape[1], cardinality_grid(X.shape[1], MAX_GRID_POINTS)
        self.candidates: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    @cached_property
    def joint(self) -> np.ndarray:
        """Return components with the same number of variables, (n_folds, n_points, n, m)."""
        return find_path(self.S, self.grid, self.m)

    @cached_property
    def preliminary(self) -> np.ndarray:
        """Return the best components with the same number of variables, (n_folds, n, m)."""
        scores = explain(self.T[:, None], self.joint) * (1 - self.grid / self.n)
        return self.joint[:, np.argmax(scores.mean(axis=0))]

    def choose(self, others: str, rate: Callable[..., np.ndarray], rule: str) -> list[int]:
        """Return the numbers of variables that a criterion chooses, one component after the other."""
        points: tuple[int, ...] = ()
        for j in range(self.m):
            S, chosen, path = self.find_candidates(points)
            later = self.find_later(others, S, path, j)
            rest = np.concatenate([np.repeat(chosen[:, None], len(self.grid), axis=1), later], axis=-1)
            fixed = chosen if others == "pca" else rest[:, 0]
            base = explain(self.T, fixed)[:, None] if fixed.shape[-1] else 0.0
            gain = explain(self.T[:, None], np.concatenate([path, rest], axis=-1)) - base
            points = (*points, choose_point(rate(gain, self.grid, self.n), rule).chosen)
        return self.grid[list(points)].tolist()

    def find_candidates(self, points: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return covariances, chosen loadings (n_folds, n, j) and the path of the next component, after j choices."""
        if points not in self.candidates:
            if not points:
                self.candidates[()] = self.S, np.zeros((N_FOLDS, self.n, 0)), self.joint[..., :1]
            else:
                S, chosen, path = self.find_candidates(points[:-1])
                z = path[:, points[-1], :, 0]
                S, chosen = deflate(S, z), np.concatenate([chosen, z[:, :, None]], axis=-1)
                self.candidates[points] = S, chosen, find_path(S, self.grid)
        return self.candidates[points]

    def find_later(self, others: str, S: np.ndarray, path: np.ndarray, j: int) -> np.ndarray:
        """Return loadings in place of later components, (n_folds, n_points, n, count): none, PCA, or preliminary."""
        if others == "none" or j == self.m - 1:
            return path[..., :0]
        if others == "pca":
            return np.linalg.eigh(deflate(S[:, None], path[..., 0]))[1][..., -(self.m - j - 1) :]
        return np.repeat(self.preliminary[:, None, :, j + 1 :], len(self.grid), axis=1)


def rate_variance(gain: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance."""
    return gain


def rate_sparseness(gain: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance times the share of unused variables."""
    return gain * (1 - grid / n)


def rate_elbow(gain: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Height of the curve of explained variance above the line from no variables to all."""
    return gain - gain.mean(axis=0).max() * grid / n


def rate_log_elbow(gain: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Height of the curve above the line from one variable to all, on a logarithmic axis."""
    return gain - gain.mean(axis=0).max() * np.log(grid) / np.log(n)


CRITERIA = {
    f"{rate.__name__.removeprefix('rate_')}, {others}, {rule}": (others, rate, rule)
    for rate, others, rule in product(
        (rate_variance, rate_sparseness, rate_elbow, rate_log_elbow), ("none", "pca", "preliminary"), ("best", "one-se")
    )
    if rate in (rate_variance, rate_sparseness) or (others, rule) == ("preliminary", "one-se")
}


# --- tables ---


def make_planted(
    seed: int, shape: tuple[int, int], sizes: tuple[int, ...], signal: float, correlation: float, weakest: float
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return unit noise with one factor per module, and the modules; loadings fall from 1 to `weakest`."""
    rng = np.random.default_rng(seed)
    supports = np.split(rng.permutation(shape[1])[: sum(sizes)], np.cumsum(sizes)[:-1])
    root = np.linalg.cholesky(np.eye(len(sizes)) * (1 - correlation) + correlation)
    factors = rng.standard_normal((shape[0], len(sizes))) @ root.T
    X = rng.standard_normal(shape)
    for j, support in enumerate(supports):
        X[:, support] += np.sqrt(signal) * factors[:, [j]] * np.linspace(1, weakest, support.size)
    return X, supports


def iter_planted(seeds: int) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield tables of 60 and 200 samples, 20 and 60 variables, modules of different sizes, some of them correlated."""
    sizes = {20: [(5, 3), (3, 5)], 60: [(10, 12), (4, 8, 16)]}
    for seed, p, n, signal, (correlation, weakest) in product(
        range(seeds), (60, 200), sizes, (0.7, 2.0), ((0, 1), (0.3, 1), (0, 0.5))
    ):
        for each in sizes[n]:
            yield make_planted(seed, (p, n), each, signal, correlation, weakest)


def load_real(folder: Path | None) -> dict[str, np.ndarray]:
    """Return standardised tables of scikit-learn, and of .npz files with an array X, at most 100 variables of each."""
    tables = {load.__name__.removeprefix("load_"): load().data for load in (load_wine, load_breast_cancer, load_digits)}
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as archive:
            if "X" in archive:
                X = archive["X"]
                tables[path.stem] = X[:, np.argsort(-X.var(axis=0))[:100]]
    varying = {name: X[:, X.std(axis=0) > 0] for name, X in tables.items()}
    return {name: (X - X.mean(axis=0)) / X.std(axis=0) for name, X in varying.items()}


# --- judgement ---


def fit(X: np.ndarray, numbers: list[int]) -> np.ndarray:
    """Return which variables the components of these numbers of variables use, (m, n)."""
    S, used = np.cov(X.T)[None], []
    for k in numbers:
        z = find_components(S, np.array([k]))
        S = deflate(S, z)
        used.append(z[0] != 0)
    return np.array(used)


def match(A: np.ndarray, B: np.ndarray, rate: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """Return the mean rate of the best assignment of components to components."""
    rates = np.array([[rate(a, b) for b in B] for a in A])
    return float(rates[linear_sum_assignment(-rates)].mean())


def compute_f1(a: np.ndarray, b: np.ndarray) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2 * np.count_nonzero(a & b) / (a.sum() + b.sum())


def compute_agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the Jaccard index, from zero for the overlap expected by chance to one."""
    expected = a.mean() * b.mean() * a.size
    by_chance = expected / max(a.sum() + b.sum() - expected, 1e-300)
    jaccard = np.count_nonzero(a & b) / np.count_nonzero(a | b)
    return (jaccard - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def main() -> None:
    """Print the mean F1 of every criterion on planted tables, then its choices and agreement on real ones."""
    parser = argparse.ArgumentParser(prog="python -m experiments.number_of_variables", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="generated tables of each kind (1)")
    parser.add_argument("--halves", type=int, default=2, help="splits of each real table into halves (2)")
    parser.add_argument("--data", type=Path, help="folder with further tables, .npz with an array X")
    options = parser.parse_args()
    f1 = defaultdict(list)
    for X, supports in iter_planted(options.seeds):
        scores = HeldOutScores(X, len(supports))
        truth = np.array([np.isin(np.arange(X.shape[1]), support) for support in supports])
        for name, criterion in CRITERIA.items():
            f1[name].append(match(fit(X, scores.choose(*criterion)), truth, compute_f1))
    print(f"{len(next(iter(f1.values())))} planted tables: mean F1, lowest tenth")
    for name, values in f1.items():
        print(f"  {name:40s} {np.mean(values):.3f} {np.quantile(values, 0.1):.2f}", flush=True)
    for table, X in load_real(options.data).items():
        orders = [np.random.default_rng(i).permutation(len(X)) for i in range(options.halves)]
        halves = [[HeldOutScores(X[order[i::2]], 3) for i in range(2)] for order in orders]
        whole = HeldOutScores(X, 3)
        print(f"{table}, {X.shape[0]} x {X.shape[1]}: numbers of variables, agreement of halves beyond chance")
        for name, criterion in CRITERIA.items():
            agreement = np.mean(
                [
                    match(*(fit(X[order[i::2]], pair[i].choose(*criterion)) for i in range(2)), compute_agreement)
                    for order, pair in zip(orders, halves, strict=True)
                ]
            )
            print(f"  {name:40s} {whole.choose(*criterion)!s:15s} {agreement:.2f}", flush=True)


if __name__ == "__main__":
    main()
