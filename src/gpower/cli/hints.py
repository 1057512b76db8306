"""Hints for the command line that a table may have been misread."""

import re
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from gpower._utils.arrays import Array
from gpower._utils.text import format_names, quote
from gpower.cli.shared_flags import format_flag
from gpower.estimators.fit_summary import MAX_FOREIGN_SHARE, MIN_COMPARED_COLUMNS, find_large_scales
from gpower.io.tables.metadata import ID_HEADING_PATTERN
from gpower.io.tables.reader import TEXT_SUFFIXES, get_format_suffix
from gpower.io.tables.table import Names, Table, TableFile
from gpower.validation.covariance import detect_matrix_kind

_MIN_HINT_ROWS = 5  # in fewer rows distinct integers may be chance
_MAX_HINT_ROWS = 1000  # rows or names that are examined
_MAX_HINT_CELLS = 4_000_000  # cells that are examined, which limits the memory of copies
_MAX_CODES = 10  # different whole numbers of a column of codes, such as a stage
_GENE_NAME_PATTERN = re.compile(r"ENS[A-Z]*[GTP]\d{6,}(\.\d+)?|\w+_at|ILMN_\d+|A_\d+_P\d+|cg\d{6,}|rs\d{4,}|hsa-\w+-.+")
#: Genes that nearly every expression table contains; other gene symbols may look like names of samples.
_COMMON_GENES = {
    *("ACTB", "B2M", "CCNB1", "CD3D", "CD4", "CD44", "CD74", "CD79A", "CDH1", "COL1A1", "COL3A1", "CXCL10", "EGFR"),
    *("ERBB2", "ESR1", "FN1", "FOS", "GAPDH", "GZMB", "IL6", "JUN", "KRT14", "KRT18", "KRT19", "KRT5", "MKI67", "MYC"),
    *("PTEN", "S100A8", "S100A9", "STAT1", "TOP2A", "TP53", "VEGFA", "VIM"),
}
_MIN_COMMON_GENES = 3
_SAMPLE_NAME_PATTERN = re.compile(
    r"GSM\d+.*|TCGA[-.].*|[ESD]RR\d+.*|s\d+|(sample|patient|subject|donor)[ _.-]?\w*", re.IGNORECASE
)
_CLINICAL_NAME_PATTERN = re.compile(
    r"(.*[\W_])?(age|size|sex|gender|stage|grade|status|event|time|days|months|survival|os|rfs|dfs|batch|bmi|weight"
    r"|height|dose|treatment|response|outcome|label|class|group|target)([\W_].*)?",
    re.IGNORECASE,
)


