"""Find one component, or a block of components, of a matrix: screen, start, ascend, search locally, refit.

`solve_component` is the first of the three levels of the solver. Components in sequence are found by
`gpower.solvers.sequential`, components together by `gpower.solvers.joint`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpower._utils.arrays import Array, max_or_zero, stable_argmax, take_rows, to_host
from gpower._utils.polar_factor_and_signs import orient
from gpower.feasible_sets import Point
from gpower.operators.base import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult
from gpower.solvers.block import improve_block, should_search_units, solve_units_in_turn
from gpower.solvers.calibration import calibrate_gamma, resize_support
from gpower.solvers.initialization import ColumnStarts, StartContext
from gpower.solvers.local_search import improve_penalized, refit_and_swap
from gpower.solvers.min_cardinality import find_min_cardinality
from gpower.solvers.refit import AUTO_REFIT, refit_loadings
from gpower.solvers.results import AscentSolution, ComponentResult
from gpower.solvers.specification import CalibratedPenalty, ExactCardinality, FitSpec, MinCardinality, PenaltyLevel
from gpower.solvers.working_set import ascend

#: Screened columns are gathered once when no more than this share is left.
MAX_SCREENED_SHARE = 0.25
#: Above this cardinality the local search begins at the best ascent only.
MAX_SUPPORT_TO_SEARCH_ALL = 64
#: Ascents of different values at which the local search of a penalty begins.
MAX_SEARCHED_RESULTS = 3

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)
RESIZED_SUPPORT_NOTE = (
    "No gamma was found with exactly the wanted number of active variables; the nearest active set was cut to its "
    "largest loadings, or filled with the most correlated variables, and refitted."
)


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
        Loadings, (n, m), of unit length, the largest positive; zero where nothing is active. They
        are in the memory of the matrix.
    """
    operator = operator.with_column_cache()
    sparsity = spec.sparsity
    mu = np.asarray(spec.mu)
    n = operator.shape[1]
    if sparsity.is_ordinary_pca(n) and spec.settings.use_working_set is not False and operator.column_norms.any():
        return _solve_ordinary_pca(operator, spec)
    norms = sparsity.sample_set.compute_max_correlations(operator)  # (n,): ‖aᵢ‖₂, or ‖aᵢ‖₁ for the cube
    gamma = sparsity.compute_gamma(norms, mu)
    if max_or_zero(norms) <= operator.norm_tolerance:  # the matrix is zero up to rounding
        return _make_zero_result(operator, gamma)
    problem, columns = _screen_problem(sparsity.make_problem(operator, norms, mu, spec.regularization), norms)
    if columns.size == 0:
        return _make_zero_result(operator, gamma)
    if columns.size < n:
        norms = take_rows(norms, columns)
        spec = spec.restrict(columns)
    solution = _solve_problem(StartContext(problem, norms, rng, spec.settings.callback), gamma, spec)
    result = ComponentResult.from_solution(solution, orient(solution.Z))
    return result if columns.size == n else result.embed(columns, operator)


