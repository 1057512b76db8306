"""``gpower`` and ``python -m gpower``."""

import io
import os
import signal
import sys

from gpower._utils.optional import import_optional

__all__ = ["main"]

EXIT_CODE_INTERRUPTED = 130  # the exit code


def main() -> None:
    """The command line; it says what to install where the ``cli`` extra is missing.

    Examples
    --------
    >>> from gpower.__main__ import main
    >>> main()  # doctest: +SKIP
    """
    try:
        for package in ("typer", "rich"):
            import_optional(package, "cli", "the command line needs", "typer and rich")
    except ImportError as error:
        sys.exit(f"error: {error}".rstrip("."))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding lacks is no reason to lose the answer.
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is asked to end keeps what there is, as for Ctrl-C
    try:
        from gpower.cli import app

        app(prog_name="gpower")
    except KeyboardInterrupt:  # before the command itself has begun
        sys.stderr.write("Interrupted.\n")
        _exit_interrupted()
    except SystemExit as end:
        if end.code == EXIT_CODE_INTERRUPTED:
            _exit_interrupted()
        raise


def _exit_interrupted() -> None:
    """End at once: a thread may still be waiting for a slow disk."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE_INTERRUPTED)


if __name__ == "__main__":
    main()
