"""Is a component more than chance? Its variance beside that of the same fit to tables whose columns were permuted.

Component j is looked for in what the earlier ones leave of the table (everything correlated with their scores is taken
out). Permuting each column of that on its own keeps every variable as it is and breaks what they have in common.
Permuted columns have again something of the earlier scores, and add up to something along the earlier loadings, where
the table has nothing left; both are taken out, and the columns brought back to their lengths, so that permuted tables
have the freedom and the norms of what they are compared with. Without that a second component would be claimed too
often. For the first nothing is taken out, and the test is exact: at the level α chance passes for a component in at
most a share α of tables. The p-values of later ones are doubled.

Fits are small: two starts, no exchanges. The table itself is judged by the same small fits.

Of a wide table most of them are smaller still. Chance finds its components among the longest variables, and permuting
leaves lengths as they are. A few permuted tables tell how much more a fit to all variables finds than one to the
longest; from then on the longest decide where they are far below the table, and all variables elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from gpower._utils.arrays import Array, column_dots, to_host
from gpower.feasible_sets import Point
from gpower.operators import as_operator
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import leading_components
from gpower.solvers.component import extract
from gpower.solvers.initialization import Ground, Promising, Start
from gpower.solvers.multi_component import extract_components
from gpower.solvers.specification import Recipe
from gpower.validation.prepare import Input

#: Permuted tables between two looks at what is hopeless by now, and those of a wide table before the longest variables
#: decide. Horn's line is the mean of the first batch.
BATCH, LEARNT = 20, 5
#: How many variables are the longest: so many, or so many times the cardinality. A permuted table is far below the
#: table if at least this share of its variance lies between them.
LONGEST, TIMES, FAR = 300, 6, 0.25
#: Precision of a small fit, and its most steps.
TOL, STEPS = 1e-3, 60
#: What the p-values of all components but the first are multiplied by. Their test is not exact: what was taken out was
#: chosen by the data. Of 25 tables with three planted components, 2 had a fourth without it, at 5 %.
CAUTION = 2
#: Variances that differ by less, relatively, tie.
TIE = 1e-5

#: What ``n_components="auto"`` stands for: the most components, permuted tables, and the level.
MOST, PERMUTATIONS, LEVEL = 20, 200, 0.05
#: Parameters that may have an entry per component.
LISTED = ("cardinality", "gamma", "l1_bound", "mu")

#: Called with the steps done and their total.
Progress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Chance:
    """What is found in a table and in permuted ones, in the units of ‖A z‖².

    Attributes
    ----------
    variance : ndarray of shape (n_components,)
        Of each component, by a small fit to what the earlier ones leave.
    permuted : ndarray of shape (n_permutations, n_components)
        The same of permuted tables, by the longest variables where those decide; NaN where it was hopeless already.
    ordinary, horn : ndarray of shape (n_components,)
        Variance of ordinary components, and their mean in permuted tables [Horn 1965].
    total : float
        Variance of the table.
    loadings : ndarray of shape (n_features, n_components)
        Of the components, found with all care.
    notes : tuple of str
        What is worth knowing of the table: values that were filled, columns that do not vary.
    """

    variance: Array
    permuted: Array
    ordinary: Array
    horn: Array
    total: float
    loadings: Array
    notes: tuple[str, ...] = ()

    @property
    def n_tested(self) -> int:
        """Components that were held against permuted tables."""
        return int(np.count_nonzero(~np.isnan(self.permuted).all(axis=0)))

    @property
    def p_values(self) -> Array:
        """Of each component and all before it: never falling; one for those behind a hopeless one."""
        made = np.count_nonzero(~np.isnan(self.permuted), axis=0)
        own = _caution(made.size) * (1 + _reached(self.permuted, self.variance)) / (1 + made)
        return np.maximum.accumulate(np.where(made > 0, np.minimum(own, 1.0), 1.0))


def _caution(count: int) -> Array:
    """One for the first component, more for the others."""
    return np.where(np.arange(count) > 0, CAUTION, 1)


def _reached(permuted: Array, variance: Array) -> Array:
    """How many permuted tables reach the variance of the table, per component."""
    return np.count_nonzero(permuted >= (1 - TIE) * variance, axis=0)


@dataclass(frozen=True, eq=False)
class Stage:
    """What is left of a table once some components are taken out.

    Attributes
    ----------
    table : ndarray of shape (n_features, n_samples)
        Centred and scaled; a row per variable, so that the samples of one lie together.
    taken : ndarray of shape (n_samples, j)
        Orthonormal basis of the scores taken out.
    bound : ndarray of shape (n_features, j)
        Orthonormal basis of their loadings, along which nothing is left.
    recipe : Recipe
        Of a small fit.
    """

    table: Array
    taken: Array
    bound: Array
    recipe: Recipe

    @cached_property
    def shares(self) -> Array:
        """What every variable has of the scores taken out, (n_features, j)."""
        return self.table @ self.taken

    @cached_property
    def norms(self) -> Array:
        """Of the variables, (n_features, 1)."""
        return np.linalg.norm(self.left(), axis=1, keepdims=True)

    def left(self) -> Array:
        """What is left, (n_features, n_samples); made anew, since of many stages it would not fit into memory."""
        return self.table - self.shares @ self.taken.T if self.taken.size else self.table

    def after(self, z: Array, recipe: Recipe) -> Stage:
        """The next stage, less the scores of the loadings z."""
        y = z[z != 0] @ self.table[z != 0]
        for _ in range(2):  # once more for what rounding leaves
            y = y - self.taken @ (self.taken.T @ y)
        length = np.linalg.norm(y)
        if not length > 0:
            return replace(self, recipe=recipe)
        bound = np.linalg.qr(np.column_stack([self.bound, z]))[0]
        taken = np.column_stack([self.taken, y / length])
        return Stage(self.table, taken.astype(self.table.dtype), bound.astype(self.table.dtype), recipe)

    def longest(self) -> Array | None:
        """The longest variables, and those of earlier components, in order; None where that spares little."""
        n, wish = self.table.shape[0], self.recipe.wish
        most = max(LONGEST, TIMES * max(self.recipe.levels, default=0))
        if 2 * most >= n or wish.sees_all or wish.family.admissible is not None:
            return None
        kept = np.argsort(-self.norms[:, 0], kind="stable")[:most]
        return np.union1d(kept, np.flatnonzero(self.bound.any(axis=1)))

    def among(self, rows: Array) -> Stage:
        """The same of some variables, those of earlier components among them."""
        return Stage(self.table[rows], self.taken, self.bound[rows], self.recipe.among(rows))

    def permuted(self, order: Array) -> Array:
        """The same, every variable's samples in another order, as free as it is: of the same norms, less the same."""
        n, p = self.table.shape
        A = np.take(self.left(), order + p * np.arange(n)[:, None])  # places in the flattened array
        if self.taken.size:
            rows = np.flatnonzero(self.bound.any(axis=1))
            W = self.bound[rows]
            A[rows] -= W @ (W.T @ A[rows])
            A -= (A @ self.taken) @ self.taken.T
            now = np.linalg.norm(A, axis=1, keepdims=True)
            A *= self.norms / np.where(now > 0, now, np.inf)
        return A

    def variance(self, A: Array) -> float:
        """What a small fit finds in such a table."""
        operator = as_matrix(A, self.recipe)
        if not operator.column_norms.any():
            return 0.0
        found = extract(operator, self.recipe, np.random.RandomState(0))
        return float(Scores.of(operator, found.Z).variances[0])


