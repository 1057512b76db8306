"""Results as a pandas DataFrame, which needs pandas, the ``io`` extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gpower._utils.optional import import_optional

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"


def make_frame(columns: Mapping[str, object], index: Sequence[str] | None = None) -> Frame:
    """Return a DataFrame of named columns; raise ImportError with the remedy if pandas is missing.

    Examples
    --------
    >>> make_frame({"variable": ["a", "b"], "loading": [0.6, 0.8]}).shape
    (2, 2)
    """
    return import_optional("pandas", "io", "Results as a frame need").DataFrame(dict(columns), index)
