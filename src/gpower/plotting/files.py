"""Pictures in files: one writer for all of them, with or without a display."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gpower.files import check_writable, replaced
from gpower.plotting.canvas import pyplot
from gpower.plotting.looks import Panel, Panels

__all__ = ["prepare_picture", "save_picture"]

PICTURES = (".png", ".pdf", ".svg")


def save_picture(axes: Panel | Panels, path: str | os.PathLike[str]) -> None:
    """Write any picture of this package into a file and close it; works without a display.

    Parameters
    ----------
    axes : matplotlib Axes, or array of them
        What a ``plot_…`` function gave back.
    path : Path
        The file, a ``.png``, ``.pdf`` or ``.svg``. Missing folders are made.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.plotting import plot_scores, save_picture
    >>> save_picture(plot_scores(model, X), Path("scores.pdf"))  # doctest: +SKIP
    """
    prepare_picture(path)
    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    with replaced(Path(path)) as place:
        figure.savefig(place, dpi=150)
    pyplot().close(figure)


def prepare_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a file that can hold no picture, and make its folder, before the work that the picture would show.

    Parameters
    ----------
    path : Path
        The file to be.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.plotting import prepare_picture
    >>> prepare_picture(Path("loadings.xyz"))
    Traceback (most recent call last):
    ...
    ValueError: loadings.xyz: a picture ends in .png, .pdf or .svg.
    """
    path = Path(path)
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"{path}: a picture ends in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; a picture is one file.")
    pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path.parent)
