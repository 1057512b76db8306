"""Maximise a convex function over a compact set: x ← argmax ⟨f′(x), y⟩ [JNRS10, Algorithm 1].

`maximize` runs every ascent of the library. It needs an objective (`value_and_gradient`) and a set (`step`, by default
its `argmax_linear`; with acceleration also `extrapolate`). Penalties, data and blocks are combined into these two.

For convex f every step satisfies f(x⁺) ≥ f(x) + Δ(x), where Δ(x) = max ⟨f′(x), y − x⟩ ≥ 0 is the first-order measure
reported as `gap`. Hence values never fall, and min Δ ≤ (f* − f(x₀))/(k + 1) after k steps.

Terms: a point x of a set may be any object, and a gradient g is a linear function of points in the form that the set
uses: arrays for simple sets; for the set of the data a `Point`, X (p, m) and C (n, m), and an array (n, m), both where
the matrix is, host or device. Of a `FeasibleSet`, ``argmax_linear(g)`` is the point with the largest ⟨g, y⟩,
``support_value(g)`` that value, ``pairing(g, x)`` is ⟨g, x⟩, ``extrapolate(x, previous, b)`` a point of the set near
x + b(x − previous), ``objective_tolerance`` the absolute decrease that rounding may cause, and ``passes`` the number of
passes over the matrix so far, NaN without data. Values of the objective are Python floats.

[JNRS10] is Journée et al. (2010), Journal of Machine Learning Research 11, 517–553.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpower._utils.arrays import stable_argmax
from gpower.feasible_sets import FeasibleSet

#: Largest relative decrease of the objective in one step that is attributed to rounding; a larger one is an error.
MAX_RELATIVE_DECREASE = 1e-3


class Objective(Protocol):
    """A convex function with a subgradient."""

    def value_and_gradient(self, x: Any, /) -> tuple[float, Any]:
        """Return f(x), a float, and a subgradient f′(x) in the form that the set uses; x is not changed."""
        ...


class AscentStatus(Enum):
    """The reason why an ascent stopped; its string is a sentence."""

    CONVERGED = "Converged: the last step raised the objective by no more than tol, relatively."
    MAX_ITER = "Not converged: max_iter steps were made and the objective was still growing by more than tol."
    CALLBACK = "Stopped by the callback before convergence."

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class AscentState:
    """The state of an ascent after a step, as passed to a callback.

    Attributes
    ----------
    n_iter : int
        Number of steps so far.
    value : float
        Objective at the current point.
    point, gradient : object
        Current point of the feasible set, and a subgradient of the objective there.
    feasible_set : FeasibleSet
        Set on which the ascent moves; a set of the data counts the `passes` over the matrix.
    start_value : float
        Objective at the start.

    Examples
    --------
    >>> from gpower import GPower, Solver
    >>> from gpower.datasets import load_planted_expression
    >>> values = []
    >>> def record(state):  # returning True would stop the ascent
    ...     values.append(state.value)
    >>> solver = Solver(init="largest_norm", callback=record)
    >>> model = GPower(1, gamma=0.1, solver=solver).fit(load_planted_expression().X)
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
        """Compute the first-order measure Δ at the point, at the cost of a product with the matrix."""
        return compute_gap(self.feasible_set, self.gradient, self.point)


