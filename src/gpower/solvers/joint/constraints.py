"""What several components owe each other, and what that leaves to one of them.

======================== =========================== ================================================= ================
constraint               of loadings z₁, …, z_m      given the others, one of them                     its price
======================== =========================== ================================================= ================
`OrthogonalConstraint`   zᵢᵀzⱼ = 0                   z ⊥ span(others)                                  (zᵀzⱼ)²
`UncorrelatedConstraint` zᵢᵀΣzⱼ = 0                  z ⊥ span(Σ others)                                (zᵀΣzⱼ)²/zⱼᵀΣzⱼ
`DisjointConstraint`     no variable in two supports their variables are excluded                      Σᵢ zᵢ²zᵢⱼ²
`Schur`                  none: the adjusted variance counts Σ less what is correlated with the others' the same
                         scores
======================== =========================== ================================================= ================

Given the others, one component is a problem of a single unit: on a support I it is the largest eigenvalue of Σ_II seen
through a projection, N (NᵀΣ_IIN) Nᵀ with N a basis of what is left of I. As a penalty the same is max zᵀ(Σ − c·price)z,
whose limit for c → ∞ it is: the price of a constraint is a matrix VVᵀ + diag(d), so exchanges of variables carry over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from gpower._utils.arrays import Array
from gpower.operators.explained_variance import cosine_matrix
from gpower.solvers.joint.manifold_newton import JointSolution, SupportManifold

#: Loadings of all components up to which they ascend together, and up to which single exchanges are tried so.
MAX_JOINT_LOADINGS, MAX_SWAPPED_LOADINGS = 400, 64
#: Exchanges that are tried of a set of components before it is left as it is.
MAX_PAIRWISE_SWAPS, MAX_DISJOINT_SWAPS = 12, 60
#: What a variable brings or costs is judged by a curvature of at least this share of the largest.
MIN_SWAP_CURVATURE_SHARE = 0.05
#: Part of a component's square length that others' directions take where it counts as none left.
MIN_SINGULAR_VALUE = 1e-13

Supports = Sequence[Array]
#: Supports to try, and loadings near those on them.
SwapCandidate = tuple[Supports, Array]


class Constraint(ABC):
    """What components owe each other. Covariances are scaled so that values are about one."""

    name: ClassVar[str]
    #: Whether loadings without a common variable keep it.
    is_met_by_disjoint_supports: ClassVar[bool] = True
    #: Variance, relative to that of the largest variable, below which a component is rounding.
    min_relative_variance: ClassVar[float] = 1e-14

    def compute_max_components(self, cardinalities: Sequence[int], n_features: int) -> int:
        """Number of components that n variables are enough for."""
        return min(len(cardinalities), n_features)

    def accepts_variances(self, variances: Array) -> bool:
        """Whether components of such variances are an answer."""
        return True

    def format_error(self, n_components: int, cardinality: int) -> str:
        """What to say of m components of k variables where none were found."""
        return f"No {n_components} {self.name} components were found; ask for fewer."

    def trivial_feasible(self, S: Array, like: Array) -> Sequence[Array]:
        """Components, as many as `like`, that keep the constraint without a search, where some always do."""
        return []

    @abstractmethod
    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """V, (..., n, r), and d, (..., n), of the price VVᵀ + diag(d) of one component beside others, (..., n, m)."""

    @abstractmethod
    def compute_violation(self, S: Array, Z: Array) -> Array:
        """How far components, (..., n, m), are from keeping it: a sum over pairs."""

    @abstractmethod
    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution | None:
        """Components near Z and the supports that keep it, risen as far as they go; None if not found."""

    @abstractmethod
    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """Exchanges of variables, within and across components, the most promising first."""


def _sum_over_pairs(C: Array) -> Array:
    return np.asarray(np.abs(C * (1 - np.eye(C.shape[-1]))).sum(axis=(-2, -1)) / 2)


def swap_scores(S: Array, joint: JointSolution, B: Array) -> tuple[Array, Array, Array]:
    """What every variable would bring to every component, and what it costs to leave it out, (n, m); and the slope.

    By the Lagrangian: with the slope gᵢⱼ of the objective along variable i of component j and the curvature λⱼ − Σᵢᵢ
    there, a variable brings about gᵢⱼ²/4(λⱼ − Σᵢᵢ), and losing it costs about zᵢⱼ²(λⱼ − Σᵢᵢ)/(1 − zᵢⱼ²).
    """
    Z, L = joint.Z, joint.multipliers
    own = np.diagonal(L)
    slope = 2 * S @ Z - B @ (L - np.diag(own))
    curvature = own / 2 - np.diagonal(S)[:, None]
    curvature = np.maximum(curvature, MIN_SWAP_CURVATURE_SHARE * max(float(own.max()) / 2, 1e-300))
    inside = Z != 0
    square = np.minimum(Z * Z, 0.98)
    brings = np.where(inside, -np.inf, slope**2 / (4 * curvature))
    costs = np.where(inside, square * curvature / (1 - square), 0.0)
    return brings, costs, slope


class _PairwiseConstraint(Constraint):
    """zᵢᵀB zⱼ = 0 for all pairs, with B = I or Σ."""

    uses_scores: ClassVar[bool]

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution | None:
        """All together where they are few enough, from where they are or else from each fitted after the other."""
        pattern = SupportManifold(S, supports, self.uses_scores)
        joint = pattern.ascend(Z) if pattern.variable_indices.size <= MAX_JOINT_LOADINGS else None
        if joint is not None:
            return joint
        fitted = self.fit_sequentially(S, Z, supports)
        if fitted is None:
            return None
        if pattern.variable_indices.size <= MAX_JOINT_LOADINGS:
            return pattern.ascend(fitted)
        return JointSolution(fitted, float(np.sum(fitted * (S @ fitted))), np.zeros((len(supports),) * 2), supports)

    def fit_sequentially(self, S: Array, Z: Array, supports: Supports) -> Array | None:
        """Each component the best on its support that owes nothing to those of larger variance before it."""
        fitted = np.zeros_like(Z)
        order = np.argsort(-np.sum(Z * (S @ Z), axis=0), kind="stable")
        for place, j in enumerate(order):
            z = fit_orthogonal_to(S, supports[j], self.penalty_matrix(S, fitted[:, order[:place]])[0])
            if z is None:
                return None
            fitted[:, j] = z
        return fitted

    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """One variable of one component for another."""
        Z, supports = joint.Z, joint.supports
        if sum(support.size for support in supports) > MAX_SWAPPED_LOADINGS:
            return
        brings, costs, slope = swap_scores(S, joint, S @ Z if self.uses_scores else Z)
        for j, out, into in _rank_component_swaps(brings, costs, supports, MAX_PAIRWISE_SWAPS):
            guess = Z.copy()
            guess[into, j] = np.copysign(max(0.7 * abs(Z[out, j]), 0.1), slope[into, j])
            guess[out, j] = 0.0
            yield _swap_component_variable(supports, j, out, into), guess


def fit_orthogonal_to(S: Array, support: Array, V: Array) -> Array | None:
    """The loadings of the largest variance on a support that are orthogonal to V, (n,); None if there are none."""
    N = np.eye(support.size)
    if V.shape[1]:
        U, s, _ = np.linalg.svd(V[support])
        N = U[:, int(np.count_nonzero(s > MIN_SINGULAR_VALUE)) :]
    if not N.shape[1]:
        return None
    z = np.zeros(S.shape[0])
    z[support] = N @ np.linalg.eigh(N.T @ S[np.ix_(support, support)] @ N)[1][:, -1]
    return z


def _rank_component_swaps(
    gains: Array, losses: Array, supports: Supports, max_swaps: int
) -> list[tuple[int, int, int]]:
    """(component, variable out, variable in), the largest gains first."""
    found: list[tuple[float, int, int, int]] = []
    for j, support in enumerate(supports):
        gain = gains[None, :, j] - losses[support, j][:, None]  # (k, n)
        gain[:, support] = -np.inf
        best = np.argsort(-gain, axis=None, kind="stable")[:max_swaps]
        out, into = np.unravel_index(best, gain.shape)
        found += zip(gain.ravel()[best].tolist(), [j] * best.size, support[out].tolist(), into.tolist(), strict=True)
    found.sort(key=lambda exchange: -exchange[0])
    return [(j, out, into) for gain, j, out, into in found[:max_swaps] if gain > -np.inf]


def _swap_component_variable(supports: Sequence[Array], j: int, out: int, into: int) -> Supports:
    """The supports with one variable of component j exchanged."""
    changed = list(supports)
    changed[j] = np.where(changed[j] == out, into, changed[j])
    return changed


class OrthogonalConstraint(_PairwiseConstraint):
    """Orthogonal loadings."""

    name, uses_scores = "orthogonal", False

    def trivial_feasible(self, S: Array, like: Array) -> Sequence[Array]:
        """Single variables, those of largest variance."""
        m = like.shape[1]
        axes = np.zeros_like(like)
        axes[np.argsort(-np.diagonal(S), kind="stable")[:m], np.arange(m)] = 1.0
        return [axes]

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """V is the others."""
        return others, np.zeros(others.shape[:-1])

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Σ|zᵢᵀzⱼ|."""
        return _sum_over_pairs(cosine_matrix(np.swapaxes(Z, -1, -2) @ Z))


