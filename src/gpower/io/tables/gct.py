"""Read GCT files, GenePattern's text format for genes × samples, versions 1.2 and 1.3."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import NumberedRow, build_table_from_rows, split_tabbed_rows
from gpower.io.tables.table import Table, TableError, TableFile


class GctSizes(NamedTuple):
    """Numbers that the second line of a GCT file gives."""

    n_genes: int
    n_samples: int
    n_gene_annotations: int = 1  # columns behind the names of the genes
    n_sample_annotations: int = 0  # rows below the header


def read_gct(file: TableFile) -> Table:
    r"""Return the table of a .gct file, transposed to samples × genes; annotations of genes and samples are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.table import TableFile
    >>> from gpower.io.tables.gct import read_gct
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.gct")
    ...     _ = path.write_text("#1.2\n1\t2\nName\tDescription\ts1\ts2\nTP53\tmade up\t0.5\t1.5\n")
    ...     read_gct(TableFile(path))
    Table(X=array([[0.5],
           [1.5]]), feature_names=('TP53',), sample_names=('s1', 's2'))
    """
    with open_text(file.path) as text:
        rows = split_tabbed_rows(text)
        sizes = _read_gct_sizes(file.path, rows)
        drop = (*range(1, sizes.n_gene_annotations + 1), *file.drop)
        gene_rows = _skip_sample_annotations(rows, sizes.n_sample_annotations)
        table = build_table_from_rows(replace(file, index_col=0, header=True, drop=drop), gene_rows)
    if not file.drop and not file.drop_rows and table.X.shape != (sizes.n_genes, sizes.n_samples):
        announced = f"{sizes.n_genes} genes × {sizes.n_samples} samples"
        content = " × ".join(map(str, table.X.shape))
        raise TableError(file.path, f"the second line announces {announced}, but the table is {content}")
    return table.transpose()


def _read_gct_sizes(path: Path, rows: Iterator[NumberedRow]) -> GctSizes:
    """Read the first two rows and return the sizes; raise if they are not those of a GCT file."""
    version, cells = (next(rows, (0, [""]))[1] for _ in range(2))
    if version[0] not in ("#1.2", "#1.3") or not all(cell.isdecimal() for cell in cells if cell):
        reason = "this is not a GCT file, which begins with #1.2 or #1.3 and the numbers of genes and samples"
        raise TableError(path, reason)
    sizes = [int(cell[:9]) for cell in cells if cell]
    n_expected = 2 if version[0] == "#1.2" else 4
    if len(sizes) != n_expected:
        reason = f"line 2 has {len(sizes)} sizes; in a GCT file of version {version[0][1:]} it has {n_expected}"
        raise TableError(path, reason)
    return GctSizes(*sizes)


def _skip_sample_annotations(rows: Iterator[NumberedRow], n_annotation_rows: int) -> Iterator[NumberedRow]:
    """Yield the header and the genes; skip blank rows and the annotations of the samples below the header."""
    not_blank = (row for row in rows if any(row[1]))
    for i, row in enumerate(not_blank):
        if not 1 <= i <= n_annotation_rows:
            yield row
