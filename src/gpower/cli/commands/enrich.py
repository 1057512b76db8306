"""``gpower enrich``: gene sets that are over-represented in the components of a model."""

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.cli.flags import read_library_flags
from gpower.cli.models import load_model
from gpower.cli.shared_flags import FlagGroups, OptionValues
from gpower.report.terminal import print_line, print_rows, truncate_text, write_csv_file

if TYPE_CHECKING:
    from gpower._utils.arrays import Array
    from gpower.analysis.enrichment import Enrichment

_FIXED_COLUMNS_WIDTH = 55  # characters of all columns but gene set and which, and of the space between columns
_MIN_GENES_WIDTH = 10  # characters of the column of genes
_ENRICHMENT_HEADINGS = ("component", "gene set", "genes", "expected", "corrected p", "which")
_ENRICH_FLAGS = read_library_flags("gpower.analysis.enrichment", "enrich", "top", "scope", "alpha")


@command(picture="the most enriched sets", has_json=True, options=_ENRICH_FLAGS)
def enrich(
    sink: OutputSink,
    flags: FlagGroups,
    loadings: Path,
    *,
    gmt: Path,
    draws: int = 200,
    random_state: int = 0,
    output: Path | None = None,
    safe_csv: bool = False,
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
        Number of random selections of genes to compare the index with; 0 for none.
    random_state : int
        Seed of the random selections.
    output : new file, optional
        Write all overlaps and p-values into this .csv.
    safe_csv : bool
        Put an apostrophe before names that a spreadsheet would take for a formula.
    show : int
        Largest number of sets to print per component.
    """
    from gpower.analysis.enrichment import enrich as over_representation
    from gpower.analysis.enrichment import random_index
    from gpower.datasets import read_gmt

    components, genes = _read_loadings(loadings)
    _check_loadings(loadings, components, flags.options["top"])
    result = over_representation(components, read_gmt(gmt), genes=genes, **flags.options)
    sink.print_notes(*result.universe.notes())
    with sink.show_progress(f"drawing {draws} random selections"):
        chance = random_index(result, n_draws=draws, random_state=random_state) if draws else None
    records = list(result.records())
    sink.print_result(
        lambda: _summarize_enrichment(result, chance) | {"results": records},
        lambda console: _print_enrichment(console, result, chance, show),
    )
    sink.write_file(lambda file: write_csv_file(file, result.columns(), safe_csv))
    sink.save_plot(result.plot)


def _check_loadings(path: Path, components: "Array", top: int | None) -> None:
    """Raise if the entries are not sparse loadings: if some exceed 1, or none is zero and --top is not given."""
    import numpy as np

    largest = float(np.abs(components).max(initial=0.0))
    if largest > 1 + 1e-6:
        advice = "give the loadings.csv of gpower fit -o, or divide each column by its norm"
        raise ValueError(f"{path}: loadings are at most 1, but this table has an entry of {largest:.3g}; {advice}.")
    if top is None and np.all(components):
        advice = "give the loadings.csv of gpower fit -o, or use --top to set the number of genes of each"
        raise ValueError(f"{path}: every component uses all genes, so no gene set can stand out; {advice}.")


def _read_loadings(path: Path) -> tuple["Array", Sequence[str] | None]:
    """Return the loadings, of shape (n_components, n_genes), and the names of the genes."""
    if path.suffix.lower() == ".npz":
        model = load_model(path)
        if not hasattr(model, "feature_names_in_"):
            raise ValueError(f"{path}: this model was fitted without gene names; give its loadings.csv instead.")
        return model.components_, model.feature_names_in_.tolist()
    from gpower.datasets import read_table

    table = read_table(path, index_col=0, complete=True)
    return table.X.T, table.sample_names


def _summarize_enrichment(result: "Enrichment", random_indices: "Array | None") -> dict[str, object]:
    """Return the results for JSON, without the single sets; `random_indices`, (n_draws,), are those of random genes."""
    return {
        "index": result.index,
        "significant": result.significant,
        "n_sets": len(result.universe.set_names),
        "n_genes": len(result.universe.genes),
        "random_index": None if random_indices is None else float(random_indices.mean()),
        "scope": result.scope,
        "alpha": result.alpha,
        "notes": list(result.universe.notes()),
    }


def _print_enrichment(console: Console, result: "Enrichment", random_indices: "Array | None", max_sets: int) -> None:
    """Print the enriched sets of each component, then the index."""
    records = [record for record in result.records() if record["enriched"]]
    if records:
        _print_enriched_sets(console, records, max_sets)
    n_sets, n_components = len(result.universe.set_names), len(result.n_selected)
    n_enriched = f"{len(result.significant) or 'None'} of {n_sets} gene sets"
    where = "the component" if n_components == 1 else f"at least one of {n_components} components"
    scope = "per component" if result.scope == "component" else "over all components"
    print_line(console, f"{n_enriched} are enriched in {where} (corrected p < {result.alpha:g}, corrected {scope}).")
    index = f"Pathway enrichment index: {result.index:.4f}"
    if random_indices is not None:
        mean = f"{random_indices.mean():.4f}, the average of {random_indices.size} draws"
        index += f"; of as many random genes: {mean}"
    print_line(console, f"{index}.")


def _print_enriched_sets(console: Console, records: Collection[OptionValues], max_sets: int) -> None:
    """Print the table of the sets; a narrow terminal truncates the list of genes first, then folds the sets' names."""
    longest = max(len(record["gene_set"]) for record in records)
    name_width = max(12, min(longest, console.width - _FIXED_COLUMNS_WIDTH - _MIN_GENES_WIDTH))
    genes_width = max(_MIN_GENES_WIDTH, console.width - _FIXED_COLUMNS_WIDTH - name_width)
    rows: list[list[str]] = []
    for component, group in groupby(records, itemgetter("component")):
        sets = list(group)
        for record in sets[:max_sets]:
            size = f"{record['overlap']} of {record['set_size']}"
            expected, p_value = f"{record['expected']:.2g}", f"{record['adjusted_p_value']:.2g}"
            genes = truncate_text(record["genes"], genes_width)
            rows.append([str(component), record["gene_set"], size, expected, p_value, genes])
        if len(sets) > max_sets:
            rows.append(["", f"and {len(sets) - max_sets} more"])
    print_rows(console, _ENRICHMENT_HEADINGS, rows, left=("gene set", "which"), wrapped=("gene set",), gap=2)
