"""``gpower demo``: two tables that come with the package, fitted, printed, drawn, and one of them as a page."""

from pathlib import Path
from typing import TYPE_CHECKING

from gpower.cli.app import command
from gpower.cli.commands.fit import fitted
from gpower.cli.console import Answer, answering, note
from gpower.cli.options import Values
from gpower.cli.tables import Loaded
from gpower.report.terminal import print_components

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table

_PITPROPS_CARDINALITY = [7, 4, 4, 1, 1, 1]  # the choice of the literature


@command()
def demo(*, output: Path = Path("gpower-demo")) -> None:
    """Sparse components of two small tables that come with the package, printed and drawn, with a report.

    Parameters
    ----------
    output : folder
        Folder for the two pictures and the report.
    """
    with answering(output) as answer:
        from gpower.datasets import Table, load_pitprops, load_planted_expression

        pitprops = load_pitprops()
        table = Table(pitprops.correlation, pitprops.feature_names)
        title = f"Pitprops: correlations of 13 measurements on {pitprops.n_samples} pit props (Jeffers 1967)"
        _show(answer, Loaded(table, output / "pitprops.png", covariance=True), _PITPROPS_CARDINALITY, title)

        expression = load_planted_expression()
        table = Table(expression.X, expression.feature_names, expression.sample_names)
        title = "Expression: 60 samples × 150 genes, made up, with modules of 8, 6 and 5 genes planted in noise"
        model = _show(answer, Loaded(table, output / "expression.png"), [8, 6, 5], title)
        for j, (module, genes) in enumerate(expression.modules.items()):
            found = set(model.loadings(expression.feature_names)[j])
            answer.tell(f"Component {j + 1} found {len(found & set(genes))} of the {len(genes)} {module} genes.")
        _report(answer, model, table, output / "report.html")


def _report(answer: Answer, model: "GPower", table: "Table", file: Path) -> None:
    """Write the page of a model, and say how to open it."""
    from gpower import html_report

    names: Values = {"sample_names": table.sample_names, "feature_names": table.feature_names}
    try:
        html_report(model, table.labelled(), file, **names, title="Expression, made up")
    except ImportError as error:
        note(answer.err, [f"no report. {error}"])
    else:
        answer.tell(f"\nReport: {file}, a page to explore; open it in any browser: {file.resolve().as_uri()}")


def _show(answer: Answer, loaded: Loaded, cardinality: list[int], title: str) -> "GPower":
    """Fit, print and draw one bundled table."""
    from gpower.plotting import plot_loadings, save_picture

    covariance = "precomputed" if loaded.covariance else None
    options = {"n_components": len(cardinality), "cardinality": cardinality, "covariance": covariance}
    model, _ = fitted(loaded, options, answer.err)
    print_components(answer.console, model, loaded.names, title)
    try:
        save_picture(plot_loadings(model, loaded.names), loaded.path)
    except ImportError as error:
        note(answer.err, [f"no picture. {error}"])
    else:
        answer.tell(f"Picture: {loaded.path}\n")
    return model
