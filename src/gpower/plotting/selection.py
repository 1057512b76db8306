"""Plot the selection of variables: cross-validation scores and stability frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower.plotting.bars import draw_bar_panels
from gpower.plotting.style import (
    BLUE,
    CURVE_STYLE,
    SMALL_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
    Panels,
    StyleKwargs,
    draw_legend_above,
    get_curve_style,
    get_single_panel,
    resolve_variable_names,
    set_cardinality_axis,
    set_left_title,
    style_panel,
)
from gpower.validation.params import check_option
from gpower.validation.pipelines import UnwrappedModel

if TYPE_CHECKING:
    from gpower.model_selection import GPowerCV, Stability

__all__ = ["plot_cv", "plot_stability"]

ERROR_BAR_STYLE: StyleKwargs = CURVE_STYLE | {"capsize": 2.5, "elinewidth": 0.9}
CHOSEN_POINT_STYLE: StyleKwargs = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "linestyle": "none"}
#: Label of the vertical axis for each criterion.
CRITERION_AXIS_LABELS = {
    "prediction": "% of held-out variance, mean ± 1 s.e.",
    "agreement": "correlation of scores between folds",
    "stability": "agreement of supports beyond chance",
    "sparseness": "index of sparseness",
    "reliability": "Cronbach's α of held-out scores",
}


def plot_cv(cv: GPowerCV, axes: AxesLike = None, *, criterion: str | None = None) -> Panel:
    """Plot a cross-validation criterion against the cardinality; circles mark the chosen cardinalities.

    By default the criterion of the choice is drawn, which the legend names, or "prediction" if components were chosen
    by different criteria. Prediction scores are means over folds ± one standard error, from the sample standard
    deviation as in the rule "one-se". In a sequential search the score of a component includes the earlier components.
    The criterion "share" is drawn as "prediction".

    Parameters
    ----------
    cv : GPowerCV
        Fitted model, a pipeline that contains one, or any object with `cv_results_`, `n_splits_`, `cardinality_` and
        `chosen_by_`.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    criterion : str, optional
        Criterion to draw, as in `GPowerCV`.

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
    drawn_criterion = _resolve_drawn_criterion(criterion, list(cv.chosen_by_))
    component = np.asarray(cv.cv_results_["param_component"])
    cardinality = np.asarray(cv.cv_results_["param_cardinality"])
    panel = get_single_panel(axes)
    style_panel(panel, "", CRITERION_AXIS_LABELS[drawn_criterion])
    for j, (index, chosen_by) in enumerate(zip(np.unique(component), cv.chosen_by_, strict=True)):
        rows = np.flatnonzero(component == index)
        rows = rows[np.argsort(cardinality[rows], kind="stable")]
        x = cardinality[rows]
        y, error = _get_criterion_values(cv, drawn_criterion, rows)
        chosen = int(np.asarray(cv.cardinality_)[max(int(index), 0)])
        name = "all components" if index < 0 else f"component {index + 1}"
        panel.errorbar(x, y, error, label=f"{name}: {chosen} by {chosen_by}", **get_curve_style(j), **ERROR_BAR_STYLE)
        is_chosen = x == chosen
        panel.plot(x[is_chosen], y[is_chosen], color=get_curve_style(j)["color"], label="_", **CHOSEN_POINT_STYLE)
    set_cardinality_axis(panel, cardinality, "non-zero loadings")
    draw_legend_above(panel)
    return panel


def _resolve_drawn_criterion(criterion: str | None, chosen_by: list[str]) -> str:
    """Return the criterion to draw."""
    resolved = criterion or (chosen_by[0] if len(set(chosen_by)) == 1 else "prediction")
    return check_option("prediction" if resolved == "share" else resolved, "criterion", tuple(CRITERION_AXIS_LABELS))


def _get_criterion_values(cv: GPowerCV, criterion: str, rows: Array) -> tuple[Array, Array | None]:
    """Return the values of some rows of `cv_results_`, and their standard errors, or None if there are none."""
    if criterion != "prediction":
        return np.asarray(cv.cv_results_[criterion], float)[rows], None
    score, deviation = (np.asarray(cv.cv_results_[key], float)[rows] for key in ("mean_test_score", "std_test_score"))
    return 100 * score, 100 * deviation / np.sqrt(max(cv.n_splits_ - 1, 1))


def plot_stability(
    stability: Stability, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 25
) -> Panels:
    """Plot the selection frequency of each variable as bars, one panel per component, the most frequent on top.

    Bars of selected variables, at or above the dashed threshold, are blue; the others are hollow, with grey names. The
    title contains the bound on the number of variables selected by chance.

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
    Component 1 · 8 selected
    ≤ 0.71 expected by chance
    """
    frequency = np.asarray(stability.frequency)
    selected = np.asarray(stability.selected)
    names = resolve_variable_names(stability, feature_names, frequency.shape[1])
    colours = {"color": (BLUE, "white"), "edgecolor": (BLUE, "0.5")}
    panels, shown = draw_bar_panels(axes, frequency, selected, names, max_variables, **colours)
    for j, panel in enumerate(panels):
        for label, is_selected in zip(panel.get_yticklabels(), selected[j, shown[j]], strict=True):
            label.set_color("black" if is_selected else "0.5")
        false_selections = f"≤ {stability.expected_false_selections[j]:.2g} expected by chance"
        set_left_title(panel, f"Component {j + 1} · {selected[j].sum()} selected\n{false_selections}")
        panel.set_xlabel(f"share of subsamples (threshold {stability.threshold:g})", fontsize=SMALL_FONT_SIZE)
        panel.axvline(stability.threshold, color=VERMILION, linestyle="--", linewidth=1.2)
        panel.set_xlim(0, 1.03)
    return panels
