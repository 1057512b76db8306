"""Plot the samples: scores on two components or on all pairs, and outliers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower._utils.text import NumberedNames
from gpower.analysis.association import align_rows, get_row_names
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.outliers import check_probability_level, compute_t2_limit
from gpower.plotting import style
from gpower.plotting.labels import name_points
from gpower.plotting.model_data import FittedModel, check_component_pair, format_component_label
from gpower.plotting.sample_groups import Labels, SampleAppearance, get_group_colour
from gpower.plotting.style import AxesLike, Panel, Panels
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_outliers", "plot_pairs", "plot_scores"]

#: Largest number of components that `plot_pairs` draws by default.
MAX_PAIRED_COMPONENTS = 6
#: Smallest number of samples of a group with an ellipse.
MIN_ELLIPSE_SAMPLES = 10


def plot_scores(
    model: FittedModel,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    color: Labels = None,
    axes: AxesLike = None,
    *,
    names: Sequence[str] | None = None,
    ellipse: float | None = None,
) -> Panel:
    """Plot the scores of the samples on two components, with groups distinguished by colour and marker.

    Scores of sparse components may be correlated; a note gives their correlation.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, as `model.transform` takes them.
    components : pair of int, default (0, 1)
        Indices of the components on the two axes.
    color : sequence, or mapping of one name to a sequence, optional
        Group of each sample, at most 24 different ones; or a measured quantity, which is drawn as shades of colour.
        Whole numbers with at most six different values are groups; so are categories and text of a frame or an array.
        A Series with names in its index is matched to a frame X by them; they have to include every sample. Rows of an
        array X have no names: the values are in their order.
        The title of the legend is the name of a column of a frame, or that of a mapping.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    names : sequence of str, optional
        Names of the samples, written next to the 12 farthest from the mean.
    ellipse : float, optional
        Share, such as 0.95, of new normal samples that an ellipse around each group would contain. Groups of fewer
        than ten samples get no ellipse: they say too little about their spread.

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
    unwrapped = UnwrappedModel.unwrap(model)
    model = unwrapped.model
    pair = check_component_pair(components, len(model.explained_variance_ratio_))
    scores = unwrapped.compute_scores(X)[:, pair]
    samples = SampleAppearance.from_labels(X, len(scores), color)
    panel = style.get_single_panel(axes, 5.6 + samples.legend_width, 4.2)
    draw_scores(panel, scores, samples, ellipse)
    style.label_axes(panel, *(format_component_label(model, j) for j in pair))
    samples.draw_legends(panel)
    if names is not None:
        deviations = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), np.finfo(float).tiny)
        order = np.argsort(-np.sum(deviations**2, axis=1), kind="stable")
        name_points(panel, scores, _check_sample_names(X, names, len(scores)), order)
    return panel


def draw_scores(panel: Panel, scores: Array, appearance: SampleAppearance, ellipse: float | None = None) -> None:
    """Draw the samples and their ellipses, with a note on the ellipses and on the correlation of the scores."""
    appearance.draw_points(panel, scores)
    notes = []
    if ellipse is not None:
        groups = list((appearance.groups or {"": np.arange(len(scores))}).values())
        for i, members in enumerate(groups):
            if members.size >= MIN_ELLIPSE_SAMPLES:
                _draw_group_ellipse(panel, scores[members], check_probability_level(ellipse), get_group_colour(i))
        has_small_group = min(members.size for members in groups) < MIN_ELLIPSE_SAMPLES
        exception = f" (groups of {MIN_ELLIPSE_SAMPLES} or more)" if has_small_group else ""
        notes.append(f"ellipses: {100 * ellipse:g} % of new samples, if normally distributed{exception}")
    correlation = correlate_score_pair(scores)
    if abs(correlation) >= 0.05:
        notes.append(f"correlation of the scores {correlation:+.2f}".replace("-", "−"))
    if notes:
        style.write_panel_note(panel, 0.99, 1.01, "\n".join(notes), fontsize=7.5)


def correlate_score_pair(scores: Array) -> float:
    """Return the correlation of two columns of scores; zero if one of them is constant."""
    return float(np.corrcoef(scores.T)[0, 1]) if np.all(np.ptp(scores, axis=0) > 0) else 0.0


def _draw_group_ellipse(axes: Panel, points: Array, level: float, colour: str) -> None:
    """Draw the ellipse that would contain a share `level` of new normal samples."""
    from matplotlib.patches import Ellipse

    values, vectors = np.linalg.eigh(np.cov(points.T))
    width, height = 2 * np.sqrt(values.clip(0) * compute_t2_limit(2, len(points), level))
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    x, y = (float(middle) for middle in points.mean(axis=0))
    axes.add_patch(Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1))
    axes.autoscale_view()


