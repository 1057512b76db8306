"""The variables that can matter: Σ over those of large variance, and how much variance the others have at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpower._arrays import Array
from gpower.certificates.eigenvalues import semidefinite_shift
from gpower.operators.base import Operator

#: Most variables whose covariance is formed, and most of them in the row bound where others may be left out.
MOST, MOST_ROWS = 1500, 400


@dataclass(frozen=True, eq=False)
class Candidates:
    """Σ over some variables; (F) of `bounds` says what may be concluded from them alone.

    Attributes
    ----------
    idx : ndarray of int, shape (m,)
        The variables, increasing.
    S : ndarray of shape (m, m)
        Σ of these plus `shift`·I, symmetric, in float64.
    floor : float
        No other variable has a larger variance, `shift` included; zero if there are none.
    shift : float
        What made Σ positive semidefinite: rounding. Values of S are larger than those of Σ by this much.
    """

    idx: Array
    S: Array
    floor: float
    shift: float

    def value(self, z: Array) -> float:
        """zᵀΣz of unit loadings over all variables, zero outside these."""
        z = z[self.idx]
        return max(float(z @ self.S @ z) - self.shift, 0.0)

    def narrow(self, most: int, support: Array) -> Candidates:
        """The same for at most `most` variables of largest variance, those of `support` among them."""
        if self.idx.size <= most:
            return self
        kept, floor = _largest(np.diagonal(self.S).copy(), np.searchsorted(self.idx, support), most)
        return Candidates(self.idx[kept], self.S[np.ix_(kept, kept)], max(floor, self.floor), self.shift)


def candidates(operator: Operator, support: Array, most: int = MOST) -> Candidates:
    """Σ over the `most` variables of largest variance, those of `support` among them.

    Parameters
    ----------
    operator : Operator
        A, deflated or not.
    support : ndarray of int
        Variables that must be there.
    """
    squares = operator.column_norms.astype(np.float64) ** 2
    n = squares.size
    if operator.has_samples and n > most:
        squares *= 1 + 64 * operator.shape[0] * float(np.finfo(operator.dtype).eps)  # rounding of the norms
        idx, floor = _largest(squares, support, most)
        S = _covariance(operator, idx)
        shift = semidefinite_shift(S, operator.noise**2)
        return Candidates(idx, S + shift * np.eye(idx.size), floor + shift, shift)
    S = _covariance(operator, np.arange(n))
    shift = semidefinite_shift(S, operator.noise**2)
    return Candidates(np.arange(n), S + shift * np.eye(n), 0.0, shift).narrow(most, support)


def _largest(squares: Array, support: Array, most: int) -> tuple[Array, float]:
    """Indices of the largest entries and of the support, and the largest entry left out."""
    order = np.argsort(-squares, kind="stable")
    idx = np.union1d(order[: max(most - support.size, 0)], support).astype(np.intp)
    rest = np.delete(squares, idx)
    return idx, float(np.max(rest, initial=0.0))


def _covariance(operator: Operator, idx: Array) -> Array:
    """Σ[idx, idx] in float64, symmetric; products of dense columns are summed in float64 whatever their type."""
    if operator.has_samples and not operator.is_sparse:
        A = operator.columns(idx).astype(np.float64)
        S = np.asarray(A.T @ A)
    else:
        S = np.asarray(operator.gram(idx), np.float64)
    S = (S + S.T) / 2
    nothing = operator.column_norms[idx] == 0  # what is left of such a column is rounding
    S[nothing], S[:, nothing] = 0.0, 0.0
    return S
