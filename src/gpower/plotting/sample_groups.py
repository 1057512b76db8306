"""Appearance of samples in scatter plots: groups by colour and marker, measured values by shade, and legends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import MetadataColumn, parse_metadata_column
from gpower.plotting.style import (
    COLOURS,
    MARKERS,
    SMALL_FONT_SIZE,
    Panel,
    StyleKwargs,
    escape_label,
    estimate_label_width,
)

#: Largest number of groups of samples; with more, colours and markers are hard to distinguish.
MAX_GROUPS = 24
UNKNOWN_VALUE_STYLE: StyleKwargs = {"facecolors": "none", "edgecolors": "0.6", "linewidths": 0.7}
COLOUR_MAP = "viridis"


@dataclass(frozen=True, eq=False)
class SampleAppearance:
    """Colours and markers of the samples in a figure.

    Attributes
    ----------
    n_samples : int
    colour_column : MetadataColumn or None
        Groups or values shown by colours.
    marker_column : MetadataColumn or None
        Groups shown by markers, if they differ from those shown by colours.
    colour_bar_label : str
        Label of the colour bar: the name of the labels if they have one, as a column of a frame has.
    """

    n_samples: int
    colour_column: MetadataColumn | None = None
    marker_column: MetadataColumn | None = None
    colour_bar_label: str = "value"

    @classmethod
    def from_labels(
        cls, n_samples: int, labels: Iterable[object] | None, shapes: Iterable[object] | None = None
    ) -> SampleAppearance:
        """Return the appearance of samples with these labels and shapes, after checking both."""
        colours = _check_label_column(labels, "labels", n_samples)
        markers = _check_label_column(shapes, "shapes", n_samples, must_be_groups=True)
        return cls(n_samples, colours, markers, escape_label(getattr(labels, "name", None) or cls.colour_bar_label))

    @property
    def colour_groups(self) -> dict[str, NDArray[np.intp]]:
        """Return the indices of the samples of each colour group; empty if colours do not show groups."""
        return {} if self.colour_column is None or self.colour_column.is_continuous else self.colour_column.groups

    def draw_points(self, axes: Panel, points: Array) -> None:
        """Draw the points, (n_samples, 2), in their colours and markers."""
        size: StyleKwargs = {"s": 26 if self.n_samples <= 500 else 8}
        style = size | {"alpha": 0.8, "linewidth": 0}
        markers = self._group_by_marker()
        if self.colour_column is None:
            for marker, members in markers.items():
                _scatter_points(axes, points[members], style | {"color": COLOURS[0], "marker": marker})
            return
        for marker, members in markers.items():
            unknown = members[~self.colour_column.is_known[members]]
            if unknown.size:
                _scatter_points(axes, points[unknown], size | UNKNOWN_VALUE_STYLE | {"marker": marker})
            if self.colour_column.is_continuous:
                known = members[self.colour_column.is_known[members]]
                shades = self._get_colour_scale() | {"c": self.colour_column.values[known], "marker": marker}
                _scatter_points(axes, points[known], style | shades)
        for i, colour_members in enumerate(self.colour_groups.values()):
            for marker, members in markers.items():
                both = np.intersect1d(colour_members, members)
                group_marker = marker if self.marker_column is not None else MARKERS[i % len(MARKERS)]
                if both.size:
                    _scatter_points(axes, points[both], style | {"color": get_group_colour(i), "marker": group_marker})

    def _group_by_marker(self) -> dict[str, NDArray[np.intp]]:
        """Return the indices of the samples of each marker; samples of unknown shape have a dot."""
        if self.marker_column is None:
            return {"o": np.arange(self.n_samples)}
        groups = {MARKERS[i]: members for i, members in enumerate(self.marker_column.groups.values())}
        unknown = np.flatnonzero(~self.marker_column.is_known)
        return groups | ({".": unknown} if unknown.size else {})

    def _get_colour_scale(self) -> StyleKwargs:
        assert self.colour_column is not None
        low, high = np.nanmin(self.colour_column.values), np.nanmax(self.colour_column.values)
        return {"cmap": COLOUR_MAP, "vmin": low, "vmax": high}

    @property
    def legend_width(self) -> float:
        """Return the approximate width of the legend in inches."""
        if self.colour_column is None and self.marker_column is None:
            return 0.0
        groups = [*self.colour_groups, *(self.marker_column.groups if self.marker_column else ())]
        return 0.9 if not groups else 0.6 + estimate_label_width(map(escape_label, groups))

    def draw_legends(self, axes: Panel, panels: Array | None = None) -> None:
        """Draw legend and colour bar outside the axes; the colour bar is next to all `panels` if they are given."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        if self.colour_column is not None and self.colour_column.is_continuous:
            scale = self._get_colour_scale()
            shades = ScalarMappable(Normalize(scale["vmin"], scale["vmax"]), COLOUR_MAP)
            bar = axes.figure.colorbar(shades, ax=axes if panels is None else panels, pad=0.02, aspect=30)
            bar.set_label(self.colour_bar_label, fontsize=SMALL_FONT_SIZE)
            bar.ax.tick_params(labelsize=SMALL_FONT_SIZE)
            bar.outline.set_visible(False)
        _draw_side_legend(axes, self._list_legend_entries())

    def _list_legend_entries(self) -> list[tuple[str, StyleKwargs]]:
        """Return text and marker style of the legend entries."""
        entries = [
            (
                name,
                {
                    "color": get_group_colour(i),
                    "marker": MARKERS[i % len(MARKERS)] if self.marker_column is None else "s",
                },
            )
            for i, name in enumerate(self.colour_groups)
        ]
        if self.colour_column is not None and not self.colour_column.is_known.all():
            entries.append(("not known", {"markerfacecolor": "none", "markeredgecolor": "0.6", "marker": "o"}))
        if self.marker_column is not None:
            entries += [
                (name, {"color": "0.4", "marker": MARKERS[i]}) for i, name in enumerate(self.marker_column.groups)
            ]
        return entries


