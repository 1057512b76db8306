"""Results as a pandas DataFrame: the one place where the library makes one. Needs pandas, the ``io`` extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def frame(columns: Mapping[str, Any]) -> Any:
    """A DataFrame of named columns, or what to install.

    Examples
    --------
    >>> frame({"variable": ["a", "b"], "loading": [0.6, 0.8]}).shape
    (2, 2)
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError('Results as a frame need pandas: pip install "gpower[io]".') from None
    return pd.DataFrame(dict(columns))
