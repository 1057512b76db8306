"""Interactive Bokeh charts; charts of samples share one data source, which links their selections."""

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
PLAIN_TOOLS = "pan,box_zoom,reset,save"
#: Format of numbers in tooltips: four digits.
HOVER_NUMBER_FORMAT = "{%.4g}"


def import_bokeh(module: str) -> ModuleType:
    """Import a module of Bokeh; raise if the ``report`` extra is missing."""
    return import_for_report(f"bokeh.{module}")


def make_charts(contents: ReportContent) -> dict[str, Any]:
    """Return the charts of a page by name."""
    charts: dict[str, Any] = {"loadings": make_loadings_chart(contents), "scree": make_scree_chart(contents)}
    if contents.samples is not None:
        source = make_samples_source(contents.samples)
        charts["scores"] = make_scores_chart(contents, contents.samples, source)
        charts["outliers"] = make_outliers_chart(contents.samples, source)
    if contents.path_points:
        charts["path"] = make_path_chart(contents)
    return charts


def serialize_charts(charts: dict[str, Any]) -> dict[str, Any]:
    """Return a Bokeh document with all charts as JSON types, and the name of each of its roots by identifier."""
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
        data[f"m{i}"] = column.values if column.is_continuous else _format_labels(column)
    return import_bokeh("models").ColumnDataSource(data, name="samples")


def _format_labels(column: MetadataColumn) -> list[str]:
    """Return the labels of a column as text, empty where unknown."""
    return [str(label) if is_known else "" for label, is_known in zip(column.values, column.is_known, strict=True)]


def _make_figure(name: str, x_label: str, y_label: str, tools: str, height: int = 400, **options: Any) -> Any:
    """Return an empty figure of the full width; its labels are plain text, never parsed as mathematics."""
    models = import_bokeh("models")
    options |= {"tools": tools, "height": height, "sizing_mode": "stretch_width", "toolbar_location": "above"}
    chart = import_bokeh("plotting").figure(name=f"figure-{name}", **options)
    chart.toolbar.logo = chart.toolbar.active_drag = None
    chart.min_border = 8
    # transparent, so that the background of the page shows
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None
    chart.xaxis.axis_label, chart.yaxis.axis_label = models.PlainText(text=x_label), models.PlainText(text=y_label)
    chart.xaxis.axis_label_text_font_style = chart.yaxis.axis_label_text_font_style = "normal"
    return chart


def _add_hover(chart: Any, renderers: list[Any], fields: list[tuple[str, str]]) -> None:
    """Add a tooltip with a line for each (label, field) pair to some renderers of a chart."""
    formatters = {
        text.removesuffix(HOVER_NUMBER_FORMAT): "printf" for _, text in fields if text.endswith(HOVER_NUMBER_FORMAT)
    }
    # @ and $ would begin a field in the label of a tooltip.
    tooltips = [(name.replace("@", "＠").replace("$", "＄"), text) for name, text in fields]
    hover = import_bokeh("models").HoverTool(renderers=renderers, tooltips=tooltips, formatters=formatters)
    chart.add_tools(hover)


def _activate_lasso(chart: Any) -> None:
    """Make the lasso the active tool of a chart."""
    lasso = next(tool for tool in chart.tools if type(tool).__name__ == "LassoSelectTool")
    lasso.continuous = False
    chart.toolbar.active_drag = lasso


def make_scores_chart(contents: ReportContent, samples: ReportSamples, source: Any) -> Any:
    """Return the chart of scores on two components, drawn once per colouring; the page shows one at a time."""
    m = samples.scores.shape[1]
    first, second = contents.components[0], contents.components[min(2, m) - 1]
    chart = _make_figure("scores", format_axis_label(first), format_axis_label(second), SAMPLE_TOOLS, 460)
    style = {"size": 9 if len(samples.sample_names) <= 500 else 6, "line_color": None, "fill_alpha": 0.85}
    style |= {"nonselection_fill_alpha": 0.12, "source": source}
    dots = [chart.scatter("x", "y", name="by:none", fill_color=PAGE_BLUE, **style)]
    for field, (_, column) in select_colouring_metadata(samples).items():
        colours = _make_column_style(field, column)
        dots.append(chart.scatter("x", "y", name=f"by:{field}", visible=False, **colours, **style))
    if samples.variable_indices.size:
        scale = _make_colour_scale("value", samples.variable_values[:, 0])
        dots.append(chart.scatter("x", "y", name="by:value", visible=False, fill_color=scale, **style))
    rows = [("sample", "@name"), *((f"component {j}", f"@t{j}{HOVER_NUMBER_FORMAT}") for j in range(1, m + 1))]
    rows += [
        (name, f"@m{i}{HOVER_NUMBER_FORMAT * c.is_continuous}")
        for i, (name, c) in enumerate(samples.metadata_columns.items())
    ]
    _add_hover(chart, dots, rows)
    _activate_lasso(chart)
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
    chart = _make_figure("outliers", *labels, SAMPLE_TOOLS)
    style = {"size": 8, "line_color": None, "fill_alpha": 0.85, "nonselection_fill_alpha": 0.12}
    dots = chart.scatter("inside", "outside", source=source, fill_color=PAGE_BLUE, **style)
    span = import_bokeh("models").Span
    for limit, dimension in zip(samples.limits, ("height", "width"), strict=True):
        chart.add_layout(span(location=limit, dimension=dimension, line_color=VERMILION, line_dash="dashed"))
    numbers = [("T²", f"@inside{HOVER_NUMBER_FORMAT}"), ("residual", f"@outside{HOVER_NUMBER_FORMAT}")]
    _add_hover(chart, [dots], [("sample", "@name"), *numbers])
    _activate_lasso(chart)
    return chart


