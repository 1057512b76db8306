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
    column : MetadataColumn
        Groups or values of the samples; one group without a name if there are none.
    name : str
        Name of the column, as a column of a frame has one; empty if it has no name.
    """

    column: MetadataColumn
    name: str

    @classmethod
    def from_labels(cls, X: object, n_samples: int, color: Labels) -> SampleAppearance:
        """Return the appearance of samples with these labels, after checking them.

        Labels with an index are put into the order of the samples X. Those of a mapping have its name.
        """
        if color is None:
            return cls(MetadataColumn(np.full(n_samples, "", dtype=object), np.ones(n_samples, bool)), "")
        labels = align_rows(X, color, "color")
        name = getattr(labels, "name", None)
        if isinstance(labels, Mapping):
            if len(labels) != 1:
                raise ValueError(f"color has {len(labels)} columns; a figure shows one, such as {{'group': [...]}}.")
            [(name, labels)] = labels.items()
        column = parse_metadata_column(labels)
        if column.values.size != n_samples:
            raise ValueError(f"color has {column.values.size} entries, but X has {n_samples} samples.")
        if not column.is_continuous and len(column.groups) > MAX_GROUPS:
            raise ValueError(
                f"color has {len(column.groups)} different values, too many to distinguish: give at most {MAX_GROUPS}, "
                "or numbers, which are drawn as shades of colour."
            )
        return cls(column, str(name or ""))

    @property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """Return the indices of the samples of each group; empty if colours show measured values."""
        return {} if self.column.is_continuous else self.column.groups

    def draw_points(self, axes: Panel, points: Array) -> None:
        """Draw the points, (n_samples, 2), in their colours and markers; those of unknown value come first."""
        is_known = self.column.is_known
        known_style: StyleKwargs = {"alpha": 0.8, "linewidth": 0}
        drawn: list[tuple[Array, StyleKwargs]] = [
            (points[~is_known], {"facecolors": "none", "edgecolors": "0.6", "linewidths": 0.7})
        ]
        for i, members in enumerate(self.groups.values()):
            drawn.append((points[members], style.get_curve_style(i) | known_style))
        if self.column.is_continuous:
            shades = {"c": self.column.values[is_known], "cmap": COLOUR_MAP, "norm": self._get_colour_range()}
            drawn.append((points[is_known], shades | known_style))
        for part, part_style in drawn:
            if part.size:
                axes.scatter(part[:, 0], part[:, 1], s=26 if len(points) <= 500 else 8, **part_style)

    def _get_colour_range(self) -> Any:
        """Return the range of the measured values, as an object that matplotlib maps to colours."""
        from matplotlib.colors import Normalize

        return Normalize(np.nanmin(self.column.values), np.nanmax(self.column.values))

    @property
    def legend_width(self) -> float:
        """Return the approximate width of the legend in inches."""
        texts = [text for text, _ in self._list_legend_entries()]
        width_of_colour_bar = 0.9 if self.column.is_continuous else 0.0
        return 0.6 + style.estimate_label_width(texts) if texts else width_of_colour_bar

    def draw_legends(self, axes: Panel, panels: Array | None = None) -> None:
        """Draw legend and colour bar outside the axes; the colour bar is next to all `panels` if they are given."""
        from matplotlib.cm import ScalarMappable

        if self.column.is_continuous:
            shades = ScalarMappable(self._get_colour_range(), COLOUR_MAP)
            name = style.escape_label(self.name or "value")
            style.draw_colour_bar(axes if panels is None else panels, shades, name, aspect=30)
        draw_legend(axes, self._list_legend_entries(), loc="upper left", bbox_to_anchor=(1.01, 1))

    def _list_legend_entries(self) -> list[LegendEntry]:
        """Return the lines of the legend: the groups, below the name of the column, and unknown values."""
        entries = [(group, style.get_curve_style(i)) for i, group in enumerate(self.groups) if group]
        if entries and self.name:
            entries.insert(0, (self.name, HEADING_STYLE))
        if not self.column.is_known.all():
            entries.append(("not known", {"markerfacecolor": "none", "markeredgecolor": "0.6", "marker": "o"}))
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
