"""Pictures of a path of solutions: what more variables buy, what γ does, and how loadings come in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from gpower._utils.arrays import Array
from gpower.plotting.bars import rank_nonzero_by_size
from gpower.plotting.canvas import (
    draw_legend_above,
    get_single_panel,
    mask_nonpositive,
    set_cardinality_axis,
    set_left_title,
    style_panel,
)
from gpower.plotting.style import (
    BLACK,
    CURVE_STYLE,
    MUTED_COLOUR,
    NORMAL_FONT_SIZE,
    SMALL_FONT_SIZE,
    AxesLike,
    Panel,
    StyleKwargs,
    estimate_label_width,
    get_curve_style,
    resolve_variable_names,
)

if TYPE_CHECKING:
    from gpower.model_selection import SparsityPath

__all__ = ["plot_cardinality", "plot_path_loadings", "plot_tradeoff"]

OTHER_VARIABLES_STYLE: StyleKwargs = {"color": "0.75", "linewidth": 0.7, "label": "others"}


def plot_tradeoff(path: SparsityPath, axes: AxesLike = None) -> Panel:
    """Explained variance against the number of non-zero loadings, with PCA as the line that none can pass.

    The left scale is the share of the variance that as many ordinary principal components explain, the right
    one the share of the total. Of several components the variance is cumulated, and the abscissa is the mean number of
    loadings of those counted. Points without a single loading are left out.

    Parameters
    ----------
    path : SparsityPath
        As from `gpower.sparsity_path`.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

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
    total, m = float(pca.sum()), pca.size
    if not total > 0:
        raise ValueError("The data have no variance, so there is no trade-off to draw.")
    mean = np.cumsum(path.cardinality, axis=1) / np.arange(1, m + 1)  # (n_points, m)
    share = 100 * np.cumsum(path.explained_variance_ratio, axis=1) / total
    panel = get_single_panel(axes)
    style_panel(panel, "", "% of the variance of PCA" if m == 1 else f"% of the variance of PCA with {m} components")
    for j, reference in enumerate(100 * np.cumsum(pca) / total):
        label = "component 1" if j == 0 else f"components 1 to {j + 1}"
        panel.plot(mask_nonpositive(mean[:, j]), share[:, j], label=label, **get_curve_style(j), **CURVE_STYLE)
        panel.axhline(reference, color=get_curve_style(j)["color"], linestyle="--", linewidth=1)
    colour = get_curve_style(0)["color"] if m == 1 else MUTED_COLOUR  # several lines have several
    label = "PCA" if m == 1 else "PCA, as many components"
    panel.plot([], [], color=colour, linestyle="--", linewidth=1, label=label)
    set_cardinality_axis(panel, mean, "non-zero loadings" if m == 1 else "non-zero loadings per component")
    panel.set_ylim(0, max(104.0, 1.04 * float(share.max())))
    second = panel.secondary_yaxis("right", functions=(lambda y: np.multiply(y, total), lambda y: np.divide(y, total)))
    second.set_ylabel("% of the total variance", fontsize=NORMAL_FONT_SIZE)
    second.tick_params(labelsize=SMALL_FONT_SIZE)
    draw_legend_above(panel, min(m + 1, 3))
    return panel


