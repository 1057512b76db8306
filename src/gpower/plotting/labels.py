"""Place labels next to points: inside the panel, without overlap, and covering as few points as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpower._utils.arrays import Array
from gpower.plotting.style import SMALL_FONT_SIZE, Panel, StyleKwargs, write_panel_note

#: Candidate positions of a label: number of directions around its point, and distances in typographic points.
N_LABEL_DIRECTIONS, LABEL_DISTANCES_PT = 16, (4.0, 10.0, 18.0, 30.0, 46.0, 70.0)
#: Horizontal and vertical margin around a label: text is a little larger at other resolutions.
LABEL_MARGIN_PT = np.array([1.5, 0.75])
#: Cost of covering a point, as an additional distance.
COVERED_POINT_COST_PT = 8
#: Space kept free around labelled points, such as the tips of arrows.
POINT_CLEARANCE_PT = 2.0
#: Distance above which a line connects the label with its point.
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
    """Write names next to points in the given order, and in a corner the number of points without a name.

    The layout of the figure must be final, with legends and colour bars in place. Labels do not change the layout, and
    avoid the text in the panel.

    Parameters
    ----------
    axes : matplotlib Axes
    points : ndarray of shape (n_names, 2)
        Points to label. No label covers one of them.
    names : sequence of str
        Escaped names of the points.
    avoided_points : ndarray of shape (n, 2)
        Points that a label should not cover if possible.
    colours : sequence of str
        Colours of the names.
    n_unlabelled : int
        Number of points without a name, to which those are added whose name does not fit.
    """
    if not len(names):
        return
    corner = write_panel_note(axes, 0.99, 0.01, f"{len(names) + n_unlabelled} more not named", fontsize=7)
    axes.figure.canvas.figure.draw_without_rendering()
    occupied = [np.array(text.get_window_extent().extents) for text in axes.texts if text.get_text()]
    positions = axes.transData.transform(points)  # in pixels
    avoided = axes.transData.transform(avoided_points)
    panel = axes.get_window_extent().extents + np.array([1, 1, -1, -1])
    pixels = axes.figure.dpi / 72  # per typographic point
    for point, position, name, colour in zip(points, positions, names, colours, strict=True):
        text = axes.annotate(
            name, tuple(point), (0, 0), textcoords="offset points", fontsize=SMALL_FONT_SIZE, color=colour
        )
        text.set_in_layout(False)
        size = np.array(text.get_window_extent().size) + 2 * LABEL_MARGIN_PT * pixels
        boxes, distance = _generate_label_boxes(position, size, panel, pixels)
        cost = distance + COVERED_POINT_COST_PT * _count_points_in_boxes(boxes, avoided)
        clear = _count_points_in_boxes(boxes, positions, POINT_CLEARANCE_PT * pixels) == 0
        box = _choose_label_box(boxes[clear], cost[clear], panel, occupied)
        text.remove()
        if box is None:
            n_unlabelled += 1
        else:
            occupied.append(box)
            _draw_label(axes, point, name, box, colour)
    if n_unlabelled:
        corner.set_text(f"{n_unlabelled} more not named")
    else:
        corner.remove()


def _choose_label_box(boxes: Array, cost: Array, panel: Array, occupied_boxes: list[Array]) -> Array | None:
    """Return the cheapest box (left, bottom, right, top) in pixels that is inside the panel and overlaps no other.

    Return None if there is no such box.
    """
    free = np.all((boxes[:, :2] >= panel[:2]) & (boxes[:, 2:] <= panel[2:]), axis=1)
    for other in occupied_boxes:
        free &= np.any((boxes[:, :2] >= other[2:]) | (boxes[:, 2:] <= other[:2]), axis=1)
    return boxes[int(np.argmin(np.where(free, cost, np.inf)))] if free.any() else None


def _count_points_in_boxes(boxes: Array, points: Array, margin: float = 0.0) -> Array:
    """Return the number of points in each box enlarged by a margin, (n_boxes,)."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    return np.count_nonzero(np.all((points > low) & (points < high), axis=2), axis=1)


def _generate_label_boxes(point: Array, size: Array, panel: Array, pixels_per_point: float) -> tuple[Array, Array]:
    """Return boxes around a point, (n_boxes, 4), and the cost of each, in typographic points.

    The cost is the distance, plus up to 2 for directions towards the middle of the panel.
    """
    outward = np.arctan2(*(point - (panel[:2] + panel[2:]) / 2)[::-1])
    angles = outward + np.pi * np.array([0, *(s * i / 8 for i in range(1, 8) for s in (1, -1)), 1])
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    distance = np.repeat(LABEL_DISTANCES_PT, N_LABEL_DIRECTIONS)
    offset = np.tile(directions, (len(LABEL_DISTANCES_PT), 1)) * (pixels_per_point * distance[:, None] + size / 2)
    middle = point + offset
    direction_cost = np.tile(np.linspace(0, 2, N_LABEL_DIRECTIONS), len(LABEL_DISTANCES_PT))
    return np.hstack([middle - size / 2, middle + size / 2]), distance + direction_cost


def _draw_label(axes: Panel, point: Array, name: str, box: Array, colour: str) -> None:
    """Write a name into its box, with a line to its point if that is far away."""
    from matplotlib.patheffects import withStroke

    pixels = axes.figure.dpi / 72
    offset = ((box[:2] + box[2:]) / 2 - axes.transData.transform(point)) / pixels
    size = (box[2:] - box[:2]) / pixels
    distance = float(np.max(np.abs(offset) - size / 2))
    leader_line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
    arrowprops = leader_line if distance > MIN_LEADER_LINE_PT else None
    style: StyleKwargs = {
        "textcoords": "offset points",
        "ha": "center",
        "va": "center",
        "fontsize": SMALL_FONT_SIZE,
        "color": colour,
    }
    text = axes.annotate(name, tuple(point), tuple(offset), arrowprops=arrowprops, **style)
    text.set_path_effects([withStroke(linewidth=2, foreground="white", alpha=0.8)])  # keeps text over points legible
    text.set_in_layout(False)


def sample_arrow_points(tips: Array) -> Array:
    """Return points along arrows from the origin, which labels should not cover, (16 · n_arrows, 2)."""
    return np.vstack([share * tips for share in np.linspace(0.1, 1, 16)])