#: Function that is called with the state after each step; a true return value stops the ascent.
Callback = Callable[[AscentState], object]
#: Returns the next point of an ascent from the gradient and the current point.
StepRule = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class AscentResult:
    """The result of an ascent.

    Attributes
    ----------
    last_state : AscentState
        The final point with its value, gradient and set; `point`, `value`, `n_iter` and `gap` are read off it. The
        gap Δ needs a product with the matrix and is computed on first access.
    status : AscentStatus
        Why the ascent stopped; ``str(status)`` is a sentence.
    history : ndarray of shape (n_iter + 1,)
        Values of f at the start and after each step, never decreasing.

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
        """Return the final point."""
        return self.last_state.point

    @property
    def value(self) -> float:
        """Return f at the final point."""
        return float(self.last_state.value)

    @property
    def n_iter(self) -> int:
        """Return the number of steps."""
        return self.last_state.n_iter

    @cached_property
    def gap(self) -> float:
        """Return Δ at the final point."""
        return self.last_state.gap

    @property
    def converged(self) -> bool:
        """Return whether the last step raised f by no more than tol, relatively."""
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
    step: StepRule | None = None,
) -> AscentResult:
    """Run the gradient scheme from `start` until (f₊ − f)/f ≤ tol.

    Parameters
    ----------
    objective : Objective
        Convex function with ``value_and_gradient(x)``.
    feasible_set : FeasibleSet
        Set with ``argmax_linear(g)``; see `gpower.feasible_sets`.
    start : object
        First point x₀, which must lie in the set. Only the objective reads it: for `PenaltyObjective` a
        `CorrelationStart` is enough.
    tol : float
        Relative growth of the objective at which the ascent stops. With −1 it stops by itself only where f is zero.
    max_iter : int
        Largest number of steps; with 0 the result is the start.
    acceleration : bool
        Evaluate at Nesterov's extrapolation of the last two points, retracted to the set. If that does not raise the
        objective by more than tol, take the plain step instead and reset the momentum, so that the values never fall.
    callback : callable, optional
        Called with an `AscentState` after each step; a true return value stops the ascent.
    step : callable, optional
        ``step(gradient, point)`` returns the next point, whose objective must be no lower than at the linear maximiser
        of the set. By default the next point is that maximiser.

    Returns
    -------
    AscentResult
        The last point with its value, the number of steps, and why the ascent stopped.

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
    point, history, momentum = start, [value], Momentum()
    status = AscentStatus.MAX_ITER
    for n_iter in range(1, max_iter + 1):
        plain = feasible_set.argmax_linear(gradient) if step is None else step(gradient, point)
        target = momentum.extrapolate(feasible_set, plain) if acceleration else plain
        new_value, new_gradient = objective.value_and_gradient(target)
        if target is not plain and new_value - value <= tol * abs(value):
            momentum, target = Momentum(plain), plain
            new_value, new_gradient = objective.value_and_gradient(target)
        growth, previous = new_value - value, value
        max_decrease = max(MAX_RELATIVE_DECREASE * abs(previous), feasible_set.objective_tolerance)
        if not growth >= -max_decrease:
            raise ValueError(_format_decrease_error(n_iter, previous, new_value))
        point, value, gradient = target, new_value, new_gradient
        history.append(max(value, history[-1]))  # a plain step decreases f by rounding only
        stop = callback is not None and callback(AscentState(n_iter, value, point, gradient, feasible_set, history[0]))
        if growth <= tol * abs(previous):
            status = AscentStatus.CONVERGED
            break
        if stop:
            status = AscentStatus.CALLBACK
            break
    last = AscentState(len(history) - 1, value, point, gradient, feasible_set, history[0])
    return AscentResult(last, status, np.asarray(history))


def select_best_result(results: Sequence[AscentResult]) -> AscentResult:
    """Return the ascent with the largest value, the first of those equal up to rounding; there must be at least one."""
    return results[stable_argmax(np.array([result.value for result in results]))]


