"""The command line. Needs typer and rich, the ``cli`` extra."""

from gpower.cli import commands  # noqa: F401  (importing a command registers it)
from gpower.cli.app import app

__all__ = ["app"]
