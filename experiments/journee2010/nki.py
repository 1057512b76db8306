"""Read the tables of the Netherlands Cancer Institute's 295 breast tumours (van de Vijver et al. 2002)."""

import io
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path, PurePosixPath

import numpy as np

from gpower._utils.text import format_names
from gpower.datasets import Table, TableError, collapse_probes
from gpower.io.tables.delimited import NumberedRow, build_table_from_rows, split_tabbed_rows
from gpower.io.tables.table import TableFile

__all__ = ["read_nki"]

_PER_SAMPLE = 5  # log ratio, its error, p-value, log intensity, flag


def read_nki(path: str | PathLike[str], *, collapse: bool = True) -> Table:
    """Read the archive ZipFiles295Samples.zip: six tables of the same probes, some fifty samples each.

    Each table has a line of samples' names, a line of headings (Substance, Gene, then five columns for each
    sample) and one probe per line. The log ratios are read.

    Parameters
    ----------
    path : str or path-like
        The archive, as published.
    collapse : bool, default True
        Make probes into genes; if not, the variables are the probes.

    Returns
    -------
    Table
        Samples × genes, log10 ratios to a pool of all tumours; a missing one is NaN.

    Raises
    ------
    TableError
        The archive is cut off, holds no such table, or tables of different probes; the table and its line are named.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if _is_table(name))
            if not names:
                raise TableError(path, f"the archive holds no table of samples, but {format_names(archive.namelist())}")
            parts = [_read(Path(path, name), archive.read(name).decode("latin-1")) for name in names]
    except FileNotFoundError:
        raise TableError(path, "there is no such file") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise TableError(path, f"this is not a whole zip archive: {error}") from error
    (first, genes), *others = parts
    for name, (table, _) in zip(names[1:], others, strict=True):
        if table.feature_names != first.feature_names:
            raise TableError(Path(path, name), f"its probes are not those of {names[0]}")
    X = np.vstack([table.X for table, _ in parts])
    samples = tuple(sample for table, _ in parts for sample in table.sample_names or ())
    whole = Table(X, first.feature_names, samples)
    return collapse_probes(whole, genes) if collapse else whole


def _is_table(name: str) -> bool:
    file = PurePosixPath(name)
    return file.suffix.lower() == ".txt" and "nki" in file.stem.lower()


def _read(path: Path, text: str) -> tuple[Table, dict[str, str]]:
    """Return one table of the archive, and the gene of each of its probes."""
    rows = split_tabbed_rows(io.StringIO(text))
    (_, samples), (line, headings) = next(rows, (0, [""])), next(rows, (0, [""]))
    columns = [at for at, name in enumerate(samples) if at > 1 and name]
    expected = ["substance", "gene"]
    if [heading.casefold() for heading in headings[:2]] != expected or not columns:
        seen = f"line {line} begins with {format_names(headings[:2])}" if line else "it has fewer than two lines"
        raise TableError(path, f"this is no table of the 295 tumours: {seen} in place of Substance, Gene")
    genes = dict[str, str]()
    log_ratios = _log_ratios(path, rows, samples, columns, genes)
    table = build_table_from_rows(TableFile(path, index_col=0, header=True), log_ratios)
    return table.transpose(), genes


def _log_ratios(
    path: Path, rows: Iterator[NumberedRow], samples: list[str], columns: list[int], genes: dict[str, str]
) -> Iterator[NumberedRow]:
    """Yield a header, then the log ratios of each probe; add the gene of the probe to `genes`."""
    yield 1, ["", *(samples[at] for at in columns)]
    for line, cells in rows:
        if not any(cells):
            continue
        if len(cells) < columns[-1] + _PER_SAMPLE:
            raise TableError(path, f"line {line} has {len(cells)} cells where {columns[-1] + _PER_SAMPLE} are expected")
        if cells[1]:
            genes[cells[0]] = cells[1]
        yield line, [cells[0], *(cells[at] for at in columns)]
