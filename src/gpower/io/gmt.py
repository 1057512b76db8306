"""Read gene sets in the GMT format: one set per line, with its name, a description and its genes between tabs."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from gpower._utils.text import quote
from gpower.io.tables.decompression import open_text
from gpower.io.tables.delimited import split_tabbed_rows
from gpower.io.tables.table import TableError

GeneSets = Mapping[str, Iterable[str]]  # name of the set → its genes


def read_gmt(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    r"""Read the gene sets of a GMT file, the format of MSigDB and most enrichment programs.

    Parameters
    ----------
    path : str or path-like
        The file, gzipped if its name ends in ``.gz``. Blank lines and lines that begin with ``#`` are skipped.

    Returns
    -------
    dict of str to tuple of str
        Name of the set → its genes in the order of the file, without repetitions. Descriptions are left out.

    Raises
    ------
    TableError
        The file is missing, is not text, or has a line that is not a gene set; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets import read_gmt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "sets.gmt")
    ...     _ = path.write_text("CELL_CYCLE\tmade up\tCDK1\tCCNB1\nHYPOXIA\t\tVEGFA\n")
    ...     read_gmt(path)
    {'CELL_CYCLE': ('CDK1', 'CCNB1'), 'HYPOXIA': ('VEGFA',)}
    """
    path = Path(path)
    sets = dict[str, tuple[str, ...]]()
    line_of = dict[str, int]()
    with open_text(path) as text:
        for line, cells in split_tabbed_rows(text):
            if not any(cells) or cells[0].startswith("#"):
                continue
            name, genes = _parse_gmt_line(path, line, cells)
            if name in sets:
                problem = f"line {line} repeats the set {quote(name)} of line {line_of[name]}"
                raise TableError(path, f"{problem}; give each set its own name")
            sets[name], line_of[name] = genes, line
    if not sets:
        raise TableError(path, "the file contains no gene set")
    return sets


def _parse_gmt_line(path: Path, line: int, cells: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name and the genes of one line; raise if it is not a gene set."""
    if len(cells) < 3:
        problem = f"line {line} has {len(cells)} cell{'s' if len(cells) > 1 else ''} between tabs"
        raise TableError(path, f"{problem}; a gene set is a name, a description and its genes, separated by tabs")
    genes = tuple(dict.fromkeys(gene for gene in cells[2:] if gene))
    if not cells[0] or not genes:
        problem = "the set has no name" if not cells[0] else f"the set {quote(cells[0])} has no genes"
        raise TableError(path, f"line {line}: {problem}; a gene set is a name, a description and its genes")
    return cells[0], genes
