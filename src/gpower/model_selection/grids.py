"""Grids of sparsity levels: built and checked, sorted from sparse to dense, and solved with warm starts.

A solution with k variables is a good start for one with a few more or a few less. The path goes from the densest point
of the grid to the sparsest and back, and keeps the best solution of each point. On the way back a component starts at
one of fewer variables and can only gain: with one component the variance never falls as the cardinality grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower.operators.base import Operator
from gpower.operators.explained_variance import Scores
from gpower.solvers.component import MAX_SUPPORT_TO_SEARCH_ALL, ComponentResult
from gpower.solvers.fit_specification import FitSpec
from gpower.solvers.sequential import solve_all_components
from gpower.validation.checks import is_number, is_sequence, to_python_list

#: Number of points that get cold starts if n_init="auto" makes these costly; the others have only warm starts.
N_COLD_STARTS = 5
#: Number of matrix entries up to which cold starts are so cheap that every point gets them.
MAX_CHEAP_ENTRIES = 5000


def cardinality_grid(n_features: int, n_points: int = 50) -> Array:
    """Return distinct cardinalities from one to all variables, evenly spaced on a logarithmic scale.

    Parameters
    ----------
    n_features : int
        Number of variables.
    n_points : int, default=50
        Maximum number of points; small numbers that would be repeated appear once.

    Returns
    -------
    ndarray of int, ascending

    Examples
    --------
    >>> from gpower.model_selection import cardinality_grid
    >>> cardinality_grid(1000, 7)
    array([   1,    3,   10,   32,  100,  316, 1000])
    """
    return np.unique(np.geomspace(1, n_features, n_points).round().astype(int))


def check_cardinality_grid(cardinalities: object, limits: tuple[int, int], n_points: int = 50) -> Array:
    """Return the distinct cardinalities in ascending order, or the default grid of at most n_points for None.

    `limits` are the smallest and the largest cardinality that is allowed.
    """
    smallest, largest = limits
    if cardinalities is None:
        return np.unique(np.maximum(cardinality_grid(largest, n_points), smallest))

    def is_valid(k: Any) -> bool:
        return is_number(k, Integral) and smallest <= k <= largest

    requirement = f"a whole number of variables between {smallest} and {largest}"
    return np.unique(np.array(_check_grid_values(cardinalities, "cardinalities", is_valid, requirement), int))


def check_gamma_grid(gammas: object) -> Array:
    """Return the distinct penalties in descending order."""
    requirement = "a fraction, from 0 to below 1, of the largest useful penalty"
    values = _check_grid_values(gammas, "gammas", lambda gamma: is_number(gamma, Real) and 0 <= gamma < 1, requirement)
    return np.unique(np.array(values, float))[::-1]


def _check_grid_values(values: object, name: str, is_valid: Callable[[Any], bool], requirement: str) -> list[object]:
    """Return the values of a grid as a list; raise ValueError if it is empty or a value is not valid."""
    if not is_sequence(values):
        raise ValueError(
            f"{format_param(name, values)}: a sequence of numbers is needed, such as {format_param(name, [5, 10, 20])}."
        )
    entries = to_python_list(values)
    if not entries:
        raise ValueError(f"{name} is empty; give at least one number, or None for the default grid.")
    for value in entries:
        if not is_valid(value):
            raise ValueError(f"{name} contains {value!r}: each entry must be {requirement}.")
    return entries


def warm_path(
    operator: Operator,
    specs: Sequence[FitSpec],
    rng: np.random.RandomState,
    known_results: Mapping[int, ComponentResult] | None = None,
    *,
    single_pass: bool = False,
) -> Iterator[tuple[int, ComponentResult]]:
    """Yield each point of the grid with its best solution so far: twice, on the way down and back; the sparsest once.

    Parameters
    ----------
    operator : Operator
        The matrix before any deflation.
    specs : sequence of FitSpec
        One per point, from the sparsest to the densest, at least one; all with the same number of components.
    rng : RandomState
        Every point draws from a copy of it, so that its cold starts are those of a single fit.
    known_results : mapping of int to ComponentResult, optional
        Solutions found earlier, by index in `specs`, with loadings in the memory of the matrix. These points
        get no cold starts, and keep their solution unless a better one is found.
    single_pass : bool, default=False
        Go only from the densest point to the sparsest, with cold starts at a few points.
    """
    operator = operator.with_column_cache()  # columns gathered for one point serve the next
    best = dict(known_results or {})
    best_values = {i: compute_selection_value(operator, specs[i], result) for i, result in best.items()}
    n = len(specs)
    cold = set(choose_evenly_spaced(n) if single_pass else cold_starts(specs, operator)) - set(best)
    for order in (range(n - 1, -1, -1), range(1, 1 if single_pass else n)):
        is_way_back = order.step > 0
        for i in order:
            neighbour = best.get(i - 1 if is_way_back else i + 1)
            results = []
            if neighbour is not None:
                results.append(_from_neighbour(operator, specs[i], neighbour, deepcopy(rng), best.get(i)))
            if not is_way_back and (i in cold or (neighbour is None and i not in best)):
                results.append(solve_all_components(operator, specs[i], deepcopy(rng)))
            for result in results:
                if result is None:
                    continue
                value = compute_selection_value(operator, specs[i], result)
                if i not in best or value > best_values[i]:
                    best[i], best_values[i] = result, value
            yield i, best[i]


def _from_neighbour(
    operator: Operator,
    spec: FitSpec,
    neighbour: ComponentResult,
    rng: np.random.RandomState,
    known_result: ComponentResult | None,
) -> ComponentResult | None:
    """Return the solution from a warm start at a neighbour; None if it would repeat the known result of the point.

    It is expected to repeat it if the neighbour has no variable that the known result lacks: of 125 such points of
    paths on two cohorts, word counts and a factor model, none gained as much as 0.06 %. Large supports, for which the
    local search costs most and gains least, get none. The loadings of both results are (n, m), in the memory of the
    matrix.
    """
    if known_result is not None and not np.any((neighbour.Z != 0) & (known_result.Z == 0)):
        return None
    local_search = spec.local_search and max(spec.sparsity.levels, default=0) <= MAX_SUPPORT_TO_SEARCH_ALL
    return solve_all_components(
        operator, replace(spec.with_start_loadings(neighbour.Z), local_search=local_search), rng
    )


def cold_starts(specs: Sequence[FitSpec], operator: Operator) -> list[int]:
    """Return the points that get cold starts: all if n_init is given or starts are cheap, else a few spread evenly.

    Starts are costly for a unit of exact cardinality, which races many of them, and for a calibration, which takes many
    ascents.
    """
    n, first, (n_rows, n_columns) = len(specs), specs[0], operator.shape
    is_costly = first.n_init is None and first.sparsity.is_costly(first.is_block)
    if n <= N_COLD_STARTS or not is_costly or n_rows * n_columns <= MAX_CHEAP_ENTRIES:
        return list(range(n))
    return choose_evenly_spaced(n)


def choose_evenly_spaced(n_points: int) -> list[int]:
    """Return the indices of a few evenly spaced points out of `n_points`."""
    return sorted({int(i) for i in np.linspace(0, n_points - 1, N_COLD_STARTS).round()})


def compute_selection_value(operator: Operator, spec: FitSpec, result: ComponentResult) -> float:
    """Return the value by which solutions of one point are compared.

    It is the adjusted variance if the levels are cardinalities or shares of variance and the variance is ℓ2, else the
    objective. The loadings of `result` are in the memory of the matrix.
    """
    if spec.sparsity.has_cardinality_levels and spec.sparsity.sample_set.needs_only_gram:
        return float(Scores.from_loadings(operator, result.Z).compute_adjusted_variances().sum())
    return float(result.objective.sum())
