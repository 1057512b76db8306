"""Static figures of `gpower.plotting`, for print and for readers without JavaScript.

There is none of the loadings, which the cards of the components always show as bars. Heat maps are drawn only here:
the page shows them to all readers.
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
from gpower.plotting.heatmaps import MAX_METADATA_BARS
from gpower.plotting.save import freeze_layout
from gpower.plotting.style import import_pyplot
from gpower.report.charts import select_colouring_metadata
from gpower.report.content import ReportContent
from gpower.report.optional_packages import import_for_report

#: Largest number of components whose samples × variables are drawn as a heat map.
MAX_HEATMAPS = 6


def draw_static_figures(contents: ReportContent) -> dict[str, str]:
    """Return the figures of a page as data URIs, by name."""
    return {name: encode_svg(draw) for name, draw in _list_static_plots(contents)}


def _list_static_plots(contents: ReportContent) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each figure and the function that draws it."""
    model = contents.model
    results = contents.results
    yield "scree", partial(plotting.plot_scree, model, test=results.test)
    if contents.samples is not None:
        sample_names = contents.samples.sample_names
        X = contents.matrix[contents.samples.row_indices]
        yield "outliers", partial(plotting.plot_outliers, model, X, sample_names, reference=contents.matrix)
        if len(contents.components) > 1:
            yield "scores", partial(plotting.plot_scores, model, X, names=sample_names)
        bars = dict(list(select_colouring_metadata(contents.samples).values())[:MAX_METADATA_BARS])
        metadata = {name: column.values for name, column in bars.items()} or None
        for j, component in enumerate(contents.components[:MAX_HEATMAPS]):
            if component.variables:
                draw = partial(plotting.plot_heatmap, model, X, j, metadata, contents.feature_names)
                yield f"heatmap-{j + 1}", draw
    if results.path is not None:
        yield "path", partial(plotting.plot_tradeoff, results.path)
    if results.stability is not None:
        yield "stability", partial(plotting.plot_stability, results.stability, contents.feature_names)


def encode_svg(draw: Callable[[], Any]) -> str:
    """Return a figure as an SVG data URI; as an image it is neither run nor styled by the page."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": "gpower"}
    with import_for_report("matplotlib").rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser of the reader has the glyphs
        figure = np.ravel(np.asarray(draw(), dtype=object))[0].figure
        file = io.BytesIO()
        freeze_layout(figure)
        figure.savefig(file, format="svg", metadata={"Date": None})
        import_pyplot().close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
