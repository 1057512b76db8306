"""Large tables in text, read by Arrow where it is installed: in a third of the time, to the same last digit.

Whatever Arrow cannot make a number of is left to the reader of `delimited`, which says where it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import get_free_memory
from gpower.io.tables.cells import MISSING_MARKERS
from gpower.io.tables.text_file import open_decompressed

if TYPE_CHECKING:
    from gpower.io.tables.delimited import TextTableLayout

#: Bytes of a file from which on it is worth the import, and columns up to which Arrow is the quicker one.
MIN_ARROW_BYTES, MAX_ARROW_COLUMNS = 1 << 24, 50_000
_ARROW_BLOCK_BYTES = 1 << 24  # bytes
_NULL_SPELLINGS = [spelled for word in MISSING_MARKERS for spelled in (word, word.upper(), word.title())] + ["NaN"]


def read_with_arrow(
    layout: TextTableLayout, first_line: int, max_line_length: int
) -> tuple[Array, tuple[str, ...]] | None:
    """The numbers and the names of the rows from a line on, `longest` characters at most; None where in doubt."""
    file = layout.file
    if (
        file.sep is None
        or file.drop_rows
        or file.path.stat().st_size < MIN_ARROW_BYTES
        or layout.n_columns > MAX_ARROW_COLUMNS
    ):
        return None
    try:
        csv, pa = import_module("pyarrow.csv"), import_module("pyarrow")
    except ImportError:
        return None
    named = [] if layout.name_column is None else [str(layout.name_column)]
    types = dict.fromkeys(map(str, layout.numeric_columns), pa.float64()) | dict.fromkeys(named, pa.string())
    columns = [str(j) for j in range(layout.n_columns)]
    parts, names, room = list[Array](), list[str](), get_free_memory() / 2
    try:
        with (
            open_decompressed(file.path) as stream,
            csv.open_csv(
                stream,
                csv.ReadOptions(
                    block_size=max(_ARROW_BLOCK_BYTES, 8 * max_line_length),
                    skip_rows=first_line - 1,
                    column_names=columns,
                ),
                csv.ParseOptions(delimiter=file.sep),
                csv.ConvertOptions(
                    column_types=types,
                    include_columns=[*types],
                    null_values=_NULL_SPELLINGS,
                    decimal_point=file.decimal or ("," if file.sep == ";" else "."),
                ),
            ) as batches,
        ):
            for batch in batches:
                room -= 8 * batch.num_rows * len(layout.numeric_columns)
                if room < 0:
                    return None
                part = np.empty((batch.num_rows, len(layout.numeric_columns)))
                for j in range(len(layout.numeric_columns)):
                    part[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
                parts.append(part)
                names.extend(name.strip() for column in named for name in batch.column(column).to_pylist())
    except (pa.ArrowInvalid, OSError, EOFError):
        return None
    X = np.concatenate(parts) if parts else np.empty((0, len(layout.numeric_columns)))
    blank = np.isnan(X).all(axis=1).any() or not len(X)
    return None if blank or (file.complete and not np.isfinite(X).all()) else (X, tuple(names))
