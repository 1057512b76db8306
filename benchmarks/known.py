"""``python -m benchmarks.known``: time groups, named variables and weights relative to a fit without them.

Each fit alternates with one of as many variables without the option, in one process. The figures are the least
processor time of the repeats, and the ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpower import GPower

SHAPE, GROUPS, COMPONENTS, REPEATS = (295, 13319), 800, (1, 5), 5


def factor_table(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return a table of noise with thirty factors, each on a twentieth of the variables."""
    p, n = shape
    loadings = rng.standard_normal((30, n)) * (rng.random((30, n)) < 0.05)
    return rng.standard_normal((p, 30)) @ loadings + rng.standard_normal((p, n))


def seconds(fit: Callable[[], Any]) -> float:
    begin = time.process_time()
    fit()
    return time.process_time() - begin


def cases(rng: np.random.Generator, n: int) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the parameters of a fit with each option, and those of a fit of as many variables without it."""
    labels, weights, each = rng.integers(0, GROUPS, n), rng.uniform(0.5, 2, n), n // GROUPS
    known = {"include": [3, 4], "exclude": list(range(100, 200))}
    return {
        "3 groups": ({"cardinality": 3, "groups": labels}, {"cardinality": 3 * each}),
        "20 groups": ({"cardinality": 20, "groups": labels}, {"cardinality": 20 * each}),
        "l0, groups": ({"gamma": 0.1, "groups": labels}, {"gamma": 0.1}),
        "l1, groups": ({"gamma": 0.3, "penalty": "l1", "groups": labels}, {"gamma": 0.3, "penalty": "l1"}),
        "include, exclude": ({"cardinality": 20, **known}, {"cardinality": 20}),
        "l0, weights": ({"gamma": 0.1, "penalty_weights": weights}, {"gamma": 0.1}),
        "budget": ({"budget": 20, "penalty_weights": weights}, {"cardinality": 20}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="a real table: array X, samples x genes")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = factor_table(rng, SHAPE) if options.data is None else np.load(options.data)["X"].astype(float)
    print(f"{X.shape[0]} x {X.shape[1]}, {GROUPS} groups: seconds plain, seconds known, ratio")
    for name, (asked, plain) in cases(rng, X.shape[1]).items():
        for m in COMPONENTS:
            pairs = [
                (seconds(lambda: GPower(m, **plain).fit(X)), seconds(lambda: GPower(m, **asked).fit(X)))  # noqa: B023
                for _ in range(REPEATS)
            ]
            one, other = np.min(pairs, axis=0)
            print(f"{name:<18} {m} component(s)  {one:.3f}  {other:.3f}  {other / one:.2f}")


if __name__ == "__main__":
    main()
