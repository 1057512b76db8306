"""Scree plots: variance of each component, compared with PCA components and with permuted tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower._utils.text import format_count
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators.leading_pca import compute_leading_components
from gpower.plotting import style
from gpower.plotting.model_data import prepare_operator
from gpower.plotting.style import AxesLike, Panel, StyleKwargs

if TYPE_CHECKING:
    from gpower.model_selection import ComponentTest

__all__ = ["plot_components", "plot_scree"]

SPARSE_STYLE: StyleKwargs = {"color": style.BLUE, "marker": "o", "markersize": 6, "label": "sparse components"}
PCA_STYLE: StyleKwargs = {"color": style.BLACK, "marker": "D", "markersize": 4.5, "linewidth": 1.0, "label": "PCA"}
#: Line of parallel analysis (Horn 1965).
HORN_STYLE: StyleKwargs = {"color": style.MUTED_COLOUR, "linewidth": 1.6, "linestyle": ":"}
HORN_STYLE |= {"label": "PCA of permuted tables, mean (parallel analysis)"}
#: Markers of components that explain no more than chance.
HOLLOW_STYLE: StyleKwargs = {"color": style.BLUE, "markerfacecolor": "white", "label": "_"}
#: Largest ratio of the variances of a figure for which a linear scale shows the smallest one.
MAX_LINEAR_RATIO = 20


def plot_scree(
    model: SparsePCAEstimator,
    X: ArrayLike | None = None,
    axes: AxesLike = None,
    *,
    test: ComponentTest | None = None,
) -> Panel:
    """Plot the variance that each component explains, and the cumulative variance, next to those of PCA.

    Variances are adjusted: variance shared with higher-variance components is not counted, so that the total is what
    all components explain together. A component of few variables may explain much less than one of all variables; the
    scale is then logarithmic.

    Parameters
    ----------
    model : GPower
        Fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features), optional
        Data of the fit. If given, as many PCA components are drawn too.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    test : ComponentTest, optional
        Result of `gpower.component_test` on the same data; draws the null quantiles of permuted tables.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_scree
    >>> X = load_planted_expression().X
    >>> axes = plot_scree(GPower(3, cardinality=8).fit(X), X)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['sparse components', 'sparse, cumulative', 'PCA', 'PCA, cumulative']
    """
    return draw_scree(model, None if X is None else compute_pca_shares(model, X), axes, test)


def draw_scree(
    model: SparsePCAEstimator, pca_shares: Array | None, axes: AxesLike = None, test: ComponentTest | None = None
) -> Panel:
    """Draw the scree plot of a model, with PCA components that explain these shares of the variance."""
    shares = np.asarray(model.explained_variance_ratio_, float)
    positions = np.arange(1, shares.size + 1)
    panel = style.get_single_panel(axes, max(5.0, 2.4 + 0.45 * shares.size), 3.8)
    curves = [("sparse", shares, SPARSE_STYLE)]
    if pca_shares is not None:
        curves.append(("PCA", pca_shares, PCA_STYLE))
    for label, values, curve_style in curves:
        panel.plot(positions, 100 * values, **curve_style)
        if shares.size > 1:
            cumulative_style = curve_style | {"linestyle": "--", "linewidth": 0.9, "markersize": 2.5}
            panel.plot(positions, 100 * np.cumsum(values), **cumulative_style | {"label": f"{label}, cumulative"})
    _finish_scree_panel(panel, shares.size, test)
    return panel


def compute_pca_shares(model: SparsePCAEstimator, X: ArrayLike) -> Array:
    """Return the share of the variance that each of as many PCA components explains, (n_components,)."""
    operator = prepare_operator(model, X)
    _, variances = compute_leading_components(operator, len(model.components_))
    return variances / max(operator.total_variance, np.finfo(float).tiny)


def needs_log_scale(values: Array) -> bool:
    """Return whether a linear scale would hide the smallest of the positive values.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.plotting.scree import needs_log_scale
    >>> needs_log_scale(np.array([0.0, 1.0, 10.0])), needs_log_scale(np.array([0.1, 10.0]))
    (False, True)
    """
    positive = values[values > 0]
    return bool(positive.size and positive.max() > MAX_LINEAR_RATIO * positive.min())


def _finish_scree_panel(axes: Panel, n_components: int, test: ComponentTest | None) -> None:
    """Draw the null quantiles of the tested components, in % of the total variance; set scales, labels and legend."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    if test is not None:
        quantiles = 100 * test.null_quantile[:n_components] / test.total_variance
        label = f"{100 * (1 - test.level):g} % of permuted tables stay below"
        line_style: StyleKwargs = {"color": style.VERMILION, "markersize": 17, "markeredgewidth": 2, "label": label}
        axes.plot(np.arange(1, quantiles.size + 1), quantiles, "_", **line_style)
    style.label_axes(axes, "component", "% of variance")
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
    if needs_log_scale(drawn):
        axes.set(yscale="log", ylabel="% of variance (logarithmic scale)")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.minorticks_off()
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(0.5, n_components + 0.5)
    axes.set_xticks(np.arange(1, n_components + 1, max(1, n_components // 12)))
    axes.xaxis.grid(False)
    style.draw_legend_above(axes)


def plot_components(test: ComponentTest, axes: AxesLike = None) -> Panel:
    """Plot the variance and the p-value of each component with the null quantiles, and PCA with parallel analysis.

    Components that explain more than chance are blue, the others hollow. The dotted line of parallel analysis (Horn
    1965) is the mean variance of the PCA components of permuted tables.

    Parameters
    ----------
    test : ComponentTest
        Result of `gpower.component_test`.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import component_test
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_components
    >>> test = component_test(load_planted_expression().X, 5, cardinality=6, n_permutations=40)
    >>> plot_components(test).get_xlabel()
    'component; 3 components at the level 0.05'
    """
    m = test.p_values.size
    positions = np.arange(1, m + 1)
    percent = 100 / test.total_variance
    panel = style.get_single_panel(axes, max(5.6, 2.4 + 0.5 * m), 4.0)
    panel.plot(positions, percent * test.variance, **SPARSE_STYLE)
    beyond = slice(test.n_components, m)
    panel.plot(positions[beyond], percent * test.variance[beyond], "o", **HOLLOW_STYLE)
    panel.plot(positions, percent * test.pca_variance, **PCA_STYLE)
    panel.plot(positions, percent * test.horn, **HORN_STYLE)
    _finish_scree_panel(panel, m, test)
    tick_labels = [f"{j + 1}\np={p:.2g}" if j < test.n_tested else f"{j + 1}" for j, p in enumerate(test.p_values)]
    panel.set_xticks(positions, tick_labels, fontsize=style.SMALL_FONT_SIZE - 0.5)
    count = format_count(test.n_components, "component")
    panel.set_xlabel(f"component; {count} at the level {test.level:g}")
    return panel
