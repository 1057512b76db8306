"""Figure 3: the time of one component against its cardinality, for greedy selection and the other methods."""

from __future__ import annotations

import numpy as np

from experiments.journee2010 import published, report
from experiments.journee2010.study import Study
from experiments.journee2010.sweeps import CARDINALITIES, SHAPE, SINGLE, curve, single_sweeps
from gpower.plotting.style import get_panels, label_axes

NAME = "figure3"
SHOWN = (5, 20, 45, 90, 160, 250)


def run(study: Study) -> None:
    """Measure seconds, and reads of the matrix, which do not depend on the machine."""
    rows = single_sweeps(study)
    found = [
        {"method": method.name, "of": value}
        | {f"k={k}": float(v) for k, v in zip(SHOWN, curve(rows, method.name, value, SHOWN), strict=True)}
        for value in ("seconds", "passes")
        for method in SINGLE
    ]
    p, n = SHAPE
    title = f"Figure 3: time of one component of a {p} x {n} matrix, and reads of the matrix"
    report.table(study, NAME, title, found, f"published: only Greedy slows down with the cardinality. {_growth(found)}")
    panels = get_panels(None, 1, 2, 9.5, 3.6)[0]
    for panel, value, words in zip(panels, ("seconds", "passes"), ("seconds", "reads of the matrix"), strict=True):
        for method in SINGLE:
            panel.plot(CARDINALITIES, curve(rows, method.name, value, CARDINALITIES), **report.look(method.name))
        panel.set_yscale("log")
        label_axes(panel, "cardinality", words)
    report.legend(panels, len(SINGLE))
    report.picture(study, NAME, panels)


def _growth(found: list[dict[str, float | str]]) -> str:
    def ratio(row: dict[str, float | str]) -> float:
        return float(row[f"k={SHOWN[-1]}"]) / float(row[f"k={SHOWN[0]}"])

    seconds = {row["method"]: ratio(row) for row in found if row["of"] == "seconds"}
    greedy = seconds.pop(published.GREEDY)
    others = np.array(list(seconds.values()))
    first, last = SHOWN[0], SHOWN[-1]
    return f"ours, k={last} over k={first}: Greedy {greedy:.0f}, the others {others.min():.1f} to {others.max():.1f}."
