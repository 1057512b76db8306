"""What is known of the variables, from the command line: files of groups and weights, names of variables."""

from collections.abc import Callable, Sequence
from pathlib import Path

from gpower.cli.options import OptionValues

#: Flags whose text is the name of a file, and how a cell of it is read.
_FILE_CELL_PARSERS: dict[str, Callable[[str], object]] = {"groups": str, "penalty_weights": float}


def read_groups_column(options: OptionValues, reading: OptionValues, data: Path) -> None:
    """Where --groups names no file but a column of DATA: the groups in it; it is no sample then."""
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
    """Files of groups and weights read, and variables called by the names or column numbers that they have."""
    for word, cell in _FILE_CELL_PARSERS.items():
        if isinstance(options.get(word), str):
            path = Path(options[word])
            sets = word == "groups" and ".gmt" in path.suffixes
            options[word] = (
                _read_gmt_groups(path, feature_names) if sets else _read_variable_values(path, feature_names, cell)
            )
    for word in ("include", "exclude"):
        if options.get(word) is not None:
            lists = [[_parse_variable(text, feature_names) for text in part] for part in options[word]]
            options[word] = lists if len(lists) > 1 else lists[0]


def _parse_variable(text: str, feature_names: Sequence[str]) -> int | str:
    """A variable by its name, or else by the number of its column."""
    return int(text) if text.isdecimal() and text not in feature_names else text


def _read_text_cells(path: Path) -> list[list[str]]:
    """The cells of a text table."""
    from gpower.io.tables.delimited import split_table_rows
    from gpower.io.tables.table import TableFile
    from gpower.io.tables.text_file import open_text

    with open_text(path) as lines:
        return [[cell.strip() for cell in cells] for _, cells in split_table_rows(TableFile(path), lines)[1]]


def _read_variable_values(path: Path, feature_names: Sequence[str], parse_cell: Callable[[str], object]) -> object:
    """A value per variable: of two columns by name, of one in the order of the columns; a heading is left out."""
    from gpower.datasets import TableError

    rows = _read_text_cells(path)
    if not rows or len({len(row) for row in rows}) > 1 or len(rows[0]) > 2:
        raise TableError(path, "a line for each variable is needed: its name and the value, or the value alone")
    known = set(feature_names)
    heading = (
        len(rows) == len(feature_names) + 1
        if len(rows[0]) == 1
        else rows[0][0] not in known and not rows[0][0].isdecimal()
    )
    values = []
    for number, row in enumerate(rows[int(heading) :], 1 + int(heading)):
        try:
            values.append(parse_cell(row[-1]))
        except ValueError:
            raise TableError(path, f"line {number}: {row[-1]!r} is not a number") from None
    if len(rows[0]) == 1:
        return values
    return {
        _parse_variable(row[0], feature_names): value for row, value in zip(rows[int(heading) :], values, strict=True)
    }


def _read_gmt_groups(path: Path, feature_names: Sequence[str]) -> dict[str, str]:
    """The gene set of each variable that is in one."""
    from gpower.datasets import TableError, read_gmt

    known, groups = set(feature_names), dict[str, str]()
    for label, genes in read_gmt(path).items():
        for gene in known.intersection(genes):
            if gene in groups:
                both = f"{gene!r} is in {groups[gene]!r} and in {label!r}, and groups do not overlap"
                raise TableError(path, f"{both}; give a file with a variable and its one group to a line")
            groups[gene] = label
    if not groups:
        raise TableError(path, f"none of its genes is a variable of the table, whose first is {feature_names[0]!r}")
    return groups


def _read_text_column(path: Path, name: str) -> list[str]:
    """A column of a text table, by its heading."""
    from gpower.datasets import TableError

    head, *rows = _read_text_cells(path)
    if name not in head:
        raise TableError(path, f"there is no column {name!r}, nor a file of that name, for --groups")
    return [row[head.index(name)] for row in rows]
