"""One contract for every feasible set: the linear maximiser is a member, and no member beats it."""

from dataclasses import dataclass

import numpy as np
import pytest

from gpower._utils.polar_factor_and_signs import polar_factor
from gpower.feasible_sets import (
    Ball,
    CorrelationSet,
    Cube,
    FeasibleSet,
    Point,
    RegularizedSet,
    Sphere,
    Spheres,
    Stiefel,
)
from gpower.feasible_sets.sample_sets import find_residual_directions
from gpower.operators import Covariance, DataMatrix, as_operator
from gpower.operators.storage.dense import DenseMatrix
from gpower.problem.deflation import DEFLATION_RULES

D, M = 6, 3


def metric():
    """Return a badly scaled positive definite matrix."""
    B = np.random.default_rng(1).standard_normal((D, D))
    return B @ B.T + np.diag(np.logspace(-1, 2, D))


def norm(x, G=None):
    return np.sqrt(np.sum(x * x)) if G is None else np.sqrt(x @ G @ x)


def orthonormal(rng, rows=D, columns=M):
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


def unit_columns(Y):
    return Y / np.linalg.norm(Y, axis=0)


# --- sets of vectors and matrices -----------------------------------------------------------------------------------


@dataclass
class SetCase:
    """A set, the shape of its points, and a second implementation of its definition and of its support function."""

    feasible_set: FeasibleSet
    shape: tuple
    is_member: object
    random_member: object
    dual_norm: object


def in_metric(kind, radius, G=None):
    """Return a sphere, or a ball, whose points are scaled random vectors."""
    is_ball = kind is Ball

    def random_member(rng):
        x = rng.standard_normal(D)
        return radius * (rng.uniform() ** 0.3 if is_ball else 1) * x / norm(x, G)

    return SetCase(
        kind(radius, G),
        (D,),
        lambda x: (0 if is_ball else radius * (1 - 1e-10)) <= norm(x, G) <= radius * (1 + 1e-10),
        random_member,
        lambda g: radius * (np.linalg.norm(g) if G is None else np.sqrt(g @ np.linalg.solve(G, g))),
    )


def stiefel(columns):
    return SetCase(
        Stiefel(),
        (D, columns),
        lambda X: np.max(np.abs(X.T @ X - np.eye(columns))) <= 1e-12,
        lambda rng: orthonormal(rng, D, columns),
        lambda g: np.linalg.norm(g, "nuc"),
    )


def cube(radius, shape, random_member):
    return SetCase(
        Cube(radius), shape, lambda x: np.max(np.abs(x)) <= radius, random_member, lambda g: radius * np.abs(g).sum()
    )


SETS = {
    f"{kind.__name__} of radius {radius}{' in a metric' * (G is not None)}": in_metric(kind, radius, G)
    for kind in (Sphere, Ball)
    for radius, G in ((1.0, None), (2.5, None), (0.7, metric()))
} | {
    "Stiefel": stiefel(M),
    "square Stiefel": stiefel(D),
    "Stiefel of one column": stiefel(1),
    "spheres": SetCase(
        Spheres(),
        (D, M),
        lambda X: np.max(np.abs(np.linalg.norm(X, axis=0) - 1)) <= 1e-12,
        lambda rng: unit_columns(rng.standard_normal((D, M))),
        lambda g: np.linalg.norm(g, axis=0).sum(),
    ),
    "cube": cube(1.0, (D,), lambda rng: rng.uniform(-1, 1, D)),
    "cube of radius 2.5": cube(2.5, (D, M), lambda rng: rng.choice([-2.5, 0.1, 2.5], (D, M))),
}
EACH = pytest.mark.parametrize("set_case", SETS.values(), ids=SETS)


def gradients(shape, seed=0):
    """A generic one, a tiny and a huge one, one coordinate, and nothing at all."""
    g = np.random.default_rng(seed).standard_normal(shape)
    one = np.zeros(shape)
    one.flat[-1] = -1.0
    return [g, 1e-100 * g, 1e100 * g, one, np.zeros(shape)]


