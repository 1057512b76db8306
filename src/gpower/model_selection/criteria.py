"""Choose the cardinality from cross-validation scores.

==============  ====================================================================================================
criterion       score of a cardinality
==============  ====================================================================================================
`sparseness`    variance of held-out samples that a component adds to the others, times its share of unused variables
`prediction`    variance of held-out samples that all components explain
==============  ====================================================================================================

`sparseness` is the index of sparseness of Trendafilov (2014), Computational Statistics 29, 431–454, for held-out
samples. A further variable must raise the explained variance by more, relatively, than it reduces the share of unused
variables: a variable of noise does not, and neither does one of the many variables that are weakly related to
everything. `prediction` counts only the variance, and prefers all variables in most real tables. The page "How many
variables?" of the documentation compares both with others on planted and on real tables.

Cardinalities do as well as the best one if their score is less than one standard error below it. The standard error is
that of the difference, because the scores of neighbouring cardinalities rise and fall together from fold to fold. The
rule "one-se" takes the fewest variables that do as well (Breiman, Friedman, Olshen and Stone 1984).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpower._utils.arrays import Array, stable_argmax, to_numpy
from gpower.validation.pipelines import UnwrappedModel

#: What each criterion takes the largest value of, in words.
SELECTION_CRITERIA = {
    "sparseness": "variance explained in held-out samples times the share of unused variables",
    "prediction": "variance explained in held-out samples",
}
SELECTION_RULES = ("best", "one-se")


class ChosenPoint(NamedTuple):
    """Index of the chosen point of a grid, and of the first and the last point that would do as well."""

    chosen: int
    first: int
    last: int


def choose_point(scores: Array, rule: str) -> ChosenPoint:
    """Return the chosen column of scores (n_splits, n_points), whose columns run from sparse to dense.

    The rule "best" takes the largest mean. The rule "one-se" takes the first column whose mean is within one standard
    error of it; the standard error is that of the difference of the two columns. The range that would do as well
    contains the columns around the best one that are within one standard error.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.1, 0.30, 0.31], [0.1, 0.33, 0.32]])
    >>> choose_point(scores, "best"), choose_point(scores, "one-se").chosen
    (ChosenPoint(chosen=1, first=1, last=2), 1)
    """
    n_splits = len(scores)
    best = stable_argmax(scores.mean(axis=0))
    loss = scores[:, [best]] - scores
    error = loss.std(axis=0, ddof=1) / np.sqrt(n_splits) if n_splits > 1 else np.zeros(loss.shape[1])
    worse = np.flatnonzero(loss.mean(axis=0) > error + 1e-12)
    first = int(worse[worse < best].max(initial=-1)) + 1
    last = int(worse[worse > best].min(initial=scores.shape[1])) - 1
    return ChosenPoint(best if rule == "best" else first, first, last)


def score_sparseness(estimator: Any, X: object, y: object = None) -> float:
    """Return the share of the variance of X that a fitted model explains, times its share of zero loadings.

    Use it as the scorer of scikit-learn's `GridSearchCV`: by the model's own `score` a search over `cardinality` takes
    the largest number, because more variables explain more.

    Parameters
    ----------
    estimator : GPower or Pipeline that ends with one
        Fitted model.
    X : array-like of shape (n_samples, n_features)
    y : ignored

    Returns
    -------
    float

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.model_selection import score_sparseness
    >>> X = load_planted_expression().X  # the first module has 8 genes
    >>> search = GridSearchCV(GPower(1), {"cardinality": [4, 8, 32, 150]}, scoring=score_sparseness)
    >>> search.fit(X).best_params_
    {'cardinality': 8}
    """
    components = to_numpy(UnwrappedModel.unwrap(estimator).model.components_)
    return float(estimator.score(X) * np.mean(components == 0))
