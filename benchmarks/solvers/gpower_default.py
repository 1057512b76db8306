"""GPower with a gamma and the paper's tolerance: one start, the algorithm chosen by size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, Problem
from gpower import GPower

LABEL = "gpower"


def estimator(problem: Problem, **options: Any) -> GPower:
    """Return the estimator of a problem at the paper's tolerance."""
    return GPower(
        problem.n_components,
        penalty=problem.penalty,
        gamma=problem.gamma,
        method=problem.method,
        deflation="projection",  # as the paper, and so as the translation beside it
        tol=1e-4,
        random_state=0,
        **options,
    )


def answer(model: GPower) -> Answer:
    """Return the loadings and values of a fitted model."""
    return Answer(model.components_.T, float(model.objective_.sum()), float(model.n_passes_))


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return the call of `GPower.fit`."""
    return lambda: answer(estimator(problem).fit(X))