@EACH
@pytest.mark.parametrize("which", range(5), ids=["generic", "tiny", "huge", "one coordinate", "zero"])
def test_the_linear_maximiser_is_a_member_whose_value_is_the_dual_norm(set_case, which):
    """So no member has a larger one."""
    g = gradients(set_case.shape)[which]
    copy = g.copy()
    y = set_case.feasible_set.argmax_linear(g)
    assert y.shape == set_case.shape
    assert set_case.is_member(y)
    assert np.vdot(g, y) == pytest.approx(set_case.dual_norm(g), rel=1e-12, abs=0)
    assert set_case.feasible_set.support_value(g) == pytest.approx(np.vdot(g, y), rel=1e-12, abs=0)
    np.testing.assert_array_equal(g, copy)
    np.testing.assert_array_equal(y, set_case.feasible_set.argmax_linear(g))


@EACH
def test_retraction_finds_the_nearest_member_and_leaves_members_where_they_are(set_case):
    rng = np.random.default_rng(6)
    G = getattr(set_case.feasible_set, "metric", None)
    y = 1.3 * rng.standard_normal(set_case.shape)
    nearest = norm(y - set_case.feasible_set.retract(y), G)
    assert all(nearest <= norm(y - set_case.random_member(rng), G) + 1e-12 for _ in range(200))
    for scale in (0.1, 1, 10):
        assert set_case.is_member(set_case.feasible_set.retract(scale * rng.standard_normal(set_case.shape)))
        member = set_case.random_member(rng)
        np.testing.assert_allclose(set_case.feasible_set.retract(member), member, atol=1e-12)


@EACH
def test_extrapolation_carries_on_and_stays_in_the_set(set_case):
    rng = np.random.default_rng(8)
    x, previous = set_case.random_member(rng), set_case.random_member(rng)
    y = set_case.feasible_set.extrapolate(x, previous, 0.4)
    assert set_case.is_member(y)
    np.testing.assert_allclose(y, set_case.feasible_set.retract(1.4 * x - 0.4 * previous))


@EACH
def test_members_and_points_outside_are_distinguished(set_case):
    rng = np.random.default_rng(9)
    assert set_case.feasible_set.contains(set_case.random_member(rng))
    y = set_case.feasible_set.argmax_linear(rng.standard_normal(set_case.shape))
    assert set_case.feasible_set.contains(y)
    assert not set_case.feasible_set.contains(3 * y)
    assert set_case.feasible_set.contains(0.1 * y) == set_case.is_member(0.1 * y)


@EACH
def test_the_type_of_the_gradient_is_kept(set_case):
    if getattr(set_case.feasible_set, "metric", None) is not None:
        set_case = in_metric(Sphere, 0.7, metric().astype(np.float32))
    g = gradients(set_case.shape)[0].astype(np.float32)
    assert set_case.feasible_set.argmax_linear(g).dtype == np.float32
    assert set_case.feasible_set.retract(g).dtype == np.float32


@pytest.mark.parametrize("kind", [Sphere, Ball])
def test_norm_and_dual_norm_are_those_of_the_metric(kind):
    G, rng = metric(), np.random.default_rng(10)
    x, g = rng.standard_normal((2, D))
    assert kind(3.0, G).norm(x) == pytest.approx(np.sqrt(x @ G @ x))
    assert kind(3.0, G).dual_norm(g) == pytest.approx(np.sqrt(g @ np.linalg.inv(G) @ g))
    assert kind(3.0).norm(x) == pytest.approx(np.linalg.norm(x))


@pytest.mark.parametrize("kind", [Sphere, Ball])
@pytest.mark.parametrize(
    "G",
    [np.diag([1.0, -1.0]), np.diag([1.0, 0.0]), np.zeros((2, 2)), np.array([[1.0, 0.9], [-0.9, 1.0]])],
    ids=["indefinite", "singular", "zero", "not symmetric"],
)
def test_a_metric_that_is_not_positive_definite_is_refused(kind, G):
    with pytest.raises(ValueError, match=r"metric must be symmetric positive definite.*\.$"):
        kind(1.0, G).argmax_linear(np.array([1.0, 2.0]))


