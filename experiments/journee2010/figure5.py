"""Figure 5: adjusted variance of ten components of a cohort against their cardinality."""

from __future__ import annotations

from experiments.journee2010 import report
from experiments.journee2010.genes import CARDINALITIES, METHODS, M, names, runs
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import curve
from gpower.plotting.style import get_panels, label_axes, set_cardinality_axis

NAME = "figure5"
SHOWN = (10, 50, 200, 500)
KINDS = {"variance": "as the methods return them", "postprocessed": "after Algorithm 6"}


def run(study: Study) -> None:
    """Draw one row of panels per cohort; the paper shows one cohort and states that the others are similar."""
    rows = runs(study)
    cohorts = names(study)
    found = [
        {"cohort": name, "method": method, "as": kind}
        | {f"k={k}": float(v) for k, v in zip(SHOWN, _curve(rows, name, method, kind, SHOWN), strict=True)}
        for name in cohorts
        for kind in (*KINDS, "postprocessed_by_variance")
        for method in METHODS
    ]
    note = "published: all methods equal, SPCA and rSVD l1 after post-processing."
    report.table(study, NAME, "Figure 5: adjusted variance over that of PCA, k genes each, ten components", found, note)
    panels = get_panels(None, len(cohorts), 2, 9.5, 3.2 * len(cohorts), sharey="row", sharex=True)
    for line, name in zip(panels, cohorts, strict=True):
        for panel, (kind, title) in zip(line, KINDS.items(), strict=True):
            for method in METHODS:
                panel.plot(CARDINALITIES, _curve(rows, name, method, kind, CARDINALITIES), **report.look(method))
            panel.set_title(f"{name}: {title}", fontsize=9)
            label_axes(panel, "", "")
            set_cardinality_axis(panel, CARDINALITIES, "genes per component (mean)")
        line[0].set_ylabel("adjusted variance / that of PCA", fontsize=9)
    for panel in panels[:-1].ravel():
        panel.set_xlabel("")
    report.legend(panels, 8)
    report.picture(study, NAME, panels)


def _curve(rows: list[Row], name: str, method: str, kind: str, at: tuple[int, ...]) -> list[float]:
    own = [row for row in rows if row["cohort"] == name]
    return curve(own, method, kind, at, instance="cohort", scale=M).tolist()
