"""Read processed data matrices of ArrayExpress (MAGE-TAB): two lines of headings, then one probe per line."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from gpower._utils.text import format_names
from gpower.datasets import Table, TableError, collapse_probes, read_probe_genes
from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import NumberedRow, build_table_from_rows, split_tabbed_rows
from gpower.io.tables.table import TableFile

__all__ = ["read_arrayexpress"]


def read_arrayexpress(
    path: str | PathLike[str],
    *,
    design: str | PathLike[str] | None = None,
    value: str | None = None,
    probe_column: str | None = None,
    gene_column: str | None = None,
) -> Table:
    r"""Read a processed data matrix, and map its probes to genes if the array design is given.

    The first line of such a file names the samples (``Hybridization REF``, ``Assay REF`` or ``Scan REF``), the
    second what each column holds (``Reporter REF`` or ``Composite Element REF``, then the kind of value).

    Parameters
    ----------
    path : str or path-like
        The matrix, plain or gzipped; unpack a .processed.1.zip first.
    design : str or path-like, optional
        The array design, such as A-AFFY-33.adf.txt: see `read_probe_genes`. Without it the variables are the
        probes.
    value : str, optional
        The kind of value to read, as the second line calls it; needed where there are several.
    probe_column, gene_column : str, optional
        The headings of the probes and of the genes in the array design, where they are unusual; by default
        Reporter Name or Composite Element Name, as the second line says, and a heading that speaks of symbols.

    Returns
    -------
    Table
        Samples × probes or genes.

    Raises
    ------
    TableError
        The file is no processed matrix, holds several kinds of value, or a cell that is no number.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from experiments.journee2010.arrayexpress import read_arrayexpress
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "processed.txt")
    ...     _ = path.write_text("Hybridization REF\ts1\ts2\nReporter REF\tlog ratio\tlog ratio\nR1\t0.5\t-1\n")
    ...     read_arrayexpress(path)
    Table(X=array([[ 0.5],
           [-1. ]]), feature_names=('R1',), sample_names=('s1', 's2'))
    """
    path = Path(path)
    with open_text(path, errors="replace") as text:
        rows = split_tabbed_rows(text)
        samples, kinds, probe_kind = _headings(path, rows)
        kept = _kept(path, rows, samples, _columns(path, kinds, value))
        table = build_table_from_rows(TableFile(path, index_col=0, header=True), kept).transpose()
    if design is None:
        return table
    probe_column = probe_column or ("Reporter Name" if "reporter" in probe_kind.lower() else "Composite Element Name")
    return collapse_probes(table, read_probe_genes(design, probe_column=probe_column, gene_column=gene_column))


def _headings(path: Path, rows: Iterator[NumberedRow]) -> tuple[list[str], list[str], str]:
    """Return the samples, the kinds of value, and the name of the lines."""
    lines = [next(rows, (0, [""])) for _ in range(2)]
    for (line, cells), what in zip(lines, ("Hybridization REF", "Reporter REF"), strict=True):
        if not cells[0].upper().endswith("REF"):
            seen = f"line {line} begins with {cells[0]!r}" if line else "the file has fewer than two lines"
            raise TableError(path, f"this is not a processed matrix of ArrayExpress: {seen} in place of {what!r}")
    (_, samples), (line, kinds) = lines
    if len(samples) != len(kinds):
        raise TableError(path, f"line {line} has {len(kinds)} cells where line 1 has {len(samples)}")
    return samples[1:], kinds[1:], kinds[0]


def _columns(path: Path, kinds: list[str], value: str | None) -> list[int]:
    """Return the columns of the requested kind of value."""
    found = list(dict.fromkeys(kind for kind in kinds if kind))
    if value is None:
        if len(found) > 1:
            raise TableError(
                path, f"the matrix holds several kinds of value; choose one of {format_names(found)} with value="
            )
        return [at for at, kind in enumerate(kinds) if kind]
    if value not in found:
        raise TableError(path, f"the matrix holds no {value!r}; it holds {format_names(found)}")
    return [at for at, kind in enumerate(kinds) if kind == value]


def _kept(path: Path, rows: Iterator[NumberedRow], samples: list[str], columns: list[int]) -> Iterator[NumberedRow]:
    """Yield a header of the samples' names, then the requested cells of each line."""
    yield 1, ["", *(samples[at] for at in columns)]
    for line, cells in rows:
        if any(cells):
            if len(cells) <= columns[-1] + 1:
                raise TableError(path, f"line {line} has {len(cells)} cells where {len(samples) + 1} are expected")
            yield line, [cells[0], *(cells[at + 1] for at in columns)]
