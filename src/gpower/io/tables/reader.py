"""Read a table file of any supported format: `read_table`.

A table is samples × variables. Text (CSV, TSV, GCT, series matrices of GEO), NumPy (NPY, NPZ), scipy.sparse (NPZ) and
Matrix Market files need no extra; Parquet and workbooks need the ``io`` extra. A sparse matrix stays sparse.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from scipy import sparse

from gpower._utils.files import FileError, convert_read_errors
from gpower._utils.text import deduplicate
from gpower.io.stores.npy import read_npy
from gpower.io.tables.decompression import DECOMPRESSORS, check_is_file
from gpower.io.tables.delimited import read_delimited
from gpower.io.tables.excel import read_workbook
from gpower.io.tables.gct import read_gct
from gpower.io.tables.geo import is_series_matrix, read_series_matrix
from gpower.io.tables.matrix_market import read_matrix_market
from gpower.io.tables.microarray_probes import collapse_probes, read_probe_genes
from gpower.io.tables.npz import read_npz_table
from gpower.io.tables.parquet import check_complete, read_parquet
from gpower.io.tables.streams import copy_stream_to_disk, is_stream
from gpower.io.tables.table import ColumnSelectors, Table, TableError, TableFile

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
_COMPRESSIBLE_SUFFIXES = (*TEXT_SUFFIXES, ".mtx", ".gct")
_SERIES_MATRIX_KIND = "series matrix of GEO"  # a text file, recognised by its content


def read_table(
    path: str | PathLike[str],
    *,
    index_col: int | str | None = None,
    header: bool | None = None,
    transpose: bool = False,
    key: str | None = None,
    drop: ColumnSelectors = (),
    complete: bool = False,
    platform: str | PathLike[str] | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    skip: int = 0,
    drop_rows: ColumnSelectors = (),
) -> Table:
    r"""Read a table of numbers from a file; the suffix gives the format.

    ==========================================  ===================================================
    ``.csv`` ``.tsv`` ``.tab`` ``.txt``         text; also compressed, ``.csv.gz``, ``.bz2`` or ``.xz``
    ``GSE…_series_matrix.txt``                  series matrix of GEO; also compressed
    ``.gct``                                    GenePattern's genes × samples; also compressed
    ``.parquet`` ``.xlsx``                      need ``pip install "gpower[io]"``
    ``.npy``                                    one array
    ``.npz``                                    named arrays, or a matrix saved by scipy.sparse
    ``.mtx``                                    Matrix Market, dense or sparse; also ``.mtx.gz``
    ==========================================  ===================================================

    In a text file a first line of numbers is data and a first line of words is the header. A first column
    without a heading, or one that holds no number at all, is taken as the samples' names. Empty cells,
    ``NA`` and ``n.d.`` become NaN. Lines that begin with ``#`` above the table are comments. Where semicolons
    separate the cells, decimals may have a comma.

    A text file that begins with GEO's remarks (``!Series_…``) is a series matrix. It is read as samples × probes, and
    probes without any value are left out. GEO stores the submitted values; if they are intensities, their logarithms
    to base 2 are taken, and `Table.notes` says so.

    Parameters
    ----------
    path : str or path-like
        The file, or ``"-"`` for standard input. The format of a stream is recognised by its first bytes.
    index_col : int or str, optional
        The column, counted from 0 or by its heading, that holds the names of the rows. Text, workbooks and Parquet.
    header : bool, optional
        Whether the first line of a text file holds names; by default it does if most of its cells are words.
    transpose : bool, default False
        Whether the file is variables × samples (genes × samples) and has to be transposed.
    key : str, optional
        The array of an ``.npz`` archive to read; needed if it contains several tables and none is called X. The sheet
        of a workbook to read; by default the first.
    drop : sequence of int or str, optional
        Columns of the file to leave out, by position from 0, heading, or pattern such as ``"qc_*"``. Text, workbooks,
        Parquet, and series matrices and GCT, whose columns are the samples.
    complete : bool, default False
        Whether to raise if a number is missing or infinite, with its place. Text, Parquet and series matrices.
    platform : str or path-like, optional
        Annotation of a microarray platform, such as GPL96.annot.gz (see `read_probe_genes`). The variables are then
        probes, and are averaged per gene; probes without a gene, or with several, are left out.
    sep : str, optional
        Separator of the cells of a text file: one character, ``"tab"`` or ``"space"``; by default detected.
    decimal : {",", "."}, optional
        Decimal mark of a text file; by default a point, or a comma if it can mean nothing else.
    skip : int, default 0
        Number of lines above the table of a text file or workbook to skip.
    drop_rows : sequence of int or str, optional
        Rows of a text file, workbook or GCT to leave out, by name, pattern, or position below the header, from 0.

    Returns
    -------
    Table
        The numbers and the names.

    Raises
    ------
    TableError
        The file is missing, empty, truncated, not of the format of its suffix, or not a table of numbers.
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
    file = TableFile(
        path,
        index_col,
        header,
        transpose,
        key,
        drop,
        complete=complete and platform is None,  # some probes of a gene may be missing
        sep={"tab": "\t", "\\t": "\t", "space": " "}.get(sep or "", sep),
        decimal=decimal,
        skip=skip,
        drop_rows=drop_rows,
    )
    _check_reader_options(file)
    try:
        with copy_stream_to_disk(path) as path_on_disk:
            table = _read_table_file(replace(file, path=path_on_disk))
    except FileError as error:
        if isinstance(error, TableError) and not is_stream(path):
            raise
        raise _rename_error_source(path, error) from error
    if platform is not None:
        table = collapse_probes(table, read_probe_genes(platform))
        if complete:
            check_complete(path, table, "fill it in")
    return _deduplicate_feature_names(table)


