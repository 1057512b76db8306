"""The command line: one file per command. Needs typer and rich, the ``cli`` extra."""

from gpower.cli import (  # noqa: F401  (a command registers itself)
    compare,
    components,
    demo,
    doctor,
    enrich,
    fit,
    inspect,
    path,
    plot,
    report,
    transform,
)
from gpower.cli.app import app

__all__ = ["app"]
