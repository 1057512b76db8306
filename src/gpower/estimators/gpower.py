"""The scikit-learn estimator: validate, build the operator, solve, store. It contains no mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array, make_converter_to, pad_columns, to_host, to_numpy
from gpower._utils.messages import format_param
from gpower._utils.warnings import GPowerWarning, WarningSpec, capture_warnings, warn_all
from gpower.analysis.permutation_test import AUTO_SIGNIFICANCE_LEVEL, choose_n_components, describe_selection
from gpower.certificates import certificate_args, certify_components, certify_joint_variance
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.checkpointing import solve_with_checkpoint
from gpower.estimators.fit_summary import fit_warnings, log_fit, summarize_fit
from gpower.operators.running_moments import RunningMoments
from gpower.penalties.elementary import Penalty
from gpower.solvers.sequential import solve_all_components
from gpower.validation.params import get_constructor_params, make_random_state
from gpower.validation.prepare import EstimatorInput, PreparedData, read_estimator_input
from gpower.validation.solver import Solver
from gpower.validation.variable_rules import VariableRules

#: Beginnings of the names of the fitted attributes that some fits do not set.
OPTIONAL_ATTRIBUTES = ("covariate", "cardinality_choice", "upper_bound", "optimality_ratio", "total_")


@dataclass(eq=False, repr=False)
class GPower(SparsePCAEstimator):
    """Sparse principal components by the generalized power method.

    Each component is a unit vector of loadings with few non-zeros. Set how many with `cardinality`, or weigh sparsity
    against variance with `gamma`.

    The parameters come in three groups: what to find (from `n_components` to `deflation`), what the data are (from
    `covariance` to `balance`), and how to search and what to report (from `n_init` on).

    Parameters
    ----------
    n_components : int or "auto", default=2
        Number of components. "auto" takes as many as explain more than chance by `gpower.component_test`: at least one,
        and at most 20, or the length of a list with one entry per component, of which the first ones are used.
    cardinality : int, float or sequence of these, optional
        Exact number of non-zero loadings, for all components or one per component. If neither this nor `gamma`,
        `budget` or `l1_bound` is given, it is ten, or a third of the variables if there are fewer than thirty;
        `GPowerCV` chooses a number from the data. With ``penalty="l1"``, gamma is calibrated until that many variables
        are active. A number between 0 and 1 is a share of variance: use the fewest variables with which a component
        explains that share of the variance that a component of all variables would explain at that step.
    gamma : float or sequence of float, optional
        Penalty as a fraction in [0, 1) of its largest useful value, instead of `cardinality`; such as 0.01 (l0), or
        0.1 (l1), which is the default with ``penalty="l1"``.
    penalty : {"l0", "l1"} or Penalty, default="l0"
        Penalise the number of loadings ("l0") or their absolute sum ("l1"). An instance of a class derived from
        `gpower.penalties.Penalty` is a penalty of your own. It has its own level unless `cardinality` or `gamma` is
        given.
    method : {"deflation", "block"}, default="deflation"
        Find one component after the other, or all at once.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        Require orthogonal loadings, uncorrelated scores, or supports without a common variable. All components are then
        found as one problem that maximises the sum of their variances; needs `cardinality`.
    positive : bool, default=False
        Require non-negative loadings; a component then has at most `cardinality` of them.
    groups : sequence of labels or dict, optional
        Group of each variable, in the order of the columns. A dictionary maps a name or column number to a group, and
        every other variable is a group of its own, as is one whose label is missing (None, NaN or an empty text). A
        component uses all variables of a group or none: `cardinality` counts groups, and `gamma` weighs a group by the
        square root of its size unless `penalty_weights` is given.
    include, exclude : sequence of int or str, or one each
        Variables that are always among the `cardinality`, and variables that are never used, by name or column number;
        one list for all components, or one list for each.
    penalty_weights : sequence of float or dict, optional
        Non-negative weights of the variables. With `gamma` the threshold of a variable is γ times its weight, and a
        variable of weight zero is not penalised. The weight of a group is the root of the sum of squares of its
        variables' weights. A dictionary maps names, column numbers or labels of groups to weights; all others keep
        their default weight.
    budget : float or sequence of float, optional
        Largest sum of the weights of a component's variables, instead of `cardinality`.
    l1_bound : float or sequence of float, optional
        Bound s ≥ 1 of the constraint ‖z‖₁ ≤ √s, instead of a penalty.
    variance : {"l2", "l1"}, default="l2"
        Maximise ‖Az‖₂, or ‖Az‖₁, which outlying samples influence less.
    mu : sequence of float, optional
        Weights of the units of a block, by default all ones; decreasing weights order the components.
    deflation : {"projection", "orthogonalized", "schur"}, default="schur"
        Rule that removes a component before the next one is found. "schur" removes everything that is correlated with
        the component's scores, so that later components use other variables. "projection", the paper's rule, removes
        the part along its loadings, and "orthogonalized" the part along the loadings of all components so far. A block
        removes nothing.
    covariance : {None, "precomputed"}
        "precomputed": X is a covariance or correlation matrix, and nothing is centred or divided. Negative eigenvalues
        down to −1e-6 of the largest are set to zero with a note; a matrix with a smaller one is refused.
    center, scale : bool, default=True, False
        Subtract means; divide by standard deviations. Their divisor is that of `explained_variance_`, n_samples − 1, as
        in pandas (scikit-learn's StandardScaler divides by n_samples). X is neither changed nor copied.
    missing : {"error", "impute"}, default="error"
        Refuse missing values (NaN), or estimate them by a model of means and `n_components` ordinary components, fitted
        to the observed entries. `transform` then estimates them by the sparse components.
    balance : bool, default=False
        Weight the samples so that all batches, whose labels `fit` gets as `batch`, count equally.
    n_init : int or "auto", default="auto"
        Least number of starts; the best result is kept. "auto" scores all columns by their correlations and starts at
        the best of them and at the components of a sketch. A larger number adds columns.
    tol : float, default=1e-6
        Stop an ascent when the objective grows by no more than this, relatively.
    max_iter : int, default=1000
        Maximal number of steps of an ascent.
    solver : {"auto", "paper"} or Solver, default="auto"
        Search for the components: by the defaults of `gpower.Solver`, exactly as the paper does, or with options of
        your own, as ``solver=Solver(acceleration=False)``. "paper" is one start at the column of largest norm, an
        ascent on the full matrix without acceleration and local search, ``refit="norms"`` with ``penalty="l1"`` and no
        refit with ``penalty="l0"``, and a tolerance of 1e-4 unless `tol` differs from its default. Together with
        ``deflation="projection"`` it is the paper's method.
    certify : bool, default=False
        Also prove how far each component is from the best possible (`upper_bound_`, `optimality_ratio_`), and how far
        all are together (`total_optimality_ratio_`). Takes up to ten seconds per component; see `gpower.certify`.
    warm_start : bool, default=False
        Start a further `fit` at the components of the last one instead of at promising columns. Additional components
        start at promising columns.
    memory_limit : int or str, optional
        Memory for a fit to data on disk, in bytes or as text such as "2GB"; by default a quarter of the free memory.
    checkpoint : str or path, optional
        File that keeps the components found so far, when they are found one at a time.
    resume : bool, default=False
        Continue from the checkpoint if there is one of the same data and parameters.
    random_state : int, RandomState or None
        Seed of random starts and ties. None stands for a fixed seed: results are reproducible.
    verbose : int, default=0
        Log the result to the "gpower" logger.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit loadings; the largest of each component is positive.
    n_components_ : int
        Number of components found.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Adjusted variance: the variance not shared with components of higher variance, absolute (divided by
        n_samples − 1) and relative to the variance of the data.
    cardinality_ : ndarray of int
        Number of non-zero loadings.
    gamma_ : ndarray
        Absolute γ per component; NaN without a penalty.
    objective_, stationarity_gap_, n_iter_, converged_ : ndarray
        The paper's f at the end of each ascent, the first-order measure Δ there, the number of steps, and whether the
        stopping rule was met; one entry per component, a single one for a block.
    extraction_order_ : ndarray of int of shape (n_components,)
        Index in extraction order of each component. Components are sorted by decreasing variance unless a parameter
        gives each its own place.
    n_passes_ : float
        Number of reads of the matrix.
    upper_bound_, optimality_ratio_ : ndarray of shape (n_components,)
        With ``certify=True``: the value of ‖A z‖² that no component with as many variables exceeds on the matrix
        without the earlier components, and the share of it that was reached.
    overlap_ : ndarray of int of shape (n_components, n_components)
        Number of variables that two components share; on the diagonal, the cardinalities.
    loading_correlation_, score_correlation_ : ndarray of shape (n_components, n_components)
        Cosines between the loadings of two components, and correlations between their scores.
    total_upper_bound_, total_optimality_ratio_ : float
        With ``certify=True`` and several components: the value that the sum of ‖A z‖² cannot exceed under the
        constraint, and the share of it that was reached; see `gpower.certify_total`.
    mean_, scale_ : ndarray of shape (n_features,)
        Means and scales that were applied to the variables.
    covariates_coef_ : ndarray of shape (c, n_features)
        With covariates or batches: the coefficients of the c encoded covariates. A variable is its mean plus
        ``(C - covariates_mean_) @ covariates_coef_`` plus its residual.
    covariates_names_, covariates_levels_ : ndarray of str of shape (c,)
        The covariate that each column of C encodes, and the level that it indicates; empty for numbers.
    covariates_mean_ : ndarray of shape (c,)
        Means of the encoded covariates.
    covariates_rank_ : int
        Number of independent columns of C, by which limits of outliers allow for the covariates.
    covariate_variance_ratio_ : float
        Share of the variance that the covariates predict, and that was removed. `explained_variance_ratio_` refers to
        the rest. With ``scale=True``, the mean of the shares of all variables.
    notes_ : ndarray of str
        Remarks on the data that are no reason for concern, such as constant columns.
    warnings_ : ndarray of str
        Warnings of the fit, kept so that a report of a saved model can show them.
    component_p_values_ : ndarray
        With ``n_components="auto"``: p-values of all components that were tested.
    score_covariance_ : ndarray of shape (n_components, n_components)
        Covariance of the scores of the fitted samples: sparse components are correlated.
    n_samples_ : float
        Number of samples, or the sum of their weights; 1 for a precomputed covariance.
    n_features_in_ : int
        Number of variables.
    feature_names_in_ : ndarray of str
        Names of the variables, if X has any.

    References
    ----------
    [JNRS10] Journée, Nesterov, Richtárik, Sepulchre (2010). Generalized power method for sparse principal
    component analysis. Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import GPower
    >>> rng = np.random.default_rng(0)
    >>> factor = rng.standard_normal((50, 1))
    >>> X = rng.standard_normal((50, 8))
    >>> X[:, [1, 4, 6]] += 3 * factor
    >>> model = GPower(n_components=1, cardinality=3).fit(X)
    >>> np.flatnonzero(model.components_[0])
    array([1, 4, 6])
    """

    n_components: int | str = 2
    _: KW_ONLY
    cardinality: Any = None
    gamma: Any = None
    penalty: str | Penalty = "l0"
    method: str = "deflation"
    constraint: str | None = None
    positive: bool = False
    groups: Any = None
    include: Any = None
    exclude: Any = None
    penalty_weights: Any = None
    budget: Any = None
    l1_bound: Any = None
    variance: str = "l2"
    mu: Any = None
    deflation: str = "schur"
    covariance: str | None = None
    center: bool = True
    scale: bool = False
    missing: str = "error"
    balance: bool = False
    n_init: int | str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    solver: str | Solver = "auto"
    certify: bool = False
    warm_start: bool = False
    memory_limit: Any = None
    checkpoint: Any = None
    resume: bool = False
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, covariates: Any = None, batch: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples × variables, or a covariance with ``covariance="precomputed"``; never changed. Data that do not fit
            into memory are read in blocks: np.memmap, zarr array, HDF5 dataset, backed AnnData matrix, the path of such
            a store (.npy, .zarr, .h5, .h5ad, .parquet), or a Dask array. An array of PyTorch or CuPy, dense or sparse
            (CSR), stays on its device, and `components_`, `mean_`, `scale_` and the scores are dense arrays of the same
            library.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights that express how reliable each sample is; only their ratios matter. Variances are
            divided by Σw − Σw²/Σw, which is n_samples − 1 if all weights are one. Counts as weights give the same
            components as repeated rows, and variances larger by the factor (Σw − 1)/(Σw − Σw²/Σw).
        covariates : frame, mapping or array-like of shape (n_samples,) or (n_samples, c), optional
            What is already known about the samples, such as age or sequencing depth. The components are those of the
            residuals of X: the part that a linear regression on the covariates does not predict. Text and categories
            become indicators. With ``covariance="precomputed"``, names or column numbers of the variables that are
            covariates of the others.
        batch : array-like of shape (n_samples,), optional
            Labels of batches, each of which is centred by itself; the same as a categorical covariate.

        Returns
        -------
        self
        """
        convert = make_converter_to(X)
        with capture_warnings() as input_warnings:
            table = read_estimator_input(self, X).with_covariates(covariates, batch)
        self._fit_validated(table, sample_weight, input_warnings)
        for name in ("components_", "mean_", "scale_"):
            setattr(self, name, convert(getattr(self, name)))
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, covariates: Any = None, batch: Any = None
    ) -> Array:
        """Find the components of X and return its scores; the same as `fit` and then `transform`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight, covariates, batch : optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y, sample_weight, covariates, batch).transform(X, covariates, batch)

    def _fit_validated(
        self, table: EstimatorInput, sample_weight: Any = None, earlier_warnings: Sequence[str] = ()
    ) -> Self:
        """Fit to a table that this model, or one with the same data parameters, has read with `earlier_warnings`.

        Fitted arrays are NumPy or CuPy arrays; `fit` converts them to the library of the data. `partial_fit` starts
        anew afterwards.
        """
        if table.feature_names is not None:
            self.feature_names_in_ = table.feature_names
        self._running_moments: RunningMoments | None = None
        with capture_warnings() as data_warnings:
            chosen_params = self._choose_n_components(table, sample_weight)
            table = table.fill_missing(chosen_params.get("n_components"))
            prepared = table.prepare(sample_weight, table.build_fit_specs(chosen_params))
        return self._fit_prepared(self._apply_warm_start(prepared), [*earlier_warnings, *data_warnings])

    def _apply_warm_start(self, prepared: PreparedData) -> PreparedData:
        """Set the ends of the last ascents as the start, with `warm_start` and the same number of variables.

        A loaded model has its loadings instead. Components that the last fit did not have get zero loadings;
        `WarmStart` then falls back to the usual start.
        """
        fitted, operator = vars(self), prepared.operator
        if not self.warm_start or "components_" not in fitted:
            return prepared
        last = fitted.get("_ascent_ends")  # (n_features, m), in the order of extraction; a file does not have them
        if last is None:
            last = to_numpy(self.components_)[np.argsort(self.extraction_order_)].T
        if len(last) != operator.shape[1]:
            return prepared
        Z = pad_columns(last, len(prepared.fit_spec.mu)).astype(operator.dtype)
        # Z is on the host, and `to_backend` copies it to the device of the data, if they are on one.
        return replace(prepared, fit_specs=(prepared.fit_spec.with_start_loadings(operator.to_backend(Z)),))

    def _choose_n_components(self, table: EstimatorInput, sample_weight: Any) -> dict[str, Any]:
        """Return the parameters that ``n_components="auto"`` chooses, and store the p-values; else return none.

        They are `n_components` and every parameter with a list of values, cut to that number.
        """
        self.__dict__.pop("component_p_values_", None)
        if self.n_components != "auto":
            return {}
        if sample_weight is not None:
            raise ValueError(
                f"{format_param('n_components', 'auto')} permutes samples as equals; it takes no sample_weight."
            )
        chosen_params, self.component_p_values_ = choose_n_components(table, make_random_state(self.random_state))
        return chosen_params

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of samples and find the components of all samples so far.

        The model keeps means and covariance, not the samples, so that every sample is read once. The result equals that
        of `fit` to all samples. A call of `fit` starts anew.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The batch, of at most 10,000 variables.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.random.default_rng(0).standard_normal((60, 5))
        >>> model = GPower(1, cardinality=2)
        >>> for batch in np.split(X, 3):
        ...     model = model.partial_fit(batch)
        >>> bool(np.allclose(model.components_, GPower(1, cardinality=2).fit(X).components_))
        True
        """
        earlier_moments: RunningMoments | None = vars(self).get("_running_moments")
        batch = read_estimator_input(self, X, reset=earlier_moments is None)
        self._running_moments, prepared = batch.accumulate_moments(earlier_moments, sample_weight)
        return self._fit_prepared(self._apply_warm_start(prepared))

    def groups_used(self) -> list[list[Any]]:
        """Return the labels of the groups of each component, the group with the largest loadings first.

        Returns
        -------
        list of list
            A variable without a group appears under its name, or as x0, x1, … without names, as in `loadings`.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.random.default_rng(0).standard_normal((30, 6)) * [1, 1, 1, 4, 4, 1]
        >>> GPower(1, cardinality=1, groups=list("aabbcc")).fit(X).groups_used()
        [['b']]
        """
        check_is_fitted(self)
        names = vars(self).get("feature_names_in_")
        rules = VariableRules.from_params(get_constructor_params(self), self.n_features_in_, 1, names)
        return [rules.rank_groups(z) for z in to_numpy(self.components_)]

    def _fit_prepared(self, prepared: PreparedData, earlier_warnings: Sequence[str] = ()) -> Self:
        """Find and store the components, certify them if requested, and warn; store all warnings in `warnings_`.

        `earlier_warnings` were issued before, so they are stored only. `mean_`, `scale_` and `components_` stay on the
        device of the data, if they are on one; all other attributes are on the host.
        """
        rng = make_random_state(self.random_state)
        if self.checkpoint is None and not self.resume:
            result = solve_all_components(prepared.operator.with_column_cache(), prepared.fit_spec, rng)
        else:
            result = solve_with_checkpoint(prepared, rng, get_constructor_params(self))
        self._ascent_ends = to_host(result.Z if result.ascent_loadings is None else result.ascent_loadings)
        fit = summarize_fit(prepared, result, sort=True)
        for name in [name for name in vars(self) if name.startswith(OPTIONAL_ATTRIBUTES)]:
            delattr(self, name)  # of an earlier fit
        self.__dict__.update(fit.attributes)
        new_warnings: list[WarningSpec] = []
        if self.n_components == "auto":
            p_values = self.component_p_values_
            self.notes_ = np.append(self.notes_, describe_selection(p_values)).astype(object)
            if p_values[0] > AUTO_SIGNIFICANCE_LEVEL:
                message = f"No component explains more than chance (p = {p_values[0]:.2g}); one is kept all the same."
                new_warnings.append((message, UserWarning))
        if self.certify:
            self._store_certificates(prepared)
        new_warnings += fit_warnings(self, prepared.moments.column_norms, fit.unadjusted_variance)
        new_warnings += [(note, GPowerWarning) for note in result.notes]
        self.warnings_ = np.array([*earlier_warnings, *(message for message, _ in new_warnings)], dtype=object)
        if self.verbose:
            log_fit(self)
        warn_all(new_warnings)
        return self

    def _store_certificates(self, prepared: PreparedData) -> None:
        """Store the bounds of each component, on the matrix without the earlier ones, and of all together.

        `components_` is a NumPy array here: `fill_missing` refuses `certify` for data on a device. The operator is in
        float64, as `prepare` makes it with `certify`.
        """
        count, varies = len(self.components_), prepared.has_variance  # zero components are optimal without variance
        Z = self.components_.T.astype(np.float64)
        args = certificate_args(self)
        proofs = certify_components(prepared.operator, Z, **args) if varies else ()
        self.upper_bound_ = np.array([proof.upper_bound for proof in proofs] or [0.0] * count)
        self.optimality_ratio_ = np.array([proof.ratio for proof in proofs] or [1.0] * count)
        if count > 1 and varies:
            problem = {"cardinality": args["cardinality"], "constraint": self.constraint}
            total = certify_joint_variance(prepared.operator, Z, **problem)
            self.total_upper_bound_, self.total_optimality_ratio_ = total.upper_bound, total.ratio


def fit_validated(model: GPower, table: EstimatorInput) -> GPower:
    """Fit a model to a table that a model with the same data parameters has read."""
    return model._fit_validated(table)
