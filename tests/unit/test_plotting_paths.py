"""Figures of paths, cross-validation and stability draw the numbers of these objects."""

import itertools
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpower.datasets import load_pitprops, load_planted_expression
from gpower.model_selection import GPowerCV, sparsity_path, stability_selection
from gpower.plotting import plot_cv, plot_stability, plot_tradeoff


@pytest.fixture(scope="module")
def path():
    return sparsity_path(load_pitprops().correlation, covariance="precomputed", n_components=3)


@pytest.fixture(scope="module")
def planted():
    return load_planted_expression()


def tradeoff_of(cardinality, explained, pca):
    """Return an object with the attributes of a path that the trade-off shows."""
    ratios = {"explained_variance_ratio": np.array(explained), "pca_variance_ratio": np.array(pca)}
    return SimpleNamespace(cardinality=np.array(cardinality), **ratios)


def labelled(axes):
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    return {label: points for label, points in lines.items() if label.startswith("component")}


def lines_of_pca(axes):
    return [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# --- the trade-off ---


def test_curves_cumulate_and_end_on_the_line_of_pca(path):
    axes = plot_tradeoff(path)
    reference = 100 * np.cumsum(path.pca_variance_ratio) / path.pca_variance_ratio.sum()
    np.testing.assert_allclose([line.get_ydata()[0] for line in lines_of_pca(axes)], reference)
    first, both, last = labelled(axes).values()
    np.testing.assert_allclose(last, np.column_stack([path.grid, 100 * path.share_of_pca]))
    assert np.all(both[:, 1] > first[:, 1])
    np.testing.assert_allclose(first[-1, 1], reference[0])  # all variables: PCA itself
    assert legend(axes)[-1] == "PCA, as many components"
    axes.figure.draw_without_rendering()
    (second,) = axes.child_axes
    np.testing.assert_allclose(second.get_ylim(), np.array(axes.get_ylim()) * path.pca_variance_ratio.sum())
    assert second.get_ylabel() == "% of the total variance"


def test_components_of_different_cardinality_are_drawn_at_their_mean():
    stand_in = tradeoff_of([[2, 4], [10, 30]], [[0.2, 0.1], [0.4, 0.2]], [0.5, 0.3])
    curves = labelled(plot_tradeoff(stand_in))
    np.testing.assert_allclose(curves["component 1"], [[2, 25], [10, 50]])
    np.testing.assert_allclose(curves["components 1 to 2"], [[3, 37.5], [20, 75]])


def test_points_without_a_loading_are_left_out():
    stand_in = tradeoff_of([[0], [3]], [[0.0], [0.4]], [0.5])
    axes = plot_tradeoff(stand_in)
    np.testing.assert_array_equal(labelled(axes)["component 1"][:, 0], [np.nan, 3])
    (reference,) = lines_of_pca(axes)
    assert legend(axes)[-1] == "PCA"
    assert axes.get_legend().get_lines()[-1].get_color() == reference.get_color()
    stand_in.cardinality = np.zeros((2, 1))
    with pytest.raises(ValueError, match="All loadings are zero"):
        plot_tradeoff(stand_in)
    stand_in.pca_variance_ratio = np.zeros(1)
    with pytest.raises(ValueError, match="no variance"):
        plot_tradeoff(stand_in)


@pytest.mark.parametrize(
    ("cardinality", "labels"),
    [
        ([*range(1, 14)], ["1", "2", "5", "10"]),
        ([4], ["4"]),
        ([*range(6, 22)], ["6", "9", "12", "15", "18", "21"]),
        ([1, 2, 1000, 1100], ["1", "3", "10", "30", "100", "300", "1,000"]),
        ([1, *range(100, 200_000, 1000)], ["1", "10", "100", "1,000", "10,000", "100,000"]),
    ],
)
def test_ticks_are_plain_numbers_that_do_not_collide(cardinality, labels):
    axes = plot_tradeoff(tradeoff_of([[count] for count in cardinality], [[0.1]] * len(cardinality), [0.5]))
    low, high = axes.get_xlim()
    assert low < cardinality[0] <= cardinality[-1] < high
    axes.figure.draw_without_rendering()
    ticks = {label: place for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)}
    shown = [label for label, place in ticks.items() if low <= place <= high]
    assert [label.get_text() for label in shown] == labels
    assert [ticks[label] for label in shown] == [float(label.replace(",", "")) for label in labels]
    boxes = [label.get_window_extent() for label in shown]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


# --- cross-validation ---


@pytest.fixture(scope="module")
def cv(planted):
    return GPowerCV(2, cardinalities=[4, 6, 8, 12], cv=4).fit(planted.X)


def test_scores_with_the_standard_error_of_the_folds(cv):
    axes = plot_cv(cv, criterion="prediction")
    scores = 100 * np.array([cv.cv_results_[f"split{i}_test_score"] for i in range(4)])  # (4 folds, 2 · 4 points)
    error = scores.std(axis=0, ddof=1) / 2
    for j, container in enumerate(axes.containers):
        rows = slice(4 * j, 4 * j + 4)
        curve, _, (bars,) = container.lines
        np.testing.assert_allclose(curve.get_xydata(), np.column_stack([[4, 6, 8, 12], scores.mean(axis=0)[rows]]))
        ends = np.array(bars.get_segments())[:, :, 1]
        np.testing.assert_allclose(ends.T, scores.mean(axis=0)[rows] + [-error[rows], error[rows]])


