"""A small table that readers are tested with, and the check of what they return."""

import numpy as np

NUMBERS = np.array([[1.0, 2.5, -3.0], [4.0, 5.0, 6e-3]])
FEATURES = ("a", "b", "c")
SAMPLES = ("s1", "s2")


def assert_table(table, features=None, samples=None, numbers=NUMBERS):
    """Assert that a table has these numbers and names."""
    np.testing.assert_array_equal(table.X, numbers)
    assert (table.feature_names, table.sample_names) == (features, samples)
