"""Find all components of a fit; in sequence, each is found on the matrix from which the earlier ones are removed.

`solve_all_components` chooses between the three levels of the solver: one component or block
(`gpower.solvers.component`), components in sequence (here) and components together (`gpower.solvers.joint`).

On a large matrix all components of a sequence share one working set, so that the number of passes over the matrix does
not grow with the number of components:

1. A sketch of the matrix, with few rows, gives approximate components from many starts at low cost. The columns with
   the strongest correlations (`column_screening`) give further candidates. They are columns of the sketch if every
   component has far more variance than a component that the sketch does not show, else columns of the matrix.
2. A round solves for all components on the working set W of columns, from their present loadings. One product with the
   whole matrix then gives the correlations of every component with all columns, each on its deflated matrix.
3. Columns outside W that would be active join W. When there are none, every component is first-order optimal for its
   whole deflated problem: it is optimal on W, and no column outside is active.

No column leaves W, so the rounds end. If the sketch does not contain the first component, as in noise, each component
has separate starts on its deflated matrix.

Terms: A, (p, n), is the matrix of p samples and n variables, an `Operator`, or a covariance AᵀA in its place. Z has
shape (n, m): loadings of m components, each column of unit length or zero; a unit is one component, a `ComponentResult`
with loadings (n, 1). C, (n, 1), are the correlations Aᵀx of all columns with a component's unit vector x along A z, on
the matrix deflated by the components before it, and T, (n, 1), the gradient of the penalty at C, not zero where a
variable is active. Column indices, such as those of W, are on the host and increasing unless a docstring says so.

- `Operator`: ``column_norms``, (n,), and products are where the matrix is, in its dtype; ``norm_tolerance`` is the norm
  that rounding gives to a zero column; ``has_samples`` is false for a covariance; ``gram(idx)`` is the covariance of
  some columns, on the host; ``counter`` counts passes. ``restrict(W).operator`` is the matrix of some columns, gathered
  once, perhaps a Gram matrix on the host: loadings must be moved to its memory. Its ``container`` knows what is cheap:
  ``should_use_covariance``, that the covariance is much smaller than the matrix (always false on a device);
  ``max_gram_columns``, of how many columns a Gram matrix takes little memory; ``max_gram_share``, up to which n/p a
  Gram matrix is faster than the samples.
- `FitSpec`, the specification of a fit: ``mu``, one weight for each component; ``sparsity``, kind and ``levels``;
  ``cardinalities``, (m,) numbers of variables or groups, empty without them; ``constraint`` between components;
  ``is_block``; ``start_loadings``, (n, m), of a warm start, or None; ``deflation``, the rule;
  ``should_share_rounds(operator)``, whether rounds on a shared working set pay; ``needs_samples``, whether a covariance
  is not enough; ``select_unit(j)``, the specification of component j alone; ``restrict(W)``, that of some columns;
  ``local_search`` and ``n_init``, the least number of starts or None; ``should_maximize_total_variance``, of a block;
  ``estimate_sequential_passes()``, about how many matrix-vector products components on their own take;
  ``with_start_loadings(Z)``, that with a warm start at Z, in any memory and dtype, and the old start as the fallback.
- ``sparsity.compute_gamma(norms, mu)`` is the absolute γ, float64 on the host, NaN for a kind without γ;
  ``make_penalty(gamma)`` is the penalty at that γ, in the dtype of γ; ``sample_set.compute_max_correlations(A)`` are
  the column norms here, (n,), and ``make_problem(operator, norms, mu)`` is the problem of one unit.
- `ComponentResult`: ``from_loadings(Z, gamma)`` is one that no ascent found, and ``concatenate(units)`` puts components
  side by side, (n, m). ``Z``; ``gamma``, (1,) for a unit; ``ascent_loadings``, (n, 1) before the refit, or None if Z is
  to be used; ``restrict(W, operator)`` and ``embed(W, operator)`` take the loadings to some columns of an operator and
  back, in the memory of that operator.
- ``deflation.deflated_correlations(operator, Z, view)`` gives C and the column norms, both (n, m), of each component on
  the matrix without those before it: Z is removed, and the unit vectors are along the scores of `view`.
- Solvers: ``solve_component`` finds one component, or a block, of a matrix as it is; ``solve_in_turn`` finds components
  one after the other, known ones first, and returns a list of units; ``make_module_starts`` is a `Point` with a start
  in each column of C, (n, count); ``solve_constrained`` improves components until they satisfy the constraint, or
  raises ValueError; ``maximize_block_variance`` is the better of two sets of components; ``zero_units_beyond_rank``
  leaves out those that only duplicate others. `CandidateStarts` is a start at the best of several loadings, on the
  host.
- Arrays: ``to_host(x)`` is x as a NumPy array, ``take_rows(x, idx)`` a copy of x[idx], ``embed_rows(Z, idx, n)`` has Z
  at rows `idx` of n rows of zeros; ``max_or_zero`` is the largest of non-negative values, 0.0 for none;
  ``stable_argmax`` is the index of the largest value, the first of those equal up to rounding.
- ``limit_small_products(entries)`` is a context in which BLAS uses one thread if the matrix has few entries.
- `Penalty`: ``evaluate(C)`` gives values and the gradient T; ``max_cardinality``, in variables, 0 if unknown;
  ``start_score(norms)``, (n,), is zero for columns that may not be starts; ``support_rules`` is None without rules, and
  ``group_members(i)`` of the rules are the variables of the group of variable i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, embed_rows, max_or_zero, stable_argmax, take_rows, to_host
from gpower._utils.threads import limit_small_products
from gpower.operators import Covariance
from gpower.operators.base import Operator
from gpower.problem.deflation import SchurDeflation
from gpower.solvers.column_screening import make_module_starts
from gpower.solvers.component import ComponentResult, solve_component, solve_in_turn
from gpower.solvers.fit_specification import GRAM_COLUMNS_PER_PASS, MAX_SHARED_COLUMN_SHARE, FitSpec
from gpower.solvers.joint.constrained_components import (
    maximize_block_variance,
    solve_constrained,
    zero_units_beyond_rank,
)
from gpower.solvers.sketch import solve_on_sketch
from gpower.solvers.starts import N_FINALISTS, CandidateStarts
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MIN_WORKING_SET, select_working_set

#: Candidates from single columns that race with those of the sketch, and the columns of their working sets together.
MAX_CANDIDATES, MIN_CANDIDATES, MAX_CANDIDATE_COLUMNS = 48, 8, 2400
#: Share of the columns of the largest round that candidates may fill; the rest is for the components of the sketch.
CANDIDATE_COLUMN_SHARE = 0.8
#: Columns most correlated with a component among which its variables may be swapped.
MAX_NEIGHBOUR_COLUMNS = 384
#: Multiple of the machine precision: relative difference up to which two values of γ are equal.
GAMMA_ROUNDING_FACTOR = 64
#: Columns whose Gram matrix (72 MB) is small on any machine.
MAX_SMALL_GRAM_COLUMNS = 3000


@dataclass(frozen=True, eq=False)
class SolverState:
    """Progress of the components, as a checkpoint stores it.

    Attributes
    ----------
    units : tuple of ComponentResult
        Components with loadings (n_features, 1). With a working set, and after the rounds, these are all m components
        of the fit, of which only the first `n_final` are final; the others show where to start. Without rounds they are
        the final ones only. Loadings are on the host if the units come from a sketch, where one is final only if no
        variable is active in it, else in the memory of the matrix.
    n_final : int
        How many of them, from the first on, are final: later steps do not change them.
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


