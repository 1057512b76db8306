"""What the command line says about a table that may be something other than it was read as."""

import math
import re
import shlex
import warnings
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from gpower._utils.arrays import Array
from gpower._utils.text import format_names, quote
from gpower.io.tables.reader import TEXT_SUFFIXES, get_format_suffix
from gpower.io.tables.table import Names, Table, TableFile
from gpower.validation.covariance import detect_matrix_kind

_MIN_HINT_ROWS = 5  # rows in which distinct integers may well be chance
_MAX_HINT_ROWS = 1000  # rows that are looked at
_DOMINANT_VARIANCE_SHARE = 0.95  # of the variance
_GENE_NAME_PATTERN = re.compile(r"ENS[A-Z]*[GTP]\d{6,}(\.\d+)?|\w+_at|ILMN_\d+|A_\d+_P\d+|cg\d{6,}|rs\d{4,}|hsa-\w+-.+")
_SAMPLE_NAME_PATTERN = re.compile(
    r"GSM\d+.*|TCGA[-.].*|[ESD]RR\d+.*|s\d+|(sample|patient|subject|donor)[ _.-]?\w*", re.IGNORECASE
)
_ID_HEADING_PATTERN = re.compile(
    r"(.*[\W_])?(entrez|gene|sample|probe|patient|subject|cell|row)?"
    r"(ids?|index|idx|entrez|genes?|samples?|probes?|patients?|subjects?|cells?|rows?|barcodes?|accession|number|nr)",
    re.IGNORECASE,
)


def format_flag(option: str, value: object) -> str:
    """An option of `read_table` as one types it.

    Examples
    --------
    >>> from gpower.cli.hints import format_flag
    >>> format_flag("index_col", "gene id"), format_flag("drop", ["a", "b"]), format_flag("header", False)
    ("--index-col 'gene id'", '--drop a,b', '--no-header')
    """
    flag = option.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"--{flag} {shlex.quote(text)}"


def find_table_hints(file: TableFile, table: Table, *, covariance: bool = False, scale: bool = False) -> Iterator[str]:
    """What the reader of a file noted, names that were read as numbers, correlations read as samples, and what helps.

    Each is a sentence without its full stop.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from gpower.datasets import Table
    >>> from gpower.cli.hints import find_table_hints
    >>> from gpower.io.tables.table import TableFile
    >>> table = Table(np.array([[672, 0.1], [675, 0.7]]), ("entrez", "s1"))
    >>> list(find_table_hints(TableFile(Path("genes.csv")), table))
    ["column 'entrez' looks like row names; if it is, add --index-col entrez"]
    """
    X, columns, rows = table.X, table.feature_names, table.sample_names
    yield from table.notes
    if sparse.issparse(X):
        return
    if file.transpose:  # back to how the file lies
        X, columns, rows = X.T, rows, columns
    suffix, unnamed = get_format_suffix(file.path), file.index_col is None
    numbered = (
        suffix in (*TEXT_SUFFIXES, ".parquet")
        and unnamed
        and columns
        and _are_row_names(X[:_MAX_HINT_ROWS], columns[0])
    )
    if numbered and columns:
        name = columns[0]
        flag = format_flag("index_col", 0 if name.isdecimal() else name)
        if rows is None:
            yield f"column {quote(name)} looks like row names; if it is, add {flag}"
        else:
            flag = format_flag("drop", name)
            yield f"column {quote(name)} looks like numbers of the rows, no measurement; if so, add {flag}"
    if suffix in TEXT_SUFFIXES and unnamed and rows and _are_measurements(rows):
        yield (
            f"the first cell of each line was taken for its name, and these are numbers ({format_names(rows)}); if "
            "they are measurements, the lines have a cell more than the header: write thousands without a separator"
        )
    if (
        suffix in TEXT_SUFFIXES
        and file.header is None
        and columns is None
        and _are_column_names(X[0], X[1:_MAX_HINT_ROWS])
    ):
        shown = ", ".join(f"{number:.0f}" for number in X[0, :3]) + (", …" if X.shape[1] > 3 else "")
        yield f"the first row ({shown}) looks like a header; if it is, add --header"
    if not covariance and not file.transpose and _are_axes_swapped(columns, rows):
        yield "the rows look like variables and the columns like samples; if so, add --transpose"
    if not (covariance or scale or numbered) and (largest := _find_dominant_variable(table.X[:_MAX_HINT_ROWS])):
        j, share = largest
        which = quote(table.feature_names[j]) if table.feature_names else str(j + 1)
        yield f"variable {which} has {share:.0%} of the variance; if units differ between variables, add --scale"
    if not covariance and (kind := detect_matrix_kind(X, columns is not None and columns == rows)):
        yield f"the table looks like a {kind} matrix; if it is, add --covariance"


def _are_distinct_integers(values: Array) -> bool:
    """Whether the values are distinct integers."""
    return bool(np.all(values == np.round(values))) and len(np.unique(values)) == len(values)


def _are_measurements(names: Names) -> bool:
    """Whether names of rows are numbers that do not number them."""
    try:
        return not _are_distinct_integers(np.array(names, float))
    except ValueError:
        return False


def _are_row_names(X: Array, heading: str) -> bool:
    """Whether the first column numbers the rows, under a telling heading or beside decimals."""
    if min(X.shape) < 2 or not _are_distinct_integers(X[:, 0]):
        return False
    beside_decimals = len(X) >= _MIN_HINT_ROWS and np.any(X[:, 1:] != np.round(X[:, 1:]))
    return bool(beside_decimals or _ID_HEADING_PATTERN.fullmatch(heading))


def _are_column_names(first: Array, rest: Array) -> bool:
    """Whether the first row numbers the columns, and grows above decimals or is far from all below it."""
    if min(rest.shape) < 2 or not _are_distinct_integers(first):
        return False
    mostly_decimals = np.mean(rest != np.round(rest)) > 0.5
    return bool((mostly_decimals and np.all(np.diff(first) > 0)) or np.abs(first).min() > 2 * np.abs(rest).max())


def _are_axes_swapped(columns: Names | None, rows: Names | None) -> bool:
    """Whether most rows are called as genes are, or most columns as samples are, and not the other way round."""

    def like(names: Names | None, pattern: re.Pattern[str]) -> bool:
        some = (names or ())[:_MAX_HINT_ROWS]
        return len(some) >= _MIN_HINT_ROWS and 2 * sum(bool(pattern.fullmatch(name)) for name in some) > len(some)

    genes_below = like(rows, _GENE_NAME_PATTERN) and not like(columns, _GENE_NAME_PATTERN)
    return genes_below or (like(columns, _SAMPLE_NAME_PATTERN) and not like(rows, _SAMPLE_NAME_PATTERN))


def _find_dominant_variable(X: Array) -> tuple[int, float] | None:
    """The variable with nearly all of the variance, and its share; None where there is no such one."""
    if X.shape[0] < _MIN_HINT_ROWS or X.shape[1] < 3:
        return None
    finite = np.where(np.isfinite(X), X, np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a variable without a number
        variances = np.nan_to_num(np.nanvar(finite, axis=0))
    largest, total = int(np.argmax(variances)), float(variances.sum())
    share = float(variances[largest]) / total if 0 < total < math.inf else 0.0
    return (largest, share) if share > _DOMINANT_VARIANCE_SHARE else None
