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
``restrict(idx)``            the operator of A[:, idx], small and contiguous, and the way back
============================ =============================================================

Every product counts its share of a read of the matrix in ``passes``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpower._arrays import Array, beside, column_dots, largest, to_host
from gpower.operators.gathered import Gathered


@dataclass
class PassCounter:
    """How often the matrix has been read, in units of one full read."""

    total: float = 0.0

    def add(self, share: float) -> None:
        """Count a read of `share` of the matrix."""
        self.total += share


class ClosedCounter(PassCounter):
    """A count that is final: what follows reads no matrix any more."""

    def add(self, share: float) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Restriction:
    """Some columns of an operator as an operator of their own.

    `lift` takes a representation of a sample-space vector in `inner` to the one in the whole operator.
    """

    inner: Operator
    lift: Callable[[Array], Array]


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator(ABC):
    """A matrix known through its products; see the table of this module."""

    counter: PassCounter = field(default_factory=PassCounter)
    gathered: Gathered = field(default_factory=Gathered)

    #: Whether sample-space vectors are represented by their coordinates, one per sample.
    has_samples = True

    #: Whether products with data in single precision are summed in double.
    double_sums = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """float32 or float64; every product is of this type."""

    @property
    @abstractmethod
    def column_norms(self) -> Array:
        """Euclidean norms of the columns, (n_features,)."""

    @property
    def is_sparse(self) -> bool:
        """Whether columns stored densely would take much more room than the matrix."""
        return False

    @property
    def widest_gram(self) -> int:
        """Number of columns whose Gram matrix still takes little room beside the matrix."""
        return self.shape[1]

    @property
    def precision(self) -> float:
        """Relative rounding error of a product with a column."""
        return float(np.finfo(self.dtype).eps)

    @property
    def noise(self) -> float:
        """Norm below which a column that something was subtracted from is rounding."""
        return 1e3 * self.precision * largest(self.column_norms)

    @property
    def is_remote(self) -> bool:
        """Whether a step on the whole matrix costs much more than arithmetic with a few gathered columns."""
        return False

    @property
    def widest_take(self) -> int:
        """Number of columns that may be gathered at once."""
        return self.shape[1]

    @property
    def sample_radius(self) -> Array | None:
        """Square roots of the sample weights, (n_samples,), half-widths of the cube of ℓ1 variance; None for ones."""
        return None

    @abstractmethod
    def correlate(self, X: Array) -> Array:
        """AᵀX."""

    @abstractmethod
    def combine(self, T: Array) -> Array:
        """A T."""

    @abstractmethod
    def columns(self, idx: Array) -> Array:
        """A[:, idx]."""

    @abstractmethod
    def take(self, idx: Array) -> Operator:
        """The operator of A[:, idx], of the same representation."""

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """XᵀY, where C = AᵀY."""
        return to_host(X.T @ Y)

    def squared_norms(self, X: Array, C: Array) -> Array:
        """The diagonal of `inner(X, X, C)`."""
        return column_dots(X, X)

    def dual(self, X: Array) -> Array:
        """D such that XᵀY is DᵀY for every represented Y."""
        return X

    @abstractmethod
    def gram(self, idx: Array) -> Array:
        """A[:, idx]ᵀA[:, idx]."""

    def own(self, values: Array) -> Array:
        """A small array where the matrix is."""
        norms = self.column_norms
        return to_host(values) if isinstance(norms, np.ndarray) else beside(norms, values)

    def in_double(self) -> Operator:
        """The same in float64."""
        raise NotImplementedError

    @property
    def taken_counter(self) -> PassCounter:
        """Who counts the reads of columns taken: this operator, unless they were brought in from elsewhere."""
        return PassCounter() if self.is_remote else self.counter

    @property
    def passes(self) -> float:
        """Reads of the matrix so far."""
        return self.counter.total

    @property
    def total_variance(self) -> float:
        """‖A‖² (Frobenius), the trace of AᵀA."""
        norms = self.column_norms.astype(np.float64)
        return float(norms @ norms)

    @abstractmethod
    def restrict(self, idx: Array) -> Restriction:
        """A[:, idx], gathered once, for an ascent of its own."""
