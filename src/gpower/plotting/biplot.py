"""Plot the variables of a model: biplot, correlation circle, and variables shared by components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array, to_host
from gpower._utils.backends import to_numpy
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators.explained_variance import count_shared_variables
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.labels import place_labels, sample_arrow_points
from gpower.plotting.loadings import FittedModel, format_component_label, prepare_operator
from gpower.plotting.sample_groups import SampleAppearance, get_group_colour
from gpower.plotting.scores import check_component_pair, draw_scores
from gpower.plotting.style import (
    BLACK,
    SMALL_FONT_SIZE,
    AxesLike,
    Panel,
    get_single_panel,
    resolve_variable_names,
    set_left_title,
    style_panel,
    write_panel_note,
)
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_biplot", "plot_correlation_circle", "plot_overlap"]


def plot_biplot(
    model: FittedModel,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    labels: Iterable[object] | None = None,
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    max_variables: int = 20,
) -> Panel:
    """Plot the scores of the samples on two components, with the loadings of the variables as arrows.

    The two loadings of a variable are the coordinates of its arrow; all arrows are scaled by the same factor to fill
    the panel. Most variables are active in only one of two sparse components, so that their arrows lie on an axis.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_`, `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    components : pair of int, default (0, 1)
        Indices of the components on the two axes.
    labels : sequence, optional
        As for `plot_scores`.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    max_variables : int, default 20
        Maximum number of arrows, those of the largest loadings.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_biplot
    >>> data = load_planted_expression()
    >>> axes = plot_biplot(GPower(2, cardinality=[8, 6]).fit(data.X), data.X, feature_names=data.feature_names)
    >>> axes.get_ylabel()
    'Component 2 · 12.3 % of variance'
    """
    unwrapped = UnwrappedModel.unwrap(model)
    model = unwrapped.model
    pair = check_component_pair(components, len(model.explained_variance_ratio_))
    loadings = np.asarray(to_numpy(model.components_))[pair].T  # (n_features, 2)
    names = resolve_variable_names(model, feature_names, len(loadings))
    scores = unwrapped.compute_scores(X)[:, pair]
    samples = SampleAppearance.from_labels(len(scores), labels)
    panel = get_single_panel(axes, 5.9 + samples.legend_width, 5.0)
    draw_scores(panel, scores, samples)
    used = rank_nonzero_by_size(np.abs(loadings).max(axis=1))
    shown = used[:max_variables]
    arrow_scale = _compute_arrow_scale(scores, loadings[shown])
    tips = arrow_scale * loadings[shown]
    _draw_arrows(panel, tips, BLACK)
    _set_limits_with_margin(panel, np.vstack([scores, tips]))
    style_panel(panel, *(format_component_label(model, j) for j in pair))
    selection = f"; the {shown.size} largest of {used.size} variables" if shown.size < used.size else ""
    write_panel_note(panel, 0.01, 0.01, f"arrows: loadings × {arrow_scale:.3g}{selection}", fontsize=7, ha="left")
    samples.draw_legends(panel)
    avoided_points = np.vstack([sample_arrow_points(tips), scores])
    place_labels(panel, tips, [names[i] for i in shown], avoided_points, [BLACK] * shown.size)
    return panel


def _compute_arrow_scale(scores: Array, loadings: Array) -> float:
    """Return the factor that scales the longest arrow to 95 % of the largest score."""
    max_scores = np.abs(scores).max(axis=0, initial=0)
    max_loadings = np.abs(loadings).max(axis=0, initial=0)
    ratios = [0.95 * s / z for s, z in zip(max_scores, max_loadings, strict=True) if s > 0 and z > 0]
    return float(min(ratios, default=1.0))


def _draw_arrows(axes: Panel, tips: Array, colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.8, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    for x, y in tips:
        axes.annotate("", (x, y), (0, 0), arrowprops=style).set_in_layout(False)


def _set_limits_with_margin(axes: Panel, points: Array) -> None:
    """Set the limits of both axes to contain the origin and the points, with a margin for names."""
    for set_limits, values in ((axes.set_xlim, points[:, 0]), (axes.set_ylim, points[:, 1])):
        low, high = min(values.min(), 0.0), max(values.max(), 0.0)
        margin = 0.12 * ((high - low) or 1.0)
        set_limits(low - margin, high + margin)


def plot_correlation_circle(
    model: SparsePCAEstimator,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    max_variables: int = 30,
) -> Panel:
    """Plot the correlations of the variables in use with two components that were made uncorrelated.

    Scores of sparse components may be correlated, and then the squared correlations of a variable with both may add up
    to more than one, outside the circle. Here the second axis is the part of the second component's scores that is
    uncorrelated with the first, and the squared radius is the share of the variable's variance that both explain
    together. The colour of a variable is that of the axis label of the component in which its loading is larger.

    Parameters
    ----------
    model : GPower
        Fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, or the covariance of a model with ``covariance="precomputed"``.
    components : pair of int, default (0, 1)
        Indices of the components on the two axes.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    max_variables : int, default 30
        Maximum number of variables drawn, those nearest to the circle.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_correlation_circle
    >>> pitprops = load_pitprops()
    >>> model = GPower(2, cardinality=5, covariance="precomputed").fit(pitprops.correlation)
    >>> axes = plot_correlation_circle(model, pitprops.correlation, feature_names=pitprops.feature_names)
    >>> axes.get_ylabel()
    'Component 2 less component 1'
    """
    pair = check_component_pair(components, len(model.components_))
    loadings = np.asarray(to_numpy(model.components_), np.float64)[pair].T
    names = resolve_variable_names(model, feature_names, len(loadings))
    correlations = _correlate_with_scores(model, X, loadings)  # (n_features, 2)
    used = np.flatnonzero(loadings.any(axis=1))
    shown = used[np.argsort(-np.sum(correlations[used] ** 2, axis=1), kind="stable")][:max_variables]
    panel = get_single_panel(axes, 5.6, 5.6)
    _draw_correlation_circles(panel)
    owners = np.abs(loadings[shown]).argmax(axis=1)
    for owner in (0, 1):
        _draw_arrows(panel, correlations[shown[owners == owner]], get_group_colour(owner))
    first, second = (j + 1 for j in pair)
    style_panel(panel, f"Component {first}", f"Component {second} less component {first}")
    for owner, axis in enumerate((panel.xaxis, panel.yaxis)):
        axis.label.set_color(get_group_colour(owner))
    note = "colours: component of the larger loading\ninner circle: half explained"
    write_panel_note(panel, 0.01, 0.01, note, fontsize=7, ha="left")
    set_left_title(panel, f"Correlations of {len(shown)} of the {len(used)} variables in use")
    colours = [get_group_colour(owner) for owner in owners]
    tips = correlations[shown]
    place_labels(panel, tips, [names[i] for i in shown], sample_arrow_points(tips), colours)
    return panel


def _correlate_with_scores(model: SparsePCAEstimator, X: ArrayLike, loadings: Array) -> Array:
    """Return the correlations of all variables with the scores of some loadings, (n_features, m).

    The scores are made uncorrelated one after the other.
    """
    operator = prepare_operator(model, X)
    Y = operator.combine(operator.to_backend(loadings.astype(operator.dtype)))
    C = to_host(operator.correlate(Y)).astype(np.float64)  # AᵀA Z
    norms = to_host(operator.column_norms).astype(np.float64)
    gram = loadings.T @ C
    correlations = np.zeros_like(C)
    scale = max(float(np.trace(gram)), np.finfo(float).tiny)
    for j in range(gram.shape[0]):  # Gram–Schmidt on inner products alone
        if gram[j, j] > 1e-10 * scale:
            correlations[:, j] = C[:, j] / np.sqrt(gram[j, j])
            C = C - np.outer(C[:, j], gram[j] / gram[j, j])
            gram = gram - np.outer(gram[j], gram[j]) / gram[j, j]
    return correlations / np.where(norms > 0, norms, 1.0)[:, None]


def _draw_correlation_circles(axes: Panel) -> None:
    from matplotlib.patches import Circle

    for radius, colour in ((1.0, "0.4"), (np.sqrt(0.5), "0.8")):
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=colour, linewidth=0.9))
    for draw in (axes.axhline, axes.axvline):
        draw(0, color="0.7", linewidth=0.7)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")


def plot_overlap(model: FittedModel, axes: AxesLike = None) -> Panel:
    """Plot the number of variables that each pair of components shares, with cardinalities on the diagonal.

    The shade is that number as a share of the smaller cardinality of the pair.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_`.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from gpower.plotting import plot_overlap
    >>> axes = plot_overlap(SimpleNamespace(components_=[[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]))
    >>> [text.get_text() for text in axes.texts]
    ['2', '1', '1', '2']
    """
    counts = count_shared_variables(np.asarray(to_numpy(model.components_)).T)
    m = len(counts)
    panel = get_single_panel(axes, 2.0 + 0.42 * m, 1.4 + 0.42 * m)
    share = counts / np.maximum(np.minimum.outer(np.diagonal(counts), np.diagonal(counts)), 1)
    edges = np.arange(m + 1) - 0.5
    panel.pcolormesh(edges, edges, share, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=0.8)
    for i, j in np.ndindex(m, m):
        colour = "white" if share[i, j] > 0.6 else "black"
        panel.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=SMALL_FONT_SIZE, color=colour)
    panel.set(xlim=(-0.5, m - 0.5), ylim=(m - 0.5, -0.5), aspect="equal")
    panel.set_xticks(np.arange(m), [str(j + 1) for j in range(m)], fontsize=SMALL_FONT_SIZE)
    panel.set_yticks(np.arange(m), [f"Component {j + 1}" for j in range(m)], fontsize=SMALL_FONT_SIZE)
    panel.set_xlabel("component\nshade: share of the smaller", fontsize=SMALL_FONT_SIZE)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    set_left_title(panel, "Variables in common")
    return panel
