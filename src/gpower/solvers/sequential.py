"""Find all components of a fit, above all in sequence: each on the matrix without those before it.

`solve_all_components` chooses between the three levels of the solver: one component or block
(`gpower.solvers.component`), components in sequence (here) and components together (`gpower.solvers.joint`).

On a large matrix all components of a sequence share one working set, so that the number of passes over the matrix does
not grow with the number of components:

1. A sketch of the matrix, a few rows, gives approximate components; many starts race there at little cost. Columns
   whose correlations stand out (`column_screening`) give further candidates: columns of the sketch if all components
   have far more variance than it can hide, else those of the matrix.
2. A round solves for all components on the working set W of columns, from where they were. One product with the whole
   matrix then gives the correlations of every component with all columns, each on its deflated matrix.
3. Columns outside W that would be active join W. When there are none, every component is first-order optimal for its
   whole deflated problem: it is optimal on W, and no column outside is active.

Columns only join W, so the rounds end. Where the sketch does not contain the first component, as in noise, there is no
shared structure, and each component gets starts of its own on the deflated matrix.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. Z has
shape (n, m): loadings of m components, each column of unit length or zero; a unit is one component with (n, 1).
C, (n, 1), are the correlations Aᵀx of all columns with a component's unit vector x along A z, on the matrix deflated by
the components before it, and T, (n, 1), the gradient of the penalty at C, not zero where a variable is active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, embed_rows, max_or_zero, stable_argmax, take_rows, to_host
from gpower.operators import Covariance
from gpower.operators.base import Operator
from gpower.problem.deflation import SchurDeflation
from gpower.solvers.column_screening import make_module_starts
from gpower.solvers.component import ComponentResult, solve_component, solve_in_turn
from gpower.solvers.joint.components import maximize_block_variance, solve_constrained, zero_units_beyond_rank
from gpower.solvers.sketch import solve_on_sketch
from gpower.solvers.specification import GRAM_COLUMNS_PER_PASS, MAX_SHARED_COLUMN_SHARE, FitSpec
from gpower.solvers.starts import N_FINALISTS, CandidateStarts
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MIN_WORKING_SET, select_working_set

#: Candidates from single columns that race with those of the sketch, and the columns of their working sets together.
MAX_CANDIDATES, MIN_CANDIDATES, MAX_CANDIDATE_COLUMNS = 48, 8, 2400
#: Columns most correlated with a component among which its variables may be swapped.
MAX_NEIGHBOUR_COLUMNS = 384
#: Columns whose Gram matrix (72 MB) is small on any machine.
MAX_SMALL_GRAM_COLUMNS = 3000


@dataclass(frozen=True, eq=False)
class SolverState:
    """Progress of the components, as a checkpoint stores it.

    Attributes
    ----------
    units : tuple of ComponentResult
        The components found so far, each with loadings (n_features, 1); on the host if they come from a sketch, else in
        the memory of the matrix.
    n_final : int
        How many of them, from the first on, are final.
    working_set : ndarray of int
        The shared working set W, sorted column indices on the host; empty where components are found without one.
    """

    units: tuple[ComponentResult, ...] = ()
    n_final: int = 0
    working_set: Array = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def final_units(self) -> tuple[ComponentResult, ...]:
        """Return the components that are final."""
        return self.units[: self.n_final]

    @property
    def Z(self) -> Array:
        """Return the loadings of all components found so far, (n_features, m); there must be at least one component."""
        return np.hstack([unit.Z for unit in self.units])


#: Called with the state after each round or each component.
ProgressCallback = Callable[[SolverState], object]


def solve_all_components(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None = None,
    on_progress: ProgressCallback | None = None,
) -> ComponentResult:
    """Find all components of a fit: in sequence, as a block, or under a constraint.

    Parameters
    ----------
    operator : Operator
        The matrix, or a covariance.
    spec : FitSpec
        The specification of all components.
    rng : RandomState
        Source of random starts.
    state : SolverState, optional
        Where an earlier fit of the same problem stopped; only for components in sequence.
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
    is_constrained = spec.constraint is not None and len(spec.mu) > 1
    free_spec = replace(spec, constraint=None, local_search=False) if is_constrained else spec
    if spec.is_block:
        result = _solve_block(operator, free_spec, rng)
    else:
        result = solve_sequential(operator, free_spec, rng, state, on_progress)
    return solve_constrained(operator, spec, result, rng) if is_constrained else result


