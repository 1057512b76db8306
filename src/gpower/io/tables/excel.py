"""Read sheets of Excel workbooks. Needs openpyxl, the ``io`` extra."""

import zipfile
from dataclasses import replace

from gpower._utils.memory import get_free_memory
from gpower._utils.optional import import_optional
from gpower._utils.text import format_names, quote
from gpower.io.tables.delimited import build_table_from_rows
from gpower.io.tables.table import Table, TableError, TableFile


def read_workbook(file: TableFile) -> Table:
    """Return the table of one sheet of an .xlsx workbook: the first, or the one that `file.key` names."""
    openpyxl = import_optional("openpyxl", "io", "Reading a workbook needs")
    with zipfile.ZipFile(file.path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > get_free_memory() / 4:  # cells take more memory than their text
        raise TableError(file.path, f"the workbook unpacks to {size / 1e9:.3g} GB, too much for the free memory")
    book = openpyxl.load_workbook(file.path, read_only=True, data_only=True)
    try:
        sheets = book.sheetnames
        name = sheets[0] if file.key is None else file.key
        if name not in sheets:
            raise TableError(file.path, f"there is no sheet {quote(name)}; there are {format_names(sheets)}")
        rows = [[_format_workbook_cell(value) for value in row] for row in book[name].iter_rows(values_only=True)]
    finally:
        book.close()
    width = max((j + 1 for row in rows for j, cell in enumerate(row) if cell), default=0)
    numbered = ((i, (row + [""] * width)[:width]) for i, row in enumerate(rows, 1) if i > file.skip and any(row))
    table = build_table_from_rows(file, numbered)
    note = f"the sheet {quote(name)} was read, the first of {len(sheets)}"
    return replace(table, notes=(*table.notes, note)) if file.key is None and len(sheets) > 1 else table


def _format_workbook_cell(value: object) -> str:
    """Return a cell as text: "" for an empty one, 0 or 1 for a bool, a number with all its digits."""
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
