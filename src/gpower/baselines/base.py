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
from gpower._utils.warnings import GPowerWarning, tell
from gpower.estimators.base import SparsePCAEstimator, fit_of
from gpower.estimators.diagnostics import notices
from gpower.estimators.gpower import GPower
from gpower.operators import Operator
from gpower.penalties.elementary import Cardinality, FixedSupport
from gpower.problem.deflation import RULES
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.component import Extraction
from gpower.solvers.refit import refit
from gpower.solvers.specification import Recipe
from gpower.validation.params import Counts, one_of, random_source, recipe_from
from gpower.validation.prepare import Prepared, read

#: Tall data of up to this many variables are replaced by their covariance.
COVARIANCE_UP_TO = 2000
#: Words that a baseline shares with GPower but that mean something else there.
OWN_WORDS = ("refit", "n_init")


@dataclass(frozen=True, eq=False)
class Unit:
    """One component, or all of them at once: loadings (n_features, m), steps made, and what else is worth keeping.

    `gap` is worked out when asked for, as it takes a product; `kept` are further fitted attributes by name, each with
    one row per component; `notes` sentences for the user.
    """

    Z: Array
    n_iter: int = 1
    converged: bool = True
    gamma: float = np.nan
    objective: float = np.nan
    gap: Callable[[], float] = lambda: np.nan
    kept: Mapping[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, end: AscentResult, Z: Array, **more: Any) -> Unit:
        """The loadings Z at the end of an ascent."""
        return cls(Z, end.n_iter, end.converged, objective=end.value, gap=lambda: end.gap, **more)

    def size(self) -> int:
        """Number of non-zero loadings."""
        return int(np.count_nonzero(self.Z))


@dataclass(frozen=True, eq=False)
class Task:
    """What `fit` hands to a method."""

    operator: Operator  # the matrix A; for one component at a time less the earlier ones
    degrees: float  # AᵀA over this is the covariance
    recipe: Recipe  # the parameters that the method shares with `GPower`, checked
    rng: np.random.RandomState
    earlier: Array  # components found before this one, (n_features, j)

    @property
    def wanted(self) -> list[int] | None:
        """Number of variables of each component, where the user gave it."""
        wish = self.recipe.wish
        return [int(k) for k in wish.levels] if wish.counts else None

    @property
    def m(self) -> int:
        """Number of components."""
        return len(self.recipe.mu)

    @property
    def j(self) -> int:
        """Which component comes next."""
        return self.earlier.shape[1]

    def after(self, unit: Unit, rule: str) -> Task:
        """The task of the next component, this one being removed."""
        operator = RULES[rule].remove(self.operator, unit.Z[:, 0]) if self.j + 1 < self.m else self.operator
        return replace(self, operator=operator, earlier=np.hstack([self.earlier, unit.Z]))


