"""The number of variables by cross-validation: as many as help to explain samples that were not looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from gpower._utils.arrays import Array, Seed
from gpower.estimators.base import NamedValues, SparsePCAEstimator
from gpower.estimators.gpower import GPower
from gpower.model_selection.criteria import (
    SELECTION_CRITERIA,
    CriterionScores,
    FoldScores,
    apply_criteria,
    combine_fold_scores,
)
from gpower.model_selection.folds import (
    FoldSource,
    build_fold_source,
    compute_captured_squares,
    compute_cronbach_alpha,
    compute_total_squares,
    make_score_gram_function,
)
from gpower.model_selection.grids import check_cardinality_grid
from gpower.model_selection.path import StepProgressCallback
from gpower.operators import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Penalty
from gpower.problem.deflation import DEFLATION_RULES, deflate_sample_gram
from gpower.solvers.warm_path import warm_path
from gpower.validation.checks import is_number, is_sequence
from gpower.validation.params import IntPerComponent, build_fit_spec, check_option, make_random_state
from gpower.validation.prepare import EstimatorInput, read_estimator_input

#: Entries of a table up to which folds are fitted with as much care as the whole.
MAX_SMALL_TABLE_ENTRIES = 100_000
#: Candidates where none are given, of a small table and of a large one.
DEFAULT_GRID_SIZES = (50, 18)


@dataclass(eq=False, repr=False)
class GPowerCV(SparsePCAEstimator):
    """Sparse principal components with the number of variables chosen by cross-validation.

    A cardinality is judged by samples that were not looked at. By default it is the one that explains most of their
    variance where that is sparse: too few variables miss some of it, too many turn the components towards noise. Where
    ordinary components explain more than any sparse ones, as in most real tables, it is the fewest variables whose
    scores are reliable. One component after the other is judged together with those before it and with as many ordinary
    principal components as are still to come, so that none grows just to take over what is the next one's.

    Parameters
    ----------
    n_components : int, default=2
    cardinalities : sequence of int, optional
        Candidates; by default up to 50, of a large table up to 18, evenly spaced on a logarithmic scale from one to all
        variables.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; an int splits the samples in turn after shuffling them.
    criterion : {"auto", "prediction", "share", "agreement", "stability", "sparseness", "reliability"}, default="auto"
        What decides: the variance of held-out samples ("prediction"); the fewest variables for 90 % of what ordinary
        components explain of it ("share"); scores that agree between folds, or variables that are chosen again
        ("agreement", "stability"); variance times the share of zeros ("sparseness"); the fewest variables from which on
        Cronbach's α of held-out scores stays at 0.9, or those of the largest α ("reliability"). "auto": prediction, if
        components of at most half of the variables explain as much as ordinary ones, else reliability, or share where
        folds have one sample.
    rule : {"best", "one-se"}, default="best"
        The largest mean score, or the fewest variables within one standard error of it: of prediction and agreement.
    search : {"sequential", "joint"}, default="sequential"
        One component after the other, each with a number of its own, or one number for all.
    n_jobs : int, optional
        Folds worked on at the same time, as in scikit-learn.
    progress : callable, optional
        Called as ``progress(done, total)`` after each fold of each component.
    groups, include, exclude, penalty_weights
        As in `GPower`; `include` and `exclude` are one list for all components. With groups, numbers count groups.
    penalty, method, positive, variance, center, scale, n_init, deflation, refit, polish, tol, max_iter, random_state
        As in `GPower`. ``method="block"`` needs ``search="joint"``. With ``n_init="auto"`` a few points of the grid
        have starts of their own in the folds of a large table, and none is polished; the final fit has all starts.
    missing : {"error", "impute"}, default="error"
        As in `GPower`; folds are filled by what their training samples tell.
    memory_limit : int or str, optional
        As in `GPower`. Of data that it does not hold four times, folds are fitted to covariances of their samples.

    Attributes
    ----------
    cardinality_ : ndarray of shape (n_components,)
        Variables of the components: the chosen numbers, or with ``positive=True`` at most as many.
    n_components_ : int
        Number of components found.
    best_params_ : dict
        ``cardinality``: the chosen numbers, or the one of a joint search.
    cv_results_ : dict of ndarray
        As in scikit-learn: ``param_component`` (−1 for all), ``param_cardinality``, ``split0_test_score`` …,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score`` (within a component).
    chosen_by_ : ndarray of str
        The criterion that decided, per component.
    criteria_ : dict of ndarray
        The numbers that each criterion would have chosen, the components before being as they are.
    best_estimator_ : GPower
        Fitted to all samples with the chosen numbers; this object has its fitted attributes too.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from gpower import GPowerCV
    >>> from gpower.datasets import load_planted_expression
    >>> data = load_planted_expression()  # modules of 8, 6 and 5 genes
    >>> GPowerCV(3, cardinalities=[3, 5, 6, 8, 12]).fit(data.X).cardinality_
    array([8, 6, 5])
    """

    n_components: int = 2
    _: KW_ONLY
    cardinalities: Iterable[int] | None = None
    cv: Any = 5
    criterion: str = "auto"
    rule: str = "best"
    search: str = "sequential"
    n_jobs: int | None = None
    progress: StepProgressCallback | None = None
    groups: Any = GPower.groups
    include: Any = GPower.include
    exclude: Any = GPower.exclude
    penalty_weights: Any = GPower.penalty_weights
    penalty: str | Penalty = GPower.penalty
    method: str = GPower.method
    positive: bool = GPower.positive
    variance: str = GPower.variance
    center: bool = GPower.center
    scale: bool = GPower.scale
    n_init: int | str = GPower.n_init
    deflation: str = GPower.deflation
    refit: str | None = GPower.refit
    polish: bool = GPower.polish
    tol: float = GPower.tol
    max_iter: int = GPower.max_iter
    missing: str = GPower.missing
    memory_limit: Any = GPower.memory_limit
    random_state: Seed = GPower.random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Choose the numbers of variables, then fit to all samples.

        Parameters
        ----------
        X : array-like, sparse matrix, or data on disk or on a cluster, of shape (n_samples, n_features)
        y : array-like, optional
            Only for splitters that ask for it.

        Returns
        -------
        self
        """
        check_option(self.rule, "rule", ("best", "one-se"))
        check_option(self.criterion, "criterion", ("auto", *SELECTION_CRITERIA))
        check_option(self.search, "search", ("sequential", "joint"))
        if self.method == "block" and self.search == "sequential":
            raise ValueError('method="block" finds all components at once; use search="joint" with it.')
        for word in ("include", "exclude"):
            if any(map(is_sequence, _list_entries(getattr(self, word)))):
                raise ValueError(
                    f"{word} has lists of its own for components; cross-validation takes one list for all."
                )
        table = read_estimator_input(self, X)
        grid = check_cardinality_grid(
            self.cardinalities, table.cardinality_range, DEFAULT_GRID_SIZES[_is_large_table(table)]
        )
        recipe = build_fit_spec(self._build_model(int(grid[0])).get_params(), table.shape, table.feature_names)
        folds = _make_folds(self, table, y, grid)
        splits = build_fold_source(table, recipe, [rows for fold in folds for rows in (fold.train, fold.test)])
        components = range(len(recipe.mu)) if self.search == "sequential" else (-1,)
        judged, chosen, points, products = [], [], [], make_score_gram_function(splits, self.scale)
        for j in range(len(components)):
            found = self._score_folds(folds, splits, j * len(folds), len(components) * len(folds))
            judged.append(combine_fold_scores(grid, found, products))
            by, would = apply_criteria(judged[-1], self.criterion, self.rule)
            chosen.append(by)
            points.append(would)
            folds = [fold.with_component(Z[would[by]]) for fold, (*_, Z) in zip(folds, found, strict=True)]
        self.cv_results_ = _build_cv_results(components, grid, judged)
        self.n_splits_ = len(folds)
        self.chosen_by_ = np.array(chosen, dtype=object)
        self.criteria_ = {name: grid[[would[name] for would in points]] for name in SELECTION_CRITERIA}
        numbers = [int(grid[would[by]]) for by, would in zip(chosen, points, strict=True)]
        self.best_params_: dict[str, IntPerComponent] = {
            "cardinality": numbers if self.search == "sequential" else numbers[0]
        }
        self.best_estimator_ = self._build_model(**self.best_params_).fit(X)
        return self

    def _score_folds(self, folds: Sequence[_Fold], fold_source: FoldSource, done: int, total: int) -> list[FoldScores]:
        """What the folds find of one component, told as they come."""
        found: list[FoldScores] = []
        for each in Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(fold.score_grid)(fold_source) for fold in folds
        ):
            found.append(each)
            if self.progress is not None:
                self.progress(done + len(found), total)
        return found

    def _build_model(self, cardinality: IntPerComponent = None) -> GPower:
        """GPower with the parameters that are shared, and a number of variables."""
        theirs = GPower().get_params()
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in theirs}
        return GPower(**shared, cardinality=cardinality)

    def __getattr__(self, name: str) -> Any:
        """What is fitted and not this object's own is the best estimator's."""
        if not name.endswith("_") or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "best_estimator_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before asking for {name}.")
        return getattr(self.best_estimator_, name)

    def _get_fitted_attributes(self) -> NamedValues:
        """Its own and the best estimator's."""
        own = super()._get_fitted_attributes()
        return own.pop("best_estimator_")._get_fitted_attributes() | own

    def _restore(self, fitted: NamedValues) -> None:
        """What a file holds, the best estimator's part to that one."""
        own = {
            name: fitted.pop(name) for name in ("cv_results_", "best_params_", "n_splits_", "chosen_by_", "criteria_")
        }
        shared = {name: fitted[name] for name in ("n_features_in_", "feature_names_in_") if name in fitted}
        self.__dict__.update(own | shared)
        self.best_estimator_ = self._build_model(np.asarray(self.best_params_["cardinality"]).tolist())
        self.best_estimator_._restore(fitted)


