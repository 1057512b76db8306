"""``gpower components``: a permutation test of the number of components."""

from pathlib import Path

from rich.console import Console

import gpower
from gpower._utils.text import format_count, format_percent
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.sample_metadata import METADATA_FLAGS, read_sample_metadata
from gpower.cli.shared_flags import CARDINALITY_OVERRIDE, GPOWER_FLAGS, READ_TABLE_FLAGS, FlagGroups
from gpower.cli.tables import load_table
from gpower.report.terminal import print_line, print_rows, write_csv_file

COMPONENT_TEST_PARAMS = (
    *("cardinality", "gamma", "penalty", "positive", "center", "scale", "missing", "balance", "deflation"),
    *("groups", "include", "exclude", "penalty_weights", "budget", "memory_limit"),
)
_MAX_COMPONENTS_OVERRIDE = {"long": "--max", "help": "Largest number of components to test."}
_COMPONENTS_FLAGS = override_flags(
    read_library_flags("gpower", "component_test", fallback_flags=GPOWER_FLAGS)
    | {name: GPOWER_FLAGS[name] for name in COMPONENT_TEST_PARAMS},
    n_components=_MAX_COMPONENTS_OVERRIDE,
    cardinality=CARDINALITY_OVERRIDE,
)


@command(reading=READ_TABLE_FLAGS, metadata=METADATA_FLAGS, options=_COMPONENTS_FLAGS)
def components(
    sink: OutputSink,
    flags: FlagGroups,
    data: Path,
    *,
    output: Path | None = None,
    plot: Path | None = None,
    as_json: bool = False,
) -> None:
    """Test how many components explain more than chance: gpower components genes.csv -k 20

    Parameters
    ----------
    data : path
    output : folder, optional
        Write components.csv into this folder.
    plot : path, optional
        Draw the variances and those of permuted tables into this .png, .pdf or .svg.
    as_json : bool
        Print the figures as JSON.
    """
    loaded = load_table(data, flags, sink)
    removed = read_sample_metadata(loaded, flags.metadata, sink).removed
    flags.options["n_components"] = min(flags.options["n_components"], *loaded.table.X.shape)
    with sink.print_warnings(), sink.show_progress_bar(f"permuting {loaded.table.X.shape[1]} variables") as update:
        test = gpower.component_test(loaded.table.to_frame_or_array(), **flags.options, **removed, progress=update)
    sink.print_notes(*test.notes)
    sink.print_result(
        lambda: test.columns() | {"n_components": test.n_components, "n_components_pca": test.n_components_pca},
        lambda console: _print_component_test(console, test, loaded.title),
    )
    sink.write_files(lambda folder: [write_csv_file(folder / "components.csv", test.columns())])
    sink.save_plot(test.plot)


def _print_component_test(console: Console, test: "gpower.ComponentTest", title: str) -> None:
    """Print a row for each component tested, and the numbers of components below."""
    import numpy as np

    counts = np.unique(np.count_nonzero(test.loadings, axis=0))
    print_line(console, f"{title}, components of {format_count(counts[0], 'variable')}" if counts.size == 1 else title)
    headings = ("component", "% of variance", "by chance", "p", "PCA", "Horn")

    def format_plain(value: float) -> str:
        return format_percent(value / (test.total_variance or 1.0)).removesuffix(" %")

    rows = [
        [f"{component}", *map(format_plain, (variance, chance)), f"{p:.2g}", *map(format_plain, (pca, horn))]
        for component, variance, chance, p, pca, horn in zip(*test.columns().values(), strict=True)
    ][: test.n_tested]
    print_rows(console, headings, rows, wrapped=headings)
    print_line(console, "Variances are of quick fits, as for permuted tables; those of gpower fit differ.")
    n_permutations, n_fitted = test.permuted_variance.shape
    evidence = f"more than chance at the level {test.level:g}, by up to {n_permutations} permuted tables"
    if test.n_components == n_fitted:
        advice = f"there may be more: test them with --max {2 * n_fitted}"
        print_line(console, f"All {n_fitted} components that were tested explain {evidence}; {advice}.")
    else:
        verb = "explains" if test.n_components == 1 else "explain"
        print_line(console, f"{format_count(test.n_components, 'component')} {verb} {evidence}.")
        print_line(
            console, "The tests stop at the first that fails: later ones have no smaller p, whatever they explain."
        )
    print_line(console, "Take the number as an upper limit: a component beyond chance need not matter.")
    horn = "mean of those of permuted tables"
    print_line(
        console, f"{format_count(test.n_components_pca, 'ordinary component')} (PCA) above Horn's line, the {horn}."
    )