def make_loadings_chart(contents: ReportContent) -> Any:
    """Return the chart of the loadings of all components; a click colours the samples by a variable."""
    listed = contents.listed_loadings
    variables = [variable for _, variable in listed]
    data = {
        "x": np.arange(len(listed)),
        "y": np.array([variable.loading for variable in variables]),
        "name": [variable.name for variable in variables],
        "component": np.array([component.number for component, _ in listed]),
        "colour": [GROUP_COLOURS[(component.number - 1) % 7] for component, _ in listed],
        "mean": np.array([variable.mean for variable in variables], float),
        "spread": np.array([variable.standard_deviation for variable in variables], float),
        "at": np.array([variable.index for variable in variables]),
    }
    source = import_bokeh("models").ColumnDataSource(data, name="loadings")
    label = "component, its variables by size of the loading"
    chart = _make_figure("loadings", label, "loading", "pan,box_zoom,wheel_zoom,tap,reset,save", 340)
    chart.segment("x", 0, "x", "y", source=source, line_color="colour", line_alpha=0.6, nonselection_line_alpha=0.3)
    style = {"size": 9, "line_color": None, "nonselection_fill_alpha": 0.35}
    dots = chart.scatter("x", "y", source=source, fill_color="colour", **style)
    positions = _find_label_positions(listed)
    chart.xaxis.ticker, chart.xgrid.visible = positions, False
    chart.xaxis.major_label_overrides = {position: f"{listed[position][0].number}" for position in positions}
    rows = [("variable", "@name"), ("component", "@component"), ("loading", "@y{+0.0000}")]
    rows += [("mean", f"@mean{HOVER_NUMBER_FORMAT}"), ("standard deviation", f"@spread{HOVER_NUMBER_FORMAT}")]
    _add_hover(chart, [dots], rows)
    return chart


def _find_label_positions(listed_loadings: list[Any]) -> list[int]:
    """Return the position of the tick label of each component: the middle of its loadings."""
    numbers = [component.number for component, _ in listed_loadings]
    return [numbers.index(number) + (numbers.count(number) - 1) // 2 for number in dict.fromkeys(numbers)]


def make_scree_chart(contents: ReportContent) -> Any:
    """Return the chart of explained variance, with that of ordinary components and of permuted tables."""
    shares = 100 * np.array([component.explained_share for component in contents.components])
    numbers = np.arange(1, shares.size + 1)
    pca = 100 * np.asarray(contents.pca_shares)
    data = {"x": numbers, "share": shares, "total": np.cumsum(shares), "pca": pca, "pca_total": np.cumsum(pca)}
    source = import_bokeh("models").ColumnDataSource(data, name="scree")
    chart = _make_figure("scree", "component", "% of variance", PLAIN_TOOLS, 320)
    bars = chart.vbar("x", 0.62, "share", source=source, fill_color=PAGE_BLUE, line_color=None)
    style: dict[str, Any] = {"source": source, "line_color": PAGE_GREY}
    chart.scatter("x", "pca", marker="diamond", size=16, fill_color=PAGE_GREY, **style)
    chart.line("x", "total", source=source, line_color=PAGE_BLUE, line_dash="dashed")
    chart.line("x", "pca_total", line_dash="dotted", **style)
    test = contents.results.test
    if test is not None:
        limit = 100 * test.null_quantile[: shares.size] / test.total_variance
        chart.scatter(numbers[: limit.size], limit, marker="dash", size=34, line_width=3, line_color=VERMILION)
    chart.xaxis.ticker = numbers
    chart.y_range.start = 0
    chart.xgrid.visible = False
    rows = [("component", "@x"), ("sparse", "@share{0.00} %"), ("sparse, running total", "@total{0.00} %")]
    _add_hover(chart, [bars], [*rows, ("ordinary", "@pca{0.00} %"), ("ordinary, running total", "@pca_total{0.00} %")])
    return chart


def make_path_chart(contents: ReportContent) -> Any:
    """Return the chart of variance against the number of variables, with the point of the slider marked."""
    points = contents.path_points
    cardinality = np.array([point.mean_cardinality for point in points])
    share = 100 * np.array([point.share_of_pca for point in points])
    is_shown = cardinality > 0
    models = import_bokeh("models")
    label = "variables per component"
    source = models.ColumnDataSource({"x": cardinality[is_shown], "y": share[is_shown]}, name="path")
    chart = _make_figure("path", label, "% of ordinary components", PLAIN_TOOLS, 320, x_axis_type="log")
    chart.line("x", "y", source=source, line_color=PAGE_BLUE, line_width=2)
    dots = chart.scatter("x", "y", source=source, fill_color=PAGE_BLUE, line_color=None, size=6)
    start = contents.path_start_index
    current = models.ColumnDataSource({"x": cardinality[[start]], "y": share[[start]]}, name="here")
    chart.scatter("x", "y", source=current, fill_color=None, line_color=VERMILION, line_width=3, size=16)
    chart.y_range.start = 0
    chart.xaxis.ticker.base = 10
    chart.xaxis.formatter = models.NumeralTickFormatter(format="0a")
    _add_hover(chart, [dots], [(label, "@x{0.[0]}"), ("% of ordinary components", "@y{0.00}")])
    return chart
