"""GPower with a cardinality, ours with gamma, and nothing else set: many starts, swap polish, tight tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, CannotRun, Problem
from benchmarks.solvers.gpower_default import answer
from gpower import GPower

LABEL = "gpower (all defaults)"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """`GPower(cardinality=k).fit`, the cardinality shared out evenly."""
    k = cardinality // problem.n_components
    if k == 0:
        raise CannotRun("the reference has fewer variables than components")
    return lambda: answer(GPower(problem.n_components, cardinality=k).fit(X))