class UncorrelatedConstraint(_PairwiseConstraint):
    """Uncorrelated scores."""

    name, uses_scores, is_met_by_disjoint_supports = "uncorrelated", True, False
    min_relative_variance = 1e-8  # correlations of less are rounding

    def accepts_variances(self, variances: Array) -> bool:
        """Whether every component varies."""
        return bool(np.all(variances > 0))

    def format_error(self, n_components: int, cardinality: int) -> str:
        """What to say: the rank, or too few variables."""
        hint = f", or a cardinality of at least {n_components}" if cardinality < n_components else ""
        return (
            f'constraint="uncorrelated": {n_components} components of cardinality={cardinality} were not found. The '
            "data have at most as many as their rank, and each needs enough variables to avoid all others. Ask for "
            f"fewer components{hint}."
        )

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """V is Σ·others, each divided by the root of its variance."""
        V = S @ others
        variance = np.sum(others * V, axis=-2, keepdims=True)
        tiny = float(np.finfo(np.float64).tiny)
        return V / np.sqrt(np.maximum(variance, tiny)) * (variance > 0), np.zeros(others.shape[:-1])

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Σ|corr(A zᵢ, A zⱼ)|."""
        return _sum_over_pairs(cosine_matrix(np.swapaxes(Z, -1, -2) @ (S @ Z)))


class DisjointConstraint(Constraint):
    """No variable in two components."""

    name = "disjoint"

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """d is the squared loadings of the others."""
        return others[..., :0], np.sum(others * others, axis=-1)

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Variables that two components share, counted for every pair."""
        used = (Z != 0).astype(float)
        return _sum_over_pairs(np.swapaxes(used, -1, -2) @ used)

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution:
        """Each variable to whom it has the larger loading in, then eigenvectors."""
        apart = np.unique(np.concatenate(supports)).size == sum(support.size for support in supports)
        parted = supports if apart else self.separate_supports(S, Z, supports)
        fitted, values = np.zeros_like(Z), np.zeros(len(parted))
        for j, support in enumerate(parted):
            if support.size:
                w, U = np.linalg.eigh(S[np.ix_(support, support)])
                fitted[support, j], values[j] = U[:, -1], w[-1]
        return JointSolution(fitted, float(values.sum()), np.diag(2 * values), parted)

    def separate_supports(self, S: Array, Z: Array, supports: Supports) -> Supports:
        """Supports without common variables; who loses one takes the free variable most correlated with it."""
        m = len(supports)
        claims = np.full(Z.shape, -1.0)
        for j, support in enumerate(supports):
            claims[support, j] = np.abs(Z[support, j])
        owner = np.where(claims.max(axis=1) < 0, m, np.argmax(claims, axis=1))
        for j, support in enumerate(supports):
            free = np.flatnonzero(owner == m)
            lost = support.size - int(np.count_nonzero(owner == j))
            near = np.abs(S[free] @ np.where(owner == j, Z[:, j], 0.0))
            owner[free[np.argsort(-near, kind="stable")[:lost]]] = j
        return [np.flatnonzero(owner == j) for j in range(m)]

    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """A free variable in; or another component's, which takes in return the one that goes, or a free one."""
        supports = joint.supports
        brings, costs, _ = swap_scores(S, joint, joint.Z)
        owner = np.full(S.shape[0], -1)
        for j, support in enumerate(supports):
            owner[support] = j
        free = np.flatnonzero(owner < 0)
        ranked: list[tuple[float, Supports]] = []
        for j, out, into in _rank_component_swaps(brings, costs, supports, MAX_DISJOINT_SWAPS):
            gain, other = brings[into, j] - costs[out, j], int(owner[into])
            if other < 0:
                ranked.append((gain, _swap_component_variable(supports, j, out, into)))
                continue
            instead = [out, *free[np.argsort(-brings[free, other], kind="stable")[:1]].tolist()]
            for variable in instead:
                changed = _swap_component_variable(
                    _swap_component_variable(supports, j, out, into), other, into, variable
                )
                ranked.append((gain + brings[variable, other] - costs[into, other], changed))
        ranked.sort(key=lambda each: -each[0])
        yield from ((changed, joint.Z) for _, changed in ranked)


class AdjustedVariancePenalty:
    """No constraint: one component on what is uncorrelated with the scores of the others."""

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """V with VVᵀ = Σ Z(ZᵀΣZ)⁺ZᵀΣ, to be paid once."""
        V = S @ others
        w, Q = np.linalg.eigh(np.swapaxes(others, -1, -2) @ V)
        kept = w > 1e-12 * np.maximum(w[..., -1:], np.finfo(np.float64).tiny)
        inverse = np.where(kept, 1 / np.sqrt(np.where(kept, w, 1.0)), 0.0)
        return V @ (Q * inverse[..., None, :]), np.zeros(others.shape[:-1])


#: The constraints by their word.
CONSTRAINTS: dict[str, Constraint] = {
    each.name: each for each in (OrthogonalConstraint(), UncorrelatedConstraint(), DisjointConstraint())
}
