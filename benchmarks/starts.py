"""Modules below the noise edge: the variance of the default starts relative to the best value of any method.

``starts`` is a section of ``python -m benchmarks``. Tables are noise with planted modules, a few columns with a common
factor; most of the modules have a smaller eigenvalue than the noise, so that no principal component shows them. The
reference is the best of three results: truncated power steps from the columns with the best scores after one step,
followed by swaps of single variables; the same from the planted variables; and the default itself.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import at_least, at_most, print_table
from benchmarks.rulers import quiet
from gpower import GPower
from gpower.solvers.local_search import swap_search

#: Shapes of the planted tables, and how many of each are made with and without scaling.
SHAPES = {(250, 6000): 12, (300, 3000): 12, (500, 5000): 12, (1000, 4000): 12, (2000, 20000): 5}
#: Sizes of modules and the range of their strengths: a module of strength a adds a times a common factor.
SIZES, STRENGTHS = (5, 8, 12, 20, 40), (0.5, 1.3)
#: Starts of the reference, and ends that it polishes.
REFERENCE_STARTS, POLISHED = 64, 6


@dataclass(frozen=True)
class Planted:
    """A table with three planted modules; `columns` are those of the strongest, `k` is how many."""

    X: np.ndarray
    columns: np.ndarray

    @property
    def k(self) -> int:
        """Number of variables of the strongest module."""
        return self.columns.size


def planted(shape: tuple[int, int], scaled: bool, seed: int) -> Planted:
    """Return a centred table with three modules of random size and strength."""
    rng = np.random.default_rng([seed, *shape, scaled])
    k, strength = int(rng.choice(SIZES)), float(rng.uniform(*STRENGTHS))
    X = rng.standard_normal(shape)
    order, begin = rng.permutation(shape[1]), 0
    for size, share in ((k, 1.0), (2 * k, 0.8), (3 * k, 0.65)):
        X[:, order[begin : begin + size]] += share * strength * rng.standard_normal((shape[0], 1))
        begin += size
    X -= X.mean(axis=0)
    return Planted(X / X.std(axis=0) if scaled else X, order[:k])


def reference(table: Planted) -> float:
    """Return the largest variance on k variables that truncated power steps and swaps find."""
    A, k = table.X.astype(np.float32), table.k
    norms = np.linalg.norm(A, axis=0)
    scores = np.concatenate([_one_step(A, norms, i, k) for i in range(0, A.shape[1], 1000)])
    best = np.argsort(-scores)[:REFERENCE_STARTS]
    w, V = np.linalg.eigh(A[:, table.columns].T @ A[:, table.columns])
    known = A[:, table.columns] @ V[:, -1:] / np.sqrt(w[-1])
    C = _truncated_power(A, A.T @ np.hstack([A[:, best] / norms[best], known]), k)
    values = np.sum(np.sort(np.abs(C), axis=0)[-k:] ** 2, axis=0)
    return max(_polished(table.X, C[:, j], k) for j in np.argsort(-values)[:POLISHED])


def _one_step(A: np.ndarray, norms: np.ndarray, first: int, k: int) -> np.ndarray:
    """Return the sum of the k largest squared correlations of some columns."""
    idx = slice(first, first + 1000)
    squares = ((A[:, idx] / norms[idx]).T @ A) ** 2
    return np.partition(squares, A.shape[1] - k, axis=1)[:, -k:].sum(axis=1)


def _truncated_power(A: np.ndarray, C: np.ndarray, k: int, steps: int = 100) -> np.ndarray:
    """Return the correlations after truncated power steps of many starts side by side."""
    for _ in range(steps):
        rows = np.argpartition(-np.abs(C), k - 1, axis=0)[:k]
        T = np.zeros_like(C)
        np.put_along_axis(T, rows, np.take_along_axis(C, rows, axis=0), axis=0)
        Y = A @ T
        before, C = C, A.T @ (Y / np.linalg.norm(Y, axis=0))
        if np.allclose(before, C, rtol=1e-5, atol=1e-5 * float(np.abs(C).max())):
            break
    return C


def _polished(X: np.ndarray, c: np.ndarray, k: int) -> float:
    """Return the variance of the k most correlated variables after swaps among the 200 most correlated ones."""
    near = np.sort(np.argsort(-np.abs(c))[: 200 + k])
    support = np.searchsorted(near, np.argsort(-np.abs(c))[:k])
    S = X[:, near].T @ X[:, near]
    support = swap_search(S, support)
    return float(np.linalg.eigvalsh(S[np.ix_(support, support)])[-1])


def cardinality(run: Any) -> None:
    """Print the variance of the default over the best, on planted tables."""
    rows, ratios = [], []
    for shape, count in SHAPES.items():
        for scaled in (False, True):
            found, seconds = [], 0.0
            for seed in range(count):
                table = planted(shape, scaled, seed)
                begin = time.perf_counter()
                value = float(GPower(1, cardinality=table.k).fit(table.X).objective_[0])
                seconds += time.perf_counter() - begin
                found.append(value / max(value, reference(table)))
            ratios += found
            name = f"{shape[0]} x {shape[1]}{' standardised' if scaled else ''}"
            rows.append((name, count, np.mean(found), min(found), seconds / count))
            run.log.add(("starts", name, "cardinality", "gpower"), "mean of the best", float(np.mean(found)))
    print_table(("planted modules, cardinality", "tables", "mean", "worst", "seconds"), rows)
    mean, worst = float(np.mean(ratios)), min(ratios)
    verdicts = at_least(mean, 0.999), at_least(worst, 0.99)
    print(f"  of {len(ratios)} tables: mean {mean:.4f} (at least 0.999: {verdicts[0]}), worst {worst:.4f} "
          f"(at least 0.99: {verdicts[1]})\n")  # fmt: skip


def several(run: Any) -> None:
    """Print the total of several planted modules over that of one component after the other, each with 64 starts."""
    rows = []
    for m, scaled in itertools.product((2, 3, 5), (False, True)):
        ratios = [_total_ratio(m, scaled, seed) for seed in range(6)]
        rows.append((f"{m} modules{' standardised' if scaled else ''}", len(ratios), np.mean(ratios), min(ratios)))
        run.log.add(("starts", rows[-1][0], "several", "gpower"), "mean of one by one", float(np.mean(ratios)))
    print_table(("300 x 3000, several components", "tables", "mean", "worst"), rows)


def _total_ratio(m: int, scaled: bool, seed: int) -> float:
    """Return the total variance of m components over that of single fits on what the earlier ones leave."""
    rng = np.random.default_rng([seed, m, scaled])
    X, k = rng.standard_normal((300, 3000)), int(rng.choice(SIZES[:4]))
    for j in range(m):
        X[:, j * k : (j + 1) * k] += rng.uniform(0.6, 1.2) * rng.standard_normal((300, 1))
    X -= X.mean(axis=0)
    X = X / X.std(axis=0) if scaled else X
    total, left = 0.0, X.copy()
    for _ in range(m):
        one = GPower(1, cardinality=k, n_init=64, center=False).fit(left)
        y = left @ one.components_[0]
        y /= np.linalg.norm(y)
        total += float(np.sum((left @ one.components_[0]) ** 2))
        left -= np.outer(y, y @ left)
    return float(GPower(m, cardinality=k, center=False).fit(X).explained_variance_.sum() * (len(X) - 1) / total)


def tiny_tables(count: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield tables of 3 to 10 variables, of noise, one factor, two factors or standardised, and a gamma for each."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        p, n = int(rng.integers(5, 40)), int(rng.integers(3, 11))
        X = rng.standard_normal((p, n))
        if seed % 4 == 1:
            X += rng.standard_normal((p, 1)) * rng.random(n)
        elif seed % 4 == 2:
            X = 0.5 * X + rng.standard_normal((p, 2)) @ rng.standard_normal((2, n))
        elif seed % 4 == 3:
            X = X + 0.7 * rng.standard_normal((p, 1))
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        yield X - X.mean(axis=0), float(rng.choice((0.02, 0.05, 0.1, 0.2, 0.35, 0.5)))


def enumerated(A: np.ndarray, gamma: float) -> float:
    """Return the largest λmax(A_PᵀA_P) − γ|P| over all supports P."""
    S, n = A.T @ A, A.shape[1]
    supports = itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(1, n + 1))
    return max(float(np.linalg.eigvalsh(S[np.ix_(P, P)])[-1]) - gamma * len(P) for P in supports)


def penalised(run: Any) -> None:
    """Print how often a penalty's optimum is missed on tiny tables, and what is found on planted ones."""
    count = 500 if run.full else 200
    ratios = []
    for A, share in tiny_tables(count):
        best = enumerated(A, share * float(np.max(np.sum(A * A, axis=0))))
        ratios.append(float(GPower(1, gamma=share, center=False).fit(A).objective_[0]) / best if best > 0 else 1.0)
    missed = float(np.mean(np.array(ratios) < 0.999))
    rows = [(f"{count} tables of 3 to 10 variables", f"{missed:.1%}", min(ratios), at_most(missed, 0.01))]
    print_table(("gamma, against enumeration", "missed by > 0.1 %", "worst", "at most 1 %"), rows)
    run.log.add(("starts", "tiny tables", "gamma", "gpower"), "share missed", missed)
    rows = []
    for penalty in ("l0", "l1"):
        found = [_planted_ratio(shape, penalty, seed) for shape in ((300, 3000), (500, 5000)) for seed in range(6)]
        rows.append((f"planted, {penalty}", len(found), np.mean(found), min(found), at_least(np.mean(found), 0.995)))
        blocks = [_block_ratio(penalty, seed) for seed in range(30)]
        rows.append(
            (f"blocks of small tables, {penalty}", 30, np.mean(blocks), min(blocks), at_least(min(blocks), 0.99))
        )
    print_table(("gamma, against 64 column starts or 50 restarts", "tables", "mean", "worst", ""), rows)


