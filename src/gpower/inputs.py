"""What reaches `fit` and `transform`: a frame, an array or a sparse matrix, checked and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from gpower._arrays import Array


def check_table(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
    """X as a float32 or float64 array, CSR or CSC matrix; not yet checked for missing values.

    Text columns are named in the error.
    """
    check_numeric_columns(X)
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=("csr", "csc"),
        dtype=(np.float64, np.float32),
        ensure_all_finite=False,
        ensure_min_samples=min_samples,
    )


def check_numeric_columns(X: Any) -> None:
    """Refuse a frame with text columns by their names."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "dtypes") or sp.issparse(X):
        return
    dtypes = list(X.dtypes)
    text = [str(name) for name, dtype in zip(columns, dtypes, strict=True) if not _is_numeric(dtype)]
    if text:
        shown = ", ".join(repr(name) for name in text[:3]) + (", …" if len(text) > 3 else "")
        raise ValueError(
            f"{len(text)} column(s) hold text, not numbers: {shown}. "
            "Drop them, or make them the index if they name the samples."
        )


def _is_numeric(dtype: Any) -> bool:
    """Whether a pandas or polars column type holds numbers; unknown ones are left to the conversion."""
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return str(dtype).lower() not in ("string", "str", "category") and not str(dtype).startswith(("datetime", "period"))


def check_finite(X: Any, names: Array | None, sums: Array | None = None) -> None:
    """Refuse missing and infinite values by the name of the first column that has one.

    `sums` are column sums, norms or the like, not finite wherever a column is not: they spare a read of X.
    """
    if sums is not None and np.all(np.isfinite(sums)):
        return
    values = X.data if sp.issparse(X) else X
    with np.errstate(all="ignore"):
        if sums is None and np.isfinite(np.sum(values)):
            return
        bad = ~np.isfinite(values)
    if not bad.any():
        if sums is None:
            return
        j = int(np.flatnonzero(~np.isfinite(sums))[0])
        raise ValueError(
            f"The values of column {name_of(j, names)} are so large that their squares overflow; rescale the data."
        )
    if sp.issparse(X):
        mask = type(X)((bad, X.indices, X.indptr), shape=X.shape).tocsc()
        mask.eliminate_zeros()
        j = int(np.flatnonzero(np.diff(mask.indptr))[0])
        i = int(mask.indices[mask.indptr[j]])
        value = X.tocsc()[i, j] if X.format == "csc" else X[i, j]
    else:
        j = int(np.flatnonzero(bad.any(axis=0))[0])
        i = int(np.flatnonzero(bad[:, j])[0])
        value = X[i, j]
    kind = "NaN (a missing value)" if np.isnan(value) else "infinity (inf)"
    raise ValueError(
        f"Input X contains {kind}, first in column {name_of(j, names)}, row {i}. "
        "Drop or impute those entries before fitting."
    )


def name_of(j: int, names: Array | None) -> str:
    """How to call variable j in a message."""
    return repr(str(names[j])) if names is not None else str(j)
