"""Shared behaviour of all commands: errors on one line, notes, progress, and the destination of results.

Results go to stdout; notes, errors and progress to stderr. Exit codes: 0 done, 1 bad data or parameters,
2 wrong usage, 130 interrupted, 143 terminated. Slow imports are inside the functions.
"""

import json
import logging
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer
from rich import progress as bars
from rich.console import Console
from rich.markup import escape

from gpower._utils.files import FileError, format_error_line, write_file_atomically, write_files_atomically
from gpower._utils.messages import use_param_formatter
from gpower._utils.text import make_printable
from gpower.cli.command_files import CommandFiles
from gpower.cli.shared_flags import format_flag
from gpower.report.terminal import print_line, to_json_types

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpower.plotting.style import Panels
    from gpower.solvers.ascent import AscentState

_USUAL_PASSES = 15  # over a matrix on disk in one fit: 8 to 16 in docs/scaling.md
_MIN_CONSOLE_WIDTH = 20  # characters per line of a terminal
_TASK_DESCRIPTION = "{task.description}"


@dataclass(frozen=True)
class OutputSink:
    """Destinations of a command's output: stdout, stderr and files.

    Stdout is printed when the command ends, after all files are written, so that a reader that closes the pipe loses
    none of them.
    """

    console: Console
    err_console: Console
    files: CommandFiles = field(default_factory=CommandFiles)
    as_json: bool = False  # stdout carries one line of JSON and nothing else
    pending_prints: list[Callable[[], None]] = field(default_factory=list)
    printed_notes: set[str] = field(default_factory=set)

    def print_result(self, get_content: Callable[[], object], print_to: Callable[[Console], None]) -> None:
        """Print the result to stdout, as JSON with `as_json`, else by calling `print_to` with the console."""
        if self.as_json:
            text = json.dumps(to_json_types(get_content()), allow_nan=False)
            self.pending_prints.append(lambda: typer.echo(text))
        else:
            self.pending_prints.append(lambda: print_to(self.console))

    def print_message(self, text: str) -> None:
        """Print one line of information, to stderr if stdout carries JSON."""
        console = self.err_console if self.as_json else self.console
        self.pending_prints.append(lambda: print_line(console, text))

    def print_notes(self, *notes: str) -> None:
        """Print notes to stderr at once, one line each; a note is printed once per command."""
        for note in notes:
            if note not in self.printed_notes:
                print_line(self.err_console, f"note: {make_printable(note)}")
            self.printed_notes.add(note)

    @contextmanager
    def print_warnings(self) -> Iterator[list[str]]:
        """Print the warnings raised inside as notes; yield the list that receives them when the block ends."""
        with collect_warnings() as notes:
            yield notes
        self.print_notes(*notes)

    def write_files(self, write_into: Callable[[Path], Iterable[str]], folder: Path | None = None) -> None:
        """Write files into `folder`, or the output folder if there is one, and print their names.

        `write_into` writes the files into the folder it is given and returns their names. The files of an earlier run
        are replaced all together, once every new file is complete.
        """
        folder = folder or self.files.folders.get("output")
        if folder is None:
            return
        with write_files_atomically(folder) as temporary_folder:
            names = list(write_into(temporary_folder))
            replaced = [name for name in names if (folder / name).exists()]
        those = "those" if replaced == names else ", ".join(replaced)
        ending = f", replacing {those} of an earlier run" if replaced else ""
        self.print_message(f"Wrote {', '.join(names)} into {folder}{ending}.")

    def write_file(self, write: Callable[[Path], object]) -> None:
        """Write the output file, if there is one, and print its name; `write` gets the path of a temporary file."""
        if (file := self.files.new_files.get("output")) is not None:
            replaced = ", replacing an earlier one" if file.exists() else ""
            with write_file_atomically(file) as temporary_path:
                write(temporary_path)
            self.print_message(f"Wrote {file}{replaced}.")

    def save_plot(self, draw: "Callable[[], Axes | Panels]", flag: str = "plot") -> None:
        """Draw a picture and save it into the file that the flag gives, if there is one."""
        if (file := self.files.pictures.get(flag)) is not None:
            from gpower.plotting import save_figure

            save_figure(draw(), file)
            self.print_message(f"Picture: {file}")

    def flush(self) -> None:
        """Print the results to stdout, unless its reader has ended; raise OSError if they cannot be written."""
        try:
            while self.pending_prints:
                self.pending_prints.pop(0)()
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_stream(sys.stdout)
        except OSError as error:
            _discard_stream(sys.stdout)
            raise OSError(error.errno, error.strerror, "standard output") from error

    @contextmanager
    def show_task(self, description: str) -> Iterator[Callable[[str], None] | None]:
        """Show what is being done on a terminal; yield a callback that names the part in work, or None without one."""
        description = escape(make_printable(description))  # it may contain a file name with markup
        columns = (bars.SpinnerColumn(), _TASK_DESCRIPTION, bars.TimeElapsedColumn())
        with self._show_columns(description, *columns) as update:
            yield None if update is None else lambda part: update(description=f"{description}, {escape(part)}")

    @contextmanager
    def show_progress(
        self, description: str, matrix_bytes: float = 0.0
    ) -> Iterator[Callable[["AscentState"], None] | None]:
        """Show what is being done on a terminal.

        Yield a callback for the estimator that shows its steps, its passes over the matrix and, with `matrix_bytes`,
        the gigabytes read and the expected time left; yield None without a terminal.
        """
        step_numbers = count(1)
        begin = time.monotonic()
        with self.show_task(description) as show_part:
            if show_part is None:
                yield None
            else:
                yield lambda state: show_part(
                    f"step {next(step_numbers)}, objective {state.value:.6g}"
                    f"{_format_passes(state, matrix_bytes, time.monotonic() - begin)}"
                )

    @contextmanager
    def show_progress_bar(self, description: str) -> Iterator[Callable[[int, int], None] | None]:
        """Show a bar and the time left on a terminal; yield ``update(done, total)``, or None without a terminal."""
        columns = (_TASK_DESCRIPTION, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
        with self._show_columns(description, *columns) as update:
            yield None if update is None else lambda done, total: update(completed=done, total=total)

    @contextmanager
    def _show_columns(
        self, description: str, *columns: str | bars.ProgressColumn
    ) -> Iterator[Callable[..., None] | None]:
        """Show columns of progress during the work; yield their update function, or None without a terminal."""
        if not self.err_console.is_terminal:
            yield None
            return
        with bars.Progress(*columns, console=self.err_console, transient=True) as progress:
            yield partial(progress.update, progress.add_task(description, total=None))  # the work says its total


@contextmanager
def command_context(files: CommandFiles, as_json: bool) -> Iterator[OutputSink]:
    """Yield the destinations of a command's output, and print the results when the block ends, also by an error.

    Turn an error into one line on stderr, which names a file, and an exit code; write its traceback into the file
    --debug. Messages of the library name parameters as flags. Output folders are created before the work, and removed
    if it fails and leaves them empty.
    """
    sink = OutputSink(_make_console(), _make_console(stderr=True), files, as_json)
    new_folders = [folder for folder in files.folders.values() if not folder.exists()]
    try:
        with use_param_formatter(format_flag), _log_to_stderr():
            files.prepare()
            yield sink
            sink.flush()
    except KeyboardInterrupt:
        print_line(sink.err_console, "Interrupted.")
        raise typer.Exit(130) from None
    except Exception as error:
        with suppress(OSError):
            sink.flush()
        if isinstance(error, typer.Exit | typer.Abort | typer.BadParameter):
            raise
        for folder in new_folders:
            with suppress(OSError):  # the folder is not empty, or was not created
                folder.rmdir()
        print_line(sink.err_console, f"error: {_format_error(error, files)}")
        if (file := files.new_files.get("debug")) is not None:
            with suppress(OSError):  # the error is that no file can be written there
                file.write_text(traceback.format_exc(), encoding="utf-8", errors="backslashreplace")
        raise typer.Exit(1) from None


class _PipeConsole(Console):
    """A console that prints nothing more once the reader of its pipe has ended."""

    def on_broken_pipe(self) -> None:
        """Go on with the work without printing."""
        _discard_stream(self.file)
        self.quiet = True


def _make_console(*, stderr: bool = False) -> Console:
    """Create a console of at least `_MIN_CONSOLE_WIDTH` columns: some terminals report a width of zero."""
    console = _PipeConsole(stderr=stderr)
    if console.width < _MIN_CONSOLE_WIDTH:
        console.width = _MIN_CONSOLE_WIDTH
    return console


def _discard_stream(stream: IO[str]) -> None:
    """Send what is in the buffer of a stream nowhere, so that the interpreter does not fail on it when it exits."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _format_error(error: Exception, files: CommandFiles) -> str:
    """Return the message of an error on one printable line; unless it is about parameters, it names a file."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    message = make_printable(_join_lines(str(error)) or f"{type(error).__name__}.")
    if not isinstance(error, ValueError | ImportError | OSError | MemoryError):
        cause = make_printable(format_error_line(error))
        message = f"the command failed ({cause}); add --debug FILE to keep the details."
    *_, (raising_frame, _) = traceback.walk_tb(error.__traceback__)
    is_about_flags = isinstance(error, ValueError) and "gpower.cli" in str(raising_frame.f_globals.get("__name__"))
    is_complete = isinstance(error, FileError | ImportError) or is_about_flags
    return message if is_complete else files.name_inputs(message)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Yield a list that receives the messages of the warnings raised inside, each once, when the block ends."""
    from gpower._utils.warnings import InputFormatWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", InputFormatWarning)  # load_table has printed a hint about it
        yield notes
    notes.extend(dict.fromkeys(_join_lines(str(warning.message)) for warning in caught))


def _join_lines(message: str) -> str:
    """Return a message on one line."""
    return " ".join(message.split()) if "\n" in message else message


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Send the log of the library to stderr inside the block."""
    logger = logging.getLogger("gpower")
    handler = logging.StreamHandler()
    level_before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)


def _format_passes(state: "AscentState", matrix_bytes: float, seconds: float) -> str:
    """Return the passes over the matrix that took `seconds` and, for a matrix on disk, the bytes read and time left."""
    passes = getattr(state.feasible_set, "passes", math.nan)  # only feasible sets that read the data count passes
    if math.isnan(passes):
        return ""
    text = f", {passes:.1f} passes"
    if matrix_bytes:
        text += f", {passes * matrix_bytes / 1e9:.3g} GB read"
        if 0 < passes < _USUAL_PASSES:
            text += f", about {timedelta(seconds=round(seconds * (_USUAL_PASSES / passes - 1)))} left"
    return text
