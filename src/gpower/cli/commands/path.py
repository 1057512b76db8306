"""``gpower path``: what every number of variables explains."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from gpower.cli.app import command
from gpower.cli.console import answering, counted, note, noted
from gpower.cli.flags import flags_of
from gpower.cli.options import GPOWER, READING, Values
from gpower.cli.tables import load
from gpower.cli.variable_files import read_column, read_names
from gpower.report.terminal import print_path, say, write_columns

if TYPE_CHECKING:
    from gpower import SparsityPath

_FILE = "path.npz"
_KNOWN = ("groups", "include", "exclude", "penalty_weights")
FURTHER = (
    *_KNOWN,
    *("positive", "covariance", "psd", "center", "scale", "missing", "n_init", "deflation", "random_state"),
)
_OPTIONS = flags_of("gpower", "sparsity_path", like=GPOWER) | {name: GPOWER[name] for name in FURTHER}


@command(reading=READING, options=_OPTIONS)
def path(
    data: Path,
    *,
    reading: Values,
    options: Values,
    output: Path | None = None,
    plot: Path | None = None,
    resume: bool = False,
) -> None:
    """Show what every number of variables explains: gpower path genes.csv --plot tradeoff.png

    Parameters
    ----------
    data : path
    output : folder, optional
        Write path.csv and path.npz into this folder.
    plot : path, optional
        Draw variance against cardinality into this .png, .pdf or .svg.
    resume : bool
        Go on from the path.npz of an interrupted run, in -o or here.
    """
    with answering(output, plot, inputs=(data,)) as answer:
        from gpower import sparsity_path
        from gpower.plotting import plot_tradeoff

        folder = output or Path()
        earlier = _earlier(folder / _FILE, answer.err) if resume else None
        read_column(options, reading, data)
        loaded = load(data, reading, options, answer.err)
        read_names(options, loaded.names)
        with noted(answer.err), counted(answer.err, "walking the path") as tell:
            found = sparsity_path(loaded.table.labelled(), **options, resume=earlier, progress=tell)
        note(answer.err, found.common["notes_"])
        print_path(answer.console, found, loaded.title)
        if output is not None or not found.complete:
            answer.write(lambda place: _written(found, place), folder.resolve())
        answer.draw(lambda: plot_tradeoff(found))
        if not found.complete:
            say(answer.err, "Interrupted. Go on with the same command and --resume.")
            raise typer.Exit(130)


def _earlier(file: Path, err: Console) -> "SparsityPath | None":
    """What an earlier run has saved; where it has saved nothing, this one begins."""
    from gpower import SparsityPath

    if file.exists():
        return SparsityPath.load(file)
    note(err, [f"{file}: nothing is saved here yet; the path begins anew."])
    return None


def _written(found: "SparsityPath", place: Path) -> list[str]:
    found.save(place / _FILE)
    return [write_columns(place / "path.csv", found.columns()), _FILE]
