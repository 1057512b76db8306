"""SCoTLASS: the variance under a bound on the absolute sum of orthogonal loadings (Jolliffe et al. 2003)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linprog

from gpower._utils.arrays import Array, Seed, apply_soft_threshold, normalize_columns
from gpower.baselines.base import Baseline, BaselineResult, ComponentTask, find_components_sequentially, keep_largest
from gpower.baselines.levels import bisect_penalty_level
from gpower.feasible_sets import Point
from gpower.operators import Operator
from gpower.operators.leading_pca import compute_leading_components
from gpower.penalties.elementary import L1Ball
from gpower.problem.formulation import Problem
from gpower.solvers.initialization import make_unit_starts
from gpower.solvers.working_set import ascend
from gpower.validation.params import FloatPerComponent, check_float, check_int, expand_per_component

#: Newton steps of the dual, how often one is shortened, the residual at which it is solved, and one that is none.
MAX_NEWTON_STEPS, MAX_STEP_REDUCTIONS, DUAL_TOLERANCE, MAX_DUAL_RESIDUAL = 300, 20, 1e-10, 1e-8
#: Most linear programs where that fails, and how they are solved.
MAX_LINEAR_PROGRAMS, LINPROG_OPTIONS = 300, {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
#: Excess over the bound that is rounding.
BOUND_TOLERANCE = 1e-6
#: Bounds tried for a wanted number of variables.
MAX_BOUND_BISECTIONS = 12
#: Share of the dual value below which the thresholded vector counts as zero.
ZERO_VECTOR_SHARE = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class SCoTLASS(Baseline):
    """Orthogonal loadings of the most variance whose absolute values sum to at most t.

    Maximises ‖A z‖ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ t and z orthogonal to the earlier components, one component at a time.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Number of variables, of all components or one number each: t is calibrated to it. Where no t gives it, the
        nearest pattern is cut to the largest loadings, which then are no longer quite orthogonal.
    t : float or sequence of float, optional
        The bound, from 1 (a single variable) to √n_features (ordinary PCA); by default half of √n_features.
    covariance, center, scale
        As in `gpower.GPower`.
    refit : bool, default=False
        Choose the loadings of the pattern anew, for the most variance; they leave the bound and orthogonality.
    n_init : int, default=4
        Starts of each component, the first principal component of what is left among them.
    tol, max_iter : float and int, default=1e-6, 1000
        Stop when the objective grows by no more than this, relatively; most steps.
    random_state : int, RandomState or None
        Of ties between starts. None stands for a fixed seed.

    Attributes
    ----------
    components_, n_components_, explained_variance_, explained_variance_ratio_, cardinality_
        As in `gpower.GPower`.
    objective_, n_iter_, converged_
        As in `gpower.GPower`.
    t_ : ndarray of shape (n_components,)
        The bounds in use; for a cardinality they hold for the loadings to the last digit. Larger than `t`, with a
        warning, where no orthogonal loadings of unit length were found within that.

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
        self._check_single_sparsity_param("t")
        check_int(self.n_init, "n_init", 1)
        for bound in [] if self.t is None else expand_per_component(self.t, "t", self.n_components):
            check_float(bound, "t", 1.0)

    def _find_components(self, task: ComponentTask) -> list[BaselineResult]:
        bounds = self.t if self.t is not None else max(1.0, 0.5 * float(np.sqrt(task.operator.shape[1])))
        t = expand_per_component(bounds, "t", task.n_components)
        none = np.array([np.nan])
        return find_components_sequentially(
            task,
            "orthogonalized",
            lambda rest: self._find_component(task, rest, float(t[rest.component_index])),
            t_=none,
        )

    def _find_component(self, task: ComponentTask, deflated_task: ComponentTask, t: float) -> BaselineResult:
        """The next component; `rest` has the matrix outside the span of the earlier ones, where starts come from."""
        starts = self._generate_starts(task, deflated_task.operator)
        first, earlier = starts[0], deflated_task.earlier_loadings

        def solve(s: float) -> BaselineResult:
            problem = Problem(task.operator, OrthogonalL1Ball(s, earlier), np.ones(1, task.operator.dtype))
            ends = [ascend(problem, start, task.fit_spec.settings) for start in starts]
            units = [
                BaselineResult.from_ascent(
                    end, problem.compute_loadings(end.point), extra_attributes={"t_": np.sqrt([s])}
                )
                for end in ends
            ]
            inside = [j for j, unit in enumerate(units) if np.sum(np.abs(unit.Z)) <= np.sqrt(s) * (1 + BOUND_TOLERANCE)]
            best = max(inside or range(len(ends)), key=lambda j: ends[j].value)
            starts[:] = [ends[best].point, first]  # for the next bound
            return units[best]

        if task.target_cardinality is None:
            unit = solve(t**2)
            return _note_exceeded_bound(
                replace(unit, Z=orthogonalize_to_earlier(unit.Z, earlier)), t, deflated_task.component_index
            )
        k = task.target_cardinality[deflated_task.component_index]
        unit = bisect_penalty_level(
            solve,
            BaselineResult.count_nonzero,
            1.0,
            float(k),
            k,
            max_bisections=MAX_BOUND_BISECTIONS,
            prefer_densest=True,
        )
        Z = orthogonalize_to_earlier(unit.Z, earlier) if unit.count_nonzero() == k else keep_largest(unit.Z, [k])
        lengthened = np.sum(np.abs(Z), dtype=np.float64)  # a little, by making it orthogonal
        return replace(unit, Z=Z, extra_attributes={"t_": np.maximum(unit.extra_attributes["t_"], lengthened)})

    def _generate_starts(self, task: ComponentTask, deflated_operator: Operator) -> list[Point]:
        """The first principal component of what is left, and its most promising columns."""
        problem = Problem(task.operator, L1Ball(1.0), np.ones(1, deflated_operator.dtype))
        first, _ = compute_leading_components(deflated_operator, 1)
        starts = [problem.feasible_set.make_point(task.operator.combine(first.astype(deflated_operator.dtype)))]
        if self.n_init > 1:
            norms = np.where(deflated_operator.column_norms > 0, deflated_operator.column_norms, 0)
            columns = make_unit_starts(problem, norms, min(self.n_init - 1, int(np.count_nonzero(norms))), task.rng)
            starts += [columns.select_unit(j) for j in range(columns.C.shape[1])]
        return starts


