"""Blocks compared with deflation as the leading eigenvalues approach each other: the paper's reason for blocks."""

from __future__ import annotations

import numpy as np

from experiments.journee2010 import report
from experiments.journee2010.methods import BLOCK_L0, BLOCK_L1, GPOWER_L0, GPOWER_L1
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import measured
from gpower.datasets import gaussian
from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.plotting.style import get_panels, label_axes

NAME, M = "several_spectrum", 5
SHAPE = (100, 1000)
#: λ_{j+1}/λ_j of the five leading eigenvalues.
RATIOS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
#: No penalty (the power method itself), and the penalty of the timing tables.
LEVELS = (0.0, 0.1)
METHODS = (GPOWER_L1, BLOCK_L1, GPOWER_L0, BLOCK_L0)


def run(study: Study) -> None:
    """Measure steps, reads of the matrix and adjusted variance of both schemes."""
    keys = [{"ratio": ratio, "seed": seed} for ratio in RATIOS for seed in range(50 if study.full else 5)]
    rows = study.instances(NAME, keys, instance)
    values = ("steps", "passes", "variance", "cardinality")
    means = report.mean_by(rows, ("method", "level", "ratio"), values)
    found = [
        {"level": level, "method": method.name, "of": value}
        | {f"{ratio:g}": means[method.name, level, ratio][value] for ratio in RATIOS}
        for level in LEVELS
        for value in values
        for method in METHODS
    ]
    p, n = SHAPE
    title = f"Block against deflation, five components, {p} x {n}: columns are the ratio of successive eigenvalues"
    note = "published (section 1): blocks are expected to be more efficient where eigenvalues are close. No figure."
    report.table(study, NAME, title, found, note)
    report.write_rows(study, f"{NAME}_instances", rows)
    _draw(study, means)


def instance(ratio: float, seed: int) -> list[Row]:
    """Run both schemes on a Gaussian matrix whose leading eigenvalues are replaced."""
    A = with_spectrum(ratio, seed)
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    pca = float(compute_leading_components(operator, M)[1].sum())
    return [
        {"method": method.name, "level": level} | measured(operator, method.solve(A, level, M), pca)
        for level in LEVELS
        for method in METHODS
    ]


def with_spectrum(ratio: float, seed: int) -> np.ndarray:
    """Return a Gaussian matrix with λ₁ … λ₅ in geometric progression of the given ratio, λ₅ twice λ₆."""
    U, s, Vt = np.linalg.svd(gaussian(*SHAPE, random_state=seed), full_matrices=False)
    s[:M] = np.sqrt(2 * s[M] ** 2 * ratio ** np.arange(1 - M, 1.0))
    return np.asarray((U * s) @ Vt)


def _draw(study: Study, means: dict[tuple[object, ...], Row]) -> None:
    panels = get_panels(None, 1, 3, 11.5, 3.6)[0]
    shown = ((0.0, "passes", (GPOWER_L0, BLOCK_L0)), (0.1, "passes", METHODS), (0.1, "variance", METHODS))
    words = {"passes": "reads of the matrix", "variance": "adjusted variance / that of PCA"}
    for panel, (level, value, methods) in zip(panels, shown, strict=True):
        for method in methods:
            line = [means[method.name, level, ratio][value] for ratio in RATIOS]
            panel.plot(range(len(RATIOS)), line, **report.look(method.name))
        panel.set_title("no penalty: PCA by the power method" if level == 0 else "10 % (ℓ1) and 1 % (ℓ0)", fontsize=9)
        label_axes(panel, "ratio of successive leading eigenvalues", words[value])
        panel.set_xticks(range(len(RATIOS)), [f"{ratio:g}" for ratio in RATIOS])
        if value == "passes":
            panel.set_ylim(bottom=0)
    report.legend(panels[1], len(METHODS))
    report.picture(study, NAME, panels)
