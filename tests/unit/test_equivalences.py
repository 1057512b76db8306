"""Different containers, methods and formulations give the same result."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from tests.planted_data import make_modules

from gpower import GPower, Solver
from gpower._utils.polar_factor_and_signs import orient
from gpower.operators import as_operator
from gpower.penalties.elementary import FixedSupport
from gpower.problem.formulation import Problem
from gpower.solvers.refit import AUTO_REFIT, RefitSpec, refit_loadings
from gpower.solvers.working_set import AscentSettings, ascend

# The data have one strong factor, which several components share, and a support that no γ gives: warnings about them
# are not tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*nearly all of the variance:UserWarning"),
    pytest.mark.filterwarnings("ignore:No penalty was found with exactly:UserWarning"),
]

FORMULATIONS = {
    "l0": {"gamma": 0.03},
    "l1": {"gamma": 0.2, "penalty": "l1"},
    "cardinality": {"cardinality": 6},
    "l1 cardinality": {"cardinality": 6, "penalty": "l1"},
    "block l0": {"gamma": 0.05, "method": "block", "mu": (1, 0.8, 0.6)},
    "block l1": {"gamma": 0.2, "penalty": "l1", "method": "block"},
    "block cardinality": {"cardinality": 5, "method": "block"},
    "positive": {"cardinality": 5, "positive": True},
    "l1 ball": {"l1_bound": 4.0},
    "schur": {"cardinality": 6, "deflation": "schur"},
    "orthogonalized": {"gamma": 0.05, "deflation": "orthogonalized"},
    "pca": {"gamma": 0.0},
}


def mixed(p, n, seed=1):
    """Return sparse noise with a common factor in three columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, n)) * (rng.random((p, n)) < 0.4)
    X[:, :3] += 2 * rng.standard_normal((p, 1))
    return X


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("shape", [(30, 60), (120, 25)], ids=["wide", "tall"])
def test_containers_agree(formulation, shape):
    X, kwargs = mixed(*shape), FORMULATIONS[formulation]
    expected = GPower(3, **kwargs).fit(X)
    # A block's total is flat to the square of the distance of its loadings from the best.
    atol = 1e-6 if formulation == "block cardinality" else 1e-8
    for table, covariance in ((sp.csr_array(X), None), (np.cov(X.T), "precomputed")):
        found = GPower(3, covariance=covariance, **kwargs).fit(table)
        np.testing.assert_allclose(found.components_, expected.components_, atol=atol)
        np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-8)
    single = GPower(3, **kwargs).fit(X.astype(np.float32))
    np.testing.assert_allclose(single.explained_variance_.sum(), expected.explained_variance_.sum(), rtol=1e-3)


@pytest.mark.parametrize("penalty", ["l1", "l0"])
@pytest.mark.parametrize("shape", [(30, 60), (60, 30), (200, 20)])
@pytest.mark.parametrize("options", [{}, {"method": "block", "mu": (3, 2, 1)}], ids=["deflation", "block"])
def test_no_penalty_is_pca(penalty, shape, options):
    X = np.random.default_rng(3).standard_normal(shape) * np.linspace(1, 3, shape[1])
    model = GPower(3, gamma=0.0, penalty=penalty, **options).fit(X)
    pca = PCA(3, svd_solver="full").fit(X)
    np.testing.assert_allclose(model.components_, orient(pca.components_.T).T, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-8)


@pytest.mark.parametrize("formulation", ["l0", "l1", "cardinality", "block l1", "schur"])
def test_permuting_rotating_and_scaling(formulation):
    X = mixed(30, 60)
    kwargs = FORMULATIONS[formulation]
    model = GPower(3, **kwargs).fit(X)
    order = np.random.default_rng(0).permutation(60)
    permuted = GPower(3, **kwargs).fit(X[:, order])
    np.testing.assert_allclose(permuted.components_, model.components_[:, order], atol=1e-7)
    Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((30, 30)))
    for same, center in ((Q @ (X - X.mean(axis=0)), False), (-1000 * X, True)):
        found = GPower(3, center=center, **kwargs).fit(same)
        np.testing.assert_allclose(found.components_, model.components_, atol=1e-7)


def test_non_negative_loadings_are_non_negative_and_best_possible():
    """Brute force over supports and the non-negative power cone on a small problem."""
    S = np.cov(np.random.default_rng(4).standard_normal((30, 6)).T)
    z = GPower(1, cardinality=3, positive=True, covariance="precomputed").fit(S).components_[0]
    assert np.all(z >= 0)
    assert np.count_nonzero(z) <= 3
    values = []
    for support in itertools.chain(*(itertools.combinations(range(6), size) for size in (1, 2, 3))):
        w, V = np.linalg.eigh(S[np.ix_(support, support)])
        values += w[np.all(V >= 0, axis=0) | np.all(V <= 0, axis=0)].tolist()
    np.testing.assert_allclose(z @ S @ z, max(values), rtol=1e-8)


