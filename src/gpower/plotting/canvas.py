"""What pictures are drawn on: matplotlib, panels, the axis of cardinalities, legends and remarks."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.optional import import_optional
from gpower.plotting.style import (
    MUTED_COLOUR,
    NORMAL_FONT_SIZE,
    SMALL_FONT_SIZE,
    TITLE_FONT_SIZE,
    AxesLike,
    Panel,
    Panels,
    StyleKwargs,
)

if TYPE_CHECKING:
    from matplotlib.text import Text


def import_pyplot() -> ModuleType:
    """matplotlib.pyplot, loaded with the first picture."""
    return import_optional("matplotlib.pyplot", "plot", "Pictures need")


def create_panels(n_rows: int, n_columns: int, width: float, height: float, **options: object) -> Panels:
    """A grid of panels in a new figure of that size in inches."""
    options |= {"figsize": (width, height), "squeeze": False, "layout": "constrained"}
    return np.asarray(import_pyplot().subplots(n_rows, n_columns, **options)[1])


def flatten_given_axes(axes: AxesLike, n_panels: int, expectation: str) -> Panels:
    """The user's axes as a flat array; `what` says what there are panels for."""
    panels = np.ravel(np.asarray(axes, dtype=object))
    if panels.size != n_panels:
        raise ValueError(f"axes has {panels.size} entries, but {expectation}.")
    return panels


def get_single_panel(axes: AxesLike, width: float = 6.0, height: float = 3.8) -> Panel:
    """The user's Axes, or those of a new figure."""
    panels = (
        create_panels(1, 1, width, height)
        if axes is None
        else flatten_given_axes(axes, 1, "this picture has one panel")
    )
    return panels.flat[0]


def style_panel(axes: Panel, xlabel: str, ylabel: str) -> None:
    """Labels, a pale grid behind the data, and no box around it."""
    axes.set_xlabel(xlabel, fontsize=NORMAL_FONT_SIZE)
    axes.set_ylabel(ylabel, fontsize=NORMAL_FONT_SIZE)
    axes.tick_params(labelsize=SMALL_FONT_SIZE)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def set_left_title(axes: Panel, title: str) -> None:
    """A title at the left edge, above remarks that are over the panel."""
    above = any(text.get_transform() == axes.transAxes and text.get_position()[1] > 1 for text in axes.texts)
    axes.set_title(title, fontsize=TITLE_FONT_SIZE, loc="left", pad=16 if above else None)


def set_cardinality_axis(axes: Panel, cardinality: Array, label: str, *, axis_name: str = "x") -> None:
    """A logarithmic axis of counts, with ticks that are plain numbers."""
    counts = np.asarray(cardinality, float)
    counts = counts[counts > 0]
    if counts.size == 0:
        raise ValueError("No component has a non-zero loading anywhere: take larger cardinalities or a smaller γ.")
    ticks = _choose_cardinality_ticks(np.unique(counts))
    words = [f"{tick:.4g}" if tick < 1e4 else f"{tick:.0e}" for tick in ticks]
    limits = (counts.min() / 1.12, counts.max() * 1.12)
    axes.set(**{f"{axis_name}scale": "log", f"{axis_name}lim": limits})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[axis_name]
    axis.set_ticks(ticks, words)
    axis.minorticks_off()
    axis.set_label_text(label, fontsize=NORMAL_FONT_SIZE)


def _choose_cardinality_ticks(counts: Array) -> Array:
    """The counts themselves where they are few and apart, else 1, 2, 5, 10, … within their range."""
    if counts.size == 1 or (counts.size <= 8 and np.min(counts[1:] / counts[:-1]) >= 1.15):
        return counts
    decades = 10.0 ** np.arange(0, np.ceil(np.log10(counts[-1])) + 1)
    ticks = np.outer(decades, [1, 2, 5]).ravel()
    ticks = ticks[(ticks >= counts[0]) & (ticks <= counts[-1])]
    return ticks if ticks.size > 1 else counts[[0, -1]]


def draw_legend_above(axes: Panel, n_columns: int = 2) -> None:
    """The legend over the panel, where it hides nothing."""
    place: StyleKwargs = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left", "frameon": False}
    axes.legend(**place, ncols=n_columns, fontsize=SMALL_FONT_SIZE)


def mask_nonpositive(values: Array) -> Array:
    """NaN, which is not drawn, in place of what a logarithmic scale has no place for."""
    values = np.asarray(values, float)
    return np.where(values > 0, values, np.nan)


def write_centred_text(axes: Panel, text: str) -> None:
    """Words in the middle of a panel that has nothing to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", fontsize=SMALL_FONT_SIZE, color=MUTED_COLOUR)


def write_panel_note(axes: Panel, x: float, y: float, text: str, **style: object) -> Text:
    """A small grey line at a place within a panel, in shares of its width and height."""
    plain: StyleKwargs = {"transform": axes.transAxes, "ha": "right", "fontsize": SMALL_FONT_SIZE, "color": "0.4"}
    return axes.text(x, y, text, **plain | style)
