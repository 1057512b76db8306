"""Checks of single arguments: numbers, lists, and the data of `fit` and `transform`.

Terms: an array on a device is one of CuPy; ``as_native(X)`` turns a tensor or array of another library into a NumPy or
CuPy array in the same memory, and a sparse CSR tensor into a CSR matrix, and returns every other object itself. A
`Container` stores a matrix, (n_samples, n_features), for instance in blocks on disk: it has `shape`, `dtype`, and
`feature_names`, a tuple of text or None. ``as_container(X)`` wraps any matrix; ``find_registered_container(X, bytes)``
does it for an object of a registered type, and returns None for all others, `bytes` being a memory limit or None.
``find_non_finite(is_suspected=, allow_nan=)`` of a container returns the first entry that is not finite, or with
`allow_nan` that is infinite: an object with `column`, from 0, and ``make_error(name, storage_name)``, a ValueError;
else None. Without `is_suspected` containers that check entries at every read return None unread.

``validate_data`` of scikit-learn checks number and names of the features against those of the estimator, or sets them
with `reset`, and converts X to a NumPy array or a CSR or CSC matrix. ``describe_excessive_shape(shape, memory_limit=)``
returns a sentence without a full stop if a matrix of that shape needs more bytes, else None; ``sum_duplicate_entries``
returns a sparse matrix whose entries are stored once. `format_names` joins the first names of a list of text;
``make_names_unique(names)`` appends .1, .2, … to repeated ones; ``format_param(name, value)`` is how the user writes a
parameter.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gpower._utils.arrays import Array, as_native, is_device_array
from gpower._utils.messages import format_param
from gpower._utils.text import format_names, make_names_unique
from gpower.io.stores.matrix_source import describe_excessive_shape, sum_duplicate_entries
from gpower.operators import as_container, find_registered_container

#: Margins of the largest norm of a column from the fourth roots of the largest and the smallest number of its dtype.
MAX_NORM_SHARE, MIN_NORM_FACTOR = 0.01, 100
#: Smallest memory limit in bytes: a smaller number was meant in other units.
MIN_MEMORY_BYTES = 100


def is_number(value: object, kind: type) -> bool:
    """Return whether a value is an instance of a class from `numbers`, also if it is of NumPy; bool is rejected.

    Examples
    --------
    >>> from numbers import Integral
    >>> from gpower.validation.checks import is_number
    >>> is_number(3, Integral), is_number(True, Integral)
    (True, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is iterable and not a str; dictionaries, sets, bytes and arrays of no dimension are too.

    Examples
    --------
    >>> from gpower.validation.checks import is_sequence
    >>> is_sequence([3]), is_sequence("abc"), is_sequence(3)
    (True, False, False)
    """
    return isinstance(value, Iterable) and not isinstance(value, str)


def to_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python object, and any other value unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python
    >>> to_python(np.int64(3)), to_python("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def to_python_list(values: Iterable[Any]) -> list[Any]:
    """Return the entries of an iterable as a list, with NumPy scalars as Python objects.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python_list
    >>> to_python_list(np.arange(2))
    [0, 1]
    """
    return [to_python(value) for value in values]


class ComponentModelMixin:
    """An estimator of this package, with the tags that tell scikit-learn which data it accepts.

    `UnwrappedModel` looks for it among the steps of a pipeline.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = getattr(self, "missing", None) == "impute"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_table(estimator: Any, X: Any, *, reset: bool, memory_limit: Any = None) -> Any:
    """Return X as a float32 or float64 matrix, not yet checked for missing values.

    The matrix is a NumPy array, a CSR or CSC matrix without entries that are stored twice, a CuPy array if X is on a
    device, or a `Container` if the type of X is registered, as for a file or a Dask array; it may share memory with X,
    so it must not be changed. Integers and bool become float64. Raise ValueError or TypeError for objects that are not
    a matrix of real numbers, and for another number or other names of variables than in the fit; the error names the
    text columns of a frame.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Its `n_features_in_` and `feature_names_in_` are set with `reset`, and else compared with X; of a container or
        an array on a device only the number is compared.
    X : object
        What the user passed to `fit` or `transform`, samples × variables.
    reset : bool
        Whether this is a fit.
    memory_limit : int or str, optional
        Number of bytes, or text such as "2GB", that the blocks of a container may take. A container or a sparse matrix
        whose shape alone needs more raises ValueError.
    """
    memory_bytes = None if memory_limit is None else parse_memory_size(memory_limit)
    X = as_native(to_plain_table(X))
    if is_device_array(X):
        return _set_or_check_features(estimator, _check_device_array(X), reset)
    if type(X) is not np.ndarray:  # an array is the usual case; np.memmap is registered
        container = find_registered_container(X, memory_bytes)
        matrix = X if container is None else container
        if memory_bytes is not None and (container is not None or sp.issparse(X)):
            reason = describe_excessive_shape(matrix.shape, memory_limit=memory_bytes)
            if reason is not None:
                raise ValueError(f"X: {reason}.")
        if container is not None:
            return _set_or_check_features(estimator, container, reset)
    _refuse_non_matrix(X, None if reset else vars(estimator).get("feature_names_in_"))
    try:
        table = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
    except (TypeError, ValueError) as error:
        if "could not convert string to float" in str(error):
            raise ValueError(f"X contains text instead of numbers ({error}); keep the numeric columns only.") from None
        if "Complex data not supported" in str(error):  # scikit-learn appends the whole table
            raise ValueError("Complex data not supported: give real numbers, such as X.real or np.abs(X).") from None
        if "float() argument" in str(error) or "Cannot cast" in str(error):
            raise TypeError(f"X is not a table of numbers ({error}); give samples × variables.") from None
        raise
    return table if isinstance(table, np.ndarray) else sum_duplicate_entries(table)


def to_plain_table(X: Any) -> Any:
    """Return X with NaN for masked entries, and with unique names for the columns of a frame.

    X may be any object; one that is neither masked nor a frame with repeated names is returned itself. A masked array
    becomes a new NumPy array, in float64 unless it has a float type; of a repeated name all columns but the first get
    .1, .2, … appended, and all names become text. Raise ValueError if an array or a list contains dates.
    """
    if isinstance(X, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X if X.dtype.kind == "f" else X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray | list | tuple) and np.asarray(X).dtype.kind in "mM":
        raise ValueError(f"X contains dates or durations ({np.asarray(X).dtype}), not numbers; drop or convert them.")
    columns = getattr(X, "columns", None) if hasattr(X, "set_axis") else None
    if columns is None or columns.is_unique:
        return X
    return X.set_axis(make_names_unique([str(name) for name in columns]), axis=1)


def _check_device_array(X: Any) -> Any:
    """Return an array on a device as float32 or float64; raise ValueError unless it is a matrix of real numbers.

    X is a CuPy array of any shape and dtype, which is returned itself if it has one of the two types. Its entries are
    not read, so they may be missing or infinite.
    """
    if X.ndim != 2:
        raise ValueError(f"X has the shape {tuple(X.shape)}; a matrix of samples × variables has two dimensions.")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X contains values of type {X.dtype}, not real numbers.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def parse_memory_size(size: Any) -> int:
    """Return a number of bytes, given as a number or as text such as "2GB"; raise ValueError below 100 bytes.

    Units are K, M, G and T, powers of 1000, in either case, with or without a B and blanks; fractions are rounded down.
    NaN and other text raise ValueError too.

    Examples
    --------
    >>> parse_memory_size("2GB"), parse_memory_size("512 MB"), parse_memory_size(1000)
    (2000000000, 512000000, 1000)
    """
    text = str(size).strip().upper().removesuffix("B").rstrip()
    factor = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1:], 1)
    try:
        count = float(text if factor == 1 else text[:-1]) * factor
    except ValueError:
        count = float("nan")
    if not count >= MIN_MEMORY_BYTES:
        raise ValueError(f"{format_param('memory_limit', size)}: a number of bytes is needed, or words such as '2GB'.")
    return int(count)


