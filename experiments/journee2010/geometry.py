"""Draw in the plane why γ makes loadings zero: a polytope, and a segment that crosses lines of active variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull

from experiments.journee2010 import report
from experiments.journee2010.study import Study
from gpower import GPower, Solver
from gpower._utils.arrays import Array
from gpower.plotting.style import (
    BLUE,
    SMALL_FONT_SIZE,
    TITLE_FONT_SIZE,
    VERMILION,
    AxesLike,
    Panel,
    StyleKwargs,
    draw_legend_above,
    get_panels,
    get_single_panel,
    label_axes,
    resolve_variable_names,
)

NAME = "geometry"
MARGIN = 1.2  # around the polytope and the segment
PLANE = np.array([[2.0, 1.0, -0.3, 0.5, 1.7], [0.5, 1.2, 1.0, -0.6, 0.9]])  # five variables, two samples


def run(study: Study) -> None:
    """Draw the same five variables under both penalties."""
    panels = get_panels(None, 1, 2, 10.8, 5.8)[0]
    for panel, penalty in zip(panels, ("l1", "l0"), strict=True):
        plot_geometry(PLANE, 1.0, penalty, axes=panel)
    report.picture(study, NAME, panels)


def plot_geometry(
    X: ArrayLike,
    gamma: float,
    penalty: str = "l1",
    feature_names: Sequence[str] | None = None,
    axes: AxesLike = None,
) -> Panel:
    """Draw why γ makes loadings zero, for two samples [JNRS10, sections 2.1 and 2.2].

    Every variable aᵢ, a column of X, has a pair of lines |aᵢᵀx| = 1; between all the pairs lies the polytope. The
    segment from the origin to x*/γ (ℓ0: x*/√γ), where x* is the solution on the unit circle, crosses the lines of the
    active variables and of no others: |aᵢᵀx*| > γ (ℓ0: (aᵢᵀx*)² > γ). A larger γ shortens the segment.

    Parameters
    ----------
    X : array-like of shape (2, n_features)
        Two samples, taken as they are: with the mean removed, two samples lie on one line.
    gamma : float
        Absolute, unlike the fraction that `GPower` takes: above 0 and below the largest ‖aᵢ‖ (ℓ0: ‖aᵢ‖²).
    penalty : {"l1", "l0"}, default "l1"
    feature_names : sequence of str, optional
        Names of the variables; by default those of X, or x0, x1, ….
    axes : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
    """
    A = np.asarray(X, float)
    largest = _largest_gamma(A, penalty)
    if not 0 < gamma < largest:
        norm = "‖aᵢ‖" if penalty == "l1" else "‖aᵢ‖²"
        raise ValueError(f"gamma={gamma}: it is absolute here, above 0 and below the largest {norm}, {largest:.4g}.")
    settings: StyleKwargs = {"center": False, "n_init": A.shape[1], "tol": 1e-14, "max_iter": 10000}
    model = GPower(1, penalty=penalty, gamma=gamma / largest, solver=Solver(refit=None), **settings).fit(X)
    names = resolve_variable_names(model, feature_names, A.shape[1])
    image = A @ model.components_[0]  # a multiple of x*, where the ascent has come to rest
    end = image / np.linalg.norm(image) / (gamma if penalty == "l1" else np.sqrt(gamma))
    heights = A.T @ end  # beyond ±1 where the segment crosses a line
    active = np.abs(heights) > 1
    corners = _corners(A)
    reach = MARGIN * float(np.abs(np.vstack([corners, end])).max())
    panel = get_single_panel(axes, 5.4, 5.8)
    polytope: StyleKwargs = {"facecolor": "0.92", "edgecolor": "black", "linewidth": 1.4, "zorder": 2.5}
    panel.fill(*corners.T, label=r"polytope $|a_i^Tx|\leq 1$", **polytope)
    inactive: StyleKwargs = {"color": "0.6", "linestyle": "--", "linewidth": 0.8}
    _draw_lines(panel, A[:, ~active], 2 * reach, label="lines of the inactive variables", **inactive)
    _draw_lines(panel, A[:, active], 2 * reach, label="lines of the active variables", color=BLUE, linewidth=1.2)
    _draw_segment(panel, end, r"$x^*/\gamma$" if penalty == "l1" else r"$x^*/\sqrt{\gamma}$")
    _draw_crossings(panel, end, heights[active], [names[i] for i in np.flatnonzero(active)])
    panel.set_xlim(-reach, reach)
    panel.set_ylim(-reach, reach)
    panel.set_aspect("equal")
    label_axes(panel, "sample 1", "sample 2")
    draw_legend_above(panel)
    title = f"γ = {gamma:.4g}: {active.sum()} of {A.shape[1]} variables active"
    panel.get_legend().set_title(title, prop={"size": TITLE_FONT_SIZE})
    return panel


def _largest_gamma(A: Array, penalty: str) -> float:
    """Return the smallest γ at which all loadings are zero; raise if the data cannot be drawn."""
    if penalty not in ("l1", "l0"):
        raise ValueError(f"penalty={penalty!r}: give 'l1' or 'l0'.")
    if A.ndim != 2 or A.shape[0] != 2:
        raise ValueError(
            f"X has the shape {A.shape}: the picture is of two samples, an array of shape (2, n_features)."
        )
    if not np.all(np.isfinite(A)):
        raise ValueError("X contains NaN or infinity; drop or impute those entries.")
    if np.linalg.matrix_rank(A) < 2:
        raise ValueError("The two samples are multiples of one another, so the polytope has no end; take others.")
    return float(np.linalg.norm(A, axis=0).max()) ** (1 if penalty == "l1" else 2)


def _corners(A: Array) -> Array:
    """Return the corners of the polytope in order: each side of the convex hull of ±aᵢ, its polar, is a corner."""
    hull = ConvexHull(np.hstack([A, -A]).T)
    normals, offsets = hull.equations[:, :2], hull.equations[:, 2:]
    corners = -normals / offsets
    return np.asarray(corners[np.argsort(np.arctan2(corners[:, 1], corners[:, 0]))])


def _draw_lines(axes: Panel, A: Array, reach: float, label: str, **style: Any) -> None:
    """Draw both lines aᵀx = ±1 of every column that is not zero."""
    norms = np.linalg.norm(A, axis=0)
    for a, norm in zip(A.T[norms > 0], norms[norms > 0], strict=True):
        along = reach * np.array([-a[1], a[0]]) / norm
        for foot in (a / norm**2, -a / norm**2):
            axes.plot(*np.column_stack([foot - along, foot + along]), label=label, **style)
            label = "_"  # one entry in the legend for all


def _draw_segment(axes: Panel, end: Array, name: str) -> None:
    axes.plot([0, end[0]], [0, end[1]], color=VERMILION, linewidth=2, zorder=3, label=f"from the origin to {name}")
    axes.plot(*end, color=VERMILION, marker="o", markersize=6, zorder=3)
    _name_point(axes, name, end, 18 * end / np.linalg.norm(end), color=VERMILION)


def _draw_crossings(axes: Panel, end: Array, heights: Array, names: list[str]) -> None:
    """Mark the points where the segment crosses the line of each active variable, with names on alternate sides."""
    aside = np.array([-end[1], end[0]]) / np.linalg.norm(end)
    for place, i in enumerate(np.argsort(-np.abs(heights))):
        point, side = end / abs(heights[i]), 1 if place % 2 == 0 else -1
        axes.plot(*point, color=BLUE, marker="D", markersize=4.5, linestyle="none", label="_", zorder=4)
        _name_point(axes, names[i], point, 14 * side * aside, fontsize=SMALL_FONT_SIZE, zorder=4)


def _name_point(axes: Panel, name: str, point: Array, offset: Array, **style: Any) -> None:
    """Write a name at a distance from a point, given in points of print."""
    axes.annotate(name, tuple(point), tuple(offset), textcoords="offset points", ha="center", va="center", **style)