@dataclass(frozen=True, eq=False)
class OrthogonalL1Ball(L1Ball):
    """max ⟨c, z⟩ over ‖z‖₂ ≤ 1, ‖z‖₁ ≤ √s and z orthogonal to the columns of `basis`.

    Its dual is the least ‖S_λ(c − Bν)‖ + λ√s over λ ≥ 0 and ν, with S_λ soft thresholding and B the basis: convex,
    of as many unknowns as there are earlier components and one more; solved by Newton's method, and the maximiser
    is the thresholded vector there, normalised.

    Examples
    --------
    >>> import numpy as np
    >>> ball = OrthogonalL1Ball(1.5, np.array([[1.0], [0.0], [0.0]]))
    >>> ball.evaluate(np.array([[3.0], [2.0], [0.0]]))[1].round(6).ravel().tolist()
    [0.0, 1.0, 0.0]
    """

    basis: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def restrict(self, idx: Array) -> OrthogonalL1Ball:
        """The same for the variables `idx` alone, the others being zero."""
        return OrthogonalL1Ball(self.s, self.basis[idx])

    def _maximize_unit(self, c: Array) -> Array:
        if self.basis.shape[1] == 0:
            return super()._maximize_unit(c)
        B, c64 = self.basis.astype(np.float64), c.astype(np.float64)
        nu = np.linalg.lstsq(B, c64, rcond=None)[0]
        d = c64 - B @ nu
        length = float(np.linalg.norm(d))
        if length <= 1e-12 * float(np.linalg.norm(c64)):
            return np.zeros_like(c)
        if np.sum(np.abs(d)) <= np.sqrt(self.s) * length:
            return np.asarray(d / length, c.dtype)
        z = super()._maximize_unit(d)
        level = np.min(np.abs(d), where=z != 0, initial=np.inf)  # at or above the threshold that z was taken at
        u, residual = self._minimize_dual(c64, B, np.append(0.9 * level, nu))
        if residual > MAX_DUAL_RESIDUAL:
            return np.asarray(self._maximize_by_column_generation(c64, B, nu), c.dtype)
        z = apply_soft_threshold(c64 - B @ u[1:], u[0])
        return np.asarray(z / np.linalg.norm(z), c.dtype)

    def _minimize_dual(self, c: Array, B: Array, u: Array) -> tuple[Array, float]:
        """(λ, ν) of the least dual value by damped Newton steps, and the largest entry of the gradient there."""
        value, gradient, hessian = self._evaluate_dual(c, B, u)
        for _ in range(MAX_NEWTON_STEPS):
            if np.max(np.abs(gradient)) <= DUAL_TOLERANCE:
                break
            step = -np.linalg.solve(hessian, gradient)
            for _ in range(MAX_STEP_REDUCTIONS):
                tried = u + step
                tried[0] = max(tried[0], 0.0)
                new = self._evaluate_dual(c, B, tried)
                if new[0] <= value + 1e-4 * float((tried - u) @ gradient):
                    break
                step = step / 4
            else:
                break
            gain = value - new[0]
            u, (value, gradient, hessian) = tried, new
            vanished = (
                value - np.sqrt(self.s) * u[0] <= ZERO_VECTOR_SHARE * value
            )  # no vector of unit length attains it
            if gain <= 1e-15 * value or vanished:
                break
        return u, float(np.max(np.abs(gradient)))

    def _maximize_by_column_generation(self, c: Array, B: Array, nu: Array) -> Array:
        """The maximiser as a mixture of those of the two balls alone, for the prices ν of a linear program.

        For where Newton's method does not get to an end: the dual has kinks, and the answer may be shorter than one.
        The mixture of most value that is orthogonal says at which prices to look next (Dantzig and Wolfe 1960).
        """
        around = np.linalg.norm(c) * np.hstack([np.zeros((nu.size, 1)), np.eye(nu.size), -np.eye(nu.size)])
        Z = np.column_stack(
            [super(OrthogonalL1Ball, self)._maximize_unit(c - B @ each) for each in (nu[:, None] + around).T]
        )
        for _ in range(MAX_LINEAR_PROGRAMS):
            ones, none = np.ones((1, Z.shape[1])), np.zeros(nu.size)
            found = linprog(-(c @ Z), ones, [1.0], B.T @ Z, none, options=LINPROG_OPTIONS)
            nu, price = -found.eqlin.marginals, -float(found.ineqlin.marginals[0])
            z = super()._maximize_unit(c - B @ nu)
            if float((c - B @ nu) @ z) - price <= DUAL_TOLERANCE * abs(price):
                break
            Z = np.column_stack([Z, z])
        return np.asarray(Z[:, : found.x.size] @ found.x)

    def _evaluate_dual(self, c: Array, B: Array, u: Array) -> tuple[float, Array, Array]:
        """The dual function at (λ, ν), its gradient, and its second derivatives, damped far from the minimum."""
        t = apply_soft_threshold(c - B @ u[1:], u[0])
        length = float(np.linalg.norm(t))
        bound = float(np.sqrt(self.s))
        if length == 0:  # λ beyond all entries: only its price is left
            return np.inf, np.zeros(u.size), np.eye(u.size)
        active = t != 0
        z = t[active] / length
        D = np.column_stack([np.sign(z), B[active]])  # −∂t/∂(λ, ν)
        slopes = D.T @ z
        gradient = -slopes
        gradient[0] += bound
        squares = D.T @ D
        far = max(float(np.max(np.abs(gradient))), 1e-12)
        damping = far * np.trace(squares) / u.size * np.eye(u.size)
        return length + bound * float(u[0]), gradient, (squares - np.outer(slopes, slopes) + damping) / length