DEFICIENT = {
    "a zero column": lambda G: G * [1, 0, 1],
    "two zero columns": lambda G: G * [1, 0, 0],
    "the first column zero": lambda G: G * [0, 1, 1],
    "a duplicated column": lambda G: G[:, [0, 1, 0]],
    "a duplicated column of opposite sign and another scale": lambda G: G[:, [0, 0, 2]] * [1, -1e-3, 1],
    "all columns equal": lambda G: G[:, [0, 0, 0]],
    "nothing": lambda G: 0 * G,
    "a nearly dead column": lambda G: G * [1, 1e-12, 1],
}
EACH_DEFICIENCY = pytest.mark.parametrize("spoil", DEFICIENT.values(), ids=DEFICIENT)


@EACH_DEFICIENCY
@pytest.mark.parametrize("p", [D, M])
def test_a_rank_deficient_gradient_has_an_orthonormal_maximiser(spoil, p):
    G = spoil(np.random.default_rng(11).standard_normal((p, M)))
    X = Stiefel().argmax_linear(G)
    np.testing.assert_allclose(X.T @ X, np.eye(M), atol=1e-12)
    assert np.vdot(G, X) == pytest.approx(np.linalg.norm(G, "nuc"), abs=1e-12)


# --- the data's own set ---------------------------------------------------------------------------------------------

P, N = 9, 12


@dataclass
class Data:
    """An operator, the matrix that it represents, and the frame of its sample-space representations."""

    operator: object
    A: np.ndarray
    frame: np.ndarray

    def samples(self, x):
        """Return the coordinates of the units of a point."""
        return self.frame @ x.X


def dense():
    X = np.random.default_rng(12).standard_normal((P, N)) * np.linspace(0.5, 2, N) + 3
    return X, X - X.mean(axis=0)


def data(kind="centred"):
    X, A = dense()
    if kind == "centred":
        return Data(as_operator(X)[0], A, np.eye(P))
    if kind == "covariance":
        return Data(Covariance(A.T @ A), A, A)
    z = unit_columns(np.random.default_rng(13).standard_normal((N, 1)))
    base = data("centred" if kind == "deflated" else "covariance")
    return Data(DEFLATION_RULES["projection"].remove(base.operator, z[:, 0]), A - A @ z @ z.T, base.frame)


MU = {1: np.array([1.7]), M: np.array([1.5, 1.0, 0.4])}
CORRELATION_SETS = {
    f"{kind}, {type(samples).__name__}, {m}": (kind, samples, m)
    for kind in ("centred", "covariance", "deflated", "deflated covariance")
    for samples in (Stiefel(), Spheres(), Cube(2.0))
    for m in (1, M)
    if not (isinstance(samples, Cube) and "covariance" in kind)
}
EACH_CORRELATION_SET = pytest.mark.parametrize(
    ("kind", "samples", "m"), CORRELATION_SETS.values(), ids=CORRELATION_SETS
)


def assert_member(set_case, samples, mu, x, tol=1e-10):
    """Assert that X is in the sample set and that C = μ∘AᵀX."""
    X = set_case.samples(x)
    assert np.all(np.isfinite(X))
    np.testing.assert_allclose(x.C, mu * (set_case.A.T @ X), atol=tol * np.linalg.norm(set_case.A))
    if isinstance(samples, Stiefel):
        np.testing.assert_allclose(X.T @ X, np.eye(X.shape[1]), atol=tol)
    elif isinstance(samples, Spheres):
        np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1, atol=tol)
    else:
        assert np.max(np.abs(X)) <= samples.radius


def dual_norm(Y, samples):
    if isinstance(samples, Cube):
        return samples.radius * np.abs(Y).sum()
    return np.linalg.norm(Y, "nuc") if isinstance(samples, Stiefel) else np.linalg.norm(Y, axis=0).sum()


