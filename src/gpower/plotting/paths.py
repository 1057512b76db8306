"""Plot curves over the number of variables: variance, cardinality against γ, loadings, cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.plotting import style
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.sample_groups import draw_legend
from gpower.plotting.style import AxesLike, Panel, StyleKwargs
from gpower.validation.params import check_option
from gpower.validation.pipelines import UnwrappedModel

if TYPE_CHECKING:
    from gpower.model_selection import GPowerCV, SparsityPath

__all__ = ["plot_cardinality", "plot_cv", "plot_path_loadings", "plot_tradeoff"]

ERROR_BAR_STYLE: StyleKwargs = style.CURVE_STYLE | {"capsize": 2.5, "elinewidth": 0.9}
CHOSEN_POINT_STYLE: StyleKwargs = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "linestyle": "none"}
#: Label of the vertical axis for each criterion, and the columns of `cv_results_` with its mean and deviation.
CRITERION_COLUMNS = {
    "prediction": ("% of held-out variance, mean ± 1 s.e.", "mean_test_score", "std_test_score"),
    "sparseness": ("% of held-out variance × share of unused variables", "mean_sparseness", "std_sparseness"),
}
#: Line through the numbers of variables that would do as well as the chosen one.
RANGE_STYLE: StyleKwargs = {"linewidth": 6, "alpha": 0.25, "solid_capstyle": "round"}
LEGEND_LOCATION: StyleKwargs = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
OTHER_VARIABLES_STYLE: StyleKwargs = {"color": "0.75", "linewidth": 0.7, "label": "others"}


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


def plot_cardinality(path: SparsityPath, axes: AxesLike = None) -> Panel:
    """Plot the number of nonzero loadings against the penalty γ, with the largest number that γ allows.

    At γ, no variable with ‖aᵢ‖ ≤ γ (ℓ0: ‖aᵢ‖² ≤ γ) can have a loading in the first component [JNRS10, sections 2.1
    and 2.2]. The number of other variables is drawn as steps, and its mean for Gaussian noise of the same mean variance
    as a dotted line. No bound is drawn for later components, which are found in deflated matrices.

    Parameters
    ----------
    path : SparsityPath
        Path with values of γ: on a grid of ``gammas``, or with ``penalty="l1"``.
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    References
    ----------
    [JNRS10] Journée et al. (2010). Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import sparsity_path
    >>> from gpower.datasets import gaussian
    >>> from gpower.plotting import plot_cardinality
    >>> path = sparsity_path(gaussian(20, 60, random_state=0), gammas=np.linspace(0.1, 0.9, 9), penalty="l1")
    >>> axes = plot_cardinality(path)
    >>> axes.get_ylabel()
    'non-zero loadings of 60'
    """
    gamma = np.asarray(path.gamma, float)
    cardinality = np.asarray(path.cardinality)
    if not np.any(np.isfinite(gamma)):
        raise ValueError(
            "This path has no γ: it runs over cardinalities, without a penalty. "
            'Compute one with sparsity_path(X, gammas=[…]), or with penalty="l1".'
        )
    panel = style.get_single_panel(axes)
    grid = np.linspace(0, np.nanmax(gamma), 512)
    bound = style.mask_nonpositive(path.cardinality_bound(grid))
    panel.step(grid, bound, where="post", color=style.BLACK, linewidth=1.2, label="upper bound, component 1")
    with suppress(ValueError):  # the expectation is not known for a covariance, nor for ℓ1 variances
        expected = path.expected_cardinality_bound(grid)
        line_style: StyleKwargs = {"color": style.MUTED_COLOUR, "linestyle": ":", "linewidth": 1.8}
        panel.plot(grid, expected, **line_style, label="its mean for Gaussian noise")
    for j in range(gamma.shape[1]):
        curve_style = style.CURVE_STYLE | {"linewidth": 1.0, "label": f"component {j + 1}"}
        panel.plot(gamma[:, j], style.mask_nonpositive(cardinality[:, j]), **style.get_curve_style(j), **curve_style)
    unit = r"a column norm $\|a_i\|$ (ℓ1)" if path.penalty == "l1" else r"a squared column norm $\|a_i\|^2$ (ℓ0)"
    style.label_axes(panel, f"γ, in the units of {unit}", "")
    counts = np.append(cardinality, path.n_features)
    style.set_cardinality_axis(panel, counts, f"non-zero loadings of {path.n_features}", axis_name="y")
    panel.set_xlim(left=0)
    style.draw_legend_above(panel)
    return panel


def plot_path_loadings(
    path: SparsityPath,
    component: int = 0,
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    n_names: int = 7,
) -> Panel:
    """Plot the loadings of a component along the path, with names of the largest at the dense end.

    The legend has the names in the order of the lines at that end, from top to bottom. The sign of a component is
    arbitrary; each point gets the sign that agrees with its denser neighbour, so that lines do not jump. Points without
    a nonzero loading are left out.

    Parameters
    ----------
    path : SparsityPath
        Result of `gpower.sparsity_path`.
    component : int, default 0
        Index of the component.
    feature_names : sequence of str, optional
        Names of all variables; by default those of the data, or x0, x1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    n_names : int, default 7
        Number of variables drawn in colour and with their names; the others are grey.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import sparsity_path
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_path_loadings
    >>> pitprops = load_pitprops()
    >>> path = sparsity_path(pitprops.correlation, covariance="precomputed")
    >>> axes = plot_path_loadings(path, feature_names=pitprops.feature_names)
    >>> axes.get_title(loc="left")
    'Component 1 · 13 of 13 variables enter'
    """
    n_components = np.shape(path.cardinality)[1]
    if not 0 <= component < n_components:
        raise ValueError(f"component={component}: the path has {n_components} component(s), counted from 0.")
    names = style.resolve_variable_names(path, feature_names, path.n_features)
    used, loadings = _align_path_signs(path, component)
    cardinality = np.asarray(path.cardinality)[:, component]
    panel = style.get_single_panel(axes, 5.4 + max(1.0, style.estimate_label_width(names[i] for i in used)), 4.2)
    style.label_axes(panel, "", "loading")
    style.set_cardinality_axis(panel, cardinality, f"non-zero loadings of component {component + 1}")
    order = rank_nonzero_by_size(loadings[-1])[:n_names]
    x = style.mask_nonpositive(cardinality)
    lines = _hide_inactive_zeros(loadings)
    others = np.delete(np.pad(lines, ((0, 1), (0, 0)), constant_values=np.nan), order, axis=1)
    # The other variables are one line with gaps: thousands of lines would take seconds.
    panel.plot(np.tile(np.append(x, np.nan), others.shape[1]), others.T.ravel(), **OTHER_VARIABLES_STYLE)
    markers: StyleKwargs = {"markevery": max(1, len(path) // 15)}
    for rank, i in enumerate(order):
        panel.plot(x, lines[:, i], label=names[used[i]], **style.get_curve_style(rank), **style.CURVE_STYLE, **markers)
    panel.axhline(0, color="0.25", linewidth=0.8)
    ranks = np.argsort(-loadings[-1, order], kind="stable").tolist()  # from the uppermost end of a line down
    entries = [(names[used[order[rank]]], style.CURVE_STYLE | style.get_curve_style(rank)) for rank in ranks]
    draw_legend(panel, [(name, entry | {"linestyle": "-"}) for name, entry in entries], **LEGEND_LOCATION)
    style.set_left_title(panel, f"Component {component + 1} · {used.size} of {path.n_features} variables enter")
    return panel


def _align_path_signs(path: SparsityPath, component: int) -> tuple[NDArray[np.intp], Array]:
    """Return the variables used at any point, and their loadings, (n_points, n_used), with consistent signs.

    Signs are propagated from the dense end.
    """
    rows = sp.vstack([sp.csr_array(path.components(i))[[component]] for i in range(len(path))], format="csc")
    rows.eliminate_zeros()
    used = np.flatnonzero(np.diff(rows.indptr))
    loadings = rows[:, used].toarray()
    for i in range(len(loadings) - 2, -1, -1):
        if loadings[i] @ loadings[i + 1] < 0:
            loadings[i] *= -1
    return used, loadings


def _hide_inactive_zeros(loadings: Array) -> Array:
    """Return the loadings with NaN for zeros between zeros, so that a line begins where its variable enters."""
    zero = np.pad(loadings == 0, ((1, 1), (0, 0)), constant_values=True)
    return np.where(zero[:-2] & zero[1:-1] & zero[2:], np.nan, loadings)


def plot_cv(cv: GPowerCV, axes: AxesLike = None, *, criterion: str | None = None) -> Panel:
    """Plot the cross-validation scores against the cardinality; circles mark the chosen cardinalities.

    Broad lines mark the numbers that would do as well. Scores are means over folds ± one standard error. In a
    sequential search the explained variance of a component includes that of the earlier components.

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
    style.draw_legend_above(panel)
    return panel