def _set_or_check_features(estimator: Any, X: Any, reset: bool) -> Any:
    """Set number and names of the variables of a matrix in blocks or on a device, or check the number; return X.

    X is a `Container` or a CuPy array. With `reset` the attributes `n_features_in_` and `feature_names_in_` of the
    `estimator` are set, otherwise the number is compared with that of the fit, and names are not. An array on a device
    has no names. Raise ValueError for another number of variables, or without samples or variables.
    """
    n = X.shape[1]
    if 0 in X.shape:
        raise ValueError(f"X has the shape {X.shape}; there must be at least one sample and one variable.")
    if reset:
        estimator.n_features_in_ = n
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        names = as_container(X).feature_names
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
    elif n != estimator.n_features_in_:
        raise ValueError(
            f"X has {n} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features."
        )
    return X


def _refuse_non_matrix(X: Any, fitted_names: Array | None) -> None:
    """Raise for objects mistaken for a matrix: an estimator, an AnnData object, a lazy frame, text columns.

    Any other object passes; `validate_data` of scikit-learn checks it afterwards. `fitted_names` are the names of the
    variables of a fitted model, if there are any; a text column that is none of them can be left out.
    """
    if isinstance(X, BaseEstimator):
        raise TypeError(f"X is a {type(X).__name__}, not data; pass a table, such as pipeline[:-1].transform(X).")
    if hasattr(X, "obs") and hasattr(X, "var") and hasattr(X, "X"):
        raise TypeError("X is an AnnData object; pass its matrix, adata.X, and adata.var_names to loadings().")
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy frame, which contains no data yet; pass X.collect().")
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return
    text = [str(name) for name, dtype in zip(X.columns, X.dtypes, strict=True) if _is_text_column(X, name, dtype)]
    if text:
        remedy = "Drop them, or make them the index if they name the samples."
        if fitted_names is not None and not set(text) & set(fitted_names):
            remedy = "The model was fitted without them: pass X[model.feature_names_in_]."
        raise ValueError(
            f"{len(text)} column(s) hold text or dates, not numbers: {format_names([*map(repr, text)])}. {remedy}"
        )


