"""Names that somebody else gave: fit to print, told apart, and not too many of them at once. Numbers in sentences."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

#: Most characters of a sentence; what is quoted from a file may be any length.
MAX_MESSAGE_LENGTH = 600
_MAX_LISTED_NAMES = 6  # names that a sentence lists


def make_printable(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    r"""A text of somebody else's as a terminal may show it: without its middle where it is long, controls spelled out.

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
    """A name or a cell between quotes, shortened.

    Examples
    --------
    >>> from gpower._utils.text import quote
    >>> quote("1,5"), quote("abc" * 9, max_length=6)
    ("'1,5'", "'abca … bc'")
    """
    return repr(make_printable(text, max_length)) if text.isprintable() else f"'{make_printable(text, max_length)}'"


def make_names_unique(names: Sequence[str]) -> list[str]:
    """The names, a repeated one followed by .1, .2, … as pandas and R do; several probes measure one gene.

    Examples
    --------
    >>> from gpower._utils.text import make_names_unique
    >>> make_names_unique(["BRCA1", "TP53", "BRCA1"])
    ['BRCA1', 'TP53', 'BRCA1.1']
    """
    taken, unique = frozenset(names), dict[str, None]()
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    for name in names:
        if name in unique:
            name = next(new for i in numbers[name] if (new := f"{name}.{i}") not in taken)
        unique[name] = None
    return list(unique)


def format_names(names: Sequence[str]) -> str:
    """The first few names, and whether there are more.

    Examples
    --------
    >>> from gpower._utils.text import format_names
    >>> format_names("abcdefgh")
    'a, b, c, d, e, f, …'
    """
    return ", ".join(
        [
            *(make_printable(name, 40) for name in names[:_MAX_LISTED_NAMES]),
            *(["…"] if len(names) > _MAX_LISTED_NAMES else []),
        ]
    )


def deduplicate(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A name of its own for each, and what there is to say where some were repeated.

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
        f"several variables are called {format_names(repeated)}: all but the first of a name have .1, .2, … behind it"
    )
    return tuple(make_names_unique(names)), (note,)


def format_count(count: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> from gpower._utils.text import format_count
    >>> format_count(1, "sample"), format_count(20000, "variable")
    ('1 sample', '20,000 variables')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_ratio(ratio: float) -> str:
    """A proven share in percent, rounded down.

    Examples
    --------
    >>> from gpower._utils.text import format_ratio
    >>> format_ratio(0.99999), format_ratio(1.0)
    ('99.99 %', '100 %')
    """
    return f"{math.floor(1e4 * (ratio + 1e-12)) / 100:g} %"
