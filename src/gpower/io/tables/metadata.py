"""Tables of what is known of the samples: words and numbers, a row for each, put into the order of the data."""

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gpower._utils.text import format_names, make_names_unique
from gpower._utils.warnings import warn
from gpower.io.tables.delimited import split_table_rows
from gpower.io.tables.errors import TableError
from gpower.io.tables.table import TableFile
from gpower.io.tables.text_file import open_text


def read_metadata(
    path: str | PathLike[str], n_samples: int, sample_names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    r"""The columns of a text file by their headings, a value for each sample; empty where a sample has none.

    Rows are put into the order of the samples by a column that names them, the one that names the most. Where none
    does, as many rows as there are samples are taken in their order.

    Parameters
    ----------
    path : str or path-like
        A text file with a line of headings: ``.csv``, ``.tsv`` or ``.txt``, also gzipped.
    n_samples : int
        Samples of the data.
    sample_names : sequence of str, optional
        Their names.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    TableError
        The file is missing or no table, or its rows cannot be told to be those of the samples.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets import read_metadata
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "samples.csv")
    ...     _ = path.write_text("id,age\nb,50\na,40\nz,1\n")
    ...     read_metadata(path, 2, ["a", "b"])
    {'age': ['40', '50']}
    """
    path = Path(path)
    with open_text(path) as lines:
        rows = [[cell.strip() for cell in cells] for _, cells in split_table_rows(TableFile(path), lines)[1]]
    if len(rows) < 2:
        raise TableError(path, "there is no row below the headings")
    headings = make_names_unique([name or f"column {j}" for j, name in enumerate(rows[0])])
    columns = {name: [row[j] if j < len(row) else "" for row in rows[1:]] for j, name in enumerate(headings)}
    if sample_names is not None:
        wanted = set(map(str, sample_names))
        by = max(columns, key=lambda name: len(wanted.intersection(columns[name])))
        if len(wanted.intersection(columns[by])) > n_samples / 2:
            return _align_to_samples(path, columns, by, sample_names)
        if len(rows) - 1 == n_samples:
            warn(f"No column of {path.name} names the samples of the data; its rows are taken in their order.")
    if len(rows) - 1 != n_samples:
        raise TableError(
            path,
            f"no column names the samples of the data, and there are {len(rows) - 1} rows for {n_samples} samples; "
            "give a row for each, or a column with their names",
        )
    return columns


def _align_to_samples(
    path: Path, columns: dict[str, list[str]], name_column: str, sample_names: Sequence[str]
) -> dict[str, list[str]]:
    """The other columns, in the order of the samples that one of them names."""
    place: dict[str, int] = {}
    for i, name in enumerate(columns[name_column]):
        if name in place and name in sample_names:
            raise TableError(path, f"the sample {name!r} has two rows, {place[name] + 2} and {i + 2}; keep one")
        place[name] = i
    if repeated := [name for name, times in Counter(sample_names).items() if times > 1]:
        warn(f"Several samples of the data are called {format_names(repeated)}; {path.name} tells the same of each.")
    rows = [place.get(str(name)) for name in sample_names]
    without = sum(i is None for i in rows)
    if without:
        warn(f"{path.name} has no row for {without} of {len(rows)} samples; nothing is known of them.")
    return {
        name: ["" if i is None else values[i] for i in rows] for name, values in columns.items() if name != name_column
    }
