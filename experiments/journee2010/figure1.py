"""Figure 1: variance of one component against its cardinality, before and after post-processing."""

from __future__ import annotations

from typing import Any

from experiments.journee2010 import published, report
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import CARDINALITIES, SHAPE, SINGLE, curve, single_sweeps
from gpower.plotting.style import get_panels, label_axes

NAME = "figure1"
UPPER = (published.GPOWER_L1, published.GPOWER_L0, published.GREEDY, published.RSVD_L0)
LOWER = (published.SPCA, published.RSVD_L1)
SHOWN = (5, 12, 20, 45, 90, 160)


def run(study: Study) -> None:
    """Run the methods: two groups of the paper, and one group after post-processing."""
    rows = single_sweeps(study)
    shares = [
        {"group": "upper" if method.name in UPPER else "lower", "method": method.name, "as": kind}
        | {f"k={k}": float(v) for k, v in zip(SHOWN, curve(rows, method.name, kind, SHOWN), strict=True)}
        for kind in ("variance", "unfilled", "postprocessed")
        for method in SINGLE
        if kind != "unfilled" or method.name == published.GPOWER_L1
    ]
    p, n = SHAPE
    title = f"Figure 1: variance over that of the first principal component, {p} x {n}, mean of {_count(rows)} matrices"
    claim = f"published: {', '.join(UPPER)} above {' and '.join(LOWER)}; all equal after post-processing."
    report.table(study, NAME, title, shares, f"{claim}\n  ours: {verdict(shares)}")
    report.write_rows(study, f"{NAME}_instances", rows)
    draw(study, rows)


def _count(rows: list[Row]) -> int:
    return len({row["seed"] for row in rows})


def verdict(shares: list[Row]) -> str:
    """Return a sentence on the distances between and within the groups."""

    def values(group: str, kind: str, k: int) -> list[float]:
        return [row[f"k={k}"] for row in shares if row["group"] == group and row["as"] == kind]

    gaps = [min(values("upper", "variance", k)) - max(values("lower", "variance", k)) for k in SHOWN]
    after = [values("upper", "postprocessed", k) + values("lower", "postprocessed", k) for k in SHOWN]
    spread = [max(found) - min(found) for found in after]
    return (
        f"the upper group leads by {min(gaps):+.3f} to {max(gaps):+.3f} at these cardinalities; "
        f"after post-processing all lie within {min(spread):.3f} to {max(spread):.3f}."
    )


def draw(study: Study, rows: list[Row]) -> None:
    """Draw the published figure on the left, and all methods after post-processing on the right."""
    panels = get_panels(None, 1, 2, 9.5, 3.9, sharey=True)[0]
    titles = ("as the methods return them", "after post-processing")
    for panel, kind, title in zip(panels, ("variance", "postprocessed"), titles, strict=True):
        for method in SINGLE:
            _line(panel, rows, method.name, kind, report.look(method.name))
        panel.set_title(title, fontsize=9)
        label_axes(panel, "cardinality", "")
    unfilled = {"color": "0.5", "linestyle": ":", "linewidth": 1.3, "label": "GPower ℓ1, not filled"}
    _line(panels[0], rows, published.GPOWER_L1, "unfilled", unfilled)
    panels[0].set_ylabel("variance / variance of PCA", fontsize=9)
    panels[0].legend(fontsize=8, frameon=False)
    report.picture(study, NAME, panels)


def _line(panel: Any, rows: list[Row], method: str, kind: str, look: dict[str, Any]) -> None:
    panel.plot(CARDINALITIES, curve(rows, method, kind, CARDINALITIES), **look)
