"""Files that a command reads and writes, known by the types of its flags and checked before it starts."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpower._utils.files import check_replaceable, check_writable, follow_link
from gpower.cli.flags import Flag

#: Types of flags whose values are files that a command reads; groups may also be the name of a column.
_INPUT_KINDS = ("path", "sequence of labels or dict", "sequence of float or dict")
_SINGLE_FILE_SUFFIXES = (".csv", ".tsv", ".txt", ".npz", ".npy", ".json", ".parquet", ".h5ad", ".png", ".pdf", ".svg")


class CommandFiles:
    """The files of one run of a command.

    Parameters
    ----------
    flags : iterable of Flag
    values : dict
        Values of the flags, by name.
    results : iterable of str
        Names of the files that the command writes together into the folder --output.

    Attributes
    ----------
    inputs : list of Path
        Files, and stores that are folders, that the command reads.
    folders, new_files, pictures : dict of str to Path
        Folders and files that the command writes, by flag.
    results : list of Path
        Files that the command writes together into one folder.
    """

    def __init__(
        self, flags: Iterable[Flag] = (), values: Mapping[str, Any] | None = None, results: Iterable[str] = ()
    ) -> None:
        values = values or {}
        given = [flag for flag in flags if isinstance(values[flag.name], str | Path)]
        self.inputs = [Path(values[flag.name]) for flag in given if flag.kind in _INPUT_KINDS]
        self.folders, self.new_files, self.pictures = (
            {flag.name: Path(values[flag.name]) for flag in given if flag.kind == kind}
            for kind in ("folder", "new file", "picture")
        )
        self.results = [self.folders["output"] / name for name in results if "output" in self.folders]

    def prepare(self) -> None:
        """Create the folders of the outputs.

        Raise if an output would replace an input or another output, or cannot be written.
        """
        if Path("-") in self.inputs and sys.stdin is None:
            raise ValueError("-: standard input is closed; give a file, or pipe the table into the command.")
        files = [*self.results, *self.new_files.values(), *self.pictures.values()]
        self.check_not_read(*files, *self.folders.values())
        targets = [os.path.realpath(path) for path in files]
        for path, target in zip(files, targets, strict=True):
            if targets.count(target) > 1:
                raise ValueError(f"{path}: the command would write two results into this file; give another path.")
        check_replaceable(self.results)
        for folder in self.folders.values():
            if folder.exists() and not folder.is_dir():
                raise ValueError(f"{folder}: this is a file; the results go into a folder.")
            if not folder.exists() and folder.suffix.lower() in _SINGLE_FILE_SUFFIXES:
                raise ValueError(f"{folder}: the results are several files; give a folder, such as {folder.stem}.")
            _create_writable_folder(folder)
        for file in self.new_files.values():
            if file.is_dir():
                raise ValueError(f"{file}: this is a folder; the result is one file.")
            if not _is_device(file):
                _create_writable_folder(follow_link(file).parent)
        for picture in self.pictures.values():
            from gpower.plotting import prepare_figure_path

            prepare_figure_path(picture)

    def check_not_read(self, *outputs: Path) -> None:
        """Raise ValueError if an output is a file that is read, also by another name, or in a store that is read."""
        for path in outputs:
            if any(_is_same_or_inside(path, source) for source in self.inputs):
                raise ValueError(f"{path}: this is what the command reads; write the results elsewhere.")

    def name_inputs(self, message: str) -> str:
        """Put the names of the inputs before a message, unless it begins with a flag or names a file."""
        inputs = {path: "standard input" if path == Path("-") else str(path) for path in self.inputs}
        files = [*inputs.values(), *map(str, (*self.new_files.values(), *self.pictures.values()))]
        if message.startswith("-") or any(name in message for name in files):
            return message
        names = [name for path, name in inputs.items() if path == Path("-") or path.exists()]
        return ": ".join([", ".join(names), message] if names else [message])


def _create_writable_folder(folder: Path) -> None:
    """Create a folder unless it exists, and raise OSError if nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)


def _is_device(path: Path) -> bool:
    """Return whether a path is a pipe or a device, such as /dev/stdout."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _is_same_or_inside(path: Path, source: Path) -> bool:
    """Return whether a path is a file that is read, also by another name, or is in a store that is a folder."""
    real_path, real_source = Path(os.path.realpath(path)), Path(os.path.realpath(source))
    if _is_device(path):
        return False
    if real_path == real_source or (path.exists() and source.exists() and path.samefile(source)):
        return True
    return source.suffix.lower() == ".zarr" and real_source in real_path.parents
