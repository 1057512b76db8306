"""The cases: which solvers run on which problem of which table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from benchmarks.datasets import (
    FACTOR,
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
TALL_PEERS = ("gpower_cardinality", "sklearn_mini_batch", "abess_pca")


@dataclass(frozen=True)
class Case:
    """One problem of one table, and the solvers that run on it; the first solver is the reference."""

    group: str
    dataset: Dataset
    problem: Problem
    solvers: tuple[str, ...] = MAIN

    @property
    def name(self) -> str:
        """Return the name that ``--only`` is matched with."""
        return f"{self.group} / {self.dataset.name} / {self.problem.label}"


def cases(data: Path | None, full: bool, quick: bool) -> Iterator[Case]:
    """Yield all cases, those of one table in succession; with `full`, the tables of the paper have three seeds."""
    seeds = range(3) if full else range(1)
    for shape, seed in product(TABLE_RATIO + TABLE_WIDTH, seeds):
        yield from (Case("single", gaussian_dataset(shape, seed), problem) for problem in (L1, L0))
    for shape, seed in product(TABLE_FIVE, seeds):
        yield from (Case("five", gaussian_dataset(shape, seed), problem) for problem in FIVE)
    yield from (Case("factor", FACTOR, problem) for problem in (L1, L0, *FIVE))
    if data:
        table = Dataset(data.stem, lambda: expression(data))
        yield from (Case("expression", table, problem) for problem in (L1, L0, *FIVE))
    yield from (Case("tall", TALL, problem, (*MAIN, *TALL_PEERS)) for problem in (L1, L0))
    yield from (Case("sparse", SPARSE, problem) for problem in (L1, L0))
    yield Case("sklearn", gaussian_dataset((250, 2500)), L1, PEERS)
    if full:
        yield Case("sklearn", gaussian_dataset((250, 2500)), FIVE[0], PEERS)
        yield Case("sklearn", gaussian_dataset((500, 5000)), L1, PEERS)
    for seed in range(0) if quick else seeds:  # at 10 % the answer is a single variable
        table = gaussian_dataset((2000, 40000), seed)
        yield from (Case("large", table, problem) for problem in (replace(L1, gamma=0.08), replace(L0, gamma=0.0064)))