def _read_table_file(file: TableFile) -> Table:
    """Return the table of a file on disk, samples × variables, in float32 or float64."""
    kind = _detect_file_kind(file.path)
    read, supported_options = _READERS_BY_KIND[kind]
    _check_unused_options(file, kind if kind == _SERIES_MATRIX_KIND else f"{kind} file", supported_options)
    with convert_read_errors(lambda what: TableError(file.path, f"the file cannot be read: {what}")):
        table = read(file)
        return _check_numeric_table(file.path, table.transpose() if file.transpose and kind != ".npz" else table)


def _rename_error_source(path: Path, error: FileError) -> TableError:
    """Return an error about a temporary copy or a store as a `TableError` about the path that the user gave."""
    name = Path("standard input") if str(path) == "-" else path
    if isinstance(error, TableError):
        return type(error)(name, error.reason, **error.options)
    return TableError(name, str(error).removeprefix(str(path)).lstrip(":, ").rstrip("."))


def _check_reader_options(file: TableFile) -> None:
    """Raise if an option has a value that is invalid for any format."""
    if file.sep is not None and len(file.sep) != 1:
        raise TableError(file.path, "{sep} is neither one character nor tab or space", sep=file.sep)
    if file.decimal not in (None, ",", "."):
        raise TableError(file.path, "{decimal} is neither a comma nor a point", decimal=file.decimal)
    if file.skip < 0:
        raise TableError(file.path, "{skip} is not a number of lines", skip=file.skip)


def get_format_suffix(path: Path) -> str:
    """Return the suffix, in lower case, that gives the format of a file; that of the content if it is compressed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.io.tables.reader import get_format_suffix
    >>> get_format_suffix(Path("genes.CSV.gz")), get_format_suffix(Path("genes.npy")), get_format_suffix(Path("genes"))
    ('.csv', '.npy', '')
    """
    *others, last = ["", *map(str.lower, path.suffixes)]
    if is_stream(path):
        return ".txt"  # unless its first bytes say otherwise
    return others[-1] if last in DECOMPRESSORS and others[-1] in _COMPRESSIBLE_SUFFIXES else last


def _detect_file_kind(path: Path) -> str:
    """Return the format of a file, a key of `_READERS_BY_KIND`; raise if there is no reader or the file is empty."""
    suffix = get_format_suffix(path)
    check_is_file(path)
    if suffix not in _READERS_BY_KIND:
        suffixes = [
            *(kind for kind in _READERS_BY_KIND if kind != _SERIES_MATRIX_KIND),
            *(f"{kind}.gz" for kind in _COMPRESSIBLE_SUFFIXES),
        ]
        advice = "; save its sheet as CSV or .xlsx" if suffix in (".xls", ".ods") else ""
        raise TableError(path, f"the suffix {suffix!r} is not one of {', '.join(suffixes)}{advice}")
    if path.stat().st_size == 0:
        raise TableError(path, "the file is empty")
    return _SERIES_MATRIX_KIND if suffix in TEXT_SUFFIXES and is_series_matrix(path) else suffix


def _check_unused_options(file: TableFile, kind_description: str, supported_options: Sequence[str]) -> None:
    """Raise if an option was set that has no effect on this kind of file."""
    defaults = vars(TableFile(file.path))
    for option, value in vars(file).items():
        if value != defaults[option] and option not in (*supported_options, "complete"):
            raise TableError(
                file.path, f"{{{option}}} has no meaning for a {kind_description}; leave it out", **{option: value}
            )


def _check_numeric_table(path: Path, table: Table) -> Table:
    """Return the table in float32 or float64; raise if it is empty, or not a matrix of real numbers."""
    X = table.X
    if X.ndim != 2:
        raise TableError(path, f"a table has two dimensions, but this array has {X.ndim} (shape {X.shape})")
    if X.dtype.kind not in "fiub":
        raise TableError(path, f"a table holds real numbers, but this array holds {X.dtype.name}")
    n_samples, n_features = X.shape
    if n_samples == 0 or n_features == 0:
        missing = "samples (rows)" if n_samples == 0 else "variables (columns)"
        raise TableError(path, f"the table has no {missing}: its shape is {n_samples} × {n_features}")
    if sparse.issparse(X) and X.format not in ("csr", "csc"):
        X = sparse.csr_array(X)
    return replace(table, X=X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))


def _deduplicate_feature_names(table: Table) -> Table:
    """Return the table with unique names of the variables, and a note if names were repeated."""
    if table.feature_names is None:
        return table
    names, notes = deduplicate(table.feature_names)
    return replace(table, feature_names=names, notes=(*table.notes, *notes))


_ROW_TABLE_OPTIONS = ("index_col", "header", "drop", "drop_rows", "transpose")
# Reader of each kind of file, and the options that it supports.
_READERS_BY_KIND: dict[str, tuple[Callable[[TableFile], Table], tuple[str, ...]]] = {
    **dict.fromkeys(TEXT_SUFFIXES, (read_delimited, (*_ROW_TABLE_OPTIONS, "sep", "decimal", "skip"))),
    ".xlsx": (read_workbook, (*_ROW_TABLE_OPTIONS, "key", "skip")),
    ".gct": (read_gct, ("drop", "drop_rows")),
    ".parquet": (read_parquet, ("index_col", "drop", "transpose")),
    ".npy": (lambda file: Table(read_npy(file.path)), ("transpose",)),
    ".npz": (read_npz_table, ("key", "transpose")),
    ".mtx": (read_matrix_market, ("transpose",)),
    _SERIES_MATRIX_KIND: (read_series_matrix, ("drop",)),
}
