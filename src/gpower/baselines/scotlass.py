"""SCoTLASS: maximum variance of orthogonal loadings under a bound on their ℓ1 norm (Jolliffe et al. 2003)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from gpower._utils.arrays import Array, Seed, apply_soft_threshold, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially, keep_largest
from gpower.baselines.penalty_levels import bisect_penalty_level
from gpower.feasible_sets import Point
from gpower.operators import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import L1Ball
from gpower.problem.formulation import Problem
from gpower.solvers.starts import make_unit_starts
from gpower.solvers.working_set import ascend
from gpower.validation.params import FloatPerComponent, check_float, check_int, expand_per_component

#: Maximum number of Newton steps on the dual, and of reductions of each step.
MAX_NEWTON_STEPS, MAX_STEP_REDUCTIONS = 300, 20
#: Residual of the dual at which Newton's method stops, and the largest one at which its solution is accepted.
DUAL_TOLERANCE, MAX_DUAL_RESIDUAL = 1e-10, 1e-8
#: Maximum number of linear programs if Newton's method fails, and their options.
MAX_LINEAR_PROGRAMS, LINPROG_OPTIONS = 300, {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
#: Relative excess over the ℓ1 bound that counts as rounding error.
BOUND_TOLERANCE = 1e-6
#: Maximum number of bisections of the bound for a target cardinality.
MAX_BOUND_BISECTIONS = 12
#: Length of the thresholded vector, as a share of the dual value, up to which it counts as zero.
ZERO_VECTOR_SHARE = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class SCoTLASS(Baseline):
    """Orthogonal loadings of maximum variance whose absolute values sum to at most t.

    Maximises ‖A z‖ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ t and z orthogonal to the earlier components, one component at a time.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of variables of every component, or one number for each; t is calibrated to it. If no t gives
        it, the nearest support is truncated to the largest loadings, which are then only nearly orthogonal.
    t : float or sequence of float, optional
        Bound on the ℓ1 norm, from 1 (a single variable) to √n_features (PCA); by default half of √n_features.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Recompute the loadings on their support to maximise variance; the bound and orthogonality may be violated.
    n_init : int, default=4
        Number of starts of each component: the first principal component after deflation, and columns.
    tol, max_iter : float and int, default=1e-6, 1000
        Relative increase of the objective at which an ascent stops, and the maximum number of steps.
    random_state : int, RandomState or None
        Seed for ties between starts. None stands for a fixed seed.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_
        As in `gpower.GPower`.
    objective_, n_iter_, converged_
        As in `gpower.GPower`.
    t_ : ndarray of shape (n_components,)
        Bounds that the loadings satisfy, for a given `t` up to a relative 1e-6. A bound is larger than `t`, and a
        warning is issued, if no orthogonal loadings of unit length were found within `t`.

    References
    ----------
    Jolliffe, Trendafilov, Uddin (2003). A modified principal component technique based on the LASSO. Journal of
    Computational and Graphical Statistics 12, 531–547.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.baselines import SCoTLASS
    >>> from gpower.datasets import load_pitprops
    >>> model = SCoTLASS(2, t=1.75, covariance="precomputed").fit(load_pitprops().correlation)
    >>> bool(np.all(np.abs(model.components_).sum(axis=1) <= 1.75 + 1e-6))
    True
    >>> round(abs(float(model.components_[0] @ model.components_[1])), 6)
    0.0
    """

    t: FloatPerComponent = None
    n_init: int = 4
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Seed = None

    def _check_own_params(self, shape: tuple[int, int]) -> None:
        self._check_single_sparsity_param("t")  # not `_sparsity_param`, as a smaller t selects fewer variables
        check_int(self.n_init, "n_init", 1)
        for bound in [] if self.t is None else expand_per_component(self.t, "t", self.n_components):
            check_float(bound, "t", 1.0)

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        bounds = self.t if self.t is not None else max(1.0, 0.5 * float(np.sqrt(task.operator.shape[1])))
        t = expand_per_component(bounds, "t", task.n_components)

        def find_component(deflated: ComponentTask) -> BaselineResult:
            return self._find_component(task, deflated, float(t[deflated.component_index]))

        return find_components_sequentially(task, "orthogonalized", find_component, t_=np.array([np.nan]))

    def _find_component(self, task: ComponentTask, deflated_task: ComponentTask, t: float) -> BaselineResult:
        """Find the next component within ‖z‖₁ ≤ t, or of the target cardinality, which takes precedence.

        `task` has the matrix itself, on which the variance is maximised; `deflated_task` the matrix deflated by the
        earlier components, from which the starts come, and the earlier loadings, to which z is orthogonal.
        """
        starts = self._generate_starts(task, deflated_task.operator)
        first_start = starts[0]
        earlier = deflated_task.earlier_loadings

        def solve(s: float) -> BaselineResult:
            problem = Problem(task.operator, OrthogonalL1Ball(s, earlier), np.ones(1, task.operator.dtype))
            ascents = [ascend(problem, start, task.fit_spec.settings) for start in starts]
            loadings = [problem.compute_loadings(ascent.point) for ascent in ascents]
            max_sum = np.sqrt(s) * (1 + BOUND_TOLERANCE)
            feasible = [j for j, Z in enumerate(loadings) if np.sum(np.abs(Z)) <= max_sum]
            best = max(feasible or range(len(ascents)), key=lambda j: ascents[j].value)
            starts[:] = [ascents[best].point, first_start]  # for the next bound
            return BaselineResult.from_ascent(ascents[best], loadings[best], extra_attributes={"t_": np.sqrt([s])})

        if task.target_cardinality is None:
            result = solve(t**2)
            result = replace(result, Z=orthogonalize_to_earlier(result.Z, earlier))
            return _note_exceeded_bound(result, t, deflated_task.component_index)
        k = task.target_cardinality[deflated_task.component_index]
        count = BaselineResult.count_nonzero
        result = bisect_penalty_level(solve, count, 1.0, float(k), k, MAX_BOUND_BISECTIONS, prefer_densest=True)
        Z = orthogonalize_to_earlier(result.Z, earlier) if result.count_nonzero() == k else keep_largest(result.Z, [k])
        l1_norm = np.sum(np.abs(Z), dtype=np.float64)  # orthogonalization may have increased it a little
        return replace(result, Z=Z, extra_attributes={"t_": np.maximum(result.extra_attributes["t_"], l1_norm)})

    def _generate_starts(self, task: ComponentTask, deflated_operator: Operator) -> list[Point]:
        """Return `n_init` starts or fewer: the first principal component of the deflated matrix, and its columns.

        Each is a point of one unit in the feasible set of the matrix that is not deflated, `task.operator`. Columns are
        chosen by the norms of the deflated matrix; there are fewer if fewer columns vary.
        """
        problem = Problem(task.operator, L1Ball(1.0), np.ones(1, deflated_operator.dtype))
        first, _ = compute_leading_components(deflated_operator, 1)
        starts = [problem.feasible_set.make_point(task.operator.combine(first.astype(deflated_operator.dtype)))]
        if self.n_init > 1:
            norms = np.where(deflated_operator.column_norms > 0, deflated_operator.column_norms, 0)
            columns = make_unit_starts(problem, norms, min(self.n_init - 1, int(np.count_nonzero(norms))), task.rng)
            starts += [columns.select_unit(j) for j in range(columns.C.shape[1])]
        return starts


class _DualPoint(NamedTuple):
    """A point of the dual of `OrthogonalL1Ball` for j earlier components, float64."""

    u: Array  # (1 + j,): λ and ν
    value: float
    gradient: Array  # (1 + j,)
    hessian: Array  # (1 + j, 1 + j), damped far from the minimum

    @property
    def residual(self) -> float:
        """Return the largest |entry| of the gradient."""
        return float(np.max(np.abs(self.gradient)))


@dataclass(frozen=True, eq=False)
class OrthogonalL1Ball(L1Ball):
    """Support function of a set: max ⟨c, z⟩ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s and z orthogonal to the columns of `basis`.

    The dual minimises ‖S_λ(c − Bν)‖ + λ√s over λ ≥ 0 and ν, where S_λ is soft thresholding and B the basis. It is
    convex and has one unknown more than there are earlier components. Newton's method solves it, and the maximiser is
    the normalised thresholded vector.

    Examples
    --------
    >>> import numpy as np
    >>> ball = OrthogonalL1Ball(1.5, np.array([[1.0], [0.0], [0.0]]))
    >>> ball.evaluate(np.array([[3.0], [2.0], [0.0]]))[1].round(6).ravel().tolist()
    [0.0, 1.0, 0.0]
    """

    basis: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def restrict(self, idx: Array) -> OrthogonalL1Ball:
        """Return the ball of the variables `idx`, with the others fixed at zero."""
        return OrthogonalL1Ball(self.s, self.basis[idx])

    def _maximize_unit(self, c: Array) -> Array:
        """Return the maximiser z for c, both (n,) in the dtype of c; zero if c is in the span of the basis."""
        if self.basis.shape[1] == 0:
            return super()._maximize_unit(c)
        B = self.basis.astype(np.float64)
        c64 = c.astype(np.float64)
        nu = np.linalg.lstsq(B, c64, rcond=None)[0]
        d = c64 - B @ nu
        length = float(np.linalg.norm(d))
        if length <= 1e-12 * float(np.linalg.norm(c64)):
            return np.zeros_like(c)
        if np.sum(np.abs(d)) <= np.sqrt(self.s) * length:
            return np.asarray(d / length, c.dtype)
        z = super()._maximize_unit(d)
        level = np.min(np.abs(d), where=z != 0, initial=np.inf)  # at or above the threshold of z
        minimum = self._minimize_dual(c64, B, np.append(0.9 * level, nu))
        if minimum.residual > MAX_DUAL_RESIDUAL:
            return np.asarray(self._maximize_by_column_generation(c64, B, nu), c.dtype)
        z = apply_soft_threshold(c64 - B @ minimum.u[1:], minimum.u[0])
        return np.asarray(z / np.linalg.norm(z), c.dtype)

    def _minimize_dual(self, c: Array, B: Array, u: Array) -> _DualPoint:
        """Minimise the dual by damped Newton steps from u = (λ, ν); the `residual` of the result says how well.

        c is (n,), B, (n, j), the earlier loadings and u, (1 + j,), has λ below the largest |c − Bν|; all float64.
        """
        point = self._evaluate_dual(c, B, u)
        for _ in range(MAX_NEWTON_STEPS):
            if point.residual <= DUAL_TOLERANCE:
                break
            step = -np.linalg.solve(point.hessian, point.gradient)
            for _ in range(MAX_STEP_REDUCTIONS):
                u = point.u + step
                u[0] = max(u[0], 0.0)
                trial = self._evaluate_dual(c, B, u)
                if trial.value <= point.value + 1e-4 * float((u - point.u) @ point.gradient):
                    break
                step = step / 4
            else:
                break
            gain = point.value - trial.value
            point = trial
            vector_length = point.value - np.sqrt(self.s) * u[0]  # near zero if no unit vector attains the value
            if gain <= 1e-15 * point.value or vector_length <= ZERO_VECTOR_SHARE * point.value:
                break
        return point

    def _maximize_by_column_generation(self, c: Array, B: Array, nu: Array) -> Array:
        """Return the maximiser as a convex combination of maximisers without the orthogonality constraint.

        This is used if Newton's method fails: the dual has kinks, and the maximiser may be shorter than one. A linear
        program finds the best orthogonal combination, and its multipliers ν give the next candidate (Dantzig and Wolfe
        1960).
        """
        offsets = np.linalg.norm(c) * np.hstack([np.zeros((nu.size, 1)), np.eye(nu.size), -np.eye(nu.size)])
        Z = np.column_stack(
            [super(OrthogonalL1Ball, self)._maximize_unit(c - B @ each) for each in (nu[:, None] + offsets).T]
        )
        weights = np.zeros(0)
        for _ in range(MAX_LINEAR_PROGRAMS):
            ones = np.ones((1, Z.shape[1]))
            program = linprog(-(c @ Z), ones, [1.0], B.T @ Z, np.zeros(nu.size), options=LINPROG_OPTIONS)
            if program.x is None:  # rounding stopped the solver: keep the last solution
                break
            weights = program.x
            nu = -program.eqlin.marginals
            value = -float(program.ineqlin.marginals[0])
            z = super()._maximize_unit(c - B @ nu)
            if float((c - B @ nu) @ z) - value <= DUAL_TOLERANCE * abs(value):
                break
            Z = np.column_stack([Z, z])
        return np.asarray(Z[:, : weights.size] @ weights)

    def _evaluate_dual(self, c: Array, B: Array, u: Array) -> _DualPoint:
        """Evaluate the dual function at u = (λ, ν), (1 + j,); its value is infinite if λ exceeds all |c − Bν|."""
        t = apply_soft_threshold(c - B @ u[1:], u[0])
        length = float(np.linalg.norm(t))
        bound = float(np.sqrt(self.s))
        if length == 0:  # λ exceeds all entries
            return _DualPoint(u, np.inf, np.zeros(u.size), np.eye(u.size))
        active = t != 0
        z = t[active] / length
        D = np.column_stack([np.sign(z), B[active]])  # −∂t/∂(λ, ν)
        slopes = D.T @ z
        gradient = -slopes
        gradient[0] += bound
        squares = D.T @ D
        residual = max(float(np.max(np.abs(gradient))), 1e-12)
        damping = residual * np.trace(squares) / u.size * np.eye(u.size)
        hessian = (squares - np.outer(slopes, slopes) + damping) / length
        return _DualPoint(u, length + bound * float(u[0]), gradient, hessian)


def _note_exceeded_bound(result: BaselineResult, t: float, j: int) -> BaselineResult:
    """Return the result of component j; if its ℓ1 norm exceeds t, set `t_` to that norm and add a note."""
    total = float(np.sum(np.abs(result.Z), dtype=np.float64))
    if total <= t * (1 + BOUND_TOLERANCE):
        return result
    note = (
        f"Component {j + 1}: no loadings of unit length were found that are orthogonal to the earlier ones and whose "
        f"absolute values sum to at most t={t:g}; shorter ones were scaled up to a sum of {total:.4g}. Raise t."
    )
    return replace(result, extra_attributes={"t_": np.array([total])}, notes=(*result.notes, note))


def orthogonalize_to_earlier(Z: Array, earlier: Array) -> Array:
    """Return Z made orthogonal to the earlier loadings on its support, or Z unchanged if that alters it much.

    Z is (n_features, 1), of unit length or zero, and `earlier` (n_features, j). The support stays as it is, unless a
    loading becomes exactly zero.
    """
    support = np.flatnonzero(Z[:, 0])
    if support.size == 0 or earlier.shape[1] == 0:
        return Z
    projected = Z.astype(np.float64)
    projected[support] -= earlier[support] @ np.linalg.lstsq(earlier[support], projected[support], rcond=1e-10)[0]
    projected = normalize_columns(projected)
    return projected.astype(Z.dtype) if float(projected[:, 0] @ Z[:, 0]) > 1 - 1e-3 else Z
