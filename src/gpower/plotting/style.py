"""How pictures look: colours, markers, sizes of print, and how variables are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gpower._utils.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What is drawn on: one panel, several in an array, and what a user may give in place of a new figure.
Panel: TypeAlias = "Axes"
Panels: TypeAlias = Array
AxesLike: TypeAlias = "Panel | Sequence[Panel] | Panels | None"
#: Keywords of matplotlib.
StyleKwargs: TypeAlias = dict[str, Any]

#: Colours of Okabe and Ito (2008): told apart under every colour-vision deficiency. Yellow is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS
#: One more than the colours, so that 56 pairs go by before one comes again.
MARKERS = "osD^vPX*"
MUTED_COLOUR = "0.45"
SMALL_FONT_SIZE, NORMAL_FONT_SIZE, TITLE_FONT_SIZE = 8, 9, 9.5
CURVE_STYLE: StyleKwargs = {"markersize": 4, "linewidth": 1.3}
MAX_NAME_LENGTH = 60  # characters of a name that a picture shows
CHARACTER_WIDTH_INCHES = 0.068  # inches that a small one is wide, about


def get_curve_style(i: int) -> StyleKwargs:
    """Colour and marker of the i-th curve or group: both change, so either tells them apart."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


def resolve_variable_names(source: object, given_names: Sequence[str] | None, n_features: int) -> list[str]:
    """One name per variable, ready to be drawn: the given ones, those the data came with, or x0, x1, …."""
    names = given_names
    for attribute in ("feature_names_in_", "feature_names"):
        names = getattr(source, attribute, None) if names is None else names
    if names is None:
        return [f"x{j}" for j in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, but the model has {n_features} variables.")
    return [escape_label(name) for name in names]


def escape_label(name: object, max_length: int = MAX_NAME_LENGTH) -> str:
    r"""A name as text that is drawn as it is: on one line, and nothing between dollars taken for mathematics.

    Of a very long one the beginning, with an ellipsis.

    Examples
    --------
    >>> print(escape_label("cost_in_$\nper_$"), escape_label("a" * 70)[-3:])
    cost_in_\$↵per_\$ aa…
    """
    line = "".join(c if c.isprintable() else "↵" if c == "\n" else " " for c in str(name))
    return (line if len(line) <= max_length else line[: max_length - 1] + "…").replace("$", r"\$")


def estimate_label_width(names: Iterable[str]) -> float:
    """Inches that the longest of some names takes."""
    return CHARACTER_WIDTH_INCHES * max(map(len, names), default=0)
