"""Ties are broken by a rule, never by rounding: the order in memory and of the columns has no effect."""

import numpy as np
import pytest
from tests.seeds import seeds

from gpower import GPower, GPowerCV

SHAPES = (30, 20), (60, 300)
BY_GAMMA = {"gamma": 0.2}, {"gamma": 0.3, "penalty": "l1"}


def correlated(seed, shape):
    """Return columns of which some are correlated; standardised, all have equal norms."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) @ (np.eye(shape[1]) + (rng.random((shape[1],) * 2) < 0.1))


def supports(components):
    return [np.flatnonzero(z).tolist() for z in components]


@pytest.mark.parametrize("seed", seeds(range(12), fast=4))
@pytest.mark.parametrize("options", [{"cardinality": 1}, {"cardinality": 3}, *BY_GAMMA])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_numbers_in_memory_changes_nothing(options, shape, seed):
    X = correlated(seed, shape)
    by_row, by_column = (GPower(2, scale=True, **options).fit(each) for each in (X, np.asfortranarray(X)))
    assert supports(by_row.components_) == supports(by_column.components_)


@pytest.mark.parametrize("options", BY_GAMMA)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_columns_changes_nothing(options, shape):
    for seed in range(6):
        X, order = correlated(seed, shape), np.random.default_rng(seed).permutation(shape[1])
        model, moved = (GPower(2, scale=True, **options).fit(each) for each in (X, X[:, order]))
        np.testing.assert_allclose(moved.components_, model.components_[:, order], atol=1e-6)


@pytest.mark.parametrize("options", BY_GAMMA)
def test_gamma_on_standardised_columns_finds_what_many_starts_find(options):
    for seed in range(12):
        X = correlated(seed, (40, 60))
        found, best = (GPower(1, scale=True, n_init=n, **options).fit(X).objective_[0] for n in ("auto", 60))
        assert found >= 0.999 * best


@pytest.mark.parametrize(("n_features", "cardinalities"), [(12, [1, 2, 3]), (2, [1])])
def test_units_and_origin_of_standardised_columns_do_not_change_cross_validation(n_features, cardinalities):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, n_features))
    X[:, :3] += rng.standard_normal((60, 1))
    models = [
        GPowerCV(1, cardinalities=cardinalities, scale=True).fit(factor * X + shift)
        for factor, shift in ((1, 0), (3.7, 11), (0.1, 0), (1, 5))
    ]
    for model in models[1:]:
        np.testing.assert_allclose(*(each.cv_results_["mean_test_score"] for each in (model, models[0])), atol=1e-9)


@pytest.mark.parametrize("seed", seeds(range(100), fast=7))
def test_the_order_of_samples_does_not_change_the_variable_of_a_share(seed):
    """All standardised columns explain as much; a single one reaches the share."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 12))
    share = 0.9 / np.linalg.eigvalsh(np.corrcoef(X.T))[-1]
    found, moved = (GPower(1, scale=True, cardinality=share).fit(each) for each in (X, X[rng.permutation(25)]))
    assert supports(found.components_) == supports(moved.components_)
