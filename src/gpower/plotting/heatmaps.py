"""Plot heat maps: variables shared by components, association with metadata, and values of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array, to_host, to_numpy
from gpower._utils.text import format_names
from gpower.analysis.association import Metadata, MetadataColumn, align_metadata, associate, parse_metadata
from gpower.estimators.base import SparsePCAEstimator
from gpower.estimators.outliers import check_probability_level
from gpower.operators.explained_variance import count_shared_variables
from gpower.plotting import style
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.model_data import FittedModel, format_component_label, prepare_operator
from gpower.plotting.sample_groups import COLOUR_MAP, HEADING_STYLE, LegendEntry, draw_legend, get_group_colour
from gpower.plotting.style import AxesLike, Panel, Panels, StyleKwargs
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_heatmap", "plot_metadata", "plot_overlap"]

#: Standard deviations from the mean at which the colours of `plot_heatmap` end.
MAX_DEVIATION = 2.5
#: Largest number of characters of the names of metadata next to a heat map of samples.
MAX_LEGEND_TEXT_LENGTH = 30
#: Largest number of metadata columns that programs draw next to a heat map of samples; more have too long a legend.
MAX_METADATA_BARS = 4
#: Tests of association, with the name of the strength, its colours and its smallest value.
STRENGTH_SCALES = {
    "Spearman": ("Spearman's ρ (numbers)", style.SIGNED_COLOUR_MAP, -1.0),
    "Kruskal–Wallis": ("correlation ratio η (groups)", "Purples", 0.0),
    "χ²": ("Cramér's V (groups)", "Greens", 0.0),
}


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
    panel = style.get_single_panel(axes, 3.2 + 0.42 * m, 1.3 + 0.42 * m)
    share = counts / np.maximum(np.minimum.outer(np.diagonal(counts), np.diagonal(counts)), 1)
    rows = [f"Component {j + 1}" for j in range(m)]
    cells = style.draw_cells(panel, share, rows, [str(j + 1) for j in range(m)], cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(m, m):
        style.write_in_cell(panel, i, j, str(counts[i, j]), is_dark=share[i, j] > 0.6)
    panel.set(xlim=(-0.5, m - 0.5), aspect="equal")
    panel.set_xlabel("component", fontsize=style.SMALL_FONT_SIZE)
    style.draw_colour_bar(panel, cells, "share of the smaller\ncomponent's variables")
    style.set_left_title(panel, "Variables in common")
    return panel


def plot_metadata(
    model: FittedModel, X: ArrayLike, metadata: Metadata, axes: AxesLike = None, *, level: float = 0.05
) -> Panel:
    """Plot the strength of association between each component and each column of metadata as a heat map.

    For measured columns the strength is Spearman's rank correlation ρ, from −1 (blue) to 1 (red). For groups it is the
    correlation ratio η of the ranks, from 0 to 1 (purple): η² is the share of the ranks' variance that lies between
    groups, which the Kruskal–Wallis test uses. For scores with few distinct values it is Cramér's V, from 0 to 1. A
    star marks p-values below `level` after the Benjamini–Hochberg correction over the whole figure. Samples without a
    value, and groups of one sample, are left out of that column. Columns in which each sample has a word of its own,
    such as a name, are left out of the figure; its title names them.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    metadata : mapping of str to sequence, or pandas.DataFrame
        Columns with a value for every sample, in the order of X; in any order if both have an index that names the
        samples. Whole numbers with at most six different values are groups; so are categories and text of a frame or an
        array, such as ``metadata["label"].astype(str)``.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    level : float, default 0.05
        Adjusted p-value below which a cell has a star.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_metadata
    >>> X = load_planted_expression().X
    >>> model = GPower(2, cardinality=8).fit(X)
    >>> axes = plot_metadata(model, X, {"dose": model.transform(X)[:, 0], "batch": ["a", "b", "c"] * 20})
    >>> [text.get_text() for text in axes.texts][0]
    '+1.00*'
    """
    association = associate(UnwrappedModel.unwrap(model).compute_scores(X), align_metadata(X, metadata))
    if not association.names:
        reason = f"each sample has a word of its own in {format_names(association.identifiers)}"
        raise ValueError(f"metadata: {reason}; add a column of groups or numbers.")
    m, n = association.strength.shape
    is_significant = association.adjusted_p_values < check_probability_level(level)
    tests = np.array(association.tests)
    signed = np.where(tests == "Spearman", association.sign, 1.0) * association.strength  # (n_components, n_columns)
    names = [f"{style.escape_label(name)} · {test}" for name, test in zip(association.names, tests, strict=True)]
    scales = [(test, *scale) for test, scale in STRENGTH_SCALES.items() if test in tests]
    width = 1.4 + style.estimate_label_width(names) + 0.5 * m + 0.8 * len(scales)
    panel = style.get_single_panel(axes, width, max(1.4 + 0.26 * n, 2.2))
    numbers = [str(j + 1) for j in range(m)]
    for test, label, colour_map, lowest in scales:
        values = np.ma.masked_invalid(np.where(tests == test, signed, np.nan).T)
        cells = style.draw_cells(panel, values, names, numbers, cmap=colour_map, vmin=lowest, vmax=1)
        style.draw_colour_bar(panel, cells, label, aspect=14)
    for j, i in np.ndindex(m, n):
        strength = float(association.strength[j, i])
        sign = ("", "+", "−")[int(association.sign[j, i]) if strength >= 0.005 else 0]
        text = "–" if np.isnan(strength) else f"{sign}{strength:.2f}{'*' if is_significant[j, i] else ''}"
        style.write_in_cell(panel, i, j, text, is_dark=strength > 0.6)
    panel.set_xlabel("component", fontsize=style.SMALL_FONT_SIZE)
    left_out = style.escape_label(format_names(association.identifiers), 22)
    note = f"\nleft out, all different: {left_out}" if left_out else ""
    style.set_left_title(panel, f"Strength of association; * adjusted p < {level:g}{note}")
    return panel


def plot_heatmap(
    model: SparsePCAEstimator,
    X: ArrayLike,
    component: int = 0,
    metadata: Metadata | None = None,
    feature_names: Sequence[str] | None = None,
    *,
    max_variables: int = 40,
) -> Panels:
    """Plot the values of a component's variables as a heat map of samples × variables, next to metadata of the samples.

    Samples are sorted by their score, the largest on top, and variables by their loading, from the largest positive one
    to the largest negative one; a gap separates both signs. Values are standardised: red is above the mean of the
    variable, blue below. Each column of metadata is a bar to the left: groups have the colours of the legend, and
    numbers go from dark (smallest) to bright (largest).

    Parameters
    ----------
    model : GPower
        Fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    component : int, default 0
        Index of the component.
    metadata : mapping of str to sequence, or pandas.DataFrame, optional
        Columns with a value for every sample, as for `plot_metadata`. The seven largest groups of a column have a
        colour of their own.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    max_variables : int, default 40
        Maximum number of variables drawn, those with the largest loadings; the title gives the total number.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_columns + 1,)
        The bars of the metadata and, as the last, the heat map.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_heatmap
    >>> data = load_planted_expression()
    >>> model = GPower(2, cardinality=[8, 6]).fit(data.X)
    >>> axes = plot_heatmap(model, data.X, 1, {"batch": ["a", "b", "c"] * 20}, data.feature_names)
    >>> [label.get_text() for label in axes[-1].get_xticklabels()]
    ['IMMUNE5', 'IMMUNE3', 'IMMUNE4', 'IMMUNE2', 'IMMUNE1', 'IMMUNE6']
    """
    unwrapped = UnwrappedModel.unwrap_fitted(model)
    model = unwrapped.model
    m = len(model.components_)
    if not 0 <= component < m:
        raise ValueError(f"component={component}: the model has {m}, counted from 0.")
    loadings = to_numpy(model.components_)[component]
    names = style.resolve_variable_names(model, feature_names, loadings.size)
    used = rank_nonzero_by_size(loadings)
    if not used.size:
        raise ValueError(f"component={component} has no variable; all its loadings are zero.")
    shown = used[:max_variables]
    shown = shown[np.argsort(-loadings[shown], kind="stable")]
    score = unwrapped.compute_scores(X)[:, component]
    order = np.argsort(-score, kind="stable")
    columns = {} if metadata is None else parse_metadata(align_metadata(X, metadata), score.size)
    values = to_host(prepare_operator(model, unwrapped.apply_earlier_steps(X)).columns(shown))[order]
    deviations = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), np.finfo(float).tiny)

    n_bars = len(columns)
    bars, n_colours = list[tuple[Array, list[LegendEntry]]](), 0
    for column in columns.values():
        bars.append(_colour_metadata_column(column, n_colours))
        n_colours += 0 if column.is_continuous else min(len(column.groups), len(style.COLOURS))
    bar_names = [style.escape_label(name, MAX_LEGEND_TEXT_LENGTH) for name in columns]
    entries = [
        entry for name, (_, groups) in zip(bar_names, bars, strict=True) for entry in [(name, HEADING_STYLE), *groups]
    ]
    name_width = style.estimate_label_width([*(names[i] for i in shown), *bar_names])
    legend_width = 0.6 + style.estimate_label_width(text for text, _ in entries) if columns else 0.0
    ratios = [*[1.2] * n_bars, max(shown.size, 10)]
    width = 2.2 + 0.2 * sum(ratios) + legend_width
    panels = np.ravel(style.get_panels(None, 1, len(ratios), width, 4.2 + name_width, width_ratios=ratios))
    for panel, name, (colours, _) in zip(panels, bar_names, bars, strict=False):
        panel.imshow(colours[order][:, None], aspect="auto", interpolation="nearest")
        panel.set_xticks([0], [name], fontsize=style.SMALL_FONT_SIZE)
        panel.set_yticks([])
        panel.spines[:].set_visible(False)
        panel.tick_params(length=0)
    scale: StyleKwargs = {"cmap": style.SIGNED_COLOUR_MAP, "vmin": -MAX_DEVIATION, "vmax": MAX_DEVIATION}
    variable_names = [names[i] for i in shown]
    cells = style.draw_cells(panels[-1], deviations, [], variable_names, **scale, edgecolors="none", rasterized=True)
    n_positive = int(np.count_nonzero(loadings[shown] > 0))
    panels[-1].axvline(n_positive - 0.5, color="white", linewidth=4)
    style.draw_colour_bar(panels[-1], cells, "standard deviations from the mean", aspect=25)
    selection = f", the {shown.size} largest loadings of {used.size}" if shown.size < used.size else ""
    style.set_left_title(panels[-1], format_component_label(model, component) + selection)
    panels[0].set_ylabel("samples, the largest score on top", fontsize=style.NORMAL_FONT_SIZE)
    for panel in panels:
        panel.tick_params(axis="x", rotation=90)
    if entries:
        draw_legend(panels[0].figure, entries, loc="outside right upper")
    return panels


def _colour_metadata_column(column: MetadataColumn, first_colour: int) -> tuple[Array, list[LegendEntry]]:
    """Return the colour of each sample, (n_samples, 4), and the legend entries of a column of metadata.

    The colours of groups begin with the one numbered `first_colour`, so that other columns may have other colours.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    entries: list[LegendEntry] = []
    if column.is_continuous:
        low, high = np.nanmin(column.values), np.nanmax(column.values)
        shades = colormaps[COLOUR_MAP]
        colours = shades((column.values - low) / max(high - low, np.finfo(float).tiny))
        entries += [
            (f"{end:.4g}".replace("-", "−"), {"color": shades(place)}) for end, place in ((low, 0.0), (high, 1.0))
        ]
    else:
        colours = to_rgba_array(["0.8"] * column.values.size)
        groups = column.groups
        largest = sorted(groups, key=lambda group: groups[group].size, reverse=True)[: len(style.COLOURS)]
        for i, group in enumerate((group for group in groups if group in largest), first_colour):
            colours[groups[group]] = to_rgba_array(get_group_colour(i))
            entries.append((style.escape_label(group, MAX_LEGEND_TEXT_LENGTH), {"color": get_group_colour(i)}))
        if len(groups) > len(entries):
            entries.append((f"{len(groups) - len(entries)} other groups", {"color": "0.8"}))
    if not column.is_known.all():
        colours[~column.is_known] = 1.0  # white
        entries.append(("not known", {"markerfacecolor": "white", "markeredgecolor": "0.6"}))
    return colours, entries
