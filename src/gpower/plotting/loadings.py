"""Plot the loadings of a fitted model as bars or as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpower._utils.arrays import Array
from gpower._utils.backends import to_numpy
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators import Operator
from gpower.plotting.bars import draw_bar_panels, rank_nonzero_by_size
from gpower.plotting.style import (
    BLUE,
    SMALL_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
    Panels,
    StyleKwargs,
    estimate_label_width,
    get_single_panel,
    resolve_variable_names,
    set_left_title,
    write_centred_text,
)
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import read_estimator_input

__all__ = ["plot_loadings", "plot_support"]


class FittedModel(Protocol):
    """Fitted model with loadings, (n_components, n_features), explained variances and scores."""

    components_: Array
    explained_variance_ratio_: Array

    def transform(self, X: ArrayLike) -> Array:
        """Return the scores of the samples, (n_samples, n_components)."""


def prepare_operator(model: SparsePCAEstimator, X: ArrayLike) -> Operator:
    """Return the operator of samples or of a covariance, centred and scaled as in the fit of the model."""
    return read_estimator_input(model, X, reset=False).fill_missing(len(model.components_)).prepare().operator


def plot_loadings(
    model: FittedModel, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 40
) -> Panels:
    """Plot the nonzero loadings as bars, one panel per component, the largest on top.

    Positive loadings are blue and point right, negative ones are vermilion and point left. The title gives the share
    of the variance that the component explains.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_` and `explained_variance_ratio_`, or a pipeline that has one.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Axes to draw on, one for each component; by default those of a new figure.
    max_variables : int, default 40
        Maximum number of loadings drawn for a component, the largest ones; a note gives the total number.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components,)

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_loadings
    >>> pitprops = load_pitprops()
    >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
    >>> axes = plot_loadings(model, pitprops.feature_names)
    >>> axes[0].get_title(loc="left")
    'Component 1 · 22.6 % of variance'
    >>> axes[0].figure.savefig("pitprops.png")  # doctest: +SKIP
    """
    model = UnwrappedModel.unwrap_fitted(model).model
    components = to_numpy(model.components_)
    names = resolve_variable_names(model, feature_names, components.shape[1])
    panels, shown = draw_bar_panels(axes, components, components > 0, names, max_variables, color=(BLUE, VERMILION))
    for j, panel in enumerate(panels):
        loadings = components[j, shown[j]]
        limit = 1.08 * max(np.abs(loadings), default=1.0)
        set_left_title(panel, format_component_label(model, j))
        panel.set_xlabel("loading", fontsize=SMALL_FONT_SIZE)
        panel.axvline(0, color="0.25", linewidth=0.8)
        panel.set_xlim(-limit if np.any(loadings < 0) else 0.0, limit)
    return panels


def format_component_label(model: FittedModel, j: int) -> str:
    """Return the label of component j with its share of the variance."""
    return f"Component {j + 1} · {100 * model.explained_variance_ratio_[j]:.3g} % of variance"


def plot_support(
    model: FittedModel, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 40
) -> Panel:
    """Plot the loadings of all variables in use as a heat map of components × variables.

    Variables are sorted by the component in which their loading is largest, and then by that loading. Positive loadings
    are blue, negative ones red with a minus sign, zeros grey.

    Parameters
    ----------
    model : GPower
        Fitted model, or any object with `components_` and `explained_variance_ratio_`, or a pipeline that has one.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    max_variables : int, default 40
        Maximum number of variables drawn, those with the largest loadings; the title gives the total number.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_support
    >>> pitprops = load_pitprops()
    >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
    >>> axes = plot_support(model, pitprops.feature_names)
    >>> [label.get_text() for label in axes.get_xticklabels()][:4]
    ['length', 'topdiam', 'bowdist', 'whorls']
    """
    model = UnwrappedModel.unwrap_fitted(model).model
    components = to_numpy(model.components_)
    names = resolve_variable_names(model, feature_names, components.shape[1])
    used = rank_nonzero_by_size(np.abs(components).max(axis=0, initial=0))
    shown = _sort_by_component(components, used[:max_variables])
    name_width = max(0.7, estimate_label_width(names[i] for i in shown))
    panel = get_single_panel(axes, 2.6 + 0.21 * max(len(shown), 8), 1.0 + name_width + 0.32 * len(components))
    selection = f", the {len(shown)} with the largest loadings" if len(shown) < len(used) else ""
    set_left_title(panel, f"{len(used)} of {components.shape[1]} variables used{selection}")
    row_labels = [f"Component {j + 1}, {100 * share:.3g} %" for j, share in enumerate(model.explained_variance_ratio_)]
    panel.set_yticks(np.arange(len(components)), row_labels, fontsize=SMALL_FONT_SIZE)
    panel.set_xticks(np.arange(len(shown)), [names[i] for i in shown], fontsize=SMALL_FONT_SIZE, rotation=90)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if shown.size:
        _draw_loading_map(panel, components[:, shown])
    else:
        write_centred_text(panel, "no active variable")
    return panel


def _sort_by_component(components: Array, used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the variables sorted by the component of their largest |loading|, then by its size."""
    sizes = np.abs(components[:, used])
    return used[np.lexsort((-sizes.max(axis=0, initial=0), sizes.argmax(axis=0)))]


def _draw_loading_map(axes: Panel, loadings: Array) -> None:
    largest = float(np.abs(loadings).max())
    axes.set_facecolor("0.9")  # visible where zeros are masked
    edges = (np.arange(n + 1) - 0.5 for n in loadings.shape[::-1])
    nonzero = np.ma.masked_equal(loadings, 0)
    style: StyleKwargs = {"cmap": "RdBu", "vmin": -largest, "vmax": largest, "edgecolors": "white", "linewidth": 0.8}
    cells = axes.pcolormesh(*edges, nonzero, **style)
    axes.set_ylim(len(loadings) - 0.5, -0.5)  # the first component on top
    for row, column in zip(*np.nonzero(loadings < 0), strict=True):
        colour = "white" if abs(loadings[row, column]) > 0.6 * largest else "black"
        axes.text(column, row, "−", ha="center", va="center", fontsize=SMALL_FONT_SIZE, color=colour)
    bar = axes.figure.colorbar(cells, ax=axes, pad=0.02, aspect=12)
    bar.set_label("loading", fontsize=SMALL_FONT_SIZE)
    bar.ax.tick_params(labelsize=SMALL_FONT_SIZE)
    bar.outline.set_visible(False)
