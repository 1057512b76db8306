"""Find all components of a fit jointly: under a constraint, or as a block with the largest total adjusted variance.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. Z has
shape (n, m): loadings of m components, each column of unit length or zero. The joint search works on the host in
float64; a result has its loadings in the memory and the dtype of the matrix.

- `ComponentResult`: ``Z``; ``objective``, ``gap``, ``n_iter`` and ``converged``, one entry per component or one for a
  block, on the host; ``ascent_loadings``, before a refit, or None if Z is to be used.
- `FitSpec`: ``constraint`` between components; ``sparsity.positive``, whether loadings must not be negative;
  ``cardinalities``, m numbers of variables; ``mu``, one weight for each component; ``select_unit(j)``, the
  specification of component j alone.
- `Constraint`: ``accepts_variances(v)``, whether components of these variances are a valid result; ``format_error``,
  the message if none was found; ``is_met_by_disjoint_supports``.
- `Operator`: ``to_backend(Z)``, Z where the matrix is; ``take(idx)``, the operator of some columns; ``precision``, the
  relative rounding error of a product; ``max_cached_columns``, how many columns may be gathered; ``combine(Z)``, A Z;
  ``column_norms``, (n,), where the matrix is.
- ``sparsity.make_problem(operator, norms, mu)`` is the problem of a block at its level, with its ``penalty``, weights
  and ``sample_set``, the set of its units. ``CorrelationSet`` is the set of points with correlations; its
  ``make_point(Y)`` is the one of orthonormal units nearest to Y, (p, m), and ``value_and_gradient(point)`` of the
  objective gives its value and gradient, from which ``compute_gap`` computes the first-order gap, a float.
- ``Scores.from_loadings(operator, Z)`` takes loadings where the matrix is; its ``variances`` are ‖A z‖², (m,), and
  ``compute_adjusted_variances()``, (m,), what each component adds to those of larger variance, both float64 on the
  host.
- ``solve_component`` finds one component of a matrix; ``maximize_adjusted_variance(operator, Z, cardinalities)`` are
  loadings, (n, m), on the host in float64, of no smaller total adjusted variance than Z; ``compute_leading_components``
  gives PCA loadings and variances, (m,), zero beyond the rank, on the host. ``to_host(x)`` is x as a NumPy array,
  ``asarray_like(x, values)`` is `values` where x is; ``stable_argmax`` is the index of the largest value, the first of
  those equal up to rounding.
- ``solve_joint`` returns constrained loadings, (n, m), on the host in float64, or None; ``candidate_variables`` are the
  sorted indices of the variables that a joint search uses; ``orient`` makes the largest loading positive;
  ``embed_rows(Z, idx, n)`` puts rows into n rows of zeros.
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
from gpower.problem.formulation import PenaltyObjective
from gpower.solvers.ascent import compute_gap
from gpower.solvers.component import ComponentResult, solve_component
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.joint.multistart import candidate_variables, maximize_adjusted_variance, solve_joint

#: Rounds over components without common variables, and the relative rise of their variance below which they end.
MAX_DISJOINT_ROUNDS, MIN_DISJOINT_RISE = 5, 1e-9
#: Share of the largest variance up to which a variance counts as zero in a rank. It is far above the rounding error of
#: double precision, which differs between processors.
RANK_TOLERANCE = 1e-9


def solve_constrained(
    operator: Operator, spec: FitSpec, unconstrained: ComponentResult, rng: np.random.RandomState
) -> ComponentResult:
    """Find components that satisfy the constraint of `spec`, which must have one, starting from unconstrained ones.

    The loadings of `unconstrained`, (n, m), are in the memory of the matrix. Those of the result are too, oriented,
    unit or zero columns; the objective is the variance ‖A z‖² of each component, (m,), its gap is NaN, and the other
    figures are those of `unconstrained`, one for each component.

    Raises
    ------
    ValueError
        If no components were found that satisfy the constraint.
    """
    constraint = spec.constraint
    assert constraint is not None
    start = to_host(unconstrained.Z).astype(np.float64)
    solve = _solve_nonnegative_disjoint if spec.sparsity.positive else _solve_signed
    Z = solve(operator, spec, start, rng)
    m = len(spec.cardinalities)
    variances = np.zeros(m) if Z is None else _compute_variances(operator, Z)
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


def _compute_variances(operator: Operator, Z: Array) -> Array:
    """Compute the variance ‖A z‖² of each component of loadings Z, (n, m), on the host; (m,) in float64."""
    return Scores.from_loadings(operator, operator.to_backend(Z)).variances


def _solve_signed(operator: Operator, spec: FitSpec, start: Array, rng: np.random.RandomState) -> Array | None:
    """Find constrained components of either sign, (n, m), on the host in float64; None if there are none.

    The joint search starts from the loadings `start`, (n, m), on the host in float64, and from components found in turn
    without common variables, if these satisfy the constraint and all columns may be gathered. The result of the larger
    total variance is returned, the first of equal ones.
    """
    assert spec.constraint is not None
    starts = [start]
    if spec.constraint.is_met_by_disjoint_supports and operator.max_cached_columns >= operator.shape[1]:
        starts.append(_solve_disjoint_in_turn(operator, spec, np.zeros(start.shape, bool), rng, max_rounds=1).Z)
    solutions = [solve_joint(operator, Z, spec.cardinalities, spec.constraint, rng) for Z in starts]
    feasible = [Z for Z in solutions if Z is not None]
    return max(feasible, key=lambda Z: float(_compute_variances(operator, Z).sum()), default=None)


def _solve_nonnegative_disjoint(operator: Operator, spec: FitSpec, start: Array, rng: np.random.RandomState) -> Array:
    """Find non-negative components without common variables, each in turn on the variables that the others do not use.

    The search starts from nothing and from the supports of signed components, found from the loadings `start`, (n, m).
    The result of the larger total variance is returned, (n, m), on the host in float64. `start` is on the host, and the
    constraint of `spec` is that of disjoint supports, the only one that non-negative loadings may have.
    """
    assert spec.constraint is not None
    W = candidate_variables(operator, start, spec.cardinalities)
    if W.size == 0:
        return np.zeros_like(start)
    restricted = operator.take(W)
    signed = solve_joint(restricted, start[W], spec.cardinalities, spec.constraint, rng)
    no_supports = np.zeros((W.size, start.shape[1]), bool)
    starts = [no_supports, no_supports if signed is None else signed != 0]
    solutions = [_solve_disjoint_in_turn(restricted, spec, supports, rng) for supports in starts]
    best = max(solutions, key=lambda solution: solution.total_variance)
    return embed_rows(best.Z, W, start.shape[0])


class DisjointComponents(NamedTuple):
    """Loadings without common variables, (n, m), on the host in float64, and the sum of their variances."""

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
    any starts at zero. The loadings of the result are on all columns of `operator`. `spec` must have no rules for
    single variables, because it is used for changing sets of columns without being restricted to them; its constraint
    and its start are not used.
    """
    free_spec = replace(spec, constraint=None, start=None)
    variances = np.zeros(start_supports.shape[1])
    Z = np.zeros(start_supports.shape)

    def improve(j: int, variables: Array) -> None:
        """Find component j on `variables`, sorted indices on the host, and store it if its variance is larger."""
        unit = solve_component(operator.take(variables), free_spec.select_unit(j), rng)
        if unit.objective[0] > variances[j] * (1 + MIN_DISJOINT_RISE):
            variances[j] = unit.objective[0]
            Z[:, j] = embed_rows(to_host(unit.Z), variables, len(Z))[:, 0]

    for j in np.flatnonzero(start_supports.any(axis=0)).tolist():
        improve(j, np.flatnonzero(start_supports[:, j]))
    for _ in range(max_rounds):
        previous_total = variances.sum()
        for j in range(variances.size):
            improve(j, np.flatnonzero(~np.delete(Z, j, axis=1).any(axis=1)))
        if variances.sum() <= previous_total * (1 + MIN_DISJOINT_RISE):
            break
    return DisjointComponents(Z, float(variances.sum()))


