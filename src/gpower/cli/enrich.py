"""``gpower enrich``: gene sets that are over-represented in the components of a model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column

from gpower.cli.app import command
from gpower.cli.console import answering, note, progress, say
from gpower.cli.flags import flags_of
from gpower.cli.options import Values
from gpower.report import print_rows, write_columns

if TYPE_CHECKING:
    from gpower._arrays import Array
    from gpower.enrichment import Enrichment, RandomIndex

__all__ = ["enrich"]

_OTHER_COLUMNS = 55  # component, genes, expected, corrected p, and what lies between columns
_FEWEST_GENES = 10  # characters of the list of genes
_HEADS = ("component", "gene set", "genes", "expected", "corrected p", "which")
_ENRICH = flags_of("gpower.enrichment", "enrich")
_OPTIONS = {name: _ENRICH[name] for name in ("top", "scope", "alpha")}


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
    as_json : bool
        Print everything as JSON.
    show : int
        Print at most so many sets of a component.
    """
    with answering(plot=plot, as_json=as_json) as answer:
        from gpower.datasets import read_gmt
        from gpower.enrichment import enrich as over_representation

        if output is not None and output.is_dir():
            raise ValueError(f"{output}: this is a folder; the table is one file.")
        components, genes = _read(loadings)
        result = over_representation(components, read_gmt(gmt), genes=genes, **options)
        note(answer.err, result.universe.notes())
        chance = _drawn(result, draws, random_state, answer.err)
        answer.give(lambda: _content(result, chance), lambda console: _print(console, result, chance, show))
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_columns(output, result.columns())
            answer.tell(f"Wrote {output}.")
        answer.draw(result.plot)


def _read(path: Path) -> tuple["Array", Sequence[str] | None]:
    """Loadings, components × genes, and the genes' names."""
    if path.suffix.lower() == ".npz":
        from gpower.persistence import read_model

        _, arrays = read_model(path)
        if "components_" not in arrays:
            raise ValueError(f"{path}: this model has no components_.")
        if "feature_names_in_" not in arrays:
            raise ValueError(f"{path}: this model was fitted without gene names; give its loadings.csv instead.")
        return arrays["components_"], arrays["feature_names_in_"].tolist()
    from gpower.datasets import read_table

    table = read_table(path, index_col=0, complete=True)
    return table.X.T, table.sample_names


def _drawn(result: "Enrichment", draws: int, random_state: int, err: Console) -> "RandomIndex | None":
    """What random genes score, if they are asked."""
    from gpower.enrichment import random_index

    if not draws:
        return None
    with progress(err, f"drawing {draws} random selections"):
        return random_index(result, n_draws=draws, random_state=random_state)


def _print(console: Console, result: "Enrichment", chance: "RandomIndex | None", show: int) -> None:
    """The enriched sets, component by component, then the index."""
    records = [record for record in result.records() if record["enriched"]]
    longest = max((len(record["gene_set"]) for record in records), default=0)
    # On a narrow terminal the list of genes is cut first; then the names of the sets are folded.
    name_width = max(12, min(longest, console.width - _OTHER_COLUMNS - _FEWEST_GENES))
    genes_width = max(_FEWEST_GENES, console.width - _OTHER_COLUMNS - name_width)
    left = ("gene set", "which")
    columns = [
        Column(head, justify="left" if head in left else "right", no_wrap=head != "gene set", overflow="fold")
        for head in _HEADS
    ]
    if records:
        print_rows(console, columns, _rows(records, len(result.n_selected), genes_width, show), padding=(0, 1))
    n_sets, n_components = len(result.universe.set_names), len(result.n_selected)
    many = f"{len(result.significant)} of {n_sets} gene sets" if records else f"None of {n_sets} gene sets"
    where = "the component" if n_components == 1 else f"at least one of {n_components} components"
    scope = "per component" if result.scope == "component" else "over all components"
    say(console, f"{many} enriched in {where} (corrected p < {result.alpha:g}, corrected {scope}).")
    say(console, f"Pathway enrichment index: {result.index:.4f}{_beside(chance)}")


def _rows(records: Sequence[Values], n_components: int, genes_width: int, show: int) -> Iterator[list[str]]:
    """The lines of the printed table."""
    for component in range(1, n_components + 1):
        found = [record for record in records if record["component"] == component]
        yield from (_cells(record, genes_width) for record in found[:show])
        if len(found) > show:
            yield ["", f"and {len(found) - show} more"]


def _cells(record: Values, genes_width: int) -> list[str]:
    size = f"{record['overlap']} of {record['set_size']}"
    expected, p_value = f"{record['expected']:.2g}", f"{record['adjusted_p_value']:.2g}"
    genes = record["genes"]
    genes = genes if len(genes) <= genes_width else genes[: genes_width - 1] + "…"
    return [str(record["component"]), record["gene_set"], size, expected, p_value, genes]


def _beside(chance: "RandomIndex | None") -> str:
    if chance is None:
        return "."
    return f"; random genes, as many: {chance.mean:.4f} on average over {chance.values.size} draws."


def _content(result: "Enrichment", chance: "RandomIndex | None") -> dict[str, object]:
    return {
        "index": result.index,
        "significant": result.significant,
        "n_sets": len(result.universe.set_names),
        "n_genes": len(result.universe.genes),
        "random_index": None if chance is None else chance.mean,
        "scope": result.scope,
        "alpha": result.alpha,
        "notes": list(result.universe.notes()),
        "results": list(result.records()),
    }
