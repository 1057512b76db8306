"""Plot rankings as bars: methods by explained variance, gene sets by p-value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from gpower.plotting.bars import draw_bars
from gpower.plotting.style import BLUE, SMALL_FONT_SIZE, AxesLike, Panel, escape_label, get_single_panel

if TYPE_CHECKING:
    from gpower.analysis.enrichment import Enrichment
    from gpower.baselines.comparison import ComparisonEntry

__all__ = ["plot_comparison", "plot_enrichment"]

#: Largest number of characters of a gene set's name that a figure shows.
MAX_SET_NAME_LENGTH = 48


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
    panel = get_single_panel(axes, 6.4, 0.9 + 0.3 * len(shown))
    shares = np.nan_to_num([100 * entry.share_of_pca for entry in shown])
    colours = [BLUE if entry.method.startswith("gpower") else "0.72" for entry in shown]
    draw_bars(panel, shares, [escape_label(entry.method) for entry in shown], len(shown), color=colours)
    panel.axvline(100, color="0.25", linewidth=0.8)
    panel.set_xlim(0, 118)
    panel.set_xlabel("adjusted variance, % of PCA", fontsize=SMALL_FONT_SIZE)
    panel.tick_params(axis="x", labelsize=SMALL_FONT_SIZE)
    panel.spines[["top", "right"]].set_visible(False)
    for position, (share, entry) in enumerate(zip(shares, shown, strict=True)):
        text = "does not run here" if entry.model is None else f"{entry.seconds:.2g} s"
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
    panel = get_single_panel(axes, 7.5, 1.0 + 0.24 * n_slots)
    lengths = -np.log10(np.maximum(p_values[order], np.finfo(float).tiny))
    colours = [BLUE if p_values[i] < result.alpha else "0.75" for i in order]
    set_names = [escape_label(result.universe.set_names[i], MAX_SET_NAME_LENGTH) for i in order]
    labels = [f"{name} ({best_component[i] + 1})" for name, i in zip(set_names, order, strict=True)]
    draw_bars(panel, lengths, labels, n_slots, color=colours)
    panel.axvline(-np.log10(result.alpha), color="0.25", linewidth=0.8, linestyle="--")
    panel.set_xlabel("−log₁₀ adjusted p-value; dashed: the limit; in brackets: the component", fontsize=SMALL_FONT_SIZE)
    panel.spines[["top", "right", "left"]].set_visible(False)
    return panel
