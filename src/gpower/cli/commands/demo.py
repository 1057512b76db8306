"""``gpower demo``: sparse components of two bundled tables, printed and drawn, and a report of one of them."""

from pathlib import Path
from typing import TYPE_CHECKING

from gpower.cli.app import command
from gpower.cli.commands.fit import fit_model
from gpower.cli.console import OutputSink
from gpower.cli.options import OptionValues
from gpower.cli.tables import InputTable
from gpower.report.terminal import print_components

if TYPE_CHECKING:
    from gpower import GPower
    from gpower.datasets import Table

_PITPROPS_CARDINALITY = [7, 4, 4, 1, 1, 1]  # as in the literature


@command()
def demo(sink: OutputSink, *, output: Path = Path("gpower-demo")) -> None:
    """Fit two small tables that come with the package: print and draw their components, and write a report.

    Parameters
    ----------
    output : folder
        Folder of the two pictures and the report.
    """
    from gpower.datasets import Table, load_pitprops, load_planted_expression

    pitprops = load_pitprops()
    table = Table(pitprops.correlation, pitprops.feature_names)
    title = f"Pitprops: correlations of 13 measurements on {pitprops.n_samples} pit props (Jeffers 1967)"
    _fit_and_show(sink, InputTable(table, output / "pitprops.png", is_covariance=True), _PITPROPS_CARDINALITY, title)

    expression = load_planted_expression()
    table = Table(expression.X, expression.feature_names, expression.sample_names)
    title = "Expression: 60 samples × 150 genes, made up, with modules of 8, 6 and 5 genes planted in noise"
    model = _fit_and_show(sink, InputTable(table, output / "expression.png"), [8, 6, 5], title)
    for j, (module, genes) in enumerate(expression.modules.items()):
        support = set(model.loadings(expression.feature_names)[j])
        n_found = len(support & set(genes))
        sink.print_message(f"Component {j + 1} found {n_found} of the {len(genes)} {module} genes.")
    _write_demo_report(sink, model, table, output / "report.html")


def _write_demo_report(sink: OutputSink, model: "GPower", table: "Table", file: Path) -> None:
    """Write the report of a model, and print how to open it."""
    from gpower import html_report

    names: OptionValues = {"sample_names": table.sample_names, "feature_names": table.feature_names}
    try:
        html_report(model, table.to_frame_or_array(), file, **names, title="Expression, made up")
    except ImportError as error:
        sink.print_notes(f"no report. {error}")
    else:
        sink.print_message(f"\nReport: {file}, a page to explore; open it in any browser: {file.resolve().as_uri()}")


def _fit_and_show(sink: OutputSink, input_table: InputTable, cardinality: list[int], title: str) -> "GPower":
    """Fit a table, print and draw the components, and return the model."""
    from gpower.plotting import plot_loadings, save_figure

    covariance = "precomputed" if input_table.is_covariance else None
    options = {"n_components": len(cardinality), "cardinality": cardinality, "covariance": covariance}
    model, _ = fit_model(input_table, options, sink)
    sink.print_result(dict, lambda console: print_components(console, model, input_table.feature_names, title))
    try:
        save_figure(plot_loadings(model, input_table.feature_names), input_table.path)
    except ImportError as error:
        sink.print_notes(f"no picture. {error}")
    else:
        sink.print_message(f"Picture: {input_table.path}\n")
    return model
