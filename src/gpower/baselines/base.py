"""Base class of the baseline methods: parameter checks, data preparation, refit and fitted attributes.

Each method is one module with one class, which computes the loadings; everything else is shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.polar_factor_and_signs import orient
from gpower._utils.warnings import GPowerWarning, warn_all
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.fit_summary import fit_warnings, summarize_fit
from gpower.estimators.gpower import GPower
from gpower.operators import Operator
from gpower.penalties.elementary import Cardinality, FixedSupport
from gpower.problem.deflation import DEFLATION_RULES
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.component import ComponentResult
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.refit import refit_loadings
from gpower.validation.params import IntPerComponent, build_fit_spec, check_option, make_random_state
from gpower.validation.prepare import read_estimator_input

#: Largest number of variables for which tall data are replaced by their covariance.
MAX_COVARIANCE_FEATURES = 2000
#: Parameters of a baseline that have another meaning in GPower.
REDEFINED_PARAMS = ("n_init",)


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """Result of a method for one component, or for all of them together.

    Attributes
    ----------
    Z : ndarray of shape (n_features, m)
        Loadings of one component, m = 1, or of all; unit columns, or zero, in the dtype of the operator, on the host.
    n_iter : int
        Number of steps.
    converged : bool
    gamma, objective : float
        Absolute penalty, and objective value in the units of ‖A z‖ or ‖A z‖²; NaN if the method has none.
    compute_gap : callable
        Function that returns the stationarity gap, which takes a pass over the matrix.
    extra_attributes : mapping of str to ndarray
        Further fitted attributes by name, each with one row per component.
    notes : tuple of str
        Messages for the user.
    """

    Z: Array
    n_iter: int = 1
    converged: bool = True
    gamma: float = np.nan
    objective: float = np.nan
    compute_gap: Callable[[], float] = lambda: np.nan
    extra_attributes: Mapping[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def from_ascent(cls, ascent_result: AscentResult, Z: Array, **fields: Any) -> BaselineResult:
        """Return the result of an ascent whose loadings are Z, (n_features, m); `fields` are further attributes."""
        fields |= {"objective": ascent_result.value, "compute_gap": lambda: ascent_result.gap}
        return cls(Z, ascent_result.n_iter, ascent_result.converged, **fields)

    def count_nonzero(self) -> int:
        """Return the number of nonzero loadings."""
        return int(np.count_nonzero(self.Z))


@dataclass(frozen=True, eq=False)
class ComponentTask:
    """Input of a method: the matrix, the checked parameters and the components found so far."""

    operator: Operator  # the matrix A, on the host, deflated by the earlier components if they are found one at a time
    degrees_of_freedom: float  # the covariance is AᵀA divided by this
    fit_spec: FitSpec  # checked parameters that the method shares with `GPower`
    rng: np.random.RandomState
    earlier_loadings: Array  # loadings of the components found so far, (n_features, j)

    @property
    def target_cardinality(self) -> list[int] | None:
        """Return the number of variables of each component, or None if the user did not give it."""
        sparsity = self.fit_spec.sparsity
        return [int(k) for k in sparsity.levels] if sparsity.has_cardinality_levels else None

    @property
    def n_components(self) -> int:
        """Return the number of components."""
        return len(self.fit_spec.mu)

    @property
    def component_index(self) -> int:
        """Return the index of the next component."""
        return self.earlier_loadings.shape[1]

    def advance(self, result: BaselineResult, deflation_rule: str) -> ComponentTask:
        """Return the task of the next component, with the matrix deflated by this one, a single component.

        After the last component the matrix is not deflated.
        """
        operator = self.operator
        if self.component_index + 1 < self.n_components:
            operator = DEFLATION_RULES[deflation_rule].remove(operator, result.Z[:, 0])
        return replace(self, operator=operator, earlier_loadings=np.hstack([self.earlier_loadings, result.Z]))


@dataclass(eq=False, repr=False)
class Baseline(SparsePCAEstimator, ABC):
    """Base class of a published method with the input, attributes, checks and warnings of `GPower`.

    A subclass is a data class whose fields are further parameters.
    """

    n_components: int = 2
    _: KW_ONLY
    cardinality: IntPerComponent = None
    covariance: str | None = None
    center: bool = True
    scale: bool = False
    refit: bool = False

    #: Parameter that fixes the sparsity instead of `cardinality`, if the method has one.
    _sparsity_param: ClassVar[str | None] = None
    #: Whether variances are adjusted in the order of the components instead of by decreasing variance.
    _keeps_component_order: ClassVar[bool] = False
    #: Whether tall data must not be replaced by their covariance.
    _requires_samples: ClassVar[bool] = False

    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples × variables. Methods that do not need samples also take a covariance, with
            ``covariance="precomputed"``. X is never changed.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative reliability weights of the samples; only their ratios matter. Variances are divided by
            Σw − Σw²/Σw, which is n_samples − 1 for equal weights of one. Counts as weights give the same components as
            repeated rows, and variances larger by (Σw − 1)/(Σw − Σw²/Σw).

        Returns
        -------
        self
        """
        table = read_estimator_input(self, X)
        fit_spec = self.build_fit_spec(table.shape)
        self._check_own_params(table.shape)
        reduce = table.shape[1] <= MAX_COVARIANCE_FEATURES and not self._requires_samples
        prepared = table.prepare(sample_weight, [fit_spec], reduce=reduce)
        operator = prepared.operator
        rng = make_random_state(self.get_params().get("random_state"))
        no_loadings = np.zeros((operator.shape[1], 0))
        task = ComponentTask(operator, prepared.moments.degrees_of_freedom, prepared.fit_spec, rng, no_loadings)
        results = self._find_components(task)
        joined = _join_results(results)
        Z = refit_baseline_loadings(operator, joined.Z) if self.refit else joined.Z
        fit = summarize_fit(prepared, replace(joined, Z=orient(Z)), adjust_in_order=self._keeps_component_order)
        self.__dict__.update(fit.attributes | _collect_extra_attributes(results))
        own_warnings = ((note, GPowerWarning) for note in joined.notes)
        warn_all([*fit_warnings(self, prepared.moments.column_norms, fit.unadjusted_variance), *own_warnings])
        return self

    def build_fit_spec(self, shape: tuple[int, int]) -> FitSpec:
        """Return the checked parameters that the method shares with `GPower`, for data of this shape.

        Raise ValueError if one is not valid, if both parameters that fix the sparsity are given, or if a cardinality is
        a share of the variance.
        """
        defaults = GPower().get_params()
        shared = {k: v for k, v in self.get_params().items() if k in defaults and k not in REDEFINED_PARAMS}
        check_option(self.refit, "refit", (True, False))
        if self._sparsity_param is not None:
            self._check_single_sparsity_param(self._sparsity_param)
        if self.cardinality is None:
            defaults["gamma"] = 0.0  # a level that no baseline reads, instead of the default cardinality of `GPower`
        fit_spec = build_fit_spec(defaults | shared, shape)
        if fit_spec.sparsity.has_cardinality_levels and any(level < 1 for level in fit_spec.sparsity.levels):
            raise ValueError(
                f"{format_param('cardinality', self.cardinality)}: this method takes a whole number of variables, for "
                "all components or one each; GPower takes a share of the variance."
            )
        return fit_spec

    def _check_single_sparsity_param(self, param_name: str) -> None:
        """Raise ValueError if both cardinality and another parameter that fixes the sparsity are given."""
        if self.cardinality is not None and self.get_params()[param_name] is not None:
            raise ValueError(
                f"cardinality and {param_name} are set together, but each of them fixes the sparsity; "
                "keep one and leave the other None."
            )

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        """Raise ValueError if a parameter that only this method has is not valid."""

    @abstractmethod
    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        """Return one result for each component, or a single result with all of them.

        `task` is that of the first component: its matrix is not deflated, and no loadings are found yet. `fit` has
        checked all parameters.
        """