def _is_text_column(X: Any, name: Any, dtype: Any) -> bool:
    """Return whether the column `name` of a pandas or polars frame cannot be read as numbers, by its dtype.

    `dtype` is that of the column, an object of the library of the frame. A column of dtype object is converted to find
    out; it is not changed. Dates and categories count as text.
    """
    dtype_name = str(dtype).lower()
    if dtype_name.startswith(("float", "int", "uint", "bool", "double", "sparse", "decimal")):
        return False
    if dtype_name != "object":
        return True
    try:
        np.asarray(X[name], dtype=np.float64)
    except (TypeError, ValueError):
        return True
    return False


def check_finite(
    X: Any, names: Array | None, column_sums: Array | None = None, *, allow_nan: bool = False, storage_name: str = ""
) -> None:
    """Raise if X contains missing or infinite values; the error names the first such column, and the file or store.

    With `allow_nan` only infinite values are an error, except in a matrix in blocks. `column_sums`, (n_features,), are
    column sums, norms or the like, which are not finite if the column is not; they save a read of X if all are finite.
    If one is not, X is searched, and nothing is raised if all its entries are finite, as after an overflow of a sum. X
    is a matrix that `as_container` accepts, not changed; `names`, (n_features,), are those of its columns, or None, and
    `storage_name` that of the file or store it was read from, if any. The error is a ValueError.
    """
    if column_sums is not None and np.all(np.isfinite(column_sums)):
        return
    bad = as_container(X).find_non_finite(is_suspected=column_sums is not None, allow_nan=allow_nan)
    if bad is not None:
        raise bad.make_error(format_variable_name(bad.column, names), storage_name)


def check_range(norms: Array, names: Array | None, dtype: np.dtype) -> None:
    """Raise if fourth powers of the data, which the ascent computes, would overflow or underflow.

    `norms`, (n_features,), non-negative, are the Euclidean norms of the columns, on the host or a device; only the
    largest is tested, and all zeros are accepted. `dtype`, float32 or float64, is that of the data. The largest must be
    below MAX_NORM_SHARE of the fourth root of the largest number, and zero or at least MIN_NORM_FACTOR times that of
    the smallest normal one. The error is a ValueError; NaN and infinity raise it too.
    """
    info = np.finfo(dtype)
    j = int(np.argmax(norms))
    if not norms[j] < MAX_NORM_SHARE * float(info.max) ** 0.25:
        problem, remedy = "large", "divide the data by a constant" + (" or use float64" if dtype == np.float32 else "")
    elif 0 < norms[j] < MIN_NORM_FACTOR * float(info.tiny) ** 0.25:
        problem, remedy = "small", "multiply the data by a constant"
    else:
        return
    raise ValueError(
        f"Column {format_variable_name(j, names)} has the norm {norms[j]:.3g}, too {problem} for the arithmetic of "
        f"{np.dtype(dtype).name}; {remedy}."
    )


def format_variable_name(j: int, names: Any) -> str:
    """Return how a message names variable j: its quoted name, or its column number without `names`.

    j is a column number from 0, and `names` a sequence with the names of all variables, or None.
    """
    return repr(str(names[j])) if names is not None else str(j)


def check_sample_weight(sample_weight: Any, n_samples: int, dtype: np.dtype) -> Array | None:
    """Return the sample weights as a new NumPy array, (n_samples,), or None; raise ValueError unless they are valid.

    The array is on the host, in the given dtype, float32 or float64, which is that of the data. One number stands for
    equal weights, None for none. Valid weights are finite and non-negative, and at least one is positive; their sum
    lies between 1/L and L, the root of the largest number of the dtype. A masked weight is missing, hence not valid.
    """
    if sample_weight is None:
        return None
    try:
        w = np.ma.filled(np.ma.asarray(sample_weight).astype(np.float64), np.nan)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight={reprlib.repr(sample_weight)} does not hold numbers; give one per sample."
        ) from None
    if w.ndim == 0:
        w = np.full(n_samples, float(w))
    if w.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {w.shape}, but there are n_samples={n_samples}.")
    if not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ValueError("sample_weight must be finite, non-negative and not all zero.")
    w = w.astype(dtype)
    limit = float(np.sqrt(np.finfo(dtype).max))
    total = float(np.sum(w, dtype=np.float64))
    if not 1 / limit < total < limit:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, out of the range of {np.dtype(dtype).name}; multiply the weights by a "
            "constant, which has no other effect."
        )
    return w
