"""``gpower demo``: two tables that come with the package, fitted, printed and drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gpower.cli.app import app
from gpower.cli.console import fitted, made, manners, say
from gpower.report import print_components, variable_names

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table

_PITPROPS_CARDINALITY = [7, 4, 4, 1, 1, 1]  # the choice of the literature


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the two pictures.")] = Path(
        "gpower-demo"
    ),
) -> None:
    """Sparse components of two small tables that come with the package, printed and drawn."""
    console, err = Console(), Console(stderr=True)
    with manners(err):
        from gpower.datasets import Table, load_pitprops, load_planted_expression

        folder = made(output)
        pitprops = load_pitprops()
        table = Table(pitprops.correlation, pitprops.feature_names)
        title = f"Pitprops: correlations of 13 measurements on {pitprops.n_samples} pit props (Jeffers 1967)"
        _show_example(console, err, table, _PITPROPS_CARDINALITY, "precomputed", title, folder / "pitprops.png")

        expression = load_planted_expression()
        table = Table(expression.X, expression.feature_names, expression.sample_names)
        title = "Expression: 60 samples × 150 genes, made up, with modules of 8, 6 and 5 genes planted in noise"
        model = _show_example(console, err, table, [8, 6, 5], None, title, folder / "expression.png")
        for j, (module, genes) in enumerate(expression.modules.items()):
            found = set(model.loadings(expression.feature_names)[j])
            say(console, f"Component {j + 1} found {len(found & set(genes))} of the {len(genes)} {module} genes.")


def _show_example(
    console: Console,
    err: Console,
    table: "Table",
    cardinality: list[int],
    covariance: str | None,
    title: str,
    picture: Path,
) -> "GPower":
    """Fit, print and draw one bundled table."""
    options = {"n_components": len(cardinality), "cardinality": cardinality, "covariance": covariance}
    model, _ = fitted(table, options, err)
    print_components(console, model, variable_names(table), title)
    from gpower.plotting import write_picture

    try:
        write_picture(model, variable_names(table), picture)
    except ImportError as error:
        say(err, f"note: no picture. {error}")
    else:
        say(console, f"Picture: {picture}\n")
    return model