#: Called with the state before each round and after each component found without rounds; the result is not used.
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
        Where an earlier fit of the same problem stopped; not for a block.
    on_progress : callable, optional
        Called with the state before each round and after each component found without rounds; not for a block.

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
    """Find all components of a block, those beyond the rank of the data zero; (n, m), in the memory of the matrix.

    `spec` has no constraint. If it asks for the largest total variance, the block competes with components found in
    sequence with weights of one and Schur deflation, both improved together.
    """
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
        Called with the state before each round and after each component found without rounds.

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

    If `state.units` are all m components, those that are not final start where they were; otherwise they start anew.
    All components of the state returned are final, and it has no working set. A covariance replaces the matrix only on
    the host (`should_use_covariance` is false on a device), so that the final loadings, which are in the memory of the
    matrix, need not be moved; start loadings may be in any memory.

    Without `on_progress`, `solve_in_turn` is called without its callback, and then deflates by cached columns: the
    result agrees with that of a fit with `on_progress` up to rounding.
    """
    n = operator.shape[1]
    is_gram_cheap = n <= GRAM_COLUMNS_PER_PASS * spec.estimate_sequential_passes() and not spec.needs_samples
    if operator.has_samples and operator.container.should_use_covariance and is_gram_cheap:
        operator = Covariance(operator.gram(np.arange(n)), operator.counter)
    if len(state.units) == len(spec.mu):
        spec = spec.with_start_loadings(state.Z)

    def make_state(units: Sequence[ComponentResult]) -> SolverState:
        """Return the state in which `units`, the first components, are final and the others are where they were."""
        return SolverState((*units, *state.units[len(units) :]), len(units))

    on_units = None if on_progress is None else lambda units: on_progress(make_state(units))
    return make_state(solve_in_turn(operator, spec, rng, state.final_units, on_units))


class CandidateLoadings(NamedTuple):
    """Loadings that any component may start from, on the host: (|columns|, c), on the sorted columns of their sets."""

    Z: Array
    columns: Array


def _initialize_state(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> SolverState:
    """Return the state after the first round: the warm start, or components from the sketch and from candidates.

    `spec` must accept rounds (`should_share_rounds`), and the matrix has variance. The state returned has all m
    components and a working set, or is empty. It is empty if the components share no structure; see `solve_on_sketch`.
    Warm-start loadings, (n, m), must be in the memory of the matrix, and every column non-zero. `solve_on_sketch` gives
    ``units`` with loadings on the host, ``matrix``, the sketch, an operator of the same n columns on the host,
    ``max_columns`` for a working set, and ``screened``, the matrix to screen for candidates, the sketch or the matrix
    itself.
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
    max_columns = int(_compute_max_round_columns(operator)) - state.working_set.size
    candidates = _find_candidates(screened, spec, _compute_max_candidate_columns(operator), max_columns)
    del screened
    return _run_first_round(operator, spec, state, candidates, rng)


