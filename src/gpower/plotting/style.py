"""Style of all figures: colours, markers, font sizes, panels, axes, legends, heat maps, and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.optional import import_optional
from gpower._utils.text import NumberedNames

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.text import Text

#: Types of the axes: one panel, an array of panels, and what a user may pass in place of a new figure.
Panel: TypeAlias = "Axes"
Panels: TypeAlias = Array
AxesLike: TypeAlias = "Panel | Sequence[Panel] | Panels | None"
#: Keyword arguments of a matplotlib function.
StyleKwargs: TypeAlias = dict[str, Any]

#: Colours of Okabe and Ito (2008), distinct under every colour-vision deficiency; without yellow, too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS
#: Numbers with a sign are red where they are positive or high and blue where they are negative or low, as in figures of
#: gene expression: colours of bars, and the colour map of cells.
POSITIVE_COLOUR, NEGATIVE_COLOUR, SIGNED_COLOUR_MAP = VERMILION, BLUE, "RdBu_r"
#: Markers of curves and groups. There is one more than colours, so that the first 56 pairs of both differ.
MARKERS = "osD^vPX*"
MUTED_COLOUR = "0.45"
SMALL_FONT_SIZE, NORMAL_FONT_SIZE, TITLE_FONT_SIZE = 8, 9, 9.5
#: Space between a panel with its titles and the edge of the figure, in inches.
PADDING_INCHES = 0.09
CURVE_STYLE: StyleKwargs = {"markersize": 4, "linewidth": 1.3}
#: Largest number of characters of a name that a figure shows.
MAX_NAME_LENGTH = 60
#: Approximate width of a character of the small font, in inches.
CHARACTER_WIDTH_INCHES = 0.068


def get_curve_style(i: int) -> StyleKwargs:
    """Return colour and marker of the i-th curve or group; neighbours differ in both."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


def escape_label(name: object, max_length: int = MAX_NAME_LENGTH) -> str:
    r"""Return a name as one line of text in which matplotlib finds no mathematics between dollar signs.

    A name longer than `max_length` is cut and ends with an ellipsis.

    Examples
    --------
    >>> print(escape_label("cost_in_$\nper_$"), escape_label("a" * 70)[-3:])
    cost_in_\$↵per_\$ aa…
    """
    line = "".join(c if c.isprintable() else "↵" if c == "\n" else " " for c in str(name))
    return (line if len(line) <= max_length else line[: max_length - 1] + "…").replace("$", r"\$")


def resolve_variable_names(
    source: object,
    given_names: Sequence[str] | None,
    n_features: int,
    make_text: Callable[[object], str] = escape_label,
) -> Sequence[str]:
    """Return a name for each variable: the given names, those of the data, or x0, x1, …; escaped by default."""
    names = given_names
    for attribute in ("feature_names_in_", "feature_names"):
        names = getattr(source, attribute, None) if names is None else names
    if names is None:
        return NumberedNames(n_features)
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, but the model has {n_features} variables.")
    return [*map(make_text, names)]


def estimate_label_width(names: Iterable[str]) -> float:
    """Return the approximate width of the longest name in inches."""
    return CHARACTER_WIDTH_INCHES * max(map(len, names), default=0)


def import_pyplot() -> ModuleType:
    """Import and return matplotlib.pyplot."""
    return import_optional("matplotlib.pyplot", "plot", "Pictures need")


def get_panels(
    axes: AxesLike, n_rows: int, n_columns: int, width: float, height: float, expectation: str = "", **options: object
) -> Panels:
    """Return the user's axes, or those of a new figure, as a grid of panels, (n_rows, n_columns).

    A new figure has this size in inches and a constrained layout; `options` are those of `matplotlib.pyplot.subplots`.
    Raise ValueError, with the `expectation`, if the user gave another number of axes; those are not changed.
    """
    if axes is not None:
        panels = np.ravel(np.asarray(axes, dtype=object))
        if panels.size != n_rows * n_columns:
            raise ValueError(f"axes has {panels.size} entries, but {expectation}.")
        return panels.reshape(n_rows, n_columns)
    options |= {"figsize": (width, height), "squeeze": False, "layout": "constrained"}
    figure, panels = import_pyplot().subplots(n_rows, n_columns, **options)
    figure.get_layout_engine().set(w_pad=PADDING_INCHES, h_pad=PADDING_INCHES)
    return np.asarray(panels)


def get_single_panel(axes: AxesLike, width: float = 6.0, height: float = 3.8) -> Panel:
    """Return the user's Axes, or those of a new figure of this size in inches."""
    return get_panels(axes, 1, 1, width, height, "this figure has one panel")[0, 0]


