"""Bar charts of loadings: bars, labels, titles, axes and saved files."""

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpower._utils.warnings import GPowerWarning
from gpower.plotting import plot_loadings, plot_support, prepare_figure_path, save_figure

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def model():
    components = np.array([[0.48, 0.0, -0.64, 0.6], [0.0, 1.0, 0.0, 0.0]])
    return SimpleNamespace(components_=components, explained_variance_ratio_=np.array([0.314, 0.125]))


def bars(axes):
    return [bar.get_width() for bar in axes.patches]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_the_loadings_sorted_by_size(model):
    first, second = plot_loadings(model, NAMES)
    assert bars(first) == [-0.64, 0.6, 0.48]
    assert labels(first) == ["c", "d", "a"]
    assert bars(second) == [1.0]
    assert labels(second) == ["b"]


def test_the_largest_bar_is_on_top(model):
    axes = plot_loadings(model, NAMES)[0]
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert axes.patches[0].get_y() < axes.patches[1].get_y()


def test_the_sign_shows_in_colour_and_direction(model):
    negative, positive, other = plot_loadings(model, NAMES)[0].patches
    assert positive.get_facecolor() == other.get_facecolor() != negative.get_facecolor()
    assert negative.get_width() < 0 < positive.get_width()


def test_every_bar_is_inside_its_panel(model):
    for axes in plot_loadings(model, NAMES):
        left, right = axes.get_xlim()
        bottom, top = axes.get_ylim()
        for bar in axes.patches:
            assert left <= min(0, bar.get_width())
            assert max(0, bar.get_width()) <= right
            assert top < bar.get_y() < bar.get_y() + bar.get_height() < bottom


def test_all_panels_have_one_symmetric_scale(model):
    limits = {axes.get_xlim() for axes in plot_loadings(model, NAMES)}
    assert len(limits) == 1
    ((left, right),) = limits
    assert left == -right
    assert right > 1.0  # the largest loading of all


def test_the_title_gives_the_share_of_the_variance(model):
    titles = [axes.get_title(loc="left") for axes in plot_loadings(model)]
    assert titles == ["Component 1 · 31.4 % of variance", "Component 2 · 12.5 % of variance"]


def test_names_come_from_the_model_or_are_numbered(model):
    assert labels(plot_loadings(model)[0]) == ["x2", "x3", "x0"]
    model.feature_names_in_ = np.array(NAMES, dtype=object)
    assert labels(plot_loadings(model)[0]) == ["c", "d", "a"]


def test_long_names_are_shortened(model):
    label = labels(plot_loadings(model, ["a", "b" * 80, "c", "d"])[1])[0]
    assert len(label) == 60
    assert label.endswith("…")


def shown_characters(text):
    """Return the characters that matplotlib draws of a text, without mathematics."""
    shown, is_math = text._preprocess_math(text.get_text())
    assert not is_math
    return shown


ODD = [
    "cost_in_$x_per_$y",
    "two\nlines",
    "_hidden",
    "a name of sixty characters, as those of pathways of genes are"[:60],
]


def test_odd_names_are_drawn_as_they_are(model):
    model.components_ = np.array([[0.5, 0.5, 0.5, 0.5]])
    panel = plot_loadings(model, ODD)[0]
    assert [shown_characters(label) for label in panel.get_yticklabels()] == [ODD[0], "two↵lines", ODD[2], ODD[3]]
    panel.figure.draw_without_rendering()
    left = min(label.get_window_extent().x0 for label in panel.get_yticklabels())
    assert left >= 0
    assert panel.get_window_extent().width > 100  # the names do not shrink the bars


def test_draws_on_the_users_axes(model):
    _, mine = plt.subplots(1, 2)
    before = plt.get_fignums()
    assert list(plot_loadings(model, NAMES, axes=mine)) == list(mine)
    assert plt.get_fignums() == before
    assert bars(mine[0]) == [-0.64, 0.6, 0.48]


def test_one_component_takes_a_single_axes(model):
    model.components_ = model.components_[:1]
    _, mine = plt.subplots()
    assert plot_loadings(model, axes=mine)[0] is mine


def test_only_the_largest_of_many_are_drawn_with_a_note():
    loadings = np.linspace(1, 2, 60)
    model = SimpleNamespace(components_=loadings[None], explained_variance_ratio_=[0.5])
    axes = plot_loadings(model)[0]
    np.testing.assert_array_equal(bars(axes), loadings[::-1][:40])
    assert [text.get_text() for text in axes.texts] == ["the 40 largest of 60"]


def test_an_all_zero_component_has_a_note():
    model = SimpleNamespace(components_=np.zeros((1, 3)), explained_variance_ratio_=[0.0])
    axes = plot_loadings(model)[0]
    assert bars(axes) == []
    assert [text.get_text() for text in axes.texts] == ["no active variable"]


def test_components_beyond_a_line_leave_no_empty_frames():
    model = SimpleNamespace(components_=np.eye(4), explained_variance_ratio_=np.full(4, 0.25))
    axes = plot_loadings(model)
    assert len(axes) == 4
    visible = [panel for panel in axes[0].figure.axes if panel.axison]
    assert visible == list(axes)


def test_wrong_lengths_are_refused(model):
    with pytest.raises(ValueError, match="feature_names has 2 entries, but the model has 4 variables"):
        plot_loadings(model, ["a", "b"])
    with pytest.raises(ValueError, match="axes has 3 entries, but the model has 2 components"):
        plot_loadings(model, axes=plt.subplots(1, 3)[1])


def test_the_missing_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_loadings(model)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
@pytest.mark.parametrize("draw", [plot_loadings, plot_support])
def test_any_picture_is_saved_and_closed(model, tmp_path, suffix, start, draw):
    path = tmp_path / "new" / f"picture{suffix}"
    save_figure(draw(model, NAMES), str(path))
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


def test_far_scripts_are_drawn_in_a_font_that_is_installed(model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gpower.plotting.save.EAST_ASIAN_FONTS", ("Nowhere Sans", "DejaVu Serif")
    )  # as if the font had these characters
    panel = plot_loadings(model, ["基因", "b", "c", "d"])[0]
    with pytest.warns(UserWarning, match="Glyph"):  # the font lacks them, and matplotlib warns
        save_figure(panel, tmp_path / "p.png")
    families = {label.get_text(): label.get_fontfamily() for label in panel.get_yticklabels()}
    assert families["基因"][-1] == "DejaVu Serif"
    assert "DejaVu Serif" not in families["d"]


def test_a_script_without_a_font_raises_a_warning(model, tmp_path, monkeypatch):
    monkeypatch.setattr("gpower.plotting.save.EAST_ASIAN_FONTS", ("Nowhere Sans",))
    with pytest.warns(GPowerWarning, match="'基因'; the figure shows boxes. Install one, such as Nowhere Sans"):
        save_figure(plot_loadings(model, ["基因", "b", "c", "d"]), tmp_path / "p.png")
