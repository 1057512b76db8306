"""Seeds of repeated tests, of which ``make test`` runs the first few."""

import pytest


def seeds(values, fast):
    """Return the values to parametrize a test with; those after the first few are slow."""
    return [pytest.param(value, marks=pytest.mark.slow if i >= fast else ()) for i, value in enumerate(values)]
