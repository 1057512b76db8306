"""The contract of a data matrix A that is seen only through products.

A has `n_samples` rows and `n_features` columns, centred and scaled as the user asked. Its sample space is
where A T lives. An operator may represent a vector x of that space as it likes (its p coordinates, or
coefficients u with x = A u when only AᵀA is known), provided that the products below are consistent:

============================ =============================================================
``correlate(X)``             AᵀX, shape (n_features, m)
``combine(T)``               the representation of A T, for T of shape (n_features, m)
``columns(idx)``             the representation of A[:, idx]
``inner(X, Y, C)``           XᵀY, given also C = AᵀY where that saves work
``dual(X)``                  D with XᵀY = DᵀY for every represented Y
``gram(idx)``                A[:, idx]ᵀA[:, idx]
``take(idx)``                the operator of A[:, idx], of the same representation
``restrict(idx)``            the operator of A[:, idx], small and contiguous, and the way back
============================ =============================================================

What it says of itself its container says. Every product counts its share of a read of the matrix in ``passes``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpower._utils.arrays import Array, column_dots, is_device_array, max_or_zero, to_host
from gpower.operators.storage.base import MAX_GATHERED_SHARE, Container


@dataclass
class PassCounter:
    """How often the matrix has been read, in units of one full read."""

    total: float = 0.0

    def add(self, share: float) -> None:
        """Count a read of `share` of the matrix."""
        self.total += share


class FrozenPassCounter(PassCounter):
    """A count that is final: what follows reads no matrix any more."""

    def add(self, share: float) -> None:
        """Nothing."""


@dataclass(frozen=True)
class ColumnRestriction:
    """Some columns of an operator as an operator of their own.

    `lift` takes a representation of a sample-space vector in `inner` to the one in the whole operator.
    """

    operator: Operator
    lift: Callable[[Array], Array]


def find_nonzero_rows(T: Array) -> Array:
    """Indices of the rows of T that are not all zero, on the host; all of them where those on a device are many."""
    used: Array = T[:, 0] if T.shape[1] == 1 else np.any(T, axis=1)
    if is_device_array(T) and int(np.count_nonzero(used)) > MAX_GATHERED_SHARE * T.shape[0]:
        return np.arange(T.shape[0])
    return to_host(used.nonzero()[0])


class Operator(ABC):
    """A matrix A, samples × variables, known through its products; `counter` counts its reads.

    Vectors of the sample space, where A T lives, are represented as the operator likes: by their coordinates, or by u
    with x = A u where only AᵀA is known.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import as_operator
    >>> operator, _ = as_operator(np.array([[3.0, 0.0], [4.0, 1.0]]), center=False)
    >>> operator.shape, operator.column_norms
    ((2, 2), array([5., 1.]))
    """

    counter: PassCounter

    @property
    @abstractmethod
    def container(self) -> Container:
        """What the numbers are in, which says how they are best read."""

    @property
    @abstractmethod
    def column_norms(self) -> Array:
        """Euclidean norms of the columns, (n_features,)."""

    @property
    def has_samples(self) -> bool:
        """Whether sample-space vectors are represented by their coordinates, one per sample."""
        return True

    @property
    def sqrt_sample_weight(self) -> Array | None:
        """Square roots of the sample weights, (n_samples,), half-widths of the cube of ℓ1 variance; None for ones."""
        return None

    @property
    def precision(self) -> float:
        """Relative rounding error of a product with a column."""
        return float(np.finfo(self.dtype).eps)

    @property
    def relative_tolerance(self) -> float:
        """Share of the norm of a column below which what a subtraction left of it is rounding."""
        return 1e3 * self.precision

    @property
    def norm_tolerance(self) -> float:
        """Norm below which a column that something was subtracted from is rounding."""
        return self.relative_tolerance * max_or_zero(self.column_norms)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features); of a covariance (n_features, n_features)."""
        return self.container.shape

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64; every product is of this type."""
        return self.container.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether columns stored densely would take much more room than the matrix."""
        return self.container.is_sparse

    @property
    def is_remote(self) -> bool:
        """Whether a step on the whole matrix costs much more than arithmetic with a few gathered columns."""
        return self.container.is_remote

    @property
    def max_cached_columns(self) -> int:
        """Number of columns that may be gathered at once."""
        return self.container.max_cached_columns

    @property
    def passes(self) -> float:
        """Reads of the matrix so far."""
        return self.counter.total

    @property
    def counter_for_taken(self) -> PassCounter:
        """Who counts the reads of columns taken: this operator, unless they were brought in from elsewhere."""
        return PassCounter() if self.is_remote else self.counter

    @property
    def total_variance(self) -> float:
        """‖A‖² (Frobenius), the trace of AᵀA."""
        norms = self.column_norms.astype(np.float64)
        return float(norms @ norms)

    def to_backend(self, values: Array) -> Array:
        """A small array where the matrix is."""
        return self.container.to_backend(values)

    @abstractmethod
    def correlate(self, X: Array) -> Array:
        """AᵀX."""

    def combine(self, T: Array) -> Array:
        """A T."""
        return self.combine_rows(T, find_nonzero_rows(T))

    @abstractmethod
    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T, where only these rows of T are not zero."""

    @abstractmethod
    def columns(self, idx: Array) -> Array:
        """A[:, idx]."""

    @abstractmethod
    def take(self, idx: Array) -> Operator:
        """The operator of A[:, idx], of the same representation."""

    @abstractmethod
    def gram(self, idx: Array) -> Array:
        """A[:, idx]ᵀA[:, idx], on the host."""

    @abstractmethod
    def restrict(self, idx: Array) -> ColumnRestriction:
        """A[:, idx], gathered once, for an ascent of its own."""

    def split_deflation(self) -> tuple[Operator, Array, Array, Array]:
        """The operator that components were removed from, and Y, D = ``dual(Y)`` and Z: this one is A − Y Zᵀ."""
        p, n = self.shape
        empty = np.zeros_like(self.column_norms, shape=(p, 0))
        return self, empty, empty, np.zeros_like(empty, shape=(n, 0))

    def with_column_cache(self) -> Operator:
        """The same operator, remembering the columns that were last gathered; itself where none ever are."""
        return self

    def is_cached(self, idx: Array) -> bool:
        """Whether some columns are gathered already."""
        return False

    def get_rows(self, idx: Array) -> Array:
        """Return A[idx], (|idx|, n_features), dense, of an operator with samples; `idx` grows."""
        raise NotImplementedError(f"{type(self).__name__} has no samples")

    def sample_gram(self, idx: Array) -> Array:
        """A[:, idx]A[:, idx]ᵀ of an operator with samples, a sum over blocks of columns, each a small part of it."""
        p, n = self.shape
        K = np.zeros((p, p), self.dtype)
        step = max(64, n // 16)
        for i in range(0, idx.size, step):
            A = self.columns(idx[i : i + step])
            K += to_host(A @ A.T)
        return K

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """XᵀY, where C = AᵀY."""
        return to_host(X.T @ Y)

    def squared_norms(self, X: Array, C: Array) -> Array:
        """The diagonal of `inner(X, X, C)`."""
        return column_dots(X, X)

    def dual(self, X: Array) -> Array:
        """D such that XᵀY is DᵀY for every represented Y."""
        return X


class OperatorWrapper(Operator):
    """An operator made of another, `base`, of which all is true that it says of itself."""

    base: Operator

    @property
    def container(self) -> Container:
        """As the base."""
        return self.base.container

    @property
    def has_samples(self) -> bool:
        """As the base."""
        return self.base.has_samples

    @property
    def sqrt_sample_weight(self) -> Array | None:
        """As the base."""
        return self.base.sqrt_sample_weight

    @property
    def precision(self) -> float:
        """As the base."""
        return self.base.precision

    @property
    def relative_tolerance(self) -> float:
        """As the base."""
        return self.base.relative_tolerance

    @property
    def norm_tolerance(self) -> float:
        """As the base: what was there before anything was subtracted is what rounds."""
        return self.base.norm_tolerance

    def dual(self, X: Array) -> Array:
        """As the base."""
        return self.base.dual(X)
