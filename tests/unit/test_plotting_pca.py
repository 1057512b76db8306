"""Figures of a PCA (circle, biplot, scree, scores, outliers, metadata): positions, names and legibility."""

from itertools import combinations
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from sklearn.datasets import load_breast_cancer, load_wine
from tests.planted_data import make_planted_components

from gpower import GPower
from gpower.datasets import load_planted_expression
from gpower.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_heatmap,
    plot_loadings,
    plot_metadata,
    plot_outliers,
    plot_overlap,
    plot_pairs,
    plot_scores,
    plot_scree,
)

LONG = "a name of sixty characters, as those of pathways of genes are"[:60]


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True)
    return SimpleNamespace(X=data.data, classes=data.target_names[data.target], names=list(data.data))


@pytest.fixture(scope="module")
def model(wine):
    return GPower(4, cardinality=5, scale=True).fit(wine.X)


def names_in(axes):
    return [text for text in axes.texts if text.get_text() and text.get_transform() != axes.transAxes]


def list_names(axes):
    """Return the names of points; those of close points share a label."""
    return [name for text in names_in(axes) for name in text.get_text().split("\n")]


def texts_of(axes):
    """Return every visible text of a panel: names, notes, titles, axis labels, ticks and the legend."""
    legend = axes.get_legend()
    texts = [*axes.texts, axes.title, axes._left_title, axes._right_title]
    texts += [] if legend is None else legend.get_texts()
    for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
        texts += [axis.label, *(word for place, word in ticks if low <= place <= high)]
    return [text for text in texts if text.get_visible() and text.get_text()]


def is_inside(box, page):
    return page.contains(*box.min) and page.contains(*box.max)


def find_illegible_texts(panels):
    """Return texts off the page, names off their panel or on the tip of an arrow, and overlapping texts."""
    figure = np.ravel(np.asarray(panels, dtype=object))[0].figure
    figure.set_dpi(150)  # as in a file
    figure.draw_without_rendering()
    boxes = [(text.get_text(), Text.get_window_extent(text)) for axes in figure.axes for text in texts_of(axes)]
    found = [word for word, box in boxes if not is_inside(box, figure.bbox.padded(1))]
    for axes in figure.axes:
        tips = axes.transData.transform(tips_of(axes).reshape(-1, 2))
        for text in names_in(axes):
            box = Text.get_window_extent(text)  # without threads
            if not is_inside(box, axes.get_window_extent()) or any(box.contains(*tip) for tip in tips):
                found.append(text.get_text())
    return found + [(one, two) for (one, a), (two, b) in combinations(boxes, 2) if a.padded(-0.5).overlaps(b)]


def tips_of(axes):
    """Return the ends of the lines of variables, (n_variables, 2)."""
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    return np.array([segment[1] for collection in lines for segment in collection.get_segments()])


def sort_rows(A):
    return A[np.lexsort(A.T)]


@pytest.mark.parametrize("covariance", [None, "precomputed"])
def test_the_circle_has_the_correlations_with_orthonormal_scores(covariance):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 1)) + 0.6 * rng.standard_normal((50, 7))  # both components have the same factor
    A = X - X.mean(axis=0)
    table = X if covariance is None else A.T @ A
    model = GPower(2, cardinality=3, deflation="projection", covariance=covariance).fit(table)
    raw = np.corrcoef(X.T, (A @ model.components_.T).T)[:7, 7:]
    assert np.max(np.sum(raw**2, axis=1)) > 1.5  # drawn as if uncorrelated they would be far outside
    Q, _ = np.linalg.qr(A @ model.components_[[1, 0]].T)
    expected = A.T @ Q / np.linalg.norm(A, axis=0)[:, None]
    used = model.components_.any(axis=0)
    axes = plot_correlation_circle(model, table, components=(1, 0))
    np.testing.assert_allclose(sort_rows(abs(tips_of(axes))), sort_rows(abs(expected[used])), atol=1e-10)
    assert set(list_names(axes)) == {f"x{j}" for j in np.flatnonzero(used)}


