"""Pictures of a fitted model: its loadings, which component uses which variable, and where the samples lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpower._arrays import Array
from gpower.devices import on_host
from gpower.held import Held
from gpower.plotting.bars import bar_panels, by_size
from gpower.plotting.canvas import entitle, one_panel, say, tidy
from gpower.plotting.looks import BLUE, SMALL, VERMILION, GivenAxes, Panel, Panels, look, variable_names

__all__ = ["plot_loadings", "plot_scores", "plot_support"]

MAX_GROUPS = 24  # of samples; beyond that nobody tells colours and markers apart


class Model(Protocol):
    """A fitted model of this package, or one like it."""

    components_: Array
    explained_variance_ratio_: Array

    def transform(self, X: ArrayLike) -> Array:
        """Scores of the samples."""


def plot_loadings(
    model: Model, feature_names: Sequence[str] | None = None, axes: GivenAxes = None, *, max_variables: int = 40
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
    model = Held.fitted(model).model
    components = on_host(model.components_)
    names = variable_names(model, feature_names, components.shape[1])
    panels, shown = bar_panels(axes, components, components > 0, names, max_variables, color=(BLUE, VERMILION))
    for j, panel in enumerate(panels):
        loadings = components[j, shown[j]]
        reach = 1.08 * max(np.abs(loadings), default=1.0)
        entitle(panel, _share_label(model, j))
        panel.set_xlabel("loading", fontsize=SMALL)
        panel.axvline(0, color="0.25", linewidth=0.8)
        panel.set_xlim(-reach if np.any(loadings < 0) else 0.0, reach)
    return panels


def _share_label(model: Model, j: int) -> str:
    """How component j is called, with the share of the variance that it explains."""
    return f"Component {j + 1} · {100 * model.explained_variance_ratio_[j]:.3g} % of variance"


def plot_support(
    model: Model, feature_names: Sequence[str] | None = None, axes: GivenAxes = None, *, max_variables: int = 40
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
    model = Held.fitted(model).model
    components = on_host(model.components_)
    names = variable_names(model, feature_names, components.shape[1])
    used = by_size(np.abs(components).max(axis=0, initial=0))
    shown = _grouped(components, used[:max_variables])
    panel = one_panel(axes, 2.6 + 0.21 * max(len(shown), 8), 1.7 + 0.32 * len(components))
    beyond = f", the {len(shown)} with the largest loadings" if len(shown) < len(used) else ""
    entitle(panel, f"{len(used)} of {components.shape[1]} variables used{beyond}")
    rows = [f"Component {j + 1}, {100 * share:.3g} %" for j, share in enumerate(model.explained_variance_ratio_)]
    panel.set_yticks(np.arange(len(components)), rows, fontsize=SMALL)
    panel.set_xticks(np.arange(len(shown)), [names[i] for i in shown], fontsize=SMALL, rotation=90)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if shown.size:
        _draw_map(panel, components[:, shown])
    else:
        say(panel, "no active variable")
    return panel


def _grouped(components: Array, used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Variables by the component in which they weigh most, then by size."""
    sizes = np.abs(components[:, used])
    return used[np.lexsort((-sizes.max(axis=0, initial=0), sizes.argmax(axis=0)))]


def _draw_map(axes: Panel, loadings: Array) -> None:
    reach = float(np.abs(loadings).max())
    axes.set_facecolor("0.9")  # seen where the masked zeros are
    edges = (np.arange(n + 1) - 0.5 for n in loadings.shape[::-1])
    zeros = np.ma.masked_equal(loadings, 0)
    cells = axes.pcolormesh(*edges, zeros, cmap="RdBu", vmin=-reach, vmax=reach, edgecolors="white", linewidth=0.8)
    axes.set_ylim(len(loadings) - 0.5, -0.5)  # the first component on top
    for row, column in zip(*np.nonzero(loadings < 0), strict=True):
        dark = abs(loadings[row, column]) > 0.6 * reach
        axes.text(column, row, "−", ha="center", va="center", fontsize=SMALL, color="white" if dark else "black")
    bar = axes.figure.colorbar(cells, ax=axes, pad=0.02, aspect=12)
    bar.set_label("loading", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)


def plot_scores(
    model: Model,
    X: ArrayLike,
    components: tuple[int, int] = (0, 1),
    labels: Sequence[object] | None = None,
    axes: GivenAxes = None,
) -> Panel:
    """Scatter of the samples' scores on two components, groups told apart by colour and marker.

    Parameters
    ----------
    model : GPower
        A fitted model, or a pipeline that has one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The samples, as `model.transform` takes them.
    components : pair of int, default (0, 1)
        The components on the two axes, counted from 0.
    labels : sequence, optional
        The group of each sample, at most 24 different ones.
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_scores
    >>> X = load_planted_expression().X
    >>> axes = plot_scores(GPower(2, cardinality=8).fit(X), X)
    >>> axes.get_xlabel()
    'Component 1 · 27.1 % of variance'
    """
    held = Held.fitted(model)
    model = held.model
    first, second = _checked_pair(components, len(model.explained_variance_ratio_))
    scores = held.scores(X)[:, [first, second]]
    groups = _groups(labels, len(scores))
    panel = one_panel(axes, 5.6 if labels is None else 6.8, 4.2)
    size = 26 if len(scores) <= 500 else 8
    for i, (group, members) in enumerate(groups.items()):
        x, y = scores[members].T
        panel.scatter(x, y, s=size, alpha=0.8, linewidth=0, label=group, **look(i))
    tidy(panel, _share_label(model, first), _share_label(model, second))
    if labels is not None:  # outside, where it hides no sample
        panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=SMALL)
    return panel


def _checked_pair(components: tuple[int, int], n_components: int) -> tuple[int, int]:
    pair = tuple(components)
    if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= j < n_components for j in pair):
        raise ValueError(
            f"components={components!r}: give two different ones of the model's {n_components}, counted from 0"
            + ("; fit one with n_components=2 or more." if n_components < 2 else ".")
        )
    return pair


def _groups(labels: Sequence[object] | None, n_samples: int) -> dict[str, NDArray[np.intp]]:
    """The samples of each group, the groups in the order in which they come."""
    if labels is None:
        return {"samples": np.arange(n_samples)}
    words = [str(label) for label in labels]
    if len(words) != n_samples:
        raise ValueError(f"labels has {len(words)} entries, but X has {n_samples} samples.")
    groups = list(dict.fromkeys(words))
    if len(groups) > MAX_GROUPS:
        raise ValueError(
            f"labels has {len(groups)} different values, too many to tell apart: give at most {MAX_GROUPS}; "
            "cut a measured quantity into a few ranges."
        )
    return {group: np.flatnonzero(np.array(words) == group) for group in groups}
