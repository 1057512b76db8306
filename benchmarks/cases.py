"""Which solvers meet on which problem of which table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.datasets import (
    FACTOR,
    LARGE,
    SPARSE,
    TABLE_FIVE,
    TABLE_RATIO,
    TABLE_WIDTH,
    TALL,
    Dataset,
    expression,
    gaussian_dataset,
)
from benchmarks.problems import FIVE, L0, L1, Problem

MAIN = ("gpower_default", "gpower_paper", "translation")
PEERS = ("gpower_default", "gpower_cardinality", "sklearn_mini_batch", "sklearn_sparse_pca", "abess_pca")


@dataclass(frozen=True)
class Case:
    """One problem of one table, and who solves it; the first solver is the reference."""

    group: str
    dataset: Dataset
    problem: Problem
    solvers: tuple[str, ...] = MAIN

    @property
    def name(self) -> str:
        """What ``--only`` looks at."""
        return f"{self.group} / {self.dataset.name} / {self.problem.label}"


def cases(data: Path | None, full: bool, quick: bool) -> Iterator[Case]:
    """All of them, those of one table next to each other."""
    for shape in TABLE_RATIO + TABLE_WIDTH:
        yield from (Case("single", gaussian_dataset(shape), problem) for problem in (L1, L0))
    for shape in TABLE_FIVE:
        yield from (Case("five", gaussian_dataset(shape), problem) for problem in FIVE)
    yield from (Case("factor", FACTOR, problem) for problem in (L1, L0, *FIVE))
    if data:
        table = Dataset(data.stem, lambda: expression(data))
        yield from (Case("expression", table, problem) for problem in (L1, L0, *FIVE))
    yield from (
        Case("tall", TALL, problem, (*MAIN, "gpower_cardinality", "sklearn_mini_batch", "abess_pca"))
        for problem in (L1, L0)
    )
    yield from (Case("sparse", SPARSE, problem) for problem in (L1, L0))
    yield Case("sklearn", gaussian_dataset((250, 2500)), L1, PEERS)
    if full:
        yield Case("sklearn", gaussian_dataset((250, 2500)), FIVE[0], PEERS)
        yield Case("sklearn", gaussian_dataset((500, 5000)), L1, PEERS)
    if not quick:  # at 10 % the answer is a single variable
        yield from (Case("large", LARGE, replace(p, gamma=g)) for p, g in ((L1, 0.08), (L0, 0.0064)))
