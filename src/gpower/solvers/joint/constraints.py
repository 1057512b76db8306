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
positions in S, in any order. All arrays are on the host in float64, and no argument is changed. A `JointSolution` has
``Z``, (n, m); ``value``, the sum of variances Σ zⱼᵀΣzⱼ; ``multipliers``, (m, m), symmetric, with twice the variances on
the diagonal, zeros if they are not known; and ``supports``. ``SupportManifold(S, supports, uses_scores).ascend(Z)`` is
the solution that Newton's method finds from Z on fixed supports with orthogonal loadings or uncorrelated scores, or
None; its ``variable_indices``, (Σ k,), are all supports together. ``cosine_matrix(G)`` is the Gram matrix G, (..., m,
m), divided by the lengths of its vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.messages import format_param
from gpower.operators.explained_variance import cosine_matrix
from gpower.solvers.joint.manifold_newton import JointSolution, SupportManifold

#: Number of loadings of all components together up to which all components ascend at once.
MAX_JOINT_LOADINGS = 400
#: Number of loadings of all components together up to which swaps are tried. It must not exceed MAX_JOINT_LOADINGS:
#: swaps are ranked by the multipliers, which only the joint ascent computes.
MAX_SWAPPED_LOADINGS = min(64, MAX_JOINT_LOADINGS)
#: Largest number of swaps that are tried from one set of components.
MAX_PAIRWISE_SWAPS, MAX_DISJOINT_SWAPS = 12, 60
#: Share of the largest eigenvalue that the curvature is raised to when gain and loss of a swap are estimated.
MIN_SWAP_CURVATURE_SHARE = 0.05
#: Singular value of the constraints on a support up to which a direction counts as unconstrained.
MIN_SINGULAR_VALUE = 1e-13
#: Largest squared loading in the estimate of a loss, so that a component of one variable has a finite one, and a number
#: that stands for variances of zero.
MAX_SQUARED_LOADING, MIN_EIGENVALUE = 0.98, 1e-300
#: Size of the loading of a variable that comes in: a share of that of the variable that goes out, and at least a
#: number.
ENTERING_SHARE, MIN_ENTERING_LOADING = 0.7, 0.1
#: Share of the largest eigenvalue of the Gram matrix of scores up to which a combination of scores counts as zero.
MIN_GRAM_SHARE = 1e-12

#: Variables of each component.
Supports = Sequence[Array]
#: Supports to try, and loadings near the optimum on them, (n, m).
SwapCandidate = tuple[Supports, Array]


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
    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution | None:
        """Return feasible components near Z, (n, m), of locally maximal variance on the supports; None if not found.

        Z need not be feasible, nor of unit length, and the supports of the result may differ if the constraint is about
        supports.
        """

    @abstractmethod
    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """Yield swaps of variables, within and between components, the most promising first.

        `joint` comes from `project_feasible`, and a swap is tried by passing it to `project_feasible` again. `joint`
        is not changed, and the iterator may be abandoned after any swap.
        """


def _sum_over_pairs(C: Array) -> Array:
    """Return the sum of |C| over all pairs i < j, (...), for symmetric C of shape (..., m, m) with any diagonal."""
    return np.asarray(np.abs(C * (1 - np.eye(C.shape[-1]))).sum(axis=(-2, -1)) / 2)


def swap_scores(S: Array, joint: JointSolution, B: Array) -> tuple[Array, Array, Array]:
    """Estimate the gain of adding each variable to each component, the loss of removing it, and the slope, all (n, m).

    `joint` are components over the covariance S, (n, n), at a maximum on their supports. The estimates are those of the
    Lagrangian. With the slope gᵢⱼ of the objective along variable i of component j and
    the curvature λⱼ − Σᵢᵢ there, adding the variable gains about gᵢⱼ²/4(λⱼ − Σᵢᵢ), and removing it loses about
    zᵢⱼ²(λⱼ − Σᵢᵢ)/(1 − zᵢⱼ²). The gain is −∞ for a variable that is in the component already. `B` are the constrained
    products of the loadings, S Z for scores and Z otherwise, (n, m). `joint.multipliers` must be known, not zeros. The
    losses are zero for variables that are not in the component.
    """
    Z, L = joint.Z, joint.multipliers
    eigenvalues = np.diagonal(L) / 2
    slope = 2 * S @ Z - B @ (L - np.diag(np.diagonal(L)))
    curvature = eigenvalues - np.diagonal(S)[:, None]
    curvature = np.maximum(curvature, MIN_SWAP_CURVATURE_SHARE * max(float(eigenvalues.max()), MIN_EIGENVALUE))
    inside = Z != 0
    square = np.minimum(Z * Z, MAX_SQUARED_LOADING)
    gains = np.where(inside, -np.inf, slope**2 / (4 * curvature))
    losses = np.where(inside, square * curvature / (1 - square), 0.0)
    return gains, losses, slope


