"""Several components on given supports, kept orthogonal or uncorrelated while all of them rise together.

With the supports Iⱼ fixed, the loadings x = (z₁, …, z_m) on them are Σ kⱼ numbers, and what is asked of them are
equations: zⱼᵀzⱼ = 1, and zᵢᵀB zⱼ = 0 for every pair, with B = I (orthogonal loadings) or B = Σ (uncorrelated scores).
One component in turn with the others held is not enough: two that share a few variables hold each other where they
are. So all move at once, by Newton's method on the manifold of these equations: a step in the null space of their
Jacobian J, to the top of the quadratic model of the Lagrangian there, then back to the manifold by Gauss–Newton steps
x − J⁺g(x), and only if Σ zⱼᵀΣzⱼ rises. Its multipliers say what a variable outside of a support would bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array

#: Steps back to the manifold, and how far from it rounding may leave them.
RETURNS, ON_MANIFOLD = 25, 1e-13
#: Steps of the ascent, the shortest share of a step, and the relative rise and slope that end it.
STEPS, SHORTEST, RISE, SLOPE = 40, 1e-3, 1e-10, 1e-8
#: Equations whose singular value is below this share of the largest do not bind; curvatures are at least this share.
FREE, FLATTEST = 1e-9, 1e-2
#: Loadings below this are rounding.
NO_LOADING = 1e-14


@dataclass(frozen=True, eq=False)
class Joint:
    """Components on given supports.

    Attributes
    ----------
    Z : ndarray of shape (n, m)
    value : float
        Σ zⱼᵀΣzⱼ.
    multipliers : ndarray of shape (m, m)
        Of the equations, symmetric: the gradient 2Σzⱼ is Σ_l multipliers[j, l]·B z_l on the support of j, where the
        term l = j has z instead of B z.
    supports : sequence of ndarray of int
    """

    Z: Array
    value: float
    multipliers: Array
    supports: Sequence[Array]


@dataclass(frozen=True, eq=False)
class Pattern:
    """The supports of m components over a covariance S, and what is asked of the loadings on them.

    Attributes
    ----------
    S : ndarray of shape (n, n)
        Scaled so that values are about one.
    supports : sequence of ndarray of int
    by_scores : bool
        Uncorrelated scores, B = S, instead of orthogonal loadings, B = I.
    """

    S: Array
    supports: Sequence[Array]
    by_scores: bool

    @cached_property
    def rows(self) -> Array:
        """The variable of every loading."""
        return np.concatenate(self.supports)

    @cached_property
    def units(self) -> Array:
        """Whose loading it is, as columns of zeros and ones, (Σ k, m)."""
        sizes = [support.size for support in self.supports]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """All pairs of components, each with itself among them."""
        return np.triu_indices(len(self.supports))

    @cached_property
    def own(self) -> Array:
        """S between loadings of the same component, (Σ k, Σ k)."""
        return self.S[np.ix_(self.rows, self.rows)] * (self.units @ self.units.T)

    @cached_property
    def metric(self) -> Array:
        """B between all loadings."""
        if self.by_scores:
            return self.S[np.ix_(self.rows, self.rows)]
        return (self.rows[:, None] == self.rows).astype(np.float64)

    def loadings(self, x: Array) -> Array:
        """The loadings as columns over all variables."""
        Z = np.zeros((self.S.shape[0], self.units.shape[1]))
        Z[self.rows, np.argmax(self.units, axis=1)] = np.where(np.abs(x) > NO_LOADING, x, 0.0)
        return Z

    def of(self, Z: Array) -> Array:
        """The numbers x of some loadings."""
        return np.concatenate([Z[support, j] for j, support in enumerate(self.supports)])

    def value(self, x: Array) -> float:
        """Σ zⱼᵀΣzⱼ."""
        return float(x @ self.own @ x)

    def equations(self, x: Array) -> tuple[Array, Array]:
        """g(x), zero on the manifold, and its Jacobian transposed, (Σ k, m(m + 1)/2)."""
        (a, b), X = self.pairs, self.units * x[:, None]
        BX = self.metric @ X
        g, J = (X.T @ BX)[a, b], self.units[:, a] * BX[:, b] + self.units[:, b] * BX[:, a]
        g[a == b], J[:, a == b] = x * x @ self.units - 1, 2 * X
        return g, J

    def returned(self, x: Array, inverse: Array | None = None) -> Array | None:
        """The manifold's point near x by Gauss–Newton steps, the pseudo-inverse held where given; None if not found."""
        last = np.inf
        for _ in range(RETURNS):
            g, J = self.equations(x)
            error = float(np.max(np.abs(g)))
            if error == 0 or last <= error <= ON_MANIFOLD:
                return x
            if not error < max(1e3, last) or (inverse is not None and error > 0.5 * last):
                return None if inverse is None else self.returned(x)
            last, x = error, x - (np.linalg.pinv(J.T, rcond=FREE) if inverse is None else inverse) @ g
        return x if last <= ON_MANIFOLD else None

    def ascend(self, Z: Array) -> Joint | None:
        """The top near some loadings, which need not be on the manifold; None if no way leads there."""
        x = self.returned(self.of(Z))
        if x is None:
            return None
        value = self.value(x)
        for _ in range(STEPS):
            direction, inverse = self._step(x)
            if direction is None:
                break
            higher = self._along(x, direction, inverse, value)
            if higher is None:
                break
            rise, x = self.value(higher) - value, higher
            value += rise
            if rise <= RISE * value:
                break
        return Joint(self.loadings(x), value, self.multipliers(x), self.supports)

    def multipliers(self, x: Array) -> Array:
        """Of the equations at x, by least squares."""
        _, J = self.equations(x)
        return self._symmetric(np.linalg.pinv(J, rcond=FREE) @ (2 * self.own @ x))

    def _symmetric(self, found: Array) -> Array:
        """Multipliers of all pairs as a matrix, those of the norms doubled as their derivative is."""
        L = np.zeros((self.units.shape[1],) * 2)
        L[self.pairs] = found
        return L + L.T

    def _step(self, x: Array) -> tuple[Array | None, Array]:
        """The direction to the top of the quadratic model, None where there is none left; and J⁺ of the equations."""
        _, J = self.equations(x)
        U, s, Vt = np.linalg.svd(J)
        rank = int(np.count_nonzero(s > FREE * s[0]))
        inverse = (U[:, :rank] / s[:rank]) @ Vt[:rank]  # (Σ k, m(m + 1)/2)
        gradient, tangent = 2 * self.own @ x, U[:, rank:]
        slope = tangent.T @ gradient
        if not np.linalg.norm(slope) > SLOPE * np.linalg.norm(gradient):
            return None, inverse
        L = self._symmetric(inverse.T @ gradient)
        between = self.units @ (L - np.diag(np.diagonal(L))) @ self.units.T
        H = 2 * self.own - np.diag(self.units @ np.diagonal(L)) - between * self.metric
        w, Q = np.linalg.eigh(tangent.T @ H @ tangent)
        curvature = np.maximum(np.abs(w), FLATTEST * np.max(np.abs(w)))
        return tangent @ (Q @ ((Q.T @ slope) / curvature)), inverse

    def _along(self, x: Array, direction: Array, inverse: Array, value: float) -> Array | None:
        """A higher point of the manifold in a direction, or None."""
        share = 1.0
        while share > SHORTEST:
            found = self.returned(x + share * direction, inverse)
            if found is not None and self.value(found) > value:
                return found
            share /= 4
        return None