def _find_candidates(screened: Operator, spec: FitSpec, n_columns: int, max_columns: int) -> CandidateLoadings:
    """Find loadings from single columns of a matrix or its sketch, for the component with the largest cardinality.

    Without cardinalities it is the first component. The matrix is not deflated, on the host or a device, and at least
    one column norm is positive. The working sets of the candidates have about `n_columns` columns together, but there
    are at least `MIN_CANDIDATES`. A candidate with which they would have more than `max_columns` is left out, except
    the first, which is the best. Duplicates are possible, and the order of the candidates does not matter.
    """
    first = spec.select_unit(int(np.argmax(spec.sparsity.levels)) if spec.cardinalities else 0)
    sparsity = first.sparsity.start_sparsity
    norms = sparsity.sample_set.compute_max_correlations(screened)
    problem = sparsity.make_problem(screened, norms, np.ones(1))
    penalty = problem.penalty
    working_set_size = COLUMNS_PER_ACTIVE * max(penalty.max_cardinality, MIN_WORKING_SET)
    n_affordable = n_columns // working_set_size
    n_candidates = max(spec.n_init or 0, int(np.clip(n_affordable, MIN_CANDIDATES, MAX_CANDIDATES)))
    C = make_module_starts(problem, norms, n_candidates).C
    columns = np.zeros(0, np.intp)
    starts: list[Array] = []
    for j in range(C.shape[1]):  # one at a time, so that no further array is as large as C
        start = C[:, j : j + 1]
        larger = np.union1d(columns, select_working_set(penalty, start, penalty.evaluate(start)[1]))
        if not starts or larger.size <= max_columns:
            columns, starts = larger, [*starts, start]
    # All active columns are in the working sets.
    return CandidateLoadings(np.hstack([to_host(take_rows(penalty.loadings(c), columns)) for c in starts]), columns)