def _list_entries(value: object) -> list[object]:
    """The entries of what has any."""
    return list(value) if is_sequence(value) else []


def _is_large_table(table: EstimatorInput) -> bool:
    """Whether time is to be saved."""
    return table.shape[0] * table.shape[1] > MAX_SMALL_TABLE_ENTRIES


def _make_folds(model: GPowerCV, table: EstimatorInput, y: object, grid: Array) -> list[_Fold]:
    """What each fold needs to score the first component."""
    cv, p = model.cv, table.shape[0]
    if is_number(cv, Integral):
        if not 2 <= cv <= p:
            raise ValueError(f"cv={cv}: between 2 and n_samples={p} folds are needed.")
        cv = KFold(int(cv), shuffle=True, random_state=0 if model.random_state is None else model.random_state)
    each = model._build_model()
    quick = model.n_init == "auto" and _is_large_table(table)
    if quick:
        each.set_params(polish=False, tol=max(model.tol, 1e-4))
    if model.search == "sequential":
        each.set_params(n_components=1)
    rows, splits = np.arange(p), check_cv(cv, y).split(np.empty((p, 1)), y)
    parts = [(rows[np.asarray(train)], rows[np.asarray(test)]) for train, test in splits]
    if not all(train.size and test.size for train, test in parts):
        raise ValueError(f"cv gives {len(parts)} fold(s), one of them without samples to fit to or to judge by.")
    return [_Fold(each, grid, *part, model.n_components, quick) for part in parts]


