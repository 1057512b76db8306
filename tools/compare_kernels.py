"""Compare the answers of the kernels and thread counts of OpenBLAS on 300 tables: ``make test-kernels``.

Each kernel that this processor can run computes all fits in a process of its own. The chosen variables, the order of
the components and the number of components that are not zero must be those of the first kernel. Two answers may differ
only if they are equally good: the first components that differ have the same value, to a relative error of 1e-9. The
exit status is 1 if other answers differ. ``python tools/compare_kernels.py --tables 50`` compares fewer tables.

OPENBLAS_CORETYPE chooses the kernel, which OpenBLAS reads when it is loaded. The OpenBLAS inside NumPy 2.5 crashes if
the kernel is not the processor's own, so the target installs NumPy 2.4. A kernel that is missing in this build or on
this processor is replaced by another one, Zen by Haswell for instance; what has run already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from gpower import GPower

KERNELS = ("Prescott", "Haswell", "Zen", "SkylakeX")
THREADS = (1, 2)
MAX_RELATIVE_DIFFERENCE = 1e-9

FITS: dict[str, dict[str, object]] = {
    "cardinality": {"cardinality": 3},
    "gamma": {"gamma": 0.1},
    "gamma, l1, standardised": {"gamma": 0.2, "penalty": "l1", "scale": True},
    "block": {"cardinality": 3, "method": "block"},
    "projection": {"cardinality": 4, "deflation": "projection", "scale": True},
}
N_COMPONENTS = 4
#: The variables of every component, and the objective of every component or of the whole block.
Answer = tuple[list[list[int]], list[float]]


def draw_planted(rng: Generator, p: int, n: int) -> NDArray[np.float64]:
    """Return noise around two components of a few variables each."""
    X = rng.standard_normal((p, n))
    for j in range(2):
        X[:, 4 * j : 4 * j + 4] += (3 - j) * rng.standard_normal((p, 1))
    return X


def draw_standardised(rng: Generator, p: int, n: int) -> NDArray[np.float64]:
    """Return columns of equal norm, so that every ranking of columns by norm is a tie."""
    X = rng.standard_normal((p, n)) @ (np.eye(n) + (rng.random((n, n)) < 0.1))
    return (X - X.mean(axis=0)) / X.std(axis=0)


TABLES: dict[str, Callable[[Generator, int, int], NDArray[np.float64]]] = {
    "random": lambda rng, p, n: rng.standard_normal((p, n)),
    "planted": draw_planted,
    "low rank": lambda rng, p, n: rng.standard_normal((p, 3)) @ rng.standard_normal((3, n)),
    "duplicated columns": lambda rng, p, n: rng.standard_normal((p, n))[:, rng.integers(0, max(n // 2, 2), n)],
    "tied columns": lambda rng, p, n: (
        rng.standard_normal((p, n))[:, np.arange(n) // 2] * np.where(np.arange(n) % 2, -1, 1)
    ),
    "standardised": draw_standardised,
    "integer-valued": lambda rng, p, n: rng.integers(-2, 3, (p, n)).astype(np.float64),
}


def draw_table(i: int) -> tuple[str, NDArray[np.float64]]:
    """Return the kind and the values of a table; the number decides both."""
    rng = np.random.default_rng(i)
    kind = list(TABLES)[i % len(TABLES)]
    p, n = int(rng.integers(5, 60)), int(rng.integers(8, 40) if i % 3 else rng.integers(100, 300))
    return kind, TABLES[kind](rng, p, n)


def compute_answers(n_tables: int, path: Path) -> None:
    """Write the variables and the objective of every component of every fit, and the kernels in use, as JSON."""
    answers = {}
    for i in range(n_tables):
        kind, X = draw_table(i)
        for name, options in FITS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = GPower(N_COMPONENTS, **options).fit(X)
            supports = [np.flatnonzero(z).tolist() for z in model.components_]
            answers[f"table {i} ({kind}, {X.shape[0]} x {X.shape[1]}), {name}"] = (supports, model.objective_.tolist())
    kernels = sorted({str(each["architecture"]) for each in threadpool_info() if each["internal_api"] == "openblas"})
    path.write_text(json.dumps({"kernels": kernels, "answers": answers}), encoding="utf-8")


def run_kernel(kernel: str, threads: int, n_tables: int, path: Path) -> tuple[str, dict[str, Answer]]:
    """Return the names of the kernels that OpenBLAS ran when asked for one, and their answers."""
    chosen = {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--tables", str(n_tables), "--write", str(path)]
    subprocess.run(command, env={**os.environ, **chosen}, check=True)
    written = json.loads(path.read_text(encoding="utf-8"))
    return " and ".join(written["kernels"]), written["answers"]


def describe_difference(first: Answer, second: Answer) -> str:
    """Return an empty text for the same variables, "tie" for equally good ones, otherwise what differs."""
    if first[0] == second[0]:
        return ""
    if sum(map(bool, first[0])) != sum(map(bool, second[0])):
        return f"components that are not zero: {first[0]} or {second[0]}"
    j = next(j for j, pair in enumerate(zip(first[0], second[0], strict=True)) if pair[0] != pair[1])
    here, there = (values[j] if len(values) > j else values[0] for values in (first[1], second[1]))
    if abs(here - there) <= MAX_RELATIVE_DIFFERENCE * max(abs(here), abs(there)):
        return "tie"
    return f"component {j + 1}: {first[0][j]} of {here!r} or {second[0][j]} of {there!r}"


def compare_kernels(n_tables: int) -> int:
    """Print every answer that differs from the first kernel's and return the exit status."""
    runs: dict[str, dict[str, Answer]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kernel in KERNELS:
            for threads in THREADS:
                path = Path(folder) / "answers.json"
                run = f"{run_kernel(kernel, threads, 0, path)[0]}, {threads} thread(s)"
                print(f"{kernel}, {threads} thread(s): OpenBLAS runs {run}", flush=True)
                if run not in runs:
                    runs[run] = run_kernel(kernel, threads, n_tables, path)[1]
    reference, *others = runs
    n_different = 0
    for other in others:
        differences = {name: describe_difference(answer, runs[other][name]) for name, answer in runs[reference].items()}
        wrong = {name: text for name, text in differences.items() if text not in ("", "tie")}
        n_ties = sum(text == "tie" for text in differences.values())
        print(f"{other}: {len(differences)} fits, {len(wrong)} differ from {reference}, {n_ties} equally good")
        for name, text in wrong.items():
            print(f"  {name}: {text}")
        n_different += len(wrong)
    return int(n_different > 0 or not others)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=300, help="number of tables")
    parser.add_argument("--write", type=Path, help="write the answers of this process and compare nothing")
    arguments = parser.parse_args()
    if arguments.write:
        compute_answers(arguments.tables, arguments.write)
    else:
        sys.exit(compare_kernels(arguments.tables))
