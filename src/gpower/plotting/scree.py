"""The scree: what each component explains, beside ordinary components and beside chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gpower._utils.arrays import Array
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators.leading_pca import compute_leading_components
from gpower.plotting.canvas import draw_legend_above, get_single_panel, style_panel
from gpower.plotting.loadings import prepare_operator
from gpower.plotting.style import (
    BLACK,
    BLUE,
    MUTED_COLOUR,
    NORMAL_FONT_SIZE,
    SMALL_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
)

if TYPE_CHECKING:
    from gpower.model_selection import ComponentTest

__all__ = ["plot_components", "plot_scree"]


def plot_scree(
    model: SparsePCAEstimator,
    X: ArrayLike | None = None,
    axes: AxesLike = None,
    *,
    test: ComponentTest | None = None,
) -> Panel:
    """Bars of the variance that each component explains, and the running total.

    Of each component only what the others of larger variance leave is counted (adjusted variance), so that the total is
    what they explain together.

    Parameters
    ----------
    model : GPower
        A fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features), optional
        The data of the fit; with them as many ordinary components are drawn beside.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    test : ComponentTest, optional
        Of the same data, as from `gpower.component_test`: draws the variance that chance reaches.

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
    ['ordinary components', 'sparse, running total', 'ordinary, running total', 'sparse components']
    """
    shares = 100 * np.asarray(model.explained_variance_ratio_, float)
    places = np.arange(1, shares.size + 1)
    panel = get_single_panel(axes, max(5.0, 2.4 + 0.45 * shares.size), 3.8)
    panel.bar(places, shares, width=0.62, color=BLUE, label="sparse components")
    totals = {"sparse, running total": (shares, BLUE)}
    if X is not None:
        ordinary = 100 * compute_pca_shares(model, X)
        panel.plot(places, ordinary, "D", color=BLACK, markersize=4.5, label="ordinary components")
        totals["ordinary, running total"] = (ordinary, BLACK)
    if test is not None:
        _draw_null_quantiles(panel, test, shares.size)
    for label, (values, colour) in totals.items() if shares.size > 1 else ():
        panel.plot(places, np.cumsum(values), "--", marker=".", color=colour, linewidth=0.9, label=label)
    _style_scree_panel(panel, shares.size)
    draw_legend_above(panel)
    return panel


def compute_pca_shares(model: SparsePCAEstimator, X: ArrayLike) -> Array:
    """Share of the variance in each of as many ordinary components."""
    operator = prepare_operator(model, X)
    return compute_leading_components(operator, len(model.components_))[1] / max(
        operator.total_variance, np.finfo(float).tiny
    )


def _draw_null_quantiles(axes: Panel, test: ComponentTest, max_components: int) -> None:
    limit = 100 * test.null_quantile[:max_components] / test.total_variance
    axes.plot(
        np.arange(1, limit.size + 1),
        limit,
        "_",
        color=VERMILION,
        markersize=17,
        markeredgewidth=2,
        label=_format_null_label(test),
    )


def _format_null_label(test: ComponentTest) -> str:
    return f"{100 * (1 - test.level):g} % of permuted tables stay below"


def _style_scree_panel(axes: Panel, n_components: int) -> None:
    style_panel(axes, "component", "% of variance")
    axes.set_xlim(min(0.4, n_components - 1.6), max(n_components + 0.6, 2.6))  # a single bar does not fill its panel
    axes.set_ylim(bottom=0)
    axes.set_xticks(np.arange(1, n_components + 1, max(1, n_components // 12)))
    axes.xaxis.grid(False)


def plot_components(test: ComponentTest, axes: AxesLike = None) -> Panel:
    """Variance of each component beside that of permuted tables, with p-values; ordinary components and Horn's line.

    Parameters
    ----------
    test : ComponentTest
        As from `gpower.component_test`.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

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
    places, unit = np.arange(1, m + 1), 100 / test.total_variance
    panel = get_single_panel(axes, max(5.6, 2.4 + 0.5 * m), 4.0)
    colours = [BLUE if j < test.n_components else "0.8" for j in range(m)]
    panel.bar(places, unit * test.variance, width=0.62, color=colours, label="sparse components")
    _draw_null_quantiles(panel, test, m)
    panel.plot(
        places, unit * test.pca_variance, "D-", color=BLACK, markersize=3.5, linewidth=0.8, label="ordinary components"
    )
    panel.plot(places, unit * test.horn, ":", color=MUTED_COLOUR, linewidth=1.6, label="Horn's line for those")
    _style_scree_panel(panel, m)
    words = [f"{j + 1}\np={p:.2g}" if j < test.n_tested else f"{j + 1}" for j, p in enumerate(test.p_values)]
    panel.set_xticks(places, words, fontsize=SMALL_FONT_SIZE - 0.5)
    draw_legend_above(panel)
    word = "component" if test.n_components == 1 else "components"
    panel.set_xlabel(f"component; {test.n_components} {word} at the level {test.level:g}", fontsize=NORMAL_FONT_SIZE)
    return panel
