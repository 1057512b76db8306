"""The pictures that stay: those of `gpower.plotting`, for paper and for readers without JavaScript.

Loadings have none: the bars of the components are there in any case.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gpower import plotting
from gpower.plotting.canvas import import_pyplot
from gpower.report.content import ReportContent
from gpower.report.requirements import import_for_report


def draw_static_figures(contents: ReportContent) -> dict[str, str]:
    """The pictures of a page as addresses of their own data, by the place where they go."""
    return {name: encode_svg(draw) for name, draw in _list_static_plots(contents)}


def _list_static_plots(contents: ReportContent) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What can be drawn, and how."""
    model, names, found = contents.model, contents.feature_names, contents.results
    yield "scree", partial(plotting.plot_scree, model, test=found.test)
    if contents.samples is not None:
        shown, rows = contents.samples, contents.matrix[contents.samples.row_indices]
        reference = contents.matrix
        yield "outliers", partial(plotting.plot_outliers, model, rows, shown.sample_names, reference=reference)
        if len(contents.components) > 1:
            yield "scores", partial(plotting.plot_scores, model, rows, names=shown.sample_names)
    if found.path is not None:
        yield "path", partial(plotting.plot_tradeoff, found.path)
    if found.stability is not None:
        yield "stability", partial(plotting.plot_stability, found.stability, names)


def encode_svg(draw: Callable[[], Any]) -> str:
    """A picture as SVG in an address: an image, so that nothing in it is run or styled by the page."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": "gpower"}
    with import_for_report("matplotlib").rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's browser has it
        figure, file = np.ravel(np.asarray(draw(), dtype=object))[0].figure, io.BytesIO()
        figure.get_layout_engine().execute(figure)  # once: with an engine, saving would draw twice
        figure.set_layout_engine(None)
        figure.savefig(file, format="svg", metadata={"Date": None})
        import_pyplot().close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
