"""``gpower`` and ``python -m gpower``."""

import io
import sys

from gpower.extras import extra

__all__ = ["main"]


def main() -> None:
    """The command line; it says what to install where the ``cli`` extra is missing.

    Examples
    --------
    >>> from gpower.__main__ import main
    >>> main()  # doctest: +SKIP
    """
    try:
        for package in ("typer", "rich"):
            extra(package, "cli", "the command line needs", "typer and rich")
    except ImportError as error:
        sys.exit(f"error: {error}".rstrip("."))
    from gpower.cli import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding lacks is no reason to lose the answer.
            stream.reconfigure(errors="replace")
    app(prog_name="gpower")


if __name__ == "__main__":
    main()
