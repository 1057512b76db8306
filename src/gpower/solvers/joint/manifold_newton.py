"""Maximise the variance of several components on fixed supports, with orthogonal loadings or uncorrelated scores.

With the supports Iⱼ fixed, the loadings on them are a vector x = (z₁, …, z_m) of Σ kⱼ numbers. The constraints are the
equations zⱼᵀzⱼ = 1, and zᵢᵀB zⱼ = 0 for every pair, with B = I (orthogonal loadings) or B = Σ (uncorrelated scores).
Improving one component while the others are fixed is not enough: two components that share a few variables block each
other. So all components move at once, by Newton's method on the manifold of these equations: a step in the null space
of their Jacobian J to the maximum of the quadratic model of the Lagrangian, then Gauss–Newton steps x − J⁺g(x) back to
the manifold. The step is accepted only if Σ zⱼᵀΣzⱼ rises.

Terms: Σ, in the code S, (n, n), is a covariance, symmetric, scaled so that values are about one. Supports are m arrays
of distinct positions in S, in any order; Σ k is the sum of their sizes, and x, (Σ k,), has the loadings of the first
component, then those of the second, …, each in the order of its support. Pairs of components, each with itself too, are
in the order of ``np.triu_indices(m)``, m(m + 1)/2 of them. J, in the code transposed, (Σ k, m(m + 1)/2), is the
Jacobian of the equations, and J⁺ its pseudo-inverse of the same shape. All arrays are on the host in float64; none is
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpower._utils.arrays import Array

#: Largest number of Gauss–Newton steps of a retraction, and largest error of an equation that rounding explains.
MAX_RETRACTION_STEPS, MAX_CONSTRAINT_ERROR = 25, 1e-13
#: Error of an equation up to which a step of a retraction may raise it; a larger rise, or NaN, ends the retraction.
ERROR_LIMIT = 1e3
#: Largest number of Newton steps, and smallest share of a step in the line search.
MAX_NEWTON_STEPS, MIN_STEP_SHARE = 40, 1e-3
#: Relative rise of the objective, and norm of the tangential gradient relative to the gradient, that end the ascent.
MIN_NEWTON_RISE, MIN_RELATIVE_SLOPE = 1e-10, 1e-8
#: Share of the largest singular value of J below which the others count as zero.
SINGULAR_VALUE_CUTOFF = 1e-9
#: Share of the largest curvature of the quadratic model that every curvature is raised to.
MIN_NEWTON_CURVATURE_SHARE = 1e-2
#: Absolute loading up to which a loading is rounding and set to zero.
MIN_ABS_LOADING = 1e-14


@dataclass(frozen=True, eq=False)
class SupportManifold:
    """The manifold of unit loadings of m components on fixed supports that are orthogonal or have uncorrelated scores.

    Attributes
    ----------
    S : ndarray of float64 of shape (n, n)
        Covariance, scaled so that values are about one.
    supports : sequence of ndarray of int
        Variables of each component, not empty.
    uses_scores : bool
        Uncorrelated scores, B = S, instead of orthogonal loadings, B = I.
    """

    S: Array
    supports: Sequence[Array]
    uses_scores: bool

    @cached_property
    def variable_indices(self) -> Array:
        """Return the variable of every entry of x, (Σ k,)."""
        return np.concatenate(self.supports)

    @cached_property
    def unit_indicators(self) -> Array:
        """Return the component of every entry of x as an indicator matrix of zeros and ones, (Σ k, m)."""
        sizes = [support.size for support in self.supports]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @cached_property
    def component_pairs(self) -> tuple[Array, Array]:
        """Return the indices of all pairs of components, including each with itself: one equation for each pair."""
        return np.triu_indices(len(self.supports))

    @cached_property
    def within_covariance(self) -> Array:
        """Return S between entries of x of the same component, zero between components, (Σ k, Σ k)."""
        is_same_unit = self.unit_indicators @ self.unit_indicators.T
        return self.S[np.ix_(self.variable_indices, self.variable_indices)] * is_same_unit

    @cached_property
    def metric(self) -> Array:
        """Return B between all entries of x, (Σ k, Σ k)."""
        if self.uses_scores:
            return self.S[np.ix_(self.variable_indices, self.variable_indices)]
        return (self.variable_indices[:, None] == self.variable_indices).astype(np.float64)

    def to_loadings(self, x: Array) -> Array:
        """Return the loadings Z, (n, m), of a vector x, (Σ k,); those that are rounding are exactly zero."""
        Z = np.zeros((self.S.shape[0], self.unit_indicators.shape[1]))
        components = np.argmax(self.unit_indicators, axis=1)
        Z[self.variable_indices, components] = np.where(np.abs(x) > MIN_ABS_LOADING, x, 0.0)
        return Z

    def to_vector(self, Z: Array) -> Array:
        """Return the vector x, (Σ k,), of loadings Z, (n, m); loadings outside of the supports are left out."""
        return np.concatenate([Z[support, j] for j, support in enumerate(self.supports)])

    def compute_value(self, x: Array) -> float:
        """Compute the sum of variances Σ zⱼᵀΣzⱼ of a vector x, (Σ k,)."""
        return float(x @ self.within_covariance @ x)

    def evaluate_equations(self, x: Array) -> tuple[Array, Array]:
        """Compute g(x), (m(m + 1)/2,), zero on the manifold, and its transposed Jacobian, (Σ k, m(m + 1)/2).

        There is an equation for each pair of `component_pairs`, in their order: zᵢᵀB zⱼ = 0 for i < j, and zⱼᵀzⱼ − 1 =
        0 for a component with itself. x, (Σ k,), need not be on the manifold.
        """
        a, b = self.component_pairs
        X = self.unit_indicators * x[:, None]
        BX = self.metric @ X
        g = (X.T @ BX)[a, b]
        J = self.unit_indicators[:, a] * BX[:, b] + self.unit_indicators[:, b] * BX[:, a]
        g[a == b] = x * x @ self.unit_indicators - 1
        J[:, a == b] = 2 * X
        return g, J

    def retract(self, x: Array, pseudo_inverse: Array | None = None) -> Array | None:
        """Return a point of the manifold near x, found by Gauss–Newton steps; None if they do not converge.

        A given pseudo-inverse J⁺, (Σ k, m(m + 1)/2), is used in every step, as long as the error halves; then J⁺ is
        computed anew, from the point reached. x is (Σ k,). The error is the largest |gᵢ|; a point counts as on the
        manifold if it is within rounding and does not fall any more, or zero.
        """
        last_error = np.inf
        for _ in range(MAX_RETRACTION_STEPS):
            g, J = self.evaluate_equations(x)
            error = float(np.max(np.abs(g)))
            if error == 0 or last_error <= error <= MAX_CONSTRAINT_ERROR:
                return x
            if not error < max(ERROR_LIMIT, last_error) or (pseudo_inverse is not None and error > 0.5 * last_error):
                return None if pseudo_inverse is None else self.retract(x)
            inverse = np.linalg.pinv(J.T, rcond=SINGULAR_VALUE_CUTOFF) if pseudo_inverse is None else pseudo_inverse
            x = x - inverse @ g
            last_error = error
        return x if last_error <= MAX_CONSTRAINT_ERROR else None

    def ascend(self, Z: Array) -> Array | None:
        """Return a local maximum near loadings Z, (n, m), which need not be on the manifold; None if retraction fails.

        The result, (n, m), has unit columns, zero outside of the supports. Its value is no smaller than that of the
        first point on the manifold.
        """
        x = self.retract(self.to_vector(Z))
        if x is None:
            return None
        value = self.compute_value(x)
        for _ in range(MAX_NEWTON_STEPS):
            direction, pseudo_inverse = self._compute_newton_step(x)
            if direction is None:
                break
            better = self._search_along(x, direction, pseudo_inverse, value)
            if better is None:
                break
            rise = self.compute_value(better) - value
            x = better
            value += rise
            if rise <= MIN_NEWTON_RISE * value:
                break
        return self.to_loadings(x)

    def _compute_newton_step(self, x: Array) -> tuple[Array | None, Array]:
        """Return the step to the maximum of the quadratic model, or None at a stationary point, and J⁺ at x.

        x, (Σ k,), is on the manifold; the step, (Σ k,), is tangential, so that x plus the step must be retracted. It is
        a direction of ascent, because negative curvatures are reversed. J⁺ is (Σ k, m(m + 1)/2).
        """
        _, J = self.evaluate_equations(x)
        U, s, Vt = np.linalg.svd(J)
        rank = int(np.count_nonzero(s > SINGULAR_VALUE_CUTOFF * s[0]))
        pseudo_inverse = (U[:, :rank] / s[:rank]) @ Vt[:rank]  # (Σ k, m(m + 1)/2)
        gradient = 2 * self.within_covariance @ x
        tangent = U[:, rank:]  # basis of the null space of the Jacobian
        slope = tangent.T @ gradient
        if not np.linalg.norm(slope) > MIN_RELATIVE_SLOPE * np.linalg.norm(gradient):
            return None, pseudo_inverse
        L = np.zeros((self.unit_indicators.shape[1],) * 2)  # Lagrange multipliers
        L[self.component_pairs] = pseudo_inverse.T @ gradient
        L = L + L.T  # those of the norms are doubled, because the derivative of zⱼᵀzⱼ is 2zⱼ
        between = self.unit_indicators @ (L - np.diag(np.diagonal(L))) @ self.unit_indicators.T
        H = 2 * self.within_covariance - np.diag(self.unit_indicators @ np.diagonal(L)) - between * self.metric
        w, Q = np.linalg.eigh(tangent.T @ H @ tangent)
        curvature = np.maximum(np.abs(w), MIN_NEWTON_CURVATURE_SHARE * np.max(np.abs(w)))
        return tangent @ (Q @ ((Q.T @ slope) / curvature)), pseudo_inverse

    def _search_along(self, x: Array, direction: Array, pseudo_inverse: Array, value: float) -> Array | None:
        """Return a point of the manifold along a direction, (Σ k,), from x with a larger value, or None.

        x, (Σ k,), holds the loadings on all supports, one component after the other, and has the value `value`;
        `pseudo_inverse` comes with the direction and brings points back to the manifold. Steps shrink by four, from the
        whole direction to `MIN_STEP_SHARE` of it. "Larger" means by any amount.
        """
        share = 1.0
        while share > MIN_STEP_SHARE:
            point = self.retract(x + share * direction, pseudo_inverse)
            if point is not None and self.compute_value(point) > value:
                return point
            share /= 4
        return None
