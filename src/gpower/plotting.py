"""Pictures of fitted models. Needs matplotlib, the ``plot`` extra, which loads with the first picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_loadings", "prepare_picture", "write_picture"]

# Blue and vermilion of Okabe and Ito: told apart under every colour-vision deficiency, and in grey.
_POSITIVE, _NEGATIVE = "#0072B2", "#D55E00"
_PANELS_PER_ROW = 3
_MIN_SLOTS = 2  # a single bar does not fill its panel
_MAX_NAME = 24  # characters of a name that the picture shows
_PICTURES = (".png", ".pdf", ".svg")


def plot_loadings(
    model: Any,
    feature_names: Sequence[str] | None = None,
    axes: Any = None,
    *,
    max_variables: int = 40,
) -> "NDArray[Any]":
    """Bars of the non-zero loadings, one panel per component, the largest on top.

    Positive loadings are blue and point right, negative ones are vermilion and point left. The title gives
    the share of the variance that the component explains.

    Parameters
    ----------
    model : GPower
        A fitted model: anything with `components_` and `explained_variance_ratio_`.
    feature_names : sequence of str, optional
        Names of all variables; by default those the model was fitted with, or x0, x1, ….
    axes : sequence of matplotlib Axes, optional
        Where to draw, one for each component; by default a new figure.
    max_variables : int, default 40
        The largest loadings of a component that are drawn; a line says how many are not.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_components,)

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> from gpower.plotting import plot_loadings
    >>> pitprops = load_pitprops()
    >>> model = GPower(2, cardinality=4, covariance="precomputed").fit(pitprops.correlation)
    >>> axes = plot_loadings(model, pitprops.feature_names)
    >>> axes[0].get_title(loc="left")
    'Component 1 · 22.6 % of variance'
    >>> axes[0].figure.savefig("pitprops.png")  # doctest: +SKIP
    """
    components = np.asarray(model.components_)
    names = _names(model, feature_names, components.shape[1])
    orders = [_by_size(loadings) for loadings in components]
    counts = [min(len(order), max_variables) for order in orders]
    panels = _new_panels(counts) if axes is None else _given_panels(axes, len(components))
    # Side by side, the bars of a thin component are as high as those of a full one.
    per_line = _PANELS_PER_ROW if axes is None else len(components)
    for j, (panel, order) in enumerate(zip(panels, orders, strict=True)):
        line = j // per_line * per_line
        shown = order[:max_variables]
        _draw_bars(panel, components[j, shown], [names[i] for i in shown], max(counts[line : line + per_line]))
        _label(panel, j, model.explained_variance_ratio_[j], len(order), len(shown))
    return panels


def write_picture(model: Any, feature_names: Sequence[str] | None, path: Path) -> None:
    """Write the picture of the loadings into a file; works without a display.

    Parameters
    ----------
    model : GPower
        A fitted model.
    feature_names : sequence of str, optional
        Names of all variables, as in `plot_loadings`.
    path : Path
        The file, a ``.png``, ``.pdf`` or ``.svg``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.plotting import write_picture
    >>> write_picture(model, None, Path("loadings.pdf"))  # doctest: +SKIP
    """
    prepare_picture(path)
    figure = plot_loadings(model, feature_names)[0].figure
    figure.savefig(path, dpi=150)
    _pyplot().close(figure)


def prepare_picture(path: Path) -> None:
    """Refuse a file that can hold no picture, and make its folder, before the work that the picture would show.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.plotting import prepare_picture
    >>> prepare_picture(Path("loadings.xyz"))
    Traceback (most recent call last):
    ...
    ValueError: loadings.xyz: a picture ends in .png, .pdf or .svg.
    """
    if path.suffix.lower() not in _PICTURES:
        raise ValueError(f"{path}: a picture ends in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}.")
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; a picture is one file.")
    _pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('Pictures need matplotlib: pip install "gpower[plot]".') from None
    return plt


def _names(model: Any, given: Sequence[str] | None, n_features: int) -> list[str]:
    """One short name per variable: the given ones, the model's, or x0, x1, …."""
    names = given if given is not None else getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, but the model has {n_features} variables.")
    return [_shortened(str(name)) for name in names]


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"


def _by_size(loadings: NDArray[Any]) -> NDArray[np.intp]:
    """Indices of the non-zero loadings, the largest |loading| first."""
    order = np.argsort(-np.abs(loadings), kind="stable")
    return order[: np.count_nonzero(loadings)]


def _given_panels(axes: Any, n_components: int) -> "NDArray[Any]":
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if panels.size != n_components:
        raise ValueError(f"axes has {panels.size} entries, but the model has {n_components} components.")
    return panels


def _new_panels(counts: list[int]) -> "NDArray[Any]":
    """The panels of a new figure, a few to a line, each line as high as its fullest panel needs."""
    plt = _pyplot()
    n_wide = min(len(counts), _PANELS_PER_ROW)
    lines = [counts[start : start + n_wide] for start in range(0, len(counts), n_wide)]
    slots = [max(*line, _MIN_SLOTS) for line in lines]
    _, grid = plt.subplots(
        len(lines),
        n_wide,
        figsize=(3.4 * n_wide, 0.85 * len(lines) + 0.22 * sum(slots)),  # title and axis, then the bars
        height_ratios=slots,
        squeeze=False,
        layout="constrained",
    )
    for unused in grid.ravel()[len(counts) :]:
        unused.set_axis_off()
    return np.asarray(grid.ravel()[: len(counts)])


def _draw_bars(axes: "Axes", loadings: NDArray[Any], names: list[str], n_rows: int) -> None:
    colours = [_POSITIVE if loading > 0 else _NEGATIVE for loading in loadings]
    positions = np.arange(len(loadings))
    axes.barh(positions, loadings, height=0.72, color=colours)
    axes.axvline(0, color="0.25", linewidth=0.8)
    axes.set_yticks(positions, names, fontsize=8)
    # Room for as many bars as the fullest panel has; the first bar is on top.
    axes.set_ylim(max(n_rows, _MIN_SLOTS) - 0.4, -0.6)
    reach = 1.08 * max(np.abs(loadings), default=1.0)
    axes.set_xlim(-reach if np.any(loadings < 0) else 0.0, reach)


def _label(axes: "Axes", j: int, share: float, n_active: int, n_shown: int) -> None:
    axes.set_title(f"Component {j + 1} · {100 * share:.3g} % of variance", fontsize=9.5, loc="left")
    axes.set_xlabel("loading", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if n_active == 0:
        axes.text(0.5, 0.5, "no active variable", transform=axes.transAxes, ha="center", fontsize=8, color="0.4")
    elif n_shown < n_active:
        note = f"the {n_shown} largest of {n_active}"
        axes.text(0.98, 0.02, note, transform=axes.transAxes, ha="right", fontsize=7.5, color="0.4")
