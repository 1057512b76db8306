"""Tables in the terminal, goals for the ratios, a CSV file of all measurements, and the line that names the machine."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

import gpower
from benchmarks.datasets import TABLE_FIVE, TABLE_RATIO, TABLE_WIDTH
from benchmarks.rulers import Measurement


def machine_line(threads: int) -> str:
    """Return the processor, cores, threads, versions and date."""
    blas = {f"{pool['internal_api']} {pool['version']}" for pool in threadpoolctl.threadpool_info() if pool["version"]}
    packages = [f"gpower {gpower.__version__}"]
    packages += [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    parts = [_processor(), f"{os.cpu_count()} cores", f"{threads} threads", f"Python {platform.python_version()}"]
    return ", ".join([*parts, *packages, *sorted(blas), date.today().isoformat()])


def _processor() -> str:
    """Return the name of the processor if the system reports it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print aligned columns, the first and the last to the left, the others to the right."""
    lines = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        middle = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        print("  " + "  ".join([line[0].ljust(widths[0]), *middle, line[-1]]).rstrip())
    print(flush=True)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        if np.isnan(value):
            return "-"
        return "0" if abs(value) < 1e-9 else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def print_case(name: str, measured: Sequence[Measurement]) -> None:
    """Print every solver of one case; "x" is its time relative to the reference."""
    print(name)
    ours = measured[0]
    rows = [
        (
            *(row.solver, row.seconds, len(row.times), row.seconds / ours.seconds),
            *(row.passes, row.objective / ours.objective),
            *(100 * row.variance, row.cardinality, row.memory / 1e6, row.note[:90]),
        )
        for row in measured
    ]
    print_table(("solver", "seconds", "runs", "x", "passes", "f / ours", "variance %", "nnz", "MB", ""), rows)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(values))))


@dataclass(frozen=True)
class Floor:
    """A ratio to hold: time of a rival over ours, over some cases.

    `floor` None: shown, nothing promised. `problem` are attributes that the problems of the cases have.
    """

    name: str
    floor: float | None
    groups: tuple[str, ...]
    shapes: frozenset[tuple[int, int]] | None = None
    problem: dict[str, Any] = field(default_factory=dict)
    rival: str = "translation"
    ours: str = "gpower"
    by: Callable[[Sequence[float]], float] = geometric_mean

    def ratios(self, measured: Sequence[Measurement]) -> list[float]:
        """Return the ratio of every case that counts."""
        times = {
            (row.group, row.dataset, row.problem, row.solver): row.seconds for row in measured if self._counts(row)
        }
        return [
            times[*case, self.rival] / seconds
            for (*case, name), seconds in times.items()
            if name == self.ours and (*case, self.rival) in times
        ]

    def _counts(self, row: Measurement) -> bool:
        return (
            row.group in self.groups
            and (self.shapes is None or row.shape in self.shapes)
            and all(getattr(row.problem, name) == value for name, value in self.problem.items())
            and bool(row.times)
        )


def _from_500x5000(sizes: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    return frozenset((p, n) for p, n in sizes if p >= 500 and n >= 5000)


SINGLE, FIVES = _from_500x5000(TABLE_RATIO + TABLE_WIDTH), _from_500x5000(TABLE_FIVE)
FLOORS = (
    Floor("one unit, from 500x5000, l1", 5, ("single",), SINGLE, {"penalty": "l1"}),
    Floor("one unit, from 500x5000, l0", 3, ("single",), SINGLE, {"penalty": "l0"}),
    Floor("m=5 deflation, from 500x5000", 3, ("five",), FIVES, {"method": "deflation"}),
    Floor("m=5 deflation, from 500x5000, l1", None, ("five",), FIVES, {"method": "deflation", "penalty": "l1"}),
    Floor("m=5 deflation, from 500x5000, l0", None, ("five",), FIVES, {"method": "deflation", "penalty": "l0"}),
    Floor("m=5 block, from 500x5000", 3, ("five",), FIVES, {"method": "block"}),
    Floor("m=5 block, from 500x5000, l1", None, ("five",), FIVES, {"method": "block", "penalty": "l1"}),
    Floor("m=5 block, from 500x5000, l0", None, ("five",), FIVES, {"method": "block", "penalty": "l0"}),
    Floor("2000x40000, l1", 10, ("large",), None, {"penalty": "l1"}),
    Floor("2000x40000, l0", 5, ("large",), None, {"penalty": "l0"}),
    Floor("factor model, one unit, minimum", 1, ("factor",), None, {"n_components": 1}, by=min),
    Floor("factor model, m=5, minimum", 1, ("factor",), None, {"n_components": 5}, by=min),
    Floor("all sizes of the tables, minimum", 0.9, ("single", "five"), by=min),
    Floor("real expression data", None, ("expression",)),
    Floor("tall", None, ("tall",)),
    Floor("sparse", None, ("sparse",)),
    Floor("MiniBatchSparsePCA", 30, ("sklearn",), rival="sklearn MiniBatchSparsePCA", by=min),
    Floor("SparsePCA", 1000, ("sklearn",), rival="sklearn SparsePCA", by=min),
    Floor(
        "SparsePCA / all defaults", 50, ("sklearn",), rival="sklearn SparsePCA", ours="gpower (all defaults)", by=min
    ),
)


def print_floors(measured: Sequence[Measurement]) -> None:
    """Print the ratios by groups, and whether they reach their goals."""
    rows = []
    for floor in FLOORS:
        if ratios := floor.ratios(measured):
            value, aim = floor.by(ratios), floor.floor
            rows.append((floor.name, value, min(ratios), max(ratios), len(ratios), *_against(value, aim)))
    if rows:
        print("Ratios: time of the translation (or of the peer named) / time of GPower")
        print_table(("cases", "ratio", "min", "max", "count", "floor", ""), rows)
    for groups, median, most in ((("single", "large"), 9, 15), (("factor",), 6, 6)):
        if passes := [row.passes for row in measured if _counts_passes(row, groups)]:
            found = f"median {np.median(passes):.1f} (at most {median}), maximum {max(passes):.1f} (at most {most})"
            print(f"Passes of GPower for one unit, {' and '.join(groups)}, above 250 000 entries: {found}\n")
    print_variances([row for row in measured if row.group == "sklearn"])


def _counts_passes(row: Measurement, groups: tuple[str, ...]) -> bool:
    """Return whether a case has one unit and a matrix large enough for rounds."""
    one, large = row.problem.n_components == 1, row.shape[0] * row.shape[1] > 250_000
    return row.group in groups and row.solver == "gpower" and one and large


def print_variances(measured: Sequence[Measurement]) -> None:
    """Print the explained variance of the other solvers relative to the reference at equal cardinality."""
    ours = {(row.dataset, row.problem): row.variance for row in measured if row.solver == "gpower"}
    for row in measured:
        if row.solver != "gpower" and row.times:
            share = row.variance / ours[row.dataset, row.problem]
            print(f"Explained variance at equal cardinality, {row.dataset}, {row.solver}: {share:.2f} of GPower's")


def _against(value: float, floor: float | None) -> tuple[str, str]:
    return ("", "") if floor is None else (f"{floor:g}", at_least(value, floor))


def at_least(value: float, floor: float) -> str:
    """Return "ok" if a value is at least its goal, else "BELOW"."""
    return "ok" if value >= floor else "BELOW"


def at_most(value: float, ceiling: float) -> str:
    """Return "ok" if a value is at most its goal, else "ABOVE"."""
    return "ok" if value <= ceiling else "ABOVE"


class Log:
    """All measurements as rows: section, dataset, problem, solver, repeat, ruler, value, note."""

    HEAD = ("section", "dataset", "problem", "solver", "repeat", "ruler", "value", "note")

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def add(self, where: tuple[str, str, str, str], ruler: str, value: float, repeat: Any = "", note: str = "") -> None:
        """Add one number of a (section, dataset, problem, solver)."""
        self.rows.append((*where, repeat, ruler, f"{value:.10g}", note))

    def add_measurement(self, row: Measurement) -> None:
        """Add all numbers of one solver on one case."""
        where = (row.group, row.dataset, row.problem.label, row.solver)
        for repeat, seconds in enumerate(row.times):
            self.add(where, "seconds", seconds, repeat)
        for ruler, value in row.values().items():
            self.add(where, ruler, value, note=row.note)

    def write(self, path: Path, machine: str) -> None:
        """Write the rows as CSV, with the machine in the first row."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.HEAD)
            writer.writerow(("machine", *[""] * 6, machine))
            writer.writerows(self.rows)
