"""Names that somebody else gave: fit to print, told apart, and not too many of them at once. Numbers in sentences."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

#: Most characters of a sentence; what is quoted from a file may be any length.
LONGEST = 600
_SHOWN = 6  # names that a sentence lists


def printable(text: str, most: int = LONGEST) -> str:
    r"""A text of somebody else's as a terminal may show it: without its middle where it is long, controls spelled out.

    Examples
    --------
    >>> from gpower._utils.text import printable
    >>> printable("BRCA1\x1b[2J"), printable("a" * 99, most=9)
    ('BRCA1\\x1b[2J', 'aaaaaa … aaa')
    """
    if len(text) > most:
        text = f"{text[: most * 2 // 3]} … {text[-(most // 3) :]}"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quoted(text: str, most: int = 60) -> str:
    """A name or a cell between quotes, shortened.

    Examples
    --------
    >>> from gpower._utils.text import quoted
    >>> quoted("1,5"), quoted("abc" * 9, most=6)
    ("'1,5'", "'abca … bc'")
    """
    return repr(printable(text, most)) if text.isprintable() else f"'{printable(text, most)}'"


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, a repeated one followed by .1, .2, … as pandas and R do; several probes measure one gene.

    Examples
    --------
    >>> from gpower._utils.text import unique_names
    >>> unique_names(["BRCA1", "TP53", "BRCA1"])
    ['BRCA1', 'TP53', 'BRCA1.1']
    """
    taken, unique = frozenset(names), dict[str, None]()
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    for name in names:
        if name in unique:
            name = next(new for i in numbers[name] if (new := f"{name}.{i}") not in taken)
        unique[name] = None
    return list(unique)


def listed(names: Sequence[str]) -> str:
    """The first few names, and whether there are more.

    Examples
    --------
    >>> from gpower._utils.text import listed
    >>> listed("abcdefgh")
    'a, b, c, d, e, f, …'
    """
    return ", ".join([*(printable(name, 40) for name in names[:_SHOWN]), *(["…"] if len(names) > _SHOWN else [])])


def told_apart(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A name of its own for each, and what there is to say where some were repeated.

    Examples
    --------
    >>> from gpower._utils.text import told_apart
    >>> names, (note,) = told_apart(["BRCA1", "BRCA1"])
    >>> names, note[:34]
    (('BRCA1', 'BRCA1.1'), 'several variables are called BRCA1')
    """
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if not repeated:
        return tuple(names), ()
    note = f"several variables are called {listed(repeated)}: all but the first of a name have .1, .2, … behind it"
    return tuple(unique_names(names)), (note,)


def counted(count: int, word: str) -> str:
    """A number of things.

    Examples
    --------
    >>> from gpower._utils.text import counted
    >>> counted(1, "sample"), counted(20000, "variable")
    ('1 sample', '20,000 variables')
    """
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def proven(ratio: float) -> str:
    """A proven share in percent, rounded down.

    Examples
    --------
    >>> from gpower._utils.text import proven
    >>> proven(0.99999), proven(1.0)
    ('99.99 %', '100 %')
    """
    return f"{math.floor(1e4 * (ratio + 1e-12)) / 100:g} %"
