"""Figure 2: cardinality against γ/‖a_i*‖ (ℓ1) and √γ/‖a_i*‖ (ℓ0), under one theoretical bound."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from experiments.journee2010 import published, report
from experiments.journee2010.study import Study
from experiments.journee2010.sweeps import LEVELS, SHAPE, single_sweeps
from gpower.datasets import gaussian
from gpower.plotting.style import get_single_panel, label_axes

NAME = "figure2"
METHODS = (published.GPOWER_L1, published.GPOWER_L0)


def run(study: Study) -> None:
    """Compare the cardinality with its bound: variables whose column norm is below the threshold are zero."""
    rows = [row | {"bound": bound(**row)} for row in single_sweeps(study) if row["method"] in METHODS]
    means = report.mean_by(rows, ("method", "level"), ("cardinality", "bound"))
    rows_out = [
        {"level": level, "bound": means[METHODS[0], level]["bound"]}
        | {method: means[method, level]["cardinality"] for method in METHODS}
        for level in LEVELS
    ]
    above = sum(row["cardinality"] > row["bound"] for row in rows)
    p, n = SHAPE
    title = f"Figure 2: cardinality against the normalised penalty, {p} x {n}"
    note = f"published: cardinality below the bound. ours: {above} of {len(rows)} solutions above it."
    report.table(study, NAME, title, rows_out, note)
    axes = get_single_panel(None)
    for method in METHODS:
        axes.plot(LEVELS, [row[method] for row in rows_out], **report.look(method))
    axes.plot(LEVELS, [row["bound"] for row in rows_out], color="0.3", linestyle=":", label="theoretical upper bound")
    label_axes(axes, r"$\gamma/\|a_{i^*}\|$  (ℓ1),   $\sqrt{\gamma}/\|a_{i^*}\|$  (ℓ0)", "cardinality")
    axes.legend(fontsize=8, frameon=False)
    report.picture(study, NAME, axes)


def bound(seed: int, level: float, **_: object) -> int:
    """Return the number of columns longer than the threshold; all others are zero."""
    norms = _norms(seed)
    return int(np.count_nonzero(norms > level * norms.max()))


@lru_cache
def _norms(seed: int) -> np.ndarray:
    return np.linalg.norm(gaussian(*SHAPE, random_state=seed), axis=0)
