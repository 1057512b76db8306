"""Plot time against size, with a panel per problem and a line per solver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.rulers import Measurement

PER_ROW = 3  # panels; more would be too small on a page


def plot(measured: Sequence[Measurement], path: Path, machine: str) -> None:
    """Plot the times on Gaussian tables, with logarithmic axes."""
    rows = [row for row in measured if row.group in ("single", "five", "large", "sklearn") and row.times]
    panels = sorted({_panel(row) for row in rows}, key=lambda panel: (len(panel), panel))
    if not panels:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = {name: f"C{j}" for j, name in enumerate(dict.fromkeys(row.solver for row in rows))}
    n_rows = -(-len(panels) // PER_ROW)
    figure, axes = plt.subplots(n_rows, PER_ROW, figsize=(3.5 * PER_ROW, 1 + 3.2 * n_rows), sharey=True, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, panel in zip(axes.flat, panels, strict=False):
        for name, color in colors.items():
            points = defaultdict(list)
            for row in rows:
                if (_panel(row), row.solver) == (panel, name):
                    points[row.shape[0] * row.shape[1]].append(row.seconds)
            seconds = [median(points[size]) for size in sorted(points)]
            axis.loglog(sorted(points), seconds, "o-", ms=4, color=color, label=name)
        axis.set(title=panel, xlabel="entries of the matrix")
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, frameon=False)
    figure.suptitle(machine, fontsize=5)
    figure.tight_layout(rect=(0, 0.1, 1, 0.98))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(row: Measurement) -> str:
    problem = row.problem
    return problem.penalty if problem.n_components == 1 else f"{problem.penalty}, m=5, {problem.method}"
