"""Arrays of other libraries: used without a copy, and returned as the type that was passed.

The library computes with NumPy's functions, on NumPy arrays or on CuPy arrays, to which the same functions dispatch on
a GPU. A PyTorch tensor shares its memory with one of the two, and so does any array that supports DLPack.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array, asarray_like, get_package_name, is_device_array, to_host

#: An array of any library, or any other object.
ForeignArray: TypeAlias = Any
#: Function that converts a NumPy or CuPy array to an array of another library.
ArrayConverter = Callable[[Array], ForeignArray]


def is_foreign_array(X: ForeignArray) -> bool:
    """Return whether X is a dense array of a library other than NumPy: PyTorch, CuPy, or any that supports DLPack."""
    return is_device_array(X) or (hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) and hasattr(X, "shape"))


def as_native(X: ForeignArray) -> ForeignArray:
    """Return X as a NumPy array, or as a CuPy array if it is on a device, in the same memory."""
    if not is_foreign_array(X) or is_device_array(X):
        return X
    if get_package_name(X) == "torch":
        X = X.detach()
        return _import_cupy().from_dlpack(X) if X.is_cuda else X.numpy()
    return np.from_dlpack(X)


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
    if not isinstance(X, np.ndarray):
        raise ValueError("Only a dense table in memory can be moved to a GPU; this one is sparse or in blocks.")
    cupy = _import_cupy()
    if not cupy.is_available():
        raise ValueError("CuPy finds no GPU on this machine; leave device at cpu.")
    return cupy.asarray(X)


def to_numpy(X: ForeignArray) -> Array:
    """Return any array as a NumPy array on the host; not for the data matrix."""
    return to_host(as_native(X))


def asarrays_like(X: ForeignArray, *arrays: ForeignArray) -> ForeignArray:
    """Return the arrays on the device of X, or on the host."""
    return tuple(asarray_like(X, array) if is_device_array(X) else to_numpy(array) for array in arrays)


def _import_cupy() -> ModuleType:
    try:
        return import_module("cupy")
    except ImportError:
        raise ImportError(
            "Computing on a GPU needs CuPy: install cupy for your version of CUDA "
            '(pip install "cupy-cuda12x"), or use the CPU.'
        ) from None
