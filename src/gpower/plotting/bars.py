"""Plot bars with names, the longest on top: loadings, selection frequencies, methods by variance, gene sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array, to_numpy
from gpower._utils.text import format_count, format_percent
from gpower.plotting import style
from gpower.plotting.model_data import FittedModel, format_component_label
from gpower.plotting.sample_groups import LegendEntry, draw_legend
from gpower.plotting.style import AxesLike, Panel, Panels
from gpower.validation.pipelines import UnwrappedModel

if TYPE_CHECKING:
    from gpower.analysis.enrichment import Enrichment
    from gpower.baselines.comparison import ComparisonEntry
    from gpower.model_selection import Stability

__all__ = ["plot_comparison", "plot_enrichment", "plot_loadings", "plot_stability"]

MAX_PANELS_PER_ROW = 3
#: Width of the bars of a panel, of the narrowest column of names, and of a figure with more than one panel per row.
BARS_WIDTH_INCHES, MIN_NAME_WIDTH_INCHES, MAX_WIDTH_INCHES = 2.6, 0.8, 10.5
#: Smallest number of bars for which a panel has space, so that a single bar does not fill it.
MIN_BAR_SLOTS = 2
#: Largest share of the selected variables that chance may have selected where they are drawn as reliable.
MAX_CHANCE_SHARE = 1 / 3
#: Legend of the bars of selected variables, reliable and not, and of the others.
EVIDENCE_LEGEND: tuple[LegendEntry, ...] = (
    ("selected; at most a third may be chance", {"color": style.BLUE}),
    ("selected, but more than a third may be chance", {"color": style.ORANGE}),
    ("not selected", {"markerfacecolor": "white", "markeredgecolor": "0.5"}),
)
#: Largest number of characters of a gene set's name that a figure shows.
MAX_SET_NAME_LENGTH = 48


def plot_loadings(
    model: FittedModel, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 40
) -> Panels:
    """Plot the nonzero loadings as bars, one panel per component, the largest on top.

    Positive loadings are red and point right, negative ones are blue and point left. All panels have the same
    scale. The title gives the share of the variance that the component explains.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_` and `explained_variance_ratio_`, or a pipeline that has one.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Axes to draw on, one for each component; by default those of a new figure.
    max_variables : int, default 40
        Maximum number of loadings drawn for a component, the largest ones; a note gives the total number.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components,)

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_loadings
    >>> pitprops = load_pitprops()
    >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
    >>> axes = plot_loadings(model, pitprops.feature_names)
    >>> axes[0].get_title(loc="left")
    'Component 1 · 22.6 % of variance'
    >>> axes[0].figure.savefig("pitprops.png")  # doctest: +SKIP
    """
    model = UnwrappedModel.unwrap_fitted(model).model
    components = to_numpy(model.components_)
    names = style.resolve_variable_names(model, feature_names, components.shape[1])
    colours = np.where(components > 0, style.POSITIVE_COLOUR, style.NEGATIVE_COLOUR)
    panels, _ = _draw_bar_panels(axes, components, names, max_variables, color=colours)
    limit = 1.08 * (np.abs(components).max() or 1.0)
    for j, panel in enumerate(panels):
        style.set_left_title(panel, format_component_label(model, j))
        panel.set_xlabel("loading", fontsize=style.SMALL_FONT_SIZE)
        panel.axvline(0, color="0.25", linewidth=0.8)
        panel.set_xlim(-limit, limit)
    return panels


def plot_stability(
    stability: Stability, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 25
) -> Panels:
    """Plot the selection frequency of each variable as bars, one panel per component, the most frequent on top.

    Variables at or above the dashed threshold are selected; the bars of the others are hollow, with grey names. The
    title gives the largest number of selected variables to expect by chance. The bars of selected variables are blue if
    this is at most a third of them, and orange otherwise.

    Parameters
    ----------
    stability : Stability
        Result of `gpower.stability_selection`.
    feature_names : sequence of str, optional
        Names of all variables; by default those of the data, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Axes to draw on, one for each component; by default those of a new figure.
    max_variables : int, default 25
        Maximum number of variables drawn for a component, the most frequent ones; a note gives the total number.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components,)

    Examples
    --------
    >>> from gpower import stability_selection
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_stability
    >>> data = load_planted_expression()
    >>> stability = stability_selection(data.X, n_components=1, cardinality=8, n_subsamples=10)
    >>> axes = plot_stability(stability, data.feature_names)
    >>> print(axes[0].get_title(loc="left"))
    Component 1 · 8 variables selected
    at most 0.71 expected by chance
    """
    frequency = np.asarray(stability.frequency)
    selected = np.asarray(stability.selected)
    names = style.resolve_variable_names(stability, feature_names, frequency.shape[1])
    n_selected, n_false = selected.sum(axis=1), stability.expected_false_selections
    is_beyond_chance = n_false <= MAX_CHANCE_SHARE * n_selected
    selected_colours = np.where(is_beyond_chance, style.BLUE, style.ORANGE)[:, None]
    fills, edges = (np.where(selected, selected_colours, other) for other in ("white", "0.5"))
    panels, shown = _draw_bar_panels(axes, frequency, names, max_variables, color=fills, edgecolor=edges)
    for j, panel in enumerate(panels):
        for label, is_selected in zip(panel.get_yticklabels(), selected[j, shown[j]], strict=True):
            label.set_color("black" if is_selected else "0.5")
        title = f"{format_count(n_selected[j], 'variable')} selected\nat most {n_false[j]:.2g} expected by chance"
        if n_selected[j] == 0:
            title = f"no variable selected\nnone is in {format_percent(stability.threshold)} of the subsamples"
        elif not is_beyond_chance[j]:
            chance = f"up to {n_false[j]:.2g}" if n_false[j] < n_selected[j] else "all"
            title = f"{format_count(n_selected[j], 'variable')} selected\n{chance} of them may be chance"
        style.set_left_title(panel, f"Component {j + 1} · {title}")
        panel.set_xlabel(f"share of subsamples (threshold {stability.threshold:g})", fontsize=style.SMALL_FONT_SIZE)
        panel.axvline(stability.threshold, color=style.VERMILION, linestyle="--", linewidth=1.2)
        panel.set_xlim(0, 1.03)
    kinds = (selected[is_beyond_chance], selected[~is_beyond_chance], (frequency > 0) & ~selected)
    entries = [entry for entry, members in zip(EVIDENCE_LEGEND, kinds, strict=True) if members.any()]
    draw_legend(panels[0].figure, entries, loc="outside lower left")
    return panels


def plot_comparison(comparison: Iterable[ComparisonEntry], axes: AxesLike = None) -> Panel:
    """Plot the adjusted variance relative to PCA as bars, the best method on top, with the time of each.

    Parameters
    ----------
    comparison : Comparison
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import compare
    >>> from gpower.plotting import plot_comparison
    >>> from gpower.datasets import load_pitprops
    >>> table = compare(load_pitprops().correlation, n_components=1, cardinality=4, covariance="precomputed",
    ...                 methods=["gpower-l0", "thresholding"])
    >>> [label.get_text() for label in plot_comparison(table).get_yticklabels()]
    ['gpower-l0', 'thresholding']
    """
    methods = (entry for entry in comparison if entry.method != "pca")
    shown = sorted(methods, key=lambda entry: np.nan_to_num(entry.share_of_pca, nan=-np.inf), reverse=True)
    panel = style.get_single_panel(axes, 6.4, 0.9 + 0.3 * len(shown))
    shares = np.nan_to_num([100 * entry.share_of_pca for entry in shown])
    colours = [style.BLUE if entry.method.startswith("gpower") else "0.72" for entry in shown]
    _draw_bars(panel, shares, [style.escape_label(entry.method) for entry in shown], len(shown), color=colours)
    panel.axvline(100, color="0.25", linewidth=0.8)
    panel.set_xlim(0, 118)
    panel.set_xlabel("adjusted variance, % of PCA", fontsize=style.SMALL_FONT_SIZE)
    for position, (share, entry) in enumerate(zip(shares, shown, strict=True)):
        text = "does not run here" if entry.model is None else f"{entry.seconds:.2f} s"
        panel.text(102 if share else 1, position, text, va="center", fontsize=7.5, color="0.4")
    return panel


def plot_enrichment(result: Enrichment, axes: AxesLike = None, *, top: int = 20) -> Panel:
    """Plot −log10 of the adjusted p-values as bars, the most enriched sets on top.

    A set is drawn once, for the component in which it is most enriched; its label has the number of that component.

    Parameters
    ----------
    result : Enrichment
        Result of `gpower.analysis.enrichment.enrich`.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    top : int, default 20
        Maximum number of sets.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower.analysis.enrichment import enrich
    >>> from gpower.plotting import plot_enrichment
    >>> result = enrich([[1, 1, 0, 0]], {"AB": ["A", "B"], "CD": ["C", "D"]}, genes=list("ABCD"))
    >>> axes = plot_enrichment(result)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['AB (1)']
    """
    best_component = result.adjusted_p_values.argmin(axis=0)
    p_values = result.adjusted_p_values.min(axis=0)
    order = np.lexsort((result.p_values.min(axis=0), p_values))
    order = order[result.overlaps[:, order].any(axis=0)][:top]
    n_slots = max(order.size, 1)
    panel = style.get_single_panel(axes, 7.5, 1.0 + 0.24 * n_slots)
    lengths = -np.log10(np.maximum(p_values[order], np.finfo(float).tiny))
    colours = [style.BLUE if p_values[i] < result.alpha else "0.75" for i in order]
    set_names = [style.escape_label(result.universe.set_names[i], MAX_SET_NAME_LENGTH) for i in order]
    labels = [f"{name} ({best_component[i] + 1})" for name, i in zip(set_names, order, strict=True)]
    _draw_bars(panel, lengths, labels, n_slots, color=colours)
    panel.axvline(-np.log10(result.alpha), color="0.25", linewidth=0.8, linestyle="--")
    meaning = "−log₁₀ adjusted p-value; dashed: the limit; in brackets: the component"
    panel.set_xlabel(meaning, fontsize=style.SMALL_FONT_SIZE)
    return panel


def _draw_bar_panels(
    axes: AxesLike, values: Array, names: Sequence[str], max_bars: int, **colours: Array
) -> tuple[Panels, list[NDArray[np.intp]]]:
    """Draw a panel for each row of values, with bars of the `max_bars` largest, in colours of the shape of `values`.

    Return the panels and, for each, the indices of the values drawn. Bars have the same height in all panels of a row.
    """
    orders = [rank_nonzero_by_size(row) for row in values]
    shown = [order[:max_bars] for order in orders]
    n_panels = len(shown)
    name_width = style.estimate_label_width(names[i] for indices in shown for i in indices)
    width = BARS_WIDTH_INCHES + max(MIN_NAME_WIDTH_INCHES, name_width)
    n_fitting = min(n_panels, MAX_PANELS_PER_ROW, max(int(MAX_WIDTH_INCHES / width), 1))
    n_wide = n_fitting if axes is None else n_panels
    slots = [max(MIN_BAR_SLOTS, *map(len, shown[start : start + n_wide])) for start in range(0, n_panels, n_wide)]
    height = 0.95 * len(slots) + 0.22 * sum(slots)  # title and axis, then the bars
    expectation = f"the model has {n_panels} components"
    grid = style.get_panels(axes, len(slots), n_wide, n_wide * width, height, expectation, height_ratios=slots)
    for unused in grid.flat[n_panels:]:
        unused.set_axis_off()
    panels = np.ravel(grid)[:n_panels]
    for j, (panel, indices) in enumerate(zip(panels, shown, strict=True)):
        bar_style = {part: table[j, indices].tolist() for part, table in colours.items()}
        _draw_bars(panel, values[j, indices], [names[i] for i in indices], slots[j // n_wide], **bar_style)
        if not len(indices):
            style.write_panel_note(panel, 0.5, 0.5, "no active variable", ha="center")
        elif len(indices) < len(orders[j]):
            note = f"the {len(indices)} largest of {len(orders[j])}"
            style.write_panel_note(panel, 0.98, 0.02, note, fontsize=7.5, backgroundcolor="white")
    return panels, shown


def _draw_bars(axes: Panel, values: Array, names: list[str], n_slots: int, **bar_style: Any) -> None:
    """Draw the bars, the first on top, in a panel with space for `n_slots`."""
    positions = np.arange(len(values))
    axes.barh(positions, values, height=0.72, linewidth=0.8, **bar_style)
    axes.set_yticks(positions, names, fontsize=style.SMALL_FONT_SIZE)
    axes.set_ylim(n_slots - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=style.SMALL_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def rank_nonzero_by_size(values: Array) -> NDArray[np.intp]:
    """Return the indices of the nonzero values, the largest absolute value first."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[: np.count_nonzero(values)]
