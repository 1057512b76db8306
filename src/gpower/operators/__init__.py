"""The matrix, seen only through products. `as_container` is the only place that looks at the type of the data."""

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
from gpower.operators.storage.device import DeviceMatrix
from gpower.operators.storage.disk import StreamedMatrix
from gpower.operators.storage.sparse import wrap_in_memory

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

#: An array, one on a device, a CSR or CSC matrix, or what stands for a matrix that is elsewhere.
MatrixLike: TypeAlias = Any
#: X as a container, given the bytes that may be taken for it (None: a share of what is free); None where it is no such.
ContainerFactory = Callable[[object, float | None], Container | None]


def _open_streamed_matrix(X: object, memory_limit: float | None) -> Container | None:
    source = open_source(X, memory_limit=memory_limit)
    return None if source is None else StreamedMatrix(source, memory_limit)


_CONTAINER_FACTORIES: list[ContainerFactory] = [
    lambda X, memory_limit: X if isinstance(X, Container) else None,
    lambda X, memory_limit: DaskMatrix(X, memory_limit) if is_dask_array(X) else None,
    _open_streamed_matrix,
]


def register(factory: ContainerFactory) -> ContainerFactory:
    """Let a kind of data be fitted: a function that turns X into its container, or gives None for any other X.

    Parameters
    ----------
    factory : callable
        Called as ``recogniser(X, memory_limit)``; the second are the bytes that X may take, None for a share of what is
        free. It gives back a `Container`, or None.

    Returns
    -------
    callable
        The same function, so that this serves as a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import GPower
    >>> from gpower.operators import as_container, register
    >>> class Columns(dict):
    ...     pass
    >>> @register
    ... def of_columns(X, memory_limit, kind=Columns):
    ...     return as_container(np.column_stack([*X.values()])) if isinstance(X, kind) else None
    >>> X = Columns(a=[1.0, 2.0, 4.0], b=[1.0, 2.0, 3.0], c=[0.0, 1.0, 0.0])
    >>> GPower(1, cardinality=2).fit(X).components_.nonzero()[1]
    array([0, 1])
    """
    _CONTAINER_FACTORIES.append(factory)
    return factory


def find_registered_container(X: object, memory_limit: float | None = None) -> Container | None:
    """X as a container, where it is of a registered kind; None for a table in memory or on a device."""
    found = (recogniser(X, memory_limit) for recogniser in _CONTAINER_FACTORIES)
    return next((container for container in found if container is not None), None)


def as_container(X: MatrixLike) -> Container:
    """X as a container: an array, one on a device, a CSR or CSC matrix, or whatever is registered.

    Parameters
    ----------
    X : ndarray, array on a device, scipy.sparse array, Container, or an object of a registered kind
        Samples × variables.

    Returns
    -------
    Container
        X, to be read through products, columns and sums.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gpower.operators import as_container
    >>> as_container(sp.csr_array([[0.0, 1.0], [2.0, 0.0]])).shape
    (2, 2)
    """
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return wrap_in_memory(X)
    return DeviceMatrix(X) if is_device_array(X) else find_registered_container(X) or wrap_in_memory(np.asarray(X))


def as_operator(
    X: MatrixLike,
    *,
    center: bool = True,
    scale: bool = False,
    sample_weight: Array | None = None,
    covariance: bool = False,
    reduce_tall: bool = True,
    double_sums: bool = False,
    moments: Moments | None = None,
) -> tuple[Operator, Moments]:
    """A data matrix or a covariance as an operator, and the means and scales that it applies.

    Parameters
    ----------
    X : ndarray or scipy.sparse array, float32 or float64
        Samples × variables, or a covariance matrix with `covariance=True`. Never copied or changed, except
        that a column offset so large that implicit centring would lose digits makes a centred copy.
    center, scale : bool
        Subtract the (weighted) means; divide by the (weighted) standard deviations.
    sample_weight : ndarray of shape (n_samples,), optional
        Non-negative weights; A has rows √wᵢ xᵢ.
    covariance : bool
        X is AᵀA.
    reduce_tall : bool
        Tall data (twice as many samples as variables or more) are replaced by their covariance, on which
        the ℓ2 problem depends alone.
    double_sums : bool
        Sum products with float32 data in float64; sums over blocks always are.
    moments : Moments, optional
        Those of X, where they are known already.

    Returns
    -------
    Operator
        A `Covariance` where X is one or was replaced by it, else a `DataMatrix`.
    Moments
        Means, scales and norms of the columns.

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
    counter, data = PassCounter(), as_container(X).prepare(double_sums)
    found = moments or compute_container_moments(data, center, scale, sample_weight, counter)
    column_scale = found.make_column_scale(data.dtype)
    data, left = _subtract_large_offsets(data, found) if center else (data, None)
    if reduce_tall and data.should_use_covariance and not _should_keep_sparse(data, left):
        counter.add(1)
        S = compute_centered_gram(data, left, sample_weight).astype(data.dtype, copy=False)
        S = S if column_scale is None else scale_rows_and_columns(S, column_scale)
        return Covariance(S, FrozenPassCounter(counter.total) if data.is_remote else counter), found
    row_scale = None if sample_weight is None else data.to_backend(np.sqrt(sample_weight).astype(data.dtype))
    q = None
    if center:
        r = data.to_backend(np.ones(data.shape[0], data.dtype)) if row_scale is None else row_scale
        q = r / np.sqrt(np.sum(r * r))
    return DataMatrix(data, found.column_norms.astype(data.dtype), q, row_scale, column_scale, left, counter), found


def _subtract_large_offsets(X: Container, moments: Moments) -> tuple[Container, Moments]:
    """X less the means of the columns that implicit centring would lose digits of, and the moments that remain."""
    shift = np.where(moments.find_cancelling_columns(X.dtype), moments.mean, 0.0).astype(X.dtype)
    return (X.subtract_offsets(shift), replace(moments, mean=moments.mean - shift)) if shift.any() else (X, moments)


def _should_keep_sparse(X: Container, moments: Moments | None) -> bool:
    """Whether tall data stay as they are: sparse ones at hand whose covariance would have to be centred row by row."""
    return (
        moments is not None
        and X.is_sparse
        and not X.is_remote
        and bool(moments.find_cancelling_columns(X.dtype, power=2).any())
    )
