"""The picture of an ascent shows its numbers; the picture of the geometry is the theorem, drawn."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpower import GPower, maximize
from gpower.ascent import Trace
from gpower.datasets import gaussian
from gpower.feasible_sets import Sphere
from gpower.plotting import plot_convergence, plot_geometry

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


VALUES, GAPS, PASSES = np.array([1.0, 2.0, 2.5]), np.array([1.0, 0.1, 0.01]), np.array([1.0, 3.0, 5.0])


def trace(values=VALUES, gaps=GAPS, passes=PASSES):
    return SimpleNamespace(values=values, gaps=gaps, passes=passes)


def drawn(panel):
    return panel.lines[0].get_xydata()


def test_values_and_gaps_against_iterations_and_passes():
    panels = plot_convergence(trace())
    assert panels.shape == (2, 2)
    for column, steps in enumerate(([0, 1, 2], PASSES)):
        np.testing.assert_array_equal(drawn(panels[0, column]), np.column_stack([steps, VALUES]))
        np.testing.assert_array_equal(drawn(panels[1, column]), np.column_stack([steps, GAPS]))
    assert {panel.get_yscale() for panel in panels[1]} == {"log"}
    assert [panel.get_xlabel() for panel in panels[1]] == ["iteration", "passes over the matrix"]


def test_unknown_passes_leave_their_panels_out():
    panels = plot_convergence(trace(passes=np.full(3, np.nan)))
    assert panels.shape == (2, 1)
    assert panels[1, 0].get_xlabel() == "iteration"


def test_a_gap_of_zero_has_no_logarithm_and_is_counted():
    panels = plot_convergence(trace(gaps=np.array([1.0, 0.1, 0.0])))
    np.testing.assert_array_equal(drawn(panels[1, 0])[:, 1], [1.0, 0.1, np.nan])
    assert [text.get_text() for text in panels[1, 0].texts] == ["1 × Δ = 0, not shown"]
    nothing = plot_convergence(trace(gaps=np.zeros(3)))[1, 0]
    assert [text.get_text() for text in nothing.texts] == ["Δ = 0 throughout"]


def test_the_result_of_an_ascent():
    class Quadratic:
        def value_and_gradient(self, x):
            g = np.diag([3.0, 1.0]) @ x
            return 0.5 * x @ g, g

    result = maximize(Quadratic(), Sphere(), np.array([0.6, 0.8]), tol=1e-10)
    panels = plot_convergence(result)
    assert panels.shape == (1, 1)
    np.testing.assert_array_equal(drawn(panels[0, 0])[:, 1], result.history)


def test_the_trace_of_a_fit():
    X, seen, recorded = gaussian(20, 30, random_state=0), [], Trace()

    def both(state):
        recorded(state)
        seen.append(state.value)

    options = {"gamma": 0.2, "penalty": "l1", "solver": "direct", "acceleration": False}
    model = GPower(1, callback=both, **options).fit(X)
    panels = plot_convergence(recorded)
    assert panels.shape == (2, 2)
    np.testing.assert_array_equal(drawn(panels[0, 0])[1:, 1], seen)
    assert recorded.gaps[-1] == model.optimality_gap_[0]
    assert recorded.values.size == model.n_iter_[0] + 1
    assert recorded.values[0] <= recorded.values[1]
    assert np.isnan([recorded.gaps[0], recorded.passes[0], recorded.seconds[0]]).all()
    steps = np.diff(recorded.passes[1:])  # AᵀX and A T, or a few columns of it; the gap's own reads are left out
    assert steps.size > 10
    assert np.all((steps > 1) & (steps <= 2 + 1e-9))
    assert recorded.passes[-1] <= GPower(1, **options).fit(X).n_passes_ < model.n_passes_
    assert np.all(np.diff(recorded.seconds[1:]) >= 0)


def test_a_trace_holds_every_ascent_and_shows_the_last():
    recorded = Trace()
    assert recorded.values.size == 0
    model = GPower(3, gamma=0.1, callback=recorded).fit(gaussian(20, 30, random_state=0))
    assert len(recorded.ascents) == 3
    assert [len(steps) - 1 for steps in recorded.ascents] == model.n_iter_.tolist()
    assert recorded.values[-1] == model.objective_[-1]


def test_draws_on_the_users_axes():
    _, mine = plt.subplots(4)
    assert list(plot_convergence(trace(), axes=mine).ravel()) == list(mine)
    with pytest.raises(ValueError, match=r"axes has 4 entries, but this trace has 2 panels \(2 × 1\)"):
        plot_convergence(trace(passes=np.full(3, np.nan)), axes=mine)


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="The trace has 3 values but 2 gaps"):
        plot_convergence(trace(gaps=GAPS[:2]))


# --- the polytope ---

PLANE = np.array([[2.0, 1.0, -0.3, 0.5, 1.7], [0.5, 1.2, 1.0, -0.6, 0.9]])


def objective(A, x, gamma, penalty):
    """[JNRS10], the boxed problems of sections 2.1 and 2.2."""
    c = np.abs(A.T @ x)
    terms = np.maximum(c - gamma, 0) ** 2 if penalty == "l1" else np.maximum(c**2 - gamma, 0)
    return terms.sum(axis=0)


def best_on_circle(A, gamma, penalty):
    angles = np.linspace(0, np.pi, 20001)
    circle = np.array([np.cos(angles), np.sin(angles)])
    return circle[:, np.argmax(objective(A, circle, gamma, penalty))]


def step(A, x, gamma, penalty):
    """[JNRS10], Algorithms 2 and 3: the next point of the ascent."""
    c = A.T @ x
    t = np.sign(c) * np.maximum(np.abs(c) - gamma, 0) if penalty == "l1" else np.where(c**2 > gamma, c, 0)
    return A @ t / np.linalg.norm(A @ t)


def segment_end(axes):
    line = next(line for line in axes.lines if line.get_label().startswith("from the origin"))
    start, end = line.get_xydata()
    np.testing.assert_array_equal(start, 0)
    return end


def crossings(axes):
    return np.array([line.get_xydata()[0] for line in axes.lines if line.get_marker() == "D"]).reshape(-1, 2)


@pytest.mark.parametrize(("penalty", "gamma"), [("l1", 1.0), ("l1", 0.3), ("l0", 0.4), ("l0", 2.0)])
def test_the_segment_points_at_the_maximiser_on_the_circle(penalty, gamma):
    end = segment_end(plot_geometry(PLANE, gamma, penalty))
    level = gamma if penalty == "l1" else np.sqrt(gamma)
    np.testing.assert_allclose(np.linalg.norm(end), 1 / level)
    best = best_on_circle(PLANE, gamma, penalty)
    assert objective(PLANE, end * level, gamma, penalty) >= objective(PLANE, best, gamma, penalty) - 1e-9
    np.testing.assert_allclose(np.abs(end @ best) * level, 1, atol=1e-6)


@pytest.mark.parametrize("penalty", ["l1", "l0"])
@given(
    columns=st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=6), share=st.floats(0.05, 0.9)
)
@settings(max_examples=15, deadline=None)
def test_the_segment_crosses_the_lines_of_the_active_variables_only(penalty, columns, share):
    A = np.array(columns).T
    norms = np.linalg.norm(A, axis=0)
    assume(norms.min() > 0.01)  # a column of zeros makes GPower warn
    assume(np.linalg.svd(A, compute_uv=False)[1] > 0.1)
    gamma = share * norms.max() ** (1 if penalty == "l1" else 2)
    axes = plot_geometry(A, gamma, penalty)
    end = segment_end(axes)
    x = end / np.linalg.norm(end)
    np.testing.assert_allclose(step(A, x, gamma, penalty), x, atol=1e-5)  # the ascent rests there
    heights = np.abs(A.T @ end)
    points = crossings(axes)
    assert len(points) == np.count_nonzero(heights > 1)
    for point in points:
        assert np.isclose(np.abs(A.T @ point), 1).any()
        np.testing.assert_allclose(point[0] * end[1], point[1] * end[0], atol=1e-9)
        assert np.linalg.norm(point) <= np.linalg.norm(end)
    corners = axes.patches[0].get_xy()
    reached = np.abs(corners @ A)
    np.testing.assert_allclose(reached.max(axis=1), 1)
    plt.close(axes.figure)


def test_every_corner_lies_on_two_lines():
    corners = plot_geometry(PLANE, 1.0).patches[0].get_xy()[:-1]
    tight = np.isclose(np.abs(corners @ PLANE), 1)
    assert np.all(tight.sum(axis=1) == 2)
    (x, y), (u, v) = np.diff(corners, axis=0)[:-1].T, np.diff(corners, axis=0)[1:].T
    assert np.all(x * v - y * u > 0)  # turns left throughout: convex, and in order


def test_a_larger_gamma_leaves_fewer_active():
    counts = []
    for gamma in (0.02, 1.0, 2.0):
        x = best_on_circle(PLANE, gamma, "l1")
        counts.append(np.count_nonzero(np.abs(PLANE.T @ x) > gamma))
        title = plot_geometry(PLANE, gamma).get_legend().get_title().get_text()
        assert title == f"γ = {gamma:g}: {counts[-1]} of 5 variables active"
    assert counts[0] > counts[1] > counts[2] > 0


def test_the_active_are_named():
    axes = plot_geometry(PLANE, 1.0, feature_names=list("abcde"))
    assert {text.get_text() for text in axes.texts} == {"a", "b", "e", r"$x^*/\gamma$"}


@pytest.mark.parametrize(
    ("X", "gamma", "penalty", "message"),
    [
        (PLANE, 5.0, "l1", r"gamma=5.0: it is absolute here, above 0 and below the largest ‖aᵢ‖, 2.062"),
        (PLANE, 0.0, "l0", r"below the largest ‖aᵢ‖², 4.25"),
        (PLANE, 1.0, "l2", "penalty='l2': give 'l1' or 'l0'"),
        (np.ones((3, 4)), 1.0, "l1", r"X has the shape \(3, 4\): the picture is of two samples"),
        (np.ones((2, 4)), 1.0, "l1", "multiples of one another"),
        (np.full((2, 2), np.nan), 1.0, "l1", "NaN or infinity"),
    ],
)
def test_what_has_no_picture(X, gamma, penalty, message):
    with pytest.raises(ValueError, match=message):
        plot_geometry(X, gamma, penalty)
