"""``gpower components``: how many components are more than chance."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column

from gpower.cli.app import command
from gpower.cli.console import answering, counted, note, noted
from gpower.cli.flags import changed, flags_of
from gpower.cli.options import GPOWER, READING, TYPED, Values
from gpower.cli.tables import load
from gpower.cli.variable_files import read_column, read_names
from gpower.report.terminal import print_rows, say, write_columns

if TYPE_CHECKING:
    from gpower import ComponentTest

FURTHER = (
    *("cardinality", "gamma", "penalty", "positive", "center", "scale", "missing", "deflation"),
    *("groups", "include", "exclude", "penalty_weights", "budget", "memory_limit"),
)
_COUNT = {"help": "The most components to look for."}
_OPTIONS = changed(
    flags_of("gpower", "component_test", like=GPOWER) | {name: GPOWER[name] for name in FURTHER},
    n_components=_COUNT,
    cardinality=TYPED,
)


@command(reading=READING, options=_OPTIONS)
def components(
    data: Path,
    *,
    reading: Values,
    options: Values,
    output: Path | None = None,
    plot: Path | None = None,
    as_json: bool = False,
) -> None:
    """How many components are more than chance: gpower components genes.csv -k 20

    Parameters
    ----------
    data : path
    output : folder, optional
        Write components.csv into this folder.
    plot : path, optional
        Draw the variances beside chance into this .png, .pdf or .svg.
    as_json : bool
        Print the figures as JSON.
    """
    with answering(output, plot, as_json) as answer:
        from gpower import component_test

        read_column(options, reading, data)
        loaded = load(data, reading, options | {"covariance": None}, answer.err)
        read_names(options, loaded.names)
        n_features = loaded.table.X.shape[1]
        options["n_components"] = min(options["n_components"], *loaded.table.X.shape)
        with noted(answer.err), counted(answer.err, f"permuting {n_features} variables") as tell:
            test = component_test(loaded.table.labelled(), **options, progress=tell)
        note(answer.err, test.chance.notes)
        answer.give(
            lambda: test.columns() | {"n_components": test.n_components, "n_components_pca": test.n_components_pca},
            lambda console: _print(console, test, loaded.title),
        )
        answer.write(lambda folder: [write_columns(folder / "components.csv", test.columns())])
        answer.draw(test.plot)


def _print(console: Console, test: "ComponentTest", title: str) -> None:
    """A line per component that was tested, and the numbers below."""
    say(console, title)
    heads = ("component", "% of variance", "by chance", "p", "PCA", "Horn")
    unit = 100 / test.total_variance
    rows = [
        [f"{component}", *(f"{unit * value:.3g}" for value in (variance, chance)), f"{p:.2g}"]
        + [f"{unit * value:.3g}" for value in (pca, horn)]
        for component, variance, chance, p, pca, horn in zip(*test.columns().values(), strict=True)
    ][: test.n_tested]
    print_rows(console, [Column(head, justify="right") for head in heads], rows)
    made = test.permuted_variance.shape[0]
    say(console, f"{test.n_components} at the level {test.level:g}, by up to {made} permuted tables;")
    say(console, f"{test.n_components_pca} ordinary components above Horn's line.")
