"""Arrays of NumPy, CuPy, PyTorch and other libraries: where they are, how they get there, and small helpers for both.

An array on the host is a NumPy array; an array on a device is one of CuPy, on a GPU. NumPy's functions dispatch to
CuPy's, so that the same code works on both. Arrays of length n_samples or n_features stay where the data are; arrays of
the length of a working set, or of the components, are on the host. `asarray_like` and `to_host` transfer arrays.

The data that users pass may be of another library, "foreign" below. A PyTorch tensor shares its memory with an array of
NumPy or CuPy, and so does any array that supports DLPack; a sparse CSR tensor shares it with a CSR matrix of SciPy or
CuPy. Results are returned as the type that was passed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpower._utils.memory import get_free_device_memory

Array = NDArray[Any]
#: Seed or generator of random numbers.
Seed = int | np.random.RandomState | None
#: A CSR or CSC matrix or array of SciPy, whose classes have no types, or a matrix of CuPy.
CompressedMatrix: TypeAlias = Any
#: An array of any library, or any other object.
ForeignArray: TypeAlias = Any
#: Function that converts a NumPy or CuPy array to an array of another library.
ArrayConverter = Callable[[Array], ForeignArray]


def is_device_array(x: object) -> bool:
    """Return whether x is an array on a device: not a NumPy array, but one to which NumPy's functions dispatch."""
    return not isinstance(x, np.ndarray) and hasattr(x, "__array_function__") and hasattr(x, "get")


def get_package_name(x: object) -> str:
    """Return the name of the package that defines the class of x, without importing it."""
    return type(x).__module__.partition(".")[0]


def to_host(x: Any) -> Array:
    """Return a small array, on the host or a device, as a NumPy array of the same dtype."""
    return np.asarray(x.get()) if is_device_array(x) else np.asarray(x)


def asarray_like(x: Array, values: Array) -> Array:
    """Return a small array where x is, in its own dtype; shape and dtype of x do not matter.

    Only a transfer from the host to a device happens: a device array stays on its device even if x is on the host.
    """
    return values if isinstance(x, np.ndarray) or not isinstance(values, np.ndarray) else np.asarray(values, like=x)


def take_rows(x: Array, idx: Array) -> Array:
    """Return a copy of the rows x[idx], where x is (host or device); `idx` are indices, or a mask, on the host."""
    return x[asarray_like(x, idx)]


def max_or_zero(values: Array) -> float:
    """Return the largest of non-negative values, or zero for an empty array."""
    return float(values.max()) if values.size else 0.0


def safe_reciprocal(values: Array) -> Array:
    """Compute 1/values where values > 0, and 0 elsewhere, without warnings; for floats on the host or a device."""
    if not isinstance(values, np.ndarray):
        return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0)
    out = np.zeros_like(values)
    np.divide(1.0, values, out=out, where=values > 0)
    return out


def column_dots(X: Array, Y: Array) -> Array:
    """Compute the inner products of corresponding columns of two (n, m) arrays, (m,), on the host."""
    if X.shape[1] == 1:
        return np.array([float(X[:, 0] @ Y[:, 0])], X.dtype)
    return column_sums(X * Y)


def column_sums(X: Array) -> Array:
    """Compute the sums of the columns of X, (n, m), on the host or a device; the result, (m,), is on the host."""
    return np.add.reduce(X, axis=0) if isinstance(X, np.ndarray) else to_host(X.sum(axis=0))


def embed_rows(Z: Array, idx: Array, n_rows: int, like: Array | None = None) -> Array:
    """Return an array of `n_rows` rows with Z at rows `idx` and zero elsewhere, on the device of `like` if given.

    Parameters
    ----------
    Z : ndarray of shape (|idx|, m)
        On the host or where `like` is; the result has its dtype.
    idx : ndarray of int
        Row indices, on the host.
    n_rows : int
    like : ndarray, optional
        Array whose place, host or device, the result has; its shape and dtype do not matter. By default Z.
    """
    like = Z if like is None else like
    embedded = np.zeros_like(like, dtype=Z.dtype, shape=(n_rows, Z.shape[1]))
    embedded[asarray_like(like, idx)] = asarray_like(like, Z)
    return embedded


def pad_columns(Z: Array, n_columns: int) -> Array:
    """Return the first `n_columns` columns of Z, (n, m), padded with zero columns if it has fewer."""
    return np.pad(Z[:, :n_columns], ((0, 0), (0, max(n_columns - Z.shape[1], 0))))


def stable_argmax(values: Array) -> int:
    """Return the index of the largest value, or of the first among values that are equal up to rounding.

    The values, floats of shape (n,) with n > 0, are on the host or a device.
    """
    tolerance = min(1e4 * float(np.finfo(values.dtype).eps), 1e-5)
    largest = np.max(values)
    return int(np.argmax(values >= largest - tolerance * np.abs(largest)))


def normalize_columns(Z: Array) -> Array:
    """Return Z, (n, m), with non-zero columns of unit norm; zero columns stay zero, and no zero is negative."""
    return Z * asarray_like(Z, safe_reciprocal(np.sqrt(column_sums(Z * Z)))) + 0.0


