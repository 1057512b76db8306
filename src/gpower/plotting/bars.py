"""Panels of horizontal bars with a name each, the longest on top: loadings, and frequencies of selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpower._arrays import Array
from gpower.plotting.canvas import given_panels, new_panels, remark, say
from gpower.plotting.looks import SMALL, TITLE, GivenAxes, Panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_PER_LINE = 3
MIN_SLOTS = 2  # a single bar does not fill its panel


def by_size(values: Array) -> NDArray[np.intp]:
    """Indices of the non-zero values, the largest absolute one first."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[: np.count_nonzero(values)]


def bar_panels(axes: GivenAxes, values: Array, most: int) -> list[tuple[Axes, NDArray[np.intp], int, int]]:
    """A panel for each row of values, with the largest `most` to draw, of how many, and the bars to leave room for.

    Bars side by side are equally high.
    """
    orders = [by_size(row) for row in values]
    counts = [min(len(order), most) for order in orders]
    if axes is None:
        panels, per_line = _new_bar_panels(counts), PANELS_PER_LINE
    else:
        panels, per_line = given_panels(axes, len(counts), f"the model has {len(counts)} components"), len(counts)
    lines = [j // per_line * per_line for j in range(len(counts))]
    room = [max(MIN_SLOTS, *counts[start : start + per_line]) for start in lines]
    shown = [order[:most] for order in orders]
    return list(zip(panels, shown, map(len, orders), room, strict=True))


def _new_bar_panels(counts: list[int]) -> Panels:
    """The panels of a new figure, a few to a line, each line as high as its fullest panel needs."""
    n_wide = min(len(counts), PANELS_PER_LINE)
    slots = [max(*counts[start : start + n_wide], MIN_SLOTS) for start in range(0, len(counts), n_wide)]
    height = 0.85 * len(slots) + 0.22 * sum(slots)  # title and axis, then the bars
    grid = new_panels(len(slots), n_wide, 3.4 * n_wide, height, height_ratios=slots)
    for unused in grid.flat[len(counts) :]:
        unused.set_axis_off()
    return np.asarray(grid.flat[: len(counts)])


def draw_bars(axes: Axes, values: Array, names: list[str], room: int, **style: Any) -> None:
    """The bars, the first on top, in a panel with room for so many."""
    places = np.arange(len(values))
    axes.barh(places, values, height=0.72, **style)
    axes.set_yticks(places, names, fontsize=SMALL)
    axes.set_ylim(room - 0.4, -0.6)


def label_bars(axes: Axes, title: str, xlabel: str, n_bars: int, n_shown: int) -> None:
    """Title, axis, and a line about the bars that are not there."""
    axes.set_title(title, fontsize=TITLE, loc="left")
    axes.set_xlabel(xlabel, fontsize=SMALL)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if n_bars == 0:
        say(axes, "no active variable")
    elif n_shown < n_bars:
        remark(axes, 0.98, 0.02, f"the {n_shown} largest of {n_bars}", fontsize=7.5, backgroundcolor="white")
