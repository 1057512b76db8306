"""Samples told apart: groups by colour and marker, measured values by shade, and their legends beside the panel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.analysis.association import Column, column_of
from gpower.plotting.style import COLOURS, MARKERS, SMALL, Panel, Style, literal, width_of

MAX_GROUPS = 24  # of samples; beyond that nobody tells colours and markers apart
UNKNOWN: Style = {"facecolors": "none", "edgecolors": "0.6", "linewidths": 0.7}
SHADES = "viridis"


@dataclass(frozen=True, eq=False)
class Samples:
    """What the samples of a picture look like.

    Attributes
    ----------
    count : int
    labels, shapes : Column or None
        What their colours tell, and what their markers tell where that is something else.
    quantity : str
        What a colour bar is of: the name of the labels where they have one, as a column of a frame has.
    """

    count: int
    labels: Column | None = None
    shapes: Column | None = None
    quantity: str = "value"

    @classmethod
    def of(cls, count: int, labels: Iterable[object] | None, shapes: Iterable[object] | None = None) -> Samples:
        """So many samples, checked."""
        colours, markers = _checked(labels, "labels", count), _checked(shapes, "shapes", count, groups=True)
        return cls(count, colours, markers, literal(getattr(labels, "name", None) or cls.quantity))

    @property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """The samples of each group of colour; all where there are none."""
        return {} if self.labels is None or self.labels.is_measured else self.labels.groups

    def scatter(self, axes: Panel, points: Array) -> None:
        """The points, in their colours and markers."""
        size: Style = {"s": 26 if self.count <= 500 else 8}
        style = size | {"alpha": 0.8, "linewidth": 0}
        markers = self._markers()
        if self.labels is None:
            for marker, members in markers.items():
                _dots(axes, points[members], style | {"color": COLOURS[0], "marker": marker})
            return
        for marker, members in markers.items():
            unknown = members[~self.labels.known[members]]
            if unknown.size:
                _dots(axes, points[unknown], size | UNKNOWN | {"marker": marker})
            if self.labels.is_measured:
                here = members[self.labels.known[members]]
                shades = self._shades() | {"c": self.labels.values[here], "marker": marker}
                _dots(axes, points[here], style | shades)
        for i, members in enumerate(self.groups.values()):
            for marker, others in markers.items():
                here = np.intersect1d(members, others)
                own = marker if self.shapes is not None else MARKERS[i % len(MARKERS)]
                if here.size:
                    _dots(axes, points[here], style | {"color": colour_of(i), "marker": own})

    def _markers(self) -> dict[str, NDArray[np.intp]]:
        """Samples by marker; those of no known shape have a point's."""
        if self.shapes is None:
            return {"o": np.arange(self.count)}
        found = {MARKERS[i]: members for i, members in enumerate(self.shapes.groups.values())}
        unknown = np.flatnonzero(~self.shapes.known)
        return found | ({".": unknown} if unknown.size else {})

    def _shades(self) -> Style:
        assert self.labels is not None
        low, high = np.nanmin(self.labels.values), np.nanmax(self.labels.values)
        return {"cmap": SHADES, "vmin": low, "vmax": high}

    @property
    def legend_width(self) -> float:
        """Inches that the legend takes."""
        if self.labels is None and self.shapes is None:
            return 0.0
        groups = [*self.groups, *(self.shapes.groups if self.shapes else ())]
        return 0.9 if not groups else 0.6 + width_of(map(literal, groups))

    def explain(self, axes: Panel, panels: Array | None = None) -> None:
        """Legend and colour bar, outside, where they hide no sample; a bar beside all `panels` of a figure."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        if self.labels is not None and self.labels.is_measured:
            shades = self._shades()
            shown = ScalarMappable(Normalize(shades["vmin"], shades["vmax"]), SHADES)
            bar = axes.figure.colorbar(shown, ax=axes if panels is None else panels, pad=0.02, aspect=30)
            bar.set_label(self.quantity, fontsize=SMALL)
            bar.ax.tick_params(labelsize=SMALL)
            bar.outline.set_visible(False)
        _legend(axes, self._entries())

    def _entries(self) -> list[tuple[str, Style]]:
        """Words and looks of the legend."""
        own = self.shapes is None
        entries = [
            (name, {"color": colour_of(i), "marker": MARKERS[i % len(MARKERS)] if own else "s"})
            for i, name in enumerate(self.groups)
        ]
        if self.labels is not None and not self.labels.known.all():
            entries.append(("not known", {"markerfacecolor": "none", "markeredgecolor": "0.6", "marker": "o"}))
        if self.shapes is not None:
            entries += [(name, {"color": "0.4", "marker": MARKERS[i]}) for i, name in enumerate(self.shapes.groups)]
        return entries


def _dots(axes: Panel, points: Array, style: Style) -> None:
    axes.scatter(points[:, 0], points[:, 1], **style)


def colour_of(i: int) -> str:
    """Colour of the i-th group."""
    return COLOURS[i % len(COLOURS)]


def _legend(axes: Panel, entries: list[tuple[str, Style]]) -> None:
    """A legend at the right; words are put in afterwards, since matplotlib drops those that begin with a line below."""
    from matplotlib.lines import Line2D

    if not entries:
        return
    handles = [Line2D([], [], linestyle="none", markersize=5, **style) for _, style in entries]
    place: Style = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False, "fontsize": SMALL}
    legend = axes.legend(handles, ["name"] * len(handles), **place)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(literal(name))


def _checked(values: Iterable[object] | None, name: str, count: int, *, groups: bool = False) -> Column | None:
    """A column of so many samples; of groups no more than can be told apart."""
    if values is None:
        return None
    column = column_of(values)
    if column.values.size != count:
        raise ValueError(f"{name} has {column.values.size} entries, but X has {count} samples.")
    most = len(MARKERS) if groups else MAX_GROUPS
    found = 0 if column.is_measured and not groups else len(column.groups)
    if found > most:
        raise ValueError(
            f"{name} has {found} different values, too many to tell apart: give at most {most}"
            + (
                "; cut a measured quantity into a few ranges."
                if groups
                else ", or numbers, which are shades of colour."
            )
        )
    return column
