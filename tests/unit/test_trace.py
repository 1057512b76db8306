"""A trace records the values, the gaps and the passes of every ascent of a fit."""

import numpy as np
from sklearn.base import clone

from gpower import GPower, Solver
from gpower.datasets import gaussian
from gpower.solvers.ascent import Trace


def test_a_trace_has_the_values_gaps_and_passes_of_a_fit():
    X, seen, recorded = gaussian(20, 30, random_state=0), [], Trace()

    def both(state):
        recorded(state)
        seen.append(state.value)

    unwatched = GPower(1, gamma=0.2, penalty="l1", solver=Solver("full", "largest_norm", acceleration=False))
    model = clone(unwatched).set_params(solver__callback=both).fit(X)
    np.testing.assert_array_equal(recorded.values[1:], seen)
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
