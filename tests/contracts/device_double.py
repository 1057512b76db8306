"""A stand-in for an array on a GPU: NumPy inside, with the interface of CuPy.

NumPy's functions dispatch to it, but nothing takes it for a NumPy array by accident: an implicit conversion raises, and
so does an operation between it and a NumPy array. Explicit transfers to the host are recorded in `TRANSFERS`.
"""

import numpy as np

TRANSFERS = []


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on the device"."""

    __slots__ = ("a",)
    __array_priority__ = 100

    def __init__(self, a):
        self.a = np.asarray(a)

    def get(self):
        TRANSFERS.append(self.a.size)
        return self.a.copy()

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} is not there")
        return wrap(getattr(ufunc, method)(*map(unwrap, inputs), **{k: unwrap(v) for k, v in kwargs.items()}))

    def __array_function__(self, func, types, args, kwargs):
        if func is np.asarray:  # ``np.asarray(values, like=x)`` brings values to the device
            return DeviceArray(np.asarray(args[0]))
        return wrap(func(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))

    def __getitem__(self, key):
        return wrap(self.a[index(key)])

    def __setitem__(self, key, value):
        self.a[index(key)] = unwrap(value)

    def __len__(self):
        return len(self.a)

    def __float__(self):
        return float(self.a)

    def __int__(self):
        return int(self.a)

    def __index__(self):
        return int(self.a)

    def __bool__(self):
        return bool(self.a)

    def __repr__(self):
        return f"DeviceArray({self.a!r})"

    @property
    def T(self):
        return DeviceArray(self.a.T)

    @property
    def flat(self):
        raise TypeError("flat is not there")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.a, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: wrap(found(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))


def unwrap(value):
    if isinstance(value, DeviceArray):
        return value.a
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type numpy.ndarray")
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrap, value))
    return value


def index(key):
    if isinstance(key, tuple):
        return tuple(map(index, key))
    return unwrap(key)


def wrap(value):
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(map(wrap, value)) if isinstance(value, tuple) else list(map(wrap, value))
    if isinstance(value, np.ndarray):
        return DeviceArray(value)
    if isinstance(value, np.generic):
        return DeviceArray(np.asarray(value))  # reductions stay on the device
    return value
