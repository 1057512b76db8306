"""Pictures of the samples: their scores on two components or on all pairs, and those that stand out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower.analysis.association import get_row_names
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.outliers import check_probability_level, compute_t2_limit
from gpower.plotting.canvas import create_panels, get_single_panel, style_panel, write_panel_note
from gpower.plotting.labels import place_labels
from gpower.plotting.loadings import FittedModel, format_component_label
from gpower.plotting.sample_groups import SampleAppearance, get_group_colour
from gpower.plotting.style import BLUE, SMALL_FONT_SIZE, VERMILION, AxesLike, Panel, Panels, escape_label
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_outliers", "plot_pairs", "plot_scores"]

MAX_PAIRED_COMPONENTS = 6
MAX_LABELLED_SAMPLES = 30  # samples; more names would hide the points


def plot_scores(
    model: FittedModel,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    labels: Iterable[object] | None = None,
    axes: AxesLike = None,
    *,
    shapes: Iterable[object] | None = None,
    names: Sequence[str] | None = None,
    ellipse: float | None = None,
) -> Panel:
    """Scatter of the samples' scores on two components, groups told apart by colour and marker.

    Scores of sparse components are correlated; where they are, a line says how much.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The samples, as `model.transform` takes them.
    components : pair of int, default (0, 1)
        The components on the two axes, counted from 0.
    labels : sequence, optional
        The group of each sample, at most 24 different ones; or a measured quantity, which is drawn as shades of colour.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    shapes : sequence, optional
        A second grouping, shown by markers, at most 8 different ones; colours are those of `labels`.
    names : sequence of str, optional
        Of the samples, written beside the 30 that are farthest from the middle.
    ellipse : float, optional
        Share, such as 0.95, of new normal samples that an ellipse around each group would hold.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_scores
    >>> X = load_planted_expression().X
    >>> axes = plot_scores(GPower(2, cardinality=8).fit(X), X)
    >>> axes.get_xlabel()
    'Component 1 · 27.1 % of variance'
    """
    held = UnwrappedModel.unwrap(model)
    model = held.model
    pair = check_component_pair(components, len(model.explained_variance_ratio_))
    scores = held.compute_scores(X)[:, pair]
    samples = SampleAppearance.from_labels(len(scores), labels, shapes)
    panel = get_single_panel(axes, 5.6 + samples.legend_width, 4.2)
    draw_scores(panel, scores, samples, ellipse)
    style_panel(panel, *(format_component_label(model, j) for j in pair))
    samples.draw_legends(panel)
    if names is not None:
        _label_outer_samples(panel, scores, names)
    return panel


def draw_scores(panel: Panel, scores: Array, appearance: SampleAppearance, ellipse: float | None = None) -> None:
    """Points of the samples and their ellipses, and what those hold and how correlated the scores are, in words."""
    appearance.draw_points(panel, scores)
    words = []
    if ellipse is not None:
        groups = appearance.colour_groups or {"": np.arange(len(scores))}
        for i, members in enumerate(groups.values()):
            _draw_group_ellipse(panel, scores[members], check_probability_level(ellipse), get_group_colour(i))
        words.append(f"ellipses: {100 * ellipse:g} % of new normal samples")
    related = correlate_score_pair(scores)
    if abs(related) >= 0.05:
        words.append(f"correlation of the scores {related:+.2f}")
    if words:
        write_panel_note(panel, 0.99, 1.01, "; ".join(words), fontsize=7.5)


def correlate_score_pair(scores: Array) -> float:
    """Of two columns of scores; zero where one does not vary."""
    return float(np.corrcoef(scores.T)[0, 1]) if np.all(np.ptp(scores, axis=0) > 0) else 0.0


def _draw_group_ellipse(axes: Panel, points: Array, level: float, colour: str) -> None:
    """Where a share of new normal samples of a group would lie; groups of fewer than four have none."""
    from matplotlib.patches import Ellipse

    if len(points) < 4:
        return
    values, vectors = np.linalg.eigh(np.cov(points.T))
    width, height = 2 * np.sqrt(values.clip(0) * compute_t2_limit(2, len(points), level))
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    x, y = (float(middle) for middle in points.mean(axis=0))
    axes.add_patch(Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1))
    axes.autoscale_view()


def _label_outer_samples(axes: Panel, scores: Array, names: Sequence[str]) -> None:
    if len(names) != len(scores):
        raise ValueError(f"names has {len(names)} entries, but X has {len(scores)} samples.")
    spread = np.maximum(scores.std(axis=0), np.finfo(float).tiny)
    order = np.argsort(-np.sum(((scores - scores.mean(axis=0)) / spread) ** 2, axis=1), kind="stable")
    words = [escape_label(names[i]) for i in order[:MAX_LABELLED_SAMPLES]]
    at, colours = scores[order[:MAX_LABELLED_SAMPLES]], ["0.25"] * len(words)
    place_labels(axes, at, words, scores, colours, n_unlabelled=len(names) - len(words))


def check_component_pair(components: tuple[int, int], n_components: int) -> list[int]:
    """Two different components of a model."""
    pair = list(components)
    if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= j < n_components for j in pair):
        raise ValueError(
            f"components={components!r}: give two different ones of the model's {n_components}, counted from 0"
            + ("; fit one with n_components=2 or more." if n_components < 2 else ".")
        )
    return pair


def plot_pairs(
    model: FittedModel, X: ArrayLike, labels: Iterable[object] | None = None, *, n_components: int | None = None
) -> Panels:
    """Scores of every pair of components, below the diagonal; on it how each is distributed; above, correlations.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    labels : sequence, optional
        As for `plot_scores`.
    n_components : int, optional
        The first so many; by default all, at most six.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components, n_components)

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_pairs
    >>> X = load_planted_expression().X
    >>> plot_pairs(GPower(3, cardinality=6).fit(X), X).shape
    (3, 3)
    """
    held = UnwrappedModel.unwrap(model)
    model, scores = held.model, held.compute_scores(X)[:, : n_components or MAX_PAIRED_COMPONENTS]
    m = scores.shape[1]
    if m < 2:
        raise ValueError("Pairs need two components or more; fit a model with n_components=2, or use plot_loadings.")
    samples = SampleAppearance.from_labels(len(scores), labels)
    side = max(1.5, min(2.4, 9 / m))
    panels = create_panels(m, m, 0.5 + side * m + samples.legend_width, 0.4 + side * m, sharex="col")
    for i in range(m):
        for j in range(m):
            panel = panels[i, j]
            if i == j:
                _draw_score_histogram(panel, scores[:, i], samples)
            elif i > j:
                samples.draw_points(panel, scores[:, [j, i]])
            else:
                panel.set_axis_off()
                related = f"correlation\n{correlate_score_pair(scores[:, [j, i]]):+.2f}"
                panel.text(
                    0.5, 0.5, related, transform=panel.transAxes, ha="center", va="center", fontsize=SMALL_FONT_SIZE + 2
                )
            style_panel(panel, f"Component {j + 1}" if i == m - 1 else "", f"Component {i + 1}" if 0 == j < i else "")
            panel.tick_params(labelsize=SMALL_FONT_SIZE - 1, labelleft=0 == j < i, labelbottom=i == m - 1)
    samples.draw_legends(panels[0, -1], panels)
    return panels


def _draw_score_histogram(axes: Panel, scores: Array, appearance: SampleAppearance) -> None:
    """Histogram of the scores, a curve for each group."""
    edges = np.histogram_bin_edges(scores, bins="auto" if np.ptp(scores) > 0 else 1)[:61]
    bins = (edges if edges.size <= 60 else np.linspace(scores.min(), scores.max(), 41)).tolist()
    groups = appearance.colour_groups or {"": np.arange(len(scores))}
    for i, members in enumerate(groups.values()):
        colour = get_group_colour(i)
        axes.hist(scores[members], bins=bins, histtype="stepfilled", alpha=0.35, color=colour, edgecolor=colour)
    axes.set_yticks([])


def plot_outliers(
    model: SparsePCAEstimator,
    X: ArrayLike,
    names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    level: float = 0.95,
    reference: ArrayLike | None = None,
) -> Panel:
    """How far each sample is from the others within the components (T²), and from what they can represent (residual).

    Dashed lines are the limits that a share `level` of normal samples keeps. Samples beyond one of them are named.

    Parameters
    ----------
    model : GPower
        A fitted model, of samples rather than of a covariance.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    names : sequence of str, optional
        Of the samples; by default those in a frame's index, or their numbers, counted from 0.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    level : float, default 0.95
    reference : array-like or sparse matrix, optional
        The samples that the model was fitted to, where X are others.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_outliers
    >>> X = load_planted_expression().X
    >>> axes = plot_outliers(GPower(2, cardinality=8).fit(X), X)
    >>> axes.get_xlabel()
    'distance within the components, T²'
    """
    distances = np.column_stack([model.hotelling_t2(X), model.squared_residual(X)])
    known = X if reference is None else reference
    limits = np.array([model.hotelling_t2_limit(level), model.squared_residual_limit(known, level)])
    named = get_row_names(X) if names is None else names
    words = [str(i) for i in range(len(distances))] if named is None else named
    if len(words) != len(distances):
        raise ValueError(f"names has {len(words)} entries, but X has {len(distances)} samples.")
    beyond = distances > limits
    panel = get_single_panel(axes, 6.0, 4.4)
    panel.axvline(limits[0], color="0.4", linestyle="--", linewidth=0.9)
    panel.axhline(limits[1], color="0.4", linestyle="--", linewidth=0.9)
    out: Array = np.any(beyond, axis=1)
    for members, colour in ((~out, BLUE), (out, VERMILION)):
        x, y = distances[members].T
        panel.scatter(x, y, s=22, alpha=0.8, linewidth=0, color=colour)
    style_panel(panel, "distance within the components, T²", "squared residual, outside of the components")
    reach = np.maximum(limits, distances.max(axis=0))
    reach[reach == 0] = 1.0
    panel.set(xlim=(-0.02 * reach[0], 1.08 * reach[0]), ylim=(-0.02 * reach[1], 1.08 * reach[1]))
    counts = [*beyond.sum(axis=0), beyond.all(axis=1).sum()]
    told = "beyond the {:g} % limits: {} by T², {} by residual, {} by both, of {}"
    write_panel_note(panel, 0.99, 1.01, told.format(100 * level, *counts, len(distances)), fontsize=7.5)
    order = np.argsort(-np.max(distances / np.maximum(limits, np.finfo(float).tiny), axis=1), kind="stable")
    order = order[out[order]]
    place_labels(panel, distances[order], [escape_label(words[i]) for i in order], distances, ["0.25"] * len(order))
    return panel
