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

from gpower._utils.arrays import Array, first_largest, largest, to_host
from gpower.operators import Covariance
from gpower.operators.base import Operator
from gpower.solvers.component import Extraction, extract, extract_in_turn
from gpower.solvers.initialization import FINALISTS, Candidates, Largest, module_starts
from gpower.solvers.sketch import Sketch, sketched
from gpower.solvers.specification import WIDEST, Recipe
from gpower.solvers.working_set import GROWTH, LEAST, working_set

#: Starts of every component on the sketch, and of all together if that is more. With 24 the components of GSE1992 and
#: GSE3143 explain 0.3 % less; with 128 or more one of GSE3143, standardised, explains up to
#: 9 % more than with 32.
STARTS, STARTS_IN_ALL = 32, 512
#: Share of the first component's variance that a sketch must hold: 0.64 to 0.72 in Gaussian noise of 500 × 5000, from
#: 0.94 on in expression data, word counts and factor models.
HELD = 0.85
#: A sketch is sharpened as long as a turn leaves no more than this of what it missed: 0.94 in Gaussian noise, 0.4 to
#: 0.8 in sparse counts whose programmes stand out little.
GAIN = 0.85
SHARPENED = 2
#: Columns of a sketch among which the components are looked for: so many, or so many times the variables wished for.
#: With 4000 of the 15,528 columns of GSE1992, standardised, 30 components explain 4 % less.
MOST_RACED, RACED_TIMES = 20_000, 8
#: Starts at single columns that race beside those of the sketch, and the columns that all of them want together.
CANDIDATES, LEAST_CANDIDATES, CANDIDATE_COLUMNS = 48, 8, 2400
#: Columns near a component that it may exchange its variables for.
NEIGHBOURS = 384
#: Columns whose Gram matrix, 72 MB, fits anywhere.
SMALL_GRAM = 3000


@dataclass(frozen=True, eq=False)
class Standing:
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

    units: tuple[Extraction, ...] = ()
    settled: int = 0
    columns: Array = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def known(self) -> tuple[Extraction, ...]:
        """The units that are final."""
        return self.units[: self.settled]

    @property
    def Z(self) -> Array:
        """Their loadings side by side, (n_features, m)."""
        return np.hstack([unit.Z for unit in self.units])


#: Told how far the components are, after each round or each component.
Told = Callable[[Standing], object]


def extract_one_by_one(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    standing: Standing | None = None,
    told: Told | None = None,
) -> Extraction:
    """Components of which each is looked for in what those before it leave: in shared rounds, or one after the other.

    `standing` is where an earlier fit of the same problem was.
    """
    standing = Standing() if standing is None else standing
    varies = largest(operator.column_norms) > operator.noise
    shares = varies and recipe.shares(operator)
    if shares and not standing.units:
        standing = _begun(operator, recipe, rng)
    if shares and not standing.columns.size and len(standing.units) < len(recipe.mu) <= FINALISTS:
        return Extraction.joined(_searched_again(operator, recipe, rng, standing.known, told))
    while standing.columns.size and standing.settled < len(recipe.mu):
        if told is not None:
            told(standing)
        standing = _round(operator, recipe, standing, rng)
    if standing.settled < len(recipe.mu):
        standing = _in_turn(operator, recipe, rng, standing, told)
    return Extraction.joined(standing.units)


def _searched_again(
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    known: Sequence[Extraction],
    told: Told | None,
) -> list[Extraction]:
    """Find one component after the other, each by rounds of its own, with starts in what those before it leave."""
    units: list[Extraction] = []
    for j in range(len(recipe.mu)):
        units.append(known[j] if j < len(known) else extract_one_by_one(operator, recipe.unit(j), rng))
        if told is not None and j >= len(known):
            told(Standing(tuple(units), len(units)))
        if j + 1 < len(recipe.mu):
            operator = recipe.deflation.remove(operator, units[j].Z[:, 0])
    return units


def _in_turn(
    operator: Operator, recipe: Recipe, rng: np.random.RandomState, standing: Standing, told: Told | None
) -> Standing:
    """One after the other on the whole matrix, or on its covariance where that is small, after those that are final.

    The others begin where they were, if they were anywhere.
    """
    n = operator.shape[1]
    if operator.has_samples and operator.container.is_tall and recipe.is_worth_gram(n, recipe.reads_in_turn()):
        operator = Covariance(operator.gram(np.arange(n)), operator.counter)
    recipe = recipe.begun_at(standing.Z) if len(standing.units) == len(recipe.mu) else recipe

    def now(units: Sequence[Extraction]) -> Standing:
        return Standing((*units, *standing.units[len(units) :]), len(units))

    completed = None if told is None else lambda units: told(now(units))
    return now(extract_in_turn(operator, recipe, rng, standing.known, completed))


