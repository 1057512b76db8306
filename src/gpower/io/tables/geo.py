"""Read series matrices of the Gene Expression Omnibus (GEO): remarks, then probes × samples between two marks."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np

from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import NumberedRow, build_table_from_rows, split_tabbed_rows
from gpower.io.tables.table import Table, TableError, TableFile

_TABLE_BEGIN_MARK, _TABLE_END_MARK = "!series_matrix_table_begin", "!series_matrix_table_end"
_REMARK_PREFIXES = ("!series_", "!sample_")
# GEO stores the submitted values, intensities or their logarithms, and does not say which. We use the rule of its own
# GEO2R: logarithms to base 2 stay below 20, so a 99th percentile above 100 means intensities.
_MAX_LOG_QUANTILE = 100.0


def is_series_matrix(path: Path) -> bool:
    r"""Return whether a text file begins with GEO's remarks about a series or its samples.

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
    r"""Return the table of a series matrix, transposed to samples (by accession, GSM…) × probes.

    `file.drop` selects samples, the columns of the file. Intensities are replaced by logarithms to base 2, those below
    1 by 0. Probes without any value are left out.

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
    """Return the table without the probes that have no value."""
    has_value = ~np.isnan(table.X).all(axis=0)
    if has_value.all():
        return table
    probes = tuple(compress(table.feature_names or (), has_value))
    note = f"probes without a value in any sample are left out: {np.count_nonzero(~has_value)} of {has_value.size}"
    return replace(table, X=table.X[:, has_value], feature_names=probes, notes=(*table.notes, note))


def _log_transform_intensities(table: Table) -> Table:
    """Return the table with intensities replaced by logarithms to base 2; logarithms stay as they are."""
    if not table.X.size or np.nanquantile(table.X, 0.99) <= _MAX_LOG_QUANTILE:
        return table
    note = "the values are intensities; their logarithms to base 2 were taken"
    return replace(table, X=np.log2(np.maximum(table.X, 1)), notes=(*table.notes, note))


def _extract_series_table(path: Path, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    """Yield the rows between the two marks; raise if a mark is missing or there are no probes."""
    line = width = n_rows = 0
    for line, cells in rows:
        if cells[0] == _TABLE_BEGIN_MARK:
            break
        if any(cells) and not cells[0].startswith("!"):
            reason = f"this is not a series matrix of GEO: line {line} comes before the line {_TABLE_BEGIN_MARK}"
            raise TableError(path, reason)
    else:
        reason = f"the file ends with line {line} and without {_TABLE_BEGIN_MARK}: it is cut off; download it again"
        raise TableError(path, reason)
    for line, cells in rows:
        if cells[0] == _TABLE_END_MARK:
            break
        width = width or len(cells)
        while len(cells) > width and not cells[-1]:  # some submissions end every line with tabs
            cells.pop()
        if any(cells):
            n_rows += 1
            yield line, cells
    else:
        reason = (
            f"the table ends with line {line} and without {_TABLE_END_MARK}: the file is cut off; download it again"
        )
        raise TableError(path, reason)
    if n_rows < 2:
        raise TableError(path, "the series matrix is empty, as for sequencing; read a supplementary file of the series")
