"""A stand-in for an array on a GPU: NumPy inside, with the interface of CuPy.

NumPy's functions dispatch to it, but nothing takes it for a NumPy array by accident: an implicit conversion raises, and
so does an operation between it and a NumPy array. Explicit transfers to the host are recorded in `TRANSFERS`.
"""

import numpy as np
import scipy.sparse as sp

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


class DeviceCSR:
    """A sparse matrix "on the device": SciPy inside, with what CuPy's classes have in common with SciPy's."""

    format, ndim = "csr", 2

    def __init__(self, shape, dtype=np.float64):
        self.shape = tuple(shape)
        lines = self.shape[self.format == "csc"]
        self.data, self.indices = DeviceArray(np.zeros(0, dtype)), DeviceArray(np.zeros(0, np.int32))
        self.indptr, self._is_canonical = DeviceArray(np.zeros(lines + 1, np.int32)), None

    @classmethod
    def wrap(cls, A):
        """Return a SciPy matrix or an array on the device."""
        A = getattr(sp, f"{cls.format}_matrix")(A)
        matrix = cls(A.shape, A.dtype)
        matrix.data, matrix.indices, matrix.indptr = map(DeviceArray, (A.data, A.indices, A.indptr))
        return matrix

    @property
    def host(self):
        """Return the SciPy matrix, whose pointers have 32 bits as those of CuPy."""
        assert self.indptr.dtype == self.indices.dtype == np.int32
        A = getattr(sp, f"{self.format}_matrix")(self.shape, dtype=self.dtype)
        A.data, A.indices, A.indptr = self.data.a, self.indices.a, self.indptr.a
        return A

    def get(self):
        TRANSFERS.append(self.nnz)
        return self.host

    dtype = property(lambda self: self.data.dtype)
    nnz = property(lambda self: self.data.size)

    @property
    def has_canonical_format(self):
        if self._is_canonical is None:
            self._is_canonical = bool(self.host.has_canonical_format)
        return self._is_canonical

    @has_canonical_format.setter
    def has_canonical_format(self, value):
        self._is_canonical = value

    def sum_duplicates(self):
        A = self.host
        A.sum_duplicates()
        self.data, self.indices, self.indptr = map(DeviceArray, (A.data, A.indices, A.indptr))
        self._is_canonical = True

    def copy(self):
        return type(self).wrap(self.host.copy())

    def astype(self, dtype):
        return type(self).wrap(self.host.astype(dtype))

    def tocsr(self):
        return self if self.format == "csr" else DeviceCSR.wrap(self.host)

    def tocsc(self):
        return self if self.format == "csc" else DeviceCSC.wrap(self.host)

    @property
    def T(self):
        return (DeviceCSC if self.format == "csr" else DeviceCSR).wrap(self.host.T)

    def __getitem__(self, key):
        found = self.host[key]
        return type(self).wrap(found) if sp.issparse(found) else DeviceArray(np.asarray(found))

    def __matmul__(self, Y):
        if Y.dtype != self.dtype:
            raise TypeError("CuPy would convert the whole matrix")
        return DeviceArray(np.asfortranarray(self.host @ Y.a))

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class DeviceCSC(DeviceCSR):
    """A sparse matrix by columns "on the device"."""

    format = "csc"
