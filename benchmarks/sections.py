"""Short studies in addition to the tables of times: starts, scaling, seeds, quality, memory.

Each takes a `Run`, prints its table and logs its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.datasets import gaussian, sparse_topics
from benchmarks.price import price
from benchmarks.problems import FIVE, L0, L1, Problem
from benchmarks.report import Log, at_least, at_most, print_table
from benchmarks.rulers import peak_memory, quiet, repeat_times
from benchmarks.solvers import solver
from benchmarks.sparse import sparse
from benchmarks.starts import starts
from gpower import GPower
from gpower.solvers.local_search import swap_search


@dataclass(frozen=True)
class Run:
    """The extent of a run, and the log of its numbers."""

    full: bool
    repeats: int
    log: Log


def scaling(run: Run) -> None:
    """Exponent of time as a power of n_features at 500 samples."""
    widths = [1000, 2000, 4000, 8000, 16000] + [32000, 64000] * run.full
    seeds, table = range(3), []
    for problem in (L1, L0):
        seconds = []
        for n in widths:
            calls = [solver("gpower_default").prepare(gaussian(500, n, seed), problem, 0) for seed in seeds]
            seconds.append(float(np.median(repeat_times(calls, max(run.repeats // 2, 1)))))
            run.log.add(("scaling", f"gaussian 500x{n}", problem.label, "gpower"), "seconds", seconds[-1])
        exponent = float(np.polyfit(np.log(widths), np.log(seconds), 1)[0])
        run.log.add(("scaling", "gaussian 500xN", problem.label, "gpower"), "exponent", exponent)
        table.append((problem.label, *seconds, exponent, at_most(exponent, 1.1)))
    print_table(("seconds at 500 x", *map(str, widths), "exponent", "at most 1.1"), table)


def seeds(run: Run) -> None:
    """Objective relative to the translation, and passes, over many seeds."""
    table = []
    for shape in ((250, 2500), (500, 5000)):
        for problem in (L1, L0, *(FIVE if run.full else ())):
            ratios, passes = np.array([_one_seed(shape, problem, seed, run.log) for seed in range(20)]).T
            worse = float(np.mean(ratios < 0.99))
            ok = at_least(ratios.mean(), 1) if problem.penalty == "l0" or worse <= 0.1 else "BELOW"
            name = f"{shape[0]}x{shape[1]} {problem.label}"
            table.append(
                (name, ratios.mean(), ratios.min(), ratios.max(), f"{worse:.0%}", ok, np.median(passes), passes.max())
            )
    head = ("20 seeds", "f ours/translation", "min", "max", "worse by > 1 %", "", "passes (<= 9)", "max (<= 15)")
    print_table(head, table)


def _one_seed(shape: tuple[int, int], problem: Problem, seed: int, log: Log) -> tuple[float, float]:
    """Return the objective of GPower relative to the translation, and its passes per component."""
    X = gaussian(*shape, seed + 1)
    with quiet():
        ours, theirs = (solver(name).prepare(X, problem, 0)() for name in ("gpower_default", "translation"))
    where = ("seeds", f"gaussian {shape[0]}x{shape[1]} seed {seed + 1}", problem.label)
    for name, answer in (("gpower", ours), ("translation", theirs)):
        log.add((*where, name), "objective", answer.objective)
        log.add((*where, name), "passes", answer.passes)
    return ours.objective / theirs.objective, ours.passes / problem.n_components


def quality(run: Run) -> None:
    """Gap of `GPower(cardinality=k)` to the best of 1000 random starts with local search, 100 x 300."""
    table = []
    for k in (5, 10, 20):
        gaps = []
        for seed in range(5 if run.full else 1):
            X = gaussian(100, 300, seed)
            A = X - X.mean(axis=0)
            with quiet():
                found = float(GPower(1, cardinality=k).fit(X).objective_[0])
            gaps.append(1 - found / best_of_starts(A.T @ A, k, 1000, seed))
            where = ("quality", f"gaussian 100x300 seed {seed}", f"cardinality {k}", "gpower")
            run.log.add(where, "gap", gaps[-1])
        table.append(
            (
                f"cardinality {k}",
                100 * float(np.mean(gaps)),
                100 * max(gaps),
                len(gaps),
                at_most(float(np.mean(gaps)), 0.005),
            )
        )
    print_table(("100x300", "mean gap %", "max gap %", "seeds", "mean at most 0.5 %"), table)


def best_of_starts(S: np.ndarray, k: int, count: int, seed: int) -> float:
    """Return the largest variance on k variables after truncated power steps and swaps from random starts."""
    Z = np.random.default_rng(seed).standard_normal((S.shape[0], count))
    for _ in range(100):
        C = S @ Z
        kept = np.argpartition(-np.abs(C), k - 1, axis=0)[:k]
        Z = np.zeros_like(C)
        np.put_along_axis(Z, kept, np.take_along_axis(C, kept, axis=0), axis=0)
        Z /= np.linalg.norm(Z, axis=0)
    supports = [swap_search(S, support) for support in np.unique(np.sort(kept, axis=0).T, axis=0)]
    return max(float(np.linalg.eigvalsh(S[np.ix_(i, i)])[-1]) for i in supports)


def memory(run: Run) -> None:
    """Peak additional memory of a fit as a multiple of the data."""
    models = {
        "l1 10%": lambda: GPower(1, penalty="l1", gamma=0.1),
        "l0 1%": lambda: GPower(1, gamma=0.01),
        "l0 1% m=5 deflation": lambda: GPower(5, gamma=0.01),
        "l0 1% m=5 block": lambda: GPower(5, gamma=0.01, method="block"),
        "cardinality 50": lambda: GPower(1, cardinality=50),
    }
    dense = gaussian(1000, 20000)
    tables: dict[str, tuple[Callable[[], Any], float]] = {
        "dense C 1000x20000": (lambda: dense, 0.5),
        "dense F 1000x20000": (lambda: np.asfortranarray(dense), 0.5),
        "dense C float32": (lambda: dense.astype(np.float32), 0.5),
        "sparse CSR 20000x20000": (lambda: sparse_topics(20000, 20000), 1.0),
        "sparse CSC 20000x20000": (lambda: sparse_topics(20000, 20000).tocsc(), 1.0),
    }
    rows = []
    for name, (make, limit) in tables.items():
        X = make()
        size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        shares = []
        for problem, model in models.items():
            with quiet():
                shares.append(peak_memory(lambda m=model, X=X: m().fit(X))[1] / size)
            run.log.add(("memory", name, problem, "gpower"), "peak extra / data", shares[-1])
        rows.append((name, *shares, f"<= {limit:g}", at_most(max(shares), limit)))
    print_table(("peak extra / data", *models, "limit", ""), rows)


SECTIONS: dict[str, Callable[[Run], None]] = {
    "starts": starts,
    "scaling": scaling,
    "seeds": seeds,
    "quality": quality,
    "memory": memory,
    "price": price,
    "sparse": sparse,
}