@dataclass(frozen=True, eq=False)
class Crowded(Start):
    """The longest column, and that along which most of the matrix lies: which correlates with many, or much.

    The longest alone may have nothing to do with the components, of standardised columns least of all.
    """

    def points(self, ground: Ground) -> list[Point]:
        """Both."""
        along = np.sqrt(_along(ground.problem.operator, ground.norms)).astype(ground.norms.dtype)
        return [point for norms in (ground.norms, along) for point in Promising(1).points(replace(ground, norms=norms))]


def _along(operator: Operator, norms: Array) -> Array:
    """‖Aᵀx‖² for x = a/‖a‖ of every column a, (n,)."""
    p, n = operator.shape
    columns = np.arange(n)
    if n > p and operator.has_samples:
        G, parts = operator.sample_gram(columns), np.array_split(columns, 16)
        squares = np.concatenate([column_dots(G @ A, A) for A in map(operator.columns, parts)])
    else:
        squares = np.sum(operator.gram(columns) ** 2, axis=1)
    return np.maximum(squares, 0) / np.where(norms > 0, norms, np.inf) ** 2


class Orders:
    """The orders of all samples in one permuted table, (n_features, n_samples), drawn as they are needed.

    Parameters
    ----------
    seed : int
    n_samples : int
    blocks : ndarray of shape (n_features,)
        Numbers from 0: variables of the same block share an order.
    first : ndarray of bool of shape (n_blocks,)
        Blocks whose orders are drawn first.
    """

    def __init__(self, seed: int, n_samples: int, blocks: Array, first: Array) -> None:
        self._rng, self._blocks, self._later = np.random.default_rng(seed), blocks, np.flatnonzero(~first)
        self._orders = np.empty((first.size, n_samples), np.intp)
        self._draw(np.flatnonzero(first))

    def _draw(self, some: Array) -> None:
        fresh = np.tile(np.arange(self._orders.shape[1]), (some.size, 1))
        self._orders[some] = self._rng.permuted(fresh, axis=1)

    def of(self, rows: Array) -> Array:
        """Of variables whose blocks come first."""
        return self._orders[self._blocks[rows]]

    @cached_property
    def all(self) -> Array:
        """Of all variables."""
        self._draw(self._later)
        return self._orders[self._blocks]


