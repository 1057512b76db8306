"""Constraints between several components, and the problem of one component if the other components are given.

========================= ============================ =================================== =============================
class                     constraint on z₁, …, z_m     constraint on z given the others    penalty, summed over others j
========================= ============================ =================================== =============================
`OrthogonalConstraint`    zᵢᵀzⱼ = 0                    z ⊥ span(others)                    (zᵀzⱼ)²
`UncorrelatedConstraint`  zᵢᵀΣzⱼ = 0                   z ⊥ span(Σ others)                  (zᵀΣzⱼ)²/zⱼᵀΣzⱼ
`DisjointConstraint`      no variable in two supports  no variable of the others           Σᵢ zᵢ²zᵢⱼ²
`AdjustedVariancePenalty` none                         none                                variance of z that the scores
                                                                                           of the others explain
========================= ============================ =================================== =============================

Given the others, one component is a problem of a single unit. On a support I its variance is the largest eigenvalue of
the projected covariance N (NᵀΣ_II N) Nᵀ, where N is a basis of the feasible loadings on I. The same problem with a
penalty is max zᵀ(Σ − c·P)z, which tends to the constrained problem for c → ∞. The penalty matrix is P = VVᵀ + diag(d),
so that the test for swaps of variables applies to Σ − c·P as it does to Σ.

Terms: Σ, in the code S, (n, n), is the covariance of n candidate variables, symmetric, scaled so that values are about
one. Z, (n, m), are loadings of m components, each column of unit length or zero. Supports are m arrays of distinct
positions in S, in any order. All arrays are on the host in float64, and no argument is changed.
``SupportManifold(S, supports, uses_scores).ascend(Z)`` are the loadings that Newton's method finds from Z on fixed
supports with orthogonal loadings or uncorrelated scores, or None; its ``variable_indices``, (Σ k,), are all supports
together. ``cosine_matrix(G)`` is the Gram matrix G, (..., m, m), divided by the lengths of its vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower.operators.explained_variance import cosine_matrix
from gpower.solvers.joint.manifold_newton import SupportManifold

#: Number of loadings of all components together up to which all components ascend at once.
MAX_JOINT_LOADINGS = 400
#: Singular value of the constraints on a support up to which a direction counts as unconstrained.
MIN_SINGULAR_VALUE = 1e-13
#: Share of the largest eigenvalue of the Gram matrix of scores up to which a combination of scores counts as zero.
MIN_GRAM_SHARE = 1e-12

#: Variables of each component.
Supports = Sequence[Array]


class Constraint(ABC):
    """A constraint between components.

    All arrays are on the host, in float64. S, (n, n), is the covariance of the candidate variables, scaled so that
    values are about one; Z, (n, m), are loadings with unit or zero columns; supports are m arrays of positions in S,
    none of them empty unless `DisjointConstraint` has run out of variables.
    """

    name: ClassVar[str]
    #: Whether components with disjoint supports satisfy the constraint.
    is_met_by_disjoint_supports: ClassVar[bool] = True
    #: Variance of a component, relative to the largest variance of a variable, that is rounding.
    min_relative_variance: ClassVar[float] = 1e-14
    #: Size of the loading with which a variable comes in by a swap, before the components are projected.
    entering_loading: ClassVar[float] = 0.3

    def accepts_variances(self, variances: Array) -> bool:
        """Return whether components with these variances ‖A z‖², (m,), are a valid result; here always."""
        return True

    def format_error(self, n_components: int, cardinality: int) -> str:
        """Return the error message for components that were not found; `cardinality` is the smallest of them."""
        return f"No {n_components} {self.name} components were found; ask for fewer."

    def trivial_feasible(self, S: Array, like: Array) -> Sequence[Array]:
        """Return sets of components, of the shape of `like`, (n, m), that are feasible without a search; maybe none."""
        return []

    @abstractmethod
    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return V, (..., n, r), and d, (..., n), of the penalty VVᵀ + diag(d) given the others, (..., n, m).

        The leading axes are those of `others`, one set of components for each start of a batch. There may be no others,
        m = 0, and zero columns among them. The penalty of z is zᵀ(VVᵀ + diag(d))z, not negative, zero where z satisfies
        the constraint with the others.
        """

    @abstractmethod
    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Return how much components, (..., n, m), violate the constraint, summed over pairs, (...); not negative."""

    @abstractmethod
    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> Array | None:
        """Return feasible components near Z, (n, m), of locally maximal variance on the supports; None if not found.

        Z need not be feasible, nor of unit length, and the supports of the result may differ if the constraint is about
        supports.
        """


def _sum_over_pairs(C: Array) -> Array:
    """Return the sum of |C| over all pairs i < j, (...), for symmetric C of shape (..., m, m) with any diagonal."""
    return np.asarray(np.abs(C * (1 - np.eye(C.shape[-1]))).sum(axis=(-2, -1)) / 2)


class _PairwiseConstraint(Constraint):
    """The constraint zᵢᵀB zⱼ = 0 for all pairs, with B = I or Σ."""

    #: Whether B = Σ.
    uses_scores: ClassVar[bool]

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> Array | None:
        """Return the joint ascent from Z or, if that fails, from components that are fitted in turn.

        Components with more than MAX_JOINT_LOADINGS loadings are fitted in turn only.
        """
        manifold = SupportManifold(S, supports, self.uses_scores)
        if manifold.variable_indices.size > MAX_JOINT_LOADINGS:
            return self.fit_sequentially(S, Z, supports)
        joint = manifold.ascend(Z)
        if joint is None:
            fitted = self.fit_sequentially(S, Z, supports)
            joint = None if fitted is None else manifold.ascend(fitted)
        return joint

    def fit_sequentially(self, S: Array, Z: Array, supports: Supports) -> Array | None:
        """Return components that are fitted in turn, by decreasing variance of those of Z; None if one is impossible.

        Each is the best on its support that satisfies the constraint with those before it. The result, (n, m), has the
        columns in the order of Z, of unit length; of Z only the order by variance is used, the first of equal ones
        first.
        """
        fitted = np.zeros_like(Z)
        order = np.argsort(-np.sum(Z * (S @ Z), axis=0), kind="stable")
        for position, j in enumerate(order):
            V, _ = self.penalty_matrix(S, fitted[:, order[:position]])
            z = fit_orthogonal_to(S, supports[j], V)
            if z is None:
                return None
            fitted[:, j] = z
        return fitted


def fit_orthogonal_to(S: Array, support: Array, V: Array) -> Array | None:
    """Return the loadings of largest variance on a support that are orthogonal to V, (n,); None if there are none.

    S is (n, n), `support` are k ≥ 1 positions, and V, (n, r), may have no columns. The loadings, (n,), have unit length
    and any sign. They are None if V has rank k on the support.
    """
    N = np.eye(support.size)
    if V.shape[1]:
        U, s, _ = np.linalg.svd(V[support])
        N = U[:, int(np.count_nonzero(s > MIN_SINGULAR_VALUE)) :]
    if not N.shape[1]:
        return None
    z = np.zeros(S.shape[0])
    z[support] = N @ np.linalg.eigh(N.T @ S[np.ix_(support, support)] @ N)[1][:, -1]
    return z


class OrthogonalConstraint(_PairwiseConstraint):
    """The constraint of orthogonal loadings."""

    name, uses_scores = "orthogonal", False

    def trivial_feasible(self, S: Array, like: Array) -> Sequence[Array]:
        """Return one set of components of one variable each, those of largest variance, the largest first.

        Of `like`, (n, m) with m ≤ n, only the shape matters. The loadings are unit vectors, (n, m).
        """
        m = like.shape[1]
        axes = np.zeros_like(like)
        axes[np.argsort(-np.diagonal(S), kind="stable")[:m], np.arange(m)] = 1.0
        return [axes]

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return the others as V, and d = 0."""
        return others, np.zeros(others.shape[:-1])

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Return Σ |zᵢᵀzⱼ| of normalised loadings over all pairs, (...), for Z of shape (..., n, m)."""
        return _sum_over_pairs(cosine_matrix(np.swapaxes(Z, -1, -2) @ Z))


class UncorrelatedConstraint(_PairwiseConstraint):
    """The constraint of uncorrelated scores."""

    name, uses_scores, is_met_by_disjoint_supports = "uncorrelated", True, False
    min_relative_variance = 1e-8  # correlations of components with less variance are rounding

    def accepts_variances(self, variances: Array) -> bool:
        """Return whether every component has a positive variance, (m,): a zero component has no correlation."""
        return bool(np.all(variances > 0))

    def format_error(self, n_components: int, cardinality: int) -> str:
        """Return the error message, which names the rank and, if it is too small, the cardinality."""
        hint = f", or a cardinality of at least {n_components}" if cardinality < n_components else ""
        return (
            f"{format_param('constraint', 'uncorrelated')}: {n_components} components of "
            f"{format_param('cardinality', cardinality)} were not found. There "
            "are at most as many as the rank of the data, and each needs enough variables to be uncorrelated with all "
            f"others. Ask for fewer components{hint}."
        )

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return Σ·others, each divided by the square root of its variance, as V, and d = 0.

        V has the shape of `others`, (..., n, m), with zero columns for components without variance; d is (..., n).
        """
        V = S @ others
        variance = np.sum(others * V, axis=-2, keepdims=True)
        tiny = float(np.finfo(np.float64).tiny)
        return V / np.sqrt(np.maximum(variance, tiny)) * (variance > 0), np.zeros(others.shape[:-1])

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Return Σ |corr(A zᵢ, A zⱼ)| over all pairs, (...), for Z of shape (..., n, m)."""
        return _sum_over_pairs(cosine_matrix(np.swapaxes(Z, -1, -2) @ (S @ Z)))


class DisjointConstraint(Constraint):
    """The constraint that no variable is in two components."""

    name, entering_loading = "disjoint", 1.01  # larger than any loading, so that the variable leaves other components

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return an empty V, and the sums of squared loadings of the others as d."""
        return others[..., :0], np.sum(others * others, axis=-1)

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Return the number of variables that two components share, summed over all pairs, (...) in float64."""
        used = (Z != 0).astype(float)
        return _sum_over_pairs(np.swapaxes(used, -1, -2) @ used)

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> Array:
        """Return the leading eigenvectors on the supports, which are first made disjoint by `separate_supports`.

        Z, (n, m), tells only which component keeps a shared variable. A component without variables is zero.
        """
        fitted = np.zeros_like(Z)
        for j, support in enumerate(self.separate_supports(S, Z, supports)):
            if support.size:
                fitted[support, j] = np.linalg.eigh(S[np.ix_(support, support)])[1][:, -1]
        return fitted

    def separate_supports(self, S: Array, Z: Array, supports: Supports) -> Supports:
        """Return disjoint supports: a shared variable stays in the component where its loading is largest in size.

        A component that loses variables gets the free variables most correlated with it instead, the first component
        first; with too few of them it becomes smaller, or empty. Of equal loadings the first component keeps the
        variable. The supports returned are increasing.
        """
        m = len(supports)
        claims = np.full(Z.shape, -1.0)
        for j, support in enumerate(supports):
            claims[support, j] = np.abs(Z[support, j])
        owner = np.where(claims.max(axis=1) < 0, m, np.argmax(claims, axis=1))
        for j, support in enumerate(supports):
            free = np.flatnonzero(owner == m)
            n_lost = support.size - int(np.count_nonzero(owner == j))
            correlations = np.abs(S[free] @ np.where(owner == j, Z[:, j], 0.0))
            owner[free[np.argsort(-correlations, kind="stable")[:n_lost]]] = j
        return [np.flatnonzero(owner == j) for j in range(m)]


class AdjustedVariancePenalty:
    """The penalty for adjusted variance without a constraint: the variance that the scores of the others explain."""

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return V with VVᵀ = Σ Z(ZᵀΣZ)⁺ZᵀΣ for the others Z, to be subtracted from Σ with weight 1, and d = 0.

        `others`, (..., n, m) with m ≥ 1, may have zero columns; V is (..., n, m), d is (..., n).
        """
        V = S @ others
        w, Q = np.linalg.eigh(np.swapaxes(others, -1, -2) @ V)
        is_positive = w > MIN_GRAM_SHARE * np.maximum(w[..., -1:], np.finfo(np.float64).tiny)
        inverse_root = np.where(is_positive, 1 / np.sqrt(np.where(is_positive, w, 1.0)), 0.0)
        return V @ (Q * inverse_root[..., None, :]), np.zeros(others.shape[:-1])


#: The constraints by name, as in the parameter `constraint`.
CONSTRAINTS: dict[str, Constraint] = {
    constraint.name: constraint
    for constraint in (OrthogonalConstraint(), UncorrelatedConstraint(), DisjointConstraint())
}
