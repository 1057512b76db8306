"""Series matrices of the Gene Expression Omnibus (GEO): remarks, then probes × samples between two marks."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np

from gpower.io.tables.delimited import build_table_from_rows
from gpower.io.tables.errors import TableError
from gpower.io.tables.table import Table, TableFile
from gpower.io.tables.text_file import NumberedRow, open_text, split_tabbed_rows

_TABLE_BEGIN_MARK, _TABLE_END_MARK = "!series_matrix_table_begin", "!series_matrix_table_end"
_REMARK_PREFIXES = ("!series_", "!sample_")
# GEO keeps what was submitted, intensities or their logarithms, and does not say which. The rule is that of its own
# GEO2R: logarithms to base 2 stay below 20, so a 99th percentile beyond 100 means intensities.
_MAX_LOG_QUANTILE = 100.0


def is_series_matrix(path: Path) -> bool:
    r"""Whether a text file begins with GEO's remarks about a series or its samples.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.geo import is_series_matrix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "GSE0.txt")
    ...     _ = path.write_text('!Series_title\t"Made up"\n')
    ...     is_series_matrix(path)
    True
    """
    with open_text(path, errors="replace") as lines:
        first = next((line for line in lines if line.strip()), "")
    return first.lower().startswith(_REMARK_PREFIXES)


def read_series_matrix(file: TableFile) -> Table:
    r"""The table of a series matrix, samples (by accession, GSM…) × probes; what the file drops are samples.

    Intensities become logarithms to base 2, those below 1 counted as 1. Probes without a single value are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.geo import read_series_matrix
    >>> from gpower.io.tables.table import TableFile
    >>> lines = ['!Series_title\t"Made up"', '!Sample_title\t"first"\t"second"', "!series_matrix_table_begin",
    ...          '"ID_REF"\t"GSM1"\t"GSM2"', '"1_at"\t7.5\t8.25', '"2_at"\t3\tnull', "!series_matrix_table_end"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "GSE0_series_matrix.txt")
    ...     _ = path.write_text("\n".join(lines))
    ...     read_series_matrix(TableFile(path))
    Table(X=array([[7.5 , 3.  ],
           [8.25,  nan]]), feature_names=('1_at', '2_at'), sample_names=('GSM1', 'GSM2'))
    """
    with open_text(file.path, errors="replace") as text:
        rows = _extract_series_table(file.path, split_tabbed_rows(text))
        table = build_table_from_rows(replace(file, index_col=0, header=True), rows).transpose()
    return _log_transform_intensities(_drop_empty_probes(table))


def _drop_empty_probes(table: Table) -> Table:
    """The table without the probes that have no value."""
    kept = ~np.isnan(table.X).all(axis=0)
    if kept.all():
        return table
    probes = tuple(compress(table.feature_names or (), kept))
    note = f"probes without a value in any sample are left out: {np.count_nonzero(~kept)} of {kept.size}"
    return replace(table, X=table.X[:, kept], feature_names=probes, notes=(*table.notes, note))


def _log_transform_intensities(table: Table) -> Table:
    """The table with logarithms in place of intensities."""
    if not table.X.size or np.nanquantile(table.X, 0.99) <= _MAX_LOG_QUANTILE:
        return table
    note = "the values are intensities; their logarithms to base 2 were taken"
    return replace(table, X=np.log2(np.maximum(table.X, 1)), notes=(*table.notes, note))


def _extract_series_table(path: Path, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    """The rows of the table; a mark that is missing means that the file is cut off."""
    line, width, count = 0, 0, 0
    for line, cells in rows:
        if cells[0] == _TABLE_BEGIN_MARK:
            break
        if any(cells) and not cells[0].startswith("!"):
            raise TableError(
                path, f"this is not a series matrix of GEO: line {line} comes before the line {_TABLE_BEGIN_MARK}"
            )
    else:
        raise TableError(
            path, f"the file ends with line {line} and without {_TABLE_BEGIN_MARK}: it is cut off; get it again"
        )
    for line, cells in rows:
        if cells[0] == _TABLE_END_MARK:
            break
        width = width or len(cells)
        while len(cells) > width and not cells[-1]:  # some submissions end every line with tabs
            cells.pop()
        if any(cells):
            count += 1
            yield line, cells
    else:
        raise TableError(
            path, f"the table ends with line {line} and without {_TABLE_END_MARK}: the file is cut off; get it again"
        )
    if count < 2:
        raise TableError(path, "the series matrix is empty, as for sequencing; read a supplementary file of the series")