def _scatter_points(axes: Panel, points: Array, style: StyleKwargs) -> None:
    axes.scatter(points[:, 0], points[:, 1], **style)


def get_group_colour(i: int) -> str:
    """Return the colour of the i-th group."""
    return COLOURS[i % len(COLOURS)]


def _draw_side_legend(axes: Panel, entries: list[tuple[str, StyleKwargs]]) -> None:
    """Draw a legend to the right of the panel.

    The texts are set afterwards, because matplotlib drops entries that begin with an underscore.
    """
    from matplotlib.lines import Line2D

    if not entries:
        return
    handles = [Line2D([], [], linestyle="none", markersize=5, **style) for _, style in entries]
    location: StyleKwargs = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False}
    legend = axes.legend(handles, ["name"] * len(handles), fontsize=SMALL_FONT_SIZE, **location)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(escape_label(name))


def _check_label_column(
    values: Iterable[object] | None, name: str, n_samples: int, *, must_be_groups: bool = False
) -> MetadataColumn | None:
    """Return the parsed column; raise ValueError if its length is wrong or it has too many groups."""
    if values is None:
        return None
    column = parse_metadata_column(values)
    if column.values.size != n_samples:
        raise ValueError(f"{name} has {column.values.size} entries, but X has {n_samples} samples.")
    max_groups = len(MARKERS) if must_be_groups else MAX_GROUPS
    n_groups = 0 if column.is_continuous and not must_be_groups else len(column.groups)
    if n_groups > max_groups:
        ranges = "; cut a measured quantity into a few ranges."
        shades = ", or numbers, which are drawn as shades of colour."
        raise ValueError(
            f"{name} has {n_groups} different values, too many to distinguish: give at most {max_groups}"
            + (ranges if must_be_groups else shades)
        )
    return column
