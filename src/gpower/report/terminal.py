"""A fitted model as a person or a program reads it: printed table, JSON, files. Needs rich, the ``cli`` extra."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations, zip_longest
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.cells import set_cell_size
from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from gpower._utils.text import format_count, format_ratio, make_printable

if TYPE_CHECKING:
    from rich.padding import PaddingDimensions

    from gpower.datasets import Table
    from gpower.estimators.base import SparsePCAEstimator
    from gpower.model_selection import SparsityPath

#: Pairs of components that are spoken of: at most so many, with a common variable or a correlation of at least this.
MAX_PAIRS_SHOWN, MIN_REPORTED_CORRELATION = 5, 0.3
# A column is the name, a blank, a loading such as -0.123, and the two blanks on either side of it.
_LOADING_WIDTH, _COLUMN_PADDING = 7, 4
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")  # what a formula of a spreadsheet begins with


def print_line(console: Console, text: str) -> None:
    """One line as it is, whatever the width of the terminal and whatever brackets or controls a name contains."""
    console.print(_make_printable_text(text), soft_wrap=True)


def _make_printable_text(text: str) -> Text:
    """Text whose lines hold nothing that a terminal would obey."""
    return Text("\n".join(make_printable(line, len(line)) for line in text.split("\n")))


def print_rows(
    console: Console, columns: Iterable[Column], rows: Iterable[Iterable[str]], padding: "PaddingDimensions" = (0, 2)
) -> None:
    """A table with a line under its heads, every cell as it is, whatever brackets it contains."""
    table = RichTable(*columns, box=box.SIMPLE_HEAD, pad_edge=False, padding=padding)
    for row in rows:
        table.add_row(*map(_make_printable_text, row))
    console.print(table)


def truncate_text(text: str, width: int) -> str:
    """A text that is at most so many characters long, with dots where there was more."""
    return text if len(text) <= width else text[: width - 1] + "…"


def print_components(
    console: Console, model: "SparsePCAEstimator", names: Sequence[str], title: str, top: int = 50
) -> None:
    """The components side by side, as many as fit: variance and running total above, loadings below."""
    components = [list(component.items()) for component in model.loadings(names)]
    components = [[(make_printable(name, len(name)), loading) for name, loading in named] for named in components]
    heads = _format_component_headings(model)
    longest = max((len(name) for loadings in components for name, _ in loadings[:top]), default=0)
    name_width = max(5, min(longest, console.width - _LOADING_WIDTH - _COLUMN_PADDING))
    proofs = max((len(line) for head in heads for line in head.splitlines()[3:]), default=0)
    width = max(name_width + _LOADING_WIDTH, len("0.0123 % of variance"), proofs)
    per_line = max(1, console.width // (width + _COLUMN_PADDING))
    print_line(console, title)
    for start in range(0, len(components), per_line):
        shown = slice(start, start + per_line)
        columns = [Column(Text(head), no_wrap=True, min_width=width) for head in heads[shown]]
        cells = [_format_loading_cells(loadings, top, name_width) for loadings in components[shown]]
        print_rows(console, columns, zip_longest(*cells, fillvalue=""))
    for line in (*describe_groups_used(model), *_describe_all_components(model)):
        print_line(console, line)


def _describe_all_components(model: "SparsePCAEstimator") -> Iterator[str]:
    """Below the components: which share variables or are correlated most, and what is proven of all together."""
    m, shared = len(model.components_), model.overlap_
    scores, loadings = model.score_correlation_, model.loading_correlation_
    pairs = sorted(combinations(range(m), 2), key=lambda pair: (-shared[pair], -abs(scores[pair])))
    told = [pair for pair in pairs if shared[pair] or abs(scores[pair]) >= MIN_REPORTED_CORRELATION]
    for i, j in told[:MAX_PAIRS_SHOWN]:
        common = format_count(int(shared[i, j]), "variable")
        yield (
            f"Components {i + 1} and {j + 1} share {common}; correlation of scores {scores[i, j]:+.2f}, of loadings "
            f"{loadings[i, j]:+.2f}"
        )
    if len(told) > MAX_PAIRS_SHOWN:
        yield (
            f"and {len(told) - MAX_PAIRS_SHOWN} more pairs share variables or are correlated by "
            f"{MIN_REPORTED_CORRELATION:g} or more"
        )
    if m > 1 and not any(shared[pair] for pair in pairs):
        yield "No variable is in two components"
    if "total_optimality_ratio_" in vars(model):
        yield f"All together: ≥ {format_ratio(model.total_optimality_ratio_)} of {_describe_certified_optimum(model)}"


def _describe_certified_optimum(model: "SparsePCAEstimator") -> str:
    """What the sum of the variances of all components is held against."""
    constraint = vars(model).get("constraint")
    if constraint is not None:
        return f"the best possible of {constraint} components"
    return "what the best of each size alone would sum to, all that is proven without a constraint"


def describe_groups_used(model: "SparsePCAEstimator") -> Iterator[str]:
    """Which groups each component uses, where groups were chosen."""
    if vars(model).get("groups") is not None:
        for j, used in enumerate(model.groups_used(), 1):
            yield f"Component {j}: groups {', '.join(map(str, used))}"


def _format_component_headings(model: "SparsePCAEstimator") -> list[str]:
    """Above each component: its variance, the total so far, and what a certificate says, rounded down."""
    shares = [100 * float(share) for share in model.explained_variance_ratio_]
    heads = [
        f"Component {j}\n{share:.3g} % of variance\n{total:.3g} % in total"
        for j, (share, total) in enumerate(zip(shares, accumulate(shares), strict=True), 1)
    ]
    for j, ratio in enumerate(vars(model).get("optimality_ratio_", ())):
        heads[j] += f"\n≥ {format_ratio(ratio)} of the best possible"
    return heads


def _format_loading_cells(loadings: Sequence[tuple[str, float]], top: int, name_width: int) -> list[str]:
    """The lines of one component in the printed table."""
    if not loadings:
        return ["no active variable"]
    named = [(set_cell_size(truncate_text(name, name_width), name_width), loading) for name, loading in loadings[:top]]
    more = [f"and {len(loadings) - top} more"] if len(loadings) > top else []
    return [f"{name} {loading:+.3f}" for name, loading in named] + more


def print_path(console: Console, path: "SparsityPath", title: str) -> None:
    """One line per point: variables, penalty where there is one, variance, and its share of PCA's."""
    counts_groups = path.kind == "cardinality" and path.params.get("groups") is not None
    columns = {"groups": [f"{count:g}" for count in path.grid]} if counts_groups else {}
    columns["variables"] = ["-".join(map(str, _collapse_equal(used.tolist()))) for used in path.cardinality]
    if (path.gamma == path.gamma).any():
        columns["gamma"] = ["-".join(f"{gamma:.4g}" for gamma in point) for point in path.gamma]
    columns["% of variance"] = [f"{100 * shares.sum():.2f}" for shares in path.explained_variance_ratio]
    columns["% of PCA's"] = [f"{100 * share:.2f}" for share in path.share_of_pca]
    print_line(console, title)
    heads = [Column(head, justify="right", no_wrap=True) for head in columns]
    print_rows(console, heads, zip(*columns.values(), strict=True))


