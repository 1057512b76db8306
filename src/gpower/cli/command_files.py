"""Files that a command reads and writes, known by its flags and checked before it starts."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gpower._utils.files import check_replaceable, check_writable, follow_link
from gpower.cli.shared_flags import OptionValues

#: Parameters whose values are files that a command reads.
_INPUT_PARAMS = (
    *("data", "source", "table", "model", "loadings", "metadata", "gmt", "platform", "penalty_weights"),
    "groups",  # or the name of a column
)
#: Parameters whose values are single files that a command writes.
_OUTPUT_PARAMS = ("plot", "plot_choice", "checkpoint", "debug")
#: Names of the files that a command writes into the folder --output. --output is a file for the other commands.
_RESULT_NAMES = {
    "fit": ("loadings.csv", "loadings_list.csv", "scores.csv", "model.npz"),
    "path": ("path.csv", "path.npz"),
    "compare": ("comparison.csv",),
    "components": ("components.csv",),
    "demo": ("pitprops.png", "expression.png", "report.html"),
    "plot": (),  # as many pictures as the data allow, with any names
}


@dataclass(frozen=True)
class CommandFiles:
    """The files of one run of a command.

    Attributes
    ----------
    inputs : tuple of Path
        Files, and stores that are folders, that the command reads.
    results : tuple of Path
        Files that the command writes together into one folder.
    single_outputs : tuple of Path
        Files that the command writes one by one, and its cache folder.
    option_names : tuple of str
        Names of the parameters that are not inputs.
    output_folder : Path or None
        The folder --output; None if the command writes no folder.
    """

    inputs: tuple[Path, ...]
    results: tuple[Path, ...]
    single_outputs: tuple[Path, ...]
    option_names: tuple[str, ...]
    output_folder: Path | None = None

    @classmethod
    def from_values(cls, command: str, values: OptionValues) -> "CommandFiles":
        """Collect the files of a command from the values of its parameters, by name."""
        paths = {name: Path(value) for name, value in values.items() if isinstance(value, str | Path)}
        options = tuple(name for name in values if name not in _INPUT_PARAMS)
        inputs = [paths[name] for name in _INPUT_PARAMS if name in paths]
        single = [paths[name] for name in (*_OUTPUT_PARAMS, "cache") if name in paths]
        output = paths.get("output")
        if output is not None and command not in _RESULT_NAMES:
            return cls(tuple(inputs), (), (output, *single), options)
        folder = output or (Path() if command == "path" else None)  # an interrupted path is saved in any case
        results = [] if folder is None else [folder / name for name in _RESULT_NAMES.get(command, ())]
        if command == "plot" and folder is not None:
            results += folder.glob(f"*.{values['suffix']}")
        return cls(tuple(inputs), tuple(results), tuple(single), options, output)

    def check(self) -> None:
        """Raise if an output would replace an input or another output, or cannot be written."""
        if Path("-") in self.inputs and sys.stdin is None:
            raise ValueError("-: standard input is closed; give a file, or pipe the table into the command.")
        written: set[str] = set()
        for path in (*self.results, *self.single_outputs):
            if path.exists() and not (path.is_file() or path.is_dir()):  # such as /dev/stdout
                continue
            if any(_is_same_or_inside(path, source) for source in self.inputs):
                raise ValueError(f"{path}: this is what the command reads; write the results elsewhere.")
            if (target := os.path.realpath(path)) in written:
                raise ValueError(f"{path}: the command would write two results into this file; give another path.")
            written.add(target)
        check_replaceable(self.results)
        for path in self.single_outputs:
            folder = follow_link(path).parent
            if folder.is_dir() and (path.is_file() or not path.exists()):
                check_writable(folder)

    def describe_inputs(self) -> str:
        """Return the names of all inputs that exist, for messages."""
        names = ("standard input" if path == Path("-") else str(path) for path in self.inputs)
        return ", ".join(name for name in names if name == "standard input" or Path(name).exists())

    def is_missing_in(self, message: str) -> bool:
        """Return whether a message needs the names of the inputs: it is about no option and names no file."""
        if message.startswith("-") or message.split()[0] in self.option_names:
            return False
        names = (path.name for path in (*self.inputs, *self.results, *self.single_outputs) if path.name not in "-")
        return not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names)


def _is_same_or_inside(path: Path, source: Path) -> bool:
    """Return whether a path is a file that is read, also by another name, or is in a store that is a folder."""
    real_path, real_source = Path(os.path.realpath(path)), Path(os.path.realpath(source))
    if real_path == real_source or (path.exists() and source.exists() and path.samefile(source)):
        return True
    return source.suffix.lower() == ".zarr" and real_source in real_path.parents
