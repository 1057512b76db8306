"""Read text tables with NumPy: in a third of the time that it takes cell by cell, with the same digits.

If NumPy cannot parse a cell, the reader of `delimited` parses the file instead and reports where the cell is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.text import MISSING_NUMBER_WORDS
from gpower.io.tables.decompression import open_text
from gpower.io.tables.table import TableError

if TYPE_CHECKING:
    from gpower.io.tables.delimited import TextTableLayout

_MISSING_SPELLINGS = {text for word in MISSING_NUMBER_WORDS for text in (word, word.upper(), word.title())}


def read_with_numpy(layout: TextTableLayout) -> tuple[Array, tuple[str, ...]] | None:
    """Return the numbers, float64, and the names of the rows of a text file, below the lines that it skips.

    Return None if NumPy cannot parse the file, or gives a table that needs a second look, such as one with a blank row.
    """
    file = layout.file
    has_names_first = layout.name_column in (None, 0)  # a name further on, such as NA, would become a missing number
    can_fill = file.sep != " " and has_names_first and not file.complete
    for fills_missing in (False, True) if can_fill else (False,):
        with open_text(file.path) as lines:
            rows = map(_make_line_filter(layout, fills_missing), islice(lines, file.skip, None))
            try:
                X, names = _load_rows(layout, layout.limit_rows(rows))
            except TableError:  # a ValueError too, but about the memory, not about a cell
                raise
            except ValueError:
                continue
        has_blank_row = np.isnan(X).all(axis=1).any()
        is_refused = file.complete and not np.isfinite(X).all()
        return None if has_blank_row or is_refused else (X, names)
    return None


def _make_line_filter(layout: TextTableLayout, fills_missing: bool) -> Callable[[str], str]:
    """Return a function that rewrites decimal commas and missing cells of a line so that NumPy can parse them."""
    separator = re.escape(layout.file.sep or "")
    spellings = "|".join(map(re.escape, _MISSING_SPELLINGS))
    # One of the spellings is the empty cell. The first lookahead passes over most numbers at once.
    missing_cell = re.compile(rf"{separator}(?![-\d])(?:{spellings})(?=[{separator}\r\n]|$)")

    def rewrite(line: str) -> str:
        if fills_missing and '"' not in line:
            line = missing_cell.sub(f"{layout.file.sep}nan", line)
        if layout.file.decimal == "," and "." in line:
            raise ValueError("a point among decimal commas")
        return line.replace(",", ".") if layout.file.decimal == "," else line

    return rewrite


def _load_rows(layout: TextTableLayout, rows: Iterator[str]) -> tuple[Array, tuple[str, ...]]:
    """Return the numbers and the names of rows; raise ValueError if a cell is no number or rows differ in length."""
    file, names = layout.file, list[str]()

    def keep_name(cell: str) -> float:
        if file.decimal == "," and "." in cell:
            raise ValueError("a comma in a name, which is not a decimal comma")
        names.append(cell.strip())
        return 0.0

    # All columns are read, those that are not numbers as zeros, because NumPy then counts the cells of each row.
    other_columns: dict[int | str, Callable[[str], float]] = dict.fromkeys(range(layout.n_columns), lambda cell: 0.0)
    for j in layout.numeric_columns:
        del other_columns[j]
    if layout.name_column is not None:
        other_columns[layout.name_column] = keep_name
    separator = None if file.sep == " " else file.sep
    X = np.loadtxt(
        rows, delimiter=separator, comments=None, quotechar='"', converters=other_columns, encoding=None, ndmin=2
    )
    if X.shape[1] != layout.n_columns:
        raise ValueError("the rows are longer or shorter than the header")
    return X.take(layout.numeric_columns, axis=1) if other_columns else X, tuple(names)