def _collapse_equal(numbers: list[int]) -> list[int]:
    """One number where all are the same."""
    return numbers if len(set(numbers)) > 1 else numbers[:1]


def collect_fitted_attributes(
    model: "SparsePCAEstimator", names: Sequence[str], notes: Sequence[str]
) -> dict[str, object]:
    """The fitted attributes under their own names, the loadings once more by name, and the notes."""
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    loadings = [
        [{"name": name, "loading": loading} for name, loading in component.items()]
        for component in model.loadings(names)
    ]
    return fitted | {"feature_names_in_": list(names), "loadings": loadings, "notes": list(notes)}


def to_json_types(value: object) -> Any:
    """Arrays as lists; None for what JSON has no number for."""
    return json.loads(json.dumps(value, default=methodcaller("tolist")), parse_constant=lambda _: None)


def write_csv_file(file: Path, columns: Mapping[str, object], escape_formulas: bool = False) -> str:
    """Write named columns as a CSV table, every digit kept; an empty cell where there is no number. The file's name.

    A `safe` table has an apostrophe before text that a spreadsheet would take for a formula.
    """
    with file.open("w", newline="", encoding="utf-8", errors="backslashreplace") as handle:
        write_csv(handle, columns, escape_formulas)
    return file.name


def write_csv(handle: TextIO, columns: Mapping[str, object], escape_formulas: bool = False) -> None:
    """The same into a file that is open."""
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow(columns)
    cells = [
        map(_escape_formula, column) if escape_formulas else column for column in map(to_json_types, columns.values())
    ]
    writer.writerows(zip(*cells, strict=True))


def _escape_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell


def write_results(
    folder: Path,
    model: "SparsePCAEstimator",
    table: "Table",
    names: Sequence[str],
    is_covariance: bool,
    escape_formulas: bool = False,
) -> list[str]:
    """Write the loadings, the scores (a covariance has none) and the model; the names of the files."""
    written = [
        write_csv_file(
            folder / "loadings.csv", {"variable": names} | _label_by_component(model.components_), escape_formulas
        )
    ]
    written.append(
        write_csv_file(folder / "loadings_list.csv", _list_nonzero_loadings(model.loadings(names)), escape_formulas)
    )
    if not is_covariance:
        written.append(write_csv_file(folder / "scores.csv", compute_score_columns(model, table), escape_formulas))
    model.save(folder / "model.npz")
    return [*written, "model.npz"]


def compute_score_columns(model: "SparsePCAEstimator", table: "Table") -> dict[str, Any]:
    """The samples by name, and the scores of each component."""
    from gpower.operators.storage.dask import is_dask_array
    from gpower.operators.storage.dask_client import compute_on_cluster

    samples = table.sample_names or [f"s{i}" for i in range(table.X.shape[0])]
    scores = model.transform(table.to_frame_or_array())
    scores = compute_on_cluster(scores) if is_dask_array(scores) else scores
    return {"sample": samples} | _label_by_component(scores.T)


def _list_nonzero_loadings(components: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """The loadings that are not zero, one to a line."""
    lines = [(j, name, loading) for j, named in enumerate(components, 1) for name, loading in named.items()]
    return {head: [line[i] for line in lines] for i, head in enumerate(("component", "variable", "loading"))}


def _label_by_component(rows: Iterable[object]) -> dict[str, object]:
    return {f"component_{j}": row for j, row in enumerate(rows, 1)}
