"""``python -m benchmarks.constraints``: measure variance, violation, time and proven gap of constrained components."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from benchmarks.report import machine_line, print_table
from benchmarks.rulers import quiet
from gpower import GPower, best_subset, certify_total
from gpower.baselines import MSPCA
from gpower.certificates.certificate import Clock
from gpower.certificates.joint import JointBoundState, certify_joint_variance
from gpower.datasets import load_pitprops
from gpower.operators import as_operator

PITPROPS = np.asarray(load_pitprops().correlation)
MTCARS = np.corrcoef(np.loadtxt(Path(__file__).with_name("mtcars.csv"), delimiter=",", skiprows=1).T)
WINE = np.corrcoef(load_wine().data.T)
#: Runs of msPCA's algorithm.
RUNS = 3
WORDS = ("orthogonal", "uncorrelated", "disjoint")
#: Best pairs (k = 2, …, 6) and triples (k = 2, 3, 4) of disjoint supports, by enumeration.
ENUMERATED = {
    "pitprops": ((3.83600, 4.67884, 5.25516, 5.71036, 5.89724), (5.64900, 6.63965, 7.25015)),
    "wine": ((3.50828, 4.58545, 5.30416, 5.82605, 6.22276), (5.07375, 6.44380, 7.33376)),
}


def violation(word: str, model: GPower) -> float:
    """Return the violation of a constraint, summed over pairs of components."""
    pairs = {
        "orthogonal": model.loading_correlation_,
        "uncorrelated": model.score_correlation_,
        "disjoint": model.overlap_,
    }
    return float(np.abs(np.triu(pairs[word], 1)).sum())


def timed(fit: Callable[[], GPower]) -> tuple[GPower, float, float]:
    """Return the fitted model, the wall-clock seconds, and the processor seconds, which vary less with other work."""
    clock, processor = time.perf_counter(), time.process_time()
    with quiet():
        found = fit()
    return found, time.perf_counter() - clock, time.process_time() - processor


def tables() -> None:
    """Print the comparison with msPCA on the pit props and the cars."""
    rows = []
    for name, S, m, k in (("pitprops", PITPROPS, 6, 4), ("pitprops", PITPROPS, 3, 5), ("mtcars", MTCARS, 3, 4)):
        for word in WORDS[:2]:
            asked = {"cardinality": k, "constraint": word, "covariance": "precomputed"}
            ours, clock, processor = timed(lambda S=S, m=m, asked=asked: GPower(m, **asked).fit(S))
            values = []
            for seed in range(RUNS):
                with quiet():
                    theirs = MSPCA(m, **asked, random_state=seed).fit(S)
                values.append(np.trace(theirs.components_ @ S @ theirs.components_.T) / len(S))
            bound = certify_total(ours, S)
            rows.append(
                (
                    f"{name} {m} × {k}",
                    word,
                    f"{ours.objective_.sum() / len(S):.4f}",
                    f"{violation(word, ours):.0e}",
                    f"{100 * bound.gap:.1f}",
                    f"{clock:.2f} ({processor:.2f})",
                    f"{np.median(values):.4f} ({max(values):.4f})",
                )
            )
    heads = (
        "data",
        "constraint",
        "variance",
        "violation",
        "gap %",
        "s (processor)",
        "msPCA's algorithm: median (best) of 3",
    )
    print_table(heads, rows)


def enumerated() -> None:
    """Print how many of the 16 enumerated sets of disjoint supports the defaults find, and how many are proven."""
    rows, gaps = [], []
    for name, S in (("pitprops", PITPROPS), ("wine", WINE)):
        operator, _ = as_operator(S, covariance=True)
        for m, values in zip((2, 3), ENUMERATED[name], strict=True):
            for k, best in enumerate(values, 2):
                asked = {"cardinality": k, "constraint": "disjoint", "covariance": "precomputed"}
                model, _, seconds = timed(lambda S=S, m=m, asked=asked: GPower(m, **asked).fit(S))
                begin = time.process_time()
                _, proof = best_subset(S, cardinality=(k,) * m, constraint="disjoint", covariance="precomputed")
                proven = time.process_time() - begin
                loose = certify_joint_variance(operator, model.components_.T, cardinality=k, constraint="orthogonal")
                gaps.append(loose.upper_bound / best - 1)
                found = model.objective_.sum()
                rows.append(
                    (
                        f"{name} {m} × {k}",
                        f"{best:.5f}",
                        f"{found:.5f}",
                        "yes" if found > best - 1e-5 else "NO",
                        f"{seconds:.2f}",
                        "yes" if proof.optimal and abs(proof.value - best) < 1e-5 else "NO",
                        f"{proven:.2f}",
                        f"{100 * gaps[-1]:.2f}",
                    )
                )
    print_table(("disjoint", "enumerated", "found", "reached", "s", "proven", "s", "gap of (K) %"), rows)
    print(f"mean gap of (K): {100 * np.mean(gaps):.2f} %\n")


def instances(count: int) -> Iterator[tuple[np.ndarray, str, int, int]]:
    """Yield random tables, some of them degenerate, with a constraint, a number of components and a cardinality."""
    rng = np.random.default_rng(0)
    for i in range(count):
        p, n = int(rng.integers(3, 30)), int(rng.integers(3, 16))
        X = rng.standard_normal((p, n))
        if i % 6 == 1:
            X[:, rng.integers(n, size=n // 2)] = X[:, [0]]
        if i % 6 == 2:
            X[:, : n // 3] = 1.0
        if i % 6 == 3:
            X = X[:, :2] @ rng.standard_normal((2, n))
        if i % 6 == 4:
            X *= 10.0 ** rng.integers(-3, 4, n)
        if i % 6 == 5:
            X = np.round(X)
        word, m = WORDS[i // 6 % 3], int(rng.integers(2, min(4, n) + 1))
        yield X, word, m, int(rng.integers(1, max(n // m, 1) + 1 if word == "disjoint" else n + 1))


def violations(count: int) -> None:
    """Print the largest violation of the constraint on random instances."""
    worst, seen, refused = Counter(), Counter(), Counter()
    for X, word, m, k in instances(count):
        try:
            model, _, _ = timed(lambda X=X, word=word, m=m, k=k: GPower(m, cardinality=k, constraint=word).fit(X))
        except ValueError:
            refused[word] += 1
            continue
        seen[word] += 1
        worst[word] = max(worst[word], violation(word, model))
    rows = [(word, seen[word], refused[word], f"{worst[word]:.1e}") for word in WORDS]
    print_table(("constraint", "instances", "refused", "largest violation"), rows)


def best_disjoint(S: np.ndarray, m: int, k: int, free: list[int]) -> float:
    """Return the best disjoint components by enumeration, with components ordered by their first variable."""
    if m == 0:
        return 0.0
    if len(free) < m * k:
        return -np.inf
    return max(
        np.linalg.eigvalsh(S[np.ix_(one, one)])[-1]
        + best_disjoint(S, m - 1, k, [i for i in free if i > one[0] and i not in one])
        for one in combinations(free, k)
    )


def bounds(count: int) -> None:
    """Print how often a bound is below the best disjoint components, found by enumeration."""
    rng, below = np.random.default_rng(1), Counter()
    for i in range(count):
        n, m = int(rng.integers(5, 10)), int(rng.integers(2, 4))
        A = rng.standard_normal((2 * n if i % 2 else 3, n))
        S, k = A.T @ A, int(rng.integers(1, n // m + 1))
        truth, (operator, _) = best_disjoint(S, m, k, list(range(n))), as_operator(S, covariance=True)
        for word in ("orthogonal", "disjoint"):
            proof = JointBoundState(operator, [k] * m, word, 0.0, truth, Clock(0.3)).compute_certificate()
            for bound in proof.bounds:
                below[bound.method] += 1
                below[bound.method, "below"] += bound.value < truth * (1 - 1e-9)
    names = sorted(name for name in below if isinstance(name, str))
    print_table(
        ("bound", "instances", "below the truth"), [(name, below[name], below[name, "below"]) for name in names]
    )


def wide(n: int, p: int = 300) -> None:
    """Print the time of five components of 20 of many variables relative to the fit without a constraint."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((p, n))
    for _ in range(12):
        members = rng.choice(n, 400, replace=False)
        X[:, members] += np.outer(rng.standard_normal(p), rng.uniform(0.3, 1.0, 400))
    rows, plain = [], 1.0
    for word in (None, *WORDS):
        model, _, seconds = timed(lambda word=word: GPower(5, cardinality=20, constraint=word).fit(X))
        plain = seconds if word is None else plain
        kept = "" if word is None else f"{violation(word, model):.0e}"
        rows.append((str(word), f"{seconds:.2f}", f"{seconds / plain:.2f}", f"{model.n_passes_:.0f}", kept))
    print_table((f"{p} × {n}, 5 × 20", "s (processor)", "over none", "passes", "violation"), rows)


