"""The tables of a page as a workbook, within the page: for spreadsheets, without JavaScript."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gpower.analysis.association import Association
from gpower.report.content import ReportContent
from gpower.report.requirements import import_for_report
from gpower.report.samples import ReportSamples
from gpower.report.text import format_name

SheetRows: TypeAlias = Iterable[Sequence[object]]
XLSX_MIME_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def encode_workbook(contents: ReportContent) -> str:
    """An address that holds the workbook: the tables of the page, a sheet each."""
    openpyxl = import_for_report("openpyxl")
    book, file = openpyxl.Workbook(write_only=True), io.BytesIO()
    for title, rows in _list_sheets(contents):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append([_make_workbook_cell(openpyxl, sheet, value) for value in row])
    book.save(file)
    return f"data:{XLSX_MIME_TYPE};base64," + base64.b64encode(file.getvalue()).decode()


def _make_workbook_cell(openpyxl: object, sheet: object, value: object) -> object:
    """A number as it is, words as words: nothing becomes a formula."""
    if not isinstance(value, str):
        return None if value != value else value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value=format_name(value))  # type: ignore[attr-defined]
    cell.data_type = "s"
    return cell


def _list_sheets(contents: ReportContent) -> Iterator[tuple[str, SheetRows]]:
    parts, sets, related = contents.components, contents.results.enrichment, contents.association
    heads: tuple[str, ...]
    heads = ("component", "variables", "share of variance", "running total", "proven share of the best possible", "p")
    rows = (
        (c.number, len(c.variables), c.explained_share, c.cumulative_share, c.optimality_ratio, c.p_value)
        for c in parts
    )
    yield "components", [heads, *rows]
    yield (
        "loadings",
        [
            ("component", "variable", "loading", "mean", "standard deviation", "chosen again"),
            *(
                (c.number, v.name, v.loading, v.mean, v.standard_deviation, v.selection_frequency)
                for c, v in contents.listed_loadings
            ),
        ],
    )
    if contents.samples is not None:
        yield "scores", _list_score_rows(contents.samples)
    if sets is not None:
        heads = ("component", "gene_set", "overlap", "set_size", "genes", "p_value", "adjusted_p_value")
        found = [record for record in sets.records() if record["enriched"]]
        yield "gene sets", [heads, *([record[head] for head in heads] for record in found)]
    if related is not None:
        yield "metadata", _list_association_rows(related)


def _list_score_rows(samples: ReportSamples) -> SheetRows:
    """What the page tells of single samples."""
    columns = [
        samples.sample_names,
        *samples.scores.T.tolist(),
        samples.hotelling_t2.tolist(),
        samples.squared_residual.tolist(),
    ]
    for known in samples.metadata_columns.values():
        columns.append([value if there else None for value, there in zip(known.values, known.is_known, strict=True)])
    numbered = (f"component {j + 1}" for j in range(samples.scores.shape[1]))
    yield ("sample", *numbered, "T²", "squared residual", *samples.metadata_columns)
    yield from zip(*columns, strict=True)


def _list_association_rows(association: Association) -> SheetRows:
    """What components go with, a line each."""
    yield ("component", "metadata", "test", "strength", "p", "corrected p")
    for j, strengths in enumerate(association.strength * np.where(association.sign, association.sign, 1)):
        numbers = zip(
            strengths.tolist(), association.p_values[j].tolist(), association.adjusted_p_values[j].tolist(), strict=True
        )
        for name, test, values in zip(association.names, association.tests, numbers, strict=True):
            yield (j + 1, name, test, *values)
