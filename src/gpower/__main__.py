"""Entry point of ``gpower`` and ``python -m gpower``."""

import os
import signal
import sys

TYPE_CHECKING = False  # nothing is imported before `main` that is not needed to answer a signal
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["main"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EXIT_CODE_INTERRUPTED = 128 + signal.SIGINT  # of a command, whatever the signal was
_received_signals: list[int] = []


def main() -> None:
    """Run the command line, or say what to install if the ``cli`` extra is missing.

    Examples
    --------
    >>> from gpower.__main__ import main
    >>> main()  # doctest: +SKIP
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle_signal)
    _prepare_streams()
    from gpower._utils.optional import import_optional

    try:
        for package in ("typer", "rich"):
            import_optional(package, "cli", "the command line needs", "typer and rich")
    except ImportError as error:
        sys.exit(f"error: {error}".rstrip("."))
    try:
        from gpower.cli import app

        app(prog_name="gpower")
    except KeyboardInterrupt:  # before the command has started
        _exit_interrupted("Interrupted.\n")
    except SystemExit as end:
        if end.code == _EXIT_CODE_INTERRUPTED:
            _exit_interrupted()
        raise


def _prepare_streams() -> None:
    """Open a closed stdout or stderr to nowhere; replace characters that an encoding lacks, rather than fail."""
    import io

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  (open until the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _handle_signal(number: int, frame: "FrameType | None") -> None:
    """Raise KeyboardInterrupt inside a command; exit at once before it, and during imports, which may lose it."""
    _received_signals.append(number)
    is_in_command = is_importing = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        is_in_command |= module.startswith("gpower.cli.commands")
        is_importing |= module.startswith("importlib._bootstrap")
        frame = frame.f_back
    if is_in_command and not is_importing:
        raise KeyboardInterrupt
    _exit_interrupted("Interrupted.\n")


def _exit_interrupted(message: str = "") -> None:
    """Exit without waiting for threads, one of which may still be reading a slow disk."""
    from contextlib import suppress

    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, RuntimeError):  # a closed pipe, or a stream that the signal interrupted
        sys.stderr.write(message)
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(128 + (_received_signals[0] if _received_signals else signal.SIGINT))


if __name__ == "__main__":
    main()
