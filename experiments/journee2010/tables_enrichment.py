"""The two tables of the pathway enrichment index, and the index at equal cardinality."""

from __future__ import annotations

from experiments.journee2010 import published, report
from experiments.journee2010.genes import CARDINALITIES, METHODS, M, names, runs
from experiments.journee2010.published import Columns
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import curve
from gpower.plotting.style import get_panels, label_axes, set_cardinality_axis

NAME = "tables_enrichment"
SHOWN = (20, 50, 100, 200, 500)
TABLES = {
    "pathways": (published.PATHWAY_INDEX, published.N_PATHWAYS),
    "motifs": (published.MOTIF_INDEX, published.N_MOTIFS),
}
EVERY = (published.PCA, *METHODS)


def run(study: Study) -> None:
    """Print the largest index over all sparsities, as published, then the index at equal numbers of genes."""
    rows = runs(study)
    for collection, (paper, count) in TABLES.items():
        title = f"Pathway enrichment index, {collection} ({count} published): the largest over all sparsities"
        note = "published: PCA far below, blocks best. Ours, with the genes per component where it is attained."
        report.table(study, f"table_{collection}", title, _largest(study, rows, collection, paper), note)
        at_equal = _at_equal(study, rows, collection)
        title = f"  {collection}: the index at equal numbers of genes per component"
        report.table(study, f"table_{collection}_equal", title, at_equal, _leaders(at_equal))
    _draw(study, rows)


def _largest(study: Study, rows: list[Row], collection: str, paper: Columns) -> list[Row]:
    found = []
    for method in EVERY:
        row: Row = {"method": method} | dict(zip(published.COHORTS, paper[method], strict=True))
        for name in names(study):
            own = [r for r in rows if (r["cohort"], r["method"]) == (name, method) and r["k"] <= CARDINALITIES[-1]]
            best = max(own, key=lambda r: r[collection])
            row[name] = f"{best[collection]:.4f} at {best['k']:.0f}"
        found.append(row)
    return found


def _at_equal(study: Study, rows: list[Row], collection: str) -> list[Row]:
    return [
        {"cohort": name, "method": method}
        | {f"k={k}": float(v) for k, v in zip(SHOWN, _curve(rows, name, method, collection, SHOWN), strict=True)}
        for name in names(study)
        for method in EVERY
    ]


def _leaders(at_equal: list[Row]) -> str:
    """Count how often each method has the largest index, over cohorts and cardinalities."""
    places = [(name, f"k={k}") for name in dict.fromkeys(row["cohort"] for row in at_equal) for k in SHOWN]
    wins = dict.fromkeys(EVERY, 0)
    for name, k in places:
        own = [row for row in at_equal if row["cohort"] == name and row[k] == row[k]]
        best = max(row[k] for row in own)
        for row in own:
            wins[row["method"]] += row[k] == best
    shown = ", ".join(f"{method} {count}" for method, count in wins.items() if count)
    return f"largest (ties counted for all) in {len(places)} comparisons: {shown}."


def _curve(rows: list[Row], name: str, method: str, value: str, at: tuple[int, ...]) -> list[float]:
    own = [row for row in rows if row["cohort"] == name]
    return curve(own, method, value, at, instance="cohort", scale=M).tolist()


def _draw(study: Study, rows: list[Row]) -> None:
    cohorts = names(study)
    panels = get_panels(None, len(cohorts), 2, 9.5, 3.2 * len(cohorts), sharex=True)
    for line, name in zip(panels, cohorts, strict=True):
        for panel, collection in zip(line, TABLES, strict=True):
            for method in EVERY:
                line_of = _curve(rows, name, method, collection, CARDINALITIES)
                panel.plot(CARDINALITIES, line_of, **report.look(method))
            panel.set_title(f"{name}: {collection}", fontsize=9)
            label_axes(panel, "", "share of the sets enriched")
            set_cardinality_axis(panel, CARDINALITIES, "genes per component (mean)")
    for panel in panels[:-1].ravel():
        panel.set_xlabel("")
    report.legend(panels, 8)
    report.picture(study, NAME, panels)
