"""Pictures of a fitted model: its loadings, and which component uses which variable."""

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
from gpower.plotting.canvas import get_single_panel, set_left_title, write_centred_text
from gpower.plotting.style import (
    BLUE,
    SMALL_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
    Panels,
    estimate_label_width,
    resolve_variable_names,
)
from gpower.validation.pipelines import UnwrappedModel
from gpower.validation.prepare import read_estimator_input

__all__ = ["plot_loadings", "plot_support"]


class FittedModel(Protocol):
    """A fitted model of this package, or one like it."""

    components_: Array
    explained_variance_ratio_: Array

    def transform(self, X: ArrayLike) -> Array:
        """Scores of the samples."""


def prepare_operator(model: SparsePCAEstimator, X: ArrayLike) -> Operator:
    """The matrix that a model sees in samples or in a covariance, centred and scaled as it does."""
    return read_estimator_input(model, X, reset=False).fill_missing(len(model.components_)).prepare().operator


def plot_loadings(
    model: FittedModel, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 40
) -> Panels:
    """Bars of the non-zero loadings, one panel per component, the largest on top.

    Positive loadings are blue and point right, negative ones are vermilion and point left. The title gives
    the share of the variance that the component explains.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `components_` and `explained_variance_ratio_`, or a pipeline that has one.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Where to draw, one for each component; by default a new figure.
    max_variables : int, default 40
        The largest loadings of a component that are drawn; a line says how many are not.

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
        reach = 1.08 * max(np.abs(loadings), default=1.0)
        set_left_title(panel, format_component_label(model, j))
        panel.set_xlabel("loading", fontsize=SMALL_FONT_SIZE)
        panel.axvline(0, color="0.25", linewidth=0.8)
        panel.set_xlim(-reach if np.any(loadings < 0) else 0.0, reach)
    return panels


def format_component_label(model: FittedModel, j: int) -> str:
    """How component j is called, with the share of the variance that it explains."""
    return f"Component {j + 1} · {100 * model.explained_variance_ratio_[j]:.3g} % of variance"


def plot_support(
    model: FittedModel, feature_names: Sequence[str] | None = None, axes: AxesLike = None, *, max_variables: int = 40
) -> Panel:
    """Map of the loadings, components × variables, of the variables that some component uses.

    Variables stand under the component in which they weigh most, the largest loading first. Positive loadings
    are blue, negative ones red with a minus sign, zeros grey.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `components_` and `explained_variance_ratio_`, or a pipeline that has one.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.
    max_variables : int, default 40
        The variables with the largest loadings that are drawn; the title says how many are not.

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
    room = max(0.7, estimate_label_width(names[i] for i in shown))
    panel = get_single_panel(axes, 2.6 + 0.21 * max(len(shown), 8), 1.0 + room + 0.32 * len(components))
    beyond = f", the {len(shown)} with the largest loadings" if len(shown) < len(used) else ""
    set_left_title(panel, f"{len(used)} of {components.shape[1]} variables used{beyond}")
    rows = [f"Component {j + 1}, {100 * share:.3g} %" for j, share in enumerate(model.explained_variance_ratio_)]
    panel.set_yticks(np.arange(len(components)), rows, fontsize=SMALL_FONT_SIZE)
    panel.set_xticks(np.arange(len(shown)), [names[i] for i in shown], fontsize=SMALL_FONT_SIZE, rotation=90)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if shown.size:
        _draw_loading_map(panel, components[:, shown])
    else:
        write_centred_text(panel, "no active variable")
    return panel


def _sort_by_component(components: Array, used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Variables by the component in which they weigh most, then by size."""
    sizes = np.abs(components[:, used])
    return used[np.lexsort((-sizes.max(axis=0, initial=0), sizes.argmax(axis=0)))]


def _draw_loading_map(axes: Panel, loadings: Array) -> None:
    reach = float(np.abs(loadings).max())
    axes.set_facecolor("0.9")  # seen where the masked zeros are
    edges = (np.arange(n + 1) - 0.5 for n in loadings.shape[::-1])
    zeros = np.ma.masked_equal(loadings, 0)
    cells = axes.pcolormesh(*edges, zeros, cmap="RdBu", vmin=-reach, vmax=reach, edgecolors="white", linewidth=0.8)
    axes.set_ylim(len(loadings) - 0.5, -0.5)  # the first component on top
    for row, column in zip(*np.nonzero(loadings < 0), strict=True):
        dark = abs(loadings[row, column]) > 0.6 * reach
        axes.text(
            column, row, "−", ha="center", va="center", fontsize=SMALL_FONT_SIZE, color="white" if dark else "black"
        )
    bar = axes.figure.colorbar(cells, ax=axes, pad=0.02, aspect=12)
    bar.set_label("loading", fontsize=SMALL_FONT_SIZE)
    bar.ax.tick_params(labelsize=SMALL_FONT_SIZE)
    bar.outline.set_visible(False)