@EACH_CORRELATION_SET
@pytest.mark.parametrize("scale", [1.0, 1e-80, 1e80])
def test_the_maximiser_over_the_data_is_a_member_whose_value_is_the_dual_norm(kind, samples, m, scale):
    set_case, mu = data(kind), MU[m]
    feasible_set = CorrelationSet(set_case.operator, mu, samples)
    T = scale * np.random.default_rng(14).standard_normal((N, m))
    y = feasible_set.argmax_linear(T)
    assert_member(set_case, samples, mu, y)
    assert np.vdot(T, y.C) == pytest.approx(dual_norm(set_case.A @ (mu * T), samples))
    assert feasible_set.support_value(T) == pytest.approx(np.vdot(T, y.C))
    assert feasible_set.pairing(T, y) == pytest.approx(np.vdot(T, y.C))


@EACH_CORRELATION_SET
def test_a_linear_function_may_have_a_part_on_the_samples(kind, samples, m):
    """⟨W, X⟩ + ⟨T, C⟩, as the regularised objective's gradient."""
    set_case, mu, rng = data(kind), MU[m], np.random.default_rng(16)
    feasible_set = RegularizedSet(set_case.operator, mu, samples)
    W = set_case.operator.combine(rng.standard_normal((N, m)))
    g = Point(W, rng.standard_normal((N, m)))
    Y = set_case.frame @ W + set_case.A @ (mu * g.C)
    y = feasible_set.argmax_linear(g)
    assert_member(set_case, samples, mu, y)
    assert np.vdot(Y, set_case.samples(y)) == pytest.approx(dual_norm(Y, samples))
    assert feasible_set.pairing(g, y) == pytest.approx(np.vdot(Y, set_case.samples(y)))
    assert feasible_set.support_value(g) == pytest.approx(dual_norm(Y, samples))
    assert_member(set_case, samples, mu, feasible_set.make_point(W))


@EACH_CORRELATION_SET
@pytest.mark.parametrize("b", [0.0, 0.3, 0.9])
def test_extrapolation_keeps_the_samples_on_their_set_and_the_correlations_theirs(kind, samples, m, b):
    set_case, mu, rng = data(kind), MU[m], np.random.default_rng(18)
    feasible_set = CorrelationSet(set_case.operator, mu, samples)
    x, previous = (feasible_set.argmax_linear(rng.standard_normal((N, m))) for _ in range(2))
    before = set_case.operator.passes
    y = feasible_set.extrapolate(x, previous, b)
    if kind == "centred" and not isinstance(samples, Cube):
        assert set_case.operator.passes == before
    assert_member(set_case, samples, mu, y)
    if isinstance(samples, Cube):
        return  # a vertex is not extrapolated
    Y = set_case.samples(x) + b * (set_case.samples(x) - set_case.samples(previous))
    nearest = polar_factor(Y) if isinstance(samples, Stiefel) else unit_columns(Y)
    np.testing.assert_allclose(set_case.samples(y), nearest, atol=1e-10)


