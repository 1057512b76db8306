"""Which number of variables? Six answers, to six questions, from the same folds.

==============  ====================================================================================================
criterion       the number of variables
==============  ====================================================================================================
`prediction`    that explain held-out samples best, or the fewest within one standard error of it
`share`         the fewest that explain 90 % of what ordinary components explain of held-out samples
`agreement`     whose scores agree best between folds, or the fewest within one standard error of it
`stability`     that are chosen again most often in other folds, beyond chance
`sparseness`    of the largest index of sparseness: what is explained times the share of zeros
`reliability`   the fewest from which on held-out scores stay reliable: Cronbach's α is at least 0.9, or at its top
`auto`          by prediction where at most half of the variables do as well as all of them, else by reliability, or
                by share where folds of one sample tell of none
==============  ====================================================================================================

Where the truth is sparse, prediction has its top there. Where all variables carry something, as in most real tables, it
prefers all of them whatever one wants to read; then a component is large enough once its scores are hardly noise.

Cronbach (1951), Psychometrika 16, 297–334 (α); Nogueira, Sechidis and Brown (2018), Journal of Machine Learning
Research 18, 1–54 (stability); Trendafilov (2014), Computational Statistics 29, 431–454 (index of sparseness).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, stable_argmax
from gpower.operators.explained_variance import cosine_matrix

#: What a fold found: prediction and reliability at every point, what ordinary components reach, and the loadings.
FoldScores: TypeAlias = tuple[Array, float, Array, list[sp.csc_array]]
#: What `share` and `reliability` ask for.
MIN_PCA_SHARE, MIN_RELIABILITY = 0.9, 0.9


@dataclass(frozen=True, eq=False)
class CriterionScores:
    """What the folds say of every number of variables of one component, or of all in a joint search.

    Attributes
    ----------
    grid : ndarray of shape (n_points,)
        Numbers of variables, ascending.
    n_features : int
    prediction, agreement, reliability : ndarray of shape (n_splits, n_points)
        Share of held-out variance; correlation of scores with those of the other folds; Cronbach's α.
    ordinary : ndarray of shape (n_splits,)
        Share of held-out variance that ordinary components reach.
    stability : ndarray of shape (n_points,)
        Of the supports, one where all folds agree, zero where they agree as by chance; NaN where all are chosen.
    """

    grid: Array
    n_features: int
    prediction: Array
    pca_prediction: Array
    agreement: Array
    stability: Array
    reliability: Array

    @property
    def sparseness(self) -> Array:
        """Index of sparseness, (n_points,)."""
        reach = float(self.pca_prediction.mean())
        return np.asarray(reach * self.prediction.mean(axis=0) * (1 - self.grid / self.n_features))


def combine_fold_scores(
    grid: Array, fold_scores: Sequence[FoldScores], compute_score_grams: Callable[[Sequence[sp.csc_array]], Array]
) -> CriterionScores:
    """Put together what folds found; `products` makes inner products of scores, by component, of loadings."""
    loadings = [Z for *_, Z in fold_scores]
    points = range(len(grid))
    return CriterionScores(
        grid=grid,
        n_features=loadings[0][0].shape[0],
        prediction=np.array([fold[0] for fold in fold_scores]),
        pca_prediction=np.array([fold[1] for fold in fold_scores]),
        reliability=np.array([fold[2] for fold in fold_scores]),
        agreement=np.column_stack([_compute_agreement(compute_score_grams([Z[i] for Z in loadings])) for i in points]),
        stability=np.array([_compute_support_stability([Z[i] for Z in loadings]) for i in points]),
    )


def _compute_agreement(products: Array) -> Array:
    """Mean correlation of each fold's scores with those of the others, the worst component counting, (n_splits,)."""
    count = products.shape[-1]
    if count == 1:
        return np.ones(1)
    correlation = np.abs(cosine_matrix(products))  # (m, n_splits, n_splits)
    others = (correlation.sum(axis=2) - np.diagonal(correlation, axis1=1, axis2=2)) / (count - 1)
    return np.asarray(others.min(axis=0))


def _compute_support_stability(loadings: Sequence[sp.csc_array]) -> float:
    """Of supports, all components together [Nogueira, Sechidis and Brown 2018, eq. 4]."""
    counts = sum((Z != 0).astype(float) for Z in loadings)
    M, size = len(loadings), float(np.prod(loadings[0].shape))
    frequency = counts.data / M
    mean = frequency.sum() / size
    if M == 1 or not 0 < mean < 1:
        return np.nan
    return float(1 - M / (M - 1) * np.sum(frequency * (1 - frequency)) / size / (mean * (1 - mean)))


def choose_point(scores: Array, rule: str) -> int:
    """Index of the chosen column of scores (n_splits, n_points), the sparsest first.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.1, 0.30, 0.31], [0.1, 0.28, 0.33]])
    >>> choose_point(scores, "best"), choose_point(scores, "one-se")
    (2, 2)
    """
    mean = scores.mean(axis=0)
    best = stable_argmax(mean)
    if rule == "best" or scores.shape[0] == 1:
        return best
    error = scores[:, best].std(ddof=1) / np.sqrt(scores.shape[0])
    return int(np.argmax(mean >= mean[best] - error))


def _choose_by_prediction(scores: CriterionScores, rule: str) -> int:
    return choose_point(scores.prediction, rule)


def _choose_by_share(scores: CriterionScores, rule: str) -> int:
    enough = scores.prediction.mean(axis=0) >= MIN_PCA_SHARE * scores.pca_prediction.mean()
    return int(np.argmax(enough)) if enough.any() else _choose_by_prediction(scores, "best")


def _choose_by_agreement(scores: CriterionScores, rule: str) -> int:
    return choose_point(scores.agreement, rule)


def _choose_by_stability(scores: CriterionScores, rule: str) -> int:
    return int(np.argmax(np.nan_to_num(scores.stability, nan=-np.inf)))


def _choose_by_sparseness(scores: CriterionScores, rule: str) -> int:
    return stable_argmax(scores.sparseness)


def _choose_by_reliability(scores: CriterionScores, rule: str) -> int:
    mean = scores.reliability.mean(axis=0)
    short = np.flatnonzero(mean < MIN_RELIABILITY)
    if short.size == 0:
        return 0
    return int(short[-1]) + 1 if short[-1] + 1 < mean.size else stable_argmax(mean)


SELECTION_CRITERIA: dict[str, Callable[[CriterionScores, str], int]] = {
    "prediction": _choose_by_prediction,
    "share": _choose_by_share,
    "agreement": _choose_by_agreement,
    "stability": _choose_by_stability,
    "sparseness": _choose_by_sparseness,
    "reliability": _choose_by_reliability,
}


def apply_criteria(scores: CriterionScores, criterion: str, rule: str) -> tuple[str, dict[str, int]]:
    """The criterion that decides, and the point that each would choose."""
    points = {name: choose(scores, rule) for name, choose in SELECTION_CRITERIA.items()}
    if criterion != "auto":
        return criterion, points
    best = _choose_by_prediction(scores, "best")
    as_good = bool(scores.prediction[:, best].mean() >= scores.pca_prediction.mean())
    if as_good and 2 * scores.grid[best] <= scores.n_features:
        return "prediction", points
    told = np.any(scores.reliability > 0)  # not by a single sample, as in folds that leave one out
    return ("reliability" if told else "share"), points
