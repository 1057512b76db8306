"""The figure of the geometry draws the theorem."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from experiments.journee2010.geometry import PLANE, plot_geometry, run  # noqa: E402
from experiments.journee2010.study import Study  # noqa: E402


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
def test_the_segment_crosses_the_lines_of_the_active_variables_only(penalty, columns, share):
    A = np.array(columns).T
    norms = np.linalg.norm(A, axis=0)
    assume(norms.min() > 0.01)  # a column of zeros makes GPower warn
    assume(np.linalg.svd(A, compute_uv=False)[1] > 0.1)
    gamma = share * norms.max() ** (1 if penalty == "l1" else 2)
    axes = plot_geometry(A, gamma, penalty)
    end = segment_end(axes)
    x = end / np.linalg.norm(end)
    np.testing.assert_allclose(step(A, x, gamma, penalty), x, atol=1e-5)  # a fixed point of the ascent
    points = crossings(axes)
    assert len(points) == np.count_nonzero(np.abs(A.T @ end) > 1)
    for point in points:
        assert np.isclose(np.abs(A.T @ point), 1).any()
        np.testing.assert_allclose(point[0] * end[1], point[1] * end[0], atol=1e-9)
        assert np.linalg.norm(point) <= np.linalg.norm(end)
    np.testing.assert_allclose(np.abs(axes.patches[0].get_xy() @ A).max(axis=1), 1)
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
def test_geometry_that_cannot_be_drawn(X, gamma, penalty, message):
    with pytest.raises(ValueError, match=message):
        plot_geometry(X, gamma, penalty)


def test_the_part_of_the_study_draws_both_penalties(tmp_path):
    run(Study(False, tmp_path, "this machine"))
    assert {path.name for path in tmp_path.iterdir()} == {"geometry.png", "geometry.pdf"}
