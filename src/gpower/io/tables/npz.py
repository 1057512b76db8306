"""Read NumPy archives, .npz: one table among several arrays, or a matrix saved by scipy.sparse."""

from collections.abc import Mapping
from pathlib import Path

from scipy import sparse

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.text import format_names, quote
from gpower.io.stores.matrix_source import decode_text, describe_excessive_shape
from gpower.io.stores.npy import read_npz
from gpower.io.tables.table import Matrix, Names, Table, TableError, TableFile

# Keys under which an archive may store the names of its variables and of its samples, most specific first.
_FEATURE_KEYS = ("feature_names", "features", "genes", "variables", "columns")
_SAMPLE_KEYS = ("sample_names", "samples", "cells", "rows", "index")


def read_npz_table(file: TableFile) -> Table:
    """Return the table of an archive, with the names stored in other arrays of the archive.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from gpower.io.tables.npz import read_npz_table
    >>> from gpower.io.tables.table import TableFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.npz")
    ...     np.savez(path, X=np.eye(2), genes=["a", "b"])
    ...     read_npz_table(TableFile(path)).feature_names
    ('a', 'b')
    """
    path, arrays = file.path, read_npz(file.path)
    if file.key is None and {"format", "shape"} <= set(arrays):
        with convert_read_errors(lambda what: TableError(path, f"this is not a sparse matrix of SciPy: {what}")):
            X = _build_sparse_matrix(arrays)
            X = X.T if file.transpose else X
        reason = describe_excessive_shape(X.shape, lambda: sum(array.nbytes for array in arrays.values()))
        if reason is not None:
            raise TableError(path, reason)
        return Table(X)
    if file.key is None and {"header", "components_"} <= set(arrays):
        problem = "this is a model that gpower saved, not a table"
        raise TableError(path, f"{problem}: GPower.load reads it, and commands need its table after it")
    X = _choose_array(path, arrays, file.key)
    X = X.T if file.transpose and X.ndim == 2 else X
    # The key says whether names are those of variables or of samples, so they are not exchanged by a transposition.
    n_samples, n_features = X.shape if X.ndim == 2 else (0, 0)
    return Table(X, _find_names(arrays, _FEATURE_KEYS, n_features), _find_names(arrays, _SAMPLE_KEYS, n_samples))


def _build_sparse_matrix(arrays: Mapping[str, Array]) -> Matrix:
    """Return a matrix saved by scipy.sparse.save_npz; raise if an index lies outside its shape, which would crash."""
    kind = decode_text(arrays["format"].item())
    rows, columns = (int(length) for length in arrays["shape"])
    data, shape = arrays["data"], (rows, columns)
    if min(shape) < 0 or data.dtype.kind not in "fiub":
        raise ValueError(f"{rows} × {columns} of {data.dtype}")
    if kind == "coo":
        return sparse.coo_array((data, (arrays["row"], arrays["col"])), shape=shape)  # it checks the indices
    if kind == "dia" and data.ndim == 2 and data.shape[1] <= columns and arrays["offsets"].dtype.kind in "iu":
        return sparse.dia_array((data, arrays["offsets"]), shape=shape)
    if kind not in ("csr", "csc", "bsr"):
        raise ValueError(f"its format is {quote(kind)}")
    X = getattr(sparse, f"{kind}_array")((data, arrays["indices"], arrays["indptr"]), shape=shape)
    X.check_format(full_check=True)
    return X


def _choose_array(path: Path, arrays: Mapping[str, Array], key: str | None) -> Array:
    """Return the array called `key`; without a key X, or the only two-dimensional array."""
    if key is None:
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if "X" not in tables and len(tables) != 1:
            content = f"{len(tables)} tables ({format_names(tables)})" if tables else "no table"
            raise TableError(path, f"the archive holds {content}; call one of them X, or choose one by its key")
        key = "X" if "X" in tables else tables[0]
    if key not in arrays:
        raise TableError(path, f"there is no array {quote(key)}; there are {format_names(list(arrays)) or 'none'}")
    return arrays[key]


def _find_names(arrays: Mapping[str, Array], keys: Names, length: int) -> Names | None:
    """Return the names in the first array under one of `keys` whose shape is (length,); None if there is none."""
    candidates = (arrays[key] for key in keys if key in arrays and arrays[key].shape == (length,))
    return next((tuple(map(decode_text, names)) for names in candidates), None)
