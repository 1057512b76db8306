"""Frames: names of columns, and results as a pandas DataFrame, which needs pandas, the ``io`` extra."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from gpower.extras import extra

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"


def frame(columns: Mapping[str, object], index: Sequence[str] | None = None) -> Frame:
    """A DataFrame of named columns, its rows named if names are given, or what to install.

    Examples
    --------
    >>> frame({"variable": ["a", "b"], "loading": [0.6, 0.8]}).shape
    (2, 2)
    """
    return extra("pandas", "io", "Results as a frame need").DataFrame(dict(columns), index)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, a repeated one followed by .1, .2, … as pandas and R do; several probes measure one gene.

    Examples
    --------
    >>> from gpower.frames import unique_names
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
