"""GPower with the paper's settings: its start, its iteration on the whole matrix, its refits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, Problem
from benchmarks.solvers.gpower_default import answer, estimator

LABEL = "gpower (paper)"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return `GPower.fit` with the paper's settings: ℓ1 loadings are refitted, ℓ0 loadings are not."""
    model = estimator(problem, solver="paper")
    return lambda: answer(model.fit(X))
