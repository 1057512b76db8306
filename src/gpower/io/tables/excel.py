"""Tables of other programs that are neither plain text nor numbers alone: Excel workbooks and GenePattern's GCT."""

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpower._utils.memory import get_free_memory
from gpower._utils.optional import import_optional
from gpower._utils.text import format_names, quote
from gpower.io.tables.delimited import build_table_from_rows
from gpower.io.tables.errors import TableError
from gpower.io.tables.table import Table, TableFile
from gpower.io.tables.text_file import NumberedRow, open_text, split_tabbed_rows


def read_workbook(file: TableFile) -> Table:
    """The table of a sheet of an .xlsx workbook: the first, or the one that `file.key` names. Needs openpyxl."""
    openpyxl = import_optional("openpyxl", "io", "Reading a workbook needs")
    with zipfile.ZipFile(file.path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > get_free_memory() / 4:  # cells take more room than their text
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
    """A cell as text: nothing for an empty one, a number with all its digits."""
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)


def read_gct(file: TableFile) -> Table:
    r"""The table of a .gct file, which is genes × samples: samples × genes. Descriptions are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.table import TableFile
    >>> from gpower.io.tables.excel import read_gct
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.gct")
    ...     _ = path.write_text("#1.2\n1\t2\nName\tDescription\ts1\ts2\nTP53\tmade up\t0.5\t1.5\n")
    ...     read_gct(TableFile(path))
    Table(X=array([[0.5],
           [1.5]]), feature_names=('TP53',), sample_names=('s1', 's2'))
    """
    with open_text(file.path) as text:
        rows = split_tabbed_rows(text)
        genes, samples, described, annotated = _read_gct_sizes(file.path, rows)
        left_out = (*range(1, described + 1), *file.drop)
        table = build_table_from_rows(
            replace(file, index_col=0, header=True, drop=left_out), _skip_sample_annotations(rows, annotated)
        )
    if not file.drop and not file.drop_rows and table.X.shape != (genes, samples):
        found = " × ".join(map(str, table.X.shape))
        raise TableError(file.path, f"the second line tells {genes} genes × {samples} samples, and there are {found}")
    return table.transpose()


def _read_gct_sizes(path: Path, rows: Iterator[NumberedRow]) -> tuple[int, int, int, int]:
    """Genes, samples, columns that describe genes, and rows that describe samples."""
    version, sizes = (next(rows, (0, [""]))[1] for _ in range(2))
    if version[0] not in ("#1.2", "#1.3") or not all(size.isdecimal() for size in sizes if size):
        raise TableError(path, "this is no GCT file: it begins with #1.2 or #1.3, and the numbers of genes and samples")
    told = [int(size[:9]) for size in sizes if size]
    if len(told) != (2 if version[0] == "#1.2" else 4):
        raise TableError(path, f"line 2 tells {len(told)} sizes; a GCT file of version {version[0][1:]} tells others")
    return (told[0], told[1], 1, 0) if len(told) == 2 else (told[0], told[1], told[2], told[3])


def _skip_sample_annotations(rows: Iterator[NumberedRow], n_annotation_rows: int) -> Iterator[NumberedRow]:
    """The header and the genes, without what describes the samples."""
    filled = (row for row in rows if any(row[1]))
    for i, row in enumerate(filled):
        if not 1 <= i <= n_annotation_rows:
            yield row
