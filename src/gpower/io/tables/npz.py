"""Archives of NumPy, .npz: one table among several arrays, or a matrix saved by scipy.sparse."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.text import format_names, quote
from gpower.io.stores.npy import read_npz
from gpower.io.tables.errors import TableError
from gpower.io.tables.table import Matrix, Names, Table, TableFile

# What an archive may call the names of its variables and of its samples, most telling first.
_FEATURE_KEYS = ("feature_names", "features", "genes", "variables", "columns")
_SAMPLE_KEYS = ("sample_names", "samples", "cells", "rows", "index")
_SPARSE_ARRAY_CLASSES = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}


def read_npz_table(file: TableFile) -> Table:
    """The table of an archive, with the names beside it.

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
    path, any_array = file.path, file.key is None
    arrays = read_npz(path)
    if any_array and {"format", "shape"} <= set(arrays):
        with convert_read_errors(lambda what: TableError(path, f"this is not a sparse matrix of SciPy: {what}")):
            X = _build_sparse_matrix(arrays)
            return Table(X.T if file.transpose else X)
    if any_array and {"header", "components_"} <= set(arrays):
        raise TableError(path, "this is a model that gpower saved, not a table; GPower.load reads it")
    X = _choose_array(path, arrays, file.key)
    X = X.T if file.transpose and X.ndim == 2 else X
    # In an archive the names say themselves whether they are variables or samples, however the array lies.
    n_samples, n_features = X.shape if X.ndim == 2 else (0, 0)
    return Table(X, _find_names(arrays, _FEATURE_KEYS, n_features), _find_names(arrays, _SAMPLE_KEYS, n_samples))


def _build_sparse_matrix(arrays: Mapping[str, Array]) -> Matrix:
    """A matrix as scipy.sparse.save_npz writes it; an index beyond its shape would be memory of something else."""
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else kind
    rows, columns = (int(length) for length in arrays["shape"])
    data, shape = arrays["data"], (rows, columns)
    if min(shape) < 0 or data.dtype.kind not in "fiub":
        raise ValueError(f"{rows} × {columns} of {data.dtype}")
    if kind in _SPARSE_ARRAY_CLASSES:
        X = _SPARSE_ARRAY_CLASSES[kind]((data, arrays["indices"], arrays["indptr"]), shape=shape)
        X.check_format(full_check=True)
        return X
    if kind == "coo":
        return sparse.coo_array((data, (arrays["row"], arrays["col"])), shape=shape)  # which checks its indices
    if kind != "dia" or data.ndim != 2 or data.shape[1] > columns or arrays["offsets"].dtype.kind not in "iu":
        raise ValueError(f"its format is {quote(str(kind))}")
    return sparse.dia_array((data, arrays["offsets"]), shape=shape)


def _choose_array(path: Path, arrays: Mapping[str, Array], key: str | None) -> Array:
    """The array called `key`, or X, or the only two-dimensional one."""
    if key is None:
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if "X" not in tables and len(tables) != 1:
            found = f"{len(tables)} tables ({format_names(tables)})" if tables else "no table"
            raise TableError(path, f"the archive holds {found}; call one of them X, or choose one by its key")
        key = "X" if "X" in tables else tables[0]
    if key not in arrays:
        raise TableError(path, f"there is no array {quote(key)}; there are {format_names(list(arrays)) or 'none'}")
    return arrays[key]


def _find_names(arrays: Mapping[str, Array], keys: Names, length: int) -> Names | None:
    """The first array under one of `keys` that is a list of `length` names."""
    fitting = (arrays[key] for key in keys if key in arrays and arrays[key].shape == (length,))
    return next((tuple(map(_decode_name, names)) for names in fitting), None)


def _decode_name(name: np.generic) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
