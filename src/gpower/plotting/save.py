"""Pictures in files: one writer for all of them, with or without a display."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gpower._utils.files import check_writable, write_file_atomically
from gpower._utils.optional import import_optional
from gpower._utils.warnings import warn
from gpower.plotting.canvas import import_pyplot
from gpower.plotting.style import Panel, Panels

__all__ = ["prepare_figure_path", "save_figure"]

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")
#: Fonts with the characters of East Asia that systems come with, and the first of these characters.
EAST_ASIAN_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Microsoft YaHei", "MS Gothic", "Malgun Gothic", "PingFang SC", "Hiragino Sans", "Arial Unicode MS"),
)
FIRST_EAST_ASIAN_CHARACTER = "\u2e80"


def save_figure(axes: Panel | Panels, path: str | os.PathLike[str]) -> None:
    """Write any picture of this package into a file and close it; works without a display.

    Parameters
    ----------
    axes : matplotlib Axes, or array of them
        What a ``plot_…`` function gave back.
    path : str or path-like
        The file, a ``.png``, ``.pdf`` or ``.svg``. Missing folders are made.

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
    with write_file_atomically(Path(path)) as place, warnings.catch_warnings():
        if not _apply_fallback_fonts(figure):
            warnings.filterwarnings("ignore", "Glyph .* missing")  # said in our words
        figure.savefig(place, dpi=150)
    import_pyplot().close(figure)


def _apply_fallback_fonts(figure: Any) -> bool:
    """Whether names in far scripts, which matplotlib's own font does not have, find a font that is installed."""
    texts = figure.findobj(import_optional("matplotlib.text", "plot", "Pictures need").Text)
    far = [text for text in texts if max(text.get_text(), default="") >= FIRST_EAST_ASIAN_CHARACTER]
    if not far:
        return True
    known = set(import_optional("matplotlib.font_manager", "plot", "Pictures need").fontManager.get_font_names())
    fonts = [font for font in EAST_ASIAN_FONTS if font in known]
    for text in far:
        text.set_fontfamily([*text.get_fontfamily(), *fonts])
    if not fonts:
        warn(
            f"No font is installed that has the characters of {far[0].get_text()!r}; a picture shows boxes. "
            f"Install one, such as {EAST_ASIAN_FONTS[0]}."
        )
    return bool(fonts)


def prepare_figure_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that can hold no picture, and make its folder, before the work that the picture would show.

    Parameters
    ----------
    path : str or path-like
        The file to be.

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
