"""Packages that some tests of a module need: the others run without them."""

import pytest


class OptionalPackage:
    """A package that is imported when an attribute is first read; the test that reads it is skipped without it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):  # pytest looks for such attributes in all that a module defines
            raise AttributeError(attribute)
        return getattr(pytest.importorskip(self._name, exc_type=ImportError), attribute)
