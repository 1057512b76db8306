"""``gpower enrich``: gene sets that are over-represented in the components of a model."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column

from gpower._utils.files import check_writable, replaced
from gpower.cli.app import command
from gpower.cli.console import Answer, answering, note, progress, refuse_inputs
from gpower.cli.flags import flags_of
from gpower.cli.options import Values
from gpower.report.terminal import print_rows, say, shortened, write_columns

if TYPE_CHECKING:
    from gpower._utils.arrays import Array
    from gpower.analysis.enrichment import Enrichment, RandomIndex

_OTHER_COLUMNS = 55  # component, genes, expected, corrected p, and what lies between columns
_FEWEST_GENES = 10  # characters of the list of genes
_HEADS = ("component", "gene set", "genes", "expected", "corrected p", "which")
_TEXT = ("gene set", "which")
_OPTIONS = flags_of("gpower.analysis.enrichment", "enrich", "top", "scope", "alpha")


@command(options=_OPTIONS)
def enrich(
    loadings: Path,
    *,
    gmt: Path,
    options: Values,
    draws: int = 200,
    random_state: int = 0,
    output: Path | None = None,
    plot: Path | None = None,
    safe_csv: bool = False,
    as_json: bool = False,
    show: int = 10,
) -> None:
    """Find gene sets among the components' genes: gpower enrich results/loadings.csv --gmt pathways.gmt

    Parameters
    ----------
    loadings : path
        The loadings.csv that gpower fit -o writes (genes × components), or a saved model, .npz.
    gmt : path
        Gene sets, .gmt or .gmt.gz.
    draws : int
        Random selections to compare the index with; 0 for none.
    random_state : int
    output : path, optional
        Write all overlaps and p-values into this .csv.
    plot : path, optional
        Draw the most enriched sets into this .png, .pdf or .svg.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    as_json : bool
        Print everything as JSON.
    show : int
        Print at most so many sets of a component.
    """
    with answering(plot=plot, as_json=as_json, inputs=(loadings, gmt)) as answer:
        from gpower.analysis.enrichment import enrich as over_representation
        from gpower.analysis.enrichment import random_index
        from gpower.datasets import read_gmt

        _make_ready(output, answer)
        components, genes = _read(loadings)
        _refuse_tables(loadings, components, options["top"])
        result = over_representation(components, read_gmt(gmt), genes=genes, **options)
        note(answer.err, result.universe.notes())
        with progress(answer.err, f"drawing {draws} random selections"):
            chance = random_index(result, n_draws=draws, random_state=random_state) if draws else None
        records = list(result.records())
        answer.give(
            lambda: _content(result, chance) | {"results": records},
            lambda console: _print(console, result, chance, show),
        )
        if output is not None:
            earlier = " in place of an earlier one" if output.exists() else ""
            with replaced(output) as place:
                write_columns(place, result.columns(), safe_csv)
            answer.tell(f"Wrote {output}{earlier}.")
        answer.draw(result.plot)


def _make_ready(output: Path | None, answer: Answer) -> None:
    """Refuse a table that cannot be written, before the work."""
    if output is None or (output.exists() and not (output.is_file() or output.is_dir())):  # such as /dev/stdout
        return
    if output.is_dir():
        raise ValueError(f"{output}: this is a folder; the table is one file.")
    refuse_inputs(answer.inputs, output)
    output.parent.mkdir(parents=True, exist_ok=True)
    check_writable(output.parent)


def _refuse_tables(path: Path, components: "Array", top: int | None) -> None:
    """Refuse what is no loadings: measurements, in which every gene would be of every component."""
    import numpy as np

    largest = float(np.abs(components).max(initial=0.0))
    if largest > 1 + 1e-6:
        advice = "give the loadings.csv of gpower fit -o, or divide each column by its norm"
        raise ValueError(f"{path}: loadings are at most 1, and this table holds {largest:.3g}; {advice}.")
    if top is None and np.all(components):
        advice = "give the loadings.csv of gpower fit -o, or say with --top how many genes of each to look at"
        raise ValueError(f"{path}: all genes are in every component, so none is special; {advice}.")


def _read(path: Path) -> tuple["Array", Sequence[str] | None]:
    """Loadings, components × genes, and the genes' names."""
    if path.suffix.lower() == ".npz":
        from gpower.io.model_file import read_model, require_shapes

        _, arrays = read_model(path)
        if "components_" in arrays and "feature_names_in_" not in arrays:
            raise ValueError(f"{path}: this model was fitted without gene names; give its loadings.csv instead.")
        require_shapes(path, arrays, {"components_": "mn", "feature_names_in_": "n"})
        return arrays["components_"], arrays["feature_names_in_"].tolist()
    from gpower.datasets import read_table

    table = read_table(path, index_col=0, complete=True)
    return table.X.T, table.sample_names


def _content(result: "Enrichment", chance: "RandomIndex | None") -> dict[str, object]:
    """What a program is told, but for the single sets."""
    return {
        "index": result.index,
        "significant": result.significant,
        "n_sets": len(result.universe.set_names),
        "n_genes": len(result.universe.genes),
        "random_index": None if chance is None else chance.mean,
        "scope": result.scope,
        "alpha": result.alpha,
        "notes": list(result.universe.notes()),
    }


def _print(console: Console, result: "Enrichment", chance: "RandomIndex | None", show: int) -> None:
    """The enriched sets, component by component, then the index."""
    records = [record for record in result.records() if record["enriched"]]
    if records:
        _print_sets(console, records, show)
    n_sets, n_components = len(result.universe.set_names), len(result.n_selected)
    many = f"{len(result.significant) or 'None'} of {n_sets} gene sets"
    where = "the component" if n_components == 1 else f"at least one of {n_components} components"
    scope = "per component" if result.scope == "component" else "over all components"
    say(console, f"{many} enriched in {where} (corrected p < {result.alpha:g}, corrected {scope}).")
    index = f"Pathway enrichment index: {result.index:.4f}"
    if chance is not None:
        index += f"; random genes, as many: {chance.mean:.4f} on average over {chance.values.size} draws"
    say(console, f"{index}.")


def _print_sets(console: Console, records: Collection[Values], show: int) -> None:
    """The table of the sets. On a narrow terminal the list of genes is cut first; then the sets' names are folded."""
    longest = max(len(record["gene_set"]) for record in records)
    name_width = max(12, min(longest, console.width - _OTHER_COLUMNS - _FEWEST_GENES))
    genes_width = max(_FEWEST_GENES, console.width - _OTHER_COLUMNS - name_width)
    columns = [
        Column(head, justify="left" if head in _TEXT else "right", no_wrap=head != "gene set", overflow="fold")
        for head in _HEADS
    ]
    print_rows(console, columns, _rows(records, genes_width, show), padding=(0, 1))


def _rows(records: Collection[Values], genes_width: int, show: int) -> Iterator[list[str]]:
    """The lines of the printed table."""
    for component, found in groupby(records, itemgetter("component")):
        sets = list(found)
        for record in sets[:show]:
            size = f"{record['overlap']} of {record['set_size']}"
            expected, p_value = f"{record['expected']:.2g}", f"{record['adjusted_p_value']:.2g}"
            genes = shortened(record["genes"], genes_width)
            yield [str(component), record["gene_set"], size, expected, p_value, genes]
        if len(sets) > show:
            yield ["", f"and {len(sets) - show} more"]
