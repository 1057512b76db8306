"""``gpower path``: what every number of variables explains."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from gpower.cli.app import app
from gpower.cli.console import counted, made, manners, note, noted, progress, read, say
from gpower.cli.options import (
    Center,
    Data,
    Deflation,
    Drop,
    Header,
    IndexCol,
    IsCovariance,
    Key,
    Method,
    Missing,
    NInit,
    Penalty,
    Positive,
    RandomState,
    Scale,
    Transpose,
    answer_option,
    component_option,
    one_or_each,
)
from gpower.report import print_path, table_title, write_columns

if TYPE_CHECKING:
    from gpower.model_selection import SparsityPath

_FILE = "path.npz"


@app.command()
def path(
    data: Data,
    index_col: IndexCol = None,
    drop: Drop = None,
    header: Header = None,
    transpose: Transpose = False,
    key: Key = None,
    covariance: IsCovariance = False,
    center: Center = True,
    scale: Scale = False,
    missing: Missing = "error",
    n_components: Annotated[int, component_option("--n-components", "-m", help="Number of components.")] = 1,
    cardinalities: Annotated[
        Any,
        component_option(
            "--cardinalities",
            "-k",
            parser=one_or_each(int),
            metavar="K,...",
            help="Numbers of variables, as 5,10,20; by default up to 50, from one to all.",
        ),
    ] = None,
    gammas: Annotated[
        Any,
        component_option(
            parser=one_or_each(float), metavar="G,...", help="Instead of -k: penalties, fractions from 0 to below 1."
        ),
    ] = None,
    penalty: Penalty = "l0",
    positive: Positive = False,
    method: Method = "deflation",
    deflation: Deflation = "projection",
    n_init: NInit = "auto",
    random_state: RandomState = None,
    output: Annotated[
        Path | None,
        answer_option("--output", "-o", metavar="DIR", help="Write path.csv and path.npz into this folder."),
    ] = None,
    plot: Annotated[
        Path | None,
        answer_option(metavar="FILE", help="Draw variance against cardinality into this .png, .pdf or .svg."),
    ] = None,
    resume: Annotated[
        bool, answer_option("--resume", help="Go on from the path.npz of an interrupted run, in -o or here.")
    ] = False,
) -> None:
    """Show what every number of variables explains: gpower path genes.csv --plot tradeoff.png"""
    console, err = Console(), Console(stderr=True)
    options = {
        "n_components": n_components,
        "cardinalities": _several(cardinalities),
        "gammas": _several(gammas),
        "penalty": penalty,
        "method": method,
        "positive": positive,
        "covariance": "precomputed" if covariance else None,
        "center": center,
        "scale": scale,
        "missing": missing,
        "n_init": n_init,
        "deflation": deflation,
        "random_state": random_state,
    }
    with manners(err):
        from gpower import SparsityPath, sparsity_path
        from gpower.plotting import plot_tradeoff, prepare_picture, save_picture

        folder = Path() if output is None else made(output)
        if plot is not None:
            prepare_picture(plot)
        earlier = SparsityPath.load(folder / _FILE) if resume else None
        layout = {"index_col": index_col, "header": header, "transpose": transpose}
        with progress(err, f"reading {data.name}"):
            table, doubts = read(data, covariance, layout, key=key, drop=drop or (), complete=missing == "error")
        note(err, doubts)
        with noted(err), counted(err, "walking the path") as tell:
            found = sparsity_path(table.labelled(), **options, resume=earlier, progress=tell)
        print_path(console, found, table_title(table, data.name, covariance))
        if output is not None or not found.complete:
            say(console, f"Wrote {', '.join(_written(found, folder))} into {folder.resolve()}.")
        if plot is not None:
            save_picture(plot_tradeoff(found), plot)
            say(console, f"Picture: {plot}")
        if not found.complete:
            say(err, "Interrupted. Go on with the same command and --resume.")
            raise typer.Exit(130)


def _several(numbers: Any) -> list[Any] | None:
    return numbers if numbers is None or isinstance(numbers, list) else [numbers]


def _written(found: "SparsityPath", folder: Path) -> list[str]:
    """Write the table and the solutions; the names of the files."""
    found.save(folder / _FILE)
    write_columns(folder / "path.csv", found.columns())
    return ["path.csv", _FILE]
