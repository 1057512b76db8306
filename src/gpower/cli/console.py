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

from gpower._utils.files import check_writable, written
from gpower._utils.text import printable
from gpower.cli.options import GPOWER
from gpower.report.terminal import plain, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpower.plotting.style import Panels
    from gpower.solvers.ascent import AscentState

_PATIENCE = 1.0  # seconds of work before progress shows
_NARROWEST = 20  # columns of a terminal
_LIKE_FILES = (".csv", ".tsv", ".txt", ".npz", ".npy", ".json", ".parquet", ".h5ad", ".png", ".pdf", ".svg")
_RESULTS = ("loadings.csv", "loadings_list.csv", "scores.csv", "model.npz", "path.csv", "path.npz", "comparison.csv")
_WHAT = "{task.description}"
_QUOTES = "\"'[]"
#: In a sentence of the library: an option with its value, and one by itself that is no English word nor part of a path.
_ASSIGNED = re.compile(r"""\b(\w+)=("[^"]+"|'[^']*'|\[[^\]]*\]|-?\d(?:[\d.e+-]*\d)?)""")
_LONG = "|".join(name for name in GPOWER if "_" in name)
_SPELLED = re.compile(rf"""(?<![-/\\.'"\w])({_LONG})(?!\w|[-=/\\'"]|\.\w)""")


@dataclass(frozen=True)
class Answer:
    """Where a command's answer goes: stdout and stderr, a folder for files, a file for the picture."""

    console: Console
    err: Console
    folder: Path | None = None
    picture: Path | None = None
    as_json: bool = False  # stdout is kept for one line of JSON
    inputs: tuple[Path, ...] = ()  # what the command reads

    def give(self, content: Callable[[], object], show: Callable[[Console], None]) -> None:
        """Print the answer, for a program or for a person."""
        if self.as_json:
            typer.echo(json.dumps(plain(content()), allow_nan=False))
        else:
            show(self.console)

    def tell(self, text: str) -> None:
        """One line beside the answer."""
        say(self.err if self.as_json else self.console, text)

    def write(self, files: Callable[[Path], Iterable[str]], folder: Path | None = None) -> None:
        """Write files into the folder, if there is one; `files` does it and gives their names.

        They replace those of an earlier run together, once all of them are whole.
        """
        folder = folder or self.folder
        if folder is None:
            return
        with written(folder) as place:
            names = list(files(place))
            earlier = [name for name in names if (folder / name).exists()]
            refuse_inputs(self.inputs, *(folder / name for name in names))
        self.tell(f"Wrote {', '.join(names)} into {folder}{_replaced(earlier, names)}.")

    def draw(self, plot: "Callable[[], Axes | Panels]") -> None:
        """Draw the picture, if one was asked for."""
        if self.picture is not None:
            from gpower.plotting import save_picture

            save_picture(plot(), self.picture)
            self.tell(f"Picture: {self.picture}")


def _replaced(earlier: list[str], names: list[str]) -> str:
    """What was there before, for the end of a sentence."""
    if not earlier:
        return ""
    return (
        ", in place of those of an earlier run" if earlier == names else f", in place of earlier {', '.join(earlier)}"
    )


def refuse_inputs(inputs: Iterable[Path], *outputs: Path) -> None:
    """Refuse to write over what the command reads."""
    for path in outputs:
        if path.exists() and any(given.exists() and path.samefile(given) for given in inputs):
            raise ValueError(f"{path}: this is what the command reads; write the results elsewhere.")


def _console(*, stderr: bool = False) -> Console:
    """A console that is at least a little wide: some programs say that a terminal has no columns."""
    console = Console(stderr=stderr)
    if console.width < _NARROWEST:
        console.width = _NARROWEST
    return console


