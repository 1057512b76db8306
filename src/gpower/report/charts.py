"""Interactive Bokeh charts; charts of samples share one data source, which links their selections."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower.analysis.association import MetadataColumn
from gpower.plotting.sample_groups import MAX_GROUPS
from gpower.plotting.scree import needs_log_scale
from gpower.plotting.style import COLOURS, VERMILION, mask_nonpositive
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
#: Names of the curves of the scree chart, as in `plot_scree`.
SCREE_LABELS = ("sparse", "sparse, cumulative", "PCA", "PCA, cumulative")
#: Style of the points of samples.
DOT_STYLE: dict[str, Any] = {"line_color": None, "fill_alpha": 0.85, "nonselection_fill_alpha": 0.12}


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


def _make_source(name: str, /, **data: Any) -> Any:
    """Return a data source of Bokeh with a name, by which the script of the page finds it."""
    return import_bokeh("models").ColumnDataSource(data, name=name)


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
    return _make_source("samples", **data)


def _make_figure(name: str, x_label: str, y_label: str, tools: str, height: int = 400, **options: Any) -> Any:
    """Return an empty figure of the full width; its labels are plain text, never parsed as mathematics.

    A lasso among the tools is active.
    """
    models = import_bokeh("models")
    options |= {"tools": tools, "height": height, "sizing_mode": "stretch_width", "toolbar_location": "above"}
    chart = import_bokeh("plotting").figure(name=f"figure-{name}", **options)
    lasso = chart.select_one(models.LassoSelectTool)
    if lasso is not None:
        lasso.continuous = False
    chart.toolbar.logo, chart.toolbar.active_drag = None, lasso
    chart.min_border = 8
    # transparent, so that the background of the page shows
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None
    chart.xaxis.axis_label, chart.yaxis.axis_label = models.PlainText(text=x_label), models.PlainText(text=y_label)
    chart.xaxis.axis_label_text_font_style = chart.yaxis.axis_label_text_font_style = "normal"
    return chart


def _add_hover(chart: Any, renderers: list[Any], *fields: tuple[str, str]) -> None:
    """Add a tooltip with a line for each (label, field) pair to some renderers of a chart."""
    numbers = [text.removesuffix(HOVER_NUMBER_FORMAT) for _, text in fields if text.endswith(HOVER_NUMBER_FORMAT)]
    formatters = dict.fromkeys(numbers, "printf")
    # @ and $ would begin a field in the label of a tooltip.
    tooltips = [(name.replace("@", "＠").replace("$", "＄"), text) for name, text in fields]
    hover = import_bokeh("models").HoverTool(renderers=renderers, tooltips=tooltips, formatters=formatters)
    chart.add_tools(hover)


def make_scores_chart(contents: ReportContent, samples: ReportSamples, source: Any) -> Any:
    """Return the chart of scores on two components, drawn once per colouring; the page shows one at a time."""
    m = samples.scores.shape[1]
    first, second = contents.components[0], contents.components[min(2, m) - 1]
    chart = _make_figure("scores", format_axis_label(first), format_axis_label(second), SAMPLE_TOOLS, 460)
    colours: dict[str, dict[str, Any]] = {"none": {"fill_color": PAGE_BLUE}}
    for field, (_, column) in select_colouring_metadata(samples).items():
        colours[field] = _make_column_style(field, column)
    if samples.variable_indices.size:
        colours["value"] = {"fill_color": _make_colour_scale("value", samples.variable_values[:, 0])}
    style = DOT_STYLE | {"source": source, "size": 9 if len(samples.sample_names) <= 500 else 6}
    dots = [
        chart.scatter("x", "y", name=f"by:{field}", visible=field == "none", **style | colour)
        for field, colour in colours.items()
    ]
    fields = [("sample", "@name"), *((f"component {j}", f"@t{j}{HOVER_NUMBER_FORMAT}") for j in range(1, m + 1))]
    for i, (name, column) in enumerate(samples.metadata_columns.items()):
        fields.append((name, f"@m{i}{HOVER_NUMBER_FORMAT * column.is_continuous}"))
    _add_hover(chart, dots, *fields)
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
    dots = chart.scatter("inside", "outside", source=source, fill_color=PAGE_BLUE, size=8, **DOT_STYLE)
    span = import_bokeh("models").Span
    for limit, dimension in zip(samples.limits, ("height", "width"), strict=True):
        chart.add_layout(span(location=limit, dimension=dimension, line_color=VERMILION, line_dash="dashed"))
    numbers = ("T²", f"@inside{HOVER_NUMBER_FORMAT}"), ("residual", f"@outside{HOVER_NUMBER_FORMAT}")
    _add_hover(chart, [dots], ("sample", "@name"), *numbers)
    return chart


def make_loadings_chart(contents: ReportContent) -> Any:
    """Return the chart of the loadings of all components; a click colours the samples by a variable."""
    listed = contents.listed_loadings
    numbers = [component.number for component, _ in listed]
    source = _make_source(
        "loadings",
        x=np.arange(len(listed)),
        y=np.array([variable.loading for _, variable in listed]),
        name=[variable.name for _, variable in listed],
        component=np.array(numbers),
        colour=[GROUP_COLOURS[(number - 1) % 7] for number in numbers],
        mean=np.array([variable.mean for _, variable in listed], float),
        spread=np.array([variable.standard_deviation for _, variable in listed], float),
        at=np.array([variable.index for _, variable in listed]),
    )
    label = "component, its variables by size of the loading"
    chart = _make_figure("loadings", label, "loading", "pan,box_zoom,wheel_zoom,tap,reset,save", 340)
    chart.segment("x", 0, "x", "y", source=source, line_color="colour", line_alpha=0.6, nonselection_line_alpha=0.3)
    style = {"size": 9, "line_color": None, "nonselection_fill_alpha": 0.35}
    dots = chart.scatter("x", "y", source=source, fill_color="colour", **style)
    middles = {numbers.index(j) + (numbers.count(j) - 1) // 2: str(j) for j in dict.fromkeys(numbers)}
    chart.xaxis.ticker, chart.xgrid.visible = list(middles), False
    chart.xaxis.major_label_overrides = middles
    moments = ("mean", f"@mean{HOVER_NUMBER_FORMAT}"), ("standard deviation", f"@spread{HOVER_NUMBER_FORMAT}")
    fields = ("variable", "@name"), ("component", "@component"), ("loading", "@y{+0.0000}")
    _add_hover(chart, [dots], *fields, *moments)
    return chart


def make_scree_chart(contents: ReportContent) -> Any:
    """Return the chart of explained variance, with that of PCA and of permuted tables, like `plot_scree`."""
    shares = 100 * np.array([component.explained_share for component in contents.components])
    numbers, pca, limit = np.arange(1, shares.size + 1), 100 * np.asarray(contents.pca_shares), np.empty(0)
    test = contents.results.test
    if test is not None:
        limit = 100 * test.null_quantile[: shares.size] / test.total_variance
    curves = {"share": shares, "total": np.cumsum(shares), "pca": pca, "pca_total": np.cumsum(pca)}
    is_log = needs_log_scale(np.concatenate([*curves.values(), limit]))
    drawn = {name: mask_nonpositive(values) if is_log else values for name, values in curves.items()}
    source = _make_source("scree", x=numbers, **drawn)
    fields = [(label, f"@{name}{{0.000}} %") for name, label in zip(curves, SCREE_LABELS, strict=True)]
    label, scale = "% of variance" + " (logarithmic scale)" * is_log, "log" if is_log else "linear"
    chart = _make_figure("scree", "component", label, PLAIN_TOOLS, 320, y_axis_type=scale)
    for name, total, dash, marker, colour in (
        ("share", "total", "dashed", "circle", PAGE_BLUE),
        ("pca", "pca_total", "dotted", "diamond", PAGE_GREY),
    ):
        style: dict[str, Any] = {"source": source, "line_color": colour}
        chart.line("x", name, line_width=1.5, **style)
        chart.line("x", total, line_dash=dash, **style)
        dots = chart.scatter("x", name, marker=marker, size=10, fill_color=colour, **style)
        _add_hover(chart, [dots], ("component", "@x"), *fields)
    if limit.size:
        chart.scatter(numbers[: limit.size], limit, marker="dash", size=34, line_width=3, line_color=VERMILION)
    chart.xaxis.ticker, chart.xgrid.visible = numbers, False
    if is_log:
        chart.yaxis.ticker = np.outer(10.0 ** np.arange(-9, 3), [1, 2, 5]).ravel()
        chart.yaxis.formatter = import_bokeh("models").PrintfTickFormatter(format="%g")
    else:
        chart.y_range.start = 0
    return chart


def make_path_chart(contents: ReportContent) -> Any:
    """Return the chart of variance against the number of variables, with the point of the slider marked."""
    points = [(point.mean_cardinality, 100 * point.share_of_pca) for point in contents.path_points]
    x, y = np.array([point for point in points if point[0] > 0]).reshape(-1, 2).T
    here_x, here_y = points[contents.path_start_index]
    labels = ("variables per component", "% of ordinary components")
    source = _make_source("path", x=x, y=y)
    chart = _make_figure("path", *labels, PLAIN_TOOLS, 320, x_axis_type="log")
    chart.line("x", "y", source=source, line_color=PAGE_BLUE, line_width=2)
    dots = chart.scatter("x", "y", source=source, fill_color=PAGE_BLUE, line_color=None, size=6)
    current = _make_source("here", x=[here_x], y=[here_y])
    chart.scatter("x", "y", source=current, fill_color=None, line_color=VERMILION, line_width=3, size=16)
    chart.y_range.start = 0
    chart.xaxis.ticker.base = 10
    chart.xaxis.formatter = import_bokeh("models").NumeralTickFormatter(format="0a")
    _add_hover(chart, [dots], *zip(labels, ("@x{0.[0]}", "@y{0.00}"), strict=True))
    return chart
