"""What the competitors share with `GPower` and with each other: checks, reading the data, refit, reporting.

A method is one file with one class; the class says how loadings are found, everything else is here or below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array, orient
from gpower._utils.warnings import GPowerWarning, warn_all
from gpower.estimators.base import SparsePCAEstimator, summarize_fit
from gpower.estimators.diagnostics import fit_warnings
from gpower.estimators.gpower import GPower
from gpower.operators import Operator
from gpower.penalties.elementary import Cardinality, FixedSupport
from gpower.problem.deflation import DEFLATION_RULES
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.component import ComponentResult
from gpower.solvers.refit import refit_loadings
from gpower.solvers.specification import FitSpec
from gpower.validation.params import IntPerComponent, build_fit_spec, check_option, make_random_state
from gpower.validation.prepare import PreparedData, read_estimator_input

#: Tall data of up to this many variables are replaced by their covariance.
MAX_COVARIANCE_FEATURES = 2000
#: Words that a baseline shares with GPower but that mean something else there.
REDEFINED_PARAMS = ("refit", "n_init")


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """One component, or all of them at once: loadings (n_features, m), steps made, and what else is worth keeping.

    `gap` is worked out when asked for, as it takes a product; `kept` are further fitted attributes by name, each with
    one row per component; `notes` sentences for the user.
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
        """The loadings Z at the end of an ascent."""
        return cls(
            Z,
            ascent_result.n_iter,
            ascent_result.converged,
            objective=ascent_result.value,
            compute_gap=lambda: ascent_result.gap,
            **fields,
        )

    def count_nonzero(self) -> int:
        """Number of non-zero loadings."""
        return int(np.count_nonzero(self.Z))


@dataclass(frozen=True, eq=False)
class ComponentTask:
    """What `fit` hands to a method."""

    operator: Operator  # the matrix A; for one component at a time less the earlier ones
    degrees_of_freedom: float  # AᵀA over this is the covariance
    fit_spec: FitSpec  # the parameters that the method shares with `GPower`, checked
    rng: np.random.RandomState
    earlier_loadings: Array  # components found before this one, (n_features, j)

    @property
    def target_cardinality(self) -> list[int] | None:
        """Number of variables of each component, where the user gave it."""
        wish = self.fit_spec.sparsity
        return [int(k) for k in wish.levels] if wish.has_cardinality_levels else None

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.fit_spec.mu)

    @property
    def component_index(self) -> int:
        """Which component comes next."""
        return self.earlier_loadings.shape[1]

    def advance(self, result: BaselineResult, deflation_rule: str) -> ComponentTask:
        """The task of the next component, this one being removed."""
        operator = (
            DEFLATION_RULES[deflation_rule].remove(self.operator, result.Z[:, 0])
            if self.component_index + 1 < self.n_components
            else self.operator
        )
        return replace(self, operator=operator, earlier_loadings=np.hstack([self.earlier_loadings, result.Z]))


