"""The standard test case: the proven optimum of every cardinality (full enumeration)."""

import numpy as np
import pytest
from tests.enumeration import PITPROPS_OPTIMA

from gpower import GPower
from gpower.datasets import load_pitprops


@pytest.mark.parametrize(("k", "optimum"), list(enumerate(PITPROPS_OPTIMA, 1)))
@pytest.mark.parametrize("options", [{"n_init": 13}, {}], ids=["13 starts", "defaults"])
def test_the_proven_optimum_is_reached(k, optimum, options):
    model = GPower(1, cardinality=k, covariance="precomputed", **options).fit(load_pitprops().correlation)
    np.testing.assert_allclose(model.explained_variance_, optimum, atol=1e-6)
    assert model.cardinality_.tolist() == [k]


def test_six_components_of_the_literatures_cardinalities():
    """Each step optimal, by projection: 75.64 % of adjusted variance, a little under SPCA's joint 75.77 %."""
    options = {"cardinality": (7, 4, 4, 1, 1, 1), "covariance": "precomputed"}
    model = GPower(6, deflation="projection", **options).fit(load_pitprops().correlation)
    assert 100 * model.explained_variance_ratio_.sum() == pytest.approx(75.64, abs=0.01)
    ratio = GPower(6, **options).fit(load_pitprops().correlation).explained_variance_ratio_.sum()
    assert 100 * ratio == pytest.approx(75.51, abs=0.01)
