"""Settings and fixtures of the whole test suite."""

import os
import signal
import sys
from contextlib import suppress

import pytest

# The same examples in every run, without a time limit for one: few of them, or all with EXAMPLES=all (make test-slow).
# EXAMPLES=new searches for new ones. Without Hypothesis, the modules that need it cannot be imported; the others run.
with suppress(ImportError):
    from hypothesis import settings

    settings.register_profile("few", derandomize=True, max_examples=25, deadline=None)
    settings.register_profile("all", derandomize=True, max_examples=300, deadline=None)
    settings.register_profile("new", derandomize=False, max_examples=500, deadline=None)
    settings.load_profile(os.environ.get("EXAMPLES", "few"))

# Figures are drawn without a window.
os.environ.setdefault("MPLBACKEND", "Agg")

# A process started in the background ignores Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their argument: those of gzip contain the time, and parallel runs need the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    """Close all figures after a test, for tests that count open figures."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