@pytest.mark.parametrize("kind", ["centred", "covariance", "deflated", "deflated covariance"])
@EACH_DEFICIENCY
def test_units_without_a_direction_of_their_own_still_make_a_maximiser(kind, spoil):
    set_case, mu, rng = data(kind), MU[M], np.random.default_rng(21)
    T = spoil(rng.standard_normal((N, M))) / mu  # the columns of A(μ∘T) vanish or coincide
    feasible_set = CorrelationSet(set_case.operator, mu)
    y = feasible_set.argmax_linear(T)
    expected = np.linalg.norm(set_case.A @ (mu * T), "nuc")
    assert_member(set_case, Stiefel(), mu, y, tol=1e-8 if "covariance" in kind else 1e-10)
    assert np.vdot(T, y.C) == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert feasible_set.support_value(T) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "angle"),
    [(kind, 10.0**-i) for kind in ("centred", "covariance") for i in (2, 4, 5, 6, 7, 8, 10, 13)]
    + [("float32", angle) for angle in (0.3, 0.1, 0.05, 0.03, 0.02, 0.01, 1e-3, 1e-5)],
)
def test_nearly_coinciding_units_are_still_made_orthonormal(kind, angle):
    is_single = kind == "float32"
    set_case = data("centred" if is_single else kind)
    mu = np.ones(M, np.float32) if is_single else MU[M]
    operator = DataMatrix(DenseMatrix(set_case.A.astype(np.float32))) if is_single else set_case.operator
    T = np.random.default_rng(22).standard_normal((N, M)).astype(operator.dtype)
    T[:, 1] = T[:, 0] + angle * T[:, 1]
    T = T / mu
    y = CorrelationSet(operator, mu).argmax_linear(T)
    assert_member(set_case, Stiefel(), mu, y, tol=1e-5 if is_single else 1e-9)
    if not is_single:
        assert np.vdot(T, y.C) == pytest.approx(np.linalg.norm(set_case.A @ (mu * T), "nuc"), rel=1e-7)


@pytest.mark.parametrize("kind", ["centred", "covariance"])
def test_a_single_unit_and_starts_side_by_side_without_a_direction_are_pointed_at_the_longest_column(kind):
    set_case = data(kind)
    longest = unit_columns(set_case.A[:, [np.argmax(np.linalg.norm(set_case.A, axis=0))]])
    y = CorrelationSet(set_case.operator, MU[1]).argmax_linear(np.zeros((N, 1)))
    np.testing.assert_allclose(set_case.samples(y), longest, atol=1e-10)
    T = np.random.default_rng(28).standard_normal((N, M))
    T[:, [0, 2]] = 0
    y = CorrelationSet(set_case.operator, MU[M], Spheres()).argmax_linear(T)
    assert_member(set_case, Spheres(), MU[M], y)
    expected = np.hstack([longest, unit_columns(set_case.A @ T[:, [1]]), longest])
    np.testing.assert_allclose(set_case.samples(y), expected, atol=1e-10)


@pytest.mark.parametrize("kind", ["centred", "covariance"])
def test_a_unit_without_a_direction_is_pointed_at_the_column_least_explained_by_the_others(kind):
    set_case, mu, rng = data(kind), MU[M], np.random.default_rng(23)
    T = rng.standard_normal((N, M))
    T[:, 1] = 0
    y = CorrelationSet(set_case.operator, mu).argmax_linear(T)
    X = set_case.samples(y)
    others = X[:, [0, 2]]
    residual = set_case.A - others @ (others.T @ set_case.A)
    pivot = np.argmax(np.linalg.norm(residual, axis=0))
    direction = residual[:, pivot] / np.linalg.norm(residual[:, pivot])
    assert abs(direction @ X[:, 1]) == pytest.approx(1)
    np.testing.assert_allclose(others, polar_factor(set_case.A @ (mu * T)[:, [0, 2]]), atol=1e-9)


def low_rank(kind, rank):
    rng = np.random.default_rng(24)
    A = rng.standard_normal((P, rank)) @ rng.standard_normal((rank, N))
    return Data(DataMatrix(DenseMatrix(A)), A, np.eye(P)) if kind == "data" else Data(Covariance(A.T @ A), A, A)


