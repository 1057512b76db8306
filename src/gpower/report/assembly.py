"""The page put together: a template, a style and a little glue, with everything that was collected inside one file."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpower.analysis.association import MetadataColumn
from gpower.report import text, words
from gpower.report.charts import (
    import_bokeh,
    make_charts,
    make_group_legend,
    select_colouring_metadata,
    serialize_charts,
)
from gpower.report.content import MAX_LOADINGS_PER_PATH_POINT, ReportContent
from gpower.report.excel import encode_workbook
from gpower.report.requirements import import_for_report
from gpower.report.static import draw_static_figures

TEMPLATE_FOLDER = Path(__file__).parent
#: Nothing is fetched, sent or framed; only these scripts run. Bokeh styles its own parts from within.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Colouring:
    """A way of colouring the samples, as the page offers it."""

    key: str
    name: str
    legend_entries: list[tuple[str, str, str, int]]
    low: float = 0.0
    high: float = 0.0
    n_unknown: int = 0


def render_page(contents: ReportContent, title: str) -> str:
    """The whole page."""
    jinja2 = import_for_report("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = {"name": text.format_name, "percent": text.format_percent, "at_least": text.format_lower_bound}
    filters |= {
        "signed": text.format_signed,
        "rounded": text.format_rounded,
        "probability": text.format_p_value,
        "exact": format_exact,
    }
    markup = jinja2.utils.markupsafe
    filters["breakable"] = lambda name: markup.escape(name).replace("_", markup.Markup("_<wbr>"))
    environment.filters |= filters
    template = environment.from_string((TEMPLATE_FOLDER / "page.html").read_text(encoding="utf-8"))
    library, glue = _read_bokeh_script(), (TEMPLATE_FOLDER / "page.js").read_text(encoding="utf-8")
    return str(
        template.render(
            title=title,
            contents=contents,
            samples=contents.samples,
            colourings=_list_colourings(contents),
            pictures=draw_static_figures(contents),
            workbook=encode_workbook(contents),
            words=words,
            pairs=_list_component_pairs(contents),
            path=_make_path_rows(contents),
            today=date.today().isoformat(),
            style=_mark_safe(jinja2, (TEMPLATE_FOLDER / "page.css").read_text(encoding="utf-8")),
            policy=CONTENT_SECURITY_POLICY.format(f"{_hash_script(library)} {_hash_script(glue)}"),
            data=_mark_safe(
                jinja2,
                text.encode_script_json(
                    serialize_charts(make_charts(contents)) | {"path": _make_path_points(contents)}
                ),
            ),
            library=_mark_safe(jinja2, library),
            glue=_mark_safe(jinja2, glue),
        )
    )


def _mark_safe(jinja2: Any, content: str) -> Any:
    """Text of ours, or escaped already."""
    return jinja2.utils.markupsafe.Markup(content)


@cache
def _read_bokeh_script() -> str:
    """Bokeh's own script, without what would end the element that it stands in."""
    place = Path(str(import_bokeh("util").__file__)).parents[1] / "server" / "static" / "js" / "bokeh.min.js"
    return place.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("\r\n", "\n")


def _hash_script(script: str) -> str:
    """What the policy knows a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def format_exact(number: float | None) -> str:
    """All digits of a number, for sorting and for files; nothing for none."""
    return "" if number is None or number != number else repr(float(number))


def _list_colourings(contents: ReportContent) -> list[Colouring]:
    """The columns that colours can show, with their legends."""
    if contents.samples is None:
        return []
    places = {name: i for i, name in enumerate(contents.samples.metadata_columns)}
    return [
        _make_colouring(f"m{places[name]}", name, column)
        for name, column in select_colouring_metadata(contents.samples).items()
    ]


def _make_colouring(key: str, name: str, column: MetadataColumn) -> Colouring:
    unknown = int(np.count_nonzero(~column.is_known))
    if column.is_continuous:
        low, high = float(np.nanmin(column.values)), float(np.nanmax(column.values))
        return Colouring(key, name, [], low, high, unknown)
    return Colouring(key, name, make_group_legend(column), n_unknown=unknown)


def _list_component_pairs(contents: ReportContent) -> list[list[tuple[int, float, float]]]:
    """What each two components have in common: variables, correlation of scores, cosine of loadings."""
    model = contents.model
    tables = (model.overlap_, model.score_correlation_, model.loading_correlation_)
    m = len(contents.components)
    return [
        [(int(tables[0][i, j]), float(tables[1][i, j]), float(tables[2][i, j])) for j in range(m)] for i in range(m)
    ]


def _make_path_rows(contents: ReportContent) -> list[tuple[str, float, float]]:
    """The points of a path: variables of each component, share of the variance, share of PCA's."""
    path = contents.results.path
    if path is None:
        return []
    counts = ["-".join(map(str, dict.fromkeys(used.tolist()))) for used in path.cardinality]
    shares = path.explained_variance_ratio.sum(axis=1).tolist()
    return list(zip(counts, shares, path.share_of_pca.tolist(), strict=True))


def _make_path_points(contents: ReportContent) -> list[dict[str, Any]]:
    """What the slider shows: of every point its place in the picture, and the largest loadings by name."""
    path, names = contents.results.path, contents.feature_names
    if path is None:
        return []
    points = []
    for i, used in enumerate(path.cardinality):
        rows = path.components(i)
        parts = [_list_largest_loadings(rows.indices[a:b], rows.data[a:b], names) for a, b in pairwise(rows.indptr)]
        points.append({"x": float(used.mean()), "y": 100 * float(path.share_of_pca[i]), "components": parts})
    return points


def _list_largest_loadings(indices: Any, loadings: Any, names: list[str]) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(loadings), kind="stable")[:MAX_LOADINGS_PER_PATH_POINT]
    return [(text.format_name(names[indices[i]]), float(loadings[i])) for i in order if loadings[i]]
