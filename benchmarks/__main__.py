"""``python -m benchmarks``: time GPower and other solvers, and print the ratios."""

from __future__ import annotations

import argparse
import os
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import threadpoolctl

from benchmarks.cases import Case, cases
from benchmarks.datasets import Dataset
from benchmarks.plots import plot
from benchmarks.report import Log, machine_line, print_case, print_floors
from benchmarks.rulers import Measurement, compete
from benchmarks.sections import SECTIONS, Run

#: Groups of cases and sections; ``--only`` also looks at the names of datasets and problems.
PARTS = ("single", "five", "factor", "expression", "tall", "sklearn", "large", *SECTIONS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="everything, with more repeats")
    parser.add_argument("--quick", action="store_true", help="without 2000 x 40000")
    parser.add_argument("--only", metavar="PATTERN", help=f"regular expression of what to run: {', '.join(PARTS)}")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="a real table: array X, samples x genes")
    parser.add_argument("--repeats", type=int, metavar="N", help="timed repeats of each solver (5; --full: 11)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="threads of BLAS and OpenMP")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    return parser.parse_args()


@lru_cache(maxsize=1)
def load(dataset: Dataset) -> Any:
    """Return the table of a dataset; the last table is cached."""
    return dataset.make()


def run_case(case: Case, repeats: int, budget: float, log: Log) -> list[Measurement]:
    """Measure one case, print it and log it."""
    measured = compete(case.group, case.dataset.name, load(case.dataset), case.problem, case.solvers, repeats, budget)
    print_case(case.name, measured)
    for row in measured:
        log.add_measurement(row)
    return measured


def main() -> None:
    """Run the cases, the sections and the goals; results are written even if the run is interrupted."""
    options, begin = arguments(), time.perf_counter()
    wanted = re.compile(options.only or "", re.IGNORECASE)
    repeats = options.repeats or (11 if options.full else 5)
    budget = 20.0 if options.full else 2.0  # seconds of timed runs per solver and case
    options.output.mkdir(parents=True, exist_ok=True)
    log, measured = Log(), []
    with threadpoolctl.threadpool_limits(options.threads):
        machine = machine_line(options.threads)
        print(machine, end="\n\n")
        try:
            for case in cases(options.data, options.full, options.quick):
                if wanted.search(case.name):
                    measured += run_case(case, repeats, budget, log)
            for name, section in SECTIONS.items():
                if wanted.search(name):
                    print(f"{name}: {(section.__doc__ or '').splitlines()[0]}")
                    section(Run(options.full, repeats, log))
        finally:
            print_floors(measured)
            log.write(options.output / "measurements.csv", machine)
            plot(measured, options.output / "times.png", machine)
    print(f"{machine}\nWritten to {options.output} after {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