def _compute_max_candidate_columns(operator: Operator) -> int:
    """Return how many columns the working sets of all candidates may have together, so that a round still pays."""
    n_shared = CANDIDATE_COLUMN_SHARE * MAX_SHARED_COLUMN_SHARE * operator.shape[1]
    return int(min(MAX_CANDIDATE_COLUMNS, n_shared, operator.container.max_gram_columns // 2))


def _run_first_round(
    operator: Operator, spec: FitSpec, state: SolverState, candidates: CandidateLoadings, rng: np.random.RandomState
) -> SolverState:
    """Solve on the columns of the sketch's components and of the candidates, each component from the best of both.

    `state` has all m components of the sketch, with loadings on the host, and a working set. It is returned unchanged
    if these columns are too many for a round. The loadings of the state returned otherwise are in the memory of the
    matrix.
    """
    m = len(spec.mu)
    W = _choose_round_columns(operator, np.union1d(state.working_set, candidates.columns))
    if W is None:
        return state
    is_few = m <= N_FINALISTS
    own = embed_rows(candidates.Z, np.searchsorted(W, candidates.columns), W.size)
    start = CandidateStarts(np.hstack([to_host(state.Z)[W], own]), N_FINALISTS if is_few else 1)
    inner_spec = replace(spec.restrict(W), start=start, local_search=spec.local_search and is_few)
    restricted = operator.restrict(W).operator
    with limit_small_products(math.prod(restricted.shape)):
        units = solve_in_turn(restricted, inner_spec, rng)
    n_neighbours = max(MIN_WORKING_SET, min(MAX_NEIGHBOUR_COLUMNS, _compute_max_candidate_columns(operator) // m))
    return _check_units(operator, spec, tuple(unit.embed(W, operator) for unit in units), min_columns=n_neighbours)


def _choose_round_columns(operator: Operator, W: Array) -> Array | None:
    """Return the columns of a round that needs those in W: these, or all if their Gram matrix is cheap, or None.

    None means that W has too many columns for a round. W are sorted column indices on the host.
    """
    n = operator.shape[1]
    # The Gram matrix of all columns exists already for a covariance, or is cheaper than the samples.
    is_gram_cheap = not operator.has_samples or n <= operator.container.max_gram_share * operator.shape[0]
    if W.size > MAX_SHARED_COLUMN_SHARE * n and n <= MAX_SMALL_GRAM_COLUMNS and is_gram_cheap:
        return np.arange(n)
    return W if W.size <= _compute_max_round_columns(operator) else None


def _compute_max_round_columns(operator: Operator) -> float:
    """Return the number of columns above which a round would take as much time or memory as the whole matrix.

    It need not be whole.
    """
    n_affordable = max(MAX_SMALL_GRAM_COLUMNS, operator.container.max_gram_columns)
    return min(MAX_SHARED_COLUMN_SHARE * operator.shape[1], n_affordable)


def _run_round(operator: Operator, spec: FitSpec, state: SolverState, rng: np.random.RandomState) -> SolverState:
    """Solve on the working set for the components that are not final, then check them on the whole matrix.

    `state` has a working set and all m components, of which the first `n_final` < m are final and do not change. If the
    working set is too large for a round, return the state without it, so that the rounds end. Otherwise the working set
    of the result contains the old one, and at least as many components are final.
    """
    W = _choose_round_columns(operator, state.working_set)
    if W is None:
        return SolverState(state.units, state.n_final)
    # The restricted operator may be a Gram matrix on the host; `restrict` and `embed` of a result move its loadings.
    restricted = operator.restrict(W).operator
    inner_spec = spec.with_start_loadings(state.Z).restrict(W)
    final_units = [unit.restrict(W, restricted) for unit in state.final_units]
    with limit_small_products(math.prod(restricted.shape)):
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

    Without W, every component contributes a working set of its own, of `min_columns` to `max_columns` columns; then a
    component is final only if no variable can be active in it. The components before the first one that misses a column
    are final, because the matrix of each depends on those before it alone.

    Parameters
    ----------
    operator : Operator
        The whole matrix, before any deflation.
    spec : FitSpec
        The specification of all components, for all n columns.
    units : tuple of ComponentResult
        All m ≥ 1 components in sequence, with loadings (n, 1) in the memory of the matrix, of any floating dtype.
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

    In a sequence the weights have no effect: C and γ are those of weight one, whatever `spec.mu` is.
    ``select_working_set(penalty, C, T, min_size, max_size)`` gives increasing column indices, in and outside W: the
    active ones and the next by correlation, between these sizes.

    Parameters
    ----------
    spec : FitSpec
        The specification of this component alone, for all n columns.
    unit : ComponentResult
        The component; its γ, (1,), is NaN for a sparsity without γ, on which then no column can depend. Its loadings
        may be on a device: only whether they are all zero is read.
    C : ndarray of shape (n, 1)
        Correlations of the component on its deflated matrix, on the host, in the dtype of the matrix.
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
    # Columns of equal norm must not cause another round.
    rounding = GAMMA_ROUNDING_FACTOR * float(np.finfo(C.dtype).eps)
    if np.any(spec.sparsity.compute_gamma(norms_outside, np.ones(1)) > unit.gamma * (1 + rounding)):
        longest = stable_argmax(penalty.start_score(norms_outside))
        rules = penalty.support_rules
        columns = np.append(columns, longest if rules is None else rules.group_members(longest))
    return columns[is_outside[columns]]
