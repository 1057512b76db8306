"""Maximise a convex function over a compact set: x ← argmax ⟨f′(x), y⟩ [JNRS10, Algorithm 1].

The one loop of the library. It knows an objective (`value_and_gradient`) and a set (`step`, by default its
`argmax_linear`, and for acceleration `extrapolate`); penalties, data and blocks are compositions of those two.

For convex f every step satisfies f(x⁺) ≥ f(x) + Δ(x), where Δ(x) = max ⟨f′(x), y − x⟩ ≥ 0 is the
first-order measure reported as `gap`; hence values never fall and min Δ ≤ (f* − f(x₀))/(k + 1).

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpower.feasible_sets import FeasibleSet

#: A relative fall of the objective that rounding does not explain.
MAX_RELATIVE_DECREASE = 1e-3


class Objective(Protocol):
    """A convex function with a subgradient."""

    def value_and_gradient(self, x: Any, /) -> tuple[float, Any]:
        """f(x) and some f′(x)."""
        ...


class AscentStatus(Enum):
    """Why an ascent stopped, as a sentence."""

    CONVERGED = "Converged: the last step raised the objective by no more than tol, relatively."
    MAX_ITER = "Not converged: max_iter steps were made and the objective was still growing by more than tol."
    CALLBACK = "Stopped by the callback before convergence."

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class AscentState:
    """A point on the way, as a callback sees it after each step; the gap Δ is computed only if it is asked for.

    Attributes
    ----------
    n_iter : int
        Steps so far.
    value, start_value : float
        Of the objective, here and at the start.
    point, gradient : object
        Of the feasible set, and of the objective there.
    feasible_set : FeasibleSet
        What the ascent moves on; one of data counts its `passes`.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> values = []
    >>> def note(state):  # a true answer would stop the ascent
    ...     values.append(state.value)
    >>> model = GPower(1, gamma=0.1, init="paper", callback=note).fit(load_planted_expression().X)
    >>> values == sorted(values), [len(values)] == model.n_iter_.tolist()
    (True, True)
    """

    n_iter: int
    value: float
    point: Any
    gradient: Any
    feasible_set: FeasibleSet
    start_value: float = math.nan

    @property
    def gap(self) -> float:
        """The first-order measure Δ at the point."""
        return compute_gap(self.feasible_set, self.gradient, self.point)


#: Called with the state after each step; a true answer stops the ascent.
Callback = Callable[[AscentState], object]


@dataclass(frozen=True, eq=False)
class AscentResult:
    """Where an ascent ended.

    Attributes
    ----------
    last_state : AscentState
        The final point with its value, gradient and set; `point`, `value`, `n_iter` and `gap` are read off it, and
        the gap Δ, which takes a product, only when it is asked for.
    status : Status
        ``str(status)`` is a sentence.
    history : ndarray of shape (n_iter + 1,)
        Values of f from the start on, never decreasing.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import maximize
    >>> from gpower.feasible_sets import Sphere
    >>> class Squares:
    ...     def value_and_gradient(self, x):
    ...         return float(x @ x), 2 * x
    >>> result = maximize(Squares(), Sphere(), np.array([0.6, 0.8]))
    >>> round(result.value, 6), result.n_iter, str(result.status)
    (1.0, 1, 'Converged: the last step raised the objective by no more than tol, relatively.')
    """

    last_state: AscentState
    status: AscentStatus
    history: np.ndarray

    @property
    def point(self) -> Any:
        """The final point."""
        return self.last_state.point

    @property
    def value(self) -> float:
        """f at the final point."""
        return float(self.last_state.value)

    @property
    def n_iter(self) -> int:
        """Steps made."""
        return self.last_state.n_iter

    @cached_property
    def gap(self) -> float:
        """Δ at the final point."""
        return self.last_state.gap

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met."""
        return self.status is AscentStatus.CONVERGED


