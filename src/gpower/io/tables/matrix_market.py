"""Read Matrix Market files. Every line is checked first, because a damaged file may crash SciPy's reader."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from scipy import io as scipy_io

from gpower._utils.files import convert_read_errors
from gpower._utils.text import quote
from gpower.io.stores.matrix_source import describe_excessive_shape
from gpower.io.tables.decompression import open_decompressed
from gpower.io.tables.table import Table, TableError, TableFile

_HEADER_PATTERN = re.compile(
    rb"%%MatrixMarket +matrix +(coordinate|array) +(real|double|integer|unsigned-integer|pattern|complex) "
    rb"+(general|symmetric|skew-symmetric|hermitian)\s*",
    re.IGNORECASE,
)
_NUMBER_PATTERN = rb"-?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+|[-+]?+(?:nan|inf(?:inity)?)"
_NUMBERS_PER_ENTRY = {b"pattern": 0, b"complex": 2}  # after the indices; 1 for other fields
_BLANK_LINE_PATTERN = re.compile(rb"^[ \t\r]*+\n", re.MULTILINE)
_BYTES_PER_ENTRY = 16  # in memory: the number and its indices
_CHUNK_BYTES = 1 << 22  # bytes that are checked at once, and about the longest line allowed


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
    with convert_read_errors(lambda what: TableError(path, f"this is not a whole Matrix Market file: {what}")):
        rows, columns, n_entries = _check_matrix_market(path)
        shape = (columns, rows) if file.transpose else (rows, columns)
        reason = describe_excessive_shape(shape, lambda: _BYTES_PER_ENTRY * n_entries)
        if reason is not None:
            raise TableError(path, reason)
        with open_decompressed(path) as stream:
            return Table(scipy_io.mmread(stream, spmatrix=False))


def _check_matrix_market(path: Path) -> tuple[int, int, int]:
    """Return the numbers of rows, columns and entries; raise if the header, the sizes or a line is wrong."""
    with open_decompressed(path) as stream:
        header = _HEADER_PATTERN.fullmatch(stream.readline(_CHUNK_BYTES))
        if header is None:
            raise ValueError("its first line is not %%MatrixMarket matrix, a format, a field and a symmetry")
        form, field, symmetry = (word.lower() for word in header.groups())
        line, number = b"%", 1
        while line.startswith(b"%") or line.isspace():
            line, number = stream.readline(_CHUNK_BYTES), number + 1
        sizes = [int(size) for size in line.split()] if re.fullmatch(rb"[\d \t]+\r?\n?", line) else []
        if len(sizes) != (3 if form == b"coordinate" else 2) or min(sizes[:2]) == 0:
            raise ValueError(f"line {number} is not the size of a matrix: {quote(line.decode('latin1').strip())}")
        indices = rb"\d++[ \t]++\d++" if form == b"coordinate" else rb""
        numbers = [rb"(?:" + _NUMBER_PATTERN + rb")"] * _NUMBERS_PER_ENTRY.get(field, 1)
        pattern = rb"[ \t]*+" + rb"[ \t]++".join(filter(None, [indices, *numbers])) + rb"[ \t]*+\r?+\n"
        n_entries = sum(_count_block_entries(_iterate_line_blocks(stream), pattern, number))
    n_expected = _count_expected_entries(sizes, form, symmetry)
    if n_entries != n_expected:
        raise ValueError(f"it has {n_entries} entries, but its size line announces {n_expected}")
    return sizes[0], sizes[1], n_entries


def _count_expected_entries(sizes: list[int], form: bytes, symmetry: bytes) -> int:
    """Return the number of entries that must follow the size line."""
    if form == b"coordinate":
        return sizes[2]
    rows, columns = sizes
    if symmetry == b"general":
        return rows * columns
    return rows * (rows - 1 if symmetry == b"skew-symmetric" else rows + 1) // 2


def _iterate_line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines."""
    rest = b""
    while block := stream.read(_CHUNK_BYTES):
        end = block.rfind(b"\n") + 1
        if end == 0 and len(rest) > _CHUNK_BYTES:
            raise ValueError("a line is too long")
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest.strip():
        yield rest + b"\n"


def _count_block_entries(blocks: Iterator[bytes], entry_pattern: bytes, n_lines_before: int) -> Iterator[int]:
    """Yield the number of entries of each block; raise and name the first line that is not an entry."""
    entries = re.compile(rb"(?:" + entry_pattern + rb"|[ \t\r]*+\n)*+", re.IGNORECASE)
    for block in blocks:
        match = entries.match(block)
        end = match.end() if match else 0
        if end < len(block):
            line = block[end:].split(b"\n", 1)[0].decode("latin1")
            n_lines_before += 1 + block.count(b"\n", 0, end)
            raise ValueError(f"line {n_lines_before} is not an entry: {quote(line)}")
        n_lines = block.count(b"\n")
        n_lines_before += n_lines
        yield n_lines - len(_BLANK_LINE_PATTERN.findall(block))
