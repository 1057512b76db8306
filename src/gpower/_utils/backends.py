"""Arrays of other libraries: taken without a copy, and given back as they came.

The library computes with NumPy's functions, on NumPy arrays or on CuPy arrays, which answer the same functions on a
GPU. A PyTorch tensor shares its memory with one of the two; so does any array that speaks DLPack.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array, asarray_like, get_package_name, is_device_array, to_host

#: An array of whatever library, or something that is none.
ForeignArray: TypeAlias = Any
ArrayConverter = Callable[[Array], ForeignArray]


def is_foreign_array(X: ForeignArray) -> bool:
    """Whether X is a dense array of another library than NumPy: PyTorch, CuPy, or any that speaks DLPack."""
    return is_device_array(X) or (hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) and hasattr(X, "shape"))


def as_native(X: ForeignArray) -> ForeignArray:
    """The same numbers, in the same memory, as a NumPy array or as one of CuPy on its device."""
    if not is_foreign_array(X) or is_device_array(X):
        return X
    if get_package_name(X) == "torch":
        X = X.detach()
        return _import_cupy().from_dlpack(X) if X.is_cuda else X.numpy()
    return np.from_dlpack(X)


def make_converter_to(X: ForeignArray) -> ArrayConverter:
    """What turns a NumPy or CuPy array into one of the kind of X."""
    if get_package_name(X) == "torch":
        torch = import_module("torch")
        return lambda array: torch.from_dlpack(array) if is_device_array(array) else torch.from_numpy(np.asarray(array))
    if hasattr(X, "__array_namespace__") and is_foreign_array(X) and not is_device_array(X):
        namespace = X.__array_namespace__()
        return lambda array: namespace.asarray(array)
    return (lambda array: asarray_like(X, array)) if is_device_array(X) else (lambda array: array)


def to_device(X: ForeignArray, device: str) -> Array:
    """An array on a device: "cpu" leaves it where it is, "cuda" takes it to the GPU."""
    if device == "cpu":
        return X
    if device != "cuda":
        raise ValueError(f"device={device!r} is not known; use cpu or cuda.")
    if not isinstance(X, np.ndarray):
        raise ValueError("Only a dense table in memory goes to a GPU; this one is sparse or in blocks.")
    cupy = _import_cupy()
    if not cupy.is_available():
        raise ValueError("CuPy finds no GPU on this machine; leave device at cpu.")
    return cupy.asarray(X)


def to_numpy(X: ForeignArray) -> Array:
    """A copy of the numbers on the host, whatever the kind of array; not for the data matrix."""
    return to_host(as_native(X))


def asarrays_like(X: ForeignArray, *arrays: ForeignArray) -> ForeignArray:
    """The arrays where X is: on its device, or on the host."""
    return tuple(asarray_like(X, array) if is_device_array(X) else to_numpy(array) for array in arrays)


def _import_cupy() -> ModuleType:
    try:
        return import_module("cupy")
    except ImportError:
        raise ImportError(
            "A GPU is worked on with CuPy: install cupy for your version of CUDA "
            '(pip install "cupy-cuda12x"), or stay on the processor.'
        ) from None
