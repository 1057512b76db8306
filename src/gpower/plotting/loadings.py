"""Bars of the loadings of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpower.plotting.bars import bar_panels, by_size, draw_bars, label_bars
from gpower.plotting.canvas import BLUE, VERMILION, share_label, variable_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_loadings(
    model: Any,
    feature_names: Sequence[str] | None = None,
    axes: Any = None,
    *,
    max_variables: int = 40,
) -> NDArray[Any]:
    """Bars of the non-zero loadings, one panel per component, the largest on top.

    Positive loadings are blue and point right, negative ones are vermilion and point left. The title gives
    the share of the variance that the component explains.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `components_` and `explained_variance_ratio_`.
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
    components = np.asarray(model.components_)
    names = variable_names(model, feature_names, components.shape[1])
    orders = [by_size(loadings) for loadings in components]
    panels = bar_panels(axes, [min(len(order), max_variables) for order in orders])
    for j, ((panel, n_rows), order) in enumerate(zip(panels, orders, strict=True)):
        shown = order[:max_variables]
        _draw(panel, components[j, shown], [names[i] for i in shown], n_rows)
        label_bars(panel, share_label(j, model.explained_variance_ratio_[j]), "loading", len(order), len(shown))
    return np.array([panel for panel, _ in panels], dtype=object)


def _draw(axes: Axes, loadings: NDArray[Any], names: list[str], n_rows: int) -> None:
    draw_bars(axes, loadings, names, n_rows, color=[BLUE if loading > 0 else VERMILION for loading in loadings])
    axes.axvline(0, color="0.25", linewidth=0.8)
    reach = 1.08 * max(np.abs(loadings), default=1.0)
    axes.set_xlim(-reach if np.any(loadings < 0) else 0.0, reach)
