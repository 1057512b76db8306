"""Five components: adjusted variance against cardinality, before and after post-processing."""

from __future__ import annotations

from experiments.journee2010 import published, report
from experiments.journee2010.methods import SEVERAL
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import CARDINALITIES, LEVELS, SHAPE, curve, sweep
from gpower.datasets import gaussian
from gpower.plotting.style import get_panels, label_axes

NAME, M = "several_tradeoff", 5
SHOWN = (8, 20, 45, 90, 160)
KINDS = {
    "variance": "as the methods return them",
    "postprocessed": "after Algorithm 6 (sum of norms)",
    "postprocessed_by_variance": "filled for the sum of squares",
}


def run(study: Study) -> None:
    """Run the methods for five components, for which the claim is that of Figure 1."""
    keys = [{"seed": seed} for seed in range(100 if study.full else 3)]
    rows = study.instances(NAME, keys, _sweep)
    found = [
        {"method": method.name, "as": kind}
        | {f"k={k}": float(v) for k, v in zip(SHOWN, curve(rows, method.name, kind, SHOWN, scale=M), strict=True)}
        for kind in KINDS
        for method in SEVERAL
    ]
    p, n = SHAPE
    title = f"Five components, {p} x {n}: adjusted variance over that of PCA, k variables each, mean of {len(keys)}"
    note = (
        f"published: all GPower methods and {published.RSVD_L0} above {published.SPCA} and {published.RSVD_L1}; "
        "equal after post-processing. No figure is printed."
    )
    report.table(study, NAME, title, found, note)
    report.write_rows(study, f"{NAME}_instances", rows)
    _draw(study, rows)


def _sweep(seed: int) -> list[Row]:
    return sweep(gaussian(*SHAPE, random_state=seed), SEVERAL, CARDINALITIES[2:-1], M, LEVELS[::2])


def _draw(study: Study, rows: list[Row]) -> None:
    panels = get_panels(None, 1, 3, 11.5, 3.8, sharey=True)[0]
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for method in SEVERAL:
            line = curve(rows, method.name, kind, CARDINALITIES, scale=M)
            panel.plot(CARDINALITIES, line, **report.look(method.name))
        panel.set_title(title, fontsize=9)
        label_axes(panel, "variables per component", "")
    panels[0].set_ylabel("adjusted variance / that of PCA", fontsize=9)
    report.legend(panels, len(SEVERAL))
    report.picture(study, NAME, panels)