def test_l1_variance_resists_an_outlying_sample():
    X = make_modules((60, 20), (slice(4), 3))
    X[0, 10:14] += 60.0
    robust = GPower(1, cardinality=4, variance="l1").fit(X)
    plain = GPower(1, cardinality=4).fit(X)
    assert np.flatnonzero(robust.components_[0]).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(plain.components_[0]).tolist() == [10, 11, 12, 13]


@pytest.mark.parametrize("kind", [{"gamma": 0.1}, {"gamma": 0.1, "penalty": "l1"}, {"cardinality": 5}, {"l1_bound": 4}])
def test_the_eight_formulations_each_reach_a_local_maximum_of_their_own_problem(kind):
    """For both variances: no small feasible change of z on its support raises the original objective."""
    X = mixed(40, 15)
    A = X - X.mean(axis=0)
    for variance, norm in (("l2", 2), ("l1", 1)):
        model = GPower(1, variance=variance, tol=1e-13, solver=Solver(refit=None), **kind).fit(X)
        z, gamma = model.components_[0], model.gamma_[0]
        assert np.abs(z).sum() ** 2 <= kind.get("l1_bound", np.inf) * (1 + 1e-9)

        def objective(z, norm=norm, gamma=gamma):
            value = np.linalg.norm(A @ z, norm)
            if kind.get("penalty") == "l1":
                return value - gamma * np.abs(z).sum()
            return value**2 - gamma * np.count_nonzero(z) if "gamma" in kind else value

        here = objective(z)
        rng = np.random.default_rng(0)
        for _ in range(200):
            nearby = z + 1e-3 * rng.standard_normal(15) * (z != 0)
            nearby /= np.linalg.norm(nearby)
            if "l1_bound" in kind and np.abs(nearby).sum() > np.abs(z).sum():
                continue
            assert objective(nearby) <= here * (1 + 1e-9)


@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_block_refits_and_the_default_takes_the_better(penalty):
    X = mixed(30, 60)
    norms, variance, auto = (
        GPower(3, gamma=0.1, penalty=penalty, method="block", solver=Solver(refit=how)).fit(X).explained_variance_.sum()
        for how in ("norms", "variance", "auto")
    )
    assert auto == pytest.approx(max(norms, variance))


def test_the_two_refits_are_stationary_for_their_objectives():
    X = mixed(30, 60)
    operator, _ = as_operator(X)
    rng = np.random.default_rng(0)
    pattern = rng.random((60, 3)) < 0.2
    base = Problem(operator, FixedSupport(pattern, 2), np.ones(3))
    end = ascend(base, base.feasible_set.make_point(rng.standard_normal((30, 3))), AscentSettings(tol=1e-14))
    A = X - X.mean(axis=0)
    sums = []
    for power in (1, 2):  # of the norms, and of the variances
        Z = refit_loadings(base, end.point, RefitSpec((power,)))
        sums.append(np.linalg.svd(A @ Z, compute_uv=False).sum())
        assert np.array_equal(Z != 0, pattern)
        U, _, Vt = np.linalg.svd((A @ Z) * np.linalg.norm(A @ Z, axis=0) ** (power - 1), full_matrices=False)
        step = np.where(pattern, A.T @ (U @ Vt), 0)
        if power == 1:  # the fixed point of Algorithm 6
            np.testing.assert_allclose(step / np.linalg.norm(step, axis=0), Z, atol=1e-6)
    assert sums[0] >= sums[1] - 1e-9


def test_loadings_that_are_not_refitted_are_cut_to_the_pattern():
    operator, _ = as_operator(mixed(30, 60))
    problem = Problem(operator, FixedSupport(np.ones((60, 2), bool), 2), np.ones(2))
    point = problem.feasible_set.make_point(np.random.default_rng(0).standard_normal((30, 2)))
    pattern = np.arange(120).reshape(60, 2) % 3 == 0
    expected = problem.compute_loadings(point) * pattern
    found = refit_loadings(problem, point, RefitSpec(()), pattern)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=0))
    restricted = Problem(operator, FixedSupport(pattern[:, :1], 2), np.ones(1))
    point = restricted.feasible_set.make_point(point.X[:, :1])
    np.testing.assert_array_equal(refit_loadings(restricted, point, RefitSpec((2,))) != 0, pattern[:, :1])
    for m, has_bound, powers in ((1, False, (2,)), (3, False, (1, 2)), (1, True, ()), (3, True, ())):
        formulation = SimpleNamespace(penalty=SimpleNamespace(has_loading_bound=has_bound), mu=np.ones(m))
        assert AUTO_REFIT.choose_powers(formulation) == powers
        assert RefitSpec((1, 2)).choose_powers(formulation) == (1, 2)
