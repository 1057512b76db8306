"""The tables of a page as a workbook, within the page: for spreadsheets, without JavaScript."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence

from gpower.pages.contents import Contents
from gpower.pages.needs import needed
from gpower.pages.text import shown

MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def workbook_of(contents: Contents) -> str:
    """An address that holds the workbook: components, loadings and, where the page shows them, scores."""
    openpyxl = needed("openpyxl")
    book, file = openpyxl.Workbook(write_only=True), io.BytesIO()
    for title, rows in _sheets(contents):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append([_cell(openpyxl, sheet, value) for value in row])
    book.save(file)
    return f"data:{MIME};base64," + base64.b64encode(file.getvalue()).decode()


def _cell(openpyxl: object, sheet: object, value: object) -> object:
    """A number as it is, words as words: nothing becomes a formula."""
    if not isinstance(value, str):
        return None if value != value else value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value=shown(value))  # type: ignore[attr-defined]
    cell.data_type = "s"
    return cell


def _sheets(contents: Contents) -> Iterable[tuple[str, Iterable[Sequence[object]]]]:
    parts, listed, shown_samples = contents.components, contents.listed, contents.samples
    heads: tuple[str, ...] = (
        "component",
        "variables",
        "share of variance",
        "running total",
        "proven share of the best possible",
    )
    yield "components", [heads, *((c.number, len(c.variables), c.share, c.total, c.ratio) for c in parts)]
    heads = ("component", "variable", "loading", "mean", "standard deviation", "chosen again")
    rows = ((c.number, v.name, v.loading, v.mean, v.spread, v.again) for c, v in listed)
    yield "loadings", [heads, *rows]
    if shown_samples is not None:
        heads = ("sample", *(f"component {c.number}" for c in parts), "T²", "squared residual")
        scores = zip(
            shown_samples.names, shown_samples.scores.tolist(), shown_samples.t2, shown_samples.residual, strict=True
        )
        yield "scores", [heads, *((name, *row, float(t2), float(rest)) for name, row, t2, rest in scores)]
