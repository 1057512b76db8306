"""Colours, markers and sizes of print that all pictures share, and what is drawn on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gpower._arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is drawn on: several panels in an array, and what a user may give in place of a new figure.
Panels: TypeAlias = Array
GivenAxes: TypeAlias = "Axes | Sequence[Axes] | Panels | None"
#: Keywords of matplotlib.
Style: TypeAlias = dict[str, Any]

#: Colours of Okabe and Ito (2008): told apart under every colour-vision deficiency. Yellow is too pale on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
#: One more than the colours, so that 56 pairs go by before one comes again.
MARKERS = "osD^vPX*"
QUIET = "0.45"
SMALL, NORMAL, TITLE = 8, 9, 9.5


def look(i: int) -> Style:
    """Colour and marker of the i-th curve or group: both change, so either tells them apart."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