@dataclass(frozen=True, eq=False)
class _Fold:
    """One split: samples to fit, samples to judge by, and the components chosen so far."""

    model: GPower
    grid: Array
    train: Array
    test: Array
    n_components: int  # components in all
    should_save_time: bool  # whether time is to be saved
    previous_loadings: tuple[Array, ...] = ()  # loadings of the components before, (n_features, 1) each

    def with_component(self, Z: sp.csc_array) -> _Fold:
        """The fold of the next component."""
        return replace(self, previous_loadings=(*self.previous_loadings, np.asarray(Z.toarray())))

    def score_grid(self, fold_source: FoldSource) -> FoldScores:
        """Share of the held-out variance in the span of the components, and reliability of scores, along the grid."""
        shape, params = (self.train.size, fold_source.n_features), self.model.get_params()
        recipes = [build_fit_spec(params | {"cardinality": int(k)}, shape, fold_source.names) for k in self.grid]
        prepared = fold_source.prepare_training(self.train, recipes)
        operator, moments = prepared.operator, prepared.moments
        held_out = fold_source.take_held_out(self.test, prepared, self.n_components)
        for Z in self.previous_loadings:
            operator = DEFLATION_RULES[self.model.deflation].remove(operator, Z[:, 0])
        found = dict(
            warm_path(operator, recipes, make_random_state(self.model.random_state), single_pass=self.should_save_time)
        )
        solutions = [found[i].Z for i in range(len(recipes))]
        total = compute_total_squares(held_out, moments) or np.inf
        rest = compute_leading_components(operator, self.n_components - len(self.previous_loadings))[0]
        gram = _compute_shared_sample_gram(operator)
        spans = (
            np.hstack([*self.previous_loadings, *Z])
            for Z in ((rest,), *((Z, self._compute_remaining_pca(operator, Z, gram)) for Z in solutions))
        )
        ordinary, *scores = (compute_captured_squares(held_out, span, moments) / total for span in spans)
        reliable = [compute_cronbach_alpha(held_out, Z, moments.scale) for Z in solutions]
        return np.array(scores), ordinary, np.array(reliable), [sp.csc_array(Z) for Z in solutions]

    def _compute_remaining_pca(self, operator: Operator, Z: Array, gram: Array | None) -> Array:
        """Ordinary components in place of those still to be chosen, (n_features, count)."""
        count = self.n_components - len(self.previous_loadings) - Z.shape[1]
        if count == 0:
            return Z[:, :0]
        left = DEFLATION_RULES[self.model.deflation].remove(operator, Z[:, 0])
        return compute_leading_components(
            left, count, sample_gram=None if gram is None else deflate_sample_gram(left, gram)
        )[0]


