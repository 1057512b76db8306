"""``gpower demo``: sparse components of two bundled tables, printed and drawn, and a report of one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpower
from gpower.cli.app import command
from gpower.cli.commands.fit import fit_model
from gpower.cli.console import OutputSink
from gpower.cli.shared_flags import OptionValues
from gpower.cli.tables import InputTable
from gpower.report.terminal import print_components

_PITPROPS_CARDINALITY = [7, 4, 4, 1, 1, 1]  # as in the literature


@command(("pitprops.png", "expression.png", "report.html"))
def demo(sink: OutputSink, *, output: Path = Path("gpower-demo")) -> None:
    """Fit two small tables that come with the package: print and draw their components, and write a report.

    Parameters
    ----------
    output : folder
        Folder of the two pictures and the report.
    """
    from gpower.datasets import Table, load_pitprops, load_planted_expression

    pitprops, expression = load_pitprops(), load_planted_expression()
    title = f"Pitprops: correlations of 13 measurements on {pitprops.n_samples} pit props (Jeffers 1967)"
    correlations = InputTable(Table(pitprops.correlation, pitprops.feature_names), output / "pitprops.png", True)
    _fit_and_show(sink, correlations, _PITPROPS_CARDINALITY, title)
    title = "Expression: 60 samples × 150 genes, made up, with modules of 8, 6 and 5 genes planted in noise"
    names: OptionValues = {"sample_names": expression.sample_names, "feature_names": expression.feature_names}
    model = _fit_and_show(sink, InputTable(Table(expression.X, **names), output / "expression.png"), [8, 6, 5], title)
    for j, (module, genes) in enumerate(expression.modules.items()):
        n_found = len(set(genes).intersection(model.loadings(expression.feature_names)[j]))
        sink.print_message(f"Component {j + 1} found {n_found} of the {len(genes)} {module} genes.")
    file = output / "report.html"
    with _print_if_missing(sink, "no report"):
        frame = Table(expression.X, **names).to_frame_or_array()
        gpower.html_report(model, frame, file, **names, title="Expression, made up")
        sink.print_message(f"\nReport: {file}, a page to explore; open it in any browser: {file.resolve().as_uri()}")


@contextmanager
def _print_if_missing(sink: OutputSink, what: str) -> Iterator[None]:
    """Print a note that something is not made if a package for it is missing."""
    try:
        yield
    except ImportError as error:
        sink.print_notes(f"{what}. {error}")


def _fit_and_show(sink: OutputSink, input_table: InputTable, cardinality: list[int], title: str) -> "gpower.GPower":
    """Fit a table, print and draw the components, and return the model."""
    from gpower.plotting import plot_loadings, save_figure

    covariance = "precomputed" if input_table.is_covariance else None
    options = {"n_components": len(cardinality), "cardinality": cardinality, "covariance": covariance}
    model, _ = fit_model(input_table, options, {}, sink)
    sink.print_result(dict, lambda console: print_components(console, model, input_table.feature_names, title))
    with _print_if_missing(sink, "no picture"):
        save_figure(plot_loadings(model, input_table.feature_names), input_table.path)
        sink.print_message(f"Picture: {input_table.path}\n")
    return model
