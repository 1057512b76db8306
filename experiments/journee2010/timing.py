"""Times of all methods on Gaussian matrices: one instance of the paper's three tables, and their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.problems import Problem
from benchmarks.solvers import translation
from scipy.sparse.linalg import svds

from experiments.journee2010 import published, report
from experiments.journee2010.methods import (
    BLOCK_L0,
    BLOCK_L1,
    GPOWER_L0,
    GPOWER_L1,
    PHASES,
    REGRESSION,
    RSVD_L0,
    RSVD_L1,
    LibraryMethod,
    Method,
    Outcome,
    timed,
)
from experiments.journee2010.published import Size, Times
from experiments.journee2010.study import Row, Study
from gpower.datasets import gaussian

#: γ is 10 % of γ_max (ℓ1) and 1 % (ℓ0); rSVD gets the same.
LEVEL = 0.1
POWER: tuple[Method, ...] = (GPOWER_L1, GPOWER_L0, replace(RSVD_L1, reach="norms"), replace(RSVD_L0, reach="norms"))
BLOCK: tuple[Method, ...] = (BLOCK_L1, BLOCK_L0)
LIBRARY = (LibraryMethod("GPower l1 (library)", "l1"), LibraryMethod("GPower l0 (library)", "l0"))
LIBRARY_BLOCK = (
    LibraryMethod("GPower l1,m (library)", "l1", "block"),
    LibraryMethod("GPower l0,m (library)", "l0", "block"),
)
SVDS = "svds alone"
#: Seconds under which a run is repeated, because anything else on the machine would show in it.
BLINK = 0.1


def times(study: Study, part: str, sizes: Sequence[Size], m: int = 1) -> list[Row]:
    """Return the rows of every method on every instance of a table."""
    count = 100 if study.full else 3
    keys = [{"size": list(size), "seed": seed, "m": m} for size in sizes for seed in range(count)]
    return study.instances(part, keys, instance, weight=lambda key: key["size"][0] ** 2 * key["size"][1])


def instance(size: Sequence[int], seed: int, m: int) -> list[Row]:
    """Run all methods on one matrix, after a warm-up on a corner of it."""
    A = gaussian(*size, random_state=seed)
    methods: tuple[Method, ...] = (*POWER, *LIBRARY, *(() if m == 1 else (*BLOCK, *LIBRARY_BLOCK)))
    for method in methods:
        method.solve(np.ascontiguousarray(A[:50, :200]), LEVEL, m)
    found = {method.name: fastest_run(lambda one=method: one.solve(A, LEVEL, m)) for method in methods}
    cardinality = max(1, round(np.count_nonzero(found[published.GPOWER_L1].Z) / m))
    found[REGRESSION.name] = fastest_run(lambda: REGRESSION.solve(A, cardinality, m))
    rows = [{"method": name} | outcome.cost() for name, outcome in found.items()]
    rows += [_translated(A, penalty, method, m) for penalty in ("l1", "l0") for method in ("deflation", "block")[:m]]
    return [*rows, {"method": SVDS, "seconds": _svds_seconds(A, m, seed)}]


def fastest_run(solve: Callable[[], Outcome]) -> Outcome:
    """Return the outcome; of five runs the fastest if a run is short."""
    found = solve()
    return found if found.total > BLINK else min((found, *(solve() for _ in range(4))), key=lambda one: one.total)


def _svds_seconds(A: np.ndarray, m: int, seed: int) -> float:
    """Return the time of SciPy's svds, the counterpart of MATLAB's svds, with which rSVD starts in the paper."""
    start = np.random.default_rng(seed).standard_normal(min(A.shape))
    return best_time(lambda: svds(A, k=m, v0=start))[1]


def best_time(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its time; of five calls the shortest if a call is short."""
    result, seconds = timed(call)
    return result, seconds if seconds > BLINK else min(seconds, *(timed(call)[1] for _ in range(4)))


def _translated(A: np.ndarray, penalty: str, method: str, m: int) -> Row:
    """Return the outcome of the benchmark's line-by-line translation of the paper's algorithms."""
    problem = Problem(penalty, LEVEL if penalty == "l1" else LEVEL**2, m, method)
    answer, seconds = best_time(translation.prepare(A, problem, 0))
    many = ",m" if method == "block" else ""
    name = f"GPower {penalty}{many} (translation)"
    return {"method": name, "seconds": seconds, "cardinality": int(np.count_nonzero(answer.Z)), "passes": answer.passes}


def show(study: Study, name: str, title: str, rows: Sequence[Row], paper: Times, sizes: Sequence[Size]) -> None:
    """Print ratios to GPower ℓ1, published and measured, then the measured seconds by phase."""
    medians = report.median_by(rows, ("method", "size"), ("seconds",))
    names = [*paper, *(method for method in dict.fromkeys(row["method"] for row in rows) if method not in paper)]
    ratios = []
    for method in names:
        ratio: Row = {"method": method}
        for size in sizes:
            theirs = paper[method][size] / paper[published.GPOWER_L1][size] if method in paper else None
            ours = medians[method, size]["seconds"] / medians[published.GPOWER_L1, size]["seconds"]
            ratio[_by(size)] = f"{'-' if theirs is None else f'{theirs:.2g}'} | {ours:.2g}"
        ratios.append(ratio)
    count = medians[published.GPOWER_L1, sizes[0]]["instances"]
    head = f"{title}, median of {count} matrices: times relative to GPower l1, published | ours"
    report.table(study, name, head, ratios, fastest(medians, paper, sizes))
    report.table(study, f"{name}_seconds", "  seconds of ours, by phase", _phases(rows, names, sizes))
    report.write_rows(study, f"{name}_instances", [row | {"size": _by(row["size"])} for row in rows])


def fastest(medians: dict[tuple[object, ...], Row], paper: Times, sizes: Sequence[Size]) -> str:
    """Return a sentence on the sizes at which GPower is fastest, and faster than svds alone."""
    ours = [method for method in paper if method.startswith("GPower")]
    others = [method for method in paper if method not in ours]

    def seconds(methods: Sequence[str], size: Size) -> list[float]:
        return [medians[method, size]["seconds"] for method in methods]

    ahead = [size for size in sizes if max(seconds(ours, size)) < min(seconds(others, size))]
    before = [size for size in sizes if max(seconds(ours, size)) < min(seconds([SVDS], size))]
    return (
        f"published: GPower is the fastest at every size. ours: all its {len(ours)} variants are at {_list(ahead)}; "
        f"all end before svds alone does at {_list(before)}."
    )


def _phases(rows: Sequence[Row], names: Sequence[str], sizes: Sequence[Size]) -> list[Row]:
    """Return medians by phase, or of the total for a method without phases."""
    parted = [row for row in rows if PHASES[0] in row]
    medians = report.median_by(rows, ("method", "size"), ("seconds",))
    phases = report.median_by(parted, ("method", "size"), (*PHASES, "steps", "cardinality"))
    return [
        {"size": _by(size), "method": name, "seconds": medians[name, size]["seconds"]} | phases.get((name, size), {})
        for size in sizes
        for name in names
    ]


def _by(size: Sequence[int]) -> str:
    return f"{size[0]}x{size[1]}"


def _list(sizes: Sequence[Size]) -> str:
    return ", ".join(map(_by, sizes)) or "no size"
