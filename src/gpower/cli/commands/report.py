"""``gpower report``: one HTML page of a model, to send and to explore."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpower.cli.app import command
from gpower.cli.commands.components import FURTHER as TESTED
from gpower.cli.commands.fit import fitted
from gpower.cli.commands.path import FURTHER as ALONG_PATHS
from gpower.cli.commands.plot import metadata_columns
from gpower.cli.console import Answer, answering, counted, logged, note, noted, progress, refuse_inputs
from gpower.cli.flags import Flags, changed, flags_of
from gpower.cli.models import load_for, load_model
from gpower.cli.options import COUNTED, GPOWER, READING, TYPED, Values, count_components
from gpower.cli.tables import Loaded, load
from gpower.cli.variable_files import read_column, read_names

if TYPE_CHECKING:
    from gpower import GPower

_OPTIONS = changed(GPOWER, n_components=COUNTED, cardinality=TYPED)
_PAGE = flags_of("gpower", "html_report", "title", "scores", "anonymise")


@command(reading=READING, options=_OPTIONS, page=_PAGE)
def report(
    source: Path,
    table: Path | None = None,
    *,
    reading: Values,
    options: Values,
    page: Values,
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
    with answering(inputs=(source, *filter(None, (table, metadata, gmt)))) as answer, logged():
        from gpower import html_report
        from gpower.report.html import prepared_place

        refuse_inputs(answer.inputs, output)
        prepared_place(output)
        found, loaded = (
            _fitted(source, reading, options, answer)
            if table is None
            else _saved(source, table, reading, options, answer)
        )
        model: Any = getattr(found, "best_estimator_", found)  # a search knows how it chose
        with noted(answer.err) as told:
            columns = metadata_columns(metadata, loaded)
        wanted = {
            "path": path,
            "stability": stability,
            "test": test,
            "certify": table is not None and options["certify"],
        }
        with noted(answer.err) as notes:
            results = [*_results(model, loaded, wanted, answer), *_enriched(model, loaded, gmt, answer)]
        with noted(answer.err), progress(answer.err, f"writing {output.name}"):
            html_report(
                found,
                loaded.table.labelled(),
                output,
                metadata=columns or None,
                sample_names=loaded.table.sample_names,
                feature_names=loaded.names,
                results=results,
                warnings=[*_doubts(loaded, bool(page["scores"] and not page["anonymise"])), *told, *notes],
                **page,
            )
        answer.tell(f"Wrote {output}; open it in any browser: {output.resolve().as_uri()}")


def _fitted(source: Path, reading: Values, options: Values, answer: Answer) -> tuple["GPower", Loaded]:
    """A model of a table."""
    count_components(options)
    read_column(options, reading, source)
    loaded = load(source, reading, options, answer.err)
    read_names(options, loaded.names)
    return fitted(loaded, options, answer.err)[0], loaded


def _saved(source: Path, table: Path, reading: Values, options: Values, answer: Answer) -> tuple["GPower", Loaded]:
    """A model of a file, and its table."""
    odd = _given(_OPTIONS, options)
    if odd:
        advice = "leave it out, or give the table alone to have it fitted"
        raise ValueError(f"{source} is fitted already, and {', '.join(odd)} would change nothing; {advice}.")
    model: Any = load_model(source)
    return model, load_for(model, table, reading, answer.err)


def _given(flags: Flags, options: Values) -> list[str]:
    """Flags of the fit that were typed; a proof can be had later."""
    usual = {name: flag.default for name, flag in flags.items()}
    return [
        f"--{name.replace('_', '-')}" for name, value in options.items() if value != usual[name] and name != "certify"
    ]


def _results(model: "GPower", loaded: Loaded, wanted: Values, answer: Answer) -> Iterator[object]:
    """What was asked for beside the model."""
    import gpower
    from gpower.validation.params import parameters_of

    X, err, params, m = loaded.table.labelled(), answer.err, parameters_of(model), model.n_components_
    if wanted["path"]:
        with counted(err, "walking the path") as tell:
            shared = _some(params, (*ALONG_PATHS, "penalty", "method"))
            yield gpower.sparsity_path(X, n_components=m, **shared, progress=tell)
    if wanted["stability"]:
        with progress(err, "fitting random halves of the samples"):
            like = _some(params, [name for name in params if name not in ("n_components", "certify", "callback")])
            yield gpower.stability(X, n_components=m, **like)
    if wanted["test"]:
        with counted(err, "permuting the variables") as tell:
            yield gpower.component_test(X, m, **_some(params, TESTED), progress=tell)
    if wanted["certify"]:
        with progress(err, "proving"):
            yield gpower.certify(model, X)


def _doubts(loaded: Loaded, seen: bool) -> Iterator[str]:
    """Doubts about the table; where samples must not be seen, without what quotes them."""
    names = () if seen else loaded.table.sample_names or ()
    for doubt in loaded.doubts:
        quotes = any(name in doubt for name in names) or (not seen and "the first row (" in doubt)
        yield "A doubt about the table quotes samples, and is left out here." if quotes else doubt


def _some(params: Values, names: Iterable[str]) -> Values:
    return {name: params[name] for name in names}


def _enriched(model: "GPower", loaded: Loaded, gmt: Path | None, answer: Answer) -> Iterator[object]:
    """The gene sets of the components, where some are given."""
    if gmt is None:
        return
    from gpower.analysis.enrichment import enrich
    from gpower.datasets import read_gmt

    found = enrich(model, read_gmt(gmt), genes=loaded.names)
    note(answer.err, found.universe.notes())
    yield found