def find_table_hints(file: TableFile, table: Table, *, covariance: bool = False) -> Iterator[str]:
    """Yield the notes of the reader, and hints at names read as numbers, swapped axes, clinical data and covariances.

    Each is a sentence without its full stop that names the flag to add.

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
    if file.transpose:  # as in the file
        X, columns, rows = X.T, rows, columns
    suffix, no_index_col = get_format_suffix(file.path), file.index_col is None
    is_text = suffix in TEXT_SUFFIXES
    first = columns[:1] if columns and no_index_col and (is_text or suffix == ".parquet") else ()
    row_names = [name for name in first if _are_row_names(_take_rows(X), name)]
    for name in row_names:
        if rows is None:
            kind, flag = "row names", format_flag("index_col", 0 if name.isdecimal() else name)
        else:
            kind, flag = "row numbers, not a measurement", format_flag("drop", name)
        yield f"column {quote(name)} looks like {kind}; if it is, add {flag}"
    if is_text and no_index_col and rows and _are_measurements(rows):
        yield (
            f"the first cell of each line was taken for its name, and these are numbers ({format_names(rows)}); if "
            "they are measurements, the lines have one cell more than the header: write thousands without a separator"
        )
    if is_text and file.header is None and columns is None and _are_column_names(X[0], _take_rows(X)[1:]):
        shown = ", ".join(f"{number:.0f}" for number in X[0, :3]) + (", …" if X.shape[1] > 3 else "")
        yield f"the first row ({shown}) looks like a header; if it is, add --header"
    if not covariance and not file.transpose and _are_axes_swapped(columns, rows):
        yield "the rows look like variables and the columns like samples; if so, add --transpose"
    if not (covariance or row_names) and table.feature_names:
        odd = _find_odd_variables(_take_rows(table.X), table.feature_names)
        if odd:
            drop = format_flag("drop_rows" if file.transpose else "drop", odd)
            differ = f"{format_names(odd)} {'differs' if len(odd) == 1 else 'differ'}"
            yield f"{differ} from the other variables in scale, kind of values or name; if not wanted, add {drop}"
    if not covariance and (kind := detect_matrix_kind(X, columns is not None and columns == rows)):
        yield f"the table looks like a {kind} matrix; if it is, add --covariance"


def _take_rows(X: Array) -> Array:
    """Return the rows that are examined, few enough that a copy of them takes little memory."""
    return X[: min(_MAX_HINT_ROWS, max(_MIN_HINT_ROWS, _MAX_HINT_CELLS // max(1, X.shape[1])))]


def _are_distinct_integers(values: Array) -> bool:
    """Return whether the values are distinct integers."""
    return bool(np.all(values == np.round(values))) and len(np.unique(values)) == len(values)


def _are_measurements(names: Names) -> bool:
    """Return whether the names of rows are numbers other than distinct integers."""
    try:
        return not _are_distinct_integers(np.array(names, float))
    except ValueError:
        return False


def _are_row_names(X: Array, heading: str) -> bool:
    """Return whether the first column is distinct integers, headed like an identifier or followed by decimals."""
    if min(X.shape) < 2 or not _are_distinct_integers(X[:, 0]):
        return False
    is_followed_by_decimals = len(X) >= _MIN_HINT_ROWS and np.any(X[:, 1:] != np.round(X[:, 1:]))
    return bool(is_followed_by_decimals or ID_HEADING_PATTERN.fullmatch(heading))


def _are_column_names(first: Array, rest: Array) -> bool:
    """Return whether the first row is distinct integers, increasing above decimals or larger than all below."""
    if min(rest.shape) < 2 or not _are_distinct_integers(first):
        return False
    mostly_decimals = np.mean(rest != np.round(rest)) > 0.5
    return bool((mostly_decimals and np.all(np.diff(first) > 0)) or np.abs(first).min() > 2 * np.abs(rest).max())


def _are_axes_swapped(columns: Names | None, rows: Names | None) -> bool:
    """Return whether most row names look like genes, or most column names like samples, but not both axes."""

    def mostly_match(names: Names | None, pattern: re.Pattern[str]) -> bool:
        first = (names or ())[:_MAX_HINT_ROWS]
        return len(first) >= _MIN_HINT_ROWS and 2 * sum(bool(pattern.fullmatch(name)) for name in first) > len(first)

    def are_genes(names: Names | None) -> bool:
        n_common = len(_COMMON_GENES.intersection(map(str.upper, names or ())))
        return n_common >= _MIN_COMMON_GENES or mostly_match(names, _GENE_NAME_PATTERN)

    rows_are_genes = are_genes(rows) and not are_genes(columns)
    columns_are_samples = mostly_match(columns, _SAMPLE_NAME_PATTERN)
    return rows_are_genes or (columns_are_samples and not mostly_match(rows, _SAMPLE_NAME_PATTERN))


def _find_odd_variables(X: Array, names: Names) -> list[str]:
    """Return the names of the few variables unlike the rest, those of far larger scale first.

    The others are codes among decimals, or called like clinical data. The list is empty if the table has few columns,
    or columns of mixed kinds.
    """
    if X.shape[0] < _MIN_HINT_ROWS or X.shape[1] < MIN_COMPARED_COLUMNS:
        return []
    known = np.ma.masked_invalid(X)
    with np.errstate(over="ignore"):
        spread = np.nan_to_num(known.std(axis=0).filled(0), posinf=0)
    is_code = np.all(known == np.round(known), axis=0).filled(False)
    for j in np.flatnonzero(is_code):
        is_code[j] = 2 <= len(np.unique(known[:, j].compressed())) <= _MAX_CODES
    by_scale, _, are_foreign = find_large_scales(spread)
    is_clinical = np.array([bool(_CLINICAL_NAME_PATTERN.fullmatch(name)) for name in names])
    max_odd = min(20, max(3, int(MAX_FOREIGN_SHARE * len(names))))
    by_kind = set[int]().union(
        *(np.flatnonzero(each).tolist() for each in (is_code, is_clinical) if np.sum(each) <= max_odd)
    )
    return [names[j] for j in dict.fromkeys([*(by_scale.tolist() if are_foreign else []), *sorted(by_kind)])]
