"""``gpower compare``: all methods on a table, with the same number of variables."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column
from rich.text import Text

from gpower.cli.app import command
from gpower.cli.console import answering, note, noted, progress
from gpower.cli.flags import changed, flags_of
from gpower.cli.options import COUNTED, GPOWER, READING, Values, count_components
from gpower.cli.tables import Loaded, load
from gpower.report.terminal import print_rows, say, write_columns

if TYPE_CHECKING:
    from gpower.baselines.comparison import Comparison, Entry
    from gpower.datasets import Table

_HEADS = ("method", "variance", "adjusted", "of PCA", "violation", "variables", "s", "passes")
_TEXT = ("method", "variables")
_CARDINALITY = {
    "default": None,
    "help": "Variables in each component: one number, or one per component, as 20,10,5. Required.",
}
_OPTIONS = changed(
    flags_of("gpower", "compare", like=GPOWER) | {"missing": GPOWER["missing"]},
    n_components=COUNTED,
    cardinality=_CARDINALITY,
    refit={"long": "--refit/--no-refit"},
)


@command(reading=READING, options=_OPTIONS)
def compare(
    data: Path,
    *,
    reading: Values,
    options: Values,
    output: Path | None = None,
    plot: Path | None = None,
    as_json: bool = False,
) -> None:
    """Compare sparse PCA methods on a table: gpower compare genes.csv -m 5 -k 20

    Parameters
    ----------
    data : path
    output : folder, optional
        Write comparison.csv into this folder.
    plot : path, optional
        Draw the comparison into this .png, .pdf or .svg.
    as_json : bool
        Print the figures as JSON.
    """
    with answering(output, plot, as_json, inputs=(data,)) as answer:
        from gpower import compare as compare_methods

        if options["cardinality"] is None:
            raise ValueError("Say how many variables a component may have: -k 20, or one number each, -k 20,10,5.")
        count_components(options)
        loaded = load(data, reading, options, answer.err)
        table = _filled(loaded, options, answer.err)
        with noted(answer.err), progress(answer.err, f"comparing on {data.name}"):
            comparison = compare_methods(table.labelled(), **options)
        note(answer.err, dict.fromkeys(line for entry in comparison if entry.model for line in entry.model.notes_))
        answer.give(
            lambda: [entry.record() | {"cardinality": entry.cardinality} for entry in comparison],
            lambda console: _print(console, comparison, loaded.title),
        )
        answer.write(lambda folder: [write_columns(folder / "comparison.csv", comparison.columns())])
        answer.draw(comparison.plot)


def _filled(loaded: Loaded, options: Values, err: Console) -> "Table":
    """The table, its missing cells estimated once where that is asked for, so that all methods see the same numbers."""
    import numpy as np
    from scipy.sparse import issparse

    from gpower.validation.imputation import impute
    from gpower.validation.params import one_of

    X = loaded.table.X
    if one_of(options.pop("missing"), "missing", ("error", "impute")) == "error":
        return loaded.table
    if loaded.covariance or loaded.where != "memory" or issparse(X):
        raise ValueError("--missing impute fills the cells of a dense table of samples; this is none.")
    if not np.isnan(X).any():
        return loaded.table
    with noted(err):
        filled = impute(
            X, options["n_components"], center=options["center"], scale=options["scale"], names=loaded.names
        )
    note(err, [filled.note])
    return replace(loaded.table, X=filled.X)


def _print(console: Console, comparison: "Comparison", title: str) -> None:
    """The table of figures, and below it what there is to say about single methods."""
    say(console, title)
    asked = [head for head in _HEADS if head != "violation" or any(entry.violation >= 0 for entry in comparison)]
    columns = [Column(head, justify="left" if head in _TEXT else "right", no_wrap=True) for head in asked]
    rows = [[cell for head, cell in zip(_HEADS, _cells(entry), strict=True) if head in asked] for entry in comparison]
    if sum(2 + max(map(len, cells)) for cells in zip(asked, *rows, strict=True)) <= console.width:
        print_rows(console, columns, rows, padding=(0, 1, 0, 0))
    else:  # too narrow for columns
        for method, *cells in rows:
            said = ", ".join(f"{head} {cell.replace(' ', '')}" for head, cell in zip(asked[1:], cells, strict=True))
            console.print(Text(f"{method}: {said}"))
    for entry in comparison:
        if entry.note:
            say(console, f"{entry.method}: {entry.note}")


def _cells(entry: "Entry") -> list[str]:
    """One line of the printed table; dashes where a method did not run."""
    if entry.model is None:
        return [entry.method, *("–" for _ in _HEADS[1:])]
    counts, same = entry.cardinality, len(set(entry.cardinality)) == 1 < len(entry.cardinality)
    return [
        entry.method,
        f"{100 * entry.variance:.2f} %",
        f"{100 * entry.adjusted_variance:.2f} %",
        f"{100 * entry.share_of_pca:.1f} %",
        f"{entry.violation:.1g}",
        f"{len(counts)} × {counts[0]}" if same else "-".join(map(str, counts)),
        f"{entry.seconds:.2g}",
        "–" if math.isnan(entry.passes) else f"{entry.passes:.0f}",
    ]
