"""Panels of horizontal bars with a name each, the longest on top: loadings, and frequencies of selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpower.plotting.canvas import SMALL, given_panels, new_panels, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_PER_LINE = 3
MIN_SLOTS = 2  # a single bar does not fill its panel


def by_size(values: NDArray[Any]) -> NDArray[np.intp]:
    """Indices of the non-zero values, the largest absolute one first."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[: np.count_nonzero(values)]


def bar_panels(axes: Any, counts: list[int]) -> list[tuple[Axes, int]]:
    """A panel for each number of bars, and the rows to leave room for: side by side, bars are equally high."""
    if axes is None:
        panels, per_line = _new_bar_panels(counts), PANELS_PER_LINE
    else:
        panels, per_line = given_panels(axes, len(counts), f"the model has {len(counts)} components"), len(counts)
    starts = [j // per_line * per_line for j in range(len(counts))]
    return [(panel, max(counts[start : start + per_line])) for panel, start in zip(panels, starts, strict=True)]


def _new_bar_panels(counts: list[int]) -> NDArray[Any]:
    """The panels of a new figure, a few to a line, each line as high as its fullest panel needs."""
    n_wide = min(len(counts), PANELS_PER_LINE)
    lines = [counts[start : start + n_wide] for start in range(0, len(counts), n_wide)]
    slots = [max(*line, MIN_SLOTS) for line in lines]
    height = 0.85 * len(lines) + 0.22 * sum(slots)  # title and axis, then the bars
    grid = new_panels(len(lines), n_wide, 3.4 * n_wide, height, height_ratios=slots)
    for unused in grid.ravel()[len(counts) :]:
        unused.set_axis_off()
    return np.asarray(grid.ravel()[: len(counts)])


def draw_bars(axes: Axes, values: NDArray[Any], names: list[str], n_rows: int, **options: Any) -> None:
    """The bars, the first on top, in a panel with room for `n_rows`."""
    positions = np.arange(len(values))
    axes.barh(positions, values, height=0.72, **options)
    axes.set_yticks(positions, names, fontsize=SMALL)
    axes.set_ylim(max(n_rows, MIN_SLOTS) - 0.4, -0.6)


def label_bars(axes: Axes, title: str, xlabel: str, n_bars: int, n_shown: int) -> None:
    """Title, axis, and a line about the bars that are not there."""
    axes.set_title(title, fontsize=9.5, loc="left")
    axes.set_xlabel(xlabel, fontsize=SMALL)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if n_bars == 0:
        say(axes, "no active variable")
    elif n_shown < n_bars:
        note = f"the {n_shown} largest of {n_bars}"
        axes.text(
            0.98, 0.02, note, transform=axes.transAxes, ha="right", fontsize=7.5, color="0.4", backgroundcolor="white"
        )
