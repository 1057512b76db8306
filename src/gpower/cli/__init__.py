"""The command line: one file per command. Needs typer and rich, the ``cli`` extra."""

from gpower.cli import compare, demo, doctor, enrich, fit, path  # noqa: F401  (a command registers itself)
from gpower.cli.app import app

__all__ = ["app"]
