"""Bars of loadings: numbers, names, titles, axes and layout; and saved files of any figure."""

import itertools
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpower._utils.warnings import GPowerWarning
from gpower.plotting import plot_loadings, prepare_figure_path, save_figure

NAMES = ["a", "b", "c", "d"]
ODD = ["cost_in_$x_per_$y", "two\nlines", "_hidden", "long" * 20]


def model_of(components):
    components = np.asarray(components, float)
    return SimpleNamespace(
        components_=components, explained_variance_ratio_=np.linspace(0.31416, 0.125, len(components))
    )


@pytest.fixture
def model():
    return model_of([[0.48, 0.0, -0.64, 0.6], [0.0, 1.0, 0.0, 0.0]])


def bars(axes):
    return [bar.get_width() for bar in axes.patches]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_the_loadings_with_the_largest_on_top(model):
    first, second = plot_loadings(model, NAMES)
    assert (bars(first), labels(first)) == ([-0.64, 0.6, 0.48], ["c", "d", "a"])
    assert (bars(second), labels(second)) == ([1.0], ["b"])
    negative, positive, other = (bar.get_facecolor() for bar in first.patches)
    assert positive == other
    assert positive[0] > positive[2]  # red
    assert negative[2] > negative[0]  # blue
    titles = [axes.get_title(loc="left") for axes in (first, second)]
    assert titles == ["Component 1 · 31.4 % of variance", "Component 2 · 12.5 % of variance"]
    for axes in (first, second):
        assert axes.get_xlim() == pytest.approx((-1.08, 1.08))  # the largest loading of all
        edges = [edge for bar in axes.patches for edge in (bar.get_y(), bar.get_y() + bar.get_height())]
        bottom, top = axes.get_ylim()
        assert [top, *edges, bottom] == sorted([top, *edges, bottom])


def shown_characters(text):
    """Return the characters that matplotlib draws of a text, without mathematics."""
    shown, is_math = text._preprocess_math(text.get_text())
    assert not is_math
    return shown


def test_names_are_the_given_ones_those_of_the_model_or_numbers(model):
    assert labels(plot_loadings(model)[0]) == ["x2", "x3", "x0"]
    model.feature_names_in_ = np.array(NAMES, dtype=object)
    assert labels(plot_loadings(model)[0]) == ["c", "d", "a"]
    panel = plot_loadings(model_of([[0.5, 0.5, 0.5, 0.5]]), ODD)[0]
    shown = [shown_characters(label) for label in panel.get_yticklabels()]
    assert shown == [ODD[0], "two↵lines", ODD[2], ODD[3][:59] + "…"]
    panel.figure.draw_without_rendering()
    assert min(label.get_window_extent().x0 for label in panel.get_yticklabels()) >= 0
    assert panel.get_window_extent().width > 100  # the names do not shrink the bars


def test_draws_on_the_users_axes(model):
    _, mine = plt.subplots(1, 2)
    before = plt.get_fignums()
    assert list(plot_loadings(model, NAMES, axes=mine)) == list(mine)
    assert plt.get_fignums() == before
    assert plot_loadings(model_of(np.eye(1, 4)), axes=mine[0])[0] is mine[0]
    with pytest.raises(ValueError, match="axes has 3 entries, but the model has 2 components"):
        plot_loadings(model, axes=plt.subplots(1, 3)[1])
    with pytest.raises(ValueError, match="feature_names has 2 entries, but the model has 4 variables"):
        plot_loadings(model, ["a", "b"])


@pytest.mark.parametrize(
    ("loadings", "drawn", "note"),
    [
        (np.linspace(1, 2, 60), np.linspace(2, 1, 60)[:40], "the 40 largest of 60"),
        (np.zeros(3), [], "no active variable"),
    ],
)
def test_too_many_or_no_variables_have_a_note(loadings, drawn, note):
    axes = plot_loadings(model_of([loadings]))[0]
    np.testing.assert_allclose(bars(axes), drawn)
    assert [text.get_text() for text in axes.texts] == [note]


def test_ticks_below_narrow_bars_do_not_collide():
    figure, axes = plt.subplots(1, 3, figsize=(4, 2), layout="constrained")
    plot_loadings(model_of([[1.0, 0.0], [0.6, -0.8], [0.8, 0.6]]), axes=axes)
    figure.draw_without_rendering()
    for panel in axes:
        boxes = [label.get_window_extent() for label in panel.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_panels_of_many_components_stay_within_the_figure():
    model = model_of(np.eye(11, 20) * 0.8 + np.eye(11, 20, 8) * 0.6)
    model.explained_variance_ratio_ = np.full(11, 0.000912)
    panels = plot_loadings(model)
    figure = panels[0].figure
    figure.draw_without_rendering()
    assert [panel for panel in figure.axes if panel.axison] == list(panels)  # no empty frame in the last row
    for panel in panels:
        title = next(text for text in panel.get_children() if getattr(text, "get_text", str)().startswith("Component"))
        assert title.get_window_extent().x1 < figure.bbox.x1 - 0.05 * figure.dpi
    assert figure.get_figwidth() <= 10.5


def test_the_missing_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_loadings(model)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_any_picture_is_saved_and_closed(model, tmp_path, suffix, start):
    path = tmp_path / "new" / f"picture{suffix}"
    save_figure(plot_loadings(model, NAMES), str(path))
    assert path.read_bytes().startswith(start)
    assert plt.get_fignums() == []


def test_files_of_unknown_formats_are_refused(model, tmp_path):
    for prepare in (prepare_figure_path, lambda path: save_figure(plot_loadings(model), path)):
        with pytest.raises(ValueError, match=r"p\.gif: a picture ends in \.png, \.pdf or \.svg\."):
            prepare(tmp_path / "p.gif")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "p.png").mkdir()
    with pytest.raises(ValueError, match="this is a folder"):
        prepare_figure_path(tmp_path / "p.png")


@pytest.mark.parametrize(
    ("fonts", "category", "message"),
    [
        (("Nowhere Sans",), GPowerWarning, "'基因'; the figure shows boxes. Install one, such as Nowhere Sans"),
        (("Nowhere Sans", "DejaVu Serif"), UserWarning, "Glyph"),  # as if that font had these characters
    ],
)
def test_far_scripts_are_drawn_in_a_font_that_is_installed(model, tmp_path, monkeypatch, fonts, category, message):
    monkeypatch.setattr("gpower.plotting.save.EAST_ASIAN_FONTS", fonts)
    panel = plot_loadings(model, ["基因", "b", "c", "d"])[0]
    with pytest.warns(category, match=message):
        save_figure(panel, tmp_path / "p.png")
    families = {label.get_text(): label.get_fontfamily() for label in panel.get_yticklabels()}
    assert (families["基因"][-1] == "DejaVu Serif") == ("DejaVu Serif" in fonts)
    assert "DejaVu Serif" not in families["d"]