@dataclass(frozen=True, eq=False)
class Judge:
    """Holds permuted tables against the table at one stage, by its longest variables where they are far apart.

    Attributes
    ----------
    stage : Stage
    variance : float
        What a small fit finds in the table.
    rows : ndarray of int or None
        The longest variables; None where all of them decide.
    ratios : ndarray
        Of the variances of all variables and of the longest, in permuted tables where both are known.
    """

    stage: Stage
    variance: float
    rows: Array | None
    ratios: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, stage: Stage) -> Judge:
        """Who has seen nothing yet."""
        return cls(stage, stage.variance(stage.left()), stage.longest())

    @cached_property
    def _short(self) -> Stage:
        """The stage of the longest variables, with one start."""
        stage = self.stage.among(np.zeros(0, np.intp) if self.rows is None else self.rows)
        return replace(stage, recipe=replace(stage.recipe, start=None))

    def found(self, orders: Orders) -> tuple[float, float]:
        """Variance in a permuted table, and its ratio to that of the longest; NaN where only one is known."""
        if self.rows is None:
            return self.stage.variance(self.stage.permuted(orders.all)), np.nan
        short = self._short.variance(self._short.permuted(orders.of(self.rows)))
        if self.ratios.size and (1 + FAR) * self._most * short < self.variance:
            return float(np.mean(self.ratios)) * short, np.nan
        value = self.stage.variance(self.stage.permuted(orders.all))
        return value, value / short if short > 0 else np.nan

    @property
    def _most(self) -> float:
        """More than the ratio will be: as far beyond the largest as that is from the smallest."""
        return float(2 * self.ratios.max() - self.ratios.min())

    def learnt(self, ratios: Array) -> Judge:
        """Who has seen some more."""
        return replace(self, ratios=np.concatenate([self.ratios, ratios[~np.isnan(ratios)]]))


def as_matrix(A: Array, recipe: Recipe) -> Operator:
    """Variables × samples, centred and scaled, as an operator; tall tables by their covariance."""
    return as_operator(A.T, center=False, reduce=not recipe.needs_samples)[0]


def against_chance(
    table: Input,
    recipe: Recipe,
    rng: np.random.RandomState,
    *,
    n_permutations: int,
    level: float,
    blocks: Array | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Chance:
    """Hold the components that a recipe finds in a table against chance.

    Parameters
    ----------
    table : Input
        Dense, in memory, without holes.
    recipe : Recipe
        One component after the other.
    rng : RandomState
    n_permutations : int
    level : float
        p-value that is called small: a component that cannot reach it any more is given up, and those behind it.
    blocks : ndarray of shape (n_features,), optional
        Numbers from 0: variables of the same block are permuted together.
    n_jobs : int, optional
    progress : callable, optional
    """
    prepared = table.prepared(None, [recipe])
    loadings = to_host(extract_components(prepared.operator, recipe, rng).Z)
    mean, scale = prepared.moments.mean, prepared.moments.scale
    unit = float(prepared.moments.norms.max()) or 1.0  # single precision does for a comparison, at half the time
    A = np.ascontiguousarray(((table.X - mean) / scale / unit).T.astype(np.float32))
    judges = [Judge.of(stage) for stage in _stages(A, loadings, recipe)]
    variance = np.array([judge.variance for judge in judges])
    permuted, horn = _permuted(judges, blocks, rng.randint(2**31 - 1, size=n_permutations), level, n_jobs, progress)
    ordinary, total = leading_components(prepared.operator, len(judges))[1], prepared.operator.total_variance
    return Chance(unit**2 * variance, unit**2 * permuted, ordinary, unit**2 * horn, total, loadings, prepared.notes)


def _permuted(
    judges: Sequence[Judge],
    blocks: Array | None,
    seeds: Array,
    level: float,
    n_jobs: int | None,
    progress: Progress | None,
) -> tuple[Array, Array]:
    """What is found in permuted tables, one per seed, at the stages that are not hopeless; Horn's line."""
    variance, alive, lines = np.array([judge.variance for judge in judges]), len(judges), []
    permuted = np.full((seeds.size, alive), np.nan)
    allowed = np.floor(level * (seeds.size + 1) / _caution(alive)) - 1  # permuted tables that may reach it
    numbers = np.arange(judges[0].stage.table.shape[0]) if blocks is None else blocks
    first = np.zeros(int(numbers.max()) + 1, bool)
    for rows in (judge.rows for judge in judges if judge.rows is not None):
        first[numbers[rows]] = True
    ends = np.arange(LEARNT if first.any() else BATCH, seeds.size + BATCH, BATCH)
    for start, end in zip([0, *ends], ends, strict=False):
        ordinary = 0 if start else len(judges)
        jobs = (delayed(_one)(judges[:alive], numbers, first, int(seed), ordinary) for seed in seeds[start:end])
        values, ratios, horn = map(np.array, zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True))
        permuted[start:end, :alive] = values
        judges = [judge.learnt(ratios[:, j]) for j, judge in enumerate(judges[:alive])]
        lines.append(horn)
        if progress is not None:
            progress(start + len(values), seeds.size)
        hopeless = np.flatnonzero(_reached(permuted, variance)[:alive] > allowed[:alive])
        alive = int(hopeless[0]) if hopeless.size else alive
        if alive == 0:
            break
    return permuted, np.mean(lines[0], axis=0)


