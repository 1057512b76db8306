"""Degenerate data have a documented result (docs/mathematics.md) without NaN."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from gpower import GPower, GPowerWarning, Solver
from gpower.operators import as_operator
from gpower.penalties.elementary import L0, L1
from gpower.problem.formulation import Problem
from gpower.solvers.working_set import AscentSettings, ascend

KINDS = [
    {"gamma": 0.1},
    {"gamma": 0.3, "penalty": "l1"},
    {"cardinality": 1},
    {"cardinality": 2},
    {"cardinality": 2, "penalty": "l1"},
    {"cardinality": 2, "positive": True},
    {"l1_bound": 2.0},
    {"gamma": 0.2, "variance": "l1"},
    {"cardinality": 2, "variance": "l1", "positive": True},
    {"gamma": 0.1, "method": "block"},
    {"gamma": 0.3, "method": "block", "penalty": "l1", "mu": (1.0, 0.5)},
    {"cardinality": 2, "method": "block"},
    {"cardinality": 2, "method": "block", "penalty": "l1"},
    {"gamma": 0.1, "method": "block", "solver": Solver(regularization=1.0)},
    {"gamma": 0.0},
    {"gamma": 0.0, "method": "block", "mu": (2.0, 1.0)},
    {"cardinality": 2, "deflation": "schur"},
    {"cardinality": 2, "deflation": "orthogonalized", "scale": True},
    {"cardinality": 2, "solver": Solver("working_set")},
    {"gamma": 0.1, "solver": Solver("working_set"), "method": "block"},
]


def assert_sound(model, X):
    """Assert that all numbers are finite (γ may be NaN if undefined) and every row is a unit vector or zero."""
    for attribute in ("components_", "explained_variance_", "objective_", "stationarity_gap_"):
        assert np.all(np.isfinite(getattr(model, attribute))), attribute
    norms = np.linalg.norm(model.components_, axis=1)
    assert np.all((np.abs(norms - 1) < 1e-6) | (norms == 0))
    assert np.all(model.explained_variance_ >= 0)
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-9
    assert np.all(np.isfinite(model.transform(X)))


ORTHOGONAL = np.linalg.qr(np.random.default_rng(31).standard_normal((8, 6)))[0]
SHAPES = st.one_of(st.tuples(st.integers(2, 7), st.integers(2, 7)), st.just((40, 6)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(
    X=hnp.arrays(np.float64, SHAPES, elements=st.integers(-3, 3).map(float)),
    units=st.sampled_from([np.ones(7), 10.0 ** np.arange(-6, 8, 2)]),
    offset=st.sampled_from([0.0, 1e6]),
    container=st.sampled_from([np.asarray, sp.csr_array, np.cov]),
)
@example(X=np.outer(np.sin(np.arange(40)), np.cos(np.arange(6))), units=np.ones(7), offset=0.0, container=np.asarray)
@example(X=ORTHOGONAL, units=np.ones(7), offset=0.0, container=np.cov)
@example(X=np.zeros((8, 6)), units=np.ones(7), offset=0.0, container=np.cov)
def test_no_nan_ever_leaves(kind, X, units, offset, container):
    """Small whole numbers repeat columns, are of low rank, and leave columns constant."""
    X = X * units[: X.shape[1]] + offset
    if container is not np.cov:
        assert_sound(GPower(2, **kind).fit(container(X)), X)
    elif "variance" not in kind:
        assert_sound(GPower(2, **kind | {"scale": False, "covariance": "precomputed"}).fit(np.cov(X.T)), X)


@pytest.mark.parametrize("penalty", [L1, L0])
def test_gamma_at_its_largest_value_gives_zero_loadings(penalty):
    A = np.random.default_rng(0).standard_normal((10, 20))
    operator, _ = as_operator(A, center=False)
    largest = operator.column_norms.max()
    gamma = np.array([largest if penalty is L1 else largest**2])
    problem = Problem(operator, penalty(gamma * (1 + 1e-12)))
    start = problem.feasible_set.make_point(A[:, :1])
    assert not problem.compute_loadings(ascend(problem, start, AscentSettings()).point).any()
    assert not problem.penalty.screen(operator.column_norms, problem.mu).any()


def test_components_beyond_the_rank_are_zero_with_a_warning():
    X = np.outer(np.arange(6.0), [1, 2, 3, 0.5])
    for options in ({"cardinality": 4}, {"gamma": 0.05, "method": "block"}):
        with pytest.warns(ConvergenceWarning, match="no active variable"):
            model = GPower(2, **options).fit(X)
        assert sorted(model.cardinality_ > 0) == [False, True]


@pytest.mark.parametrize(
    "options", [{}, {"solver": Solver(local_search=False)}, {"mu": [4, 3, 2, 1]}, {"penalty": "l1"}]
)
@pytest.mark.parametrize("wide", [True, False])
def test_units_of_a_block_beyond_the_rank_are_zero_with_a_warning(options, wide):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((4, 13)) if wide else rng.standard_normal((30, 3)) @ rng.standard_normal((3, 13))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GPower(4, cardinality=3, method="block", **options).fit(X)
    assert np.count_nonzero(model.cardinality_) <= 3
    assert sum("no active variable, all zero" in str(each.message) for each in caught) == 1


@pytest.mark.parametrize("seed", [6, 7, 18])
def test_rounding_does_not_choose_the_variables_of_a_block_beyond_the_rank(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 13))
    tables = X, *(X * (1 + 1e-13 * rng.uniform(-1, 1, X.shape)) for _ in range(2))
    with pytest.warns(ConvergenceWarning, match="no active variable"):
        used = [GPower(4, cardinality=3, method="block").fit(table).components_ != 0 for table in tables]
    assert np.all(used == used[0])


@pytest.mark.filterwarnings("ignore:.*fewer variables than requested:gpower.GPowerWarning")
@pytest.mark.parametrize("seed", [0, 4, 6])
def test_a_block_leaves_out_loadings_that_are_rounding(seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((30, 4)), 2, axis=1) * np.tile([1, -1], 4)  # of rank 4, for as many units
    Z = GPower(4, cardinality=3, method="block").fit(X).components_
    assert np.all(np.abs(Z[Z != 0]) > 1e-9)


def test_constant_columns_are_named_and_get_no_loading():
    X = np.random.default_rng(0).standard_normal((10, 4))
    X[:, 2] = 0.1 + 0.2  # not representable, so that rounding could pass for variance
    model = GPower(1, cardinality=3, scale=True).fit(X)
    assert model.notes_.tolist() == ["1 column(s) do not vary and get no loading: 2."]
    assert model.components_[0, 2] == 0
    assert model.scale_[2] == 1


@pytest.mark.parametrize(
    ("factor", "dtype", "word"), [(1e120, float, "large"), (1e-150, float, "small"), (1e12, np.float32, "float64")]
)
def test_values_beyond_the_range_of_their_type_are_refused(factor, dtype, word):
    X = (np.random.default_rng(0).standard_normal((8, 6)) * factor).astype(dtype)
    with pytest.raises(ValueError, match=f"has the norm .*{word}"):
        GPower(1).fit(X)


def test_one_sample_is_an_error_when_centring_and_fine_otherwise_as_is_one_variable():
    X = np.array([[1.0, -3.0, 2.0]])
    with pytest.raises(ValueError, match="n_samples=1: a single sample has no variance"):
        GPower(1).fit(X)
    model = GPower(1, cardinality=1, center=False).fit(X)
    np.testing.assert_allclose(model.components_, [[0, 1, 0]])
    np.testing.assert_allclose(model.explained_variance_, [9.0])
    assert GPower(1, cardinality=1).fit(np.arange(5.0)[:, None]).explained_variance_[0] == pytest.approx(2.5)


def test_equal_weights_without_penalty_warn_of_the_rotation():
    X = np.random.default_rng(0).standard_normal((20, 5))
    with pytest.warns(UserWarning, match="up to a rotation"):
        GPower(2, gamma=0.0, method="block").fit(X)


@pytest.mark.filterwarnings("ignore")
def test_single_precision_without_centring_and_more_components_than_samples():
    X = np.array(
        [
            [999.68, -0.747457, 9.645575, 1002.0588, 1001.7933, 999.9901],
            [1000.1642, 0.026211, 8.653247, 1000.5455, 1000.287, 999.8074],
            [1000.3097, 0.162652, 9.60077, 997.9454, 998.2429, 1000.5667],
        ],
        np.float32,
    )
    model = GPower(4, cardinality=(1, 6, 6, 1), center=False).fit(X)
    assert np.all(np.isfinite(model.components_))


@pytest.mark.parametrize("more", [{"positive": True}, {"groups": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]}])
def test_no_gamma_separates_equal_columns(more):
    X = np.random.default_rng(0).standard_normal((30, 6))
    twins = np.repeat(X, 2, axis=1)[:, [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]]  # groups in pairs of equal ones
    with pytest.warns(GPowerWarning, match="No penalty was found with exactly the wanted number"):
        model = GPower(1, penalty="l1", cardinality=3, n_init=1, **more).fit(twins)
    assert model.cardinality_.tolist() == [3 if "positive" in more else 6]
    assert model.components_.min() >= 0 or "groups" in more


def test_a_warning_names_the_first_of_many_components():
    X = np.random.default_rng(0).standard_normal((12, 30))
    with pytest.warns(UserWarning, match=r"^Components 12, 13, 14, 15, 16, 17, 18, 19, … \(14 of 25\): "):
        GPower(25, cardinality=2).fit(X)
