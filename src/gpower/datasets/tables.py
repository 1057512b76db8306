"""The one reader of users' tables: a file in, numbers and names out.

A table is samples × variables. Text (CSV, TSV), NumPy (NPY, NPZ), scipy.sparse (NPZ) and Matrix Market
files need nothing beyond the core; Parquet needs pandas and pyarrow, the ``io`` extra, which enter the
package through this file only. A sparse matrix stays sparse.
"""

import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from gpower.datasets.delimited import listed, read_delimited, unique_names
from gpower.datasets.errors import TableError

__all__ = ["Table", "TableError", "read_table"]

TEXT = (".csv", ".tsv", ".tab", ".txt")
_COMPRESSIBLE = (*TEXT, ".mtx")
_SUFFIXES = (*TEXT, ".parquet", ".npy", ".npz", ".mtx")

# What an .npz archive may call the names of its variables and of its samples, most telling first.
_FEATURE_KEYS = ("feature_names", "features", "genes", "variables", "columns")
_SAMPLE_KEYS = ("sample_names", "samples", "cells", "rows", "index")


@dataclass(frozen=True)
class Table:
    """A table of numbers, samples × variables, with the names found beside them.

    Attributes
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_samples, n_features)
        float32 or float64; a missing cell is NaN.
    feature_names, sample_names : tuple of str, or None
        None where the file gives no names. Names of variables are unique: a repeated one gets .1, .2, ….
    repeated_names : tuple of str
        Names that the file gives to several variables.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.datasets import Table
    >>> Table(np.eye(2), feature_names=("height", "weight")).feature_names
    ('height', 'weight')
    """

    X: Any
    feature_names: tuple[str, ...] | None = None
    sample_names: tuple[str, ...] | None = None
    repeated_names: tuple[str, ...] = field(default=(), repr=False, kw_only=True)

    def labelled(self) -> Any:
        """The numbers with their variables' names attached: a pandas DataFrame sharing the memory of `X`.

        Plain `X` where there are no names, where `X` is sparse, or where pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower.datasets import Table
        >>> Table(np.eye(2)).labelled()
        array([[1., 0.],
               [0., 1.]])
        """
        if self.feature_names is None or not isinstance(self.X, np.ndarray):
            return self.X
        try:
            import pandas as pd
        except ImportError:
            return self.X
        return pd.DataFrame(self.X, columns=list(self.feature_names), copy=False)