def plot_cardinality(path: SparsityPath, axes: AxesLike = None) -> Panel:
    """Number of non-zero loadings against the penalty γ, below the largest number that γ allows.

    At γ no variable with ‖aᵢ‖ ≤ γ (ℓ0: ‖aᵢ‖² ≤ γ) can have a loading in the first component [JNRS10, sections 2.1
    and 2.2]. How many are left is drawn as steps, and dotted how many that would be on average in Gaussian noise of
    the same mean variance. Later components have a matrix of their own, and no such bound here.

    Parameters
    ----------
    path : SparsityPath
        With γ: along a grid of ``gammas``, or with ``penalty="l1"``.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

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
    gamma, cardinality = np.asarray(path.gamma, float), np.asarray(path.cardinality)
    if not np.any(np.isfinite(gamma)):
        raise ValueError(
            "This path has no γ: its cardinalities were asked for, not found through a penalty. "
            'Make one with sparsity_path(X, gammas=[…]), or with penalty="l1".'
        )
    panel = get_single_panel(axes)
    grid = np.linspace(0, np.nanmax(gamma), 512)
    bound = mask_nonpositive(path.cardinality_bound(grid))
    panel.step(grid, bound, where="post", color=BLACK, linewidth=1.2, label="most possible, component 1")
    with suppress(ValueError):  # nothing is expected of a covariance, nor of ℓ1 variances
        expected = path.expected_cardinality_bound(grid)
        panel.plot(
            grid, expected, color=MUTED_COLOUR, linestyle=":", linewidth=1.8, label="its mean for Gaussian noise"
        )
    for j in range(gamma.shape[1]):
        style = CURVE_STYLE | {"linewidth": 1.0, "label": f"component {j + 1}"}
        panel.plot(gamma[:, j], mask_nonpositive(cardinality[:, j]), **get_curve_style(j), **style)
    unit = r"a column norm $\|a_i\|$ (ℓ1)" if path.penalty == "l1" else r"a squared column norm $\|a_i\|^2$ (ℓ0)"
    style_panel(panel, f"γ, in the units of {unit}", "")
    counts = np.append(cardinality, path.n_features)
    set_cardinality_axis(panel, counts, f"non-zero loadings of {path.n_features}", axis_name="y")
    panel.set_xlim(left=0)
    draw_legend_above(panel)
    return panel


def plot_path_loadings(
    path: SparsityPath,
    component: int = 0,
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
    *,
    n_names: int = 7,
) -> Panel:
    """Loading of each variable of a component along the path, the largest at its dense end named there.

    A component and its negative are the same; each point takes the sign that agrees with its denser neighbour, so that
    no line jumps for that reason alone. Points without a single loading are left out.

    Parameters
    ----------
    path : SparsityPath
        As from `gpower.sparsity_path`.
    component : int, default 0
        Which component, counted from 0.
    feature_names : sequence of str, optional
        Names of all variables; by default those of the data, or x0, x1, ….
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    n_names : int, default 7
        Variables in colour and with their names; the others are grey.

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
    'Component 1 · 13 of 13 variables come in'
    """
    n_components = np.shape(path.cardinality)[1]
    if not 0 <= component < n_components:
        raise ValueError(f"component={component}: the path has {n_components}, counted from 0.")
    names = resolve_variable_names(path, feature_names, path.n_features)
    used, loadings = _align_path_signs(path, component)
    cardinality = np.asarray(path.cardinality)[:, component]
    panel = get_single_panel(axes, 5.4 + max(1.0, estimate_label_width(names[i] for i in used)), 4.2)
    style_panel(panel, "", "loading")
    set_cardinality_axis(panel, cardinality, f"non-zero loadings of component {component + 1}")
    order = rank_nonzero_by_size(loadings[-1])[:n_names]
    x, drawn, every = mask_nonpositive(cardinality), _hide_inactive_zeros(loadings), max(1, len(path) // 15)
    others = np.delete(np.pad(drawn, ((0, 1), (0, 0)), constant_values=np.nan), order, axis=1)
    # All of them as one line with gaps: thousands of lines would take seconds.
    panel.plot(np.tile(np.append(x, np.nan), others.shape[1]), others.T.ravel(), **OTHER_VARIABLES_STYLE)
    for place, i in enumerate(order):
        panel.plot(x, drawn[:, i], markevery=every, label=names[used[i]], **get_curve_style(place), **CURVE_STYLE)
    panel.axhline(0, color="0.25", linewidth=0.8)
    _label_line_ends(panel, loadings[-1, order], [names[i] for i in used[order]])
    set_left_title(panel, f"Component {component + 1} · {used.size} of {path.n_features} variables come in")
    return panel


def _align_path_signs(path: SparsityPath, component: int) -> tuple[NDArray[np.intp], Array]:
    """The variables ever used, and their loadings (n_points, n_used) with signs carried on from the dense end."""
    rows = sp.vstack([sp.csr_array(path.components(i))[[component]] for i in range(len(path))], format="csc")
    rows.eliminate_zeros()
    used = np.flatnonzero(np.diff(rows.indptr))
    loadings = rows[:, used].toarray()
    for i in range(len(loadings) - 2, -1, -1):
        if loadings[i] @ loadings[i + 1] < 0:
            loadings[i] *= -1
    return used, loadings


def _hide_inactive_zeros(loadings: Array) -> Array:
    """The loadings, but of the zeros only those beside another value: a line begins where its variable comes in."""
    zero = np.pad(loadings == 0, ((1, 1), (0, 0)), constant_values=True)
    return np.where(zero[:-2] & zero[1:-1] & zero[2:], np.nan, loadings)


def _label_line_ends(axes: Panel, end_values: Array, names: list[str]) -> None:
    """Names beside the right edge, moved apart where they would overlap, with a thread in the colour of the line."""
    bottom, top = axes.get_ylim()
    end_values = (end_values - bottom) / (top - bottom)
    for i, (place, height, name) in enumerate(
        zip(_space_labels_apart(end_values, 0.055), end_values, names, strict=True)
    ):
        thread = {
            "arrowstyle": "-",
            "color": get_curve_style(i)["color"],
            "linewidth": 0.9,
            "relpos": (0, 0.5),
            "shrinkB": 0,
        }
        place_of: StyleKwargs = {
            "xy": (1, height),
            "xytext": (1.06, place),
            "xycoords": "axes fraction",
            "va": "center",
        }
        axes.annotate(name, **place_of, fontsize=SMALL_FONT_SIZE, arrowprops=thread)
    axes.set_ylim(bottom, top)


def _space_labels_apart(positions: Array, min_distance: float) -> Array:
    """The places in [0, 1], in the same order and at least `apart`, that are nearest in least squares."""
    if positions.size == 0:
        return positions
    min_distance = min(min_distance, 1 / max(positions.size - 1, 1))
    order = np.argsort(positions, kind="stable")
    steps = min_distance * np.arange(positions.size)  # what is left after these may only grow
    moved = np.empty_like(positions)
    moved[order] = steps + isotonic_regression(positions[order] - steps, y_min=0.0, y_max=max(1 - steps[-1], 0.0))
    return moved
