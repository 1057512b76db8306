"""Runs of a method at every sparsity, which Figures 1, 2, 3 and 5 and the tables on gene expression share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.journee2010.methods import GREEDY, REGRESSION, Method, Outcome, fill
from experiments.journee2010.methods import SINGLE as TIMED
from experiments.journee2010.study import Row, Study
from gpower.datasets import gaussian
from gpower.operators import Operator, as_operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components

#: γ/γ_max (ℓ1) and √(γ/γ_max) (ℓ0) of a sweep: close together where the cardinality changes quickly.
LEVELS = tuple(
    np.round([0, *np.geomspace(0.005, 0.05, 7), *np.linspace(0.06, 0.34, 19), *np.linspace(0.4, 0.97, 12)], 4).tolist()
)
#: Cardinalities of the methods that take one, and at which curves are averaged.
CARDINALITIES = (1, 2, 3, 5, 8, 12, 20, 30, 45, 65, 90, 120, 160, 200, 250, 300)
SHAPE = (100, 300)
SINGLE: tuple[Method, ...] = (*TIMED[:2], GREEDY, TIMED[4], REGRESSION, TIMED[3])


def single_sweeps(study: Study) -> list[Row]:
    """Run all single-unit methods on Gaussian 100 × 300 matrices; Figures 1 to 3 share them."""
    keys = [{"seed": seed} for seed in range(100 if study.full else 8)]
    return study.instances("single_sweeps", keys, _single_sweep)


def _single_sweep(seed: int) -> list[Row]:
    return sweep(gaussian(*SHAPE, random_state=seed), SINGLE, CARDINALITIES)


def sweep(
    A: np.ndarray,
    methods: Sequence[Method],
    cardinalities: Sequence[int],
    m: int = 1,
    levels: Sequence[float] = LEVELS,
    measure: Callable[[np.ndarray], Row] = lambda Z: {},
) -> list[Row]:
    """Run every method at every level or cardinality, and return loadings, variances and costs."""
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    pca = float(compute_leading_components(operator, m)[1].sum())
    rows = []
    for method in methods:
        for level in levels if method.by == "share" else cardinalities:
            found = method.solve(A, level, m)
            row = {"method": method.name, "level": level} | measured(operator, found, pca)
            rows.append(row | measure(found.Z))
    return rows


def measured(operator: Operator, found: Outcome, pca: float) -> Row:
    """Return cardinality, variance relative to PCA as found, without fill and after post-processing, and cost."""

    def share(Z: np.ndarray) -> float:
        return float(Scores.from_loadings(operator, Z).compute_adjusted_variances().sum()) / pca

    shares = {"variance": share(found.Z), "unfilled": share(found.unfilled)}
    shares["postprocessed"] = share(fill(operator, found.Z))
    if found.Z.shape[1] > 1:
        shares["postprocessed_by_variance"] = share(fill(operator, found.Z, power=2))
    return found.cost() | shares


def curve(
    rows: Sequence[Row], method: str, value: str, at: Sequence[float], instance: str = "seed", scale: int = 1
) -> np.ndarray:
    """Return the mean over the instances of a value of a method, interpolated at given cardinalities; NaN outside.

    `scale` divides the cardinalities first: by the number of components for means per component.
    """
    own = [row for row in rows if row["method"] == method and row["cardinality"] > 0]
    curves = []
    for key in dict.fromkeys(row[instance] for row in own):
        points = sorted((row["cardinality"] / scale, row[value]) for row in own if row[instance] == key)
        x, where = np.unique([point[0] for point in points], return_inverse=True)
        y = np.bincount(where, [point[1] for point in points]) / np.bincount(where)
        curves.append(np.interp(at, x, y, left=np.nan, right=np.nan))
    return _mean_where_most(np.array(curves))


def _mean_where_most(curves: Any) -> np.ndarray:
    """Return means over the instances that reach a point, if at least half of them do."""
    counts = np.sum(~np.isnan(curves), axis=0)
    return np.where(2 * counts >= len(curves), np.nansum(curves, axis=0) / np.maximum(counts, 1), np.nan)
