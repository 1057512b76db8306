"""Find the penalty that gives a cardinality, for solvers whose penalty has another scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import Answer, CannotRun, Problem

#: Typical exponent of alpha against the number of non-zeros.
POWER = 0.3


def matched_alpha(
    count: Callable[[float], int], alpha: float, wanted: int, fits: int = 12, near: float = 0.05
) -> float:
    """Return the alpha whose solution is nearest to `wanted` non-zeros, by a power law inside a bracket."""
    low, high, tried = 0.0, np.inf, {}
    for _ in range(fits):
        found = tried[alpha] = count(alpha)
        if abs(found - wanted) <= near * wanted:
            break
        low, high = (alpha, high) if found > wanted else (low, alpha)
        alpha *= float(np.clip((max(found, 1) / wanted) ** POWER, 0.5, 2))
        if not low < alpha < high:
            alpha = float(np.sqrt(low * high))
    return min(tried, key=lambda a: abs(tried[a] - wanted))


def prepare_sklearn(model: Callable[..., Any], X: Any, problem: Problem, cardinality: int) -> Callable[[], Answer]:
    """Return the fit of a scikit-learn sparse PCA of the same total cardinality; alpha is found before."""
    if not isinstance(X, np.ndarray):
        raise CannotRun("takes no sparse matrix")

    def fit(alpha: float) -> np.ndarray:
        return model(problem.n_components, alpha=alpha, random_state=0).fit(X).components_.T

    # Its loadings are soft-thresholded correlations with a unit vector, so ours is a good first guess.
    largest = float(np.sqrt(X.shape[0] * X.var(axis=0).max()))
    guess = largest * (problem.gamma if problem.penalty == "l1" else np.sqrt(problem.gamma))
    alpha = matched_alpha(lambda a: int(np.count_nonzero(fit(a))), guess, cardinality)
    return lambda: Answer(fit(alpha))
