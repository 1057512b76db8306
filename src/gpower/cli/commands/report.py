"""``gpower report``: an interactive HTML page of a model."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpower.cli.app import command
from gpower.cli.commands.components import COMPONENT_TEST_PARAMS
from gpower.cli.commands.fit import fit_model
from gpower.cli.commands.path import SPARSITY_PATH_PARAMS
from gpower.cli.commands.plot import read_metadata_columns
from gpower.cli.console import (
    OutputSink,
    command_context,
    log_to_stderr,
    print_notes,
    show_progress,
    show_progress_bar,
    warnings_to_stderr,
)
from gpower.cli.flags import Flags, override_flags, read_library_flags
from gpower.cli.models import load_matching_table, load_model
from gpower.cli.options import (
    CARDINALITY_OVERRIDE,
    GPOWER_FLAGS,
    N_COMPONENTS_OVERRIDE,
    READ_TABLE_FLAGS,
    OptionValues,
    format_flag,
    infer_n_components,
)
from gpower.cli.tables import InputTable, load_table
from gpower.cli.variable_files import read_groups_column, resolve_variable_options

if TYPE_CHECKING:
    from gpower import GPower

_REPORT_FLAGS = override_flags(GPOWER_FLAGS, n_components=N_COMPONENTS_OVERRIDE, cardinality=CARDINALITY_OVERRIDE)
_PAGE_FLAGS = read_library_flags("gpower", "html_report", "title", "scores", "anonymise")


@command(reading=READ_TABLE_FLAGS, options=_REPORT_FLAGS, page=_PAGE_FLAGS)
def report(
    source: Path,
    table: Path | None = None,
    *,
    reading: OptionValues,
    options: OptionValues,
    page: OptionValues,
    output: Path = Path("report.html"),
    metadata: Path | None = None,
    gmt: Path | None = None,
    path: bool = False,
    stability: bool = False,
    test: bool = False,
) -> None:
    """Write an HTML page to explore and send: gpower report genes.csv -m 5 -k 20 --metadata samples.csv -o report.html

    Parameters
    ----------
    source : path
        Table to fit, as for gpower fit; or a saved model, .npz, followed by its table.
    table : path, optional
        The table of a saved model.
    output : path
        The HTML file.
    metadata : path, optional
        Text table with a row of metadata for each sample.
    gmt : path, optional
        Gene sets, .gmt or .gmt.gz, to test for enrichment in the components.
    path : bool
        Also show the variance that every number of variables explains.
    stability : bool
        Also show how often each variable is chosen from 100 random halves of the samples.
    test : bool
        Also compare the components with those of permuted tables.
    """
    with command_context() as sink, log_to_stderr():
        from gpower import html_report
        from gpower.report.html import prepare_report_file

        prepare_report_file(output)
        fitted, loaded = (
            _read_and_fit(source, reading, options, sink)
            if table is None
            else _load_model_and_table(source, table, reading, options, sink)
        )
        model: Any = getattr(fitted, "best_estimator_", fitted)
        with warnings_to_stderr(sink.err_console) as metadata_notes:
            columns = read_metadata_columns(metadata, loaded)
        requested = {
            "path": path,
            "stability": stability,
            "test": test,
            "certify": table is not None and options["certify"],
        }
        with warnings_to_stderr(sink.err_console) as notes:
            results = [
                *_compute_results(model, loaded, requested, sink),
                *_enrich_components(model, loaded, gmt, sink),
            ]
        with warnings_to_stderr(sink.err_console), show_progress(sink.err_console, f"writing {output.name}"):
            html_report(
                fitted,
                loaded.table.to_frame_or_array(),
                output,
                metadata=columns or None,
                sample_names=loaded.table.sample_names,
                feature_names=loaded.feature_names,
                results=results,
                warnings=[
                    *_redact_reading_notes(loaded, bool(page["scores"] and not page["anonymise"])),
                    *metadata_notes,
                    *notes,
                ],
                **page,
            )
        sink.print_message(f"Wrote {output}; open it in any browser: {output.resolve().as_uri()}")


def _read_and_fit(
    source: Path, reading: OptionValues, options: OptionValues, sink: OutputSink
) -> tuple["GPower", InputTable]:
    """Read a table and fit a model to it."""
    infer_n_components(options)
    read_groups_column(options, reading, source)
    loaded = load_table(source, reading, options, sink.err_console)
    resolve_variable_options(options, loaded.feature_names)
    return fit_model(loaded, options, sink.err_console)[0], loaded


def _load_model_and_table(
    source: Path, table: Path, reading: OptionValues, options: OptionValues, sink: OutputSink
) -> tuple["GPower", InputTable]:
    """Load a saved model and its table; raise if flags of the fit were typed."""
    typed_flags = _list_changed_flags(_REPORT_FLAGS, options)
    if typed_flags:
        advice = "leave it out, or give the table alone to fit it"
        raise ValueError(f"{source} is already fitted, so {', '.join(typed_flags)} would have no effect; {advice}.")
    model: Any = load_model(source)
    return model, load_matching_table(model, table, reading, sink.err_console)


def _list_changed_flags(flags: Flags, options: OptionValues) -> list[str]:
    """Return the flags of the fit that were typed, except --certify, which also works on a saved model."""
    return [format_flag(name) for name, flag in flags.items() if options[name] != flag.default and name != "certify"]


def _compute_results(
    model: "GPower", input_table: InputTable, requested: OptionValues, sink: OutputSink
) -> Iterator[object]:
    """Yield the requested results: sparsity path, stability selection, component test and certificates."""
    import gpower
    from gpower.validation.params import get_constructor_params

    X = input_table.table.to_frame_or_array()
    err_console = sink.err_console
    params = get_constructor_params(model)
    m = model.n_components_
    if requested["path"]:
        with show_progress_bar(err_console, "walking the path") as update:
            path_params = _select_params(params, (*SPARSITY_PATH_PARAMS, "penalty", "method"))
            yield gpower.sparsity_path(X, n_components=m, **path_params, progress=update)
    if requested["stability"]:
        with show_progress(err_console, "fitting random halves of the samples"):
            model_params = _select_params(params, [name for name in params if name not in ("n_components", "certify")])
            yield gpower.stability_selection(X, n_components=m, **model_params)
    if requested["test"]:
        with show_progress_bar(err_console, "permuting the variables") as update:
            yield gpower.component_test(X, m, **_select_params(params, COMPONENT_TEST_PARAMS), progress=update)
    if requested["certify"]:
        with show_progress(err_console, "proving"):
            yield gpower.certify(model, X)


def _redact_reading_notes(input_table: InputTable, show_samples: bool) -> Iterator[str]:
    """Yield the reading notes; replace those that quote samples unless samples may be shown."""
    names = () if show_samples else input_table.table.sample_names or ()
    for note in input_table.reading_notes:
        quotes_samples = any(name in note for name in names) or (not show_samples and "the first row (" in note)
        yield "A note about the table quotes samples and is left out here." if quotes_samples else note


def _select_params(params: OptionValues, names: Iterable[str]) -> OptionValues:
    """Return the parameters with these names."""
    return {name: params[name] for name in names}


def _enrich_components(
    model: "GPower", input_table: InputTable, gmt: Path | None, sink: OutputSink
) -> Iterator[object]:
    """Yield the enrichment of the components, if there is a file of gene sets."""
    if gmt is None:
        return
    from gpower.analysis.enrichment import enrich
    from gpower.datasets import read_gmt

    enrichment = enrich(model, read_gmt(gmt), genes=input_table.feature_names)
    print_notes(sink.err_console, enrichment.universe.notes())
    yield enrichment
