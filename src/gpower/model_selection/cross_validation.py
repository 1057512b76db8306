"""Choose the cardinality by cross-validation: `GPowerCV`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from gpower._utils.arrays import Array, Seed
from gpower._utils.messages import format_param
from gpower._utils.threads import limit_small_products
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.fit_summary import NamedValues
from gpower.estimators.gpower import GPower
from gpower.model_selection.criteria import SELECTION_CRITERIA, SELECTION_RULES, ChosenPoint, choose_point
from gpower.model_selection.folds import FoldSource, build_fold_source
from gpower.model_selection.grids import check_cardinality_grid, warm_path
from gpower.model_selection.path import StepProgressCallback
from gpower.operators import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import Penalty
from gpower.plotting import plot_cv
from gpower.plotting.style import AxesLike, Panel
from gpower.problem.deflation import DEFLATION_RULES
from gpower.solvers.covariance_stack import can_solve_in_stack, find_components_in_stack
from gpower.solvers.fit_specification import FitSpec
from gpower.validation.checks import is_number, is_sequence
from gpower.validation.covariates import Covariates
from gpower.validation.params import IntPerComponent, build_fit_spec, check_option, make_random_state
from gpower.validation.prepare import EstimatorInput, read_estimator_input
from gpower.validation.solver import PAPER_TOL, Solver

#: Largest number of entries of a table whose folds are fitted with the settings of the final fit. Folds of larger
#: tables skip the local search and have a tolerance of at least 1e-4.
MAX_SMALL_TABLE_ENTRIES = 100_000
#: Maximum number of points of the default grid, for a small table and for a large one.
DEFAULT_GRID_SIZES = (50, 18)


@dataclass(eq=False, repr=False)
class GPowerCV(SparsePCAEstimator):
    """Sparse principal components with the number of variables chosen by cross-validation.

    The number chosen is that with the largest product of two shares: of the variance of held-out samples that the
    component adds, and of the variables that it does not use. Components are chosen one after the other. Each is scored
    together with the others, those chosen before and preliminary ones in place of the later: otherwise a component
    would grow to explain the variance of the next one. The preliminary ones all have the same number of variables, the
    best of the grid.

    Parameters
    ----------
    n_components : int, default=2
    cardinalities : sequence of int, optional
        Candidates. By default up to 50, or up to 18 for a large table, evenly spaced on a logarithmic scale from one to
        all variables.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; an int is the number of folds of a shuffled `KFold`.
    criterion : {"sparseness", "prediction"}, default="sparseness"
        Score of a number of variables: the explained variance of held-out samples times the share of unused variables,
        or the explained variance alone. "prediction" is for scores that are used in further analyses; in most real
        tables it prefers nearly all variables.
    rule : {"best", "one-se"}, default="best"
        Take the largest mean score, or the fewest variables within one standard error of it.
    search : {"sequential", "joint"}, default="sequential"
        Choose one component after the other, each with its own cardinality, or one cardinality for all components.
    n_jobs : int, optional
        Number of folds processed in parallel, as in scikit-learn.
    progress : callable, optional
        Called as ``progress(done, total)`` after each fold of each component.
    groups, include, exclude, penalty_weights
        As in `GPower`; `include` and `exclude` are one list for all components. With groups, cardinalities count
        groups.
    penalty, method, positive, variance, center, scale, n_init, deflation, tol, max_iter, solver, random_state
        As in `GPower`. ``method="block"`` needs ``search="joint"``. With ``n_init="auto"``, the folds of a large table
        have their own starts at a few points of the grid only, and skip the local search; the final fit has all starts.
    missing : {"error", "impute"}, default="error"
        As in `GPower`; missing values of a fold are imputed from its training samples.
    memory_limit : int or str, optional
        As in `GPower`. If it does not hold the data four times, folds are fitted to covariances of their samples.

    Attributes
    ----------
    cardinality_ : ndarray of shape (n_components,)
        Number of variables of each component: as chosen, or at most that with ``positive=True``. Components come by
        decreasing variance.
    cardinality_range_ : ndarray of shape (n_components, 2)
        Fewest and most variables that would do as well: their scores are within one standard error of the largest. The
        standard error is that of the paired differences between the scores of the same folds, which is not that of the
        scores, drawn by `plot`.
    n_components_ : int
        Number of components found.
    best_params_ : dict
        ``cardinality``: the chosen cardinalities, or the one of a joint search.
    cv_results_ : dict of ndarray
        As in scikit-learn: ``param_component`` (−1 for all), ``param_cardinality``, ``split0_test_score`` …,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score`` (within a component), all of the explained
        variance; also ``ordinary_score`` (the mean score of PCA components), ``mean_sparseness`` and
        ``std_sparseness``.
    best_estimator_ : GPower
        Model fitted to all samples with the chosen cardinalities. Its fitted attributes are available on this object.
    cardinality_choice_ : str
        Sentence on the choice, without its full stop: the numbers, those that would do as well or the nearest ones
        tried, which do worse, and what they were chosen by. It is an attribute of `best_estimator_`, so that texts and
        reports of that model have it.
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
    criterion: str = "sparseness"
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
    tol: float = GPower.tol
    max_iter: int = GPower.max_iter
    solver: str | Solver = GPower.solver
    missing: str = GPower.missing
    memory_limit: Any = GPower.memory_limit
    random_state: Seed = GPower.random_state

    def fit(self, X: object, y: object = None, covariates: Any = None, batch: Any = None) -> Self:
        """Choose the cardinalities, then fit to all samples.

        Parameters
        ----------
        X : array-like, sparse matrix, or data on disk or on a cluster, of shape (n_samples, n_features)
        y : array-like, optional
            Target that some splitters use.
        covariates, batch : optional
            Covariates and batch labels of the samples, as for `GPower.fit`. The regression of a fold uses its training
            samples, and its coefficients are applied to the held-out ones. If `cv` is a number, every fold gets its
            share of every batch.

        Returns
        -------
        self
        """
        check_option(self.rule, "rule", SELECTION_RULES)
        check_option(self.criterion, "criterion", tuple(SELECTION_CRITERIA))
        check_option(self.search, "search", ("sequential", "joint"))
        if self.method == "block" and self.search == "sequential":
            raise ValueError(
                f"{format_param('method', 'block')} finds all components at once; use "
                f"{format_param('search', 'joint')} with it."
            )
        for name in ("include", "exclude"):
            value = getattr(self, name)
            if is_sequence(value) and any(map(is_sequence, value)):
                raise ValueError(f"{name} has a list for each component; cross-validation takes one list for all.")
        table = read_estimator_input(self, X).with_covariates(covariates, batch)
        grid = check_cardinality_grid(
            self.cardinalities, table.cardinality_range, DEFAULT_GRID_SIZES[_is_large_table(table)]
        )
        fit_spec = build_fit_spec(
            self._build_model(int(grid[0])).get_params(deep=False), table.shape, table.feature_names
        )
        folds = _make_folds(self, table, y, grid)
        fold_source = build_fold_source(table, fit_spec, [rows for fold in folds for rows in (fold.train, fold.test)])
        components = range(len(fit_spec.mu)) if self.search == "sequential" else (-1,)
        with limit_small_products(math.prod(table.shape)):
            scores_by_component = self._choose_in_turn(folds, fold_source, len(components))
        points = [choose_point(scores[self.criterion], self.rule) for scores in scores_by_component]
        order = self._fit_best_estimator(X, grid, points, covariates, batch)
        self.cv_results_ = _build_cv_results(components, grid, [scores_by_component[j] for j in order])
        self.n_splits_ = len(folds)
        self.best_estimator_.cardinality_choice_ = describe_cardinality_choice(self)
        return self

    def fit_transform(self, X: Any, y: Any = None, covariates: Any = None, batch: Any = None) -> Array:
        """Choose the cardinalities, fit to all samples and return their scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like, optional
            Target that some splitters use.
        covariates, batch : optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y, covariates, batch).transform(X, covariates, batch)

    def plot(self, axes: AxesLike = None) -> Panel:
        """Plot the score of every number of variables, with the choice; see `gpower.plotting.plot_cv`.

        The broad line of numbers that would do as well comes from paired differences between folds, not from the error
        bars, which are those of the scores.

        Parameters
        ----------
        axes : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_cv(self, axes)

    def _choose_in_turn(
        self, folds: Sequence[_Fold], fold_source: FoldSource, n_choices: int
    ) -> list[dict[str, Array]]:
        """Return the scores of every choice: that of one component after the other, or one for all.

        First all components have the same number of variables. From the best such components the later ones are taken
        while the number of each component is chosen.
        """
        scores_by_component: list[dict[str, Array]] = []
        total = n_choices * len(folds)
        fold_scores = self._score_folds(folds, fold_source, 0, total)
        if n_choices > 1:
            best = choose_point(_stack_scores(fold_scores)[self.criterion], "best").chosen
            folds = [fold.with_later(own.loadings[best]) for fold, own in zip(folds, fold_scores, strict=True)]
            fold_scores = [
                fold.score_grid(fold_source, [Z.toarray()[:, :1] for Z in own.loadings])
                for fold, own in zip(folds, fold_scores, strict=True)
            ]
        for j in range(n_choices):
            if j > 0:
                fold_scores = self._score_folds(folds, fold_source, j * len(folds), total)
            scores_by_component.append(_stack_scores(fold_scores))
            chosen = choose_point(scores_by_component[-1][self.criterion], self.rule).chosen
            folds = [fold.with_component(own.loadings[chosen]) for fold, own in zip(folds, fold_scores, strict=True)]
        return scores_by_component

    def _fit_best_estimator(
        self, X: object, grid: Array, points: Sequence[ChosenPoint], covariates: Any, batch: Any
    ) -> list[int]:
        """Fit the chosen cardinalities to all samples, store the model and the ranges, and return the final order.

        A component that explains more than an earlier one takes its place, and the fit is repeated in the new order.
        """
        order = list(range(len(points)))
        for attempt in range(len(points)):
            numbers = [int(grid[points[j].chosen]) for j in order]
            self.best_params_: dict[str, IntPerComponent] = {
                "cardinality": numbers if self.search == "sequential" else numbers[0]
            }
            self.best_estimator_ = self._build_model(**self.best_params_).fit(X, covariates=covariates, batch=batch)
            by_variance = np.argsort(-self.best_estimator_.explained_variance_, kind="stable").tolist()
            if by_variance == sorted(by_variance) or attempt == len(points) - 1:
                break
            order = [order[j] for j in by_variance]
        ranges = np.array([[grid[points[j].first], grid[points[j].last]] for j in order])
        self.cardinality_range_ = np.resize(ranges, (len(self.best_estimator_.cardinality_), 2))
        return order

    def _score_folds(self, folds: Sequence[_Fold], fold_source: FoldSource, done: int, total: int) -> list[_FoldScores]:
        """Return the scores of all folds for one component, and report progress after each fold."""
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(fold.score_grid)(fold_source) for fold in folds
        )
        fold_scores: list[_FoldScores] = []
        for result in results:
            fold_scores.append(result)
            if self.progress is not None:
                self.progress(done + len(fold_scores), total)
        return fold_scores

    def _build_model(self, cardinality: IntPerComponent = None) -> GPower:
        """Return an unfitted GPower with the shared parameters and this cardinality."""
        accepted = GPower().get_params()
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in accepted}
        return GPower(**shared, cardinality=cardinality)

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the best estimator that this object does not have."""
        if not name.endswith("_") or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "best_estimator_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before asking for {name}.")
        return getattr(self.best_estimator_, name)

    def _get_fitted_attributes(self) -> NamedValues:
        """Return this object's fitted attributes together with those of the best estimator."""
        own = super()._get_fitted_attributes()
        return own.pop("best_estimator_")._get_fitted_attributes() | own

    def _restore(self, fitted: NamedValues) -> None:
        """Set the fitted attributes read from a file, on this object and on a new best estimator."""
        own = {name: fitted.pop(name) for name in ("cv_results_", "best_params_", "n_splits_", "cardinality_range_")}
        shared = {name: fitted[name] for name in ("n_features_in_", "feature_names_in_") if name in fitted}
        self.__dict__.update(own | shared)
        self.best_estimator_ = self._build_model(np.asarray(self.best_params_["cardinality"]).tolist())
        self.best_estimator_._restore(fitted)


