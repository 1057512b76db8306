"""Plot the association of components with metadata of the samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpower.analysis.association import Metadata, align_metadata, associate
from gpower.estimators.outliers import check_probability_level
from gpower.plotting.loadings import FittedModel
from gpower.plotting.style import (
    SMALL_FONT_SIZE,
    AxesLike,
    Panel,
    StyleKwargs,
    escape_label,
    estimate_label_width,
    get_single_panel,
    set_left_title,
)
from gpower.validation.pipelines import UnwrappedModel

__all__ = ["plot_metadata"]


def plot_metadata(
    model: FittedModel, X: ArrayLike, metadata: Metadata, axes: AxesLike = None, *, level: float = 0.05
) -> Panel:
    """Plot the strength of association between each component and each column of metadata as a heat map.

    The strength is Spearman's rank correlation for measured columns, with its sign. For groups it comes from the
    Kruskal–Wallis test: the square root of the share of the ranks' variance that lies between groups. For scores with
    few distinct values it is Cramér's V. A star marks p-values below `level` after the Benjamini–Hochberg correction
    over the whole figure. Samples without a value, and groups of one sample, are left out of that column.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `transform` and `explained_variance_ratio_`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    metadata : mapping of str to sequence, or pandas.DataFrame
        Columns with a value for every sample, in the order of X; in any order if both are frames whose index names the
        samples.
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
    m, n = association.strength.shape
    is_significant = association.adjusted_p_values < check_probability_level(level)
    names = [f"{escape_label(name)} · {test}" for name, test in zip(association.names, association.tests, strict=True)]
    panel = get_single_panel(axes, 2.2 + estimate_label_width(names) + 0.55 * m, 1.3 + 0.26 * n)
    edges = (np.arange(m + 1) - 0.5, np.arange(n + 1) - 0.5)
    style: StyleKwargs = {"cmap": "Blues", "vmin": 0, "vmax": 1, "edgecolors": "white", "linewidth": 0.8}
    cells = panel.pcolormesh(*edges, association.strength.T, **style)
    panel.set_facecolor("0.93")  # visible where the strength is NaN
    for j, i in np.ndindex(m, n):
        strength = float(association.strength[j, i])
        sign = ("", "+", "−")[int(association.sign[j, i])]
        text = "–" if np.isnan(strength) else f"{sign}{strength:.2f}{'*' if is_significant[j, i] else ''}"
        panel.text(j, i, text, ha="center", va="center", fontsize=7.5, color="white" if strength > 0.6 else "black")
    panel.set_xticks(np.arange(m), [str(j + 1) for j in range(m)], fontsize=SMALL_FONT_SIZE)
    panel.set_yticks(np.arange(n), names, fontsize=SMALL_FONT_SIZE)
    panel.set_xlabel("component", fontsize=SMALL_FONT_SIZE)
    panel.set_ylim(n - 0.5, -0.5)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    bar = panel.figure.colorbar(cells, ax=panel, pad=0.02, aspect=12)
    bar.set_label("strength", fontsize=SMALL_FONT_SIZE)
    bar.ax.tick_params(labelsize=SMALL_FONT_SIZE)
    bar.outline.set_visible(False)
    set_left_title(panel, f"Association; * adjusted p < {level:g}")
    return panel
