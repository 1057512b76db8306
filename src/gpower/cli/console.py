"""What every command does the same way: errors as sentences, notes, progress, reading the table, fitting.

Results go to stdout; notes, errors and progress to stderr. Exit codes: 0 done, 1 bad data or parameters,
2 wrong usage, 130 interrupted. Whatever is slow to import loads inside the functions.
"""

import logging
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table

__all__ = ["counted", "fitted", "logged", "made", "manners", "note", "noted", "progress", "read", "say"]

_PATIENCE = 1.0  # seconds of work before progress shows


@contextmanager
def manners(err: Console) -> Iterator[None]:
    """Turn what can go wrong into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        say(err, "Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of our output has left; typer ends quietly
        raise
    except (ValueError, ImportError, OSError, MemoryError) as error:
        say(err, f"error: {_sentence(error)}")
        raise typer.Exit(1) from None


def _sentence(error: Exception) -> str:
    """What went wrong, on one line, with the options of the reader as one types them."""
    from gpower.datasets import TableError
    from gpower.datasets.hints import as_flag

    if isinstance(error, TableError):
        return error.spelled(as_flag)
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def say(console: Console, text: str) -> None:
    """One line as it is, whatever the width of the terminal and whatever brackets a name contains."""
    console.print(Text(text), soft_wrap=True)


def note(err: Console, notes: Iterable[str]) -> None:
    """What the user should know, one line each."""
    for line in notes:
        say(err, f"note: {line}")


@contextmanager
def noted(err: Console) -> Iterator[list[str]]:
    """Warnings raised inside become notes on stderr; the list is filled when the block ends."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes.extend(dict.fromkeys(_as_typed(str(warning.message)) for warning in caught))
    note(err, notes)


def _as_typed(message: str) -> str:
    """A sentence of the library with components counted from 1 and options as one types them."""
    message = re.sub(r"components_\[(\d+)\]", lambda found: f"component {int(found[1]) + 1}", message)
    message = re.sub(r'\b([a-z_]+)="([^"]+)"', lambda found: f"--{found[1].replace('_', '-')} {found[2]}", message)
    return " ".join(message.split())


@contextmanager
def logged(verbose: int) -> Iterator[None]:
    """What the library logs goes to stderr while the command runs."""
    logger, handler = logging.getLogger("gpower"), logging.StreamHandler()
    before = logger.level
    if verbose:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def made(folder: Path) -> Path:
    """The output folder, made before the work so that the work is not lost to a wrong name."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: this is a file; the results go into a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read(
    path: Path, covariance: bool, layout: dict[str, Any], memory_limit: str | None = None, **options: Any
) -> tuple["Table", list[str]]:
    """The table, and what it looks like where that is not how it was read; a store stays on disk."""
    from gpower.datasets import Table, TableError, read_table
    from gpower.datasets.errors import MissingCell
    from gpower.datasets.hints import hints
    from gpower.operators.sources import is_store, open_source

    if is_store(path, memory_limit) and not covariance:
        odd = [name for name, value in {**layout, "drop": options["drop"] or None}.items() if value]
        if odd:
            raise ValueError(f"{path}: a store is read in blocks as it is; {', '.join(odd)} does not work on it.")
        source = open_source(path, options["key"])
        assert source is not None
        return Table(source, source.names, source.sample_names), []
    try:
        table = read_table(path, **layout, **options)
    except MissingCell as error:
        raise TableError(
            path, f"{error.reason}, or have such cells estimated with --missing impute", **error.options
        ) from None
    return table, [f"{hint}." for hint in hints(path, table, **layout, covariance=covariance)]


def fitted(table: "Table", options: dict[str, Any], err: Console, device: str = "cpu") -> tuple["GPower", list[str]]:
    """The model, on the host wherever it was fitted, with its warnings as notes on stderr."""
    from gpower import GPower
    from gpower.devices import on_host, to_device

    n_samples, n_features = table.X.shape
    size = 0.0 if hasattr(table.X, "dot") else n_samples * n_features * float(table.X.dtype.itemsize)
    with noted(err) as notes, progress(err, f"fitting {n_samples} × {n_features}", size) as tell:
        X = table.labelled() if device == "cpu" else to_device(table.X, device)
        model = GPower(**options, callback=tell).fit(X)
    for name in ("components_", "mean_", "scale_") if device != "cpu" else ():
        setattr(model, name, on_host(getattr(model, name)))
    return model, notes


@contextmanager
def progress(err: Console, what: str, size: float = 0.0) -> Iterator[Callable[[Any], None] | None]:
    """Show on a terminal what is being done, once it has taken a second.

    Yields a callback for the estimator that counts its steps and passes, and the bytes read of a matrix of a `size`;
    None where there is no terminal.
    """
    steps = count(1)
    with _shown(err, what, SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as update:

        def tell(state: Any) -> None:
            assert update is not None
            update(description=f"{what}, step {next(steps)}, objective {state.value:.6g}{_read_so_far(state, size)}")

        yield None if update is None else tell


def _read_so_far(state: Any, size: float) -> str:
    """Passes over the matrix, and the gigabytes they are of a matrix on disk."""
    passes = getattr(getattr(state, "feasible_set", None), "passes", float("nan"))
    if math.isnan(passes):
        return ""
    return f", {passes:.1f} passes" + (f", {passes * size / 1e9:.3g} GB read" if size else "")


@contextmanager
def counted(err: Console, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """The same for work of known length, with the time left; yields ``tell(done, total)``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _shown(err, what, *columns) as update:

        def tell(done: int, total: int) -> None:
            assert update is not None
            update(completed=done, total=total)

        yield None if update is None else tell


@contextmanager
def _shown(err: Console, what: str, *columns: ProgressColumn) -> Iterator[Callable[..., None] | None]:
    """A display that appears once the work has taken a second, and what updates it; None without a terminal."""
    if not err.is_terminal:
        yield None
        return
    bar = Progress(*columns, console=err, transient=True)
    task = bar.add_task(what)
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield partial(bar.update, task)
    finally:
        timer.cancel()
        timer.join()  # it may be starting the display just now
        if bar.live.is_started:
            bar.stop()
