"""Measurements that are the same for all solvers: time, passes, objective, variance, cardinality and memory."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.problems import Answer, CannotRun, Problem
from benchmarks.solvers import solver

#: Seconds of a round under which it is repeated more often.
BLINK = 0.2


@dataclass(eq=False)
class Measurement:
    """The measurements of one solver on one problem of one table."""

    group: str
    dataset: str
    shape: tuple[int, int]
    problem: Problem
    solver: str
    times: list[float] = field(default_factory=list)
    objective: float = np.nan
    passes: float = np.nan
    cardinality: int = 0
    variance: float = np.nan  # adjusted, share of the total
    memory: float = np.nan  # peak extra bytes
    note: str = ""

    @property
    def seconds(self) -> float:
        """Return the median time; NaN if the solver could not run."""
        return float(np.median(self.times)) if self.times else np.nan

    def values(self) -> dict[str, float]:
        """Return all measurements but the time."""
        names = ("objective", "passes", "cardinality", "variance", "memory")
        return {name: float(getattr(self, name)) for name in names}


class VarianceRuler:
    """Adjusted variance of loadings as a share of the total variance of a table, whose means are computed once."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.mean = np.asarray(X.mean(axis=0)).ravel()
        squares = float(X.multiply(X).sum()) if hasattr(X, "multiply") else float(np.vdot(X, X))
        self.total = squares - X.shape[0] * float(self.mean @ self.mean)

    def share(self, Z: np.ndarray) -> float:
        """Return Σ Rⱼⱼ² of the QR factorisation of the scores, by decreasing variance, over the total variance."""
        Z = Z / np.maximum(np.linalg.norm(Z, axis=0), 1e-300)
        rows = np.flatnonzero(Z.any(axis=1))
        scores = np.asarray(self.X[:, rows] @ Z[rows]) - self.mean[rows] @ Z[rows]
        order = np.argsort(-np.sum(scores**2, axis=0))
        return float(np.sum(np.diagonal(np.linalg.qr(scores[:, order], mode="r")) ** 2)) / self.total


def peak_memory(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and the largest memory of Python and NumPy during it, in bytes."""
    tracemalloc.start()
    try:
        result = call()
        return result, float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its wall-clock time."""
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def repeat_times(calls: Sequence[Callable[[], Any]], repeats: int) -> np.ndarray:
    """Return the wall-clock times, (repeats, len(calls)), of interleaved repeats after a warm-up."""
    with quiet():
        for call in calls:
            call()
        return np.array([[timed(call)[1] for call in calls] for _ in range(repeats)])


@contextmanager
def quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def compete(
    group: str, dataset: str, X: Any, problem: Problem, solvers: Sequence[str], repeats: int, budget: float
) -> list[Measurement]:
    """Measure all solvers on one problem; the first is the reference, whose cardinality the others get.

    Each solver has a warm-up, a run that measures memory, and `repeats` interleaved rounds, or five times as many if
    they are short. A solver stops after `budget` seconds, but has at least one round; a warm-up that takes five times
    as long replaces all rounds.
    """
    ruler, runs, measured = VarianceRuler(X), [], []
    for name in solvers:
        row = Measurement(group, dataset, X.shape, problem, solver(name).LABEL)
        measured.append(row)
        with quiet() as caught:
            try:
                call = solver(name).prepare(X, problem, measured[0].cardinality)
                answer, seconds = timed(call)
            except CannotRun as reason:
                row.note = str(reason)
                continue
        record(row, answer, ruler)
        row.note = str(caught[0].message) if caught else ""
        if seconds > 5 * budget:
            row.times.append(seconds)
        else:
            runs.append((row, call, seconds))
    with quiet():
        for row, call, _ in runs:
            row.memory = peak_memory(call)[1]
        for _ in range(repeats if sum(seconds for *_, seconds in runs) > BLINK else 5 * repeats):
            for row, call, _ in runs:
                if sum(row.times) < budget:
                    row.times.append(timed(call)[1])
    return measured


def record(row: Measurement, answer: Answer, ruler: VarianceRuler) -> None:
    """Set the measurements of a row other than times, computed in the same way for every solver."""
    row.objective, row.passes = answer.objective, answer.passes
    row.cardinality = int(np.count_nonzero(answer.Z))
    row.variance = ruler.share(answer.Z)
