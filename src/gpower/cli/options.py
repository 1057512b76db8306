"""Options that several commands share, each written once, and the parsers of their values."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


def one_or_each(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of one number, or of one per component separated by commas."""

    def numbers(text: str) -> Any:
        try:
            values = [kind(part) for part in str(text).split(",")]
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise typer.BadParameter(f"{text!r} is not {what}, nor several separated by commas") from None
        return values if len(values) > 1 else values[0]

    return numbers


def count_or_auto(text: str) -> int | str:
    """A whole number, or the word auto."""
    return text if text == "auto" else int(text)


def numbers_or_auto(text: str) -> Any:
    """Whole numbers separated by commas, or the word auto."""
    return text if text == "auto" else one_or_each(int)(text)


def _name_or_position(text: str) -> int | str:
    return int(text) if str(text).isdecimal() else text


def _names_or_positions(text: str) -> list[int | str]:
    return [_name_or_position(part.strip()) for part in str(text).split(",")]


answer_option = partial(typer.Option, rich_help_panel="The answer")
component_option = partial(typer.Option, rich_help_panel="The components")
method_option = partial(typer.Option, rich_help_panel="The method")
table_option = partial(typer.Option, rich_help_panel="The table")

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table, samples × variables: .csv .tsv .txt (also .gz), .parquet, .npy, .npz, .mtx (also .gz), .zarr, "
        ".h5, .h5ad.",
        show_default=False,
    ),
]
IndexCol = Annotated[
    Any,
    table_option(
        parser=_name_or_position,
        metavar="COLUMN",
        help="Column with the rows' names: its heading, or its position from 0. Most files do not need it.",
    ),
]
Drop = Annotated[
    Any,
    table_option(
        parser=_names_or_positions,
        metavar="COLUMN,...",
        help="Columns to leave out, such as descriptions: their headings, or positions from 0.",
    ),
]
Header = Annotated[
    bool | None,
    table_option(
        "--header/--no-header",
        help="Whether a text file begins with names; by default its first line decides.",
    ),
]
Transpose = Annotated[bool, table_option("--transpose", help="DATA is variables × samples, as in genes × samples.")]
Key = Annotated[str | None, table_option(metavar="NAME", help="Array of an .npz archive, or of a store, to use.")]
IsCovariance = Annotated[bool, table_option("--covariance", help="DATA is a covariance or correlation matrix.")]
Center = Annotated[bool, table_option("--center/--no-center", help="Subtract the means.")]
Scale = Annotated[bool, table_option("--scale/--no-scale", help="Divide by the standard deviations.")]

Penalty = Annotated[str, component_option(metavar="KIND", help="Penalty: l0 or l1.")]
Positive = Annotated[bool, component_option("--positive", help="Non-negative loadings.")]
Method = Annotated[
    str, method_option(metavar="NAME", help="deflation: one component after the other; block: all at once.")
]
Deflation = Annotated[
    str,
    method_option(
        metavar="RULE", help="How a component is removed before the next: projection, orthogonalized or schur."
    ),
]
NInit = Annotated[Any, method_option(parser=count_or_auto, metavar="N", help="Number of starts, or auto.")]
Missing = Annotated[
    str, table_option(metavar="RULE", help="NaN and empty entries: error, or impute, which fills them.")
]
RandomState = Annotated[int | None, method_option(help="Seed of random starts.")]

Top = Annotated[int, answer_option(metavar="N", min=1, help="Print at most N variables of a component.")]
Verbose = Annotated[int, answer_option("--verbose", "-v", count=True, help="Say more.")]
