"""What a page is made with and not everybody has."""

from __future__ import annotations

from types import ModuleType

from gpower._utils.optional import extra

PACKAGES = ("bokeh", "jinja2", "matplotlib.pyplot", "openpyxl")


def needed(module: str) -> ModuleType:
    """A module of one of them, loaded with the first page, or what to install."""
    return extra(module, "report", "A report needs", "bokeh, jinja2, matplotlib and openpyxl")


def check_needs() -> None:
    """Refuse, before the work, where one of them is missing."""
    for package in PACKAGES:
        needed(package)
