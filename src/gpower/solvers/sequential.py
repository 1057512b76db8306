"""All components of a deflation in shared rounds, so that reads of the matrix do not grow with their number.

1. A sketch of the matrix, a few rows, gives all components nearly right: starts race there, where they are cheap.
2. A round finds the components again on the columns W that they may want, begun where they were. One product with the
   whole matrix then shows what every one of them sees of all columns, each of what those before it leave.
3. What is active outside W joins it. When nothing is, every component is first-order optimal for its whole deflated
   problem: on W it is, and outside nothing pulls.

Columns only join W, so that the rounds end. Where a sketch does not hold the first component there is no structure to
be found in one, as in pure noise, and the components are looked for one after the other on the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpower._utils.arrays import Array, max_or_zero, stable_argmax, to_host
from gpower.operators import Covariance
from gpower.operators.base import Operator
from gpower.solvers.component import ComponentResult, solve_by_deflation, solve_component
from gpower.solvers.initialization import N_FINALISTS, CandidateStarts, SketchStarts, make_module_starts
from gpower.solvers.sketch import Sketch, make_sketch
from gpower.solvers.specification import MAX_SHARED_COLUMN_SHARE, FitSpec
from gpower.solvers.working_set import COLUMNS_PER_ACTIVE, MIN_WORKING_SET, select_working_set

#: Starts of every component on the sketch, and of all together if that is more. With 24 the components of GSE1992 and
#: GSE3143 explain 0.3 % less; with 128 or more one of GSE3143, standardised, explains up to
#: 9 % more than with 32.
N_SKETCH_STARTS, N_SKETCH_STARTS_TOTAL = 32, 512
#: Share of the first component's variance that a sketch must hold: 0.64 to 0.72 in Gaussian noise of 500 × 5000, from
#: 0.94 on in expression data, word counts and factor models.
MIN_SKETCHED_SHARE = 0.85
#: A sketch is sharpened as long as a turn leaves no more than this of what it missed: 0.94 in Gaussian noise, 0.4 to
#: 0.8 in sparse counts whose programmes stand out little.
MAX_MISSING_RATIO = 0.85
MAX_SHARPENINGS = 2
#: Columns of a sketch among which the components are looked for: so many, or so many times the variables wished for.
#: With 4000 of the 15,528 columns of GSE1992, standardised, 30 components explain 4 % less.
MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE = 20_000, 8
#: Starts at single columns that race beside those of the sketch, and the columns that all of them want together.
MAX_CANDIDATES, MIN_CANDIDATES, MAX_CANDIDATE_COLUMNS = 48, 8, 2400
#: Columns near a component that it may exchange its variables for.
MAX_NEIGHBOUR_COLUMNS = 384
#: Columns whose Gram matrix, 72 MB, fits anywhere.
MAX_SMALL_GRAM_COLUMNS = 3000


@dataclass(frozen=True, eq=False)
class SolverState:
    """How far the components are: what a checkpoint keeps.

    Attributes
    ----------
    units : sequence of Extraction
        As found so far.
    settled : int
        How many of them, from the first on, are final.
    columns : ndarray of int
        W; none where the components are found one after the other.
    """

    units: tuple[ComponentResult, ...] = ()
    n_final: int = 0
    working_set: Array = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def final_units(self) -> tuple[ComponentResult, ...]:
        """The units that are final."""
        return self.units[: self.n_final]

    @property
    def Z(self) -> Array:
        """Their loadings side by side, (n_features, m)."""
        return np.hstack([unit.Z for unit in self.units])


#: Told how far the components are, after each round or each component.
ProgressCallback = Callable[[SolverState], object]


def solve_sequential(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState | None = None,
    on_progress: ProgressCallback | None = None,
) -> ComponentResult:
    """Components of which each is looked for in what those before it leave: in shared rounds, or one after the other.

    `standing` is where an earlier fit of the same problem was.
    """
    state = SolverState() if state is None else state
    varies = max_or_zero(operator.column_norms) > operator.norm_tolerance
    shares = varies and spec.should_share_rounds(operator)
    if shares and not state.units:
        state = _initialize_state(operator, spec, rng)
    if shares and not state.working_set.size and len(state.units) < len(spec.mu) <= N_FINALISTS:
        return ComponentResult.concatenate(
            _solve_with_fresh_starts(operator, spec, rng, state.final_units, on_progress)
        )
    while state.working_set.size and state.n_final < len(spec.mu):
        if on_progress is not None:
            on_progress(state)
        state = _run_round(operator, spec, state, rng)
    if state.n_final < len(spec.mu):
        state = _solve_remaining_by_deflation(operator, spec, rng, state, on_progress)
    return ComponentResult.concatenate(state.units)


def _solve_with_fresh_starts(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    known_units: Sequence[ComponentResult],
    on_progress: ProgressCallback | None,
) -> list[ComponentResult]:
    """Find one component after the other, each by rounds of its own, with starts in what those before it leave."""
    units: list[ComponentResult] = []
    for j in range(len(spec.mu)):
        units.append(known_units[j] if j < len(known_units) else solve_sequential(operator, spec.select_unit(j), rng))
        if on_progress is not None and j >= len(known_units):
            on_progress(SolverState(tuple(units), len(units)))
        if j + 1 < len(spec.mu):
            operator = spec.deflation.remove(operator, units[j].Z[:, 0])
    return units


def _solve_remaining_by_deflation(
    operator: Operator,
    spec: FitSpec,
    rng: np.random.RandomState,
    state: SolverState,
    on_progress: ProgressCallback | None,
) -> SolverState:
    """One after the other on the whole matrix, or on its covariance where that is small, after those that are final.

    The others begin where they were, if they were anywhere.
    """
    n = operator.shape[1]
    if (
        operator.has_samples
        and operator.container.should_use_covariance
        and spec.should_form_gram(n, spec.estimate_sequential_passes())
    ):
        operator = Covariance(operator.gram(np.arange(n)), operator.counter)
    spec = spec.with_start_loadings(state.Z) if len(state.units) == len(spec.mu) else spec

    def now(units: Sequence[ComponentResult]) -> SolverState:
        return SolverState((*units, *state.units[len(units) :]), len(units))

    completed = None if on_progress is None else lambda units: on_progress(now(units))
    return now(solve_by_deflation(operator, spec, rng, state.final_units, completed))


def _initialize_state(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> SolverState:
    """Components of a sketch, or given ones, and the columns that they want; nothing where a sketch says nothing."""
    if spec.start_loadings is not None:
        gamma = spec.sparsity.compute_gamma(operator.column_norms, np.ones(len(spec.mu)))
        pairs = zip(spec.start_loadings.T[:, :, None], gamma[:, None], strict=True)
        return _compute_state(operator, spec, tuple(ComponentResult.from_loadings(z, level) for z, level in pairs))
    from_sketch = _solve_on_sketch(operator, spec, rng)
    if not from_sketch.units:
        return from_sketch
    return _run_first_round(operator, spec, from_sketch, _find_candidates(operator, spec), rng)


def _find_candidates(operator: Operator, spec: FitSpec) -> tuple[Array, Array]:
    """Return loadings that any unit may begin at, found from single columns, (n, c), and the columns they want."""
    first = spec.select_unit(int(np.argmax(spec.sparsity.levels)) if spec.cardinalities else 0)
    norms = first.sparsity.sample_set.compute_max_correlations(operator)
    problem = first.sparsity.make_problem(operator, norms, np.ones(1))
    penalty = problem.penalty
    width = COLUMNS_PER_ACTIVE * max(penalty.max_cardinality, MIN_WORKING_SET)
    count = max(
        spec.n_init or 0,
        int(min(MAX_CANDIDATES, max(MIN_CANDIDATES, _compute_max_candidate_columns(operator) // width))),
    )
    C = make_module_starts(problem, norms, count).C
    T = penalty.evaluate(C)[1]
    wanted = [select_working_set(penalty, C[:, [j]], T[:, [j]]) for j in range(C.shape[1])]
    return to_host(penalty.loadings(C)), np.unique(np.concatenate(wanted))


def _compute_max_candidate_columns(operator: Operator) -> int:
    """Return how many columns may be looked at for the sake of candidates."""
    return int(
        min(
            MAX_CANDIDATE_COLUMNS,
            0.8 * MAX_SHARED_COLUMN_SHARE * operator.shape[1],
            operator.container.max_gram_columns // 2,
        )
    )


def _run_first_round(
    operator: Operator, spec: FitSpec, state: SolverState, candidates: tuple[Array, Array], rng: np.random.RandomState
) -> SolverState:
    """Find the components on the columns that a sketch and single columns suggest, each from the best of all starts."""
    Z, columns = candidates
    if state.units:
        Z = np.hstack([to_host(state.Z), Z])
    m = len(spec.mu)
    W = np.union1d(state.working_set, columns)
    if W.size > _compute_max_round_columns(operator):
        return state
    finalists = N_FINALISTS if m <= N_FINALISTS else 1
    inner = replace(
        spec, start=CandidateStarts(Z, finalists), local_search=spec.local_search and m <= N_FINALISTS
    ).restrict(W)
    units = solve_by_deflation(operator.restrict(W).operator, inner, rng)
    near = max(MIN_WORKING_SET, min(MAX_NEIGHBOUR_COLUMNS, _compute_max_candidate_columns(operator) // m))
    return _compute_state(operator, spec, tuple(unit.embed(W, operator) for unit in units), min_columns=near)


def _solve_on_sketch(operator: Operator, spec: FitSpec, rng: np.random.RandomState) -> SolverState:
    """Components of a sketch, which is sharpened until it holds the first, or no longer gains much by it.

    None where there are a few and the sketch does not hold the first: what is hidden, or noise, is looked for again
    after every deflation. In noise of 150 × 2500 five components explain 1.3 % less otherwise.
    """
    sketch, missing = make_sketch(operator, len(spec.mu), rng), 1.0
    for turn in range(MAX_SHARPENINGS + 1):
        kept = _choose_sketch_columns(sketch, spec)
        part = sketch.matrix.take(kept)
        count = max(spec.n_init or 0, N_SKETCH_STARTS, N_SKETCH_STARTS_TOTAL // len(spec.mu))
        racing = replace(
            spec.restrict(kept), start=SketchStarts(count, sketch.unshared_norms_sq[kept]), local_search=False
        )
        first = solve_component(part, racing.select_unit(0), rng)
        before, missing = missing, 1 - sketch.compute_variance_share(first.embed(kept, sketch.matrix).Z)
        sharper = (
            sketch.sharpen()
            if 1 - MIN_SKETCHED_SHARE < missing <= MAX_MISSING_RATIO * before and turn < MAX_SHARPENINGS
            else None
        )
        if sharper is None:
            break
        sketch = sharper
    if missing > 1 - MIN_SKETCHED_SHARE and 1 < len(spec.mu) <= N_FINALISTS:
        return SolverState()
    units = solve_by_deflation(part, racing, rng, [first])
    # A sketch has few rows. What the first units leave of it is hardly sparse, and a penalty lets in hundreds of
    # columns that the unit of the whole matrix does not use: no later unit gets more of them than the first half.
    sizes = [np.count_nonzero(unit.Z) for unit in units[: (len(units) + 1) // 2]]
    most = max(MIN_WORKING_SET, int(COLUMNS_PER_ACTIVE * max(sizes)))
    embedded = tuple(unit.embed(kept, sketch.matrix) for unit in units)
    return _compute_state(sketch.matrix, spec, embedded, max_columns=most)


def _choose_sketch_columns(sketch: Sketch, spec: FitSpec) -> Array:
    """Columns that starts race on: the most promising of those that may be used, and those that must."""
    known = spec.sparsity.penalty_family.support_rules
    if known is None:
        return sketch.choose_columns(max(MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE * sum(spec.cardinalities)))
    most = len(spec.mu) * spec.sparsity.make_penalty(np.zeros(len(spec.mu))).max_cardinality
    kept = sketch.choose_columns(max(MIN_SKETCH_COLUMNS, SKETCH_COLUMNS_PER_VARIABLE * most), known.usable_variables)
    return np.union1d(kept, np.flatnonzero(known.broadcast_to_variables(known.required).any(axis=1)))


def _compute_max_round_columns(operator: Operator) -> float:
    """Return the number of columns above which a round would take as long, or as much memory, as the whole matrix."""
    return min(
        MAX_SHARED_COLUMN_SHARE * operator.shape[1], max(MAX_SMALL_GRAM_COLUMNS, operator.container.max_gram_columns)
    )


def _has_small_gram(operator: Operator) -> bool:
    """Return whether the Gram matrix of all columns is small, and there already or cheaper than the samples."""
    n = operator.shape[1]
    there = not operator.has_samples or n <= operator.container.max_gram_share * operator.shape[0]
    return n <= MAX_SMALL_GRAM_COLUMNS and there


def _run_round(operator: Operator, spec: FitSpec, state: SolverState, rng: np.random.RandomState) -> SolverState:
    """The components that are not final, found again on W from where they were; what they want of the whole matrix."""
    W, n = state.working_set, operator.shape[1]
    if W.size > MAX_SHARED_COLUMN_SHARE * n and _has_small_gram(operator):
        W = np.arange(n)
    elif W.size > _compute_max_round_columns(operator):
        return SolverState(state.units, state.n_final)
    part, inner = operator.restrict(W).operator, spec.with_start_loadings(state.Z).restrict(W)
    units = solve_by_deflation(part, inner, rng, [unit.restrict(W, part) for unit in state.final_units])
    return _compute_state(operator, spec, tuple(unit.embed(W, operator) for unit in units), W)


def _compute_state(
    operator: Operator,
    spec: FitSpec,
    units: tuple[ComponentResult, ...],
    W: Array | None = None,
    min_columns: int = MIN_WORKING_SET,
    max_columns: int | None = None,
) -> SolverState:
    """Units found on the columns W, what they want outside, and how many of the first want nothing.

    Without W each wants all it has, and some more: `least` columns at least, `most` at most.
    """
    Z = np.hstack([unit.Z for unit in units]).astype(operator.dtype)
    refitted = any(unit.ascent_loadings is not None for unit in units)
    ends = (
        np.hstack([unit.Z if unit.ascent_loadings is None else unit.ascent_loadings for unit in units])
        if refitted
        else Z
    )
    C, norms = map(to_host, spec.deflation.deflated_correlations(operator, Z, ends.astype(operator.dtype, copy=False)))
    outside = np.ones(operator.shape[1], bool)
    outside[[] if W is None else W] = False
    max_columns = operator.shape[1] if max_columns is None else max_columns
    wanted = [
        _find_missing_columns(spec.select_unit(j), unit, C[:, [j]], norms[:, j], outside, (min_columns, max_columns))
        for j, unit in enumerate(units)
    ]
    settled = next((j for j, idx in enumerate(wanted) if idx.size), len(units))
    outside[np.concatenate(wanted)] = False
    return SolverState(units, settled, np.flatnonzero(~outside))


def _find_missing_columns(
    spec: FitSpec, unit: ComponentResult, C: Array, norms: Array, outside: Array, size_limits: tuple[int, int]
) -> Array:
    """Columns outside W that would be active in a unit, with some that nearly would, or that its γ depends on."""
    penalty = spec.sparsity.make_penalty(unit.gamma.astype(C.dtype))
    if not unit.Z.any():  # nothing was found on W: whatever is left outside is wanted
        C = norms[:, None]
    T = penalty.evaluate(C)[1]
    idx = np.zeros(0, np.intp)
    if np.any((T[:, 0] != 0) & outside):
        idx = select_working_set(penalty, C, T, *size_limits)
    left = np.where(outside, norms, 0)
    rounding = 64 * float(np.finfo(C.dtype).eps)  # columns of equal norm are no reason to look again
    if np.any(spec.sparsity.compute_gamma(left, np.ones(1)) > unit.gamma * (1 + rounding)):
        longest, known = stable_argmax(penalty.start_score(left)), penalty.support_rules
        idx = np.append(idx, longest if known is None else known.group_members(longest))
    return idx[outside[idx]]
