"""``gpower components``: a permutation test of the number of components."""

from pathlib import Path

from rich.console import Console

import gpower
from gpower._utils.text import format_count, format_percent
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.flags import override_flags, read_library_flags
from gpower.cli.sample_metadata import METADATA_FLAGS, add_metadata
from gpower.cli.shared_flags import GPOWER_FLAGS, READ_TABLE_FLAGS, FlagGroups
from gpower.cli.tables import load_table
from gpower.report.terminal import print_line, print_rows, write_csv_file

COMPONENT_TEST_PARAMS = (
    *("cardinality", "gamma", "penalty", "positive", "center", "scale", "missing", "balance", "deflation"),
    *("groups", "include", "exclude", "penalty_weights", "budget", "memory_limit"),
)
_COMPONENTS_FLAGS = override_flags(
    read_library_flags("gpower", "component_test") | {name: GPOWER_FLAGS[name] for name in COMPONENT_TEST_PARAMS},
    n_components={"long": "--max", "help": "Largest number of components to test."},
    cardinality={
        "help": "Variables in each component: one number, one each, as 20,10,5, or a share of the variance, as 90%."
    },
)


@command(
    ("components.csv",),
    "the variances and those of permuted tables",
    has_json=True,
    reading=READ_TABLE_FLAGS,
    metadata=METADATA_FLAGS,
    options=_COMPONENTS_FLAGS,
)
def components(sink: OutputSink, flags: FlagGroups, data: Path) -> None:
    """Test how many components explain more than chance: gpower components genes.csv -k 20

    Parameters
    ----------
    data : path
    """
    loaded = add_metadata(load_table(data, flags.reading, flags.options, sink), flags.metadata, sink)
    flags.options["n_components"] = min(flags.options["n_components"], *loaded.table.X.shape)
    with sink.print_warnings(), sink.show_progress_bar(f"permuting {loaded.table.X.shape[1]} variables") as update:
        X = loaded.table.to_frame_or_array()
        test = gpower.component_test(X, **flags.options, **loaded.removed, progress=update)
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
    n_permutations, n_fitted = test.permuted_variance.shape
    evidence = f"more than chance at the level {test.level:g}, by up to {n_permutations} permuted tables"
    if test.n_components == n_fitted:
        advice = f"there may be more: test them with --max {2 * n_fitted}"
        answer = f"All {n_fitted} components that were tested explain {evidence}; {advice}."
    else:
        verb = "explains" if test.n_components == 1 else "explain"
        answer = f"{format_count(test.n_components, 'component')} {verb} {evidence}.\n"
        answer += "The tests stop at the first that fails: later ones have no smaller p, whatever they explain."
    ordinary = f"{format_count(test.n_components_pca, 'ordinary component')} (PCA) above Horn's line"
    for line in (
        "Variances are of quick fits, as for permuted tables; those of gpower fit differ.",
        answer,
        "Take the number as an upper limit: a component beyond chance need not matter.",
        f"{ordinary}, the mean of those of permuted tables.",
    ):
        print_line(console, line)
