"""Is a component more than chance? Its variance beside that of the same fit to tables whose columns were permuted.

Component j is looked for in what the earlier ones leave of the table (everything correlated with their scores is taken
out). Permuting each column of that on its own keeps every variable as it is and breaks what they have in common.
Permuted columns have again something of the earlier scores, and add up to something along the earlier loadings, where
the table has nothing left; both are taken out, and the columns brought back to their lengths, so that permuted tables
have the freedom and the norms of what they are compared with. Without that a second component would be claimed too
often. For the first nothing is taken out, and the test is exact: at the level α chance passes for a component in at
most a share α of tables. The p-values of later ones are doubled.

Fits are small: one start, no exchanges. The table itself is judged by the same small fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from gpower._arrays import Array, to_host
from gpower.extraction import extract
from gpower.leading import leading_components
from gpower.metrics import Scores
from gpower.operators import as_operator
from gpower.operators.base import Operator
from gpower.preparation import Input
from gpower.recipes import Recipe
from gpower.several import extract_components

#: Permuted tables between two looks at what is hopeless by now.
BATCH = 20
#: Permuted tables that Horn's line is the mean of.
HORN = 20
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
        The same of permuted tables; NaN where that was hopeless already.
    ordinary, horn : ndarray of shape (n_components,)
        Variance of ordinary components, and their mean in permuted tables [Horn 1965].
    total : float
        Variance of the table.
    loadings : ndarray of shape (n_features, n_components)
        Of the components, found with all care.
    """

    variance: Array
    permuted: Array
    ordinary: Array
    horn: Array
    total: float
    loadings: Array

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

    def permuted(self, order: Array) -> Array:
        """The same, every variable's samples in another order, as free as it is: of the same norms, less the same."""
        A = np.take(self.left(), order)  # places in the flattened array
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
    stages = _stages(A, loadings, recipe)
    variance = np.array([stage.variance(stage.left()) for stage in stages])
    seeds = rng.randint(2**31 - 1, size=n_permutations)
    permuted, horn = np.full((n_permutations, len(stages)), np.nan), []
    allowed = np.floor(level * (n_permutations + 1) / _caution(len(stages))) - 1  # permuted tables that may reach it
    alive = len(stages)
    for start in range(0, n_permutations, BATCH):
        jobs = [
            delayed(_one)(stages[:alive], blocks, int(seed), start + i < HORN)
            for i, seed in enumerate(seeds[start : start + BATCH])
        ]
        found = Parallel(n_jobs=n_jobs)(jobs)
        permuted[start : start + len(found), :alive] = [values for values, _ in found]
        horn += [line for _, line in found if line is not None]
        if progress is not None:
            progress(start + len(found), n_permutations)
        hopeless = np.flatnonzero(_reached(permuted, variance)[:alive] > allowed[:alive])
        alive = int(hopeless[0]) if hopeless.size else alive
        if alive == 0 and start + BATCH >= HORN:
            break
    ordinary, total = leading_components(prepared.operator, len(stages))[1], prepared.operator.total_variance
    return Chance(unit**2 * variance, unit**2 * permuted, ordinary, unit**2 * np.mean(horn, axis=0), total, loadings)


def counted(table: Input, rng: np.random.RandomState) -> tuple[dict[str, Any], Array]:
    """The parameters with the number of components that are more than chance, and the p-values of all looked at.

    At most `MOST`, or as many as a list of cardinalities or penalties has. One is kept where none is more than chance.
    """
    params = table.params
    if params["missing"] != "error":
        raise ValueError(
            'n_components="auto" permutes what was observed, and missing="impute" fills by so many components; '
            "fill the table first, or give the number."
        )
    lists = {name: list(params[name]) for name in LISTED if isinstance(params[name], Iterable)}
    most = min([len(values) for values in lists.values()] or [MOST, *table.shape])
    asked = table.for_permuting().recipes({"n_components": most, "method": "deflation", "mu": None})[0]
    p_values = against_chance(table, asked, rng, n_permutations=PERMUTATIONS, level=LEVEL).p_values
    count = max(1, int(np.count_nonzero(p_values <= LEVEL)))
    return {"n_components": count} | {name: values[:count] for name, values in lists.items()}, p_values


def _stages(A: Array, loadings: Array, recipe: Recipe) -> list[Stage]:
    """The table, and what each component leaves of it to the next."""
    quick = replace(recipe.settings, tol=max(recipe.settings.tol, TOL), max_iter=STEPS, callback=None)
    small = [replace(recipe.unit(j), n_init=1, start=None, polish=False, settings=quick) for j in range(len(recipe.mu))]
    n, p = A.shape
    stages = [Stage(A, np.zeros((p, 0), A.dtype), np.zeros((n, 0), A.dtype), small[0])]
    for j in range(1, len(small)):
        stages.append(stages[-1].after(loadings[:, j - 1], small[j]))
    return stages


def _one(stages: Sequence[Stage], blocks: Array | None, seed: int, horn: bool) -> tuple[list[float], Array | None]:
    """What small fits find in a permuted table, at every stage by the same permutations; its ordinary components."""
    n, p = stages[0].table.shape
    count = n if blocks is None else int(blocks.max()) + 1
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(p), (count, 1)), axis=1)
    orders = orders if blocks is None else orders[blocks]
    orders += p * np.arange(n)[:, None]
    values, line = [], None
    for j, stage in enumerate(stages):
        A = stage.permuted(orders)
        values.append(stage.variance(A))
        if j == 0 and horn:
            line = leading_components(as_matrix(A, stage.recipe), len(stages))[1]
    return values, line
