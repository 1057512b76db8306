"""``python -m benchmarks.constants``: measure the effect of each constant of the solver on time and variance.

Each constant is halved and doubled separately. Processor time and explained variance are relative to those with the
present value.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import threadpoolctl

from benchmarks.datasets import factor_model, gaussian
from benchmarks.price import sparse_factors
from benchmarks.report import machine_line, print_table
from benchmarks.rulers import quiet
from gpower import GPower

#: The constants that choose between speed and quality, by module.
CONSTANTS: dict[str, tuple[str, ...]] = {
    "solvers.working_set": (
        "COLUMNS_PER_ACTIVE",
        "MIN_WORKING_SET",
        "MAX_WORKING_SET_SHARE",
        "INNER_TOL_FACTOR",
        "MIN_INNER_STEPS",
    ),
    "solvers.starts": ("MAX_START_MULTIPLICATIONS", "MIN_STARTS", "N_FINALISTS", "N_PROBES"),
    "solvers.column_screening": ("RACE_TOL", "HEAT_STEPS"),
    "solvers.local_search": (
        "MAX_TRIED_SWAPS",
        "N_POWER_STEPS",
        "MAX_SWAP_CANDIDATES",
        "MAX_SWAP_PAIRS",
        "MAX_SINGLE_SWAP_SUPPORT",
        "MAX_SEARCH_ROUNDS",
    ),
    "solvers.component": ("MAX_SUPPORT_TO_SEARCH_ALL",),
    "solvers.sketch": (
        "OVERSAMPLING",
        "N_POWER_ITERATIONS",
        "MAX_UNSKETCHED_SAMPLES",
        "MIN_RACE_COLUMNS",
        "N_SKETCH_STARTS",
        "N_SKETCH_STARTS_TOTAL",
        "MIN_SKETCHED_SHARE",
    ),
}
#: W must hold what is active, so that less than one is no growth.
OTHERWISE = {"COLUMNS_PER_ACTIVE": (1.25, 2.0)}


def _standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


#: Tables and fits: one component and several, of factors, noise and standardised columns.
FITS: tuple[tuple[Callable[[], np.ndarray], dict[str, Any]], ...] = (
    (lambda: sparse_factors((295, 6000)), {"n_components": 10, "cardinality": 50}),
    (lambda: _standardised(factor_model(120, 6000).X), {"n_components": 5, "cardinality": 20}),
    (lambda: _standardised(factor_model(120, 6000).X), {"n_components": 1, "cardinality": 100}),
    (lambda: gaussian(200, 2000), {"n_components": 2, "cardinality": 20}),
    (lambda: gaussian(250, 2500), {"n_components": 1, "gamma": 0.1, "penalty": "l1"}),
    (lambda: factor_model(100, 300).X, {"n_components": 3, "cardinality": 10}),
)


def measured(tables: list[np.ndarray], repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least processor time and the explained share of every fit."""
    seconds, shares = [], []
    with quiet():
        for X, (_, options) in zip(tables, FITS, strict=True):
            times = []
            for _ in range(repeats):
                begin = time.process_time()
                model = GPower(**options).fit(X)
                times.append(time.process_time() - begin)
            seconds.append(min(times))
            shares.append(model.explained_variance_ratio_.sum())
    return np.array(seconds), np.array(shares)


def row_of(module: str, name: str, tables: list[np.ndarray], repeats: int) -> tuple[Any, ...]:
    """Return the row of a constant: for half and twice its value the relative time, the mean and the least variance."""
    room = import_module(f"gpower.{module}")
    value, cells = getattr(room, name), []
    for other in OTHERWISE.get(name, (type(value)(value * 0.5), type(value)(value * 2))):
        before = measured(tables, repeats)
        with patch.object(room, name, other):
            seconds, shares = measured(tables, repeats)
        gain = shares / before[1]
        cells += [seconds.sum() / before[0].sum(), 100 * (gain.mean() - 1), 100 * (gain.min() - 1)]
    return f"{module}.{name}", value, *cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constants", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="a part of a constant's name")
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="of every fit (2)")
    options = parser.parse_args()
    tables = [make() for make, _ in FITS]
    with threadpoolctl.threadpool_limits(1):
        print(machine_line(1), end="\n\n")
        wanted = [(module, name) for module, names in CONSTANTS.items() for name in names if options.only in name]
        heads = ("half: time", "mean %", "least %", "twice: time", "mean %", "least %")
        print_table(("", "is", *heads), [row_of(*each, tables, options.repeats) for each in wanted])


if __name__ == "__main__":
    main()
