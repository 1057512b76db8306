"""GPower with a cardinality and all defaults: many starts, local search, tight tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, CannotRun, Problem
from benchmarks.solvers.gpower_default import answer
from gpower import GPower

LABEL = "gpower (all defaults)"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return `GPower(cardinality=k).fit`, with the total cardinality divided evenly."""
    k = cardinality // problem.n_components
    if k == 0:
        raise CannotRun("the reference has fewer variables than components")
    return lambda: answer(GPower(problem.n_components, cardinality=k).fit(X))