def _screen_problem(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """Return the problem on the columns that can be active, and their indices; all columns if many are left.

    `norms`, (n,), are the largest |aᵢᵀx| of the columns. The indices are sorted and on the host; they are empty if no
    column can be active, and then the problem must not be solved.
    """
    can_be_active = problem.penalty.screen(norms, problem.mu)
    n = problem.operator.shape[1]
    if int(np.count_nonzero(can_be_active)) > min(MAX_SCREENED_SHARE * n, problem.operator.max_cached_columns):
        return problem, np.arange(n)
    columns = to_host(np.flatnonzero(can_be_active))
    return problem.restrict(columns), columns


def _solve_problem(context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
    """Solve a screened problem by the method that suits its kind of sparsity.

    The problem and the norms of `context`, and the start and the penalty of `spec`, are those of the screened columns.
    `gamma`, (m,), float64, is absolute; NaN for a sparsity without γ. It is only reported, except that
    `gpower.solvers.block` makes the penalties of single units from it: the problem has its level already.
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
    """Return the points of the given start, or else columns of the matrix: at least one, feasible for the problem."""
    points = [] if spec.start is None else spec.start.choose_points(context)
    is_block = spec.is_block and len(spec.mu) > 1
    n_starts = max(spec.n_init or 0, spec.sparsity.choose_n_starts(context.problem.operator, is_block))
    return points or ColumnStarts(n_starts).choose_points(context)


def _solve_from_starts(context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
    """Ascend from every start, search locally near the best ends, and refit the best one.

    The value of the solution is that of the ascent, not of the refitted loadings.
    """
    problem = context.problem
    starts = _choose_starts(context, spec)
    if should_search_units(context, spec):
        starts.append(solve_units_in_turn(context, gamma, spec))
    results = [ascend(problem, start, spec.settings) for start in starts]
    improved = [_improve_result(context, result, gamma, spec) for result in _select_distinct_results(results)]
    best = _select_best_result(improved)
    Z = refit_loadings(problem, best.point, spec.refit, tol=spec.settings.tol, max_iter=spec.settings.max_iter)
    return AscentSolution(Z, gamma, best.value, best, ascent_loadings=problem.compute_loadings(best.point))


def _improve_result(context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
    """Search near the end of an ascent with a penalty; other kinds of sparsity are not searched here."""
    if should_search_units(context, spec):
        return improve_block(context, result, gamma, spec)
    is_penalized = isinstance(spec.sparsity, PenaltyLevel) and context.problem.is_single_l2_unit
    if is_penalized and spec.should_search_locally:
        return improve_penalized(context.problem, result, spec.settings)
    return result


def _select_best_result(results: Sequence[AscentResult]) -> AscentResult:
    """Return the ascent with the largest value, the first of equal ones; there must be at least one."""
    return results[stable_argmax(np.array([result.value for result in results]))]


def _select_distinct_results(results: Sequence[AscentResult]) -> list[AscentResult]:
    """Return a few ascents with the largest values, no two of them equal."""
    by_value = {round(result.value / max(results[0].value, 1e-300), 9): result for result in reversed(results)}
    return [by_value[value] for value in sorted(by_value, reverse=True)[:MAX_SEARCHED_RESULTS]]


def _solve_exact(context: StartContext, gamma: Array, spec: FitSpec) -> AscentSolution:
    """Find one component of exact cardinality, with a local search after every ascent, or after the best only.

    The value of the solution is μ² times the variance of the refitted loadings.
    """
    problem = context.problem
    results = [ascend(problem, start, spec.settings) for start in _choose_starts(context, spec)]
    if problem.penalty.max_cardinality > MAX_SUPPORT_TO_SEARCH_ALL:
        results = [_select_best_result(results)]
    best = refit_and_swap(problem, results, spec.settings, spec.local_search)
    return AscentSolution(best.Z, gamma, best.value, best.ascent)


def _solve_calibrated(context: StartContext, spec: FitSpec) -> AscentSolution:
    """Find γ by bisection so that the wanted number of variables is active; resize the support where none does.

    The penalty of the problem may be at any γ. The levels of `spec` are numbers of variables, or of groups.
    """
    problem = context.problem
    cardinalities = np.asarray(spec.sparsity.levels, int)
    gamma_max = problem.penalty.gamma_max(context.norms, problem.mu)
    start = _choose_starts(context, spec)[0]
    calibrated = calibrate_gamma(problem, gamma_max, cardinalities, start, spec.settings)
    ascent = calibrated.result
    Z = refit_loadings(calibrated.problem, ascent.point, spec.refit)
    ends = calibrated.problem.compute_loadings(ascent.point)
    if np.all(calibrated.active_counts == cardinalities):
        return AscentSolution(Z, calibrated.gamma, ascent.value, ascent, ascent_loadings=ends)
    refit = spec.refit if spec.refit.powers else AUTO_REFIT
    support = resize_support(problem.penalty, Z, ascent.point.C, cardinalities)
    Z = refit_loadings(calibrated.problem, ascent.point, refit, support)
    return AscentSolution(Z, calibrated.gamma, ascent.value, ascent, (RESIZED_SUPPORT_NOTE,), ends)


def _make_zero_result(operator: Operator, gamma: Array) -> ComponentResult:
    """Return zero loadings, (n, m) for γ of shape (m,), in the memory of the matrix, found without an ascent."""
    Z = np.zeros_like(operator.column_norms, shape=(operator.shape[1], gamma.size))
    return ComponentResult.from_loadings(Z, gamma)


def _solve_ordinary_pca(operator: Operator, spec: FitSpec) -> ComponentResult:
    """Compute ordinary principal components, the leading one for the unit with the largest weight.

    Components beyond the rank are zero.
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
