"""scikit-learn's SparsePCA at the same total cardinality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.decomposition import SparsePCA

from benchmarks.problems import Answer, Problem
from benchmarks.solvers.matching import prepare_sklearn

LABEL = "sklearn SparsePCA"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return `SparsePCA.fit` with an alpha that is found before."""
    return prepare_sklearn(SparsePCA, X, problem, cardinality)