class Trace:
    """A callback that records the value, the gap, the passes over the matrix and the seconds of every step.

    If several ascents (components, starts) use one trace, the arrays describe the last ascent; `ascents` has them all.

    Attributes
    ----------
    values, gaps, passes, seconds : ndarray of shape (n_iter + 1,)
        Figures of the start and of each step of the last ascent. At the start only the value is known, the others are
        NaN. Passes over the matrix, and time, spent on the gap are not counted.
    ascents : list of list of tuple
        The tuples (value, gap, passes, seconds) of the start and of each step, for every ascent.

    Examples
    --------
    >>> from gpower import GPower, Solver
    >>> from gpower.solvers.ascent import Trace
    >>> from gpower.datasets import load_pitprops
    >>> trace = Trace()
    >>> solver = Solver(init="largest_norm", callback=trace)
    >>> model = GPower(1, gamma=0.1, covariance="precomputed", solver=solver)
    >>> model = model.fit(load_pitprops().correlation)
    >>> bool(trace.values[-1] == model.objective_[0])
    True
    """

    def __init__(self) -> None:
        self.ascents: list[list[tuple[float, float, float, float]]] = []
        self.start_time = time.perf_counter()
        self.own_passes = 0.0

    def __call__(self, state: AscentState) -> bool:
        """Record a step and return False: the ascent goes on.

        A state with `n_iter` 1 begins a new ascent. The gap is computed here, by a product with the matrix; the passes
        and the time that it takes are subtracted from those recorded.
        """
        if state.n_iter == 1:
            self.ascents.append([(state.start_value, math.nan, math.nan, math.nan)])
        passes = state.feasible_set.passes - self.own_passes
        seconds = time.perf_counter() - self.start_time
        gap = state.gap
        self.own_passes += state.feasible_set.passes - self.own_passes - passes
        self.start_time += time.perf_counter() - self.start_time - seconds
        self.ascents[-1].append((state.value, gap, passes, seconds))
        return False

    def _get_column(self, i: int) -> np.ndarray:
        """Return entry i of the tuples of the last ascent, (n_iter + 1,) in float64; empty before the first ascent."""
        return np.array([step[i] for step in self.ascents[-1]]) if self.ascents else np.zeros(0)

    @property
    def values(self) -> np.ndarray:
        """Return the objective at the start and after each step of the last ascent."""
        return self._get_column(0)

    @property
    def gaps(self) -> np.ndarray:
        """Return the first-order measures Δ of the last ascent."""
        return self._get_column(1)

    @property
    def passes(self) -> np.ndarray:
        """Return the number of passes over the matrix until each step of the last ascent."""
        return self._get_column(2)

    @property
    def seconds(self) -> np.ndarray:
        """Return the seconds from the creation of the trace to each step of the last ascent."""
        return self._get_column(3)


def _format_decrease_error(n_iter: int, before: float, after: float) -> str:
    """Return the message for step `n_iter`, which lowered the objective from `before` to `after`."""
    return (
        f"Step {n_iter} took the objective from {before:.6g} to {after:.6g}, which cannot happen for a convex "
        "objective and a start in the set: check that the start lies in the set, that the objective is convex, and its "
        "gradient."
    )


def compute_gap(feasible_set: FeasibleSet, gradient: Any, point: Any) -> float:
    """Compute Δ(x) = max ⟨f′(x), y − x⟩ over the set; negative values, which are rounding, become 0.

    `gradient` is the second result of `value_and_gradient(point)`, in the form that the set pairs with its points.
    """
    return max(feasible_set.support_value(gradient) - feasible_set.pairing(gradient, point), 0.0)


class Momentum:
    """Nesterov's extrapolation with weights b = 0, 0.28, 0.43, … of successive steps.

    `last_step` is the point that the last plain step led to, None before the first; a new object restarts the weights.
    """

    def __init__(self, last_step: Any = None) -> None:
        self.last_step = last_step
        self.t = 1.0

    def extrapolate(self, feasible_set: FeasibleSet, step: Any) -> Any:
        """Return the point of the set near step + b(step − last step), and remember the step.

        `step` is the point that a plain step leads to. It is returned itself, the same object, if there is no last step
        or b = 0: the caller tells by identity whether the point was extrapolated.
        """
        t = (1 + math.sqrt(1 + 4 * self.t**2)) / 2
        b = (self.t - 1) / t
        last = self.last_step
        self.last_step, self.t = step, t
        return step if last is None or b == 0 else feasible_set.extrapolate(step, last, b)
