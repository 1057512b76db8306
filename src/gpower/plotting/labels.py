"""Place labels next to points: inside the panel, without overlap, and covering as few other points as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower.plotting.style import SMALL_FONT_SIZE, Panel, StyleKwargs, write_panel_note

#: Candidate positions of a label: number of directions around its point, and distances in typographic points.
N_LABEL_DIRECTIONS, LABEL_DISTANCES_PT = 16, (4.0, 10.0, 18.0, 30.0, 46.0, 70.0)
#: Horizontal and vertical margin around a label: text is a little larger at other resolutions.
LABEL_MARGIN_PT = np.array([1.5, 0.75])
#: Cost of covering a point, as an additional distance.
COVERED_POINT_COST_PT = 20
#: Cost of a label that the line from another label to its point crosses: more than any distance.
CROSSED_LABEL_COST_PT = 100
#: Number of points at which a line between a label and its point is compared with others.
N_LEADER_POINTS = 32
#: Distance within which points share a label, below each other, because their dots overlap.
SHARED_LABEL_RADIUS_PT = 4.0
#: Space kept free around points that no label may cover.
POINT_CLEARANCE_PT = 2.0
#: Largest number of points that a figure names.
MAX_NAMES = 12
#: Distance above which a line connects the label with its point.
MIN_LEADER_LINE_PT = 7.0
LEADER_LINE_STYLE: StyleKwargs = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


def name_points(
    axes: Panel,
    points: Array,
    names: Sequence[str],
    order: NDArray[np.intp],
    *,
    colours: Sequence[str] | None = None,
    obstacles: Array | None = None,
) -> None:
    """Write the names of the first `MAX_NAMES` points of an order, and in a corner how many points have no name.

    Points whose dots overlap have one label with their names below each other.

    The layout of the figure must be final, with legends and colour bars in place. Labels do not change the layout, and
    avoid the text in the panel.

    Parameters
    ----------
    axes : matplotlib Axes
    points : ndarray of shape (n_points, 2)
    names : sequence of str
        Escaped names of all points.
    order : ndarray of int
        Indices of the points to name; those whose name does not fit are counted with those beyond the first ones.
    colours : sequence of str, optional
        Colours of all names; by default grey.
    obstacles : ndarray of shape (n_obstacles, 2), optional
        Points that a label should not cover if possible; it then covers none of `points`. By default these are the
        obstacles, and a label covers none of the named ones.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text

    named = order[:MAX_NAMES].tolist()
    if not named:
        return
    corner = write_panel_note(axes, 0.99, 0.01, f"{len(order)} more not named", fontsize=7)
    axes.figure.canvas.figure.draw_without_rendering()
    occupied = [np.array(text.get_window_extent().extents) for text in axes.texts if text.get_text()]
    positions = axes.transData.transform(points)  # in pixels
    if obstacles is None:
        blocked, avoided = positions[named], positions
    else:
        blocked, avoided = positions, axes.transData.transform(obstacles)
    panel = axes.get_window_extent().extents + np.array([1, 1, -1, -1])
    pixels = axes.figure.dpi / 72  # per typographic point
    style: StyleKwargs = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": SMALL_FONT_SIZE}
    style["path_effects"] = [withStroke(linewidth=2, foreground="white", alpha=0.8)]  # keeps text over points legible
    n_unnamed = len(order) - len(named)
    for stack in _stack_close_points(named, positions, SHARED_LABEL_RADIUS_PT * pixels, colours):
        i = stack[0]
        colour, label = "0.25" if colours is None else colours[i], "\n".join(names[j] for j in stack)
        text = axes.annotate(label, tuple(points[i]), (0, 0), color=colour, arrowprops=LEADER_LINE_STYLE, **style)
        text.set_in_layout(False)
        size = np.array(Text.get_window_extent(text).size) + 2 * LABEL_MARGIN_PT * pixels
        offsets, cost = _generate_label_offsets(positions[i] - (panel[:2] + panel[2:]) / 2, size, pixels)
        middles = positions[i] + offsets
        boxes = np.hstack([middles - size / 2, middles + size / 2])  # left, bottom, right, top
        lines = positions[i] + np.linspace(0, 1, N_LEADER_POINTS)[:, None] * offsets[:, None]  # (n_boxes, n_points, 2)
        is_free = _count_points_in_boxes(boxes, blocked, POINT_CLEARANCE_PT * pixels) == 0
        is_free &= np.all((boxes[:, :2] >= panel[:2]) & (boxes[:, 2:] <= panel[2:]), axis=1)
        for other in occupied:
            is_free &= np.any((boxes[:, :2] >= other[2:]) | (boxes[:, 2:] <= other[:2]), axis=1)
            is_crossed = np.any(np.all((lines > other[:2]) & (lines < other[2:]), axis=2), axis=1)
            cost += CROSSED_LABEL_COST_PT * is_crossed
        if not is_free.any():
            text.remove()
            n_unnamed += len(stack)
            continue
        cost += COVERED_POINT_COST_PT * _count_points_in_boxes(boxes, avoided)
        best = int(np.argmin(np.where(is_free, cost, np.inf)))
        occupied.append(boxes[best])
        text.set_position(tuple(offsets[best] / pixels))
        if np.max(np.abs(offsets[best]) - size / 2) > MIN_LEADER_LINE_PT * pixels:
            avoided = np.vstack([avoided, lines[best]])
        elif text.arrow_patch is not None:
            text.arrow_patch.set_visible(False)
    corner.set_text(f"{n_unnamed} more not named" if n_unnamed else "")


def _stack_close_points(
    named: list[int], positions: Array, radius: float, colours: Sequence[str] | None
) -> list[list[int]]:
    """Return the named points in lists that share a label: those of one colour within the radius of the first."""
    stacks = list[list[int]]()
    for i in named:
        for stack in stacks:
            is_close = np.linalg.norm(positions[i] - positions[stack[0]]) <= radius
            if is_close and (colours is None or colours[i] == colours[stack[0]]):
                stack.append(i)
                break
        else:
            stacks.append([i])
    return stacks


def _count_points_in_boxes(boxes: Array, points: Array, margin: float = 0.0) -> Array:
    """Return the number of points in each box enlarged by a margin, (n_boxes,)."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    return np.count_nonzero(np.all((points > low) & (points < high), axis=2), axis=1)


def _generate_label_offsets(outward: Array, size: Array, pixels_per_point: float) -> tuple[Array, Array]:
    """Return offsets in pixels from a point to the middle of its label, (n_offsets, 2), and the cost of each.

    The cost is the distance in typographic points, plus up to 2 for directions that differ from `outward`.
    """
    angles = np.arctan2(*outward[::-1]) + np.pi * np.array([0, *(s * i / 8 for i in range(1, 8) for s in (1, -1)), 1])
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    distance = np.repeat(LABEL_DISTANCES_PT, N_LABEL_DIRECTIONS)
    directions = np.tile(directions, (len(LABEL_DISTANCES_PT), 1))
    direction_cost = np.tile(np.linspace(0, 2, N_LABEL_DIRECTIONS), len(LABEL_DISTANCES_PT))
    return directions * (pixels_per_point * distance[:, None] + size / 2), distance + direction_cost
