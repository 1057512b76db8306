"""``gpower report``: one HTML page of a model, to send and to explore."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpower.cli.app import command
from gpower.cli.commands.components import COMPONENT_TEST_PARAMS as TESTED
from gpower.cli.commands.fit import fit_model
from gpower.cli.commands.path import SPARSITY_PATH_PARAMS as ALONG_PATHS
from gpower.cli.commands.plot import read_metadata_columns
from gpower.cli.console import (
    OutputSink,
    command_context,
    log_to_stderr,
    print_notes,
    refuse_overwriting_inputs,
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
    """One HTML page to send and to explore: gpower report genes.csv -m 5 -k 20 --metadata samples.csv -o report.html

    Parameters
    ----------
    source : path
        Table to fit, as for gpower fit; or a saved model, .npz, with its table behind it.
    table : path, optional
        The table of a saved model.
    output : path
        The page.
    metadata : path, optional
        Text table of what is known of the samples, a row for each.
    gmt : path, optional
        Gene sets, .gmt or .gmt.gz, to look for in the components.
    path : bool
        Also show what every number of variables explains.
    stability : bool
        Also show which variables are chosen again, of 100 random halves of the samples.
    test : bool
        Also hold the components against permuted tables.
    """
    with command_context(input_paths=(source, *filter(None, (table, metadata, gmt)))) as answer, log_to_stderr():
        from gpower import html_report
        from gpower.report.html import prepare_report_file

        refuse_overwriting_inputs(answer.input_paths, output)
        prepare_report_file(output)
        found, loaded = (
            _read_and_fit(source, reading, options, answer)
            if table is None
            else _load_model_and_table(source, table, reading, options, answer)
        )
        model: Any = getattr(found, "best_estimator_", found)  # a search knows how it chose
        with warnings_to_stderr(answer.err_console) as told:
            columns = read_metadata_columns(metadata, loaded)
        wanted = {
            "path": path,
            "stability": stability,
            "test": test,
            "certify": table is not None and options["certify"],
        }
        with warnings_to_stderr(answer.err_console) as notes:
            results = [
                *_compute_results(model, loaded, wanted, answer),
                *_enrich_components(model, loaded, gmt, answer),
            ]
        with warnings_to_stderr(answer.err_console), show_progress(answer.err_console, f"writing {output.name}"):
            html_report(
                found,
                loaded.table.to_frame_or_array(),
                output,
                metadata=columns or None,
                sample_names=loaded.table.sample_names,
                feature_names=loaded.feature_names,
                results=results,
                warnings=[
                    *_redact_reading_notes(loaded, bool(page["scores"] and not page["anonymise"])),
                    *told,
                    *notes,
                ],
                **page,
            )
        answer.print_message(f"Wrote {output}; open it in any browser: {output.resolve().as_uri()}")


def _read_and_fit(
    source: Path, reading: OptionValues, options: OptionValues, sink: OutputSink
) -> tuple["GPower", InputTable]:
    """A model of a table."""
    infer_n_components(options)
    read_groups_column(options, reading, source)
    loaded = load_table(source, reading, options, sink.err_console)
    resolve_variable_options(options, loaded.feature_names)
    return fit_model(loaded, options, sink.err_console)[0], loaded


def _load_model_and_table(
    source: Path, table: Path, reading: OptionValues, options: OptionValues, sink: OutputSink
) -> tuple["GPower", InputTable]:
    """A model of a file, and its table."""
    odd = _list_changed_flags(_REPORT_FLAGS, options)
    if odd:
        advice = "leave it out, or give the table alone to have it fitted"
        raise ValueError(f"{source} is fitted already, and {', '.join(odd)} would change nothing; {advice}.")
    model: Any = load_model(source)
    return model, load_matching_table(model, table, reading, sink.err_console)


def _list_changed_flags(flags: Flags, options: OptionValues) -> list[str]:
    """Flags of the fit that were typed; a proof can be had later."""
    usual = {name: flag.default for name, flag in flags.items()}
    return [
        f"--{name.replace('_', '-')}" for name, value in options.items() if value != usual[name] and name != "certify"
    ]


def _compute_results(
    model: "GPower", input_table: InputTable, requested: OptionValues, sink: OutputSink
) -> Iterator[object]:
    """What was asked for beside the model."""
    import gpower
    from gpower.validation.params import get_constructor_params

    X, err, params, m = (
        input_table.table.to_frame_or_array(),
        sink.err_console,
        get_constructor_params(model),
        model.n_components_,
    )
    if requested["path"]:
        with show_progress_bar(err, "walking the path") as tell:
            shared = _select_params(params, (*ALONG_PATHS, "penalty", "method"))
            yield gpower.sparsity_path(X, n_components=m, **shared, progress=tell)
    if requested["stability"]:
        with show_progress(err, "fitting random halves of the samples"):
            like = _select_params(
                params, [name for name in params if name not in ("n_components", "certify", "callback")]
            )
            yield gpower.stability_selection(X, n_components=m, **like)
    if requested["test"]:
        with show_progress_bar(err, "permuting the variables") as tell:
            yield gpower.component_test(X, m, **_select_params(params, TESTED), progress=tell)
    if requested["certify"]:
        with show_progress(err, "proving"):
            yield gpower.certify(model, X)


def _redact_reading_notes(input_table: InputTable, show_samples: bool) -> Iterator[str]:
    """Doubts about the table; where samples must not be seen, without what quotes them."""
    names = () if show_samples else input_table.table.sample_names or ()
    for doubt in input_table.reading_notes:
        quotes = any(name in doubt for name in names) or (not show_samples and "the first row (" in doubt)
        yield "A doubt about the table quotes samples, and is left out here." if quotes else doubt


def _select_params(params: OptionValues, names: Iterable[str]) -> OptionValues:
    return {name: params[name] for name in names}


def _enrich_components(
    model: "GPower", input_table: InputTable, gmt: Path | None, sink: OutputSink
) -> Iterator[object]:
    """The gene sets of the components, where some are given."""
    if gmt is None:
        return
    from gpower.analysis.enrichment import enrich
    from gpower.datasets import read_gmt

    found = enrich(model, read_gmt(gmt), genes=input_table.feature_names)
    print_notes(sink.err_console, found.universe.notes())
    yield found
