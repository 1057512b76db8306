"""``gpower components``: a permutation test of the number of components."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column

from gpower.cli.app import command
from gpower.cli.console import command_context, print_notes, show_progress_bar, warnings_to_stderr
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.options import CARDINALITY_OVERRIDE, GPOWER_FLAGS, READ_TABLE_FLAGS, OptionValues
from gpower.cli.tables import load_table
from gpower.cli.variable_files import read_groups_column, resolve_variable_options
from gpower.report.terminal import print_line, print_rows, write_csv_file

if TYPE_CHECKING:
    from gpower import ComponentTest

COMPONENT_TEST_PARAMS = (
    *("cardinality", "gamma", "penalty", "positive", "center", "scale", "missing", "deflation"),
    *("groups", "include", "exclude", "penalty_weights", "budget", "memory_limit"),
)
_MAX_COMPONENTS_OVERRIDE = {"help": "Largest number of components to test."}
_COMPONENTS_FLAGS = override_flags(
    read_library_flags("gpower", "component_test", fallback_flags=GPOWER_FLAGS)
    | {name: GPOWER_FLAGS[name] for name in COMPONENT_TEST_PARAMS},
    n_components=_MAX_COMPONENTS_OVERRIDE,
    cardinality=CARDINALITY_OVERRIDE,
)


@command(reading=READ_TABLE_FLAGS, options=_COMPONENTS_FLAGS)
def components(
    data: Path,
    *,
    reading: OptionValues,
    options: OptionValues,
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
    with command_context(output, plot, as_json) as sink:
        from gpower import component_test

        read_groups_column(options, reading, data)
        loaded = load_table(data, reading, options | {"covariance": None}, sink.err_console)
        resolve_variable_options(options, loaded.feature_names)
        n_features = loaded.table.X.shape[1]
        options["n_components"] = min(options["n_components"], *loaded.table.X.shape)
        with (
            warnings_to_stderr(sink.err_console),
            show_progress_bar(sink.err_console, f"permuting {n_features} variables") as update,
        ):
            test = component_test(loaded.table.to_frame_or_array(), **options, progress=update)
        print_notes(sink.err_console, test.null_distribution.notes)
        sink.print_result(
            lambda: test.columns() | {"n_components": test.n_components, "n_components_pca": test.n_components_pca},
            lambda console: _print_component_test(console, test, loaded.title),
        )
        sink.write_files(lambda folder: [write_csv_file(folder / "components.csv", test.columns())])
        sink.save_plot(test.plot)


def _print_component_test(console: Console, test: "ComponentTest", title: str) -> None:
    """Print a row for each component tested, and the numbers of components below."""
    print_line(console, title)
    headings = ("component", "% of variance", "by chance", "p", "PCA", "Horn")
    percent = 100 / (test.total_variance or 1.0)  # a constant table has no variance
    rows = [
        [f"{component}", *(f"{percent * value:.3g}" for value in (variance, chance)), f"{p:.2g}"]
        + [f"{percent * value:.3g}" for value in (pca, horn)]
        for component, variance, chance, p, pca, horn in zip(*test.columns().values(), strict=True)
    ][: test.n_tested]
    print_rows(console, [Column(head, justify="right") for head in headings], rows)
    n_permutations = test.permuted_variance.shape[0]
    print_line(console, f"{test.n_components} at the level {test.level:g}, by up to {n_permutations} permuted tables;")
    print_line(console, f"{test.n_components_pca} ordinary components above Horn's line.")
