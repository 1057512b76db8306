"""What reaches `fit` and `transform`: a frame, an array or a sparse matrix, checked and named."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gpower._utils.arrays import Array, is_device_array
from gpower._utils.backends import as_native
from gpower._utils.text import make_names_unique
from gpower.io.stores.source import to_working_block
from gpower.operators import as_container, find_registered_container


def check_table(estimator: Any, X: Any, *, reset: bool, memory_limit: Any = None) -> Any:
    """X as a float32 or float64 array, CSR or CSC matrix; not yet checked for missing values.

    Containers that hold no matrix, and text, get a sentence; text columns of a frame are named.
    """
    X = as_native(to_plain_table(X))
    if is_device_array(X):
        return _set_or_check_features(estimator, _check_device_array(X), reset)
    elsewhere = find_registered_container(X, None if memory_limit is None else parse_memory_size(memory_limit))
    if elsewhere is not None:
        return _set_or_check_features(estimator, elsewhere, reset)
    _refuse_non_matrix(X)
    try:
        found = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
    except (TypeError, ValueError) as error:
        if "could not convert string to float" in str(error):
            raise ValueError(f"X holds text where numbers belong ({error}); keep the numeric columns only.") from None
        if "Complex data not supported" in str(error):  # the whole table follows
            raise ValueError("Complex data not supported: give real numbers, such as X.real or np.abs(X).") from None
        if "float() argument" in str(error) or "Cannot cast" in str(error):
            raise TypeError(f"X is no table of numbers ({error}); give samples × variables.") from None
        raise
    return to_working_block(found, found.dtype)  # an entry stored in parts counts as their sum


def to_plain_table(X: Any) -> Any:
    """X with NaN where an array is masked, and with different names for columns of a frame that have the same."""
    if isinstance(X, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X if X.dtype.kind == "f" else X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray | list | tuple) and np.asarray(X).dtype.kind in "mM":
        raise ValueError(
            f"X holds dates or durations ({np.asarray(X).dtype}), not numbers; leave them out, or count their days."
        )
    columns = getattr(X, "columns", None) if hasattr(X, "set_axis") else None
    if columns is None or columns.is_unique:
        return X
    return X.set_axis(make_names_unique([str(name) for name in columns]), axis=1)


def _check_device_array(X: Any) -> Any:
    """An array on a device, if it is a matrix of real numbers."""
    if X.ndim != 2:
        raise ValueError(f"X has the shape {tuple(X.shape)}; a matrix of samples × variables has two dimensions.")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X holds values of type {X.dtype}, not real numbers.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def parse_memory_size(size: Any) -> int:
    """A number of bytes, from a number or words such as "2GB".

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
    if not count >= 100:
        raise ValueError(f'memory_limit={size!r}: a number of bytes is needed, or words such as "2GB" or "500MB".')
    return int(count)


def _set_or_check_features(estimator: Any, X: Any, reset: bool) -> Any:
    """A matrix in blocks or on a device, with the attributes and checks that scikit-learn gives an array."""
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


def _refuse_non_matrix(X: Any) -> None:
    """Refuse what is near a matrix but none: an AnnData object, a lazy frame, a frame with text columns."""
    if isinstance(X, BaseEstimator):
        raise TypeError(
            f"X is a {type(X).__name__}, not data; pass the table and, of a Pipeline, what the steps before this one "
            "make of it: pipeline[:-1].transform(X)."
        )
    if hasattr(X, "obs") and hasattr(X, "var") and hasattr(X, "X"):
        raise TypeError("X is an AnnData object; pass its matrix, adata.X, and adata.var_names to loadings().")
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy frame, which holds no data yet; pass X.collect().")
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return
    text = [str(name) for name, dtype in zip(X.columns, X.dtypes, strict=True) if _is_text_column(X, name, dtype)]
    if text:
        shown = ", ".join(repr(name) for name in text[:3]) + (", …" if len(text) > 3 else "")
        raise ValueError(
            f"{len(text)} column(s) hold text or dates, not numbers: {shown}. "
            "Drop them, or make them the index if they name the samples."
        )


def _is_text_column(X: Any, name: Any, dtype: Any) -> bool:
    """Whether a pandas or polars column cannot be read as numbers."""
    word = str(dtype).lower()
    if word.startswith(("float", "int", "uint", "bool", "double", "sparse", "decimal")):
        return False
    if word != "object":
        return True
    try:
        np.asarray(X[name], dtype=np.float64)
    except (TypeError, ValueError):
        return True
    return False


def check_finite(X: Any, names: Array | None, column_sums: Array | None = None, *, allow_nan: bool = False) -> None:
    """Refuse missing and infinite values (or infinite ones only) by the name of the first column that has one.

    `sums` are column sums, norms or the like, not finite wherever a column is not: they spare a read of X.
    """
    if column_sums is not None and np.all(np.isfinite(column_sums)):
        return
    bad = as_container(X).find_non_finite(column_sums is not None, allow_nan)
    if bad is not None:
        raise bad.make_error(format_variable_name(bad.column, names))


def check_range(norms: Array, names: Array | None, dtype: np.dtype) -> None:
    """Refuse data whose fourth powers, which the ascent forms, leave the range of the number type."""
    info = np.finfo(dtype)
    j = int(np.argmax(norms))
    if not norms[j] < 0.01 * float(info.max) ** 0.25:
        problem, remedy = "large", "divide the data by a constant" + (" or use float64" if dtype == np.float32 else "")
    elif 0 < norms[j] < 100 * float(info.tiny) ** 0.25:
        problem, remedy = "small", "multiply the data by a constant"
    else:
        return
    raise ValueError(
        f"Column {format_variable_name(j, names)} has the norm {norms[j]:.3g}, too {problem} for the arithmetic of "
        f"{np.dtype(dtype).name}; {remedy}."
    )


def format_variable_name(j: int, names: Array | None) -> str:
    """How to call variable j in a message."""
    return repr(str(names[j])) if names is not None else str(j)
