"""Save figures to files, with or without a display."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gpower._utils.files import check_writable, write_file_atomically
from gpower._utils.optional import import_optional
from gpower._utils.warnings import warn
from gpower.plotting.style import Panel, Panels, import_pyplot

__all__ = ["prepare_figure_path", "save_figure"]

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")
#: Common fonts with East Asian characters.
EAST_ASIAN_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Microsoft YaHei", "MS Gothic", "Malgun Gothic", "PingFang SC", "Hiragino Sans", "Arial Unicode MS"),
)
#: First character that matplotlib's own font may lack.
FIRST_EAST_ASIAN_CHARACTER = "\u2e80"


def save_figure(axes: Panel | Panels, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file and close it; works without a display.

    Parameters
    ----------
    axes : matplotlib Axes, or array of them
        Result of a ``plot_…`` function.
    path : str or path-like
        File that ends in ``.png``, ``.pdf`` or ``.svg``. Missing folders are created.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.plotting import plot_loadings, save_figure
    >>> model = GPower(1, cardinality=5).fit(load_planted_expression().X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(plot_loadings(model), f"{folder}/loadings.svg")
    ...     [file.name for file in Path(folder).iterdir()]
    ['loadings.svg']
    """
    prepare_figure_path(path)
    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    with write_file_atomically(Path(path)) as file, warnings.catch_warnings():
        if not _apply_fallback_fonts(figure):
            warnings.filterwarnings("ignore", "Glyph .* missing")  # our own warning says so
        freeze_layout(figure)
        figure.savefig(file, dpi=150)
    import_pyplot().close(figure)


def freeze_layout(figure: Any) -> None:
    """Lay out a figure and remove its layout engine, with which `savefig` would draw everything twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _apply_fallback_fonts(figure: Any) -> bool:
    """Add installed fonts to texts with East Asian characters; return False if there are such texts but no fonts."""
    texts = figure.findobj(import_optional("matplotlib.text", "plot", "Pictures need").Text)
    east_asian = [text for text in texts if max(text.get_text(), default="") >= FIRST_EAST_ASIAN_CHARACTER]
    if not east_asian:
        return True
    installed = set(import_optional("matplotlib.font_manager", "plot", "Pictures need").fontManager.get_font_names())
    fonts = [font for font in EAST_ASIAN_FONTS if font in installed]
    for text in east_asian:
        text.set_fontfamily([*text.get_fontfamily(), *fonts])
    if not fonts:
        warn(
            f"No installed font has the characters of {east_asian[0].get_text()!r}; the figure shows boxes. "
            f"Install one, such as {EAST_ASIAN_FONTS[0]}."
        )
    return bool(fonts)


def prepare_figure_path(path: str | os.PathLike[str]) -> None:
    """Check that a figure can be saved to a file, and create its folder; call it before a long computation.

    Parameters
    ----------
    path : str or path-like
        File to write.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.plotting import prepare_figure_path
    >>> prepare_figure_path(Path("loadings.xyz"))
    Traceback (most recent call last):
    ...
    ValueError: loadings.xyz: a picture ends in .png, .pdf or .svg.
    """
    path = Path(path)
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise ValueError(f"{path}: a picture ends in {', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}.")
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; a picture is one file.")
    import_pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path.parent)