def _note_exceeded_bound(result: BaselineResult, t: float, j: int) -> BaselineResult:
    """The unit; where no vector of unit length was found within the bound, with the bound that it keeps and a note."""
    total = float(np.sum(np.abs(result.Z), dtype=np.float64))
    if total <= t * (1 + BOUND_TOLERANCE):
        return result
    note = (
        f"components_[{j}]: no loadings of unit length were found that are orthogonal to the earlier ones and whose "
        f"absolute values sum to at most t={t:g}; shorter ones were lengthened to a sum of {total:.4g}. Raise t."
    )
    return replace(result, extra_attributes={"t_": np.array([total])}, notes=(*result.notes, note))


def orthogonalize_to_earlier(Z: Array, earlier: Array) -> Array:
    """Z made orthogonal to the earlier loadings to rounding, without new variables; as it is where that is far off."""
    used = np.flatnonzero(Z[:, 0])
    if used.size == 0 or earlier.shape[1] == 0:
        return Z
    near = Z.astype(np.float64)
    near[used] -= earlier[used] @ np.linalg.lstsq(earlier[used], near[used], rcond=1e-10)[0]
    near = normalize_columns(near)
    return near.astype(Z.dtype) if float(near[:, 0] @ Z[:, 0]) > 1 - 1e-3 else Z
