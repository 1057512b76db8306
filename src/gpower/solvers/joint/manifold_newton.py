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
MAX_RETRACTION_STEPS, MAX_CONSTRAINT_ERROR = 25, 1e-13
#: Steps of the ascent, the shortest share of a step, and the relative rise and slope that end it.
MAX_NEWTON_STEPS, MIN_STEP_SHARE, MIN_NEWTON_RISE, MIN_RELATIVE_SLOPE = 40, 1e-3, 1e-10, 1e-8
#: Equations whose singular value is below this share of the largest do not bind; curvatures are at least this share.
SINGULAR_VALUE_CUTOFF, MIN_NEWTON_CURVATURE_SHARE = 1e-9, 1e-2
#: Loadings below this are rounding.
MIN_ABS_LOADING = 1e-14


@dataclass(frozen=True, eq=False)
class JointSolution:
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
class SupportManifold:
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
    uses_scores: bool

    @cached_property
    def variable_indices(self) -> Array:
        """The variable of every loading."""
        return np.concatenate(self.supports)

    @cached_property
    def unit_indicators(self) -> Array:
        """Whose loading it is, as columns of zeros and ones, (Σ k, m)."""
        sizes = [support.size for support in self.supports]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @cached_property
    def component_pairs(self) -> tuple[Array, Array]:
        """All pairs of components, each with itself among them."""
        return np.triu_indices(len(self.supports))

    @cached_property
    def within_covariance(self) -> Array:
        """S between loadings of the same component, (Σ k, Σ k)."""
        return self.S[np.ix_(self.variable_indices, self.variable_indices)] * (
            self.unit_indicators @ self.unit_indicators.T
        )

    @cached_property
    def metric(self) -> Array:
        """B between all loadings."""
        if self.uses_scores:
            return self.S[np.ix_(self.variable_indices, self.variable_indices)]
        return (self.variable_indices[:, None] == self.variable_indices).astype(np.float64)

    def to_loadings(self, x: Array) -> Array:
        """The loadings as columns over all variables."""
        Z = np.zeros((self.S.shape[0], self.unit_indicators.shape[1]))
        Z[self.variable_indices, np.argmax(self.unit_indicators, axis=1)] = np.where(
            np.abs(x) > MIN_ABS_LOADING, x, 0.0
        )
        return Z

    def to_vector(self, Z: Array) -> Array:
        """The numbers x of some loadings."""
        return np.concatenate([Z[support, j] for j, support in enumerate(self.supports)])

    def compute_value(self, x: Array) -> float:
        """Σ zⱼᵀΣzⱼ."""
        return float(x @ self.within_covariance @ x)

    def evaluate_equations(self, x: Array) -> tuple[Array, Array]:
        """g(x), zero on the manifold, and its Jacobian transposed, (Σ k, m(m + 1)/2)."""
        (a, b), X = self.component_pairs, self.unit_indicators * x[:, None]
        BX = self.metric @ X
        g, J = (X.T @ BX)[a, b], self.unit_indicators[:, a] * BX[:, b] + self.unit_indicators[:, b] * BX[:, a]
        g[a == b], J[:, a == b] = x * x @ self.unit_indicators - 1, 2 * X
        return g, J

    def retract(self, x: Array, pseudo_inverse: Array | None = None) -> Array | None:
        """The manifold's point near x by Gauss–Newton steps, the pseudo-inverse held where given; None if not found."""
        last = np.inf
        for _ in range(MAX_RETRACTION_STEPS):
            g, J = self.evaluate_equations(x)
            error = float(np.max(np.abs(g)))
            if error == 0 or last <= error <= MAX_CONSTRAINT_ERROR:
                return x
            if not error < max(1e3, last) or (pseudo_inverse is not None and error > 0.5 * last):
                return None if pseudo_inverse is None else self.retract(x)
            last, x = (
                error,
                x
                - (np.linalg.pinv(J.T, rcond=SINGULAR_VALUE_CUTOFF) if pseudo_inverse is None else pseudo_inverse) @ g,
            )
        return x if last <= MAX_CONSTRAINT_ERROR else None

    def ascend(self, Z: Array) -> JointSolution | None:
        """The top near some loadings, which need not be on the manifold; None if no way leads there."""
        x = self.retract(self.to_vector(Z))
        if x is None:
            return None
        value = self.compute_value(x)
        for _ in range(MAX_NEWTON_STEPS):
            direction, inverse = self._compute_newton_step(x)
            if direction is None:
                break
            higher = self._search_along(x, direction, inverse, value)
            if higher is None:
                break
            rise, x = self.compute_value(higher) - value, higher
            value += rise
            if rise <= MIN_NEWTON_RISE * value:
                break
        return JointSolution(self.to_loadings(x), value, self.compute_multipliers(x), self.supports)

    def compute_multipliers(self, x: Array) -> Array:
        """Of the equations at x, by least squares."""
        _, J = self.evaluate_equations(x)
        return self._to_multiplier_matrix(
            np.linalg.pinv(J, rcond=SINGULAR_VALUE_CUTOFF) @ (2 * self.within_covariance @ x)
        )

    def _to_multiplier_matrix(self, pair_multipliers: Array) -> Array:
        """Multipliers of all pairs as a matrix, those of the norms doubled as their derivative is."""
        L = np.zeros((self.unit_indicators.shape[1],) * 2)
        L[self.component_pairs] = pair_multipliers
        return L + L.T

    def _compute_newton_step(self, x: Array) -> tuple[Array | None, Array]:
        """The direction to the top of the quadratic model, None where there is none left; and J⁺ of the equations."""
        _, J = self.evaluate_equations(x)
        U, s, Vt = np.linalg.svd(J)
        rank = int(np.count_nonzero(s > SINGULAR_VALUE_CUTOFF * s[0]))
        inverse = (U[:, :rank] / s[:rank]) @ Vt[:rank]  # (Σ k, m(m + 1)/2)
        gradient, tangent = 2 * self.within_covariance @ x, U[:, rank:]
        slope = tangent.T @ gradient
        if not np.linalg.norm(slope) > MIN_RELATIVE_SLOPE * np.linalg.norm(gradient):
            return None, inverse
        L = self._to_multiplier_matrix(inverse.T @ gradient)
        between = self.unit_indicators @ (L - np.diag(np.diagonal(L))) @ self.unit_indicators.T
        H = 2 * self.within_covariance - np.diag(self.unit_indicators @ np.diagonal(L)) - between * self.metric
        w, Q = np.linalg.eigh(tangent.T @ H @ tangent)
        curvature = np.maximum(np.abs(w), MIN_NEWTON_CURVATURE_SHARE * np.max(np.abs(w)))
        return tangent @ (Q @ ((Q.T @ slope) / curvature)), inverse

    def _search_along(self, x: Array, direction: Array, pseudo_inverse: Array, value: float) -> Array | None:
        """A higher point of the manifold in a direction, or None."""
        share = 1.0
        while share > MIN_STEP_SHARE:
            found = self.retract(x + share * direction, pseudo_inverse)
            if found is not None and self.compute_value(found) > value:
                return found
            share /= 4
        return None
