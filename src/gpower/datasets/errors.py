"""What can be wrong with a table somebody hands us."""

from pathlib import Path

__all__ = ["TableError"]


class TableError(ValueError):
    """A file that is not the table it should be, in one sentence that names the file.

    Parameters
    ----------
    path : Path
        The file.
    reason : str
        What is wrong with it, without the final full stop.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpower.datasets import TableError
    >>> str(TableError(Path("genes.csv"), "the file is empty"))
    'genes.csv: the file is empty.'
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}.")