def maximize_block_variance(
    operator: Operator, spec: FitSpec, block: ComponentResult, sequence: ComponentResult
) -> ComponentResult:
    """Return the better of a block and of components found in sequence, both improved together, by total variance.

    `spec` describes the block, of m units of equal weight μ, exact cardinalities and ℓ2 variance. The loadings of both
    results, (n, m), are in the memory of the matrix, and so are those returned, oriented and in its dtype. The
    objective and the gap are those of the block problem at the point that the loadings define; the other figures are
    those of `block`.
    """
    candidates = [
        to_host(zero_units_beyond_rank(operator, result).Z).astype(np.float64) for result in (sequence, block)
    ]
    if not spec.sparsity.positive:
        candidates = [maximize_adjusted_variance(operator, Z, spec.cardinalities) for Z in candidates]
    totals = [
        Scores.from_loadings(operator, operator.to_backend(Z)).compute_adjusted_variances().sum() for Z in candidates
    ]
    Z = operator.to_backend(orient(candidates[stable_argmax(np.array(totals))]).astype(operator.dtype))
    problem = spec.sparsity.make_problem(operator, operator.column_norms, np.asarray(spec.mu))
    # The point is the orthonormal factor of the scores A Z. Objective and set leave the regularization out.
    feasible_set = CorrelationSet(operator, problem.mu, problem.sample_set)
    point = feasible_set.make_point(operator.combine(Z))
    value, gradient = PenaltyObjective(problem.penalty).value_and_gradient(point)
    gap = compute_gap(feasible_set, gradient, point)
    return replace(block, Z=Z, objective=np.array([value]), gap=np.array([gap]), ascent_loadings=None)


def zero_units_beyond_rank(operator: Operator, block: ComponentResult) -> ComponentResult:
    """Return the block with zero loadings for units beyond the rank of the data: they would duplicate other components.

    Units whose loadings are zero already count among those beyond the rank. The others are zeroed by increasing
    adjusted variance. Figures stay those of all units; the block itself is returned if no unit adds rounding only.
    """
    m = block.Z.shape[1]
    used = to_host(np.count_nonzero(block.Z, axis=0)) > 0
    adjusted = Scores.from_loadings(operator, block.Z).compute_adjusted_variances()
    tolerance = max(RANK_TOLERANCE, 64 * operator.precision)
    if not np.any(used & (adjusted <= tolerance * adjusted.max())):
        return block
    variances = compute_leading_components(operator, m)[1]
    rank = int(np.count_nonzero(variances > tolerance * variances.max()))
    beyond = np.argsort(np.where(used, adjusted, -1), kind="stable")[: m - rank]
    is_within_rank = np.isin(np.arange(m), beyond, invert=True).astype(operator.dtype)
    return replace(block, Z=block.Z * asarray_like(block.Z, is_within_rank))
