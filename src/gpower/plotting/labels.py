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
#: Cost of covering a point, and of a line that passes through another label, as an additional distance.
COVERED_POINT_COST_PT, CROSSED_LABEL_COST_PT = 8, 40
#: Cost of a point that the line from a label to its own point crosses, and the distance within which it does.
CROSSED_POINT_COST_PT, CROSSED_POINT_RADIUS_PT = 6, 2.5
#: Number of points at which a line between a label and its point is compared with other labels.
N_LEADER_POINTS = 32
#: Space kept free around blocked points, such as the tips of lines.
POINT_CLEARANCE_PT = 2.0
#: Largest number of variables that a figure names.
MAX_LABELLED_VARIABLES = 12
#: Distance above which a line connects the label with its point.
MIN_LEADER_LINE_PT = 7.0
LEADER_LINE_STYLE: StyleKwargs = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


def place_labels(
    axes: Panel,
    points: Array,
    names: Sequence[str],
    colours: Sequence[str],
    *,
    blocked_points: Array,
    avoided_points: Array,
    n_unlabelled: int = 0,
) -> None:
    """Write names next to points in the given order, and in a corner the number of points without a name.

    The layout of the figure must be final, with legends and colour bars in place. Labels do not change the layout, and
    avoid the text in the panel.

    Parameters
    ----------
    axes : matplotlib Axes
    points : ndarray of shape (n_names, 2)
        Points to label.
    names : sequence of str
        Escaped names of the points.
    colours : sequence of str
        Colours of the names.
    blocked_points : ndarray of shape (n_blocked, 2)
        Points that no label may cover.
    avoided_points : ndarray of shape (n_avoided, 2)
        Points that a label should not cover if possible.
    n_unlabelled : int
        Number of points without a name, to which those are added whose name does not fit.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text

    if not len(names):
        return
    corner = write_panel_note(axes, 0.99, 0.01, f"{len(names) + n_unlabelled} more not named", fontsize=7)
    axes.figure.canvas.figure.draw_without_rendering()
    occupied = [np.array(text.get_window_extent().extents) for text in axes.texts if text.get_text()]
    positions, blocked, avoided = map(axes.transData.transform, (points, blocked_points, avoided_points))  # in pixels
    panel = axes.get_window_extent().extents + np.array([1, 1, -1, -1])
    pixels = axes.figure.dpi / 72  # per typographic point
    style: StyleKwargs = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": SMALL_FONT_SIZE}
    style["path_effects"] = [withStroke(linewidth=2, foreground="white", alpha=0.8)]  # keeps text over points legible
    for point, position, name, colour in zip(points, positions, names, colours, strict=True):
        text = axes.annotate(name, tuple(point), (0, 0), color=colour, arrowprops=LEADER_LINE_STYLE, **style)
        text.set_in_layout(False)
        size = np.array(Text.get_window_extent(text).size) + 2 * LABEL_MARGIN_PT * pixels
        boxes, cost = _generate_label_boxes(position, size, panel, pixels)
        cost = cost + COVERED_POINT_COST_PT * _count_points_in_boxes(boxes, avoided)
        cost = cost + CROSSED_LABEL_COST_PT * count_crossed_labels(position, boxes, occupied)
        cost = cost + CROSSED_POINT_COST_PT * count_crossed_points(
            position, boxes, avoided, CROSSED_POINT_RADIUS_PT * pixels
        )
        is_free = _count_points_in_boxes(boxes, blocked, POINT_CLEARANCE_PT * pixels) == 0
        is_free &= np.all((boxes[:, :2] >= panel[:2]) & (boxes[:, 2:] <= panel[2:]), axis=1)
        for other in occupied:
            is_free &= np.any((boxes[:, :2] >= other[2:]) | (boxes[:, 2:] <= other[:2]), axis=1)
        if not is_free.any():
            text.remove()
            n_unlabelled += 1
            continue
        box = boxes[int(np.argmin(np.where(is_free, cost, np.inf)))]
        occupied.append(box)
        offset = (box[:2] + box[2:]) / 2 - position
        text.set_position(tuple(offset / pixels))
        if np.max(np.abs(offset) - size / 2) > MIN_LEADER_LINE_PT * pixels:
            blocked = np.vstack([blocked, position + np.linspace(0.2, 1, N_LEADER_POINTS)[:, None] * offset])
        elif text.arrow_patch is not None:
            text.arrow_patch.set_visible(False)
    if n_unlabelled:
        corner.set_text(f"{n_unlabelled} more not named")
    else:
        corner.remove()


def _count_points_in_boxes(boxes: Array, points: Array, margin: float = 0.0) -> Array:
    """Return the number of points in each box enlarged by a margin, (n_boxes,)."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    return np.count_nonzero(np.all((points > low) & (points < high), axis=2), axis=1)


def count_crossed_labels(point: Array, boxes: Array, labels: Sequence[Array]) -> Array:
    """Return for each box the number of labels that a line from the point to its middle passes, (n_boxes,)."""
    shares = np.linspace(0, 1, N_LEADER_POINTS)[:, None, None]
    line = point + shares * ((boxes[:, :2] + boxes[:, 2:]) / 2 - point)  # (N_LEADER_POINTS, n_boxes, 2)
    crossed = [np.any(np.all((line > box[:2]) & (line < box[2:]), axis=2), axis=0) for box in labels]
    return np.sum(crossed, axis=0) if crossed else np.zeros(len(boxes))


def count_crossed_points(point: Array, boxes: Array, points: Array, radius: float) -> Array:
    """Return for each box the number of points within a radius of a line from the point to its middle, (n_boxes,).

    Those within the radius of the point itself do not count, because the line cannot avoid them.
    """
    others = points[np.linalg.norm(points - point, axis=1) > radius] - point
    lines = (boxes[:, :2] + boxes[:, 2:]) / 2 - point
    shares = (lines @ others.T / np.maximum(np.sum(lines**2, axis=1), np.finfo(float).tiny)[:, None]).clip(0, 1)
    distance = np.linalg.norm(others - shares[:, :, None] * lines[:, None], axis=2)  # (n_boxes, n_others)
    return np.count_nonzero(distance < radius, axis=1)


def _generate_label_boxes(point: Array, size: Array, panel: Array, pixels_per_point: float) -> tuple[Array, Array]:
    """Return boxes (left, bottom, right, top) around a point in pixels, (n_boxes, 4), and the cost of each.

    The cost is the distance in typographic points, plus up to 2 for directions towards the middle of the panel.
    """
    outward = np.arctan2(*(point - (panel[:2] + panel[2:]) / 2)[::-1])
    angles = outward + np.pi * np.array([0, *(s * i / 8 for i in range(1, 8) for s in (1, -1)), 1])
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    distance = np.repeat(LABEL_DISTANCES_PT, N_LABEL_DIRECTIONS)
    offset = np.tile(directions, (len(LABEL_DISTANCES_PT), 1)) * (pixels_per_point * distance[:, None] + size / 2)
    middle = point + offset
    direction_cost = np.tile(np.linspace(0, 2, N_LABEL_DIRECTIONS), len(LABEL_DISTANCES_PT))
    return np.hstack([middle - size / 2, middle + size / 2]), distance + direction_cost
