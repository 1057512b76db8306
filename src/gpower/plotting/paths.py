"""Plot curves over the number of variables: explained variance and cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpower.plotting import style
from gpower.plotting.style import AxesLike, Panel, StyleKwargs
from gpower.validation.params import check_option
from gpower.validation.pipelines import UnwrappedModel

if TYPE_CHECKING:
    from gpower.model_selection import GPowerCV, SparsityPath

__all__ = ["plot_cv", "plot_tradeoff"]

ERROR_BAR_STYLE: StyleKwargs = style.CURVE_STYLE | {"capsize": 2.5, "elinewidth": 0.9}
CHOSEN_POINT_STYLE: StyleKwargs = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "linestyle": "none"}
#: Label of the vertical axis for each criterion, and the columns of `cv_results_` with its mean and deviation.
CRITERION_COLUMNS = {
    "prediction": ("% of held-out variance, mean ± 1 s.e.", "mean_test_score", "std_test_score"),
    "sparseness": ("% of held-out variance × share of unused variables", "mean_sparseness", "std_sparseness"),
}
#: Line through the numbers of variables that would do as well as the chosen one.
RANGE_STYLE: StyleKwargs = {"linewidth": 6, "alpha": 0.25, "solid_capstyle": "round"}
CHOICE_EXPLANATION = (
    "circle: the choice; broad line: numbers within one standard error of it, that of\n"
    "paired differences between folds; bars: standard error of each number alone"
)


def plot_tradeoff(path: SparsityPath, axes: AxesLike = None) -> Panel:
    """Plot the explained variance against the number of nonzero loadings, with PCA as an upper limit.

    The left scale is the share of the variance that as many PCA components explain, the right one the share of the
    total. With several components the variance is cumulative, and the horizontal axis is the mean number of loadings of
    the components counted. Points without a nonzero loading are left out.

    Parameters
    ----------
    path : SparsityPath
        Result of `gpower.sparsity_path`.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import sparsity_path
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_tradeoff
    >>> path = sparsity_path(load_pitprops().correlation, covariance="precomputed")
    >>> axes = plot_tradeoff(path)
    >>> axes.get_ylabel()
    '% of the variance of PCA'
    """
    pca = np.asarray(path.pca_variance_ratio, float)
    total = float(pca.sum())
    m = pca.size
    if not total > 0:
        raise ValueError("The data have no variance, so there is no trade-off to draw.")
    mean_cardinality = np.cumsum(path.cardinality, axis=1) / np.arange(1, m + 1)  # (n_points, m)
    share = 100 * np.cumsum(path.explained_variance_ratio, axis=1) / total
    panel = style.get_single_panel(axes)
    per_component, number = ("", "") if m == 1 else (" per component", f" with {m} components")
    style.label_axes(panel, "", f"% of the variance of PCA{number}")
    for j, reference in enumerate(100 * np.cumsum(pca) / total):
        label = "component 1" if j == 0 else f"components 1 to {j + 1}"
        x = style.mask_nonpositive(mean_cardinality[:, j])
        panel.plot(x, share[:, j], label=label, **style.get_curve_style(j), **style.CURVE_STYLE)
        panel.axhline(reference, color=style.get_curve_style(j)["color"], linestyle="--", linewidth=1)
    colour = style.get_curve_style(0)["color"] if m == 1 else style.MUTED_COLOUR  # several lines have different colours
    label = "PCA" if m == 1 else "PCA, as many components"
    panel.plot([], [], color=colour, linestyle="--", linewidth=1, label=label)
    style.set_cardinality_axis(panel, mean_cardinality, f"non-zero loadings{per_component}")
    panel.set_ylim(0, max(104.0, 1.04 * float(share.max())))
    second = panel.secondary_yaxis("right", functions=(lambda y: np.multiply(y, total), lambda y: np.divide(y, total)))
    second.set_ylabel("% of the total variance", fontsize=style.NORMAL_FONT_SIZE)
    second.tick_params(labelsize=style.SMALL_FONT_SIZE)
    style.draw_legend_above(panel, min(m + 1, 3))
    return panel


def plot_cv(cv: GPowerCV, axes: AxesLike = None, *, criterion: str | None = None) -> Panel:
    """Plot the cross-validation scores against the cardinality; circles mark the chosen cardinalities.

    Broad lines mark the numbers that would do as well: their mean difference from the best score, fold by fold, is
    within one standard error of that difference, which is mostly smaller than the error of each score, as the folds are
    the same. Scores are means over folds ± one standard error. In a sequential search the explained variance of a
    component includes that of the earlier components.

    Parameters
    ----------
    cv : GPowerCV
        Fitted model, or a pipeline that contains one.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    criterion : {"sparseness", "prediction"}, optional
        Criterion to draw; by default that of the choice.

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
    ['component 1: 8']
    """
    cv = UnwrappedModel.unwrap(cv).model
    label, mean, deviation = CRITERION_COLUMNS[
        check_option(criterion or cv.criterion, "criterion", tuple(CRITERION_COLUMNS))
    ]
    component = np.asarray(cv.cv_results_["param_component"])
    cardinality = np.asarray(cv.cv_results_["param_cardinality"])
    score, error = (100 * np.asarray(cv.cv_results_[name], float) for name in (mean, deviation))
    error /= np.sqrt(max(cv.n_splits_ - 1, 1))
    panel = style.get_single_panel(axes)
    style.label_axes(panel, "", label)
    for j, index in enumerate(np.unique(component)):
        rows = np.flatnonzero(component == index)
        rows = rows[np.argsort(cardinality[rows], kind="stable")]
        x, y = cardinality[rows], score[rows]
        position = max(int(index), 0)
        chosen, (first, last) = int(cv.cardinality_[position]), cv.cardinality_range_[position]
        name = "all components" if index < 0 else f"component {index + 1}"
        name += f": {chosen}" + (f" (or {first} to {last})" if first < last else "")
        curve_style = style.get_curve_style(j)
        panel.errorbar(x, y, error[rows], label=name, **curve_style, **ERROR_BAR_STYLE)
        is_range, is_chosen = (x >= first) & (x <= last), x == chosen
        panel.plot(x[is_range], y[is_range], color=curve_style["color"], label="_", **RANGE_STYLE)
        panel.plot(x[is_chosen], y[is_chosen], color=curve_style["color"], label="_", **CHOSEN_POINT_STYLE)
    style.set_cardinality_axis(panel, cardinality, "non-zero loadings")
    style.draw_legend_above(panel, title=CHOICE_EXPLANATION)
    return panel