def describe_cardinality_choice(search: GPowerCV) -> str:
    """Return a sentence, without its full stop, on the numbers of variables or groups that a fitted search chose.

    Examples
    --------
    >>> from gpower import GPowerCV
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.model_selection.cross_validation import describe_cardinality_choice
    >>> search = GPowerCV(1, cardinalities=[3, 8, 150], criterion="prediction").fit(load_planted_expression().X)
    >>> print(describe_cardinality_choice(search).partition(": ")[2])
    it has the largest variance explained in held-out samples (prediction)
    """
    chosen: Any = search.best_params_["cardinality"]
    numbers = np.resize(chosen, len(search.cardinality_range_)).tolist()
    grid = np.unique(search.cv_results_["param_cardinality"]).tolist()
    choices = [
        f"{number} ({_describe_alternatives(grid, *limits)})"
        for number, limits in zip(numbers, search.cardinality_range_.tolist(), strict=True)
    ]
    unit = "variables" if search.groups is None else "groups"
    if len(choices) == 1:
        subject, is_largest, is_fewest = f"the number of {unit}, {choices[0]}, was", "it has", "it is"
    else:
        listed = f"{', '.join(choices[:-1])} and {choices[-1]}"
        subject, is_largest, is_fewest = f"the numbers of {unit}, {listed}, were", "they have", "they are"
    reason = f"{is_fewest} the fewest within one standard error of" if search.rule == "one-se" else is_largest
    return (
        f"{subject} chosen by cross-validation in {search.n_splits_} folds: {reason} the largest "
        f"{SELECTION_CRITERIA[search.criterion]} ({search.criterion})"
    )


