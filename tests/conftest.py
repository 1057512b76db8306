"""Shared settings of the test suite."""

import os

from hypothesis import settings

# The same examples in every run, however busy the machine; HYPOTHESIS_SEARCH=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, max_examples=500, deadline=None)
settings.load_profile("search" if os.environ.get("HYPOTHESIS_SEARCH") else "repeatable")
