"""The tables of a page as an Excel workbook embedded in it, which needs no JavaScript."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gpower._utils.frames import name_by_component
from gpower.analysis.association import Association
from gpower.report.content import ReportContent
from gpower.report.formatting import format_name
from gpower.report.optional_packages import import_for_report
from gpower.report.samples import ReportSamples

SheetRows: TypeAlias = Iterable[Sequence[object]]
XLSX_MIME_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def encode_workbook(contents: ReportContent) -> str:
    """Return a data URI of a workbook with a sheet for each table of the page."""
    openpyxl = import_for_report("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    file = io.BytesIO()
    for title, rows in _list_sheets(contents):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append([_make_workbook_cell(openpyxl, sheet, value) for value in row])
    book.save(file)
    return f"data:{XLSX_MIME_TYPE};base64," + base64.b64encode(file.getvalue()).decode()


def _make_workbook_cell(openpyxl: object, sheet: object, value: object) -> object:
    """Return the content of a cell: numbers unchanged, NaN as empty, strings as text that is never a formula."""
    if not isinstance(value, str):
        return None if value != value else value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value=format_name(value))  # type: ignore[attr-defined]
    cell.data_type = "s"
    return cell


def _list_sheets(contents: ReportContent) -> Iterator[tuple[str, SheetRows]]:
    """Yield the title and the rows of each sheet."""
    components: list[tuple[object, ...]] = [
        (c.number, len(c.variables), c.explained_share, c.cumulative_share, c.optimality_ratio, c.p_value)
        for c in contents.components
    ]
    shares = ("share of variance", "running total", "proven share of the best possible")
    yield "components", [("component", "variables", *shares, "p"), *components]
    loadings = [
        (c.number, v.name, v.loading, v.mean, v.standard_deviation, v.selection_frequency)
        for c, v in contents.listed_loadings
    ]
    headings: tuple[str, ...] = ("component", "variable", "loading", "mean", "standard deviation", "chosen again")
    yield "loadings", [headings, *loadings]
    if contents.samples is not None:
        yield "scores", _list_score_rows(contents.samples)
    if contents.results.enrichment is not None:
        headings = ("component", "gene_set", "overlap", "set_size", "genes", "p_value", "adjusted_p_value")
        records = [record for record in contents.results.enrichment.records() if record["enriched"]]
        yield "gene sets", [headings, *([record[head] for head in headings] for record in records)]
    if contents.association is not None:
        yield "metadata", _list_association_rows(contents.association)


def _list_score_rows(samples: ReportSamples) -> SheetRows:
    """Yield the header and a row for each sample: scores, distances and metadata."""
    numbers = np.vstack([samples.scores.T, samples.hotelling_t2, samples.squared_residual])
    columns = [samples.sample_names, *numbers.tolist()]
    for column in samples.metadata_columns.values():
        pairs = zip(column.values, column.is_known, strict=True)
        columns.append([value if is_known else None for value, is_known in pairs])
    yield ("sample", *name_by_component(samples.scores.T), "T²", "squared residual", *samples.metadata_columns)
    yield from zip(*columns, strict=True)


def _list_association_rows(association: Association) -> SheetRows:
    """Yield the header and a row for each component and column of metadata: strength and p-values."""
    yield ("component", "metadata", "test", "strength", "p", "corrected p")
    signed = association.strength * np.where(association.sign, association.sign, 1)
    numbers = np.stack([signed, association.p_values, association.adjusted_p_values], axis=-1)
    for number, rows in enumerate(numbers.tolist(), 1):
        for name, test, values in zip(association.names, association.tests, rows, strict=True):
            yield (number, name, test, *values)