def _solve_block(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> ComponentResult:
    """Find all components of a block, those beyond the rank of the data zero; (n, m), in the memory of the matrix."""
    block = solve_component(operator, spec, rng)
    if spec.should_maximize_total_variance:
        sequential_spec = replace(
            spec, is_block=False, mu=(1.0,) * len(spec.mu), start=None, deflation=SchurDeflation()
        )
        block = maximize_block_variance(operator, spec, block, solve_sequential(operator, sequential_spec, rng))
    return zero_units_beyond_rank(operator, block)


def solve_sequential(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None = None,
    on_progress: ProgressCallback | None = None,
) -> ComponentResult:
    """Find components in sequence, each on the matrix without those before it.

    Parameters
    ----------
    operator : Operator
        The matrix before any deflation.
    spec : FitSpec
        The specification of all components.
    rng : RandomState
        Source of random starts.
    state : SolverState, optional
        Where an earlier fit of the same problem stopped.
    on_progress : callable, optional
        Called with the state after each round or each component.

    Returns
    -------
    ComponentResult
        All m components in the order in which they were found, one entry of every figure for each.
    """
    state = SolverState() if state is None else state
    m = len(spec.mu)
    has_variance = max_or_zero(operator.column_norms) > operator.norm_tolerance
    can_share = has_variance and spec.should_share_rounds(operator)
    if can_share and not state.units:
        state = _initialize_state(operator, spec, rng)
    if can_share and not state.working_set.size and len(state.units) < m <= N_FINALISTS:
        # Each component has its own working set and starts on the deflated matrix.
        on_units = None if on_progress is None else lambda units: on_progress(SolverState(tuple(units), len(units)))
        units = solve_in_turn(operator, spec, rng, state.final_units, on_units, solve=solve_sequential)
        return ComponentResult.concatenate(units)
    while state.working_set.size and state.n_final < m:
        if on_progress is not None:
            on_progress(state)
        state = _run_round(operator, spec, state, rng)
    if state.n_final < m:
        state = _solve_remaining(operator, spec, rng, state, on_progress)
    return ComponentResult.concatenate(state.units)


def _solve_remaining(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState,
    on_progress: ProgressCallback | None,
) -> SolverState:
    """Find the components that are not final on the whole matrix, or on its covariance where that is cheaper.

    They start where they were, if all components have loadings. All components of the state returned are final, and it
    has no working set.
    """
    n = operator.shape[1]
    is_gram_cheap = n <= GRAM_COLUMNS_PER_PASS * spec.estimate_sequential_passes() and not spec.needs_samples
    if operator.has_samples and operator.container.should_use_covariance and is_gram_cheap:
        operator = Covariance(operator.gram(np.arange(n)), operator.counter)
    if len(state.units) == len(spec.mu):
        spec = spec.with_start_loadings(state.Z)

    def make_state(units: Sequence[ComponentResult]) -> SolverState:
        return SolverState((*units, *state.units[len(units) :]), len(units))

    on_units = None if on_progress is None else lambda units: on_progress(make_state(units))
    return make_state(solve_in_turn(operator, spec, rng, state.final_units, on_units))


class CandidateLoadings(NamedTuple):
    """Loadings that any component may start from, on the host: (|columns|, c), on the sorted columns of their sets."""

    Z: Array
    columns: Array


def _initialize_state(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> SolverState:
    """Return the state after the first round: the warm start, or components from the sketch and from candidates.

    The state is empty if the components share no structure; see `solve_on_sketch`. Warm-start loadings, (n, m), must
    be in the memory of the matrix.
    """
    if spec.start_loadings is not None:
        gamma = spec.sparsity.compute_gamma(operator.column_norms, np.ones(len(spec.mu)))
        pairs = zip(spec.start_loadings.T[:, :, None], gamma[:, None], strict=True)
        return _check_units(operator, spec, tuple(ComponentResult.from_loadings(z, level) for z, level in pairs))
    sketched = solve_on_sketch(operator, spec, rng)
    if sketched is None:
        return SolverState()
    state = _check_units(sketched.matrix, spec, sketched.units, max_columns=sketched.max_columns)
    screened = sketched.screened
    del sketched  # its matrix may be a copy of the whole
    candidates = _find_candidates(screened, spec, _compute_max_candidate_columns(operator))
    del screened
    return _run_first_round(operator, spec, state, candidates, rng)


def _find_candidates(screened: Operator, spec: FitSpec, max_columns: int) -> CandidateLoadings:
    """Find loadings from single columns of a matrix or its sketch, for the component with the largest cardinality.

    Without cardinalities it is the first component. The matrix is not deflated. The working sets of the candidates have
    about `max_columns` columns together.
    """
    first = spec.select_unit(int(np.argmax(spec.sparsity.levels)) if spec.cardinalities else 0)
    norms = first.sparsity.sample_set.compute_max_correlations(screened)
    problem = first.sparsity.make_problem(screened, norms, np.ones(1))
    penalty = problem.penalty
    working_set_size = COLUMNS_PER_ACTIVE * max(penalty.max_cardinality, MIN_WORKING_SET)
    n_affordable = max_columns // working_set_size
    n_candidates = max(spec.n_init or 0, int(np.clip(n_affordable, MIN_CANDIDATES, MAX_CANDIDATES)))
    C = make_module_starts(problem, norms, n_candidates).C
    starts = [C[:, j : j + 1] for j in range(C.shape[1])]
    columns = np.unique(np.concatenate([select_working_set(penalty, c, penalty.evaluate(c)[1]) for c in starts]))
    # All active columns are in the working sets; one start at a time, so that no further array is as large as C.
    return CandidateLoadings(np.hstack([to_host(take_rows(penalty.loadings(c), columns)) for c in starts]), columns)


def _compute_max_candidate_columns(operator: Operator) -> int:
    """Return how many columns the working sets of all candidates may have together."""
    n_shared = 0.8 * MAX_SHARED_COLUMN_SHARE * operator.shape[1]
    return int(min(MAX_CANDIDATE_COLUMNS, n_shared, operator.container.max_gram_columns // 2))


def _run_first_round(
    operator: Operator, spec: FitSpec, state: SolverState, candidates: CandidateLoadings, rng: np.random.RandomState
) -> SolverState:
    """Solve on the columns of the sketch's components and of the candidates, each component from the best of both.

    `state` is that of the sketch. It is returned unchanged if these columns are too many for a round.
    """
    m = len(spec.mu)
    W = np.union1d(state.working_set, candidates.columns)
    if W.size > _compute_max_round_columns(operator):
        return state
    is_few = m <= N_FINALISTS
    own = embed_rows(candidates.Z, np.searchsorted(W, candidates.columns), W.size)
    start = CandidateStarts(np.hstack([to_host(state.Z)[W], own]), N_FINALISTS if is_few else 1)
    inner_spec = replace(spec.restrict(W), start=start, local_search=spec.local_search and is_few)
    units = solve_in_turn(operator.restrict(W).operator, inner_spec, rng)
    n_neighbours = max(MIN_WORKING_SET, min(MAX_NEIGHBOUR_COLUMNS, _compute_max_candidate_columns(operator) // m))
    return _check_units(operator, spec, tuple(unit.embed(W, operator) for unit in units), min_columns=n_neighbours)


def _compute_max_round_columns(operator: Operator) -> float:
    """Return the number of columns above which a round would take as much time or memory as the whole matrix."""
    n_affordable = max(MAX_SMALL_GRAM_COLUMNS, operator.container.max_gram_columns)
    return min(MAX_SHARED_COLUMN_SHARE * operator.shape[1], n_affordable)


def _run_round(operator: Operator, spec: FitSpec, state: SolverState, rng: np.random.RandomState) -> SolverState:
    """Solve on the working set for the components that are not final, then check them on the whole matrix.

    If the working set is too large for a round, return the state without it, so that the rounds end.
    """
    W = state.working_set
    n = operator.shape[1]
    # The Gram matrix of all columns exists already for a covariance, or is cheaper than the samples.
    is_gram_cheap = not operator.has_samples or n <= operator.container.max_gram_share * operator.shape[0]
    if W.size > MAX_SHARED_COLUMN_SHARE * n and n <= MAX_SMALL_GRAM_COLUMNS and is_gram_cheap:
        W = np.arange(n)
    elif W.size > _compute_max_round_columns(operator):
        return SolverState(state.units, state.n_final)
    # The restricted operator may be a Gram matrix on the host; `restrict` and `embed` of a result move its loadings.
    restricted = operator.restrict(W).operator
    inner_spec = spec.with_start_loadings(state.Z).restrict(W)
    final_units = [unit.restrict(W, restricted) for unit in state.final_units]
    units = solve_in_turn(restricted, inner_spec, rng, final_units)
    return _check_units(operator, spec, tuple(unit.embed(W, operator) for unit in units), W)


def _check_units(
    operator: Operator,
    spec: FitSpec,
    units: tuple[ComponentResult, ...],
    W: Array | None = None,
    min_columns: int = MIN_WORKING_SET,
    max_columns: int | None = None,
) -> SolverState:
    """Check components found on the columns W with one product, and return the state with the enlarged working set.

    Without W, every component contributes a working set of its own, of `min_columns` to `max_columns` columns. The
    components before the first one that misses a column are final.

    Parameters
    ----------
    operator : Operator
        The whole matrix, before any deflation.
    spec : FitSpec
        The specification of all components, for all n columns.
    units : tuple of ComponentResult
        All components, with loadings (n, 1) in the memory of the matrix.
    W : ndarray of int, optional
        The columns on which the components were found, on the host.
    min_columns, max_columns : int
        Smallest and largest size of the working set that a component with a missing column contributes. A `max_columns`
        below the number of its active columns leaves out active ones.
    """
    Z = np.hstack([unit.Z for unit in units]).astype(operator.dtype)
    view_loadings = Z
    if any(unit.ascent_loadings is not None for unit in units):
        ends = [unit.Z if unit.ascent_loadings is None else unit.ascent_loadings for unit in units]
        view_loadings = np.hstack(ends).astype(operator.dtype, copy=False)
    C, norms = map(to_host, spec.deflation.deflated_correlations(operator, Z, view_loadings))
    n = operator.shape[1]
    is_outside = np.ones(n, bool)
    is_outside[[] if W is None else W] = False
    size_limits = (min_columns, n if max_columns is None else max_columns)
    missing = [
        _find_missing_columns(spec.select_unit(j), unit, C[:, [j]], norms[:, j], is_outside, size_limits)
        for j, unit in enumerate(units)
    ]
    n_final = next((j for j, idx in enumerate(missing) if idx.size), len(units))
    is_outside[np.concatenate(missing)] = False
    return SolverState(units, n_final, np.flatnonzero(~is_outside))


def _find_missing_columns(
    spec: FitSpec, unit: ComponentResult, C: Array, norms: Array, is_outside: Array, size_limits: tuple[int, int]
) -> Array:
    """Return the columns outside W that would be active in a component, nearly active, or that its γ depends on.

    Parameters
    ----------
    spec : FitSpec
        The specification of this component alone, for all n columns.
    unit : ComponentResult
        The component; its γ, (1,), is NaN for a sparsity without γ, on which then no column can depend.
    C : ndarray of shape (n, 1)
        Correlations of the component on its deflated matrix, on the host.
    norms : ndarray of shape (n,)
        Norms of the columns of the deflated matrix, on the host.
    is_outside : ndarray of bool of shape (n,)
        Mask of the columns outside W.
    size_limits : tuple of int
        `min_size` and `max_size` of `select_working_set`.

    Returns
    -------
    ndarray of int
        Columns outside W, not sorted; empty if the component is optimal for the whole deflated problem.
    """
    penalty = spec.sparsity.make_penalty(unit.gamma.astype(C.dtype))
    if not unit.Z.any():  # nothing is active on W: any column outside may be
        C = norms[:, None]
    _, T = penalty.evaluate(C)
    columns = np.zeros(0, np.intp)
    if np.any((T[:, 0] != 0) & is_outside):
        columns = select_working_set(penalty, C, T, *size_limits)
    norms_outside = np.where(is_outside, norms, 0)
    rounding = 64 * float(np.finfo(C.dtype).eps)  # columns of equal norm must not cause another round
    if np.any(spec.sparsity.compute_gamma(norms_outside, np.ones(1)) > unit.gamma * (1 + rounding)):
        longest = stable_argmax(penalty.start_score(norms_outside))
        rules = penalty.support_rules
        columns = np.append(columns, longest if rules is None else rules.group_members(longest))
    return columns[is_outside[columns]]
