"""Arrays of other libraries: used without a copy, and returned as the type that was passed.

The library computes with NumPy's functions, on NumPy arrays or on CuPy arrays, to which the same functions dispatch on
a GPU. A PyTorch tensor shares its memory with one of the two, and so does any array that supports DLPack. A sparse CSR
tensor shares it with a CSR matrix of SciPy or CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, asarray_like, get_package_name, is_device_array, to_host
from gpower._utils.compressed import CompressedMatrix, set_arrays
from gpower._utils.memory import get_free_device_memory

#: An array of any library, or any other object.
ForeignArray: TypeAlias = Any
#: Function that converts a NumPy or CuPy array to an array of another library.
ArrayConverter = Callable[[Array], ForeignArray]


def is_foreign_array(X: ForeignArray) -> bool:
    """Return whether X is a dense array of a library other than NumPy: PyTorch, CuPy, or any that supports DLPack."""
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
    """Return X itself for the device "cpu", or a copy on the GPU for "cuda"; raise ValueError if that is impossible."""
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
    """Return any array as a NumPy array on the host; not for the data matrix."""
    return to_host(as_native(X))


def _import_cupy(name: str = "cupy") -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(
            "Computing on a GPU needs CuPy: install cupy for your version of CUDA "
            '(pip install "cupy-cuda12x"), or use the CPU.'
        ) from None
