"""``gpower enrich``: gene sets that are over-represented in the components of a model."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gpower.cli.app import app
from gpower.cli.console import manners, note, progress, say
from gpower.cli.options import answer_option

if TYPE_CHECKING:
    from gpower.enrichment import Enrichment, RandomIndex

_OTHER_COLUMNS = 55  # component, genes, expected, corrected p, and what lies between columns
_FEWEST_GENES = 10  # characters of the list of genes


@app.command()
def enrich(
    loadings: Annotated[
        Path,
        typer.Argument(
            metavar="LOADINGS",
            help="The loadings.csv that gpower fit -o writes (genes × components), or a saved model, .npz.",
            show_default=False,
        ),
    ],
    gmt: Annotated[Path, typer.Option(metavar="FILE", help="Gene sets, .gmt or .gmt.gz.", show_default=False)],
    top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Use the K genes of largest absolute loading; dense loadings need it."),
    ] = None,
    scope: Annotated[
        str,
        typer.Option(metavar="SCOPE", help="Correct the p-values per component, or over all components at once."),
    ] = "component",
    alpha: Annotated[float, typer.Option(help="A set is enriched below this corrected p-value.")] = 0.05,
    draws: Annotated[
        int, typer.Option(metavar="N", min=0, help="Random selections to compare the index with; 0 for none.")
    ] = 200,
    random_state: Annotated[int, typer.Option(help="Seed of the random selections.")] = 0,
    output: Annotated[
        Path | None,
        answer_option("--output", "-o", metavar="FILE", help="Write all overlaps and p-values into this .csv."),
    ] = None,
    plot: Annotated[
        Path | None, answer_option(metavar="FILE", help="Draw the most enriched sets into this .png, .pdf or .svg.")
    ] = None,
    as_json: Annotated[bool, answer_option("--json", help="Print everything as JSON.")] = False,
    show: Annotated[int, answer_option(metavar="N", min=1, help="Print at most N sets of a component.")] = 10,
) -> None:
    """Find gene sets among the components' genes: gpower enrich results/loadings.csv --gmt pathways.gmt"""
    console, err = Console(), Console(stderr=True)
    with manners(err):
        from gpower.datasets import read_gmt
        from gpower.enrichment import enrich as over_representation
        from gpower.enrichment import random_index
        from gpower.plotting import prepare_picture, save_picture

        if plot is not None:
            prepare_picture(plot)
        if output is not None and output.is_dir():
            raise ValueError(f"{output}: this is a folder; the table is one file.")
        components, genes = _read(loadings)
        result = over_representation(components, read_gmt(gmt), genes=genes, top=top, scope=scope, alpha=alpha)
        note(err, result.universe.notes())
        chance = None
        if draws:
            with progress(err, f"drawing {draws} random selections"):
                chance = random_index(result, n_draws=draws, random_state=random_state)
        if as_json:
            typer.echo(json.dumps(_as_json(result, chance), allow_nan=False))
        else:
            _print(console, result, chance, show)
        aside = err if as_json else console
        if output is not None:
            _write(output, result)
            say(aside, f"Wrote {output}.")
        if plot is not None:
            save_picture(result.plot(), plot)
            say(aside, f"Picture: {plot}")


def _read(path: Path) -> tuple[Any, Any]:
    """Loadings, components × genes, and the genes' names."""
    if path.suffix.lower() == ".npz":
        from gpower.persistence import read_model

        _, arrays = read_model(path)
        if "components_" not in arrays:
            raise ValueError(f"{path}: this model has no components_.")
        if "feature_names_in_" not in arrays:
            raise ValueError(f"{path}: this model was fitted without gene names; give its loadings.csv instead.")
        return arrays["components_"], arrays["feature_names_in_"]
    from gpower.datasets import read_table

    table = read_table(path, index_col=0, complete=True)
    return table.X.T, table.sample_names


def _print(console: Console, result: "Enrichment", chance: "RandomIndex | None", show: int) -> None:
    """The enriched sets, component by component, then the index."""
    rows = [record for record in result.records() if record["enriched"]]
    longest = max((len(record["gene_set"]) for record in rows), default=0)
    # On a narrow terminal the list of genes is cut first; then the names of the sets are folded.
    name_width = max(12, min(longest, console.width - _OTHER_COLUMNS - _FEWEST_GENES))
    genes_width = max(_FEWEST_GENES, console.width - _OTHER_COLUMNS - name_width)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in ("component", "gene set", "genes", "expected", "corrected p", "which"):
        justify: Literal["left", "right"] = "left" if heading in ("gene set", "which") else "right"
        table.add_column(heading, justify=justify, no_wrap=heading != "gene set", overflow="fold")
    for component in range(1, len(result.n_selected) + 1):
        found = [record for record in rows if record["component"] == component]
        for record in found[:show]:
            table.add_row(*(Text(cell) for cell in _cells(record, genes_width)))
        if len(found) > show:
            table.add_row("", Text(f"and {len(found) - show} more"))
    if rows:
        console.print(table)
    n_sets, n_components = len(result.universe.set_names), len(result.n_selected)
    many = f"{len(result.significant)} of {n_sets} gene sets" if rows else f"None of {n_sets} gene sets"
    where = "the component" if n_components == 1 else f"at least one of {n_components} components"
    say(console, f"{many} enriched in {where} (corrected p < {result.alpha:g}, {_scope(result)}).")
    say(console, f"Pathway enrichment index: {result.index:.4f}{_beside(chance)}")


def _cells(record: dict[str, Any], genes_width: int) -> list[str]:
    size = f"{record['overlap']} of {record['set_size']}"
    expected, p_value = f"{record['expected']:.2g}", f"{record['adjusted_p_value']:.2g}"
    genes = record["genes"]
    genes = genes if len(genes) <= genes_width else genes[: genes_width - 1] + "…"
    return [str(record["component"]), record["gene_set"], size, expected, p_value, genes]


def _scope(result: "Enrichment") -> str:
    return "corrected per component" if result.scope == "component" else "corrected over all components"


def _beside(chance: "RandomIndex | None") -> str:
    if chance is None:
        return "."
    return f"; random genes, as many: {chance.mean:.4f} on average over {chance.values.size} draws."


def _as_json(result: "Enrichment", chance: "RandomIndex | None") -> dict[str, Any]:
    return {
        "index": result.index,
        "significant": list(result.significant),
        "n_sets": len(result.universe.set_names),
        "n_genes": len(result.universe.genes),
        "random_index": None if chance is None else chance.mean,
        "scope": result.scope,
        "alpha": result.alpha,
        "notes": list(result.universe.notes()),
        "results": list(result.records()),
    }


def _write(path: Path, result: "Enrichment") -> None:
    from gpower.enrichment.over_representation import FIELDS

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.records())