@dataclass(eq=False, repr=False)
class Baseline(SparsePCAEstimator, ABC):
    """A published method behind the estimator of the library: the same input, attributes, checks and warnings.

    A method is a data class of this one: its fields are the parameters, beside those that all methods have.
    """

    n_components: int = 2
    _: KW_ONLY
    cardinality: IntPerComponent = None
    covariance: str | None = None
    center: bool = True
    scale: bool = False
    refit: bool = False

    _sparsity_param: ClassVar[str | None] = None  # of a method that has one, it excludes a cardinality
    #: Whether adjusted variances take the components in their own order, not by decreasing variance.
    _keeps_component_order: ClassVar[bool] = False
    #: Whether the covariance may not stand in for tall data.
    _requires_samples: ClassVar[bool] = False

    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples × variables; methods that do not need samples also take a covariance, with
            ``covariance="precomputed"``. Never changed.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights that say how reliable each sample is; only their ratios matter. Variances are divided
            by Σw − Σw²/Σw, which is n_samples − 1 for weights of one: counts as weights give the components of repeated
            rows, and variances larger by (Σw − 1)/(Σw − Σw²/Σw).

        Returns
        -------
        self
        """
        table = read_estimator_input(self, X)
        recipe = self.build_fit_spec(table.shape)
        self._check_own_params(table.shape)
        reduce = table.shape[1] <= MAX_COVARIANCE_FEATURES and not self._requires_samples
        prepared = table.prepare(sample_weight, [recipe], reduce=reduce)
        units = self._find_components(self._create_task(prepared))
        found = _join_results(units)
        Z = refit_baseline_loadings(prepared.operator, found.Z) if self.refit else found.Z
        fit = summarize_fit(prepared, replace(found, Z=orient(Z)), adjust_in_order=self._keeps_component_order)
        self.__dict__.update(fit.attributes | _collect_extra_attributes(units))
        warn_all(
            [
                *fit_warnings(self, prepared.has_variance, fit.unadjusted_variance),
                *((note, GPowerWarning) for note in found.notes),
            ]
        )
        return self

    def build_fit_spec(self, shape: tuple[int, int]) -> FitSpec:
        """The parameters shared with `GPower`, checked as it checks them."""
        theirs = GPower().get_params()
        shared = {k: v for k, v in self.get_params().items() if k in theirs and k not in REDEFINED_PARAMS}
        check_option(self.refit, "refit", (True, False))
        if self._sparsity_param is not None:
            self._check_single_sparsity_param(self._sparsity_param)
        recipe = build_fit_spec(theirs | shared, shape)
        if recipe.sparsity.has_cardinality_levels and any(level < 1 for level in recipe.sparsity.levels):
            raise ValueError(
                f"cardinality={self.cardinality!r}: this method takes a whole number of variables, for all components "
                "or one each; GPower takes a share of the variance."
            )
        return recipe

    def _check_single_sparsity_param(self, param_name: str) -> None:
        """Refuse a cardinality beside another parameter that fixes the sparsity."""
        if self.cardinality is not None and self.get_params()[param_name] is not None:
            raise ValueError(
                f"cardinality and {param_name} are set together, but each of them fixes the sparsity; "
                "keep one and leave the other None."
            )

    def _create_task(self, prepared: PreparedData) -> ComponentTask:
        """What there is to do, before the first component."""
        rng, none = make_random_state(self.get_params().get("random_state")), np.zeros((prepared.operator.shape[1], 0))
        return ComponentTask(prepared.operator, prepared.moments.degrees_of_freedom, prepared.fit_spec, rng, none)

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        """Refuse parameters of the method's own."""

    @abstractmethod
    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        """The components, one unit each, or a single unit with all of them."""


def find_components_sequentially(
    task: ComponentTask,
    deflation_rule: str,
    find_component: Callable[[ComponentTask], BaselineResult],
    **empty_attributes: Array,
) -> list[BaselineResult]:
    """Component after component, each from the matrix less the earlier ones; `nothing` is kept of those without any."""
    units: list[BaselineResult] = []
    none = BaselineResult(np.zeros((task.operator.shape[1], 1), task.operator.dtype), extra_attributes=empty_attributes)
    while len(units) < task.n_components:
        units.append(find_component(task) if task.operator.column_norms.any() else none)
        task = task.advance(units[-1], deflation_rule)
    return units


def refit_baseline_loadings(operator: Operator, Z: Array) -> Array:
    """The loadings of the most variance on the pattern of Z: the paper's post-processing."""
    pattern = Z != 0
    problem = Problem(operator, FixedSupport(pattern), np.ones(Z.shape[1], operator.dtype))
    point = problem.feasible_set.make_point(operator.combine(Z.astype(operator.dtype)))
    return refit_loadings(problem, point, pattern=pattern)


def keep_largest(Z: Array, cardinality: Sequence[int]) -> Array:
    """Unit columns with the kⱼ largest |loadings| of Z, the others zero."""
    return Cardinality(np.array(cardinality)).loadings(Z)


def _join_results(results: list[BaselineResult]) -> ComponentResult:
    """All units as the extraction that the estimators report."""
    return ComponentResult(
        Z=np.hstack([unit.Z for unit in results]),
        gamma=np.repeat([unit.gamma for unit in results], [unit.Z.shape[1] for unit in results]),
        objective=np.array([unit.objective for unit in results]),
        gap=np.array([unit.compute_gap() for unit in results]),
        n_iter=np.array([max(unit.n_iter, 1) for unit in results]),
        converged=np.array([unit.converged for unit in results]),
        notes=tuple(dict.fromkeys(note for unit in results for note in unit.notes)),
    )


def _collect_extra_attributes(results: list[BaselineResult]) -> dict[str, Array]:
    """The attributes of the method's own, one entry per component."""
    return {
        name: _stack_padded_rows([unit.extra_attributes[name] for unit in results])
        for name in results[0].extra_attributes
    }


def _stack_padded_rows(rows: list[Array]) -> Array:
    """Rows of all units below each other; shorter ones end in NaN, or in −1 where they hold whole numbers."""
    if rows[0].ndim == 1:
        return np.concatenate(rows)
    width = max(part.shape[1] for part in rows)
    filler = -1 if rows[0].dtype.kind == "i" else np.nan
    return np.vstack([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filler) for part in rows])
