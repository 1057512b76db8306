"""The recipe on one page: screen → start → ascend → read off → refit → polish → deflate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpower._arrays import Array, beside, embedded, largest, orient, rows_of, to_host
from gpower.ascent import AscentResult, AscentState, maximize
from gpower.calibration import calibrate
from gpower.deflation import deflate
from gpower.feasible_sets import Cube, Point
from gpower.formulations import Formulation, Problem
from gpower.operators.base import Operator
from gpower.penalties import Cardinality, Penalty, top
from gpower.postprocess import fill_unit, leading_components, refit, swap_polish
from gpower.starts import (
    REMOTE_PROBES,
    auto_starts,
    block_start,
    column_order,
    paper_start,
    random_block_start,
    unit_starts,
)
from gpower.working_set import Settings, ascend

#: Screened columns are gathered once when no more than this share is left.
SCREENED_SHARE = 0.25
#: Supports that the race between starts hands on to be refined and polished.
FINALISTS = 5
#: Above this cardinality only the best of them is polished.
POLISH_ALL = 64
#: Starts of a block of exact cardinality under n_init="auto".
BLOCK_STARTS = 4
#: Above this cardinality nothing is polished: the polish is cubic in it, and what it gains is lost in the digits.
POLISH_MOST = 1000
#: Variables outside a support that the swap polish considers.
SWAP_CANDIDATES = 384
#: Turns of polish and ascent; where reads are dear, fewer.
REMOTE_POLISH = 2
#: Columns that the race between starts of a remote matrix is run on: so many, or so many times the cardinality.
RACE_COLUMNS, RACE_TIMES = 2000, 10
#: Norms that differ by less, relatively, tie.
TIED = 1e-6
#: Precision of the race between starts, and the steps of a heat.
RACE_TOL, HEAT = 1e-4, 4

ROTATION_NOTE = (
    "With equal mu and no penalty the loadings of a block are defined only up to a rotation; "
    "the principal axes are returned. Give decreasing mu to single them out."
)
CUT_NOTE = (
    "No gamma was found with exactly the wanted number of active variables; the nearest active set was cut to its "
    "largest loadings, or filled with the most correlated variables, and refitted."
)


@dataclass(frozen=True)
class Recipe:
    """Everything `GPower` was asked for, words already turned into objects.

    Attributes
    ----------
    formulation : Formulation
        Penalty and level per unit.
    mu : tuple of float
        Weights of the units of a block; ones for units found one at a time.
    block : bool
        All units at once.
    n_init : int or None
        Number of starts; None for the rule of `auto_starts` with a cardinality, one with γ.
    init : None, "paper" or ndarray of shape (n_samples, m)
    near : tuple of ndarray of shape (n_features, m)
        Loadings to begin at instead; ignored where they leave a unit nothing active.
    refit, polish, deflation, regularization
        As in the estimator.
    settings : Settings
        How to ascend.
    """

    formulation: Formulation
    mu: tuple[float, ...]
    block: bool = False
    n_init: int | None = None
    init: Any = None
    near: tuple[Array, ...] = ()
    refit: str | None = "auto"
    polish: bool = True
    deflation: str = "projection"
    regularization: float = 0.0
    settings: Settings = field(default_factory=Settings)

    def reads(self) -> int:
        """How often this recipe is expected to read the matrix, roughly."""
        return len(self.mu) * (100 if self.formulation.kind == "cardinality" or self.formulation.calibrated else 10)

    def unit(self, j: int) -> Recipe:
        """The recipe of component j on its own."""
        init = self.init[:, j : j + 1] if isinstance(self.init, np.ndarray) else self.init
        near = tuple(Z[:, j : j + 1] for Z in self.near)
        return replace(self, formulation=self.formulation.unit(j), mu=(1.0,), init=init, near=near)


@dataclass(frozen=True, eq=False)
class Extraction:
    """Loadings and how they were found.

    `Z` is (n_features, m); `gamma` has one entry per unit, the others one per ascent (one for a block);
    `notes` are sentences the user should see.
    """

    Z: Array
    gamma: Array
    objective: Array
    gap: Array
    n_iter: Array
    converged: Array
    notes: tuple[str, ...] = ()


def extract_components(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    known: Sequence[Extraction] = (),
    completed: Callable[[Sequence[Extraction]], Any] | None = None,
) -> Extraction:
    """All components: a block at once, or one after the other from the deflated matrix.

    `known` are components found earlier; `completed` is told of all found so far after each.
    """
    if recipe.block:
        return extract(operator, recipe, rng)
    units: list[Extraction] = list(known)
    for j in range(len(recipe.mu)):
        gathering = operator.gathering()  # the columns of this component, dropped with it
        if j == len(units):
            units.append(extract(gathering, recipe.unit(j), rng))
            if completed is not None:
                completed(units)
        if j + 1 < len(recipe.mu):  # a resumed fit has gathered nothing: with checkpoints nothing gathered is used
            operator = deflate(operator if completed else gathering, units[j].Z[:, 0], recipe.deflation)
    return Extraction(
        Z=np.hstack([unit.Z for unit in units]),
        gamma=np.concatenate([unit.gamma for unit in units]),
        objective=np.concatenate([unit.objective for unit in units]),
        gap=np.concatenate([unit.gap for unit in units]),
        n_iter=np.concatenate([unit.n_iter for unit in units]),
        converged=np.concatenate([unit.converged for unit in units]),
        notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
    )


def extract(operator: Operator, recipe: Recipe, rng: np.random.RandomState) -> Extraction:
    """One component of a matrix already deflated, or a block of them."""
    operator = operator.gathering()
    if _is_pca(recipe, operator) and operator.column_norms.any():
        return _pca(operator, recipe)
    norms = recipe.formulation.norms(operator)
    problem, gamma = recipe.formulation.problem(operator, norms, np.asarray(recipe.mu), recipe.regularization)
    if largest(norms) <= operator.noise:  # nothing but rounding is left
        return _as_extraction(np.zeros_like(norms, shape=(operator.shape[1], len(recipe.mu))), gamma)
    problem, kept = _screened(problem, norms)
    if kept.size < operator.shape[1]:
        norms = rows_of(norms, kept)
        recipe = replace(recipe, near=tuple(rows_of(Z, kept) for Z in recipe.near))
    if kept.size == 0:
        return _as_extraction(np.zeros_like(norms, shape=(operator.shape[1], len(recipe.mu))), gamma)
    if recipe.formulation.calibrated:
        found = _calibrated(problem, recipe, norms, rng)
    else:
        Z, value, result = _best_end(problem, _starts(problem, recipe, norms, rng), recipe)
        found = _as_extraction(Z, gamma, value, result)
    whole = kept.size == operator.shape[1]
    return replace(found, Z=orient(found.Z) if whole else embedded(orient(found.Z), kept, operator.shape[1]))


def _as_extraction(
    Z: Array,
    gamma: Array,
    value: float = 0.0,
    result: AscentResult | None = None,
    notes: tuple[str, ...] = (),
) -> Extraction:
    """Arrays of length one for the one ascent; a matrix with nothing to find has made none."""
    gap, n_iter, converged = (0.0, 0, True) if result is None else (result.gap, result.n_iter, result.converged)
    return Extraction(Z, gamma, np.array([value]), np.array([gap]), np.array([n_iter]), np.array([converged]), notes)


def _is_pca(recipe: Recipe, operator: Operator) -> bool:
    """Whether no loading is penalised, so that the problem is ordinary PCA, which SVD solves."""
    wish = recipe.formulation
    if wish.positive or wish.l1_variance or recipe.settings.solver == "direct" or wish.kind == "l1_ball":
        return False
    if wish.kind == "cardinality" or wish.calibrated:
        return all(level >= operator.shape[1] for level in wish.levels)
    return all(level == 0 for level in wish.levels)


def _pca(operator: Operator, recipe: Recipe) -> Extraction:
    """Ordinary principal components, the largest for the unit of the largest weight."""
    mu = np.asarray(recipe.mu)
    loadings, variances = leading_components(operator, mu.size)
    rank = np.argsort(np.argsort(-mu, kind="stable"), kind="stable")  # of each unit's weight
    tied = np.unique(mu).size < mu.size
    gamma = np.full(mu.size, np.nan if recipe.formulation.kind == "cardinality" else 0.0)
    value = float(np.sum(mu**2 * variances[rank]))
    Z = operator.own(orient(loadings[:, rank]))
    found = _as_extraction(Z, gamma, value, notes=(ROTATION_NOTE,) if tied else ())
    return replace(found, n_iter=np.ones(1, int))  # one factorisation


def _screened(problem: Problem, norms: Array) -> tuple[Problem, Array]:
    """The problem on the columns that can be active at all, and their indices; gathered only if few are left."""
    keep = problem.penalty.keep(norms, problem.mu)
    n = problem.operator.shape[1]
    if int(np.count_nonzero(keep)) > min(SCREENED_SHARE * n, problem.operator.widest_take):
        return problem, np.arange(n)
    kept = to_host(np.flatnonzero(keep))
    return replace(problem, operator=problem.operator.take(kept), penalty=problem.penalty.restrict(kept)), kept


def _starts(problem: Problem, recipe: Recipe, norms: Array, rng: np.random.RandomState) -> list[Point]:
    """The starts that are worth an ascent of their own, given the norms of the columns."""
    near = [point for Z in recipe.near if (point := _near(problem, Z)) is not None]
    if near:
        return near
    if isinstance(recipe.init, np.ndarray):
        return [problem.feasible_set.point(problem.operator.own(recipe.init.astype(problem.operator.dtype)))]
    if recipe.init == "paper":
        return [paper_start(problem, norms, rng)]
    exact, count = recipe.formulation.kind == "cardinality", recipe.n_init
    if recipe.block and problem.mu.size > 1:
        count = count or (BLOCK_STARTS if exact else 1)
        return [block_start(problem), *(random_block_start(problem, rng) for _ in range(count - 1))]
    count = count or (auto_starts(problem.operator) if exact else 1)
    if problem.operator.is_remote and count > 1:
        return [_best_of_largest(problem, recipe, norms, count, rng)]
    return race(problem, unit_starts(problem, norms, count, rng), recipe.settings.callback)


def _best_of_largest(problem: Problem, recipe: Recipe, norms: Array, count: int, rng: np.random.RandomState) -> Point:
    """The best of many starts where reads are dear: they race on the columns of largest norm, gathered once.

    Where those norms tie with the ones left out, as on standardised data, a sketch says which columns to take.
    """
    wanted = max(RACE_COLUMNS, RACE_TIMES * int(recipe.formulation.levels[0]))
    wanted = max(1, min(wanted, problem.operator.widest_take, norms.size))
    kept = top(norms[:, None], wanted)[:, 0]
    left_out = norms.copy()
    left_out[kept] = 0
    if largest(left_out) >= (1 - TIED) * largest(norms):
        kept = column_order(problem.operator, norms, wanted, rng, REMOTE_PROBES)
    kept = np.sort(to_host(kept))
    part = replace(problem, operator=problem.operator.take(kept), penalty=problem.penalty.restrict(kept))
    finalists = race(
        part, unit_starts(part, rows_of(norms, kept), min(count, kept.size), rng), recipe.settings.callback
    )
    X = np.hstack([point.X for point in finalists])
    whole = problem.as_batch(X.shape[1])
    points = whole.feasible_set.point(X)
    return points.column(int(np.argmax(whole.penalty.evaluate(points.C)[0])))


def _near(problem: Problem, Z: Array) -> Point | None:
    """The point of given loadings; None where a unit has nothing active there."""
    if not bool(np.all(np.any(Z, axis=0))):
        return None
    point = problem.feasible_set.point(problem.operator.combine(Z.astype(problem.operator.dtype)))
    values, _ = problem.penalty.evaluate(point.C)
    return point if np.all(values > 0) else None


def race(problem: Problem, starts: Point, callback: Callable[[AscentState], Any] | None = None) -> list[Point]:
    """The best starts of one unit, of distinct supports: all ascend as one batch, the best third goes on to another."""
    count = starts.C.shape[1]
    while count > FINALISTS:
        batch = problem.as_batch(count)
        starts = maximize(
            batch.objective, batch.feasible_set, starts, tol=RACE_TOL, max_iter=HEAT, callback=callback
        ).point
        kept = _distinct_best(batch.penalty, starts.C, max(FINALISTS, count // 3))
        starts, count = Point(starts.X[:, kept], starts.C[:, kept]), len(kept)
    return [starts.column(j) for j in range(count)]


def _distinct_best(penalty: Penalty, C: Array, most: int) -> list[int]:
    """Columns of C with the largest values, one for each support."""
    values, gradient = penalty.evaluate(C)
    # A support is told by the sum of a random number for each of its variables.
    keys: Array = np.random.RandomState(0).standard_normal(C.shape[:1])
    supports = to_host(beside(C, keys) @ (gradient != 0)).round(9)
    first: dict[float, int] = {}
    for j in np.argsort(-values, kind="stable"):
        first.setdefault(float(supports[j]), int(j))
        if len(first) == most:
            break
    return list(first.values())


def _best_end(problem: Problem, starts: list[Point], recipe: Recipe) -> tuple[Array, float, AscentResult]:
    """Loadings at the end of the best ascent, their objective, and the ascent."""
    results = [ascend(problem, start, recipe.settings) for start in starts]
    single = isinstance(problem.penalty, Cardinality) and not isinstance(problem.samples, Cube) and problem.mu.size == 1
    if single and recipe.refit is not None:
        if int(recipe.formulation.levels[0]) > POLISH_ALL:
            results = sorted(results, key=lambda result: -result.value)[:1]
        return max((_exact_end(problem, result, recipe) for result in results), key=lambda end: end[1])
    best = max(results, key=lambda result: result.value)
    settings = recipe.settings
    return refit(problem, best.point, recipe.refit, tol=settings.tol, max_iter=settings.max_iter), best.value, best


def _exact_end(problem: Problem, result: AscentResult, recipe: Recipe) -> tuple[Array, float, AscentResult]:
    """One unit of exact cardinality: refit, then swap and ascend in turn while that helps."""
    z, variance = _filled(problem, result.point)
    polish = recipe.polish and int(np.count_nonzero(z)) <= POLISH_MOST
    turns = REMOTE_POLISH if problem.operator.is_remote else FINALISTS
    for _ in range(turns if polish else 0):
        swapped, better = fill_unit(problem.operator, _swapped(problem, result.point, z))
        if better <= variance * (1 + 1e-12):
            break
        x = problem.operator.combine(swapped[:, None])
        result = ascend(problem, problem.feasible_set.point(x), recipe.settings)
        z, variance = _filled(problem, result.point)
    return z[:, None], variance * float(problem.mu[0]) ** 2, result


def _filled(problem: Problem, point: Point) -> tuple[Array, float]:
    """Loadings of one unit on the support at a point, and their variance."""
    z = problem.loadings(point)[:, 0]
    return fill_unit(problem.operator, to_host(np.flatnonzero(z)), z)


def _swapped(problem: Problem, point: Point, z: Array) -> Array:
    """The support after swap polish among the variables most correlated with the component."""
    support = to_host(np.flatnonzero(z))
    if support.size == 0:
        return support
    count = min(SWAP_CANDIDATES + support.size, z.size)
    candidates = np.union1d(support, to_host(top(np.abs(point.C), count)[:, 0]))
    S = problem.operator.gram(candidates).astype(np.float64)
    return np.asarray(candidates[swap_polish(S, np.searchsorted(candidates, support))])


def _calibrated(problem: Problem, recipe: Recipe, norms: Array, rng: np.random.RandomState) -> Extraction:
    """A penalty with a wanted cardinality: γ by bisection, the rest as for a given γ."""
    wish, wanted = recipe.formulation, np.asarray(recipe.formulation.levels, int)
    found = calibrate(
        lambda gamma: replace(problem, penalty=wish.penalty(gamma, problem.operator.dtype)),
        wish.gamma_max(norms, problem.mu),
        wanted,
        _starts(problem, recipe, norms, rng)[0],
        recipe.settings,
    )
    Z = refit(found.problem, found.result.point, recipe.refit)
    notes: tuple[str, ...] = ()
    if np.any(found.active != wanted):
        Z = refit(
            found.problem, found.result.point, recipe.refit or "auto", _cut_or_filled(Z, found.result.point.C, wanted)
        )
        notes = (CUT_NOTE,)
    return _as_extraction(Z, found.gamma, found.result.value, found.result, notes)


def _cut_or_filled(Z: Array, C: Array, wanted: Array) -> Array:
    """Pattern of the wanted number of variables per unit: the largest loadings first, then the largest correlations."""
    pattern = np.zeros_like(Z, dtype=bool)
    correlations = np.abs(C)
    scores = np.where(Z != 0, np.max(correlations, axis=0) * (1 + np.abs(Z)), correlations)
    for j, k in enumerate(wanted):
        pattern[top(scores[:, j : j + 1], k)[:, 0], j] = True
    return pattern
