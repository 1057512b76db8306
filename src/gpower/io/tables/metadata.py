"""Read metadata of the samples: a text table of words and numbers, one row per sample."""

import re
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gpower._utils.messages import format_param
from gpower._utils.text import format_names, is_missing_label, make_names_unique, quote
from gpower._utils.warnings import warn
from gpower.io.tables.delimited import read_text_cells
from gpower.io.tables.table import TableError

#: Heading of a column of identifiers.
ID_HEADING_PATTERN = re.compile(
    r"(.*[\W_])?(entrez|gene|sample|probe|patient|subject|cell|row)?"
    r"(ids?|index|idx|entrez|genes?|samples?|probes?|patients?|subjects?|cells?|rows?|barcodes?|accession|number|nr)",
    re.IGNORECASE,
)


def read_metadata(
    path: str | PathLike[str],
    n_samples: int,
    sample_names: Sequence[str] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    metadata_by_order: bool = False,
) -> dict[str, list[str]]:
    r"""Read a text file into a dictionary from heading to one value per sample; "" if a sample has no value.

    The column that contains the most sample names, more than half of them, assigns the rows to the samples. Samples
    without a row are counted and named in a warning. If neither the data nor the rows have names, the file must have
    one row per sample, in the order of the data. Rows have names if a column has a different word, or under a heading
    such as "id" a different whole number, in each row; numbers 0, 1, 2, … or 1, 2, 3, … in their order are no names.

    Parameters
    ----------
    path : str or path-like
        A text file with a line of headings: ``.csv``, ``.tsv`` or ``.txt``, also compressed.
    n_samples : int
        Number of samples of the data.
    sample_names : sequence of str, optional
        Names of the samples of the data.
    feature_names : sequence of str, optional
        Names of the variables of the data; if they name the rows, the error says that the data are transposed.
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
    name_column = None if metadata_by_order else _find_name_column(columns)
    n_matches = {name: len(set(samples).intersection(values)) for name, values in columns.items()}
    if samples and not metadata_by_order:
        best_column = max(columns, key=n_matches.__getitem__)
        if n_matches[best_column] > n_samples / 2:
            return _align_to_samples(path, columns, best_column, samples)
        name_column = best_column if n_matches[best_column] or name_column is None else name_column
        reason = f"no column names the samples of the data; by {name_column!r}, "
        reason += describe_unmatched_samples(samples, columns[name_column])
        advice = "Correct the names"
    elif name_column is not None:
        shown = format_names(columns[name_column], 3)
        reason = f"column {name_column!r} names the rows ({shown}), but the table has no sample names"
        advice = f"Say which column of the table has them with {format_param('index_col')}"
    if name_column is not None:
        transposition = f"add {format_param('transpose', True)}, or leave it out if it is given"
        cause = explain_unmatched_names(samples, columns[name_column], feature_names or (), transposition)
        by_order = f"if the rows are in the order of the samples, use {format_param('metadata_by_order', True)}"
        raise TableError(path, f"{reason}. {cause or f'{advice}, or, {by_order}'}")
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


def explain_unmatched_names(
    sample_names: Sequence[str], row_names: Sequence[str], feature_names: Sequence[str] = (), transposition: str = ""
) -> str:
    """Return why rows have other names than the samples, and the remedy: axes exchanged, or another spelling; or "".

    `transposition` is the remedy for exchanged axes. Spellings that differ in case, "-", ".", "_" and spaces are alike.

    Examples
    --------
    >>> from gpower.io.tables.metadata import explain_unmatched_names
    >>> explain_unmatched_names(["T01-0145", "T02"], ["t01.0145", "T02"])
    "1 of the names differs only in case, '-', '.', '_' or spaces, as 'T01-0145' and 't01.0145'; write them alike"
    """
    row_of = {_simplify_name(name): name for name in row_names}
    if 2 * len(row_of.keys() & set(map(_simplify_name, feature_names))) > len(row_of):
        return f"The rows name the columns of the table, which must be variables, not samples: {transposition}"
    known = set(row_names)
    pairs = [(name, row_of.get(_simplify_name(name))) for name in sample_names if name not in known]
    alike = [(name, row) for name, row in pairs if row is not None]
    if not alike:
        return ""
    example = " and ".join(map(quote, alike[0]))
    verb = "differs" if len(alike) == 1 else "differ"
    return f"{len(alike)} of the names {verb} only in case, '-', '.', '_' or spaces, as {example}; write them alike"


def _simplify_name(name: str) -> str:
    return re.sub(r"[-._\s]", "", name).casefold()


def _find_name_column(columns: dict[str, list[str]]) -> str | None:
    """Return the first column with a different name in each row: words, or whole numbers that are identifiers."""
    for j, (heading, values) in enumerate(columns.items()):
        if len(set(values)) < len(values) or any(map(is_missing_label, values)):
            continue
        try:
            numbers = [float(value.replace(",", ".")) for value in values]
        except ValueError:
            return heading
        is_counting = any(numbers == [*range(first, first + len(numbers))] for first in (0, 1))
        is_identifier = heading == f"column {j}" or ID_HEADING_PATTERN.fullmatch(heading)
        if is_identifier and not is_counting and all(map(float.is_integer, numbers)):
            return heading
    return None


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
        cause = explain_unmatched_names(sample_names, columns[name_column])
        warn(f"{path.name}: {unmatched}; metadata of those samples are missing. {cause and f'{cause}.'}".strip())
    return {
        name: ["" if i is None else values[i] for i in rows] for name, values in columns.items() if name != name_column
    }
