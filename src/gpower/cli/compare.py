"""``gpower compare``: all methods on a table, with the same number of variables."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column

from gpower.cli.app import command
from gpower.cli.console import answering, noted, progress, say
from gpower.cli.flags import flags_of
from gpower.cli.options import COUNTED, GPOWER, READING, Values, count_components
from gpower.cli.tables import Loaded, load
from gpower.report import print_rows, write_columns

if TYPE_CHECKING:
    from gpower.comparison import Comparison, Entry

__all__ = ["compare"]

_HEADS = ("method", "variance", "adjusted", "of PCA", "variables", "s", "passes")
_COMPARE = flags_of("gpower", "compare", like=GPOWER)
_OPTIONS = (_COMPARE | COUNTED) | {
    "cardinality": replace(
        _COMPARE["cardinality"],
        default=None,
        help="Variables in each component: one number, or one per component, as 20,10,5. Required.",
    ),
    "methods": replace(_COMPARE["methods"], help="Methods to compare, as gpower-l0,spca,greedy; by default all."),
    "refit": replace(_COMPARE["refit"], long="--refit/--no-refit"),
    "missing": GPOWER["missing"],
}


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
    with answering(output, plot, as_json) as answer:
        if options["cardinality"] is None:
            raise ValueError("Say how many variables a component may have: -k 20, or one number each, -k 20,10,5.")
        count_components(options)
        loaded = load(data, reading, options, answer.err)
        comparison = _compared(loaded, options, answer.err)
        answer.give(
            lambda: [entry.record() | {"cardinality": entry.cardinality} for entry in comparison],
            lambda console: _print(console, comparison, loaded.title),
        )
        answer.write(lambda folder: [write_columns(folder / "comparison.csv", comparison.columns())])
        answer.draw(comparison.plot)


def _compared(loaded: Loaded, options: Values, err: Console) -> "Comparison":
    """The methods on the table; missing cells are estimated once, so that all of them see the same numbers."""
    from gpower.comparison import compare as compare_methods
    from gpower.parameters import one_of

    missing = one_of(options.pop("missing"), "missing", ("error", "impute"))
    table = (_filled(loaded, options, err) if missing == "impute" else loaded).table
    with progress(err, f"comparing on {loaded.path.name}"):
        return compare_methods(table.labelled(), **options)


def _filled(loaded: Loaded, options: Values, err: Console) -> Loaded:
    """The table with its missing cells estimated."""
    import numpy as np
    from scipy.sparse import issparse

    from gpower.imputation import impute

    X = loaded.table.X
    if loaded.covariance or loaded.where != "memory" or issparse(X):
        raise ValueError("--missing impute fills the cells of a dense table of samples; this is none.")
    if not np.isnan(X).any():
        return loaded
    with noted(err):
        filled = impute(X, options["n_components"], center=options["center"], scale=options["scale"])
    return loaded.with_numbers(filled.X)


def _print(console: Console, comparison: "Comparison", title: str) -> None:
    """The table of figures, and below it what there is to say about single methods."""
    say(console, title)
    left = ("method", "variables")
    columns = [Column(head, justify="left" if head in left else "right", overflow="fold") for head in _HEADS]
    print_rows(console, columns, map(_cells, comparison), padding=(0, 1, 0, 0))
    for entry in comparison:
        if entry.note:
            say(console, f"{entry.method}: {entry.note}")


def _cells(entry: "Entry") -> list[str]:
    """One line of the printed table; dashes where a method did not run."""
    if entry.model is None:
        return [entry.method, *("–" for _ in _HEADS[1:])]
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
