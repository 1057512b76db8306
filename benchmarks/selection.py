"""``python -m benchmarks.selection``: measure cross-validation on planted tables, and the time of a path."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import numpy as np
import threadpoolctl

from benchmarks.datasets import FACTOR
from benchmarks.report import at_least, at_most, machine_line, print_table
from benchmarks.rulers import quiet, repeat_times, timed
from gpower import GPower, GPowerCV, sparsity_path
from gpower.model_selection import cardinality_grid

SIZES, DEVIATIONS = (10, 20, 30), (14.0, 11.0, 9.0)
#: 25 candidates, evenly spaced on a logarithmic scale.
GRID = np.unique(np.geomspace(4, 90, 25).round().astype(int))


def planted(seed: int, n_samples: int = 200, n_features: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return X = F Vᵀ + unit noise, and V, (n_features, 3): orthogonal loadings of equal size, scaled to unit norm."""
    rng = np.random.default_rng(seed)
    V = np.zeros((n_features, len(SIZES)))
    supports = np.split(rng.permutation(n_features)[: sum(SIZES)], np.cumsum(SIZES)[:-1])
    for j, support in enumerate(supports):
        V[support, j] = rng.choice([-1.0, 1.0], support.size) / np.sqrt(support.size)
    F = rng.standard_normal((n_samples, len(SIZES))) * DEVIATIONS
    return F @ V.T + rng.standard_normal((n_samples, n_features)), V


def recovery(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the chosen cardinalities, the share of each planted support that is found, and the seconds."""
    X, V = planted(seed)
    model = GPowerCV(len(SIZES), cardinalities=GRID)
    _, seconds = timed(lambda: model.fit(X))
    found, planted_in = model.components_.T != 0, V != 0
    shares = np.sum(found & planted_in, axis=0) / np.sum(planted_in, axis=0)
    return model.cardinality_, shares, seconds


def good(chosen: np.ndarray, shares: np.ndarray) -> bool:
    """Return whether every number is within a fifth of the planted one, and nine tenths of every support are found."""
    return bool(np.all(np.abs(chosen - SIZES) <= 0.2 * np.asarray(SIZES)) and np.all(shares >= 0.9))


def cross_validation(seeds: Sequence[int]) -> None:
    """Print the components that GPowerCV finds if 10, 20 and 30 of 2,000 variables are planted."""
    rows, hits = [], 0
    for seed in seeds:
        chosen, shares, seconds = recovery(seed)
        hits += good(chosen, shares)
        rows.append((seed, *chosen.tolist(), *shares.tolist(), seconds, "yes" if good(chosen, shares) else "NO"))
    heads = ("seed", "k1", "k2", "k3", "found 1", "found 2", "found 3", "seconds", "good")
    print_table(heads, rows)
    print(f"  {hits} of {len(seeds)} seeds (at least nine tenths: {at_least(hits / len(seeds), 0.9)})\n")


def path_cost(repeats: int) -> None:
    """Print the time of a path of 50 cardinalities relative to single fits of 50 variables, interleaved."""
    X = FACTOR.make()
    grids = (cardinality_grid(X.shape[1], count) for count in range(50, 100))
    fifty = next(grid for grid in grids if len(grid) == 50)  # small numbers that would be repeated are there once
    with quiet():
        path = sparsity_path(X, cardinalities=fifty)
    calls = (lambda: GPower(1, cardinality=50).fit(X), lambda: sparsity_path(X, cardinalities=fifty))
    fit, whole = np.median(repeat_times(calls, repeats), axis=0)
    rows = [("one fit, cardinality 50", fit, 1.0), (f"path of {len(path)} points", whole, whole / fit)]
    print_table((FACTOR.name, "seconds", "x one fit"), rows)
    print(f"  passes {path.n_passes:.0f}; at most 15 fits: {at_most(whole / fit, 15)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="planted tables (10); 0: the path alone")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed repeats of the path (3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="threads of BLAS and OpenMP")
    options = parser.parse_args()
    with threadpoolctl.threadpool_limits(options.threads):
        print(machine_line(options.threads), end="\n\n")
        path_cost(options.repeats)
        if options.seeds:
            cross_validation(range(options.seeds))


if __name__ == "__main__":
    main()
