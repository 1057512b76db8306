"""Appearance of samples in scatter plots: groups by colour and marker, measured values by shade, and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import MetadataColumn, align_rows, parse_metadata_column
from gpower.plotting import style
from gpower.plotting.style import Panel, StyleKwargs

#: Largest number of groups of samples; with more, colours and markers are hard to distinguish.
MAX_GROUPS = 24
#: Styles of the points of samples whose colour is known and of the others, which are hollow.
KNOWN_VALUE_STYLE: StyleKwargs = {"alpha": 0.8, "linewidth": 0}
UNKNOWN_VALUE_STYLE: StyleKwargs = {"facecolors": "none", "edgecolors": "0.6", "linewidths": 0.7}
COLOUR_MAP = "viridis"
#: Text and marker style of a line of a legend; a heading has no marker.
LegendEntry: TypeAlias = tuple[str, StyleKwargs]
#: A value for each sample, or a mapping of the name of a column to its values.
Labels: TypeAlias = "Iterable[object] | Mapping[str, Iterable[object]] | None"
HEADING_STYLE: StyleKwargs = {"marker": "none"}


@dataclass(frozen=True, eq=False)
class SampleAppearance:
    """Colours and markers of the samples in a figure.

    Attributes
    ----------
    n_samples : int
    colour_column : MetadataColumn
        Groups or values shown by colours; one group without a name if there are none.
    marker_column : MetadataColumn or None
        Groups shown by markers, if they differ from those shown by colours.
    colour_name, marker_name : str
        Names of both columns, as a column of a frame has one; empty if they have no name.
    """

    n_samples: int
    colour_column: MetadataColumn
    marker_column: MetadataColumn | None
    colour_name: str
    marker_name: str

    @classmethod
    def from_labels(cls, X: object, n_samples: int, color: Labels, shapes: Labels = None) -> SampleAppearance:
        """Return the appearance of samples with these labels, shown by colours and by shapes, after checking them.

        Labels with an index are put into the order of the samples X.
        """
        colour_name, color = _split_name(align_rows(X, color, "color"), "color")
        marker_name, shapes = _split_name(align_rows(X, shapes, "shapes"), "shapes")
        single_group = MetadataColumn(np.full(n_samples, "", dtype=object), np.ones(n_samples, bool))
        colours = _check_label_column(color, "color", n_samples) or single_group
        markers = _check_label_column(shapes, "shapes", n_samples, must_be_groups=True)
        return cls(n_samples, colours, markers, colour_name, marker_name)

    @property
    def colour_groups(self) -> dict[str, NDArray[np.intp]]:
        """Return the indices of the samples of each colour group; empty if colours show measured values."""
        return {} if self.colour_column.is_continuous else self.colour_column.groups

    def draw_points(self, axes: Panel, points: Array) -> None:
        """Draw the points, (n_samples, 2), in their colours and markers."""
        size: StyleKwargs = {"s": 26 if self.n_samples <= 500 else 8}
        values = self.colour_column.values
        for coloured, colour_style in self._list_colours():
            for marked, marker_style in self._list_markers():
                members = np.intersect1d(coloured, marked)
                shades = {"c": values[members]} if "cmap" in colour_style else {}
                if members.size:
                    axes.scatter(*points[members].T, **size | colour_style | shades | marker_style)

    def _list_colours(self) -> list[tuple[NDArray[np.intp], StyleKwargs]]:
        """Return the indices and the style of the samples of each colour; those of unknown value come first.

        The style of measured values has the colour map and its range, but not the values. Colour groups also differ in
        their markers, which those of `_list_markers` replace.
        """
        is_known = self.colour_column.is_known
        if self.colour_column.is_continuous:
            colours = [(np.flatnonzero(is_known), {"cmap": COLOUR_MAP, "norm": self._get_colour_range()})]
        else:
            colours = [(members, style.get_curve_style(i)) for i, members in enumerate(self.colour_groups.values())]
        known = [(members, KNOWN_VALUE_STYLE | colour_style) for members, colour_style in colours]
        return [(np.flatnonzero(~is_known), UNKNOWN_VALUE_STYLE), *known]

    def _list_markers(self) -> list[tuple[NDArray[np.intp], StyleKwargs]]:
        """Return the indices and the style of the samples of each marker; samples of unknown shape have a dot."""
        if self.marker_column is None:
            return [(np.arange(self.n_samples), {})]
        groups = zip(self.marker_column.groups.values(), style.MARKERS, strict=False)  # at most as many as markers
        unknown = (np.flatnonzero(~self.marker_column.is_known), {"marker": "."})
        return [*((members, {"marker": marker}) for members, marker in groups), unknown]

    def _get_colour_range(self) -> Any:
        """Return the range of the measured values, as an object that matplotlib maps to colours."""
        from matplotlib.colors import Normalize

        values = self.colour_column.values
        return Normalize(np.nanmin(values), np.nanmax(values))

    @property
    def legend_width(self) -> float:
        """Return the approximate width of the legend in inches."""
        texts = [text for text, _ in self._list_legend_entries()]
        width_of_colour_bar = 0.9 if self.colour_column.is_continuous else 0.0
        return 0.6 + style.estimate_label_width(texts) if texts else width_of_colour_bar

    def draw_legends(self, axes: Panel, panels: Array | None = None) -> None:
        """Draw legend and colour bar outside the axes; the colour bar is next to all `panels` if they are given."""
        from matplotlib.cm import ScalarMappable

        if self.colour_column.is_continuous:
            name = style.escape_label(self.colour_name or "value")
            shades = ScalarMappable(self._get_colour_range(), COLOUR_MAP)
            style.draw_colour_bar(axes if panels is None else panels, shades, name, aspect=30)
        draw_legend(axes, self._list_legend_entries(), loc="upper left", bbox_to_anchor=(1.01, 1))

    def _list_legend_entries(self) -> list[LegendEntry]:
        """Return the lines of the legend: the groups of colours, then those of markers, each below its name."""
        square = {} if self.marker_column is None else {"marker": "s"}
        colours = [(name, style.get_curve_style(i) | square) for i, name in enumerate(self.colour_groups) if name]
        entries = [(self.colour_name, HEADING_STYLE)] if colours and self.colour_name else []
        entries += colours
        if not self.colour_column.is_known.all():
            entries.append(("not known", {"markerfacecolor": "none", "markeredgecolor": "0.6", "marker": "o"}))
        if self.marker_column is not None:
            entries += [(self.marker_name, HEADING_STYLE)] if self.marker_name else []
            entries += [
                (name, {"color": "0.4", "marker": style.MARKERS[i]}) for i, name in enumerate(self.marker_column.groups)
            ]
        return [(style.escape_label(name), entry_style) for name, entry_style in entries]


def get_group_colour(i: int) -> str:
    """Return the colour of the i-th group."""
    return style.COLOURS[i % len(style.COLOURS)]


def draw_legend(target: Any, entries: list[LegendEntry], **location: Any) -> None:
    """Draw a legend of these lines, with escaped texts, for a panel or a figure.

    The texts are set afterwards, because matplotlib drops entries that begin with an underscore.
    """
    from matplotlib.lines import Line2D

    if not entries:
        return
    default: StyleKwargs = {"linestyle": "none", "marker": "s", "markersize": 5}
    handles = [Line2D([], [], **default | entry_style) for _, entry_style in entries]
    legend = target.legend(handles, ["name"] * len(handles), fontsize=style.SMALL_FONT_SIZE, frameon=False, **location)
    for text, (name, entry_style) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(name)
        text.set_fontweight("bold" if entry_style is HEADING_STYLE else "normal")


def _split_name(column: Labels, parameter: str) -> tuple[str, Iterable[object] | None]:
    """Return the name of a column, empty if it has none, and its values; a mapping has one of each.

    `parameter` is the one that contained the column.
    """
    if isinstance(column, Mapping):
        if len(column) != 1:
            raise ValueError(f"{parameter} has {len(column)} columns; a figure shows one, such as {{'group': [...]}}.")
        return next((str(name), values) for name, values in column.items())
    return str(getattr(column, "name", None) or ""), column


def _check_label_column(
    values: Iterable[object] | None, name: str, n_samples: int, *, must_be_groups: bool = False
) -> MetadataColumn | None:
    """Return the parsed column; raise ValueError if its length is wrong or it has too many groups."""
    if values is None:
        return None
    column = parse_metadata_column(values)
    if column.values.size != n_samples:
        raise ValueError(f"{name} has {column.values.size} entries, but X has {n_samples} samples.")
    max_groups, advice = MAX_GROUPS, ", or numbers, which are drawn as shades of colour."
    if must_be_groups:
        max_groups, advice = len(style.MARKERS), "; cut a measured quantity into a few ranges."
    n_groups = 0 if column.is_continuous and not must_be_groups else len(column.groups)
    if n_groups > max_groups:
        raise ValueError(
            f"{name} has {n_groups} different values, too many to distinguish: give at most {max_groups}{advice}"
        )
    return column
