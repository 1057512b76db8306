"""Output of a fitted model: printed tables, JSON and files. Needs rich, the ``cli`` extra."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, zip_longest
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.cells import set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gpower._utils.frames import name_by_component
from gpower._utils.text import NumberedNames, format_count, format_percent, format_ratio, make_printable

if TYPE_CHECKING:
    from rich.console import JustifyMethod, OverflowMethod

    from gpower.datasets import Table
    from gpower.estimators.base import SparsePCAEstimator
    from gpower.model_selection import SparsityPath

#: Pairs of components are reported if they share variables or their scores correlate this much; most pairs printed.
MAX_PAIRS_SHOWN, MIN_REPORTED_CORRELATION = 5, 0.3
# A column is the name, a blank, a loading such as -0.123, and two blanks on either side.
_LOADING_WIDTH, _COLUMN_PADDING = 7, 4
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")  # first characters of a formula in a spreadsheet


def print_line(console: Console, text: str) -> None:
    """Print a line without wrapping and without interpreting brackets or control characters in names."""
    console.print(_make_printable_text(text), soft_wrap=True)


def _make_printable_text(text: str) -> Text:
    """Return text without control characters other than line breaks."""
    return Text("\n".join(make_printable(line, len(line)) for line in text.split("\n")))


def print_rows(
    console: Console,
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    left: Collection[str] = (),
    wrapped: Collection[str] = (),
    gap: int = 4,
    min_width: int | None = None,
) -> None:
    """Print a table with a line under its header, without interpreting brackets in the cells.

    Columns are right-justified and not wrapped, unless their headings are in `left` or `wrapped`. `gap` is the
    number of blanks between columns, and `min_width` the least width of a column, both in characters.
    """
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, (gap + 1) // 2, 0, gap // 2))
    for head in headings:
        justify: JustifyMethod = "left" if head in left else "right"
        overflow: OverflowMethod = "fold" if head in wrapped else "ellipsis"
        no_wrap = head not in wrapped
        table.add_column(Text(head), justify=justify, overflow=overflow, no_wrap=no_wrap, min_width=min_width)
    for row in rows:
        table.add_row(*map(_make_printable_text, row))
    console.print(table)


def format_fixed_percent(share: float, digits: int = 2) -> str:
    """Return a share in percent with a fixed number of decimals; what is below 100 is not rounded to it.

    Examples
    --------
    >>> from gpower.report.terminal import format_fixed_percent
    >>> format_fixed_percent(0.5), format_fixed_percent(0.99999), format_fixed_percent(1.0, 1)
    ('50.00', '99.99', '100.0')
    """
    percent = 100 * share
    return f"{percent if share > 1 - 1e-9 else min(percent, 100 - 10.0**-digits):.{digits}f}"


def truncate_text(text: str, width: int) -> str:
    """Return a text of at most `width` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def print_components(
    console: Console,
    model: "SparsePCAEstimator",
    names: Sequence[str],
    title: str,
    top: int = 50,
    ordinary_share: float | None = None,
) -> None:
    """Print the components side by side, as many as fit: variance above, loadings below.

    `ordinary_share` is the share of the variance of as many ordinary components, which is printed for comparison.
    """
    components = [list(component.items()) for component in model.loadings(names)]
    components = [[(make_printable(name, len(name)), value) for name, value in loadings] for loadings in components]
    headings = _format_component_headings(model)
    longest = max((len(name) for loadings in components for name, _ in loadings[:top]), default=0)
    name_width = max(5, min(longest, console.width - _LOADING_WIDTH - _COLUMN_PADDING))
    certificate_width = max((len(line) for head in headings for line in head.splitlines()[2:]), default=0)
    width = max(name_width + _LOADING_WIDTH, len("0.0123 % of variance"), certificate_width)
    per_line = max(1, console.width // (width + _COLUMN_PADDING))
    print_line(console, title)
    for start in range(0, len(components), per_line):
        shown = slice(start, start + per_line)
        cells = [_format_loading_cells(loadings, top, name_width) for loadings in components[shown]]
        rows = zip_longest(*cells, fillvalue="")
        print_rows(console, headings[shown], rows, left=headings, min_width=width)
    for line in (*describe_groups_used(model), *_describe_all_components(model, ordinary_share)):
        print_line(console, line)


def _describe_all_components(model: "SparsePCAEstimator", ordinary_share: float | None) -> Iterator[str]:
    """Yield lines on the variance of all components, on how much is possible, and on related pairs."""
    from gpower.report.sentences import describe_variance_limit

    m, shared = len(model.components_), model.overlap_
    scores, loadings = model.score_correlation_, model.loading_correlation_
    pairs = sorted(combinations(range(m), 2), key=lambda pair: (-shared[pair], -abs(scores[pair])))
    reported = [pair for pair in pairs if shared[pair] or abs(scores[pair]) >= MIN_REPORTED_CORRELATION]
    if hasattr(model, "covariates_names_"):
        names = ", ".join(dict.fromkeys(model.covariates_names_))
        removed = format_percent(model.covariate_variance_ratio_)
        yield f"Shares are of the variance without the effect of {names}, which was {removed} of the whole"
    if m > 1:
        yield f"All components explain {format_percent(sum(model.explained_variance_ratio_))} of variance"
    if ordinary_share is not None:
        ordinary = "An ordinary component" if m == 1 else "Ordinary components"
        yield f"{ordinary}, of all variables: {format_percent(ordinary_share)}"
    if ordinary_share is not None or "optimality_ratio_" in vars(model):
        limit = describe_variance_limit(model, ordinary_share)
        yield limit[:1].upper() + limit[1:]
    if m > 1 and not any(shared[pair] for pair in pairs):
        yield "No variable is in two components"
    for i, j in reported[:MAX_PAIRS_SHOWN]:
        correlations = f"correlation of scores {scores[i, j]:+.2f}, of loadings {loadings[i, j]:+.2f}"
        common = f" share {format_count(int(shared[i, j]), 'variable')};" if shared[i, j] else ":"
        yield f"Components {i + 1} and {j + 1}{common} {correlations}"
    if len(reported) > MAX_PAIRS_SHOWN:
        yield (
            f"and {len(reported) - MAX_PAIRS_SHOWN} more pairs share variables or are correlated by "
            f"{MIN_REPORTED_CORRELATION:g} or more"
        )


def describe_groups_used(model: "SparsePCAEstimator") -> Iterator[str]:
    """Yield the groups that each component uses, if the model has groups."""
    if vars(model).get("groups") is not None:
        for j, used in enumerate(model.groups_used(), 1):
            yield f"Component {j}: groups {', '.join(map(str, used))}"


def _format_component_headings(model: "SparsePCAEstimator") -> list[str]:
    """Return the heading of each component: its variance, and its certificate rounded down."""
    headings = [
        f"Component {j}\n{format_percent(share)} of variance"
        for j, share in enumerate(model.explained_variance_ratio_, 1)
    ]
    for j, ratio in enumerate(vars(model).get("optimality_ratio_", ())):
        share = format_ratio(ratio)
        headings[j] += "\nproven: the best possible" if share == "100 %" else f"\n≥ {share} of the best possible"
    return headings


def _format_loading_cells(loadings: Sequence[tuple[str, float]], top: int, name_width: int) -> list[str]:
    """Return the cells of a component in the printed table, a line for each loading."""
    if not loadings:
        return ["no active variable"]
    padded = [(set_cell_size(truncate_text(name, name_width), name_width), loading) for name, loading in loadings[:top]]
    more = [f"and {len(loadings) - top} more"] if len(loadings) > top else []
    return [f"{name} {loading:+.3f}" for name, loading in padded] + more


def print_path(console: Console, path: "SparsityPath", title: str) -> None:
    """Print a line for each point of a path: variables, penalty if there is one, variance, and its share of PCA's."""
    counts_groups = path.kind == "cardinality" and path.params.get("groups") is not None
    columns = {"groups": [f"{count:g}" for count in path.grid]} if counts_groups else {}
    columns["variables"] = [
        "-".join(map(str, used if len(set(used)) > 1 else used[:1])) for used in path.cardinality.tolist()
    ]
    if (path.gamma == path.gamma).any():
        columns["gamma"] = ["-".join(f"{gamma:.4g}" for gamma in point) for point in path.gamma]
    columns["% of variance"] = [format_fixed_percent(shares.sum()) for shares in path.explained_variance_ratio]
    columns["% of PCA's"] = [*map(format_fixed_percent, path.share_of_pca)]
    print_line(console, title)
    print_rows(console, columns, zip(*columns.values(), strict=True))


def collect_fitted_attributes(
    model: "SparsePCAEstimator", names: Sequence[str], notes: Sequence[str]
) -> dict[str, object]:
    """Return the fitted attributes by name, the loadings by variable, and the notes."""
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    loadings = [
        [{"name": name, "loading": loading} for name, loading in component.items()]
        for component in model.loadings(names)
    ]
    return fitted | {"feature_names_in_": list(names), "loadings": loadings, "notes": list(notes)}


def to_json_types(value: object) -> Any:
    """Convert arrays to lists, and NaN and infinities, which JSON lacks, to None."""
    return json.loads(json.dumps(value, default=methodcaller("tolist")), parse_constant=lambda _: None)


def write_csv_file(file: Path, columns: Mapping[str, object], escape_formulas: bool = False) -> str:
    """Write named columns as a CSV file with all digits, and return the name of the file.

    NaN and infinities become empty cells. With `escape_formulas`, text that a spreadsheet would take for a formula
    gets an apostrophe before it.
    """
    with file.open("w", newline="", encoding="utf-8", errors="backslashreplace") as handle:
        write_csv(handle, columns, escape_formulas)
    return file.name


def write_csv(handle: TextIO, columns: Mapping[str, object], escape_formulas: bool = False) -> None:
    """Write named columns as CSV to an open file; see `write_csv_file`."""
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow(columns)
    cells = [
        map(_escape_formula, column) if escape_formulas else column for column in map(to_json_types, columns.values())
    ]
    writer.writerows(zip(*cells, strict=True))


def _escape_formula(cell: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell


def write_results(
    folder: Path,
    model: "SparsePCAEstimator",
    table: "Table",
    names: Sequence[str],
    is_covariance: bool,
    escape_formulas: bool = False,
    removed: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write the loadings, the scores unless the table is a covariance, and the model; return the file names.

    `removed` are the covariates and batches of the samples, as arguments of `transform`.
    """
    rows = [(j, name, value) for j, each in enumerate(model.loadings(names), 1) for name, value in each.items()]
    nonzero = {head: [row[i] for row in rows] for i, head in enumerate(("component", "variable", "loading"))}
    loadings = {"variable": names} | name_by_component(model.components_)
    tables: dict[str, dict[str, Any]] = {"loadings.csv": loadings, "loadings_list.csv": nonzero}
    if not is_covariance:
        tables["scores.csv"] = compute_score_columns(model, table, removed or {})
    for name, columns in tables.items():
        write_csv_file(folder / name, columns, escape_formulas)
    model.save(folder / "model.npz")
    return [*tables, "model.npz"]


def compute_score_columns(model: "SparsePCAEstimator", table: "Table", removed: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns with the names of the samples and the scores of each component; `removed` as in `transform`."""
    from gpower.operators.storage.dask import is_dask_array
    from gpower.operators.storage.dask_client import compute_on_cluster

    samples = table.sample_names or NumberedNames(table.X.shape[0], "s")
    scores = model.transform(table.to_frame_or_array(), **removed)
    scores = compute_on_cluster(scores) if is_dask_array(scores) else scores
    return {"sample": samples} | name_by_component(scores.T)
