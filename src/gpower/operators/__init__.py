"""Operators: products with the data matrix. Only the function `as_container` depends on the type of the data.

Terms: a `Container` stores the data, samples × variables, neither centred nor scaled, in float32 or float64: `shape`,
`dtype`, `is_sparse`, `is_remote` (read in blocks). ``prepare(double_sums)`` is the container for a fit, which sums
float32 data in float64 if asked; ``subtract_offsets(shift)`` is a copy less a constant per column, of a sparse matrix
in its stored entries only; `should_use_covariance` says that samples are so many that the covariance is smaller;
``to_backend(v)`` moves an array to where the matrix is, host or device. `Moments` have `mean`, `scale` and
`column_norms`, (n_features,), in float64, where the matrix is, `total_weight` and `degrees_of_freedom`;
``make_column_scale(dtype)`` is 1/scale, zero for constant columns, or None for ones; ``find_cancelling_columns(dtype,
power)`` is the mask, (n_features,), of columns that lose too many digits if a product (power 1) or a Gram matrix (2) is
centred afterwards. ``compute_container_moments(X, center, scale, w, counter)`` computes them in a pass or two, which
are added to the counter. ``compute_centered_gram(X, moments, w)``, (n_features, n_features), is (X − mean)ᵀ diag(w) (X
− mean), XᵀWX for None; ``scale_rows_and_columns(S, s)`` is diag(s) S diag(s).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gpower._utils.arrays import Array, is_device_array
from gpower.io.stores.open import open_source
from gpower.operators.base import FrozenPassCounter, Operator, PassCounter
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import DataMatrix, scale_rows_and_columns
from gpower.operators.moments import Moments, compute_centered_gram, compute_container_moments
from gpower.operators.storage.base import Container
from gpower.operators.storage.dask import DaskMatrix, is_dask_array
from gpower.operators.storage.dense import DenseMatrix
from gpower.operators.storage.device import DeviceMatrix
from gpower.operators.storage.device_sparse import wrap_device_sparse
from gpower.operators.storage.disk import StreamedMatrix
from gpower.operators.storage.sparse import SparseMatrix

__all__ = [
    "Container",
    "Covariance",
    "DataMatrix",
    "Moments",
    "Operator",
    "as_container",
    "as_operator",
    "find_registered_container",
    "register",
]

#: A NumPy array, an array on a device, a CSR or CSC matrix, or an object of a registered type (file, Dask array).
MatrixLike: TypeAlias = Any
#: Function of X and a memory limit in bytes (None: a share of the free memory) that returns the container of X, or None
#: if X is not of the type that the function handles.
ContainerFactory = Callable[[object, float | None], Container | None]


def _open_streamed_matrix(X: object, memory_limit: float | None) -> Container | None:
    """Return the container that reads X in blocks; None if X is not on disk, or is a memory map that fits into memory.

    X is anything that a user may pass as data. `memory_limit` is in bytes; None stands for a share of the free memory.
    """
    source = open_source(X, memory_limit=memory_limit)
    return None if source is None else StreamedMatrix(source, memory_limit)


_CONTAINER_FACTORIES: list[ContainerFactory] = [
    lambda X, memory_limit: X if isinstance(X, Container) else None,
    lambda X, memory_limit: DaskMatrix(X, memory_limit) if is_dask_array(X) else None,
    wrap_device_sparse,
    _open_streamed_matrix,
]


def register(factory: ContainerFactory) -> ContainerFactory:
    """Register a function that makes a container of a new type of data, so that estimators accept that type.

    Parameters
    ----------
    factory : callable
        Called as ``factory(X, memory_limit)``, where `memory_limit` is the number of bytes that X may take in memory,
        or None for a share of the free memory. It returns a `Container`, or None if X is of another type.

    Returns
    -------
    callable
        `factory` itself, so that `register` can be used as a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.operators import as_container, register
    >>> class Columns(dict):
    ...     pass
    >>> @register
    ... def from_columns(X, memory_limit, data_type=Columns):
    ...     return as_container(np.column_stack([*X.values()])) if isinstance(X, data_type) else None
    >>> X = Columns(a=[1.0, 2.0, 4.0], b=[1.0, 2.0, 3.0], c=[0.0, 1.0, 0.0])
    >>> GPower(1, cardinality=2).fit(X).components_.nonzero()[1]
    array([0, 1])
    """
    _CONTAINER_FACTORIES.append(factory)
    return factory


def find_registered_container(X: object, memory_limit: float | None = None) -> Container | None:
    """Return X as a container if its type is registered, or None, as for a matrix in memory or on a device.

    `memory_limit` is in bytes; None stands for a share of the free memory. A container is returned itself. Functions
    are asked in the order in which they were registered, those of this package first.
    """
    containers = (factory(X, memory_limit) for factory in _CONTAINER_FACTORIES)
    return next((container for container in containers if container is not None), None)


def as_container(X: MatrixLike) -> Container:
    """Return X as a container: an array, an array on a device, a CSR or CSC matrix, or an object of a registered type.

    Parameters
    ----------
    X : ndarray, array on a device, scipy.sparse array, Container, or an object of a registered type
        Samples × variables.

    Returns
    -------
    Container
        Gives access to X through products, columns and sums.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gpower.operators import as_container
    >>> as_container(sp.csr_array([[0.0, 1.0], [2.0, 0.0]])).shape
    (2, 2)
    """
    if isinstance(X, np.ndarray):  # first, so that no other recogniser is asked
        return DenseMatrix(X)
    if sp.issparse(X):
        return SparseMatrix(X)
    return DeviceMatrix(X) if is_device_array(X) else find_registered_container(X) or DenseMatrix(np.asarray(X))


def as_operator(
    X: MatrixLike,
    *,
    center: bool = True,
    scale: bool = False,
    sample_weight: Array | None = None,
    covariance: bool = False,
    reduce_tall: bool = True,
    double_sums: bool = False,
) -> tuple[Operator, Moments]:
    """Return the operator of a data matrix or a covariance, and the means and scales that the operator applies.

    Parameters
    ----------
    X : ndarray, scipy.sparse array, array on a device or Container, float32 or float64
        Samples × variables, or with `covariance=True` a NumPy array, symmetric and positive semidefinite, which the
        operator uses without a copy. X is never changed. It is copied only if a column mean is so large that implicit
        centring would lose digits; that column is then centred in the copy.
    center, scale : bool
        Subtract the (weighted) means; divide by the (weighted) standard deviations.
    sample_weight : ndarray of shape (n_samples,), optional
        Finite, non-negative weights, not all zero, on the host; A has rows √wᵢ xᵢ. They have no effect with
        `covariance`.
    covariance : bool
        X is AᵀA.
    reduce_tall : bool
        Replace tall data by their covariance, which determines the ℓ2 problem. Dense data are tall from twice as many
        samples as variables.
    double_sums : bool
        Sum products with float32 data in float64. Sums over blocks are always in float64.

    Returns
    -------
    Operator
        A `Covariance` if X is a covariance or was replaced by it, otherwise a `DataMatrix`; in the dtype of X.
    Moments
        Means, scales and norms of the columns, where the matrix is; with `covariance`, zero means and unit scales.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> operator, moments = as_operator(np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]))
    >>> operator.correlate(np.array([[-1.0], [1.0]])).ravel(), moments.mean
    (array([2., 2., 1.]), array([2. , 3. , 0.5]))
    """
    if covariance:
        n = X.shape[0]
        return Covariance(X), Moments(np.zeros(n), np.ones(n), np.sqrt(np.diagonal(X).clip(0)), 1.0, 1.0)
    counter = PassCounter()
    data = as_container(X).prepare(double_sums)
    moments = compute_container_moments(data, center, scale, sample_weight, counter)
    column_scale = moments.make_column_scale(data.dtype)
    data, remaining = _subtract_large_offsets(data, moments) if center else (data, None)
    if reduce_tall and data.should_use_covariance and not _should_keep_sparse(data, remaining):
        counter.add(1)
        S = compute_centered_gram(data, remaining, sample_weight).astype(data.dtype, copy=False)
        S = S if column_scale is None else scale_rows_and_columns(S, column_scale)
        return Covariance(S, FrozenPassCounter(counter.total) if data.is_remote else counter), moments
    # Weights are on the host; a `DataMatrix` needs them where the matrix is.
    row_scale = None if sample_weight is None else data.to_backend(np.sqrt(sample_weight).astype(data.dtype))
    q = None
    if center:
        r = data.to_backend(np.ones(data.shape[0], data.dtype)) if row_scale is None else row_scale
        q = r / np.sqrt(np.sum(r * r))
    norms = moments.column_norms.astype(data.dtype)
    return DataMatrix(data, norms, q, row_scale, column_scale, remaining, counter), moments


def _subtract_large_offsets(X: Container, moments: Moments) -> tuple[Container, Moments]:
    """Return X with the means of columns subtracted where implicit centring would lose digits, and its moments.

    `moments` are those of X, centred. The moments of the result describe its container: their means are what implicit
    centring still has to remove, zero or a rounding error for these columns. X and its moments themselves are returned
    if no column needs it; they are not changed.
    """
    shift = np.where(moments.find_cancelling_columns(X.dtype), moments.mean, 0.0).astype(X.dtype)
    return (X.subtract_offsets(shift), replace(moments, mean=moments.mean - shift)) if shift.any() else (X, moments)


def _should_keep_sparse(X: Container, moments: Moments | None) -> bool:
    """Return whether X is a sparse matrix in memory whose covariance would have to be centred row by row.

    `moments` are those of X, or None without centring: then the answer is no.
    """
    return (
        moments is not None
        and X.is_sparse
        and not X.is_remote
        and bool(moments.find_cancelling_columns(X.dtype, power=2).any())
    )
