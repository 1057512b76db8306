"""Best-subset selection by splicing (the package abess) with the same cardinality; works on the covariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import Answer, CannotRun, Problem

LABEL = "abess SparsePCA"
LARGEST = 3000  # variables: it forms their covariance


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return `SparsePCA.fit` of abess with the cardinality of the reference; raise if it would return another one."""
    try:
        from abess.decomposition import SparsePCA
    except ImportError:
        raise CannotRun("not installed") from None
    if problem.n_components > 1:
        raise CannotRun("one component only here: its further components cannot have the same cardinality")
    if X.shape[1] > LARGEST or not isinstance(X, np.ndarray):
        raise CannotRun(f"forms the covariance of all variables: left out above {LARGEST} and for sparse data")

    def solve() -> Answer:
        z = np.asarray(SparsePCA(support_size=cardinality).fit(X).coef_, float).reshape(-1, 1)
        found = np.count_nonzero(z)
        if found != cardinality:
            raise CannotRun(f"returns {found} non-zeros of {z.size} where {cardinality} were asked for")
        return Answer(z / np.linalg.norm(z))

    return solve
