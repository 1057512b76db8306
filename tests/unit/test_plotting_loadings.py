"""Bars of loadings and scatters of scores show the model's numbers, with the model's names."""

import itertools
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp

from gpower import GPower
from gpower.datasets import load_planted_expression
from gpower.plotting import plot_loadings, plot_scores


@pytest.fixture(scope="module")
def data():
    return load_planted_expression()


@pytest.fixture(scope="module")
def fitted(data):
    return GPower(3, cardinality=[8, 6, 5]).fit(data.X)


def model_of(components):
    components = np.asarray(components, float)
    return SimpleNamespace(components_=components, explained_variance_ratio_=np.linspace(0.4, 0.1, len(components)))


def test_positive_loadings_are_red_and_negative_ones_blue():
    positive, negative = (bar.get_facecolor() for bar in plot_loadings(model_of([[0.6, -0.2]]))[0].patches)
    assert positive[0] > positive[2]
    assert negative[2] > negative[0]


def test_ticks_below_narrow_bars_do_not_collide():
    figure, axes = plt.subplots(1, 3, figsize=(4, 2), layout="constrained")
    plot_loadings(model_of([[1.0, 0.0], [0.6, -0.8], [0.8, 0.6]]), axes=axes)
    figure.draw_without_rendering()
    for panel in axes:
        boxes = [label.get_window_extent() for label in panel.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_points_are_the_scores(fitted, data):
    axes = plot_scores(fitted, data.X, components=(2, 0))
    np.testing.assert_array_equal(axes.collections[0].get_offsets(), fitted.transform(data.X)[:, [2, 0]])
    share = 100 * fitted.explained_variance_ratio_[2]
    assert axes.get_xlabel() == f"Component 3 · {share:.3g} % of variance"
    assert axes.get_legend() is None
    offsets = plot_scores(fitted, sp.csr_array(data.X)).collections[0].get_offsets()
    np.testing.assert_allclose(offsets, fitted.transform(data.X)[:, :2], atol=1e-10)


def test_groups_differ_in_colour_and_in_marker(fitted, data):
    labels = np.array(["b", "a", "c"])[np.arange(len(data.X)) % 3]
    first = [1, 0, 2]  # sample of each group; groups are sorted
    axes = plot_scores(fitted, data.X, color=labels)
    scores = fitted.transform(data.X)[:, :2]
    for i, points in zip(first, axes.collections, strict=True):
        np.testing.assert_array_equal(points.get_offsets(), scores[i::3])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]
    assert len({tuple(points.get_facecolor()[0]) for points in axes.collections}) == 3
    assert len({points.get_paths()[0].vertices.tobytes() for points in axes.collections}) == 3


def test_draws_on_the_users_axes(fitted, data):
    _, mine = plt.subplots()
    assert plot_scores(fitted, data.X, axes=mine) is mine


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"components": pair}, "give two different ones of the model's 3, counted from 0")
            for pair in [(0, 0), (0, 3), (-1, 0), (0, 1, 2)]
        ),
        ({"axes": [None, None]}, "axes has 2 entries, but this figure has one panel"),
        ({"color": ["a", "b"]}, "color has 2 entries, but X has 60 samples"),
        ({"color": [f"patient {i}" for i in range(60)]}, "different values, too many to distinguish: give at most 24"),
    ],
)
def test_components_axes_and_labels_that_do_not_fit_are_refused(fitted, data, options, message):
    with pytest.raises(ValueError, match=message):
        plot_scores(fitted, data.X, **options)


def test_a_single_component_has_no_scatter(data):
    with pytest.raises(ValueError, match="fit one with n_components=2 or more"):
        plot_scores(GPower(1, cardinality=3).fit(data.X), data.X)


def test_titles_of_many_components_stay_within_the_figure():
    components = np.eye(12, 20) * 0.8 + np.eye(12, 20, 8) * 0.6
    model = SimpleNamespace(components_=components, explained_variance_ratio_=np.full(12, 0.000912))
    axes = plot_loadings(model)
    figure = axes[0].figure
    figure.draw_without_rendering()
    assert {panel.get_title(loc="left") for panel in axes} >= {"Component 12 · 0.0912 % of variance"}
    for panel in axes:
        title = next(text for text in panel.get_children() if getattr(text, "get_text", str)().startswith("Component"))
        assert title.get_window_extent().x1 < figure.bbox.x1 - 0.05 * figure.dpi
    assert figure.get_figwidth() <= 10.5
