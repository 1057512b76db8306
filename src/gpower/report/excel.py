"""The tables of a page as a workbook, within the page: for spreadsheets, without JavaScript."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gpower.analysis.association import Association
from gpower.report.content import Contents
from gpower.report.requirements import needed
from gpower.report.samples import Samples
from gpower.report.text import shown

Rows: TypeAlias = Iterable[Sequence[object]]
MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def workbook_of(contents: Contents) -> str:
    """An address that holds the workbook: the tables of the page, a sheet each."""
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


def _sheets(contents: Contents) -> Iterator[tuple[str, Rows]]:
    parts, sets, related = contents.components, contents.results.enrichment, contents.association
    heads: tuple[str, ...]
    heads = ("component", "variables", "share of variance", "running total", "proven share of the best possible", "p")
    rows = ((c.number, len(c.variables), c.share, c.total, c.ratio, c.p_value) for c in parts)
    yield "components", [heads, *rows]
    yield (
        "loadings",
        [
            ("component", "variable", "loading", "mean", "standard deviation", "chosen again"),
            *((c.number, v.name, v.loading, v.mean, v.spread, v.again) for c, v in contents.listed),
        ],
    )
    if contents.samples is not None:
        yield "scores", _scores(contents.samples)
    if sets is not None:
        heads = ("component", "gene_set", "overlap", "set_size", "genes", "p_value", "adjusted_p_value")
        found = [record for record in sets.records() if record["enriched"]]
        yield "gene sets", [heads, *([record[head] for head in heads] for record in found)]
    if related is not None:
        yield "metadata", _related(related)


def _scores(samples: Samples) -> Rows:
    """What the page tells of single samples."""
    columns = [samples.names, *samples.scores.T.tolist(), samples.t2.tolist(), samples.residual.tolist()]
    for known in samples.columns.values():
        columns.append([value if there else None for value, there in zip(known.values, known.known, strict=True)])
    numbered = (f"component {j + 1}" for j in range(samples.scores.shape[1]))
    yield ("sample", *numbered, "T²", "squared residual", *samples.columns)
    yield from zip(*columns, strict=True)


def _related(found: Association) -> Rows:
    """What components go with, a line each."""
    yield ("component", "metadata", "test", "strength", "p", "corrected p")
    for j, strengths in enumerate(found.strength * np.where(found.sign, found.sign, 1)):
        numbers = zip(strengths.tolist(), found.p_values[j].tolist(), found.adjusted_p_values[j].tolist(), strict=True)
        for name, test, values in zip(found.names, found.tests, numbers, strict=True):
            yield (j + 1, name, test, *values)