def _planted_ratio(shape: tuple[int, int], penalty: str, seed: int) -> float:
    """Return our objective over that of the ascent from 64 columns, the longest and random ones."""
    A = planted(shape, bool(seed % 2), seed).X
    norms, rng = np.linalg.norm(A, axis=0), np.random.default_rng(seed)
    share = float(rng.choice((0.02, 0.05, 0.1, 0.2)))
    share = share if penalty == "l0" else share**0.5
    idx = np.concatenate([np.argsort(-norms)[:32], rng.choice(shape[1], 32, replace=False)])
    best = max(_ascend(A, A[:, [j]] / norms[j], penalty, share) for j in idx)
    return float(GPower(1, gamma=share, penalty=penalty).fit(A).objective_[0]) / best


def _block_ratio(penalty: str, seed: int) -> float:
    """Return our objective over that of 50 restarts of the paper's block ascent, on a table of two factors."""
    rng = np.random.default_rng(seed)
    p, n, m = int(rng.integers(20, 60)), int(rng.integers(8, 30)), int(rng.choice((2, 3)))
    loadings = rng.uniform(0.3, 1.5, (2, n)) * (np.arange(n) < n // 2) ** np.array([[1], [0]])
    A = rng.standard_normal((p, 2)) @ loadings + rng.standard_normal((p, n))
    A -= A.mean(axis=0)
    share = float(rng.choice((0.05, 0.1, 0.2, 0.3)))
    share = share if penalty == "l0" else share**0.5
    starts = [_polar(A @ rng.standard_normal((n, m))) for _ in range(50)]
    best = max(_ascend(A, X, penalty, share) for X in starts)
    return float(GPower(m, gamma=share, penalty=penalty, method="block").fit(A).objective_.sum()) / best


def _ascend(A: np.ndarray, X: np.ndarray, penalty: str, share: float, steps: int = 2000) -> float:
    """Return the objective of the paper's iteration from X, at a share of the largest useful gamma."""
    longest, value = float(np.max(np.linalg.norm(A, axis=0))), 0.0
    for _ in range(steps):
        C = A.T @ X
        if penalty == "l0":
            excess = np.maximum(C * C - share * longest**2, 0)
            now, T = float(excess.sum()), C * (excess > 0)
        else:
            excess = np.maximum(np.abs(C) - share * longest, 0)
            now, T = float(np.sum(excess**2)), np.sign(C) * excess
        if now <= value * (1 + 1e-8):
            break
        value, X = now, _polar(A @ T)
    return value


def _polar(Y: np.ndarray) -> np.ndarray:
    """Return the orthonormal factor of Y."""
    U, _, Vt = np.linalg.svd(Y, full_matrices=False)
    return U @ Vt


def starts(run: Any) -> None:
    """Default starts: planted modules, several of them, and penalties on small and large tables."""
    with quiet():
        cardinality(run)
        several(run)
        penalised(run)