def _compute_shared_sample_gram(operator: Operator) -> Array | None:
    """Of the matrix that components were removed from, where that is wide; what many of its deflations share."""
    p, n = operator.shape
    return operator.split_deflation()[0].sample_gram(np.arange(n)) if operator.has_samples and p < n else None


def _build_cv_results(components: Sequence[int], grid: Array, scores: Sequence[CriterionScores]) -> dict[str, Array]:
    """The scores (n_splits, n_points) of each component as columns, in scikit-learn's layout; the other criteria."""
    rows = np.hstack([each.prediction for each in scores])
    ranks = [rankdata(-each.prediction.mean(axis=0), method="min") for each in scores]
    return {
        "param_component": np.repeat(components, grid.size),
        "param_cardinality": np.tile(grid, len(components)),
        **{f"split{i}_test_score": row for i, row in enumerate(rows)},
        "mean_test_score": rows.mean(axis=0),
        "std_test_score": rows.std(axis=0),
        "rank_test_score": np.hstack(ranks).astype(np.int32),
        "ordinary_score": np.repeat([each.pca_prediction.mean() for each in scores], grid.size),
        "agreement": np.hstack([each.agreement.mean(axis=0) for each in scores]),
        "stability": np.hstack([each.stability for each in scores]),
        "sparseness": np.hstack([each.sparseness for each in scores]),
        "reliability": np.hstack([each.reliability.mean(axis=0) for each in scores]),
    }
