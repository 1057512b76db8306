"""What can be wrong with a table somebody hands us."""

from collections.abc import Callable
from pathlib import Path

from gpower._utils.files import FileError
from gpower._utils.text import make_printable


def _format_as_argument(option: str, value: object) -> str:
    return f"{option}={value!r}"


class TableError(FileError):
    """A file that is not the table it should be, in one sentence that names the file.

    Parameters
    ----------
    path : Path
        The file.
    reason : str
        What is wrong with it, without the final full stop; ``{index_col}`` stands for the option of that name.
    **options
        The values of the options that `reason` speaks of.

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
        super().__init__(self.format_message(_format_as_argument))

    def format_message(self, format_option: Callable[[str, object], str]) -> str:
        """The sentence, with each option written the way its reader would write it."""
        reason = self.reason
        for option, value in self.options.items():
            reason = reason.replace(f"{{{option}}}", format_option(option, value))
        return make_printable(f"{self.path}: {reason}.")


class MissingCellError(TableError):
    """An empty cell of a table that has to be complete."""