def test_the_curve_is_that_of_the_criterion_with_the_choice_and_the_range_that_would_do(cv):
    axes = plot_cv(cv)
    assert "paired differences between folds" in axes.get_legend().get_title().get_text()
    rings = [line for line in axes.lines if line.get_markersize() == 12]
    assert [ring.get_xdata()[0] for ring in rings] == list(cv.cardinality_) == [8, 6]
    assert [text.partition(" (")[0] for text in legend(axes)] == ["component 1: 8", "component 2: 6"]
    assert axes.get_ylabel() == "% of held-out variance × share of unused variables"
    ranges = [line for line in axes.lines if line.get_linewidth() == 6]
    for j, container in enumerate(axes.containers):
        rows = slice(4 * j, 4 * j + 4)
        np.testing.assert_allclose(container.lines[0].get_ydata(), 100 * cv.cv_results_["mean_sparseness"][rows])
        assert rings[j].get_xydata()[0] in container.lines[0].get_xydata()
        assert [*ranges[j].get_xdata()[[0, -1]]] == cv.cardinality_range_[j].tolist()
    assert plot_cv(cv, criterion="prediction").get_ylabel() == "% of held-out variance, mean ± 1 s.e."
    with pytest.raises(ValueError, match="criterion='auto' is not known; use one of 'prediction', 'sparseness'"):
        plot_cv(cv, criterion="auto")


def test_a_joint_search_has_one_curve():
    stand_in = SimpleNamespace(
        cv_results_={
            "param_component": np.array([-1, -1, -1]),
            "param_cardinality": np.array([9, 3, 5]),
            "mean_test_score": np.array([0.4, 0.2, 0.5]),
            "std_test_score": np.array([0.0, 0.1, 0.0]),
        },
        cardinality_=np.array([5, 5]),
        n_splits_=1,
        criterion="prediction",
        cardinality_range_=np.array([[3, 9], [3, 9]]),
    )
    axes = plot_cv(stand_in)
    (container,) = axes.containers
    np.testing.assert_allclose(container.lines[0].get_xydata(), [[3, 20], [5, 50], [9, 40]])
    assert legend(axes) == ["all components: 5 (or 3 to 9)"]


# --- stability ---


def test_frequencies_are_sorted_and_the_selected_marked():
    frequency = np.array([[0.0, 0.9, 0.3, 1.0], [0.8, 0.0, 0.0, 0.1], [0, 0, 0.7, 0], [1, 1, 1, 1]])
    stand_in = SimpleNamespace(
        frequency=frequency,
        threshold=0.8,
        selected=frequency >= 0.8,
        expected_false_selections=np.array([0.5, 1.25, 0.077, 3.2]),
        feature_names=np.array(list("abcd")),
    )
    first, second, third, fourth = plot_stability(stand_in)
    assert [bar.get_width() for bar in first.patches] == [1.0, 0.9, 0.3]
    assert [label.get_text() for label in first.get_yticklabels()] == ["d", "b", "c"]
    faces = [bar.get_facecolor() for bar in first.patches]
    assert faces[0] == faces[1] != faces[2] == (1.0, 1.0, 1.0, 1.0)
    assert [label.get_color() for label in first.get_yticklabels()] == ["black", "black", "0.5"]
    (threshold,) = first.lines
    assert threshold.get_xdata()[0] == 0.8
    assert [panel.get_title(loc="left").replace("\n", ", ") for panel in (first, second, third, fourth)] == [
        "Component 1 · 2 variables selected, at most 0.5 expected by chance",
        "Component 2 · 1 variable selected, all of them may be chance",
        "Component 3 · no variable selected, none is in 80 % of the subsamples",
        "Component 4 · 4 variables selected, up to 3.2 of them may be chance",
    ]
    colours = [panel.patches[0].get_facecolor() for panel in (first, second, fourth)]
    assert colours[0] != colours[1] == colours[2]
    (legend,) = first.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "selected; at most a third may be chance",
        "selected, but more than a third may be chance",
        "not selected",
    ]


def test_stability_of_the_planted_modules_and_the_objects_own_plots(path, planted):
    again = stability_selection(planted.X, n_components=1, cardinality=8, n_subsamples=5)
    (axes,) = plot_stability(again, planted.feature_names, max_variables=4)
    assert {label.get_text() for label in axes.get_yticklabels()} <= set(planted.modules["GROWTH"])
    assert [text.get_text() for text in axes.texts] == ["the 4 largest of 8"]
    assert len(again.plot()[0].patches) == len(plot_stability(again)[0].patches) > 0
    _, mine = plt.subplots()
    assert path.plot(axes=mine) is mine
    assert mine.get_ylabel() == plot_tradeoff(path).get_ylabel()
