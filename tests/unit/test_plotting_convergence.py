"""The figure of an ascent shows its values and gaps."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

from gpower import GPower, Solver, maximize
from gpower.datasets import gaussian
from gpower.feasible_sets import Sphere
from gpower.plotting import plot_convergence
from gpower.solvers.ascent import Trace

VALUES, GAPS, PASSES = np.array([1.0, 2.0, 2.5]), np.array([1.0, 0.1, 0.01]), np.array([1.0, 3.0, 5.0])


def trace(values=VALUES, gaps=GAPS, passes=PASSES):
    return SimpleNamespace(values=values, gaps=gaps, passes=passes)


def line_data(panel):
    return panel.lines[0].get_xydata()


def test_values_and_gaps_against_iterations_and_passes():
    panels = plot_convergence(trace())
    assert panels.shape == (2, 2)
    for column, steps in enumerate(([0, 1, 2], PASSES)):
        np.testing.assert_array_equal(line_data(panels[0, column]), np.column_stack([steps, VALUES]))
        np.testing.assert_array_equal(line_data(panels[1, column]), np.column_stack([steps, GAPS]))
    assert {panel.get_yscale() for panel in panels[1]} == {"log"}
    assert [panel.get_xlabel() for panel in panels[1]] == ["iteration", "passes over the matrix"]


def test_a_gap_of_zero_has_no_logarithm_and_is_counted():
    panels = plot_convergence(trace(gaps=np.array([1.0, 0.1, 0.0])))
    np.testing.assert_array_equal(line_data(panels[1, 0])[:, 1], [1.0, 0.1, np.nan])
    assert [text.get_text() for text in panels[1, 0].texts] == ["not shown: 1 step with Δ = 0"]
    nothing = plot_convergence(trace(gaps=np.zeros(3)))[1, 0]
    assert [text.get_text() for text in nothing.texts] == ["Δ = 0 throughout"]


def test_the_values_of_an_ascent_are_drawn():
    class Quadratic:
        def value_and_gradient(self, x):
            g = np.diag([3.0, 1.0]) @ x
            return 0.5 * x @ g, g

    result = maximize(Quadratic(), Sphere(), np.array([0.6, 0.8]), tol=1e-10)
    panels = plot_convergence(result)
    assert panels.shape == (1, 1)
    np.testing.assert_array_equal(line_data(panels[0, 0])[:, 1], result.history)


def test_the_trace_of_a_fit_is_drawn():
    X, seen, recorded = gaussian(20, 30, random_state=0), [], Trace()

    def both(state):
        recorded(state)
        seen.append(state.value)

    unwatched = GPower(1, gamma=0.2, penalty="l1", solver=Solver("full", "largest_norm", acceleration=False))
    model = clone(unwatched).set_params(solver__callback=both).fit(X)
    panels = plot_convergence(recorded)
    assert panels.shape == (2, 2)
    np.testing.assert_array_equal(line_data(panels[0, 0])[1:, 1], seen)
    assert recorded.gaps[-1] == model.stationarity_gap_[0]
    assert recorded.values.size == model.n_iter_[0] + 1
    assert recorded.values[0] <= recorded.values[1]
    assert np.isnan([recorded.gaps[0], recorded.passes[0], recorded.seconds[0]]).all()
    steps = np.diff(recorded.passes[1:])  # AᵀX and A T, or a few columns of it; the gap's own reads are left out
    assert steps.size > 10
    assert np.all((steps > 1) & (steps <= 2 + 1e-9))
    assert recorded.passes[-1] <= unwatched.fit(X).n_passes_ < model.n_passes_
    assert np.all(np.diff(recorded.seconds[1:]) >= 0)


def test_a_trace_holds_every_ascent_and_shows_the_last():
    recorded = Trace()
    assert recorded.values.size == 0
    solver = Solver(init="largest_norm", callback=recorded)
    model = GPower(3, gamma=0.1, solver=solver).fit(gaussian(20, 30, random_state=0))
    assert len(recorded.ascents) == 3
    assert sorted(len(steps) - 1 for steps in recorded.ascents) == sorted(model.n_iter_.tolist())
    assert recorded.values[-1] in model.objective_


def test_draws_on_the_users_axes_and_leaves_unknown_passes_out():
    _, mine = plt.subplots(4)
    assert list(plot_convergence(trace(), axes=mine).ravel()) == list(mine)
    without_passes = plot_convergence(trace(passes=np.full(3, np.nan)))
    assert without_passes.shape == (2, 1)
    assert without_passes[1, 0].get_xlabel() == "iteration"
    with pytest.raises(ValueError, match=r"axes has 4 entries, but this trace has 2 panels \(2 × 1\)"):
        plot_convergence(trace(passes=np.full(3, np.nan)), axes=mine)
    with pytest.raises(ValueError, match="The trace has 3 values but 2 gaps"):
        plot_convergence(trace(gaps=GAPS[:2]))
