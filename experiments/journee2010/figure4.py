"""Figure 4: variance and cardinality during the computation, GPower ℓ1 and rSVD ℓ1 with its two phases."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.journee2010 import published, report
from experiments.journee2010.methods import PAPER
from experiments.journee2010.study import Row, Study
from gpower import maximize
from gpower.datasets import gaussian
from gpower.operators import Operator, as_operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import L1
from gpower.plotting.style import get_panels, label_axes
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentState, Trace
from gpower.solvers.fit_specification import PenaltyLevel
from gpower.solvers.starts import make_largest_norm_start

NAME = "figure4"
SHAPE, LEVEL, REPEATS = (250, 2500), 0.1, 5


class Course(Trace):
    """A trace that also stores the points of every ascent."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[list[Any]] = []

    def __call__(self, state: AscentState) -> bool:
        """Record a step."""
        if state.n_iter == 1:
            self.points.append([])
        self.points[-1].append(state.point)
        return super().__call__(state)


def run(study: Study) -> None:
    """Run the problem of the paper."""
    rows = study.instances(NAME, [{"seed": 0}], courses)
    report.write_rows(study, NAME, rows)
    p, n = SHAPE
    table = [_summary(rows, method, phase) for method, phase in dict.fromkeys((r["method"], r["phase"]) for r in rows)]
    claim = "published: GPower keeps the cardinality low throughout; rSVD first solves PCA, then loses cardinality."
    report.table(study, f"{NAME}_summary", f"Figure 4: in the course of the computation, {p} x {n}", table, claim)
    panels = get_panels(None, 1, 2, 9.5, 3.6)[0]
    for panel, axis, words in zip(panels, ("seconds", "passes"), ("seconds", "reads of the matrix"), strict=True):
        _draw(panel, rows, axis, words)
    report.legend(panels, 4)
    report.picture(study, NAME, panels)


def courses(seed: int) -> list[Row]:
    """Return the steps of both methods; of several identical runs the fastest of each."""
    A = gaussian(*SHAPE, random_state=seed)
    runs = [(_gpower(A), _rsvd(A, seed)) for _ in range(REPEATS)]
    return [row for method in zip(*runs, strict=True) for row in min(method, key=lambda rows: rows[-1]["seconds"])]


def _gpower(A: np.ndarray) -> list[Row]:
    """Run GPower from the paper's start, with the penalty from the first step on."""
    course = Course()
    problem = _problem(A, LEVEL)
    start = make_largest_norm_start(problem, problem.operator.column_norms, np.random.RandomState(0))
    _ascend(problem, start, course)
    return _rows(A, published.GPOWER_L1, {"single": problem}, course)


def _rsvd(A: np.ndarray, seed: int) -> list[Row]:
    """Run rSVD: PCA from a random point, then the penalty."""
    course = Course()
    pca = _problem(A, 0.0)
    start = pca.feasible_set.make_point(np.random.default_rng(seed).standard_normal((A.shape[0], 1)))
    dense = _ascend(pca, start, course)
    sparse = _at_level(pca.operator, LEVEL)
    _ascend(sparse, dense, course)
    return _rows(A, published.RSVD_L1, {"pca": pca, "sparse": sparse}, course)


def _problem(A: np.ndarray, level: float) -> Problem:
    operator, _ = as_operator(A, center=False, reduce_tall=False)
    return _at_level(operator, level)


def _at_level(operator: Operator, level: float) -> Problem:
    wish = PenaltyLevel(penalty_family=L1(np.zeros(1)), levels=(level,))
    return wish.make_problem(operator, operator.column_norms, np.ones(1))


def _ascend(problem: Problem, start: Any, course: Course) -> Any:
    objective, feasible_set = problem.objective, problem.feasible_set
    return maximize(objective, feasible_set, start, tol=PAPER.tol, max_iter=PAPER.max_iter, callback=course).point


def _rows(A: np.ndarray, method: str, phases: dict[str, Problem], course: Course) -> list[Row]:
    """Return the explained variance of the points, computed after the timing."""
    best = float(compute_leading_components(_problem(A, 0.0).operator, 1)[1][0])
    rows = []
    for (phase, problem), points, steps in zip(phases.items(), course.points, course.ascents, strict=True):
        for point, (_, _, passes, seconds) in zip(points, steps[1:], strict=True):
            z = problem.compute_loadings(point)
            found = {"variance": float(np.sum((A @ z) ** 2)) / best, "cardinality": int(np.count_nonzero(z))}
            rows.append({"method": method, "phase": phase, "seconds": seconds, "passes": passes} | found)
    return rows


def _summary(rows: list[Row], method: str, phase: str) -> Row:
    own = [row for row in rows if (row["method"], row["phase"]) == (method, phase)]
    first, last = own[0], own[-1]
    return {
        "method": method,
        "phase": phase,
        "steps": len(own),
        "cardinality": f"{first['cardinality']} to {last['cardinality']}",
        "variance": f"{first['variance']:.3f} to {last['variance']:.3f}",
        "seconds at its end": last["seconds"],
        "passes at its end": last["passes"],
    }


def _draw(panel: Any, rows: list[Row], axis: str, words: str) -> None:
    other = panel.twinx()
    for method in (published.GPOWER_L1, published.RSVD_L1):
        own = [row for row in rows if row["method"] == method]
        x, color = [row[axis] for row in own], report.LOOKS[method]["color"]
        panel.plot(x, [row["variance"] for row in own], color=color, label=f"{report.label(method)}, variance")
        other.plot(x, [row["cardinality"] for row in own], color=color, linestyle="--")
        panel.plot([], [], color=color, linestyle="--", label=f"{report.label(method)}, cardinality")
    label_axes(panel, words, "variance / variance of PCA")
    other.set_ylabel("cardinality", fontsize=9)
    other.tick_params(labelsize=8)
    other.spines[["top"]].set_visible(False)
