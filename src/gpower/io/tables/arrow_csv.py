"""Large tables in text, read by Arrow where it is installed: in a third of the time, to the same last digit.

Whatever Arrow cannot make a number of is left to the reader of `delimited`, which says where it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.memory import free_memory
from gpower.io.tables.cells import MISSING
from gpower.io.tables.text_file import opened

if TYPE_CHECKING:
    from gpower.io.tables.delimited import Layout

#: Bytes of a file from which on it is worth the import, and columns up to which Arrow is the quicker one.
LARGE, MOST_COLUMNS = 1 << 24, 50_000
_BLOCK = 1 << 24  # bytes
_NULLS = [spelled for word in MISSING for spelled in (word, word.upper(), word.title())] + ["NaN"]


def read_quickly(layout: Layout, line: int, longest: int) -> tuple[Array, tuple[str, ...]] | None:
    """The numbers and the names of the rows from a line on, `longest` characters at most; None where in doubt."""
    file = layout.file
    if file.sep is None or file.drop_rows or file.path.stat().st_size < LARGE or layout.width > MOST_COLUMNS:
        return None
    try:
        csv, pa = import_module("pyarrow.csv"), import_module("pyarrow")
    except ImportError:
        return None
    named = [] if layout.names_at is None else [str(layout.names_at)]
    types = dict.fromkeys(map(str, layout.kept), pa.float64()) | dict.fromkeys(named, pa.string())
    columns = [str(j) for j in range(layout.width)]
    parts, names, room = list[Array](), list[str](), free_memory() / 2
    try:
        with (
            opened(file.path) as stream,
            csv.open_csv(
                stream,
                csv.ReadOptions(block_size=max(_BLOCK, 8 * longest), skip_rows=line - 1, column_names=columns),
                csv.ParseOptions(delimiter=file.sep),
                csv.ConvertOptions(
                    column_types=types,
                    include_columns=[*types],
                    null_values=_NULLS,
                    decimal_point=file.decimal or ("," if file.sep == ";" else "."),
                ),
            ) as batches,
        ):
            for batch in batches:
                room -= 8 * batch.num_rows * len(layout.kept)
                if room < 0:
                    return None
                part = np.empty((batch.num_rows, len(layout.kept)))
                for j in range(len(layout.kept)):
                    part[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
                parts.append(part)
                names.extend(name.strip() for column in named for name in batch.column(column).to_pylist())
    except (pa.ArrowInvalid, OSError, EOFError):
        return None
    X = np.concatenate(parts) if parts else np.empty((0, len(layout.kept)))
    blank = np.isnan(X).all(axis=1).any() or not len(X)
    return None if blank or (file.complete and not np.isfinite(X).all()) else (X, tuple(names))