def find_components_sequentially(
    task: ComponentTask,
    deflation_rule: str,
    find_component: Callable[[ComponentTask], BaselineResult],
    **empty_attributes: Array,
) -> list[BaselineResult]:
    """Find one component after the other, each in the matrix deflated by the earlier ones.

    `find_component` receives a task whose matrix has a column that varies, and returns a result of one component. If
    no variance is left, a component is zero and has the `empty_attributes`, the extra attributes of one component.
    """
    results: list[BaselineResult] = []
    empty = BaselineResult(
        np.zeros((task.operator.shape[1], 1), task.operator.dtype), extra_attributes=empty_attributes
    )
    while len(results) < task.n_components:
        results.append(find_component(task) if task.operator.column_norms.any() else empty)
        task = task.advance(results[-1], deflation_rule)
    return results


def multiply_gram(operator: Operator, B: Array) -> Array:
    """Return AᵀA B, (n_features, m), in the dtype of the operator, without forming AᵀA; takes two passes over A."""
    return operator.correlate(operator.combine(B.astype(operator.dtype)))


def refit_baseline_loadings(operator: Operator, Z: Array) -> Array:
    """Return the loadings of maximum variance on the support of Z, (n_features, m): the paper's post-processing.

    The operator is not deflated. All columns are refitted together.
    """
    pattern = Z != 0
    problem = Problem(operator, FixedSupport(pattern), np.ones(Z.shape[1], operator.dtype))
    point = problem.feasible_set.make_point(operator.combine(Z.astype(operator.dtype)))
    return refit_loadings(problem, point, pattern=pattern)


def keep_largest(Z: Array, cardinality: Sequence[int]) -> Array:
    """Return the unit columns with the kⱼ largest |loadings| of Z, (n_features, m), and zeros elsewhere."""
    return Cardinality(np.array(cardinality)).loadings(Z)


def _join_results(results: list[BaselineResult]) -> ComponentResult:
    """Join the results of all components into one; `Z` has a column and `gamma` an entry for each component.

    The other arrays have one entry per result. This computes the stationarity gaps.
    """
    return ComponentResult(
        Z=np.hstack([result.Z for result in results]),
        gamma=np.repeat([result.gamma for result in results], [result.Z.shape[1] for result in results]),
        objective=np.array([result.objective for result in results]),
        gap=np.array([result.compute_gap() for result in results]),
        n_iter=np.array([max(result.n_iter, 1) for result in results]),
        converged=np.array([result.converged for result in results]),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


def _collect_extra_attributes(results: list[BaselineResult]) -> dict[str, Array]:
    """Return the extra attributes of all components, with one row per component; all results have the same names."""
    return {
        name: _stack_padded_rows([result.extra_attributes[name] for result in results])
        for name in results[0].extra_attributes
    }


def _stack_padded_rows(rows: list[Array]) -> Array:
    """Stack the rows of all results, (m,) or (m, k) each; shorter ones are padded with NaN, or −1 for integers."""
    if rows[0].ndim == 1:
        return np.concatenate(rows)
    width = max(part.shape[1] for part in rows)
    filler = -1 if rows[0].dtype.kind == "i" else np.nan
    return np.vstack([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filler) for part in rows])
