"""What every reader is given, a file and how to read it, and gives back: numbers, names, and what was done to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Matrix: TypeAlias = Any  # ndarray or scipy.sparse matrix: SciPy's classes have no types
Names = tuple[str, ...]
ColumnSelectors = Sequence[int | str]  # by position from 0, or by heading


@dataclass(frozen=True)
class TableFile:
    """A file, with the options of `read_table` that say how its table lies."""

    path: Path
    index_col: int | str | None = None
    header: bool | None = None
    transpose: bool = False
    key: str | None = None
    drop: ColumnSelectors = ()
    complete: bool = False
    sep: str | None = None
    decimal: str | None = None
    skip: int = 0
    drop_rows: ColumnSelectors = ()


@dataclass(frozen=True)
class Table:
    """A table of numbers, samples × variables, with the names found beside them.

    Attributes
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_samples, n_features)
        float32 or float64; a missing cell is NaN.
    feature_names, sample_names : tuple of str, or None
        None where the file gives no names. Names of variables are unique: a repeated one gets .1, .2, ….
    notes : tuple of str
        What the reader did that the file does not say, a sentence each without its full stop.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.datasets import Table
    >>> Table(np.eye(2), feature_names=("height", "weight")).feature_names
    ('height', 'weight')
    """

    X: Matrix
    feature_names: Names | None = None
    sample_names: Names | None = None
    notes: Names = field(default=(), repr=False, kw_only=True)

    @property
    def n_missing(self) -> int:
        """How many cells have no number.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower.datasets import Table
        >>> Table(np.array([[1.0, np.nan]])).n_missing
        1
        """
        return int(np.count_nonzero(np.isnan(self.X))) if isinstance(self.X, np.ndarray) else 0

    def transpose(self) -> Table:
        """The same numbers with rows and columns exchanged.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower.datasets import Table
        >>> Table(np.array([[1.0, 2.0]]), ("a", "b"), ("s1",)).transpose()
        Table(X=array([[1.],
               [2.]]), feature_names=('s1',), sample_names=('a', 'b'))
        """
        return Table(self.X.T, self.sample_names, self.feature_names, notes=self.notes)

    def to_frame_or_array(self) -> Matrix | pd.DataFrame:
        """The numbers with their variables' names attached: a pandas DataFrame sharing the memory of `X`.

        Plain `X` where there are no names, where `X` is sparse, or where pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower.datasets import Table
        >>> Table(np.eye(2)).to_frame_or_array()
        array([[1., 0.],
               [0., 1.]])
        """
        if self.feature_names is None or not isinstance(self.X, np.ndarray):
            return self.X
        try:
            import pandas as pd
        except ImportError:
            return self.X
        return pd.DataFrame(self.X, columns=list(self.feature_names), copy=False)
