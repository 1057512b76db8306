"""Shared settings of the test suite."""

import os
import signal
import sys

import pytest
from hypothesis import settings

# The same examples in every run, however busy the machine; HYPOTHESIS_SEARCH=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, max_examples=500, deadline=None)
settings.load_profile("search" if os.environ.get("HYPOTHESIS_SEARCH") else "repeatable")

# A shell that starts the suite in the background has it ignore Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    """A test that counts figures must not find those of another one."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
