"""Removing a component from the matrix without rewriting it: A − Y Zᵀ as an operator.

Every rule below is such a low-rank change, so one wrapper serves them all, over data and over covariances.

=================== ============================================== ==============================
rule                change                                          what is left
=================== ============================================== ==============================
``projection``      A − (A z)zᵀ [JNRS10, section 4.4]               nothing along z
``orthogonalized``  the same with z orthogonalised against the      nothing in the span of all z
                    earlier ones
``schur``           A − x(Aᵀx)ᵀ, x = A z/‖A z‖                      nothing correlated with A z
=================== ============================================== ==============================

The first leaves variance along earlier loadings once they overlap; the second does not; the third works on
the samples: what is left is uncorrelated with the earlier scores. All keep AᵀA positive semidefinite.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpower._arrays import Array, rows_of, to_host
from gpower.operators.base import Operator, PassCounter, Restriction, Wrapper
from gpower.operators.covariance import Covariance
from gpower.operators.data_matrix import DataMatrix, Gathering

#: Columns deflated at once, and entries of columns whose norms are taken at once.
BLOCK, BLOCK_ENTRIES = 256, 1 << 20
RULES = ("projection", "orthogonalized", "schur")


@dataclass(frozen=True, eq=False)
class Deflated(Wrapper):
    """A − Y Zᵀ.

    Attributes
    ----------
    base : Operator
        A.
    Y : ndarray
        Representation in sample space, one column per removed component.
    D : ndarray
        ``base.dual(Y)``.
    Z : ndarray of shape (n_features, j)
    norms : ndarray of shape (n_features,)
        Column norms of the difference.
    """

    base: Operator
    Y: Array
    D: Array
    Z: Array
    norms: Array
    counter: PassCounter = field(default_factory=PassCounter)

    @property
    def column_norms(self) -> Array:
        """Norms of the deflated columns."""
        return self.norms

    @cached_property
    def _gone(self) -> Array | None:
        """Mask of the columns of which only rounding is left, which must not pass for data; None if there are none."""
        gone = self.norms == 0
        return gone if gone.any() else None

    def correlate(self, X: Array) -> Array:
        """AᵀX − Z(YᵀX)."""
        C = self.base.correlate(X) - self.Z @ (self.D.T @ X)
        return C if self._gone is None else np.where(self._gone[:, None], 0, C)

    def combine_rows(self, T: Array, rows: Array) -> Array:
        """A T − Y(ZᵀT)."""
        return self.base.combine_rows(T, rows) - self.Y @ (self.Z.T @ T)

    def columns(self, idx: Array) -> Array:
        """A[:, idx] − Y Z[idx]ᵀ."""
        A = self.base.columns(idx)
        for j in range(0, len(idx), BLOCK):  # in place, a few columns at a time: A may be much of the matrix
            A[:, j : j + BLOCK] -= self.Y @ rows_of(self.Z, idx[j : j + BLOCK]).T
        if self._gone is not None:
            A *= ~rows_of(self._gone, idx)
        return A

    def inner(self, X: Array, Y: Array, C: Array) -> Array:
        """XᵀY; the base's own correlations are recovered from the deflated ones where it needs them."""
        return self.base.inner(X, Y, self._undo(Y, C))

    def squared_norms(self, X: Array, C: Array) -> Array:
        """Diagonal of XᵀX."""
        return self.base.squared_norms(X, self._undo(X, C))

    def _undo(self, X: Array, C: Array) -> Array:
        return C if self.has_samples else C + self.Z @ (self.D.T @ X)

    def parts(self) -> tuple[Operator, Array, Array, Array]:
        """Base, Y, D and Z."""
        return self.base, self.Y, self.D, self.Z

    def gram(self, idx: Array) -> Array:
        """Gram matrix of some deflated columns."""
        if self.has_samples and self.container.gathers(len(idx)):
            A = self.columns(idx)
            return to_host(self.container.held(A).cross(A))
        Z = self.Z[idx]
        cross = self._correlations[idx] @ Z.T
        G = self.base.gram(idx) - cross - cross.T + Z @ (self.Y.T @ self.D) @ Z.T
        return G if self._gone is None else G * ~self._gone[idx] * ~self._gone[idx][:, None]

    @cached_property
    def _correlations(self) -> Array:
        """AᵀY, (n_features, j)."""
        return self.base.correlate(self.Y) if self.has_samples else self.D

    def take(self, idx: Array) -> Operator:
        """Some columns, the deflation carried out where they are dense."""
        if self.is_sparse:
            base = self.base.take(idx)
            return replace(self, base=base, Z=self.Z[idx], norms=self.norms[idx], counter=base.counter)
        if self.has_samples:
            held = self.container.held(self.columns(idx))
            return DataMatrix(held, rows_of(self.norms, idx), counter=self.taken_counter)
        return Covariance(self.gram(idx), self.counter)

    def gathering(self) -> Operator:
        """With a memory of gathered columns, where there are samples."""
        return Gathering(self) if self.has_samples else self

    def restrict(self, idx: Array) -> Restriction:
        """Some columns, the deflation carried out, and the way back."""
        if self.has_samples:
            return Gathering(self).restrict(idx)
        selector = self.columns(idx)  # coefficients of the deflated columns over all variables
        return Restriction(Covariance(self.gram(idx)), lambda U: selector @ U)


