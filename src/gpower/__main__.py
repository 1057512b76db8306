"""Entry point of ``gpower`` and ``python -m gpower``."""

import io
import os
import signal
import sys

from gpower._utils.optional import import_optional

__all__ = ["main"]

EXIT_CODE_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run the command line, or say what to install if the ``cli`` extra is missing.

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
            # Replace characters that the encoding of the terminal lacks, rather than fail.
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treat SIGTERM like Ctrl-C
    try:
        from gpower.cli import app

        app(prog_name="gpower")
    except KeyboardInterrupt:  # before the command has started
        sys.stderr.write("Interrupted.\n")
        _exit_interrupted()
    except SystemExit as end:
        if end.code == EXIT_CODE_INTERRUPTED:
            _exit_interrupted()
        raise


def _exit_interrupted() -> None:
    """Exit without waiting for threads, one of which may still be reading a slow disk."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE_INTERRUPTED)


if __name__ == "__main__":
    main()