def maximize(
    objective: Objective,
    feasible_set: FeasibleSet,
    start: Any,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    acceleration: bool = False,
    callback: Callback | None = None,
) -> AscentResult:
    """Run the gradient scheme from `start` until (f₊ − f)/f ≤ tol.

    Parameters
    ----------
    objective : Objective
        Convex; ``value_and_gradient(x)``.
    feasible_set : FeasibleSet
        ``argmax_linear(g)``; see `gpower.feasible_sets`.
    start : point of the set
        x₀, in the set.
    tol : float
        Relative growth at which to stop.
    max_iter : int
        Most steps to make.
    acceleration : bool
        Evaluate at Nesterov's extrapolation of the last two points, put back on the set; where that does
        not raise the objective by more than tol the plain step is taken instead and the momentum
        forgotten, so that the values never fall.
    callback : callable, optional
        Called with an `AscentState` after each step; a true answer stops.

    Returns
    -------
    AscentResult
        The last point with its value, how many steps led there, and why they ended.

    Raises
    ------
    ValueError
        If a step lowers the objective: the start is outside the set, or the objective is not convex.

    Examples
    --------
    The power method: f(x) = ½xᵀCx on the unit sphere.

    >>> import numpy as np
    >>> from gpower import maximize
    >>> from gpower.feasible_sets import Sphere
    >>> class Quadratic:
    ...     def value_and_gradient(self, x):
    ...         g = np.array([[2.0, 1.0], [1.0, 2.0]]) @ x
    ...         return 0.5 * x @ g, g
    >>> result = maximize(Quadratic(), Sphere(), np.array([1.0, 0.0]), tol=1e-12)
    >>> round(result.value, 6), result.converged
    (1.5, True)
    """
    value, gradient = objective.value_and_gradient(start)
    point, history, momentum, status = start, [value], Momentum(), AscentStatus.MAX_ITER
    for n_iter in range(1, max_iter + 1):
        step = feasible_set.step(gradient, point)
        target = momentum.extrapolate(feasible_set, step) if acceleration else step
        new_value, new_gradient = objective.value_and_gradient(target)
        if target is not step and new_value - value <= tol * abs(value):
            momentum, target = Momentum(step), step
            new_value, new_gradient = objective.value_and_gradient(target)
        growth, previous = new_value - value, value
        if not growth >= -MAX_RELATIVE_DECREASE * abs(previous) and not growth >= -feasible_set.objective_tolerance:
            raise ValueError(_format_decrease_error(n_iter, previous, new_value))
        point, value, gradient = target, new_value, new_gradient
        history.append(max(value, history[-1]))  # a plain step falls by rounding only
        stop = callback is not None and callback(AscentState(n_iter, value, point, gradient, feasible_set, history[0]))
        if growth <= tol * abs(previous):
            status = AscentStatus.CONVERGED
            break
        if stop:
            status = AscentStatus.CALLBACK
            break
    last = AscentState(len(history) - 1, value, point, gradient, feasible_set, history[0])
    return AscentResult(last, status, np.asarray(history))


class Trace:
    """A callback that records an ascent: value, gap, reads of the matrix and seconds at every step.

    Of several ascents with the same trace (components, starts) the last one is shown; `ascents` holds them all.

    Attributes
    ----------
    values, gaps, passes, seconds : ndarray of shape (n_iter + 1,)
        From the start on, where only the value is known. Reads made for the sake of the gap are not counted.
    ascents : list of list of tuple
        The same numbers, a tuple per step, for every ascent.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.solvers.ascent import Trace
    >>> from gpower.datasets import load_pitprops
    >>> trace = Trace()
    >>> model = GPower(1, gamma=0.1, init="paper", covariance="precomputed", callback=trace)
    >>> model = model.fit(load_pitprops().correlation)
    >>> bool(trace.values[-1] == model.objective_[0])
    True
    """

    def __init__(self) -> None:
        self.ascents: list[list[tuple[float, float, float, float]]] = []
        self.start_time, self.own_passes = time.perf_counter(), 0.0

    def __call__(self, state: AscentState) -> bool:
        """Record a step; never stops the ascent."""
        if state.n_iter == 1:
            self.ascents.append([(state.start_value, math.nan, math.nan, math.nan)])
        passes, seconds = state.feasible_set.passes - self.own_passes, time.perf_counter() - self.start_time
        gap = state.gap
        self.own_passes += state.feasible_set.passes - self.own_passes - passes
        self.start_time += time.perf_counter() - self.start_time - seconds
        self.ascents[-1].append((state.value, gap, passes, seconds))
        return False

    def _get_column(self, i: int) -> np.ndarray:
        return np.array([step[i] for step in self.ascents[-1]]) if self.ascents else np.zeros(0)

    @property
    def values(self) -> np.ndarray:
        """Values of the last ascent."""
        return self._get_column(0)

    @property
    def gaps(self) -> np.ndarray:
        """Its first-order measures Δ."""
        return self._get_column(1)

    @property
    def passes(self) -> np.ndarray:
        """Reads of the matrix until each step."""
        return self._get_column(2)

    @property
    def seconds(self) -> np.ndarray:
        """Seconds since the trace was made."""
        return self._get_column(3)


def _format_decrease_error(n_iter: int, before: float, after: float) -> str:
    return (
        f"Step {n_iter} took the objective from {before:.6g} to {after:.6g}, which no step on a convex function can do "
        "from a point of the set: check that the start lies in the set, that the objective is convex, and its gradient."
    )


def compute_gap(feasible_set: FeasibleSet, gradient: Any, point: Any) -> float:
    """Δ(x) = max ⟨f′(x), y − x⟩ over the set, at least 0 but for rounding."""
    return max(feasible_set.support_value(gradient) - feasible_set.pairing(gradient, point), 0.0)


class Momentum:
    """Nesterov's weights b: 0, 0.28, 0.43, … between successive steps."""

    def __init__(self, last_step: Any = None) -> None:
        self.last_step, self.t = last_step, 1.0

    def extrapolate(self, feasible_set: FeasibleSet, step: Any) -> Any:
        """The step carried on in its direction; the step itself where there is nothing to go by."""
        t = (1 + math.sqrt(1 + 4 * self.t**2)) / 2
        b, last = (self.t - 1) / t, self.last_step
        self.last_step, self.t = step, t
        return step if last is None or b == 0 else feasible_set.extrapolate(step, last, b)