@contextmanager
def answering(
    output: Path | None = None, plot: Path | None = None, as_json: bool = False, inputs: tuple[Path, ...] = ()
) -> Iterator[Answer]:
    """Where the answer goes, made ready before the work; what goes wrong becomes one line and an exit code."""
    answer = Answer(_console(), _console(stderr=True), output, plot, as_json, inputs)
    try:
        _make_ready(answer)
        yield answer
    except KeyboardInterrupt:
        say(answer.err, "Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of our output has left; typer ends quietly
        raise
    except (ValueError, ImportError, OSError, MemoryError) as error:
        say(answer.err, f"error: {_sentence(error)}")
        raise typer.Exit(1) from None


def _make_ready(answer: Answer) -> None:
    """Make the folders, before the work so that the work is not lost to a wrong name."""
    folder, picture = answer.folder, answer.picture
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: this is a file; the results go into a folder.")
        if not folder.exists() and folder.suffix.lower() in _LIKE_FILES:
            raise ValueError(f"{folder}: the results are several files; give a folder, such as {folder.stem}.")
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        refuse_inputs(answer.inputs, *(folder / name for name in _RESULTS))
    if picture is not None:
        from gpower.plotting import prepare_picture

        prepare_picture(picture)


def _sentence(error: Exception) -> str:
    """What went wrong, on one line, with the options of the reader as one types them."""
    from gpower.cli.hints import as_flag
    from gpower.datasets import TableError

    if isinstance(error, TableError):
        return error.spelled(as_flag)
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return printable(_as_typed(str(error)) or f"{type(error).__name__}.")


def note(err: Console, notes: Iterable[str]) -> None:
    """What the user should know, one line each."""
    for line in notes:
        say(err, f"note: {printable(line)}")


@contextmanager
def caught() -> Iterator[list[str]]:
    """Warnings raised inside as sentences; the list is filled when the block ends."""
    from gpower._utils.warnings import Doubt

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", Doubt)  # the reader of the table had it first
        yield notes
    notes.extend(dict.fromkeys(_as_typed(str(warning.message)) for warning in found))


@contextmanager
def noted(err: Console) -> Iterator[list[str]]:
    """Warnings raised inside become notes on stderr; the list is filled when the block ends."""
    with caught() as notes:
        yield notes
    note(err, notes)


def _as_typed(message: str) -> str:
    """A sentence of the library on one line, with components counted from 1 and options as one types them."""
    message = re.sub(r"components_\[(\d+)\]", lambda found: f"component {int(found[1]) + 1}", message)
    message = re.sub(r'\bGPower\(([a-z_]+="[^"]+")\)', r"\1", message)
    message = message.replace('covariance="precomputed"', "--covariance")
    message = _ASSIGNED.sub(_typed, message)
    message = _SPELLED.sub(lambda found: GPOWER[found[0]].typed, message)
    return " ".join(message.split())


def _typed(found: re.Match[str]) -> str:
    """An option and its value as one types them; what is no option, such as n_samples=3, as it is."""
    name, value = found[1], found[2]
    if name not in GPOWER:
        return f"--{name.replace('_', '-')} {value[1:-1]}" if value[0] == '"' else found[0]
    return f"{GPOWER[name].typed} {value.strip(_QUOTES).replace(', ', ',')}"


@contextmanager
def logged() -> Iterator[None]:
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
def progress(err: Console, what: str, size: float = 0.0) -> Iterator[Callable[["AscentState"], None] | None]:
    """Show on a terminal what is being done, once it has taken a second.

    Yields a callback for the estimator that counts its steps and passes, and the bytes read of a matrix of a `size`;
    None where there is no terminal.
    """
    steps, what = count(1), escape(printable(what))  # a file may be called anything
    with _shown(err, what, bars.SpinnerColumn(), _WHAT, bars.TimeElapsedColumn()) as update:
        yield (
            None
            if update is None
            else lambda state: update(
                description=f"{what}, step {next(steps)}, objective {state.value:.6g}{_read_so_far(state, size)}"
            )
        )


def _read_so_far(state: "AscentState", size: float) -> str:
    """Passes over the matrix, and the gigabytes they are of a matrix on disk."""
    passes = getattr(state.feasible_set, "passes", math.nan)  # only sets of data are counted
    if math.isnan(passes):
        return ""
    return f", {passes:.1f} passes" + (f", {passes * size / 1e9:.3g} GB read" if size else "")


@contextmanager
def counted(err: Console, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """The same for work of known length, with the time left; yields ``tell(done, total)``."""
    with _shown(err, what, _WHAT, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn()) as update:
        yield None if update is None else lambda done, total: update(completed=done, total=total)


@contextmanager
def _shown(err: Console, what: str, *columns: str | bars.ProgressColumn) -> Iterator[Callable[..., None] | None]:
    """A display that appears once the work has taken a second, and what updates it; None without a terminal."""
    if not err.is_terminal:
        yield None
        return
    bar = bars.Progress(*columns, console=err, transient=True)
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield partial(bar.update, bar.add_task(what))
    finally:
        timer.cancel()
        timer.join()  # it may be starting the display just now
        if bar.live.is_started:
            bar.stop()