def counted(table: Input, rng: np.random.RandomState) -> tuple[dict[str, Any], Array]:
    """The parameters with the number of components that are more than chance, and the p-values of all looked at.

    At most `MOST`, or as many as a list of cardinalities or penalties has. One is kept where none is more than chance.
    """
    params = table.params
    lists = {name: list(params[name]) for name in LISTED if isinstance(params[name], Iterable)}
    most = min([len(values) for values in lists.values()] or [MOST, *table.shape])
    table = table.for_permuting()
    asked = table.recipes({"n_components": most, "method": "deflation", "mu": None, "constraint": None})[0]
    p_values = against_chance(table, asked, rng, n_permutations=PERMUTATIONS, level=LEVEL).p_values
    count = max(1, int(np.count_nonzero(p_values <= LEVEL)))
    return {"n_components": count} | {name: values[:count] for name, values in lists.items()}, p_values


def how_counted(p_values: Array) -> str:
    """A sentence about the number of components that ``n_components="auto"`` stands for.

    Examples
    --------
    >>> print(how_counted(np.array([0.005, 0.38])).partition(", by")[0])
    1 of up to 2 components explain more than chance at the level 0.05 (p = 0.005; of the next 0.38)
    """
    passed = [f"{p:.2g}" for p in p_values if p <= LEVEL]
    following = "".join(f"of the next {p:.2g}" for p in p_values[len(passed) :][:1])
    told = "; ".join(filter(None, ("p = " + ", ".join(passed) if passed else "", following)))
    return (
        f"{len(passed)} of up to {p_values.size} components explain more than chance at the level {LEVEL:g} ({told}), "
        f"by {PERMUTATIONS} permuted tables."
    )


def _stages(A: Array, loadings: Array, recipe: Recipe) -> list[Stage]:
    """The table, and what each component leaves of it to the next."""
    quick = replace(recipe.settings, tol=max(recipe.settings.tol, TOL), max_iter=STEPS, callback=None)
    small = [
        replace(recipe.unit(j), n_init=1, start=Crowded(), polish=False, settings=quick) for j in range(len(recipe.mu))
    ]
    n, p = A.shape
    stages = [Stage(A, np.zeros((p, 0), A.dtype), np.zeros((n, 0), A.dtype), small[0])]
    for j in range(1, len(small)):
        stages.append(stages[-1].after(loadings[:, j - 1], small[j]))
    return stages


def _one(
    judges: Sequence[Judge], blocks: Array, first: Array, seed: int, ordinary: int
) -> tuple[list[float], list[float], Array]:
    """What is found in a permuted table, at every stage by the same orders; ratios; some of its ordinary components."""
    stage = judges[0].stage
    orders = Orders(seed, stage.table.shape[1], blocks, first)
    values, ratios = zip(*(judge.found(orders) for judge in judges), strict=True)
    line = np.zeros(0)
    if ordinary:
        line = leading_components(as_matrix(stage.permuted(orders.all), stage.recipe), ordinary)[1]
    return list(values), list(ratios), line
