"""The theorems of the paper on the gradient scheme, checked on problems with known maxima.

Numbers in brackets are those of [JNRS10], section 3; errata: δ_f is taken along the iterates.
"""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.linalg as sla

from gpower import maximize
from gpower.feasible_sets import Ball, Cube, FeasibleSet, Sphere, Spheres, Stiefel
from gpower.operators import Covariance, as_operator
from gpower.penalties.elementary import L0, L1, Cardinality, NonNegative
from gpower.problem.formulation import Problem
from gpower.solvers.ascent import AscentStatus

D, M = 6, 3


# --- convex functions with subgradients -----------------------------------------------------------------------------


@dataclass
class Quadratic:
    """½⟨x, Cx⟩ + ⟨b, x⟩."""

    C: np.ndarray
    b: np.ndarray | float = 0.0

    def value_and_gradient(self, x):
        Cx = self.C @ x
        return float(0.5 * np.vdot(x, Cx) + np.sum(self.b * x)), Cx + self.b


@dataclass
class SumOfAbsolutes:
    """‖Ax‖₁: convex, not smooth."""

    A: np.ndarray

    def value_and_gradient(self, x):
        return float(np.sum(np.abs(self.A @ x))), self.A.T @ np.sign(self.A @ x)


@dataclass
class SparsePCA:
    """The paper's boxed problems in the space of X: Σ(μ|aᵢᵀx| − γ)₊² or Σ((μaᵢᵀx)² − γ)₊, or the k largest squares."""

    A: np.ndarray
    kind: str
    levels: np.ndarray
    mu: np.ndarray

    def value_and_gradient(self, X):
        C = (self.A.T @ X).reshape(self.A.shape[1], -1) * self.mu
        if self.kind == "l1":
            T = np.sign(C) * np.maximum(np.abs(C) - self.levels, 0)
            value = np.sum(T**2)
        elif self.kind == "l0":
            T = np.where(C**2 - self.levels > 0, C, 0)
            value = np.sum(np.maximum(C**2 - self.levels, 0))
        else:
            kth = [np.sort(np.abs(c))[-int(k)] for c, k in zip(C.T, self.levels, strict=True)]
            T = np.where(np.abs(C) >= kth, C, 0)
            value = np.sum(T**2)
        return float(value), 2 * (self.A @ (self.mu * T)).reshape(np.shape(X))


@dataclass
class Recorder:
    """An objective that records the points of its evaluations: without acceleration, the iterates x₀, x₁, …"""

    objective: object

    def __post_init__(self):
        self.points, self.values, self.gradients = [], [], []

    def value_and_gradient(self, x):
        value, gradient = self.objective.value_and_gradient(x)
        self.points.append(x)
        self.values.append(value)
        self.gradients.append(gradient)
        return value, gradient


def run(objective, feasible_set, start, **options):
    """Return the result and the recorder of an ascent."""
    record = Recorder(objective)
    return maximize(record, feasible_set, start, **options), record


def accepted(objective, feasible_set, start, **options):
    """Return the result and the values at the accepted points, from the start to the end."""
    values = [objective.value_and_gradient(start)[0]]
    result = maximize(
        objective, feasible_set, start, callback=lambda state: values.append(state.value) or False, **options
    )
    return result, np.array(values)


