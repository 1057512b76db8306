"""Settings and fixtures of the whole test suite."""

import os
import signal
import sys

import pytest
from hypothesis import settings

# The same examples in every run, without a time limit for one; HYPOTHESIS_SEARCH=1 searches for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, max_examples=500, deadline=None)
settings.load_profile("search" if os.environ.get("HYPOTHESIS_SEARCH") else "repeatable")

# A process started in the background ignores Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    """Close all figures after a test, for tests that count open figures."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
