"""GPower as a user calls it with a gamma, at the paper's tolerance: one start, the solver chosen by size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.problems import Answer, Problem
from gpower import GPower

LABEL = "gpower"


def estimator(problem: Problem, **options: Any) -> GPower:
    """The estimator of a problem at the paper's tolerance."""
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
    """What a fitted model says."""
    return Answer(model.components_.T, float(model.objective_.sum()), float(model.n_passes_))


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """`GPower.fit`, whole."""
    return lambda: answer(estimator(problem).fit(X))
