"""Figures of `gpower.plotting` as images in a page, which also readers without JavaScript see."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpower import plotting
from gpower.plotting.heatmaps import MAX_METADATA_BARS
from gpower.plotting.save import freeze_layout
from gpower.plotting.scree import draw_scree
from gpower.plotting.style import import_pyplot
from gpower.report.charts import select_colouring_metadata
from gpower.report.content import ReportContent
from gpower.report.optional_packages import import_for_report

#: Largest number of components whose samples × variables are drawn as a heat map.
MAX_HEATMAPS = 6


def draw_static_figures(contents: ReportContent) -> dict[str, str]:
    """Return the figures of a page as data URIs, by name."""
    results = contents.results
    figures = {"scree": encode_svg(partial(draw_scree, contents.model, contents.pca_shares, test=results.test))}
    if contents.samples is not None:
        X = contents.matrix[contents.samples.row_indices]
        bars = dict(list(select_colouring_metadata(contents.samples).values())[:MAX_METADATA_BARS])
        metadata = {name: column.values for name, column in bars.items()} or None
        for j, component in enumerate(contents.components[:MAX_HEATMAPS]):
            if component.variables:
                draw = partial(plotting.plot_heatmap, contents.model, X, j, metadata, contents.feature_names)
                figures[f"heatmap-{j + 1}"] = encode_svg(draw)
    if "cv_results_" in vars(contents.search_estimator):
        figures["choice"] = encode_svg(partial(plotting.plot_cv, contents.search_estimator))
    if results.stability is not None:
        figures["stability"] = encode_svg(partial(plotting.plot_stability, results.stability, contents.feature_names))
    if results.path is not None and results.path.cardinality.any():
        figures["path"] = encode_svg(partial(plotting.plot_tradeoff, results.path))
    return figures


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