def many():
    data = make_planted_components(60, 120, (40, 30, 20, 8, 8, 8, 8, 8), np.linspace(9.0, 4.0, 8), random_state=0)
    return data.X, [f"{LONG[:40]} {i}" for i in range(120)]


def drawings(model, X, names, groups):
    """Return every figure of a model and its samples, by name."""
    samples = [f"{groups[i]} {i}" for i in range(len(X))]
    metadata = {"group": groups, LONG: np.arange(len(X)) + 0.5, "$x_1$": ["a", "b"] * (len(X) // 2)}
    yield "scree", plot_scree(model, X)
    yield "overlap", plot_overlap(model)
    yield "metadata", plot_metadata(model, X, metadata)
    yield "outliers", plot_outliers(model, X, samples)
    yield "loadings", plot_loadings(model, names)
    yield "heatmap", plot_heatmap(model, X, metadata=metadata, feature_names=names)
    if len(model.components_) > 1:
        yield "circle", plot_correlation_circle(model, X, feature_names=names)
        yield "biplot", plot_biplot(model, X, color=groups, feature_names=names)
        yield "scores", plot_scores(model, X, color=groups, names=samples, ellipse=0.95)
        yield "shades", plot_scores(model, X, color=np.arange(len(X)) / 3)
        yield "pairs", plot_pairs(model, X, color=groups)


@pytest.mark.parametrize(
    ("table", "n_components"),
    [
        ("wine", 4),
        ("odd names", 2),
        pytest.param("wine", 1, marks=pytest.mark.slow),
        *(pytest.param("many variables", m, marks=pytest.mark.slow) for m in (1, 2)),
    ],
)
def test_all_words_of_all_pictures_can_be_read(wine, table, n_components):
    X, names, groups, k = wine.X.to_numpy(), wine.names, wine.classes, 5
    if table == "odd names":
        names = [LONG, "cost $x_1$", "_a", "two\nlines", *(f"{LONG[:58]}{i:2d}" for i in range(9))]
        groups = [f"{LONG[:50]} {word}" for word in wine.classes]
    if table == "many variables":
        (X, names), groups, k = many(), ["control", "treated", "unclear"] * 20, 30
    model = GPower(n_components, cardinality=k, scale=True).fit(X)
    found = {name: find_illegible_texts(panels) for name, panels in drawings(model, X, names, groups)}
    assert {name: words for name, words in found.items() if words} == {}


def test_many_names_of_few_places_are_left_out_and_counted():
    X = make_planted_components(30, 60, (25, 20), (9.0, 8.0), random_state=0).X
    fitted = GPower(2, cardinality=25).fit(X)
    axes = plot_biplot(fitted, X, feature_names=[f"{LONG[:52]} {i}" for i in range(60)], max_variables=50)
    left = [text.get_text() for text in axes.texts if "not named" in text.get_text()]
    assert len(left) == 1
    named = [name for name in list_names(axes) if name.startswith("a name")]
    assert int(left[0].split()[0]) + len(named) == len(tips_of(axes)) > 40
    assert find_illegible_texts(axes) == []


def test_lines_to_labels_cross_no_label_and_close_points_share_one():
    cancer = load_breast_cancer(as_frame=True).data
    fitted = GPower(5, cardinality=6, scale=True).fit(cancer)
    for axes in (plot_correlation_circle(fitted, cancer), plot_biplot(fitted, cancer)):
        assert find_illegible_texts(axes) == []
        labels = [(text, Text.get_window_extent(text)) for text in names_in(axes)]
        variables = axes.transData.transform(np.vstack([share * tips_of(axes) for share in np.linspace(0.05, 1, 24)]))
        assert not any(box.contains(*point) for _, box in labels for point in variables)
        for text, box in (each for each in labels if each[0].arrow_patch.get_visible()):
            start, end = axes.transData.transform(text.xy), (box.min + box.max) / 2
            line = start + np.linspace(0, 1, 200)[:, None] * (end - start)
            assert not any(other.contains(*point) for each, other in labels if each is not text for point in line)
    assert len(labels) < 8  # of twelve names
    assert len(list_names(axes)) == 12


def test_about_a_dozen_of_samples_and_variables_are_named(model, wine):
    planted = load_planted_expression()
    fitted = GPower(2, cardinality=20).fit(planted.X)
    largest = {name for each in fitted.loadings(planted.feature_names) for name in each}
    for plot in (plot_biplot, plot_correlation_circle):
        named = set(list_names(plot(fitted, planted.X, feature_names=planted.feature_names)))
        assert 8 <= len(named) <= 12
        assert named < largest
    scores = plot_scores(model, wine.X, names=[f"w{i}" for i in range(178)])
    assert 8 <= len(list_names(scores)) <= 12


def list_legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_points_are_the_scores_of_the_components(model, wine):
    _, mine = plt.subplots()
    axes = plot_scores(model, wine.X, components=(2, 0), axes=mine)
    assert axes is mine
    np.testing.assert_array_equal(axes.collections[0].get_offsets(), model.transform(wine.X)[:, [2, 0]])
    assert axes.get_xlabel() == f"Component 3 · {100 * model.explained_variance_ratio_[2]:.3g} % of variance"
    assert axes.get_legend() is None
    sparse = GPower(2, cardinality=5).fit(sp.csr_array(wine.X))
    offsets = plot_scores(sparse, sp.csr_array(wine.X)).collections[0].get_offsets()
    np.testing.assert_allclose(offsets, sparse.transform(wine.X.to_numpy()), rtol=1e-8)


def test_groups_differ_in_colour_and_marker_and_are_sorted(model, wine):
    stages = np.array(["III", "I", "stage 10", "stage 2"])
    axes = plot_scores(model, wine.X, color=stages[np.arange(178) % 4])
    for i, points in zip((1, 0, 3, 2), axes.collections, strict=True):
        np.testing.assert_array_equal(points.get_offsets(), model.transform(wine.X)[i::4, :2])
    assert list_legend(axes) == ["I", "III", "stage 2", "stage 10"]
    assert len({tuple(points.get_facecolor()[0]) for points in axes.collections}) == 4
    assert len({points.get_paths()[0].vertices.tobytes() for points in axes.collections}) == 4
    colours = [tuple(points.get_facecolor()[0][:3]) for points in axes.collections]
    assert [to_rgb(handle.get_color()) for handle in axes.get_legend().legend_handles] == colours


def test_arrows_are_the_loadings_at_a_common_scale(model, wine):
    tips = tips_of(plot_biplot(model, wine.X))
    loadings = model.components_[:2].T[model.components_[:2].any(axis=0)]
    ratio = np.linalg.norm(tips, axis=1).max() / np.linalg.norm(loadings, axis=1).max()
    assert ratio > 1
    np.testing.assert_allclose(sort_rows(tips), sort_rows(ratio * loadings), atol=1e-12)


def test_measured_labels_are_shades_and_unknown_ones_hollow(model, wine):
    values = wine.X["alcohol"].to_numpy().copy()
    values[:3] = np.nan
    axes = plot_scores(model, wine.X, color=values)
    hollow, shaded = axes.collections
    assert len(hollow.get_offsets()) == 3
    np.testing.assert_array_equal(shaded.get_array(), values[3:])
    assert len(axes.figure.axes) == 2  # with the colour bar
    assert list_legend(axes) == ["not known"]
    assert axes.figure.axes[1].get_ylabel() == "value"
    for labels in (wine.X["alcohol"], {"alcohol": values}):
        assert plot_scores(model, wine.X, color=labels).figure.axes[1].get_ylabel() == "alcohol"


def test_values_with_an_index_are_matched_by_name(model, wine):
    X = wine.X.set_axis([f"w{i}" for i in range(178)])
    X_like = pd.Series(wine.classes, index=X.index)
    for draw in (
        lambda values: plot_scores(model, X, color=values),
        lambda values: plot_scores(model, X, color={"class": values}),
        lambda values: plot_biplot(model, X, color=values),
        lambda values: np.ravel(plot_pairs(model, X, color=values))[4],
        lambda values: plot_outliers(model, X, values),
        lambda values: plot_scores(model, X, names=values),
    ):
        straight, shuffled = (draw(values) for values in (X_like, X_like.sample(frac=1, random_state=0)))
        for one, other in zip(straight.collections, shuffled.collections, strict=True):
            np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())
        assert [text.get_text() for text in straight.texts] == [text.get_text() for text in shuffled.texts]
        with pytest.raises(ValueError, match=r"by the index, 178 of 178 samples have no row \(w0, w1, w2, …\)"):
            draw(X_like.rename("foreign {}".format))
    with pytest.raises(ValueError, match=r"^color: the index names the rows \(w0, w1, w2, …\), but X has no sample"):
        plot_scores(model, wine.X, color=X_like)


def test_legends_have_any_name_and_the_title_of_a_column(model, wine):
    for color, legend in (
        (["_first", "$second$"] * 89, [r"\$second\$", "_first"]),
        (pd.Series(wine.classes, name="cultivar"), ["cultivar", "class_0", "class_1", "class_2"]),
        (np.arange(178) % 3 + 1.0, ["1", "2", "3"]),
    ):
        assert list_legend(plot_scores(model, wine.X, color=color)) == legend


def test_an_ellipse_covers_its_share():
    X = np.random.default_rng(1).multivariate_normal([0, 0], [[4, 1.5], [1.5, 1]], 4000)
    model = GPower(2, cardinality=1).fit(X)
    axes = plot_scores(model, X, ellipse=0.9)
    assert axes.texts[0].get_text().startswith("ellipses: 90 % of new samples, if normally distributed")
    (ellipse,) = axes.patches
    points = ellipse.get_patch_transform().inverted().transform(model.transform(X))
    assert np.mean(ellipse.get_path().contains_points(points)) == pytest.approx(0.9, abs=0.015)


@pytest.mark.parametrize(("n_few", "n_ellipses"), [(9, 1), (10, 2)])
def test_groups_of_fewer_than_ten_have_no_ellipse(model, wine, n_few, n_ellipses):
    labels = ["few"] * n_few + ["many"] * (len(wine.X) - n_few)
    axes = plot_scores(model, wine.X, color=labels, ellipse=0.95)
    assert len(axes.patches) == n_ellipses
    assert ("(groups of 10 or more)" in axes.texts[0].get_text()) == (n_ellipses == 1)
    axes.figure.draw_without_rendering()
    assert axes.texts[0].get_window_extent().x0 > 0  # inside the figure


def test_pairs_of_components_have_points_and_correlations(model, wine):
    panels = plot_pairs(model, wine.X, color=wine.classes)
    assert panels.shape == (4, 4)
    scores = model.transform(wine.X)
    points = np.vstack([group.get_offsets() for group in panels[2, 1].collections])
    np.testing.assert_array_equal(points, scores[:, [1, 2]])  # the classes come one after the other
    assert panels[1, 2].texts[0].get_text() == f"correlation\n{np.corrcoef(scores.T)[1, 2]:+.2f}".replace("-", "−")
    assert panels[3, 0].get_xlabel() == "Component 1"
    assert not any("-" in text.get_text() for panel in panels.flat for text in panel.texts)  # a minus is no hyphen


def test_shared_variables_are_counted():
    loadings = np.array([[0.6, 0.8, 0.0, 0.0], [0.0, 0.6, 0.8, 0.0], [0.0, 0.0, 0.0, 0.0]])
    axes = plot_overlap(SimpleNamespace(components_=loadings))
    assert [int(text.get_text()) for text in axes.texts] == [2, 1, 0, 1, 2, 0, 0, 0, 0]


def test_the_scree_shows_the_adjusted_variance_next_to_pca(model, wine):
    axes = plot_scree(model, wine.X)
    curves = {line.get_label(): line.get_ydata() for line in axes.lines}
    A = ((wine.X - wine.X.mean()) / wine.X.std()).to_numpy()
    singular = np.linalg.svd(A, compute_uv=False) ** 2
    np.testing.assert_allclose(curves["sparse components"], 100 * model.explained_variance_ratio_)
    np.testing.assert_allclose(curves["sparse, cumulative"], 100 * np.cumsum(model.explained_variance_ratio_))
    np.testing.assert_allclose(curves["PCA"], 100 * (singular / singular.sum())[:4])
    assert axes.get_yscale() == "linear"
    assert [line.get_label() for line in plot_scree(model).lines] == ["sparse components", "sparse, cumulative"]
    single = plot_scree(GPower(1, cardinality=5, scale=True).fit(wine.X), wine.X)  # its total is itself
    assert [text.get_text() for text in single.get_legend().get_texts()] == ["sparse components", "PCA"]
    X = np.random.default_rng(0).standard_normal((50, 1)) + np.random.default_rng(1).standard_normal((50, 200))
    far_apart = plot_scree(GPower(2, cardinality=1).fit(X), X)
    assert far_apart.get_ylabel() == "% of variance (logarithmic scale)"
    assert find_illegible_texts(far_apart) == []


def test_samples_beyond_a_limit_are_named_and_counted(model, wine):
    odd = wine.X.copy()
    odd.iloc[7] = wine.X.mean() + 9 * wine.X.std()
    axes = plot_outliers(model, odd, [f"wine {i}" for i in range(len(odd))], reference=wine.X, level=0.99)
    beyond = (model.hotelling_t2(odd) > model.hotelling_t2_limit(0.99)) | (
        model.squared_residual(odd) > model.squared_residual_limit(wine.X, 0.99)
    )
    assert set(list_names(axes)) == {f"wine {i}" for i in np.flatnonzero(beyond)}
    vertical, horizontal = axes.lines
    assert vertical.get_xdata()[0] == model.hotelling_t2_limit(0.99)
    assert horizontal.get_ydata()[0] == model.squared_residual_limit(wine.X, 0.99)
    for name, X in (("bottle ", odd.set_axis([f"bottle {i}" for i in range(len(odd))])), ("s", odd)):
        of_index = plot_outliers(model, X, reference=wine.X, level=0.99)
        assert set(list_names(of_index)) == {f"{name}{i}" for i in np.flatnonzero(beyond)}


def test_metadata_are_a_map_of_associations():
    data = load_planted_expression()
    model = GPower(2, cardinality=[8, 6]).fit(data.X)
    scores = model.transform(data.X)
    person = [f"p{i}" for i in range(60)]
    with pytest.raises(ValueError, match="each sample has a word of its own in person; add a column"):
        plot_metadata(model, data.X, {"person": person})
    found = {
        "person": person,
        "up": scores[:, 0] + 10.5,
        "down_$": -scores[:, 1],
        "same": ["x"] * 60,
        "batch": ["a", "b", "c"] * 20,
    }
    axes = plot_metadata(model, data.X, found)
    words = np.array([text.get_text() for text in axes.texts]).reshape(2, 4)
    assert axes.get_title("left").endswith("\nleft out, all different: person")
    assert words[0, 0] == "+1.00*"
    assert words[1, 1] == "−1.00*"
    assert list(words[:, 2]) == ["–", "–"]
    assert not any(word.endswith("*") for word in words[:, 3])
    scales = [bar.get_ylabel() for bar in axes.figure.axes[1:]]
    assert scales == ["Spearman's ρ (numbers)", "correlation ratio η (groups)"]
    numbers, groups = axes.collections
    assert numbers.get_clim() == (-1, 1)
    assert groups.get_clim() == (0, 1)
    np.testing.assert_allclose([numbers.get_array()[0, 0], numbers.get_array()[1, 1]], [1, -1])
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == ["up · Spearman", r"down_\$ · Spearman", "same · Kruskal–Wallis", "batch · Kruskal–Wallis"]


def test_the_heat_map_has_the_standardised_values_in_order_of_score_and_loading(model, wine):
    *_, axes = plot_heatmap(model, wine.X, 1, feature_names=wine.names)
    used = np.flatnonzero(model.components_[1])
    used = used[np.argsort(-model.components_[1, used])]
    assert [label.get_text() for label in axes.get_xticklabels()] == [wine.names[i] for i in used]
    values = wine.X.to_numpy()[np.argsort(-model.transform(wine.X)[:, 1])][:, used]
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    np.testing.assert_allclose(axes.collections[0].get_array(), expected, atol=1e-8)


def test_bars_of_metadata_are_next_to_their_samples(model, wine):
    score = model.transform(wine.X)[:, 0]
    metadata = {"score": score, "sign": np.where(score > 0, "up", "down"), "no": [f"{i % 9} of 9" for i in range(178)]}
    numbers, groups, many, _ = plot_heatmap(model, wine.X, metadata=metadata)
    shades = numbers.images[0].get_array()[:, 0, :3].sum(axis=1)  # bright is large, and the largest score is on top
    assert np.all(np.diff(shades) <= 1e-12)
    assert len(np.unique(groups.images[0].get_array()[:, 0, :3], axis=0)) == 2
    assert np.count_nonzero(np.diff(groups.images[0].get_array()[:, 0, 0])) == 1
    few = plot_heatmap(model, wine.X, metadata={"er": ["0", "1"] * 89, "batch": ["A", "B"] * 89})[:2]
    assert len(np.unique(np.vstack([panel.images[0].get_array()[:, 0, :3] for panel in few]), axis=0)) == 4
    assert len(np.unique(many.images[0].get_array()[:, 0, :3], axis=0)) == 8  # seven colours, and grey
    (legend,) = numbers.figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[0] == "score"
    assert sorted(words[3:6]) == ["down", "sign", "up"]
    assert words[-1] == "2 other groups"
    unknown = plot_heatmap(model, wine.X, metadata={"batch": ["a", None] * 89})[0].figure.legends[0]
    assert [text.get_text() for text in unknown.get_texts()] == ["batch", "a", "not known"]


EMPTY = SimpleNamespace(components_=np.zeros((1, 13)), explained_variance_ratio_=[0.0])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda model, X: plot_heatmap(EMPTY, X), "component=0 has no variable"),
        (lambda model, X: plot_heatmap(EMPTY, X, 1), "component=1: the model has 1, counted from 0"),
        (lambda model, X: plot_outliers(model, X, names=["one"]), "names has 1 entries, but X has 178 samples"),
        (lambda model, X: plot_scores(model, X, names=["one"]), "names has 1 entries, but X has 178 samples"),
        (lambda model, X: plot_scores(model, X, color={"a": X, "b": X}), "color has 2 columns; a figure shows one"),
        (lambda model, X: plot_pairs(GPower(1, cardinality=2).fit(X), X), "Pairs need two components"),
        (lambda model, X: plot_scores(GPower(1, cardinality=2).fit(X), X), "fit one with n_components=2 or more"),
        (lambda model, X: plot_scores(model, X, axes=[None, None]), "axes has 2 entries, but this figure has one"),
        (lambda model, X: plot_scores(model, X, color=["a", "b"]), "color has 2 entries, but X has 178 samples"),
        (lambda model, X: plot_scores(model, X, color=X.index.map("p{}".format)), "too many to .*: give at most 24"),
        *(
            (lambda model, X, pair=pair: plot_scores(model, X, pair), "give two different ones of the model's 4")
            for pair in [(0, 0), (0, 4), (-1, 0), (0, 1, 2)]
        ),
    ],
)
def test_components_names_and_labels_that_do_not_fit_are_refused(model, wine, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(model, wine.X)
