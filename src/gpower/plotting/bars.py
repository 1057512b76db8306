"""Horizontal bars with names, the longest on top, in one panel per component: loadings and selection frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.plotting.style import (
    SMALL_FONT_SIZE,
    AxesLike,
    Panel,
    Panels,
    create_panels,
    estimate_label_width,
    flatten_given_axes,
    write_centred_text,
    write_panel_note,
)

PANELS_PER_ROW = 3
#: Smallest number of bars for which a panel has space, so that a single bar does not fill it.
MIN_BAR_SLOTS = 2


def rank_nonzero_by_size(values: Array) -> NDArray[np.intp]:
    """Return the indices of the nonzero values, the largest absolute value first."""
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
    """Draw a panel for each row of values, with bars of the `max_bars` largest.

    Return the panels and, for each, the indices of the values drawn. `colours` are pairs: for highlighted values, and
    for the others. Bars have the same height in all panels of a row.
    """
    orders = [rank_nonzero_by_size(row) for row in values]
    shown = [order[:max_bars] for order in orders]
    n_panels = len(shown)
    n_wide = min(n_panels, PANELS_PER_ROW) if axes is None else n_panels
    slots = [max(MIN_BAR_SLOTS, *map(len, shown[start : start + n_wide])) for start in range(0, n_panels, n_wide)]
    if axes is None:
        name_width = estimate_label_width(names[i] for indices in shown for i in indices)
        panels = _create_bar_panels(n_panels, n_wide, slots, name_width)
    else:
        panels = flatten_given_axes(axes, n_panels, f"the model has {n_panels} components")
    for j, (panel, indices) in enumerate(zip(panels, shown, strict=True)):
        style = {part: np.where(is_highlighted[j, indices], *pair).tolist() for part, pair in colours.items()}
        draw_bars(panel, values[j, indices], [names[i] for i in indices], slots[j // n_wide], **style)
        _style_bar_panel(panel, len(orders[j]), len(indices))
    return panels, shown


def _create_bar_panels(n_panels: int, n_columns: int, slots: list[int], name_width: float) -> Panels:
    """Create a figure with space for names; each row of panels is as high as its largest number of bars needs."""
    height = 0.85 * len(slots) + 0.22 * sum(slots)  # title and axis, then the bars
    grid = create_panels(len(slots), n_columns, (2.6 + max(name_width, 1.2)) * n_columns, height, height_ratios=slots)
    for unused in grid.flat[n_panels:]:
        unused.set_axis_off()
    return np.asarray(grid.flat[:n_panels])


def draw_bars(axes: Panel, values: Array, names: list[str], n_slots: int, **style: Any) -> None:
    """Draw the bars, the first on top, in a panel with space for `n_slots`."""
    positions = np.arange(len(values))
    axes.barh(positions, values, height=0.72, linewidth=0.8, **style)
    axes.set_yticks(positions, names, fontsize=SMALL_FONT_SIZE)
    axes.set_ylim(n_slots - 0.4, -0.6)


def _style_bar_panel(axes: Panel, n_bars: int, n_shown: int) -> None:
    """Set ticks and grid, and write a note if not all bars are drawn."""
    axes.tick_params(axis="x", labelsize=SMALL_FONT_SIZE)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if n_bars == 0:
        write_centred_text(axes, "no active variable")
    elif n_shown < n_bars:
        write_panel_note(axes, 0.98, 0.02, f"the {n_shown} largest of {n_bars}", fontsize=7.5, backgroundcolor="white")
