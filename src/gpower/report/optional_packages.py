"""Optional packages that a report needs."""

from __future__ import annotations

from types import ModuleType

from gpower._utils.optional import import_optional

REPORT_PACKAGES = ("bokeh", "jinja2", "matplotlib.pyplot")


def import_for_report(module: str) -> ModuleType:
    """Import a module of a package of the ``report`` extra; raise with what to install if it is missing."""
    return import_optional(module, "report", "A report needs", "bokeh, jinja2 and matplotlib")


def check_report_packages() -> None:
    """Raise if a package of the ``report`` extra is missing."""
    for package in REPORT_PACKAGES:
        import_for_report(package)
