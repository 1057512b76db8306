"""Interactive Bokeh charts of the samples, which share one data source, so that their selections are linked."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower.analysis.association import MetadataColumn
from gpower.plotting.sample_groups import MAX_GROUPS
from gpower.plotting.style import COLOURS, VERMILION
from gpower.report.content import ReportContent
from gpower.report.optional_packages import import_for_report
from gpower.report.samples import ReportSamples
from gpower.report.sentences import format_axis_label

#: Colours of groups: those of the figures, with a blue and a grey that show on light and dark backgrounds.
PAGE_BLUE, PAGE_GREY = "#1a80bb", "#8a8a8a"
GROUP_COLOURS = (PAGE_BLUE, *COLOURS[1:6], PAGE_GREY)
#: Markers of groups. Bokeh's diamond is narrow and half as large as the others, so that it is not among them.
GROUP_MARKERS = ("circle", "square", "triangle", "inverted_triangle", "plus", "star", "hex")
#: Characters of the legends, in the order of `GROUP_MARKERS`.
GROUP_GLYPHS = ("●", "■", "▲", "▼", "✚", "★", "⬢")
PAGE_UNKNOWN_COLOUR = "#9a9a9a"
SAMPLE_TOOLS = "pan,box_zoom,wheel_zoom,lasso_select,box_select,tap,reset,save"
#: Format of numbers in tooltips: four digits.
HOVER_NUMBER_FORMAT = "{%.4g}"
#: Style of the points of samples.
DOT_STYLE: dict[str, Any] = {"line_color": None, "fill_alpha": 0.85, "nonselection_fill_alpha": 0.12}


def import_bokeh(module: str) -> ModuleType:
    """Import a module of Bokeh; raise if the ``report`` extra is missing."""
    return import_for_report(f"bokeh.{module}")


def serialize_charts(contents: ReportContent, samples: ReportSamples) -> dict[str, Any]:
    """Return a Bokeh document with all charts as JSON types, and the name of each of its roots by identifier."""
    source = make_samples_source(samples)
    charts = {
        "scores": make_scores_chart(contents, samples, source),
        "outliers": make_outliers_chart(samples, source),
    }
    document = import_bokeh("document").Document()
    for chart in charts.values():
        document.add_root(chart)
    return {"document": document.to_json(deferred=False), "roots": {chart.id: name for name, chart in charts.items()}}


def select_colouring_metadata(samples: ReportSamples) -> dict[str, tuple[str, MetadataColumn]]:
    """Return the columns of metadata that colours can show, numbers or at most `MAX_GROUPS` groups, with their names.

    The keys are the fields of the columns in the data source of the charts.
    """
    return {
        f"m{i}": (name, column)
        for i, (name, column) in enumerate(samples.metadata_columns.items())
        if (column.is_continuous and column.is_known.any()) or 1 <= len(column.groups) <= MAX_GROUPS
    }


def make_samples_source(samples: ReportSamples) -> Any:
    """Return the data source of all charts of samples, which therefore share one selection."""
    m = samples.scores.shape[1]
    data: dict[str, Any] = {f"t{j + 1}": samples.scores[:, j] for j in range(m)}
    data |= {"x": samples.scores[:, 0], "y": samples.scores[:, min(1, m - 1)], "name": samples.sample_names}
    data |= {"inside": samples.hotelling_t2, "outside": samples.squared_residual}
    data |= {"value": samples.variable_values[:, 0]} if samples.variable_indices.size else {}
    data |= {f"v{j}": samples.variable_values[:, i] for i, j in enumerate(samples.variable_indices.tolist())}
    for i, column in enumerate(samples.metadata_columns.values()):
        labels = zip(column.values, column.is_known, strict=True)
        data[f"m{i}"] = (
            column.values if column.is_continuous else [str(x) if is_known else "" for x, is_known in labels]
        )
    return import_bokeh("models").ColumnDataSource(data, name="samples")  # the script of the page finds it by name


def _make_figure(name: str, x_label: str, y_label: str) -> Any:
    """Return an empty figure of the full width; its labels are plain text, never parsed as mathematics."""
    models = import_bokeh("models")
    options = {"tools": SAMPLE_TOOLS, "height": 440, "sizing_mode": "stretch_width", "toolbar_location": "above"}
    chart = import_bokeh("plotting").figure(name=f"figure-{name}", **options)
    lasso = chart.select_one(models.LassoSelectTool)
    lasso.continuous = False
    chart.toolbar.logo, chart.toolbar.active_drag = None, lasso
    chart.min_border = 8
    # transparent, so that the background of the page shows
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None
    chart.xaxis.axis_label, chart.yaxis.axis_label = models.PlainText(text=x_label), models.PlainText(text=y_label)
    chart.xaxis.axis_label_text_font_style = chart.yaxis.axis_label_text_font_style = "normal"
    return chart


def _add_hover(chart: Any, *fields: tuple[str, str]) -> None:
    """Add a tooltip with a line for each (label, field) pair to the points of a chart."""
    numbers = [text.removesuffix(HOVER_NUMBER_FORMAT) for _, text in fields if text.endswith(HOVER_NUMBER_FORMAT)]
    # @ and $ would begin a field in the label of a tooltip.
    tooltips = [(name.replace("@", "＠").replace("$", "＄"), text) for name, text in fields]
    chart.add_tools(import_bokeh("models").HoverTool(tooltips=tooltips, formatters=dict.fromkeys(numbers, "printf")))


def make_scores_chart(contents: ReportContent, samples: ReportSamples, source: Any) -> Any:
    """Return the chart of scores on two components, drawn once per colouring; the page shows one at a time."""
    m = samples.scores.shape[1]
    first, second = contents.components[0], contents.components[min(2, m) - 1]
    chart = _make_figure("scores", format_axis_label(first), format_axis_label(second))
    colours: dict[str, dict[str, Any]] = {"none": {"fill_color": PAGE_BLUE}}
    for field, (_, column) in select_colouring_metadata(samples).items():
        colours[field] = _make_column_style(field, column)
    if samples.variable_indices.size:
        colours["value"] = {"fill_color": _make_colour_scale("value", samples.variable_values[:, 0])}
    style = DOT_STYLE | {"source": source, "size": 9 if len(samples.sample_names) <= 500 else 6}
    for field, colour in colours.items():
        chart.scatter("x", "y", name=f"by:{field}", visible=field == "none", **style | colour)
    fields = [("sample", "@name"), *((f"component {j}", f"@t{j}{HOVER_NUMBER_FORMAT}") for j in range(1, m + 1))]
    for i, (name, column) in enumerate(samples.metadata_columns.items()):
        fields.append((name, f"@m{i}{HOVER_NUMBER_FORMAT * column.is_continuous}"))
    _add_hover(chart, *fields)
    return chart


def _make_column_style(field: str, column: MetadataColumn) -> dict[str, Any]:
    """Return the colours of a column of metadata and, for groups, the markers."""
    if column.is_continuous:
        return {"fill_color": _make_colour_scale(field, column.values[column.is_known])}
    groups, transform = list(column.groups), import_bokeh("transform")
    colours = [GROUP_COLOURS[i % 7] for i in range(len(groups))]
    markers = [GROUP_MARKERS[(i + i // 7) % 7] for i in range(len(groups))]
    return {
        "fill_color": transform.factor_cmap(field, colours, groups, nan_color=PAGE_UNKNOWN_COLOUR),
        "marker": transform.factor_mark(field, markers, groups),
    }


def make_group_legend(column: MetadataColumn) -> list[tuple[str, str, str, int]]:
    """Return the legend of groups: colour, marker, name and number of samples of each."""
    return [
        (GROUP_COLOURS[i % 7], GROUP_GLYPHS[(i + i // 7) % 7], name, members.size)
        for i, (name, members) in enumerate(column.groups.items())
    ]


def _make_colour_scale(field: str, values: Array) -> Any:
    """Return a colour scale, safe for colour blindness, from the smallest to the largest finite value."""
    finite = np.asarray(values, float)[np.isfinite(np.asarray(values, float))]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return import_bokeh("transform").linear_cmap(field, "Viridis256", low, high, nan_color=PAGE_UNKNOWN_COLOUR)


def make_outliers_chart(samples: ReportSamples, source: Any) -> Any:
    """Return the chart of distances within and outside the components, with limits; selection as in the scores."""
    labels = ("distance within the components, T²", "squared residual, outside of the components")
    chart = _make_figure("outliers", *labels)
    chart.scatter("inside", "outside", source=source, fill_color=PAGE_BLUE, size=8, **DOT_STYLE)
    span = import_bokeh("models").Span
    for limit, dimension in zip(samples.limits, ("height", "width"), strict=True):
        chart.add_layout(span(location=limit, dimension=dimension, line_color=VERMILION, line_dash="dashed"))
    numbers = ("T²", f"@inside{HOVER_NUMBER_FORMAT}"), ("residual", f"@outside{HOVER_NUMBER_FORMAT}")
    _add_hover(chart, ("sample", "@name"), *numbers)
    return chart
