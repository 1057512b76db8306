"""Rounding errors are never taken for a start, a step or a direction to remove."""

from itertools import combinations

import numpy as np
import pytest
from tests.seeds import seeds

from gpower import GPower, GPowerCV, certify, sparsity_path

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # components without variance raise this warning
]

TABLES = {
    "low rank": lambda rng: rng.standard_normal((12, 3)) @ rng.standard_normal((3, 8)),
    "duplicated": lambda rng: np.repeat(rng.standard_normal((12, 4)), 2, axis=1),
    "nearly duplicated": lambda rng: (
        np.repeat(rng.standard_normal((12, 4)), 2, axis=1) + 1e-9 * rng.standard_normal((12, 8))
    ),
    "far from zero": lambda rng: 1e6 + rng.standard_normal((12, 8)),
    "Gaussian": lambda rng: rng.standard_normal((12, 8)),
    "few samples": lambda rng: rng.standard_normal((5, 8)),
}
SPARSITIES = [{"cardinality": 2}, {"gamma": 0.1}, {"gamma": 0.1, "penalty": "l1"}, {"cardinality": 2, "positive": True}]
METHODS = [{"deflation": "schur"}, {"deflation": "projection"}, {"deflation": "orthogonalized"}, {"method": "block"}]


@pytest.mark.parametrize("m", [pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("seed", seeds(range(3), fast=1))
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("sparsity", SPARSITIES, ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_every_method_gives_finite_results_on_every_kind_of_data(name, sparsity, method, seed, m):
    X = TABLES[name](np.random.default_rng(seed))
    A = X - X.mean(axis=0)
    of_data = GPower(m, **sparsity, **method).fit(X)
    of_covariance = GPower(m, covariance="precomputed", **sparsity, **method).fit(A.T @ A)
    for model in (of_data, of_covariance):
        assert np.all(np.isfinite(model.components_))
        assert np.all(model.explained_variance_ratio_.sum() <= 1 + 1e-9)


def residual(A, earlier):
    """Return the matrix less everything correlated with the scores of earlier components, by an explicit basis."""
    scores = A @ np.transpose(earlier)
    U, s, _ = np.linalg.svd(scores, full_matrices=False)
    U = U[:, s > 1e-9 * s[0]]
    return A - U @ (U.T @ A)


@pytest.mark.parametrize("seed", seeds(range(25), fast=6))
def test_a_certificate_after_a_repeated_component_is_not_below_the_truth(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 4))
    if seed % 3 == 0:
        X[:, 3] = X[:, 0]
    A = X - X.mean(axis=0)
    first = np.array([0.6, 0.8, 0, 0])
    Z = np.array([first, first, [0, 0, 1.0, 0]])
    proofs = certify(Z, X, deflation="schur")
    for proof, earlier in ((proofs[1], [first]), (proofs[2], [first, first])):
        left = residual(A, earlier)
        k = proof.cardinality
        truth = max(np.linalg.norm(left[:, list(P)], 2) ** 2 for P in combinations(range(4), k))
        assert proof.upper_bound >= truth * (1 - 1e-9)


@pytest.mark.parametrize("seed", seeds(range(40), fast=4))
def test_a_path_of_many_components_does_not_start_from_rounding_errors(seed):
    shape = (12, 6) if seed % 2 else (30, 10)
    path = sparsity_path(np.random.default_rng(seed).standard_normal(shape), n_components=4, deflation="schur")
    assert np.all(np.isfinite(path.explained_variance_ratio))


@pytest.mark.parametrize("seed", range(6))
def test_cross_validation_does_not_start_from_rounding_errors(seed):
    X = np.random.default_rng(seed).standard_normal((12, 5))
    model = GPowerCV(4, search="joint", deflation="schur", cardinalities=[1, 2, 3, 5], cv=3).fit(X)
    assert np.all(np.isfinite(model.cv_results_["mean_test_score"]))


@pytest.mark.parametrize("seed", seeds(range(40), fast=4))
def test_a_block_with_more_units_than_the_rank(seed):
    rng = np.random.default_rng(seed)
    model = GPower(5, method="block", cardinality=2).fit(rng.standard_normal((5, 5)))
    assert np.all(np.isfinite(model.components_))
    B = rng.standard_normal((3, 7))
    nearly = GPower(5, method="block", cardinality=2, covariance="precomputed").fit(B.T @ B + 1e-13 * np.eye(7))
    assert np.all(np.isfinite(nearly.components_))


@pytest.mark.parametrize("deflation", ["schur", "projection", "orthogonalized"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("offset", [0, 1e5, 1e6])
def test_a_calibrated_penalty_on_duplicated_columns_reaches_its_cardinality(offset, seed, deflation):
    """γ is raised until the objective is only rounding, because no duplicated column can be left out alone."""
    X = np.random.default_rng(seed).standard_normal((11, 2))[:, [0, 1] * 4] + offset
    model = GPower(1, cardinality=2, penalty="l1", deflation=deflation).fit(X)
    assert model.cardinality_.tolist() == [2]
