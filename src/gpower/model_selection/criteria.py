"""Choose the cardinality from cross-validation scores by one of six criteria.

==============  ====================================================================================================
criterion       chosen cardinality
==============  ====================================================================================================
`prediction`    largest explained variance of held-out samples, or the fewest variables within one standard error
`share`         the fewest variables that explain 90 % of the held-out variance that PCA components explain
`agreement`     highest correlation of scores between folds, or the fewest variables within one standard error
`stability`     supports that agree best between folds, corrected for chance
`sparseness`    largest index of sparseness: explained variance times the share of zeros
`reliability`   the fewest variables from which on Cronbach's α of held-out scores stays at least 0.9; if α of the
                densest point is lower, the point of the largest α
`auto`          `prediction` if at most half of the variables explain as much as PCA components; else `reliability`,
                or `share` if the folds have one held-out sample, for which α is not defined
==============  ====================================================================================================

If the true loadings are sparse, prediction is largest at their cardinality. If all variables contribute, as in most
real tables, prediction prefers all of them; then a component is large enough once its scores are reliable.

Cronbach (1951), Psychometrika 16, 297–334 (α); Nogueira, Sechidis and Brown (2018), Journal of Machine Learning
Research 18, 1–54 (stability); Trendafilov (2014), Computational Statistics 29, 431–454 (index of sparseness).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, stable_argmax
from gpower.operators.explained_variance import cosine_matrix

#: Share of the variance explained by PCA that the criterion `share` requires.
MIN_PCA_SHARE = 0.9
#: Cronbach's α that the criterion `reliability` requires.
MIN_RELIABILITY = 0.9


class FoldScores(NamedTuple):
    """Scores of one fold for every cardinality of the grid.

    Attributes
    ----------
    prediction : ndarray of shape (n_points,)
        Share of the held-out variance that is explained.
    pca_prediction : float
        Share of the held-out variance that PCA components explain.
    reliability : ndarray of shape (n_points,)
        Cronbach's α of the held-out scores.
    loadings : list of CSC arrays of shape (n_features, m)
        Loadings fitted to the training samples, one array per point.
    """

    prediction: Array
    pca_prediction: float
    reliability: Array
    loadings: list[sp.csc_array]


@dataclass(frozen=True, eq=False)
class CriterionScores:
    """Scores of all folds for every cardinality of one component, or of all components in a joint search.

    Attributes
    ----------
    grid : ndarray of shape (n_points,)
        Cardinalities, ascending.
    n_features : int
    prediction : ndarray of shape (n_splits, n_points)
        Share of the held-out variance that is explained.
    pca_prediction : ndarray of shape (n_splits,)
        Share of the held-out variance that PCA components explain.
    agreement : ndarray of shape (n_splits, n_points)
        Mean correlation of a fold's scores with those of the other folds.
    stability : ndarray of shape (n_points,)
        Agreement of the supports: one if all folds agree, zero if they agree as by chance, NaN if all variables or
        none are selected.
    reliability : ndarray of shape (n_splits, n_points)
        Cronbach's α of the held-out scores.
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
        """Return the index of sparseness [Trendafilov 2014], (n_points,)."""
        pca = float(self.pca_prediction.mean())
        return np.asarray(pca * self.prediction.mean(axis=0) * (1 - self.grid / self.n_features))


def combine_fold_scores(
    grid: Array, fold_scores: Sequence[FoldScores], compute_score_grams: Callable[[Sequence[sp.csc_array]], Array]
) -> CriterionScores:
    """Combine the scores of all folds.

    `compute_score_grams` maps one array of loadings per fold to the inner products of their scores,
    (m, n_splits, n_splits).
    """
    loadings_by_point = list(zip(*(fold.loadings for fold in fold_scores), strict=True))
    agreement = [_compute_agreement(compute_score_grams(loadings)) for loadings in loadings_by_point]
    return CriterionScores(
        grid=grid,
        n_features=loadings_by_point[0][0].shape[0],
        prediction=np.array([fold.prediction for fold in fold_scores]),
        pca_prediction=np.array([fold.pca_prediction for fold in fold_scores]),
        reliability=np.array([fold.reliability for fold in fold_scores]),
        agreement=np.column_stack(agreement),
        stability=np.array([_compute_support_stability(loadings) for loadings in loadings_by_point]),
    )


def _compute_agreement(score_grams: Array) -> Array:
    """Return the mean correlation of each fold's scores with those of the other folds, (n_splits,).

    The component with the lowest correlation counts.
    """
    n_splits = score_grams.shape[-1]
    if n_splits == 1:
        return np.ones(1)
    correlation = np.abs(cosine_matrix(score_grams))  # (m, n_splits, n_splits)
    mean_with_others = (correlation.sum(axis=2) - np.diagonal(correlation, axis1=1, axis2=2)) / (n_splits - 1)
    return np.asarray(mean_with_others.min(axis=0))


def _compute_support_stability(loadings: Sequence[sp.csc_array]) -> float:
    """Return the stability of the supports of all components together [Nogueira, Sechidis and Brown 2018, eq. 4]."""
    counts = sum((Z != 0).astype(float) for Z in loadings)
    M = len(loadings)
    size = float(np.prod(loadings[0].shape))
    frequency = counts.data / M
    mean = frequency.sum() / size
    if M == 1 or not 0 < mean < 1:
        return np.nan
    return float(1 - M / (M - 1) * np.sum(frequency * (1 - frequency)) / size / (mean * (1 - mean)))


def choose_point(scores: Array, rule: str) -> int:
    """Return the index of the chosen column of scores (n_splits, n_points), whose columns run from sparse to dense.

    The rule "best" takes the largest mean, "one-se" the first column within one standard error of it.

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
    """Return the criterion that decides, and the index of the point that each criterion chooses."""
    points = {name: choose(scores, rule) for name, choose in SELECTION_CRITERIA.items()}
    if criterion != "auto":
        return criterion, points
    best = _choose_by_prediction(scores, "best")
    as_good = bool(scores.prediction[:, best].mean() >= scores.pca_prediction.mean())
    if as_good and 2 * scores.grid[best] <= scores.n_features:
        return "prediction", points
    has_reliability = np.any(scores.reliability > 0)  # zero if folds leave out one sample
    return ("reliability" if has_reliability else "share"), points
