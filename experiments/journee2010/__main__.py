"""``python -m experiments.journee2010``: every table and figure of section 5, published and measured.

Before them, the geometry of section 2 is drawn.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from pathlib import Path

import threadpoolctl
from benchmarks.report import machine_line

from experiments.journee2010.study import Study

#: One script each, in the order of the paper.
PARTS = {
    "geometry": "why a penalty makes zeros, drawn for two samples",
    "figure1": "variance against cardinality",
    "figure2": "cardinality against the penalty",
    "figure3": "time against cardinality, greedy selection against the rest",
    "tables_single": "times for one component, two tables",
    "figure4": "variance and cardinality in the course of the computation",
    "table_five": "times for five components",
    "several_tradeoff": "variance against cardinality, five components",
    "several_spectrum": "block against deflation as eigenvalues approach each other",
    "tables_genes": "gene expression: cohorts and times",
    "figure5": "gene expression: adjusted variance against cardinality",
    "tables_enrichment": "gene expression: pathway enrichment, two tables",
    "tables_equal": "gene expression: all of it with the same number of genes in every component",
}


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parts = "; ".join(f"{name}: {words}" for name, words in PARTS.items())
    parser = argparse.ArgumentParser(prog="python -m experiments.journee2010", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the paper's sizes and repetitions: hours, resumable")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="NAME", help=f"one part, or several: {parts}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="real cohorts (.npz: X, genes) and gene sets (.gmt)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default experiments/journee2010/results/reduced")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of BLAS and OpenMP (default 1)")
    return parser.parse_args()


def main() -> None:
    """Run the requested parts; finished instances of an earlier run are reused."""
    options, begin = arguments(), time.perf_counter()
    name = ("full" if options.full else "reduced") + ("-data" if options.data else "")
    output: Path = options.output or Path("experiments/journee2010/results") / name
    output.mkdir(parents=True, exist_ok=True)
    with threadpoolctl.threadpool_limits(options.threads):
        study = Study(options.full, output, machine_line(options.threads), options.data)
        print(f"{study.environment}\n")
        for name in options.only or PARTS:
            import_module(f"experiments.journee2010.{name}").run(study)
    print(f"Written to {output} after {time.perf_counter() - begin:.0f} s; remove that folder to begin anew.")


if __name__ == "__main__":
    main()