def read_table(
    path: str | PathLike[str],
    *,
    index_col: int | str | None = None,
    header: bool | None = None,
    transpose: bool = False,
    key: str | None = None,
    drop: Sequence[int | str] = (),
    complete: bool = False,
) -> Table:
    r"""Read a table of numbers from a file, whose kind its suffix tells.

    ==========================================  ===================================================
    ``.csv`` ``.tsv`` ``.tab`` ``.txt``         text; also gzipped, ``.csv.gz``
    ``.parquet``                                needs ``pip install "gpower[io]"``
    ``.npy``                                    one array
    ``.npz``                                    arrays by name, or a matrix saved by scipy.sparse
    ``.mtx``                                    Matrix Market, dense or sparse; also ``.mtx.gz``
    ==========================================  ===================================================

    In a text file a first line of numbers is data and a first line of words is the header. A first column
    without a heading, or one that holds no number at all, is taken as the samples' names. Empty cells and
    ``NA`` become NaN. Lines that begin with ``#`` above the table are comments. Where semicolons separate the
    cells, decimals may have a comma.

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
        Columns of the file to leave out, each counted from 0 or by its heading. Text and Parquet.
    complete : bool, default False
        Refuse a table with a missing or infinite number, and say where it is. Text and Parquet.

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
    suffix = _kind(path)
    _refuse_unused(path, suffix, index_col=index_col, header=header, key=key, drop=drop or None)
    try:
        if suffix in TEXT:
            X, columns, rows = read_delimited(path, index_col=index_col, header=header, drop=drop, complete=complete)
            table = Table(X, columns, rows)
        elif suffix == ".parquet":
            table = _read_parquet(path, index_col, drop, complete)
        elif suffix == ".npz":
            return _checked(path, _read_npz(path, key, transpose))
        else:
            table = Table(_read_npy(path) if suffix == ".npy" else _read_matrix_market(path))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        # gzip and zip report damage in several ways; all of them mean the same to the reader.
        raise TableError(path, f"the file cannot be read: {_first_line(error)}") from error
    return _checked(path, _transposed(table) if transpose else table)


def _kind(path: Path) -> str:
    """The suffix that tells how to read `path`, once it is known to be a file with something in it."""
    suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    compressed = suffixes[-1] == ".gz" and len(suffixes) > 1 and suffixes[-2] in _COMPRESSIBLE
    suffix = suffixes[-2] if compressed else suffixes[-1]
    if path.is_dir():
        raise TableError(path, "this is a folder; a table is one file")
    if not path.exists():
        raise TableError(path, "there is no such file")
    if suffix not in _SUFFIXES:
        known = ", ".join([*_SUFFIXES, *(f"{known}.gz" for known in _COMPRESSIBLE)])
        advice = "; save its sheet as CSV" if suffix in (".xlsx", ".xls", ".ods") else ""
        raise TableError(path, f"the suffix {suffix!r} is not one of {known}{advice}")
    if path.stat().st_size == 0:
        raise TableError(path, "the file is empty")
    return suffix


def _refuse_unused(path: Path, suffix: str, **options: Any) -> None:
    """Refuse an option that this kind of file would ignore."""
    named = (*TEXT, ".parquet")
    readers = {"index_col": named, "drop": named, "header": TEXT, "key": (".npz",)}
    for option, value in options.items():
        if value is not None and suffix not in readers[option]:
            reason = f"{{{option}}} has no meaning for a {suffix} file; leave it out"
            raise TableError(path, reason, **{option: value})


def _transposed(table: Table) -> Table:
    return Table(table.X.T, feature_names=table.sample_names, sample_names=table.feature_names)


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
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    names = table.feature_names
    repeated = tuple(name for name, times in Counter(names or ()).items() if times > 1)
    names = tuple(unique_names(names)) if names and repeated else names
    return replace(table, X=X, feature_names=names, repeated_names=repeated)


def _read_npy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        raise TableError(path, f"this is not a whole .npy file of numbers: {_first_line(error)}") from error


def _read_matrix_market(path: Path) -> Any:
    try:
        return scipy_io.mmread(path, spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise TableError(path, f"this is not a whole Matrix Market file: {_first_line(error)}") from error


def _read_npz(path: Path, key: str | None, transpose: bool) -> Table:
    if not zipfile.is_zipfile(path):
        raise TableError(path, "this is not an .npz archive, or it is truncated")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "format" in archive and "shape" in archive and key is None:
                X = sparse.load_npz(path)
                return Table(X.T if transpose else X)
            if {"header", "components_"} <= set(archive.files) and key is None:
                raise TableError(path, "this is a model that gpower saved, not a table; GPower.load reads it")
            arrays = {name: archive[name] for name in archive.files}
    except TableError:
        raise
    except ValueError as error:
        raise TableError(path, f"the archive holds something other than numbers: {_first_line(error)}") from error
    X = _choose_array(path, arrays, key)
    X = X.T if transpose and X.ndim == 2 else X
    # In an archive the names say themselves whether they are variables or samples, however the array lies.
    n_samples, n_features = X.shape if X.ndim == 2 else (0, 0)
    return Table(X, _names(arrays, _FEATURE_KEYS, n_features), _names(arrays, _SAMPLE_KEYS, n_samples))


def _choose_array(path: Path, arrays: Mapping[str, Any], key: str | None) -> Any:
    """The array called `key`, or X, or the only two-dimensional one."""
    if key is not None:
        if key not in arrays:
            raise TableError(path, f"there is no array {key!r}; there are {', '.join(arrays) or 'none'}")
        return arrays[key]
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    if "X" in tables:
        return arrays["X"]
    if len(tables) != 1:
        found = f"{len(tables)} tables ({', '.join(tables)})" if tables else "no table"
        raise TableError(path, f"the archive holds {found}; call one of them X, or choose one by its key")
    return arrays[tables[0]]


def _names(arrays: Mapping[str, Any], keys: tuple[str, ...], length: int) -> tuple[str, ...] | None:
    """The first array under one of `keys` that is a list of `length` names."""
    for key in keys:
        if key in arrays and arrays[key].shape == (length,):
            return tuple(str(name) for name in arrays[key])
    return None


def _read_parquet(path: Path, index_col: int | str | None, drop: Sequence[int | str], complete: bool) -> Table:
    try:
        import pandas as pd
        import pyarrow
    except ImportError:
        raise ImportError('Reading a Parquet file needs pandas and pyarrow: pip install "gpower[io]".') from None
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except pyarrow.ArrowException as error:
        raise TableError(path, f"this is not a whole Parquet file: {_first_line(error)}") from error
    dropped = [_heading(path, frame, "drop", column) for column in drop]
    index = None if index_col is None else _heading(path, frame, "index_col", index_col)
    frame = _with_names_as_index(frame.drop(columns=[column for column in dropped if column != index]), index)
    text = [column for column in frame.columns if not pd.api.types.is_numeric_dtype(frame[column].dtype)]
    if text:
        value = frame[text[0]].iloc[0] if len(frame) else frame[text[0]].dtype
        where = f"row 1, column {str(text[0])!r} holds {value!r} where a number belongs"
        raise TableError(path, f"{where}; leave columns of text out with {{drop}}", drop=list(map(str, text)))
    rows = None if isinstance(frame.index, pd.RangeIndex) else tuple(map(str, frame.index))
    single = len(frame.columns) and all(dtype == np.float32 for dtype in frame.dtypes)
    X = frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    if complete and not np.isfinite(X).all():
        i, j = np.argwhere(~np.isfinite(X))[0]
        column = str(frame.columns[j])
        where = f"row {i + 1}, column {column!r} holds {X[i, j]} where a number belongs"
        advice = "fill it in, or leave out the row, or the column with {drop}"
        raise TableError(path, f"{where}; {advice}", drop=[column])
    return Table(X, tuple(map(str, frame.columns)), rows)


def _heading(path: Path, frame: Any, option: str, column: int | str) -> Any:
    """The heading of the column that an option names by its heading or its position."""
    if isinstance(column, int) and 0 <= column < len(frame.columns):
        return frame.columns[column]
    for heading in (column, str(column)):  # headings may be numbers, such as years
        if heading in frame.columns:
            return heading
    found = listed(list(map(str, frame.columns)))
    raise TableError(path, f"{{{option}}} is not one of the columns {found}", **{option: column})


def _with_names_as_index(frame: Any, heading: Any) -> Any:
    """The frame indexed by one column, or by a leading column of text where nothing else names the rows."""
    import pandas as pd

    if heading is not None:
        return frame.set_index(heading)
    unnamed = isinstance(frame.index, pd.RangeIndex) and len(frame.columns) > 1
    leading_text = unnamed and not pd.api.types.is_numeric_dtype(frame.dtypes.iloc[0])
    return frame.set_index(frame.columns[0]) if leading_text else frame


def _first_line(error: BaseException) -> str:
    """What an exception says, on one line and without a full stop."""
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
