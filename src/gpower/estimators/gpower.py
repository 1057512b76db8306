"""The scikit-learn estimator: validate → operator → extract → store, and no mathematics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpower._utils.arrays import Array, pad_columns, to_host
from gpower._utils.backends import make_converter_to, to_numpy
from gpower._utils.warnings import GPowerWarning, WarningSpec, capture_warnings, warn_all
from gpower.analysis.permutation import AUTO_SIGNIFICANCE_LEVEL, choose_n_components, describe_selection
from gpower.certificates import certificate_args, certify_components, certify_joint_variance
from gpower.estimators.base import SparsePCAEstimator, summarize_fit
from gpower.estimators.checkpointing import extract_with_checkpoint
from gpower.estimators.diagnostics import fit_warnings, log_fit
from gpower.operators.running_moments import RunningMoments
from gpower.penalties.elementary import Penalty
from gpower.solvers.ascent import Callback
from gpower.validation.params import get_constructor_params, make_random_state
from gpower.validation.prepare import EstimatorInput, PreparedData, read_estimator_input
from gpower.validation.variable_rules import VariableRules


@dataclass(eq=False, repr=False)
class GPower(SparsePCAEstimator):
    """Sparse principal components by the generalized power method.

    Each component is a unit vector of loadings with few non-zeros. Say how many with `cardinality`, or weigh
    sparsity against variance with `gamma`.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Number of components; "auto": as many as explain more than chance by `gpower.component_test`, at least one, at
        most 20 or as many as a list of cardinalities has.
    cardinality : int, float or sequence of these, optional
        Exactly that many non-zero loadings, for all components or one each. With ``penalty="l0"`` the
        constrained problem is solved; with ``penalty="l1"`` gamma is calibrated until that many are active. A share
        between 0 and 1: the fewest variables for which a component explains that share of what one of all variables
        would at its turn.
    penalty : {"l0", "l1"} or Penalty, default="l0"
        Penalty on the number of loadings, or on their absolute sum. An object of a class derived from
        `gpower.penalties.Penalty` is a sparsity of your own; its level is its own, or the `cardinality` or `gamma` that
        it is asked for.
    gamma : float or sequence of float, optional
        Penalty as a fraction in [0, 1) of its largest useful value; default 0.01 (l0) or 0.1 (l1).
    method : {"deflation", "block"}, default="deflation"
        One component after the other, or all at once.
    mu : sequence of float, optional
        Weights of the units of a block, default all ones; decreasing ones order the components.
    variance : {"l2", "l1"}, default="l2"
        Maximise ‖Az‖₂, or ‖Az‖₁, which outlying samples sway less.
    positive : bool, default=False
        Non-negative loadings; a component then has at most `cardinality` of them.
    covariance : {None, "precomputed"}
        X is a covariance or correlation matrix; nothing is centred or divided.
    psd : {"lift", "error"}, default="lift"
        Set negative eigenvalues of a precomputed covariance to zero, with a note, or refuse them. Those below −1e-6 of
        the largest that rounding to the digits seen does not explain are refused anyway.
    center, scale : bool, default=True, False
        Subtract means; divide by standard deviations, whose divisor is that of `explained_variance_`: n_samples − 1, as
        pandas has it (scikit-learn's StandardScaler divides by n_samples). Never changes or copies X.
    n_init : int or "auto", default="auto"
        Least number of starts, the best end kept. "auto" scores all columns by the correlations that they stand out by,
        and starts at the best of them and at the components of a sketch; a larger number adds columns.
    init : {None, "paper"} or ndarray of shape (n_samples, n_components)
        Start at promising columns, as the paper does, or where you say.
    solver : {"auto", "rounds", "direct"}, default="auto"
        Rounds on a working set of columns, or the ascent on the whole matrix, which small problems get.
    refit : {"auto", "norms", "variance", None}, default="auto"
        How the loadings of the pattern found are filled in. One unit: rank-one SVD. Block: the paper's
        sum of norms, the sum of squares, or the better of both by adjusted variance. None: as read off.
    polish : bool, default=True
        Improve the components by a local search: swap variables of an exact cardinality; add, drop and swap them
        under a penalty; find each unit of a block by gamma again beside the others, on small data.
    deflation : {"projection", "orthogonalized", "schur"}, default="schur"
        How a component is removed before the next. "schur" takes everything from the data that is correlated with the
        component's scores, so that later components look elsewhere; "projection", the paper's rule, takes what lies
        along its loadings, "orthogonalized" along the loadings of all so far. A block removes nothing.
    constraint : {None, "orthogonal", "uncorrelated", "disjoint"}
        What several components with a cardinality owe each other: orthogonal loadings, uncorrelated scores, or no
        variable in common. All are then found as one problem, the sum of their variances as large as it gets.
    groups : sequence of labels or dict, optional
        The group of each variable, in the order of the columns; or by its name or column number, where variables that
        are not named are groups of their own. A group is in or out as a whole: `cardinality` counts groups, and `gamma`
        weighs them by the square root of their size, unless `penalty_weights` says otherwise.
    include, exclude : sequence of int or str, or one each
        Variables that are always among the `cardinality`, and variables that are never used, by name or column number;
        one list for all components, or one list for each.
    penalty_weights : sequence of float or dict, optional
        Non-negative weights of the variables: with `gamma` the threshold of a variable is γ times its weight, and zero
        is free. Of a group the root of the sum of squares counts. A dictionary holds weights by name or column, or by
        label of groups, and those that it does not name are as without it.
    budget : float or sequence of float, optional
        Instead of `cardinality`: the most that the weights of the variables of a component may sum to.
    l1_bound : float or sequence of float, optional
        s ≥ 1 of the constraint ‖z‖₁ ≤ √s, instead of a penalty.
    regularization : float, default=0.0
        ω of the strongly convex block objective.
    acceleration : bool, default=True
        Momentum with monotone restart.
    tol : float, default=1e-6
        Stop when the objective grows by no more than this, relatively.
    max_iter : int, default=1000
        Most steps of an ascent.
    certify : bool, default=False
        Also prove how far each component is from the best possible: `upper_bound_` and `optimality_ratio_`, and all of
        them together: `total_optimality_ratio_`. Takes up to ten seconds for each; see `gpower.certify`.
    missing : {"error", "impute"}, default="error"
        What NaN entries do: they are refused, or filled by a model of means and `n_components` ordinary components,
        fitted to the observed entries. `transform` then fills by the sparse components.
    accumulation : {None, "float64"}, default=None
        Type in which products with float32 data are summed, on the processor or on a GPU: that of the data, or
        float64, whose sums over very many samples keep all digits of the data but take several times as long. Means,
        norms and sums over blocks of data on disk or on a cluster are made in float64 anyway.
    memory_limit : int or str, optional
        Bytes, or words such as "2GB", that a fit to data on disk may take; by default a quarter of the free memory.
    checkpoint : str or path, optional
        File to keep the components found so far in, for fits one component at a time.
    resume : bool, default=False
        Go on from the checkpoint, if there is one, of the same data and parameters.
    warm_start : bool, default=False
        Begin a further `fit` at the components that the last one has found, instead of at promising columns; components
        that it did not have begin there all the same.
    random_state : int, RandomState or None
        Of random starts and ties. None stands for a fixed seed: results repeat.
    verbose : int, default=0
        Log what is found to the "gpower" logger.
    callback : callable, optional
        Called with the state of the ascent after each step; a true answer stops that ascent.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit loadings, the largest of each positive.
    n_components_ : int
        Number of components found.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Adjusted variance: of each component the part that the others of larger variance leave.
    cardinality_ : ndarray of int
        Number of non-zero loadings.
    gamma_ : ndarray
        Absolute γ per component; NaN where there is none.
    objective_, stationarity_gap_, n_iter_, converged_ : ndarray
        The paper's f at the end of each ascent, the first-order measure Δ there, its steps, and whether the
        stopping rule was met; one entry per component, a single one for a block.
    extraction_order_ : ndarray of int of shape (n_components,)
        The place, from 0 on, at which each component was found: they are shown by decreasing variance, where none has
        a place of its own.
    n_passes_ : float
        Reads of the matrix.
    upper_bound_, optimality_ratio_ : ndarray of shape (n_components,)
        With ``certify=True``: what no component of as many variables can exceed, in the units of ‖A z‖² as `objective_`
        of an exact cardinality, on the matrix less the components found before; and the share of it that was found.
    overlap_ : ndarray of int of shape (n_components, n_components)
        Number of variables in both of two components; of a component with itself, all of its own.
    loading_correlation_, score_correlation_ : ndarray of shape (n_components, n_components)
        Cosines between the loadings of two components, and correlations between their scores.
    total_upper_bound_, total_optimality_ratio_ : float
        With ``certify=True`` and several components: what the sum of ‖A z‖² of no such set exceeds that keeps the
        constraint, and the share of it that was found; see `gpower.certify_total`.
    mean_, scale_ : ndarray of shape (n_features,)
    notes_ : ndarray of str
        What is worth knowing and no reason to worry: columns that do not vary, eigenvalues that were lifted.
    warnings_ : ndarray of str
        What the fit warned of, so that a report of a saved model can tell.
    component_p_values_ : ndarray
        With ``n_components="auto"``: p-values of all components that were looked at.
    score_covariance_ : ndarray of shape (n_components, n_components)
        Of the scores of the samples fitted: sparse components are correlated.
    n_samples_ : float
        Number of samples, or the sum of their weights; 1 for a precomputed covariance.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has names.

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
    penalty: str | Penalty = "l0"
    gamma: Any = None
    method: str = "deflation"
    mu: Any = None
    variance: str = "l2"
    positive: bool = False
    covariance: str | None = None
    psd: str = "lift"
    center: bool = True
    scale: bool = False
    n_init: int | str = "auto"
    init: Any = None
    solver: str = "auto"
    refit: str | None = "auto"
    polish: bool = True
    deflation: str = "schur"
    constraint: str | None = None
    groups: Any = None
    include: Any = None
    exclude: Any = None
    penalty_weights: Any = None
    budget: Any = None
    l1_bound: Any = None
    regularization: float = 0.0
    acceleration: bool = True
    tol: float = 1e-6
    max_iter: int = 1000
    certify: bool = False
    missing: str = "error"
    accumulation: str | None = None
    memory_limit: Any = None
    checkpoint: Any = None
    resume: bool = False
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples × variables, or a covariance with ``covariance="precomputed"``. Never changed. Also a store that is
            read in blocks: np.memmap, zarr array, HDF5 dataset, backed AnnData matrix, path of one (.npy, .zarr, .h5,
            .h5ad, .parquet), or a Dask array. An array of PyTorch or CuPy stays on its device, and `components_`,
            `mean_`, `scale_` and scores are of its kind.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights that say how reliable each sample is; only their ratios matter. Variances are divided
            by Σw − Σw²/Σw, which is n_samples − 1 for weights of one: counts as weights give the components of repeated
            rows, and variances larger by (Σw − 1)/(Σw − Σw²/Σw).

        Returns
        -------
        self
        """
        back = make_converter_to(X)
        with capture_warnings() as said:
            table = read_estimator_input(self, X)
        return self._fit_validated(table, sample_weight, said)._convert_fitted_arrays(back)

    def _fit_validated(
        self, table: EstimatorInput, sample_weight: Any = None, earlier_warnings: Sequence[str] = ()
    ) -> Self:
        """The same of a table that was read, by this model or by one like it, with the warnings `before`."""
        if table.feature_names is not None:
            self.feature_names_in_ = table.feature_names
        self._running_moments: RunningMoments | None = None
        with capture_warnings() as said:
            chosen = self._choose_n_components(table, sample_weight)
            table = table.fill_missing(chosen.get("n_components"))
            prepared = table.prepare(sample_weight, table.build_fit_specs(chosen))
        return self._fit_prepared(self._apply_warm_start(prepared), [*earlier_warnings, *said])

    def _apply_warm_start(self, prepared: PreparedData) -> PreparedData:
        """The same, begun at the components of an earlier fit where that is asked for and they serve."""
        found = self._get_last_loadings()
        if not self.warm_start or found is None or found.shape[0] != prepared.operator.shape[1]:
            return prepared
        Z = pad_columns(found, len(prepared.fit_spec.mu)).astype(prepared.operator.dtype)
        return replace(prepared, fit_specs=(prepared.fit_spec.with_start_loadings(prepared.operator.to_backend(Z)),))

    def _get_last_loadings(self) -> Array | None:
        """Return where the ascents of the last fit ended, (n_features, m), in the order of extraction."""
        fitted = vars(self)
        if "components_" not in fitted:
            return None
        ends = fitted.get("_ascent_ends")
        if ends is not None and ends.shape == self.components_.shape[::-1]:
            return ends
        return to_numpy(self.components_)[np.argsort(self.extraction_order_)].T  # of a model that was loaded

    def _choose_n_components(self, table: EstimatorInput, sample_weight: Any) -> dict[str, Any]:
        """The number of components, and what depends on it, where it was left to the data; their p-values are kept."""
        self.__dict__.pop("component_p_values_", None)
        if self.n_components != "auto":
            return {}
        if sample_weight is not None:
            raise ValueError('n_components="auto" permutes samples as equals; it takes no sample_weight.')
        chosen, self.component_p_values_ = choose_n_components(table, make_random_state(self.random_state))
        return chosen

    def _convert_fitted_arrays(self, convert: Callable[[Any], Any]) -> Self:
        """The fitted arrays of the length of a sample as arrays of the kind that came in."""
        for name in ("components_", "mean_", "scale_"):
            setattr(self, name, convert(getattr(self, name)))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of samples and find the components of all samples so far.

        Means and covariance are kept, not the samples: every sample is seen once. The answer is that of `fit` to all
        of them. Calling `fit` begins anew.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The batch. At most 10,000 variables.
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
        running: RunningMoments | None = vars(self).get("_running_moments")
        self._running_moments, prepared = read_estimator_input(self, X, reset=running is None).accumulate_moments(
            running, sample_weight
        )
        return self._fit_prepared(self._apply_warm_start(prepared))

    def groups_used(self) -> list[list[Any]]:
        """The labels of the groups of each component, the one of largest loadings first.

        Returns
        -------
        list of list
            A variable that is in no group is told by its name, or as x0, x1, … by its column, as `loadings` does.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.random.default_rng(0).standard_normal((30, 6)) * [1, 1, 1, 4, 4, 1]
        >>> GPower(1, cardinality=1, groups=list("aabbcc")).fit(X).groups_used()
        [['b']]
        """
        check_is_fitted(self)
        known = VariableRules.from_params(
            get_constructor_params(self), self.n_features_in_, 1, vars(self).get("feature_names_in_")
        )
        return [known.rank_groups(z) for z in to_numpy(self.components_)]

    def _fit_prepared(self, prepared: PreparedData, earlier_warnings: Sequence[str] = ()) -> Self:
        """Find, store, prove and tell; `said` are warnings that came before."""
        found = extract_with_checkpoint(prepared, make_random_state(self.random_state), get_constructor_params(self))
        self._ascent_ends = to_host(found.Z if found.ascent_loadings is None else found.ascent_loadings)
        fit = summarize_fit(prepared, found, sort=True)
        self.__dict__.update(fit.attributes)
        if self.n_components == "auto":
            self.notes_ = np.append(self.notes_, describe_selection(self.component_p_values_)).astype(object)
        if self.certify:
            self._store_certificates(prepared)
        if self.verbose:
            log_fit(self)
        cautions = [
            *self._iter_component_count_warnings(),
            *fit_warnings(self, prepared.has_variance, fit.unadjusted_variance),
        ]
        cautions += [(note, GPowerWarning) for note in found.notes]
        self.warnings_ = np.array([*earlier_warnings, *(sentence for sentence, _ in cautions)], dtype=object)
        warn_all(cautions)
        return self

    def _iter_component_count_warnings(self) -> Iterator[WarningSpec]:
        """What there is to say of a number of components that was left to the data."""
        p_values = vars(self).get("component_p_values_")
        if p_values is not None and p_values[0] > AUTO_SIGNIFICANCE_LEVEL:
            yield (
                f"No component explains more than chance (p = {p_values[0]:.2g}); one is kept all the same.",
                UserWarning,
            )

    def _store_certificates(self, prepared: PreparedData) -> None:
        """Keep what can be proven of every component, on what the earlier ones leave."""
        count, varies = len(self.components_), prepared.has_variance  # if nothing does, nothing is to be proven
        Z = self.components_.T.astype(np.float64)
        proofs = certify_components(prepared.get_float64_operator(), Z, **certificate_args(self)) if varies else ()
        self.upper_bound_ = np.array([proof.upper_bound for proof in proofs] or [0.0] * count)
        self.optimality_ratio_ = np.array([proof.ratio for proof in proofs] or [1.0] * count)
        if count > 1 and varies:
            asked = {"cardinality": self.cardinality, "constraint": self.constraint}
            total = certify_joint_variance(prepared.get_float64_operator(), Z, **asked)
            self.total_upper_bound_, self.total_optimality_ratio_ = total.upper_bound, total.ratio


def fit_validated(model: GPower, table: EstimatorInput) -> GPower:
    """A model fitted to a table that one like it has read."""
    return model._fit_validated(table)
