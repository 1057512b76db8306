"""``python -m experiments.number_of_variables``: compare criteria for the number of variables of a component.

Each criterion scores every number k by held-out samples and takes the best, or the fewest within one standard error of
it. It is judged on generated tables by the variables it finds (F1, the harmonic mean of precision and recall), and on
real tables by the agreement of two halves of the samples: the share of variables in common (Jaccard index), less that
expected by chance. The page docs/how-many-variables.md has the results.

The agreement of components of fixed numbers of variables shows what is possible.

To be fast, components are found by truncated power iterations from a few columns and principal components, for all
folds and all k at once.
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

N_FOLDS, N_STEPS, MAX_GRID_POINTS = 5, 20, 30
#: Starts of an ascent: columns of large correlations, and principal components.
N_COLUMN_STARTS, N_PCA_STARTS = 8, 3
#: Above this number of variables there are fewer starts and grid points.
MAX_SMALL_WIDTH, N_WIDE_STARTS, N_WIDE_POINTS = 200, 2, 18


# --- components of a stack of tables ---


def find_components(D: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return sparse components (f, g, n) of tables D (f, p, n), with k (g,) variables each."""
    n = D.shape[2]
    count = N_COLUMN_STARTS if n <= MAX_SMALL_WIDTH else N_WIDE_STARTS
    gram = D @ D.swapaxes(1, 2)
    score = np.sum((gram @ D) * D, axis=1) / np.maximum(np.sum(D * D, axis=1), 1e-30)
    columns = np.take_along_axis(D, np.argsort(-score, axis=1)[:, None, :count], axis=2)
    vectors = np.linalg.eigh(gram)[1][:, :, -min(N_PCA_STARTS, count) :]
    W = (np.concatenate([columns, vectors], axis=2).swapaxes(1, 2) @ D)[:, None]  # (f, 1, r, n)
    W = np.repeat(W, len(k), axis=1)
    for _ in range(N_STEPS if n <= MAX_SMALL_WIDTH else N_STEPS // 2):
        Z = keep_largest(W, k)
        W = multiply(D, Z)
    best = np.argmax(np.sum(Z * W, axis=-1), axis=2)[:, :, None, None]
    z = np.take_along_axis(Z, best, axis=2)
    used = z != 0
    for _ in range(N_STEPS):
        z = multiply(D, z) * used
        z /= np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), 1e-30)
    return z[:, :, 0]


