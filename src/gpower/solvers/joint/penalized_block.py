"""Improve a penalised block of components: find each unit again, orthogonal to the other units, which do not change.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. A block
has m units with weights μ, (m,). X, (p, m), are its orthonormal sample-space units, C = μ∘AᵀX, (n, m), their weighted
correlations, both in a `Point`; Z, (n, m), are loadings. These arrays are where the matrix is, on the host or a device.
γ, (m,), is the absolute level of the penalty of each unit, float64 on the host. ``feasible_set.make_point(Y)`` is the
point of orthonormal units nearest to vectors Y, (p, m), and ``operator.combine(Z)`` is A Z.

A `StartContext` has the ``problem``, the ``norms``, (n,), of its columns, a random generator and the callback of a
race. ``improve_penalized`` is an ascent of one unit of no smaller value, ``select_best_result`` the ascent of the
largest value, the first of equal ones; ``is_large_matrix`` tells that ascents use a working set of columns;
``to_host(x)`` is x as a NumPy array. ``ColumnStarts(s).choose_points(context)`` are the best points of a race of s
starts at columns, of one unit. ``problem.mu``, (m,), are the weights; ``point.replace_unit(j, unit)`` has unit j of
another point; ``operator.to_backend(Z)`` is Z where the matrix is. ``problem.compute_loadings(point)`` is Z at a point,
unit columns or zero; ``feasible_set.remove_weights(C)`` is AᵀX; ``operator.column_norms``, (n,), are where the matrix
is, in its dtype, and ``norm_tolerance`` is the norm that rounding gives to a zero column. ``deflate_other_units`` is
the operator of A without its part along all units but one, of the same sample space. ``penalty.evaluate(C)`` gives the
value of each unit, (m,), and the gradient. An `AscentResult` has the ``point`` where it ended, the ``value`` of the
objective there, summed over units, and ``converged``. A `FitSpec` is the specification of the fit: ``sparsity``, whose
``select_unit(j).make_penalty(gamma)`` is the penalty of one unit at γ; ``should_search_locally``; ``settings`` of the
ascents.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpower._utils.arrays import Array, max_or_zero, to_host
from gpower.feasible_sets import Point
from gpower.operators.deflated import deflate_other_units
from gpower.penalties.elementary import Penalty
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentResult, select_best_result
from gpower.solvers.fit_specification import MIN_UNIT_STARTS, FitSpec, PenaltyLevel
from gpower.solvers.local_search import improve_penalized
from gpower.solvers.starts import ColumnStarts, StartContext
from gpower.solvers.working_set import AscentSettings, ascend, is_large_matrix

#: Rounds over all units, and the relative rise of the objective below which a round counts as no rise.
MAX_BLOCK_ROUNDS, MIN_BLOCK_GAIN = 10, 1e-6
#: Variables, those with the smallest correlations, that are moved to another unit on trial. Without such moves 9 of 60
#: blocks of three components (30 × 8 and 30 × 20) end lower, by up to 4 % of the objective.
MAX_MOVED_VARIABLES = 12


def should_search_units(context: StartContext, spec: FitSpec) -> bool:
    """Return whether the units of a block are sought one by one.

    That is a block of several units with a penalty at a level, on a matrix that is ascended as a whole, where `spec`
    asks for a local search: of ℓ2 variance, without regularization and without a start chosen by the user.
    """
    is_small = not is_large_matrix(context.problem.operator, spec.settings)
    is_penalized_block = isinstance(spec.sparsity, PenaltyLevel) and context.problem.mu.size > 1
    return is_penalized_block and spec.should_search_locally and is_small


def solve_units_in_turn(context: StartContext, gamma: Array, spec: FitSpec) -> Point:
    """Return a start of a block: its units found one after the other, each orthogonal to those before it.

    `gamma`, (m,), is absolute. A unit for which no variance is left stays zero until `make_point` directs it at what
    the others do not explain. Call it only if `should_search_units` holds. The point is feasible for the block, in the
    memory of the matrix, with the weights μ in its correlations.
    """
    problem = context.problem
    p, n = problem.operator.shape
    m = problem.mu.size
    like = problem.operator.column_norms
    point = Point(np.zeros_like(like, shape=(p, m)), np.zeros_like(like, shape=(n, m)))
    for j in range(m):
        unit = _solve_unit_given_others(context, point, j, gamma, spec)
        point = point if unit is None else point.replace_unit(j, unit.point)
    return problem.feasible_set.make_point(point.X)


def improve_block(context: StartContext, result: AscentResult, gamma: Array, spec: FitSpec) -> AscentResult:
    """Find each unit of a block again, or move a variable between units, while that raises the objective.

    Parameters
    ----------
    context : StartContext
        The problem of the block, of ℓ2 variance (`Stiefel`) and without regularization, its penalty at γ.
    result : AscentResult
        The end of an ascent.
    gamma : ndarray of shape (m,)
        Absolute γ, on the host.
    spec : FitSpec
        The specification of the block.

    Returns
    -------
    AscentResult
        An ascent whose value is no smaller; `result` itself if nothing raises it by a relative `MIN_BLOCK_GAIN`.
    """
    problem = context.problem
    for _ in range(MAX_BLOCK_ROUNDS):
        point = result.point
        for j in range(problem.mu.size):
            unit = _solve_unit_given_others(context, point, j, gamma, spec)
            values, _ = _make_unit_penalty(problem, gamma, j, spec).evaluate(point.C[:, [j]])
            if unit is not None and unit.value > float(values[0]):
                point = point.replace_unit(j, unit.point)
        better = ascend(problem, problem.feasible_set.make_point(point.X), spec.settings)
        if better.value <= result.value * (1 + MIN_BLOCK_GAIN):
            better = _move_variables(problem, result, spec.settings)
        if better.value <= result.value * (1 + MIN_BLOCK_GAIN):
            break
        result = better
    return result


def _move_variables(problem: Problem, result: AscentResult, settings: AscentSettings) -> AscentResult:
    """Move a variable from one unit of a block to another, or drop it, and ascend; return the first better result.

    If no move raises the objective by more than a relative MIN_BLOCK_GAIN, `result` itself is returned. The loadings
    are moved on the host; `make_point` then orthonormalises the sample-space units. Variables of the smallest weighted
    correlations are tried first, those of equal ones in the order of variables and units.
    """
    Z = to_host(problem.compute_loadings(result.point))
    C = to_host(result.point.C)
    rows, units = np.nonzero(Z)
    order = np.argsort(np.abs(C[rows, units]), kind="stable")[:MAX_MOVED_VARIABLES]
    for i, source in zip(rows[order], units[order], strict=True):
        for target in range(Z.shape[1]):
            moved = Z.copy()
            moved[i, source] = 0
            if source != target:
                moved[i, target] = Z[i, source]
            Y = problem.operator.combine(problem.operator.to_backend(moved))
            better = ascend(problem, problem.feasible_set.make_point(Y), settings)
            if better.value > result.value * (1 + MIN_BLOCK_GAIN):
                return better
    return result


def _solve_unit_given_others(
    context: StartContext, others: Point, j: int, gamma: Array, spec: FitSpec
) -> AscentResult | None:
    """Find unit j of a block on the matrix without the other units; None where that matrix is zero.

    `gamma`, (m,), is that of all units. The columns of `others.X` other than j are orthonormal or zero; column j is not
    read. The sample space is that of the whole matrix, and the point found, of one unit, is orthogonal to the other
    units, so that its correlations, with the weight μⱼ, are those with the whole columns too.
    """
    problem = context.problem
    # `deflate_other_units` needs AᵀX, without the weights μ that the correlations of a point contain.
    rest = deflate_other_units(problem.operator, others.X, problem.feasible_set.remove_weights(others.C), j)
    if max_or_zero(rest.column_norms) <= rest.norm_tolerance:
        return None
    penalty = _make_unit_penalty(problem, gamma, j, spec)
    unit_problem = replace(problem, operator=rest, penalty=penalty, mu=problem.mu[j : j + 1])
    unit_context = replace(context, problem=unit_problem, norms=rest.column_norms)
    starts = ColumnStarts(MIN_UNIT_STARTS).choose_points(unit_context)
    results = [ascend(unit_problem, start, spec.settings) for start in starts]
    return improve_penalized(unit_problem, select_best_result(results), spec.settings)


def _make_unit_penalty(problem: Problem, gamma: Array, j: int, spec: FitSpec) -> Penalty:
    """Return the penalty of unit j alone, in the dtype of the matrix; `gamma`, (m,), is the absolute γ of all units."""
    return spec.sparsity.select_unit(j).make_penalty(gamma[j : j + 1].astype(problem.operator.dtype))
