"""Rendering of the page: template, style, scripts and the collected content in one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from gpower._utils.text import format_percent
from gpower.report import formatting, sentences
from gpower.report.charts import (
    import_bokeh,
    make_group_legend,
    select_colouring_metadata,
    serialize_charts,
)
from gpower.report.content import ReportContent
from gpower.report.optional_packages import import_for_report
from gpower.report.static_figures import draw_static_figures

TEMPLATE_FOLDER = Path(__file__).parent
#: The page may fetch, send and frame nothing, and run only its own scripts. Bokeh needs inline styles.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


def render_page(contents: ReportContent, title: str) -> str:
    """Return the HTML page."""
    jinja2 = import_for_report("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    # Marks text that is our own, or escaped already, so that the template does not escape it.
    mark_safe = jinja2.utils.markupsafe.Markup
    filters: dict[str, Callable[..., Any]] = {
        "name": formatting.format_name,
        "breakable": lambda name: mark_safe.escape(name).replace("_", mark_safe("_<wbr>")),
        "percent": lambda share: formatting.keep_percent_signs(format_percent(share)),
        "sentence": formatting.keep_percent_signs,
        "at_least": formatting.format_lower_bound,
        "signed": formatting.format_signed,
        "rounded": formatting.format_rounded,
        "probability": formatting.format_p_value,
        "exact": lambda number: "" if number is None or number != number else repr(float(number)),
    }
    environment.filters |= filters
    page, page_script, style = (
        (TEMPLATE_FOLDER / f"page.{suffix}").read_text(encoding="utf-8") for suffix in ("html", "js", "css")
    )
    data: dict[str, Any] = {"path": contents.path_points}
    scripts, colourings = [page_script], {}
    if contents.samples is not None:
        data |= serialize_charts(contents, contents.samples)
        scripts.insert(0, _read_bokeh_script())
        colourings = select_colouring_metadata(contents.samples)
    return str(
        environment.from_string(page).render(
            title=title,
            contents=contents,
            samples=contents.samples,
            colourings=colourings,
            make_group_legend=make_group_legend,
            pictures=draw_static_figures(contents),
            sentences=sentences,
            today=date.today().isoformat(),
            style=mark_safe(style),
            policy=CONTENT_SECURITY_POLICY.format(" ".join(map(_hash_script, scripts))),
            data=data,
            scripts=map(mark_safe, scripts),
        )
    )


@cache
def _read_bokeh_script() -> str:
    """Return the script of Bokeh, changed so that no string in it ends the script element."""
    path = Path(str(import_bokeh("util").__file__)).parents[1] / "server" / "static" / "js" / "bokeh.min.js"
    return path.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("\r\n", "\n")


def _hash_script(script: str) -> str:
    """Return the hash by which the content security policy allows a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