class _PairwiseConstraint(Constraint):
    """The constraint zᵢᵀB zⱼ = 0 for all pairs, with B = I or Σ."""

    #: Whether B = Σ.
    uses_scores: ClassVar[bool]

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution | None:
        """Return the joint ascent from Z or, if that fails, from components that are fitted in turn.

        Components with more than MAX_JOINT_LOADINGS loadings are fitted in turn only.
        """
        manifold = SupportManifold(S, supports, self.uses_scores)
        can_ascend = manifold.variable_indices.size <= MAX_JOINT_LOADINGS
        joint = manifold.ascend(Z) if can_ascend else None
        if joint is not None:
            return joint
        fitted = self.fit_sequentially(S, Z, supports)
        if fitted is None:
            return None
        if can_ascend:
            return manifold.ascend(fitted)
        # The zeros are never read: `swap_candidates` stops at MAX_SWAPPED_LOADINGS, at most MAX_JOINT_LOADINGS.
        multipliers = np.zeros((len(supports), len(supports)))
        return JointSolution(fitted, float(np.sum(fitted * (S @ fitted))), multipliers, supports)

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

    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """Yield swaps of one variable of one component for another; none of more than MAX_SWAPPED_LOADINGS loadings.

        The loadings yielded, (n, m), are near the feasible ones, not feasible and not of unit length. At most
        `MAX_PAIRWISE_SWAPS` swaps are yielded, by decreasing net gain.
        """
        Z, supports = joint.Z, joint.supports
        if sum(support.size for support in supports) > MAX_SWAPPED_LOADINGS:
            return
        gains, losses, slope = swap_scores(S, joint, S @ Z if self.uses_scores else Z)
        for j, out, into in _rank_component_swaps(gains, losses, supports, MAX_PAIRWISE_SWAPS):
            guess = Z.copy()
            size = max(ENTERING_SHARE * abs(Z[out, j]), MIN_ENTERING_LOADING)
            guess[into, j] = np.copysign(size, slope[into, j])
            guess[out, j] = 0.0
            yield _swap_component_variable(supports, j, out, into), guess


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


def _rank_component_swaps(
    gains: Array, losses: Array, supports: Supports, max_swaps: int
) -> list[tuple[int, int, int]]:
    """Return the swaps (component, variable out, variable in) of the largest net gains, best first.

    `gains` and `losses`, (n, m), are the estimated changes of the objective by adding a variable to a component or
    removing it. `supports` are those of the m components. At most `max_swaps` swaps are returned; swaps of equal net
    gain keep the order of components, then of positions. The variable that comes in may be in another component, but
    not in the same one. Variables are positions in S.
    """
    swaps: list[tuple[float, int, int, int]] = []
    for j, support in enumerate(supports):
        net = gains[None, :, j] - losses[support, j][:, None]  # (k, n)
        net[:, support] = -np.inf
        best = np.argsort(-net, axis=None, kind="stable")[:max_swaps]
        out, into = np.unravel_index(best, net.shape)
        swaps += zip(net.ravel()[best].tolist(), [j] * best.size, support[out].tolist(), into.tolist(), strict=True)
    swaps.sort(key=lambda swap: -swap[0])
    return [(j, out, into) for gain, j, out, into in swaps[:max_swaps] if gain > -np.inf]


def _swap_component_variable(supports: Sequence[Array], j: int, out: int, into: int) -> Supports:
    """Return new supports with variable `out` of component j replaced by `into`, at the same place."""
    changed = list(supports)
    changed[j] = np.where(changed[j] == out, into, changed[j])
    return changed


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

    name = "disjoint"

    def penalty_matrix(self, S: Array, others: Array) -> tuple[Array, Array]:
        """Return an empty V, and the sums of squared loadings of the others as d."""
        return others[..., :0], np.sum(others * others, axis=-1)

    def compute_violation(self, S: Array, Z: Array) -> Array:
        """Return the number of variables that two components share, summed over all pairs, (...) in float64."""
        used = (Z != 0).astype(float)
        return _sum_over_pairs(np.swapaxes(used, -1, -2) @ used)

    def project_feasible(self, S: Array, Z: Array, supports: Supports) -> JointSolution:
        """Return the leading eigenvectors on the supports, which are first made disjoint by `separate_supports`.

        Z, (n, m), is used only if supports overlap. A component without variables is zero. The multipliers are
        diagonal, twice the variances.
        """
        is_disjoint = np.unique(np.concatenate(supports)).size == sum(support.size for support in supports)
        disjoint = supports if is_disjoint else self.separate_supports(S, Z, supports)
        fitted, values = np.zeros_like(Z), np.zeros(len(disjoint))
        for j, support in enumerate(disjoint):
            if support.size:
                w, U = np.linalg.eigh(S[np.ix_(support, support)])
                fitted[support, j], values[j] = U[:, -1], w[-1]
        return JointSolution(fitted, float(values.sum()), np.diag(2 * values), disjoint)

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

    def swap_candidates(self, S: Array, joint: JointSolution) -> Iterator[SwapCandidate]:
        """Yield swaps of a variable for a free one or for one of another component.

        The other component gets the variable that was swapped out, or the best free one. The supports of `joint` are
        disjoint. The loadings yielded are those of `joint`, because `project_feasible` only uses them if supports
        overlap.
        """
        supports = joint.supports
        gains, losses, _ = swap_scores(S, joint, joint.Z)
        owner = np.full(S.shape[0], -1)
        for j, support in enumerate(supports):
            owner[support] = j
        free = np.flatnonzero(owner < 0)
        ranked: list[tuple[float, Supports]] = []
        for j, out, into in _rank_component_swaps(gains, losses, supports, MAX_DISJOINT_SWAPS):
            gain = gains[into, j] - losses[out, j]
            swapped = _swap_component_variable(supports, j, out, into)
            other = int(owner[into])
            if other < 0:
                ranked.append((gain, swapped))
                continue
            for variable in [out, *free[np.argsort(-gains[free, other], kind="stable")[:1]].tolist()]:
                both_swapped = _swap_component_variable(swapped, other, into, variable)
                ranked.append((gain + gains[variable, other] - losses[into, other], both_swapped))
        ranked.sort(key=lambda candidate: -candidate[0])
        yield from ((swapped, joint.Z) for _, swapped in ranked)


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
