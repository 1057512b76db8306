"""Results as a pandas DataFrame: the one place where the library makes one. Needs pandas, the ``io`` extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from gpower.extras import extra

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"


def frame(columns: Mapping[str, object]) -> Frame:
    """A DataFrame of named columns, or what to install.

    Examples
    --------
    >>> frame({"variable": ["a", "b"], "loading": [0.6, 0.8]}).shape
    (2, 2)
    """
    return extra("pandas", "io", "Results as a frame need").DataFrame(dict(columns))
