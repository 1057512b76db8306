"""The pictures that answer: figures of Bokeh, declared here, with selections linked by the source they share."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gpower._utils.arrays import Array
from gpower.analysis.association import Column
from gpower.plotting.sample_groups import MAX_GROUPS
from gpower.plotting.style import COLOURS, VERMILION
from gpower.report.content import Contents
from gpower.report.requirements import needed
from gpower.report.samples import Samples
from gpower.report.words import axis

#: Colours and markers of groups: those of the other pictures, blue and black made to show on light and on dark paper.
BLUE, QUIET = "#1a80bb", "#8a8a8a"
GROUP_COLOURS = (BLUE, *COLOURS[1:6], QUIET)
GROUP_MARKERS = ("circle", "square", "diamond", "triangle", "inverted_triangle", "plus", "star")
#: The same markers as letters, for legends.
GLYPHS = ("●", "■", "◆", "▲", "▼", "✚", "★")
UNKNOWN = "#9a9a9a"
SAMPLE_TOOLS = "pan,box_zoom,wheel_zoom,lasso_select,box_select,tap,reset,save"
PLAIN_TOOLS = "pan,box_zoom,reset,save"
#: Four digits of a number, in hovers.
NUMBER = "{%.4g}"


def bokeh(module: str) -> ModuleType:
    """A module of Bokeh, loaded with the first page."""
    return needed(f"bokeh.{module}")


def charts_of(contents: Contents) -> dict[str, Any]:
    """The figures of a page, by the place where they go."""
    found: dict[str, Any] = {"loadings": loadings_chart(contents), "scree": scree_chart(contents)}
    if contents.samples is not None:
        source = samples_source(contents.samples)
        found["scores"] = scores_chart(contents, contents.samples, source)
        found["outliers"] = outliers_chart(contents.samples, source)
    if contents.results.path is not None:
        found["path"] = path_chart(contents)
    return found


def document_of(charts: dict[str, Any]) -> dict[str, Any]:
    """One document with all figures, as JSON, and which of its roots goes where."""
    document = bokeh("document").Document()
    for chart in charts.values():
        document.add_root(chart)
    return {"document": document.to_json(deferred=False), "roots": {chart.id: name for name, chart in charts.items()}}


def colourings(samples: Samples) -> dict[str, Column]:
    """Columns of metadata that colours can show."""
    return {
        name: column
        for name, column in samples.columns.items()
        if (column.is_measured and column.known.any()) or 1 <= len(column.groups) <= MAX_GROUPS
    }


def samples_source(samples: Samples) -> Any:
    """What all figures of samples draw from: one selection for all of them."""
    m = samples.scores.shape[1]
    data: dict[str, Any] = {f"t{j + 1}": samples.scores[:, j] for j in range(m)}
    data |= {"x": samples.scores[:, 0], "y": samples.scores[:, min(1, m - 1)], "name": samples.names}
    data |= {"inside": samples.t2, "outside": samples.residual}
    data |= {"value": samples.values[:, 0]} if samples.variables.size else {}
    data |= {f"v{j}": samples.values[:, i] for i, j in enumerate(samples.variables.tolist())}
    for i, column in enumerate(samples.columns.values()):
        data[f"m{i}"] = column.values if column.is_measured else _words(column)
    return bokeh("models").ColumnDataSource(data, name="samples")


def _words(column: Column) -> list[str]:
    return [str(word) if known else "" for word, known in zip(column.values, column.known, strict=True)]


def _figure(name: str, x: str, y: str, tools: str, height: int = 400, **options: Any) -> Any:
    """An empty figure as wide as there is room; text is drawn as it is, never taken for mathematics."""
    models = bokeh("models")
    options |= {"tools": tools, "height": height, "sizing_mode": "stretch_width", "toolbar_location": "above"}
    chart = bokeh("plotting").figure(name=f"figure-{name}", **options)
    chart.toolbar.logo, chart.toolbar.active_drag, chart.min_border = None, None, 8
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None  # the page's own
    chart.xaxis.axis_label, chart.yaxis.axis_label = models.PlainText(text=x), models.PlainText(text=y)
    chart.xaxis.axis_label_text_font_style = chart.yaxis.axis_label_text_font_style = "normal"
    return chart


def _hover(chart: Any, renderers: list[Any], rows: list[tuple[str, str]]) -> None:
    """What is said of the thing under the pointer, a line each, everything as text."""
    printed = {text.removesuffix(NUMBER): "printf" for _, text in rows if text.endswith(NUMBER)}
    told = [(_label(name), text) for name, text in rows]
    chart.add_tools(bokeh("models").HoverTool(renderers=renderers, tooltips=told, formatters=printed))


def _label(name: str) -> str:
    """A name that stands for itself in a hover, where @ and $ would begin a field."""
    return name.replace("@", "＠").replace("$", "＄")


def _lasso(chart: Any) -> None:
    lasso = next(tool for tool in chart.tools if type(tool).__name__ == "LassoSelectTool")
    lasso.continuous = False
    chart.toolbar.active_drag = lasso


def scores_chart(contents: Contents, samples: Samples, source: Any) -> Any:
    """Scores on two components, once for each way of colouring them; the page shows one of these at a time."""
    m, colours = samples.scores.shape[1], colourings(samples)
    first, second = contents.components[0], contents.components[min(2, m) - 1]
    chart = _figure("scores", axis(first), axis(second), SAMPLE_TOOLS, 460)
    style = {"size": 9 if len(samples.names) <= 500 else 6, "line_color": None, "fill_alpha": 0.85}
    style |= {"nonselection_fill_alpha": 0.12, "source": source}
    dots = [chart.scatter("x", "y", name="by:none", fill_color=BLUE, **style)]
    places = {name: i for i, name in enumerate(samples.columns)}
    for name, column in colours.items():
        look = _look(f"m{places[name]}", column)
        dots.append(chart.scatter("x", "y", name=f"by:m{places[name]}", visible=False, **look, **style))
    if samples.variables.size:
        look = {"fill_color": _shaded("value", samples.values[:, 0])}
        dots.append(chart.scatter("x", "y", name="by:value", visible=False, **look, **style))
    rows = [("sample", "@name"), *((f"component {j}", f"@t{j}{NUMBER}") for j in range(1, m + 1))]
    rows += [(name, f"@m{i}{NUMBER * c.is_measured}") for i, (name, c) in enumerate(samples.columns.items())]
    _hover(chart, dots, rows)
    _lasso(chart)
    return chart


def _look(field: str, column: Column) -> dict[str, Any]:
    """Colours, and of groups markers, of a column of metadata."""
    if column.is_measured:
        return {"fill_color": _shaded(field, column.values[column.known])}
    groups, transform = list(column.groups), bokeh("transform")
    colours = [GROUP_COLOURS[i % 7] for i in range(len(groups))]
    markers = [GROUP_MARKERS[(i + i // 7) % 7] for i in range(len(groups))]
    return {
        "fill_color": transform.factor_cmap(field, colours, groups, nan_color=UNKNOWN),
        "marker": transform.factor_mark(field, markers, groups),
    }


def marks(column: Column) -> list[tuple[str, str, str, int]]:
    """The legend of groups: colour, marker, name and number of samples."""
    return [
        (GROUP_COLOURS[i % 7], GLYPHS[(i + i // 7) % 7], name, members.size)
        for i, (name, members) in enumerate(column.groups.items())
    ]


def _shaded(field: str, values: Array) -> Any:
    """Shades from the least to the largest number, told apart by every eye."""
    finite = np.asarray(values, float)[np.isfinite(np.asarray(values, float))]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return bokeh("transform").linear_cmap(field, "Viridis256", low, high, nan_color=UNKNOWN)


def outliers_chart(samples: Samples, source: Any) -> Any:
    """Distances within the components and outside of them, with the limits; chosen samples are those of the scores."""
    labels = ("distance within the components, T²", "squared residual, outside of the components")
    chart = _figure("outliers", *labels, SAMPLE_TOOLS)
    style = {"size": 8, "line_color": None, "fill_alpha": 0.85, "nonselection_fill_alpha": 0.12}
    dots = chart.scatter("inside", "outside", source=source, fill_color=BLUE, **style)
    span = bokeh("models").Span
    for limit, dimension in zip(samples.limits, ("height", "width"), strict=True):
        chart.add_layout(span(location=limit, dimension=dimension, line_color=VERMILION, line_dash="dashed"))
    _hover(chart, [dots], [("sample", "@name"), ("T²", f"@inside{NUMBER}"), ("residual", f"@outside{NUMBER}")])
    _lasso(chart)
    return chart


def loadings_chart(contents: Contents) -> Any:
    """The loadings of all components side by side; a click asks for the values of a variable."""
    listed = contents.listed
    variables = [variable for _, variable in listed]
    data = {
        "x": np.arange(len(listed)),
        "y": np.array([variable.loading for variable in variables]),
        "name": [variable.name for variable in variables],
        "component": np.array([component.number for component, _ in listed]),
        "colour": [GROUP_COLOURS[(component.number - 1) % 7] for component, _ in listed],
        "mean": np.array([variable.mean for variable in variables], float),
        "spread": np.array([variable.spread for variable in variables], float),
        "at": np.array([variable.at for variable in variables]),
    }
    source = bokeh("models").ColumnDataSource(data, name="loadings")
    label = "component, its variables by size of the loading"
    chart = _figure("loadings", label, "loading", "pan,box_zoom,wheel_zoom,tap,reset,save", 340)
    chart.segment("x", 0, "x", "y", source=source, line_color="colour", line_alpha=0.6, nonselection_line_alpha=0.3)
    style = {"size": 9, "line_color": None, "nonselection_fill_alpha": 0.35}
    dots = chart.scatter("x", "y", source=source, fill_color="colour", **style)
    chart.xaxis.ticker, chart.xgrid.visible = _middles(listed), False
    chart.xaxis.major_label_overrides = _numbers(listed)
    rows = [("variable", "@name"), ("component", "@component"), ("loading", "@y{+0.0000}")]
    _hover(chart, [dots], [*rows, ("mean", f"@mean{NUMBER}"), ("standard deviation", f"@spread{NUMBER}")])
    return chart


def _middles(listed: list[Any]) -> list[int]:
    """Where the name of each component stands."""
    numbers = [component.number for component, _ in listed]
    return [numbers.index(number) + (numbers.count(number) - 1) // 2 for number in dict.fromkeys(numbers)]


def _numbers(listed: list[Any]) -> dict[float, str]:
    return {at: f"{listed[at][0].number}" for at in _middles(listed)}


def scree_chart(contents: Contents) -> Any:
    """What each component explains, beside ordinary components and beside chance."""
    shares = 100 * np.array([component.share for component in contents.components])
    places = np.arange(1, shares.size + 1)
    ordinary = 100 * np.asarray(contents.ordinary)
    data = {"x": places, "share": shares, "total": np.cumsum(shares), "pca": ordinary, "pca_total": np.cumsum(ordinary)}
    source = bokeh("models").ColumnDataSource(data, name="scree")
    chart = _figure("scree", "component", "% of variance", PLAIN_TOOLS, 320)
    bars = chart.vbar("x", 0.62, "share", source=source, fill_color=BLUE, line_color=None)
    style: dict[str, Any] = {"source": source, "line_color": QUIET}
    chart.scatter("x", "pca", marker="diamond", size=11, fill_color=QUIET, **style)
    chart.line("x", "total", source=source, line_color=BLUE, line_dash="dashed")
    chart.line("x", "pca_total", line_dash="dotted", **style)
    test = contents.results.test
    if test is not None:
        limit = 100 * test.null_quantile[: shares.size] / test.total_variance
        chart.scatter(places[: limit.size], limit, marker="dash", size=34, line_width=3, line_color=VERMILION)
    chart.xaxis.ticker, chart.y_range.start = places, 0
    chart.xgrid.visible = False
    rows = [("component", "@x"), ("sparse", "@share{0.00} %"), ("sparse, running total", "@total{0.00} %")]
    _hover(chart, [bars], [*rows, ("ordinary", "@pca{0.00} %"), ("ordinary, running total", "@pca_total{0.00} %")])
    return chart


def path_chart(contents: Contents) -> Any:
    """Variance against the number of variables, with the point that the slider is on."""
    path = contents.results.path
    assert path is not None
    count, share = path.cardinality.mean(axis=1), 100 * path.share_of_pca
    shown = count > 0
    models, label = bokeh("models"), "variables per component"
    source = models.ColumnDataSource({"x": count[shown], "y": share[shown]}, name="path")
    chart = _figure("path", label, "% of ordinary components", PLAIN_TOOLS, 320, x_axis_type="log")
    chart.line("x", "y", source=source, line_color=BLUE, line_width=2)
    dots = chart.scatter("x", "y", source=source, fill_color=BLUE, line_color=None, size=6)
    at = contents.at_on_path
    here = models.ColumnDataSource({"x": count[[at]], "y": share[[at]]}, name="here")
    chart.scatter("x", "y", source=here, fill_color=None, line_color=VERMILION, line_width=3, size=16)
    chart.y_range.start, chart.xaxis.ticker.base = 0, 10
    chart.xaxis.formatter = models.NumeralTickFormatter(format="0a")
    _hover(chart, [dots], [("variables per component", "@x{0.[0]}"), ("% of ordinary components", "@y{0.00}")])
    return chart
