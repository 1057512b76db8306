"""``gpower report``: an interactive HTML page of a model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpower
from gpower.cli.app import command
from gpower.cli.commands.components import COMPONENT_TEST_PARAMS
from gpower.cli.commands.fit import CROSS_VALIDATION_FLAGS, FIT_FLAGS, fit_model, list_typed_choice_flags
from gpower.cli.console import OutputSink
from gpower.cli.flags import Flag, group_flags, override_flags, read_library_flags
from gpower.cli.models import load_model_and_table
from gpower.cli.sample_metadata import METADATA_FLAGS, add_metadata
from gpower.cli.shared_flags import READ_TABLE_FLAGS, FlagGroups, OptionValues, format_typed_flags
from gpower.cli.tables import InputTable, load_table

#: Parameters of the model that a path varies, or that are about a single fit.
_PARAMS_NOT_OF_A_PATH = (
    *("n_components", "cardinality", "gamma", "l1_bound", "budget"),
    *("certify", "checkpoint", "resume", "verbose", "warm_start"),
)
_N_CONSTRAINED_POINTS = 12  # points of a path under a constraint
_PAGE_FLAGS = override_flags(
    read_library_flags("gpower", "html_report", "title", "scores", "anonymise"),
    title={"default": None, "help": "Title of the page; by default it names the table."},
)

_RESULT_FLAGS = group_flags(
    Flag("path", "bool", False, "Also show the variance that every number of variables explains."),
    Flag("stability", "bool", False, "Also show how often each variable is chosen from 100 random halves."),
    Flag("test", "bool", False, "Also compare the components with those of permuted tables."),
)


@command(
    reading=READ_TABLE_FLAGS,
    metadata=METADATA_FLAGS,
    options=FIT_FLAGS,
    choice=CROSS_VALIDATION_FLAGS,
    page=_PAGE_FLAGS,
    requested=_RESULT_FLAGS,
)
def report(
    sink: OutputSink,
    flags: FlagGroups,
    source: Path,
    table: Path | None = None,
    *,
    output: Path = Path("report.html"),
    gmt: Path | None = None,
) -> None:
    """Write an HTML page to explore and send: gpower report genes.csv -m 5 -k 20 --metadata samples.csv -o report.html

    Parameters
    ----------
    source : path
        Table to fit, as for gpower fit; or a saved model, .npz, followed by its table.
    table : path, optional
        The table of a saved model.
    output : new file
        The HTML file.
    gmt : path, optional
        Gene sets, .gmt or .gmt.gz, to test for enrichment in the components.
    """
    from gpower.report.content import collect_content
    from gpower.report.html import prepare_report_file, write_page
    from gpower.report.results import ReportResults

    prepare_report_file(output)
    fitted: Any
    if table is None:
        loaded = load_table(source, flags.reading, flags.options, sink)
        loaded = add_metadata(loaded, flags.metadata, sink, is_shown=True)
        fitted, _ = fit_model(loaded, flags.options, flags.choice, sink)
    else:
        typed_options = format_typed_flags(flags.options, ["certify"])
        if typed_flags := ", ".join(filter(None, [typed_options, *list_typed_choice_flags(flags.choice)])):
            advice = "leave it out, or give the table alone to fit it"
            raise ValueError(f"{source} is already fitted, so {typed_flags} would have no effect; {advice}.")
        fitted, loaded = load_model_and_table(source, table, flags, sink)
    flags.requested["certify"] = table is not None and flags.options["certify"]
    with sink.print_warnings() as notes:
        model = getattr(fitted, "best_estimator_", fitted)
        results = list(_compute_results(model, loaded, flags.requested, gmt, sink))
    notes += _redact_notes(loaded, flags.page)
    with sink.print_warnings(), sink.show_progress(f"writing {output.name}"):
        contents = collect_content(
            fitted,
            loaded.table.to_frame_or_array(),
            metadata=loaded.metadata or None,
            **loaded.removed,
            sample_names=loaded.table.sample_names,
            feature_names=loaded.feature_names,
            results=ReportResults.from_iterable(results),
            with_samples=flags.page["scores"],
            anonymise=flags.page["anonymise"],
            warnings=notes,
        )
        write_page(contents, output, flags.page["title"] or f"Sparse principal components of {loaded.path.name}")
    sink.print_notes(*(doubt for doubt in contents.doubts if doubt not in notes))  # those are printed, some redacted
    sink.print_message(f"Wrote {output}; open it in any browser: {output.resolve().as_uri()}")


def _compute_results(
    model: "gpower.GPower", input_table: InputTable, requested: OptionValues, gmt: Path | None, sink: OutputSink
) -> Iterator[object]:
    """Yield the requested results: sparsity path, stability selection, component test, certificates and enrichment."""
    from gpower.analysis.enrichment import enrich
    from gpower.datasets import read_gmt
    from gpower.validation.params import get_constructor_params

    X, removed = input_table.table.to_frame_or_array(), input_table.removed
    params = get_constructor_params(model)
    m = model.n_components_
    model_params = {name: value for name, value in params.items() if name not in ("n_components", "certify")}
    if requested["path"]:
        with sink.show_progress_bar("fitting every number of variables") as update:
            path_params = {name: value for name, value in params.items() if name not in _PARAMS_NOT_OF_A_PATH}
            grid = None if params["constraint"] is None else _make_constrained_grid(model)
            yield gpower.sparsity_path(X, n_components=m, cardinalities=grid, **path_params, **removed, progress=update)
    if requested["stability"]:
        with sink.show_progress("fitting random halves of the samples"):
            yield gpower.stability_selection(X, n_components=m, **model_params, **removed)
    if requested["test"]:
        with sink.show_progress_bar("permuting the variables") as update:
            test_params = {name: params[name] for name in COMPONENT_TEST_PARAMS}
            yield gpower.component_test(X, m, **test_params, **removed, progress=update)
    if requested["certify"]:
        with sink.show_progress("computing upper bounds"):
            yield gpower.certify(model, X, **removed)
    if gmt is not None:
        yield enrich(model, read_gmt(gmt), genes=input_table.feature_names)


def _make_constrained_grid(model: "gpower.GPower") -> list[int]:
    """Return few cardinalities, up to four times that of the model, because fits under a constraint are slow."""
    from gpower.model_selection import cardinality_grid

    m, n_features = model.components_.shape
    largest = min(4 * int(model.cardinality_.max()), n_features // m)  # no variable twice, in case they are disjoint
    return cardinality_grid(max(largest, 1), _N_CONSTRAINED_POINTS).tolist()


def _redact_notes(input_table: InputTable, page: OptionValues) -> Iterator[str]:
    """Yield notes on the table and the metadata; replace those that quote samples unless samples may be shown."""
    is_public = page["scores"] and not page["anonymise"]
    for note in input_table.notes:
        quotes_samples = "the first row (" in note or any(name in note for name in input_table.table.sample_names or ())
        is_hidden = quotes_samples and not is_public
        yield "A note about the table quotes samples and is left out here." if is_hidden else note