@dataclass(eq=False, repr=False)
class Baseline(SparsePCAEstimator, ABC):
    """A published method behind the estimator of the library: the same input, attributes, checks and warnings.

    A method is a data class of this one: its fields are the parameters, beside those that all methods have.
    """

    n_components: int = 2
    _: KW_ONLY
    cardinality: Counts = None
    covariance: str | None = None
    center: bool = True
    scale: bool = False
    refit: bool = False

    _sparsity_word: ClassVar[str | None] = None  # of a method that has one, it excludes a cardinality
    #: Whether adjusted variances take the components in their own order, not by decreasing variance.
    _in_order: ClassVar[bool] = False
    #: Whether the covariance may not stand in for tall data.
    _needs_samples: ClassVar[bool] = False

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
        table = read(self, X)
        recipe = self.recipe(table.shape)
        self._check(table.shape)
        reduce = table.shape[1] <= COVARIANCE_UP_TO and not self._needs_samples
        prepared = table.prepared(sample_weight, [recipe], reduce=reduce)
        units = self._extract(self._task(prepared))
        found = _joined(units)
        Z = refitted(prepared.operator, found.Z) if self.refit else found.Z
        fit = fit_of(prepared, replace(found, Z=orient(Z)), in_order=self._in_order)
        self.__dict__.update(fit.attributes | _kept(units))
        tell([*notices(self, prepared.varies, fit.own_variance), *((note, GPowerWarning) for note in found.notes)])
        return self

    def recipe(self, shape: tuple[int, int]) -> Recipe:
        """The parameters shared with `GPower`, checked as it checks them."""
        theirs = GPower().get_params()
        shared = {k: v for k, v in self.get_params().items() if k in theirs and k not in OWN_WORDS}
        one_of(self.refit, "refit", (True, False))
        if self._sparsity_word is not None:
            self._exclude_cardinality(self._sparsity_word)
        recipe = recipe_from(theirs | shared, shape)
        if recipe.wish.counts and any(level < 1 for level in recipe.wish.levels):
            raise ValueError(
                f"cardinality={self.cardinality!r}: this method takes a whole number of variables, for all components "
                "or one each; GPower takes a share of the variance."
            )
        return recipe

    def _exclude_cardinality(self, word: str) -> None:
        """Refuse a cardinality beside another parameter that fixes the sparsity."""
        if self.cardinality is not None and self.get_params()[word] is not None:
            raise ValueError(
                f"cardinality and {word} are set together, but each of them fixes the sparsity; "
                "keep one and leave the other None."
            )

    def _task(self, prepared: Prepared) -> Task:
        """What there is to do, before the first component."""
        rng, none = random_source(self.get_params().get("random_state")), np.zeros((prepared.operator.shape[1], 0))
        return Task(prepared.operator, prepared.moments.degrees, prepared.recipe, rng, none)

    def _check(self, shape: tuple[int, int]) -> None:
        """Refuse parameters of the method's own."""

    @abstractmethod
    def _extract(self, task: Task) -> list[Unit]:
        """The components, one unit each, or a single unit with all of them."""


def one_by_one(task: Task, rule: str, find: Callable[[Task], Unit], **nothing: Array) -> list[Unit]:
    """Component after component, each from the matrix less the earlier ones; `nothing` is kept of those without any."""
    units: list[Unit] = []
    none = Unit(np.zeros((task.operator.shape[1], 1), task.operator.dtype), kept=nothing)
    while len(units) < task.m:
        units.append(find(task) if task.operator.column_norms.any() else none)
        task = task.after(units[-1], rule)
    return units


def refitted(operator: Operator, Z: Array) -> Array:
    """The loadings of the most variance on the pattern of Z: the paper's post-processing."""
    pattern = Z != 0
    problem = Problem(operator, FixedSupport(pattern), np.ones(Z.shape[1], operator.dtype))
    point = problem.feasible_set.point(operator.combine(Z.astype(operator.dtype)))
    return refit(problem, point, pattern=pattern)


def keep_largest(Z: Array, wanted: Sequence[int]) -> Array:
    """Unit columns with the kⱼ largest |loadings| of Z, the others zero."""
    return Cardinality(np.array(wanted)).loadings(Z)


def _joined(units: list[Unit]) -> Extraction:
    """All units as the extraction that the estimators report."""
    return Extraction(
        Z=np.hstack([unit.Z for unit in units]),
        gamma=np.repeat([unit.gamma for unit in units], [unit.Z.shape[1] for unit in units]),
        objective=np.array([unit.objective for unit in units]),
        gap=np.array([unit.gap() for unit in units]),
        n_iter=np.array([max(unit.n_iter, 1) for unit in units]),
        converged=np.array([unit.converged for unit in units]),
        notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
    )


def _kept(units: list[Unit]) -> dict[str, Array]:
    """The attributes of the method's own, one entry per component."""
    return {name: _stacked([unit.kept[name] for unit in units]) for name in units[0].kept}


def _stacked(rows: list[Array]) -> Array:
    """Rows of all units below each other; shorter ones end in NaN, or in −1 where they hold whole numbers."""
    if rows[0].ndim == 1:
        return np.concatenate(rows)
    width = max(part.shape[1] for part in rows)
    filler = -1 if rows[0].dtype.kind == "i" else np.nan
    return np.vstack([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filler) for part in rows])
