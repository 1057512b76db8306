"""All components of a recipe: a block, or one after the other; kept apart where that is asked for; in their order.

What finds several components at once meets here: shared rounds and deflation (`shared_rounds`), blocks (`extraction`),
and the improvement of all of them together (`together`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, asarray_like, embed_rows, orient, to_host
from gpower.feasible_sets import CorrelationSet
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components
from gpower.problem.deflation import SchurDeflation
from gpower.problem.formulation import PenaltyObjective
from gpower.solvers.component import ComponentResult, solve_component
from gpower.solvers.joint.constraints import Constraint
from gpower.solvers.joint.search import candidate_variables, maximize_adjusted_variance, solve_joint
from gpower.solvers.sequential import ProgressCallback, SolverState, solve_sequential
from gpower.solvers.specification import FitSpec

#: Turns of non-negative components that share no variable.
MAX_DISJOINT_ROUNDS = 5


def solve_all_components(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None = None,
    on_progress: ProgressCallback | None = None,
) -> ComponentResult:
    """All components; `standing` is where an earlier fit of the same problem was, `told` hears how far this one is."""
    if spec.constraint is not None and len(spec.mu) > 1:
        free = solve_all_components(
            operator, replace(spec, constraint=None, local_search=False), rng, state, on_progress
        )
        return _solve_constrained(operator, spec, spec.constraint, free, rng)
    if spec.is_block:
        found = solve_component(operator, spec, rng)
        return _zero_units_beyond_rank(
            operator,
            _maximize_block_variance(operator, spec, found, rng) if spec.should_maximize_total_variance else found,
        )
    return solve_sequential(operator, spec, rng, state, on_progress)


def _solve_constrained(
    operator: Operator,
    spec: FitSpec,
    constraint: Constraint,
    unconstrained: ComponentResult,
    rng: np.random.RandomState,
) -> ComponentResult:
    """Components that keep a constraint, begun at those without."""
    levels, start = spec.cardinalities, to_host(unconstrained.Z).astype(np.float64)
    if spec.sparsity.positive:
        Z: Array | None = _solve_nonnegative_disjoint(operator, spec, constraint, start, rng)
    else:
        Z = _solve_constrained_signed(operator, spec, constraint, start, rng)
    m = len(levels)
    variances = np.zeros(m) if Z is None else Scores.from_loadings(operator, operator.to_backend(Z)).variances
    if Z is None or not constraint.accepts_variances(variances):
        raise ValueError(constraint.format_error(m, min(levels)))
    Z = operator.to_backend(orient(Z).astype(operator.dtype))
    n_iter, converged = np.resize(unconstrained.n_iter, m), np.resize(unconstrained.converged, m)
    return replace(
        unconstrained,
        Z=Z,
        objective=variances,
        gap=np.full(m, np.nan),
        n_iter=n_iter,
        converged=converged,
        ascent_loadings=None,
    )


def _solve_constrained_signed(
    operator: Operator, spec: FitSpec, constraint: Constraint, start_loadings: Array, rng: np.random.RandomState
) -> Array | None:
    """Such components of either sign, begun at Z, and at components that share no variable, one after the other."""
    starts = [start_loadings]
    if constraint.is_met_by_disjoint_supports and operator.max_cached_columns >= operator.shape[1]:
        alone = replace(spec, constraint=None, start=None)
        starts.append(
            _solve_disjoint_in_turn(operator, alone, np.zeros(start_loadings.shape, bool), rng, max_rounds=1)[0]
        )
    ends = [solve_joint(operator, start, spec.cardinalities, constraint, rng) for start in starts]
    kept = [end for end in ends if end is not None]
    return max(
        kept,
        key=lambda end: float(Scores.from_loadings(operator, operator.to_backend(end)).variances.sum()),
        default=None,
    )


def _solve_nonnegative_disjoint(
    operator: Operator, spec: FitSpec, constraint: Constraint, start_loadings: Array, rng: np.random.RandomState
) -> Array:
    """Disjoint components that are non-negative: each in turn the best of what the others leave, while that helps.

    From nothing, and from the variables of components of either sign, whose search exchanges them; the better is kept.
    """
    W = candidate_variables(operator, start_loadings, spec.cardinalities)
    if W.size == 0:
        return np.zeros_like(start_loadings)
    inner = operator.take(W)
    signed = solve_joint(inner, start_loadings[W], spec.cardinalities, constraint, rng)
    starts = [np.zeros_like(start_loadings[W]), np.zeros_like(start_loadings[W]) if signed is None else signed]
    ends = [_solve_disjoint_in_turn(inner, spec, start != 0, rng) for start in starts]
    return embed_rows(max(ends, key=lambda end: end[1])[0], W, start_loadings.shape[0])


def _solve_disjoint_in_turn(
    operator: Operator,
    spec: FitSpec,
    start_supports: Array,
    rng: np.random.RandomState,
    max_rounds: int = MAX_DISJOINT_ROUNDS,
) -> tuple[Array, float]:
    """Such components begun on supports, (n, m), and the sum of their variances."""
    best, found = np.zeros(start_supports.shape[1]), np.zeros(start_supports.shape)

    def improve(j: int, room: Array) -> None:
        unit = solve_component(operator.take(room), spec.select_unit(j), rng)
        if unit.objective[0] > best[j] * (1 + 1e-9):
            best[j], found[:, j] = unit.objective[0], embed_rows(to_host(unit.Z), room, len(found))[:, 0]

    for j in np.flatnonzero(start_supports.any(axis=0)).tolist():
        improve(j, np.flatnonzero(start_supports[:, j]))
    for _ in range(max_rounds):
        before = best.sum()
        for j in range(best.size):
            improve(j, np.flatnonzero(~np.delete(found, j, axis=1).any(axis=1)))
        if best.sum() <= before * (1 + 1e-9):
            break
    return found, float(best.sum())


def _maximize_block_variance(
    operator: Operator, spec: FitSpec, block_result: ComponentResult, rng: np.random.RandomState
) -> ComponentResult:
    """A block that explains as much as it can: the better of itself and of components found in turn, each improved."""
    alone = replace(spec, is_block=False, mu=(1.0,) * len(spec.mu), start=None, deflation=SchurDeflation())
    ends = [to_host(each.Z).astype(np.float64) for each in (solve_sequential(operator, alone, rng), block_result)]
    if not spec.sparsity.positive:
        ends = [maximize_adjusted_variance(operator, Z, spec.cardinalities) for Z in ends]
    Z = max(
        ends,
        key=lambda Z: float(Scores.from_loadings(operator, operator.to_backend(Z)).compute_adjusted_variances().sum()),
    )
    Z = operator.to_backend(orient(Z).astype(operator.dtype))
    problem = spec.sparsity.make_problem(operator, operator.column_norms, np.asarray(spec.mu), spec.regularization)
    point = problem.feasible_set.make_point(operator.combine(Z))
    value, slope = PenaltyObjective(problem.penalty).value_and_gradient(point)
    data = CorrelationSet(operator, problem.mu, problem.sample_set)
    gap = max(data.support_value(slope) - data.pairing(slope, point), 0.0)
    return replace(block_result, Z=Z, objective=np.array([value]), gap=np.array([gap]), ascent_loadings=None)


def _zero_units_beyond_rank(operator: Operator, block_result: ComponentResult) -> ComponentResult:
    """A block less its units beyond the rank of the data, which can but repeat the others: they are zero."""
    m, used = block_result.Z.shape[1], to_host(np.count_nonzero(block_result.Z, axis=0)) > 0
    adjusted = Scores.from_loadings(operator, block_result.Z).compute_adjusted_variances()
    if not np.any(used & (adjusted <= 64 * operator.precision * adjusted.max())):
        return block_result
    rank = int(np.count_nonzero(compute_leading_components(operator, m)[1]))
    beyond = np.argsort(np.where(used, adjusted, -1), kind="stable")[: m - rank]
    kept = np.isin(np.arange(m), beyond, invert=True).astype(operator.dtype)
    return replace(block_result, Z=block_result.Z * asarray_like(block_result.Z, kept))