def deflate(operator: Operator, z: Array, rule: str = "projection") -> Operator:
    """The operator with the component of unit loadings z, (n_features,), removed by `rule`.

    A zero z changes nothing.
    """
    if not np.any(z):
        return operator
    base, Y, D, Z = operator.parts()
    z = z.astype(operator.dtype)[:, None]
    if rule == "orthogonalized":
        for _ in range(2):  # twice is enough
            z = z - Z @ (Z.T @ z)
        length = float(np.sqrt(np.sum(z * z)))
        if length <= 1e3 * np.finfo(z.dtype).eps:
            return operator
        z = z / length
    y = operator.combine(z)  # (p, 1)
    if rule == "schur":
        c = operator.correlate(y)
        norm = float(np.sqrt(max(float(operator.squared_norms(y, c)[0]), 0.0)))
        if norm <= operator.noise:  # the earlier components explain it: what is left points anywhere
            return operator
        y, z = y / norm, c / norm
    d = base.dual(y)
    norms = _deflated_norms(operator, y, z, rule)
    Y, D, Z = np.hstack([Y, y]), np.hstack([D, d]), np.hstack([Z, z])
    return Deflated(base, Y, D, Z, norms, counter=operator.counter)


def _deflated_norms(operator: Operator, y: Array, z: Array, rule: str) -> Array:
    """Norms of A − y zᵀ; only columns with z ≠ 0 change. What rounding alone leaves of a column is zero."""
    before = operator.column_norms.astype(np.float64) ** 2
    whole = operator.parts()[0].column_norms.astype(np.float64) ** 2
    eps, t = operator.precision, z[:, 0].astype(np.float64)
    idx = np.flatnonzero(t) if isinstance(t, np.ndarray) else np.zeros(0, int)
    if rule == "schur":  # the removed part of column i is zᵢ long and orthogonal to the rest
        after, noise = before - t**2, 32 * eps
    elif operator.has_samples and 0 < idx.size <= t.size // 4 and not operator.is_remote:
        after, noise = before.copy(), (128 * eps) ** 2
        few = max(8, min(BLOCK, BLOCK_ENTRIES // operator.shape[0]))
        for part in np.array_split(idx, idx.size // few + 1):
            after[part] = np.sum((operator.columns(part) - y @ z[part].T).astype(np.float64) ** 2, axis=0)
    else:
        c = operator.correlate(y)
        after, noise = before - 2 * t * c[:, 0] + t**2 * float(operator.squared_norms(y, c)[0]), 32 * eps
    return np.sqrt(np.where(after > noise * whole, after, 0.0)).astype(operator.dtype)
