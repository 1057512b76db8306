"""``gpower compare``: all methods on a table, with the same number of variables."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gpower.cli.app import app
from gpower.cli.console import made, manners, note, noted, progress, read, say
from gpower.cli.options import (
    Center,
    Data,
    Drop,
    Header,
    IndexCol,
    IsCovariance,
    Key,
    Missing,
    RandomState,
    Scale,
    Transpose,
    answer_option,
    component_option,
    method_option,
    one_or_each,
)
from gpower.report import plain, table_title, write_columns

if TYPE_CHECKING:
    from gpower.comparison import Comparison, Entry
    from gpower.datasets import Table

_COLUMNS = ("method", "variance", "adjusted", "of PCA", "variables", "s", "passes")


def _names(text: str) -> list[str]:
    return [part.strip() for part in str(text).split(",")]


def _filled(table: "Table", covariance: bool, rank: int, center: bool, scale: bool, err: Console) -> "Table":
    """The table with its missing cells estimated once, so that all methods see the same numbers."""
    from gpower.imputation import impute

    if covariance or not isinstance(table.X, np.ndarray):
        raise ValueError("--missing impute fills the cells of a dense table of samples; this is none.")
    if not np.isnan(table.X).any():
        return table
    with noted(err):
        return replace(table, X=impute(table.X, rank, center=center, scale=scale).X)


@app.command()
def compare(
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
    n_components: Annotated[
        int | None,
        component_option("--n-components", "-m", help="Number of components; by default as many as -k lists, or 2."),
    ] = None,
    cardinality: Annotated[
        Any,
        component_option(
            "--cardinality",
            "-k",
            parser=one_or_each(int),
            metavar="K,...",
            help="Variables in each component: one number, or one per component, as 20,10,5. Required.",
        ),
    ] = None,
    methods: Annotated[
        Any,
        method_option(
            parser=_names, metavar="NAME,...", help="Methods to compare, as gpower-l0,spca,greedy; by default all."
        ),
    ] = None,
    refit: Annotated[
        bool,
        method_option(
            "--refit/--no-refit", help="Choose the loadings of every method's variables anew, as GPower does."
        ),
    ] = False,
    random_state: RandomState = None,
    output: Annotated[
        Path | None,
        answer_option("--output", "-o", metavar="DIR", help="Write comparison.csv into this folder."),
    ] = None,
    plot: Annotated[
        Path | None, answer_option(metavar="FILE", help="Draw the comparison into this .png, .pdf or .svg.")
    ] = None,
    as_json: Annotated[bool, answer_option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare sparse PCA methods on a table: gpower compare genes.csv -m 5 -k 20"""
    console, err = Console(), Console(stderr=True)
    with manners(err):
        from gpower.comparison import compare as compare_methods
        from gpower.parameters import one_of
        from gpower.plotting import prepare_picture, save_picture

        if cardinality is None:
            raise ValueError("Say how many variables a component may have: -k 20, or one number each, -k 20,10,5.")
        folder = None if output is None else made(output)
        if plot is not None:
            prepare_picture(plot)
        layout = {"index_col": index_col, "header": header, "transpose": transpose}
        with progress(err, f"reading {data.name}"):
            table, doubts = read(data, covariance, layout, key=key, drop=drop or (), complete=missing == "error")
        note(err, doubts)
        if n_components is None:
            n_components = len(cardinality) if isinstance(cardinality, list) else 2
        if one_of(missing, "missing", ("error", "impute")) == "impute":
            table = _filled(table, covariance, n_components, center, scale, err)
        with progress(err, f"comparing on {data.name}"):
            comparison = compare_methods(
                table.labelled(),
                n_components=n_components,
                cardinality=cardinality,
                methods=methods,
                refit=refit,
                covariance="precomputed" if covariance else None,
                center=center,
                scale=scale,
                random_state=random_state,
            )
        if as_json:
            records = [entry.record() | {"cardinality": list(entry.cardinality)} for entry in comparison]
            typer.echo(json.dumps(plain(records), allow_nan=False))
        else:
            say(console, table_title(table, data.name, covariance))
            _print(console, comparison)
        aside = err if as_json else console
        if folder is not None:
            write_columns(folder / "comparison.csv", comparison.columns())
            say(aside, f"Wrote comparison.csv into {folder}.")
        if plot is not None:
            save_picture(comparison.plot(), plot)
            say(aside, f"Picture: {plot}")


def _print(console: Console, comparison: "Comparison") -> None:
    """The table of figures, and below it what there is to say about single methods."""
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("method", "variables") else "right", overflow="fold")
    for entry in comparison:
        table.add_row(*(Text(cell) for cell in _cells(entry)))
    console.print(table)
    for entry in comparison:
        if entry.note:
            say(console, f"{entry.method}: {entry.note}")


def _cells(entry: "Entry") -> list[str]:
    """One line of the printed table; dashes where a method did not run."""
    if entry.model is None:
        return [entry.method, *("–" for _ in _COLUMNS[1:])]
    return [
        entry.method,
        f"{100 * entry.variance:.2f} %",
        f"{100 * entry.adjusted_variance:.2f} %",
        f"{100 * entry.share_of_pca:.1f} %",
        _counts(entry.cardinality),
        f"{entry.seconds:.2g}",
        "–" if math.isnan(entry.passes) else f"{entry.passes:.0f}",
    ]


def _counts(cardinality: tuple[int, ...]) -> str:
    """As 5 × 20, or one number per component."""
    if len(set(cardinality)) == 1 and len(cardinality) > 1:
        return f"{len(cardinality)} × {cardinality[0]}"
    return "-".join(map(str, cardinality))
