"""A warm-started fit begins at the components of the last fit."""

import numpy as np
import pytest
from tests.enumeration import make_table

from gpower import GPower, Solver


@pytest.mark.parametrize("options", [{"cardinality": 4}, {"gamma": 0.02}, {"cardinality": 4, "method": "block"}])
def test_a_slightly_changed_table_keeps_the_components(options):
    X = make_table(1)
    model = GPower(2, warm_start=True, **options).fit(X)
    before = model.components_.copy()
    changed = X + 1e-3 * np.random.default_rng(0).standard_normal(X.shape)
    model.fit(changed)
    assert np.array_equal(model.components_ != 0, before != 0)
    np.testing.assert_allclose(model.components_, before, atol=0.05)
    cold = GPower(2, **options).fit(changed)
    np.testing.assert_allclose(model.components_, cold.components_, atol=1e-3)


def test_a_fit_starts_at_its_own_components():
    """An ascent that starts at its own component stays there; a cold start ends elsewhere."""
    X, seen = make_table(2), []
    model = GPower(1, gamma=0.05, warm_start=True).fit(X)
    model.set_params(solver__callback=lambda state: seen.append(state.start_value)).fit(X)
    assert seen[0] == pytest.approx(model.objective_[0], rel=1e-5)
    cold = []
    solver = Solver(init="largest_norm", callback=lambda state: cold.append(state.start_value))
    GPower(1, gamma=0.05, solver=solver).fit(X)
    assert cold[0] < 0.99 * model.objective_[0]


def test_a_large_table_is_read_less_often():
    X = np.random.default_rng(0).standard_normal((150, 3000))
    X[:, :30] += 2 * np.random.default_rng(1).standard_normal((150, 1))
    model = GPower(2, cardinality=20, warm_start=True).fit(X)
    first, reads, value = model.components_.copy(), model.n_passes_, model.objective_[0]
    model.fit(X)
    assert model.n_passes_ < reads
    assert model.objective_[0] >= value * (1 - 1e-9)
    np.testing.assert_allclose(model.components_[0], first[0], atol=1e-6)


def test_another_number_of_components_may_be_fitted():
    X = make_table(3)
    model = GPower(2, cardinality=3, warm_start=True).fit(X)
    first = model.components_.copy()
    model.set_params(n_components=3).fit(X)
    cold = GPower(3, cardinality=3).fit(X)
    np.testing.assert_allclose(model.components_, cold.components_, atol=1e-6)
    assert all(np.abs(model.components_ @ z).max() > 1 - 1e-6 for z in first)
    block = GPower(2, cardinality=3, method="block", warm_start=True).fit(X)
    assert block.set_params(n_components=3).fit(X).components_.shape == (3, 12)
    assert model.set_params(n_components=1).fit(X).components_.shape == (1, 12)


def test_a_table_of_other_variables_is_fitted_from_a_cold_start():
    model = GPower(1, cardinality=3, warm_start=True).fit(make_table(4))
    np.testing.assert_array_equal(
        model.fit(make_table(4, n=9)).components_, GPower(1, cardinality=3).fit(make_table(4, n=9)).components_
    )


def test_non_negative_disjoint_components_start_from_the_last_fit():
    X = np.abs(np.random.default_rng(0).standard_normal((40, 12)))
    model = GPower(2, cardinality=3, positive=True, constraint="disjoint", warm_start=True).fit(X)
    first = model.explained_variance_.sum()
    assert model.fit(X).explained_variance_.sum() >= first * (1 - 1e-9)
    assert model.overlap_[0, 1] == 0
