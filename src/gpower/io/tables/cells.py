"""What a cell of a text table is: a number, a missing one, or a word; and whether a line of them is a header."""

import re
from collections.abc import Sequence
from itertools import pairwise

MISSING_MARKERS = frozenset({"", "na", "n/a", "n.a.", "n.d.", "nan", "null", "none", ".", "#n/a"})
THOUSANDS_PATTERN = re.compile(r"[-+]?\d{1,3}([,'\u00a0 ]\d{3})+(\.\d*)?")
DECIMAL_COMMA_PATTERN = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")


def is_header_row(cells: Sequence[str]) -> bool:
    """Whether a first line holds names: words, or consecutive integers below a corner that is no number."""
    if is_text_cell(cells[0]) or is_missing_cell(cells[0]):
        if _are_consecutive_integers(cells[1:]):
            return True
        # A word in front of numbers names a sample; what follows it decides.
        cells = cells[1:] or cells
    # Among a majority of numbers a word is an error to report, not a header.
    return 2 * sum(map(is_text_cell, cells)) > sum(not is_missing_cell(cell) for cell in cells)


def _are_consecutive_integers(cells: Sequence[str]) -> bool:
    """Whether the cells are integers that count upwards, as numbered columns or years do."""
    numbered = len(cells) > 1 and all(map(str.isdecimal, cells))
    return numbered and all(int(after) == int(before) + 1 for before, after in pairwise(cells))


def is_number_cell(cell: str) -> bool:
    """Whether it is one as a table has it."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as ten; in a table it is a name


def is_missing_cell(cell: str) -> bool:
    """Whether it is empty, or says that there is no number."""
    return cell.strip().lower() in MISSING_MARKERS


def is_text_cell(cell: str) -> bool:
    """Whether it can only be a name."""
    # A number with a decimal comma or thousands separators is a mistake to report, no heading and no sample's name.
    odd = DECIMAL_COMMA_PATTERN.fullmatch(cell.strip()) or THOUSANDS_PATTERN.fullmatch(cell.strip())
    return not (is_number_cell(cell) or is_missing_cell(cell) or odd)
