"""Plot the variables of a model: biplot and correlation circle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpower._utils.arrays import Array, to_host, to_numpy
from gpower.estimators.base import SparsePCAEstimator
from gpower.plotting import style
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.labels import name_points
from gpower.plotting.model_data import FittedModel, check_component_pair, format_component_label, prepare_operator
from gpower.plotting.sample_groups import Labels, SampleAppearance, get_group_colour
from gpower.plotting.scores import draw_scores
from gpower.plotting.style import AxesLike, Panel
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_biplot", "plot_correlation_circle"]


def plot_biplot(
    model: FittedModel,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    color: Labels = None,
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    max_variables: int = 20,
) -> Panel:
    """Plot the scores of the samples on two components, with the loadings of the variables as lines from the origin.

    The two loadings of a variable are the coordinates of the dot at the end of its line; all are scaled by the same
    factor to fill the panel. Most variables are used by only one of two sparse components: their dots lie on an axis.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_`, `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    components : pair of int, default (0, 1)
        Indices of the components on the two axes.
    color : sequence, or mapping of one name to a sequence, optional
        As for `plot_scores`.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    max_variables : int, default 20
        Maximum number of variables drawn, those with the largest loadings; the first twelve of them are named.

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
    names = style.resolve_variable_names(model, feature_names, len(loadings))
    scores = unwrapped.compute_scores(X)[:, pair]
    samples = SampleAppearance.from_labels(X, len(scores), color)
    panel = style.get_single_panel(axes, 5.9 + samples.legend_width, 5.0)
    draw_scores(panel, scores, samples)
    used = rank_nonzero_by_size(np.abs(loadings).max(axis=1))
    shown = used[:max_variables]
    line_scale = _compute_line_scale(scores, loadings[shown])
    tips = line_scale * loadings[shown]
    points = np.vstack([scores, tips, [[0.0, 0.0]]])
    margin = 0.12 * np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)  # for names
    (left, bottom), (right, top) = points.min(axis=0) - margin, points.max(axis=0) + margin
    panel.set(xlim=(left, right), ylim=(bottom, top))
    style.label_axes(panel, *(format_component_label(model, j) for j in pair))
    selection = f"; the {shown.size} largest of {used.size} variables" if shown.size < used.size else ""
    style.write_panel_note(panel, 0.01, 0.01, f"lines: loadings × {line_scale:.3g}{selection}", fontsize=7, ha="left")
    samples.draw_legends(panel)
    _draw_variables(panel, tips, [names[i] for i in shown], np.arange(shown.size), [style.BLACK] * shown.size, scores)
    return panel


def _compute_line_scale(scores: Array, loadings: Array) -> float:
    """Return the factor that scales the longest line to 95 % of the largest score."""
    largest = (np.abs(values).max(axis=0, initial=0) for values in (scores, loadings))
    ratios = [0.95 * s / z for s, z in zip(*largest, strict=True) if s > 0 and z > 0]
    return float(min(ratios, default=1.0))


def _draw_variables(
    axes: Panel, tips: Array, names: Sequence[str], order: NDArray[np.intp], colours: Sequence[str], scores: Array
) -> None:
    """Draw a line from the origin to each tip, which has a dot, and name the first tips of an order.

    Dots stay distinct where the heads of arrows would hide each other: variables of one component lie on an axis. Names
    avoid the lines and the `scores`, (n_samples, 2).
    """
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection([[(0, 0), tuple(tip)] for tip in tips], colors=colours, linewidths=0.8))
    axes.scatter(tips[:, 0], tips[:, 1], s=16, c=colours, edgecolors="white", linewidths=0.5, zorder=3)
    obstacles = np.vstack([scores, *(share * tips for share in np.linspace(0.05, 1, 24))])
    name_points(axes, tips, names, order, colours=colours, obstacles=obstacles)


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
        Maximum number of variables drawn, those nearest to the circle; the twelve of the largest loadings are
        named.

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
    'Component 2, the part uncorrelated with component 1'
    """
    from matplotlib.patches import Circle

    pair = check_component_pair(components, len(model.components_))
    loadings = np.asarray(to_numpy(model.components_), np.float64)[pair].T
    names = style.resolve_variable_names(model, feature_names, len(loadings))
    correlations = _correlate_with_scores(model, X, loadings)  # (n_features, 2)
    used = np.flatnonzero(loadings.any(axis=1))
    shown = used[np.argsort(-np.sum(correlations[used] ** 2, axis=1), kind="stable")][:max_variables]
    panel = style.get_single_panel(axes, 5.6, 5.6)
    for radius, colour in ((1.0, "0.4"), (np.sqrt(0.5), "0.8")):  # all and half of a variance explained
        panel.add_patch(Circle((0, 0), radius, fill=False, edgecolor=colour, linewidth=0.9))
    panel.axhline(0, color="0.7", linewidth=0.7)
    panel.axvline(0, color="0.7", linewidth=0.7)
    panel.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    tips = correlations[shown]
    colours = [get_group_colour(owner) for owner in np.abs(loadings[shown]).argmax(axis=1)]
    first, second = (j + 1 for j in pair)
    style.label_axes(panel, f"Component {first}", f"Component {second}, the part uncorrelated with component {first}")
    for owner, axis in enumerate((panel.xaxis, panel.yaxis)):
        axis.label.set_color(get_group_colour(owner))
    note = "colours: component of the larger loading\ninner circle: half of the variance explained"
    style.write_panel_note(panel, 0.01, 0.01, note, fontsize=7, ha="left")
    n_shown, n_used = len(shown), len(used)
    selection = f"the {n_shown} nearest to the circle, of {n_used}" if n_shown < n_used else f"all {n_used}"
    style.set_left_title(panel, f"Correlations of {selection} variables in use")
    order = rank_nonzero_by_size(np.abs(loadings[shown]).max(axis=1))
    _draw_variables(panel, tips, [names[i] for i in shown], order, colours, np.empty((0, 2)))
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
