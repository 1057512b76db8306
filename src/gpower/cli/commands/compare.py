"""``gpower compare``: several methods on one table, with the same numbers of variables."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import gpower
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.shared_flags import GPOWER_FLAGS, READ_TABLE_FLAGS, FlagGroups, OptionValues
from gpower.cli.tables import load_table
from gpower.report.terminal import format_fixed_percent, print_line, print_rows, write_csv_file

if TYPE_CHECKING:
    from gpower.baselines.comparison import Comparison, ComparisonEntry
    from gpower.datasets import Table

_COMPARISON_LEGEND = (
    "variance: the sum of what each component explains alone; adjusted: what they explain together, as in gpower fit"
)
_COMPARE_FLAGS = override_flags(
    read_library_flags("gpower", "compare") | {"missing": GPOWER_FLAGS["missing"]},
    n_components={"default": None, "help": "Number of components; by default the length of the list -k, or 2."},
    cardinality={"help": "Variables in each component: one number, or one each, as 20,10."},
    refit={
        "long": "--refit/--no-refit",
        "help": "Recompute the loadings of the other methods for the variables that they chose, to maximise variance.",
    },
)


@command(("comparison.csv",), "the comparison", has_json=True, reading=READ_TABLE_FLAGS, options=_COMPARE_FLAGS)
def compare(sink: OutputSink, flags: FlagGroups, data: Path) -> None:
    """Compare sparse PCA methods on a table: gpower compare genes.csv -m 5 -k 20

    Parameters
    ----------
    data : path
    """
    options = flags.options
    loaded = load_table(data, flags.reading, options, sink)
    table = _fill_missing(loaded.table, options, sink)
    with sink.print_warnings(), sink.show_task(f"comparing on {data.name}") as show_method:
        comparison = gpower.compare(table.to_frame_or_array(), **options, callback=show_method)
    sink.print_notes(*dict.fromkeys(note for entry in comparison if entry.model for note in entry.model.notes_))
    sink.print_result(
        lambda: [entry.to_record() | {"cardinality": entry.cardinality} for entry in comparison],
        lambda console: _print_comparison(console, comparison, loaded.title),
    )
    sink.write_files(lambda folder: [write_csv_file(folder / "comparison.csv", comparison.columns())])
    sink.save_plot(comparison.plot)


def _fill_missing(table: "Table", options: OptionValues, sink: OutputSink) -> "Table":
    """Return the table, with --missing impute its missing cells estimated as by fit, once for all methods."""
    from gpower.validation.prepare import read_estimator_input

    data_params = {name: options[name] for name in ("n_components", "center", "scale", "covariance")}
    model = gpower.GPower(**data_params, missing=options.pop("missing"))
    with sink.print_warnings():
        filled = read_estimator_input(model, table.to_frame_or_array()).fill_missing()
    sink.print_notes(*filled.preprocessing_notes)
    return replace(table, X=filled.X) if filled.preprocessing_notes else table


def _print_comparison(console: Console, comparison: "Comparison", title: str) -> None:
    """Print the table of the figures, and below it the notes on single methods and the methods that did not run."""
    print_line(console, title)
    compared = [entry for entry in comparison if entry.model is not None]
    rows = [_format_entry(entry) for entry in compared]
    if not any(entry.violation >= 0 for entry in comparison):
        rows = [{head: cell for head, cell in row.items() if head != "violation"} for row in rows]
    widths = [max(len(head), *(len(row[head]) for row in rows)) for head in rows[0]]
    if sum(widths) + 2 * len(widths) <= console.width:
        print_rows(console, rows[0], (row.values() for row in rows), left=("method", "variables"), gap=1)
    else:  # too narrow for columns
        for (_, method), *figures in map(dict.items, rows):
            text = ", ".join(f"{head} {figure.replace(' ', '')}" for head, figure in figures)
            console.print(Text(f"{method}: {text}"))
    print_line(console, _COMPARISON_LEGEND)
    for note, methods in _list_methods_by_note(compared).items():
        print_line(console, f"{methods}: {note}")
    left_out = _list_methods_by_note([entry for entry in comparison if entry.model is None])
    if left_out:
        reasons = "; ".join(f"{methods} ({note.rstrip('.')})" for note, methods in left_out.items())
        print_line(console, f"Left out: {reasons}.")


def _list_methods_by_note(entries: Sequence["ComparisonEntry"]) -> dict[str, str]:
    """Return the names of the methods that have the same note, by note."""
    notes = dict.fromkeys(entry.note for entry in entries if entry.note)
    return {note: ", ".join(entry.method for entry in entries if entry.note == note) for note in notes}


def _format_entry(entry: "ComparisonEntry") -> dict[str, str]:
    """Return the cells of a row of the printed table, by heading."""
    counts = entry.cardinality
    all_equal = len(set(counts)) == 1 < len(counts)
    return {
        "method": entry.method,
        "variance": f"{format_fixed_percent(entry.variance)} %",
        "adjusted": f"{format_fixed_percent(entry.adjusted_variance)} %",
        "of PCA": f"{format_fixed_percent(entry.share_of_pca, 1)} %",
        "violation": f"{entry.violation:.3g}",
        "variables": f"{len(counts)} × {counts[0]}" if all_equal else "-".join(map(str, counts)),
        "s": f"{entry.seconds:.2f}",
        "passes": "–" if math.isnan(entry.passes) else f"{entry.passes:.0f}",
    }
