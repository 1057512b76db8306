"""Find one component, or a block of components, of a matrix: screen, start, ascend, search locally, refit.

`solve_component` is the first of the three levels of the solver. Components in sequence are found by
`gpower.solvers.sequential`, components together by `gpower.solvers.joint`.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. A problem
has m units, one for each component of a block. Z, (n, m), are loadings and C = μ∘AᵀX, (n, m), the correlations of a
`Point` of m units X with weights μ; both are where the matrix is, on the host or a device, in its dtype. γ, (m,), is
the absolute level of a penalty, float64 on the host, NaN for a kind of sparsity without γ.

- `Operator`: ``column_norms``, (n,), where the matrix is, in its dtype; ``norm_tolerance``, the norm that rounding
  gives to a zero column; ``max_cached_columns``, the number of columns that may be gathered; ``to_backend(Z)``, Z where
  the matrix is; ``with_column_cache()``, the operator with a cache of gathered columns, which changes rounding errors.
- `Problem`: ``operator``; ``penalty``; ``mu``, the weights; ``is_single_l2_unit``, whether there is one unit of
  variance ‖A z‖₂², also with non-negative loadings; ``compute_loadings(point)``, Z at a point; ``restrict(idx)``, the
  problem on some columns.
- `Penalty`: ``screen(norms, mu)``, mask of the columns that can be active at some point, where `norms` is;
  ``supports_local_search``, whether the best loadings on a support are those of largest variance (false for
  non-negative loadings); ``max_cardinality``, the largest number of variables (not groups) of a unit, 0 if unknown;
  ``gamma_max(norms, mu)``, the smallest γ at which nothing is active, (m,), float64 on the host.
- `AscentResult`: ``point``; ``value``, the objective at the point, a float, which sums over the units; ``gap``, its
  first-order measure, which costs a product; ``n_iter``; ``converged``.
- `FitSpec`: ``sparsity``, the kind and the levels of sparsity; ``mu``, one weight for each component; ``is_block``;
  ``start`` and ``n_init``; ``refit``, whose ``powers`` are empty for no refit; ``local_search``;
  ``should_search_locally``, whether a local search follows the ascents of a penalty; ``deflation``; ``settings`` of the
  ascents; ``select_unit(j)``, the specification of component j alone, ``restrict(idx)``, that of some columns.
- ``sparsity``: ``sample_set``, the set of units; ``levels``, one number for each component; ``compute_gamma(norms,
  mu)`` is γ; ``make_problem`` gives the problem on a matrix; ``is_ordinary_pca(n)`` tells that nothing limits the
  loadings; ``choose_n_starts(operator, is_block)`` is the number of starts unless the user gives one.
  ``sample_set.compute_max_correlations(operator)`` are the `norms` below.
- ``start.choose_points(context)`` gives the points at which ascents start, perhaps none. ``settings`` are the ``tol``,
  ``max_iter`` and ``callback`` of the ascents and ``use_working_set``, None if the size of the matrix decides.
  ``deflation.remove(operator, z)`` is the operator without the component of unit loadings z, (n,), itself for z = 0.
  ``regularization`` is the weight of a strongly convex term, a number, zero for none.
- Starts and searches: ``ColumnStarts(s).choose_points(context)`` are the best of s starts at columns, at least one
  point; ``should_search_units`` tells that a block with a penalty is searched unit by unit, by ``solve_units_in_turn``,
  which gives one more start, and ``improve_block``, an ascent of no smaller value, as ``improve_penalized`` for a
  single unit. ``refit_loadings`` gives unit loadings, (n, m), on the support at a point or on a given one, of any sign;
  ``resize_support`` is a support, (n, m) of bool, of given cardinalities. ``select_best_result`` is the ascent of the
  largest value, the first of equal ones. A `StartContext` is the problem with its norms, generator and callback.
- ``compute_leading_components(operator, m)`` gives the loadings of ordinary PCA, (n, m), zero beyond the rank, and
  their variances, (m,), largest first, both on the host. ``orient`` makes the largest loading of each column positive.
- Arrays: ``to_host(x)`` is x as a NumPy array, ``asarray_like(x, values)`` is `values` where x is, ``take_rows(x,
  idx)`` a copy of x[idx], ``embed_rows(Z, idx, n, like)`` has Z at rows `idx` of n rows of zeros, where `like` is, in
  the dtype of Z; ``max_or_zero`` is the largest of non-negative values, 0.0 for none.
- ``norms``, (n,), are the largest |aᵢᵀx| over unit x: ‖aᵢ‖₂, or Σ rₖ|aₖᵢ| for the cube of ℓ1 variance, where the matrix
  is, in its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, embed_rows, max_or_zero, take_rows, to_host
from gpower._utils.polar_factor_and_signs import orient
from gpower.feasible_sets import Point
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult, select_best_result
from gpower.solvers.fit_specification import CalibratedPenalty, ExactCardinality, FitSpec, MinCardinality, PenaltyLevel
from gpower.solvers.joint.penalized_block import improve_block, should_search_units, solve_units_in_turn
from gpower.solvers.local_search import improve_penalized, refit_and_swap
from gpower.solvers.min_cardinality import find_min_cardinality
from gpower.solvers.penalty_calibration import calibrate_gamma, resize_support
from gpower.solvers.refit import AUTO_REFIT, refit_loadings
from gpower.solvers.starts import ColumnStarts, StartContext
from gpower.solvers.working_set import ascend

#: Screened columns are gathered once when no more than this share is left.
MAX_SCREENED_SHARE = 0.25
#: Above this cardinality the local search begins at the best ascent only.
MAX_SUPPORT_TO_SEARCH_ALL = 64
#: Ascents of different values at which the local search of a penalty begins, and the decimals, relative to the value of
#: the first ascent, to which values are compared; 1e-300 stands for a value of zero.
MAX_SEARCHED_RESULTS, RESULT_VALUE_DECIMALS, MIN_VALUE_SCALE = 3, 9, 1e-300

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)
RESIZED_SUPPORT_NOTE = (
    "No penalty was found with exactly the wanted number of active variables; the nearest active set was cut to its "
    "largest loadings, or filled with the most correlated variables, and refitted."
)

#: Fields of `ComponentResult` with one entry per component or per ascent.
_FIGURES = ("gamma", "objective", "gap", "n_iter", "converged")


@dataclass(frozen=True, eq=False)
class ComponentResult:
    """Components and how they were found.

    Attributes
    ----------
    Z : ndarray of shape (n_features, m)
        Unit loadings, or zero columns, in the memory and the dtype of the matrix. All other arrays but
        `ascent_loadings` are on the host.
    gamma : ndarray of float64 of shape (m,)
        Absolute γ; NaN where there is none.
    objective, gap, n_iter, converged : ndarray
        Value, stationarity gap (float64), number of steps (int) and convergence (bool) of the ascents: one entry per
        component, a single one for a block.
    notes : tuple of str
        Sentences for the user.
    ascent_loadings : ndarray of shape (n_features, m) or None
        Loadings at the end of the ascents, before the refit, like `Z`. The check whether a column outside of the
        working set would be active uses these: refitted loadings are no stationary point of a penalty. None where that
        check uses `Z`: there is no refit, or the level is a cardinality and Z, refitted on the support at the end of an
        ascent, is the point to which an ascent on that support converges.
    """

    Z: Array
    gamma: Array
    objective: Array
    gap: Array
    n_iter: Array
    converged: Array
    notes: tuple[str, ...] = ()
    ascent_loadings: Array | None = None

    @classmethod
    def from_loadings(cls, Z: Array, gamma: Array) -> ComponentResult:
        """Return a result for loadings Z, (n, m), that no ascent has found, for instance zeros or a warm start.

        `gamma` is (m,), float64. The figures have one entry, also for m > 1. Its objective and its gap are zero, and it
        counts as converged after no step.
        """
        return cls(Z, gamma, np.zeros(1), np.zeros(1), np.zeros(1, int), np.ones(1, bool))

    @classmethod
    def from_ascent(
        cls,
        Z: Array,
        gamma: Array,
        value: float,
        ascent: AscentResult,
        *,
        notes: tuple[str, ...] = (),
        ascent_loadings: Array | None = None,
    ) -> ComponentResult:
        """Return a component or a block with the loadings Z, the objective `value` and the figures of one ascent.

        `value` may differ from that of the ascent; the other arguments are as the attributes. Reading the gap of the
        ascent costs one product with the matrix.
        """
        return cls(
            Z=Z,
            gamma=gamma,
            objective=np.array([value]),
            gap=np.array([ascent.gap]),
            n_iter=np.array([ascent.n_iter]),
            converged=np.array([ascent.converged]),
            notes=notes,
            ascent_loadings=ascent_loadings,
        )

    @classmethod
    def concatenate(cls, units: Sequence[ComponentResult]) -> ComponentResult:
        """Return components that were found in sequence, `units`, at least one, as one result.

        Each has loadings (n_features, 1), and all are in one memory. `ascent_loadings` of the result is never None, and
        each note is listed once, in the order of the components.
        """
        ends = [unit.Z if unit.ascent_loadings is None else unit.ascent_loadings for unit in units]
        return cls(
            Z=np.hstack([unit.Z for unit in units]),
            **{name: np.concatenate([getattr(unit, name) for unit in units]) for name in _FIGURES},
            ascent_loadings=np.hstack(ends),
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
        )

    def restrict(self, idx: Array, restricted_operator: Operator) -> ComponentResult:
        """Return the loadings on the columns `idx`, which make up `restricted_operator`; all others must be zero.

        `idx` are on the host. The loadings are moved to the memory of `restricted_operator`, which may be a Gram matrix
        on the host; their dtype stays.
        """
        return self._map_loadings(lambda Z: restricted_operator.to_backend(take_rows(Z, idx)))

    def embed(self, idx: Array, operator: Operator) -> ComponentResult:
        """Return loadings on the columns `idx` of an operator as loadings on all of its columns, in its memory.

        `idx`, on the host, has one index for each row of the loadings.
        """
        like = operator.column_norms
        return self._map_loadings(lambda Z: embed_rows(Z, idx, like.size, like))

    def reorder(self, order: Array) -> ComponentResult:
        """Return the components in another order; the figures of a block, one for all components, stay as they are.

        Component j of the result is component order[j]; `order`, (m,) of int, is on the host.
        """
        m = self.Z.shape[1]
        arrays = {name: getattr(self, name) for name in _FIGURES}
        reordered = {name: values[order] for name, values in arrays.items() if values.size == m}
        return replace(self._map_loadings(lambda Z: Z[:, asarray_like(Z, order)]), **reordered)

    def _map_loadings(self, transform: Callable[[Array], Array]) -> ComponentResult:
        """Return the result with `Z` and `ascent_loadings` replaced by ``transform(loadings)``."""
        ends = None if self.ascent_loadings is None else transform(self.ascent_loadings)
        return replace(self, Z=transform(self.Z), ascent_loadings=ends)


def solve_component(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> ComponentResult:
    """Find one component, or a block of components, of a matrix that is already deflated.

    Parameters
    ----------
    operator : Operator
        The matrix, (p, n), or a covariance, (n, n).
    spec : FitSpec
        The specification of one component (``spec.select_unit(j)``), or of a block; its start and its penalty are those
        of the n columns of `operator`.
    rng : RandomState
        Source of random starts.

    Returns
    -------
    ComponentResult
        Loadings, (n, m), of unit length, the largest positive; zero where nothing is active. They are in the memory of
        the matrix, on all n columns.
    """
    operator = operator.with_column_cache()
    sparsity = spec.sparsity
    mu = np.asarray(spec.mu)
    n = operator.shape[1]
    if sparsity.is_ordinary_pca(n) and spec.settings.use_working_set is not False and operator.column_norms.any():
        return _solve_ordinary_pca(operator, spec)
    norms = sparsity.sample_set.compute_max_correlations(operator)  # (n,): ‖aᵢ‖₂, or ‖aᵢ‖₁ for the cube
    gamma = sparsity.compute_gamma(norms, mu)
    no_component = ComponentResult.from_loadings(np.zeros_like(operator.column_norms, shape=(n, mu.size)), gamma)
    if max_or_zero(norms) <= operator.norm_tolerance:  # the matrix is zero up to rounding
        return no_component
    problem, columns = _screen_problem(sparsity.make_problem(operator, norms, mu, spec.regularization), norms)
    if columns.size == 0:
        return no_component
    if columns.size < n:
        norms = take_rows(norms, columns)
        spec = spec.restrict(columns)
    result = _solve_problem(StartContext(problem, norms, rng, spec.settings.callback), gamma, spec)
    result = replace(result, Z=orient(result.Z))
    return result if columns.size == n else result.embed(columns, operator)


def _screen_problem(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """Return the problem on the columns that can be active, and their indices; all columns if many are left.

    `norms`, (n,), are the largest |aᵢᵀx| of the columns, where the matrix is. The indices are increasing and on the
    host; they are empty if no column can be active, and then the problem must not be solved. If they are fewer than n,
    the caller must restrict everything else that has one entry for each column: norms, starts, rules.
    """
    can_be_active = problem.penalty.screen(norms, problem.mu)
    n = problem.operator.shape[1]
    if int(np.count_nonzero(can_be_active)) > min(MAX_SCREENED_SHARE * n, problem.operator.max_cached_columns):
        return problem, np.arange(n)
    columns = to_host(np.flatnonzero(can_be_active))
    return problem.restrict(columns), columns


def _solve_problem(context: StartContext, gamma: Array, spec: FitSpec) -> ComponentResult:
    """Solve a screened problem by the method that suits its kind of sparsity.

    The problem and the norms of `context`, and the start and the penalty of `spec`, are those of the screened columns.
    `gamma`, (m,), float64, is absolute; NaN for a sparsity without γ. It is only reported, except that
    `gpower.solvers.joint.penalized_block` makes the penalties of single units from it: the problem has its level
    already, unless the level is sought (`MinCardinality`, `CalibratedPenalty`). The loadings of the result are not
    oriented.
    """
    problem = context.problem
    if isinstance(spec.sparsity, MinCardinality):
        return find_min_cardinality(context, gamma, spec, _solve_problem)
    if isinstance(spec.sparsity, CalibratedPenalty):
        return _solve_calibrated(context, spec)
    is_searched = problem.is_single_l2_unit and problem.penalty.supports_local_search and bool(spec.refit.powers)
    if isinstance(spec.sparsity, ExactCardinality) and is_searched:
        return _solve_exact(context, gamma, spec)
    return _solve_from_starts(context, gamma, spec)


def _choose_starts(context: StartContext, spec: FitSpec) -> list[Point]:
    """Return the points of the given start, or else columns of the matrix: at least one, feasible for the problem.

    A given start that finds no point, for instance a deflated warm start, counts as none. Points have all m units, and
    the best one comes first where they have been compared.
    """
    points = [] if spec.start is None else spec.start.choose_points(context)
    is_block = spec.is_block and len(spec.mu) > 1
    n_starts = max(spec.n_init or 0, spec.sparsity.choose_n_starts(context.problem.operator, is_block))
    return points or ColumnStarts(n_starts).choose_points(context)


def _solve_from_starts(context: StartContext, gamma: Array, spec: FitSpec) -> ComponentResult:
    """Ascend from every start, search locally near the best ends, and refit the best one, for a problem at its level.

    The arguments are those of `_solve_problem`. The value of the solution is that of the ascent, not of the refitted
    loadings; of equal values the first one counts.
    """
    problem = context.problem
    starts = _choose_starts(context, spec)
    if should_search_units(context, spec):
        starts.append(solve_units_in_turn(context, gamma, spec))
    results = [ascend(problem, start, spec.settings) for start in starts]
    improved = [_improve_result(context, result, gamma, spec) for result in _select_distinct_results(results)]
    best = select_best_result(improved)
    Z = refit_loadings(problem, best.point, spec.refit, tol=spec.settings.tol, max_iter=spec.settings.max_iter)
    ends = problem.compute_loadings(best.point)
    return ComponentResult.from_ascent(Z, gamma, best.value, best, ascent_loadings=ends)


def _improve_result(context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
    """Return `result`, the end of an ascent, or a better ascent near it for a penalty; γ, (m,), is absolute.

    A block with a penalty is improved unit by unit if `should_search_units` holds, a single unit of ℓ2 variance by
    trying single variables. Other kinds of sparsity are not searched here. The value of the result is no smaller.
    """
    if should_search_units(context, spec):
        return improve_block(context, result, gamma, spec)
    is_penalized = isinstance(spec.sparsity, PenaltyLevel) and context.problem.is_single_l2_unit
    if is_penalized and spec.should_search_locally:
        return improve_penalized(context.problem, result, spec.settings)
    return result


def _select_distinct_results(results: Sequence[AscentResult]) -> list[AscentResult]:
    """Return the `MAX_SEARCHED_RESULTS` ascents with the largest values, best first, the first of equal values.

    There is at least one ascent; values are not negative.
    """
    scale = max(results[0].value, MIN_VALUE_SCALE)
    by_value = {round(result.value / scale, RESULT_VALUE_DECIMALS): result for result in reversed(results)}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:MAX_SEARCHED_RESULTS]]


def _solve_exact(context: StartContext, gamma: Array, spec: FitSpec) -> ComponentResult:
    """Find one component of exact cardinality, with a local search after every ascent, or after the best only.

    Call it only for one unit of ℓ2 variance (`is_single_l2_unit`) whose penalty supports local search, so that loadings
    may have either sign, and with a refit (``spec.refit.powers`` not empty): the loadings returned are always the
    refitted ones, whatever the powers. ``spec.local_search`` may be false; then they are refitted without swaps.

    `refit_and_swap` returns the best component: ``Z``, (n, 1), the refitted loadings on the support at the end of
    ``ascent``, the last ascent of its search, which gives the other figures; and ``value``, μ² times the variance of Z,
    the objective of the solution. `ascent_loadings` stays None: whether a further column would be active is to be
    checked at Z, to which an ascent on this support converges.
    """
    problem = context.problem
    results = [ascend(problem, start, spec.settings) for start in _choose_starts(context, spec)]
    if problem.penalty.max_cardinality > MAX_SUPPORT_TO_SEARCH_ALL:
        results = [select_best_result(results)]
    best = refit_and_swap(problem, results, spec.settings, spec.local_search)
    return ComponentResult.from_ascent(best.Z, gamma, best.value, best.ascent)


def _solve_calibrated(context: StartContext, spec: FitSpec) -> ComponentResult:
    """Find γ by bisection so that the wanted number of variables is active; resize the support if there is no such γ.

    The penalty of the problem may be at any γ. The levels of `spec` are numbers of variables, or of groups, one for
    each of the m units. `calibrate_gamma` returns the ``problem`` at the ``gamma``, (m,), that comes nearest, the
    ``result`` of its ascent and its ``active_counts``, (m,). A resized support, (n, m) of bool where the matrix is, is
    always refitted, even if `spec` asks for no refit: the loadings of the ascent are not those of this support.
    """
    problem = context.problem
    cardinalities = np.asarray(spec.sparsity.levels, int)
    gamma_max = problem.penalty.gamma_max(context.norms, problem.mu)
    start = _choose_calibration_start(context, spec)
    calibrated = calibrate_gamma(problem, gamma_max, cardinalities, start, spec.settings)
    ascent = calibrated.result
    notes: tuple[str, ...] = ()
    refit, support = spec.refit, None
    if np.any(calibrated.active_counts != cardinalities):
        notes = (RESIZED_SUPPORT_NOTE,)
        refit = spec.refit if spec.refit.powers else AUTO_REFIT
        unresized = refit_loadings(calibrated.problem, ascent.point, spec.refit)
        support = resize_support(problem.penalty, unresized, ascent.point.C, cardinalities)
    Z = refit_loadings(calibrated.problem, ascent.point, refit, support)
    ends = calibrated.problem.compute_loadings(ascent.point)
    return ComponentResult.from_ascent(Z, calibrated.gamma, ascent.value, ascent, notes=notes, ascent_loadings=ends)


def _choose_calibration_start(context: StartContext, spec: FitSpec) -> Point:
    """Return the best end of ascents for the exact cardinality, at which the search for γ begins; the start of a block.

    Without γ the penalty cannot compare starts. A single start, as that of the user, is returned as it is.
    """
    exact = spec.sparsity.start_sparsity
    problem = replace(context.problem, penalty=exact.make_penalty(np.asarray(spec.mu)))
    starts = _choose_starts(replace(context, problem=problem), replace(spec, sparsity=exact))
    if len(starts) == 1 or len(spec.mu) > 1:
        return starts[0]
    return select_best_result([ascend(problem, start, spec.settings) for start in starts]).point


def _solve_ordinary_pca(operator: Operator, spec: FitSpec) -> ComponentResult:
    """Compute ordinary principal components, the leading one for the unit with the largest weight.

    Units of equal weight get them in their order. Components beyond the rank are zero. The loadings, (n, m), are
    oriented, in the memory of the matrix; the objective, one number also for a block, is Σ μⱼ²‖A zⱼ‖².
    """
    mu = np.asarray(spec.mu)
    loadings, variances = compute_leading_components(operator, mu.size)
    rank = np.argsort(np.argsort(-mu, kind="stable"), kind="stable")  # rank of each unit's weight
    has_ties = np.unique(mu).size < mu.size
    return ComponentResult(
        Z=operator.to_backend(orient(loadings[:, rank])),
        gamma=0 * spec.sparsity.compute_gamma(np.ones(1), mu),  # NaN for a kind of sparsity without γ
        objective=np.array([float(np.sum(mu**2 * variances[rank]))]),
        gap=np.zeros(1),
        n_iter=np.ones(1, int),  # one factorisation
        converged=np.ones(1, bool),
        notes=(ROTATION_NOTE,) if has_ties else (),
    )


def solve_in_turn(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    known_units: Sequence[ComponentResult] = (),
    on_units: Callable[[Sequence[ComponentResult]], object] | None = None,
    solve: Callable[[Operator, FitSpec, np.random.RandomState], ComponentResult] = solve_component,
) -> list[ComponentResult]:
    """Find one component after the other on the whole matrix, deflating in between.

    With `on_units` the matrix is deflated without the columns that were cached for a component: a fit that resumes
    after it has no such cache, and both must round alike. So the results with and without `on_units` agree up to
    rounding only.

    Parameters
    ----------
    operator : Operator
        The matrix before any deflation.
    spec : FitSpec
        The specification of all components, for the columns of `operator`.
    rng : RandomState
    known_units : sequence of ComponentResult
        The first components, if they were found earlier, with loadings (n, 1) in the memory of the matrix. They are
        removed from the matrix and returned as they are.
    on_units : callable, optional
        Called with all components found so far, known ones first, after each new one; do not keep the list.
    solve : callable, optional
        ``solve(operator, spec, rng)`` finds one component of a deflated matrix.

    Returns
    -------
    list of ComponentResult
        One for each component of `spec`, in order, with loadings (n, 1).
    """
    units: list[ComponentResult] = list(known_units)
    for j in range(len(spec.mu)):
        # The columns that `solve_component` caches serve this component and its removal only. `operator` is already
        # without the components before j.
        cached = operator.with_column_cache() if solve is solve_component else operator
        if j == len(units):
            units.append(solve(cached, spec.select_unit(j), rng))
            if on_units is not None:
                on_units(units)
        if j + 1 < len(spec.mu):  # a resumed fit has no cached columns: without them it gets the same digits
            operator = spec.deflation.remove(operator if on_units else cached, units[j].Z[:, 0])
    return units
