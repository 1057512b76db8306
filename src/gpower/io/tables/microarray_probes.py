"""Read which gene each probe of a microarray measures, and average the probes of each gene."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpower._utils.arrays import Array
from gpower._utils.text import MISSING_GENE_WORDS, format_names
from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import NumberedRow, split_tabbed_rows
from gpower.io.tables.table import Table, TableError

__all__ = ["collapse_probes", "read_probe_genes"]

# Headings, in lower case, of the columns of probes and of genes, most specific first.
_PROBE_HEADINGS = (
    *("id", "id_ref", "probe set id", "composite element name", "reporter name"),
    *("probe_id", "probe id", "probeid"),
)
_GENE_HEADINGS = (
    *("gene symbol", "gene_symbol", "genesymbol", "symbol", "hugo", "hgnc"),
    *("gene name", "gene_name", "ilmn_gene"),
)
_GENE_SEPARATORS = ("///", "|", ";", ",")  # between the genes of a probe that matches several
_REMARK_PREFIXES = ("!", "#", "^")
_PLATFORM_END_MARK = "!platform_table_end"


def read_probe_genes(
    path: str | PathLike[str], *, probe_column: str | None = None, gene_column: str | None = None
) -> dict[str, str]:
    r"""Read which gene each probe measures from the annotation of a microarray platform.

    Reads GEO's annotation (GPL96.annot.gz) and platform tables (GPL96.txt), manufacturers' tables (.csv) and
    ArrayExpress array designs (.adf.txt): tables below lines of remarks, recognised by their headings.

    Parameters
    ----------
    path : str or path-like
        The file, gzipped if its name ends in ``.gz``; separated by commas if it is a ``.csv``, else by tabs.
    probe_column, gene_column : str, optional
        Headings of the two columns; case is ignored. By default the first known headings, such as ID and Gene symbol,
        or Reporter Name and Reporter Database Entry [hugo].

    Returns
    -------
    dict of str to str
        Probe → gene. Probes without a gene, and probes that match several genes (``A /// B``), are left out.

    Raises
    ------
    TableError
        The file has no such table, or a line of it is cut off; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets import read_probe_genes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "GPL0.annot")
    ...     _ = path.write_text("^Annotation\n#ID = probe\nID\tGene symbol\n1_at\tTP53\n2_at\tA///B\n3_at\t\n")
    ...     read_probe_genes(path)
    {'1_at': 'TP53'}
    """
    path = Path(path)
    genes = dict[str, str]()
    with open_text(path, errors="replace") as text:
        lines = enumerate(csv.reader(text), 1) if ".csv" in map(str.lower, path.suffixes) else split_tabbed_rows(text)
        rows = ((line, cells) for line, cells in lines if any(cells) and not _is_remark_line(cells[0]))
        probe_index, gene_index = _find_probe_header(path, rows, probe_column, gene_column)
        for line, cells in rows:
            if cells[0].lower() == _PLATFORM_END_MARK:
                break
            if len(cells) <= probe_index or not cells[probe_index]:
                raise TableError(path, f"line {line} has no probe; the file seems cut off")
            gene = cells[gene_index] if len(cells) > gene_index else ""  # empty cells at the end are often not written
            if gene.casefold() not in MISSING_GENE_WORDS and not any(mark in gene for mark in _GENE_SEPARATORS):
                genes[cells[probe_index]] = gene
    if not genes:
        raise TableError(path, "no probe of the table has exactly one gene")
    return genes


def _is_remark_line(cell: str) -> bool:
    return cell.startswith(_REMARK_PREFIXES) and cell.lower() != _PLATFORM_END_MARK


def _find_probe_header(
    path: Path, rows: Iterator[NumberedRow], probe_column: str | None, gene_column: str | None
) -> tuple[int, int]:
    """Advance `rows` past the line of headings and return the columns, from 0, of the probes and of the genes."""
    probes = (probe_column.casefold(),) if probe_column else _PROBE_HEADINGS
    genes = (gene_column.casefold(),) if gene_column else _GENE_HEADINGS
    nearest_line, headings = 0, list[str]()  # the longest line with one of the two headings
    for line, cells in rows:
        probe_index = _find_heading_column(cells, probes, bool(probe_column))
        gene_index = _find_heading_column(cells, genes, bool(gene_column))
        if probe_index is not None and gene_index is not None:
            return probe_index, gene_index
        if (probe_index is not None or gene_index is not None) and len(cells) > len(headings):
            nearest_line, headings = line, cells
    nearest = f"; line {nearest_line} has the headings {format_names(headings)}" if nearest_line else ""
    advice = "call them ID and Gene symbol, or pass probe_column and gene_column to read_probe_genes"
    raise TableError(path, f"no line has a heading of probes and one of genes{nearest}; {advice}")


def _find_heading_column(cells: Sequence[str], accepted_headings: Sequence[str], is_exact: bool) -> int | None:
    """Return the first column with an accepted heading; None if there is none.

    Unless `is_exact`, the accepted heading may also stand in brackets at the end, as in an ArrayExpress design.
    """
    headings = [cell.casefold() for cell in cells]
    for name in accepted_headings:
        for j, heading in enumerate(headings):
            if heading == name or (not is_exact and heading.endswith((f"[{name}]", f"[{name}s]"))):
                return j
    return None


def collapse_probes(table: Table, genes: Mapping[str, str]) -> Table:
    """Average the probes of each gene, ignoring missing values.

    Parameters
    ----------
    table : Table
        Samples × probes, with `feature_names`.
    genes : mapping of str to str
        Probe → gene, as `read_probe_genes` returns. Probes that are not in it are left out.

    Returns
    -------
    Table
        Samples × genes, the genes in alphabetical order.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.datasets import Table, collapse_probes
    >>> table = Table(np.array([[1.0, 3.0, 9.0], [1.0, 5.0, 9.0]]), ("1_at", "2_at", "3_at"))
    >>> collapse_probes(table, {"1_at": "TP53", "2_at": "TP53"}).X.ravel()
    array([2., 3.])
    """
    probes = table.feature_names
    if probes is None:
        raise ValueError("The table has no names of probes; read it with its header.")
    columns = [j for j, probe in enumerate(probes) if probe in genes]
    if not columns:
        raise ValueError(
            f"None of the {len(probes)} probes of the table ({format_names(probes[:3])}) is among the {len(genes)} of "
            f"the annotation ({format_names(list(genes)[:3])}); use the annotation of the platform that measured the "
            "table."
        )
    names, gene_of = np.unique([genes[probes[j]] for j in columns], return_inverse=True)
    left_out = "; the other probes are left out" if len(columns) < len(probes) else ""
    note = f"{len(columns)} of {len(probes)} probes have one gene each and make up {len(names)} genes{left_out}"
    X = _average_probes(np.asarray(table.X)[:, columns], gene_of, len(names))
    return Table(X, tuple(map(str, names)), table.sample_names, notes=(*table.notes, note))


def _average_probes(X: Array, gene_of: NDArray[np.intp], n_genes: int) -> Array:
    """Return the mean over the probes of each gene, (n_samples, n_genes); NaN where all of them are missing."""
    order = np.argsort(gene_of, kind="stable")
    first = np.searchsorted(gene_of[order], np.arange(n_genes))
    present = ~np.isnan(X[:, order])
    sums = np.add.reduceat(np.where(present, X[:, order], 0), first, axis=1)
    counts = np.add.reduceat(present.astype(X.dtype), first, axis=1)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