def apply_soft_threshold(c: Array, level: float) -> Array:
    """Compute sign(c)(|c| − level)₊ entry by entry, for c of any shape."""
    return np.sign(c) * np.maximum(np.abs(c) - level, 0)


def set_arrays(empty: CompressedMatrix, data: Array, indices: Array, indptr: Array) -> CompressedMatrix:
    """Return an empty CSR or CSC matrix with these arrays as its own; constructors would copy or convert indices.

    `empty` has the final shape and dtype and is changed; `indices` and `data` have one entry for each stored entry,
    `indptr` one more than lines. All arrays are where the class of `empty` has them, host (SciPy) or device (CuPy).
    """
    empty.data, empty.indices, empty.indptr = data, indices, indptr
    return empty


def is_foreign_array(X: ForeignArray) -> bool:
    """Return whether X is a dense array of a library other than NumPy: PyTorch, CuPy, or any that supports DLPack.

    It is True for a sparse tensor of PyTorch too; X is any object.
    """
    return is_device_array(X) or (hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) and hasattr(X, "shape"))


def as_native(X: ForeignArray) -> ForeignArray:
    """Return X as a NumPy array, or as a CuPy array if it is on a device, in the same memory; CSR tensors as matrices.

    Raise ValueError for a sparse tensor in another layout.
    """
    if not is_foreign_array(X) or is_device_array(X):
        return X
    if get_package_name(X) == "torch":
        X = X.detach()
        if str(X.layout) != "torch.strided":
            return _view_sparse_tensor(X)
        return _import_cupy().from_dlpack(X) if X.is_cuda else X.numpy()
    return np.from_dlpack(X)


def _view_sparse_tensor(X: ForeignArray) -> CompressedMatrix:
    """Return a CSR tensor of PyTorch as a CSR matrix of SciPy or CuPy, with its values and indices."""
    if str(X.layout) != "torch.sparse_csr" or X.ndim != 2:
        raise ValueError(
            f"X is a tensor of layout {X.layout} with {X.ndim} dimensions; pass a matrix as X.to_sparse_csr()."
        )
    arrays = [as_native(part) for part in (X.values(), X.col_indices(), X.crow_indices())]
    make_empty = _import_cupy("cupyx.scipy.sparse").csr_matrix if X.is_cuda else sp.csr_array
    return set_arrays(make_empty(tuple(X.shape), dtype=arrays[0].dtype), *arrays)


def make_converter_to(X: ForeignArray) -> ArrayConverter:
    """Return a function that converts a NumPy or CuPy array to the array type of X."""
    if get_package_name(X) == "torch":
        torch = import_module("torch")
        return lambda array: torch.from_dlpack(array) if is_device_array(array) else torch.from_numpy(np.asarray(array))
    if hasattr(X, "__array_namespace__") and is_foreign_array(X) and not is_device_array(X):
        namespace = X.__array_namespace__()
        return lambda array: namespace.asarray(array)
    return (lambda array: asarray_like(X, array)) if is_device_array(X) else (lambda array: array)


def to_device(X: ForeignArray, device: str) -> Array:
    """Return X itself for the device "cpu", or a copy on the GPU for "cuda"; raise ValueError if that is impossible.

    X is a NumPy array or a SciPy matrix for "cuda" (it becomes CSR), and any object for "cpu".
    """
    if device == "cpu":
        return X
    if device != "cuda":
        raise ValueError(f"device={device!r} is not known; use cpu or cuda.")
    if not isinstance(X, np.ndarray) and not sp.issparse(X):
        raise ValueError("Only a table in memory can be moved to a GPU; this one is in blocks.")
    cupy = _import_cupy()
    if not cupy.is_available():
        raise ValueError("CuPy finds no GPU on this machine; leave device at cpu.")
    arrays = [X] if isinstance(X, np.ndarray) else _split_csr(X)
    needed, free = sum(part.nbytes for part in arrays), get_free_device_memory()
    if needed > free:
        raise ValueError(
            f"The table needs {needed / 1e9:.3g} GB of the GPU's memory, and {free / 1e9:.3g} GB are free; "
            "leave device at cpu."
        )
    if isinstance(X, np.ndarray):
        return cupy.asarray(X)
    empty = _import_cupy("cupyx.scipy.sparse").csr_matrix(X.shape, dtype=arrays[0].dtype)
    return set_arrays(empty, *map(cupy.asarray, arrays))


def _split_csr(X: CompressedMatrix) -> tuple[Array, Array, Array]:
    """Return values (float32, or float64), columns in 32 bits and pointers of a SciPy sparse matrix by rows."""
    A = X.tocsr()
    values = A.data if A.dtype == np.float32 else A.data.astype(np.float64, copy=False)
    dtype = np.int32 if A.nnz < 1 << 31 else np.int64
    return values, A.indices.astype(np.int32, copy=False), A.indptr.astype(dtype, copy=False)


def to_numpy(X: ForeignArray) -> Array:
    """Return a small array of any library as a NumPy array on the host; not for the data matrix, which may be large."""
    return to_host(as_native(X))


def _import_cupy(name: str = "cupy") -> ModuleType:
    """Import CuPy or one of its modules; raise ImportError with the remedy if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(
            "Computing on a GPU needs CuPy: install cupy for your version of CUDA "
            '(pip install "cupy-cuda12x"), or use the CPU.'
        ) from None
