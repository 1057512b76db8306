"""Gene sets that components hold more of than chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpower.plotting.canvas import BLUE, pyplot

_MAX_NAME = 48  # characters of a gene set's name that the picture shows


def plot_enrichment(result: Any, axes: Any = None, *, top: int = 20) -> Any:
    """Bars of −log10 of the adjusted p-values, the most enriched sets on top.

    A set is drawn once, for the component in which it is most enriched, which its label names.

    Parameters
    ----------
    result : Enrichment
        What `gpower.enrichment.enrich` gave back.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    top : int, default 20
        The most sets to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower.enrichment import enrich
    >>> from gpower.plotting import plot_enrichment
    >>> result = enrich([[1, 1, 0, 0]], {"AB": ["A", "B"], "CD": ["C", "D"]}, genes=list("ABCD"))
    >>> axes = plot_enrichment(result)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['AB (1)']
    """
    best = np.argmin(result.adjusted_p_values, axis=0)
    smallest = result.adjusted_p_values[best, np.arange(best.size)]
    order = np.lexsort((result.p_values.min(axis=0), smallest))
    order = order[result.overlaps[:, order].any(axis=0)][:top]
    if axes is None:
        _, axes = pyplot().subplots(figsize=(7.5, 1.0 + 0.24 * max(order.size, 1)), layout="constrained")
    heights = -np.log10(np.maximum(smallest[order], np.finfo(float).tiny))
    colours = [BLUE if smallest[at] < result.alpha else "0.75" for at in order]
    axes.barh(np.arange(order.size), heights, height=0.72, color=colours)
    names = [result.universe.set_names[at] for at in order]
    names = [name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…" for name in names]
    labels = [f"{name} ({best[at] + 1})" for name, at in zip(names, order, strict=True)]
    axes.set_yticks(np.arange(order.size), labels, fontsize=8)
    axes.set_ylim(max(order.size, 1) - 0.4, -0.6)
    axes.axvline(-np.log10(result.alpha), color="0.25", linewidth=0.8, linestyle="--")
    axes.set_xlabel("−log₁₀ adjusted p-value; dashed: the limit; in brackets: the component", fontsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return axes
