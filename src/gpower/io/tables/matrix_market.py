"""Read Matrix Market files. NumPy parses the entries, because SciPy's reader crashes on damaged files."""

import re
import warnings
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from gpower._utils.arrays import Array
from gpower._utils.files import convert_read_errors
from gpower._utils.text import quote
from gpower.io.stores.matrix_source import describe_excessive_shape
from gpower.io.tables.decompression import open_text
from gpower.io.tables.table import Matrix, Table, TableError, TableFile

_HEADER_PATTERN = re.compile(
    r"%%MatrixMarket +matrix +(coordinate|array) +(real|double|integer|unsigned-integer|pattern) "
    r"+(general|symmetric|skew-symmetric)\s*",
    re.IGNORECASE,
)


def read_matrix_market(file: TableFile) -> Table:
    r"""Return the matrix of a Matrix Market file, dense or sparse, without names.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gpower.io.tables.matrix_market import read_matrix_market
    >>> from gpower.io.tables.table import TableFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.mtx")
    ...     _ = path.write_text("%%MatrixMarket matrix array real general\n1 2\n0.5\n2\n")
    ...     read_matrix_market(TableFile(path)).X
    array([[0.5, 2. ]])
    """
    path = file.path
    with (
        open_text(path, errors="replace") as lines,
        convert_read_errors(lambda what: TableError(path, f"this is not a whole Matrix Market file: {what}")),
    ):
        header = _HEADER_PATTERN.fullmatch(next(lines, ""))
        if header is None:
            raise ValueError(
                "its first line is not %%MatrixMarket matrix, a format, a field of real numbers and a symmetry"
            )
        form, field, symmetry = map(str.lower, header.groups())
        shape, n_entries = _read_sizes(lines, form, symmetry)
        reason = describe_excessive_shape(shape[::-1] if file.transpose else shape, lambda: path.stat().st_size)
        if reason is not None:
            raise TableError(path, reason)
        entries = _read_entries(lines, shape, form, field)
        if len(entries) != n_entries:
            raise ValueError(f"it has {len(entries)} entries, but its size line announces {n_entries}")
        return Table(_build_matrix(entries, shape, form, symmetry))


def _read_sizes(lines: Iterator[str], form: str, symmetry: str) -> tuple[tuple[int, int], int]:
    """Skip the comments, and return the shape and the number of entries below the size line."""
    line = next((line for line in lines if line.strip() and not line.startswith("%")), "")
    sizes = [int(size) for size in line.split()] if re.fullmatch(r"[0-9\s]+", line) else []
    is_square = symmetry == "general" or sizes[:1] == sizes[1:2]
    if len(sizes) != (3 if form == "coordinate" else 2) or min(sizes[:2]) == 0 or not is_square:
        raise ValueError(f"{quote(line.strip())} is not the size of a {symmetry} matrix")
    rows, columns = sizes[:2]
    n_below_diagonal = rows * (rows - 1) // 2
    n_dense = {"general": rows * columns, "symmetric": n_below_diagonal + rows}.get(symmetry, n_below_diagonal)
    return (rows, columns), sizes[2] if form == "coordinate" else n_dense


def _read_entries(lines: Iterator[str], shape: tuple[int, int], form: str, field: str) -> Array:
    """Return the entries as records: row and column, from 1, in the coordinate format; the value, unless it is 1."""
    index_type = "i4" if max(shape) < 1 << 31 else "i8"
    fields = [("row", index_type), ("column", index_type)] if form == "coordinate" else []
    fields += [("value", "f8")] if field != "pattern" else []
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about a file without entries
        return np.loadtxt(lines, fields, comments=None, ndmin=1)


def _build_matrix(entries: Array, shape: tuple[int, int], form: str, symmetry: str) -> Matrix:
    """Return the matrix of entries, sparse in the coordinate format; raise if an index is out of range.

    The entries of a dense matrix are those of its columns, without those above the diagonal if it is symmetric.
    """
    if form == "array" and symmetry == "general":
        return np.ascontiguousarray(entries["value"].reshape(shape, order="F"))
    if form == "array":
        columns, rows = np.triu_indices(shape[0], k=int(symmetry == "skew-symmetric"))
    else:
        _check_indices(entries, shape)
        columns, rows = entries["column"] - 1, entries["row"] - 1
    values = entries["value"] if "value" in (entries.dtype.names or ()) else np.ones(len(entries))
    if symmetry != "general":
        mirrored = rows != columns
        sign = 1 if symmetry == "symmetric" else -1
        values = np.concatenate([values, sign * values[mirrored]])
        rows, columns = np.concatenate([rows, columns[mirrored]]), np.concatenate([columns, rows[mirrored]])
    X = sparse.coo_array((values, (rows, columns)), shape=shape)
    return X.toarray() if form == "array" else X


def _check_indices(entries: Array, shape: tuple[int, int]) -> None:
    """Raise ValueError if the row or the column of an entry, counted from 1, is not in the matrix; name the first."""
    rows, columns = entries["row"], entries["column"]
    outside = np.flatnonzero((rows < 1) | (rows > shape[0]) | (columns < 1) | (columns > shape[1]))
    if outside.size:
        i = int(outside[0])
        place = f"row {rows[i]}, column {columns[i]}"
        raise ValueError(f"entry {i + 1} is in {place}, outside of the matrix of {shape[0]} × {shape[1]}")
