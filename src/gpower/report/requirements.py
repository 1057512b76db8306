"""What a page is made with and not everybody has."""

from __future__ import annotations

from types import ModuleType

from gpower._utils.optional import import_optional

REPORT_PACKAGES = ("bokeh", "jinja2", "matplotlib.pyplot", "openpyxl")


def import_for_report(module: str) -> ModuleType:
    """A module of one of them, loaded with the first page, or what to install."""
    return import_optional(module, "report", "A report needs", "bokeh, jinja2, matplotlib and openpyxl")


def check_report_packages() -> None:
    """Refuse, before the work, where one of them is missing."""
    for package in REPORT_PACKAGES:
        import_for_report(package)