def blocks(path: Path) -> None:
    """Print the adjusted variance of a block of exact cardinality relative to components in sequence."""
    with np.load(path) as stored:
        matrices = {name: stored[name] for name in stored.files} | {"pitprops": PITPROPS}
    rows = []
    for name, S in matrices.items():
        shares = []
        for m, k in ((3, 4), (3, 10), (5, 4), (5, 10)):
            asked = {"cardinality": k, "covariance": "precomputed"}
            turn, _, _ = timed(lambda S=S, m=m, asked=asked: GPower(m, **asked).fit(S))
            block, _, _ = timed(lambda S=S, m=m, asked=asked: GPower(m, method="block", **asked).fit(S))
            shares.append(block.explained_variance_.sum() / turn.explained_variance_.sum())
        rows.append((name, *(f"{share:.4f}" for share in shares)))
    print_table(("block over schur", "3 × 4", "3 × 10", "5 × 4", "5 × 10"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=60, help="random instances (500 for the figures of the docs)")
    parser.add_argument("--data", type=Path, help="covariances.npz, matrices by name, for the comparison of blocks")
    parser.add_argument("--only", help="some of: tables, enumerated, violations, bounds, wide, blocks", default="")
    asked = parser.parse_args()
    sections = {
        "tables": tables,
        "enumerated": enumerated,
        "violations": lambda: violations(asked.instances),
        "bounds": lambda: bounds(asked.instances),
        "wide": lambda: (wide(5000), wide(20000)),
        "blocks": lambda: None if asked.data is None else blocks(asked.data),
    }
    print(machine_line(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))), flush=True)
    for name, section in sections.items():
        if not asked.only or name in asked.only.split(","):
            section()


if __name__ == "__main__":
    main()