def _describe_alternatives(grid: list[int], first: int, last: int) -> str:
    """Return the range of numbers that would do as well; if it is a single one, its neighbours in the grid.

    Examples
    --------
    >>> _describe_alternatives([5, 9, 12, 15], 9, 12), _describe_alternatives([9, 12, 15], 12, 12)
    ('9 to 12 would do as well', 'of those tried; 9 and 15 do worse')
    """
    if first < last:
        return f"{first} to {last} would do as well"
    i = grid.index(first)
    worse = [str(number) for number in (*grid[max(i - 1, 0) : i], *grid[i + 1 : i + 2])]
    verb = "does" if len(worse) == 1 else "do"
    return f"of those tried; {' and '.join(worse)} {verb} worse" if worse else "the only one tried"


def _is_large_table(table: EstimatorInput) -> bool:
    """Return whether folds of the table are fitted with faster settings."""
    return table.shape[0] * table.shape[1] > MAX_SMALL_TABLE_ENTRIES


def _make_folds(model: GPowerCV, table: EstimatorInput, y: object, grid: Array) -> list[_Fold]:
    """Return the folds before any component is chosen."""
    fold_model = model._build_model()
    single_pass = model.n_init == "auto" and _is_large_table(table)
    if single_pass:
        fold_model.set_params(tol=max(model.tol, PAPER_TOL))
        if fold_model.solver != "paper":  # which has no local search
            fold_model.set_params(solver__local_search=False)
    no_loadings = np.zeros((table.shape[1], 0))
    return [
        _Fold(
            model=fold_model,
            grid=grid,
            max_cardinality=table.cardinality_range[1],
            train=train,
            test=test,
            n_components=model.n_components,
            single_pass=single_pass,
            previous_loadings=no_loadings,
            later_loadings=no_loadings,
        )
        for train, test in _split_samples(model, table, y)
    ]


