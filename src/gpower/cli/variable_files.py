"""Options about variables: files of groups and weights, and names or column numbers of variables."""

from collections.abc import Callable, Sequence
from pathlib import Path

from gpower.cli.shared_flags import OptionValues


def read_groups_column(options: OptionValues, reading: OptionValues, data: Path) -> None:
    """Replace a --groups that names a column of DATA, not a file, by the labels in it, and drop that column."""
    name = options.get("groups")
    if not isinstance(name, str) or Path(name).exists():
        return
    from gpower.io.stores.open import read_annotation_column, should_read_in_blocks

    if data.suffix.lower() == ".h5ad" and should_read_in_blocks(data):
        options["groups"] = read_annotation_column(data, "var", name)
    elif reading["transpose"]:
        options["groups"] = _read_text_column(data, name)
        reading["drop"] = [*(reading["drop"] or ()), name]
    else:
        raise ValueError(
            f"--groups {name}: there is no such file. A column of DATA can hold the groups where variables are rows, "
            "with --transpose, or in .var of an .h5ad."
        )


def resolve_variable_options(options: OptionValues, feature_names: Sequence[str]) -> None:
    """Replace files of groups and weights by their content, and typed variables by names or column numbers."""
    groups, weights = options.get("groups"), options.get("penalty_weights")
    if isinstance(groups, str):
        read_groups = _read_gmt_groups if ".gmt" in Path(groups).suffixes else _read_variable_values
        options["groups"] = read_groups(Path(groups), feature_names)
    if isinstance(weights, str):
        options["penalty_weights"] = _read_variable_values(Path(weights), feature_names, float)
    for name in ("include", "exclude"):
        if options.get(name) is not None:
            lists = [[_parse_variable(text, feature_names) for text in part] for part in options[name]]
            options[name] = lists if len(lists) > 1 else lists[0]


def _parse_variable(text: str, feature_names: Sequence[str]) -> int | str:
    """Return the column number if the text is digits and not the name of a variable, else the name."""
    return int(text) if text.isdecimal() and text not in feature_names else text


def _read_variable_values(
    path: Path, feature_names: Sequence[str], parse_cell: Callable[[str], object] = str
) -> object:
    """Read a value per variable: a dictionary by name from two columns, a list from one; skip a header line."""
    from gpower.datasets import TableError
    from gpower.io.tables.delimited import read_text_cells

    rows = read_text_cells(path)
    if not rows or len({len(row) for row in rows}) > 1 or len(rows[0]) > 2:
        raise TableError(path, "a line for each variable is needed: its name and the value, or the value alone")
    has_header = (
        len(rows) == len(feature_names) + 1
        if len(rows[0]) == 1
        else rows[0][0] not in feature_names and not rows[0][0].isdecimal()
    )
    values, body = [], rows[int(has_header) :]
    for number, row in enumerate(body, 1 + int(has_header)):
        try:
            values.append(parse_cell(row[-1]))
        except ValueError:
            raise TableError(path, f"line {number}: {row[-1]!r} is not a number") from None
    if len(rows[0]) == 1:
        return values
    return {_parse_variable(row[0], feature_names): value for row, value in zip(body, values, strict=True)}


def _read_gmt_groups(path: Path, feature_names: Sequence[str]) -> dict[str, str]:
    """Return the gene set of each variable that is in one; raise if gene sets overlap."""
    from gpower.datasets import TableError, read_gmt

    variables = set(feature_names)
    groups: dict[str, str] = {}
    for label, genes in read_gmt(path).items():
        for gene in variables.intersection(genes):
            if gene in groups:
                reason = f"{gene!r} is in {groups[gene]!r} and in {label!r}, and groups must not overlap"
                raise TableError(path, f"{reason}; give a file with a variable and its one group on each line")
            groups[gene] = label
    if not groups:
        raise TableError(path, f"none of its genes is a variable of the table, whose first is {feature_names[0]!r}")
    return groups


def _read_text_column(path: Path, name: str) -> list[str]:
    """Return the column of a text table with a heading."""
    from gpower.datasets import TableError
    from gpower.io.tables.delimited import read_text_cells

    header, *rows = read_text_cells(path)
    if name not in header:
        raise TableError(path, f"there is no column {name!r}, nor a file of that name, for --groups")
    column = header.index(name)
    for number, row in enumerate(rows, 1):
        if len(row) <= column:
            raise TableError(path, f"row {number} below the header has {len(row)} cell(s), and none in {name!r}")
    return [row[column] for row in rows]