def keep_largest(W: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return unit vectors (f, g, r, n) with the k (g,) largest entries of W."""
    Z = np.empty_like(W)
    for j, number in enumerate(k):
        size, at = np.abs(W[:, j]), W.shape[-1] - number
        Z[:, j] = np.where(size >= np.partition(size, at, axis=-1)[..., [at]], W[:, j], 0)
    return Z / np.maximum(np.linalg.norm(Z, axis=-1, keepdims=True), 1e-30)


def multiply(D: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return Z (f, g, r, n) times the covariances of D (f, p, n)."""
    rows = Z.reshape(len(D), -1, D.shape[2])
    return ((rows @ D.swapaxes(1, 2)) @ D).reshape(Z.shape)


def deflate(D: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the tables without everything that is correlated with the scores of z, (f, n)."""
    y = D @ z[:, :, None]
    y /= np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-30)
    return D - y @ (y.swapaxes(1, 2) @ D)


def find_path(D: np.ndarray, grid: np.ndarray, m: int = 1) -> np.ndarray:
    """Return m components with the same k variables for every k of the grid, (f, g, n, m)."""
    paths = [find_components(D, grid)]
    residuals = [D] * len(grid)
    for _ in range(m - 1):
        residuals = [deflate(E, paths[-1][:, j]) for j, E in enumerate(residuals)]
        found = [find_components(E, grid[[j]]) for j, E in enumerate(residuals)]
        paths.append(np.concatenate(found, axis=1))
    return np.stack(paths, axis=-1)


def explain(T: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the squares of T (f, q, n) in the span of Z (f, g, n, m), (f, g)."""
    scores = T[:, None] @ Z
    inverse = np.linalg.pinv(Z.swapaxes(-1, -2) @ Z, rcond=1e-6, hermitian=True)
    return np.trace(inverse @ (scores.swapaxes(-1, -2) @ scores), axis1=-2, axis2=-1)


def reduce(A: np.ndarray) -> np.ndarray:
    """Return a table with the same covariance and at most as many rows as columns."""
    return A if A.shape[0] <= A.shape[1] else np.linalg.qr(A)[1]


def stack(tables: list[np.ndarray]) -> np.ndarray:
    """Return tables of different numbers of rows as one array, filled with zeros."""
    rows = max(map(len, tables))
    return np.array([np.pad(A, ((0, rows - len(A)), (0, 0))) for A in tables], tables[0].dtype)


# --- scores of held-out samples ---


class HeldOutScores:
    """Held-out scores of a table for every number of variables, with the components chosen so far."""

    def __init__(self, X: np.ndarray, m: int) -> None:
        order = np.random.RandomState(0).permutation(len(X))
        tests = [order[i::N_FOLDS] for i in range(N_FOLDS)]
        trains = [np.setdiff1d(order, test) for test in tests]
        self.D = stack([reduce(X[train] - X[train].mean(axis=0)) for train in trains])
        centred = [X[test] - X[train].mean(axis=0) for train, test in zip(trains, tests, strict=True)]
        self.T = stack([reduce(B / np.linalg.norm(B)) for B in centred])
        self.m, self.n = m, X.shape[1]
        self.grid = cardinality_grid(self.n, MAX_GRID_POINTS if self.n <= MAX_SMALL_WIDTH else N_WIDE_POINTS)
        self.candidates: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    @cached_property
    def joint(self) -> np.ndarray:
        """Return components with the same number of variables, (f, g, n, m)."""
        return find_path(self.D, self.grid, self.m)

    def find_preliminary(self, rate: Callable[..., np.ndarray]) -> np.ndarray:
        """Return the best components with the same number of variables, (f, n, m)."""
        own = sum(self.compute_own(self.joint[..., [j]]) for j in range(self.m))
        scores = rate(explain(self.T, self.joint), own, self.grid, self.n)
        return self.joint[:, np.argmax(scores.mean(axis=0))]

    def compute_own(self, path: np.ndarray) -> np.ndarray:
        """Return what a component of uncorrelated variables would explain, (f, g)."""
        return (path[..., 0] ** 2 @ np.sum(self.T**2, axis=1)[:, :, None])[..., 0]

    def choose(self, others: str, rate: Callable[..., np.ndarray], rule: str) -> list[int]:
        """Return the numbers of variables that a criterion chooses, one component after the other."""
        points: tuple[int, ...] = ()
        for j in range(self.m):
            D, chosen, path = self.find_candidates(points)
            later = self.find_later(others, rate, D, path, j)
            rest = np.concatenate([np.repeat(chosen[:, None], len(self.grid), axis=1), later], axis=-1)
            fixed = chosen[:, None] if others == "pca" else rest[:, :1]
            base = explain(self.T, fixed) if fixed.shape[-1] else 0.0
            gain = explain(self.T, np.concatenate([path, rest], axis=-1)) - base
            points = (*points, choose_point(rate(gain, self.compute_own(path), self.grid, self.n), rule).chosen)
        return self.grid[list(points)].tolist()

    def find_candidates(self, points: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return tables, chosen loadings (f, n, j) and the path of the next component, after j choices."""
        if points not in self.candidates:
            if not points:
                self.candidates[()] = self.D, np.zeros((N_FOLDS, self.n, 0), self.D.dtype), self.joint[..., :1]
            else:
                D, chosen, path = self.find_candidates(points[:-1])
                z = path[:, points[-1], :, 0]
                D, chosen = deflate(D, z), np.concatenate([chosen, z[:, :, None]], axis=-1)
                self.candidates[points] = D, chosen, find_path(D, self.grid)
        return self.candidates[points]

    def find_later(
        self, others: str, rate: Callable[..., np.ndarray], D: np.ndarray, path: np.ndarray, j: int
    ) -> np.ndarray:
        """Return loadings in place of later components, (f, g, n, count): none, PCA, or preliminary."""
        if others == "none" or j == self.m - 1:
            return path[..., :0]
        if others == "pca":
            residuals = [deflate(D, path[:, i, :, 0]) for i in range(len(self.grid))]
            loadings = [np.linalg.svd(E, full_matrices=False)[2][:, : self.m - j - 1] for E in residuals]
            return np.stack(loadings, axis=1).swapaxes(-1, -2)
        return np.repeat(self.find_preliminary(rate)[:, None, :, j + 1 :], len(self.grid), axis=1)


def rate_variance(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance."""
    return gain


def rate_sparseness(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance times the share of unused variables."""
    return gain * (1 - grid / n)


def rate_elbow(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Height of the curve of explained variance above the line from no variables to all."""
    return gain - gain.mean(axis=0).max() * grid / n


def rate_log_elbow(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Height of the curve above the line from one variable to all, on a logarithmic axis."""
    return gain - gain.mean(axis=0).max() * np.log(grid) / np.log(n)


def rate_log_product(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance times the share of unused variables on a logarithmic axis."""
    return gain * (1 - np.log(grid) / np.log(n))


def rate_shared_variance(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Explained variance beyond that of uncorrelated variables, divided by the root of the number of variables."""
    return (gain - own) / np.sqrt(grid)


def rate_edge(gain: np.ndarray, own: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """Mean variance that a variable adds by its correlations, less the mean of as many further variables."""
    shared, doubled = gain - own, np.minimum(2 * grid, n)
    at_doubled = np.array([np.interp(np.log(doubled), np.log(grid), row) for row in shared])
    return shared / grid - (at_doubled - shared) / np.maximum(doubled - grid, 1)


RATES = (rate_variance, rate_sparseness, rate_elbow, rate_log_elbow, rate_log_product, rate_shared_variance, rate_edge)
CRITERIA = {
    f"{rate.__name__.removeprefix('rate_')}, {others}, {rule}": (others, rate, rule)
    for rate, others, rule in product(RATES, ("none", "pca", "preliminary"), ("best", "one-se"))
    if rate in (rate_variance, rate_sparseness) or others == "preliminary"
}
#: Criteria for tables of many variables.
WIDE_CRITERIA = {name: each for name, each in CRITERIA.items() if each[::2] == ("preliminary", "best")}
#: Numbers of variables, the same for all components, whose agreement is measured besides.
FIXED_NUMBERS = (5, 12, 25, 50, 100, 200, 400, 800, 1600)


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
    """Return centred tables of scikit-learn and of .npz files with an array X, standardised, and cohorts also raw."""
    tables = {load.__name__.removeprefix("load_"): load().data for load in (load_wine, load_breast_cancer, load_digits)}
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as archive:
            if "X" in archive:
                tables[path.stem] = archive["X"].astype(np.float32)
    centred = {name: (X - X.mean(axis=0))[:, X.std(axis=0) > 0] for name, X in tables.items()}
    scaled = {f"{name}, standardised": X / X.std(axis=0) for name, X in centred.items()}
    return scaled | {name: X for name, X in centred.items() if X.shape[1] > MAX_SMALL_WIDTH}


# --- judgement ---


def fit(X: np.ndarray, numbers: list[int]) -> np.ndarray:
    """Return which variables the components of these numbers of variables use, (m, n)."""
    D, used = reduce(X - X.mean(axis=0))[None], []
    for k in numbers:
        z = find_components(D, np.array([k]))[:, 0]
        D = deflate(D, z)
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


def judge_planted(seeds: int) -> None:
    """Print the mean F1 of every criterion on planted tables."""
    f1 = defaultdict(list)
    for X, supports in iter_planted(seeds):
        scores = HeldOutScores(X, len(supports))
        truth = np.array([np.isin(np.arange(X.shape[1]), support) for support in supports])
        for name, criterion in CRITERIA.items():
            f1[name].append(match(fit(X, scores.choose(*criterion)), truth, compute_f1))
    print(f"{len(next(iter(f1.values())))} planted tables: mean F1, lowest tenth")
    for name, values in f1.items():
        print(f"  {name:40s} {np.mean(values):.3f} {np.quantile(values, 0.1):.2f}", flush=True)


def judge_real(table: str, X: np.ndarray, n_splits: int) -> None:
    """Print the choices of every criterion on a real table, and the agreement of halves."""
    orders = [np.random.default_rng(i).permutation(len(X)) for i in range(n_splits)]
    pairs = [[X[order[i::2]] for i in range(2)] for order in orders]
    scores = [[HeldOutScores(half, 3) for half in pair] for pair in pairs]
    whole = HeldOutScores(X, 3)

    def agree(numbers: list[list[list[int]]]) -> float:
        fits = [
            [fit(half, each) for half, each in zip(*both, strict=True)] for both in zip(pairs, numbers, strict=True)
        ]
        return float(np.mean([match(a, b, compute_agreement) for a, b in fits]))

    print(f"{table}, {X.shape[0]} x {X.shape[1]}: numbers of variables, agreement of halves beyond chance")
    for name, criterion in (CRITERIA if X.shape[1] <= MAX_SMALL_WIDTH else WIDE_CRITERIA).items():
        chosen = [[each.choose(*criterion) for each in pair] for pair in scores]
        print(f"  {name:40s} {whole.choose(*criterion)!s:20s} {agree(chosen):.2f}", flush=True)
    fixed = {k: agree([[[k] * 3] * 2] * n_splits) for k in FIXED_NUMBERS if k < X.shape[1] / 2}
    print("  fixed numbers:", ", ".join(f"{k} {value:.2f}" for k, value in fixed.items()), flush=True)


def main() -> None:
    """Judge all criteria on planted tables, then on real ones."""
    parser = argparse.ArgumentParser(prog="python -m experiments.number_of_variables", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="generated tables of each kind (1)")
    parser.add_argument("--halves", type=int, default=10, help="splits of a real table into halves (10)")
    parser.add_argument("--wide-halves", type=int, default=2, help="splits of a table of many variables (2)")
    parser.add_argument("--data", type=Path, help="folder with further tables, .npz with an array X")
    options = parser.parse_args()
    judge_planted(options.seeds)
    for table, X in load_real(options.data).items():
        judge_real(table, X, options.halves if X.shape[1] <= MAX_SMALL_WIDTH else options.wide_halves)


if __name__ == "__main__":
    main()