def _split_samples(model: GPowerCV, table: EstimatorInput, y: object) -> list[tuple[Array, Array]]:
    """Return the indices of the training and of the held-out samples of every fold; raise if a fold cannot be used."""
    cv, rows = model.cv, np.arange(table.shape[0])
    batch = getattr(table.covariates, "batch", None)
    if is_number(cv, Integral):
        if not 2 <= cv <= rows.size:
            raise ValueError(f"cv={cv}: between 2 and n_samples={rows.size} folds are needed.")
        if batch is not None:  # deal out the samples of one batch after the other
            order = make_random_state(model.random_state).permutation(rows)
            order = order[np.argsort(batch[order], kind="stable")]
            cv = [(np.sort(np.delete(order, np.s_[i::cv])), np.sort(order[i::cv])) for i in range(cv)]
        else:
            cv = KFold(int(cv), shuffle=True, random_state=0 if model.random_state is None else model.random_state)
    splits = [
        (rows[np.asarray(train)], rows[np.asarray(test)])
        for train, test in check_cv(cv, y).split(np.empty((rows.size, 1)), y)
    ]
    if not all(train.size and test.size for train, test in splits):
        raise ValueError(f"cv gives {len(splits)} fold(s), one of them without training or test samples.")
    if isinstance(table.covariates, Covariates):
        for train, test in splits:
            table.covariates.check_levels(train, test)
    return splits


class _FoldScores(NamedTuple):
    """Scores of one fold for every cardinality of the grid."""

    prediction: Array  # share of the held-out variance that is explained, (n_points,)
    sparseness: Array  # what the component adds to that share, times the share of unused variables, (n_points,)
    pca_prediction: float  # share that the earlier components and PCA components explain
    loadings: list[sp.csc_array]  # loadings fitted to the training samples, (n_features, m) for each point


def _stack_scores(fold_scores: Sequence[_FoldScores]) -> dict[str, Array]:
    """Return the scores of all folds by name, with one row per fold."""
    names = ("prediction", "sparseness", "pca_prediction")
    return {name: np.array([getattr(fold, name) for fold in fold_scores]) for name in names}


