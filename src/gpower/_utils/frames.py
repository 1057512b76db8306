"""Results as a pandas DataFrame, which needs pandas, the ``io`` extra, and the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def name_by_component(rows: Iterable[object]) -> dict[str, object]:
    """Return the rows under the names of components in frames and files: component_1, component_2, ….

    Examples
    --------
    >>> list(name_by_component([[0.6, 0.8], [0.0, 1.0]]))
    ['component_1', 'component_2']
    """
    return {f"component_{j}": row for j, row in enumerate(rows, 1)}
