"""Gene sets in the GMT format: one set per line, its name, a description, its genes, separated by tabs."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from gpower._utils.text import quote
from gpower.io.tables.errors import TableError
from gpower.io.tables.text_file import open_text, split_tabbed_rows

GeneSets = Mapping[str, Iterable[str]]  # name of the set → its genes


def read_gmt(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    r"""Gene sets of a GMT file, as MSigDB and most enrichment programs write them.

    Parameters
    ----------
    path : str or path-like
        The file, gzipped where its name ends in ``.gz``. Blank lines and lines that begin with ``#`` are skipped.

    Returns
    -------
    dict of str to tuple of str
        The genes of each set in the order of the file, a repeated gene once. The description is not kept.

    Raises
    ------
    TableError
        The file is missing, is no text, or has a line that is no gene set; the line is named.

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
    lines = dict[str, int]()
    with open_text(path) as text:
        for line, cells in split_tabbed_rows(text):
            if not any(cells) or cells[0].startswith("#"):
                continue
            name, genes = _parse_gmt_line(path, line, cells)
            if name in sets:
                where = f"line {line} names the set {quote(name)} again, which line {lines[name]} holds"
                raise TableError(path, f"{where}; give each set a name of its own")
            sets[name], lines[name] = genes, line
    if not sets:
        raise TableError(path, "the file holds no gene set")
    return sets


def _parse_gmt_line(path: Path, line: int, cells: list[str]) -> tuple[str, tuple[str, ...]]:
    """The name and the genes of one line."""
    if len(cells) < 3:
        seen = f"line {line} has {len(cells)} cell{'s' if len(cells) > 1 else ''} between tabs"
        raise TableError(path, f"{seen}; a gene set is a name, a description and its genes, separated by tabs")
    genes = tuple(dict.fromkeys(gene for gene in cells[2:] if gene))
    if not cells[0] or not genes:
        lacking = "no name" if not cells[0] else f"the set {quote(cells[0])} has no genes"
        raise TableError(path, f"line {line}: {lacking}; a gene set is a name, a description and its genes")
    return cells[0], genes