@pytest.mark.parametrize("kind", ["data", "covariance"])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("spoil", [lambda T: T, *DEFICIENT.values()], ids=["generic", *DEFICIENT])
def test_more_units_than_the_rank_leave_the_surplus_zero(kind, rank, spoil):
    set_case, mu = low_rank(kind, rank), np.ones(M)
    T = spoil(np.random.default_rng(25).standard_normal((N, M)))
    y = CorrelationSet(set_case.operator, mu).argmax_linear(T)
    X = set_case.samples(y)
    assert np.all(np.isfinite(X))
    np.testing.assert_allclose(y.C, set_case.A.T @ X, atol=1e-6)
    # X is orthonormal up to directions in which A has nothing: XXᵀ projects onto the range of A.
    projector = set_case.A @ np.linalg.pinv(set_case.A)
    np.testing.assert_allclose(X @ X.T, projector, atol=1e-6)
    assert np.vdot(T, y.C) == pytest.approx(np.linalg.norm(set_case.A @ T, "nuc"), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("m", [1, M])
@pytest.mark.parametrize("samples", [Stiefel(), Spheres(), Cube()])
def test_single_precision_data_stay_in_single_precision(samples, m):
    set_case, rng = data(), np.random.default_rng(27)
    mu = MU[m].astype(np.float32)
    feasible_set = CorrelationSet(DataMatrix(DenseMatrix(set_case.A.astype(np.float32))), mu, samples)
    x, previous = (feasible_set.argmax_linear(rng.standard_normal((N, m)).astype(np.float32)) for _ in range(2))
    for point in (x, feasible_set.extrapolate(x, previous, 0.4)):
        assert (point.X.dtype, point.C.dtype) == (np.float32, np.float32)
        assert_member(set_case, samples, mu, point, tol=1e-5)


def test_the_columns_of_a_point_are_points():
    set_case = data()
    y = CorrelationSet(set_case.operator, MU[M]).argmax_linear(np.ones((N, M)) * [1, 2, 3] + np.eye(N, M))
    np.testing.assert_array_equal(y.select_unit(1).X, y.X[:, 1:2])
    np.testing.assert_array_equal(y.select_unit(1).C, y.C[:, 1:2])
    for j in range(M):
        moved = y.replace_unit(j, y.select_unit(0))
        np.testing.assert_array_equal(moved.X, y.X[:, np.where(np.arange(M) == j, 0, np.arange(M))])
        np.testing.assert_array_equal(moved.C, y.C[:, np.where(np.arange(M) == j, 0, np.arange(M))])


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e3])
def test_membership_of_a_sphere_is_relative_to_its_radius(radius):
    y = np.full(4, radius / 2)
    assert Sphere(radius).contains(y * (1 + 1e-10))
    assert not Sphere(radius).contains(y * (1 + 1e-8))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block_columns", [2, 256])
def test_the_largest_correlations_on_a_cube_are_weighted_sums_of_sizes(weighted, block_columns):
    X, A = dense()
    weight = np.random.default_rng(0).uniform(0.5, 2, P) if weighted else None
    operator, _ = as_operator(X, sample_weight=weight, reduce_tall=False)
    r = np.sqrt(np.ones(P) if weight is None else weight)
    A = r[:, None] * (X - np.average(X, axis=0, weights=weight))
    largest = Cube().compute_max_correlations(operator, block_columns)
    np.testing.assert_allclose(largest, r @ np.abs(A))
    signs = np.random.default_rng(1).choice([-1, 1], (P, 50))
    assert np.all(np.abs(A.T @ (r[:, None] * signs)).max(axis=1) <= largest * (1 + 1e-12))


@pytest.mark.parametrize("kind", ["centred", "covariance"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_no_direction_is_left_once_the_columns_are_spanned(kind, scale):
    A = scale * np.random.default_rng(2).standard_normal((P, 2)) @ np.random.default_rng(3).standard_normal((2, N))
    operator = DataMatrix(DenseMatrix(A)) if kind == "centred" else Covariance(A.T @ A)
    X, C = find_residual_directions(operator, 3)
    gram = operator.inner(X, X, C)
    np.testing.assert_allclose(gram, np.diag([1.0, 1.0, 0.0]), atol=1e-7)
    assert not X[:, 2].any()
    assert not C[:, 2].any()


def test_the_tolerance_of_an_objective_is_the_square_of_that_of_a_correlation():
    operator = data().operator
    for mu in (np.ones(1), np.array([4.0]), np.array([0.5, 3.0])):
        tolerance = CorrelationSet(operator, mu).objective_tolerance
        assert tolerance == pytest.approx((operator.norm_tolerance * mu.max()) ** 2, rel=1e-9, abs=0)
