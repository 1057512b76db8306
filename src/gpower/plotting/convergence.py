"""Plot the convergence of an ascent: objective values and first-order gaps."""

from __future__ import annotations

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.text import format_count
from gpower.plotting import style
from gpower.plotting.style import AxesLike, Panel, Panels

__all__ = ["plot_convergence"]


def plot_convergence(trace: object, axes: AxesLike = None) -> Panels:
    """Plot the objective, and below it the first-order gap Δ on a logarithmic scale, against iterations and passes.

    A pass is one read of the matrix. Panels of passes or gaps are left out if the trace does not have them.

    Parameters
    ----------
    trace : Trace or AscentResult
        Object with arrays `values`, `gaps` and `passes`, each with one entry for the start and one per iteration, or
        with the `history` of `gpower.maximize`.
    axes : array of matplotlib Axes, optional
        Axes to draw on, one for each panel; by default those of a new figure.

    Returns
    -------
    ndarray of matplotlib Axes
        Rows: objective, gap. Columns: iterations, passes.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import maximize
    >>> from gpower.feasible_sets import Sphere
    >>> from gpower.plotting import plot_convergence
    >>> class Quadratic:
    ...     def value_and_gradient(self, x):
    ...         g = np.array([[2.0, 1.0], [1.0, 2.0]]) @ x
    ...         return 0.5 * x @ g, g
    >>> result = maximize(Quadratic(), Sphere(), np.array([1.0, 0.0]), tol=1e-12)
    >>> plot_convergence(result).shape
    (1, 1)
    """
    values = np.asarray(getattr(trace, "values", getattr(trace, "history", None)), float)
    gaps = _get_trace_array(trace, "gaps", values.size)
    passes = _get_trace_array(trace, "passes", values.size)
    x_values = {"iteration": np.arange(values.size, dtype=float)}
    if passes is not None:
        x_values["passes over the matrix"] = passes
    shape = (1 if gaps is None else 2, len(x_values))
    size = (1.2 + 3.6 * shape[1], 0.6 + 2.1 * shape[0])  # width and height in inches
    expectation = f"this trace has {np.prod(shape)} panels ({shape[0]} × {shape[1]})"
    panels = style.get_panels(axes, *shape, *size, expectation, sharex="col", sharey="row")
    for column, (label, x) in enumerate(x_values.items()):
        panels[0, column].plot(x, values, color=style.BLUE, marker="o", markersize=3, linewidth=1.2)
        style.label_axes(panels[0, column], "", "objective f")
        if gaps is not None:
            _draw_gap_curve(panels[1, column], x, gaps)
        panels[-1, column].set_xlabel(label, fontsize=style.NORMAL_FONT_SIZE)
    for panel in panels[:, 1:].flat:
        panel.set_ylabel("")
    return panels


def _get_trace_array(trace: object, name: str, length: int) -> Array | None:
    """Return an array of the trace, or None if it is missing or all NaN."""
    array = np.asarray(getattr(trace, name, np.nan), float)
    if np.all(np.isnan(array)):
        return None
    if array.size != length:
        raise ValueError(f"The trace has {length} values but {array.size} {name}; it needs one for each.")
    return array


def _draw_gap_curve(axes: Panel, x: Array, gaps: Array) -> None:
    """Draw the gaps against x, both (n_steps,), on a logarithmic scale, and count the gaps of zero in a note."""
    style.label_axes(axes, "", "first-order gap Δ")
    if not np.any(gaps > 0):
        style.write_centred_text(axes, "Δ = 0 throughout")
        return
    axes.plot(x, style.mask_nonpositive(gaps), color=style.VERMILION, marker="s", markersize=3, linewidth=1.2)
    axes.set_yscale("log")
    if n_zero := np.count_nonzero(gaps <= 0):
        style.write_panel_note(axes, 0.98, 0.95, f"not shown: {format_count(int(n_zero), 'step')} with Δ = 0", va="top")
