"""The cohorts, and the times of ten components averaged over all sparsities."""

from __future__ import annotations

from experiments.journee2010 import published, report
from experiments.journee2010.genes import METHODS, cohort, names, runs
from experiments.journee2010.study import Row, Study


def run(study: Study) -> None:
    """Print both tables."""
    _cohorts(study)
    rows = [row for row in runs(study) if row["method"] != published.PCA]
    report.write_rows(study, "genes_instances", rows)
    means = report.mean_by(rows, ("method", "cohort"), ("seconds",))
    found: list[Row] = []
    for method in METHODS:
        row: Row = {"method": method}
        for i, name in enumerate(published.COHORTS):
            row[name] = published.COHORT_TIMES[method][i] / published.COHORT_TIMES[published.GPOWER_L1][i]
        for name in names(study):
            row[f"{name}, s"] = means[method, name]["seconds"]
            row[f"{name}, x"] = means[method, name]["seconds"] / means[published.GPOWER_L1, name]["seconds"]
        found.append(row)
    title = "Ten components, times averaged over all sparsities: published relative to GPower l1, then ours"
    report.table(study, "table_gene_times", title, found)


def _cohorts(study: Study) -> None:
    rows: list[Row] = [
        {"cohort": f"{name} (published)", "samples": p, "genes": n, "pathways": published.N_PATHWAYS}
        | {"motifs": published.N_MOTIFS}
        for name, (p, n) in published.COHORTS.items()
    ]
    for name in names(study):
        found = cohort(study, name)
        p, n = found.A.shape
        sets = {"pathways": len(found.pathways), "motifs": len(found.motifs)}
        rows.append({"cohort": name, "samples": p, "genes": n} | sets)
    why = "synthetic, with planted gene sets" if study.data is None else f"from {study.data.name}/"
    note = f"The paper's own cohorts are not part of this run; the others are {why}."
    report.table(study, "table_cohorts", "Cohorts", rows, note)
