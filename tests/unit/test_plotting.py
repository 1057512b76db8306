"""Bar charts of loadings: bars, labels, titles, axes and saved files."""

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpower._utils.warnings import GPowerWarning
from gpower.plotting import plot_loadings, prepare_figure_path, save_figure

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def model():
    components = np.array([[0.48, 0.0, -0.64, 0.6], [0.0, 1.0, 0.0, 0.0]])
    return SimpleNamespace(components_=components, explained_variance_ratio_=np.array([0.314, 0.125]))


def bars(axes):
    return [bar.get_width() for bar in axes.patches]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_the_loadings_with_the_largest_on_top(model):
    first, second = plot_loadings(model, NAMES)
    assert (bars(first), labels(first)) == ([-0.64, 0.6, 0.48], ["c", "d", "a"])
    assert (bars(second), labels(second)) == ([1.0], ["b"])
    bottom, top = first.get_ylim()
    assert bottom > top
    assert first.patches[0].get_y() < first.patches[1].get_y()
    negative, positive, other = (bar.get_facecolor() for bar in first.patches)
    assert positive == other != negative
    titles = [axes.get_title(loc="left") for axes in (first, second)]
    assert titles == ["Component 1 · 31.4 % of variance", "Component 2 · 12.5 % of variance"]


def test_every_bar_is_inside_its_panel_on_one_symmetric_scale(model):
    panels = plot_loadings(model, NAMES)
    ((left, right),) = {axes.get_xlim() for axes in panels}
    assert left == -right < -1.0  # the largest loading of all
    for axes in panels:
        bottom, top = axes.get_ylim()
        for bar in axes.patches:
            assert top < bar.get_y() < bar.get_y() + bar.get_height() < bottom


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
    model.components_ = model.components_[:1]
    assert plot_loadings(model, axes=mine[0])[0] is mine[0]


@pytest.mark.parametrize(
    ("loadings", "drawn", "note"),
    [
        (np.linspace(1, 2, 60), np.linspace(2, 1, 60)[:40], "the 40 largest of 60"),
        (np.zeros(3), [], "no active variable"),
    ],
)
def test_too_many_or_no_variables_have_a_note(loadings, drawn, note):
    axes = plot_loadings(SimpleNamespace(components_=loadings[None], explained_variance_ratio_=[0.5]))[0]
    np.testing.assert_allclose(bars(axes), drawn)
    assert [text.get_text() for text in axes.texts] == [note]


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
