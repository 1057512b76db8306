"""Shared behaviour of all commands: errors on one line, notes, progress, and the destination of results.

Results go to stdout; notes, errors and progress to stderr. Exit codes: 0 done, 1 bad data or parameters,
2 wrong usage, 130 interrupted. Slow imports are inside the functions.
"""

import json
import logging
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import progress as bars
from rich.console import Console
from rich.markup import escape

from gpower._utils.files import check_writable, write_files_atomically
from gpower._utils.messages import use_param_formatter
from gpower._utils.text import make_printable
from gpower.cli.options import format_flag
from gpower.report.terminal import print_line, to_json_types

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpower.plotting.style import Panels
    from gpower.solvers.ascent import AscentState

_PROGRESS_DELAY_SECONDS = 1.0  # progress is shown only for work that takes longer
_MIN_CONSOLE_WIDTH = 20  # characters per line of a terminal
_SINGLE_FILE_SUFFIXES = (".csv", ".tsv", ".txt", ".npz", ".npy", ".json", ".parquet", ".h5ad", ".png", ".pdf", ".svg")
_RESULT_FILE_NAMES = (
    "loadings.csv",
    "loadings_list.csv",
    "scores.csv",
    "model.npz",
    "path.csv",
    "path.npz",
    "comparison.csv",
)
_TASK_DESCRIPTION = "{task.description}"


@dataclass(frozen=True)
class OutputSink:
    """Destinations of a command's output: stdout and stderr, a folder for files, and a file for the plot."""

    console: Console
    err_console: Console
    output_folder: Path | None = None
    figure_path: Path | None = None
    as_json: bool = False  # stdout carries one line of JSON and nothing else
    input_paths: tuple[Path, ...] = ()  # files that the command reads and must not overwrite

    def print_result(self, get_content: Callable[[], object], print_to: Callable[[Console], None]) -> None:
        """Print the result to stdout, as JSON with `as_json`, else by calling `print_to` with the console."""
        if self.as_json:
            typer.echo(json.dumps(to_json_types(get_content()), allow_nan=False))
        else:
            print_to(self.console)

    def print_message(self, text: str) -> None:
        """Print one line of information, to stderr if stdout carries JSON."""
        print_line(self.err_console if self.as_json else self.console, text)

    def write_files(self, write_into: Callable[[Path], Iterable[str]], folder: Path | None = None) -> None:
        """Write files into `folder`, or the output folder if there is one, and print their names.

        `write_into` writes the files into the folder it is given and returns their names. The files of an earlier run
        are replaced all together, once every new file is complete.
        """
        folder = folder or self.output_folder
        if folder is None:
            return
        with write_files_atomically(folder) as temporary_folder:
            names = list(write_into(temporary_folder))
            replaced = [name for name in names if (folder / name).exists()]
            refuse_overwriting_inputs(self.input_paths, *(folder / name for name in names))
        self.print_message(f"Wrote {', '.join(names)} into {folder}{_describe_replaced_files(replaced, names)}.")

    def save_plot(self, draw: "Callable[[], Axes | Panels]") -> None:
        """Draw the plot and save it, if the command has a file for it."""
        if self.figure_path is not None:
            from gpower.plotting import save_figure

            save_figure(draw(), self.figure_path)
            self.print_message(f"Picture: {self.figure_path}")


def _describe_replaced_files(replaced: list[str], names: list[str]) -> str:
    """Return the end of a sentence that says which of the files written replace earlier ones."""
    if not replaced:
        return ""
    return f", replacing {'those' if replaced == names else ', '.join(replaced)} of an earlier run"


def refuse_overwriting_inputs(input_paths: Iterable[Path], *output_paths: Path) -> None:
    """Raise if an output file is one of the files that the command reads."""
    for path in output_paths:
        if path.exists() and any(source.exists() and path.samefile(source) for source in input_paths):
            raise ValueError(f"{path}: this is what the command reads; write the results elsewhere.")


def _make_console(*, stderr: bool = False) -> Console:
    """Create a console of at least `_MIN_CONSOLE_WIDTH` columns: some terminals report a width of zero."""
    console = Console(stderr=stderr)
    if console.width < _MIN_CONSOLE_WIDTH:
        console.width = _MIN_CONSOLE_WIDTH
    return console


