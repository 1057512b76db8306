"""Names beside points: inside the panel, none over another, and as few points as possible covered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpower._utils.arrays import Array
from gpower.plotting.canvas import write_panel_note
from gpower.plotting.style import SMALL_FONT_SIZE, Panel, StyleKwargs

#: Where a name may stand: directions around its point, at growing distances (points of print).
N_LABEL_DIRECTIONS, LABEL_DISTANCES_PT = 16, (4.0, 10.0, 18.0, 30.0, 46.0, 70.0)
#: Free space beside a name, and above and below: print is a little wider and higher at other resolutions.
LABEL_MARGIN_PT = np.array([1.5, 0.75])
#: What covering a point costs, in points of print farther away; and the space that is kept free around points with
#: names, such as the tips of arrows.
COVERED_POINT_COST_PT, POINT_CLEARANCE_PT = 8, 2.0
#: From this distance on a thread leads from the name to its point.
MIN_LEADER_LINE_PT = 12.0


def place_labels(
    axes: Panel,
    points: Array,
    names: Sequence[str],
    avoided_points: Array,
    colours: Sequence[str],
    *,
    n_unlabelled: int = 0,
) -> None:
    """Write names beside points, the first ones first, and in a corner how many points found no room for theirs.

    The layout of the figure must be final: legends and colour bars are there already. Names are no part of it, and keep
    clear of what is written already.

    Parameters
    ----------
    axes : matplotlib Axes
    at : ndarray of shape (n_names, 2)
        The points that are named.
    names : sequence of str
        As they are drawn.
    others : ndarray of shape (n, 2)
        All points that a name should not cover; the named ones it does not.
    colours : sequence of str
        Of the names.
    unnamed : int
        Points that are to have none, counted in the corner as well.
    """
    if not len(names):
        return
    corner = write_panel_note(axes, 0.99, 0.01, f"{len(names) + n_unlabelled} more not named", fontsize=7)
    axes.figure.canvas.figure.draw_without_rendering()
    taken = [np.array(text.get_window_extent().extents) for text in axes.texts if text.get_text()]
    tips, covered = axes.transData.transform(points), axes.transData.transform(avoided_points)
    panel = axes.get_window_extent().extents + np.array([1, 1, -1, -1])
    pixels = axes.figure.dpi / 72
    for point, tip, name, colour in zip(points, tips, names, colours, strict=True):
        text = axes.annotate(
            name, tuple(point), (0, 0), textcoords="offset points", fontsize=SMALL_FONT_SIZE, color=colour
        )
        text.set_in_layout(False)
        size = np.array(text.get_window_extent().size) + 2 * LABEL_MARGIN_PT * pixels
        boxes, far = _generate_label_boxes(tip, size, panel, pixels)
        clear = _count_points_in_boxes(boxes, tips, POINT_CLEARANCE_PT * pixels) == 0
        place = _choose_label_box(
            boxes[clear], (far + COVERED_POINT_COST_PT * _count_points_in_boxes(boxes, covered))[clear], panel, taken
        )
        text.remove()
        if place is None:
            n_unlabelled += 1
        else:
            taken.append(place)
            _draw_label(axes, point, name, place, colour)
    if n_unlabelled:
        corner.set_text(f"{n_unlabelled} more not named")
    else:
        corner.remove()


def _choose_label_box(boxes: Array, cost: Array, panel: Array, occupied_boxes: list[Array]) -> Array | None:
    """The cheapest box (left, bottom, right, top) in the panel and clear of others, in pixels; None where none is."""
    free = np.all((boxes[:, :2] >= panel[:2]) & (boxes[:, 2:] <= panel[2:]), axis=1)
    for other in occupied_boxes:
        free &= np.any((boxes[:, :2] >= other[2:]) | (boxes[:, 2:] <= other[:2]), axis=1)
    return boxes[int(np.argmin(np.where(free, cost, np.inf)))] if free.any() else None


def _count_points_in_boxes(boxes: Array, points: Array, margin: float = 0.0) -> Array:
    """How many points are in each box, or that near to it, (n_boxes,)."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    return np.count_nonzero(np.all((points > low) & (points < high), axis=2), axis=1)


def _generate_label_boxes(point: Array, size: Array, panel: Array, pixels_per_point: float) -> tuple[Array, Array]:
    """Boxes around a point, those away from the middle of the panel first, and how far each is, in points of print."""
    outward = np.arctan2(*(point - (panel[:2] + panel[2:]) / 2)[::-1])
    angles = outward + np.pi * np.array([0, *(s * i / 8 for i in range(1, 8) for s in (1, -1)), 1])
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    far = np.repeat(LABEL_DISTANCES_PT, N_LABEL_DIRECTIONS)
    middle = point + np.tile(directions, (len(LABEL_DISTANCES_PT), 1)) * (pixels_per_point * far[:, None] + size / 2)
    turned = np.tile(np.linspace(0, 2, N_LABEL_DIRECTIONS), len(LABEL_DISTANCES_PT))
    return np.hstack([middle - size / 2, middle + size / 2]), far + turned


def _draw_label(axes: Panel, point: Array, name: str, box: Array, colour: str) -> None:
    """The name in its place, with a thread to its point where that is far."""
    from matplotlib.patheffects import withStroke

    pixels = axes.figure.dpi / 72
    offset = ((box[:2] + box[2:]) / 2 - axes.transData.transform(point)) / pixels
    size = (box[2:] - box[:2]) / pixels
    far = float(np.max(np.abs(offset) - size / 2))
    thread = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
    style: StyleKwargs = {
        "textcoords": "offset points",
        "ha": "center",
        "va": "center",
        "fontsize": SMALL_FONT_SIZE,
        "color": colour,
    }
    text = axes.annotate(
        name, tuple(point), tuple(offset), arrowprops=thread if far > MIN_LEADER_LINE_PT else None, **style
    )
    text.set_path_effects([withStroke(linewidth=2, foreground="white", alpha=0.8)])  # print on points stays legible
    text.set_in_layout(False)


def sample_arrow_points(tips: Array) -> Array:
    """Points along arrows from the origin, which names should not cover."""
    return np.vstack([share * tips for share in np.linspace(0.1, 1, 16)])
