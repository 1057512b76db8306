"""Shared settings of the test suite."""

import os

from hypothesis import settings

# The same examples in every run; HYPOTHESIS_SEARCH=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False, max_examples=500)
settings.load_profile("search" if os.environ.get("HYPOTHESIS_SEARCH") else "repeatable")
