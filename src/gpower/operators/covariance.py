"""Operator of a matrix A of which only AᵀA = Σ is known, for instance a covariance.

A vector x = A u is represented by its coefficients u, so that m vectors are an array U of shape (n_features, m), which
the methods of every operator call X or Y; correlations AᵀA U = ΣU are called C. All arrays are NumPy arrays in the
dtype of Σ, float32 or float64; indices `idx` are of int, different, in any order. `counter` counts the reads of Σ, 1
for all of it. ``find_nonzero_rows(T)`` returns the increasing indices of the rows of T that are not zero;
``multiply_dense(A, Y)`` is A @ Y; ``column_dots(X, Y)``, (m,), are the inner products of corresponding columns;
``embed_rows(U, idx, n)`` has n rows, those of U at `idx` and zeros elsewhere. A `ColumnRestriction` is the operator of
some columns and the function `lift` that turns its vectors into those of this operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array, column_dots, embed_rows
from gpower.operators.base import ColumnRestriction, Operator, PassCounter, find_nonzero_rows
from gpower.operators.storage.base import MAX_GATHERED_SHARE
from gpower.operators.storage.dense import DenseMatrix, multiply_dense

#: Units of the root of the machine epsilon up to which a norm, the root of a rounded square, is rounding error.
ROUNDING_IN_ROOT_EPS = 8


@dataclass(frozen=True, eq=False)
class Covariance(Operator):
    """Operator of A given only Σ = AᵀA; a sample-space vector x = A u is represented by u.

    Then T represents A T, AᵀX is ΣU, and XᵀX is UᵀΣU, so that Σ is never factorised. The number of samples is unknown:
    `shape` is (n_features, n_features), and arrays of represented vectors, called X, U or V here, have n_features rows.
    Everything is on the host.

    Parameters
    ----------
    S : ndarray of shape (n_features, n_features)
        The matrix Σ, symmetric positive semidefinite, on the host; it is not copied and never changed.
    counter : PassCounter, optional
        Counts the reads of Σ; by default a new one.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.operators import Covariance
    >>> S = Covariance(np.diag([4.0, 1.0]))
    >>> S.column_norms
    array([2., 1.])
    """

    S: Array
    counter: PassCounter = field(default_factory=PassCounter)

    @cached_property
    def container(self) -> DenseMatrix:
        """Return the container of Σ, (n_features, n_features)."""
        return DenseMatrix(self.S)

    @property
    def has_samples(self) -> bool:
        """Return False: vectors are represented by coefficients of the columns."""
        return False

    @property
    def relative_tolerance(self) -> float:
        """Return the share of a norm that is rounding error: the rounded numbers are squares, hence a square root."""
        return ROUNDING_IN_ROOT_EPS * float(np.sqrt(self.precision))

    @property
    def column_norms(self) -> Array:
        """Return the norms of the columns of A, (n_features,): the square roots of the diagonal of Σ."""
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.S), 0)))

    def correlate(self, X: Array) -> Array:
        """Compute ΣU, (n_features, m), for U in the argument X, (n_features, m); the result is a new array.

        If at most the share MAX_GATHERED_SHARE of the rows of U are non-zero, only those rows of Σ are read; this share
        is counted, otherwise 1.
        """
        rows = find_nonzero_rows(X)
        if rows.size <= MAX_GATHERED_SHARE * X.shape[0]:
            self.counter.add(rows.size / X.shape[0])
            return multiply_dense(self.S[rows].T, X[rows])
        self.counter.add(1)
        return multiply_dense(self.S, X)

    def combine(self, T: Array) -> Array:
        """Return T, (n_features, m), itself: the columns of T are the coefficients that represent A T."""
        return T

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """Return T, (n_features, m), itself, which represents A T; `rows`, its non-zero rows, are not needed."""
        return T

    def columns(self, idx: Array) -> Array:
        """Return the unit vectors that represent the columns, (n_features, |idx|), in a new array; Σ is not read."""
        E = np.zeros((self.shape[1], len(idx)), self.dtype)
        E[idx, np.arange(len(idx))] = 1
        return E

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """Compute UᵀΣV, (k, m), from C = ΣV, (n, m), which is required, for U in X, (n, k); V in Y is not read."""
        return np.asarray(X.T @ C)

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Compute the diagonal of UᵀΣU, (m,), from C = ΣU, which is required."""
        return column_dots(X, C)

    def dual(self, X: Array) -> Array:
        """Compute D = ΣU, (n_features, m), for U in the argument X: inner products UᵀΣV are DᵀV."""
        return self.correlate(X)

    def gram(self, idx: Array) -> Array:
        """Return Σ[idx, idx], (|idx|, |idx|), not to be written to: it is Σ itself if `idx` lists all in order."""
        if len(idx) == self.shape[1] and np.array_equal(idx, np.arange(len(idx))):
            return self.S
        self.counter.add((len(idx) / self.shape[1]) ** 2)
        return np.asarray(self.S[np.ix_(idx, idx)])

    def take(self, idx: Array) -> Covariance:
        """Return the covariance of some variables, whose vectors are coefficients of these variables alone.

        Variable i of the result is variable idx[i]. The counter is shared.
        """
        return Covariance(self.gram(idx), self.counter)

    def restrict(self, idx: Array) -> ColumnRestriction:
        """Return Σ[idx, idx]; `lift` embeds coefficients, (|idx|, m), into all variables, (n_features, m).

        The operator has a counter of its own.
        """
        return ColumnRestriction(Covariance(self.gram(idx)), lambda U: embed_rows(U, idx, self.shape[1]))
