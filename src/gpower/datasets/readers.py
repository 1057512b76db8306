"""The one reader of users' tables: a file in, numbers and names out.

A table is samples × variables. Text (CSV, TSV, series matrices of GEO), NumPy (NPY, NPZ), scipy.sparse (NPZ) and Matrix
Market files need nothing beyond the core; Parquet needs pyarrow, the ``io`` extra. A sparse matrix stays sparse.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from scipy import sparse

from gpower.datasets.archives import read_archive
from gpower.datasets.delimited import read_delimited
from gpower.datasets.errors import MissingCell, TableError
from gpower.datasets.geo import is_series_matrix, read_series_matrix
from gpower.datasets.matrix_market import read_matrix_market
from gpower.datasets.probes import collapse_probes, read_probe_genes
from gpower.datasets.table import Columns, Names, Table, TableFile
from gpower.datasets.text import COMPRESSED, require_file
from gpower.files import reading
from gpower.names import listed, quoted, told_apart
from gpower.operators.numpy_files import read_npy
from gpower.operators.parquet import open_parquet
from gpower.operators.streamed import StoreError, read_block

TEXT = (".csv", ".tsv", ".tab", ".txt")
_COMPRESSIBLE = (*TEXT, ".mtx")
_SERIES = "series matrix of GEO"  # a text file, recognised by what is in it


def read_table(
    path: str | PathLike[str],
    *,
    index_col: int | str | None = None,
    header: bool | None = None,
    transpose: bool = False,
    key: str | None = None,
    drop: Columns = (),
    complete: bool = False,
    platform: str | PathLike[str] | None = None,
) -> Table:
    r"""Read a table of numbers from a file, whose kind its suffix tells.

    ==========================================  ===================================================
    ``.csv`` ``.tsv`` ``.tab`` ``.txt``         text; also gzipped, ``.csv.gz``
    ``GSE…_series_matrix.txt``                  series matrix of GEO; also gzipped
    ``.parquet``                                needs ``pip install "gpower[io]"``
    ``.npy``                                    one array
    ``.npz``                                    arrays by name, or a matrix saved by scipy.sparse
    ``.mtx``                                    Matrix Market, dense or sparse; also ``.mtx.gz``
    ==========================================  ===================================================

    In a text file a first line of numbers is data and a first line of words is the header. A first column
    without a heading, or one that holds no number at all, is taken as the samples' names. Empty cells and
    ``NA`` become NaN. Lines that begin with ``#`` above the table are comments. Where semicolons separate the
    cells, decimals may have a comma.

    A text file that begins with GEO's remarks (``!Series_…``) is a series matrix: samples × probes, without probes that
    have no value. GEO keeps what was submitted; where the values are intensities, the logarithms to base 2 are taken,
    and `Table.notes` says so.

    Parameters
    ----------
    path : str or path-like
        The file.
    index_col : int or str, optional
        The column, counted from 0 or by its heading, that holds the names of the rows. Text and Parquet.
    header : bool, optional
        Whether the first line of a text file holds names; by default the line itself decides.
    transpose : bool, default False
        The file is variables × samples (genes × samples): turn it.
    key : str, optional
        Which array of an ``.npz`` archive to read; needed where it holds several tables and none called X.
    drop : sequence of int or str, optional
        Columns of the file to leave out, each counted from 0 or by its heading. Text, Parquet and series matrices,
        whose columns are the samples.
    complete : bool, default False
        Refuse a table with a missing or infinite number, and say where it is. Text, Parquet and series matrices.
    platform : str or path-like, optional
        The variables are probes of a microarray: make them into genes by this annotation of its platform, such as
        GPL96.annot.gz (see `read_probe_genes`). A gene is the mean of its probes; probes without a gene, or with
        several, are left out.

    Returns
    -------
    Table
        The numbers and the names.

    Raises
    ------
    TableError
        The file is missing, empty, truncated, not of its kind, or not a table of numbers.
    ImportError
        The file needs a package that is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,height,weight\nAda,1.7,60\nBob,1.8,\n")
    ...     table = read_table(path)
    >>> table.feature_names, table.sample_names
    (('height', 'weight'), ('Ada', 'Bob'))
    >>> table.X
    array([[ 1.7, 60. ],
           [ 1.8,  nan]])
    """
    path = Path(path)
    kind = _kind(path)
    read, understood = _READERS[kind]
    whole = complete and platform is None  # of several probes of a gene some may be missing
    file = TableFile(path, index_col, header, transpose, key, drop, whole)
    _refuse_unused(file, kind if kind == _SERIES else f"{kind} file", understood)
    try:
        with reading(lambda what: TableError(path, f"the file cannot be read: {what}")):
            table = read(file)
            table = _checked(path, table.transposed() if transpose and kind != ".npz" else table)
    except StoreError as error:
        raise TableError(path, str(error).removeprefix(str(path)).lstrip(":, ").rstrip(".")) from error
    if platform is not None:
        table = collapse_probes(table, read_probe_genes(platform))
        if complete:
            _refuse_missing(path, table, "fill it in")
    return _named_apart(table)


def suffix_of(path: Path) -> str:
    """The suffix that tells how to read a file, that of what is in it where it is gzipped.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.datasets.readers import suffix_of
    >>> suffix_of(Path("genes.CSV.gz")), suffix_of(Path("genes.npy")), suffix_of(Path("genes"))
    ('.csv', '.npy', '')
    """
    *others, last = ["", *map(str.lower, path.suffixes)]
    return others[-1] if last in COMPRESSED and others[-1] in _COMPRESSIBLE else last


def _kind(path: Path) -> str:
    """What `path` is, once it is known to be a file with something in it: its suffix, or a series matrix."""
    suffix = suffix_of(path)
    require_file(path)
    if suffix not in _READERS:
        known = [*(kind for kind in _READERS if kind != _SERIES), *(f"{kind}.gz" for kind in _COMPRESSIBLE)]
        advice = "; save its sheet as CSV" if suffix in (".xlsx", ".xls", ".ods") else ""
        raise TableError(path, f"the suffix {suffix!r} is not one of {', '.join(known)}{advice}")
    if path.stat().st_size == 0:
        raise TableError(path, "the file is empty")
    return _SERIES if suffix in TEXT and is_series_matrix(path) else suffix


def _refuse_unused(file: TableFile, what: str, understood: Sequence[str]) -> None:
    """Refuse an option that this kind of file would ignore."""
    given = {
        "index_col": file.index_col,
        "header": file.header,
        "key": file.key,
        "drop": file.drop or None,
        "transpose": file.transpose or None,
    }
    for option, value in given.items():
        if value is not None and option not in understood:
            raise TableError(file.path, f"{{{option}}} has no meaning for a {what}; leave it out", **{option: value})


def _checked(path: Path, table: Table) -> Table:
    """The table in float32 or float64, once it is known to be one and not to be empty."""
    X = table.X
    if X.ndim != 2:
        raise TableError(path, f"a table has two dimensions and this array has {X.ndim} (shape {X.shape})")
    if X.dtype.kind not in "fiub":
        raise TableError(path, f"a table holds real numbers and this array holds {X.dtype.name}")
    n_samples, n_features = X.shape
    if n_samples == 0 or n_features == 0:
        missing = "samples (rows)" if n_samples == 0 else "variables (columns)"
        raise TableError(path, f"the table has no {missing}: its shape is {n_samples} × {n_features}")
    if sparse.issparse(X) and X.format not in ("csr", "csc"):
        X = sparse.csr_array(X)
    return replace(table, X=X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))


def _named_apart(table: Table) -> Table:
    """The table with a name of its own for every variable."""
    if table.feature_names is None:
        return table
    names, notes = told_apart(table.feature_names)
    return replace(table, feature_names=names, notes=(*table.notes, *notes))


def _refuse_missing(path: Path, table: Table, advice: str) -> None:
    """Refuse a missing or infinite number, and say where the first one is."""
    for i, j in np.argwhere(~np.isfinite(table.X))[:1]:
        value, column = table.X[i, j], (table.feature_names or ())[j]
        where = f"row {i + 1}, column {quoted(column)} holds {value} where a number belongs"
        raise (MissingCell if np.isnan(value) else TableError)(path, f"{where}; {advice}", drop=[column])


def _read_npy(file: TableFile) -> Table:
    return Table(read_npy(file.path))


def _read_parquet(file: TableFile) -> Table:
    path, parquet = file.path, open_parquet(file.path)
    dropped = [_heading(path, parquet.columns, "drop", column) for column in file.drop]
    named = parquet.index
    if file.index_col is not None:
        named = [_heading(path, parquet.columns, "index_col", file.index_col)]
    columns = [name for name in parquet.columns if name not in (*dropped, *named)]
    if not named and len(columns) > 1 and not parquet.holds_numbers(columns[0]):
        named, columns = columns[:1], columns[1:]  # a leading column of text, where nothing else names the rows
    source = parquet.source(columns)
    text = [name for name in columns if not parquet.holds_numbers(name)]
    if text:
        value = parquet.values(text[0])[0] if source.shape[0] else parquet.types[text[0]]
        where = f"row 1, column {quoted(text[0])} holds {quoted(str(value))} where a number belongs"
        raise TableError(path, f"{where}; leave columns of text out with {{drop}}", drop=text)
    rows = _row_names([parquet.values(name) for name in named])
    table = Table(read_block(source, 0, source.shape[0]), source.names, rows)
    if file.complete:
        _refuse_missing(path, table, "fill it in, or leave out the row, or the column with {drop}")
    return table


def _row_names(columns: Sequence[Sequence[object]]) -> Names | None:
    """One name per row: that of the one column, or those of several together."""
    if len(columns) < 2:
        return tuple(map(str, columns[0])) if columns else None
    return tuple(map(str, zip(*columns, strict=True)))


def _heading(path: Path, columns: list[str], option: str, column: int | str) -> str:
    """The heading of the column that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < len(columns):
        return columns[column]
    if str(column) in columns:  # headings may be numbers, such as years
        return str(column)
    raise TableError(path, f"{{{option}}} is not one of the columns {listed(columns)}", **{option: column})


# What reads each kind of file, and the options that mean something to it.
_READERS: dict[str, tuple[Callable[[TableFile], Table], tuple[str, ...]]] = {
    **dict.fromkeys(TEXT, (read_delimited, ("index_col", "header", "drop", "transpose"))),
    ".parquet": (_read_parquet, ("index_col", "drop", "transpose")),
    ".npy": (_read_npy, ("transpose",)),
    ".npz": (read_archive, ("key", "transpose")),
    ".mtx": (read_matrix_market, ("transpose",)),
    _SERIES: (read_series_matrix, ("drop",)),
}
