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

from gpower.analysis.association import Column
from gpower.report import text, words
from gpower.report.charts import bokeh, charts_of, colourings, document_of, marks
from gpower.report.content import MOST_ON_PATH, Contents
from gpower.report.excel import workbook_of
from gpower.report.requirements import needed
from gpower.report.static import pictures_of

HERE = Path(__file__).parent
#: Nothing is fetched, sent or framed; only these scripts run. Bokeh styles its own parts from within.
POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Colouring:
    """A way of colouring the samples, as the page offers it."""

    key: str
    name: str
    groups: list[tuple[str, str, str, int]]
    low: float = 0.0
    high: float = 0.0
    unknown: int = 0


def page_of(contents: Contents, title: str) -> str:
    """The whole page."""
    jinja2 = needed("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = {"name": text.shown, "percent": text.percent, "at_least": text.at_least}
    filters |= {"signed": text.signed, "rounded": text.rounded, "probability": text.probability, "exact": exact}
    markup = jinja2.utils.markupsafe
    filters["breakable"] = lambda name: markup.escape(name).replace("_", markup.Markup("_<wbr>"))
    environment.filters |= filters
    template = environment.from_string((HERE / "page.html").read_text(encoding="utf-8"))
    library, glue = _library(), (HERE / "page.js").read_text(encoding="utf-8")
    return str(
        template.render(
            title=title,
            contents=contents,
            samples=contents.samples,
            colourings=_offered(contents),
            pictures=pictures_of(contents),
            workbook=workbook_of(contents),
            words=words,
            pairs=_pairs(contents),
            path=_path_rows(contents),
            today=date.today().isoformat(),
            style=_raw(jinja2, (HERE / "page.css").read_text(encoding="utf-8")),
            policy=POLICY.format(f"{_hashed(library)} {_hashed(glue)}"),
            data=_raw(jinja2, text.embedded(document_of(charts_of(contents)) | {"path": _path(contents)})),
            library=_raw(jinja2, library),
            glue=_raw(jinja2, glue),
        )
    )


def _raw(jinja2: Any, content: str) -> Any:
    """Text of ours, or escaped already."""
    return jinja2.utils.markupsafe.Markup(content)


@cache
def _library() -> str:
    """Bokeh's own script, without what would end the element that it stands in."""
    place = Path(str(bokeh("util").__file__)).parents[1] / "server" / "static" / "js" / "bokeh.min.js"
    return place.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("\r\n", "\n")


def _hashed(script: str) -> str:
    """What the policy knows a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def exact(number: float | None) -> str:
    """All digits of a number, for sorting and for files; nothing for none."""
    return "" if number is None or number != number else repr(float(number))


def _offered(contents: Contents) -> list[Colouring]:
    """The columns that colours can show, with their legends."""
    if contents.samples is None:
        return []
    places = {name: i for i, name in enumerate(contents.samples.columns)}
    return [_colouring(f"m{places[name]}", name, column) for name, column in colourings(contents.samples).items()]


def _colouring(key: str, name: str, column: Column) -> Colouring:
    unknown = int(np.count_nonzero(~column.known))
    if column.is_measured:
        low, high = float(np.nanmin(column.values)), float(np.nanmax(column.values))
        return Colouring(key, name, [], low, high, unknown)
    return Colouring(key, name, marks(column), unknown=unknown)


def _pairs(contents: Contents) -> list[list[tuple[int, float, float]]]:
    """What each two components have in common: variables, correlation of scores, cosine of loadings."""
    model = contents.model
    tables = (model.overlap_, model.score_correlation_, model.loading_correlation_)
    m = len(contents.components)
    return [
        [(int(tables[0][i, j]), float(tables[1][i, j]), float(tables[2][i, j])) for j in range(m)] for i in range(m)
    ]


def _path_rows(contents: Contents) -> list[tuple[str, float, float]]:
    """The points of a path: variables of each component, share of the variance, share of PCA's."""
    path = contents.results.path
    if path is None:
        return []
    counts = ["-".join(map(str, dict.fromkeys(used.tolist()))) for used in path.cardinality]
    shares = path.explained_variance_ratio.sum(axis=1).tolist()
    return list(zip(counts, shares, path.share_of_pca.tolist(), strict=True))


def _path(contents: Contents) -> list[dict[str, Any]]:
    """What the slider shows: of every point its place in the picture, and the largest loadings by name."""
    path, names = contents.results.path, contents.names
    if path is None:
        return []
    points = []
    for i, used in enumerate(path.cardinality):
        rows = path.components(i)
        parts = [_largest(rows.indices[a:b], rows.data[a:b], names) for a, b in pairwise(rows.indptr)]
        points.append({"x": float(used.mean()), "y": 100 * float(path.share_of_pca[i]), "components": parts})
    return points


def _largest(indices: Any, loadings: Any, names: list[str]) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(loadings), kind="stable")[:MOST_ON_PATH]
    return [(text.shown(names[indices[i]]), float(loadings[i])) for i in order if loadings[i]]
