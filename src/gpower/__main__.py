"""``gpower`` and ``python -m gpower``."""

import io
import sys

__all__ = ["main"]


def main() -> None:
    """The command line; it says what to install where the ``cli`` extra is missing.

    Examples
    --------
    >>> from gpower.__main__ import main
    >>> main()  # doctest: +SKIP
    """
    try:
        from gpower.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.stderr.write('error: the command line needs typer and rich: pip install "gpower[cli]"\n')
        raise SystemExit(1) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding lacks is no reason to lose the answer.
            stream.reconfigure(errors="replace")
    app(prog_name="gpower")


if __name__ == "__main__":
    main()
