"""Methods side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpower.plotting.canvas import BLUE, pyplot

_GREY = "0.72"


def plot_comparison(comparison: Any, axes: Any = None) -> Any:
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
    shown = [entry for entry in comparison if entry.method != "pca"]
    shown.sort(key=lambda entry: -np.inf if np.isnan(entry.share_of_pca) else entry.share_of_pca, reverse=True)
    if axes is None:
        _, axes = pyplot().subplots(figsize=(6.4, 0.9 + 0.3 * len(shown)), layout="constrained")
    places = np.arange(len(shown))
    shares = np.nan_to_num([100 * entry.share_of_pca for entry in shown])
    colours = [BLUE if entry.method.startswith("gpower") else _GREY for entry in shown]
    axes.barh(places, shares, height=0.72, color=colours)
    axes.axvline(100, color="0.25", linewidth=0.8)
    axes.set_yticks(places, [entry.method for entry in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 118)
    axes.set_xlabel("adjusted variance, % of PCA", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for place, share, entry in zip(places, shares, shown, strict=True):
        text = "does not run here" if entry.model is None else f"{entry.seconds:.2g} s"
        axes.text(102 if share else 1, place, text, va="center", fontsize=7.5, color="0.4")
    return axes
