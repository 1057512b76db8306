"""Ranked bars: methods by what they explain, gene sets by how far they are from chance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from gpower.plotting.bars import draw_bars
from gpower.plotting.canvas import get_single_panel
from gpower.plotting.style import BLUE, SMALL_FONT_SIZE, AxesLike, Panel, escape_label

if TYPE_CHECKING:
    from gpower.analysis.enrichment import Enrichment
    from gpower.baselines.comparison import ComparisonEntry

__all__ = ["plot_comparison", "plot_enrichment"]

MAX_SET_NAME_LENGTH = 48  # characters of a gene set's name that a picture shows


def plot_comparison(comparison: Iterable[ComparisonEntry], axes: AxesLike = None) -> Panel:
    """Bars of the adjusted variance relative to PCA, the best method on top, with the time of each.

    Parameters
    ----------
    comparison : Comparison
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

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
    for place, (share, entry) in enumerate(zip(shares, shown, strict=True)):
        text = "does not run here" if entry.model is None else f"{entry.seconds:.2g} s"
        panel.text(102 if share else 1, place, text, va="center", fontsize=7.5, color="0.4")
    return panel


def plot_enrichment(result: Enrichment, axes: AxesLike = None, *, top: int = 20) -> Panel:
    """Bars of −log10 of the adjusted p-values, the most enriched sets on top.

    A set is drawn once, for the component in which it is most enriched, which its label names.

    Parameters
    ----------
    result : Enrichment
        What `gpower.analysis.enrichment.enrich` gave back.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    top : int, default 20
        The most sets to draw.

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
    best, smallest = result.adjusted_p_values.argmin(axis=0), result.adjusted_p_values.min(axis=0)
    order = np.lexsort((result.p_values.min(axis=0), smallest))
    order = order[result.overlaps[:, order].any(axis=0)][:top]
    room = max(order.size, 1)
    panel = get_single_panel(axes, 7.5, 1.0 + 0.24 * room)
    heights = -np.log10(np.maximum(smallest[order], np.finfo(float).tiny))
    colours = [BLUE if smallest[at] < result.alpha else "0.75" for at in order]
    labels = [f"{escape_label(result.universe.set_names[at], MAX_SET_NAME_LENGTH)} ({best[at] + 1})" for at in order]
    draw_bars(panel, heights, labels, room, color=colours)
    panel.axvline(-np.log10(result.alpha), color="0.25", linewidth=0.8, linestyle="--")
    panel.set_xlabel("−log₁₀ adjusted p-value; dashed: the limit; in brackets: the component", fontsize=SMALL_FONT_SIZE)
    panel.spines[["top", "right", "left"]].set_visible(False)
    return panel
