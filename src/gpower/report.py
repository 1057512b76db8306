"""A fitted model as a person or a program reads it: printed table, JSON, files. Needs rich, the ``cli`` extra."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from gpower.datasets import Table
    from gpower.fitted import SparsePCAEstimator
    from gpower.model_selection import SparsityPath

__all__ = [
    "attributes",
    "plain",
    "print_components",
    "print_path",
    "table_title",
    "variable_names",
    "write_columns",
    "write_results",
]

# A column is the name, a blank, a loading such as -0.123, and the two blanks on either side of it.
_LOADING, _PADDING = 7, 4
_FITTED = (
    "explained_variance_",
    "explained_variance_ratio_",
    "cardinality_",
    "gamma_",
    "objective_",
    "optimality_gap_",
    "n_iter_",
    "converged_",
    "n_passes_",
    "n_features_in_",
    "mean_",
    "scale_",
    "components_",
)
_PROVEN = ("upper_bound_", "optimality_ratio_")


def variable_names(table: "Table") -> list[str]:
    """The names of the variables, or x0, x1, …."""
    return list(table.feature_names or (f"x{j}" for j in range(table.X.shape[1])))


def table_title(table: "Table", name: str, covariance: bool) -> str:
    """The line above the components: the file and its size."""
    n_samples, n_features = table.X.shape
    return f"{name}: {n_features} variables" if covariance else f"{name}: {n_samples} samples × {n_features} variables"


def print_components(
    console: Console, model: "SparsePCAEstimator", names: Sequence[str], title: str, top: int = 50
) -> None:
    """The components side by side, as many as fit: variance and running total above, loadings below."""
    columns = [list(component.items()) for component in model.loadings(names)]
    shares = [float(share) for share in model.explained_variance_ratio_]
    longest = max((len(name) for column in columns for name, _ in column[:top]), default=0)
    name_width = max(5, min(longest, console.width - _LOADING - _PADDING))
    proven = max(len(_proven(model, j)) for j in range(len(columns))) - 1 if columns else 0
    width = max(name_width + _LOADING, len("0.0123 % of variance"), proven)
    per_line = max(1, console.width // (width + _PADDING))
    console.print(Text(title), soft_wrap=True)
    for start in range(0, len(columns), per_line):
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2))
        for j in range(start, min(start + per_line, len(columns))):
            total = sum(shares[: j + 1])
            head = f"Component {j + 1}\n{100 * shares[j]:.3g} % of variance\n{100 * total:.3g} % in total"
            table.add_column(Text(head + _proven(model, j)), no_wrap=True, min_width=width)
        cells = [_cells(column, top, name_width) for column in columns[start : start + per_line]]
        for i in range(max(map(len, cells))):
            table.add_row(*(Text(column[i] if i < len(column) else "") for column in cells))
        console.print(table)


def _proven(model: "SparsePCAEstimator", j: int) -> str:
    """What a certificate says of a component, rounded down; nothing where there is none."""
    ratios = getattr(model, "optimality_ratio_", None)
    return "" if ratios is None else f"\n≥ {math.floor(1e4 * (ratios[j] + 1e-12)) / 100:g} % of the best possible"


def _cells(loadings: Sequence[tuple[str, float]], top: int, name_width: int) -> list[str]:
    """The lines of one component in the printed table."""
    if not loadings:
        return ["no active variable"]
    lines = [f"{_fixed(name, name_width)} {loading:+.3f}" for name, loading in loadings[:top]]
    return lines if len(loadings) <= top else [*lines, f"and {len(loadings) - top} more"]


def _fixed(name: str, width: int) -> str:
    return set_cell_size(name if len(name) <= width else name[: width - 1] + "…", width)


def print_path(console: Console, path: "SparsityPath", title: str) -> None:
    """One line per point: variables, penalty where there is one, variance, and its share of PCA's."""
    console.print(Text(title), soft_wrap=True)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2))
    with_gamma = bool((path.gamma == path.gamma).any())
    heads = ["variables", *(["gamma"] if with_gamma else []), "% of variance", "% of PCA's"]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for i in range(len(path)):
        counts = sorted(set(path.cardinality[i].tolist()))
        used = str(counts[0]) if len(counts) == 1 else "-".join(map(str, path.cardinality[i]))
        shares = (path.explained_variance_ratio[i].sum(), path.share_of_pca[i])
        gamma = ["-".join(f"{g:.4g}" for g in path.gamma[i])] if with_gamma else []
        table.add_row(used, *gamma, *(f"{100 * share:.2f}" for share in shares))
    console.print(table)


def write_columns(file: Path, columns: Mapping[str, Any]) -> None:
    """Write named columns as a CSV table, every digit kept; an empty cell where there is no number."""
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        rows = zip(*(plain(values) for values in columns.values()), strict=True)
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)


def attributes(model: "SparsePCAEstimator", names: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """The fitted attributes under their own names, the loadings once more by name, and the notes."""
    fitted = {name: plain(getattr(model, name)) for name in (*_FITTED, *_PROVEN) if hasattr(model, name)}
    loadings = [
        [{"name": name, "loading": loading} for name, loading in component.items()]
        for component in model.loadings(names)
    ]
    return fitted | {"feature_names_in_": list(names), "loadings": loadings, "notes": list(notes)}


def plain(value: Any) -> Any:
    """Arrays as lists; null for what JSON has no number for."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_results(
    folder: Path, model: "SparsePCAEstimator", table: "Table", names: Sequence[str], covariance: bool
) -> list[str]:
    """Write the loadings, the scores (a covariance has none) and the model; the names of the files."""
    written = ["loadings.csv", "model.npz"]
    _write_csv(folder / "loadings.csv", "variable", names, model.components_.T)
    model.save(folder / "model.npz")
    if not covariance:
        samples = table.sample_names or [f"s{i}" for i in range(table.X.shape[0])]
        _write_csv(folder / "scores.csv", "sample", samples, model.transform(table.labelled()))
        written.insert(1, "scores.csv")
    return written


def _write_csv(path: Path, corner: str, names: Sequence[str], columns: Any) -> None:
    """One named row per line, one column per component, every digit kept."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([corner, *(f"component_{j + 1}" for j in range(columns.shape[1]))])
        writer.writerows([name, *row] for name, row in zip(names, columns.tolist(), strict=True))
