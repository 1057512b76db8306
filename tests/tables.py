"""A small table that readers are tested with, its text, and the check of what they return."""

import io

import numpy as np

NUMBERS = np.array([[1.0, 2.5, -3.0], [4.0, 5.0, 6e-3]])
FEATURES = ("a", "b", "c")
SAMPLES = ("s1", "s2")
CSV = "id,a,b,c\ns1,1,2.5,-3\ns2,4,5,6e-3\n"


def assert_table(table, features=None, samples=None, numbers=NUMBERS):
    """Assert that a table has these numbers and names."""
    np.testing.assert_array_equal(table.X, numbers)
    assert (table.feature_names, table.sample_names) == (features, samples)


def dump(save, *content, **options):
    """Return the bytes of the file that a function such as `numpy.save` writes."""
    stream = io.BytesIO()
    save(stream, *content, **options)
    return stream.getvalue()
