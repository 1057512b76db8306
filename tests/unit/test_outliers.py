"""Distances of samples from a model: by hand, on normal data, and as sums of contributions."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted_data import make_planted_components

from gpower import GPower

HAND = np.array([[2.0, 1.0, 0.5], [-2.0, -1.0, 0.5], [1.0, 2.0, -0.5], [-1.0, -2.0, -0.5]])


@pytest.fixture
def by_hand():
    """Return a model with loadings e₁ and e₂: scores are the first two variables, the residual is the third."""
    return GPower(2, cardinality=1).fit(HAND)


def test_a_small_example_with_its_contributions_by_hand(by_hand):
    # S = [[10, 8], [8, 10]]/3 with inverse [[10, -8], [-8, 10]]·3/36: (2, 1) gives (40 + 10 - 32)/12 = 1.5.
    np.testing.assert_allclose(by_hand.hotelling_t2(HAND), [1.5, 1.5, 1.5, 1.5])
    np.testing.assert_allclose(by_hand.hotelling_t2([[1.0, 1.0, 5.0]]), [(10 + 10 - 16) / 12])
    np.testing.assert_allclose(by_hand.squared_residual(HAND), [0.25, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(by_hand.squared_residual([[7.0, 7.0, 5.0]]), [25])
    # (2, 1)·S⁻¹ = (1, -0.5): the first variable adds 2, the second takes 0.5 away.
    np.testing.assert_allclose(by_hand.contributions(HAND)[0], [2.0, -0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(by_hand.contributions(HAND, to="residual")[0], [0, 0, 0.25], atol=1e-12)


def test_residuals_are_what_the_inverse_transform_leaves():
    X = make_planted_components(600, 20, (5, 4), (4.0, 3.0), random_state=0).X  # more samples than one block
    model = GPower(2, cardinality=6).fit(X)
    np.testing.assert_allclose(
        model.squared_residual(X), np.sum((X - model.inverse_transform(model.transform(X))) ** 2, axis=1)
    )
    np.testing.assert_allclose(model.squared_residual(sp.csr_array(X)), model.squared_residual(X))


@pytest.mark.slow
@pytest.mark.parametrize(("n_samples", "level", "scale"), [(60, 0.95, False), (400, 0.8, False), (60, 0.95, True)])
def test_limits_cover_their_share_of_new_normal_samples(n_samples, level, scale):
    inside = []
    for seed in range(20):
        rng = np.random.RandomState(seed)
        data = make_planted_components(n_samples, 80, (12, 8), (6.0, 5.0), random_state=rng)
        new = rng.standard_normal((1000, 2)) * [6.0, 5.0] @ data.components + rng.standard_normal((1000, 80))
        model = GPower(2, cardinality=[12, 8], scale=scale).fit(data.X)
        inside.append(model.hotelling_t2(new) <= model.hotelling_t2_limit(level))
        inside.append(model.squared_residual(new) <= model.squared_residual_limit(data.X, level))
    for each in (inside[::2], inside[1::2]):
        assert np.mean(each) == pytest.approx(level, abs=0.015)


def test_a_sample_far_away_stands_out_and_its_variables_are_named():
    X = make_planted_components(100, 40, (8, 6), (5.0, 4.0), random_state=1).X
    model = GPower(2, cardinality=[8, 6]).fit(X)
    used = int(np.argmax(np.abs(model.components_[0])))
    unused = int(np.flatnonzero(~model.components_.any(axis=0))[0])
    odd = np.tile(model.mean_, (2, 1))
    odd[0, used] += 100
    odd[1, unused] += 100
    assert model.hotelling_t2(odd)[0] > model.hotelling_t2_limit(0.999) > model.hotelling_t2(odd)[1]
    assert model.squared_residual(odd)[1] > model.squared_residual_limit(X, 0.999)
    assert np.argmax(model.contributions(odd)[0]) == used
    assert np.argmax(model.contributions(odd, "residual")[1]) == unused


def test_an_empty_component_adds_nothing():
    X = np.outer([1.0, -1.0, 2.0, -2.0], [1.0, 1.0])
    with pytest.warns(UserWarning, match="all zero"):
        model = GPower(2, cardinality=2).fit(X)
    np.testing.assert_allclose(model.hotelling_t2(X), [0.3, 0.3, 1.2, 1.2])
    assert model.squared_residual_limit(X) == pytest.approx(0, abs=1e-12)


def test_a_covariance_without_a_number_of_samples_uses_chi_squared_limits():
    model = GPower(1, cardinality=1, covariance="precomputed").fit(np.diag([4.0, 1.0]))
    assert model.hotelling_t2_limit(0.95) == pytest.approx(3.841, abs=1e-3)  # χ² of one degree


def test_levels_out_of_range_and_unknown_distances_are_refused(by_hand):
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level="):
            by_hand.hotelling_t2_limit(level)
        with pytest.raises(ValueError, match="level="):
            by_hand.squared_residual_limit(HAND, level)
    with pytest.raises(ValueError, match="to='spe' is not known; use one of 't2', 'residual'"):
        by_hand.contributions(HAND, to="spe")
