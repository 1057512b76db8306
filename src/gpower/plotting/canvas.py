"""What all pictures share: matplotlib, colours and markers, panels, names, the axis of cardinalities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of Okabe and Ito (2008): told apart under every colour-vision deficiency. Yellow is too pale on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
#: One more than the colours, so that 56 pairs go by before one comes again.
MARKERS = "osD^vPX*"
QUIET = "0.45"
SMALL, NORMAL = 8, 9
MAX_NAME = 24  # characters of a name that a picture shows


def pyplot() -> Any:
    """matplotlib.pyplot, loaded with the first picture."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('Pictures need matplotlib: pip install "gpower[plot]".') from None
    return plt


def look(i: int) -> dict[str, Any]:
    """Colour and marker of the i-th curve or group: both change, so either tells them apart."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


def new_panels(n_lines: int, n_wide: int, width: float, height: float, **options: Any) -> NDArray[Any]:
    """A grid of panels in a new figure of that size in inches."""
    _, grid = pyplot().subplots(
        n_lines, n_wide, figsize=(width, height), squeeze=False, layout="constrained", **options
    )
    return np.asarray(grid)


def given_panels(axes: Any, n_panels: int, what: str) -> NDArray[Any]:
    """The user's axes as a flat array; `what` says what there is one panel for."""
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if panels.size != n_panels:
        raise ValueError(f"axes has {panels.size} entries, but {what}.")
    return panels


def one_panel(axes: Any, width: float = 6.0, height: float = 3.8) -> Axes:
    """The user's Axes, or those of a new figure."""
    if axes is None:
        return new_panels(1, 1, width, height)[0, 0]
    return given_panels(axes, 1, "this picture has one panel")[0]


def tidy(axes: Axes, xlabel: str, ylabel: str, *, grid: str = "both") -> None:
    """Labels, a pale grid behind the data, and no box around it."""
    axes.set_xlabel(xlabel, fontsize=NORMAL)
    axes.set_ylabel(ylabel, fontsize=NORMAL)
    axes.tick_params(labelsize=SMALL)
    axes.grid(True, axis=grid, color="0.9", linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def cardinality_axis(axes: Axes, cardinality: NDArray[Any], label: str, *, which: str = "x") -> None:
    """A logarithmic axis of counts, with ticks that are plain numbers."""
    counts = np.asarray(cardinality, float)
    counts = counts[counts > 0]
    if counts.size == 0:
        raise ValueError("No component has a non-zero loading anywhere: take larger cardinalities or a smaller γ.")
    ticks = _ticks(np.unique(counts))
    words = [f"{tick:.4g}" if tick < 1e4 else f"{tick:.0e}" for tick in ticks]
    limits = (counts.min() / 1.12, counts.max() * 1.12)
    axes.set(**{f"{which}scale": "log", f"{which}lim": limits})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[which]
    axis.set_ticks(ticks, words)
    axis.minorticks_off()
    axis.set_label_text(label, fontsize=NORMAL)


def _ticks(counts: NDArray[Any]) -> NDArray[Any]:
    """The counts themselves where they are few and apart, else 1, 2, 5, 10, … within their range."""
    if counts.size == 1 or (counts.size <= 8 and np.min(counts[1:] / counts[:-1]) >= 1.15):
        return counts
    decades = 10.0 ** np.arange(0, np.ceil(np.log10(counts[-1])) + 1)
    ticks = np.outer(decades, [1, 2, 5]).ravel()
    ticks = ticks[(ticks >= counts[0]) & (ticks <= counts[-1])]
    return ticks if ticks.size > 1 else counts[[0, -1]]


def legend_above(axes: Axes, n_columns: int = 2, title: str | None = None) -> None:
    """The legend over the panel, where it hides nothing, below a title."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left"}
    axes.legend(**place, ncols=n_columns, frameon=False, fontsize=SMALL, title=title, title_fontsize=9.5)


def without_zeros(values: NDArray[Any]) -> NDArray[Any]:
    """NaN, which is not drawn, in place of what a logarithmic scale has no place for."""
    values = np.asarray(values, float)
    return np.where(values > 0, values, np.nan)


def variable_names(source: Any, given: Sequence[str] | None, n_features: int) -> list[str]:
    """One short name per variable: the given ones, those the data came with, or x0, x1, …."""
    names = given
    for attribute in ("feature_names_in_", "feature_names"):
        names = getattr(source, attribute, None) if names is None else names
    if names is None:
        return [f"x{j}" for j in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, but the model has {n_features} variables.")
    return [_shortened(str(name)) for name in names]


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def share_label(j: int, share: float) -> str:
    """How component j is called, with the share of the variance that it explains."""
    return f"Component {j + 1} · {100 * share:.3g} % of variance"


def say(axes: Axes, words: str) -> None:
    """Words in the middle of a panel that has nothing to show."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", fontsize=SMALL, color=QUIET)
