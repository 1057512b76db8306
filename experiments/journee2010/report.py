"""Tables and figures of one experiment: printed, and written as CSV, PNG and PDF."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from benchmarks.report import print_table

from experiments.journee2010 import published
from experiments.journee2010.study import Row, Study
from gpower.plotting import save_figure
from gpower.plotting.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

#: Colour and marker of each method, the same in all pictures; solid lines are the paper's own methods.
LOOKS: dict[str, dict[str, Any]] = {
    published.GPOWER_L1: {"color": BLUE, "marker": "o"},
    published.GPOWER_L0: {"color": SKY, "marker": "s"},
    published.BLOCK_L1: {"color": GREEN, "marker": "D"},
    published.BLOCK_L0: {"color": BLACK, "marker": "X"},
    published.GREEDY: {"color": BLACK, "marker": "*"},
    published.SPCA: {"color": ORANGE, "marker": "^", "linestyle": "--"},
    published.RSVD_L1: {"color": VERMILION, "marker": "v", "linestyle": "--"},
    published.RSVD_L0: {"color": PURPLE, "marker": "P", "linestyle": "--"},
    published.PCA: {"color": "0.45", "marker": "", "linestyle": ":"},
}
MARKER_SIZE = 4


def label(name: str) -> str:
    """Return the name of a method in figures and pages."""
    return name.replace("l1", "ℓ1").replace("l0", "ℓ0")


def look(name: str) -> dict[str, Any]:
    """Return the keywords of a method's curve, with its label."""
    return {"markersize": MARKER_SIZE, "linewidth": 1.3, "label": label(name)} | LOOKS[name]


def write_rows(study: Study, name: str, rows: Sequence[Row]) -> None:
    """Write rows as CSV, with the machine in a comment above."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with (study.output / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {study.environment}\n")
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def table(study: Study, name: str, title: str, rows: Sequence[Row], note: str = "") -> None:
    """Print a table and write it; the columns are the keys of the rows, a missing value is a dash."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    print(title)
    print_table((*columns, ""), [(*(row.get(column, math.nan) for column in columns), "") for row in rows])
    if note:
        print(f"  {note}\n")
    write_rows(study, name, rows)


def picture(study: Study, name: str, axes: Any) -> None:
    """Write a figure as PNG and PDF, with the machine in small print below."""
    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    figure.text(0.5, -0.02, study.environment, ha="center", va="top", fontsize=4, color="0.5")
    figure.savefig(study.output / f"{name}.png", dpi=150, bbox_inches="tight")
    save_figure(axes, study.output / f"{name}.pdf")


def legend(axes: Any, n_columns: int) -> None:
    """Draw one legend for all panels above them."""
    first = np.ravel(np.asarray(axes, dtype=object))[0]
    place = {"loc": "outside upper center", "ncols": n_columns, "frameon": False, "fontsize": 8}
    first.figure.legend(*first.get_legend_handles_labels(), **place)


def mean_by(rows: Iterable[Row], by: Sequence[str], values: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    """Return means of some values over the rows that agree in `by`, with their number as "instances"."""
    return _over_groups(rows, by, values, fmean)


def median_by(rows: Iterable[Row], by: Sequence[str], values: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    """Return medians of some values over the rows that agree in `by`, for times, which vary with other work."""
    return _over_groups(rows, by, values, median)


def _over_groups(
    rows: Iterable[Row], by: Sequence[str], values: Sequence[str], average: Callable[[Iterable[float]], float]
) -> dict[tuple[Any, ...], Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_hashable(row[name]) for name in by), []).append(row)
    return {
        key: {value: average([row[value] for row in group]) for value in values} | {"instances": len(group)}
        for key, group in groups.items()
    }


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
