"""``gpower compare``: all methods on a table, with the same number of variables."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column
from rich.text import Text

from gpower.cli.app import command
from gpower.cli.console import command_context, print_notes, show_progress, warnings_to_stderr
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.options import GPOWER_FLAGS, N_COMPONENTS_OVERRIDE, READ_TABLE_FLAGS, OptionValues, infer_n_components
from gpower.cli.tables import InputTable, load_table
from gpower.report.terminal import print_line, print_rows, write_csv_file

if TYPE_CHECKING:
    from gpower.baselines.comparison import Comparison, ComparisonEntry
    from gpower.datasets import Table

_COMPARISON_HEADINGS = ("method", "variance", "adjusted", "of PCA", "violation", "variables", "s", "passes")
_COMPARISON_TEXT_HEADINGS = ("method", "variables")
_COMPARE_CARDINALITY_OVERRIDE = {
    "default": None,
    "help": "Variables in each component: one number, or one per component, as 20,10,5. Required.",
}
_COMPARE_FLAGS = override_flags(
    read_library_flags("gpower", "compare", fallback_flags=GPOWER_FLAGS) | {"missing": GPOWER_FLAGS["missing"]},
    n_components=N_COMPONENTS_OVERRIDE,
    cardinality=_COMPARE_CARDINALITY_OVERRIDE,
    refit={"long": "--refit/--no-refit"},
)


@command(reading=READ_TABLE_FLAGS, options=_COMPARE_FLAGS)
def compare(
    data: Path,
    *,
    reading: OptionValues,
    options: OptionValues,
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
    with command_context(output, plot, as_json, input_paths=(data,)) as answer:
        from gpower import compare as compare_methods

        if options["cardinality"] is None:
            raise ValueError("Say how many variables a component may have: -k 20, or one number each, -k 20,10,5.")
        infer_n_components(options)
        loaded = load_table(data, reading, options, answer.err_console)
        table = _impute_table(loaded, options, answer.err_console)
        with warnings_to_stderr(answer.err_console), show_progress(answer.err_console, f"comparing on {data.name}"):
            comparison = compare_methods(table.to_frame_or_array(), **options)
        print_notes(
            answer.err_console,
            dict.fromkeys(line for entry in comparison if entry.model for line in entry.model.notes_),
        )
        answer.print_result(
            lambda: [entry.to_record() | {"cardinality": entry.cardinality} for entry in comparison],
            lambda console: _print_comparison(console, comparison, loaded.title),
        )
        answer.write_files(lambda folder: [write_csv_file(folder / "comparison.csv", comparison.columns())])
        answer.save_plot(comparison.plot)


def _impute_table(input_table: InputTable, options: OptionValues, err_console: Console) -> "Table":
    """The table, its missing cells estimated once where that is asked for, so that all methods see the same numbers."""
    import numpy as np
    from scipy.sparse import issparse

    from gpower.validation.imputation import impute
    from gpower.validation.params import check_option

    X = input_table.table.X
    if check_option(options.pop("missing"), "missing", ("error", "impute")) == "error":
        return input_table.table
    if input_table.is_covariance or input_table.storage != "memory" or issparse(X):
        raise ValueError("--missing impute fills the cells of a dense table of samples; this is none.")
    if not np.isnan(X).any():
        return input_table.table
    with warnings_to_stderr(err_console):
        filled = impute(
            X,
            options["n_components"],
            center=options["center"],
            scale=options["scale"],
            names=input_table.feature_names,
        )
    print_notes(err_console, [filled.note])
    return replace(input_table.table, X=filled.X)


def _print_comparison(console: Console, comparison: "Comparison", title: str) -> None:
    """The table of figures, and below it what there is to say about single methods."""
    print_line(console, title)
    asked = [
        head
        for head in _COMPARISON_HEADINGS
        if head != "violation" or any(entry.violation >= 0 for entry in comparison)
    ]
    columns = [
        Column(head, justify="left" if head in _COMPARISON_TEXT_HEADINGS else "right", no_wrap=True) for head in asked
    ]
    rows = [
        [cell for head, cell in zip(_COMPARISON_HEADINGS, _format_entry_cells(entry), strict=True) if head in asked]
        for entry in comparison
    ]
    if sum(2 + max(map(len, cells)) for cells in zip(asked, *rows, strict=True)) <= console.width:
        print_rows(console, columns, rows, padding=(0, 1, 0, 0))
    else:  # too narrow for columns
        for method, *cells in rows:
            said = ", ".join(f"{head} {cell.replace(' ', '')}" for head, cell in zip(asked[1:], cells, strict=True))
            console.print(Text(f"{method}: {said}"))
    for entry in comparison:
        if entry.note:
            print_line(console, f"{entry.method}: {entry.note}")


def _format_entry_cells(entry: "ComparisonEntry") -> list[str]:
    """One line of the printed table; dashes where a method did not run."""
    if entry.model is None:
        return [entry.method, *("–" for _ in _COMPARISON_HEADINGS[1:])]
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
