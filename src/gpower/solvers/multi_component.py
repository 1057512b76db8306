"""Find all components of a fit: a block, components in sequence, or components under a constraint.

`solve_all_components` chooses between the three levels of the solver: one component or block
(`gpower.solvers.component`), components in sequence (`gpower.solvers.sequential`) and components together
(`gpower.solvers.joint`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, asarray_like, embed_rows, stable_argmax, to_host
from gpower._utils.polar_factor_and_signs import orient
from gpower.feasible_sets import CorrelationSet
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.problem.deflation import SchurDeflation
from gpower.problem.formulation import PenaltyObjective
from gpower.solvers.component import solve_component
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.joint.search import candidate_variables, maximize_adjusted_variance, solve_joint
from gpower.solvers.results import ComponentResult
from gpower.solvers.sequential import ProgressCallback, SolverState, solve_sequential
from gpower.solvers.specification import FitSpec

#: Rounds over non-negative components that share no variable.
MAX_DISJOINT_ROUNDS = 5
#: Share of the largest variance up to which a variance counts as zero in a rank. It is far above the rounding error of
#: double precision, which differs between processors.
RANK_TOLERANCE = 1e-9


def solve_all_components(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None = None,
    on_progress: ProgressCallback | None = None,
) -> ComponentResult:
    """Find all components of a fit.

    Parameters
    ----------
    operator : Operator
        The matrix, or a covariance.
    spec : FitSpec
        The specification of all components.
    rng : RandomState
        Source of random starts.
    state : SolverState, optional
        Where an earlier fit of the same problem stopped.
    on_progress : callable, optional
        Called with the state after each round or each component found in sequence.

    Returns
    -------
    ComponentResult
        Loadings, (n, m), in the memory of the matrix, each column of unit length or zero.

    Raises
    ------
    ValueError
        If no components were found that satisfy the constraint of `spec`.
    """
    if spec.constraint is None or len(spec.mu) == 1:
        return _solve_unconstrained(operator, spec, rng, state, on_progress)
    free_spec = replace(spec, constraint=None, local_search=False)
    unconstrained = _solve_unconstrained(operator, free_spec, rng, state, on_progress)
    return _solve_constrained(operator, spec, spec.constraint, unconstrained, rng)


def _solve_unconstrained(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None,
    on_progress: ProgressCallback | None,
) -> ComponentResult:
    """Find the components of a block, or in sequence, without a constraint; `state` and progress are for a sequence."""
    if not spec.is_block:
        return solve_sequential(operator, spec, rng, state, on_progress)
    result = solve_component(operator, spec, rng)
    if spec.should_maximize_total_variance:
        result = _maximize_block_variance(operator, spec, result, rng)
    return _zero_units_beyond_rank(operator, result)


def _solve_constrained(
    operator: Operator,
    spec: FitSpec,
    constraint: Constraint,
    unconstrained: ComponentResult,
    rng: np.random.RandomState,
) -> ComponentResult:
    """Find components that satisfy a constraint, starting from unconstrained ones.

    The search works on the host in float64; the loadings returned are in the memory and dtype of the matrix. Their
    objective is the variance ‖A z‖² of each component.
    """
    start = to_host(unconstrained.Z).astype(np.float64)
    solve = _solve_nonnegative_disjoint if spec.sparsity.positive else _solve_constrained_signed
    Z = solve(operator, spec, constraint, start, rng)
    m = len(spec.cardinalities)
    variances = np.zeros(m) if Z is None else Scores.from_loadings(operator, operator.to_backend(Z)).variances
    if Z is None or not constraint.accepts_variances(variances):
        raise ValueError(constraint.format_error(m, min(spec.cardinalities)))
    return replace(
        unconstrained,
        Z=operator.to_backend(orient(Z).astype(operator.dtype)),
        objective=variances,
        gap=np.full(m, np.nan),
        n_iter=np.resize(unconstrained.n_iter, m),
        converged=np.resize(unconstrained.converged, m),
        ascent_loadings=None,
    )


def _solve_constrained_signed(
    operator: Operator, spec: FitSpec, constraint: Constraint, start_loadings: Array, rng: np.random.RandomState
) -> Array | None:
    """Find constrained components of either sign; None if there are none.

    The joint search starts from the given loadings, (n, m), and from components found in turn without common variables.
    Loadings are on the host, in float64.
    """
    starts = [start_loadings]
    if constraint.is_met_by_disjoint_supports and operator.max_cached_columns >= operator.shape[1]:
        free_spec = replace(spec, constraint=None, start=None)
        no_supports = np.zeros(start_loadings.shape, bool)
        starts.append(_solve_disjoint_in_turn(operator, free_spec, no_supports, rng, max_rounds=1).Z)
    solutions = [solve_joint(operator, start, spec.cardinalities, constraint, rng) for start in starts]
    feasible = [Z for Z in solutions if Z is not None]

    def compute_total_variance(Z: Array) -> float:
        return float(Scores.from_loadings(operator, operator.to_backend(Z)).variances.sum())

    return max(feasible, key=compute_total_variance, default=None)


def _solve_nonnegative_disjoint(
    operator: Operator, spec: FitSpec, constraint: Constraint, start_loadings: Array, rng: np.random.RandomState
) -> Array:
    """Find non-negative components without common variables, each in turn on the variables that the others do not use.

    The search starts from nothing and from the supports of signed components; the better result is returned, (n, m).
    Loadings are on the host, in float64.
    """
    W = candidate_variables(operator, start_loadings, spec.cardinalities)
    if W.size == 0:
        return np.zeros_like(start_loadings)
    restricted = operator.take(W)
    signed = solve_joint(restricted, start_loadings[W], spec.cardinalities, constraint, rng)
    no_loadings = np.zeros_like(start_loadings[W])
    starts = [no_loadings, no_loadings if signed is None else signed]
    free_spec = replace(spec, constraint=None, start=None)  # loadings of a warm start have other rows
    solutions = [_solve_disjoint_in_turn(restricted, free_spec, start != 0, rng) for start in starts]
    best = max(solutions, key=lambda solution: solution.total_variance)
    return embed_rows(best.Z, W, start_loadings.shape[0])


class DisjointComponents(NamedTuple):
    """Loadings without common variables, (n, m), on the host, and the sum of their variances."""

    Z: Array
    total_variance: float


def _solve_disjoint_in_turn(
    operator: Operator,
    spec: FitSpec,
    start_supports: Array,
    rng: np.random.RandomState,
    max_rounds: int = MAX_DISJOINT_ROUNDS,
) -> DisjointComponents:
    """Find each component in turn on the variables that the others do not use, while their variance rises.

    `start_supports`, (n, m), bool, on the host, are the variables of each component to start from; a component without
    any starts at zero. `spec` must have no rules for single variables and no start loadings, because it is used for
    changing sets of columns without being restricted to them.
    """
    variances = np.zeros(start_supports.shape[1])
    Z = np.zeros(start_supports.shape)

    def improve(j: int, variables: Array) -> None:
        unit = solve_component(operator.take(variables), spec.select_unit(j), rng)
        if unit.objective[0] > variances[j] * (1 + 1e-9):
            variances[j] = unit.objective[0]
            Z[:, j] = embed_rows(to_host(unit.Z), variables, len(Z))[:, 0]

    for j in np.flatnonzero(start_supports.any(axis=0)).tolist():
        improve(j, np.flatnonzero(start_supports[:, j]))
    for _ in range(max_rounds):
        previous_total = variances.sum()
        for j in range(variances.size):
            improve(j, np.flatnonzero(~np.delete(Z, j, axis=1).any(axis=1)))
        if variances.sum() <= previous_total * (1 + 1e-9):
            break
    return DisjointComponents(Z, float(variances.sum()))


def _maximize_block_variance(
    operator: Operator, spec: FitSpec, block_result: ComponentResult, rng: np.random.RandomState
) -> ComponentResult:
    """Return the better of the block and of components found in sequence, both improved together, by total variance.

    `spec` describes the block, of m units of equal weight μ; `block_result.Z`, (n_features, m), is where the data are,
    and so are the loadings returned, oriented and in the dtype of the operator. `rng` is passed to the sequence.
    The objective and the gap are those of the block problem at the point that the loadings define; the other figures
    are those of the ascent that found `block_result`.
    """
    sequential_spec = replace(spec, is_block=False, mu=(1.0,) * len(spec.mu), start=None, deflation=SchurDeflation())
    results = (solve_sequential(operator, sequential_spec, rng), block_result)
    candidates = [to_host(_zero_units_beyond_rank(operator, result).Z).astype(np.float64) for result in results]
    if not spec.sparsity.positive:
        candidates = [maximize_adjusted_variance(operator, Z, spec.cardinalities) for Z in candidates]

    def compute_total_variance(Z: Array) -> float:
        return float(Scores.from_loadings(operator, operator.to_backend(Z)).compute_adjusted_variances().sum())

    Z = candidates[stable_argmax(np.array([compute_total_variance(Z) for Z in candidates]))]
    Z = operator.to_backend(orient(Z).astype(operator.dtype))
    problem = spec.sparsity.make_problem(operator, operator.column_norms, np.asarray(spec.mu), spec.regularization)
    # The point is the orthonormal factor of the scores A Z. Objective and set leave the regularization out.
    point = problem.feasible_set.make_point(operator.combine(Z))
    value, gradient = PenaltyObjective(problem.penalty).value_and_gradient(point)
    feasible_set = CorrelationSet(operator, problem.mu, problem.sample_set)
    gap = max(feasible_set.support_value(gradient) - feasible_set.pairing(gradient, point), 0.0)
    return replace(block_result, Z=Z, objective=np.array([value]), gap=np.array([gap]), ascent_loadings=None)


def _zero_units_beyond_rank(operator: Operator, block_result: ComponentResult) -> ComponentResult:
    """Set the units of a block beyond the rank of the data to zero: they would duplicate other components.

    Units whose loadings are zero already count among those beyond the rank.
    """
    m = block_result.Z.shape[1]
    used = to_host(np.count_nonzero(block_result.Z, axis=0)) > 0
    adjusted = Scores.from_loadings(operator, block_result.Z).compute_adjusted_variances()
    tolerance = max(RANK_TOLERANCE, 64 * operator.precision)
    if not np.any(used & (adjusted <= tolerance * adjusted.max())):
        return block_result
    variances = compute_leading_components(operator, m)[1]
    rank = int(np.count_nonzero(variances > tolerance * variances.max()))
    beyond = np.argsort(np.where(used, adjusted, -1), kind="stable")[: m - rank]
    is_within_rank = np.isin(np.arange(m), beyond, invert=True).astype(operator.dtype)
    return replace(block_result, Z=block_result.Z * asarray_like(block_result.Z, is_within_rank))
