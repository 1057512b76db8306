"""``python -m benchmarks.component_test``: measure the error rate, the power and the time of the component test."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import numpy as np
import threadpoolctl

from benchmarks.datasets import FACTOR
from benchmarks.report import at_least, at_most, machine_line, print_table
from benchmarks.rulers import quiet, timed
from benchmarks.selection import planted
from gpower import GPower, component_test

SHAPE, BLOCK = (60, 200), 5


def gaussian(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(SHAPE)


def heavy(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(2.5, SHAPE)


def counts(rng: np.random.Generator) -> np.ndarray:
    return rng.negative_binomial(2, 0.3, SHAPE).astype(float) * rng.integers(1, 4, SHAPE[1])


def blocks(rng: np.random.Generator) -> np.ndarray:
    shared = np.repeat(rng.standard_normal((SHAPE[0], SHAPE[1] // BLOCK)), BLOCK, axis=1)
    return shared + rng.standard_normal(SHAPE)


NOISE: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "Gaussian": gaussian,
    "heavy tails (t, 2.5)": heavy,
    "counts": counts,
    f"blocks of {BLOCK}": blocks,
}


def claims(make: Callable[[np.random.Generator], np.ndarray], seed: int, n_permutations: int) -> bool:
    """Return whether the test finds a component in a table of noise; tables with blocks declare them."""
    kept = np.arange(SHAPE[1]) // BLOCK if make is blocks else None
    options = {"cardinality": 10, "blocks": kept, "n_permutations": n_permutations, "random_state": seed}
    with quiet():
        return component_test(make(np.random.default_rng(seed)), 2, **options).n_components > 0


def noise(n_tables: int, n_permutations: int, n_jobs: int) -> None:
    """Print the share of noise tables in which a component is found at 5 %, about as many tables of each kind."""
    from joblib import Parallel, delayed

    each = -(-n_tables // len(NOISE))
    rows, total = [], 0
    for name, make in NOISE.items():
        jobs = (delayed(claims)(make, seed, n_permutations) for seed in range(each))
        found = sum(Parallel(n_jobs=n_jobs)(jobs))
        rows.append((name, each, found, 100 * found / each))
        total += found
    made = each * len(NOISE)
    rows.append(("all", made, total, 100 * total / made))
    print_table((f"noise, {SHAPE[0]} × {SHAPE[1]}", "tables", "claimed", "%"), rows)
    print(f"  at most 6 %: {at_most(total / made, 0.06)}\n")


def number_found(seed: int, n_permutations: int) -> int:
    """Return the number of components found in a table with three planted ones."""
    X, _ = planted(seed)
    with quiet():
        return component_test(X, 5, cardinality=20, n_permutations=n_permutations, random_state=seed).n_components


def rank(n_tables: int, n_permutations: int, n_jobs: int) -> None:
    """Print how often three components are found in tables with three planted ones."""
    from joblib import Parallel, delayed

    found = Parallel(n_jobs=n_jobs)(delayed(number_found)(seed, n_permutations) for seed in range(n_tables))
    hits = found.count(3)
    rows = [(count, found.count(count)) for count in sorted(set(found))]
    print_table(("components claimed, 3 planted (200 × 2000)", "tables"), rows)
    print(f"  at least 95 of 100: {at_least(hits / n_tables, 0.95)}\n")


def cost() -> None:
    """Print the time of 200 permutations × 5 components relative to one fit of five components."""
    X = FACTOR.make()
    with quiet():
        _, fit = timed(lambda: GPower(5, cardinality=50).fit(X))
        test, seconds = timed(lambda: component_test(X, 5, cardinality=50))
    rows = [("one fit of 5 components", fit, 1.0), ("200 permutations", seconds, seconds / fit)]
    print_table((FACTOR.name, "seconds", "x one fit"), rows)
    print(f"  {test.n_components} claimed; at most 60 fits: {at_most(seconds / fit, 60)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.component_test", description=__doc__)
    parser.add_argument("--noise", type=int, default=500, metavar="N", help="tables of noise (500)")
    parser.add_argument("--planted", type=int, default=100, metavar="N", help="tables with three components (100)")
    parser.add_argument("--permutations", type=int, default=200, metavar="N", help="of each table (200)")
    parser.add_argument("--no-cost", action="store_true", help="leave the timing out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="tables at the same time")
    options = parser.parse_args()
    with threadpoolctl.threadpool_limits(1):
        print(machine_line(1), end="\n\n")
        if options.noise:
            noise(options.noise, options.permutations, options.jobs)
        if options.planted:
            rank(options.planted, options.permutations, options.jobs)
        if not options.no_cost:
            cost()


if __name__ == "__main__":
    main()
