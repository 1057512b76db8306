"""Pictures of a choice: cross-validated scores, and how often variables are selected again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower.plotting.bars import draw_bar_panels
from gpower.plotting.canvas import (
    draw_legend_above,
    get_single_panel,
    set_cardinality_axis,
    set_left_title,
    style_panel,
)
from gpower.plotting.style import (
    BLUE,
    CURVE_STYLE,
    SMALL_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
    Panels,
    StyleKwargs,
    get_curve_style,
    resolve_variable_names,
)
from gpower.validation.params import check_option
from gpower.validation.pipelines import UnwrappedModel

if TYPE_CHECKING:
    from gpower.model_selection import GPowerCV, Stability

__all__ = ["plot_cv", "plot_stability"]

ERROR_BAR_STYLE: StyleKwargs = CURVE_STYLE | {"capsize": 2.5, "elinewidth": 0.9}
CHOSEN_POINT_STYLE: StyleKwargs = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "linestyle": "none"}
#: What the heights of a curve are, by the column of `cv_results_` that a criterion looks at.
CRITERION_AXIS_LABELS = {
    "prediction": "% of held-out variance, mean ± 1 s.e.",
    "agreement": "correlation of scores between folds",
    "stability": "agreement of supports beyond chance",
    "sparseness": "index of sparseness",
    "reliability": "Cronbach's α of held-out scores",
}


def plot_cv(cv: GPowerCV, axes: AxesLike = None, *, criterion: str | None = None) -> Panel:
    """What a criterion says of every number of variables, against that number; the chosen ones are ringed.

    Drawn is the criterion by which the numbers were chosen, which the legend names; where they were chosen by different
    ones, the score of held-out samples. That is a mean ± one standard error, of a mean over folds, from the sample
    standard deviation, as in the rule "one-se". One component after the other, the score of each is that of all up to
    it. "share" looks at the same scores.

    Parameters
    ----------
    cv : GPowerCV
        A fitted one, or a pipeline that has one: anything with `cv_results_`, `n_splits_`, `cardinality_` and
        `chosen_by_`.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    criterion : str, optional
        Another one to draw, as in `GPowerCV`.

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
    ['component 1: 8 by prediction']
    """
    cv = UnwrappedModel.unwrap(cv).model
    results, drawn = cv.cv_results_, _resolve_drawn_criterion(criterion, list(cv.chosen_by_))
    component = np.asarray(results["param_component"])
    panel = get_single_panel(axes)
    style_panel(panel, "", CRITERION_AXIS_LABELS[drawn])
    for j, (value, by) in enumerate(zip(np.unique(component), cv.chosen_by_, strict=True)):
        rows = np.flatnonzero(component == value)
        rows = rows[np.argsort(np.asarray(results["param_cardinality"])[rows], kind="stable")]
        cardinality, (height, error) = (
            np.asarray(results["param_cardinality"])[rows],
            _get_criterion_values(cv, drawn, rows),
        )
        chosen = int(np.asarray(cv.cardinality_)[max(int(value), 0)])
        name = "all components" if value < 0 else f"component {value + 1}"
        panel.errorbar(
            cardinality, height, error, label=f"{name}: {chosen} by {by}", **get_curve_style(j), **ERROR_BAR_STYLE
        )
        at = cardinality == chosen
        panel.plot(cardinality[at], height[at], color=get_curve_style(j)["color"], label="_", **CHOSEN_POINT_STYLE)
    set_cardinality_axis(panel, np.asarray(results["param_cardinality"]), "non-zero loadings")
    draw_legend_above(panel)
    return panel


def _resolve_drawn_criterion(criterion: str | None, chosen_by: list[str]) -> str:
    """The criterion that is drawn."""
    one = criterion or (chosen_by[0] if len(set(chosen_by)) == 1 else "prediction")
    return check_option("prediction" if one == "share" else one, "criterion", tuple(CRITERION_AXIS_LABELS))


def _get_criterion_values(cv: GPowerCV, criterion: str, rows: Array) -> tuple[Array, Array | None]:
    """Heights of some points, and standard errors where the results have them."""
    if criterion != "prediction":
        return np.asarray(cv.cv_results_[criterion], float)[rows], None
    score, deviation = (np.asarray(cv.cv_results_[key], float)[rows] for key in ("mean_test_score", "std_test_score"))
    return 100 * score, 100 * deviation / np.sqrt(max(cv.n_splits_ - 1, 1))


def plot_stability(
    stability: Stability, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 25
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
    >>> from gpower import stability_selection
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_stability
    >>> data = load_planted_expression()
    >>> again = stability_selection(data.X, n_components=1, cardinality=8, n_subsamples=10)
    >>> axes = plot_stability(again, data.feature_names)
    >>> print(axes[0].get_title(loc="left"))
    Component 1 · 8 selected
    ≤ 0.71 expected by chance
    """
    frequency, selected = np.asarray(stability.frequency), np.asarray(stability.selected)
    names = resolve_variable_names(stability, feature_names, frequency.shape[1])
    colours = {"color": (BLUE, "white"), "edgecolor": (BLUE, "0.5")}
    panels, shown = draw_bar_panels(axes, frequency, selected, names, max_variables, **colours)
    for j, panel in enumerate(panels):
        for label, chosen in zip(panel.get_yticklabels(), selected[j, shown[j]], strict=True):
            label.set_color("black" if chosen else "0.5")
        chance = f"≤ {stability.expected_false_selections[j]:.2g} expected by chance"
        set_left_title(panel, f"Component {j + 1} · {selected[j].sum()} selected\n{chance}")
        panel.set_xlabel(f"share of subsamples (threshold {stability.threshold:g})", fontsize=SMALL_FONT_SIZE)
        panel.axvline(stability.threshold, color=VERMILION, linestyle="--", linewidth=1.2)
        panel.set_xlim(0, 1.03)
    return panels