@dataclass(frozen=True, eq=False)
class _Fold:
    """One split into training and test samples, with the components chosen so far."""

    model: GPower
    grid: Array
    max_cardinality: int  # number of variables, or of groups, that a component may use
    train: Array  # indices of the training samples
    test: Array  # indices of the held-out samples
    n_components: int  # number of all components, chosen or not
    single_pass: bool  # walk the grid once instead of twice
    previous_loadings: Array  # loadings of the chosen components, (n_features, j)
    later_loadings: Array  # loadings in place of components that are chosen later, (n_features, l)

    def with_component(self, Z: sp.csc_array) -> _Fold:
        """Return the fold after choosing a component with loadings Z, (n_features, m)."""
        previous = np.hstack([self.previous_loadings, Z.toarray()])
        return replace(self, previous_loadings=previous, later_loadings=self.later_loadings[:, 1:])

    def with_later(self, Z: sp.csc_array) -> _Fold:
        """Return the fold in which all components but the first have the loadings Z, (n_features, m)."""
        return replace(self, later_loadings=Z.toarray()[:, 1:])

    def _fit_grid(self, operator: Operator, fit_specs: Sequence[FitSpec]) -> list[Array]:
        """Return the loadings of every specification, (n_features, m) each."""
        n = operator.shape[1]
        if can_solve_in_stack(fit_specs[0], n):
            S = np.repeat(operator.gram(np.arange(n))[None], len(fit_specs), axis=0)
            cardinalities = np.array([spec.cardinalities for spec in fit_specs])
            return list(find_components_in_stack(S, cardinalities, local_search=fit_specs[0].local_search))
        rng = make_random_state(self.model.random_state)
        solutions = dict(warm_path(operator, fit_specs, rng, single_pass=self.single_pass))
        return [solutions[i].Z for i in range(len(fit_specs))]

    def score_grid(self, fold_source: FoldSource, candidates: Sequence[Array] | None = None) -> _FoldScores:
        """Fit the components that have no loadings yet at every point of the grid and score them on held-out samples.

        `candidates`, (n_features, m) for each point, are fitted loadings that are only scored.
        """
        previous, later = self.previous_loadings, self.later_loadings
        n_fitted = self.n_components - previous.shape[1] - later.shape[1]
        params = self.model.get_params(deep=False) | {"n_components": n_fitted}
        shape = self.train.size, len(previous)
        fit_specs = [build_fit_spec(params | {"cardinality": int(k)}, shape, fold_source.names) for k in self.grid]
        prepared = fold_source.prepare_training(self.train, fit_specs)
        score = fold_source.make_held_out_score(self.test, prepared, self.n_components)
        operator = prepared.operator
        for z in previous.T:
            operator = DEFLATION_RULES[self.model.deflation].remove(operator, z)
        if candidates is None:
            candidates = self._fit_grid(operator, fit_specs)
        prediction = np.array([score(np.hstack([previous, Z, later])) for Z in candidates])
        others = np.hstack([previous, later])
        gain = prediction - (score(others) if others.size else 0.0)
        pca_loadings = compute_leading_components(operator, n_fitted + later.shape[1])[0]
        return _FoldScores(
            prediction=prediction,
            sparseness=gain * (1 - self.grid / self.max_cardinality),
            pca_prediction=score(np.hstack([previous, pca_loadings])),
            loadings=[sp.csc_array(Z) for Z in candidates],
        )


def _build_cv_results(components: Sequence[int], grid: Array, scores: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Return the scores of all components as columns in scikit-learn's layout, with the index of sparseness."""
    prediction, sparseness = (np.hstack([each[name] for each in scores]) for name in ("prediction", "sparseness"))
    ranks = [rankdata(-each["prediction"].mean(axis=0), method="min") for each in scores]
    return {
        "param_component": np.repeat(components, grid.size),
        "param_cardinality": np.tile(grid, len(components)),
        **{f"split{i}_test_score": row for i, row in enumerate(prediction)},
        "mean_test_score": prediction.mean(axis=0),
        "std_test_score": prediction.std(axis=0),
        "rank_test_score": np.hstack(ranks).astype(np.int32),
        "ordinary_score": np.repeat([each["pca_prediction"].mean() for each in scores], grid.size),
        "mean_sparseness": sparseness.mean(axis=0),
        "std_sparseness": sparseness.std(axis=0),
    }
