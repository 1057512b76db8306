"""The comparison of two fits."""

import numpy as np

ATTRIBUTES = ("components_", "explained_variance_", "explained_variance_ratio_", "objective_", "mean_", "scale_")


def assert_same_fit(found, expected, rtol=1e-8):
    """Assert that every fitted number agrees, relative to the largest of its kind."""
    for name in ATTRIBUTES:
        there, here = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(there, here, rtol=0, atol=rtol * max(1.0, np.max(np.abs(here))), err_msg=name)
