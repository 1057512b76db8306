"""What every command does the same way: errors as sentences, notes, progress, and where the answer goes.

Results go to stdout; notes, errors and progress to stderr. Exit codes: 0 done, 1 bad data or parameters,
2 wrong usage, 130 interrupted. Whatever is slow to import loads inside the functions.
"""

import json
import logging
import math
import re
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
from gpower._utils.text import make_printable
from gpower.cli.options import GPOWER_FLAGS
from gpower.report.terminal import print_line, to_json_types

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpower.plotting.style import Panels
    from gpower.solvers.ascent import AscentState

_PROGRESS_DELAY_SECONDS = 1.0  # seconds of work before progress shows
_MIN_CONSOLE_WIDTH = 20  # columns of a terminal
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
_QUOTES_AND_BRACKETS = "\"'[]"
#: In a sentence of the library: an option with its value, and one by itself that is no English word nor part of a path.
_OPTION_ASSIGNMENT_PATTERN = re.compile(r"""\b(\w+)=("[^"]+"|'[^']*'|\[[^\]]*\]|-?\d(?:[\d.e+-]*\d)?)""")
_UNDERSCORED_OPTION_NAMES = "|".join(name for name in GPOWER_FLAGS if "_" in name)
_OPTION_NAME_PATTERN = re.compile(rf"""(?<![-/\\.'"\w])({_UNDERSCORED_OPTION_NAMES})(?!\w|[-=/\\'"]|\.\w)""")


@dataclass(frozen=True)
class OutputSink:
    """Where a command's answer goes: stdout and stderr, a folder for files, a file for the picture."""

    console: Console
    err_console: Console
    output_folder: Path | None = None
    figure_path: Path | None = None
    as_json: bool = False  # stdout is kept for one line of JSON
    input_paths: tuple[Path, ...] = ()  # what the command reads

    def print_result(self, get_content: Callable[[], object], print_to: Callable[[Console], None]) -> None:
        """Print the answer, for a program or for a person."""
        if self.as_json:
            typer.echo(json.dumps(to_json_types(get_content()), allow_nan=False))
        else:
            print_to(self.console)

    def print_message(self, text: str) -> None:
        """One line beside the answer."""
        print_line(self.err_console if self.as_json else self.console, text)

    def write_files(self, write_into: Callable[[Path], Iterable[str]], folder: Path | None = None) -> None:
        """Write files into the folder, if there is one; `files` does it and gives their names.

        They replace those of an earlier run together, once all of them are whole.
        """
        folder = folder or self.output_folder
        if folder is None:
            return
        with write_files_atomically(folder) as place:
            names = list(write_into(place))
            earlier = [name for name in names if (folder / name).exists()]
            refuse_overwriting_inputs(self.input_paths, *(folder / name for name in names))
        self.print_message(f"Wrote {', '.join(names)} into {folder}{_describe_replaced_files(earlier, names)}.")

    def save_plot(self, draw: "Callable[[], Axes | Panels]") -> None:
        """Draw the picture, if one was asked for."""
        if self.figure_path is not None:
            from gpower.plotting import save_figure

            save_figure(draw(), self.figure_path)
            self.print_message(f"Picture: {self.figure_path}")


def _describe_replaced_files(earlier: list[str], names: list[str]) -> str:
    """What was there before, for the end of a sentence."""
    if not earlier:
        return ""
    return (
        ", in place of those of an earlier run" if earlier == names else f", in place of earlier {', '.join(earlier)}"
    )


def refuse_overwriting_inputs(input_paths: Iterable[Path], *output_paths: Path) -> None:
    """Refuse to write over what the command reads."""
    for path in output_paths:
        if path.exists() and any(given.exists() and path.samefile(given) for given in input_paths):
            raise ValueError(f"{path}: this is what the command reads; write the results elsewhere.")


def _make_console(*, stderr: bool = False) -> Console:
    """A console that is at least a little wide: some programs say that a terminal has no columns."""
    console = Console(stderr=stderr)
    if console.width < _MIN_CONSOLE_WIDTH:
        console.width = _MIN_CONSOLE_WIDTH
    return console