def label_axes(axes: Panel, xlabel: str, ylabel: str) -> None:
    """Set axis labels, draw a pale grid behind the data, and remove the top and right spines."""
    axes.set_xlabel(xlabel, fontsize=NORMAL_FONT_SIZE)
    axes.set_ylabel(ylabel, fontsize=NORMAL_FONT_SIZE)
    axes.tick_params(labelsize=SMALL_FONT_SIZE)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def set_left_title(axes: Panel, title: str) -> None:
    """Set a title at the left edge."""
    axes.set_title(title, fontsize=TITLE_FONT_SIZE, loc="left")


def set_cardinality_axis(axes: Panel, cardinality: Array, label: str) -> None:
    """Make the horizontal axis logarithmic for these counts, with round plain numbers as tick labels.

    The more decades the counts span, the fewer ticks per decade, so that their labels do not collide.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

    counts = np.asarray(cardinality, float)
    counts = counts[counts > 0]
    if counts.size == 0:
        raise ValueError("All loadings are zero: use larger cardinalities or a smaller γ.")
    decades = np.log10(counts.max() / counts.min())
    leading_digits = (1, 2, 5) if decades < 2.5 else (1, 3) if decades < 4.5 else (1,)
    axes.set(xscale="log", xlim=(counts.min() / 1.12, counts.max() * 1.12))
    few_decades, many_decades = MaxNLocator(8, integer=True, min_n_ticks=1), LogLocator(subs=leading_digits)
    axes.xaxis.set_major_locator(few_decades if decades < 1 else many_decades)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.xaxis.minorticks_off()
    axes.xaxis.set_label_text(label, fontsize=NORMAL_FONT_SIZE)


def draw_legend_above(axes: Panel, n_columns: int = 2, title: str | None = None) -> None:
    """Draw the legend above the panel, where it hides no data; a title explains the marks."""
    location: StyleKwargs = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left", "frameon": False}
    location |= {"title": title, "title_fontsize": SMALL_FONT_SIZE}
    axes.legend(**location, ncols=n_columns, fontsize=SMALL_FONT_SIZE)


def mask_nonpositive(values: Array) -> Array:
    """Return the values with NaN, which is not drawn, in place of those that a logarithmic scale cannot show."""
    values = np.asarray(values, float)
    return np.where(values > 0, values, np.nan)


def write_panel_note(axes: Panel, x: float, y: float, text: str, **style: object) -> Text:
    """Write a small grey line of text at (x, y), in fractions of the panel's width and height."""
    defaults: StyleKwargs = {"transform": axes.transAxes, "ha": "right", "fontsize": SMALL_FONT_SIZE, "color": "0.4"}
    return axes.text(x, y, text, **defaults | style)


def draw_colour_bar(panels: Panel | Panels, colours: ScalarMappable, label: str, aspect: int = 12) -> None:
    """Draw a colour bar to the right of one or more panels."""
    panel = np.ravel(np.asarray(panels, dtype=object))[0]
    bar = panel.figure.colorbar(colours, ax=panels, pad=0.02, aspect=aspect)
    bar.set_label(label, fontsize=SMALL_FONT_SIZE)
    bar.ax.tick_params(labelsize=SMALL_FONT_SIZE)
    bar.outline.set_visible(False)


def draw_cells(
    axes: Panel, values: Array, row_labels: Sequence[str], column_labels: Sequence[str], **style: Any
) -> ScalarMappable:
    """Draw a matrix as a heat map with its first row on top; masked and NaN entries show the panel's grey."""
    n_rows, n_columns = values.shape
    edges = (np.arange(n_columns + 1) - 0.5, np.arange(n_rows + 1) - 0.5)
    lines: StyleKwargs = {"edgecolors": "white", "linewidth": 0.8}
    cells = axes.pcolormesh(*edges, values, **lines | style)
    axes.set_facecolor("0.9")
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.set_xticks(np.arange(len(column_labels)), column_labels, fontsize=SMALL_FONT_SIZE)
    axes.set_yticks(np.arange(len(row_labels)), row_labels, fontsize=SMALL_FONT_SIZE)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return cells


def write_in_cell(axes: Panel, row: int, column: int, text: str, *, is_dark: bool) -> None:
    """Write text in the middle of a cell of a heat map."""
    colour = "white" if is_dark else "black"
    axes.text(column, row, text, ha="center", va="center", fontsize=SMALL_FONT_SIZE, color=colour)
