"""What all pictures share: colours, markers, sizes of print, and how variables and components are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gpower._arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is drawn on: a panel, several in an array, and what a user may give in place of a new figure.
Panel: TypeAlias = "Axes"
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
MAX_NAME = 24  # characters of a name that a picture shows


def look(i: int) -> Style:
    """Colour and marker of the i-th curve or group: both change, so either tells them apart."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


def variable_names(source: object, given: Sequence[str] | None, n_features: int) -> list[str]:
    """One short name per variable: the given ones, those the data came with, or x0, x1, …."""
    names = given
    for attribute in ("feature_names_in_", "feature_names"):
        names = getattr(source, attribute, None) if names is None else names
    if names is None:
        return [f"x{j}" for j in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, but the model has {n_features} variables.")
    return [shortened(str(name)) for name in names]


def shortened(name: str, most: int = MAX_NAME) -> str:
    """At most so many characters of a name, the last of them an ellipsis where some are missing."""
    return name if len(name) <= most else name[: most - 1] + "…"


def share_label(j: int, share: float) -> str:
    """How component j is called, with the share of the variance that it explains."""
    return f"Component {j + 1} · {100 * share:.3g} % of variance"
