"""The contract of an operator: a data matrix A that the solvers use only through products.

A has `n_samples` rows and `n_features` columns, centred and scaled as requested. The columns of A T are vectors of its
sample space. Each operator chooses how to represent a vector x of that space, by its p coordinates or by coefficients u
with x = A u if only AᵀA is known, provided that the products below are consistent. In both cases m vectors are an array
X of shape (shape[0], m): p = shape[0] is n_samples or, if only AᵀA is known (`has_samples` is False), n_features.

============================ =============================================================
``correlate(X)``             AᵀX, shape (n_features, m)
``combine(T)``               the representation of A T, for T of shape (n_features, m)
``columns(idx)``             the representation of A[:, idx]
``inner(X, Y, C)``           XᵀY; C = AᵀY is passed because operators without samples need it
``dual(X)``                  D with XᵀY = DᵀY for every represented Y
``gram(idx)``                A[:, idx]ᵀA[:, idx]
``take(idx)``                the operator of A[:, idx]
``restrict(idx)``            the operator of A[:, idx], small and contiguous, and ``lift``
============================ =============================================================

Products take and return arrays of the operator's dtype where the matrix is, host or device; so is `column_norms`, which
therefore tells other modules where to put arrays (``like``). Index arrays are on the host, and so are the small results
of ``inner``, ``squared_norms``, ``gram`` and ``sample_gram``. No argument is changed.

Shape, dtype, sparsity and memory limits come from the container. Every product adds the share of the matrix that it
reads to ``passes``. Indices `idx` are different column numbers from 0, of int, in any order unless stated otherwise;
|idx| is their number, and results are in their order.

Terms: a `Container` stores the matrix entries before centring and scaling; it has `shape`, `dtype`, `is_sparse`,
`is_remote`, `max_cached_columns` and ``to_backend(values)``, with the meaning of the properties of the same names here.
``to_host(x)`` is a small array as a NumPy array of the same dtype; ``column_dots(X, Y)``, (m,) on the host, are the
inner products of corresponding columns; ``max_or_zero(v)`` is the largest of non-negative values, 0 for none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpower._utils.arrays import Array, column_dots, is_device_array, max_or_zero, to_host
from gpower._utils.forwarding import forward
from gpower.operators.storage.base import MAX_GATHERED_SHARE, Container

#: Share of a column's norm, in units of the relative rounding error, below which the rest of a subtraction is rounding.
SUBTRACTION_ROUNDING_FACTOR = 1e3
#: Smallest number of columns of a block, and the number of blocks, in which the Gram matrix of samples is summed.
MIN_SAMPLE_GRAM_COLUMNS, N_SAMPLE_GRAM_BLOCKS = 64, 16


@dataclass
class PassCounter:
    """Counter of passes over the matrix, in units of one full read."""

    total: float = 0.0

    def add(self, share: float) -> None:
        """Count a read of `share` of the matrix: 1 for a full pass, less if only some columns or rows are read."""
        self.total += share


class FrozenPassCounter(PassCounter):
    """Counter that does not change any more, for an operator that no longer reads the data."""

    def add(self, share: float) -> None:
        """Ignore the read, whatever its share of the matrix, and keep the total."""


@dataclass(frozen=True)
class ColumnRestriction:
    """Operator of some columns of another operator, in the order in which they were asked for.

    `lift` turns the representation X, (operator.shape[0], m), of sample-space vectors in `operator` into their
    representation in the full operator, on the device of its matrix. It does not normalise. `operator` may be a
    `Covariance` on the host although the full operator has samples or is on a device; `operator.to_backend` moves
    arrays to where `operator` needs them. Its reads are not counted as passes over the full matrix.
    """

    operator: Operator
    lift: Callable[[Array], Array]


class SplitDeflation(NamedTuple):
    """Parts of an operator A − Y Zᵀ from whose matrix A j components are removed; arrays are where the matrix is."""

    base: Operator  # the operator of A
    Y: Array  # (shape[0], j), represented sample-space vectors
    Y_dual: Array  # (shape[0], j), with YᵀX = Y_dualᵀX for represented X
    Z: Array  # (n_features, j), the removed directions


def find_nonzero_rows(T: Array) -> Array:
    """Return the increasing indices of the rows of T, (n, m), with a non-zero entry; of int, on the host.

    If T is on a device and more than `MAX_GATHERED_SHARE` of its rows are non-zero, the indices of all rows are
    returned: the whole matrix is then read anyway, and the transfer of the indices is saved.
    """
    used: Array = T[:, 0] if T.shape[1] == 1 else np.any(T, axis=1)
    if is_device_array(T) and int(np.count_nonzero(used)) > MAX_GATHERED_SHARE * T.shape[0]:
        return np.arange(T.shape[0])
    return to_host(used.nonzero()[0])


class Operator(ABC):
    """A matrix A, samples × variables, available only through products; `counter` counts the passes over it.

    A vector x of the sample space is represented by its coordinates or, if only AᵀA is known, by u with x = A u.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.array([[3.0, 0.0], [4.0, 1.0]]), center=False)
    >>> operator.shape, operator.column_norms
    ((2, 2), array([5., 1.]))
    """

    counter: PassCounter
    shape: tuple[int, int] = forward(
        "container.shape", "Return (n_samples, n_features), or (n_features, n_features) for a covariance."
    )
    dtype: np.dtype = forward("container.dtype", "Return the type of every product, float32 or float64.")
    is_sparse: bool = forward(
        "container.is_sparse", "Return whether the matrix takes much less memory than its columns as dense arrays."
    )
    is_remote: bool = forward(
        "container.is_remote", "Return whether a product with the whole matrix costs much more than one with columns."
    )
    max_cached_columns: int = forward(
        "container.max_cached_columns", "Return the number of columns that may be gathered at once."
    )
    to_backend: Callable[[Array], Array] = forward(
        "container.to_backend", "Return a small array where the matrix is, host or device, itself if it is there."
    )
    passes: float = forward("counter.total", "Return the number of passes over the matrix so far.")

    @property
    @abstractmethod
    def container(self) -> Container:
        """Return the container of the matrix entries, which knows how they are best read."""

    @property
    @abstractmethod
    def column_norms(self) -> Array:
        """Return the Euclidean norms ‖aᵢ‖ of the columns, (n_features,), where the matrix is, in its dtype.

        Moments and deflation set them to exactly zero for columns of which only rounding error is left. Not to be
        written to.
        """

    @property
    def has_samples(self) -> bool:
        """Return whether sample-space vectors are represented by their coordinates, one per sample.

        If not, only AᵀA is known: X contains coefficients u with x = A u, `shape[0]` is n_features, and `get_rows` and
        `sample_gram` do not exist.
        """
        return True

    @property
    def sqrt_sample_weight(self) -> Array | None:
        """Return the square roots of the sample weights, (n_samples,), where the matrix is; None for unit weights.

        They are in the dtype of the matrix, and the half-widths of the cube over which ℓ1 variance is maximised.
        """
        return None

    @property
    def precision(self) -> float:
        """Return the relative rounding error of a product with a column, here that of the dtype."""
        return float(np.finfo(self.dtype).eps)

    @property
    def relative_tolerance(self) -> float:
        """Return the share of a column's norm below which the remainder of a subtraction is rounding error."""
        return SUBTRACTION_ROUNDING_FACTOR * self.precision

    @property
    def norm_tolerance(self) -> float:
        """Return the norm below which the remainder of a column after a subtraction is rounding error."""
        return self.relative_tolerance * max_or_zero(self.column_norms)

    @property
    def counter_for_taken(self) -> PassCounter:
        """Return the counter for an operator of taken columns: this one's, or a new one if the matrix is remote."""
        return PassCounter() if self.is_remote else self.counter

    @property
    def total_variance(self) -> float:
        """Return ‖A‖² (Frobenius), the trace of AᵀA."""
        norms = self.column_norms.astype(np.float64)
        return float(norms @ norms)

    @abstractmethod
    def correlate(self, X: Array) -> Array:
        """Compute AᵀX, (n_features, m), for represented sample-space vectors X, (shape[0], m)."""

    def combine(self, T: Array) -> Array:
        """Compute the representation of A T, (shape[0], m), for T of shape (n_features, m); may return T itself."""
        return self.combine_rows(T, find_nonzero_rows(T))

    @abstractmethod
    def combine_rows(self, T: Array, rows: Array) -> Array:
        """Compute the representation of A T, (shape[0], m), for T of shape (n_features, m); it may be T itself.

        `rows`, increasing and on the host, contains all non-zero rows of T; the others are not read.
        """

    @abstractmethod
    def columns(self, idx: Array) -> Array:
        """Return A[:, idx] as represented sample-space vectors, (shape[0], |idx|), a new array where the matrix is."""

    @abstractmethod
    def take(self, idx: Array) -> Operator:
        """Return the operator of A[:, idx], as a matrix in its own right.

        With samples, sample-space vectors keep their representation; of a covariance, they become coefficients of the
        columns `idx` alone. Variable i of the result is variable idx[i] of this operator.
        """

    @abstractmethod
    def gram(self, idx: Array) -> Array:
        """Compute A[:, idx]ᵀA[:, idx], (|idx|, |idx|), on the host, in the dtype of the operator.

        It is symmetric up to rounding, and not to be written to: it may be stored data.
        """

    @abstractmethod
    def restrict(self, idx: Array) -> ColumnRestriction:
        """Return A[:, idx], gathered once, as the operator of a separate ascent; `idx` is increasing, on the host."""

    def split_deflation(self) -> SplitDeflation:
        """Return the operator before deflation, and what deflation subtracted: nothing here, j = 0."""
        p, n = self.shape
        empty = np.zeros_like(self.column_norms, shape=(p, 0))
        return SplitDeflation(self, empty, empty, np.zeros_like(empty, shape=(n, 0)))

    def with_column_cache(self) -> Operator:
        """Return this operator with a cache of the columns last gathered; itself if it never gathers columns."""
        return self

    def get_rows(self, idx: Array) -> Array:
        """Return the rows A[idx], (|idx|, n_features), dense; `idx` is increasing and the operator has samples."""
        raise NotImplementedError(f"{type(self).__name__} has no samples")

    def sample_gram(self, idx: Array) -> Array:
        """Compute A[:, idx]A[:, idx]ᵀ, (n_samples, n_samples), on the host by blocks of columns; needs samples.

        The result is a new array in the dtype of the operator.
        """
        p, n = self.shape
        K = np.zeros((p, p), self.dtype)
        step = max(MIN_SAMPLE_GRAM_COLUMNS, n // N_SAMPLE_GRAM_BLOCKS)
        for i in range(0, idx.size, step):
            A = self.columns(idx[i : i + step])
            K += to_host(A @ A.T)
        return K

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """Compute XᵀY, (k, m), on the host, for represented vectors X, (shape[0], k), and Y, (shape[0], m).

        C = AᵀY, (n_features, m), unweighted, is used only without samples; with samples it may be an empty array.
        """
        return to_host(X.T @ Y)

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Compute the diagonal of `inner(X, X, C)`, (m,), on the host, where C = AᵀX; rounding may make it negative."""
        return column_dots(X, X)

    def dual(self, X: Array) -> Array:
        """Compute D, of the shape of X, such that the inner products XᵀY are DᵀY for every represented Y."""
        return X


class OperatorWrapper(Operator):
    """An operator derived from another, `base`, with its container, sample space, weights and rounding errors.

    Subclasses define the products, `column_norms` and the restrictions.
    """

    base: Operator
    # These members are those of the base.
    container = forward("base.container")  # with the entries of A before the base was changed
    has_samples = forward("base.has_samples")
    sqrt_sample_weight = forward("base.sqrt_sample_weight")
    precision = forward("base.precision")
    relative_tolerance = forward("base.relative_tolerance")
    dual = forward("base.dual")
    norm_tolerance = forward("base.norm_tolerance")  # rounding errors scale with the columns before subtraction
