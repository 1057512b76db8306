"""Text for messages: printable, unique and abbreviated names, counts and percentages; columns found by name."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from numbers import Integral
from typing import Any, overload

#: Largest number of characters of a message, which may quote a file of any length.
MAX_MESSAGE_LENGTH = 600
#: Largest number of names that a message lists.
_MAX_LISTED_NAMES = 6
#: Words, in lower case, that mean a missing number, a missing label of a sample, and that a probe has no gene.
MISSING_NUMBER_WORDS = frozenset(("", ".", "na", "n/a", "#n/a", "n.a.", "n.d.", "nan", "null", "none"))
MISSING_LABEL_WORDS = MISSING_NUMBER_WORDS | {"?", "<na>", "missing", "unknown", "not available"}
MISSING_GENE_WORDS = MISSING_LABEL_WORDS | {"-", "---"}


def make_printable(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    r"""Return a text that is safe to print: long text loses its middle, and control characters are escaped.

    Examples
    --------
    >>> from gpower._utils.text import make_printable
    >>> make_printable("BRCA1\x1b[2J"), make_printable("a" * 99, max_length=9)
    ('BRCA1\\x1b[2J', 'aaaaaa … aaa')
    """
    if len(text) > max_length:
        text = f"{text[: max_length * 2 // 3]} … {text[-(max_length // 3) :]}"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quote(text: str, max_length: int = 60) -> str:
    """Return a name or a cell in quotes, shortened.

    Examples
    --------
    >>> from gpower._utils.text import quote
    >>> quote("1,5"), quote("abc" * 9, max_length=6)
    ("'1,5'", "'abca … bc'")
    """
    return repr(make_printable(text, max_length)) if text.isprintable() else f"'{make_printable(text, max_length)}'"


def is_missing_label(label: object) -> bool:
    """Return whether a label of a sample is missing: None, NaN, pandas' NA or NaT, blank, or a word such as "NA".

    Examples
    --------
    >>> from gpower._utils.text import is_missing_label
    >>> [is_missing_label(label) for label in (None, float("nan"), " ", "NA", "Unknown", "NAT", 0)]
    [True, True, True, True, True, False, False]
    """
    text = str(label).strip()
    return text == "NaT" or text.lower() in MISSING_LABEL_WORDS  # NAT in capitals is a tissue


def make_names_unique(names: Sequence[str]) -> list[str]:
    """Return the names with .1, .2, … appended to repeated ones, as pandas and R do.

    Names repeat if, for example, several probes measure one gene.

    Examples
    --------
    >>> from gpower._utils.text import make_names_unique
    >>> make_names_unique(["BRCA1", "TP53", "BRCA1"])
    ['BRCA1', 'TP53', 'BRCA1.1']
    """
    given = frozenset(names)
    unique = dict[str, None]()
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    for name in names:
        if name in unique:
            name = next(new for i in numbers[name] if (new := f"{name}.{i}") not in given)
        unique[name] = None
    return list(unique)


class NumberedNames(Sequence[str]):
    """The names x0, x1, … of variables without names, or s0, s1, … of samples, made when they are read.

    A list takes 60 bytes per name.

    Examples
    --------
    >>> from gpower._utils.text import NumberedNames
    >>> names = NumberedNames(2_000_000_000)
    >>> names[-1], names[:2], "x7" in names, "age" in names
    ('x1999999999', ['x0', 'x1'], True, False)
    """

    def __init__(self, n_names: int, prefix: str = "x") -> None:
        self._numbers, self._prefix = range(n_names), prefix

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        number = name[1:] if isinstance(name, str) and name[:1] == self._prefix else ""
        return number.isdecimal() and str(int(number)) == number and int(number) in self._numbers

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [f"{self._prefix}{j}" for j in self._numbers[index]]
        return f"{self._prefix}{self._numbers[index]}"

    def tolist(self) -> list[str]:
        """Return all names as a list, as an array does."""
        return self[:]


def get_variable_name(j: int, names: Any) -> str:
    """Return the name of variable j, or x0, x1, … without names; a list of all such names could fill the memory.

    `names` is a sequence or an array of names, or None.

    Examples
    --------
    >>> from gpower._utils.text import get_variable_name
    >>> get_variable_name(1, ["age", "height"]), get_variable_name(1, None)
    ('height', 'x1')
    """
    return f"x{j}" if names is None else str(names[j])


def format_names(names: Sequence[str], max_names: int = _MAX_LISTED_NAMES) -> str:
    """Return the first few names as text, followed by … if there are more.

    Examples
    --------
    >>> from gpower._utils.text import format_names
    >>> format_names("abcdefgh")
    'a, b, c, d, e, f, …'
    """
    listed = [make_printable(name, 40) for name in names[:max_names]]
    return ", ".join(listed + ["…"] * (len(names) > max_names))


def deduplicate(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return unique names, and a tuple with a note on the repeated names, empty if there are none.

    Examples
    --------
    >>> from gpower._utils.text import deduplicate
    >>> names, (note,) = deduplicate(["BRCA1", "BRCA1"])
    >>> names, note[:34]
    (('BRCA1', 'BRCA1.1'), 'several variables are called BRCA1')
    """
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if not repeated:
        return tuple(names), ()
    note = (
        f"several variables are called {format_names(repeated)}: .1, .2, … is appended to all but the first of a name"
    )
    return tuple(make_names_unique(names)), (note,)


def format_count(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural unless the count is one.

    Examples
    --------
    >>> from gpower._utils.text import format_count
    >>> format_count(1, "sample"), format_count(20000, "variable")
    ('1 sample', '20,000 variables')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_percent(share: float) -> str:
    """Format a share in percent with three digits, without an exponent; what is below 100 % is not rounded to it.

    Examples
    --------
    >>> format_percent(0.27134), format_percent(0.00021), format_percent(1.234e-8), format_percent(0.99962)
    ('27.1 %', '0.021 %', '0.00000123 %', '99.96 %')
    """
    rounded = f"{Decimal(f'{100 * share:.3g}'):f} %"
    return format_ratio(min(share, 1.0)) if rounded == "100 %" else rounded


def format_ratio(ratio: float) -> str:
    """Return a share in percent, rounded down so that it never exceeds a proven bound.

    Examples
    --------
    >>> from gpower._utils.text import format_ratio
    >>> format_ratio(0.99999), format_ratio(1.0)
    ('99.99 %', '100 %')
    """
    return f"{math.floor(1e4 * (ratio + 1e-12)) / 100:g} %"


def find_column(selector: object, columns_by_name: Mapping[str, int], n_columns: int) -> int | None:
    """Return the column, counted from 0, that an integer or a name selects; None if there is no such column.

    An integer that is no column is looked up as a name: headings may be numbers, such as years.

    Examples
    --------
    >>> from gpower._utils.text import find_column
    >>> columns = {"age": 0, "2004": 1}
    >>> [find_column(selector, columns, 2) for selector in ("age", 1, 2004, "height")]
    [0, 1, 1, None]
    """
    if isinstance(selector, Integral) and not isinstance(selector, bool) and 0 <= int(selector) < n_columns:
        return int(selector)
    return columns_by_name.get(str(selector))
