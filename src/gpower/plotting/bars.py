"""Panels of horizontal bars with a name each, the longest on top: loadings, and frequencies of selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.plotting.canvas import create_panels, flatten_given_axes, write_centred_text, write_panel_note
from gpower.plotting.style import SMALL_FONT_SIZE, AxesLike, Panel, Panels, estimate_label_width

PANELS_PER_ROW = 3
MIN_BAR_SLOTS = 2  # a single bar does not fill its panel


def rank_nonzero_by_size(values: Array) -> NDArray[np.intp]:
    """Indices of the non-zero values, the largest absolute one first."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[: np.count_nonzero(values)]


def draw_bar_panels(
    axes: AxesLike,
    values: Array,
    is_highlighted: Array,
    names: Sequence[str],
    max_bars: int,
    **colours: tuple[str, str],
) -> tuple[Panels, list[NDArray[np.intp]]]:
    """A panel for each row of values with bars of the `most` largest, and which values those are.

    Colours are pairs: of the marked values, and of the others. Bars side by side are equally high.
    """
    orders = [rank_nonzero_by_size(row) for row in values]
    shown = [order[:max_bars] for order in orders]
    n_panels = len(shown)
    n_wide = min(n_panels, PANELS_PER_ROW) if axes is None else n_panels
    slots = [max(MIN_BAR_SLOTS, *map(len, shown[start : start + n_wide])) for start in range(0, n_panels, n_wide)]
    if axes is None:
        room = estimate_label_width(names[i] for at in shown for i in at)
        panels = _create_bar_panels(n_panels, n_wide, slots, room)
    else:
        panels = flatten_given_axes(axes, n_panels, f"the model has {n_panels} components")
    for j, (panel, at) in enumerate(zip(panels, shown, strict=True)):
        style = {part: np.where(is_highlighted[j, at], *pair).tolist() for part, pair in colours.items()}
        draw_bars(panel, values[j, at], [names[i] for i in at], slots[j // n_wide], **style)
        _style_bar_panel(panel, len(orders[j]), len(at))
    return panels, shown


def _create_bar_panels(n_panels: int, n_columns: int, slots: list[int], name_width: float) -> Panels:
    """The panels of a new figure, a few to a line, as high as the fullest of a line needs, with room for names."""
    height = 0.85 * len(slots) + 0.22 * sum(slots)  # title and axis, then the bars
    grid = create_panels(len(slots), n_columns, (2.6 + max(name_width, 1.2)) * n_columns, height, height_ratios=slots)
    for unused in grid.flat[n_panels:]:
        unused.set_axis_off()
    return np.asarray(grid.flat[:n_panels])


def draw_bars(axes: Panel, values: Array, names: list[str], n_slots: int, **style: Any) -> None:
    """The bars, the first on top, in a panel with room for so many."""
    places = np.arange(len(values))
    axes.barh(places, values, height=0.72, linewidth=0.8, **style)
    axes.set_yticks(places, names, fontsize=SMALL_FONT_SIZE)
    axes.set_ylim(n_slots - 0.4, -0.6)


def _style_bar_panel(axes: Panel, n_bars: int, n_shown: int) -> None:
    """The ticks and the grid, and a line about the bars that are not there."""
    axes.tick_params(axis="x", labelsize=SMALL_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if n_bars == 0:
        write_centred_text(axes, "no active variable")
    elif n_shown < n_bars:
        write_panel_note(axes, 0.98, 0.02, f"the {n_shown} largest of {n_bars}", fontsize=7.5, backgroundcolor="white")