@contextmanager
def command_context(
    output: Path | None = None, plot: Path | None = None, as_json: bool = False, input_paths: tuple[Path, ...] = ()
) -> Iterator[OutputSink]:
    """Where the answer goes, made ready before the work; what goes wrong becomes one line and an exit code."""
    answer = OutputSink(_make_console(), _make_console(stderr=True), output, plot, as_json, input_paths)
    try:
        _prepare_outputs(answer)
        yield answer
    except KeyboardInterrupt:
        print_line(answer.err_console, "Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of our output has left; typer ends quietly
        raise
    except (ValueError, ImportError, OSError, MemoryError) as error:
        print_line(answer.err_console, f"error: {_format_error(error)}")
        raise typer.Exit(1) from None


def _prepare_outputs(sink: OutputSink) -> None:
    """Make the folders, before the work so that the work is not lost to a wrong name."""
    folder, picture = sink.output_folder, sink.figure_path
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: this is a file; the results go into a folder.")
        if not folder.exists() and folder.suffix.lower() in _SINGLE_FILE_SUFFIXES:
            raise ValueError(f"{folder}: the results are several files; give a folder, such as {folder.stem}.")
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        refuse_overwriting_inputs(sink.input_paths, *(folder / name for name in _RESULT_FILE_NAMES))
    if picture is not None:
        from gpower.plotting import prepare_figure_path

        prepare_figure_path(picture)


def _format_error(error: Exception) -> str:
    """What went wrong, on one line, with the options of the reader as one types them."""
    from gpower.cli.hints import format_flag
    from gpower.datasets import TableError

    if isinstance(error, TableError):
        return error.format_message(format_flag)
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return make_printable(_rewrite_for_command_line(str(error)) or f"{type(error).__name__}.")


def print_notes(err_console: Console, notes: Iterable[str]) -> None:
    """What the user should know, one line each."""
    for line in notes:
        print_line(err_console, f"note: {make_printable(line)}")


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Warnings raised inside as sentences; the list is filled when the block ends."""
    from gpower._utils.warnings import InputFormatWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", InputFormatWarning)  # the reader of the table had it first
        yield notes
    notes.extend(dict.fromkeys(_rewrite_for_command_line(str(warning.message)) for warning in found))


@contextmanager
def warnings_to_stderr(err_console: Console) -> Iterator[list[str]]:
    """Warnings raised inside become notes on stderr; the list is filled when the block ends."""
    with collect_warnings() as notes:
        yield notes
    print_notes(err_console, notes)


def _rewrite_for_command_line(message: str) -> str:
    """A sentence of the library on one line, with components counted from 1 and options as one types them."""
    message = re.sub(r"components_\[(\d+)\]", lambda found: f"component {int(found[1]) + 1}", message)
    message = re.sub(r'\bGPower\(([a-z_]+="[^"]+")\)', r"\1", message)
    message = message.replace('covariance="precomputed"', "--covariance")
    message = _OPTION_ASSIGNMENT_PATTERN.sub(_format_typed_option, message)
    message = _OPTION_NAME_PATTERN.sub(lambda found: GPOWER_FLAGS[found[0]].display_name, message)
    return " ".join(message.split())


def _format_typed_option(match: re.Match[str]) -> str:
    """An option and its value as one types them; what is no option, such as n_samples=3, as it is."""
    name, value = match[1], match[2]
    if name not in GPOWER_FLAGS:
        return f"--{name.replace('_', '-')} {value[1:-1]}" if value[0] == '"' else match[0]
    return f"{GPOWER_FLAGS[name].display_name} {value.strip(_QUOTES_AND_BRACKETS).replace(', ', ',')}"


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """What the library logs goes to stderr while the command runs."""
    logger, handler = logging.getLogger("gpower"), logging.StreamHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def show_progress(
    err_console: Console, description: str, matrix_bytes: float = 0.0
) -> Iterator[Callable[["AscentState"], None] | None]:
    """Show on a terminal what is being done, once it has taken a second.

    Yields a callback for the estimator that counts its steps and passes, and the bytes read of a matrix of a `size`;
    None where there is no terminal.
    """
    steps, description = count(1), escape(make_printable(description))  # a file may be called anything
    with _show_after_delay(
        err_console, description, bars.SpinnerColumn(), _TASK_DESCRIPTION, bars.TimeElapsedColumn()
    ) as update:
        yield (
            None
            if update is None
            else lambda state: update(
                description=f"{description}, step {next(steps)}, objective {state.value:.6g}"
                f"{_format_passes(state, matrix_bytes)}"
            )
        )


def _format_passes(state: "AscentState", matrix_bytes: float) -> str:
    """Passes over the matrix, and the gigabytes they are of a matrix on disk."""
    passes = getattr(state.feasible_set, "passes", math.nan)  # only sets of data are counted
    if math.isnan(passes):
        return ""
    return f", {passes:.1f} passes" + (f", {passes * matrix_bytes / 1e9:.3g} GB read" if matrix_bytes else "")


@contextmanager
def show_progress_bar(err_console: Console, description: str) -> Iterator[Callable[[int, int], None] | None]:
    """The same for work of known length, with the time left; yields ``tell(done, total)``."""
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
    """A display that appears once the work has taken a second, and what updates it; None without a terminal."""
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
        timer.join()  # it may be starting the display just now
        if bar.live.is_started:
            bar.stop()
