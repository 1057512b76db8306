"""GPower with a cardinality, ours with gamma, and nothing else set: many starts, swap polish, tight tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, CannotRun, Problem
from benchmarks.solvers.gpower_default import answer
from gpower import GPower

LABEL = "gpower (all defaults)"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """`GPower(cardinality=k).fit`, k shared out evenly."""
    if cardinality % problem.n_components:
        cardinality -= cardinality % problem.n_components
    if cardinality == 0:
        raise CannotRun("the reference found nothing")
    return lambda: answer(GPower(problem.n_components, cardinality=cardinality // problem.n_components).fit(X))
