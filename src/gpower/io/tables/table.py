"""Input and output of every table reader: `TableFile` (a path and options), `Table`, and the errors they raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpower._utils.files import FileError
from gpower._utils.messages import format_param
from gpower._utils.text import find_column, format_names, make_printable

if TYPE_CHECKING:
    import pandas as pd

Matrix: TypeAlias = Any  # ndarray or scipy.sparse matrix: SciPy's classes have no types
Names = tuple[str, ...]
ColumnSelectors = Sequence[int | str]  # by position from 0, or by heading


class TableError(FileError):
    """A file that is not the expected table; the message is one sentence that begins with the path.

    Parameters
    ----------
    path : Path
        The file.
    reason : str
        What is wrong with it, without the final full stop; ``{index_col}`` stands for the option of that name.
    **options
        The values of the options that `reason` mentions.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.datasets import TableError
    >>> str(TableError(Path("genes.csv"), "the file is empty"))
    'genes.csv: the file is empty.'
    >>> str(TableError(Path("genes.csv"), "{index_col} is not a heading", index_col="id"))
    "genes.csv: index_col='id' is not a heading."
    """

    def __init__(self, path: Path, reason: str, **options: object) -> None:
        self.path, self.reason, self.options = path, reason, options
        for option, value in options.items():
            reason = reason.replace(f"{{{option}}}", format_param(option, value))
        super().__init__(make_printable(f"{path}: {reason}."))


class MissingCellError(TableError):
    """An empty cell in a table that must be complete."""


@dataclass(frozen=True)
class TableFile:
    """A path with the options of `read_table` that describe the table in it."""

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

    def find_column(self, option: str, selector: int | str, columns_by_name: Mapping[str, int], n_columns: int) -> int:
        """Return the column, counted from 0, that an option selects by position or heading; raise if there is none."""
        column = find_column(selector, columns_by_name, n_columns)
        if column is not None:
            return column
        if isinstance(selector, int):
            reason = f"{{{option}}} is not one of the columns 0 to {n_columns - 1}"
        else:
            content = f"the columns {format_names(list(columns_by_name))}" if columns_by_name else "no header"
            reason = f"{{{option}}} is not a heading; the file has {content}"
        raise TableError(self.path, reason, **{option: selector})

    def find_dropped_columns(self, columns_by_name: Mapping[str, int], n_columns: int) -> set[int]:
        """Return the columns, counted from 0, that `drop` selects by position, heading or pattern."""
        dropped = set[int]()
        for selector in self.drop:
            is_pattern = isinstance(selector, str) and selector not in columns_by_name
            matches = {j for name, j in columns_by_name.items() if is_pattern and fnmatchcase(name, str(selector))}
            dropped |= matches or {self.find_column("drop", selector, columns_by_name, n_columns)}
        return dropped


@dataclass(frozen=True)
class Table:
    """A table of numbers, samples × variables, with the names of its samples and variables.

    Attributes
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_samples, n_features)
        float32 or float64; a missing cell is NaN.
    feature_names, sample_names : tuple of str, or None
        None where the file gives no names. Names of variables are unique: a repeated one gets .1, .2, ….
    notes : tuple of str
        Changes that the reader made to the content of the file, one sentence each without its full stop.

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
        """Return the number of missing cells.

        Examples
        --------
        >>> import numpy as np
        >>> from gpower.datasets import Table
        >>> Table(np.array([[1.0, np.nan]])).n_missing
        1
        """
        return int(np.count_nonzero(np.isnan(self.X))) if isinstance(self.X, np.ndarray) else 0

    def transpose(self) -> Table:
        """Return the table with rows and columns exchanged; `X` shares its memory.

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
        """Return a pandas DataFrame with the names of the variables, which shares the memory of `X`.

        Return plain `X` if there are no names, if `X` is sparse, or if pandas is not installed.

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