def definite(seed=0, condition=50.0, d=D):
    """Return a symmetric matrix with eigenvalues from 1 to `condition`."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    return (Q * np.geomspace(1, condition, d)) @ Q.T


def matrix(seed=0, p=8, n=20):
    return np.random.default_rng(seed).standard_normal((p, n)) * np.linspace(0.5, 2, n)


# --- problems with known maxima -------------------------------------------------------------------------------------


@dataclass
class SolvedProblem:
    objective: object
    feasible_set: FeasibleSet
    start: np.ndarray
    best: float


def on_sphere(radius=1.0, G=None, kind=Sphere, seed=0):
    C = definite(seed)
    largest = sla.eigh(C, G if G is not None else np.eye(D), eigvals_only=True)[-1]
    feasible_set = kind(radius, G)
    start = feasible_set.argmax_linear(np.random.default_rng(seed + 1).standard_normal(D))
    return SolvedProblem(Quadratic(C), feasible_set, start, 0.5 * radius**2 * largest)


def on_stiefel():
    start = np.linalg.qr(np.random.default_rng(2).standard_normal((D, M)))[0]
    return SolvedProblem(Quadratic(definite(2)), Stiefel(), start, 0.5 * np.linalg.eigvalsh(definite(2))[-M:].sum())


def on_cube():
    C = definite(3)
    best = max(0.5 * v @ C @ v for v in np.array(list(product([-1.0, 1.0], repeat=D))))
    return SolvedProblem(Quadratic(C), Cube(), np.sin(np.arange(D) + 1.0), best)


def not_smooth():
    A = np.random.default_rng(4).standard_normal((10, D))
    signs = np.array(list(product([-1.0, 1.0], repeat=10)))
    best = np.linalg.norm(signs @ A, axis=1).max()  # max over x of max over signs of ⟨s, Ax⟩
    return SolvedProblem(SumOfAbsolutes(A), Sphere(), np.eye(D)[0], best)


def one_variable_each():
    """Orthogonal columns: the best x of the ℓ0 problem is along the longest one, (‖a‖² − γ)₊."""
    A = np.diag([3.0, 2.5, 2.0, 1.0, 0.5, 0.1])
    x = np.array([0.5, 0.6, 0.4, 0.3, 0.3, 0.2])
    return SolvedProblem(SparsePCA(A, "l0", np.array([0.3]), np.ones(1)), Sphere(), x / np.linalg.norm(x), 9 - 0.3)


SOLVED_PROBLEMS = {
    "power method": on_sphere(),
    "power method, radius 2.5": on_sphere(2.5),
    "power method in a metric": on_sphere(0.7, definite(9, 5.0)),
    "power method on a ball": on_sphere(1.5, None, Ball),
    "power method on a ball in a metric": on_sphere(1.5, definite(9, 5.0), Ball),
    "quadratic on Stiefel": on_stiefel(),
    "quadratic on the cube": on_cube(),
    "sum of absolutes": not_smooth(),
    "l0 with orthogonal columns": one_variable_each(),
}
EACH = pytest.mark.parametrize("solved", SOLVED_PROBLEMS.values(), ids=SOLVED_PROBLEMS)
ROUND_SETS = {name: solved for name, solved in SOLVED_PROBLEMS.items() if isinstance(solved.feasible_set, Sphere)}
EACH_ROUND_SET = pytest.mark.parametrize("solved", ROUND_SETS.values(), ids=ROUND_SETS)


def gaps(solved, record):
    """Compute Δ at each iterate by its definition."""
    pairs = zip(record.points, record.gradients, strict=True)
    return np.array([np.vdot(g, solved.feasible_set.argmax_linear(g) - x) for x, g in pairs])


def sum_of_squared_steps(points, norm=np.linalg.norm):
    return sum(norm(y - x) ** 2 for x, y in pairwise(points))


# --- theorem 1 ------------------------------------------------------------------------------------------------------


@EACH
def test_each_step_gains_at_least_the_first_order_measure(solved):
    """So the sum of Δ is at most f* − f(x₀), and min Δ ≤ (f* − f(x₀))/(k + 1)."""
    result, record = run(solved.objective, solved.feasible_set, solved.start, tol=0, max_iter=50)
    delta = gaps(solved, record)
    assert np.all(delta >= -1e-10 * solved.best)
    assert np.all(np.diff(record.values) >= delta[:-1] - 1e-10 * solved.best)
    assert result.value <= solved.best * (1 + 1e-12)


@EACH
def test_the_gap_vanishes_in_the_end(solved):
    result = maximize(solved.objective, solved.feasible_set, solved.start, tol=0, max_iter=20_000)
    assert 0 <= result.gap <= 1e-10 * result.value


@EACH
@pytest.mark.parametrize("acceleration", [False, True])
def test_values_never_decrease_and_end_at_those_of_the_result(solved, acceleration):
    start = solved.start.copy()
    result, values = accepted(
        solved.objective, solved.feasible_set, solved.start, tol=1e-12, max_iter=3000, acceleration=acceleration
    )
    assert result.converged
    assert np.all(np.diff(values) >= -1e-14 * solved.best)
    assert np.all(np.diff(result.history) >= 0)
    np.testing.assert_allclose(result.history, values, rtol=1e-14)
    assert values[-1] > values[0] == result.history[0]
    assert len(result.history) == result.n_iter + 1
    value, gradient = solved.objective.value_and_gradient(result.point)
    assert result.value == value
    gap = np.vdot(gradient, solved.feasible_set.argmax_linear(gradient) - result.point)
    assert result.gap == pytest.approx(max(gap, 0), abs=1e-12 * value)
    np.testing.assert_array_equal(solved.start, start)


SPARSE = {
    "l1": L1(np.array([0.8, 1.0, 1.2])),
    "l0": L0(np.array([0.8, 1.0, 1.2])),
    "cardinality": Cardinality(np.array([3, 4, 5])),
    "non-negative l0": NonNegative(L0(np.array([0.8, 1.0, 1.2]))),
}


@pytest.mark.parametrize("penalty", SPARSE.values(), ids=SPARSE)
@pytest.mark.parametrize("acceleration", [False, True])
@pytest.mark.parametrize("samples", [Stiefel(), Spheres(), Cube()])
@pytest.mark.parametrize("seed", range(4))
def test_values_of_sparse_pca_never_decrease(penalty, acceleration, samples, seed):
    problem = Problem(as_operator(matrix(seed))[0], penalty, np.array([1.3, 1.0, 0.7]), samples)
    start = problem.feasible_set.make_point(np.random.default_rng(seed).standard_normal((8, M)))
    result, values = accepted(problem.objective, problem.feasible_set, start, tol=1e-12, acceleration=acceleration)
    assert result.converged
    assert np.all(np.diff(values) >= -1e-13 * result.value)
    np.testing.assert_allclose(result.history, values, rtol=1e-13)


# --- theorem 2: the sum of squared steps ----------------------------------------------------------------------------


@EACH_ROUND_SET
def test_squared_steps_on_a_strongly_convex_set_are_summable(solved):
    """Σ‖x₊ − x‖² ≤ 2(f* − f(x₀))/(σ_Q δ_f), σ_Q = 1/r."""
    _, record = run(solved.objective, solved.feasible_set, solved.start, tol=0, max_iter=200)
    delta = min(solved.feasible_set.dual_norm(g) for g in record.gradients)
    bound = 2 * (solved.best - record.values[0]) * solved.feasible_set.radius / delta
    assert 0 < sum_of_squared_steps(record.points, solved.feasible_set.norm) <= bound * (1 + 1e-9)


def block(penalty, omega):
    """Return a regularised problem of three units, and a start."""
    problem = Problem(as_operator(matrix(6))[0], penalty, np.array([1.5, 1.0, 0.6]), regularization=omega)
    return problem, problem.feasible_set.make_point(np.random.default_rng(7).standard_normal((8, M)))


@pytest.mark.parametrize("penalty", [L1(np.full(M, 0.8)), L0(np.full(M, 0.8))], ids=["l1", "l0"])
@pytest.mark.parametrize("omega", [1.0, 30.0, 1000.0])
def test_squared_steps_of_a_strongly_convex_block_are_summable(penalty, omega):
    """Σ‖X₊ − X‖² ≤ 2(f* − f(X₀))/σ_f with σ_f = ω: the Stiefel manifold itself is not strongly convex."""
    problem, start = block(penalty, omega)
    result, record = run(problem.objective, problem.feasible_set, start, tol=0, max_iter=100)
    bound = 2 * (result.value - record.values[0]) / omega
    assert 0 < sum_of_squared_steps([x.X for x in record.points]) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("omega", [0.0, 5.0])
def test_the_regularised_step_is_the_polar_factor_of_gradient_plus_point(omega):
    problem, x = block(L1(np.full(M, 0.8)), omega)
    A = matrix(6) - matrix(6).mean(axis=0)
    gradient = SparsePCA(A, "l1", np.full(M, 0.8), problem.mu).value_and_gradient(x.X)[1]
    U, _, Vt = np.linalg.svd(gradient + omega * x.X, full_matrices=False)
    step = problem.feasible_set.argmax_linear(problem.objective.value_and_gradient(x)[1])
    np.testing.assert_allclose(step.X, U @ Vt, atol=1e-10)


@pytest.mark.parametrize("omega", [1e-3, 1.0, 100.0])
def test_regularisation_leaves_the_values_and_the_stationary_points(omega):
    problem, start = block(L1(np.full(M, 0.8)), omega)
    result = maximize(problem.objective, problem.feasible_set, start, tol=1e-15, max_iter=100_000)
    plain, _ = block(L1(np.full(M, 0.8)), 0.0)
    value, gradient = plain.objective.value_and_gradient(result.point)
    assert result.value == pytest.approx(value, rel=1e-13)
    gap = plain.feasible_set.support_value(gradient) - plain.feasible_set.pairing(gradient, result.point)
    assert gap <= 1e-5 * value


# --- the first-order measure ----------------------------------------------------------------------------------------


@EACH_ROUND_SET
def test_on_a_sphere_the_gap_is_half_the_gradient_times_the_squared_step(solved):
    """Δ(x) = ‖f′(x)‖*‖y − x‖²/(2r)."""
    _, record = run(solved.objective, solved.feasible_set, solved.start, tol=0, max_iter=12)
    radius = solved.feasible_set.radius
    for x, g in zip(record.points, record.gradients, strict=True):
        y = solved.feasible_set.argmax_linear(g)
        expected = solved.feasible_set.dual_norm(g) * solved.feasible_set.norm(y - x) ** 2 / (2 * radius)
        assert np.vdot(g, y - x) == pytest.approx(expected, rel=1e-9, abs=1e-12 * solved.best)


# --- strongly convex sets -------------------------------------------------------------------------------------------


def stays_inside(ball, sigma, close):
    """Return whether αx + (1 − α)y + (σ/2)α(1 − α)‖x − y‖² s stays in the ball, for sampled x, y, α and unit s."""
    rng = np.random.default_rng(11)
    for _ in range(500):
        x, s = ball.argmax_linear(rng.standard_normal(D)), rng.standard_normal(D)
        y = ball.argmax_linear(rng.standard_normal(D))
        if close:  # neighbours on the boundary, pushed straight outwards: the worst case
            y = Sphere(ball.radius, ball.metric).retract(x + 1e-2 * s)
            s = x
        alpha = rng.uniform()
        push = sigma / 2 * alpha * (1 - alpha) * ball.norm(x - y) ** 2
        if not ball.contains(alpha * x + (1 - alpha) * y + push * s / ball.norm(s), tol=1e-12):
            return False
    return True


@pytest.mark.parametrize("G", [None, definite(9, 5.0)], ids=["Euclidean", "in a metric"])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_a_ball_is_strongly_convex_with_one_over_its_radius_and_no_more(G, radius):
    ball = Ball(radius, G)
    assert ball.convexity == Sphere(radius, G).convexity == 1 / radius
    for close in (False, True):
        assert stays_inside(ball, ball.convexity, close)
    assert not stays_inside(ball, 1.05 * ball.convexity, close=True)


# --- convergence --------------------------------------------------------------------------------------------------


def test_a_start_at_a_local_minimiser_stays_there_and_one_off_it_by_little_leaves_it():
    objective, start = Quadratic(np.diag([3.0, 2.0, 1.0])), np.array([0.0, 0.0, 1.0])
    result = maximize(objective, Sphere(), start, acceleration=True)
    np.testing.assert_array_equal(result.point, start)
    assert (result.value, result.gap, result.converged) == (0.5, 0, True)
    near = start + [1e-6, 0, 0]
    assert maximize(objective, Sphere(), near / np.linalg.norm(near), tol=1e-15).value == pytest.approx(1.5)


def dead_unit(omega):
    """Return a problem whose second unit points along a coordinate where the only column is too short to be active."""
    A = np.zeros((4, 6))
    A[:3, :5] = np.random.default_rng(15).standard_normal((3, 5)) * 2
    A[3, 5] = 0.1
    problem = Problem(
        as_operator(A, center=False, reduce_tall=False)[0], L1(np.full(2, 0.5)), np.ones(2), regularization=omega
    )
    X = np.zeros((4, 2))
    X[:3, 0], X[3, 1] = np.array([0.6, 0.0, 0.8]), 1.0
    return problem, problem.feasible_set.make_point(X)


@pytest.mark.parametrize("omega", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("acceleration", [False, True])
def test_a_unit_without_active_variables_keeps_its_direction_when_regularised(omega, acceleration):
    problem, start = dead_unit(omega)
    result, record = run(problem.objective, problem.feasible_set, start, tol=1e-12, acceleration=acceleration)
    assert result.value > record.values[0]
    assert not np.any(problem.compute_loadings(result.point)[:, 1])
    for x in record.points:
        np.testing.assert_allclose(x.X[:, 1], [0, 0, 0, 1], atol=1e-12)


def test_a_unit_without_active_variables_is_revived_when_not_regularised():
    problem, start = dead_unit(0.0)
    result = maximize(problem.objective, problem.feasible_set, start, tol=1e-12)
    assert np.any(problem.compute_loadings(result.point)[:, 1])


def test_acceleration_reaches_the_largest_eigenvalue_in_fewer_steps():
    C = np.diag(np.r_[1.0, 0.99, np.linspace(0.1, 0.9, 20)])
    start = np.full(22, 22**-0.5)
    plain, fast = (
        maximize(Quadratic(C), Sphere(), start, tol=1e-12, max_iter=10_000, acceleration=acceleration)
        for acceleration in (False, True)
    )
    assert plain.value == pytest.approx(0.5, rel=1e-9)
    assert fast.value == pytest.approx(0.5, rel=1e-9)
    assert fast.n_iter < plain.n_iter / 2


@pytest.mark.parametrize(
    "solved",
    [on_sphere(1.5, G, kind, seed) for seed in range(4) for kind in (Sphere, Ball) for G in (None, definite(9, 5.0))]
    + [on_stiefel()],
)
def test_acceleration_reaches_the_known_maximum_of_a_quadratic(solved):
    for acceleration in (False, True):
        result = maximize(
            solved.objective, solved.feasible_set, solved.start, tol=1e-14, max_iter=5000, acceleration=acceleration
        )
        assert result.value == pytest.approx(solved.best, rel=1e-9)
        assert solved.feasible_set.contains(result.point)


@pytest.mark.parametrize("acceleration", [False, True])
@pytest.mark.parametrize("m", [1, M])
def test_an_ascent_in_single_precision_stays_in_single_precision(acceleration, m):
    mu = np.ones(m, np.float32)
    problem = Problem(as_operator(matrix(8).astype(np.float32))[0], L1(np.full(m, 0.8, np.float32)), mu)
    start = problem.feasible_set.make_point(np.eye(8, m, dtype=np.float32))
    _, record = run(problem.objective, problem.feasible_set, start, tol=1e-6, acceleration=acceleration)
    assert len(record.points) > 4
    assert {x.C.dtype for x in record.points} == {np.dtype(np.float32)}
    assert {x.X.dtype for x in record.points} == {np.dtype(np.float32)}


class OnlyAnOracle(FeasibleSet):
    """The unit sphere without a retraction."""

    def argmax_linear(self, g):
        return g / np.linalg.norm(g)


def test_a_set_without_a_retraction_serves_the_plain_ascent():
    result = maximize(Quadratic(definite()), OnlyAnOracle(), np.eye(D)[0], tol=1e-14)
    assert result.value == pytest.approx(25, rel=1e-9)


def test_acceleration_on_a_set_without_a_retraction_is_refused():
    with pytest.raises(NotImplementedError, match=r"OnlyAnOracle offers no retraction: .*acceleration=False\."):
        maximize(Quadratic(definite()), OnlyAnOracle(), np.eye(D)[0], tol=1e-14, acceleration=True)


# --- the result -----------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_the_ascent_stops_at_the_first_step_that_gains_no_more_than_tol(solved, tol):
    result = maximize(solved.objective, solved.feasible_set, solved.start, tol=tol)
    growth = np.diff(result.history) / np.abs(result.history[:-1])
    assert growth[-1] <= tol
    assert np.all(growth[:-1] > tol)
    assert result.status is AscentStatus.CONVERGED
    assert result.converged


@pytest.mark.parametrize("max_iter", [0, 3])
def test_running_out_of_steps_is_reported(max_iter):
    solved = SOLVED_PROBLEMS["power method"]
    result = maximize(solved.objective, solved.feasible_set, solved.start, tol=0, max_iter=max_iter)
    assert (result.n_iter, result.status, result.converged) == (max_iter, AscentStatus.MAX_ITER, False)
    assert result.gap > 0
    assert np.array_equal(result.point, solved.start) == (max_iter == 0)


def test_a_callback_sees_each_step_and_stops_the_ascent():
    solved, seen = SOLVED_PROBLEMS["power method"], []

    def callback(state):
        value, gradient = solved.objective.value_and_gradient(state.point)
        assert state.value == value
        np.testing.assert_array_equal(state.gradient, gradient)
        step = solved.feasible_set.argmax_linear(gradient)
        assert state.gap == pytest.approx(np.vdot(gradient, step - state.point))
        seen.append(state.n_iter)
        return state.n_iter == 4

    result = maximize(solved.objective, solved.feasible_set, solved.start, tol=0, callback=callback)
    assert seen == [1, 2, 3, 4]
    assert (result.n_iter, result.status, result.converged) == (4, AscentStatus.CALLBACK, False)


@pytest.mark.parametrize("kind", [Sphere, Ball])
def test_a_start_inside_the_hull_leads_to_a_point_of_the_set(kind):
    solved = on_sphere(1.0, None, kind)
    result = maximize(solved.objective, solved.feasible_set, 0.1 * solved.start, tol=1e-14, max_iter=5000)
    assert solved.feasible_set.contains(result.point)
    assert result.value == pytest.approx(solved.best, rel=1e-9)


class Concave:
    """−‖x‖²."""

    def value_and_gradient(self, x):
        return float(-x @ x), -2 * x


@pytest.mark.parametrize(
    ("objective", "feasible_set", "start", "message"),
    [
        (
            Quadratic(definite()),
            Sphere(),
            10 * np.eye(D)[0],
            "check that the start lies in the set, that the objective",
        ),
        (Quadratic(definite()), Ball(), 10 * np.eye(D)[0], "check that the start lies in the set, that the objective"),
        (Concave(), Ball(), np.array([0.1, 0.1]), "which cannot happen for a convex objective"),
        (Quadratic(definite()), Sphere(), np.full(D, np.nan), "Step 1 took the objective"),
    ],
)
def test_what_contradicts_the_theorems_is_refused(objective, feasible_set, start, message):
    with pytest.raises(ValueError, match=message):
        maximize(objective, feasible_set, start)


# --- in the space of correlations -----------------------------------------------------------------------------------

FORMULATIONS = {"l1": L1, "l0": L0, "cardinality": Cardinality}
EACH_FORMULATION = pytest.mark.parametrize("kind", FORMULATIONS)


def pair(kind, m, center=True):
    """Return one problem in the space of X and in the space of correlations."""
    A = matrix(16, 10, 25) + (3.0 if center else 0.0)
    mu = np.linspace(1.4, 0.7, m)
    levels = np.arange(4, 4 + m) if kind == "cardinality" else np.linspace(0.8, 1.2, m)
    problem = Problem(as_operator(A, center=center, reduce_tall=False)[0], FORMULATIONS[kind](levels), mu)
    A = A - A.mean(axis=0) if center else A
    return A, SparsePCA(A, kind, levels.astype(float), mu), problem


@EACH_FORMULATION
@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("center", [True, False])
def test_iterates_and_gaps_over_correlations_are_those_over_samples(kind, m, center):
    A, objective, problem = pair(kind, m, center)
    X = np.linalg.qr(A[:, -m:])[0]
    start = problem.feasible_set.make_point(X)
    expected = maximize(objective, Stiefel(), X, tol=0, max_iter=4).gap
    found = maximize(problem.objective, problem.feasible_set, start, tol=0, max_iter=4).gap
    assert found == pytest.approx(expected, rel=1e-8)
    _, expected = run(objective, Stiefel(), X, tol=0, max_iter=30)
    _, found = run(problem.objective, problem.feasible_set, start, tol=0, max_iter=30)
    assert min(len(expected.points), len(found.points)) > 5
    for x, y, f, g in zip(expected.points, found.points, expected.values, found.values, strict=False):
        np.testing.assert_allclose(y.X, x, atol=1e-10)
        np.testing.assert_allclose(y.C, problem.mu * (A.T @ x), atol=1e-10)
        assert g == pytest.approx(f, rel=1e-10)


@EACH_FORMULATION
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("acceleration", [False, True])
def test_a_covariance_gives_the_iterates_of_its_data(kind, m, acceleration):
    A, _, problem = pair(kind, m)
    other = Problem(Covariance(A.T @ A), problem.penalty, problem.mu)
    T = np.eye(A.shape[1])[:, -m:]
    records = []
    for each in (problem, other):
        start = each.feasible_set.argmax_linear(T)
        _, record = run(each.objective, each.feasible_set, start, tol=0, max_iter=15, acceleration=acceleration)
        records.append([x.C for x in record.points])
    assert min(map(len, records)) > 5
    for x, y in zip(*records, strict=False):
        np.testing.assert_allclose(y, x, atol=1e-9)


@EACH_FORMULATION
def test_a_batch_of_starts_takes_the_steps_of_each_one_alone(kind):
    A, _, problem = pair(kind, 1)
    batch = problem.as_batch(5)
    X = A[:, -5:] / np.linalg.norm(A[:, -5:], axis=0)
    _, together = run(batch.objective, batch.feasible_set, batch.feasible_set.make_point(X), tol=0, max_iter=6)
    for j in range(5):
        start = problem.feasible_set.make_point(X[:, j : j + 1])
        _, alone = run(problem.objective, problem.feasible_set, start, tol=0, max_iter=6)
        for x, y in zip(alone.points, together.points, strict=False):
            np.testing.assert_allclose(y.select_unit(j).C, x.C, atol=1e-10)


def test_the_gap_takes_its_product_only_when_asked_for():
    operator = as_operator(np.random.default_rng(4).standard_normal((20, 30)))[0]
    problem = Problem(operator, L0(np.array([2.0])))
    result = maximize(problem.objective, problem.feasible_set, problem.feasible_set.make_point(operator.columns([0])))
    before = operator.passes
    assert result.gap >= 0
    assert operator.passes > before
    before = operator.passes
    again = result.gap
    assert operator.passes == before, "the result remembers it"
    assert again == result.last_state.gap
    assert operator.passes > before, "the state computes it anew"