def _begun(operator: Operator, recipe: Recipe, rng: np.random.RandomState) -> Standing:
    """Components of a sketch, or given ones, and the columns that they want; nothing where a sketch says nothing."""
    if recipe.near is not None:
        gamma = recipe.wish.gamma(operator.column_norms, np.ones(len(recipe.mu)))
        pairs = zip(recipe.near.T[:, :, None], gamma[:, None], strict=True)
        return _standing(operator, recipe, tuple(Extraction.given(z, level) for z, level in pairs))
    from_sketch = _raced(operator, recipe, rng)
    if not from_sketch.units:
        return from_sketch
    return _first_round(operator, recipe, from_sketch, _candidates(operator, recipe), rng)


def _candidates(operator: Operator, recipe: Recipe) -> tuple[Array, Array]:
    """Return loadings that any unit may begin at, found from single columns, (n, c), and the columns they want."""
    first = recipe.unit(int(np.argmax(recipe.wish.levels)) if recipe.levels else 0)
    norms = first.wish.samples.reach(operator)
    problem = first.wish.problem(operator, norms, np.ones(1))
    penalty = problem.penalty
    width = GROWTH * max(penalty.most, LEAST)
    count = max(recipe.n_init or 0, int(min(CANDIDATES, max(LEAST_CANDIDATES, _room(operator) // width))))
    C = module_starts(problem, norms, count).C
    T = penalty.evaluate(C)[1]
    wanted = [working_set(penalty, C[:, [j]], T[:, [j]]) for j in range(C.shape[1])]
    return to_host(penalty.loadings(C)), np.unique(np.concatenate(wanted))


def _room(operator: Operator) -> int:
    """Return how many columns may be looked at for the sake of candidates."""
    return int(min(CANDIDATE_COLUMNS, 0.8 * WIDEST * operator.shape[1], operator.container.widest_gram // 2))


def _first_round(
    operator: Operator, recipe: Recipe, standing: Standing, candidates: tuple[Array, Array], rng: np.random.RandomState
) -> Standing:
    """Find the components on the columns that a sketch and single columns suggest, each from the best of all starts."""
    Z, columns = candidates
    if standing.units:
        Z = np.hstack([to_host(standing.Z), Z])
    m = len(recipe.mu)
    W = np.union1d(standing.columns, columns)
    if W.size > _most_columns(operator):
        return standing
    finalists = FINALISTS if m <= FINALISTS else 1
    inner = replace(recipe, start=Candidates(Z, finalists), polish=recipe.polish and m <= FINALISTS).among(W)
    units = extract_in_turn(operator.restrict(W).inner, inner, rng)
    near = max(LEAST, min(NEIGHBOURS, _room(operator) // m))
    return _standing(operator, recipe, tuple(unit.embedded(W, operator) for unit in units), least=near)


def _raced(operator: Operator, recipe: Recipe, rng: np.random.RandomState) -> Standing:
    """Components of a sketch, which is sharpened until it holds the first, or no longer gains much by it.

    None where there are a few and the sketch does not hold the first: what is hidden, or noise, is looked for again
    after every deflation. In noise of 150 × 2500 five components explain 1.3 % less otherwise.
    """
    sketch, missing = sketched(operator, len(recipe.mu), rng), 1.0
    for turn in range(SHARPENED + 1):
        kept = _race_columns(sketch, recipe)
        part = sketch.matrix.take(kept)
        count = max(recipe.n_init or 0, STARTS, STARTS_IN_ALL // len(recipe.mu))
        racing = replace(recipe.among(kept), start=Largest(count, sketch.noise[kept]), polish=False)
        first = extract(part, racing.unit(0), rng)
        before, missing = missing, 1 - sketch.holds(first.embedded(kept, sketch.matrix).Z)
        sharper = sketch.sharpened() if 1 - HELD < missing <= GAIN * before and turn < SHARPENED else None
        if sharper is None:
            break
        sketch = sharper
    if missing > 1 - HELD and 1 < len(recipe.mu) <= FINALISTS:
        return Standing()
    units = extract_in_turn(part, racing, rng, [first])
    # A sketch has few rows. What the first units leave of it is hardly sparse, and a penalty lets in hundreds of
    # columns that the unit of the whole matrix does not use: no later unit gets more of them than the first half.
    sizes = [np.count_nonzero(unit.Z) for unit in units[: (len(units) + 1) // 2]]
    most = max(LEAST, int(GROWTH * max(sizes)))
    embedded = tuple(unit.embedded(kept, sketch.matrix) for unit in units)
    return _standing(sketch.matrix, recipe, embedded, most=most)


def _race_columns(sketch: Sketch, recipe: Recipe) -> Array:
    """Columns that starts race on: the most promising of those that may be used, and those that must."""
    known = recipe.wish.family.admissible
    if known is None:
        return sketch.promising(max(MOST_RACED, RACED_TIMES * sum(recipe.levels)))
    most = len(recipe.mu) * recipe.wish.penalty_of(np.zeros(len(recipe.mu))).most
    kept = sketch.promising(max(MOST_RACED, RACED_TIMES * most), known.usable)
    return np.union1d(kept, np.flatnonzero(known.spread(known.forced).any(axis=1)))


def _most_columns(operator: Operator) -> float:
    """Return the number of columns above which a round would take as long, or as much memory, as the whole matrix."""
    return min(WIDEST * operator.shape[1], max(SMALL_GRAM, operator.container.widest_gram))


def _is_small(operator: Operator) -> bool:
    """Return whether the Gram matrix of all columns is small, and there already or cheaper than the samples."""
    n = operator.shape[1]
    there = not operator.has_samples or n <= operator.container.gram_share * operator.shape[0]
    return n <= SMALL_GRAM and there


def _round(operator: Operator, recipe: Recipe, standing: Standing, rng: np.random.RandomState) -> Standing:
    """The components that are not final, found again on W from where they were; what they want of the whole matrix."""
    W, n = standing.columns, operator.shape[1]
    if W.size > WIDEST * n and _is_small(operator):
        W = np.arange(n)
    elif W.size > _most_columns(operator):
        return Standing(standing.units, standing.settled)
    part, inner = operator.restrict(W).inner, recipe.begun_at(standing.Z).among(W)
    units = extract_in_turn(part, inner, rng, [unit.among(W, part) for unit in standing.known])
    return _standing(operator, recipe, tuple(unit.embedded(W, operator) for unit in units), W)


def _standing(
    operator: Operator,
    recipe: Recipe,
    units: tuple[Extraction, ...],
    W: Array | None = None,
    least: int = LEAST,
    most: int | None = None,
) -> Standing:
    """Units found on the columns W, what they want outside, and how many of the first want nothing.

    Without W each wants all it has, and some more: `least` columns at least, `most` at most.
    """
    Z = np.hstack([unit.Z for unit in units]).astype(operator.dtype)
    refitted = any(unit.end is not None for unit in units)
    ends = np.hstack([unit.Z if unit.end is None else unit.end for unit in units]) if refitted else Z
    C, norms = map(to_host, recipe.deflation.seen(operator, Z, ends.astype(operator.dtype, copy=False)))
    outside = np.ones(operator.shape[1], bool)
    outside[[] if W is None else W] = False
    most = operator.shape[1] if most is None else most
    wanted = [
        _wanted(recipe.unit(j), unit, C[:, [j]], norms[:, j], outside, (least, most)) for j, unit in enumerate(units)
    ]
    settled = next((j for j, idx in enumerate(wanted) if idx.size), len(units))
    outside[np.concatenate(wanted)] = False
    return Standing(units, settled, np.flatnonzero(~outside))


def _wanted(recipe: Recipe, unit: Extraction, C: Array, norms: Array, outside: Array, sizes: tuple[int, int]) -> Array:
    """Columns outside W that would be active in a unit, with some that nearly would, or that its γ depends on."""
    penalty = recipe.wish.penalty_of(unit.gamma.astype(C.dtype))
    if not unit.Z.any():  # nothing was found on W: whatever is left outside is wanted
        C = norms[:, None]
    T = penalty.evaluate(C)[1]
    idx = np.zeros(0, np.intp)
    if np.any((T[:, 0] != 0) & outside):
        idx = working_set(penalty, C, T, *sizes)
    left = np.where(outside, norms, 0)
    rounding = 64 * float(np.finfo(C.dtype).eps)  # columns of equal norm are no reason to look again
    if np.any(recipe.wish.gamma(left, np.ones(1)) > unit.gamma * (1 + rounding)):
        longest, known = first_largest(penalty.promise(left)), penalty.admissible
        idx = np.append(idx, longest if known is None else known.members(longest))
    return idx[outside[idx]]
