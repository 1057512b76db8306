"""scikit-learn's MiniBatchSparsePCA at the same total cardinality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.decomposition import MiniBatchSparsePCA

from benchmarks.problems import Answer, Problem
from benchmarks.solvers.matching import prepare_sklearn

LABEL = "sklearn MiniBatchSparsePCA"


def prepare(X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return `MiniBatchSparsePCA.fit` with an alpha that is found before."""
    return prepare_sklearn(MiniBatchSparsePCA, X, problem, cardinality)
