"""Pictures of a choice: cross-validated scores, and how often variables are selected again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpower.held import Held
from gpower.plotting.bars import bar_panels
from gpower.plotting.canvas import cardinality_axis, entitle, legend_above, one_panel, tidy
from gpower.plotting.looks import BLUE, CURVE, SMALL, VERMILION, GivenAxes, Panel, Panels, Style, look, variable_names

if TYPE_CHECKING:
    from gpower.model_selection import GPowerCV, Stability

__all__ = ["plot_cv", "plot_stability"]

ERRORS: Style = CURVE | {"capsize": 2.5, "elinewidth": 0.9}
RING: Style = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "linestyle": "none"}


def plot_cv(cv: GPowerCV, axes: GivenAxes = None) -> Panel:
    """Score of held-out samples, mean ± one standard error, against cardinality; the chosen ones are ringed.

    One component after the other, the score of each is that of all up to it. The standard error is that of a mean over
    folds, from the sample standard deviation, as in the rule "one-se".

    Parameters
    ----------
    cv : GPowerCV
        A fitted one, or a pipeline that has one: anything with `cv_results_`, `n_splits_` and `cardinality_`.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPowerCV
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_cv
    >>> cv = GPowerCV(1, cardinalities=[4, 8, 16]).fit(load_planted_expression().X)
    >>> axes = plot_cv(cv)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['component 1: 8 chosen']
    """
    cv = Held.of(cv).model
    results = cv.cv_results_
    component = np.asarray(results["param_component"])
    panel = one_panel(axes)
    tidy(panel, "", "% of held-out variance, mean ± 1 s.e.")
    for j, value in enumerate(np.unique(component)):
        rows = np.flatnonzero(component == value)
        cardinality, score, deviation = (
            np.asarray(results[key], float)[rows] for key in ("param_cardinality", "mean_test_score", "std_test_score")
        )
        chosen = int(np.asarray(cv.cardinality_)[max(int(value), 0)])
        name = "all components" if value < 0 else f"component {value + 1}"
        error = deviation / np.sqrt(cv.n_splits_ - 1) if cv.n_splits_ > 1 else np.zeros_like(score)
        order, at = np.argsort(cardinality, kind="stable"), cardinality == chosen
        x, y, spread = cardinality[order], 100 * score[order], 100 * error[order]
        panel.errorbar(x, y, spread, label=f"{name}: {chosen} chosen", **look(j), **ERRORS)
        panel.plot(cardinality[at], 100 * score[at], color=look(j)["color"], label="_", **RING)
    cardinality_axis(panel, np.asarray(results["param_cardinality"]), "non-zero loadings")
    legend_above(panel)
    return panel


def plot_stability(
    stability: Stability, feature_names: Sequence[str] | None = None, axes: GivenAxes = None, *, max_variables: int = 25
) -> Panels:
    """Bars of how often each variable was selected, one panel per component, the most frequent on top.

    Bars of selected variables, at or beyond the dashed threshold, are blue; the others are hollow, with grey names.
    The title has the bound on the number of variables selected by chance.

    Parameters
    ----------
    stability : Stability
        As from `gpower.stability`.
    feature_names : sequence of str, optional
        Names of all variables; by default those of the data, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Where to draw, one for each component; by default a new figure.
    max_variables : int, default 25
        The most frequent variables of a component that are drawn; a line says how many are not.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components,)

    Examples
    --------
    >>> from gpower import stability
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_stability
    >>> data = load_planted_expression()
    >>> again = stability(data.X, n_components=1, cardinality=8, n_subsamples=10)
    >>> axes = plot_stability(again, data.feature_names)
    >>> print(axes[0].get_title(loc="left"))
    Component 1 · 8 selected
    ≤ 0.71 expected by chance
    """
    frequency, selected = np.asarray(stability.frequency), np.asarray(stability.selected)
    names = variable_names(stability, feature_names, frequency.shape[1])
    colours = {"color": (BLUE, "white"), "edgecolor": (BLUE, "0.5")}
    panels, shown = bar_panels(axes, frequency, selected, names, max_variables, **colours)
    for j, panel in enumerate(panels):
        for label, chosen in zip(panel.get_yticklabels(), selected[j, shown[j]], strict=True):
            label.set_color("black" if chosen else "0.5")
        chance = f"≤ {stability.expected_false_selections[j]:.2g} expected by chance"
        entitle(panel, f"Component {j + 1} · {selected[j].sum()} selected\n{chance}")
        panel.set_xlabel(f"share of subsamples (threshold {stability.threshold:g})", fontsize=SMALL)
        panel.axvline(stability.threshold, color=VERMILION, linestyle="--", linewidth=1.2)
        panel.set_xlim(0, 1.03)
    return panels