@contextmanager
def command_context(
    output: Path | None = None, plot: Path | None = None, as_json: bool = False, input_paths: tuple[Path, ...] = ()
) -> Iterator[OutputSink]:
    """Yield the destinations of a command's output; turn an error inside into one line on stderr and an exit code.

    Output folders are created before the work. Messages of the library name parameters as flags.
    """
    sink = OutputSink(_make_console(), _make_console(stderr=True), output, plot, as_json, input_paths)
    try:
        with use_param_formatter(format_flag):
            _prepare_outputs(sink)
            yield sink
    except KeyboardInterrupt:
        print_line(sink.err_console, "Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the program that reads stdout has ended; typer exits without a message
        raise
    except (ValueError, ImportError, OSError, MemoryError) as error:
        print_line(sink.err_console, f"error: {_format_error(error)}")
        raise typer.Exit(1) from None


def _prepare_outputs(sink: OutputSink) -> None:
    """Create the output folders and check that they can be written, before any work that could be lost."""
    folder = sink.output_folder
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: this is a file; the results go into a folder.")
        if not folder.exists() and folder.suffix.lower() in _SINGLE_FILE_SUFFIXES:
            raise ValueError(f"{folder}: the results are several files; give a folder, such as {folder.stem}.")
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        refuse_overwriting_inputs(sink.input_paths, *(folder / name for name in _RESULT_FILE_NAMES))
    if sink.figure_path is not None:
        from gpower.plotting import prepare_figure_path

        prepare_figure_path(sink.figure_path)


def _format_error(error: Exception) -> str:
    """Return the message of an error on one printable line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return make_printable(_join_lines(str(error)) or f"{type(error).__name__}.")


def print_notes(err_console: Console, notes: Iterable[str]) -> None:
    """Print notes to stderr, one line each."""
    for note in notes:
        print_line(err_console, f"note: {make_printable(note)}")


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


@contextmanager
def warnings_to_stderr(err_console: Console) -> Iterator[list[str]]:
    """Print the warnings raised inside as notes on stderr; yield the list that receives them when the block ends."""
    with collect_warnings() as notes:
        yield notes
    print_notes(err_console, notes)


def _join_lines(message: str) -> str:
    """Return a message on one line."""
    return " ".join(message.split()) if "\n" in message else message


@contextmanager
def log_to_stderr() -> Iterator[None]:
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


@contextmanager
def show_progress(
    err_console: Console, description: str, matrix_bytes: float = 0.0
) -> Iterator[Callable[["AscentState"], None] | None]:
    """Show what is being done on a terminal, once it has taken a second.

    Yield a callback for the estimator that shows its steps, its passes over the matrix and, with `matrix_bytes`, the
    gigabytes read; yield None without a terminal.
    """
    step_numbers = count(1)
    description = escape(make_printable(description))  # it may contain a file name with markup or control characters
    with _show_after_delay(
        err_console, description, bars.SpinnerColumn(), _TASK_DESCRIPTION, bars.TimeElapsedColumn()
    ) as update:
        yield (
            None
            if update is None
            else lambda state: update(
                description=f"{description}, step {next(step_numbers)}, objective {state.value:.6g}"
                f"{_format_passes(state, matrix_bytes)}"
            )
        )


def _format_passes(state: "AscentState", matrix_bytes: float) -> str:
    """Return the passes over the matrix so far and, for a matrix on disk, the gigabytes that they read."""
    passes = getattr(state.feasible_set, "passes", math.nan)  # only feasible sets that read the data count passes
    if math.isnan(passes):
        return ""
    return f", {passes:.1f} passes" + (f", {passes * matrix_bytes / 1e9:.3g} GB read" if matrix_bytes else "")


@contextmanager
def show_progress_bar(err_console: Console, description: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar and the time left on a terminal; yield ``update(done, total)``, or None without a terminal."""
    with _show_after_delay(
        err_console,
        description,
        _TASK_DESCRIPTION,
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    ) as update:
        yield None if update is None else lambda done, total: update(completed=done, total=total)


@contextmanager
def _show_after_delay(
    err_console: Console, description: str, *columns: str | bars.ProgressColumn
) -> Iterator[Callable[..., None] | None]:
    """Show a display once the work has taken a second; yield its update function, or None without a terminal."""
    if not err_console.is_terminal:
        yield None
        return
    bar = bars.Progress(*columns, console=err_console, transient=True)
    timer = threading.Timer(_PROGRESS_DELAY_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield partial(bar.update, bar.add_task(description))
    finally:
        timer.cancel()
        timer.join()  # it may be starting the display at this moment
        if bar.live.is_started:
            bar.stop()