def _check_sample_names(X: object, names: Sequence[str], n_samples: int) -> list[str]:
    """Return the escaped names of the samples X, in their order; raise ValueError if there is not one for each."""
    names = align_rows(X, names, "names")
    if len(names) != n_samples:
        raise ValueError(f"names has {len(names)} entries, but X has {n_samples} samples.")
    return [style.escape_label(name) for name in names]


def plot_pairs(
    model: FittedModel,
    X: ArrayLike,
    color: Labels = None,
    *,
    n_components: int | None = None,
) -> Panels:
    """Plot the scores of every pair of components below the diagonal, histograms on it, and correlations above.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    color : sequence, or mapping of one name to a sequence, optional
        As for `plot_scores`.
    n_components : int, optional
        Number of leading components to draw; by default all, at most six.

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
    scores = UnwrappedModel.unwrap(model).compute_scores(X)[:, : n_components or MAX_PAIRED_COMPONENTS]
    m = scores.shape[1]
    if m < 2:
        raise ValueError(
            f"Pairs need two components or more; fit a model with {format_param('n_components', 2)}, or use "
            "plot_loadings."
        )
    samples = SampleAppearance.from_labels(X, len(scores), color)
    side = max(1.5, min(2.4, 9 / m))
    panels = style.get_panels(None, m, m, 0.5 + side * m + samples.legend_width, 0.4 + side * m, sharex="col")
    for (i, j), panel in np.ndenumerate(panels):
        if i == j:
            _draw_score_histogram(panel, scores[:, i], samples)
        elif i > j:
            samples.draw_points(panel, scores[:, [j, i]])
        else:
            panel.set_axis_off()
            text = f"correlation\n{correlate_score_pair(scores[:, [j, i]]):+.2f}".replace("-", "−")
            style.write_panel_note(panel, 0.5, 0.5, text, ha="center", va="center", fontsize=10, color="black")
        is_lowest, is_leftmost = i == m - 1, 0 == j < i
        style.label_axes(panel, f"Component {j + 1}" * is_lowest, f"Component {i + 1}" * is_leftmost)
        panel.tick_params(labelsize=style.SMALL_FONT_SIZE - 1, labelleft=is_leftmost, labelbottom=is_lowest)
    samples.draw_legends(panels[0, -1], panels)
    return panels


def _draw_score_histogram(axes: Panel, scores: Array, appearance: SampleAppearance) -> None:
    """Draw a histogram of the scores for each group."""
    bins = np.histogram_bin_edges(scores, min(40, 1 + int(np.sqrt(len(scores))))).tolist()
    groups = appearance.groups or {"": np.arange(len(scores))}
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
    """Plot the squared residual of each sample against its distance within the components, Hotelling's T².

    Dashed lines are limits below which a share `level` of normal samples lies. Samples beyond one of them are named,
    at most the 12 farthest.

    Parameters
    ----------
    model : GPower
        Model fitted to samples, not to a covariance.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    names : sequence of str, optional
        Names of the samples; by default the index of a frame, or s0, s1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    level : float, default 0.95
        Share of normal samples below each limit.
    reference : array-like or sparse matrix, optional
        Samples that the model was fitted to, if X contains other samples.

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
    training = X if reference is None else reference
    limits = np.array([model.hotelling_t2_limit(level), model.squared_residual_limit(training, level)])
    n = len(distances)
    labels = _check_sample_names(X, get_row_names(X) or NumberedNames(n, "s") if names is None else names, n)
    beyond = distances > limits  # (n_samples, 2)
    panel = style.get_single_panel(axes, 6.0, 4.4)
    for draw_limit, limit in zip((panel.axvline, panel.axhline), limits, strict=True):
        draw_limit(limit, color="0.4", linestyle="--", linewidth=0.9)
    is_outlier: Array = np.any(beyond, axis=1)
    colours = np.where(is_outlier, style.VERMILION, style.BLUE)
    panel.scatter(distances[:, 0], distances[:, 1], s=22, alpha=0.8, linewidth=0, c=colours)
    style.label_axes(panel, "distance within the components, T²", "squared residual, outside of the components")
    largest = np.maximum(limits, distances.max(axis=0))
    largest[largest == 0] = 1.0
    panel.set(xlim=(-0.02 * largest[0], 1.08 * largest[0]), ylim=(-0.02 * largest[1], 1.08 * largest[1]))
    by_t2, by_residual = beyond.sum(axis=0)
    counts = f"{by_t2} by T², {by_residual} by residual, {beyond.all(axis=1).sum()} by both, of {len(distances)}"
    style.write_panel_note(panel, 0.99, 1.01, f"beyond the {100 * level:g} % limits: {counts}", fontsize=7.5)
    order = np.argsort(-np.max(distances / np.maximum(limits, np.finfo(float).tiny), axis=1), kind="stable")
    name_points(panel, distances, labels, order[is_outlier[order]])
    return panel
