"""Read metadata of the samples: a text table of words and numbers, one row per sample."""

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gpower._utils.messages import format_param
from gpower._utils.text import format_names, make_names_unique
from gpower._utils.warnings import warn
from gpower.io.tables.delimited import read_text_cells
from gpower.io.tables.table import TableError


def read_metadata(
    path: str | PathLike[str],
    n_samples: int,
    sample_names: Sequence[str] | None = None,
    *,
    metadata_by_order: bool = False,
) -> dict[str, list[str]]:
    r"""Read a text file into a dictionary from heading to one value per sample; "" if a sample has no value.

    The column that contains the most sample names, more than half of them, assigns the rows to the samples. Samples
    without a row are counted and named in a warning. If the data have no sample names, the file must have one row per
    sample, in the order of the data.

    Parameters
    ----------
    path : str or path-like
        A text file with a line of headings: ``.csv``, ``.tsv`` or ``.txt``, also compressed.
    n_samples : int
        Number of samples of the data.
    sample_names : sequence of str, optional
        Names of the samples of the data.
    metadata_by_order : bool, default=False
        Assign the rows to the samples by their order, whatever their names are.

    Returns
    -------
    dict of str to list of str
        Heading → values in the order of the data, without the column that names the samples.

    Raises
    ------
    TableError
        The file is missing or not a table, or its rows cannot be assigned to the samples.

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
    rows = read_text_cells(path)
    if len(rows) < 2:
        raise TableError(path, "there is no row below the headings")
    headings = make_names_unique([name or f"column {j}" for j, name in enumerate(rows[0])])
    columns = {name: [row[j] if j < len(row) else "" for row in rows[1:]] for j, name in enumerate(headings)}
    samples = [] if sample_names is None else list(map(str, sample_names))
    # A column of ranks or positions has the same values as the names of numbered samples.
    are_numbered = any(sorted(samples) == sorted(map(str, range(i, i + len(samples)))) for i in (0, 1))
    for name, values in columns.items():
        if metadata_by_order and not are_numbered and samples != values and sorted(samples) == sorted(values):
            advice = f"leave out {format_param('metadata_by_order', True)} to match them by name"
            raise TableError(path, f"column {name!r} names the samples in another order; {advice}")
    if samples and not metadata_by_order:
        name_column = max(columns, key=lambda name: len(set(samples).intersection(columns[name])))
        if len(set(samples).intersection(columns[name_column])) <= n_samples / 2:
            raise TableError(
                path,
                f"no column names the samples of the data; by {name_column!r}, "
                f"{describe_unmatched_samples(samples, columns[name_column])}. Correct the names, or, if the rows are "
                f"in the order of the samples, use {format_param('metadata_by_order', True)}",
            )
        return _align_to_samples(path, columns, name_column, samples)
    if len(rows) - 1 != n_samples:
        raise TableError(
            path,
            f"there are {len(rows) - 1} rows for {n_samples} samples, matched by order; give a row for each, or names "
            "of the samples in the table and in a column here",
        )
    return columns


def describe_unmatched_samples(sample_names: Sequence[str], row_names: Sequence[str]) -> str:
    """Return how many samples have no row and how many rows no sample, with three names of each.

    Examples
    --------
    >>> from gpower.io.tables.metadata import describe_unmatched_samples
    >>> describe_unmatched_samples(["a", "b"], ["A", "b", "c", "d", "e"])
    '1 of 2 samples have no row (a), and 4 of 5 rows no sample (A, c, d, …)'
    """
    samples, rows = set(sample_names), set(row_names)
    absent = [name for name in sample_names if name not in rows]
    others = [name for name in row_names if name not in samples]
    shown_absent, shown_others = (f" ({format_names(each, 3)})" if each else "" for each in (absent, others))
    return (
        f"{len(absent)} of {len(sample_names)} samples have no row{shown_absent}, "
        f"and {len(others)} of {len(row_names)} rows no sample{shown_others}"
    )


def _align_to_samples(
    path: Path, columns: dict[str, list[str]], name_column: str, sample_names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the other columns with their rows in the order of `sample_names`."""
    row_of: dict[str, int] = {}
    for i, name in enumerate(columns[name_column]):
        if name in row_of and name in sample_names:
            raise TableError(path, f"the sample {name!r} has two rows, {row_of[name] + 2} and {i + 2}; keep one")
        row_of[name] = i
    if repeated := [name for name, times in Counter(sample_names).items() if times > 1]:
        warn(f"Several samples of the data are called {format_names(repeated)}; they get the same row of {path.name}.")
    rows = [row_of.get(name) for name in sample_names]
    if None in rows:
        unmatched = describe_unmatched_samples(sample_names, columns[name_column])
        warn(f"{path.name}: {unmatched}; metadata of those samples are missing.")
    return {
        name: ["" if i is None else values[i] for i in rows] for name, values in columns.items() if name != name_column
    }
